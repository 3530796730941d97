//! States of a system and seeking with them.

use std::sync::{Arc, Mutex};

use lttv_engine::engine::{Config, Engine};
use lttv_engine::hooks::{Flow, Hook, HookKey};
use lttv_engine::ids::{OwnerId, TracesetId};
use lttv_engine::request::EventsRequest;
use lttv_engine::synthetic::{SyntheticEvent, SyntheticTrace};
use lttv_engine::time::Time;
use lttv_modules::state::{self, CpuMode, Mode, Status, SystemState, ThreadKey};
use proptest::prelude::*;

use crate::kernel::*;

fn config(chunk: u64, interval: u64) -> Config {
    Config { chunk_events: Some(chunk), save_interval: interval, ..Config::default() }
}

/// The state before each event and after the last, by reading everything in order.
fn sequential(trace: &Arc<SyntheticTrace>) -> Vec<(i64, SystemState)> {
    let (mut engine, traceset, _) = engine(config(1000, 1), trace);
    engine.traceset_use_state(traceset, state::NAME).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (to, end) = (seen.clone(), seen.clone());
    let mut request = EventsRequest::new(OwnerId(1)).from_time(Time::MIN).on_end(move |call| {
        let state = call.context.unwrap().state::<SystemState>(0).unwrap().clone();
        end.lock().unwrap().push((i64::MAX, state));
        Flow::Go
    });
    let before_state = Hook::event(HookKey::unique(), 0, move |call| {
        to.lock().unwrap().push((call.time.ns(), call.state::<SystemState>().unwrap().clone()));
        assert!(!call.state_is_partial());
        Flow::Go
    });
    request.event.add(before_state).unwrap();
    engine.events_request(traceset, request).unwrap();
    run(&mut engine);
    seen.lock().unwrap().clone()
}

/// State after a seek to `t`, whether it is partial, and events replayed.
fn state_at(engine: &mut Engine, traceset: TracesetId, t: i64) -> (SystemState, bool, u64) {
    let found = Arc::new(Mutex::new(None));
    let to = found.clone();
    let mut request = EventsRequest::new(OwnerId(1)).from_time(Time(t)).count(0);
    let look = Hook::on_border(move |call| {
        let context = call.context.unwrap();
        let state = context.state::<SystemState>(0).unwrap().clone();
        *to.lock().unwrap() = Some((state, context.state_is_partial(0)));
        Flow::Go
    });
    request.before_request.add(look).unwrap();
    engine.events_request(traceset, request).unwrap();
    let before = engine.traceset(traceset).unwrap().context().counters.events_replayed;
    run(engine);
    let replayed = engine.traceset(traceset).unwrap().context().counters.events_replayed - before;
    let (state, partial) = found.lock().unwrap().take().unwrap();
    (state, partial, replayed)
}

