//! Every order in which a handler, who switches sampling off, who arms the thread and the next owner can meet at a
//! thread's slot.
//!
//! The code is the sampler's own (`src/record/slot.rs`) on simulated atomics. The fence that a handler does without is
//! there in the model (the file's head says what takes its place); `unfenced` shows what it is for. Each rule is
//! broken once, to see that the model finds it.

#![expect(clippy::duplicate_mod, reason = "the same code with a fence and without")]
#![expect(
    clippy::arc_with_non_send_sync,
    reason = "loom's cells are of one thread; it runs the model's threads on it"
)]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;

#[path = "."]
mod fenced {
    mod sync {
        pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
        pub(super) fn light_fence() {
            fence(Ordering::SeqCst);
        }
    }
    #[path = "../src/record/slot.rs"]
    #[allow(dead_code, unreachable_pub, reason = "the rings use all of it, a model some")]
    pub(crate) mod slot;
}

#[path = "."]
mod unfenced {
    mod sync {
        pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
        pub(super) fn light_fence() {}
    }
    #[path = "../src/record/slot.rs"]
    #[allow(dead_code, unreachable_pub, reason = "the rings use all of it, a model some")]
    pub(crate) mod slot;
}

/// A slot in this state. 0 free, 3 arming, 4 live: see the file's head.
macro_rules! slot {
    ($slot:path, $state:expr) => {{
        use $slot as slot;
        slot::Slot { busy: AtomicU32::new(0), state: AtomicU32::new($state) }
    }};
}

const FREE: u32 = 0;
const LIVE: u32 = 4;

/// What only one may touch at a time: the segment, and what the slot is set up with.
type Owned = UnsafeCell<u32>;

fn touch(owned: &Owned) {
    // SAFETY: loom's cell checks that nobody else is in it.
    owned.with_mut(|inside| unsafe { *inside += 1 });
}

/// A thread's handler samples while another thread switches sampling off and then on again, where a third thread gets
/// the slot.
macro_rules! handler_and_end {
    ($slot:path, $looks:expr, $claim:expr) => {
        loom::model(move || {
            let shared = Arc::new((slot!($slot, LIVE), Owned::new(0)));
            let of_handler = Arc::clone(&shared);
            let handler = thread::spawn(move || {
                let (slot, owned) = &*of_handler;
                if slot.enter().is_ok() {
                    touch(owned);
                    slot.exit();
                }
            });
            let (slot, owned) = &*shared;
            assert!(slot.end(), "it was live");
            if !$looks || !slot.is_busy() {
                touch(owned);
            }
            slot.free();
            if $claim(slot) {
                touch(owned);
            }
            handler.join().expect("ends");
        });
    };
}

