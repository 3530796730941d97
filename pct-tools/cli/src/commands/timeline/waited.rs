//! What the threads of a profile waited for, as the timeline page takes it.

use lttv_page::recording::{SampleSpan, Samples};
use lttv_page::waits::{EndedBy, RecordedWaits, Wait, WaitName, WaitSort};
use pct_profile::Profile;
use pct_profile::causes::{Cause, CauseSort, Causes};
use pct_profile::model::{Id as _, StackId};
use pct_profile::text::wait_names::WaitNames;
use pct_profile::waits::Waits;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The waits of each thread, and what they name. `samples` are those of the threads, in order of time; `at` gives a
/// time of the profile as nanoseconds since 1970.
pub(super) fn waits(
    profile: &Profile,
    recorded: &Waits,
    samples: &[Samples],
    at: impl Fn(u64) -> i64,
) -> (RecordedWaits, Vec<Vec<Wait>>) {
    let mut tables = Tables::from_profile(profile);
    let blocked = blocked_stacks(profile, &mut tables);
    let mut by_thread: Vec<Vec<Wait>> = vec![Vec::new(); samples.len()];
    if !blocked.is_empty() {
        let of_samples = |samples| of_samples((samples, at(0)), &blocked, &mut tables);
        by_thread = samples.iter().map(of_samples).collect();
    }
    let mut objects: Vec<Option<(u32, u32)>> = vec![None; recorded.objects.len()];
    for chain in &recorded.chains {
        for life in &chain.threads {
            for wait in &life.waits {
                let (name, object) = *objects[wait.object].get_or_insert_with(|| {
                    let object = &recorded.objects[wait.object];
                    (tables.name(&Cause::of_object(object)), tables.object(object))
                });
                let ended_by = wait.ended_by.map(|waker| EndedBy {
                    thread: number(chain.threads[waker.thread].thread.index()),
                    place: waker.stack.map(|stack| tables.place(stack)),
                });
                let (from_ns, to_ns, place) = (at(wait.begin), at(wait.end), tables.place(wait.stack));
                by_thread[life.thread.index()].push(Wait { from_ns, to_ns, name, object, place, ended_by });
            }
        }
    }
    let blocked = blocked.iter().map(Option::is_some).collect();
    (RecordedWaits { names: tables.waited_for, texts: tables.texts, blocked }, by_thread)
}

/// A place in a table, as the page has it.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// What waits name, each name once.
struct Tables<'p> {
    names: WaitNames<'p>,
    waited_for: Vec<WaitName>,
    texts: Vec<Arc<str>>,
    text_of: FxHashMap<String, u32>,
    place_of: FxHashMap<StackId, u32>,
}

impl<'p> Tables<'p> {
    fn from_profile(profile: &'p Profile) -> Self {
        let names = WaitNames::of_owners(profile);
        Tables {
            names,
            waited_for: Vec::new(),
            texts: Vec::new(),
            text_of: FxHashMap::default(),
            place_of: FxHashMap::default(),
        }
    }

    /// The number of what is waited for, as lanes tell it.
    fn name(&mut self, cause: &Cause) -> u32 {
        let sort = match cause.sort {
            CauseSort::Lock => WaitSort::Lock,
            CauseSort::Work => WaitSort::Work,
            CauseSort::File => WaitSort::File,
            CauseSort::Processor => WaitSort::Processor,
            CauseSort::Unknown => WaitSort::Unknown,
        };
        let known = self.waited_for.iter().position(|row| *row.name == *cause.name && row.sort == sort);
        number(known.unwrap_or_else(|| {
            self.waited_for.push(WaitName { name: cause.name.as_str().into(), sort });
            self.waited_for.len() - 1
        }))
    }

    fn text(&mut self, text: String) -> u32 {
        let next = number(self.texts.len());
        *self.text_of.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.as_str().into());
            next
        })
    }

    /// The function that waited in a stack, or that ended a wait.
    fn place(&mut self, stack: StackId) -> u32 {
        if let Some(known) = self.place_of.get(&stack) {
            return *known;
        }
        let place = self.text(self.names.function(stack));
        self.place_of.insert(stack, place);
        place
    }

    /// A lock, or what else is waited for.
    fn object(&mut self, object: &pct_profile::waits::Object) -> u32 {
        self.text(self.names.object(object))
    }
}

/// What a sample with a stack is of, if its thread did not run: the name of what it waited for, and the text.
type Blocked = Option<(u32, u32)>;

/// By stack; empty where no sample is of a thread that did not run.
fn blocked_stacks(profile: &Profile, tables: &mut Tables<'_>) -> Vec<Blocked> {
    let causes = Causes::from_profile(profile);
    let of_stack = |stack: StackId| {
        let cause = causes.of_stack(stack)?;
        Some((tables.name(&cause), tables.text(cause.name)))
    };
    let all: Vec<Blocked> = profile.stacks.ids().map(of_stack).collect();
    if all.iter().any(Option::is_some) { all } else { Vec::new() }
}

/// The waits of a thread by its samples: neighbours for one thing in one function are one wait.
fn of_samples(
    (samples, start_ns): (&Samples, i64),
    blocked: &[Blocked],
    tables: &mut Tables<'_>,
) -> Vec<Wait> {
    let mut waits: Vec<Wait> = Vec::new();
    for SampleSpan { from_ns, to_ns, sample } in samples.spans(i64::MIN, i64::MAX) {
        let from_ns = from_ns.max(start_ns);
        let stack = usize::try_from(sample.stack).unwrap_or(usize::MAX);
        let Some((name, object)) = blocked.get(stack).copied().flatten() else { continue };
        let place = tables.place(StackId::from_index(stack));
        match waits.last_mut() {
            Some(last) if (last.name, last.place, last.to_ns) == (name, place, from_ns) => last.to_ns = to_ns,
            _ if from_ns < to_ns => waits.push(Wait { from_ns, to_ns, name, object, place, ended_by: None }),
            _ => {}
        }
    }
    waits
}