fn steps(most: usize) -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    proptest::collection::vec(any::<(u8, u8, u8)>(), 1..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn r_z4_a_seek_with_states_ready_gives_the_state_of_a_full_read(steps in steps(60), interval in 1u64..12, chunk in 1u64..9) {
        let (events, _) = history(2, &steps);
        prop_assume!(!events.is_empty());
        let trace = trace("z4", 2, &events);
        let truth = sequential(&trace);
        let (mut engine, traceset, id) = engine(config(chunk, interval), &trace);
        engine.traceset_use_state(traceset, state::NAME).unwrap();
        compute(&mut engine, id, state::NAME);
        // R-Z2: saved state k stands before event k * interval.
        let saved = engine.trace(id).unwrap().data().saved_states(state::NAME).unwrap().clone();
        let expected: Vec<u64> = (1..).map(|k| k * interval).take_while(|n| *n < events.len() as u64).collect();
        prop_assert_eq!(saved.states().iter().map(|s| s.event).collect::<Vec<_>>(), expected);
        // R-Z1: it is the state before that event.
        for state in saved.states() {
            let (time, expected) = &truth[state.event as usize];
            prop_assert_eq!(state.time.ns(), *time);
            prop_assert_eq!(state.snapshot.downcast_ref::<SystemState>().unwrap(), expected);
        }
        prop_assert!(saved.is_complete());
        let (first, last) = (events[0].ts - 2, events.last().unwrap().ts + 2);
        // Forward and backward, so that no seek is spared by chance; twice, so that restoring is seen not to
        // spoil (R-Z6).
        for t in (first..=last).chain((first..=last).rev().step_by(3)) {
            let (state, partial, replayed) = state_at(&mut engine, traceset, t);
            let expected = &truth.iter().find(|(time, _)| *time >= t).unwrap().1;
            prop_assert!(!partial);
            prop_assert_eq!(&state, expected, "at {}", t);
            // R-Z5
            let ties = |of: i64| events.iter().filter(|event| event.ts == of).count() as u64;
            let most = events.iter().map(|event| ties(event.ts)).max().unwrap();
            prop_assert!(replayed <= interval + most, "{} events replayed, interval {}", replayed, interval);
        }
    }

    #[test]
    fn encoded_states_come_back(steps in steps(60)) {
        use lttv_engine::state::{Snapshot, StateModel};
        let (events, _) = history(2, &steps);
        prop_assume!(!events.is_empty());
        let model = state::SystemModel::default();
        for (_, state) in sequential(&trace("enc", 2, &events)) {
            let snapshot: Snapshot = Arc::new(state.clone());
            let bytes = model.encode(&snapshot).unwrap();
            let back = model.decode(&bytes).unwrap();
            prop_assert_eq!(back.downcast_ref::<SystemState>().unwrap(), &state);
            prop_assert!(model.decode(&bytes[..bytes.len() / 2]).is_none());
        }
    }
}

#[test]
fn p_23_without_saved_states_the_state_is_unknown_and_says_so() {
    let (events, _) = history(1, &[(1, 8, 3); 1]);
    let mut events = events;
    events.extend((0..20).map(|n| event(2000 + n, 0, "other", &[])));
    let trace = trace("p23", 1, &events);
    let (mut engine, traceset, id) = engine(config(4, 5), &trace);
    engine.traceset_use_state(traceset, state::NAME).unwrap();
    let (state, partial, replayed) = state_at(&mut engine, traceset, 2010);
    assert!(partial);
    assert_eq!((state, replayed), (SystemState::default(), 0));
    // From the start of the trace nothing is missing.
    assert!(!state_at(&mut engine, traceset, 0).1);
    // While the pass runs, states up to the last saved one can be used.
    engine.request(id, state::NAME, OwnerId(9)).unwrap();
    engine.step(lttv_engine::engine::Budget::chunks(3));
    let until = engine.trace(id).unwrap().data().saved_states(state::NAME).unwrap().time().unwrap();
    let (_, partial, _) = state_at_without_background(&mut engine, traceset, until.ns() - 1);
    assert!(!partial);
    let (_, partial, _) = state_at_without_background(&mut engine, traceset, until.ns() + 3);
    assert!(partial);
    run(&mut engine);
    let (state, partial, _) = state_at(&mut engine, traceset, 2010);
    assert!(!partial);
    assert!(state.cpus[&0].running.is_some());
}

fn state_at_without_background(
    engine: &mut Engine,
    traceset: TracesetId,
    t: i64,
) -> (SystemState, bool, u64) {
    let found = Arc::new(Mutex::new(None));
    let to = found.clone();
    let mut request = EventsRequest::new(OwnerId(1)).from_time(Time(t)).count(0);
    let look = Hook::on_border(move |call| {
        let context = call.context.unwrap();
        *to.lock().unwrap() =
            Some((context.state::<SystemState>(0).unwrap().clone(), context.state_is_partial(0)));
        Flow::Go
    });
    request.before_request.add(look).unwrap();
    engine.events_request(traceset, request).unwrap();
    engine.step(lttv_engine::engine::Budget::chunks(1));
    let (state, partial) = found.lock().unwrap().take().unwrap();
    (state, partial, 0)
}

