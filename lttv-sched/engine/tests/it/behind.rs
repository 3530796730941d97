//! The background scheduler, modules, notifications, traces and locks, the order of work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lttv_engine::attribute::AttributeValue;
use lttv_engine::background::BackgroundNotify;
use lttv_engine::call::{Cause, EndReason};
use lttv_engine::diagnostic::DiagnosticKind;
use lttv_engine::engine::{Budget, CommandError, Engine, Notified, Outcome};
use lttv_engine::hooks::{Flow, Hook, HookKey};
use lttv_engine::identity::TraceIdentity;
use lttv_engine::ids::{OwnerId, TraceId};
use lttv_engine::module::{Module, ModuleError, ModuleHooks};
use lttv_engine::source::{Cursor, ReadError, Source, TracefileInfo};
use lttv_engine::synthetic::SyntheticTrace;
use lttv_engine::time::Time;
use lttv_engine::trace::ModuleStatus;

use crate::common::*;

/// A module that writes down what happens to it.
struct Noting {
    name: &'static str,
    needs: &'static [&'static str],
    fail_at: Option<u64>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Module for Noting {
    fn name(&self) -> &str {
        self.name
    }
    fn prerequisites(&self) -> &[&str] {
        self.needs
    }
    fn hooks(&self, _: &Arc<dyn Source>) -> ModuleHooks {
        let mut hooks = ModuleHooks::default();
        let border = |what: &'static str| {
            let (notes, name) = (self.notes.clone(), self.name);
            Hook::on_border(move |call| {
                let status = call.own.as_ref().map(|own| own.status(name));
                let reason = call.reason.map_or_else(String::new, |reason| format!(" {reason:?}"));
                notes.lock().unwrap().push(format!("{name} {what} {:?}{reason}", status.unwrap_or_default()));
                Flow::Go
            })
        };
        hooks.before_request.add(border("begin")).unwrap();
        hooks.hook_adder.add(border("add")).unwrap();
        hooks.hook_remover.add(border("remove")).unwrap();
        hooks.after_request.add(border("end")).unwrap();
        let (count, name, fail_at) = (Count::default(), self.name, self.fail_at);
        let key = HookKey { function: name.len() as u64, data: u64::from(name.as_bytes()[name.len() - 1]) };
        let counting = count.clone();
        hooks
            .event
            .add(Hook::event(key, 50, move |_| {
                counting.add(1);
                if fail_at == Some(counting.get()) { Flow::Fail("asked to".into()) } else { Flow::Go }
            }))
            .unwrap();
        hooks
            .hook_remover
            .add(Hook::on_border(move |call| {
                if let Some(own) = call.own.as_deref_mut() {
                    own.publish(name, Arc::new(count.get()));
                }
                Flow::Go
            }))
            .unwrap();
        hooks
    }
}

type Notes = Arc<Mutex<Vec<String>>>;

fn modules(engine: &mut Engine) -> Notes {
    let notes = Notes::default();
    let all: [(&str, &[&str], Option<u64>); 4] =
        [("state", &[], None), ("stats", &["state"], None), ("other", &[], None), ("bad", &[], Some(5))];
    for (name, needs, fail_at) in all {
        engine.register(Arc::new(Noting { name, needs, fail_at, notes: notes.clone() })).unwrap();
    }
    notes
}

fn take(notes: &Notes) -> Vec<String> {
    std::mem::take(&mut notes.lock().unwrap())
}

type Told = Arc<Mutex<Vec<(u64, Cause)>>>;

fn notify(told: &Told, owner: u64, module: &str) -> BackgroundNotify {
    let to = told.clone();
    let hook = Hook::on_border(move |call| {
        to.lock().unwrap().push((call.owner.unwrap().0, call.cause.unwrap()));
        Flow::Go
    });
    BackgroundNotify::new(OwnerId(owner), module, hook)
}

fn told(told: &Told) -> Vec<(u64, Cause)> {
    told.lock().unwrap().clone()
}

fn background(chunk: Option<u64>) -> (Engine, TraceId, Notes) {
    let (mut engine, _, ids) = engine(chunk, &[worked()]);
    let notes = modules(&mut engine);
    (engine, ids[0], notes)
}

const OWNER: OwnerId = OwnerId(1);

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
    // Attached while one pass runs, called by the next.
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
        call.commands.defer(move |engine| drop(engine.request_and_notify(trace, again)));
        Flow::Go
    });
    engine.request(trace, "state", OWNER).unwrap();
    engine.notify_queue(trace, BackgroundNotify::new(OWNER, "state", hook)).unwrap();
    run(&mut engine);
    assert_eq!(told(&notes), [(7, Cause::EndOfPass)]);
    assert_eq!(engine.trace(trace).unwrap().background().passes, 2);
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
        // It may be asked for again, and fails again.
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
    // Needed only: its hooks run, its flag stays as it was.
    let (mut engine, trace, _) = background(Some(3));
    engine.request(trace, "stats", OWNER).unwrap();
    run(&mut engine);
    assert_eq!(engine.status(trace, "state"), ModuleStatus::Absent);
    assert_eq!(*engine.trace(trace).unwrap().data().result::<u64>("state").unwrap(), 8);
}

