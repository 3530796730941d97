//! The background scheduler: passes, modules, notifications.

use std::sync::{Arc, Mutex};

use lttv_engine::attribute::AttributeValue;
use lttv_engine::background::BackgroundNotify;
use lttv_engine::call::Cause;
use lttv_engine::command::Command;
use lttv_engine::diagnostic::DiagnosticKind;
use lttv_engine::engine::{CommandError, Engine, Notified, Outcome};
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::ids::{OwnerId, RequestId};
use lttv_engine::module::ModuleError;
use lttv_engine::request::EventsRequest;
use lttv_engine::time::Time;
use lttv_engine::trace::ModuleStatus;

use crate::common::*;
use crate::noting::*;

#[test]
fn r_g1_a_request_never_joins_a_running_pass() {
    let (mut engine, trace, _) = background(Some(3));
    engine.request(trace, "state", OWNER).unwrap();
    turn(&mut engine);
    assert_eq!(engine.request(trace, "other", OWNER).unwrap(), Outcome::Queued);
    run(&mut engine);
    let background = engine.trace(trace).unwrap().background();
    assert_eq!((background.passes, background.events_read), (2, 16));
    assert_eq!(*engine.trace(trace).unwrap().data().result::<u64>("other").unwrap(), 8);
}

#[test]
fn r_g2_p_11_p_12_nothing_is_computed_twice() {
    let (mut engine, trace, notes) = background(Some(3));
    assert_eq!(engine.request(trace, "state", OWNER).unwrap(), Outcome::Queued);
    assert_eq!(engine.request(trace, "state", OwnerId(2)).unwrap(), Outcome::AlreadyQueued);
    turn(&mut engine);
    assert_eq!(engine.request(trace, "state", OwnerId(3)).unwrap(), Outcome::InProgress);
    run(&mut engine);
    assert_eq!(engine.request(trace, "state", OwnerId(4)).unwrap(), Outcome::AlreadyReady);
    assert_eq!(run(&mut engine).events_read, 0);
    assert_eq!(take(&notes).iter().filter(|note| note.contains("begin")).count(), 1);
    assert!(matches!(
        engine.request(trace, "nothing", OWNER),
        Err(CommandError::Module(ModuleError::Unknown(_)))
    ));
}

#[test]
fn r_g3_r_g6_i_12_two_viewers_two_modules_one_pass_four_notifications() {
    let (mut engine, trace, _) = background(Some(3));
    let notes = Told::default();
    for viewer in [1, 2] {
        for module in ["state", "stats"] {
            engine.request_and_notify(trace, notify(&notes, viewer, module)).unwrap();
        }
    }
    let progress = run(&mut engine);
    assert_eq!(progress.events_read, 8);
    assert_eq!(told(&notes).len(), 4);
    assert!(told(&notes).iter().all(|(_, cause)| *cause == Cause::EndOfPass));
    // Later ones are called at once.
    assert_eq!(engine.request_and_notify(trace, notify(&notes, 3, "state")).unwrap(), Outcome::AlreadyReady);
    assert_eq!(told(&notes).last(), Some(&(3, Cause::Reached)));
}

#[test]
fn r_g4_flags_then_after_request_then_notifications() {
    let (mut engine, trace, notes) = background(Some(100));
    let order = notes.clone();
    let hook = Hook::on_border(move |call| {
        let own = call.own.as_ref().unwrap();
        order.lock().unwrap().push(format!("notified {:?} {:?}", own.status("state"), own.status("other")));
        Flow::Go
    });
    engine.request(trace, "state", OWNER).unwrap();
    engine.request(trace, "other", OWNER).unwrap();
    engine.notify_queue(trace, BackgroundNotify::new(OWNER, "state", hook)).unwrap();
    run(&mut engine);
    assert_eq!(
        take(&notes),
        [
            "state begin InProgress",
            "other begin InProgress",
            "state add InProgress",
            "other add InProgress",
            "state remove InProgress Completed",
            "other remove InProgress Completed",
            "state end Ready Completed",
            "other end Ready Completed",
            "notified Ready Ready"
        ]
    );
}

