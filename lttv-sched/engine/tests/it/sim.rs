//! Random traces, requests and commands against a naive model: all events sorted, with intervals cut out of them.
//!
//! `LTTV_SIM_CASES` sets how many cases each test runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lttv_engine::background::BackgroundNotify;
use lttv_engine::call::{Cause, EndReason};
use lttv_engine::engine::{Engine, Notified, Outcome};
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::ids::{OwnerId, TraceId, TracesetId};
use lttv_engine::module::{Module, ModuleHooks};
use lttv_engine::position::Position;
use lttv_engine::request::StopFlag;
use lttv_engine::source::{EventHead, Source, Value};
use lttv_engine::synthetic::{SyntheticEvent, SyntheticFile};
use lttv_engine::trace::ModuleStatus;
use pct_kit::Dice;

use crate::common::*;

pub(crate) fn cases(default: u64) -> u64 {
    pct_kit::asked("LTTV_SIM_CASES", default)
}

/// One event of the model's merged sequence.
#[derive(Clone, Debug, PartialEq)]
struct Item {
    time: i64,
    trace: usize,
    label: String,
}

/// Some traces with many equal times, and times that go back now and then.
fn sources(dice: &mut Dice, name: &str) -> Vec<Arc<dyn Source>> {
    let count = 1 + dice.below(3);
    (0..count).map(|trace| random_source(dice, &format!("{name}.{trace}"))).collect()
}

fn random_source(dice: &mut Dice, name: &str) -> Arc<dyn Source> {
    let files = (0..1 + dice.below(3)).map(|file| {
        let mut time = dice.below(6) as i64;
        let events = (0..dice.below(14)).map(|n| {
            time += dice.below(3) as i64;
            let back = if dice.one_in(40) { dice.below(4) as i64 } else { 0 };
            let label = Value::Text(format!("{name}/{file}/{n}").into());
            SyntheticEvent {
                ts: time - back,
                id: dice.below(2) as u32,
                cpu: EventHead::NO_CPU,
                fields: vec![("label".into(), label)],
            }
        });
        let events = events.collect();
        SyntheticFile::new(&format!("c{}", dice.below(2)), None, &["e", "f"], events)
    });
    let files = files.collect();
    source(name, files)
}

/// The merged sequence of some traces: sorted by (time so far, trace, tracefile, index).
fn merged(sources: &[Arc<dyn Source>]) -> Vec<Item> {
    let mut items = Vec::new();
    for (trace, source) in sources.iter().enumerate() {
        for file in 0..source.tracefiles().len() {
            let mut cursor = source.cursor(file).unwrap();
            let mut head = cursor.seek_time(t(i64::MIN)).unwrap();
            let (mut greatest, mut place) = (i64::MIN, 0);
            while let Some(event) = head {
                greatest = greatest.max(event.ts.ns());
                let label = cursor.field("label").unwrap().as_str().unwrap().to_string();
                items.push((greatest, trace, file, place, label));
                place += 1;
                head = cursor.advance().unwrap();
            }
        }
    }
    items.sort();
    items.into_iter().map(|(time, trace, _, _, label)| Item { time, trace, label }).collect()
}

/// What the model expects a request to be given.
#[derive(Clone, Debug)]
struct Expected {
    events: Vec<String>,
    times: Vec<i64>,
    stop_after: Option<usize>,
    by_position: bool,
}

struct Asked {
    owner: u64,
    log: Log,
    expected: Expected,
}

/// All positions of a traceset by index in the merged sequence; the last is the end.
fn positions(engine: &mut Engine, traceset: TracesetId) -> Vec<Position> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let (to, end) = (found.clone(), found.clone());
    let request = lttv_engine::request::EventsRequest::new(OwnerId(1000))
        .from_time(t(i64::MIN))
        .on_event(move |call| {
            to.lock().unwrap().push(call.position());
            Flow::Go
        })
        .on_end(move |call| {
            end.lock().unwrap().push(call.context.unwrap().position());
            Flow::Go
        });
    let id = engine.events_request(traceset, request).unwrap();
    // Others may be pending, so it goes on until this one has ended.
    for _ in 0..100_000 {
        if turn(engine).ended.iter().any(|ended| ended.id == id) {
            break;
        }
    }
    found.lock().unwrap().clone()
}

