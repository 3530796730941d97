//! The live table: the sampled blocks that are live, and those that were at the peak.
//!
//! A place is private words that decide ([`super::places`]: the address; beside it what a free needs) and an
//! entry in the file at the same number, for readers. An entry's state is stored last when it is filled and
//! first when it is emptied.
//!
//! Signal safety: loads, stores and compare-and-swaps; nobody waits.

use core::sync::atomic::{AtomicU64, Ordering};

use pct_format::heap::{ENTRY_WORDS, EntryState, HeapEntry, entry};
use pct_format::layout::segment_kind;

use super::areas::{Area, Areas, Shape};
use super::places::{Places, Search, is_address, state};
use super::tags;
use crate::record::log::Log;
use crate::signal::stores_may_fault::StoresMayFault;
use crate::sys::arch::prefetch;

/// Areas of the table. Private: the address or state; then shift and flags and stack as in the entry, the
/// size, the time of the request (of the free, for a ghost).
pub(crate) type LiveAreas = Areas<5, 4>;

/// Their shape: 65,536 places, 3 MB of the file.
pub(crate) const SHAPE: Shape =
    Shape { kind: segment_kind::HEAP, words: ENTRY_WORDS, sizes: &[4096, 4096, 8192, 16_384, 32_768] };

/// A sampled block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its address.
    pub address: u64,
    /// Octets asked for.
    pub size: u64,
    /// How often the interval was doubled for its sample.
    pub shift: u32,
    /// [`pct_format::heap::entry_flag`].
    pub flags: u16,
    /// Stack of the request.
    pub stack: u32,
    /// Raw time of the request.
    pub allocated: u64,
}

/// A sampled block that is being reallocated.
#[derive(Clone, Copy, Debug)]
pub struct Moving {
    /// Number of the area in the upper half, of the place in the lower.
    pub place: u64,
    /// Where the block was.
    pub address: u64,
}

impl Moving {
    fn area(self) -> usize {
        (self.place >> 32) as usize
    }

    fn place(self) -> usize {
        (self.place & 0xffff_ffff) as usize
    }
}

/// Private words beside a place's first.
const HEAD: usize = 0;
const SIZE: usize = 1;
const TIME: usize = 2;
type Beside = [AtomicU64; 3];

/// Enters a block. Its tag is there already. False: no place near its home. Its address is one
/// ([`is_address`]).
pub(crate) fn insert(areas: &LiveAreas, log: &Log, block: &Block, tid: u32, peak_time: u64) -> bool {
    let home = tags::bucket(block.address);
    for area in areas.all() {
        let places = Places(area.private);
        let forgotten = |place: usize| {
            let freed = area.beside(place).map_or(u64::MAX, |b: &Beside| b[TIME].load(Ordering::Relaxed));
            freed <= peak_time
        };
        let Some(place) = places.claim(home, forgotten) else { continue };
        let head = HeapEntry::head(EntryState::Live, block.shift, block.flags, block.stack);
        if let Some(beside) = area.beside::<3>(place) {
            beside[HEAD].store(head, Ordering::Relaxed);
            beside[SIZE].store(block.size, Ordering::Relaxed);
            beside[TIME].store(block.allocated, Ordering::Relaxed);
        }
        if let Some(words) = area.entry::<ENTRY_WORDS>(log, place) {
            // Release and not relaxed: a reader that sees a new word below sees that the entry is being written.
            words[entry::STATE].store(EntryState::Busy as u64, Ordering::Relaxed);
            core::sync::atomic::fence(Ordering::Release);
            words[entry::ADDRESS].store(block.address, Ordering::Relaxed);
            words[entry::SIZE].store(block.size, Ordering::Relaxed);
            words[entry::ALLOCATED].store(block.allocated, Ordering::Relaxed);
            words[entry::FREED].store(0, Ordering::Relaxed);
            words[entry::TID].store(u64::from(tid), Ordering::Relaxed);
            words[entry::STATE].store(head, Ordering::Release);
        }
        places.release(place, block.address);
        return true;
    }
    false
}

/// A block of this address is entered soon: the lines of the cache that this takes come meanwhile.
pub(crate) fn expect(areas: &LiveAreas, log: &Log, address: u64) {
    let Some(area) = areas.all().next() else { return };
    let first = Places(area.private).first_of(tags::bucket(address));
    if let Some(word) = area.private.get(first) {
        prefetch(word);
    }
    if let Some(beside) = area.beside::<3>(first) {
        prefetch(beside);
    }
    if let Some(words) = area.entry::<ENTRY_WORDS>(log, first) {
        prefetch(words);
    }
    tags::ALL.expect(address);
}

/// A block whose place is the caller's, who empties it.
pub(crate) struct Taken<'a> {
    area: Area<'a>,
    place: usize,
    address: u64,
}

/// Takes the block with this address, if it is there. (Nothing is stored to the file yet.)
pub(crate) fn take_block(areas: &LiveAreas, address: u64) -> Option<Taken<'_>> {
    let home = tags::bucket(address);
    let (_, area, place) = search(areas, |places| places.claim_address(home, address))?;
    Some(Taken { area, place, address })
}

impl Taken<'_> {
    /// Removes the block at raw time `now`; a ghost stays when it was live at the peak.
    pub(crate) fn remove(self, log: &Log, now: u64, peak_time: u64) -> Block {
        empty(&self.area, log, self.place, self.address, now, peak_time)
    }
}

/// How often a search begins anew because somebody works on a place that may be the one.
const TRIES: u32 = 200;

