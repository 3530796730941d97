//! The number of a call's stack, for what is recorded in wrappers and not in a handler.
//!
//! Waits a bounded time while another thread defines a stack: outside of handlers a record without a stack is worse
//! than a short wait.

use pct_format::record::Frame;

use crate::code::callers;
use crate::process::session::{self, Session};
use crate::record::rings::Ring;
use crate::sys::arch::Regs;

/// Why a call has no stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoStack {
    /// The thread has no ring, or something else writes to it at this moment.
    Busy,
    /// Another thread changed the table for too long.
    Taken,
    /// There is no room for its definition.
    NoRoom,
}

/// The number of the caller's stack; 0: no stacks are wanted. `regs` are the caller's, with the address of its call's
/// last byte as its place; `returns` is where the call returns to. `ring` is the calling thread's own.
pub(crate) fn number(
    session: &Session,
    ring: Option<&Ring>,
    regs: Regs,
    returns: u64,
) -> Result<u32, NoStack> {
    if !callers::wanted(session, regs) {
        return Ok(0);
    }
    // From here on a sample of the CPU clock in this thread is counted as one that met a busy handler.
    let ring = ring.filter(|ring| ring.enter().is_ok()).ok_or(NoStack::Busy)?;
    let mut spare = [0; 1];
    let frames = callers::words_of_call(session, ring, regs, Frame::Return(returns).encode(), &mut spare);
    let number = of_frames(session, frames);
    ring.exit();
    number
}

/// The number of a stack, which is defined if it is new.
fn of_frames(session: &Session, frames: &[u64]) -> Result<u32, NoStack> {
    if let Some(id) = session.stacks.known(frames) {
        return Ok(id);
    }
    // A handler of the program's could leave by a jump, and the lock would be taken for good.
    let _alone = session::alone();
    let may_call = session.may_call();
    let mut keep = session.keep.lock_patiently(may_call).ok_or(NoStack::Taken)?;
    session.stacks.define(&session.log, &mut keep, may_call, frames).ok_or(NoStack::NoRoom)
}
