//! Events requests, hooks in the engine, the foreground scheduler.

use std::sync::{Arc, Mutex};

use lttv_engine::call::{EndReason, Moment};
use lttv_engine::engine::CommandError;
use lttv_engine::hooks::{Flow, Hook, HookKey};
use lttv_engine::ids::OwnerId;
use lttv_engine::request::{Class, EventsRequest, Gate};
use lttv_engine::source::{EventHead, EventId};
use lttv_engine::synthetic::{SyntheticEvent, SyntheticFile};

use crate::common::*;
use crate::noting::OWNER;

#[test]
fn r_e1_a_request_without_a_start_is_refused() {
    let (mut engine, traceset, _) = engine(None, &[worked()]);
    let (request, log) = request(1);
    assert_eq!(engine.events_request(traceset, request.until_time(t(5))), Err(CommandError::NoStart));
    assert!(engine.step(lttv_engine::engine::Budget::chunks(1)).idle);
    assert!(log.seen().after.is_empty());
}

#[test]
fn r_e3_a_count_is_of_the_events_in_scope() {
    let (a, b) = (source("a", vec![file("a", &[1, 2, 3, 4])]), source("b", vec![file("b", &[1, 2, 3, 4])]));
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[a.clone(), b.clone()]);
        let (of_b, log) = request(1);
        engine.events_request(traceset, of_b.from_time(t(0)).only_trace(1).count(3)).unwrap();
        let (unbounded, log_all) = request(2);
        engine.events_request(traceset, unbounded.from_time(t(0))).unwrap();
        run(&mut engine);
        assert_eq!((log.events().as_str(), log.seen().delivered), ("1b 2b 3b", 3));
        assert_eq!(log_all.seen().events.len(), 8);
        let none = engine.events_request(traceset, request(1).0.from_time(t(0)).only_trace(2));
        assert_eq!(none, Err(CommandError::NoSuchIndex { index: 2, count: 2 }));
    }
}

#[test]
fn r_e4_r_e5_each_accepted_request_is_told_its_end_once() {
    let (mut engine, traceset, ids) = engine(Some(1), &[worked()]);
    let mut reasons = Vec::new();
    let (completed, log_completed) = request(1);
    engine.events_request(traceset, completed.from_time(t(0)).count(1)).unwrap();
    let (at_end, log_end) = request(1);
    engine.events_request(traceset, at_end.from_time(t(12))).unwrap();
    run(&mut engine);
    reasons.extend([log_completed.end(), log_end.end()]);
    // Ended before its service began: after_request only.
    let (never, log_never) = request(2);
    engine.events_request(traceset, never.from_time(t(0))).unwrap();
    assert_eq!(engine.remove_all(traceset, OwnerId(2)).unwrap(), 1);
    assert_eq!((log_never.seen().before, log_never.seen().chunks_begun), (0, 0));
    // Silent removal calls nothing.
    let (silent, log_silent) = request(3);
    engine.events_request(traceset, silent.from_time(t(0))).unwrap();
    turn(&mut engine);
    assert_eq!(engine.remove_all_silent(traceset, OwnerId(3)).unwrap(), 1);
    assert!(log_silent.seen().after.is_empty());
    let (stopped, log_stopped) = request(4);
    engine.events_request(traceset, stopped.from_time(t(0))).unwrap();
    turn(&mut engine);
    engine.stop(traceset).unwrap();
    let (closed, log_closed) = request(5);
    engine.events_request(traceset, closed.from_time(t(0))).unwrap();
    engine.traceset_close(traceset).unwrap();
    reasons.extend([log_never.end(), log_stopped.end(), log_closed.end()]);
    let ended: Vec<_> = turn(&mut engine).ended.into_iter().map(|ended| ended.reason).collect();
    use EndReason as E;
    assert_eq!(reasons, [E::Completed, E::EndOfTraceset, E::Removed, E::Stopped, E::TraceClosed]);
    assert_eq!(ended, [E::Stopped, E::TraceClosed], "the earlier ones were told by earlier turns");
    engine.close(ids[0]).unwrap();
}

