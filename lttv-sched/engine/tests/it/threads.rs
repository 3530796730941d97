//! The engine in its own thread.

use std::sync::mpsc;

use lttv_engine::call::EndReason;
use lttv_engine::driver::{Driver, Gone, Outbox};
use lttv_engine::engine::Engine;
use lttv_engine::hooks::Flow;
use lttv_engine::ids::OwnerId;
use lttv_engine::request::EventsRequest;

use crate::common::*;

fn driver(chunk: Option<u64>, events: i64) -> (Driver, lttv_engine::ids::TracesetId) {
    let times: Vec<i64> = (0..events).collect();
    let (engine, traceset, _) = engine(chunk, &[source("long", vec![file("a", &times)])]);
    (Driver::spawn(engine, |_| {}).unwrap(), traceset)
}

#[test]
fn r_x2_commands_are_served_between_chunks_and_cut_the_running_one() {
    let (driver, traceset) = driver(None, 200_000);
    let handle = driver.handle();
    let (done, ends) = mpsc::channel();
    let long = EventsRequest::new(OwnerId(1)).from_time(t(0)).on_end(move |call| {
        done.send((call.delivered, call.reason.cloned().unwrap())).unwrap();
        Flow::Go
    });
    let (begun, begins) = mpsc::channel();
    let (sent, is_sent) = mpsc::channel();
    let mut first = true;
    let long = long.on_event(move |_| {
        // It stays in the middle of the chunk until the command was sent, however fast the rest is.
        if std::mem::take(&mut first) {
            begun.send(()).unwrap();
            is_sent.recv().unwrap();
        }
        Flow::Go
    });
    handle.send(move |engine| assert!(engine.events_request(traceset, long).is_ok())).unwrap();
    begins.recv().unwrap();
    let (answer, answers) = mpsc::channel();
    handle.send(move |engine| answer.send(engine.remove_all(traceset, OwnerId(1))).unwrap()).unwrap();
    sent.send(()).unwrap();
    assert_eq!(answers.recv().unwrap(), Ok(1));
    let (delivered, reason) = ends.recv().unwrap();
    assert_eq!(reason, EndReason::Removed);
    assert!(delivered < 200_000, "the only chunk was cut");
    assert!(driver.shutdown().unwrap().check().is_ok());
    assert_eq!(handle.send(|_| {}), Err(Gone));
}

#[test]
fn i_13_the_thread_gives_what_stepping_gives() {
    let (driver, traceset) = driver(Some(7), 1000);
    let handle = driver.handle();
    let (request, log) = request(1);
    let (done, ends) = mpsc::channel();
    let request = request.from_time(t(100)).until_time(t(900)).on_end(move |_| {
        done.send(()).unwrap();
        Flow::Go
    });
    handle.call(move |engine| engine.events_request(traceset, request)).unwrap().unwrap();
    for _ in 0..50 {
        // Commands cut chunks anywhere. The results stay the same.
        handle.call(|engine: &mut Engine| engine.check().unwrap()).unwrap();
    }
    ends.recv().unwrap();
    let expected: Vec<String> = (100..900).map(|n| format!("{n}a")).collect();
    assert_eq!(log.seen().events, expected);
}

#[test]
fn a_slow_client_holds_back_its_own_request_only() {
    let (driver, traceset) = driver(Some(10), 500);
    let handle = driver.handle();
    let outbox = Outbox::new(4, handle.clone());
    let slow_box = outbox.clone();
    let (slow_done, slow_ends) = mpsc::channel();
    let mut slow = EventsRequest::new(OwnerId(1))
        .from_time(t(0))
        .on_event(move |call| if slow_box.push(call.time.ns()) { Flow::Stop } else { Flow::Go })
        .on_end(move |_| {
            slow_done.send(()).unwrap();
            Flow::Go
        });
    slow.gate = Some(outbox.gate());
    let (done, ends) = mpsc::channel();
    let quick = EventsRequest::new(OwnerId(2)).from_time(t(0)).on_end(move |call| {
        done.send(call.delivered).unwrap();
        Flow::Go
    });
    handle
        .send(move |engine| {
            engine.events_request(traceset, slow).unwrap();
            engine.events_request(traceset, quick).unwrap();
        })
        .unwrap();
    assert_eq!(ends.recv().unwrap(), 500);
    let mut got = Vec::new();
    while got.len() < 500 {
        match outbox.take_oldest() {
            Some(item) => got.push(item),
            // Waits until the engine has done what it can.
            None => handle.call(|_| ()).unwrap(),
        }
    }
    slow_ends.recv().unwrap();
    assert_eq!(got, (0..500).collect::<Vec<_>>());
    assert_eq!(outbox.take_oldest(), None);
}
