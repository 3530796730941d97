//! Merge order, positions, seeking, bounds.

use std::sync::{Arc, Mutex};

use lttv_engine::browse::FIRST_OFFSET_NS;
use lttv_engine::call::EndReason;
use lttv_engine::diagnostic::DiagnosticKind;
use lttv_engine::engine::{CommandError, Engine};
use lttv_engine::hooks::Flow;
use lttv_engine::ids::TracesetId;
use lttv_engine::position::Position;
use lttv_engine::request::EventsRequest;
use proptest::prelude::*;

use crate::common::*;

/// Labels of all events from the start.
fn all(engine: &mut Engine, traceset: TracesetId) -> String {
    let (request, log) = request(50);
    engine.events_request(traceset, request.from_time(t(i64::MIN))).unwrap();
    run(engine);
    log.events()
}

/// Position of each event, in order, then of the end.
fn positions(engine: &mut Engine, traceset: TracesetId) -> Vec<(String, Position)> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let (to, end) = (found.clone(), found.clone());
    let (request, _) = request(51);
    let request = request.from_time(t(i64::MIN)).on_event(move |call| {
        to.lock().unwrap().push((label(call), call.position()));
        Flow::Go
    });
    let request = request.on_end(move |call| {
        end.lock().unwrap().push((String::new(), call.context.unwrap().position()));
        Flow::Go
    });
    engine.events_request(traceset, request).unwrap();
    run(engine);
    found.lock().unwrap().clone()
}

#[test]
fn r_m1_ties_go_by_trace_then_tracefile_then_place() {
    let x = source("x", vec![file("a", &[1, 1]), file("b", &[1])]);
    let y = source("y", vec![file("c", &[0, 1])]);
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[x.clone(), y.clone()]);
        assert_eq!(all(&mut engine, traceset), "0c 1a 1a' 1b 1c");
    }
    let (mut engine, traceset, _) = engine(None, &[y, x]);
    assert_eq!(all(&mut engine, traceset), "0c 1c 1a 1a' 1b");
}

#[test]
fn r_m2_an_exhausted_tracefile_leaves_the_queue() {
    let (mut engine, traceset, _) = engine(Some(1), &[worked()]);
    let (request, _) = request(1);
    engine.events_request(traceset, request.from_time(t(0))).unwrap();
    let mut exhausted = 0;
    while !turn(&mut engine).idle {
        // `check` compares the queue with the tracefiles after each turn (I-11).
        let context = engine.traceset(traceset).unwrap().context();
        exhausted = exhausted.max(context.tracefiles().iter().filter(|file| file.time().is_none()).count());
    }
    assert_eq!(exhausted, 1);
    let context = engine.traceset(traceset).unwrap().context();
    assert!(context.tracefiles().iter().all(|file| file.time().is_none() && file.head().is_none()));
}

#[test]
fn r_m3_time_that_goes_back_is_told_once_and_keeps_the_order_of_the_file() {
    let bad = source("bad", vec![file("a", &[1, 9, 3, 2, 10]), file("b", &[4, 9])]);
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, std::slice::from_ref(&bad));
        let raw = Arc::new(Mutex::new(Vec::new()));
        let to = raw.clone();
        let (request, log) = request(1);
        let request = request.from_time(t(0)).on_event(move |call| {
            to.lock().unwrap().push((call.head.ts.ns(), call.time.ns()));
            Flow::Go
        });
        engine.events_request(traceset, request).unwrap();
        let mut told = run(&mut engine).diagnostics;
        assert_eq!(log.events(), "1a 4b 9a 3a 2a 9b 10a");
        assert_eq!(*raw.lock().unwrap(), [(1, 1), (4, 4), (9, 9), (3, 9), (2, 9), (9, 9), (10, 10)]);
        let (again, _) = crate::common::request(2);
        engine.events_request(traceset, again.from_time(t(0))).unwrap();
        told.extend(run(&mut engine).diagnostics);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].kind, DiagnosticKind::TimeWentBack { from: t(9), to: t(3) });
    }
}