#[test]
fn r_e2_p_8_r_f7_remove_all_removes_every_request_of_the_owner() {
    let (mut engine, traceset, _) = engine(Some(1), &[worked()]);
    let logs: Vec<_> = (0..3)
        .map(|n| {
            let (request, log) = request(1);
            engine.events_request(traceset, request.from_time(t(n * 5))).unwrap();
            log
        })
        .collect();
    let (other, log_other) = request(2);
    engine.events_request(traceset, other.from_time(t(0))).unwrap();
    turn(&mut engine);
    assert_eq!(engine.remove_all(traceset, OwnerId(1)).unwrap(), 3);
    assert!(logs.iter().all(|log| log.end() == EndReason::Removed));
    run(&mut engine);
    assert_eq!(log_other.events(), WORKED);
    assert!(logs.iter().all(|log| log.seen().after.len() == 1));
}

#[test]
fn p_8_l_5_removal_from_a_hook_takes_effect_after_the_event() {
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[worked()]);
        let mut logs = Vec::new();
        for n in 0..3 {
            let (mut request, log) = request(1);
            if n == 1 {
                let hook = Hook::on_event(move |call| {
                    if label(call) == "5b" {
                        call.commands.remove_all(traceset, OwnerId(1));
                    }
                    Flow::Go
                });
                request.event.add(hook).unwrap();
            }
            engine.events_request(traceset, request.from_time(t(0))).unwrap();
            logs.push(log);
        }
        let (other, log_other) = request(2);
        engine.events_request(traceset, other.from_time(t(0))).unwrap();
        run(&mut engine);
        for log in logs {
            assert_eq!((log.events().as_str(), log.end()), ("0a 5a 5b", EndReason::Removed));
        }
        assert_eq!(log_other.events(), WORKED);
    }
}

#[test]
fn p_9_a_removed_request_in_service_gets_after_request() {
    let (mut engine, traceset, _) = engine(Some(1), &[worked()]);
    let (request, log) = request(1);
    let id = engine.events_request(traceset, request.from_time(t(0))).unwrap();
    turn(&mut engine);
    assert!(engine.remove(traceset, id).unwrap());
    assert_eq!((log.end(), log.seen().before), (EndReason::Removed, 1));
    assert!(!engine.remove(traceset, id).unwrap());
}

#[test]
fn r_f1_the_least_start_goes_first_and_equal_ones_together() {
    let (mut engine, traceset, _) = engine(Some(100), &[worked()]);
    let order = Arc::new(Mutex::new(Vec::new()));
    for (owner, from) in [(1, 10), (2, 0), (3, 5), (4, 0)] {
        let to = order.clone();
        let (request, _) = request(owner);
        let mut request = request.from_time(t(from)).until_time(t(from + 1));
        request
            .before_request
            .add(Hook::on_border(move |call| {
                to.lock().unwrap().push(call.owner.unwrap().0);
                Flow::Go
            }))
            .unwrap();
        engine.events_request(traceset, request).unwrap();
    }
    let progress = run(&mut engine);
    assert_eq!(*order.lock().unwrap(), [2, 4, 3, 1]);
    assert_eq!(progress.foreground_chunks, 3);
}

#[test]
fn r_f2_p_5_overlapping_requests_share_the_sweep_across_turns() {
    for chunk in CHUNKS {
        let times: Vec<i64> = (0..15).collect();
        let (mut engine, traceset, _) = engine(chunk, &[source("f2", vec![file("a", &times)])]);
        let (a, log_a) = request(1);
        let (b, log_b) = request(2);
        engine.events_request(traceset, a.from_time(t(0)).until_time(t(10))).unwrap();
        engine.events_request(traceset, b.from_time(t(5)).until_time(t(15))).unwrap();
        let progress = run(&mut engine);
        assert_eq!((log_a.seen().events.len(), log_b.seen().events.len()), (10, 10));
        assert_eq!((progress.events_read, progress.seeks), (15, 1));
    }
}

