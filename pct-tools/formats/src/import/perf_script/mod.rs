//! The text of `perf script`: a header line per sample, then its frames, innermost first, then an empty line.
//!
//! ```text
//! prog  4711/4712  123.456789:    1000000 cpu-clock:u:
//!         55d0c0de1234 inner+0x14 (/bin/prog)
//!         55d0c0de2345 main+0x20 (/bin/prog)
//! ```
//!
//! A sample without a call chain has its frame behind the event. Records of other kinds (`--show-mmap-events`) are
//! no samples.
//!
//! Each event is a kind of samples of its own, and one is read: the one that was asked for, else the first that
//! measures time, else the first. The period of a clock is in nanoseconds; that of another event is how often it
//! happened. Without a period or an event samples are counted, since the text does not say what one is worth.

mod bare;
mod events;
mod frame;
mod header;
mod lines;

use super::problem::Problem;
use events::Events;
use frame::Frame;
use header::Header;
use lines::{Form, Line};
use pct_profile::model::{
    Builder, FrameId, Object, ObjectKind, Process, ProcessId, Profile, StackId, ThreadId, TimedSample, Weight,
};
use std::collections::HashMap;

/// Whether a text is of this form.
pub(super) fn looks_like(text: &str) -> bool {
    lines::form(text).is_some()
}

pub(super) fn read(text: &str, timeline: bool, sample_type: Option<&str>) -> Result<Profile, Problem> {
    let form = lines::form(text).unwrap_or(Form::Full);
    let events = events_in(text, form);
    let chosen = events.choose(sample_type)?;
    let mut reader = Reader {
        chosen: &chosen,
        samples: Samples::new(timeline, events.start_ns.unwrap_or(0)),
        current: Current::Nothing,
        others: 0,
        first_other: 0,
    };
    for (i, line) in lines::of_form(text, form).enumerate() {
        reader.line(i + 1, line)?;
    }
    reader.end_sample()?;
    let Reader { samples, others, first_other, .. } = reader;
    if others > events.all() {
        let problem = "neither sample nor frame, as most lines of the file".into();
        return Err(Problem { place: format!("line {first_other}"), problem });
    }
    let mut profile = samples.b.finish();
    profile.quantity = chosen.quantity();
    // An order of time is of all samples or of none.
    if (profile.timeline.len() as u64) < profile.total().samples {
        profile.timeline.clear();
    }
    for note in events.notes(&chosen) {
        profile.account.note(note);
    }
    if others > 0 {
        let lines = pct_num::count(others, "such line", "such lines");
        profile.account.note_gap(format!("line {first_other}: neither sample nor frame; {lines} left out"));
    }
    Ok(profile)
}

fn events_in(text: &str, form: Form) -> Events<'_> {
    let mut events = Events::default();
    for line in lines::of_form(text, form) {
        if let Line::Header(header) = line
            && !header.is_side_record()
        {
            events.count(&header);
        }
    }
    events
}

/// The sample whose lines are read.
enum Current<'t> {
    Nothing,
    /// Of another event, or a record of another kind.
    NotShown,
    Shown(Header<'t>, Vec<Frame<'t>>),
}

struct Reader<'t, 'c> {
    chosen: &'c events::Choice<'t>,
    samples: Samples<'t>,
    current: Current<'t>,
    /// Lines that are neither, and the first of them.
    others: u64,
    first_other: usize,
}

impl<'t> Reader<'t, '_> {
    fn line(&mut self, number: usize, line: Line<'t>) -> Result<(), Problem> {
        match (line, &mut self.current) {
            (Line::Header(header), _) => {
                self.end_sample()?;
                self.current = if header.event == self.chosen.name && !header.is_side_record() {
                    let frame = frame::parse(header.rest).filter(|_| !events::is_tracepoint(header.event));
                    Current::Shown(header, frame.into_iter().collect())
                } else {
                    Current::NotShown
                };
            }
            (Line::Frame(frame), Current::Shown(_, frames)) => frames.push(frame),
            (Line::Source(source), Current::Shown(_, frames)) => {
                if let Some(frame) = frames.last_mut() {
                    frame.source = source;
                }
            }
            (Line::Frame(_) | Line::Source(_), Current::NotShown) | (Line::Comment, _) => {}
            (Line::Empty, _) => self.end_sample()?,
            (Line::Frame(_) | Line::Source(_), Current::Nothing) | (Line::Other, _) => {
                self.others += 1;
                self.first_other = if self.first_other == 0 { number } else { self.first_other };
            }
        }
        Ok(())
    }

    fn end_sample(&mut self) -> Result<(), Problem> {
        match std::mem::replace(&mut self.current, Current::Nothing) {
            Current::Shown(header, frames) => self.samples.add(&header, &frames, self.chosen),
            Current::Nothing | Current::NotShown => Ok(()),
        }
    }
}

