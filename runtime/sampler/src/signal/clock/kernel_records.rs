//! What the kernel recorded of a thread's expired clock: where the thread was, in its own code and in the kernel.
//!
//! The event writes backwards into a ring that it overwrites: the newest record stands at the head, older
//! ones behind it. So nothing has to be handed back to the kernel, and nothing is lost but the oldest. The
//! kernel may write while we read, from an interrupt of the same processor: a record counts only if the head
//! has not come round to it by the time that it was copied.
//!
//! Signal safety: loads.

use core::sync::atomic::{AtomicU64, Ordering};

/// Words of the control page before the one that has the head.
const HEAD_WORD: usize = 1024 / 8;
const PAGE_WORDS: usize = 4096 / 8;
/// Records that one signal looks at.
const MOST_RECORDS: usize = 64;

const SAMPLE: u32 = 9;
const MODE_MASK: u32 = 7;
const MODE_KERNEL: u32 = 1;
/// Words of a sample before its chain: header, address, thread, time, number of addresses.
const BEFORE_CHAIN: usize = 5;
/// And behind it: which registers there are, stack pointer, program counter.
const BEHIND_CHAIN: usize = 3;
/// Addresses from here on say in which mode those after them were.
const FIRST_CONTEXT: u64 = -4095i64 as u64;

/// One expiry. Its addresses in the kernel are in the caller's memory.
#[derive(Clone, Copy, Debug)]
pub struct Expiry {
    /// When, CLOCK_MONOTONIC ns.
    pub time_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Where the thread's own code was, and its stack pointer. `None`: the kernel did not say.
    pub user: Option<(u64, u64)>,
    /// It was in the kernel: the first address is where, the others are return addresses, outwards.
    pub in_kernel: bool,
    /// How many addresses there are.
    pub addresses: usize,
}

/// A ring as it is mapped: the control page, and a power of two of pages with records.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    control: &'a [AtomicU64],
    data: &'a [AtomicU64],
}

/// Places of new records.
#[derive(Debug)]
pub struct Fresh {
    /// Octets behind the head.
    places: [u32; MOST_RECORDS],
    len: usize,
    /// The head up to which they go: what [`Records::fresh`] is told the next time.
    pub head: u64,
    /// When the newest was written, CLOCK_MONOTONIC ns: what [`Records::fresh_of`] is told the next time.
    pub newest_ns: u64,
}

impl Fresh {
    /// Places, the oldest first.
    pub fn oldest_first(&self) -> impl Iterator<Item = u64> + '_ {
        self.places
            .get(..self.len)
            .unwrap_or(&[])
            .iter()
            .rev()
            .map(|at| self.head.wrapping_add(u64::from(*at)))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.len
    }
}

impl<'a> Records<'a> {
    /// `pages`: the control page first.
    #[must_use]
    pub fn new(pages: &'a [AtomicU64]) -> Option<Self> {
        let (control, data) = pages.split_at_checked(PAGE_WORDS)?;
        data.len().is_power_of_two().then_some(Records { control, data })
    }

    fn head(&self) -> u64 {
        // Acquire: what was written before the head moved is seen.
        self.control.get(HEAD_WORD).map_or(0, |head| head.load(Ordering::Acquire))
    }

    fn bytes(&self) -> u64 {
        self.data.len() as u64 * 8
    }