fn ask(
    dice: &mut Dice,
    engine: &mut Engine,
    traceset: TracesetId,
    items: &[Item],
    positions: &[Position],
    traces: usize,
) -> Asked {
    let owner = 1 + dice.below(3);
    let (mut request, log) = request(owner);
    let mut expected: Vec<&Item> = items.iter().collect();
    let mut by_position = false;
    let latest = items.last().map_or(3, |item| item.time) + 3;
    let start = if positions.is_empty() || dice.below(3) > 0 {
        let from = dice.below(latest as u64 + 2) as i64 - 1;
        request = request.from_time(t(from));
        items.iter().position(|item| item.time >= from).unwrap_or(items.len())
    } else {
        by_position = true;
        let from = dice.below(positions.len() as u64) as usize;
        request = request.from_position(positions[from].clone());
        if dice.one_in(3) {
            request = request.from_time(t(dice.below(9) as i64)); // the position has precedence
        }
        from
    };
    let mut end = items.len();
    if dice.one_in(2) {
        let until = dice.below(latest as u64 + 2) as i64 - 1;
        request = request.until_time(t(until));
        end = end.min(items.iter().position(|item| item.time >= until).unwrap_or(items.len()));
    }
    if !positions.is_empty() && dice.one_in(4) {
        by_position = true;
        let until = dice.below(positions.len() as u64) as usize;
        request = request.until_position(positions[until].clone());
        end = end.min(until);
    }
    expected.truncate(end);
    expected.drain(..start.min(end));
    if traces > 0 && dice.one_in(3) {
        let only = dice.below(traces as u64) as usize;
        request = request.only_trace(only);
        expected.retain(|item| item.trace == only);
    }
    if dice.one_in(3) {
        let n = dice.below(7);
        request = request.count(n);
        expected.truncate(n as usize);
    }
    let mut stop_after = None;
    if dice.one_in(5) {
        let after = 1 + dice.below(4) as usize;
        stop_after = Some(after);
        let flag = StopFlag::new();
        request.stop_flag = flag.clone();
        let mut count = 0;
        request
            .event
            .add(Hook::on_event(move |_| {
                count += 1;
                if count == after {
                    flag.set();
                }
                if count % 3 == 0 { Flow::Stop } else { Flow::Go }
            }))
            .unwrap();
    }
    request.class = match dice.below(6) {
        0 => lttv_engine::request::Class::Near,
        1 => lttv_engine::request::Class::Prefetch,
        _ => lttv_engine::request::Class::Visible,
    };
    engine.events_request(traceset, request).unwrap();
    let expected = Expected {
        events: expected.iter().map(|item| item.label.clone()).collect(),
        times: expected.iter().map(|item| item.time).collect(),
        stop_after,
        by_position,
    };
    Asked { owner, log, expected }
}

fn check_ended(asked: &Asked, context: &str) {
    let seen = asked.log.seen();
    let (events, expected) = (&seen.events, &asked.expected);
    let all = &expected.events;
    assert!(!seen.order_broken, "{context}: {seen:?}");
    assert_eq!(seen.chunks_begun, seen.chunks_ended, "{context}");
    assert_eq!(seen.after.len(), 1, "{context}: R-E5: {seen:?}");
    // I-3: a contiguous run from the start bound.
    assert_eq!(events[..], all[..events.len().min(all.len())], "{context}: {seen:?}");
    assert_eq!(seen.delivered, events.len() as u64, "{context}");
    match &seen.after[0] {
        EndReason::Completed | EndReason::EndOfTraceset => {
            assert_eq!(events, all, "{context}: R-B1: {seen:?}");
            assert_eq!(seen.before, 1, "{context}");
            assert!(expected.stop_after.is_none_or(|after| events.len() < after), "{context}");
        }
        EndReason::Stopped if expected.stop_after == Some(events.len()) => {}
        EndReason::Removed | EndReason::Stopped | EndReason::TraceClosed => {}
        other => panic!("{context}: {other:?}"),
    }
}

