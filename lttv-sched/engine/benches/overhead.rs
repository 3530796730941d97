//! What the engine costs in addition to plain decoding.
//!
//!     cargo bench -p lttv-engine --bench overhead [-- EVENTS_PER_FILE]
//!
//! A made-up binary format (id, time delta, two numbers, a text, all with bounds checks) stands for a real
//! reader; eight tracefiles with bursts stand for eight CPUs. The rows are: decoding file after file without any merge;
//! a loop over the same cursors with a heap, as a program without the engine would have; the same through the engine
//! with no hook, one hook for every event, one hook for one kind of event; a background pass. Times are CPU times of
//! the thread, so that other work on the machine counts little. Each row is the median of interleaved runs. Ratios are
//! to plain decoding and to the plain merge of the same round. Decoding an event costs some 12 ns here, a quarter of an
//! event of a CTF trace. `cargo bench -p lttv-ctf --bench decode` shows what the engine costs over a real reader.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lttv_engine::engine::Engine;
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::identity::TraceIdentity;
use lttv_engine::ids::OwnerId;
use lttv_engine::module::{Module, ModuleHooks};
use lttv_engine::request::EventsRequest;
use lttv_engine::source::{
    Cursor, CursorPos, EventClass, EventHead, EventId, FieldVisitor, ReadError, Scope, Source, TracefileInfo,
    Value,
};
use lttv_engine::time::Time;
use pct_kit::{Dice, median, thread_ns};

const FILES: usize = 8;

struct Packed {
    identity: TraceIdentity,
    infos: Vec<TracefileInfo>,
    files: Arc<Vec<Vec<u8>>>,
}

/// Writes files whose times interleave in bursts, as those of busy CPUs do.
fn packed(per_file: usize) -> Packed {
    let mut dice = Dice::new(1);
    let mut files = Vec::new();
    for _ in 0..FILES {
        let mut bytes = Vec::with_capacity(per_file * 32);
        for n in 0..per_file {
            let roll = dice.roll();
            let delta: u32 = if roll.is_multiple_of(16) { 20_000 } else { 100 + (roll >> 8) as u32 % 300 };
            bytes.push((n % 5) as u8);
            bytes.extend(delta.to_le_bytes());
            bytes.extend((roll as u32).to_le_bytes());
            bytes.extend(roll.to_le_bytes());
            let text = &b"swapper/0 kworker/3:1"[..4 + (roll >> 40) as usize % 16];
            bytes.extend(text);
            bytes.push(0);
        }
        files.push(bytes);
    }
    let classes: Arc<[EventClass]> = ["a", "b", "c", "d", "e"].map(EventClass::named).into();
    let info = |file: usize| TracefileInfo {
        channel: "packed".into(),
        name: format!("packed_{file}").as_str().into(),
        cpu: Some(file as u32),
        classes: classes.clone(),
    };
    Packed {
        identity: TraceIdentity::named("packed"),
        infos: (0..FILES).map(info).collect(),
        files: Arc::new(files),
    }
}

struct PackedCursor {
    files: Arc<Vec<Vec<u8>>>,
    file: usize,
    at: usize,
    end: usize,
    time: i64,
    head: Option<EventHead>,
}

impl PackedCursor {
    fn decode(&mut self) -> Result<Option<EventHead>, ReadError> {
        let bytes = &self.files[self.file];
        if self.at >= bytes.len() {
            self.head = None;
            return Ok(None);
        }
        let fixed = bytes.get(self.at..self.at + 17).ok_or_else(|| ReadError::new("cut"))?;
        let text = &bytes[self.at + 17..];
        let length =
            text.iter().position(|byte| *byte == 0).ok_or_else(|| ReadError::new("no end of text"))?;
        let delta = u32::from_le_bytes([fixed[1], fixed[2], fixed[3], fixed[4]]);
        self.time += i64::from(delta);
        self.end = self.at + 17 + length + 1;
        self.head =
            Some(EventHead { ts: Time(self.time), id: EventId(u32::from(fixed[0])), cpu: self.file as u32 });
        Ok(self.head)
    }
}

impl Cursor for PackedCursor {
    fn head(&self) -> Option<EventHead> {
        self.head
    }
    fn advance(&mut self) -> Result<Option<EventHead>, ReadError> {
        self.at = self.end;
        self.decode()
    }
    fn seek_time(&mut self, t: Time) -> Result<Option<EventHead>, ReadError> {
        (self.at, self.end, self.time) = (0, 0, 0);
        let mut head = self.decode()?;
        while head.is_some_and(|head| head.ts < t) {
            head = self.advance()?;
        }
        Ok(head)
    }
    fn seek(&mut self, pos: CursorPos) -> Result<Option<EventHead>, ReadError> {
        (self.at, self.time) = (pos.0[0] as usize, pos.0[1] as i64);
        self.decode()
    }
    fn pos(&self) -> CursorPos {
        CursorPos([self.at as u64, self.time as u64, 0, 0])
    }
    fn field_in(&self, _: Scope, name: &str) -> Option<Value<'_>> {
        let bytes = self.files[self.file].get(self.at..self.end)?;
        (name == "text").then(|| Value::Text(Cow::Borrowed(std::str::from_utf8(&bytes[17..]).unwrap_or(""))))
    }
    fn visit(&self, _: Scope, _: &mut dyn FieldVisitor) {}
}