#[test]
fn r_g5_p_13_no_notification_waits_for_a_pass_that_never_comes() {
    let (mut engine, trace, _) = background(Some(3));
    let notes = Told::default();
    assert!(matches!(engine.notify_current(trace, notify(&notes, 1, "state")), Err(CommandError::NoPass(_))));
    assert!(matches!(engine.notify_queue(trace, notify(&notes, 1, "state")), Err(CommandError::NoPass(_))));
    engine.request(trace, "state", OWNER).unwrap();
    assert!(engine.notify_current(trace, notify(&notes, 1, "state")).is_err());
    assert_eq!(engine.notify_queue(trace, notify(&notes, 2, "state")).unwrap(), Notified::Waiting);
    turn(&mut engine);
    assert_eq!(engine.notify_current(trace, notify(&notes, 3, "state")).unwrap(), Notified::Waiting);
    assert!(engine.notify_queue(trace, notify(&notes, 4, "state")).is_err());
    run(&mut engine);
    assert_eq!(engine.notify_queue(trace, notify(&notes, 5, "state")).unwrap(), Notified::Called);
    assert_eq!(told(&notes), [(2, Cause::EndOfPass), (3, Cause::EndOfPass), (5, Cause::Reached)]);
}

#[test]
fn r_g7_l_2_a_notification_is_called_at_the_first_border_past_its_time() {
    let (mut engine, trace, _) = background(Some(2));
    let notes = Told::default();
    engine.request(trace, "state", OWNER).unwrap();
    for (owner, time) in [(1, 5), (2, 10), (3, 99)] {
        engine.notify_queue(trace, notify(&notes, owner, "state").at_time(t(time))).unwrap();
    }
    turn(&mut engine);
    assert_eq!(told(&notes), [(1, Cause::Reached)]);
    turn(&mut engine);
    assert_eq!(told(&notes).len(), 1);
    turn(&mut engine);
    assert_eq!(told(&notes), [(1, Cause::Reached), (2, Cause::Reached)]);
    run(&mut engine);
    assert_eq!(told(&notes).last(), Some(&(3, Cause::EndOfPass)));
    assert_eq!(engine.trace(trace).unwrap().background().notifications(), (0, 0));
}

#[test]
fn r_g8_removed_notifications_are_not_called() {
    let (mut engine, trace, _) = background(Some(2));
    let notes = Told::default();
    engine.request(trace, "state", OWNER).unwrap();
    engine.notify_queue(trace, notify(&notes, 1, "state")).unwrap();
    engine.notify_queue(trace, notify(&notes, 2, "state")).unwrap();
    turn(&mut engine);
    engine.request(trace, "other", OWNER).unwrap();
    engine.notify_queue(trace, notify(&notes, 1, "other")).unwrap();
    assert_eq!(engine.notify_remove(OwnerId(1)), 2);
    run(&mut engine);
    assert_eq!(told(&notes), [(2, Cause::EndOfPass)]);
}

#[test]
fn r_g9_p_16_positions_in_notifications_outlive_passes() {
    let first = source("first", vec![file("x", &[1, 2, 3])]);
    let (mut engine, traceset, ids) = engine(Some(1), &[first, worked()]);
    modules(&mut engine);
    let notes = Told::default();
    let place = engine.position_at(traceset, t(7)).unwrap();
    engine.request(ids[1], "state", OWNER).unwrap();
    engine.notify_queue(ids[1], notify(&notes, 1, "state").at_position(place.clone())).unwrap();
    for _ in 0..4 {
        assert_eq!(told(&notes), []);
        turn(&mut engine);
    }
    assert_eq!(told(&notes), [(1, Cause::Reached)]);
    // Attached while one pass runs, called by the next one.
    engine.request(ids[1], "other", OWNER).unwrap();
    engine.notify_queue(ids[1], notify(&notes, 2, "other").at_position(place.clone())).unwrap();
    run(&mut engine);
    assert_eq!(told(&notes), [(1, Cause::Reached), (2, Cause::Reached)]);
    let elsewhere = engine.open_source(source("else", vec![file("y", &[1])]));
    engine.request(elsewhere, "state", OWNER).unwrap();
    assert!(engine.notify_queue(elsewhere, notify(&notes, 3, "state").at_position(place)).is_err());
}

#[test]
fn r_g10_hooks_may_ask_for_more() {
    let (mut engine, trace, _) = background(Some(2));
    let notes = Told::default();
    let to = notes.clone();
    let hook = Hook::on_border(move |call| {
        let again = notify(&to, 7, "other");
        call.commands.push(Command::RequestAndNotify { trace, notify: again });
        Flow::Go
    });
    engine.request(trace, "state", OWNER).unwrap();
    engine.notify_queue(trace, BackgroundNotify::new(OWNER, "state", hook)).unwrap();
    run(&mut engine);
    assert_eq!(told(&notes), [(7, Cause::EndOfPass)]);
    assert_eq!(engine.trace(trace).unwrap().background().passes, 2);
}

