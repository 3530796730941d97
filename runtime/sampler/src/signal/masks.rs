//! Threads that block all signals: ours stay open there, and the host cannot tell.
//!
//! Many programs let their worker threads block everything, so that signals go to the thread that waits for
//! them (xz, thread pools of servers). It is there that the time is spent, so a profiler that respected it
//! would see nothing of them. A set that names nearly all signals is not about our two; one that names few
//! may be, and passes as it is.
//!
//! What a thread believes that it blocks is kept with its ring. A signal of the host's own on one of these
//! numbers finds that: it is really blocked there from then on and sent once more, so that it waits, or goes
//! to the thread that takes it ([`give_way`]). An exec hands on the mask that the host believes in
//! ([`close`]).
//!
//! Signal safety: system calls.

use core::sync::atomic::Ordering;

use crate::process::session::Session;
use crate::record::rings::Ring;
use crate::signal::front::{self, BUS};
use crate::sys::arch;
use crate::sys::{self, Mask, SignalSet};

/// A set of so many signals (of 62 that can be blocked) means all of them.
const NEARLY_ALL: u32 = 40;

/// Whether a set is not about single signals.
#[must_use]
pub fn means_all(set: SignalSet) -> bool {
    set.count_ones() >= NEARLY_ALL
}

/// Those of our signals that stay open although the host blocks this set.
#[must_use]
pub fn left_open(session: &Session, set: SignalSet) -> SignalSet {
    // If a thread blocks SIGBUS and our store to the file faults there, the kernel kills the process.
    let faults = if BUS.stands() { sys::signal_bit(sys::SIGBUS) } else { 0 };
    faults & set | if means_all(set) { of_clocks(session) } else { 0 }
}

/// Our signals, without those that the program has taken for itself ([`super::taken`]).
fn of_clocks(session: &Session) -> SignalSet {
    session.signals() & !front::standing()
}

/// Those of our signals of which the thread believes that it blocks them.
#[must_use]
pub fn believed(ring: &Ring) -> SignalSet {
    ring.host_blocks.load(Ordering::Relaxed)
}

/// Whether the calling thread believes that it blocks one of these signals.
pub(crate) fn believes_to_block(session: &Session, signals: SignalSet) -> bool {
    session.rings.own(session.may_call()).is_some_and(|ring| believed(ring) & signals != 0)
}

/// What the thread believes from now on.
pub fn believe(ring: &Ring, set: SignalSet) {
    ring.host_blocks.store(set, Ordering::Relaxed);
}

/// The calling thread begins, perhaps with a mask of its maker's that blocks everything. Gives its mask from now on.
pub(crate) fn begin(session: &Session, ring: &Ring) -> SignalSet {
    let mask = sys::sigmask(Mask::Block, 0);
    let open = left_open(session, mask);
    if open != 0 {
        believe(ring, open);
        if mask & open != 0 {
            sys::sigmask(Mask::Unblock, open);
        }
    }
    mask & !open
}

/// The calling thread's mask is handed to another program: it becomes what the host believes. [`reopen`] takes it back.
pub(crate) fn close(session: &Session) {
    if let Some(ring) = session.rings.own(true)
        && believed(ring) != 0
    {
        sys::sigmask(Mask::Block, believed(ring));
    }
}

/// The other program did not come.
pub(crate) fn reopen(session: &Session) {
    if let Some(ring) = session.rings.own(true)
        && believed(ring) != 0
    {
        sys::sigmask(Mask::Unblock, believed(ring));
    }
}

/// Called by our handler with the registers of the code that it interrupted. A number that was ours when the thread set
/// its mask may have been given to the host since. It is blocked from now on as the thread believes, and the number
/// that we use instead is left open.
///
/// (Until its next sample such a thread does not block the host's new signal. It would take a thread that
/// blocks everything and a program that begins to use this very number later to see that.)
pub(crate) fn follow(session: &Session, ring: &Ring, regs: arch::Regs) {
    let ours = of_clocks(session);
    let given = believed(ring) & !ours & !sys::signal_bit(sys::SIGBUS);
    if given == 0 || regs.context == 0 {
        return;
    }
    let context = regs.context as *const u8;
    // SAFETY: the running handler's context.
    unsafe { arch::change_mask_on_return(context, given, ours) };
    believe(ring, ours | believed(ring) & sys::signal_bit(sys::SIGBUS));
}

/// A signal that is not of our clocks came to a thread that believes to block it: true if it was put off
/// until the thread lets it through or another takes it.
///
/// # Safety
/// `info` and `context` are what the kernel passed to the running handler of `signal`.
pub(crate) unsafe fn give_way(session: &Session, signal: i32, info: *const u8, context: *const u8) -> bool {
    let bit = sys::signal_bit(signal);
    if !session.may_call() {
        return false;
    }
    let Some(ring) = session.rings.own(true) else { return false };
    // SAFETY: the kernel's siginfo, used before this returns.
    let code = unsafe { arch::SigInfo::new(info) }.code();
    // One that the kernel forces upon the thread (an int3, say) does not mind a mask.
    if believed(ring) & bit == 0 || code > 0 {
        return false;
    }
    believe(ring, believed(ring) & !bit);
    // SAFETY: the running handler's context.
    unsafe { arch::change_mask_on_return(context, bit, 0) };
    // SAFETY: the kernel's siginfo, 128 bytes.
    unsafe { sys::send_again(signal, info, code) };
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_nearly_all_signals_means_all_and_a_set_of_a_few_does_not() {
        assert!(means_all(!0));
        // A full set without those that cannot be blocked, and without the faults.
        assert!(means_all(!(sys::signal_bit(9) | sys::signal_bit(19) | sys::FAULTS)));
        assert!(means_all((1 << NEARLY_ALL) - 1));
        assert!(!means_all((1 << (NEARLY_ALL - 1)) - 1));
        // All standard signals and no real-time one: about single signals.
        assert!(!means_all((1 << 31) - 1));
        assert!(!means_all(0));
    }
}
