//! What a root knows of a service, as a [`Profile`]: every table, tree and picture of pct shows it.
//!
//! Group first, names last: rows of `samples` become sums by stack, then the few stacks and places that these
//! name are looked up. Files outside of the time that is asked for are not opened, and of the others only the
//! row groups whose statistics allow the service. Sums are integers, so they are exactly those of the
//! recordings.

use crate::ids::{STACK_ID, hex};
use crate::places::{self, CodePlace, Frames};
use crate::questions::Which;
use crate::root::{folders, interval_s, parts_of};
pub use crate::sums::Part;
use crate::sums::{Sums, Whose, add, in_threads};
use jiff::Timestamp;
use pct_profile::Profile;
use pct_profile::model::{Builder, Frame, FrameId, Object, ObjectKind, Process, StackId, ThreadId, Weight};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::{Path, PathBuf};

/// An answer.
pub struct Answer {
    /// A process for each combination of the parts, a thread for each name of threads.
    pub profile: Profile,
    /// CPU nanoseconds that were due and are in no row.
    pub lost_ns: i64,
    /// CPU nanoseconds of stacks that no file of the root has.
    pub unknown_ns: u64,
    /// Files that could not be used, and why.
    pub problems: Vec<String>,
}

/// Which names an answer has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// All that there are.
    All,
    /// Of machine code none: `[object+0x1234]` with its build-id. (Scripts and JIT code have nothing but names.)
    WithoutMachineCode,
}

/// What the rows of `which` sum up to, told apart by `parts`.
#[must_use]
pub fn ask(root: &Path, which: &Which, parts: &[Part]) -> Answer {
    ask_with(root, which, parts, Names::All)
}

/// The same with these names.
#[must_use]
pub fn ask_with(root: &Path, which: &Which, parts: &[Part], names: Names) -> Answer {
    let mut problems = Vec::new();
    let mut sums = Sums::default();
    let which = &Which { interval_s: interval_s(root), ..which.clone() };
    let files = sample_files(root, which, &mut problems);
    for (found, whys) in in_threads(&files, |file, sums| add(file, which, parts, sums)) {
        sums.merge(found);
        problems.extend(whys);
    }
    let wanted: FxHashSet<[u8; STACK_ID]> = sums.cells.keys().map(|(_, stack)| *stack).collect();
    let (stacks, mut places) = places::stacks(root, which, &wanted, &mut problems);
    if names == Names::WithoutMachineCode {
        places.iter_mut().for_each(CodePlace::forget_name);
    }
    let (profile, unknown_ns) = profile(&sums, &stacks, &places, which);
    Answer { profile, lost_ns: sums.lost_ns, unknown_ns, problems }
}

/// The files of `samples` whose partition may have rows of that time, in order.
fn sample_files(root: &Path, which: &Which, problems: &mut Vec<String>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for date in folders(&root.join("samples"), "date=", problems) {
        for hour in folders(&date.1, "hour=", problems) {
            let starts = format!("{}T{:0>2}:00:00Z", date.0, hour.0).parse::<Timestamp>();
            let starts = starts.map(|time| time.as_microsecond());
            let is_early = |from: i64| starts.as_ref().is_ok_and(|start| start + 3_600_000_000 <= from);
            let is_late = |to: i64| starts.as_ref().is_ok_and(|start| *start >= to);
            if !which.from_interval().is_some_and(is_early) && !which.to.is_some_and(is_late) {
                found.extend(parts_of(&hour.1, problems));
            }
        }
    }
    found
}

