//! Statistics of windows.

use lttv_engine::engine::Config;
use lttv_engine::ids::OwnerId;
use lttv_engine::request::EventsRequest;
use lttv_engine::time::Time;
use lttv_modules::state::{self, Mode};
use lttv_modules::stats::{self, Stats, WindowStats};
use proptest::prelude::*;

use crate::kernel::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn windows_that_follow_one_another_add_up_to_the_whole(
        steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..100),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        interval in 1u64..12,
        chunk in 1u64..9,
    ) {
        let (events, _) = history(2, &steps);
        prop_assume!(!events.is_empty());
        let trace = trace("windows", 2, &events);
        let config = Config { chunk_events: Some(chunk), save_interval: interval, ..Config::default() };
        let (mut engine, traceset, id) = engine(config, &trace);
        compute(&mut engine, id, stats::NAME);
        compute(&mut engine, id, state::NAME);
        engine.traceset_use_state(traceset, state::NAME).unwrap();
        let (first, last) = (events[0].ts, events.last().unwrap().ts);
        let mut window = |from: i64, to: i64| -> Stats {
            let stats = WindowStats::new([engine.trace(id).unwrap().source()].into_iter());
            let mut request = EventsRequest::new(OwnerId(1)).from_time(Time(from));
            request.end_time = Some(Time(to));
            engine.events_request(traceset, stats.attach(request, Time(from), Time(to))).unwrap();
            run(&mut engine);
            stats.take_stats().remove(0)
        };
        let whole = window(first, last);
        let mut borders: Vec<i64> = cuts.iter().map(|cut| events[cut.index(events.len())].ts).collect();
        borders.extend([first, last]);
        borders.sort_unstable();
        // From last to first, so that each window needs its own seek.
        let parts: Vec<Stats> = borders.windows(2).rev().map(|w| window(w[0], w[1])).collect();
        prop_assert_eq!(parts.iter().map(Stats::total).sum::<u64>(), whole.total());
        let modes = [Mode::Unknown, Mode::User, Mode::Syscall, Mode::Irq];
        for mode in modes {
            let of = |stats: &Stats| stats.by_mode().get(&mode).copied().unwrap_or_default();
            let sum = parts.iter().map(of).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            prop_assert_eq!(sum, of(&whole), "{}", mode);
        }
        let mut sums = std::collections::BTreeMap::new();
        for (key, ns) in parts.iter().flat_map(|part| &part.run_ns) {
            *sums.entry(*key).or_insert(0) += ns;
        }
        sums.retain(|_, ns| *ns != 0);
        let mut run_ns = whole.run_ns.clone();
        run_ns.retain(|_, ns| *ns != 0);
        prop_assert_eq!(sums, run_ns);
        // CPU time of the whole is that of the background module, which reads in order from the start.
        let module = engine.trace(id).unwrap().data().result::<Stats>(stats::NAME).unwrap();
        for mode in modes {
            let of = |stats: &Stats| stats.by_mode().get(&mode).map_or(0, |sum| sum.1);
            prop_assert_eq!(of(&whole), of(&module), "{}", mode);
        }
    }
}
