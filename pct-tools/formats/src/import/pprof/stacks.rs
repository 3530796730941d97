//! Samples of a pprof file as cells of a profile.

use super::super::objects::kind_of;
use super::super::problem::Problem;
use super::prune::Prune;
use super::tables::{Location, Tables, by_number};
use super::types::Choice;
use crate::protobuf::{Fields, Value, numbers};
use pct_profile::model::{
    Builder, Frame, Object, ObjectId, ObjectKind, Process, Profile, StackId, ThreadId, Weight,
};
use std::collections::HashMap;

pub(super) struct Build<'a> {
    tables: &'a Tables<'a>,
    choice: &'a Choice<'a>,
    prune: Prune,
    b: Builder,
    objects: HashMap<u64, ObjectId>,
    threads: HashMap<(u32, u32, String), ThreadId>,
    sum: u64,
    counts: Counts,
}

/// What was left out or shown otherwise, in samples.
#[derive(Clone, Default)]
pub(super) struct Counts {
    pub(super) with_stack: u64,
    pub(super) without_stack: u64,
    pub(super) zeros: u64,
    /// Other numbers of values than types.
    pub(super) short: u64,
    /// References without a target.
    pub(super) dangling: u64,
    pub(super) bad_patterns: Vec<String>,
}

/// A sample's parts.
#[derive(Default)]
struct Parts<'m> {
    locations: Vec<u64>,
    values: Vec<i64>,
    labels: Vec<&'m [u8]>,
}

impl<'m> Parts<'m> {
    fn parse(message: &'m [u8]) -> Self {
        let mut parts = Self::default();
        for (field, value) in Fields::new(message) {
            match (field, value) {
                (1, value) => parts.locations.extend(numbers(value)),
                (2, value) => parts.values.extend(numbers(value).into_iter().map(u64::cast_signed)),
                (3, Value::Bytes(label)) => parts.labels.push(label),
                _ => {}
            }
        }
        parts
    }
}

impl<'a> Build<'a> {
    pub(super) fn new(tables: &'a Tables<'a>, choice: &'a Choice<'a>) -> Self {
        let prune = Prune::from_tables(tables);
        let counts = Counts { bad_patterns: prune.refused.clone(), ..Counts::default() };
        Self {
            tables,
            choice,
            prune,
            b: Builder::new(false),
            objects: HashMap::new(),
            threads: HashMap::new(),
            sum: 0,
            counts,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts.clone()
    }

    pub(super) fn finish(self) -> Profile {
        self.b.finish()
    }

    pub(super) fn sample(&mut self, message: &[u8]) -> Result<(), Problem> {
        let parts = Parts::parse(message);
        let Some(worth) = self.choice.worth(&parts.values)? else {
            self.counts.short += 1;
            return Ok(());
        };
        self.sum = self.sum.checked_add(worth.amount).ok_or_else(|| self.choice.too_large())?;
        let thread = self.thread(&parts.labels);
        let stack = self.stack(&parts.locations);
        *(if stack.is_some() { &mut self.counts.with_stack } else { &mut self.counts.without_stack }) += 1;
        if worth.amount == 0 && worth.samples == 0 {
            self.counts.zeros += 1;
            return Ok(());
        }
        let stack = stack.unwrap_or_else(|| {
            let object = self.b.unknown_object();
            self.b.no_stack(object)
        });
        let leaf = self.b.profile().object_of(self.b.profile().stacks[stack].frame).kind;
        let in_kernel = self.choice.is_cpu_time() && leaf == ObjectKind::Kernel;
        let (user_ns, system_ns) = if in_kernel { (0, worth.amount) } else { (worth.amount, 0) };
        self.b.add(thread, stack, Weight { samples: worth.samples, user_ns, system_ns });
        Ok(())
    }

    fn stack(&mut self, locations: &[u64]) -> Option<StackId> {
        let tables = self.tables;
        let (left, lines_left_out) = self.prune.cut(locations, &tables.locations);
        let mut at = None;
        for (i, id) in left.iter().enumerate().rev() {
            match tables.locations.get(id) {
                None => self.counts.dangling += 1,
                Some(location) => {
                    let skip = if i == 0 { lines_left_out } else { 0 };
                    at = self.frames(at, location, skip);
                }
            }
        }
        at
    }

    /// The frames of a location below `at`, without its first `skip` lines.
    fn frames(&mut self, mut at: Option<StackId>, location: &Location, skip: usize) -> Option<StackId> {
        let tables = self.tables;
        let object = self.object(location.mapping);
        let address = (location.address != 0).then_some(location.address);
        if location.lines.is_empty() {
            let function = self.b.function(object, &format!("0x{:x}", location.address));
            let frame = self.b.plain_frame(function);
            return Some(self.b.stack(at, frame));
        }
        let outer = location.lines.len() - 1;
        for (i, line) in location.lines.iter().enumerate().skip(skip).rev() {
            let Some(known) = tables.functions.get(&line.function) else {
                self.counts.dangling += 1;
                continue;
            };
            let (name, path) = (tables.name(known), tables.text(known.file));
            let function = self.b.function(object, if name.is_empty() { "[no symbol]" } else { &name });
            let file = (!path.is_empty()).then(|| self.b.file(path));
            if let Some(file) = file {
                self.b.declare(function, file, u32::try_from(known.start_line).unwrap_or(0));
            }
            let frame = Frame {
                function,
                file,
                line: u32::try_from(line.line).unwrap_or(0),
                address,
                inlined: i != outer,
            };
            let frame = self.b.frame(frame);
            at = Some(self.b.stack(at, frame));
        }
        at
    }

    fn thread(&mut self, labels: &[&[u8]]) -> ThreadId {
        let (mut pid, mut tid, mut name) = (0, 0, "");
        for label in labels {
            let f = by_number(label);
            let text = self.tables.text(f(2));
            // Some writers give numbers as text. Other text says nothing of the process: its number is not known.
            let number =
                || u32::try_from(f(3)).ok().filter(|n| *n > 0).or_else(|| text.parse().ok()).unwrap_or(0);
            match self.tables.text(f(1)) {
                "pid" | "process_id" => pid = number(),
                "tid" | "thread_id" | "thread id" => tid = number(),
                "thread" | "thread_name" | "thread name" => name = text,
                _ => {}
            }
        }
        if let Some(id) = self.threads.get(&(pid, tid, name.to_owned())) {
            return *id;
        }
        let known = self.b.profile().processes.enumerate().find(|(_, p)| p.pid == pid).map(|(id, _)| id);
        let process = known.unwrap_or_else(|| {
            self.b.process(Process {
                pid,
                name: "pprof".into(),
                clock: pct_profile::model::IMPORTED.into(),
                ..Process::default()
            })
        });
        let id = self.b.thread(process, tid, name);
        self.threads.insert((pid, tid, name.to_owned()), id);
        id
    }

    fn object(&mut self, mapping: u64) -> ObjectId {
        if let Some(id) = self.objects.get(&mapping) {
            return *id;
        }
        let (path, build_id) = self.tables.mappings.get(&mapping).copied().unwrap_or_default();
        let (path, build_id) = (self.tables.text(path).to_owned(), self.tables.text(build_id).to_owned());
        let kind = kind_of(&path);
        let path = if path.is_empty() { "[unknown]".to_owned() } else { path };
        let build_id = (!build_id.is_empty()).then_some(build_id);
        let id = self.b.object(Object { build_id, ..Object::new(path, kind) });
        self.objects.insert(mapping, id);
        id
    }
}
