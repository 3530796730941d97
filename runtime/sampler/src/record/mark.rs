//! Marks: names that the program writes into the log at an instant.
//!
//! Signal safety: signal mask calls and try-locks; a mark that finds no room or no lock says so to its caller.

use core::sync::atomic::Ordering;

use crate::{process::file, process::session, record::time, sys};
use pct_format::head::kind;
use pct_format::record::Encoder;

/// Longest name that is kept; the rest is cut.
pub const NAME_BYTES: usize = 200;

/// Writes a mark. False: nobody samples, or there is no room.
#[must_use]
pub fn set(name: &[u8]) -> bool {
    let Some(session) = session::current().filter(|s| s.on.load(Ordering::Relaxed)) else { return false };
    let now = time::now();
    let _alone = session::alone();
    let may_call = session.may_call();
    if !session.log.is_open() && !file::open_in_handler(session) {
        return false;
    }
    let tid = sys::gettid();
    let name = name.get(..name.len().min(NAME_BYTES)).unwrap_or(name);
    let mut buffer = [0u64; 40];
    let record = Encoder::new(&mut buffer).word(now).number(u64::from(tid)).text(name).finish(kind::MARK, 0);
    let Some(record) = record else { return false };
    if let Some(ring) = session.rings.own(may_call)
        && ring.busy.load(Ordering::Relaxed) == 0
    {
        ring.busy.store(1, Ordering::Relaxed);
        let written = ring.push(&session.log, &session.rings, may_call, 0, 0, record, &[]);
        ring.busy.store(0, Ordering::Release);
        return written;
    }
    session.house.lock_patiently().is_some_and(|mut house| {
        let house = &mut *house;
        house.process.append(&session.log, may_call, record, &[])
    })
}