/// The profile being built.
struct Samples<'t> {
    b: Builder,
    /// When the first sample was taken.
    start_ns: u64,
    /// Samples without ids are told apart by the command's name, others have none here.
    processes: HashMap<(i64, &'t str), ProcessId>,
    threads: HashMap<(i64, i64, &'t str), ThreadId>,
    sum: u64,
}

impl<'t> Samples<'t> {
    fn new(timeline: bool, start_ns: u64) -> Self {
        let b = Builder::new(timeline);
        Self { b, start_ns, processes: HashMap::new(), threads: HashMap::new(), sum: 0 }
    }

    fn add(
        &mut self,
        header: &Header<'t>,
        frames: &[Frame<'_>],
        chosen: &events::Choice<'_>,
    ) -> Result<(), Problem> {
        let amount = chosen.amount(header);
        self.sum = self.sum.checked_add(amount).ok_or_else(|| Problem {
            place: chosen.name.to_owned(),
            problem: "the periods add up to more than 64 bits hold".into(),
        })?;
        let thread = self.thread(header);
        let stack = self.stack(frames);
        let in_kernel = frames.first().is_some_and(|leaf| leaf.kind() == ObjectKind::Kernel);
        let system = in_kernel && chosen.is_cpu_time();
        let (user_ns, system_ns) = if system { (0, amount) } else { (amount, 0) };
        self.b.add(thread, stack, Weight { samples: 1, user_ns, system_ns });
        if let Some(time) = header.time_ns {
            let time_ns = time.saturating_sub(self.start_ns);
            self.b.add_timed(TimedSample { time_ns, weight_ns: amount, thread, stack });
        }
        Ok(())
    }

    fn thread(&mut self, header: &Header<'t>) -> ThreadId {
        // The kernel's -1 has no number here; its name says what it is.
        let number = |id: i64| u32::try_from(id).unwrap_or(0);
        let name = if header.ids.is_none() { header.name } else { "" };
        let (pid, tid) = header.ids.unwrap_or((0, 0));
        let process = *self.processes.entry((pid, name)).or_insert_with(|| {
            self.b.process(Process {
                pid: number(pid),
                name: header.name.into(),
                clock: "perf".into(),
                ..Process::default()
            })
        });
        *self
            .threads
            .entry((pid, tid, name))
            .or_insert_with(|| self.b.thread(process, number(tid), header.name))
    }

    fn stack(&mut self, frames: &[Frame<'_>]) -> StackId {
        let mut at: Option<StackId> = None;
        // The frame that has a stack frame, into which others were inlined.
        let mut outer = None;
        for frame in frames.iter().rev() {
            let whole = if frame.object.is_none() { outer.unwrap_or(frame) } else { frame };
            outer = Some(whole);
            let id = self.frame(frame, whole);
            at = Some(self.b.stack(at, id));
        }
        at.unwrap_or_else(|| {
            let object = self.b.unknown_object();
            self.b.no_stack(object)
        })
    }

    fn frame(&mut self, frame: &Frame<'_>, whole: &Frame<'_>) -> FrameId {
        let kind = whole.kind();
        let path = match whole.object.unwrap_or("[unknown]") {
            "[unknown]" if kind == ObjectKind::Kernel => "kernel",
            path => path,
        };
        let object = self.b.object(Object::new(path, kind));
        let name = if frame.symbol == "[unknown]" { "[no symbol]" } else { frame.symbol };
        let function = self.b.function(object, name);
        let inlined = frame.object.is_none();
        let file = frame.source.map(|(file, _)| self.b.file(file));
        let line = frame.source.map_or(0, |(_, line)| line);
        self.b.frame(pct_profile::model::Frame { function, file, line, address: None, inlined })
    }
}
