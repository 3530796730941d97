//! The order of work: which request is next, budgets, what a driver sees, modules in use.

use std::sync::{Arc, Mutex};

use lttv_engine::call::EndReason;
use lttv_engine::engine::{Budget, Engine};
use lttv_engine::hooks::Flow;
use lttv_engine::ids::OwnerId;
use lttv_engine::module::ModuleError;

use crate::common::*;
use crate::noting::*;

#[test]
fn r_x1_r_x2_i_9_foreground_goes_before_background() {
    let (mut engine, traceset, ids) = engine(Some(1), &[worked()]);
    modules(&mut engine);
    engine.request(ids[0], "state", OWNER).unwrap();
    for _ in 0..4 {
        assert_eq!(turn(&mut engine).background_chunks, 1);
    }
    // The background pass is at 7a.
    let (request, log) = request(1);
    engine.events_request(traceset, request.from_time(t(0)).until_time(t(5))).unwrap();
    let progress = turn(&mut engine);
    assert_eq!((log.events().as_str(), progress.foreground_chunks, progress.background_chunks), ("0a", 1, 0));
    assert_eq!(engine.trace(ids[0]).unwrap().background().context().unwrap().time(), Some(t(7)));
    run(&mut engine);
    let background = engine.trace(ids[0]).unwrap().background();
    assert_eq!((background.passes, background.events_read), (1, 8));
}

#[test]
fn r_x3_several_schedulers_take_turns() {
    let (mut engine, first, ids) = engine(Some(1), &[worked()]);
    let second = engine.traceset_new();
    engine.traceset_add(second, ids[0]).unwrap();
    let (a, log_a) = request(1);
    let (b, log_b) = request(2);
    engine.events_request(first, a.from_time(t(0))).unwrap();
    engine.events_request(second, b.from_time(t(0))).unwrap();
    for n in 1..5 {
        turn(&mut engine);
        turn(&mut engine);
        assert_eq!((log_a.seen().events.len(), log_b.seen().events.len()), (n, n));
    }
}

#[test]
fn r_x4_disable_and_enable_nest() {
    let (mut engine, traceset, _) = engine(Some(1), &[worked()]);
    engine.disable();
    engine.disable();
    let (request, log) = request(1);
    engine.events_request(traceset, request.from_time(t(0))).unwrap();
    assert!(turn(&mut engine).idle);
    engine.enable();
    assert!(turn(&mut engine).idle);
    assert_eq!(log.events(), "");
    engine.enable();
    run(&mut engine);
    assert_eq!(log.events(), WORKED);
}

#[test]
fn r_x6_an_idle_engine_says_so() {
    let mut engine = Engine::default();
    let progress = engine.step(Budget::chunks(1000));
    assert!(progress.idle && progress.foreground_chunks + progress.background_chunks == 0);
}

#[test]
fn budgets_bound_chunks_and_events() {
    let (mut engine, traceset, _) = engine(Some(6000), &[worked()]);
    let (request, log) = request(1);
    engine.events_request(traceset, request.from_time(t(0))).unwrap();
    let progress = engine.step(Budget { chunks: 10, events: Some(3), until: None });
    assert_eq!((progress.events_read, log.seen().events.len(), progress.idle), (3, 3, false));
    let late = engine.step(Budget { chunks: 10, events: None, until: Some(std::time::Instant::now()) });
    assert_eq!(late.events_read, 0);
    assert_eq!(engine.step(Budget::chunks(1)).events_read, 5);
}

#[test]
fn l_3_the_guard_gives_the_background_a_chunk_now_and_then() {
    for guard in [None, Some(2)] {
        let (mut engine, traceset, ids) = engine(Some(1), &[worked()]);
        let mut settings = config(Some(1));
        settings.background_after = guard;
        let mut guarded = Engine::new(settings);
        std::mem::swap(&mut guarded, &mut engine);
        let (traceset, trace) = if guard.is_some() {
            let trace = engine.open_source(worked());
            let traceset = engine.traceset_new();
            engine.traceset_add(traceset, trace).unwrap();
            (traceset, trace)
        } else {
            std::mem::swap(&mut guarded, &mut engine);
            (traceset, ids[0])
        };
        modules(&mut engine);
        engine.request(trace, "state", OWNER).unwrap();
        let mut background = 0;
        for n in 0..12 {
            let (request, _) = request(n);
            engine.events_request(traceset, request.from_time(t(0)).count(1)).unwrap();
            background += turn(&mut engine).background_chunks;
        }
        assert_eq!(background, if guard.is_some() { 4 } else { 0 });
    }
}

#[test]
fn r_x5_the_same_commands_give_the_same_calls() {
    let play = || {
        let (mut engine, traceset, ids) = engine(Some(2), &[worked()]);
        let notes = modules(&mut engine);
        let calls = Arc::new(Mutex::new(Vec::new()));
        engine.request(ids[0], "stats", OWNER).unwrap();
        for n in 0..6 {
            let to = calls.clone();
            let (request, _) = request(n % 3);
            let request = request.from_time(t(n as i64 * 2)).on_event(move |call| {
                to.lock().unwrap().push((n, label(call)));
                Flow::Go
            });
            engine.events_request(traceset, request).unwrap();
            turn(&mut engine);
            if n == 4 {
                engine.remove_all(traceset, OwnerId(1)).unwrap();
            }
        }
        let ended = run(&mut engine).ended;
        let calls = calls.lock().unwrap().clone();
        (calls, take(&notes), ended)
    };
    assert_eq!(play(), play());
}

#[test]
fn modules_are_required_and_released_with_what_they_need() {
    let mut engine = Engine::default();
    modules(&mut engine);
    engine.require("stats").unwrap();
    let uses = |engine: &Engine| engine.module_names().into_iter().map(|(_, uses)| uses).collect::<Vec<_>>();
    assert_eq!(uses(&engine), [0, 0, 1, 1]);
    engine.release("stats").unwrap();
    assert_eq!(uses(&engine), [0; 4]);
    assert!(engine.release("stats").is_err());
    let again = Noting { name: "state", needs: &[], fail_at: None, notes: Notes::default() };
    assert_eq!(engine.register(Arc::new(again)), Err(ModuleError::NameTaken("state".into())));
}

#[test]
fn the_end_of_a_request_tells_whether_its_result_is_final() {
    let (mut engine, traceset, ids) = engine(Some(100), &[worked()]);
    modules(&mut engine);
    let finals = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..2 {
        let to = finals.clone();
        let (request, log) = request(1);
        let request = request.from_time(t(0)).on_end(move |call| {
            to.lock().unwrap().push(call.all_ready("state"));
            Flow::Go
        });
        engine.events_request(traceset, request).unwrap();
        run(&mut engine);
        assert_eq!(log.end(), EndReason::EndOfTraceset);
        engine.request(ids[0], "state", OWNER).unwrap();
        run(&mut engine);
    }
    assert_eq!(*finals.lock().unwrap(), [false, true]);
}
