//! What the process's memory is, with each anchor: live by our estimate, resident by the kernel's account.
//!
//! Signal safety: system calls, by who holds the housekeeper's lock.

use core::sync::atomic::Ordering;

use pct_format::head::kind;
use pct_format::heap::account;
use pct_format::record::Encoder;

use crate::process::session::{House, Session};
use crate::record::time;
use crate::sys;

/// Octets of /proc/self/status that are looked at: the lines about memory end in the first thousand.
const STATUS_BYTES: usize = 2048;

/// Estimates of the octets that are live and that were allocated, as the account has them; `None`:
/// allocations are not sampled.
#[must_use]
pub(crate) fn levels(session: &Session) -> Option<[u64; 2]> {
    let heap = &session.heap;
    if !heap.on.load(Ordering::Relaxed) {
        return None;
    }
    // Before the first sample there is no account.
    let account = heap.account(session);
    let word =
        |at: usize| account.and_then(|words| words.get(at)).map_or(0, |word| word.load(Ordering::Relaxed));
    Some([account::LIVE_BYTES, account::BYTES].map(|at| f64::from_bits(word(at)).max(0.0) as u64))
}

/// Writes what memory is now into the process's ring, if allocations are sampled.
pub(crate) fn note(session: &Session, house: &mut House) {
    let Some([live, allocated]) = levels(session) else { return };
    if !session.may_call() {
        return;
    }
    session.heap.look_at_time(session);
    let mut buffer = [0; STATUS_BYTES];
    let Ok(status) = sys::read_file(sys::c(c"/proc/self/status"), &mut buffer) else { return };
    let mut record = Encoder::new(&mut house.record).raw_word(time::now()).number(live).number(allocated);
    for resident in resident(status) {
        record = record.number(resident);
    }
    // What thread stacks and the allocator's slack are only a look from outside can tell: 0 = not known.
    let record = record.number(0).number(0).finish(kind::MEMORY, 0);
    if let Some(record) = record {
        house.process.append(&session.log, true, record, &[]);
    }
}

/// Resident octets by the kernel: anonymous, of files, shared. 0 = not told.
fn resident(status: &[u8]) -> [u64; 3] {
    let mut found = [0; 3];
    for line in status.split(|octet| *octet == b'\n') {
        let kinds: [&[u8]; 3] = [b"RssAnon:", b"RssFile:", b"RssShmem:"];
        for (kind, found) in kinds.into_iter().zip(&mut found) {
            if let Some(rest) = line.strip_prefix(kind) {
                let digits = rest.iter().filter(|octet| octet.is_ascii_digit());
                let kib = digits
                    .fold(0u64, |sum, octet| sum.saturating_mul(10).saturating_add(u64::from(octet - b'0')));
                *found = kib.saturating_mul(1024);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_kilobytes() {
        let status = b"Name:\tRssAnon: 7 kB\nVmRSS:\t    9 kB\nRssAnon:\t  1234 kB\nRssFile:\t   56 kB\nRssShmem:\t 0 kB\nThreads:\t1\n";
        assert_eq!(resident(status), [1234 * 1024, 56 * 1024, 0]);
        assert_eq!(resident(b"RssAnon:\t99999999999999999999999 kB\nRss"), [u64::MAX, 0, 0]);
        assert_eq!(resident(b""), [0; 3]);
    }
}
