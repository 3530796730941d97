//! Sampling of children after the sampler was loaded into a target (`--follow`, method 2). The programs that the
//! target executes get `PCT` and `LD_PRELOAD` from its environment; the processes that it forks run a fork handler.
//!
//! The target's own C library sets up both, at a point where its allocator may be entered.

use crate::facts::Target;
use crate::image::Image;
use crate::inject_error::{InjectError, text};
use crate::memory::{Memory, ProcessMemory};
use crate::ptrace::borrow::Borrowed;
use crate::ptrace::call::c_int;
use std::time::Duration;

const CALL: Duration = Duration::from_secs(2);
/// Most variables of an environment that are read, and the longest variable that pct extends, in octets.
const MOST: u32 = 1 << 16;

/// The current value of a variable in the target's environment.
pub fn variable(target: &Target, memory: &ProcessMemory, name: &str) -> Option<Vec<u8>> {
    // a program may own `environ` itself (by copy relocation): its image comes first in the map
    let at = target.program.iter().chain(target.images.iter().map(|(_, image)| image));
    let at = at.filter_map(|image| image.symbol(memory, "environ")).next()?;
    let vector = memory.read_word(at).ok()?;
    (0..MOST)
        .map_while(|i| memory.read_word(vector.checked_add(8 * u64::from(i))?).ok().filter(|p| *p != 0))
        .find_map(|p| {
            let string = memory.string(p, MOST as usize).ok()?;
            Some(string.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec())
        })
}

/// The value that LD_PRELOAD needs to load `library` besides what it names already.
pub fn preload(before: Option<&[u8]>, library: &str) -> String {
    let before = before.map(String::from_utf8_lossy).unwrap_or_default();
    if before.is_empty() || before.split([':', ' ']).any(|l| l == library) {
        return if before.is_empty() { library.to_owned() } else { before.into_owned() };
    }
    format!("{library}:{before}")
}

/// The value of LD_PRELOAD without `library`. `None`: nothing else is in it.
pub fn preload_without(now: &[u8], library: &str) -> Option<String> {
    let now = String::from_utf8_lossy(now);
    let rest: Vec<&str> = now.split([':', ' ']).filter(|l| !l.is_empty() && *l != library).collect();
    (!rest.is_empty()).then(|| rest.join(":"))
}

/// The changes to a target's environment that undo what pct has set there.
pub struct Environment {
    unsetenv: u64,
    setenv: Option<u64>,
    /// `None`: LD_PRELOAD does not name pct's library. Otherwise its value without that library.
    preload: Option<Option<String>>,
}

impl Environment {
    /// Finds out what to undo. `None`: pct has set no variable in the environment, or it cannot be changed.
    pub fn find_in(target: &Target, memory: &ProcessMemory) -> Option<Environment> {
        let by_name = |name| target.images.iter().find_map(|(_, i)| i.symbol(memory, name));
        variable(target, memory, "PCT")?;
        let library = target.images.iter().find(|(_, image)| image.pct_note(memory).is_some());
        let library = library.and_then(|(path, _)| path.to_str()).unwrap_or_default();
        let now = variable(target, memory, "LD_PRELOAD").unwrap_or_default();
        let ours = now.split(|b| b": ".contains(b)).any(|part| part == library.as_bytes());
        let preload = ours.then(|| preload_without(&now, library));
        Some(Environment { unsetenv: by_name("unsetenv")?, setenv: by_name("setenv"), preload })
    }

    /// Removes pct's variables and its part of LD_PRELOAD.
    pub(crate) fn set_back(&self, thread: &mut Borrowed<'_>) -> Result<(), InjectError> {
        let name = thread.write_data(0, &text("PCT", "a name")?)?;
        thread.call(self.unsetenv, [name, 0, 0, 0, 0, 0], CALL)?;
        let Some(rest) = &self.preload else { return Ok(()) };
        let name = thread.write_data(0, &text("LD_PRELOAD", "a name")?)?;
        match (rest, self.setenv) {
            (Some(rest), Some(setenv)) => {
                let rest = thread.write_data(1024, &text(rest, "a value")?)?;
                thread.call(setenv, [name, rest, 1, 0, 0, 0], CALL)?;
            }
            (Some(_), None) => {}
            (None, _) => drop(thread.call(self.unsetenv, [name, 0, 0, 0, 0, 0], CALL)?),
        }
        Ok(())
    }
}

/// The target's functions that are needed.
#[derive(Debug, Clone, Copy)]
pub struct Functions {
    setenv: Option<u64>,
    /// `pthread_atfork`, or glibc's own function behind it, whose fourth argument (the object) may be null.
    atfork: Option<u64>,
}

impl Functions {
    /// Finds the functions in the target's images.
    pub fn find_in(target: &Target, memory: &ProcessMemory) -> Functions {
        let by_name = |name| target.images.iter().find_map(|(_, i)| i.symbol(memory, name));
        let atfork = by_name("__register_atfork").or_else(|| by_name("pthread_atfork"));
        Functions { setenv: by_name("setenv"), atfork }
    }
}

/// Prepares the target so that its children are sampled. `image` is that of the loaded library. Returns whether
/// both kinds of children will be.
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
                let name = thread.write_data(16 << 10, &text(name, "a name")?)?;
                let value = thread.write_data(17 << 10, &text(value, "a value")?)?;
                whole &= c_int(thread.call(setenv, [name, value, 1, 0, 0, 0], CALL)?) == 0;
            }
        }
        None => whole = false,
    }
    match (functions.atfork, image.symbol(memory, "pct_after_fork")) {
        (Some(register), Some(child)) => {
            whole &= c_int(thread.call(register, [0, 0, child, 0, 0, 0], CALL)?) == 0;
        }
        _ => whole = false,
    }
    Ok(whole)
}

/// CPU time in nanoseconds, user and system, of a process and of the children it waited for. `None`: it is gone.
pub fn used_with(pid: i32) -> Option<(u64, u64)> {
    let stat = procfs::process::Process::new(pid).and_then(|p| p.stat()).ok()?;
    let tick = 1_000_000_000 / procfs::ticks_per_second().max(1);
    let ns = |own: u64, children: i64| {
        own.saturating_add(u64::try_from(children).unwrap_or(0)).saturating_mul(tick)
    };
    Some((ns(stat.utime, stat.cutime), ns(stat.stime, stat.cstime)))
}

/// The living children of a process.
pub fn living_of(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let mut living = Vec::new();
    for line in children {
        living.extend(line.split_whitespace().filter_map(|word| word.parse::<i32>().ok()));
    }
    living
}

/// The processes that a target has made, as far as `/proc` shows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Made {
    /// The children that are alive.
    living: Vec<i32>,
    /// CPU time in clock ticks of the children that ended and were waited for.
    ended_ticks: i64,
}

impl Made {
    /// Reads which processes `pid` has made so far.
    pub fn by(pid: i32) -> Made {
        let living = living_of(pid);
        let stat = procfs::process::Process::new(pid).and_then(|p| p.stat());
        Made { living, ended_ticks: stat.map_or(0, |s| s.cutime + s.cstime) }
    }

    /// What changed since `before`: the number of new living children, and the CPU seconds of children that ended.
    /// `None`: nothing changed.
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
