//! V8's CPU profiles: the `.cpuprofile` of `node --cpu-prof` and Chrome's developer tools
//! (<https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile>), and the same in parts, as trace
//! events.
//!
//! A tree of nodes, each a function with its caller as its parent, and samples that name nodes. V8 samples by the wall
//! clock, so its samples have a time and wait in `(idle)`. A sample lasts until the next one, the last until the end.

use super::super::problem::Problem;
use super::super::samples::{Sample, Samples};
use super::super::types::{SampleType, chosen};
use super::super::wanted::Wanted;
use super::parts::{line, parsed, problem};
use pct_num::rounded;
use pct_profile::model::{Object, ObjectKind, Profile, StackId, ThreadId};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::borrow::Cow;

/// A node of the tree.
#[derive(Deserialize)]
pub(super) struct Node<'t> {
    id: u64,
    #[serde(rename = "callFrame", borrow)]
    frame: CallFrame<'t>,
    #[serde(rename = "hitCount", default)]
    hits: u64,
    #[serde(default)]
    children: Vec<u64>,
    parent: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallFrame<'t> {
    #[serde(borrow)]
    function_name: Cow<'t, str>,
    #[serde(borrow, default)]
    url: Cow<'t, str>,
    /// From 0; -1 = unknown.
    line_number: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File<'t> {
    #[serde(borrow)]
    nodes: Vec<Node<'t>>,
    #[serde(default)]
    start_time: f64,
    end_time: Option<f64>,
    samples: Option<Vec<u64>>,
    time_deltas: Option<Vec<f64>>,
}

/// The type of V8's samples that have times.
pub(super) const WALL: (&str, &str) = ("wall", "microseconds");

pub(super) fn read(text: &str, wanted: Wanted<'_>) -> Result<Profile, Problem> {
    let file: File<'_> = parsed(text, "the whole file")?;
    let with_times = file.samples.is_some() && file.time_deltas.is_some();
    let samples = SampleType::new("samples", "count");
    let all = if with_times { vec![samples, SampleType::new(WALL.0, WALL.1)] } else { vec![samples] };
    let (shown, note) = chosen(&all, all.len() - 1, wanted.sample_type)?;
    let mut out = Samples::new("[v8]", wanted.timeline);
    let process = out.process(0, "javascript");
    let thread = out.b.thread(process, 0, "");
    let mut tree = Tree::default();
    tree.add(&mut out, &file.nodes)?;
    match (&file.samples, &file.time_deltas) {
        (Some(samples), Some(deltas)) => {
            let mut timed = Timed::new(file.start_time);
            timed.extend(samples, deltas)?;
            let start = timed.start;
            timed.add_to(&mut out, &tree, thread, file.end_time, start, all[shown].counts_samples())?;
        }
        _ => {
            for node in file.nodes.iter().filter(|node| node.hits > 0) {
                let (stack, samples) = (tree.stack(node.id)?, node.hits);
                out.add(Sample { thread, stack, amount: pct_num::float(samples), samples, time_ns: None });
            }
        }
    }
    let mut profile = out.finish(&all[shown])?;
    profile.account.notes.extend(note);
    Ok(profile)
}

/// The stacks of nodes.
#[derive(Default)]
pub(super) struct Tree {
    /// `None`: the root, which is no function.
    stacks: FxHashMap<u64, Option<StackId>>,
}

impl Tree {
    /// Adds nodes. Their callers are among them or were added before.
    pub(super) fn add(&mut self, out: &mut Samples, nodes: &[Node<'_>]) -> Result<(), Problem> {
        let mut parents: FxHashMap<u64, u64> = FxHashMap::default();
        for node in nodes {
            parents.extend(node.children.iter().map(|child| (*child, node.id)));
            parents.extend(node.parent.map(|parent| (node.id, parent)));
        }
        let by_id: FxHashMap<u64, &Node<'_>> = nodes.iter().map(|node| (node.id, node)).collect();
        let mut path: Vec<&Node<'_>> = Vec::new();
        for node in nodes {
            let mut next = Some(node);
            while let Some(node) = next.filter(|node| !self.stacks.contains_key(&node.id)) {
                if path.len() > nodes.len() {
                    return Err(problem(format!("node {}", node.id), "it is among its own callers"));
                }
                path.push(node);
                next = parents.get(&node.id).and_then(|parent| by_id.get(parent)).copied();
            }
            while let Some(node) = path.pop() {
                let parent = parents.get(&node.id);
                let caller = parent.and_then(|parent| self.stacks.get(parent)).copied().flatten();
                let is_root = parent.is_none() && node.frame.function_name == "(root)";
                let stack = (!is_root).then(|| node.stack(out, caller));
                self.stacks.insert(node.id, stack);
            }
        }
        Ok(())
    }

    fn stack(&self, node: u64) -> Result<Option<StackId>, Problem> {
        let known = self.stacks.get(&node).copied();
        known.ok_or_else(|| problem("samples", format!("node {node} is not in the file")))
    }
}

impl Node<'_> {
    fn stack(&self, out: &mut Samples, caller: Option<StackId>) -> StackId {
        // The text of such a page is its address.
        let url = if self.frame.url.starts_with("data:") { "data:" } else { &self.frame.url };
        let place = if url.is_empty() {
            (out.b.object(Object::new("[v8]", ObjectKind::Unknown)), None)
        } else {
            out.place(url)
        };
        let declared = line(self.frame.line_number.map(|from_zero| from_zero + 1.0));
        let name = match (&*self.frame.function_name, declared) {
            ("", 0) => "(anonymous)".into(),
            ("", line) => Cow::Owned(format!("(anonymous:{line})")),
            (name, _) => Cow::Borrowed(name),
        };
        let function = out.function(place, &name, declared);
        let frame = out.b.plain_frame(function);
        out.b.stack(caller, frame)
    }
}

/// Samples with their times, in microseconds.
pub(super) struct Timed {
    start: f64,
    last: f64,
    samples: Vec<(f64, u64)>,
}

impl Timed {
    pub(super) fn new(start: f64) -> Self {
        Self { start, last: start, samples: Vec::new() }
    }

    /// Adds samples, each with the time that passed since the one before it.
    pub(super) fn extend(&mut self, samples: &[u64], deltas: &[f64]) -> Result<(), Problem> {
        if samples.len() != deltas.len() {
            let lengths = format!("{} samples, but {} times", samples.len(), deltas.len());
            return Err(problem("timeDeltas", lengths));
        }
        for (node, delta) in samples.iter().zip(deltas) {
            self.last += delta;
            self.samples.push((self.last, *node));
        }
        Ok(())
    }

    pub(super) fn start(&self) -> f64 {
        self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Gives each sample the time until the next one. V8 may write them out of order. Times
    /// are counted from `start`.
    pub(super) fn add_to(
        mut self,
        out: &mut Samples,
        tree: &Tree,
        thread: ThreadId,
        end: Option<f64>,
        start: f64,
        as_counts: bool,
    ) -> Result<(), Problem> {
        self.samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ends = self.samples.iter().skip(1).map(|(at, _)| *at);
        let last = self.samples.last().map_or(0.0, |(at, _)| end.map_or(*at, |end| end.max(*at)));
        for ((at, node), end) in self.samples.iter().zip(ends.chain([last])) {
            let amount = if as_counts { 1.0 } else { end - at };
            let time_ns = Some(rounded((at - start).max(0.0) * 1000.0));
            out.add(Sample { thread, stack: tree.stack(*node)?, amount, samples: 1, time_ns });
        }
        Ok(())
    }
}
