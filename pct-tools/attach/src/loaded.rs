//! Waits until a target is loaded, and reads it.

use crate::choose::Class;
use crate::facts::{self, FactsError, Target};
use crate::loading::Loading;
use std::time::{Duration, Instant};

/// Reads everything about `pid` as [`facts::read`] does, once the program is loaded. It waits at most `limit` for that
/// and stops nothing. If the program is still not loaded then, it is returned with
/// [`Facts::loading`](crate::choose::Facts::loading) set. A program that is stopped, or that pct cannot attach to at
/// all, is returned at once. `delayed` is called once if the wait takes longer than `patience`.
///
/// # Errors
/// As [`facts::read`].
pub fn read_when_loaded(
    pid: i32,
    limit: Duration,
    patience: Duration,
    mut delayed: impl FnMut(Loading),
) -> Result<Target, FactsError> {
    const PAUSE: Duration = Duration::from_millis(2);
    let begin = Instant::now();
    let mut told = false;
    loop {
        let target = facts::read(pid)?;
        let Some(loading) = target.facts.loading else { return Ok(target) };
        let stands = matches!(target.facts.state, 'T' | 't' | 'Z' | 'X') || target.facts.tracer != 0;
        let refused = !target.facts.may_trace || target.facts.class != Class::X86_64;
        if stands || refused || begin.elapsed() >= limit {
            return Ok(target);
        }
        if !told && begin.elapsed() >= patience {
            told = true;
            delayed(loading);
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choose::{Method, Wish, choose};
    use pct_kit::started::Killed;
    use std::process::{Command, Stdio};

    const LONG: Duration = Duration::from_secs(300);

    /// `spawn` returns when the kernel has replaced the old program. The new one has not run yet.
    #[test]
    fn programs_that_were_executed_just_now_are_read_when_they_are_loaded() {
        let mut loading = 0;
        for round in 0..100 {
            let mut sleep = Command::new("sleep");
            sleep.arg("1000").stdout(Stdio::null()).stderr(Stdio::null());
            if round % 2 == 1 {
                // keeps the loader busy for a while
                sleep.env("LD_DEBUG", "all");
            }
            let child = Killed(sleep.spawn().expect("sleep"));
            let pid = i32::try_from(child.0.id()).expect("a process id");
            let first = facts::read(pid).expect("it lives");
            loading += u32::from(first.facts.loading.is_some());
            let loaded = read_when_loaded(pid, LONG, LONG, |_| {}).expect("it lives");
            assert_eq!(loaded.facts.loading, None, "{:?}", loaded.facts);
            assert_eq!(choose(&loaded.facts, &Wish::default()).map(|plan| plan.method), Ok(Method::Dlopen));
        }
        println!("{loading} of 100 were being loaded at the first reading");
    }
}
