//! Traces and tracesets: what is shared and what is not.

use std::sync::Arc;

use lttv_engine::call::Cause;
use lttv_engine::engine::{CommandError, Engine};
use lttv_engine::identity::TraceIdentity;
use lttv_engine::source::{Cursor, ReadError, Source, TracefileInfo};
use lttv_engine::synthetic::SyntheticTrace;
use lttv_engine::time::Time;
use lttv_engine::trace::ModuleStatus;

use crate::common::*;
use crate::noting::*;

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
    // The helper's traceset still holds it.
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
    // R-X3: they take turns; each still needs one seek only.
    assert_eq!((progress.seeks, progress.events_read), (2, 20));
}
