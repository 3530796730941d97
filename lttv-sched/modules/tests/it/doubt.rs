//! What losses leave in doubt.

use std::sync::{Arc, Mutex};

use lttv_engine::engine::Config;
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::ids::OwnerId;
use lttv_engine::request::EventsRequest;
use lttv_engine::source::{Loss, LossKind};
use lttv_engine::synthetic::{SyntheticFile, SyntheticTrace};
use lttv_engine::time::Time;
use lttv_modules::state::{self, SystemState, ThreadKey};
use lttv_modules::stats::{self, Stats};

use crate::kernel::*;

fn loss(tracefile: usize, from: i64, to: i64) -> Loss {
    Loss { tracefile, from: Time(from), to: Time(to), kind: LossKind::Events, count: Some(3) }
}

/// CPU 0 switches at 10, 100 and 200, CPU 1 at 5; tracefile 2 has no event that changes the state.
fn lossy(losses: Vec<Loss>) -> Arc<SyntheticTrace> {
    let events = [
        switch(5, 1, 0, 0, 9),
        switch(10, 0, 0, 0, 5),
        event(40, 0, "other", &[]),
        switch(100, 0, 5, 0, 6),
        event(150, 1, "other", &[]),
        switch(200, 0, 6, 0, 0),
    ];
    let mut files = trace("lossy", 2, &events).files().to_vec();
    files.push(SyntheticFile::new("net", Some(0), &["packet"], Vec::new()));
    let mut made = SyntheticTrace::new("lossy", files);
    made.losses = losses;
    Arc::new(made)
}

fn state_at(trace: &Arc<SyntheticTrace>, t: i64) -> SystemState {
    let config = Config { save_interval: 1, ..Config::default() };
    let (mut engine, traceset, id) = engine(config, trace);
    compute(&mut engine, id, state::NAME);
    engine.traceset_use_state(traceset, state::NAME).unwrap();
    let found = Arc::new(Mutex::new(None));
    let to = found.clone();
    let mut request = EventsRequest::new(OwnerId(1)).from_time(Time(t)).count(0);
    let look = Hook::on_border(move |call| {
        *to.lock().unwrap() = call.context.unwrap().state::<SystemState>(0).cloned();
        Flow::Go
    });
    request.before_request.add(look).unwrap();
    engine.events_request(traceset, request).unwrap();
    run(&mut engine);
    found.lock().unwrap().take().unwrap()
}

#[test]
fn a_loss_puts_its_cpu_in_doubt_until_the_next_switch_after_it() {
    let trace = lossy(vec![loss(0, 20, 60), loss(2, 11, 190)]);
    for (t, doubt) in
        [(15, None), (20, None), (21, Some(20)), (61, Some(20)), (100, Some(20)), (101, None), (199, None)]
    {
        let state = state_at(&trace, t);
        assert_eq!(state.in_doubt(0, Time(t)), doubt.map(Time), "CPU 0 at {t}");
        assert_eq!(state.in_doubt(1, Time(t)), None, "CPU 1 at {t}");
        let five = state.thread(ThreadKey::new(5, 0)).unwrap();
        assert_eq!(state.thread_in_doubt(five, Time(t)), doubt.map(Time), "thread 5 at {t}");
    }
}

#[test]
fn a_switch_within_the_loss_settles_nothing() {
    // Events were lost somewhere up to 150: after the switch at 100 there may have been others.
    let trace = lossy(vec![loss(0, 20, 150)]);
    for (t, doubt) in [(101, Some(20)), (151, Some(20)), (200, Some(20)), (201, None)] {
        assert_eq!(state_at(&trace, t).in_doubt(0, Time(t)), doubt.map(Time), "at {t}");
    }
}

#[test]
fn a_loss_of_no_known_cpu_is_in_doubt_everywhere() {
    let mut files = lossy(Vec::new()).files().to_vec();
    files[0].info.cpu = None;
    let mut trace = SyntheticTrace::new("nowhere", files);
    trace.losses = vec![loss(0, 20, 60)];
    let state = state_at(&Arc::new(trace), 70);
    assert_eq!((state.in_doubt(0, Time(70)), state.in_doubt(1, Time(70))), (Some(Time(20)), Some(Time(20))));
}

#[test]
fn statistics_say_how_much_time_is_in_doubt() {
    for (losses, expected) in [
        (vec![], None),
        (vec![loss(0, 20, 60)], Some(80)),
        (vec![loss(0, 20, 60), loss(0, 120, 130)], Some(160)),
        (vec![loss(0, 20, 150)], Some(180)),
        (vec![loss(2, 20, 150)], None),
    ] {
        let trace = lossy(losses.clone());
        let (mut engine, _, id) = engine(Config::default(), &trace);
        // Nothing says in which mode threads 5 and 6 run: that they run is known, and what is in doubt is the same.
        compute(&mut engine, id, stats::NAME);
        let found = engine.trace(id).unwrap().data().result::<Stats>(stats::NAME).unwrap();
        let of_cpu = found.branches.iter().filter(|branch| branch.cpu == Some(0));
        let sums = of_cpu.fold((0, 0), |sum, b| (sum.0 + b.cpu_time, sum.1 + b.unknown_time));
        assert_eq!(sums, (0, 190));
        assert_eq!(found.in_doubt.get(&0).copied(), expected);
        let mut files = trace.files().to_vec();
        let forks = [5, 6]
            .map(|tid| event(1, 0, "sched_process_fork", &[("parent_tid", int(1)), ("child_tid", int(tid))]));
        let of_cpu = forks.into_iter().chain(files[0].events.clone()).collect();
        files[0] = SyntheticFile::new("kernel", Some(0), CLASSES, of_cpu);
        let mut made = SyntheticTrace::new("forked", files);
        made.losses = losses;
        let (mut engine, _, id) = crate::kernel::engine(Config::default(), &Arc::new(made));
        compute(&mut engine, id, stats::NAME);
        let found = engine.trace(id).unwrap().data().result::<Stats>(stats::NAME).unwrap();
        assert_eq!(found.in_doubt.get(&0).copied(), expected);
        assert_eq!(found.in_doubt.get(&1), None);
    }
}
