//! What glibc's locks look like inside, as far as it says whether a thread would have to wait.
//!
//! The offsets are part of glibc's binary interface: programs have initialised locks in their data since 2.3 (the
//! rwlock's since 2.25). Each word is read once, without order: whatever it says may be over a moment later.

use crate::host::definer;

/// Offsets in `pthread_mutex_t`.
mod mutex {
    pub(super) const COUNT: u64 = 4;
    pub(super) const OWNER: u64 = 8;
    pub(super) const KIND: u64 = 16;
    /// The type in the kind; other bits say robust, inheriting and the like.
    pub(super) const TYPE: u32 = 3;
    pub(super) const RECURSIVE: u32 = 1;
    pub(super) const ERROR_CHECKING: u32 = 2;
    /// The kind's bit of a mutex that has a priority ceiling, and the ceiling's bits in the lock's word.
    pub(super) const HAS_CEILING: u32 = 64;
    pub(super) const CEILING: u32 = 0xfff8_0000;
}

/// `pthread_rwlock_t`: its first word, and where its preference is.
mod rwlock {
    /// Writers have, or had last, the lock.
    pub(super) const WRITE_PHASE: u32 = 1;
    /// A writer has the lock, or waits until it is the next one.
    pub(super) const WRITER: u32 = 2;
    /// The readers are counted above these bits.
    pub(super) const READERS_SHIFT: u32 = 3;
    pub(super) const PREFERENCE: u64 = 48;
    /// PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP.
    pub(super) const PREFERS_WRITERS: u32 = 2;
}

/// Whether the C library is one whose locks are known.
pub(super) fn are_known() -> bool {
    definer(b"gnu_get_libc_version", true).is_some()
}

/// A word of an object that the caller has just handed to a function that reads it.
fn read_word(at: u64) -> u32 {
    // SAFETY: within a lock that the program passes to its C library, which reads the same words.
    unsafe { (at as *const u32).read_volatile() }
}

/// Whether a mutex is taken.
pub(super) fn mutex_is_taken(mutex: u64) -> bool {
    let word = read_word(mutex);
    word != 0 && (read_word(mutex + mutex::KIND) & mutex::HAS_CEILING == 0 || word & !mutex::CEILING != 0)
}

/// Whether a thread that wants to read has to wait.
pub(super) fn readers_wait(lock: u64) -> bool {
    let word = read_word(lock);
    let is_next = word & rwlock::WRITER != 0;
    let is_read = word & rwlock::WRITE_PHASE == 0;
    let prefers_writers = || read_word(lock + rwlock::PREFERENCE) == rwlock::PREFERS_WRITERS;
    is_next && (!is_read || word >> rwlock::READERS_SHIFT != 0 && prefers_writers())
}

/// Whether a thread that wants to write has to wait.
pub(super) fn writers_wait(lock: u64) -> bool {
    let word = read_word(lock);
    word & rwlock::WRITER != 0 || word >> rwlock::READERS_SHIFT != 0
}

/// Whether the thread has this mutex and may or must not wait for itself: a recursive lock, or an error.
pub(super) fn locks_again(mutex: u64, tid: u32) -> bool {
    let kind = read_word(mutex + mutex::KIND) & mutex::TYPE;
    matches!(kind, mutex::RECURSIVE | mutex::ERROR_CHECKING) && read_word(mutex + mutex::OWNER) == tid
}

/// Whether an unlock of this mutex leaves it taken: one of several recursive locks.
pub(super) fn stays_taken(mutex: u64) -> bool {
    read_word(mutex + mutex::KIND) & mutex::TYPE == mutex::RECURSIVE && read_word(mutex + mutex::COUNT) > 1
}
