//! Programs and processes that a target makes after the sampler was loaded into it (`--follow`, method 2): `PCT` and
//! `LD_PRELOAD` in its environment for what it executes, a handler after fork for what it forks.
//!
//! Both are asked of the target's own C library, at a point where its allocator may be entered.

use crate::facts::Target;
use crate::image::Image;
use crate::inject_error::{InjectError, text};
use crate::memory::{Memory, ProcessMemory};
use crate::ptrace::borrow::Borrowed;
use std::time::Duration;

const CALL: Duration = Duration::from_secs(2);
/// No environment has more variables, and no variable that we extend is longer.
const MOST: u64 = 1 << 16;

/// The value of a variable in the target's environment as it is now.
pub fn variable(target: &Target, memory: &ProcessMemory, name: &str) -> Option<Vec<u8>> {
    // a program may own `environ` itself (copy relocation): it stands first in the map
    let at = target.program.iter().chain(target.images.iter().map(|(_, image)| image));
    let at = at.filter_map(|image| image.symbol(memory, "environ")).next()?;
    let vector = memory.word(at).ok()?;
    (0..MOST).map_while(|i| memory.word(vector.checked_add(8 * i)?).ok().filter(|p| *p != 0)).find_map(|p| {
        let string = memory.string(p, MOST as usize).ok()?;
        Some(string.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec())
    })
}

/// What LD_PRELOAD must be so that `library` is loaded and what was asked for before still is.
pub fn preload(before: Option<&[u8]>, library: &str) -> String {
    let before = before.map(String::from_utf8_lossy).unwrap_or_default();
    if before.is_empty() || before.split([':', ' ']).any(|l| l == library) {
        return if before.is_empty() { library.to_owned() } else { before.into_owned() };
    }
    format!("{library}:{before}")
}

/// What LD_PRELOAD was before `library` was put into it; `None`: it was not set.
pub fn preload_without(now: &[u8], library: &str) -> Option<String> {
    let now = String::from_utf8_lossy(now);
    let rest: Vec<&str> = now.split([':', ' ']).filter(|l| !l.is_empty() && *l != library).collect();
    (!rest.is_empty()).then(|| rest.join(":"))
}

/// The environment of a target that has a sampler, as it is to be when that is off.
pub struct Environment {
    unsetenv: u64,
    setenv: Option<u64>,
    /// LD_PRELOAD holds our library: what remains.
    preload: Option<Option<String>>,
}

impl Environment {
    /// `None`: we have set no variable in it, or it cannot be changed.
    pub fn of(target: &Target, memory: &ProcessMemory) -> Option<Environment> {
        let by_name = |name| target.images.iter().find_map(|(_, i)| i.symbol(memory, name));
        variable(target, memory, "PCT")?;
        let library = target.images.iter().find(|(_, image)| image.pct_note(memory).is_some());
        let library = library.and_then(|(path, _)| path.to_str()).unwrap_or_default();
        let now = variable(target, memory, "LD_PRELOAD").unwrap_or_default();
        let ours = now.split(|b| b": ".contains(b)).any(|part| part == library.as_bytes());
        let preload = ours.then(|| preload_without(&now, library));
        Some(Environment { unsetenv: by_name("unsetenv")?, setenv: by_name("setenv"), preload })
    }

    /// Takes out what is ours.
    pub(crate) fn set_back(&self, thread: &mut Borrowed<'_>) -> Result<(), InjectError> {
        let name = thread.put(0, &text("PCT", "a name")?)?;
        thread.call(self.unsetenv, [name, 0, 0, 0, 0, 0], CALL)?;
        let Some(rest) = &self.preload else { return Ok(()) };
        let name = thread.put(0, &text("LD_PRELOAD", "a name")?)?;
        match (rest, self.setenv) {
            (Some(rest), Some(setenv)) => {
                let rest = thread.put(1024, &text(rest, "a value")?)?;
                thread.call(setenv, [name, rest, 1, 0, 0, 0], CALL)?;
            }
            (Some(_), None) => {}
            (None, _) => drop(thread.call(self.unsetenv, [name, 0, 0, 0, 0, 0], CALL)?),
        }
        Ok(())
    }
}

/// The functions of the target that are needed.
#[derive(Debug, Clone, Copy)]
pub struct Functions {
    setenv: Option<u64>,
    /// `pthread_atfork`, or glibc's own function behind it, whose fourth argument (the object) may be null.
    atfork: Option<u64>,
}

