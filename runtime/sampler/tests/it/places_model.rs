//! Every order in which two threads can meet at the places of the live table: blocks entered and removed, thinned, and
//! reallocated while their address is given to another thread.
//!
//! The code is the table's own (`src/heap/places.rs`) on simulated atomics.

use std::sync::Arc;

use loom::thread;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

#[path = "../../src/heap/places.rs"]
#[allow(dead_code, reason = "the table uses all of it, a model some")]
mod places;

use places::{Places, Search, state};
use sync::AtomicU64;

/// The home of both addresses.
const HOME: usize = 0;
const FIRST: u64 = 0x1000;
const SECOND: u64 = 0x2000;

fn table(places: usize) -> Arc<Vec<AtomicU64>> {
    Arc::new((0..places).map(|_| AtomicU64::new(state::FREE)).collect())
}

fn insert(table: &[AtomicU64], address: u64) -> Option<usize> {
    let place = Places(table).claim(HOME, |_| true)?;
    Places(table).release(place, address);
    Some(place)
}

/// What a free does: it looks again while somebody works on a place.
fn remove(table: &[AtomicU64], address: u64, becomes: u64) -> bool {
    loop {
        match Places(table).claim_address(HOME, address) {
            Search::Found(place) => {
                Places(table).release(place, becomes);
                return true;
            }
            Search::Absent => return false,
            Search::Unsure => thread::yield_now(),
        }
    }
}

fn words(table: &[AtomicU64]) -> Vec<u64> {
    (0..table.len()).map(|place| Places(table).state_word(place)).collect()
}

#[test]
fn each_thread_finds_what_it_entered_and_nothing_is_left() {
    loom::model(|| {
        let table = table(2);
        let other = Arc::clone(&table);
        let thread = thread::spawn(move || {
            insert(&other, SECOND).expect("a place for each");
            assert!(remove(&other, SECOND, state::GHOST), "its own block");
        });
        insert(&table, FIRST).expect("a place for each");
        assert!(remove(&table, FIRST, state::FREE), "its own block");
        thread.join().expect("no panic");
        assert!(words(&table).iter().all(|word| matches!(*word, state::FREE | state::GHOST)));
    });
}

#[test]
fn one_place_is_given_to_one_thread() {
    loom::model(|| {
        let table = table(1);
        let other = Arc::clone(&table);
        let thread = thread::spawn(move || insert(&other, SECOND).is_some());
        let mine = insert(&table, FIRST).is_some();
        let its = thread.join().expect("no panic");
        assert!(mine != its, "the place went to both, or to nobody");
        assert_eq!(words(&table), [if mine { FIRST } else { SECOND }]);
    });
}

/// Thinning holds a block's place for a moment: the free of that block still finds it, or finds it gone.
#[test]
fn a_block_that_is_thinned_and_freed_at_once_is_gone() {
    for keeps in [true, false] {
        loom::model(move || {
            let table = table(1);
            insert(&table, FIRST).expect("a place");
            let other = Arc::clone(&table);
            let thread = thread::spawn(move || {
                if Places(&other).take_at(0, FIRST) {
                    Places(&other).release(0, if keeps { FIRST } else { state::FREE });
                    return true;
                }
                false
            });
            let removed = remove(&table, FIRST, state::FREE);
            let thinned = thread.join().expect("no panic");
            assert_eq!(words(&table), [state::FREE]);
            assert!(removed || thinned && !keeps, "nobody removed it");
        });
    }
}

/// A block in realloc moves, its address is given to another thread, which enters and frees it: both entries end.
#[test]
fn an_address_in_realloc_may_be_anothers_already() {
    loom::model(|| {
        let table = table(2);
        insert(&table, FIRST).expect("a place");
        let Search::Found(place) = Places(&table).begin_move(HOME, FIRST) else { panic!("it is there") };
        let other = Arc::clone(&table);
        let thread = thread::spawn(move || {
            insert(&other, FIRST).expect("a place for the newer one");
            assert!(remove(&other, FIRST, state::FREE), "the newer one");
        });
        assert!(Places(&table).take_at(place, FIRST | state::MOVING), "the older one");
        Places(&table).release(place, state::FREE);
        thread.join().expect("no panic");
        assert_eq!(words(&table), [state::FREE; 2]);
    });
}

/// A realloc that failed: the block is where it was, and can be freed.
#[test]
fn a_move_that_is_undone_leaves_the_block() {
    loom::model(|| {
        let table = table(2);
        insert(&table, FIRST).expect("a place");
        let Search::Found(place) = Places(&table).begin_move(HOME, FIRST) else { panic!("it is there") };
        let other = Arc::clone(&table);
        let thread = thread::spawn(move || insert(&other, SECOND).is_some());
        assert!(Places(&table).undo_move(place, FIRST));
        assert!(remove(&table, FIRST, state::FREE));
        assert!(thread.join().expect("no panic"));
    });
}

/// `realloc(NULL, n)` asks for no block: a search for it must not take a place that is free.
#[test]
fn what_is_no_address_is_found_nowhere() {
    loom::model(|| {
        let table = table(2);
        let moving = FIRST | state::MOVING;
        Places(&table).release(1, moving);
        for word in [state::FREE, state::BUSY, state::GHOST, moving] {
            Places(&table).release(0, word);
            assert_eq!(Places(&table).begin_move(HOME, word), Search::Absent, "{word:#x}");
            assert_eq!(Places(&table).claim_address(HOME, word), Search::Absent, "{word:#x}");
            assert_eq!(words(&table), [word, moving]);
        }
    });
}