#[test]
fn r_t1_i_10_one_open_instance_per_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    std::fs::create_dir(&path).unwrap();
    std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
    struct OfPath(TraceIdentity, SyntheticTrace);
    impl Source for OfPath {
        fn identity(&self) -> &TraceIdentity {
            &self.0
        }
        fn tracefiles(&self) -> &[TracefileInfo] {
            self.1.tracefiles()
        }
        fn cursor(&self, tracefile: usize) -> Result<Box<dyn Cursor>, ReadError> {
            self.1.cursor(tracefile)
        }
        fn time_span(&self) -> Option<(Time, Time)> {
            self.1.time_span()
        }
    }
    let mut engine = Engine::default();
    assert!(engine.open(&path).is_err());
    engine.add_opener(Box::new(|path| {
        let identity = TraceIdentity::of_path(path).map_err(|error| ReadError::new(error.to_string()))?;
        Ok(Some(Arc::new(OfPath(identity, SyntheticTrace::new("x", vec![file("a", &[1])])))))
    }));
    let first = engine.open(&path).unwrap();
    assert_eq!(engine.open(&dir.path().join("link")).unwrap(), first);
    assert_eq!(engine.open(&dir.path().join("link/../trace/")).unwrap(), first);
    assert_eq!(engine.trace(first).unwrap().references(), 3);
    assert!(engine.open(&dir.path().join("absent")).is_err());
    for _ in 0..3 {
        engine.check().unwrap();
        engine.close(first).unwrap();
    }
    assert!(engine.trace(first).is_none());
    assert_eq!(engine.close(first), Err(CommandError::NoTrace));
}

#[test]
fn r_t2_the_instance_lives_while_anything_refers_to_it() {
    let (mut engine, traceset, ids) = engine(Some(2), &[worked()]);
    assert!(!engine.traceset_add(traceset, ids[0]).unwrap(), "adding again is nothing");
    engine.close(ids[0]).unwrap();
    assert_eq!(engine.trace(ids[0]).unwrap().references(), 1);
    let again = engine.open_source(worked());
    assert_eq!(again, ids[0]);
    engine.close(again).unwrap();
    engine.traceset_close(traceset).unwrap();
    assert!(engine.trace(ids[0]).is_none());
}

#[test]
fn r_t3_closing_ends_background_work() {
    let (mut engine, trace, notes) = background(Some(4));
    let notified = Told::default();
    engine.request_and_notify(trace, notify(&notified, 1, "state")).unwrap();
    turn(&mut engine);
    engine.request_and_notify(trace, notify(&notified, 2, "other")).unwrap();
    let traceset = engine.traceset_new();
    engine.traceset_add(traceset, trace).unwrap();
    engine.close(trace).unwrap();
    assert!(engine.trace(trace).is_some());
    let sets: Vec<_> = [traceset].into();
    for set in sets {
        engine.traceset_close(set).unwrap();
    }
    // The traceset that the helper made still holds it.
    assert!(engine.trace(trace).is_some());
    let holders: Vec<_> =
        (0..10).map(lttv_engine::ids::TracesetId).filter(|id| engine.traceset(*id).is_some()).collect();
    for holder in holders {
        engine.traceset_close(holder).unwrap();
    }
    assert!(engine.trace(trace).is_none());
    let seen = take(&notes);
    assert!(seen.contains(&"state end Absent TraceClosed".into()), "{seen:?}");
    assert!(seen.contains(&"other end Absent TraceClosed".into()), "{seen:?}");
    assert_eq!(told(&notified), [(1, Cause::Aborted), (2, Cause::Aborted)]);
    assert!(run(&mut engine).idle || !engine.has_work());
}

#[test]
fn p_14_closing_one_trace_leaves_the_work_of_others() {
    let mut engine = Engine::new(config(Some(2)));
    modules(&mut engine);
    let ids: Vec<_> = (0..3)
        .map(|n| engine.open_source(source(&format!("p14.{n}"), vec![file("a", &[1, 2, 3, 4, 5])])))
        .collect();
    for id in &ids {
        engine.request(*id, "state", OWNER).unwrap();
    }
    turn(&mut engine);
    engine.close(ids[2]).unwrap();
    run(&mut engine);
    for id in &ids[..2] {
        assert_eq!(engine.status(*id, "state"), ModuleStatus::Ready);
    }
}

