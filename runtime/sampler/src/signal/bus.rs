//! SIGBUS: our stores to the mapped file never kill the program, whatever somebody does to the file.
//!
//! A file that is cut while it is mapped, or whose file system fails, makes the next store to it fault. Our
//! action for SIGBUS replaces what cannot be reached by anonymous memory
//! ([`crate::record::log::Log::replace_cut`]), and the store goes on. Any other SIGBUS is the program's, and
//! is handed on to it ([`super::front`]).
//!
//! Where nothing is wrapped (a linked or injected library) a handler that the program sets later replaces ours,
//! and the program is as safe as without this.
//!
//! A fault kills when its signal is blocked. So SIGBUS stays open in threads that block it ([`super::masks`]).
//! A handler of pct that interrupts the program's own one for SIGBUS opens it for itself ([`open_in_handler`]).
//! So does what stores to the file outside of handlers ([`stores_may_fault::StoresMayFault`]).
//!
//! Signal safety: loads and stores, system calls.

use crate::process::report;
use crate::process::session;
use crate::signal::front::BUS;
use crate::signal::{masks, stores_may_fault};
use crate::sys::arch::{self, SigInfo};
use crate::sys::{self, SIGBUS, signal_bit};

/// Puts our action in front of the program's, once in a process.
pub(crate) fn guard() {
    if BUS.stands() {
        return;
    }
    // SAFETY: only reads.
    let Ok(host) = (unsafe { sys::sigaction(SIGBUS, None) }) else { return };
    let entry = arch::jump_to_answer::<Decide> as *const () as usize;
    if host.handler != entry {
        BUS.stand(entry, host);
    }
}

/// For a handler of pct that begins where SIGBUS is blocked: in the program's handler of it, say. The kernel puts the
/// mask back when pct's handler returns.
#[cold]
pub(crate) fn open_in_handler() {
    if session::current().is_some_and(session::Session::may_call) {
        stores_may_fault::open();
    }
}

/// The session whose file's mapping this address is in, if memory has taken the file's place there. A thread may be
/// storing to the last session's file while the next one has begun.
fn replaces_cut(address: u64) -> Option<&'static session::Session> {
    let mut sessions = [session::current(), session::before_current()].into_iter().flatten();
    sessions.find(|session| session.log.replace_cut(address))
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
            && let Some(session) = replaces_cut(details.address())
        {
            if session.may_call() {
                report::report(b"its file was cut by somebody, or its disk failed, while it was recorded: what lay there is lost");
            }
            return 0;
        }
        // SAFETY: the kernel's arguments.
        if session::current().is_some_and(|s| unsafe { masks::give_way(s, signal, info, context) }) {
            return 0;
        }
        let is_blocked = session::current().is_some_and(|s| masks::believes_to_block(s, signal_bit(SIGBUS)));
        // SAFETY: the kernel's context.
        unsafe { BUS.hand_on(code, context, is_blocked) }
    }
}