#[test]
fn r_f3_p_7_a_time_inside_a_run_of_ties_needs_its_own_seek() {
    for chunk in [Some(2), Some(3)] {
        let (mut engine, traceset, _) = engine(chunk, &[worked()]);
        let (a, log_a) = request(1);
        engine.events_request(traceset, a.from_time(t(0))).unwrap();
        turn(&mut engine);
        // The cursor stands between events of time 5.
        let (b, log_b) = request(2);
        engine.events_request(traceset, b.from_time(t(5)).until_time(t(6))).unwrap();
        run(&mut engine);
        assert_eq!(log_b.events(), "5a 5b 5b'");
        assert_eq!(log_a.events(), WORKED);
    }
}

#[test]
fn p_3_starts_of_waiting_requests_cut_the_chunk() {
    let (mut engine, traceset, _) = engine(None, &[worked()]);
    let middle = engine.position_at(traceset, t(7)).unwrap();
    let (waiting, log_waiting) = request(2);
    let waiting = waiting.from_position(middle).until_time(t(11));
    let (served, log_served) = request(1);
    engine.events_request(traceset, served.from_time(t(0))).unwrap();
    engine.events_request(traceset, waiting).unwrap();
    let progress = run(&mut engine);
    assert_eq!(log_served.events(), WORKED);
    assert_eq!(log_waiting.events(), "7a 10a 10b");
    assert_eq!((progress.events_read, progress.seeks), (8, 1));
}

#[test]
fn p_4_the_least_position_counts_though_the_first_request_is_by_time() {
    let (mut engine, traceset, _) = engine(None, &[worked()]);
    let early = engine.position_at(traceset, t(5)).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |request: EventsRequest| {
        let to = order.clone();
        request.on_event(move |call| {
            to.lock().unwrap().push(label(call));
            Flow::Go
        })
    };
    engine.events_request(traceset, note(request(1).0.from_time(t(10)))).unwrap();
    engine.events_request(traceset, note(request(2).0.from_position(early).count(2))).unwrap();
    run(&mut engine);
    assert_eq!(order.lock().unwrap().join(" "), "5a 5b 10a 10b 12b");
}

#[test]
fn r_f4_hooks_see_only_events_inside_the_bounds_of_their_request() {
    let (mut engine, traceset, _) = engine(Some(3), &[worked()]);
    for (from, until) in [(0, 7), (5, 10), (7, 13)] {
        let (request, _) = request(1);
        let request = request.from_time(t(from)).until_time(t(until)).on_event(move |call| {
            assert!(t(from) <= call.time && call.time < t(until));
            Flow::Go
        });
        engine.events_request(traceset, request).unwrap();
    }
    let ended = run(&mut engine).ended;
    assert!(ended.iter().all(|ended| !matches!(ended.reason, EndReason::Failed(_))), "{ended:?}");
}

#[test]
fn r_f5_p_6_one_long_request_alone_needs_one_seek() {
    let times: Vec<i64> = (0..200).collect();
    let (mut engine, traceset, _) = engine(Some(3), &[source("p6", vec![file("a", &times)])]);
    let (request, log) = request(1);
    engine.events_request(traceset, request.from_time(t(10))).unwrap();
    let progress = run(&mut engine);
    assert_eq!(log.seen().events.len(), 190);
    assert_eq!((progress.seeks, progress.foreground_chunks), (1, 64));
}

#[test]
fn r_f6_a_request_for_an_earlier_place_is_served_at_once() {
    let (mut engine, traceset, _) = engine(Some(1), &[worked()]);
    let (a, _) = request(1);
    engine.events_request(traceset, a.from_time(t(5))).unwrap();
    turn(&mut engine);
    turn(&mut engine);
    let (b, log) = request(2);
    engine.events_request(traceset, b.from_time(t(0)).count(1)).unwrap();
    turn(&mut engine);
    assert_eq!(log.events(), "0a");
}