#[test]
fn r_m3_positions_among_events_that_went_back_come_back_to_the_event() {
    let bad = source("bad", vec![file("a", &[1, 9, 3, 2, 10]), file("b", &[4, 9])]);
    let (mut engine, traceset, _) = engine(Some(2), &[bad]);
    let places = positions(&mut engine, traceset);
    for (at, (_, place)) in places.iter().enumerate() {
        let (request, log) = request(1);
        engine.events_request(traceset, request.from_position(place.clone())).unwrap();
        run(&mut engine);
        let expected: Vec<_> =
            places[at..].iter().map(|(label, _)| label.clone()).filter(|l| !l.is_empty()).collect();
        assert_eq!(log.seen().events, expected);
    }
}

#[test]
fn r_p1_a_position_gives_the_same_next_event_and_the_same_rest() {
    let (mut engine, traceset, _) = engine(Some(3), &[worked()]);
    let places = positions(&mut engine, traceset);
    for (at, (_, place)) in places.iter().enumerate().rev() {
        let (request, log) = request(1);
        engine.events_request(traceset, request.from_position(place.clone())).unwrap();
        run(&mut engine);
        let rest: Vec<_> = WORKED.split(' ').skip(at).collect();
        assert_eq!(log.events(), rest.join(" "));
        assert_eq!(place.time().map(|t| t.ns()), [0, 5, 5, 5, 7, 10, 10, 12].get(at).copied());
    }
}

#[test]
fn r_p2_positions_are_ordered_as_their_events_and_the_end_is_last() {
    let (mut engine, traceset, _) = engine(Some(3), &[worked()]);
    let places = positions(&mut engine, traceset);
    for (i, (_, a)) in places.iter().enumerate() {
        for (j, (_, b)) in places.iter().enumerate() {
            assert_eq!(a.partial_cmp(b), Some(i.cmp(&j)));
        }
    }
    assert!(places[8].1.is_end());
    // The position is the same, whether it was reached by time or by reading.
    assert_eq!(engine.position_at(traceset, t(6)).unwrap(), places[4].1);
    assert_eq!(engine.position_at(traceset, t(7)).unwrap(), places[4].1);
}

#[test]
fn r_p3_a_position_of_another_traceset_is_an_error() {
    let (mut engine, traceset, ids) = engine(None, &[worked()]);
    let place = engine.position_at(traceset, t(5)).unwrap();
    let other = engine.traceset_new();
    let b = engine.open_source(source("b", vec![file("b", &[1])]));
    engine.traceset_add(other, b).unwrap();
    for request in [
        request(1).0.from_position(place.clone()),
        request(1).0.from_time(t(0)).until_position(place.clone()),
    ] {
        assert!(matches!(engine.events_request(other, request), Err(CommandError::WrongTraceset(_))));
    }
    let foreign = engine.position_at(other, t(0)).unwrap();
    assert_eq!(place.partial_cmp(&foreign), None);
    assert!(place.of_trace(b).is_err());
    assert!(place.of_trace(ids[0]).is_ok());
    // A position is also valid in another traceset with the same traces.
    let same = engine.traceset_new();
    engine.traceset_add(same, ids[0]).unwrap();
    assert!(engine.events_request(same, request(1).0.from_position(place)).is_ok());
}

#[test]
fn r_p4_p_21_a_change_of_traces_ends_what_hangs_on_positions_and_only_that() {
    let late = || source("late", vec![file("l", &[5, 6, 7])]);
    let (mut engine, traceset, _) = engine(Some(1), &[worked()]);
    let place = engine.position_at(traceset, t(7)).unwrap();
    let (waiting, log_waiting) = request(1);
    let (bounded, log_bounded) = request(2);
    let (by_end, log_end) = request(3);
    let (midway, log_midway) = request(4);
    engine.events_request(traceset, midway.from_time(t(0)).until_time(t(11))).unwrap();
    engine.events_request(traceset, waiting.from_time(t(7))).unwrap();
    engine.events_request(traceset, bounded.from_position(place.clone())).unwrap();
    engine.events_request(traceset, by_end.from_time(t(10)).until_position(place.clone())).unwrap();
    turn(&mut engine);
    assert_eq!(log_midway.events(), "0a");
    let added = engine.open_source(late());
    engine.traceset_add(traceset, added).unwrap();
    assert_eq!((log_bounded.end(), log_end.end()), (EndReason::PositionLost, EndReason::PositionLost));
    assert_eq!((log_bounded.seen().before, log_end.seen().before), (0, 0));
    assert!(engine.events_request(traceset, request(1).0.from_position(place)).is_err());
    run(&mut engine);
    // It goes on from the time of its next event, the new trace's events of that time included.
    assert_eq!(log_midway.events(), "0a 5a 5b 5b' 5l 6l 7a 7l 10a 10b");
    assert_eq!(log_waiting.events(), "7a 7l 10a 10b 12b");
}

