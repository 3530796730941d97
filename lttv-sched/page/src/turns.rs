//! Turns for what takes long: the sums of a range are computed for one asker at a time, and of each page only what it
//! asked for last. Else a page that moves on every second would leave sums behind that nobody waits for, and they
//! would keep its tiles waiting.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Most pages that are remembered.
const MOST_PAGES: usize = 1000;

#[derive(Default)]
struct State {
    is_busy: bool,
    /// The number of the last question of each page.
    newest: HashMap<u64, u64>,
}

/// Gives turns.
#[derive(Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

/// A question of a page: its number and that of the question, which grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    pub(crate) page: u64,
    pub(crate) number: u64,
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Computes an answer when it is this question's turn. None: its page has asked something else since.
    pub(crate) fn answer<T>(&self, question: Question, compute: impl FnOnce() -> T) -> Option<T> {
        let mut state = self.state();
        if state.newest.len() >= MOST_PAGES && !state.newest.contains_key(&question.page) {
            state.newest.clear();
        }
        let newest = state.newest.entry(question.page).or_default();
        *newest = question.number.max(*newest);
        // Who waits and is not the newest any more goes.
        self.changed.notify_all();
        loop {
            if state.newest.get(&question.page).is_some_and(|newest| *newest > question.number) {
                return None;
            }
            if !state.is_busy {
                break;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_busy = true;
        drop(state);
        let _end = Turn(self);
        Some(compute())
    }
}

/// Ends when it is dropped, also by a panic.
struct Turn<'t>(&'t Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state().is_busy = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_question_that_waits_goes_when_its_page_asks_another_one() {
        let turns = &Turns::default();
        let question = |page, number| Question { page, number };
        let (begun, has_begun) = channel();
        let (go, may_go) = channel::<()>();
        std::thread::scope(|scope| {
            let first = scope.spawn(move || {
                turns.answer(question(1, 1), move || {
                    begun.send(()).expect("somebody waits");
                    may_go.recv().expect("told to go on");
                    1
                })
            });
            has_begun.recv().expect("begins");
            let second = scope.spawn(move || turns.answer(question(1, 2), || 2));
            let third = scope.spawn(move || turns.answer(question(1, 3), || 3));
            let other = scope.spawn(move || turns.answer(question(2, 1), || 4));
            // The second goes without a turn, whether it came before the third or after it.
            assert_eq!(second.join().expect("no panic"), None);
            go.send(()).expect("waits");
            assert_eq!(first.join().expect("no panic"), Some(1));
            assert_eq!(third.join().expect("no panic"), Some(3));
            assert_eq!(other.join().expect("no panic"), Some(4));
        });
        assert_eq!(turns.answer(question(1, 2), || 5), None);
        assert_eq!(turns.answer(question(1, 4), || 6), Some(6));
    }

    #[test]
    fn a_panic_ends_a_turn() {
        let turns = Turns::default();
        let question = Question { page: 1, number: 1 };
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            turns.answer(question, || panic!("on purpose"))
        }));
        assert!(panicked.is_err());
        assert_eq!(turns.answer(question, || 1), Some(1));
    }
}