/// A module that counts the events of its passes and publishes the number.
struct Counting {
    name: &'static str,
    needs: &'static [&'static str],
    begun: Count,
    ended: Count,
}

impl Module for Counting {
    fn name(&self) -> &str {
        self.name
    }
    fn prerequisites(&self) -> &[&str] {
        self.needs
    }
    fn hooks(&self, _: &Arc<dyn Source>) -> ModuleHooks {
        let mut hooks = ModuleHooks::default();
        let counted = Count::default();
        let (to, begun, ended) = (counted.clone(), self.begun.clone(), self.ended.clone());
        let name = self.name;
        hooks
            .before_request
            .add(Hook::on_border(move |_| {
                begun.add(1);
                Flow::Go
            }))
            .unwrap();
        hooks
            .event
            .add(Hook::on_event(move |_| {
                to.add(1);
                Flow::Go
            }))
            .unwrap();
        hooks
            .hook_remover
            .add(Hook::on_border(move |call| {
                if call.reason == Some(&EndReason::Completed) {
                    call.own.as_deref_mut().unwrap().publish(name, Arc::new(counted.get()));
                }
                Flow::Go
            }))
            .unwrap();
        hooks
            .after_request
            .add(Hook::on_border(move |_| {
                ended.add(1);
                Flow::Go
            }))
            .unwrap();
        hooks
    }
}

const MODULES: [(&str, &[&str]); 3] = [("one", &[]), ("two", &["one"]), ("three", &[])];

/// How often a notification was called, and its last cause.
type Told = Arc<Mutex<(usize, Option<Cause>)>>;

struct World {
    engine: Engine,
    traceset: TracesetId,
    sources: Vec<Arc<dyn Source>>,
    ids: Vec<TraceId>,
    /// Indices in `sources` of the traceset's traces.
    list: Vec<usize>,
    begun: Count,
    ended: Count,
    queued: u64,
    told: Vec<(Told, bool)>,
}

fn world(dice: &mut Dice, chunk: Option<u64>) -> World {
    let sources = sources(dice, "s");
    let (mut engine, traceset, ids) = engine(chunk, &sources);
    let (begun, ended) = (Count::default(), Count::default());
    for (name, needs) in MODULES {
        let module = Counting { name, needs, begun: begun.clone(), ended: ended.clone() };
        engine.register(Arc::new(module)).unwrap();
    }
    let list = (0..sources.len()).collect();
    World { engine, traceset, sources, ids, list, begun, ended, queued: 0, told: Vec::new() }
}

impl World {
    fn items(&self) -> Vec<Item> {
        let list: Vec<_> = self.list.iter().map(|index| self.sources[*index].clone()).collect();
        merged(&list)
    }

    fn notify(&mut self, dice: &mut Dice, trace: TraceId) {
        let told = Told::default();
        let to = told.clone();
        let hook = Hook::on_border(move |call| {
            let mut told = to.lock().unwrap();
            *told = (told.0 + 1, call.cause);
            Flow::Go
        });
        let module = MODULES[dice.below(3) as usize].0;
        let mut notify = BackgroundNotify::new(OwnerId(7 + dice.below(2)), module, hook);
        if dice.one_in(2) {
            notify = notify.at_time(t(dice.below(20) as i64));
        }
        let before = self.engine.status(trace, module);
        match dice.below(3) {
            0 => match self.engine.notify_current(trace, notify) {
                Ok(answer) => {
                    assert_eq!(answer == Notified::Called, before == ModuleStatus::Ready);
                    self.told.push((told, false));
                }
                Err(_) => assert_eq!(before, ModuleStatus::Absent),
            },
            1 => {
                if self.engine.notify_queue(trace, notify).is_ok() {
                    self.told.push((told, false));
                }
            }
            _ => {
                if self.engine.request_and_notify(trace, notify).unwrap() == Outcome::Queued {
                    self.queued += 1;
                }
                self.told.push((told, false));
            }
        }
    }
}

