//! The worked examples: a small trace, requests, and what they must deliver.

use lttv_engine::call::EndReason;
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::request::StopFlag;

use crate::common::*;

/// Serves one request over the worked trace with each chunk size.
fn served(
    build: impl Fn(lttv_engine::request::EventsRequest) -> lttv_engine::request::EventsRequest,
) -> (String, EndReason) {
    let mut results = Vec::new();
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[worked()]);
        let (request, log) = request(1);
        engine.events_request(traceset, build(request)).unwrap();
        run(&mut engine);
        assert_eq!(log.seen().before, 1);
        results.push((log.events(), log.end()));
    }
    results.dedup();
    assert_eq!(results.len(), 1, "the same for each chunk size: {results:?}");
    results.remove(0)
}

#[test]
fn a_window_is_half_open() {
    let (events, end) = served(|r| r.from_time(t(5)).until_time(t(10)));
    assert_eq!((events.as_str(), end), ("5a 5b 5b' 7a", EndReason::Completed));
}

#[test]
fn an_empty_window_gets_nothing_and_both_request_hooks() {
    let (events, end) = served(|r| r.from_time(t(5)).until_time(t(5)));
    assert_eq!((events.as_str(), end), ("", EndReason::Completed));
}

#[test]
fn a_count_cuts_ties_and_the_next_position_goes_on_in_the_middle_of_them() {
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[worked()]);
        let (first, log) = request(1);
        engine.events_request(traceset, first.from_time(t(5)).count(2)).unwrap();
        run(&mut engine);
        assert_eq!(log.events(), "5a 5b");
        let position = engine.traceset(traceset).unwrap().context().position();
        let (second, log) = request(1);
        engine.events_request(traceset, second.from_position(position).count(2)).unwrap();
        run(&mut engine);
        assert_eq!(log.events(), "5b' 7a");
    }
}

/// Positions of all events of the worked trace, by label.
fn positions(
    engine: &mut lttv_engine::engine::Engine,
    traceset: lttv_engine::ids::TracesetId,
) -> std::collections::BTreeMap<String, lttv_engine::position::Position> {
    let found = std::sync::Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::new()));
    let (mut all, _) = request(99);
    let to = found.clone();
    all.event
        .add(Hook::on_event(move |call| {
            to.lock().unwrap().insert(label(call), call.position());
            Flow::Go
        }))
        .unwrap();
    engine.events_request(traceset, all.from_time(t(i64::MIN))).unwrap();
    run(engine);
    found.lock().unwrap().clone()
}

#[test]
fn positions_bound_exactly() {
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[worked()]);
        let at = positions(&mut engine, traceset);
        let (request, log) = request(1);
        let request = request.from_position(at["5b"].clone()).until_position(at["10b"].clone());
        engine.events_request(traceset, request).unwrap();
        run(&mut engine);
        assert_eq!((log.events().as_str(), log.end()), ("5b 5b' 7a 10a", EndReason::Completed));
    }
}

#[test]
fn overlapping_requests_are_read_once() {
    let (mut engine, traceset, _) = engine(Some(1), &[worked()]);
    let (a, log_a) = request(1);
    let (b, log_b) = request(2);
    engine.events_request(traceset, a.from_time(t(0)).until_time(t(10))).unwrap();
    engine.events_request(traceset, b.from_time(t(5))).unwrap();
    let progress = run(&mut engine);
    assert_eq!(log_a.events(), "0a 5a 5b 5b' 7a");
    assert_eq!(log_b.events(), "5a 5b 5b' 7a 10a 10b 12b");
    assert_eq!(progress.events_read, 8);
    assert_eq!(progress.seeks, 1);
    assert_eq!((log_a.end(), log_b.end()), (EndReason::Completed, EndReason::EndOfTraceset));
}

#[test]
fn a_late_request_for_an_earlier_place_has_its_own_seek_and_the_first_goes_on() {
    let (mut engine, traceset, _) = engine(Some(1), &[worked()]);
    let (a, log_a) = request(1);
    engine.events_request(traceset, a.from_time(t(0))).unwrap();
    turn(&mut engine);
    turn(&mut engine);
    assert_eq!(log_a.events(), "0a 5a");
    let (b, log_b) = request(2);
    engine.events_request(traceset, b.from_time(t(5)).until_time(t(6))).unwrap();
    run(&mut engine);
    assert_eq!(log_b.events(), "5a 5b 5b'");
    assert_eq!(log_a.events(), WORKED);
}

#[test]
fn a_stop_flag_ends_the_request_after_the_event() {
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[worked()]);
        let (mut request, log) = request(1);
        let flag = StopFlag::new();
        request.stop_flag = flag.clone();
        request
            .event
            .add(Hook::on_event(move |call| {
                if label(call) == "7a" {
                    flag.set();
                }
                Flow::Go
            }))
            .unwrap();
        engine.events_request(traceset, request.from_time(t(0))).unwrap();
        run(&mut engine);
        assert_eq!((log.events().as_str(), log.end()), ("0a 5a 5b 5b' 7a", EndReason::Stopped));
    }
}

#[test]
fn a_request_for_one_trace_counts_its_own_events() {
    let a = source("only a", vec![file("a", &[0, 5, 7, 10])]);
    let b = source("only b", vec![file("b", &[5, 5, 10, 12])]);
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[a.clone(), b.clone()]);
        let (request, log) = request(1);
        engine.events_request(traceset, request.from_time(t(0)).only_trace(0).count(3)).unwrap();
        run(&mut engine);
        assert_eq!((log.events().as_str(), log.end()), ("0a 5a 7a", EndReason::Completed));
        assert_eq!(log.seen().delivered, 3);
    }
}
