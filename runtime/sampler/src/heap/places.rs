//! The private half of the live table: which place has the block of which address.
//!
//! ```text
//! FREE -> BUSY -> address -> BUSY -> FREE
//!                  |   ^       \---> GHOST -> BUSY
//!                  v   |
//!              MOVING | address
//! ```
//!
//! A place is claimed by a compare-and-swap and has one owner while it is BUSY. Only who frees a block has its address,
//! so two removals of one block can only be the program's own error; one of them wins. A block in realloc is
//! MOVING: the allocator may give its address to another thread at any moment, whose entry is then the newer
//! one.
//!
//! `tests/places_model.rs` tries every order of two threads with this file's code.
//!
//! Signal safety: loads, stores and compare-and-swaps; nobody waits.

use super::sync::{AtomicU64, Ordering};

/// What a place's word says, beside an address.
pub(crate) mod state {
    /// Nothing there.
    pub(crate) const FREE: u64 = 0;
    /// Somebody fills or empties it.
    pub(crate) const BUSY: u64 = 1;
    /// A freed block that was live at the peak.
    pub(crate) const GHOST: u64 = 2;
    /// Set beside the address of a block in realloc. No address has this bit: the program's end below it, and
    /// those of blocks that the program tells of have the bit above it.
    pub(crate) const MOVING: u64 = 1 << 62;
}

/// Whether a place's word is the address of a block that nobody works on. A null pointer is not an address:
/// a search for it would find the places that are free.
pub(crate) const fn is_address(word: u64) -> bool {
    word > state::GHOST && word & state::MOVING == 0
}

/// What looking for an address came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// It is at this place.
    Found(usize),
    /// It is nowhere.
    Absent,
    /// Somebody works on a place that may be the one: look again.
    Unsure,
}

/// Places that are looked at for one address: two lines of the cache.
pub(crate) const WINDOW: usize = 16;
const GROUP: usize = 8;

/// Words of places; their number is a power of two, at least [`WINDOW`] (fewer in tests).
#[derive(Clone, Copy)]
pub(crate) struct Places<'a>(pub(crate) &'a [AtomicU64]);

impl Places<'_> {
    /// The places where a block of this home may be.
    fn window(&self, home: usize) -> impl Iterator<Item = usize> + use<> {
        let mask = self.0.len().wrapping_sub(1);
        let first = self.first_of(home);
        (0..WINDOW.min(self.0.len())).map(move |i| first.wrapping_add(i) & mask)
    }

    /// The place that a search for a block of this home looks at first.
    pub(crate) fn first_of(&self, home: usize) -> usize {
        home & !(GROUP - 1) & self.0.len().wrapping_sub(1)
    }

    /// Claims a place: a free one, or a ghost's that `is_forgotten`. It is BUSY then, and the caller's.
    pub(crate) fn claim(&self, home: usize, is_forgotten: impl Fn(usize) -> bool) -> Option<usize> {
        self.window(home).find(|&at| {
            let Some(word) = self.0.get(at) else { return false };
            let was = word.load(Ordering::Relaxed);
            let usable = was == state::FREE || was == state::GHOST && is_forgotten(at);
            // Acquire: with `release`, what the last owner wrote is seen.
            usable && word.compare_exchange(was, state::BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }

    /// The owner of a BUSY place gives it a word: an address or a state.
    pub(crate) fn release(&self, place: usize, word: u64) {
        if let Some(place) = self.0.get(place) {
            // Release: whoever sees it sees what belongs to it.
            place.store(word, Ordering::Release);
        }
    }

    /// Takes the place that has this address, if there is one. It is BUSY then.
    pub(crate) fn claim_address(&self, home: usize, address: u64) -> Search {
        self.search(home, address, state::BUSY)
    }

    /// Takes a place if it has this word.
    pub(crate) fn take_at(&self, place: usize, word: u64) -> bool {
        self.change(place, word, state::BUSY)
    }

    /// Says of the block with this address that it is in realloc: its place.
    pub(crate) fn begin_move(&self, home: usize, address: u64) -> Search {
        self.search(home, address, address | state::MOVING)
    }

    /// Looks at each place once, and gives the one with this address another word. A place that is BUSY may
    /// be the one: it is asked for in the same pass, because between two passes it may have become the
    /// address again.
    fn search(&self, home: usize, address: u64, to: u64) -> Search {
        if !is_address(address) {
            return Search::Absent;
        }
        let mut result = Search::Absent;
        for at in self.window(home) {
            let Some(place) = self.0.get(at) else { continue };
            // Acquire: with `release`.
            match place.load(Ordering::Acquire) {
                word if word == address => {
                    if self.change(at, address, to) {
                        return Search::Found(at);
                    }
                    result = Search::Unsure;
                }
                state::BUSY => result = Search::Unsure,
                _ => {}
            }
        }
        result
    }

    /// The realloc failed: the block is where it was.
    pub(crate) fn undo_move(&self, place: usize, address: u64) -> bool {
        self.change(place, address | state::MOVING, address)
    }

    /// What a place's word says now.
    pub(crate) fn state_word(&self, place: usize) -> u64 {
        self.0.get(place).map_or(state::BUSY, |word| word.load(Ordering::Acquire))
    }

    fn change(&self, place: usize, from: u64, to: u64) -> bool {
        let Some(word) = self.0.get(place) else { return false };
        word.load(Ordering::Relaxed) == from
            // Acquire: with `release`.
            && word.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}