#[test]
fn sim_commands_between_turns_lose_nothing_and_doubles_nothing() {
    for seed in 0..cases(600) {
        let mut dice = Dice::new(seed);
        let chunk = CHUNKS[dice.below(5) as usize];
        let mut world = world(&mut dice, chunk);
        let mut items = world.items();
        let mut places = positions(&mut world.engine, world.traceset);
        assert_eq!(places.len(), items.len() + 1, "seed {seed}");
        // R-P2: positions are ordered as their events, the end last.
        assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}");
        let mut asked: Vec<Asked> = Vec::new();
        for _ in 0..dice.below(60) {
            match dice.below(20) {
                0..=5 => asked.push(ask(
                    &mut dice,
                    &mut world.engine,
                    world.traceset,
                    &items,
                    &places,
                    world.list.len(),
                )),
                6 => drop(world.engine.remove_all(world.traceset, OwnerId(1 + dice.below(3)))),
                7 if dice.one_in(4) => drop(world.engine.stop(world.traceset)),
                8 => {
                    let trace = world.ids[dice.below(world.ids.len() as u64) as usize];
                    let module = MODULES[dice.below(3) as usize].0;
                    if world.engine.request(trace, module, OwnerId(1)).unwrap() == Outcome::Queued {
                        world.queued += 1;
                    }
                }
                9 => {
                    let trace = world.ids[dice.below(world.ids.len() as u64) as usize];
                    world.notify(&mut dice, trace);
                }
                10 if dice.one_in(2) => {
                    let trace = world.ids[dice.below(world.ids.len() as u64) as usize];
                    world.engine.cancel(trace, MODULES[dice.below(3) as usize].0).unwrap();
                }
                11 if dice.one_in(3) => {
                    world.engine.disable();
                    assert!(turn(&mut world.engine).idle);
                    world.engine.enable();
                }
                12 if dice.one_in(3) => {
                    change_traces(&mut dice, &mut world, &mut asked, &mut items, &mut places)
                }
                _ => drop(turn(&mut world.engine)),
            }
            world.engine.check().unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        }
        finish(world, &asked, seed);
    }
}

/// Adds or removes a trace. Pending requests are checked here up to the change, and again to their end after it.
fn change_traces(
    dice: &mut Dice,
    world: &mut World,
    asked: &mut Vec<Asked>,
    items: &mut Vec<Item>,
    places: &mut Vec<Position>,
) {
    let index = dice.below(world.sources.len() as u64) as usize;
    let removed = world.list.contains(&index);
    let before: Vec<Seen> = asked.iter().map(|asked| asked.log.seen()).collect();
    let old = std::mem::take(items);
    if removed {
        assert!(world.engine.traceset_remove(world.traceset, world.ids[index]).unwrap());
        world.list.retain(|other| *other != index);
    } else {
        assert!(world.engine.traceset_add(world.traceset, world.ids[index]).unwrap());
        world.list.push(index);
    }
    *items = world.items();
    // R-P3, R-P4: old positions are errors now.
    let (request, _) = request(1);
    let stale = world.engine.events_request(world.traceset, request.from_position(places[0].clone()));
    assert!(stale.is_err());
    // Pending requests that go on do so from the time of their next event. They are removed here after the check,
    // so that the rest of the case has only requests of the new list.
    for (asked, seen) in asked.iter_mut().zip(&before).filter(|(_, seen)| seen.after.is_empty()) {
        let now = asked.log.seen();
        match now.after.first() {
            None => {
                assert!(!asked.expected.by_position || !seen.events.is_empty());
            }
            Some(EndReason::PositionLost) => {
                let last = seen.events.len().checked_sub(1).map(|at| asked.expected.times[at]);
                let tie = last.is_some_and(|last| old.iter().filter(|item| item.time == last).count() > 1);
                assert!(asked.expected.by_position || tie, "{seen:?}");
            }
            Some(EndReason::TraceClosed) => assert!(removed),
            other => panic!("{other:?}"),
        }
        asked.expected.events.truncate(seen.events.len());
    }
    for owner in 1..=3 {
        world.engine.remove_all(world.traceset, OwnerId(owner)).unwrap();
    }
    asked.retain(|asked| {
        !matches!(asked.log.seen().after.first(), Some(EndReason::PositionLost | EndReason::TraceClosed))
    });
    *places = positions(&mut world.engine, world.traceset);
}