#[test]
fn r_f8_the_scheduler_is_registered_while_there_are_requests() {
    let (mut engine, traceset, _) = engine(None, &[worked()]);
    for _ in 0..2 {
        assert_eq!(engine.registered().count(), 0);
        let (request, _) = request(1);
        engine.events_request(traceset, request.from_time(t(0))).unwrap();
        assert_eq!(engine.registered().collect::<Vec<_>>(), [traceset]);
        run(&mut engine);
    }
    assert_eq!(engine.registered().count(), 0);
}

#[test]
fn r_f9_an_empty_traceset_ends_requests_at_once() {
    let (mut engine, traceset, _) = engine(None, &[]);
    let (request, log) = request(1);
    engine.events_request(traceset, request.from_time(t(0))).unwrap();
    turn(&mut engine);
    assert_eq!(log.end(), EndReason::EndOfTraceset);
    let (mut engine, traceset, _) =
        crate::common::engine(None, &[source("no files", vec![]), source("no events", vec![file("a", &[])])]);
    let (request, log) = crate::common::request(1);
    engine.events_request(traceset, request.from_time(t(0))).unwrap();
    turn(&mut engine);
    assert_eq!(log.end(), EndReason::EndOfTraceset);
}

#[test]
fn r_f10_closing_a_traceset_ends_its_requests() {
    let (mut engine, traceset, _) = engine(Some(1), &[worked()]);
    let (request, log) = request(1);
    engine.events_request(traceset, request.from_time(t(0))).unwrap();
    turn(&mut engine);
    engine.traceset_close(traceset).unwrap();
    assert_eq!(log.end(), EndReason::TraceClosed);
    assert_eq!(engine.remove_all(traceset, OwnerId(1)), Err(CommandError::NoTraceset));
    assert!(turn(&mut engine).idle);
}

#[test]
fn r_f11_stop_ends_all_and_completed_intervals_tell_what_is_left() {
    let (mut engine, traceset, _) = engine(Some(3), &[worked()]);
    let (first, log) = request(1);
    engine.events_request(traceset, first.from_time(t(0))).unwrap();
    turn(&mut engine);
    assert_eq!(engine.stop(traceset).unwrap(), 1);
    assert_eq!((log.events().as_str(), log.end()), ("0a 5a 5b", EndReason::Stopped));
    let done = engine.completed(traceset, OwnerId(1)).to_vec();
    assert_eq!(done.len(), 1);
    let (rest, log) = request(1);
    engine.events_request(traceset, rest.from_position(done[0].to.clone())).unwrap();
    run(&mut engine);
    assert_eq!(log.events(), "5b' 7a 10a 10b 12b");
    // The two parts have become one.
    let done = engine.completed(traceset, OwnerId(1));
    assert_eq!((done.len(), done[0].from.time(), done[0].to.is_end()), (1, Some(t(0)), true));
    engine.forget_completed(traceset, OwnerId(1));
    assert!(engine.completed(traceset, OwnerId(1)).is_empty());
}

#[test]
fn r_f12_a_failing_hook_ends_its_own_request() {
    for chunk in CHUNKS {
        for how in 0..3 {
            let (mut engine, traceset, _) = engine(chunk, &[worked()]);
            let (good, log_good) = request(1);
            let (bad, log_bad) = request(2);
            let (after, log_after) = request(3);
            engine.events_request(traceset, good.from_time(t(0))).unwrap();
            let mut bad = bad.from_time(t(0)).on_event(move |call| {
                if label(call) != "5b" {
                    return Flow::Go;
                }
                match how {
                    0 => panic!("hook"),
                    1 => Flow::Fail("hook".into()),
                    _ => Flow::Go,
                }
            });
            if how == 2 {
                let at_end =
                    Hook::on_border(
                        |call| if call.delivered >= 3 { Flow::Fail("hook".into()) } else { Flow::Go },
                    );
                bad.after_chunk_trace.add(at_end).unwrap();
            }
            engine.events_request(traceset, bad).unwrap();
            engine.events_request(traceset, after.from_time(t(0))).unwrap();
            run(&mut engine);
            assert_eq!((log_good.events().as_str(), log_after.events().as_str()), (WORKED, WORKED));
            assert!(matches!(log_bad.end(), EndReason::Failed(why) if why.contains("hook")), "{how}");
            if how < 2 {
                assert_eq!(log_bad.events(), "0a 5a 5b");
            }
        }
    }
}

