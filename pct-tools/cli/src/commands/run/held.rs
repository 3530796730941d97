//! Programs that no library can be preloaded into: they stand at their first instruction until the sampler is
//! in them, or until they are watched from outside. And what turns out later to be of that kind.

use super::args::{Args, Clock, Follow, Mode, On, Stack};
use super::start::options;
use crate::face::Face;
use crate::launch::check::{FoundProgram, Obstacle};
use crate::launch::hand_over;
use crate::launch::spare::Spare;
use crate::runlib;
use anyhow::{Context as _, Result};
use pct_attach::blob::{self, Blob};
use pct_attach::facts;
use pct_attach::memory::ProcessMemory;
use pct_attach::outside::{self, Outside, Settings};
use pct_attach::ptrace::entry::HeldThread;
use pct_attach::ptrace::sys::Signals;
use pct_attach::subject::Manner;
use pct_elf::Unloadable;
use pct_format::header::{self as file, StackMode};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// It has no loader that would load a library: the sampler is put into it before its first instruction.
pub(super) fn static_program(found: Option<&FoundProgram>) -> bool {
    found.is_some_and(|found| found.obstacle == Some(Obstacle::Unloadable(Unloadable::Static)))
}

/// The clock of sampling from outside, if the program is sampled that way: for the wall clock; for CPU time where
/// libpct.so cannot run inside the program, unless an option is given that needs it inside. A program that gains rights
/// would not if pct traced it without the right to trace everybody.
pub(super) fn from_outside(args: &Args, found: Option<&FoundProgram>) -> Option<file::Clock> {
    let gains = found.is_some_and(|found| matches!(found.obstacle, Some(Obstacle::GainsRights(_))));
    if gains && !facts::capable() {
        return None;
    }
    if args.clock == Some(Clock::Wall) {
        return Some(file::Clock::Wall);
    }
    let not_inside =
        found.is_some_and(|found| matches!(found.obstacle, Some(Obstacle::Go | Obstacle::LimitsItself)));
    (not_inside && any_clock(args)).then_some(file::Clock::Outside)
}

/// Whether no option is given that needs the sampler inside.
fn any_clock(args: &Args) -> bool {
    matches!(args.clock, None | Some(Clock::Auto))
        && args.mode != Some(Mode::Counts)
        && !matches!(args.on, Some(On::Manual | On::Signal))
}

/// Puts the sampler into a program that stands at its first instruction, and lets it go.
pub(super) fn enter(args: &Args, held: HeldThread, folder: &Path, spare: Option<&Spare>) -> Result<()> {
    let pid = held.tid().0;
    let target = facts::read(pid)?;
    let memory = ProcessMemory::open(pid, true).context("its memory cannot be written")?;
    let options =
        options(args, folder, spare).into_string().ok().context("the folder's name is not UTF-8")?;
    let blob = Blob::parse(runlib::LIBRARY).context("the carried libpct.so")?;
    blob::at_entry(held, &target, &memory, &blob, &options)?;
    Ok(())
}

/// Does `work`, and makes an error of a panic, so that what was recorded until then can be closed.
fn survived<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(anyhow::anyhow!("pct itself failed, see above")))
}

/// Samples the program and what it makes from outside until it ends.
pub(super) fn watch(
    args: &Args,
    held: HeldThread,
    folder: &Path,
    clock: file::Clock,
    face: &Face,
) -> Result<()> {
    let settings = Settings {
        manner: manner(args, clock),
        follow: (!matches!(args.follow, Some(Follow::None))).into(),
        first_only: true,
        folder: folder.to_owned(),
    };
    let signals = Signals::child();
    let mut outside = Outside::adopt(held, settings)?;
    let ran = survived(|| Ok(outside.run(None, &signals)));
    let counts = outside.finish();
    if let Some(why) = &counts.failed {
        face.warn(format_args!("a recording could not be made: {why}"));
    }
    if let Err(why) = ran.and_then(|ran| Ok(ran.map(drop)?)) {
        face.warn(format_args!("sampling ended before the program: {why}"));
    }
    Ok(())
}

/// How processes of the run are sampled from outside.
fn manner(args: &Args, clock: file::Clock) -> Manner {
    Manner {
        clock_asked: if clock == file::Clock::Wall { clock } else { file::Clock::Auto },
        clock,
        // a sample stops the thread for some tens of microseconds
        hz: args.hz.unwrap_or(if clock == file::Clock::Wall { 100 } else { 250 }),
        stacks: match args.stack {
            Some(Stack::None) => StackMode::None,
            _ => StackMode::Auto,
        },
        depth: args.depth.unwrap_or(512) as usize,
        limit: args.limit.map_or(64 << 20, |limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        python: !matches!(args.python, Some(super::Interpreted::Off)),
        java: super::Java::shows_frames(args.java),
        javascript: !matches!(args.javascript, Some(super::Interpreted::Off)),
    }
}

/// How processes are sampled that are taken over, in a run of a program with the library in it. `None`: none are,
/// because an option needs the sampler inside.
pub(super) fn hand_over(args: &Args, folder: &Path) -> Option<Settings> {
    let everybody =
        args.include.is_none() && args.exclude.is_none() && matches!(args.follow, None | Some(Follow::All));
    any_clock(args).then(|| Settings {
        manner: manner(args, file::Clock::Outside),
        follow: if everybody { hand_over::follow() } else { outside::Follow::None },
        first_only: false,
        folder: folder.to_owned(),
    })
}

/// Whom processes must let trace them before they are taken over: us, of whom the controller that does it is a child.
/// Where the kernel lets only ancestors trace (Yama's ptrace_scope 1), it is their sibling. `None`: nobody.
pub(super) fn tracer(args: &Args) -> Option<u32> {
    (any_clock(args) && facts::yama() == Some(1) && !facts::capable()).then(std::process::id)
}

#[cfg(test)]
mod tests {
    use super::survived;

    #[test]
    fn a_panic_of_ours_is_an_error_and_no_end() {
        assert!(survived(|| -> anyhow::Result<u8> { panic!("as a bug does") }).is_err());
        assert_eq!(survived(|| Ok(7)).expect("done"), 7);
    }
}