    fn record_word(&self, place: u64, number: usize) -> u64 {
        let at = (place / 8).wrapping_add(number as u64) & (self.data.len() as u64 - 1);
        self.data.get(at as usize).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Whether what stands from `place` on was not written over so far.
    fn stands(&self, place: u64, bytes: u64) -> bool {
        // Acquire above all loads of the record would be too late: they must not move behind this one.
        core::sync::atomic::fence(Ordering::Acquire);
        place.wrapping_add(bytes).wrapping_sub(self.head()) <= self.bytes()
    }

    /// Samples of a thread that are younger than a time (CLOCK_MONOTONIC ns), in a ring of one processor that
    /// all threads share. Only the newest records are looked at.
    #[must_use]
    pub fn fresh_of(&self, tid: u32, since_ns: u64) -> Fresh {
        let mut fresh = Fresh { places: [0; MOST_RECORDS], len: 0, head: self.head(), newest_ns: since_ns };
        let mut at = 0;
        for _ in 0..MOST_RECORDS {
            let place = fresh.head.wrapping_add(at);
            let header = self.record_word(place, 0);
            let (kind, bytes) = (header as u32, header >> 48);
            if bytes < 8 || bytes % 8 != 0 || at + bytes > self.bytes() {
                break;
            }
            if kind == SAMPLE {
                let time_ns = self.record_word(place, 3);
                if time_ns <= since_ns {
                    break;
                }
                if (self.record_word(place, 2) >> 32) as u32 == tid
                    && let Some(entry) = fresh.places.get_mut(fresh.len)
                {
                    fresh.newest_ns = fresh.newest_ns.max(time_ns);
                    *entry = at as u32;
                    fresh.len += 1;
                }
            }
            at += bytes;
        }
        fresh
    }

    /// Samples newer than the head `read`, of whichever thread.
    #[must_use]
    pub fn fresh(&self, read: u64) -> Fresh {
        let head = self.head();
        let mut fresh = Fresh { places: [0; MOST_RECORDS], len: 0, head, newest_ns: 0 };
        let new = read.wrapping_sub(head).min(self.bytes());
        let mut at = 0;
        while at < new {
            let place = head.wrapping_add(at);
            let header = self.record_word(place, 0);
            let (kind, bytes) = (header as u32, header >> 48);
            if bytes < 8 || bytes % 8 != 0 || at + bytes > new {
                break;
            }
            if kind == SAMPLE {
                let Some(entry) = fresh.places.get_mut(fresh.len) else { break };
                *entry = at as u32;
                fresh.len += 1;
            }
            at += bytes;
        }
        fresh
    }

    /// Copies a record, its addresses to `to`, which gets the innermost ones if it is too short. `None`: it
    /// is damaged, or was written over meanwhile.
    #[must_use]
    pub fn read(&self, place: u64, to: &mut [u64]) -> Option<Expiry> {
        let header = self.record_word(place, 0);
        let words = (header >> 48) as usize / 8;
        let count = self.record_word(place, 4) as usize;
        if header as u32 != SAMPLE || count > words.saturating_sub(BEFORE_CHAIN) {
            return None;
        }
        let mut addresses = 0;
        for number in 0..count {
            let address = self.record_word(place, BEFORE_CHAIN + number);
            if address < FIRST_CONTEXT
                && let Some(entry) = to.get_mut(addresses)
            {
                *entry = address;
                addresses += 1;
            }
        }
        if addresses == 0 {
            *to.first_mut()? = self.record_word(place, 1);
            addresses = 1;
        }
        let behind = BEFORE_CHAIN + count;
        let known = words >= behind + BEHIND_CHAIN && self.record_word(place, behind) != 0;
        let expiry = Expiry {
            time_ns: self.record_word(place, 3),
            tid: (self.record_word(place, 2) >> 32) as u32,
            user: known.then(|| (self.record_word(place, behind + 2), self.record_word(place, behind + 1))),
            in_kernel: (header >> 32) as u32 & MODE_MASK == MODE_KERNEL,
            addresses,
        };
        self.stands(place, words as u64 * 8).then_some(expiry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A ring of one page as the kernel fills it.
    struct Ring {
        pages: Vec<AtomicU64>,
        head: u64,
    }

    impl Ring {
        fn new() -> Self {
            Ring { pages: (0..2 * PAGE_WORDS).map(|_| AtomicU64::new(0)).collect(), head: 0 }
        }

        fn write(&mut self, words: &[u64]) {
            self.head = self.head.wrapping_sub(words.len() as u64 * 8);
            for (i, word) in words.iter().enumerate() {
                let at = (self.head / 8).wrapping_add(i as u64) % PAGE_WORDS as u64;
                self.pages[PAGE_WORDS + at as usize].store(*word, Ordering::Relaxed);
            }
            self.pages[HEAD_WORD].store(self.head, Ordering::Relaxed);
        }

        fn sample(&mut self, time: u64, mode: u64, chain: &[u64]) {
            self.sample_of(5, time, mode, chain);
        }

        fn sample_of(&mut self, tid: u64, time: u64, mode: u64, chain: &[u64]) {
            let words = BEFORE_CHAIN + chain.len() + BEHIND_CHAIN;
            let mut record =
                vec![u64::from(SAMPLE) | mode << 32 | (words as u64 * 8) << 48, 7, tid << 32, time];
            record.push(chain.len() as u64);
            record.extend(chain);
            record.extend([2, 0x7ffe, 0x4000]);
            self.write(&record);
        }

        fn records(&self) -> Records<'_> {
            Records::new(&self.pages).expect("a page of records")
        }
    }

    fn times(ring: &Ring, read: u64) -> Vec<u64> {
        let records = ring.records();
        let fresh = records.fresh(read);
        fresh.oldest_first().filter_map(|at| Some(records.read(at, &mut [0; 128])?.time_ns)).collect()
    }

    #[test]
    fn records_are_read_oldest_first_and_once() {
        let mut ring = Ring::new();
        ring.sample(1, 2, &[]);
        ring.sample(2, 1, &[-128i64 as u64, 0xffff_ffff_8100_0000, 0xffff_ffff_8100_0100]);
        assert_eq!(times(&ring, 0), [1, 2]);
        let read = ring.head;
        assert_eq!(times(&ring, read), [0; 0]);
        ring.write(&[5 | 8 << 48]);
        ring.sample(3, 1, &[]);
        assert_eq!(times(&ring, read), [3], "and a record of another kind is passed over");
        let (records, mut chain) = (ring.records(), [0; 8]);
        let second = records.fresh(0).oldest_first().nth(1).expect("the second");
        let expiry = records.read(second, &mut chain).expect("whole");
        assert_eq!(chain[..expiry.addresses], [0xffff_ffff_8100_0000, 0xffff_ffff_8100_0100]);
        assert_eq!((expiry.user, expiry.in_kernel, expiry.tid), (Some((0x4000, 0x7ffe)), true, 5));
    }

    #[test]
    fn what_was_written_over_does_not_count() {
        let mut ring = Ring::new();
        let chain = [0xffff_ffff_8100_0000; 20];
        for time in 1..=40 {
            ring.sample(time, 1, &chain);
        }
        let room = 4096 / ((BEFORE_CHAIN + 20 + BEHIND_CHAIN) as u64 * 8);
        let seen = times(&ring, 0);
        assert_eq!(seen.len() as u64, room);
        assert_eq!(seen.last(), Some(&40));
        let oldest = ring.records().fresh(0).oldest_first().next().expect("one");
        ring.sample(41, 1, &chain);
        assert!(ring.records().read(oldest, &mut [0; 128]).is_none(), "the kernel came round to it");
    }

    #[test]
    fn of_a_shared_ring_each_thread_has_its_own() {
        let mut ring = Ring::new();
        for (time, tid) in [(1, 5), (2, 6), (3, 5), (4, 6), (5, 5)] {
            ring.sample_of(tid, time, 1, &[]);
        }
        let of = |tid, since| -> Vec<u64> {
            let records = ring.records();
            let fresh = records.fresh_of(tid, since);
            fresh.oldest_first().filter_map(|at| Some(records.read(at, &mut [0; 8])?.time_ns)).collect()
        };
        assert_eq!(of(5, 0), [1, 3, 5]);
        assert_eq!(of(6, 2), [4]);
        assert_eq!(of(7, 0), [0; 0]);
        assert_eq!(ring.records().fresh_of(6, 0).newest_ns, 4);
    }

    proptest! {
        #[test]
        fn any_octets_are_read_without_panic(words in proptest::collection::vec(any::<u64>(), 512), head: u64, read: u64, sizes: bool) {
            let mut ring = Ring::new();
            for (i, word) in words.into_iter().enumerate() {
                let word = if sizes { word & 0x0070_ffff_ffff_ffff | 9 } else { word };
                ring.pages[PAGE_WORDS + i].store(word, Ordering::Relaxed);
            }
            ring.head = head & !7;
            ring.pages[HEAD_WORD].store(ring.head, Ordering::Relaxed);
            let _ = times(&ring, read);
            let fresh = ring.records().fresh_of(5, read);
            prop_assert!(fresh.oldest_first().count() == fresh.count());
        }
    }
}