/// Commands are data: they can be printed, and applied to another engine they do the same.
#[test]
fn commands_can_be_printed_and_replayed() {
    let record = || {
        let (mut engine, traceset, ids) = engine(Some(2), &[worked()]);
        modules(&mut engine);
        (engine, traceset, ids[0])
    };
    let (mut first, traceset, trace) = record();
    let seen: Arc<Mutex<Vec<i64>>> = Arc::default();
    let to = seen.clone();
    let request = EventsRequest::new(OWNER).from_time(Time(5)).until_time(Time(10)).on_event(move |event| {
        to.lock().unwrap().push(event.time.ns());
        Flow::Go
    });
    let id = RequestId(40);
    let commands = [
        Command::EventsRequest { traceset, id, request: Box::new(request) },
        Command::Request { trace, module: "state".into(), requester: OWNER },
        Command::Cancel { trace, module: "state".into() },
        Command::RemoveAll { traceset, owner: OwnerId(9) },
    ];
    let shown: Vec<String> = commands.iter().map(ToString::to_string).collect();
    let (t, s) = (trace.0, traceset.0);
    assert_eq!(
        shown,
        [
            format!("events request 40 of traceset {s} by owner 1, from 5, until 10"),
            format!("compute state of trace {t} for owner 1"),
            format!("cancel state of trace {t}"),
            format!("remove all requests of owner 9 from traceset {s}"),
        ]
    );
    let (mut second, ..) = record();
    for engine in [&mut first, &mut second] {
        commands.iter().for_each(|command| engine.apply(command.clone()).unwrap());
        run(engine);
        assert_eq!(std::mem::take(&mut *seen.lock().unwrap()), [5, 5, 5, 7]);
        let next = engine.events_request(traceset, EventsRequest::new(OWNER).from_time(Time(0))).unwrap();
        assert!(next > id, "ids of replayed requests are not given out again");
    }
}

#[test]
fn r_g11_a_failing_module_ends_its_own_request() {
    for chunk in CHUNKS {
        let (mut engine, trace, notes) = background(chunk);
        let notified = Told::default();
        for (owner, module) in [(1, "bad"), (2, "state")] {
            engine.request_and_notify(trace, notify(&notified, owner, module)).unwrap();
        }
        let progress = run(&mut engine);
        assert_eq!(engine.status(trace, "bad"), ModuleStatus::Absent);
        assert_eq!(engine.status(trace, "state"), ModuleStatus::Ready);
        assert_eq!(told(&notified), [(1, Cause::Aborted), (2, Cause::EndOfPass)]);
        assert!(engine.trace(trace).unwrap().data().result::<u64>("bad").is_none());
        assert_eq!(*engine.trace(trace).unwrap().data().result::<u64>("state").unwrap(), 8);
        assert!(take(&notes).contains(&"bad end Absent Failed(\"asked to\")".to_string()));
        let kinds: Vec<_> = progress.diagnostics.into_iter().map(|d| d.kind).collect();
        assert_eq!(kinds, [DiagnosticKind::ModuleFailed { module: "bad".into(), why: "asked to".into() }]);
        // It may be requested again, and fails again.
        assert_eq!(engine.request(trace, "bad", OWNER).unwrap(), Outcome::Queued);
        run(&mut engine);
        assert_eq!(engine.status(trace, "bad"), ModuleStatus::Absent);
    }
}

#[test]
fn r_g12_p_15_cancelling_and_unregistering_during_a_pass() {
    for unregister in [false, true] {
        let (mut engine, trace, notes) = background(Some(2));
        let notified = Told::default();
        engine.request_and_notify(trace, notify(&notified, 1, "state")).unwrap();
        turn(&mut engine);
        engine.request_and_notify(trace, notify(&notified, 2, "other")).unwrap();
        if unregister {
            engine.unregister("state").unwrap();
        } else {
            assert!(engine.cancel(trace, "state").unwrap());
            assert!(!engine.cancel(trace, "state").unwrap());
        }
        engine.check().unwrap();
        assert_eq!(engine.status(trace, "state"), ModuleStatus::Absent);
        assert_eq!(told(&notified), [(1, Cause::Aborted)]);
        assert_eq!(engine.trace(trace).unwrap().background().current().count(), 0);
        let seen = take(&notes);
        assert!(seen.contains(&"state remove InProgress Removed".into()), "{seen:?}");
        assert!(seen.contains(&"state end Absent Removed".into()), "{seen:?}");
        run(&mut engine);
        assert_eq!(engine.status(trace, "other"), ModuleStatus::Ready);
        assert_eq!(told(&notified), [(1, Cause::Aborted), (2, Cause::EndOfPass)]);
    }
}