impl Source for Packed {
    fn identity(&self) -> &TraceIdentity {
        &self.identity
    }
    fn tracefiles(&self) -> &[TracefileInfo] {
        &self.infos
    }
    fn cursor(&self, file: usize) -> Result<Box<dyn Cursor>, ReadError> {
        Ok(Box::new(PackedCursor { files: self.files.clone(), file, at: 0, end: 0, time: 0, head: None }))
    }
    fn time_span(&self) -> Option<(Time, Time)> {
        Some((Time(0), Time(i64::MAX - 1)))
    }
}

/// A background module with one cheap hook.
struct Counting;

impl Module for Counting {
    fn name(&self) -> &str {
        "counting"
    }
    fn hooks(&self, _: &Arc<dyn Source>) -> ModuleHooks {
        let mut hooks = ModuleHooks::default();
        let mut count = 0u64;
        let hook = Hook::on_event(move |_| {
            count += 1;
            std::hint::black_box(count);
            Flow::Go
        });
        hooks.event.add(hook).expect("its key is new");
        hooks
    }
}

fn plain(source: &Arc<Packed>) -> u64 {
    let mut count = 0;
    for file in 0..FILES {
        let mut cursor = source.cursor(file).expect("memory can be read");
        let mut head = cursor.seek_time(Time::MIN).expect("whole");
        while let Some(event) = head {
            count += 1;
            std::hint::black_box(event.ts);
            head = cursor.advance().expect("whole");
        }
    }
    count
}

fn merged(source: &Arc<Packed>) -> u64 {
    let mut cursors: Vec<_> =
        (0..FILES).map(|file| source.cursor(file).expect("memory can be read")).collect();
    let mut queue = BinaryHeap::new();
    for (file, cursor) in cursors.iter_mut().enumerate() {
        let head = cursor.seek_time(Time::MIN).expect("whole");
        queue.extend(head.map(|head| Reverse((head.ts, file))));
    }
    let mut count = 0;
    while let Some(mut top) = queue.peek_mut() {
        count += 1;
        std::hint::black_box(top.0.0);
        match cursors[top.0.1].advance().expect("whole") {
            Some(head) => top.0.0 = head.ts,
            None => drop(PeekMut::pop(top)),
        }
    }
    count
}

#[derive(Clone, Copy)]
enum Way {
    Plain,
    Merged,
    NoHook,
    EveryEvent,
    OneKind,
    Background,
}

fn serve(source: &Arc<Packed>, way: Way) -> u64 {
    let mut engine = Engine::default();
    let trace = engine.open_source(source.clone());
    let calls = Arc::new(AtomicU64::new(0));
    if let Way::Background = way {
        engine.register(Arc::new(Counting)).expect("the first module");
        engine.request(trace, "counting", OwnerId(1)).expect("it is there");
    } else {
        let traceset = engine.traceset_new();
        engine.traceset_add(traceset, trace).expect("both are there");
        let mut request = EventsRequest::new(OwnerId(1)).from_time(Time::MIN);
        let mut count = 0u64;
        let hook = Hook::on_event(move |call| {
            count += 1;
            std::hint::black_box((call.time, count));
            Flow::Go
        });
        match way {
            Way::EveryEvent => request.event.add(hook).expect("its key is new"),
            Way::OneKind => request.event_by_id.find("packed", EventId(3)).add(hook).expect("its key is new"),
            _ => {}
        }
        engine.events_request(traceset, request).expect("it has a start");
    }
    let events = engine.run_until_idle();
    std::hint::black_box(calls.load(Ordering::Relaxed));
    events
}

fn main() {
    let per_file = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(250_000);
    let source = Arc::new(packed(per_file));
    let ways = [
        ("plain decoding, no merge", Way::Plain),
        ("plain decoding and a heap", Way::Merged),
        ("engine, no hook", Way::NoHook),
        ("engine, hook for every event", Way::EveryEvent),
        ("engine, hook for one kind of five", Way::OneKind),
        ("background pass, hook for every event", Way::Background),
    ];
    const ROUNDS: usize = 9;
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for (at, (_, way)) in ways.iter().enumerate() {
            let start = thread_ns();
            let count = match way {
                Way::Plain => plain(&source),
                Way::Merged => merged(&source),
                way => serve(&source, *way),
            };
            assert_eq!(count, (per_file * FILES) as u64);
            times[at].push((thread_ns() - start) / count as f64);
        }
    }
    println!("{:<40} {:>9} {:>9} {:>9}", "", "ns/event", "to plain", "to merge");
    for (at, (name, _)) in ways.iter().enumerate() {
        let ratio =
            |base: usize| median((0..ROUNDS).map(|round| times[at][round] / times[base][round]).collect());
        println!("{name:<40} {:>9.1} {:>9.2} {:>9.2}", median(times[at].clone()), ratio(0), ratio(1));
    }
}
