//! Why an attach gave no samples: what was measured, never a guess.

use super::args::{Args, Clock};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use pct_attach::facts::{self, Target};
use pct_format::layout::HEADER_BYTES;
use pct_format::{File, Index, State};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a target is measured by while it is sampled.
pub(super) struct Watch {
    clock: Option<ClockId>,
    used_before: Duration,
    began: Instant,
    hz: u32,
}

/// CPU time of a process, by its own clock. `None`: it is gone.
fn used(clock: ClockId) -> Option<Duration> {
    clock_gettime(clock).ok().map(Duration::from)
}

impl Watch {
    /// Sampling begins, at `hz`.
    pub(super) fn begin(target: &Target, hz: u32) -> Watch {
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(target.facts.pid)).ok();
        Watch { clock, used_before: clock.and_then(used).unwrap_or_default(), began: Instant::now(), hz }
    }

    /// Sampling has ended, and there is no sample. `causes`: what the sampler itself said.
    pub(super) fn why(&self, before: &Target, causes: &[String], args: &Args) -> String {
        let seconds = self.began.elapsed().as_secs_f64();
        if !causes.is_empty() {
            return causes.join("; ");
        }
        if facts::start_time(args.pid) != Some(before.start_time) {
            return format!("the process ended in these {seconds:.1} s");
        }
        let Ok(now) = facts::read(args.pid) else { return "the process ended".to_owned() };
        if now.start_stack != before.start_stack || now.exe != before.exe {
            let exe = now.exe.unwrap_or_default();
            return format!("it executed another program, {} (--follow samples that too)", exe.display());
        }
        let Some(used) = self.clock.and_then(used).map(|now| now.saturating_sub(self.used_before)) else {
            return "its CPU time cannot be read".to_owned();
        };
        let state = match now.facts.state {
            'T' => "; it is stopped by a signal, and is sampled when it goes on",
            _ => "",
        };
        let used = used.as_secs_f64();
        let period = 1.0 / f64::from(self.hz);
        if used < ENOUGH_PERIODS * period || args.clock == Clock::Wall {
            let wall = if args.clock == Clock::Wall { "" } else { " (--clock wall shows where it waits)" };
            return format!(
                "it used {used:.3} CPU s in {seconds:.1} s, and one is due each {:.1} ms{state}{wall}",
                period * 1e3
            );
        }
        if now.facts.signals_blocked {
            return format!(
                "the threads that used its {used:.3} CPU s block all signals (--method 5 samples from outside)"
            );
        }
        format!(
            "none came while it used {used:.3} CPU s in {seconds:.1} s, and no cause was found{state} (--method 5 samples from outside)"
        )
    }
}

/// So many periods without one sample are no chance (e^-20 for the ideal sampler).
const ENOUGH_PERIODS: f64 = 20.0;

/// Samples of a recording.
pub(super) fn samples(path: &Path) -> u64 {
    let Ok(bytes) = std::fs::read(path) else { return 0 };
    File::parse(&bytes).map_or(0, |file| Index::new(&file).samples_by_time().count() as u64)
}

/// There are recordings, and none of them is written any more: sampling was switched off.
pub(super) fn have_ended(files: &[PathBuf]) -> bool {
    let state = |path: &PathBuf| {
        let mut head = Vec::new();
        std::fs::File::open(path).ok()?.take(HEADER_BYTES as u64).read_to_end(&mut head).ok()?;
        File::parse(&head).ok().map(|file| file.header().state())
    };
    let is_over = |path| state(path).is_some_and(|state| !matches!(state, State::Armed | State::Making));
    !files.is_empty() && files.iter().all(is_over)
}