/// L-1, L-2: everything ends, and then everything requested must have been delivered.
fn finish(mut world: World, asked: &[Asked], seed: u64) {
    run(&mut world.engine);
    for asked in asked {
        check_ended(asked, &format!("seed {seed}, owner {}", asked.owner));
    }
    for (told, removed) in &world.told {
        let (times, cause) = *told.lock().unwrap();
        assert_eq!(times, usize::from(!removed), "seed {seed}: R-G7 {cause:?}");
    }
    // Every pass that began has ended, and so has every queued request; each once.
    assert!(world.begun.get() <= world.queued, "seed {seed}");
    assert_eq!(world.ended.get(), world.queued, "seed {seed}");
    for (source, id) in world.sources.iter().zip(&world.ids) {
        let events = merged(std::slice::from_ref(source)).len() as u64;
        let trace = world.engine.trace(*id).unwrap();
        assert!(!trace.background().has_work());
        for (module, _) in MODULES {
            if world.engine.status(*id, module) == ModuleStatus::Ready {
                assert_eq!(*trace.data().result::<u64>(module).unwrap(), events, "seed {seed}");
            }
        }
    }
    // R-T3: nothing is left after everything is closed.
    world.engine.traceset_close(world.traceset).unwrap();
    for id in world.ids {
        world.engine.close(id).unwrap();
    }
    world.engine.check().unwrap();
    assert_eq!(world.engine.traces().count(), 0);
}

#[test]
fn r_f2_a_fixed_set_of_requests_reads_the_union_of_its_intervals_once() {
    for seed in 0..cases(600) {
        let mut dice = Dice::new(seed + 1_000_000);
        let chunk = CHUNKS[dice.below(5) as usize];
        let sources = sources(&mut dice, "u");
        let (mut engine, traceset, _) = engine(chunk, &sources);
        let items = merged(&sources);
        let mut wanted = vec![false; items.len()];
        let mut asked = Vec::new();
        for _ in 0..1 + dice.below(6) {
            let (from, until) = (dice.below(20) as i64 - 1, dice.below(24) as i64);
            let (request, log) = request(1);
            engine.events_request(traceset, request.from_time(t(from)).until_time(t(until))).unwrap();
            let inside = |item: &Item| from <= item.time && item.time < until;
            (0..items.len()).filter(|at| inside(&items[*at])).for_each(|at| wanted[at] = true);
            asked.push((
                log,
                items.iter().filter(|item| inside(item)).map(|item| item.label.clone()).collect::<Vec<_>>(),
            ));
        }
        let progress = run(&mut engine);
        for (log, expected) in &asked {
            assert_eq!(&log.seen().events, expected, "seed {seed}");
        }
        let union = wanted.iter().filter(|wanted| **wanted).count() as u64;
        assert_eq!(progress.events_read, union, "seed {seed}: read more than once");
        assert!(progress.seeks <= asked.len() as u64, "seed {seed}");
    }
}

/// Everything that a script's viewers and modules received, in an order that does not depend on chunk borders.
#[derive(Default, PartialEq, Debug, Clone)]
struct Story {
    requests: BTreeMap<String, (Vec<String>, Vec<EndReason>)>,
    /// How often each notification was called, and whether it was aborted. At which border it was reached depends
    /// on the borders.
    told: Vec<(usize, bool)>,
    modules: Vec<(usize, String, Option<u64>)>,
}

