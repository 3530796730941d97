//! Waiting for what other threads compute, and the thread that fills the timelines of recordings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lttv_modules::timeline::Timeline;

/// How often something was done.
#[derive(Default)]
pub(crate) struct Steps {
    count: Mutex<u64>,
    raised: Condvar,
}

impl Steps {
    fn count(&self) -> MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was done.
    pub(crate) fn raise(&self) {
        *self.count() += 1;
        self.raised.notify_all();
    }

    /// Waits until `done` holds; false when that takes longer. It is asked after each step, while no lock is held.
    pub(crate) fn wait(&self, patience: Duration, done: impl Fn() -> bool) -> bool {
        let until = Instant::now() + patience;
        loop {
            let seen = *self.count();
            if done() {
                return true;
            }
            let mut count = self.count();
            while *count == seen {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                count = self.raised.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// The thread that fills timelines. It ends when it has filled them, or soon after this is dropped.
pub(crate) struct Filling {
    stop: Arc<AtomicBool>,
}

impl Filling {
    /// Begins to fill timelines, one after another.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn begin(timelines: Vec<Arc<Timeline>>, steps: &Arc<Steps>) -> std::io::Result<Filling> {
        let stop: Arc<AtomicBool> = Arc::default();
        if !timelines.is_empty() {
            let (stopped, steps) = (stop.clone(), steps.clone());
            let fill =
                move || timelines.iter().for_each(|timeline| timeline.fill(&stopped, &|| steps.raise()));
            // Nobody waits for the thread: it holds what it needs.
            drop(std::thread::Builder::new().name("timeline-samples".into()).spawn(fill)?);
        }
        Ok(Filling { stop })
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