/// Looks for a block in each area by `look`. Thinning makes places BUSY for a moment, one at a time: then it
/// looks again.
fn search<'a>(
    areas: &'a LiveAreas,
    look: impl Fn(&Places<'_>) -> Search,
) -> Option<(usize, Area<'a>, usize)> {
    for _ in 0..TRIES {
        let mut unsure = false;
        for (number, area) in areas.all().enumerate() {
            match look(&Places(area.private)) {
                Search::Found(place) => return Some((number, area, place)),
                Search::Unsure => unsure = true,
                Search::Absent => {}
            }
        }
        if !unsure {
            return None;
        }
        core::hint::spin_loop();
    }
    None
}

/// Empties a place that is BUSY and the caller's.
fn empty(area: &Area<'_>, log: &Log, place: usize, address: u64, now: u64, peak_time: u64) -> Block {
    let block = block_at(area, place, address);
    let is_ghost = block.allocated <= peak_time && peak_time < now;
    if let Some(words) = area.entry::<ENTRY_WORDS>(log, place) {
        if is_ghost {
            words[entry::FREED].store(now, Ordering::Relaxed);
            let head = HeapEntry::head(EntryState::Ghost, block.shift, block.flags, block.stack);
            words[entry::STATE].store(head, Ordering::Release);
        } else {
            words[entry::STATE].store(EntryState::Free as u64, Ordering::Release);
        }
    }
    if let Some(beside) = area.beside::<3>(place).filter(|_| is_ghost) {
        beside[TIME].store(now, Ordering::Relaxed);
    }
    Places(area.private).release(place, if is_ghost { state::GHOST } else { state::FREE });
    tags::ALL.sub(address);
    block
}

fn block_at(area: &Area<'_>, place: usize, address: u64) -> Block {
    let word = |at: usize| area.beside(place).map_or(0, |b: &Beside| b[at].load(Ordering::Relaxed));
    let head = word(HEAD);
    Block {
        address,
        size: word(SIZE),
        shift: (head >> 8 & 0xff) as u32,
        flags: (head >> 16) as u16,
        stack: (head >> 32) as u32,
        allocated: word(TIME),
    }
}

/// The block with this address, if it is there, is about to be reallocated.
pub(crate) fn begin_move(areas: &LiveAreas, log: &Log, may_call: bool, address: u64) -> Option<Moving> {
    let home = tags::bucket(address);
    let (number, area, place) = search(areas, |places| places.begin_move(home, address))?;
    let _stores = StoresMayFault::in_thread(may_call);
    set_state(&area, log, place, EntryState::Moving);
    Some(Moving { place: (number as u64) << 32 | place as u64, address })
}

/// The block stayed where it was, unchanged.
pub(crate) fn undo_move(areas: &LiveAreas, log: &Log, moving: &Moving) {
    if let Some(area) = areas.all().nth(moving.area())
        && Places(area.private).undo_move(moving.place(), moving.address)
    {
        set_state(&area, log, moving.place(), EntryState::Live);
    }
}

/// The block is gone: its entry is removed.
pub(crate) fn end_move(
    areas: &LiveAreas,
    log: &Log,
    moving: &Moving,
    now: u64,
    peak_time: u64,
) -> Option<Block> {
    let area = areas.all().nth(moving.area())?;
    let place = moving.place();
    let taken = Places(area.private).take_at(place, moving.address | state::MOVING);
    taken.then(|| empty(&area, log, place, moving.address, now, peak_time))
}

fn set_state(area: &Area<'_>, log: &Log, place: usize, state: EntryState) {
    if let (Some(words), Some(beside)) = (area.entry::<ENTRY_WORDS>(log, place), area.beside::<3>(place)) {
        let head = beside[HEAD].load(Ordering::Relaxed);
        let head = if state == EntryState::Free { 0 } else { head & !0xff | state as u64 };
        words[entry::STATE].store(head, Ordering::Release);
    }
}

/// What thinning does with an entry.
pub(crate) enum Fate {
    /// It stays as it is.
    Stays,
    /// It stays for more: so often was the interval doubled for it from now on.
    Shift(u32),
    /// It goes.
    Goes,
}

/// Asks for each block of the table, live or ghost, what becomes of it. Blocks that somebody works on are left out.
pub(crate) fn thin(areas: &LiveAreas, log: &Log, mut fate: impl FnMut(&Block, bool) -> Fate) {
    for area in areas.all() {
        let places = Places(area.private);
        for place in 0..area.private.len() {
            let word = places.state_word(place);
            let is_ghost = word == state::GHOST;
            if !is_ghost && !is_address(word) {
                continue;
            }
            let block = block_at(&area, place, if is_ghost { 0 } else { word });
            let fate = fate(&block, is_ghost);
            if matches!(fate, Fate::Stays) || !places.take_at(place, word) {
                continue;
            }
            // It is ours now; who frees the block meanwhile looks again.
            if let (Fate::Shift(shift), Some(beside)) = (&fate, area.beside::<3>(place)) {
                let kept = if is_ghost { EntryState::Ghost } else { EntryState::Live };
                let head = HeapEntry::head(kept, *shift, block.flags, block.stack);
                beside[HEAD].store(head, Ordering::Relaxed);
                set_state(&area, log, place, kept);
                places.release(place, word);
                continue;
            }
            set_state(&area, log, place, EntryState::Free);
            places.release(place, state::FREE);
            if !is_ghost {
                tags::ALL.sub(block.address);
            }
        }
    }
}