#[test]
fn r_g12_cancelling_what_others_need_leaves_them_running() {
    let (mut engine, trace, _) = background(Some(2));
    engine.request(trace, "state", OWNER).unwrap();
    engine.request(trace, "stats", OWNER).unwrap();
    turn(&mut engine);
    assert!(engine.cancel(trace, "state").unwrap());
    run(&mut engine);
    assert_eq!(
        (engine.status(trace, "state"), engine.status(trace, "stats")),
        (ModuleStatus::Absent, ModuleStatus::Ready)
    );
    // A queued one is simply dropped.
    engine.request(trace, "other", OWNER).unwrap();
    assert!(engine.cancel(trace, "other").unwrap());
    assert!(run(&mut engine).idle || !engine.has_work());
    assert_eq!(engine.status(trace, "other"), ModuleStatus::Absent);
}

#[test]
fn r_g13_r_a4_partial_results_are_flagged_and_flags_change_at_borders() {
    let (mut engine, trace, _) = background(Some(2));
    let flag = |engine: &Engine, flag: &str| {
        let path = format!("computation/state/{flag}");
        engine.trace(trace).unwrap().data().attributes().get_by_path(&path) == Some(&AttributeValue::None)
    };
    engine.request(trace, "state", OWNER).unwrap();
    assert_eq!((flag(&engine, "in_progress"), flag(&engine, "ready")), (false, false));
    turn(&mut engine);
    assert_eq!((flag(&engine, "in_progress"), flag(&engine, "ready")), (true, false));
    run(&mut engine);
    assert_eq!((flag(&engine, "in_progress"), flag(&engine, "ready")), (false, true));
}

#[test]
fn r_d1_a_prerequisite_is_in_the_pass_once() {
    for first in ["state", "stats"] {
        let (mut engine, trace, _) = background(Some(3));
        engine.request(trace, first, OWNER).unwrap();
        engine.request(trace, if first == "state" { "stats" } else { "state" }, OWNER).unwrap();
        run(&mut engine);
        let data = engine.trace(trace).unwrap().data();
        assert_eq!((*data.result::<u64>("state").unwrap(), *data.result::<u64>("stats").unwrap()), (8, 8));
    }
    // It is only needed: it is computed together with the others and is then ready, without its own request.
    let (mut engine, trace, notes) = background(Some(3));
    engine.request(trace, "stats", OWNER).unwrap();
    turn(&mut engine);
    assert_eq!(engine.status(trace, "state"), ModuleStatus::InProgress);
    run(&mut engine);
    assert_eq!(engine.status(trace, "state"), ModuleStatus::Ready);
    assert_eq!(*engine.trace(trace).unwrap().data().result::<u64>("state").unwrap(), 8);
    let of_state = take(&notes).into_iter().filter(|note| note.starts_with("state ")).collect::<Vec<_>>();
    assert_eq!(of_state, ["state add InProgress", "state remove InProgress Completed"]);
    assert_eq!(engine.request(trace, "state", OWNER).unwrap(), Outcome::AlreadyReady);
}

#[test]
fn what_is_computed_on_the_way_goes_with_its_user_unless_somebody_asked_for_it() {
    for asked in [false, true] {
        let (mut engine, trace, _) = background(Some(3));
        engine.request(trace, "stats", OWNER).unwrap();
        turn(&mut engine);
        if asked {
            assert_eq!(engine.request(trace, "state", OWNER).unwrap(), Outcome::InProgress);
        }
        assert!(engine.cancel(trace, "stats").unwrap());
        engine.check().unwrap();
        let expected = if asked { ModuleStatus::InProgress } else { ModuleStatus::Absent };
        assert_eq!(engine.status(trace, "state"), expected);
        assert_eq!(engine.has_work(), asked);
        run(&mut engine);
        assert_eq!(engine.status(trace, "state") == ModuleStatus::Ready, asked);
    }
}