#[test]
fn r_h3_event_and_by_id_lists_are_merged_by_priority() {
    let (mut engine, traceset, _) = engine(None, &[worked()]);
    let order = Arc::new(Mutex::new(Vec::new()));
    let hook = |name: &'static str, priority: u8, key: HookKey| {
        let to = order.clone();
        Hook::event(key, priority, move |call| {
            if label(call) == "7a" {
                to.lock().unwrap().push(name);
            }
            Flow::Go
        })
    };
    let key = |data| HookKey { function: 1, data };
    let (mut first, _) = request(1);
    first.event.add(hook("late", 90, key(1))).unwrap();
    first.event.add(hook("shared", 50, key(2))).unwrap();
    first.event_by_id.find("a", EventId(0)).add(hook("by id", 50, key(3))).unwrap();
    first.event_by_id.find("a", EventId(1)).add(hook("other id", 50, key(4))).unwrap();
    let (mut second, _) = request(2);
    // The same key in both requests: called once for each kind of list.
    second.event.add(hook("shared again", 50, key(2))).unwrap();
    second.event.add(hook("early", 0, key(5))).unwrap();
    second.event_by_id.find("a", EventId(0)).add(hook("shared", 50, key(2))).unwrap();
    engine.events_request(traceset, first.from_time(t(0))).unwrap();
    engine.events_request(traceset, second.from_time(t(0))).unwrap();
    run(&mut engine);
    assert_eq!(*order.lock().unwrap(), ["early", "shared", "by id", "shared", "late"]);
}

#[test]
fn r_h1_i_5_a_hook_of_two_requests_is_called_once_for_an_event_of_both() {
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[worked()]);
        let count = Count::default();
        for (owner, from, until) in [(1, 0, 10), (2, 5, 13)] {
            let to = count.clone();
            let (mut request, _) = request(owner);
            let hook = Hook::event(HookKey { function: 9, data: 9 }, 50, move |_| {
                to.add(1);
                Flow::Go
            });
            request.event.add(hook).unwrap();
            engine.events_request(traceset, request.from_time(t(from)).until_time(t(until))).unwrap();
        }
        run(&mut engine);
        assert_eq!(count.get(), 8);
    }
}

#[test]
fn a_key_with_two_priorities_fails_the_later_request() {
    let (mut engine, traceset, _) = engine(None, &[worked()]);
    let mut logs = Vec::new();
    for (owner, priority) in [(1, 50), (2, 51)] {
        let (mut request, log) = request(owner);
        request.event.add(Hook::event(HookKey { function: 9, data: 9 }, priority, |_| Flow::Go)).unwrap();
        engine.events_request(traceset, request.from_time(t(0))).unwrap();
        logs.push(log);
    }
    run(&mut engine);
    assert_eq!(logs[0].events(), WORKED);
    assert!(matches!(logs[1].end(), EndReason::Failed(_)));
    assert_eq!(logs[1].events(), "");
}