#[test]
fn r_p4_a_request_interrupted_among_ties_ends() {
    let (mut engine, traceset, _) = engine(Some(1), &[worked()]);
    let (midway, log) = request(1);
    engine.events_request(traceset, midway.from_time(t(0))).unwrap();
    turn(&mut engine);
    turn(&mut engine);
    assert_eq!(log.events(), "0a 5a");
    let added = engine.open_source(source("late", vec![file("l", &[5])]));
    engine.traceset_add(traceset, added).unwrap();
    assert_eq!(log.end(), EndReason::PositionLost);
    assert_eq!(log.seen().delivered, 2);
}

#[test]
fn r_s1_a_seek_goes_to_the_first_event_at_or_after_the_time() {
    let (mut engine, traceset, _) = engine(Some(2), &[worked()]);
    for from in [-5, 0, 1, 5, 6, 7, 8, 10, 11, 12] {
        let (request, log) = request(1);
        engine.events_request(traceset, request.from_time(t(from)).count(1)).unwrap();
        run(&mut engine);
        let first = [(0, "0a"), (5, "5a"), (7, "7a"), (10, "10a"), (12, "12b")]
            .iter()
            .find(|(time, _)| *time >= from);
        assert_eq!(log.events(), first.unwrap().1);
    }
}

#[test]
fn r_s2_seeking_to_a_position_needs_no_reading_of_what_is_before() {
    let (mut engine, traceset, _) = engine(None, &[worked()]);
    let places = positions(&mut engine, traceset);
    let (request, log) = request(1);
    engine.events_request(traceset, request.from_position(places[3].1.clone()).count(1)).unwrap();
    let progress = run(&mut engine);
    assert_eq!((log.events().as_str(), progress.events_read, progress.seeks), ("5b'", 1, 1));
}

#[test]
fn r_s3_a_seek_calls_no_event_hook() {
    let (mut engine, traceset, _) = engine(Some(1), &[worked()]);
    let (request, log) = request(1);
    engine.events_request(traceset, request.from_time(t(12))).unwrap();
    engine.position_at(traceset, t(3)).unwrap();
    run(&mut engine);
    engine.position_at(traceset, t(3)).unwrap();
    assert_eq!(log.events(), "12b");
}

#[test]
fn r_s4_l_6_the_cost_of_a_window_does_not_grow_with_its_place() {
    let long = source(
        "long",
        (0..3).map(|n| file(&n.to_string(), &(0..40_000).map(|i| i * 3 + n).collect::<Vec<_>>())).collect(),
    );
    let mut costs = Vec::new();
    for place in [0, 30_000, 60_000, 119_000] {
        let (mut engine, traceset, _) = engine(Some(6000), std::slice::from_ref(&long));
        let (request, log) = request(1);
        engine.events_request(traceset, request.from_time(t(place)).until_time(t(place + 20))).unwrap();
        let progress = run(&mut engine);
        assert_eq!(log.seen().events.len(), 20);
        assert_eq!(progress.events_read, 20);
        costs.push(engine.traceset(traceset).unwrap().context().packets_decoded());
    }
    assert!(costs.iter().all(|cost| *cost <= 6), "{costs:?} packets for 3 tracefiles");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn r_s5_backward_then_forward_is_the_identity(gaps in proptest::collection::vec(0i64..4, 1..40), at in 0usize..40, n in 0u64..12, offset in 1i64..9, every in 1i64..4) {
        let mut time = 0;
        let times: Vec<i64> = gaps.iter().map(|gap| { time += gap; time }).collect();
        let (even, odd): (Vec<i64>, Vec<i64>) = times.iter().partition(|t| **t % 2 == 0);
        let (mut engine, traceset, _) = engine(Some(4), &[source("s5", vec![file("a", &even), file("b", &odd)])]);
        let places = positions(&mut engine, traceset);
        let at = at % places.len();
        let from = &places[at].1;
        let mut passes = |event: &lttv_engine::call::Event<'_>| event.time.ns() % every == 0;
        let before = places[..at].iter().filter(|(_, p)| p.time().unwrap().ns() % every == 0).count() as u64;
        let back = engine.seek_n_backward(traceset, from, n, offset, &mut passes, &mut || true).unwrap();
        prop_assert_eq!(back.found, n.min(before));
        let there = engine.seek_n_forward(traceset, &back.position, back.found, &mut passes, &mut || true).unwrap();
        prop_assert_eq!(there.found, back.found);
        // The same place, up to events that do not pass the filter.
        let index = |position: &Position| places.iter().position(|(_, p)| p == position).unwrap();
        let between = &places[index(&there.position)..at];
        prop_assert!(between.iter().all(|(_, p)| p.time().unwrap().ns() % every != 0));
    }
}