#[test]
fn threads_go_through_their_lives() {
    let fork = [("parent_tid", int(5)), ("parent_pid", int(5)), ("child_tid", int(6)), ("child_pid", int(6))];
    let events = [
        switch(10, 0, 0, 0, 5),
        event(11, 0, "syscall_entry_read", &[]),
        event(12, 0, "irq_handler_entry", &[("irq", int(9))]),
        event(13, 0, "irq_handler_exit", &[("irq", int(9))]),
        event(14, 0, "syscall_exit_read", &[]),
        event(15, 0, "sched_process_fork", &fork),
        switch(16, 0, 5, 1, 6),
        event(17, 0, "sched_wakeup", &[("tid", int(5))]),
        event(18, 0, "sched_process_exit", &[("tid", int(6))]),
        event(19, 0, "sched_process_free", &[("tid", int(6))]),
        switch(20, 0, 6, 64, 0),
        event(21, 0, "other", &[]),
    ];
    let states = sequential(&trace("life", 1, &events));
    let after = |n: usize| &states[n + 1].1;
    let thread = |n: usize, tid: i64| after(n).thread(ThreadKey::new(tid, 0)).cloned();
    assert_eq!(after(0).cpu_mode(0), CpuMode::Busy);
    assert_eq!(thread(0, 5).unwrap().status, Status::Run);
    assert_eq!(thread(0, 5).unwrap().top().mode, Mode::Unknown);
    let in_call = thread(1, 5).unwrap();
    assert_eq!(
        (in_call.top().mode, &*in_call.top().submode, in_call.stack[0].mode),
        (Mode::Syscall, "read", Mode::User)
    );
    assert_eq!((thread(2, 5).unwrap().stack.len(), after(2).cpu_mode(0)), (3, CpuMode::Irq));
    assert_eq!(after(2).irqs[&9], 1);
    assert_eq!(after(3).irqs[&9], 0);
    assert_eq!(thread(3, 5).unwrap().top().cpu_time, 2);
    assert_eq!(thread(4, 5).unwrap().stack.len(), 1);
    let child = thread(5, 6).unwrap();
    assert_eq!((child.status, child.ppid, child.created), (Status::WaitFork, Some(5), Some(Time(15))));
    assert_eq!(&*child.name, "comm5");
    assert_eq!(thread(6, 5).unwrap().status, Status::Wait);
    assert_eq!(thread(7, 5).unwrap().status, Status::WaitCpu);
    assert_eq!(thread(8, 6).unwrap().status, Status::Exit);
    assert!(thread(9, 6).is_some(), "freed, but still on its CPU");
    assert!(thread(10, 6).is_none());
    assert_eq!(after(10).cpu_mode(0), CpuMode::Idle);
    assert_eq!(after(11).oddities, state::Oddities::default());
}

/// Each event that names a thread is believed, whatever was known before; files are kept beside the name.
#[test]
fn the_latest_event_says_the_name_of_a_thread() {
    let fork = |tid: i64, comm: &str| {
        let fields = [("parent_tid", int(5)), ("child_tid", int(tid)), ("child_comm", text(comm))];
        event(20, 0, "sched_process_fork", &fields)
    };
    let execve = |path: &str, ret: i64| {
        let entry = event(30, 0, "syscall_entry_execve", &[("filename", text(path))]);
        [entry, event(31, 0, "syscall_exit_execve", &[("ret", int(ret))])]
    };
    let name = |events: &[SyntheticEvent], tid: i64| {
        let states = sequential(&trace("names", 1, events));
        let thread = states.last().unwrap().1.thread(ThreadKey::new(tid, 0)).cloned().unwrap();
        (thread.name.to_string(), thread.path.to_string())
    };
    let names = |name: &str, path: &str| (name.to_string(), path.to_string());
    let runs = switch(10, 0, 0, 0, 5);
    assert_eq!(name(std::slice::from_ref(&runs), 5), names("comm5", ""));
    assert_eq!(name(&[runs.clone(), fork(6, "cc1"), event(40, 0, "other", &[])], 6), names("cc1", ""));
    let renamed = event(15, 0, "task_rename", &[("pid", int(5)), ("newcomm", text("worker"))]);
    assert_eq!(name(&[runs.clone(), renamed.clone()], 5), names("worker", ""));
    assert_eq!(name(&[runs.clone(), renamed, switch(16, 0, 5, 1, 0)], 5), names("comm5", ""));
    let set = event(15, 0, "syscall_entry_prctl", &[("option", int(15)), ("arg2", text("poller"))]);
    assert_eq!(name(&[runs.clone(), set], 5), names("poller", ""));
    let exec = event(
        15,
        0,
        "sched_process_exec",
        &[("tid", int(5)), ("filename", text("/usr/bin/a-name-of-more-than-15"))],
    );
    assert_eq!(name(&[runs.clone(), exec], 5), names("a-name-of-more-", "/usr/bin/a-name-of-more-than-15"));
    let [entry, exit] = execve("/bin/ls", 0);
    assert_eq!(name(&[runs.clone(), entry, exit], 5), names("ls", "/bin/ls"));
    let [entry, exit] = execve("/nowhere/ls", -2);
    assert_eq!(name(&[runs, entry, exit], 5), names("comm5", ""), "the call failed");
}

