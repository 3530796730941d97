//! Every order in which a thread that arms itself and a round that has found it can meet.
//!
//! The code is the sampler's own (`src/record/found.rs`, `src/record/slot.rs`) on simulated atomics. Each rule is
//! broken once, to see that the model finds it.

#![expect(clippy::duplicate_mod, reason = "the same code with a fence and without")]

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

#[path = "."]
mod fenced {
    mod sync {
        pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
        pub(super) fn light_fence() {
            fence(Ordering::SeqCst);
        }
    }
    #[path = "../src/record/found.rs"]
    #[allow(dead_code, unreachable_pub, reason = "the rings use all of it, a model some")]
    pub(crate) mod found;
    #[path = "../src/record/slot.rs"]
    #[allow(dead_code, unreachable_pub, reason = "the rings use all of it, a model some")]
    pub(crate) mod slot;
}

#[path = "."]
mod unfenced {
    mod sync {
        pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};
        pub(super) fn fence(_: Ordering) {}
    }
    #[path = "../src/record/found.rs"]
    #[allow(dead_code, unreachable_pub, reason = "the rings use all of it, a model some")]
    pub(crate) mod found;
}

use fenced::slot::Slot;

/// The thread that both are about.
const TID: u32 = 7;

/// The rings, as far as arming a thread goes: two slots, and whose they are.
struct Rings<FoundThread> {
    found: FoundThread,
    slots: [(Slot, AtomicU32); 2],
}

impl<FoundThread> Rings<FoundThread> {
    fn new(found: FoundThread) -> Arc<Self> {
        let slot = || (Slot { busy: AtomicU32::new(0), state: AtomicU32::new(0) }, AtomicU32::new(0));
        Arc::new(Rings { found, slots: [slot(), slot()] })
    }

    fn claim(&self) -> usize {
        let place = self.slots.iter().position(|(slot, _)| slot.claim()).expect("one for each");
        self.slots[place].1.store(TID, Ordering::Relaxed);
        place
    }

    fn arm(&self, place: usize) {
        self.slots[place].0.begin_arming();
        assert!(self.slots[place].0.armed(true));
    }

    /// How many slots are the thread's, but for one.
    fn taken(&self, but: Option<usize>) -> usize {
        let is_taken =
            |(slot, tid): &(Slot, AtomicU32)| slot.is_taken() && tid.load(Ordering::Relaxed) == TID;
        self.slots.iter().enumerate().filter(|(place, slot)| Some(*place) != but && is_taken(slot)).count()
    }

    fn is_armed(&self) -> bool {
        let is_live =
            |(slot, tid): &(Slot, AtomicU32)| slot.is_live_and_seen() && tid.load(Ordering::Relaxed) == TID;
        self.slots.iter().any(is_live)
    }
}

/// A thread is armed by itself and by a round, as `threads::arm` and `threads::discover` do it.
macro_rules! thread_and_round {
    ($found:ident, $by_itself:expr, $by_round:expr) => {
        loom::model(move || {
            let rings = Rings::new($found::found::FoundThread(AtomicU32::new(0)));
            let of_thread = Arc::clone(&rings);
            let newborn = thread::spawn(move || {
                let rings = &*of_thread;
                if rings.is_armed() {
                    return;
                }
                let place = rings.claim();
                if $by_itself(&rings.found, &|| rings.taken(Some(place)) > 0) {
                    rings.arm(place);
                } else {
                    rings.slots[place].0.free();
                }
            });
            if !rings.is_armed() && $by_round(&rings.found, &|| rings.taken(None) > 0) {
                rings.arm(rings.claim());
                rings.found.armed();
            }
            newborn.join().expect("ends");
            assert_eq!(rings.taken(None), 1, "slots of the thread");
        });
    };
}

type Look<'a> = &'a dyn Fn() -> bool;
type FoundThread = fenced::found::FoundThread;

#[test]
fn a_thread_that_is_found_while_it_arms_itself_has_one_slot() {
    let by_itself = |found: &FoundThread, look: Look<'_>| found.by_itself(TID, look);
    thread_and_round!(fenced, by_itself, |found: &FoundThread, look: Look<'_>| found.by_round(TID, look));
}

#[test]
#[should_panic(expected = "slots of the thread")]
fn without_the_fences_both_may_arm_it() {
    type FoundThread = unfenced::found::FoundThread;
    let by_itself = |found: &FoundThread, look: Look<'_>| found.by_itself(TID, look);
    thread_and_round!(unfenced, by_itself, |found: &FoundThread, look: Look<'_>| found.by_round(TID, look));
}

#[test]
#[should_panic(expected = "slots of the thread")]
fn the_thread_must_ask_what_the_round_has_decided() {
    let by_itself = |_: &FoundThread, look: Look<'_>| !look();
    thread_and_round!(fenced, by_itself, |found: &FoundThread, look: Look<'_>| found.by_round(TID, look));
}

#[test]
#[should_panic(expected = "slots of the thread")]
fn the_thread_must_look_for_the_slot_of_a_round_that_is_done() {
    let by_itself = |found: &FoundThread, _: Look<'_>| found.by_itself(TID, || false);
    thread_and_round!(fenced, by_itself, |found: &FoundThread, look: Look<'_>| found.by_round(TID, look));
}

#[test]
#[should_panic(expected = "slots of the thread")]
fn the_round_must_look_for_the_slot_of_a_thread_that_is_done() {
    let by_itself = |found: &FoundThread, look: Look<'_>| found.by_itself(TID, look);
    thread_and_round!(fenced, by_itself, |found: &FoundThread, _: Look<'_>| found.by_round(TID, || false));
}
