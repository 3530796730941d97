//! A thread's slot: who may use it, from its first owner to the next.
//!
//! ```text
//!           claim          begin_arming         armed
//!   FREE ----------> MAKING -----------> ARMING ------> LIVE
//!     ^                                    | end          | end (true: the caller frees it)
//!     |                                    v              v
//!     +---------- free -------------- ENDING <------------+
//! ```
//!
//! Handlers enter a slot that is `ARMING` or `LIVE`. Whoever takes it to `ENDING` frees it, with one exception: if it
//! was still being armed, who arms it does, because only that one knows which clocks it is about to have
//! ([`Slot::armed`]).
//!
//! A handler raises the busy flag before it reads the state, and who ends the slot writes the state before it reads the
//! flag. So either the handler sees that the slot ends, or the other sees the handler. That takes a full fence on both
//! sides. A fence would cost the handler a tenth of a sample, so it has none: its processor publishes the flag within a
//! fraction of a microsecond, and at the latest when the kernel takes the thread off it. Who ends a slot makes system
//! calls (it stops the thread's clock) between the two.
//!
//! A handler may be without a processor for any time while it is in a slot. So nobody else claims a slot whose flag is
//! up, whatever its state: the flag falls by [`Slot::exit`], or by [`Slot::abandon`] when the thread is dead.
//!
//! `tests/slot_model.rs` tries every order of this file's steps, and with each of its rules broken.
//!
//! Signal safety: loads and stores.

use super::sync::{AtomicU32, Ordering, fence, light_fence};

/// Not in use. (Zero, as fresh memory is.)
const FREE: u32 = 0;
/// Being set up; no handler enters it.
const MAKING: u32 = 1;
/// Its thread is sampled no more; no handler enters it.
const ENDING: u32 = 2;
/// Of a living thread whose clocks are being set up.
const ARMING: u32 = 3;
/// Of a living thread.
const LIVE: u32 = 4;

/// Why a handler may not write to a slot ([`Slot::enter`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEntered {
    /// Somebody writes there already.
    Busy,
    /// The thread is not sampled in this session any more. Perhaps the handler was without a processor while the
    /// session's file was closed.
    Ended,
}

/// All zeros is free.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) busy: AtomicU32,
    pub(crate) state: AtomicU32,
}

impl Slot {
    /// Whether its thread is sampled.
    #[inline(always)]
    pub(crate) fn is_live(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= ARMING
    }

    /// The same, for who reads next what its owner wrote.
    pub(crate) fn is_live_and_seen(&self) -> bool {
        self.state.load(Ordering::Acquire) >= ARMING
    }

    /// Whether it is a living thread's, or is being set up for one.
    pub(crate) fn is_taken(&self) -> bool {
        !matches!(self.state.load(Ordering::Acquire), FREE | ENDING)
    }

    /// Whether somebody is in it.
    pub(crate) fn is_busy(&self) -> bool {
        // Acquire: what was written in it is seen when it is left.
        self.busy.load(Ordering::Acquire) != 0
    }

    /// Takes it for the calling thread, until [`Slot::exit`]. The session's file and tables stay mapped meanwhile.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<(), NotEntered> {
        // Plain load and store: on its own thread the handler cannot meet itself, and an owner that is on two
        // threads at once is what this is to notice, not to survive at every instruction.
        if self.busy.load(Ordering::Relaxed) != 0 {
            core::hint::cold_path();
            return Err(NotEntered::Busy);
        }
        self.busy.store(1, Ordering::Relaxed);
        light_fence();
        if !self.is_live() {
            core::hint::cold_path();
            self.exit();
            return Err(NotEntered::Ended);
        }
        Ok(())
    }

    /// Ends what [`Slot::enter`] began.
    #[inline(always)]
    pub(crate) fn exit(&self) {
        self.busy.store(0, Ordering::Release);
    }

    /// Takes a free slot that nobody is in.
    pub(crate) fn claim(&self) -> bool {
        // Acquire: what its last owner wrote comes before what the next one writes.
        !self.is_busy()
            && self.state.compare_exchange(FREE, MAKING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// It is set up, and its clocks follow: their first signal may come at once.
    pub(crate) fn begin_arming(&self) {
        // Release: who sees that it lives sees what it was set up with.
        self.state.store(ARMING, Ordering::Release);
    }

    /// Its clocks are set up; `stays`: they are wanted. False: they are not, or somebody has ended the slot
    /// meanwhile. The caller stops them and frees it then.
    pub(crate) fn armed(&self, stays: bool) -> bool {
        if stays && self.state.compare_exchange(ARMING, LIVE, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            return true;
        }
        // A swap: who ends it at the same time finds it ended, or this finds that.
        self.state.swap(ENDING, Ordering::SeqCst);
        false
    }

    /// No handler enters it from now on. True: the caller stops the clocks, sees that nobody is in it
    /// ([`Slot::is_busy`]) and frees it. False: it has ended already, or who arms it will do that.
    pub(crate) fn end(&self) -> bool {
        let order = Ordering::SeqCst;
        let was_live = self.state.compare_exchange(LIVE, ENDING, order, order).is_ok();
        if !was_live {
            // (It may have become LIVE in between: then there is another try.)
            if self.state.compare_exchange(ARMING, ENDING, order, order) == Err(LIVE) {
                return self.end();
            }
        }
        fence(Ordering::SeqCst);
        was_live
    }

    /// The thread has ended, in whatever it was doing.
    pub(crate) fn abandon(&self) {
        self.busy.store(0, Ordering::Release);
    }

    /// Who has ended it is done.
    pub(crate) fn free(&self) {
        // Release: with `claim`.
        self.state.store(FREE, Ordering::Release);
    }
}