#[test]
fn r_t4_a_trace_in_two_tabs_is_computed_once_and_both_are_told() {
    let (mut engine, first, ids) = engine(Some(3), &[worked()]);
    modules(&mut engine);
    let second = engine.traceset_new();
    engine.traceset_add(second, ids[0]).unwrap();
    let notified = Told::default();
    for tab in [1, 2] {
        engine.request_and_notify(ids[0], notify(&notified, tab, "state")).unwrap();
    }
    run(&mut engine);
    assert_eq!((told(&notified).len(), engine.trace(ids[0]).unwrap().background().passes), (2, 1));
    let _ = first;
}

#[test]
fn r_t5_removing_a_trace_from_one_traceset_leaves_others_and_the_pass() {
    let (mut engine, first, ids) = engine(Some(2), &[worked()]);
    modules(&mut engine);
    let second = engine.traceset_new();
    engine.traceset_add(second, ids[0]).unwrap();
    engine.request(ids[0], "state", OWNER).unwrap();
    turn(&mut engine);
    let (request, log) = request(1);
    engine.events_request(second, request.from_time(t(0))).unwrap();
    turn(&mut engine);
    engine.traceset_remove(first, ids[0]).unwrap();
    run(&mut engine);
    assert_eq!(log.events(), WORKED);
    let background = engine.trace(ids[0]).unwrap().background();
    assert_eq!((background.passes, background.events_read), (1, 8));
}

/// A source that can be locked, and whose cursors are moved whenever somebody else has it.
struct Locked {
    identity: TraceIdentity,
    inner: Arc<dyn Source>,
    taken: Arc<AtomicBool>,
    held: Arc<AtomicUsize>,
}

impl Source for Locked {
    fn identity(&self) -> &TraceIdentity {
        &self.identity
    }
    fn tracefiles(&self) -> &[TracefileInfo] {
        self.inner.tracefiles()
    }
    fn cursor(&self, tracefile: usize) -> Result<Box<dyn Cursor>, ReadError> {
        self.inner.cursor(tracefile)
    }
    fn time_span(&self) -> Option<(Time, Time)> {
        self.inner.time_span()
    }
    fn try_lock(&self) -> bool {
        let got = !self.taken.load(Ordering::SeqCst);
        self.held.fetch_add(usize::from(got), Ordering::SeqCst);
        got
    }
    fn unlock(&self) {
        self.held.fetch_sub(1, Ordering::SeqCst);
    }
    fn shares_cursor(&self) -> bool {
        true
    }
}

#[test]
fn r_k2_p_10_locks_are_all_or_none_and_never_held_outside() {
    let taken = Arc::new(AtomicBool::new(true));
    let held = Arc::new(AtomicUsize::new(0));
    let sources: Vec<Arc<dyn Source>> = (0..3)
        .map(|n| {
            let taken = if n == 1 { taken.clone() } else { Arc::default() };
            let inner = source("inner", vec![file(&n.to_string(), &[1, 2])]);
            let identity = TraceIdentity::named(&format!("locked {n}"));
            Arc::new(Locked { identity, inner, taken, held: held.clone() }) as Arc<dyn Source>
        })
        .collect();
    let (mut engine, traceset, _) = engine(Some(1), &sources);
    let (request, log) = request(1);
    engine.events_request(traceset, request.from_time(t(0))).unwrap();
    for _ in 0..3 {
        let progress = turn(&mut engine);
        assert!(progress.blocked && !progress.idle);
        assert_eq!((held.load(Ordering::SeqCst), log.events().len()), (0, 0));
    }
    taken.store(false, Ordering::SeqCst);
    while !turn(&mut engine).idle {
        assert_eq!(held.load(Ordering::SeqCst), 0);
    }
    assert_eq!(log.events(), "10 11 12 20 21 22");
}

#[test]
fn r_k1_contexts_do_not_move_each_other() {
    let (mut engine, first, ids) = engine(Some(1), &[worked()]);
    modules(&mut engine);
    let second = engine.traceset_new();
    engine.traceset_add(second, ids[0]).unwrap();
    let (a, log_a) = request(1);
    let (b, log_b) = request(2);
    engine.events_request(first, a.from_time(t(0))).unwrap();
    engine.events_request(second, b.from_time(t(7))).unwrap();
    engine.request(ids[0], "state", OWNER).unwrap();
    let progress = run(&mut engine);
    assert_eq!((log_a.events().as_str(), log_b.events().as_str()), (WORKED, "7a 10a 10b 12b"));
    // R-X3: turn about; each still needs one seek only.
    assert_eq!((progress.seeks, progress.events_read), (2, 20));
}

#[test]
fn r_x1_r_x2_i_9_foreground_goes_before_background() {
    let (mut engine, traceset, ids) = engine(Some(1), &[worked()]);
    modules(&mut engine);
    engine.request(ids[0], "state", OWNER).unwrap();
    for _ in 0..4 {
        assert_eq!(turn(&mut engine).background_chunks, 1);
    }
    // The background stands at 7a.
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
