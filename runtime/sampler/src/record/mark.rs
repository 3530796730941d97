//! Marks: names that the program writes into the log at an instant.
//!
//! Signal safety: signal mask calls and try-locks; a mark that finds no room or no lock says so to its caller.

use core::sync::atomic::Ordering;

use crate::process::session::{self, Session};
use crate::{heap, process::file, record::time, sys};
use pct_format::head::kind;
use pct_format::record::Encoder;

/// Longest name that is kept; the rest is cut.
pub const NAME_BYTES: usize = 200;

/// Writes a mark. False: nobody samples, or there is no room.
#[must_use]
pub fn set(name: &[u8]) -> bool {
    append(name, kind::MARK, |_| Some([None, None]))
}

/// Writes a mark with what is live in memory at this instant. False: allocations are not sampled, or there is no room.
#[must_use]
pub fn set_of_heap(name: &[u8]) -> bool {
    append(name, kind::HEAP_MARK, |session| heap::level::levels(session).map(|levels| levels.map(Some)))
}

/// Writes a mark with these numbers between its thread and its name. `None`: it cannot be.
fn append(name: &[u8], kind: u8, numbers: impl FnOnce(&Session) -> Option<[Option<u64>; 2]>) -> bool {
    let Some(session) = session::current().filter(|s| s.on.load(Ordering::Relaxed)) else { return false };
    let now = time::now();
    let _alone = session::alone();
    let may_call = session.may_call();
    if !session.log.is_open() && !file::open_in_handler(session) {
        return false;
    }
    let Some(numbers) = numbers(session) else { return false };
    let tid = sys::gettid();
    let name = name.get(..name.len().min(NAME_BYTES)).unwrap_or(name);
    let mut buffer = [0u64; 40];
    let mut record = Encoder::new(&mut buffer).raw_word(now).number(u64::from(tid));
    for number in numbers.into_iter().flatten() {
        record = record.number(number);
    }
    let Some(record) = record.text(name).finish(kind, 0) else { return false };
    if let Some(ring) = session.rings.own(may_call)
        && ring.enter().is_ok()
    {
        let written = ring.push(&session.log, &session.rings, may_call, 0, 0, record, &[]);
        ring.exit();
        return written;
    }
    session.house.lock_patiently(true).is_some_and(|mut house| {
        let house = &mut *house;
        house.process.append(&session.log, may_call, record, &[])
    })
}