/// A script whose commands depend on events, not on turns: at certain events hooks stop, remove, submit, and request
/// modules.
fn play(seed: u64, chunk: Option<u64>) -> Story {
    let mut dice = Dice::new(seed + 2_000_000);
    let mut world = world(&mut dice, chunk);
    let story = Arc::new(Mutex::new(Vec::<(String, Log)>::new()));
    for phase in 0..1 + dice.below(4) {
        let items = world.items();
        let places = positions(&mut world.engine, world.traceset);
        for n in 0..1 + dice.below(5) {
            submit_scripted(&mut dice, &mut world, &items, &places, &story, format!("{phase}.{n}"));
        }
        for index in 0..world.ids.len() {
            if dice.one_in(3) {
                let module = MODULES[dice.below(3) as usize].0;
                let outcome = world.engine.request(world.ids[index], module, OwnerId(1)).unwrap();
                world.queued += u64::from(outcome == Outcome::Queued);
            }
            if dice.one_in(3) {
                world.notify(&mut dice, world.ids[index]);
            }
        }
        if dice.one_in(3) {
            // All requests are served before the traces change.
            run(&mut world.engine);
        }
        run(&mut world.engine);
        if dice.one_in(2) {
            let index = dice.below(world.sources.len() as u64) as usize;
            if world.list.contains(&index) {
                world.engine.traceset_remove(world.traceset, world.ids[index]).unwrap();
                world.list.retain(|other| *other != index);
            } else {
                world.engine.traceset_add(world.traceset, world.ids[index]).unwrap();
                world.list.push(index);
            }
        }
        if dice.one_in(3) {
            // Closed and opened again: computed data is gone.
            let index = dice.below(world.sources.len() as u64) as usize;
            if !world.list.contains(&index) {
                world.engine.close(world.ids[index]).unwrap();
                world.ids[index] = world.engine.open_source(world.sources[index].clone());
            }
        }
    }
    let logs = story.lock().unwrap().clone();
    let requests = logs.iter().map(|(name, log)| {
        let seen = log.seen();
        assert!(!seen.order_broken, "{seen:?}");
        (name.clone(), (seen.events, seen.after))
    });
    let mut modules = Vec::new();
    for (index, id) in world.ids.iter().enumerate() {
        for (module, _) in MODULES {
            let result = world.engine.trace(*id).unwrap().data().result::<u64>(module);
            modules.push((index, module.to_string(), result.map(|n| *n)));
        }
    }
    Story {
        requests: requests.collect(),
        told: world
            .told
            .iter()
            .map(|(told, _)| *told.lock().unwrap())
            .map(|(n, cause)| (n, cause == Some(Cause::Aborted)))
            .collect(),
        modules,
    }
}

fn submit_scripted(
    dice: &mut Dice,
    world: &mut World,
    items: &[Item],
    places: &[Position],
    story: &Arc<Mutex<Vec<(String, Log)>>>,
    name: String,
) {
    let (mut request, log) = request(1 + dice.below(3));
    let latest = items.last().map_or(3, |item| item.time) as u64 + 3;
    request = if dice.one_in(3) {
        request.from_position(places[dice.below(places.len() as u64) as usize].clone())
    } else {
        request.from_time(t(dice.below(latest) as i64))
    };
    if dice.one_in(2) {
        request = request.until_time(t(dice.below(latest) as i64));
    }
    if dice.one_in(4) {
        request = request.count(dice.below(9));
    }
    let at = 1 + dice.below(6);
    let (what, from, owner, traceset) =
        (dice.below(6), dice.below(latest) as i64, 1 + dice.below(3), world.traceset);
    let trace = world.ids[dice.below(world.ids.len() as u64) as usize];
    let (story_of_hook, name_of_hook, flag) = (story.clone(), name.clone(), StopFlag::new());
    request.stop_flag = flag.clone();
    let mut count = 0;
    request
        .event
        .add(Hook::on_event(move |call| {
            count += 1;
            if count != at {
                return if count % 4 == 0 { Flow::Stop } else { Flow::Go };
            }
            match what {
                0 => flag.set(),
                1 => call.commands.remove_all(traceset, OwnerId(owner)),
                2 => {
                    let (added, log) = crate::common::request(4);
                    story_of_hook.lock().unwrap().push((format!("{name_of_hook}+"), log));
                    call.commands.events_request(traceset, added.from_time(t(from)).count(3));
                }
                3 => call.commands.request(trace, "three", OwnerId(1)),
                4 => return Flow::Fail("scripted".into()),
                _ => {}
            }
            Flow::Go
        }))
        .unwrap();
    world.engine.events_request(world.traceset, request).unwrap();
    story.lock().unwrap().push((name, log));
}

#[test]
fn live_budgets_1_2_7_6000_and_unbounded_give_identical_deliveries() {
    for seed in 0..cases(250) {
        let whole = play(seed, None);
        for chunk in CHUNKS {
            assert_eq!(play(seed, chunk), whole, "seed {seed}, chunk {chunk:?}");
        }
    }
}
