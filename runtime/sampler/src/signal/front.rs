//! Signals for which pct's action stands in front of the program's own: SIGBUS ([`super::bus`]), SIGTRAP once the
//! program has set an action for it ([`super::trap`]), and what the program takes of the clocks' signals when these
//! cannot be moved any more ([`super::taken`]).
//!
//! The program's action is kept here. The preload shell changes it instead of the kernel's, and shows it to the
//! program. What is not pct's is handed on: the program's handler runs with the arguments, stack and mask that the
//! kernel would have given it, because the kernel's action has the flags of the program's own, and pct's code leaves
//! by a jump.
//!
//! While pct decides whose a signal is, all others are blocked, and a system call makes the mask what the program asked
//! for. Under a filter on system calls no such call may be made: from then on the kernel's action has the mask of the
//! program's ([`masks_by_kernel`]), and another signal of the program's may come in between, as it may in its handler.
//!
//! Signal safety: loads and stores, system calls.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use crate::sys::arch;
use crate::sys::{self, SIG_DFL, SIG_IGN, SIGBUS, SIGTRAP, SigAction, SignalSet, signal_bit};

/// SIGBUS's.
pub static BUS: Front = Front::for_signal(SIGBUS);
/// SIGTRAP's.
pub static TRAP: Front = Front::for_signal(SIGTRAP);
/// Of the clocks' signals, but for SIGTRAP: the sampling clock's and the tick's.
static CLOCKS: [Front; 2] = [Front::for_signal(0), Front::for_signal(0)];

/// Whether handlers may make no system call.
static MASKS_BY_KERNEL: AtomicBool = AtomicBool::new(false);

fn all() -> impl Iterator<Item = &'static Front> {
    [&BUS, &TRAP].into_iter().chain(&CLOCKS)
}

/// The front of a signal that can have one.
#[must_use]
pub fn of_signal(signal: i32) -> Option<&'static Front> {
    all().find(|front| front.signal() == signal)
}

/// The signals that have one.
pub(super) fn standing() -> SignalSet {
    all().filter(|front| front.stands()).fold(0, |set, front| set | signal_bit(front.signal()))
}

/// The front of a signal of the clocks', free until now. `None`: both have other signals.
pub(super) fn of_clocks(signal: i32) -> Option<&'static Front> {
    of_signal(signal).or_else(|| {
        let is_taken = |front: &&Front| {
            front.signal.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        CLOCKS.iter().find(is_taken)
    })
}

/// The program is about to forbid system calls, or (`false`) they are allowed again: from now on the kernel sets the
/// mask that the program wants while its handler runs, and pct does not.
pub(crate) fn masks_by_kernel(are: bool) {
    if MASKS_BY_KERNEL.swap(are, Ordering::Relaxed) != are {
        for front in all().filter(|front| front.stands()) {
            let _ = front.install(front.host());
        }
    }
}

/// pct's action for a signal, and the program's behind it.
#[derive(Debug)]
pub struct Front {
    /// Its number, 0 = none yet.
    signal: AtomicI32,
    /// Whether the kernel has pct's action.
    stands: AtomicBool,
    /// Whether the kernel's action has the mask that the program asked for.
    has_mask: AtomicBool,
    /// Address of what the kernel calls.
    entry: AtomicUsize,
    // The program's action.
    handler: AtomicUsize,
    flags: AtomicU64,
    mask: AtomicU64,
}

impl Front {
    const fn for_signal(signal: i32) -> Front {
        Front {
            signal: AtomicI32::new(signal),
            stands: AtomicBool::new(false),
            has_mask: AtomicBool::new(false),
            entry: AtomicUsize::new(0),
            handler: AtomicUsize::new(SIG_DFL),
            flags: AtomicU64::new(0),
            mask: AtomicU64::new(0),
        }
    }

    fn signal(&self) -> i32 {
        self.signal.load(Ordering::Relaxed)
    }

    /// Whether the program's action is kept here and not in the kernel.
    #[must_use]
    pub fn stands(&self) -> bool {
        self.stands.load(Ordering::Relaxed)
    }

    /// The program's action.
    #[must_use]
    pub fn host(&self) -> SigAction {
        SigAction {
            handler: self.handler.load(Ordering::Acquire),
            flags: self.flags.load(Ordering::Relaxed),
            restorer: 0,
            mask: self.mask.load(Ordering::Relaxed),
        }
    }

    /// The program sets its action. (A signal that arrives meanwhile may see the new handler with the old flags.)
    pub fn set_host(&self, action: SigAction) {
        self.keep(action);
        let _ = self.install(action);
    }