#[test]
fn p_22_an_event_id_counts_in_its_own_channel_only() {
    let event = |ts| SyntheticEvent {
        ts,
        id: 1,
        cpu: 0,
        fields: vec![("label".into(), lttv_engine::source::Value::Unsigned(0))],
    };
    let files =
        ["x", "y"].map(|channel| SyntheticFile::new(channel, None, &["e", "f"], vec![event(1), event(2)]));
    let (mut engine, traceset, _) = engine(None, &[source("channels", files.into())]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let to = seen.clone();
    let mut request = EventsRequest::new(OwnerId(1)).from_time(t(0));
    let hook = Hook::on_event(move |call| {
        to.lock().unwrap().push((call.info().channel.to_string(), call.name().to_string()));
        Flow::Go
    });
    request.event_by_id.find("y", EventId(1)).add(hook).unwrap();
    engine.events_request(traceset, request).unwrap();
    run(&mut engine);
    assert_eq!(*seen.lock().unwrap(), [("y".into(), "f".into()), ("y".into(), "f".to_string())]);
}

#[test]
fn r_h4_requests_made_in_hooks_begin_at_the_next_border() {
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &[worked()]);
        let inner = Arc::new(Mutex::new(Vec::new()));
        let to = inner.clone();
        let (request, log) = request(1);
        let request = request.from_time(t(0)).on_event(move |call| {
            if label(call) == "5b" {
                let to = to.clone();
                let from_here = EventsRequest::new(OwnerId(2)).from_time(t(7)).count(2);
                call.commands.events_request(
                    traceset,
                    from_here.on_event(move |call| {
                        to.lock().unwrap().push(label(call));
                        Flow::Go
                    }),
                );
            }
            Flow::Go
        });
        engine.events_request(traceset, request).unwrap();
        let progress = run(&mut engine);
        assert_eq!(log.events(), WORKED);
        assert_eq!(inner.lock().unwrap().join(" "), "7a 10a");
        assert_eq!(progress.events_read, 8, "it joins the sweep");
    }
}

#[test]
fn r_h5_l_1_a_hook_that_always_stops_makes_chunks_of_one_event() {
    let (mut engine, traceset, _) = engine(None, &[worked()]);
    let (request, log) = request(1);
    let after = Count::default();
    let to = after.clone();
    let mut request = request.from_time(t(0));
    request.event.add(Hook::event(HookKey::unique(), 10, |_| Flow::Stop)).unwrap();
    request
        .event
        .add(Hook::event(HookKey::unique(), 90, move |_| {
            to.add(1);
            Flow::Go
        }))
        .unwrap();
    engine.events_request(traceset, request).unwrap();
    let progress = run(&mut engine);
    assert_eq!((log.events().as_str(), after.get(), progress.foreground_chunks), (WORKED, 8, 8));
}

#[test]
fn border_hooks_come_in_their_order() {
    let (mut engine, traceset, _) = engine(None, &[worked()]);
    let moments = Arc::new(Mutex::new(Vec::new()));
    let hook = || {
        let to = moments.clone();
        Hook::on_border(move |call| {
            to.lock().unwrap().push((call.moment, call.trace, call.tracefile));
            Flow::Go
        })
    };
    let mut request = EventsRequest::new(OwnerId(1)).from_time(t(0)).count(1);
    request.before_request.add(hook()).unwrap();
    request.before_chunk_traceset.add(hook()).unwrap();
    request.before_chunk_trace.add(hook()).unwrap();
    request.before_chunk_tracefile.add(hook()).unwrap();
    request.after_chunk_tracefile.add(hook()).unwrap();
    request.after_chunk_trace.add(hook()).unwrap();
    request.after_chunk_traceset.add(hook()).unwrap();
    request.after_request.add(hook()).unwrap();
    engine.events_request(traceset, request).unwrap();
    run(&mut engine);
    use Moment as M;
    let expected = [
        (M::BeforeRequest, None, None),
        (M::BeforeChunkTraceset, None, None),
        (M::BeforeChunkTrace, Some(0), None),
        (M::BeforeChunkTracefile, Some(0), Some(0)),
        (M::BeforeChunkTracefile, Some(0), Some(1)),
        (M::AfterChunkTracefile, Some(0), Some(0)),
        (M::AfterChunkTracefile, Some(0), Some(1)),
        (M::AfterChunkTrace, Some(0), None),
        (M::AfterChunkTraceset, None, None),
        (M::AfterRequest, None, None),
    ];
    assert_eq!(*moments.lock().unwrap(), expected);
}

