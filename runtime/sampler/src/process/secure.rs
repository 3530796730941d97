//! Doing early what needs system calls or rights, before the host gives them up.
//!
//! Signal safety: waits for a lock a bounded time; not for handlers.

use core::sync::atomic::Ordering;

use crate::code::walked_modules;
use crate::heap;
use crate::process::session::Session;
use crate::process::{bookkeeping, file, housekeeper, threads};
use crate::signal::clock::tick;
use pct_format::{StackMode, layout};

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

/// Makes sure of memory that handlers fill as they need it, copies what they read, and asks what they would ask once.
/// Called before the host forbids system calls; the caller blocks signals.
pub fn secure_memory(session: &Session) {
    tick::length_ns();
    walked_modules::expect_data();
    threads::find_bases(session);
    if let Some(mut house) = session.house.lock_patiently(true) {
        bookkeeping::refresh_regions(session, &mut house);
    }
    walked_modules::copy_all();
    if session.settings.stack.load(Ordering::Relaxed) != StackMode::None as u32 {
        let depth = session.settings.depth.load(Ordering::Relaxed);
        session.rings.living().for_each(|ring| ring.stack.secure(depth));
    }
    if let Some(_keep) = session.keep.lock_patiently(true) {
        session.stacks.secure();
    }
    if let Some(_writer) = session.codes.writer.lock_patiently(true) {
        session.codes.table.secure(1);
    }
}
