//! System calls that end with a bare EINTR after any stop, whoever stops the thread. pct makes them again, so the
//! target does not notice.
//!
//! Most calls are restarted by the kernel when a thread goes on after a stop. These are not (signal(7),
//! "Interruption of system calls and library functions by stop signals"), and programs that handle no signals
//! do not expect EINTR from them.

use super::bell::bit;
use super::sys::{self, Regs, Tid};
use crate::tasks;

const BARE_EINTR: &[i64] = &[
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
    // sockets with SO_RCVTIMEO or SO_SNDTIMEO
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
];

/// The registers with which a stopped thread makes its interrupted call again; `None` when that is not
/// needed, or when a signal waits that the program notices: the EINTR is then its own. A finite timeout of
/// the call starts anew.
///
/// `mask`: the signals that the program blocks, where that is not what the kernel says. `delivered`: the
/// signal that the thread is about to get (0: none).
pub fn again(tid: Tid, regs: &Regs, mask: Option<u64>, delivered: i32) -> Option<Regs> {
    let cut_short =
        regs.rax as i64 == -i64::from(libc::EINTR) && BARE_EINTR.contains(&(regs.orig_rax as i64));
    if !cut_short || SignalState::read_status(tid).notices(mask, delivered, of_clocks(tid)) {
        return None;
    }
    let mut regs = *regs;
    regs.rax = regs.orig_rax;
    regs.rip = regs.rip.wrapping_sub(2);
    regs.orig_rax = u64::MAX;
    Some(regs)
}

/// Whether the program ignores a signal that its thread `tid` is about to get: without a tracer the kernel
/// would have dropped it.
pub fn is_ignored(tid: Tid, signal: i32) -> bool {
    let state = SignalState::read_status(tid);
    signal > 0 && bit(signal) & (state.ignored | IGNORED_BY_DEFAULT & !state.caught) != 0
}

/// Signals that are pending for a stopped thread and were sent by clocks alone: bit n-1 is signal n. A CPU
/// timer or a perf event (of a sampler in the target, say) expires while the thread runs, also during pct's
/// own call. No program wants such a signal to end a system call.
pub(super) fn of_clocks(tid: Tid) -> u64 {
    let (mut clocks, mut others) = (0, 0);
    for info in sys::waiting_signals(tid).unwrap_or_default() {
        match info.is_of_clock() {
            true => clocks |= bit(info.signal()),
            false => others |= bit(info.signal()),
        }
    }
    clocks & !others
}

/// Signals whose default is that nothing happens.
const IGNORED_BY_DEFAULT: u64 =
    bit(libc::SIGCHLD) | bit(libc::SIGCONT) | bit(libc::SIGURG) | bit(libc::SIGWINCH);

/// What `/proc/TID/status` says of a thread's signals: bit n-1 is signal n.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct SignalState {
    /// For the thread, and for the process.
    pending: u64,
    shared: u64,
    blocked: u64,
    ignored: u64,
    caught: u64,
}

impl SignalState {
    /// That of a thread; nothing at all when it is gone.
    fn read_status(tid: Tid) -> SignalState {
        Self::parse(&tasks::read_text(format!("/proc/{tid}/status")).unwrap_or_default())
    }

    fn parse(status: &str) -> SignalState {
        let set = |key: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(key)).unwrap_or("0");
            u64::from_str_radix(line.trim(), 16).unwrap_or(0)
        };
        SignalState {
            pending: set("SigPnd:"),
            shared: set("ShdPnd:"),
            blocked: set("SigBlk:"),
            ignored: set("SigIgn:"),
            caught: set("SigCgt:"),
        }
    }

    /// Whether a signal that waits, or `delivered`, does something to the program. A thread that is traced
    /// gets signals too that are ignored: without a tracer the kernel drops them, and no call is cut short.
    fn notices(self, mask: Option<u64>, delivered: i32, of_clocks: u64) -> bool {
        let waiting = (self.shared | self.pending & !of_clocks) & !mask.unwrap_or(self.blocked);
        let delivered = if delivered > 0 { bit(delivered) } else { 0 };
        let nothing_happens = self.ignored | IGNORED_BY_DEFAULT & !self.caught;
        (waiting | delivered) & !nothing_happens != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signals_that_do_something_keep_a_call_cut_short() {
        let state = |pending: u64, blocked: u64, ignored: u64, caught: u64| {
            SignalState::parse(&format!(
                "Name:\tx\nSigPnd:\t{pending:016x}\nShdPnd:\t0000000000000000\nSigBlk:\t{blocked:016x}\n\
                 SigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\n"
            ))
        };
        let (winch, term) = (bit(libc::SIGWINCH), bit(libc::SIGTERM));
        assert!(!state(0, 0, 0, term).notices(None, 0, 0), "none waits");
        assert!(state(term, 0, 0, term).notices(None, 0, 0));
        assert!(state(term, 0, 0, 0).notices(None, 0, 0), "it ends the program");
        assert!(!state(term, term, 0, term).notices(None, 0, 0), "blocked");
        assert!(state(term, term, 0, term).notices(Some(0), 0, 0), "blocked by us alone");
        assert!(!state(term, 0, term, 0).notices(None, 0, 0), "ignored");
        assert!(!state(winch, 0, 0, 0).notices(None, 0, 0), "ignored by default");
        assert!(state(winch, 0, 0, winch).notices(None, 0, 0));
        assert!(!state(0, 0, 0, 0).notices(None, libc::SIGWINCH, 0));
        assert!(state(0, 0, 0, winch).notices(None, libc::SIGWINCH, 0));
        assert!(state(0, term, 0, term).notices(None, libc::SIGTERM, 0), "it is being delivered");
        assert!(!state(term, 0, 0, term).notices(None, 0, term), "a timer sent it");
    }
}
