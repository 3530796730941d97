//! How many events there are in each part of a trace's time.

use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::call::EndReason;
use lttv_engine::hooks::{Flow, Hook, HookKey, PRIORITY_DEFAULT};
use lttv_engine::module::{Module, ModuleHooks};
use lttv_engine::source::Source;
use lttv_engine::time::Time;

/// Name of the module and of its result, a [`Histogram`].
pub const NAME: &str = "histogram";

/// Counts of events in buckets of equal width.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    start: Time,
    width: u64,
    counts: Vec<u64>,
    outside: u64,
}

impl Histogram {
    /// Empty buckets that cover [`from`, `to`), at most `buckets` (at least one is made) of a whole number of ns each.
    pub fn new(from: Time, to: Time, buckets: usize) -> Histogram {
        let span = i128::from(to.ns()) - i128::from(from.ns());
        let span = u64::try_from(span.max(1)).unwrap_or(u64::MAX);
        let buckets = (buckets.max(1) as u64).min(span);
        let width = span.div_ceil(buckets);
        let used = usize::try_from(span.div_ceil(width)).unwrap_or(1);
        Histogram { start: from, width, counts: vec![0; used], outside: 0 }
    }

    /// Counts an event.
    pub fn add(&mut self, t: Time) {
        let offset = i128::from(t.ns()) - i128::from(self.start.ns());
        let bucket = u64::try_from(offset).ok().map(|offset| offset / self.width);
        match bucket.and_then(|bucket| self.counts.get_mut(usize::try_from(bucket).ok()?)) {
            Some(count) => *count += 1,
            None => self.outside += 1,
        }
    }

    /// Begin of the first bucket.
    pub fn start(&self) -> Time {
        self.start
    }

    /// Width of a bucket in ns.
    pub fn width_ns(&self) -> u64 {
        self.width
    }

    /// Begin of a bucket.
    pub fn bucket_start(&self, bucket: usize) -> Time {
        let offset = i64::try_from((bucket as u64).saturating_mul(self.width)).unwrap_or(i64::MAX);
        self.start.saturating_add(offset)
    }

    /// Events in each bucket.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Events before the first bucket, after the last, or without a time.
    pub fn outside(&self) -> u64 {
        self.outside
    }

    /// All events counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.outside
    }
}

/// Counts all events of a trace over its time span. Publishes partial counts at each chunk border.
#[derive(Clone, Copy, Debug)]
pub struct HistogramModule {
    /// Most buckets.
    pub buckets: usize,
}

impl Default for HistogramModule {
    fn default() -> Self {
        HistogramModule { buckets: 1024 }
    }
}

const HOOK: HookKey = HookKey { function: 0x6869_7374, data: 0 };

impl Module for HistogramModule {
    fn name(&self) -> &str {
        NAME
    }

    fn hooks(&self, source: &Arc<dyn Source>) -> ModuleHooks {
        let (from, to) = source.time_span().unwrap_or((Time(0), Time(0)));
        let empty = Histogram::new(from, to.saturating_add(1), self.buckets);
        let counted = Arc::new(Mutex::new(empty));
        let mut hooks = ModuleHooks::default();
        let counts = counted.clone();
        let on_event = Hook::event(HOOK, PRIORITY_DEFAULT, move |call| {
            counts.lock().unwrap_or_else(PoisonError::into_inner).add(call.time);
            Flow::Go
        });
        let publish = Hook::border(HOOK, PRIORITY_DEFAULT, move |call| {
            let whole = matches!(call.reason, None | Some(EndReason::Completed));
            if let Some(own) = call.own.as_deref_mut().filter(|_| whole) {
                let counts = counted.lock().unwrap_or_else(PoisonError::into_inner).clone();
                own.publish(NAME, Arc::new(counts));
            }
            Flow::Go
        });
        let added = hooks
            .event
            .add(on_event)
            .and(hooks.after_chunk_trace.add(publish.clone()))
            .and(hooks.hook_remover.add(publish));
        debug_assert!(added.is_ok(), "the lists were empty");
        hooks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_event_is_counted_in_the_bucket_that_holds_it(
            from in -1000i64..1000, span in 0i64..5000, buckets in 0usize..70, times in proptest::collection::vec(-7000i64..7000, 0..50),
        ) {
            let mut histogram = Histogram::new(Time(from), Time(from + span), buckets);
            prop_assert!(histogram.counts().len() <= buckets.max(1));
            times.iter().for_each(|&t| histogram.add(Time(t)));
            prop_assert_eq!(histogram.total(), times.len() as u64);
            for bucket in 0..histogram.counts().len() {
                let (a, b) = (histogram.bucket_start(bucket).ns(), histogram.bucket_start(bucket + 1).ns());
                let inside = times.iter().filter(|&&t| a <= t && t < b).count();
                prop_assert_eq!(histogram.counts()[bucket], inside as u64);
            }
        }
    }

    #[test]
    fn the_widest_span_does_not_overflow() {
        let mut histogram = Histogram::new(Time::MIN, Time::MAX, 10);
        [Time::MIN, Time(0), Time(i64::MAX - 1)].into_iter().for_each(|t| histogram.add(t));
        assert_eq!((histogram.outside(), histogram.counts().len()), (0, 10));
        assert_eq!((histogram.counts()[0], histogram.counts()[9]), (1, 1));
    }
}