#[test]
fn browsing_stops_when_asked_to_and_at_borders() {
    let (mut engine, traceset, _) = engine(None, &[worked()]);
    let end = positions(&mut engine, traceset)[8].1.clone();
    let moved =
        engine.seek_n_backward(traceset, &end, 100, FIRST_OFFSET_NS, &mut |_| true, &mut || true).unwrap();
    assert_eq!((moved.found, moved.position.time()), (8, Some(t(0))));
    let long = source("long", vec![file("a", &(0..5000).collect::<Vec<_>>())]);
    let (mut engine, traceset, _) = crate::common::engine(None, &[long]);
    let start = engine.position_at(traceset, t(0)).unwrap();
    let moved = engine.seek_n_forward(traceset, &start, 5000, &mut |_| true, &mut || false).unwrap();
    assert!(moved.found < 5000);
}

#[test]
fn r_b1_each_event_comes_once_whatever_else_is_asked_for() {
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[worked()]);
        let mut logs = Vec::new();
        for from in 0..13 {
            for until in from..14 {
                let (request, log) = request(1);
                engine.events_request(traceset, request.from_time(t(from)).until_time(t(until))).unwrap();
                logs.push((from, until, log));
            }
        }
        run(&mut engine);
        for (from, until, log) in logs {
            let inside = |label: &&str| {
                let time: i64 = label.trim_end_matches(['a', 'b', '\'']).parse().unwrap();
                from <= time && time < until
            };
            let expected: Vec<&str> = WORKED.split(' ').filter(inside).collect();
            assert_eq!(log.events(), expected.join(" "));
        }
    }
}

#[test]
fn p_1_a_count_ends_inside_a_run_of_equal_times() {
    let ties = source("ties", vec![file("a", &[1, 1, 1, 1]), file("b", &[1, 1])]);
    for n in 0..7 {
        let (mut engine, traceset, _) = engine(Some(4), std::slice::from_ref(&ties));
        let (request, log) = request(1);
        engine.events_request(traceset, request.from_time(t(1)).count(n)).unwrap();
        run(&mut engine);
        assert_eq!(log.seen().events.len() as u64, n.min(6));
    }
}

#[test]
fn r_b2_empty_bounds_are_served_with_nothing_and_both_hooks() {
    let (mut engine, traceset, _) = engine(Some(2), &[worked()]);
    let places = positions(&mut engine, traceset);
    type Bound = fn(EventsRequest, &[(String, Position)]) -> EventsRequest;
    let bounds: [Bound; 5] = [
        |r, _| r.from_time(t(7)).until_time(t(3)),
        |r, _| r.from_time(t(7)).count(0),
        |r, p| r.from_position(p[4].1.clone()).until_position(p[2].1.clone()),
        |r, p| r.from_position(p[4].1.clone()).until_position(p[4].1.clone()),
        |r, _| r.from_time(t(7)).until_time(t(i64::MIN)),
    ];
    for request_of in bounds {
        let (request, log) = request(1);
        engine.events_request(traceset, request_of(request, &places)).unwrap();
        let progress = run(&mut engine);
        assert_eq!((log.events().as_str(), log.end(), log.seen().before), ("", EndReason::Completed, 1));
        assert_eq!(progress.events_read, 0);
    }
}