    /// The program sets its action in the kernel itself: nothing of pct stands there any more.
    pub fn step_aside(&self) {
        self.stands.store(false, Ordering::Relaxed);
    }

    /// Puts pct's action, which calls `entry`, in front of the program's.
    pub(super) fn stand(&self, entry: usize, host: SigAction) {
        self.entry.store(entry, Ordering::Relaxed);
        self.keep(host);
        self.stands.store(self.install(host).is_ok(), Ordering::Relaxed);
    }

    /// As [`Front::stand`], where the kernel has pct's other action, which is as good until the program sets its own.
    pub(super) fn stand_when_set(&self, entry: usize) {
        if !self.stands() {
            self.entry.store(entry, Ordering::Relaxed);
            self.keep(SigAction::default());
            self.stands.store(true, Ordering::Relaxed);
        }
    }

    fn keep(&self, action: SigAction) {
        self.flags.store(action.flags & !sys::SA_RESTORER, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        self.handler.store(action.handler, Ordering::Release);
    }

    /// pct's action, with what the kernel does by the flags of the program's.
    fn install(&self, host: SigAction) -> sys::Result<()> {
        let signal = self.signal();
        if signal != SIGBUS && host.handler == SIG_IGN {
            // The kernel drops pct's signals by itself then, and the action outlives an exec, as the program wants it.
            let ignored = SigAction { handler: SIG_IGN, ..SigAction::default() };
            // SAFETY: no handler is set.
            return unsafe { sys::sigaction(signal, Some(&ignored)) }.map(|_| ());
        }
        // What pct does for a SIGBUS may fault itself, when the file's header is gone too.
        let stays_open = if signal == SIGBUS { sys::SA_NODEFER } else { 0 };
        let flags = host.flags & !sys::SA_RESETHAND | sys::SA_SIGINFO | sys::SA_RESTORER | stays_open;
        // All is blocked but faults until pct knows whose it is. Then the mask is made what the program asked for.
        let has_mask = MASKS_BY_KERNEL.load(Ordering::Relaxed) && ![SIG_DFL, SIG_IGN].contains(&host.handler);
        let mask = if has_mask { host.mask } else { !sys::FAULTS };
        let handler = self.entry.load(Ordering::Relaxed);
        let ours = SigAction { handler, flags, restorer: arch::restorer(), mask };
        // SAFETY: the handler is made to run at any instant in any thread.
        unsafe { sys::sigaction(signal, Some(&ours)) }?;
        self.has_mask.store(has_mask, Ordering::Relaxed);
        Ok(())
    }

    /// A signal that is the program's: gives the address of its handler, where pct's code is to jump, or 0: the
    /// interrupted code goes on, or the process dies of the signal as it would have. `code`: the siginfo's;
    /// `is_blocked`: the thread believes that it blocks the signal.
    ///
    /// # Safety
    /// `context` is what the kernel passed to the running handler of this signal.
    pub(super) unsafe fn hand_on(&self, code: i32, context: *const u8, is_blocked: bool) -> usize {
        let mut action = self.host();
        let signal = self.signal();
        if code > 0 && is_blocked {
            action.handler = SIG_DFL;
        }
        if action.handler == SIG_DFL && sys::IGNORED_BY_DEFAULT & signal_bit(signal) != 0 {
            return 0;
        }
        if action.handler == SIG_DFL || action.handler == SIG_IGN {
            // A fault that is ignored, or blocked, kills as well. One that somebody sent is ignored, or sent
            // again to kill.
            if code > 0 || action.handler == SIG_DFL {
                // SAFETY: no handler is set; the process is to die of this signal, as it would have.
                let _ = unsafe { sys::sigaction(signal, Some(&SigAction::default())) };
                if code <= 0 || signal != SIGBUS {
                    let _ = sys::tgkill(sys::getpid(), sys::gettid(), signal);
                    sys::sigmask(sys::Mask::Unblock, signal_bit(signal));
                }
            }
            return 0;
        }
        let has_mask = self.has_mask.load(Ordering::Relaxed);
        if action.flags & sys::SA_RESETHAND != 0 {
            self.keep(SigAction::default());
            if !has_mask {
                let _ = self.install(SigAction::default());
            }
        }
        if has_mask {
            return action.handler;
        }
        let own = if action.flags & sys::SA_NODEFER != 0 { 0 } else { signal_bit(signal) };
        // SAFETY: the kernel's ucontext; rt_sigreturn puts the interrupted mask back whatever is set here.
        let interrupted = unsafe { arch::interrupted_mask(context) };
        sys::sigmask(sys::Mask::Set, interrupted | action.mask | own);
        action.handler
    }
}
