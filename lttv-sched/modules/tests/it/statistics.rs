//! Statistics and histogram: sums hold and depend on the trace alone.

use std::sync::Arc;

use lttv_engine::attribute::{Attribute, AttributeValue};
use lttv_engine::engine::{Budget, Config, Outcome};
use lttv_engine::ids::OwnerId;
use lttv_engine::request::EventsRequest;
use lttv_engine::synthetic::SyntheticTrace;
use lttv_engine::time::Time;
use lttv_engine::trace::ModuleStatus;
use lttv_modules::histogram::{self, Histogram};
use lttv_modules::state;
use lttv_modules::stats::{self, Stats};
use proptest::prelude::*;

use crate::kernel::*;

fn stats_of(trace: &Arc<SyntheticTrace>, chunk: Option<u64>) -> (Stats, Attribute) {
    let config = Config { chunk_events: chunk, save_interval: 4, ..Config::default() };
    let (mut engine, _, id) = engine(config, trace);
    compute(&mut engine, id, stats::NAME);
    let data = engine.trace(id).unwrap().data();
    let stats = data.result::<Stats>(stats::NAME).unwrap();
    assert_eq!(data.status(state::NAME), ModuleStatus::Ready, "computed on the way");
    ((*stats).clone(), stats::tree_of(&stats))
}

fn ulong(tree: &Attribute, name: &str) -> u64 {
    match tree.get_by_name(name) {
        Some(AttributeValue::Ulong(n)) => *n,
        other => panic!("{name}: {other:?}"),
    }
}

fn subdir<'a>(tree: &'a Attribute, name: &str) -> Option<&'a Attribute> {
    match tree.get_by_name(name) {
        Some(AttributeValue::Tree(tree)) => Some(tree),
        _ => None,
    }
}

/// Checks that the counts of a tree of modes are the sums of what is below; gives its number of events.
fn sums(modes: &Attribute) -> u64 {
    let of = |tree: &Attribute| {
        let types: u64 = subdir(tree, "event_types")
            .unwrap()
            .iter()
            .map(|(_, v)| match v {
                AttributeValue::Ulong(n) => *n,
                other => panic!("{other:?}"),
            })
            .sum();
        assert_eq!(types, ulong(tree, "events_count"));
        types
    };
    let Some(events) = subdir(modes, "events") else { return 0 };
    let mut below = 0;
    for (_, mode) in subdir(modes, "mode_types").unwrap().iter() {
        let AttributeValue::Tree(mode) = mode else { panic!("a mode is a tree") };
        let submodes = subdir(mode, "submodes").unwrap();
        let sum: u64 = submodes
            .iter()
            .map(|(_, submode)| match submode {
                AttributeValue::Tree(events) => of(events),
                other => panic!("{other:?}"),
            })
            .sum();
        assert_eq!(of(subdir(mode, "events").unwrap()), sum);
        below += sum;
    }
    assert_eq!(of(events), below);
    below
}

