//! The signal by which a thread says that its call is done.

/// Synchronous signals (SIGSEGV and its kind) are never blocked, so that a fault in pct itself ends it.
pub(super) const SYNCHRONOUS: u64 =
    bit(libc::SIGSEGV) | bit(libc::SIGBUS) | bit(libc::SIGILL) | bit(libc::SIGFPE) | bit(libc::SIGTRAP);

pub(super) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Signals that are sent to a process as a whole and that its main loop may wait for with a call that they
/// end by EINTR.
const OF_THE_PROCESS: u64 = bit(libc::SIGHUP)
    | bit(libc::SIGINT)
    | bit(libc::SIGQUIT)
    | bit(libc::SIGTERM)
    | bit(libc::SIGUSR1)
    | bit(libc::SIGUSR2)
    | bit(libc::SIGALRM)
    | bit(libc::SIGCHLD);

/// Signals that matter while a thread is borrowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SpecialSignals {
    /// The bell: the process has no handler for it, it does nothing then, and the thread does not block it.
    pub(super) bell: Option<i32>,
    /// Signals that this thread must receive. The kernel would give them to another thread if this one blocked them.
    pub(super) awaited: u64,
}

impl SpecialSignals {
    /// Of a thread with this mask, from what its `/proc/PID/task/TID/status` says.
    pub(super) fn parse(status: &str, mask: u64) -> SpecialSignals {
        let value = |key: &str| status.lines().find_map(|l| l.strip_prefix(key)).map(str::trim);
        let Some(caught) = value("SigCgt:").and_then(|set| u64::from_str_radix(set, 16).ok()) else {
            return SpecialSignals::default();
        };
        // What a process's only thread blocks waits for it.
        let alone = value("Threads:") == Some("1");
        SpecialSignals {
            bell: [libc::SIGURG, libc::SIGWINCH].into_iter().find(|s| (caught | mask) & bit(*s) == 0),
            awaited: if alone { 0 } else { OF_THE_PROCESS & caught & !mask },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_among_others_gets_the_signals_of_the_process_that_it_has_handlers_for() {
        let (term, usr1, prof) = (bit(libc::SIGTERM), bit(libc::SIGUSR1), bit(libc::SIGPROF));
        let of = |threads: u32, mask| {
            let caught = term | usr1 | prof | bit(libc::SIGURG);
            SpecialSignals::parse(&format!("Threads:\t{threads}\nSigCgt:\t{caught:016x}\n"), mask)
        };
        let bell = Some(libc::SIGWINCH);
        assert_eq!(of(2, usr1), SpecialSignals { bell, awaited: term });
        assert_eq!(of(1, usr1), SpecialSignals { bell, awaited: 0 });
        assert_eq!(of(2, bit(libc::SIGWINCH)).bell, None);
        assert_eq!(SpecialSignals::parse("", 0), SpecialSignals::default());
    }
}
