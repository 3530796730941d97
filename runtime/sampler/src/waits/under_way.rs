//! Waits that are not over: one for each thread that has a ring.
//!
//! A thread that is cancelled never returns from its wait, and one that waits at the end of the process has no record
//! of it yet. Both are found here: when another thread gets the ring, and when the recording is closed.
//!
//! Signal safety: loads, stores and swaps.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pct_format::record::{Wait, WaitKind};

use crate::record::log::MAX_RINGS;

/// One thread's wait. `began` is 0 while the thread does not wait; it is stored last and taken by a swap.
#[derive(Debug)]
#[repr(C)]
struct Slot {
    began: AtomicU64,
    object: AtomicU64,
    mutex: AtomicU64,
    stack: AtomicU32,
    tid: AtomicU32,
    kind: AtomicU64,
    /// Where the call's frame is on the stack.
    frame: AtomicU64,
    /// The futex for which a thread with this ring waited last; 0 = none, or it was asked for since.
    last_futex: AtomicU64,
}

/// All of them, in memory that the child of a fork finds empty ([`super::install`]).
#[repr(C, align(4096))]
#[derive(Debug)]
pub(super) struct UnderWay([Slot; MAX_RINGS]);

pub(super) static ALL: UnderWay = UnderWay(
    [const {
        Slot {
            began: AtomicU64::new(0),
            object: AtomicU64::new(0),
            mutex: AtomicU64::new(0),
            stack: AtomicU32::new(0),
            tid: AtomicU32::new(0),
            kind: AtomicU64::new(0),
            frame: AtomicU64::new(0),
            last_futex: AtomicU64::new(0),
        }
    }; MAX_RINGS],
);

impl Slot {
    fn take_wait(&self) -> Option<Wait> {
        let time = self.began.swap(0, Ordering::Acquire);
        (time != 0).then(|| Wait {
            stack: self.stack.load(Ordering::Relaxed),
            time,
            length: 0,
            tid: self.tid.load(Ordering::Relaxed),
            kind: self.kind.load(Ordering::Relaxed),
            object: self.object.load(Ordering::Relaxed),
            mutex: self.mutex.load(Ordering::Relaxed),
            result: 0,
        })
    }
}

impl UnderWay {
    /// Enters a wait of the thread with this ring. False: it waits already (a handler of its waits too).
    pub(super) fn enter(&self, ring: u32, wait: &Wait, frame: u64) -> bool {
        let Some(slot) = self.0.get(ring as usize).filter(|s| s.began.load(Ordering::Relaxed) == 0) else {
            return false;
        };
        slot.object.store(wait.object, Ordering::Relaxed);
        slot.mutex.store(wait.mutex, Ordering::Relaxed);
        slot.stack.store(wait.stack, Ordering::Relaxed);
        slot.tid.store(wait.tid, Ordering::Relaxed);
        slot.kind.store(wait.kind, Ordering::Relaxed);
        slot.frame.store(frame, Ordering::Relaxed);
        // Release: whoever takes the wait sees the rest of it.
        slot.began.store(wait.time, Ordering::Release);
        true
    }

    /// The thread with this ring waits no more. False: somebody else has taken its wait and recorded it.
    pub(super) fn leave(&self, ring: u32) -> bool {
        self.0.get(ring as usize).is_some_and(|slot| slot.began.swap(0, Ordering::Acquire) != 0)
    }

    /// Thread `tid` begins a wait, with its frame at this address: takes the wait that was left behind with this
    /// ring. Either an earlier thread ended in it, or this thread left it by a jump out of a signal handler. If a
    /// handler waits while the wait that it interrupted goes on, the handler's frame has the lower address.
    pub(super) fn take_left_behind(&self, ring: u32, tid: u32, frame: u64) -> Option<Wait> {
        let slot = self.0.get(ring as usize).filter(|s| s.began.load(Ordering::Relaxed) != 0)?;
        let is_left = slot.tid.load(Ordering::Relaxed) != tid || slot.frame.load(Ordering::Relaxed) <= frame;
        if is_left { slot.take_wait() } else { None }
    }

    /// The thread with this ring has waited for a futex.
    pub(super) fn waited_for_futex(&self, ring: u32, futex: u64) {
        if let Some(slot) = self.0.get(ring as usize) {
            slot.last_futex.store(futex, Ordering::Relaxed);
        }
    }

    /// Whether the thread with this ring waited for this futex last; the next answer is no.
    pub(super) fn was_last_futex(&self, ring: u32, futex: u64) -> bool {
        self.0.get(ring as usize).is_some_and(|slot| {
            slot.last_futex.compare_exchange(futex, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        })
    }

    /// Takes the wait of the thread with this ring, whoever it is.
    pub(super) fn take_wait(&self, ring: u32) -> Option<Wait> {
        self.0.get(ring as usize)?.take_wait()
    }

    /// Where they are, for the kernel.
    pub(super) fn memory(&self) -> (*mut u8, usize) {
        (self.0.as_ptr().cast_mut().cast(), size_of::<Self>())
    }
}

const _: () = assert!(WaitKind::ALL.len() < 1 << 8, "a kind is a small number");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_taken_once_and_one_that_was_left_behind_is_found() {
        let wait =
            Wait { stack: 1, time: 5, length: 0, tid: 77, kind: 1, object: 0x1000, mutex: 0, result: 0 };
        assert!(ALL.enter(3, &wait, 5000));
        assert!(!ALL.enter(3, &wait, 4000), "a handler's wait inside of it");
        assert_eq!(ALL.take_left_behind(3, 77, 4000), None);
        assert_eq!(ALL.take_left_behind(3, 78, 4000), Some(wait));
        assert!(!ALL.leave(3) && ALL.take_wait(3).is_none());
        assert!(ALL.enter(3, &wait, 5000));
        assert_eq!(ALL.take_left_behind(3, 77, 5000), Some(wait), "left by a jump");
        assert!(ALL.enter(3, &wait, 5000) && ALL.leave(3));
        assert!(!ALL.enter(u32::MAX, &wait, 5000));
        ALL.waited_for_futex(3, 0x2000);
        assert!(
            !ALL.was_last_futex(3, 0x1000) && ALL.was_last_futex(3, 0x2000) && !ALL.was_last_futex(3, 0x2000)
        );
    }
}