#[test]
fn x_1_l_4_a_visible_request_goes_before_an_early_long_prefetch() {
    let times: Vec<i64> = (0..100).collect();
    let (mut engine, traceset, _) = engine(Some(10), &[source("x1", vec![file("a", &times)])]);
    let (long, log_long) = request(1);
    engine.events_request(traceset, long.from_time(t(0)).class(Class::Prefetch)).unwrap();
    turn(&mut engine);
    let (visible, log) = request(2);
    engine.events_request(traceset, visible.from_time(t(80)).until_time(t(85))).unwrap();
    turn(&mut engine);
    assert_eq!((log.seen().events.len(), log.end()), (5, EndReason::Completed));
    run(&mut engine);
    assert_eq!(log_long.seen().events.len(), 100);
}

#[test]
fn a_closed_gate_holds_back_its_request_only() {
    let (mut engine, traceset, _) = engine(None, &[worked()]);
    let gate = Gate::new();
    let closing = gate.clone();
    let (slow, log_slow) = request(1);
    let mut slow = slow.from_time(t(0)).on_event(move |call| {
        if label(call) == "5b" {
            closing.close();
            return Flow::Stop;
        }
        Flow::Go
    });
    slow.gate = Some(gate.clone());
    let (other, log_other) = request(2);
    engine.events_request(traceset, slow).unwrap();
    engine.events_request(traceset, other.from_time(t(0))).unwrap();
    assert!(run(&mut engine).ended.len() == 1);
    assert_eq!((log_slow.events().as_str(), log_other.events().as_str()), ("0a 5a 5b", WORKED));
    gate.open();
    run(&mut engine);
    assert_eq!(log_slow.events(), WORKED);
}

#[test]
fn hooks_by_name_are_called_for_that_name_whatever_its_id() {
    // One channel name, two tables of classes: the name has another id in each trace, and none in the third.
    let of = |classes: &[&str], times: &[i64]| {
        let events = times.iter().enumerate().map(|(n, ts)| SyntheticEvent {
            ts: *ts,
            id: u32::try_from(n % 2).unwrap(),
            cpu: EventHead::NO_CPU,
            fields: Vec::new(),
        });
        source(classes[0], vec![SyntheticFile::new("channel", None, classes, events.collect())])
    };
    let sources = [of(&["switch", "other"], &[1, 2, 3]), of(&["another", "switch"], &[11, 12, 13])];
    for chunk in CHUNKS {
        let (mut engine, traceset, _) = engine(chunk, &sources);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let to = seen.clone();
        let request = EventsRequest::new(OWNER).from_time(t(0)).on_event_named("switch", move |call| {
            to.lock().unwrap().push((call.name().to_string(), call.time.ns()));
            Flow::Go
        });
        engine.events_request(traceset, request).unwrap();
        turn(&mut engine);
        // A trace that comes later, when the request is under way.
        let late = engine.open_source(of(&["x", "switch"], &[20, 21]));
        engine.traceset_add(traceset, late).unwrap();
        run(&mut engine);
        let seen = seen.lock().unwrap();
        let times: Vec<i64> = seen.iter().map(|(_, time)| *time).collect();
        assert!(seen.iter().all(|(name, _)| name == "switch"));
        let whole = chunk.is_some_and(|events| events < 6);
        assert_eq!(times, if whole { vec![1, 3, 12, 21] } else { vec![1, 3, 12] }, "{chunk:?}");
    }
}

#[test]
fn one_hook_by_id_and_by_name_is_called_once_and_must_have_one_priority() {
    let (mut engine, traceset, _) = engine(None, &[worked()]);
    for (priority, calls) in [(50, 8), (51, 0)] {
        let count = Count::default();
        let to = count.clone();
        let hook = |priority| {
            let to = to.clone();
            Hook::event(HookKey { function: 7, data: 7 }, priority, move |_| {
                to.add(1);
                Flow::Go
            })
        };
        let mut request = EventsRequest::new(OWNER).from_time(t(0));
        request.event_by_id.find("a", EventId(0)).add(hook(50)).unwrap();
        request.event_by_name.find("e").add(hook(priority)).unwrap();
        engine.events_request(traceset, request).unwrap();
        let ended = run(&mut engine).ended;
        let failed = matches!(ended[0].reason, EndReason::Failed(_));
        assert_eq!((failed, count.get()), (calls == 0, calls));
    }
}
