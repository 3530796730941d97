//! A lock that nobody waits for.
//!
//! A handler may interrupt any code, so it must never wait for a lock; those who could wait would still meet a holder
//! that was preempted. So there is only `try_lock`, and each caller has another way when it fails: the housekeeper
//! skips its turn, the recorder writes the stack into the record itself, a growth is left to the one who is at it.
//!
//! Code outside of handlers blocks the sampling signals while it holds a lock ([`crate::process::session::quiet`]), so a handler
//! never finds a lock that its own thread holds, except when the host unblocks them: then it takes the other way.
//!
//! Signal safety: one compare-and-swap.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

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

    /// Takes the lock, giving way to other threads a bounded number of times. Not for handlers.
    pub fn lock_patiently(&self) -> Option<Guard<'_, T>> {
        for _ in 0..1000 {
            if let Some(guard) = self.try_lock() {
                return Some(guard);
            }
            crate::sys::sched_yield();
        }
        None
    }
}

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
