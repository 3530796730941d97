//! Traces that grow, or are replaced, while a page of them is open: they are opened again, and the page goes over to
//! what was read then.
//!
//! Who opened them says whether they have changed ([`Origin`]). A page that is looked at asks for news
//! ([`Live::check_for_changes`]); then they are read again by a thread of its own, at most once a second and for at
//! most a fifth of the time. Nothing is read while nobody looks.
//!
//! Invariant: a store that pages are answered from does not change; there is another one with a greater revision.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::store::{Shown, Store};

/// Where the traces of a page come from.
pub trait Origin: Send + Sync {
    /// A number that is another one when what was opened has changed since: it has grown, was replaced or is gone.
    fn stamp(&self) -> u64;

    /// Whether somebody still writes.
    fn is_written(&self) -> bool;

    /// Opens all of it again.
    ///
    /// # Errors
    /// Why nothing can be read; in words.
    fn open(&self) -> Result<Vec<Shown>, String>;
}

/// Shortest time from one look to the next.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// A pause is at least so many times as long as reading took.
const PAUSE_OF_COST: u32 = 4;
/// How long a pass over traces that were opened again may take before pages go over to them unfinished.
const PATIENCE: Duration = Duration::from_secs(60);

/// What pages are answered from, as of some instant.
#[derive(Clone)]
pub(crate) struct AsOf {
    pub(crate) store: Arc<Store>,
    /// Counts how often the traces were opened.
    pub(crate) revision: u64,
    /// Somebody wrote when this was opened.
    pub(crate) is_written: bool,
    opened: Instant,
    stamp: u64,
}

impl AsOf {
    fn new(store: Store, revision: u64, stamp: u64, is_written: bool) -> AsOf {
        AsOf { store: Arc::new(store), revision, is_written, opened: Instant::now(), stamp }
    }

    /// Seconds since it was opened.
    pub(crate) fn age_s(&self) -> u64 {
        self.opened.elapsed().as_secs()
    }
}

struct State {
    now: AsOf,
    /// Being opened again.
    is_opening: bool,
    /// Not looked for changes before.
    not_before: Instant,
    /// What was found when it could not be opened again, and why.
    failed: Option<(u64, String)>,
}

/// The traces of a page as they are by now.
pub(crate) struct Live {
    state: Mutex<State>,
    origin: Option<Box<dyn Origin>>,
}

impl Live {
    /// Traces that stay as they are.
    pub(crate) fn fixed(store: Store) -> Live {
        Live::new(AsOf::new(store, 0, 0, false), None)
    }

    /// Traces that may change, as they were opened when their stamp was this one.
    pub(crate) fn following(origin: Box<dyn Origin>, store: Store, stamp: u64) -> Live {
        let is_written = origin.is_written();
        Live::new(AsOf::new(store, 0, stamp, is_written), Some(origin))
    }

    fn new(now: AsOf, origin: Option<Box<dyn Origin>>) -> Live {
        let not_before = Instant::now() + SHORTEST_PAUSE;
        Live { state: Mutex::new(State { now, is_opening: false, not_before, failed: None }), origin }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is now.
    pub(crate) fn now(&self) -> AsOf {
        self.state().now.clone()
    }

    /// Why what has changed could not be read again.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.state().failed.as_ref().map(|failed| failed.1.clone())
    }

    /// Looks whether the traces have changed, and has them opened again if so. Waits for nothing.
    pub(crate) fn check_for_changes(self: &Arc<Self>) {
        let Some(origin) = &self.origin else { return };
        let mut state = self.state();
        if state.is_opening || Instant::now() < state.not_before {
            return;
        }
        let stamp = origin.stamp();
        let known = state.failed.as_ref().map_or(state.now.stamp, |failed| failed.0);
        if stamp == known && !state.now.is_written {
            state.not_before = Instant::now() + SHORTEST_PAUSE;
            return;
        }
        state.is_opening = true;
        drop(state);
        let live = Arc::clone(self);
        let spawned = std::thread::Builder::new().spawn(move || live.open_again(stamp));
        if spawned.is_err() {
            // No thread to be had: at the next look.
            self.state().is_opening = false;
        }
    }

    fn open_again(&self, stamp: u64) {
        let Some(origin) = &self.origin else { return };
        let begun = Instant::now();
        let is_written = origin.is_written();
        let opened = origin.open().and_then(Store::new);
        if let Ok(store) = &opened {
            // The page keeps what it shows until there is something whole.
            store.wait_until_whole(PATIENCE);
        }
        let mut state = self.state();
        match opened {
            Ok(store) => {
                let revision = state.now.revision + 1;
                state.failed = None;
                state.now = AsOf::new(store, revision, stamp, is_written);
            }
            Err(why) => {
                state.failed = Some((stamp, why));
                state.now.is_written = is_written;
            }
        }
        state.is_opening = false;
        state.not_before = Instant::now() + SHORTEST_PAUSE.max(begun.elapsed() * PAUSE_OF_COST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::two_threads;
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

    /// Samples of each thread; 0: gone.
    #[derive(Default)]
    struct Growing {
        samples: AtomicI64,
        stamp: AtomicU64,
        opened: AtomicU64,
    }

    struct Of(Arc<Growing>);

    impl Origin for Of {
        fn stamp(&self) -> u64 {
            self.0.stamp.load(Ordering::SeqCst)
        }
        fn is_written(&self) -> bool {
            false
        }
        fn open(&self) -> Result<Vec<Shown>, String> {
            self.0.opened.fetch_add(1, Ordering::SeqCst);
            match self.0.samples.load(Ordering::SeqCst) {
                0 => Err("it is gone".into()),
                n => Ok(vec![Shown::recording(two_threads(n))]),
            }
        }
    }

    fn grow(growing: &Growing, samples: i64) {
        growing.samples.store(samples, Ordering::SeqCst);
        growing.stamp.fetch_add(1, Ordering::SeqCst);
    }

    /// Looks until something holds.
    fn look_until(live: &Arc<Live>, done: impl Fn(&Live) -> bool) {
        while !done(live) {
            // The pause between looks is for people; here it is over at once.
            live.state().not_before = Instant::now();
            live.check_for_changes();
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_has_changed_is_read_again_and_what_cannot_be_read_leaves_what_there_was() {
        let growing = Arc::new(Growing::default());
        grow(&growing, 5);
        let first = Store::new(vec![Shown::recording(two_threads(5))]).expect("begins");
        let live = Arc::new(Live::following(Box::new(Of(growing.clone())), first, 1));
        let end = |live: &Live| live.now().store.span().1;
        let before = end(&live);
        for _ in 0..100 {
            live.state().not_before = Instant::now();
            live.check_for_changes();
        }
        assert_eq!(
            (live.now().revision, growing.opened.load(Ordering::SeqCst)),
            (0, 0),
            "nothing has changed"
        );
        let old = live.now();
        grow(&growing, 9);
        look_until(&live, |live| live.now().revision == 1);
        assert!(end(&live) > before);
        assert_eq!(old.store.span().1, before, "who has the old store keeps it");
        grow(&growing, 0);
        look_until(&live, |live| live.trouble().is_some());
        let opened = growing.opened.load(Ordering::SeqCst);
        for _ in 0..100 {
            live.state().not_before = Instant::now();
            live.check_for_changes();
        }
        assert_eq!(growing.opened.load(Ordering::SeqCst), opened, "the same trouble is not looked for twice");
        assert_eq!((live.trouble().as_deref(), live.now().revision), (Some("it is gone"), 1));
        grow(&growing, 12);
        look_until(&live, |live| live.now().revision == 2);
        assert_eq!(live.trouble(), None);
    }
}
