//! A lock that nobody waits for.
//!
//! A handler may interrupt any code, so it must never wait for a lock; those who could wait would still meet a holder
//! that was preempted. So there is only `try_lock`, and each caller has another way when it fails: the housekeeper
//! skips its turn, the recorder writes the stack into the record itself, a growth is left to the one who is at it.
//!
//! Code outside of handlers blocks the sampling signals while it holds a lock
//! ([`crate::process::session::quiet`]), so a handler never finds a lock that its own thread holds, except
//! when the host unblocks them: then it takes the other way.
//!
//! Signal safety: one compare-and-swap.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use super::sleep;

/// A value that one at a time may use. All zeros is a valid, free lock if all zeros is a valid `T`.
#[derive(Debug)]
#[repr(C)]
pub struct Lock<T> {
    taken: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one guard at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// Free.
    pub const fn new(value: T) -> Self {
        Lock { taken: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        // Acquire: what the last holder wrote is seen. A failure needs no order.
        self.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Guard { lock: self })
    }

    /// For the child of a fork: a thread that held it does not exist there.
    pub fn free_in_child(&self) {
        self.taken.store(0, Ordering::Release);
    }

    /// Takes the lock, and waits for its holder for some time. Not for handlers: the holder may have lost the
    /// processor, on a loaded machine for some tens of milliseconds. `may_call`: system calls may be made;
    /// without them the wait is short.
    pub fn lock_patiently(&self, may_call: bool) -> Option<Guard<'_, T>> {
        let mut pause = FIRST_PAUSE_NS;
        let mut waited = 0;
        for tried in 1.. {
            if let Some(guard) = self.try_lock() {
                return Some(guard);
            }
            if tried < TRIES_WITHOUT_PAUSE {
                core::hint::spin_loop();
            } else if waited >= MOST_WAIT_NS || !may_call {
                break;
            } else {
                sleep(pause);
                waited += pause;
                pause = (2 * pause).min(LONGEST_PAUSE_NS);
            }
        }
        None
    }
}

/// How long [`Lock::lock_patiently`] waits, at most.
const MOST_WAIT_NS: u64 = 250_000_000;
/// Tries that follow each other at once: most locks are held for about a microsecond.
const TRIES_WITHOUT_PAUSE: u32 = 100;
/// The first and the longest of the pauses between later tries.
const FIRST_PAUSE_NS: u64 = 20_000;
const LONGEST_PAUSE_NS: u64 = 1_000_000;

/// Access to a lock's value.
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is held by this guard alone.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held by this guard alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // Release: the next holder sees what was written.
        self.lock.taken.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_holder_that_lost_the_processor_is_waited_for() {
        let lock = Lock::new(1);
        std::thread::scope(|scope| {
            let held = lock.try_lock().expect("free");
            let waits = scope.spawn(|| lock.lock_patiently(true).map(|value| *value));
            // Longer than tries without a pause take.
            std::thread::sleep(Duration::from_millis(20));
            drop(held);
            assert_eq!(waits.join().expect("ends"), Some(1));
        });
    }

    #[test]
    fn a_lock_that_is_never_free_is_not_waited_for_for_good() {
        let lock = Lock::new(());
        let _held = lock.try_lock().expect("free");
        assert!(lock.lock_patiently(true).is_none());
        assert!(lock.lock_patiently(false).is_none());
    }
}