#[test]
fn nobody_is_in_a_slot_with_its_handler() {
    handler_and_end!(fenced::slot, true, fenced::slot::Slot::claim);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_fence_both_may_miss_each_other() {
    handler_and_end!(unfenced::slot, true, unfenced::slot::Slot::claim);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn who_ends_a_slot_must_see_that_nobody_is_in_it() {
    handler_and_end!(fenced::slot, false, fenced::slot::Slot::claim);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_free_slot_that_somebody_is_in_must_not_be_claimed() {
    let by_state = |slot: &fenced::slot::Slot| {
        slot.state.compare_exchange(FREE, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    handler_and_end!(fenced::slot, true, by_state);
}

type Slot = fenced::slot::Slot;

struct Session {
    slot: Slot,
    owned: Owned,
    /// Whether sampling is on.
    on: AtomicU32,
    /// The slot's clock: whose it is, 0 = it is stopped.
    clock: AtomicU32,
}

impl Session {
    fn new(state: u32) -> Arc<Self> {
        let (on, clock) = (AtomicU32::new(1), AtomicU32::new(0));
        Arc::new(Session { slot: slot!(fenced::slot, state), owned: Owned::new(0), on, clock })
    }

    /// As `threads::disarm_all` does it. `takes` says whether the slot is the caller's to free.
    fn switch_off(&self, takes: impl Fn(&Slot) -> bool) {
        self.on.store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.slot.is_live_and_seen() {
            let takes = takes(&self.slot);
            self.clock.swap(0, Ordering::AcqRel);
            if takes {
                self.slot.free();
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.clock.load(Ordering::Acquire) == 0 && self.slot.state.load(Ordering::Acquire) == FREE
    }
}

/// A thread is armed while another switches sampling off; perhaps a third then gets the slot.
fn arming_and_end(takes: fn(&Slot) -> bool, looks_if_on: bool) {
    loom::model(move || {
        let session = Session::new(FREE);
        let arming = Arc::clone(&session);
        let armer = thread::spawn(move || {
            let s = &*arming;
            if !s.slot.claim() {
                return;
            }
            touch(&s.owned);
            s.slot.begin_arming();
            s.clock.swap(1, Ordering::AcqRel);
            fence(Ordering::SeqCst);
            let stays = !looks_if_on || s.on.load(Ordering::Relaxed) != 0;
            if !s.slot.armed(stays) {
                s.clock.swap(0, Ordering::AcqRel);
                touch(&s.owned);
                s.slot.free();
            }
        });
        session.switch_off(takes);
        let next = session.slot.claim();
        if next {
            touch(&session.owned);
        }
        armer.join().expect("ends");
        if !next {
            let left = (session.clock.load(Ordering::Acquire), session.slot.state.load(Ordering::Acquire));
            assert_eq!(left, (0, FREE), "a clock goes on in a session that is off");
        }
    });
}

#[test]
fn a_thread_that_is_armed_while_sampling_ends_has_no_clock_afterwards() {
    arming_and_end(Slot::end, true);
}

#[test]
#[should_panic(expected = "a clock goes on")]
fn who_arms_must_look_whether_it_is_on() {
    arming_and_end(Slot::end, false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_slot_that_is_being_armed_is_not_for_others_to_free() {
    arming_and_end(
        |slot| {
            slot.end();
            true
        },
        true,
    );
}

/// A handler sets up its thread's clock anew (`expiry::arm_again`) while another thread switches sampling off.
fn arming_again_and_end(looks: bool) {
    loom::model(move || {
        let session = Session::new(LIVE);
        session.clock.store(1, Ordering::Relaxed);
        let of_handler = Arc::clone(&session);
        let handler = thread::spawn(move || {
            let s = &*of_handler;
            if s.slot.enter().is_err() {
                return;
            }
            s.clock.swap(2, Ordering::AcqRel);
            fence(Ordering::SeqCst);
            if looks && (s.on.load(Ordering::Relaxed) == 0 || !s.slot.is_live()) {
                s.clock.swap(0, Ordering::AcqRel);
            }
            s.slot.exit();
        });
        session.switch_off(Slot::end);
        handler.join().expect("ends");
        assert!(session.is_stopped(), "a clock goes on in a session that is off");
    });
}

#[test]
fn a_clock_that_is_set_up_anew_while_sampling_ends_is_stopped() {
    arming_again_and_end(true);
}

#[test]
#[should_panic(expected = "a clock goes on")]
fn who_sets_up_a_clock_anew_must_look_whether_the_slot_lives() {
    arming_again_and_end(false);
}

/// Two ends at the same time (a round that finds sampling off, and who switched it off): one frees.
#[test]
fn two_that_end_a_slot_free_it_once() {
    loom::model(|| {
        let shared = Arc::new((slot!(fenced::slot, LIVE), AtomicU32::new(0)));
        let of_other = Arc::clone(&shared);
        let end = |shared: &(Slot, AtomicU32)| {
            if shared.0.is_live_and_seen() && shared.0.end() {
                shared.1.fetch_add(1, Ordering::Relaxed);
                shared.0.free();
            }
        };
        let other = thread::spawn(move || end(&of_other));
        end(&shared);
        other.join().expect("ends");
        assert_eq!(shared.1.load(Ordering::SeqCst), 1);
    });
}
