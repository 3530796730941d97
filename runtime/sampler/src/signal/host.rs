//! The host's own actions for the signal numbers that we use: kept while the kernel has ours, and carried out for signals that
//! are not from our clocks.
//!
//! Signal safety: loads and stores, system calls, and the host's own handler.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::process::session;
use crate::signal::masks;
use crate::sys::arch;
use crate::sys::{self, SigAction};

/// The default action.
pub(crate) const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;

/// What the host wants done with a signal that is ours in the kernel.
#[derive(Debug)]
pub struct HostAction {
    handler: AtomicUsize,
    flags: AtomicU64,
    mask: AtomicU64,
}

/// The host's actions for our signals, by number.
pub static HOST: [HostAction; 65] = [const {
    HostAction { handler: AtomicUsize::new(0), flags: AtomicU64::new(0), mask: AtomicU64::new(0) }
}; 65];

/// Whether [`HOST`] was written to: most processes never touch its page.
static HOST_KEPT: AtomicBool = AtomicBool::new(false);

/// Remembers the host's action for a signal that we take.
pub(crate) fn keep_host(signal: i32, action: SigAction) {
    let is_default = action.handler == SIG_DFL && action.flags & !sys::SA_RESTORER == 0 && action.mask == 0;
    if (!is_default || HOST_KEPT.load(Ordering::Relaxed))
        && let Some(host) = HOST.get(signal as usize)
    {
        host.set(action.handler, action.flags, action.mask);
    }
}

impl HostAction {
    /// What it is.
    #[must_use]
    pub fn get(&self) -> SigAction {
        SigAction {
            handler: self.handler.load(Ordering::Acquire),
            flags: self.flags.load(Ordering::Relaxed),
            restorer: 0,
            mask: self.mask.load(Ordering::Relaxed),
        }
    }

    /// Sets it. A signal that arrives meanwhile may see the new handler with the old flags.
    pub fn set(&self, handler: usize, flags: u64, mask: sys::SignalSet) {
        HOST_KEPT.store(true, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
        self.mask.store(mask, Ordering::Relaxed);
        self.handler.store(handler, Ordering::Release);
    }
}

/// A signal of the host's on a number of ours: what would have happened without us happens.
#[cold]
#[inline(never)]
pub(crate) fn foreign(signal: i32, info: *const u8, context: *const u8) {
    let Some(host) = HOST.get(signal as usize) else { return };
    // SAFETY: the kernel's arguments.
    if session::current().is_some_and(|s| unsafe { masks::give_way(s, signal, info, context) }) {
        return;
    }
    let action = host.get();
    match action.handler {
        SIG_IGN => {}
        SIG_DFL => by_default(signal),
        handler => {
            if action.flags & sys::SA_RESETHAND != 0 {
                host.set(SIG_DFL, 0, 0);
            }
            let own = if action.flags & sys::SA_NODEFER != 0 { 0 } else { sys::signal_bit(signal) };
            // We run with everything blocked: the host's handler gets the mask that it would have had.
            // SAFETY: the kernel's ucontext; rt_sigreturn puts the interrupted mask back whatever is set here.
            let interrupted = unsafe { arch::interrupted_mask(context) };
            sys::sigmask(sys::Mask::Set, interrupted | action.mask | own);
            // SAFETY: the host's handler for this signal. With or without SA_SIGINFO the first argument is the same.
            let handler: unsafe extern "C" fn(i32, *const u8, *const u8) =
                unsafe { core::mem::transmute(handler) };
            // SAFETY: as the kernel would call it.
            unsafe { handler(signal, info, context) };
        }
    }
}

/// The signal's default action, which for all numbers that we take is death (or, for a few, nothing).
fn by_default(signal: i32) {
    // SIGCHLD, SIGCONT, SIGURG, SIGWINCH
    const IGNORED: sys::SignalSet =
        sys::signal_bit(17) | sys::signal_bit(18) | sys::signal_bit(23) | sys::signal_bit(28);
    if IGNORED & sys::signal_bit(signal) != 0 {
        return;
    }
    let default = SigAction { handler: SIG_DFL, ..Default::default() };
    // SAFETY: no handler is set; the process is to die of this signal, as it would have.
    let _ = unsafe { sys::sigaction(signal, Some(&default)) };
    let _ = sys::tgkill(sys::getpid(), sys::gettid(), signal);
    sys::sigmask(sys::Mask::Unblock, sys::signal_bit(signal));
}