#[test]
fn r_b3_a_start_past_the_end_ends_at_the_end_of_the_traceset() {
    let (mut engine, traceset, _) = engine(Some(2), &[worked()]);
    let (request, log) = request(1);
    engine.events_request(traceset, request.from_time(t(13))).unwrap();
    run(&mut engine);
    assert_eq!((log.events().as_str(), log.end(), log.seen().before), ("", EndReason::EndOfTraceset, 1));
}

#[test]
fn r_b4_p_2_an_end_position_behind_the_cursor_delivers_nothing() {
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[worked()]);
        let places = positions(&mut engine, traceset);
        let (request_a, log_a) = request(1);
        engine
            .events_request(traceset, request_a.from_time(t(9)).until_position(places[2].1.clone()))
            .unwrap();
        // P-2, second half: only the second of two requests that run together has an end position.
        let (b, log_b) = request(2);
        let (c, log_c) = request(3);
        engine.events_request(traceset, b.from_time(t(5))).unwrap();
        engine.events_request(traceset, c.from_time(t(5)).until_position(places[3].1.clone())).unwrap();
        run(&mut engine);
        assert_eq!((log_a.events().as_str(), log_a.end()), ("", EndReason::Completed));
        assert_eq!(log_b.events(), "5a 5b 5b' 7a 10a 10b 12b");
        assert_eq!((log_c.events().as_str(), log_c.end()), ("5a 5b", EndReason::Completed));
    }
}

#[test]
fn r_b5_chunks_show_only_in_the_number_of_chunk_hooks() {
    let mut seen = Vec::new();
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[worked()]);
        let (request, log) = request(1);
        engine.events_request(traceset, request.from_time(t(0)).until_time(t(11))).unwrap();
        run(&mut engine);
        seen.push((log.events(), log.end(), log.seen().chunks_begun));
    }
    assert!(seen.iter().all(|s| (&s.0, &s.1) == (&seen[0].0, &seen[0].1)));
    // Seven events. After the last one the next is past the end.
    assert_eq!(seen.iter().map(|s| s.2).collect::<Vec<_>>(), [7, 4, 1, 1, 1]);
}

#[test]
fn p_20_counts_are_not_cut_to_32_bits() {
    for n in [u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::MAX] {
        let (mut engine, traceset, _) = engine(Some(3), &[worked()]);
        let (request, log) = request(1);
        engine.events_request(traceset, request.from_time(t(0)).count(n)).unwrap();
        run(&mut engine);
        assert_eq!((log.seen().events.len(), log.end()), (8, EndReason::EndOfTraceset), "{n}");
    }
}

#[test]
fn l_7_an_unreadable_place_ends_its_tracefile_and_nothing_else() {
    let mut bad = file("a", &[0, 5, 7, 10]);
    bad.bad_at = Some(2);
    let source = source("half", vec![bad, file("b", &[5, 5, 10, 12])]);
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, std::slice::from_ref(&source));
        let (request, log) = request(1);
        engine.events_request(traceset, request.from_time(t(0))).unwrap();
        let progress = run(&mut engine);
        assert_eq!((log.events().as_str(), log.end()), ("0a 5a 5b 5b' 10b 12b", EndReason::EndOfTraceset));
        assert_eq!(progress.diagnostics.len(), 1);
        assert_eq!(progress.diagnostics[0].to_string(), "a: a: byte 2: bad event");
        // Also for a window after the unreadable part.
        let (request, log) = crate::common::request(1);
        engine.events_request(traceset, request.from_time(t(8))).unwrap();
        assert_eq!(run(&mut engine).diagnostics, [], "told once");
        assert_eq!(log.events(), "10b 12b");
    }
}

#[test]
fn the_extremes_of_time_are_ordinary_times() {
    let source = source("ends", vec![file("a", &[i64::MIN, -1, i64::MAX]), file("b", &[i64::MAX])]);
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, std::slice::from_ref(&source));
        assert_eq!(all(&mut engine, traceset).split(' ').count(), 4);
        let (last, log) = request(1);
        engine.events_request(traceset, last.from_time(t(i64::MAX))).unwrap();
        let (before, log_before) = request(2);
        engine.events_request(traceset, before.from_time(t(i64::MIN)).until_time(t(i64::MAX))).unwrap();
        run(&mut engine);
        assert_eq!((log.seen().events.len(), log_before.seen().events.len()), (2, 2));
    }
}