impl Functions {
    /// Looks them up.
    pub fn of(target: &Target, memory: &ProcessMemory) -> Functions {
        let by_name = |name| target.images.iter().find_map(|(_, i)| i.symbol(memory, name));
        let atfork = by_name("__register_atfork").or_else(|| by_name("pthread_atfork"));
        Functions { setenv: by_name("setenv"), atfork }
    }
}

/// Arms what the target will make. `image` is the loaded library's. Says whether both could be done.
pub fn arm(
    thread: &mut Borrowed<'_>,
    memory: &ProcessMemory,
    functions: &Functions,
    image: &Image,
    (library, options): (&str, &str),
) -> Result<bool, InjectError> {
    let mut whole = true;
    match functions.setenv {
        Some(setenv) => {
            for (name, value) in [("PCT", options), ("LD_PRELOAD", library)] {
                let name = thread.put(16 << 10, &text(name, "a name")?)?;
                let value = thread.put(17 << 10, &text(value, "a value")?)?;
                whole &= thread.call(setenv, [name, value, 1, 0, 0, 0], CALL)? as u32 == 0;
            }
        }
        None => whole = false,
    }
    match (functions.atfork, image.symbol(memory, "pct_after_fork")) {
        (Some(register), Some(child)) => {
            whole &= thread.call(register, [0, 0, child, 0, 0, 0], CALL)? as u32 == 0;
        }
        _ => whole = false,
    }
    Ok(whole)
}

/// CPU nanoseconds, user and system, of a process and of the children that it waited for. `None`: it is gone.
pub fn used_with(pid: i32) -> Option<(u64, u64)> {
    let stat = procfs::process::Process::new(pid).and_then(|p| p.stat()).ok()?;
    let tick = 1_000_000_000 / procfs::ticks_per_second().max(1);
    let ns = |own: u64, children: i64| {
        own.saturating_add(u64::try_from(children).unwrap_or(0)).saturating_mul(tick)
    };
    Some((ns(stat.utime, stat.cutime), ns(stat.stime, stat.cstime)))
}

/// The children of a process that live.
pub fn living_of(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let mut living = Vec::new();
    for line in children {
        living.extend(line.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    living
}

/// The processes that a target has made, as far as `/proc` tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Made {
    /// Those that live.
    living: Vec<i32>,
    /// CPU time of those that have ended and were waited for, in clock ticks.
    ended_ticks: i64,
}

impl Made {
    /// What `pid` has made so far.
    pub fn by(pid: i32) -> Made {
        let living = living_of(pid);
        let stat = procfs::process::Process::new(pid).and_then(|p| p.stat());
        Made { living, ended_ticks: stat.map_or(0, |s| s.cutime + s.cstime) }
    }

    /// What came since `before`: how many of those that live, and CPU seconds of those that have ended; `None` when nothing did.
    pub fn since(&self, before: &Made) -> Option<(usize, f64)> {
        let new = self.living.iter().filter(|pid| !before.living.contains(pid)).count();
        let ticks = (self.ended_ticks - before.ended_ticks).max(0);
        let seconds = ticks as f64 / procfs::ticks_per_second() as f64;
        (new > 0 || ticks > 0).then_some((new, seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_preloaded_stays_preloaded() {
        assert_eq!(preload(None, "/l/libpct.so"), "/l/libpct.so");
        assert_eq!(preload(Some(b""), "/l/libpct.so"), "/l/libpct.so");
        assert_eq!(preload(Some(b"/x.so"), "/l/libpct.so"), "/l/libpct.so:/x.so");
        assert_eq!(preload(Some(b"/x.so:/l/libpct.so"), "/l/libpct.so"), "/x.so:/l/libpct.so");
        for before in [&b""[..], b"/x.so", b"/x.so:/y.so"] {
            let now = preload(Some(before), "/l/libpct.so");
            let after = preload_without(now.as_bytes(), "/l/libpct.so").unwrap_or_default();
            assert_eq!(after.as_bytes(), before);
        }
    }
}

#[cfg(test)]
mod live {
    use super::*;

    #[test]
    fn what_a_process_makes_is_seen_while_it_lives_and_by_its_time_afterwards() {
        let me = std::process::id() as i32;
        let before = Made::by(me);
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let (living, _) = Made::by(me).since(&before).expect("it lives");
        assert!(living >= 1);
        child.kill().unwrap();
        child.wait().unwrap();
        let made = |living: &[i32], ended_ticks| Made { living: living.to_vec(), ended_ticks };
        assert_eq!(made(&[1, 2], 5).since(&made(&[1, 2, 3], 5)), None);
        let (living, seconds) = made(&[4], 205).since(&made(&[1], 5)).expect("something");
        assert_eq!((living, seconds * procfs::ticks_per_second() as f64), (1, 200.0));
    }
}