fn trees(node: &Attribute) -> impl Iterator<Item = &Attribute> {
    node.iter().filter_map(|(_, value)| match value {
        AttributeValue::Tree(tree) => Some(tree),
        _ => None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn r_y1_sums_hold_and_times_are_true(steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..120)) {
        let (events, truth) = history(2, &steps);
        prop_assume!(!events.is_empty());
        let (stats, tree) = stats_of(&trace("y1", 2, &events), Some(5));
        prop_assert_eq!(stats.total(), events.len() as u64);
        for name in CLASSES {
            let expected = events.iter().filter(|event| CLASSES[event.id as usize] == *name).count() as u64;
            prop_assert_eq!(stats.by_name().get(*name).copied().unwrap_or(0), expected);
        }
        let mut run_ns = truth.run_ns.clone();
        run_ns.retain(|_, ns| *ns != 0);
        let mut found = stats.run_ns.clone();
        found.retain(|_, ns| *ns != 0);
        prop_assert_eq!(found, run_ns);
        // R-Y1 in the tree: trace = CPUs = processes, processes = their CPUs = their functions.
        let all = sums(subdir(&tree, "modes").unwrap());
        prop_assert_eq!(all, events.len() as u64);
        let cpus: u64 = trees(subdir(&tree, "cpu").unwrap()).map(sums).sum();
        prop_assert_eq!(cpus, all);
        let mut processes = 0;
        for process in trees(subdir(&tree, "processes").unwrap()) {
            let own = sums(subdir(process, "modes").unwrap());
            processes += own;
            let cpus: u64 = trees(subdir(process, "cpu").unwrap()).map(|cpu| {
                let functions: u64 = trees(subdir(cpu, "functions").unwrap()).map(|f| sums(subdir(f, "modes").unwrap())).sum();
                let cpu = sums(subdir(cpu, "modes").unwrap());
                assert_eq!(cpu, functions);
                cpu
            }).sum();
            prop_assert_eq!(cpus, own);
        }
        prop_assert_eq!(processes, all);
    }

    #[test]
    fn r_y3_chunks_interruptions_and_company_change_nothing(steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..80), chunk in 1u64..9) {
        let (events, _) = history(3, &steps);
        prop_assume!(!events.is_empty());
        let trace = trace("y3", 3, &events);
        let whole = stats_of(&trace, None);
        prop_assert_eq!(&stats_of(&trace, Some(chunk)).0, &whole.0);
        // With state and histogram in the pass and foreground requests between its chunks.
        let config = Config { chunk_events: Some(chunk), save_interval: 3, ..Config::default() };
        let (mut engine, traceset, id) = engine(config, &trace);
        for module in [histogram::NAME, stats::NAME, state::NAME] {
            prop_assert_eq!(engine.request(id, module, OwnerId(1)).unwrap(), Outcome::Queued);
        }
        for turn in 0..6 {
            engine.step(Budget::chunks(2));
            let request = EventsRequest::new(OwnerId(1)).from_time(Time(1000 + turn)).count(3);
            engine.events_request(traceset, request).unwrap();
        }
        run(&mut engine);
        let data = engine.trace(id).unwrap().data();
        prop_assert_eq!(&*data.result::<Stats>(stats::NAME).unwrap(), &whole.0);
        // R-G3: one pass for three modules.
        prop_assert_eq!(engine.trace(id).unwrap().background().passes, 1);
        prop_assert_eq!(engine.trace(id).unwrap().background().events_read, events.len() as u64);
        prop_assert_eq!(data.result::<Histogram>(histogram::NAME).unwrap().total(), events.len() as u64);
    }

    #[test]
    fn r_y4_cpu_time_fills_the_time_from_the_first_switch_to_the_end(steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..120)) {
        let (mut events, truth) = history(2, &steps);
        // Make every mode known: threads are forked inside the trace, before anything else.
        let mut forks = Vec::new();
        for tid in [1, 2, 3, 4, 101, 102, 103, 104] {
            forks.push(event(1, 0, "sched_process_fork", &[("parent_tid", int(999)), ("child_tid", int(tid))]));
        }
        forks.append(&mut events);
        let (stats, _) = stats_of(&trace("y4", 2, &forks), Some(3));
        let end = forks.last().unwrap().ts;
        for (cpu, first) in &truth.first_switch {
            let sum: i64 = stats.branches.iter().filter(|b| b.cpu == Some(*cpu)).map(|b| b.cpu_time).sum();
            prop_assert_eq!(sum, end - first, "cpu {}", cpu);
        }
    }
}

#[test]
fn r_y2_asking_again_changes_nothing_and_traces_add_up() {
    let (events, _) = history(2, &(0u8..90).map(|n| (n, n.wrapping_mul(37), n)).collect::<Vec<_>>());
    let trace = trace("y2", 2, &events);
    let (mut engine, _, id) = engine(Config::default(), &trace);
    compute(&mut engine, id, stats::NAME);
    let tree = |engine: &lttv_engine::engine::Engine| {
        stats::tree_of(&engine.trace(id).unwrap().data().result::<Stats>(stats::NAME).unwrap())
    };
    let first = tree(&engine);
    assert_eq!(engine.request(id, stats::NAME, OwnerId(1)).unwrap(), Outcome::AlreadyReady);
    run(&mut engine);
    assert_eq!(tree(&engine), first);
    let mut sum = Attribute::new();
    sum.recursive_add(&first);
    sum.recursive_add(&first);
    assert_eq!(sums(subdir(&sum, "modes").unwrap()), 2 * events.len() as u64);
}

#[test]
fn r_d2_a_module_registered_again_computes_from_scratch() {
    let (events, _) = history(1, &[(0, 8, 3), (3, 8, 2), (4, 8, 2), (1, 16, 4)]);
    let trace = trace("d2", 1, &events);
    let (mut engine, _, id) = engine(Config::default(), &trace);
    compute(&mut engine, id, stats::NAME);
    engine.unregister(stats::NAME).unwrap();
    let data = engine.trace(id).unwrap().data();
    assert!(data.result::<Stats>(stats::NAME).is_none());
    assert_eq!(data.status(stats::NAME), ModuleStatus::Absent);
    engine.register(Arc::new(stats::StatsModule)).unwrap();
    assert_eq!(engine.request(id, stats::NAME, OwnerId(1)).unwrap(), Outcome::Queued);
    run(&mut engine);
    assert_eq!(
        engine.trace(id).unwrap().data().result::<Stats>(stats::NAME).unwrap().total(),
        events.len() as u64
    );
}
