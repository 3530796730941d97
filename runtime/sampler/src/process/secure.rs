//! Doing early what needs system calls or rights, before the host gives them up.
//!
//! Signal safety: waits for a lock a bounded time; not for handlers.

use core::sync::atomic::Ordering;

use crate::code::walked_modules;
use crate::heap;
use crate::process::session::Session;
use crate::process::{bookkeeping, file, housekeeper};
use pct_format::layout;

/// Blocks allocated before growing may become impossible: 4 MiB.
const SECURED_BLOCKS: u32 = (4 << 20) / layout::BLOCK_BYTES as u32;

/// Makes sure of everything that needs system calls or rights: the file, and blocks for a while. Called before the host
/// gives them up.
pub fn secure(session: &Session) {
    if !session.may_call() {
        return;
    }
    if let Some(mut house) = session.house.lock_patiently(true) {
        if !session.log.is_open() && !session.failed.load(Ordering::Relaxed) {
            file::open(session, &mut house);
        }
        housekeeper::full(session, &mut house);
    }
    heap::secure(session);
    session.log.grow_ahead(SECURED_BLOCKS);
}

/// Makes sure of memory that handlers fill as they need it, and copies what they read. Called before the host forbids
/// system calls; the caller blocks signals.
pub fn secure_memory(session: &Session) {
    walked_modules::expect_data();
    if let Some(mut house) = session.house.lock_patiently(true) {
        bookkeeping::refresh_regions(session, &mut house);
    }
    walked_modules::copy_all();
    if let Some(_keep) = session.keep.lock_patiently(true) {
        session.stacks.secure();
    }
    if let Some(_writer) = session.codes.writer.lock_patiently(true) {
        session.codes.table.secure(1);
    }
}