/// The profile, and the time of stacks that are not known.
fn profile(
    sums: &Sums,
    stacks: &FxHashMap<[u8; STACK_ID], Frames>,
    places: &[CodePlace],
    which: &Which,
) -> (Profile, u64) {
    let mut b = Builder::new(false);
    let mut cells: Vec<_> = sums.cells.iter().collect();
    let name = |number: u32| sums.texts.get(number as usize).map_or("", String::as_str);
    // The same rows give the same profile, whatever order a map has.
    cells.sort_unstable_by_key(|((whose, stack), _)| (name(whose.0), name(whose.1), *stack));
    let mut processes = FxHashMap::default();
    let mut threads: FxHashMap<Whose, ThreadId> = FxHashMap::default();
    let mut known: FxHashMap<[u8; STACK_ID], (StackId, bool)> = FxHashMap::default();
    let mut called: Vec<Option<Called>> = vec![None; places.len()];
    let mut unknown_ns = 0u64;
    for ((whose, stack), (samples, ns)) in cells {
        let process = *processes.entry(whose.0).or_insert_with(|| {
            let clock = if which.kind == "wall" { "wall" } else { "" };
            b.process(Process {
                name: name(whose.0).to_owned(),
                clock: clock.to_owned(),
                ..Process::default()
            })
        });
        let tid = u32::try_from(threads.len() + 1).unwrap_or(u32::MAX);
        let thread = *threads.entry(*whose).or_insert_with(|| b.thread(process, tid, name(whose.1)));
        let (samples, ns) = (u64::try_from(*samples).unwrap_or(0), u64::try_from(*ns).unwrap_or(0));
        let (at, in_kernel) =
            *known.entry(*stack).or_insert_with(|| add_stack(&mut b, stacks.get(stack), places, &mut called));
        if !stacks.contains_key(stack) {
            unknown_ns = unknown_ns.saturating_add(ns);
        }
        let (user_ns, system_ns) = if in_kernel { (0, ns) } else { (ns, 0) };
        b.add(thread, at, Weight { samples, user_ns, system_ns });
    }
    if sums.lost_ns > 0 {
        let ns = u64::try_from(sums.lost_ns).unwrap_or(0);
        b.profile_mut().account.lose("lost on hosts or on the way", 0, ns);
    }
    b.profile_mut().title = which.title();
    (b.finish(), unknown_ns)
}

/// The frames of a place, outermost first, and whether the innermost is the kernel's.
type Called = (Vec<FrameId>, bool);

/// Adds a stack; says whether its innermost frame is the kernel's. `called` remembers the frames of places.
fn add_stack(
    b: &mut Builder,
    frames: Option<&Frames>,
    places: &[CodePlace],
    called: &mut [Option<Called>],
) -> (StackId, bool) {
    let mut at: Option<StackId> = None;
    let mut in_kernel = false;
    for &number in frames.into_iter().flatten().rev() {
        let number = number as usize;
        let (Some(place), Some(called)) = (places.get(number), called.get_mut(number)) else { continue };
        let called = called.get_or_insert_with(|| frames_of(b, place));
        for frame in &called.0 {
            at = Some(b.stack(at, *frame));
        }
        in_kernel = called.1;
    }
    let at = at.unwrap_or_else(|| {
        let object = b.unknown_object();
        let function = b.function(object, "[unknown stack]");
        let frame = b.plain_frame(function);
        b.stack(None, frame)
    });
    (at, in_kernel)
}

fn frames_of(b: &mut Builder, place: &CodePlace) -> Called {
    if place.names.is_empty() {
        let object = b.unknown_object();
        let build = hex(place.build_id.get(..4).unwrap_or(&place.build_id));
        let function = b.function(object, &format!("[{build}+{:#x}]", place.addr));
        return (vec![b.plain_frame(function)], false);
    }
    let mut in_kernel = false;
    let mut frames = Vec::new();
    for (nth, name) in place.names.values().rev().enumerate() {
        in_kernel = name.object == "kernel";
        let kind = match name.object.as_str() {
            "kernel" => ObjectKind::Kernel,
            object if object.starts_with('[') => ObjectKind::Anonymous,
            _ => ObjectKind::File,
        };
        let is_code = kind == ObjectKind::File && !place.is_name;
        let build_id = is_code.then(|| hex(&place.build_id));
        let object = b.object(Object { build_id, ..Object::new(&name.object, kind) });
        let function = b.function(object, &name.function);
        let file = (!name.file.is_empty()).then(|| b.file(&name.file));
        frames.push(b.frame(Frame {
            function,
            file,
            line: u32::try_from(name.line).unwrap_or(0),
            address: u64::try_from(place.addr).ok().filter(|_| is_code),
            inlined: nth > 0 && place.names.len() > 1,
        }));
    }
    (frames, in_kernel)
}
