//! SIGBUS: no store of ours kills the program, whatever somebody does to our file.
//!
//! A file that is cut while it is mapped, or whose file system fails, makes the next store to it fault. Our action for SIGBUS
//! replaces what cannot be reached by anonymous memory ([`crate::record::log::Log::replace_cut`]), and the store goes on. Any other
//! SIGBUS is the program's: its own handler runs with the arguments, stack and mask that the kernel would have given it, because
//! the kernel's action has the flags of the program's own ([`set_host`]), and our code leaves by a jump.
//!
//! The preload shell keeps the action that the program sets, and shows it to the program. Where nothing is wrapped (a linked or
//! injected library) a handler that the program sets later replaces ours, and the program is as safe as without this.
//!
//! A fault kills when its signal is blocked. So SIGBUS stays open in threads that block it ([`super::masks`]).
//!
//! Signal safety: loads and stores, system calls.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::process::file;
use crate::process::session;
use crate::signal::masks;
use crate::signal::numbers::{SIG_DFL, SIG_IGN};
use crate::sys::arch::{self, SigInfo};
use crate::sys::{self, SigAction};

/// Its number.
pub const SIGBUS: i32 = 7;

/// Whether the kernel has our action.
static INSTALLED: AtomicBool = AtomicBool::new(false);
// The program's action.
static HANDLER: AtomicUsize = AtomicUsize::new(SIG_DFL);
static FLAGS: AtomicU64 = AtomicU64::new(0);
static MASK: AtomicU64 = AtomicU64::new(0);

/// Installs our action in front of the program's, once in a process.
pub(crate) fn guard() {
    if INSTALLED.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: only reads.
    let Ok(host) = (unsafe { sys::sigaction(SIGBUS, None) }) else { return };
    if host.handler != entry() {
        keep(host);
        INSTALLED.store(install(host).is_ok(), Ordering::Relaxed);
    }
}

/// Whether the program's action is kept here and not in the kernel.
#[must_use]
pub fn guards() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// The program's action.
#[must_use]
pub fn host() -> SigAction {
    SigAction {
        handler: HANDLER.load(Ordering::Acquire),
        flags: FLAGS.load(Ordering::Relaxed),
        restorer: 0,
        mask: MASK.load(Ordering::Relaxed),
    }
}

/// The program sets its action. (A SIGBUS that arrives meanwhile may see the new handler with the old flags.)
pub fn set_host(action: SigAction) {
    keep(action);
    let _ = install(action);
}

fn keep(action: SigAction) {
    FLAGS.store(action.flags & !sys::SA_RESTORER, Ordering::Relaxed);
    MASK.store(action.mask, Ordering::Relaxed);
    HANDLER.store(action.handler, Ordering::Release);
}

/// Our action, with what the kernel does by the flags of the program's.
fn install(host: SigAction) -> sys::Result<()> {
    // NODEFER: counting the loss may fault itself, when the header is gone too.
    let flags = host.flags & !sys::SA_RESETHAND | sys::SA_SIGINFO | sys::SA_RESTORER | sys::SA_NODEFER;
    // All is blocked but faults until we know whose it is. Then the mask is made what the program asked for.
    let ours = SigAction { handler: entry(), flags, restorer: arch::restorer(), mask: !sys::FAULTS };
    // SAFETY: the handler is made to run at any instant in any thread.
    unsafe { sys::sigaction(SIGBUS, Some(&ours)) }.map(|_| ())
}

fn entry() -> usize {
    arch::jump_to_answer::<Decide> as *const () as usize
}

/// What [`arch::jump_to_answer`] asks.
#[derive(Debug)]
pub struct Decide;

impl arch::Answer for Decide {
    /// Where to go on: the program's handler, or 0: the code that was interrupted goes on.
    unsafe extern "C" fn answer(signal: i32, info: *const u8, context: *const u8) -> usize {
        // SAFETY: the kernel's siginfo, used before this returns.
        let details = unsafe { SigInfo::new(info) };
        let code = details.code();
        if code > 0
            && let Some(session) = session::current()
            && session.log.replace_cut(details.address())
        {
            if session.may_call() {
                file::report(b"its file was cut by somebody, or its disk failed, while it was recorded: what lay there is lost");
            }
            return 0;
        }
        // SAFETY: the kernel's arguments.
        if session::current().is_some_and(|s| unsafe { masks::give_way(s, signal, info, context) }) {
            return 0;
        }
        let mut action = host();
        if code > 0 && session::current().is_some_and(masks::believes_to_block_bus) {
            action.handler = SIG_DFL;
        }
        if action.handler == SIG_DFL || action.handler == SIG_IGN {
            // A fault that is ignored, or blocked, kills as well. One that somebody sent is ignored, or sent again to kill.
            if code > 0 || action.handler == SIG_DFL {
                // SAFETY: no handler is set; the process is to die of this signal, as it would have.
                let _ = unsafe { sys::sigaction(signal, Some(&SigAction::default())) };
                if code <= 0 {
                    let _ = sys::tgkill(sys::getpid(), sys::gettid(), signal);
                    sys::sigmask(sys::Mask::Unblock, sys::signal_bit(signal));
                }
            }
            return 0;
        }
        if action.flags & sys::SA_RESETHAND != 0 {
            set_host(SigAction::default());
        }
        let own = if action.flags & sys::SA_NODEFER != 0 { 0 } else { sys::signal_bit(signal) };
        // SAFETY: the kernel's ucontext; rt_sigreturn puts the interrupted mask back whatever is set here.
        let interrupted = unsafe { arch::interrupted_mask(context) };
        sys::sigmask(sys::Mask::Set, interrupted | action.mask | own);
        action.handler
    }
}
