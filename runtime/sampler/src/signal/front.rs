//! Signals for which pct's action stands in front of the program's own: SIGBUS ([`super::bus`]), and SIGTRAP once the
//! program has set an action for it ([`super::trap`]).
//!
//! The program's action is kept here. The preload shell changes it instead of the kernel's, and shows it to the
//! program. What is not pct's is handed on: the program's handler runs with the arguments, stack and mask that the
//! kernel would have given it, because the kernel's action has the flags of the program's own, and pct's code leaves
//! by a jump.
//!
//! Signal safety: loads and stores, system calls.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::sys::arch;
use crate::sys::{self, SIG_DFL, SIG_IGN, SIGBUS, SIGTRAP, SigAction};

/// SIGBUS's.
pub static BUS: Front = Front::for_signal(SIGBUS);
/// SIGTRAP's.
pub static TRAP: Front = Front::for_signal(SIGTRAP);

/// The front of a signal that can have one.
#[must_use]
pub fn of_signal(signal: i32) -> Option<&'static Front> {
    [&BUS, &TRAP].into_iter().find(|front| front.signal == signal)
}

/// pct's action for a signal, and the program's behind it.
#[derive(Debug)]
pub struct Front {
    signal: i32,
    /// Whether the kernel has pct's action.
    stands: AtomicBool,
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
            signal,
            stands: AtomicBool::new(false),
            entry: AtomicUsize::new(0),
            handler: AtomicUsize::new(SIG_DFL),
            flags: AtomicU64::new(0),
            mask: AtomicU64::new(0),
        }
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

    fn keep(&self, action: SigAction) {
        self.flags.store(action.flags & !sys::SA_RESTORER, Ordering::Relaxed);
        self.mask.store(action.mask, Ordering::Relaxed);
        self.handler.store(action.handler, Ordering::Release);
    }

    /// pct's action, with what the kernel does by the flags of the program's.
    fn install(&self, host: SigAction) -> sys::Result<()> {
        if self.signal == SIGTRAP && host.handler == SIG_IGN {
            // The kernel drops late traps by itself then, and the action outlives an exec, as the program wants it.
            let ignored = SigAction { handler: SIG_IGN, ..SigAction::default() };
            // SAFETY: no handler is set.
            return unsafe { sys::sigaction(self.signal, Some(&ignored)) }.map(|_| ());
        }
        // NODEFER: what pct does for a SIGBUS may fault itself, when the file's header is gone too.
        let flags = host.flags & !sys::SA_RESETHAND | sys::SA_SIGINFO | sys::SA_RESTORER | sys::SA_NODEFER;
        // All is blocked but faults until pct knows whose it is. Then the mask is made what the program asked for.
        let handler = self.entry.load(Ordering::Relaxed);
        let ours = SigAction { handler, flags, restorer: arch::restorer(), mask: !sys::FAULTS };
        // SAFETY: the handler is made to run at any instant in any thread.
        unsafe { sys::sigaction(self.signal, Some(&ours)) }.map(|_| ())
    }

    /// A signal that is the program's: gives the address of its handler, where pct's code is to jump, or 0: the
    /// interrupted code goes on, or the process dies of the signal as it would have. `code`: the siginfo's;
    /// `is_blocked`: the thread believes that it blocks the signal.
    ///
    /// # Safety
    /// `context` is what the kernel passed to the running handler of this signal.
    pub(super) unsafe fn hand_on(&self, code: i32, context: *const u8, is_blocked: bool) -> usize {
        let mut action = self.host();
        if code > 0 && is_blocked {
            action.handler = SIG_DFL;
        }
        if action.handler == SIG_DFL || action.handler == SIG_IGN {
            // A fault that is ignored, or blocked, kills as well. One that somebody sent is ignored, or sent
            // again to kill.
            if code > 0 || action.handler == SIG_DFL {
                // SAFETY: no handler is set; the process is to die of this signal, as it would have.
                let _ = unsafe { sys::sigaction(self.signal, Some(&SigAction::default())) };
                if code <= 0 || self.signal != SIGBUS {
                    let _ = sys::tgkill(sys::getpid(), sys::gettid(), self.signal);
                    sys::sigmask(sys::Mask::Unblock, sys::signal_bit(self.signal));
                }
            }
            return 0;
        }
        if action.flags & sys::SA_RESETHAND != 0 {
            self.set_host(SigAction::default());
        }
        let own = if action.flags & sys::SA_NODEFER != 0 { 0 } else { sys::signal_bit(self.signal) };
        // SAFETY: the kernel's ucontext; rt_sigreturn puts the interrupted mask back whatever is set here.
        let interrupted = unsafe { arch::interrupted_mask(context) };
        sys::sigmask(sys::Mask::Set, interrupted | action.mask | own);
        action.handler
    }
}