#[test]
fn exits_without_entries_are_counted_and_the_bottom_stays() {
    let fork = [("parent_tid", int(5)), ("child_tid", int(7))];
    let events = [
        event(9, 0, "irq_handler_exit", &[("irq", int(9))]),
        switch(10, 0, 0, 0, 5),
        event(11, 0, "irq_handler_exit", &[("irq", int(9))]),
        event(12, 0, "syscall_exit_read", &[]),
        event(13, 0, "syscall_exit_read", &[]),
        event(14, 0, "sched_process_fork", &fork),
        event(15, 0, "sched_process_fork", &fork),
        switch(16, 0, 7, 0, 5),
    ];
    let states = sequential(&trace("odd", 1, &events));
    let end = &states.last().unwrap().1;
    assert_eq!(end.oddities.unmatched_exits, 3, "the exit of a call begun before the trace is not counted");
    assert_eq!((end.oddities.children_known, end.oddities.wrong_previous), (1, 1));
    assert_eq!(end.running(0).unwrap().stack.len(), 1);
}

#[test]
fn r_z8_saved_states_come_back_from_bytes_and_bad_bytes_are_told() {
    use lttv_engine::diagnostic::DiagnosticKind;
    use lttv_engine::trace::ModuleStatus;
    let (events, _) = history(2, &(0u8..80).map(|n| (n, n.wrapping_mul(37), n)).collect::<Vec<_>>());
    let trace = trace("z8", 2, &events);
    let (mut first, traceset, id) = engine(config(7, 9), &trace);
    assert!(first.export_states(id, state::NAME, b"key").is_none(), "not ready");
    compute(&mut first, id, state::NAME);
    first.traceset_use_state(traceset, state::NAME).unwrap();
    let bytes = first.export_states(id, state::NAME, b"key").unwrap();
    let (mut second, traceset_2, id_2) = engine(config(7, 9), &trace);
    second.traceset_use_state(traceset_2, state::NAME).unwrap();
    assert!(second.import_states(id_2, state::NAME, b"key", &bytes).unwrap());
    assert_eq!(second.status(id_2, state::NAME), ModuleStatus::Ready);
    for t in (990..1300).step_by(3) {
        assert_eq!(state_at(&mut second, traceset_2, t), state_at(&mut first, traceset, t));
    }
    assert_eq!(second.trace(id_2).unwrap().background().events_read, 0);
    assert!(!second.import_states(id_2, state::NAME, b"key", &bytes).unwrap(), "it is ready already");
    // Another key, each byte damaged, each length cut: refused, told, nothing changed, no panic.
    let (mut third, _, id_3) = engine(config(7, 9), &trace);
    let mut refused = |key: &[u8], bytes: &[u8]| {
        assert!(!third.import_states(id_3, state::NAME, key, bytes).unwrap());
        assert_eq!(third.status(id_3, state::NAME), ModuleStatus::Absent);
    };
    refused(b"another", &bytes);
    for at in (0..bytes.len()).step_by(1 + bytes.len() / 400) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        refused(b"key", &damaged);
        refused(b"key", &bytes[..at]);
    }
    let told = third.step(lttv_engine::engine::Budget::chunks(1)).diagnostics;
    assert!(!told.is_empty() && told.iter().all(|d| matches!(d.kind, DiagnosticKind::SavedStates(_))));
}
