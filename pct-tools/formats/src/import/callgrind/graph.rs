//! Stacks from calls. A function's callers are known with what their calls cost, but not who called these. So what
//! a line cost by itself is shared out among the callers of its function in proportion to what their calls cost,
//! and so on outwards. Own costs are those of the file, and where functions do not call each other in circles so
//! are the totals, but for what is too small to be shared out: that goes to the heaviest callers. A function is on
//! a stack once: how deep a recursion was is not known.

use super::circles::{Circles, Edge};
use super::lines::{Call, File, Line};
use super::read::Read;
use pct_num::{float, round_to_sum};
use pct_profile::model::StackId;

/// Most parts of a function that are looked at, each of a line in a context.
const MOST: usize = 500_000;
/// Most calls on the ways from a function to the outermost ones: a made-up file could have any number.
const MOST_CALLS: usize = 4_000_000;
/// Frames of the deepest stack.
const DEEPEST: usize = 500;
/// Less than this part of the whole is not shared out.
const SMALL: f64 = 1e-4;

/// Own costs and calls of one event.
pub(super) struct Graph<'f> {
    own: Vec<(Line<'f>, u64)>,
    calls: Vec<(Call<'f>, f64)>,
    functions: Vec<Function>,
    /// How many functions call themselves by way of others.
    in_circles: usize,
    total: u64,
}

/// A function's part of the graph.
#[derive(Clone, Default)]
struct Function {
    /// Places in [`Graph::own`].
    own: Vec<usize>,
    /// Places in [`Graph::calls`] of those that call it from further outside, heaviest first.
    callers: Vec<usize>,
    /// What these cost.
    called: f64,
    /// What of it was called from nowhere.
    root: f64,
}

impl<'f> Graph<'f> {
    /// The graph of the event at this place; an error is a cost below 0.
    pub(super) fn new(file: &'f File<'f>, event: usize) -> Result<Self, i64> {
        let cost = |costs: &[i64]| {
            let cost = costs.get(event).copied().unwrap_or(0);
            u64::try_from(cost).map_err(|_| cost)
        };
        let mut own: Vec<(Line<'f>, u64)> = Vec::new();
        for (line, costs) in &file.own {
            own.push((*line, cost(costs)?));
        }
        let mut calls: Vec<(Call<'f>, f64)> = Vec::new();
        for (call, made) in &file.calls {
            calls.push((*call, float(cost(&made.costs)?)));
        }
        own.retain(|(_, cost)| *cost > 0);
        calls.retain(|(_, cost)| *cost > 0.0);
        own.sort_unstable_by_key(|(line, _)| *line);
        calls.sort_unstable_by_key(|(call, _)| *call);
        let mut functions = vec![Function::default(); file.functions.len()];
        let mut of_functions = vec![0u64; functions.len()];
        for (at, (line, cost)) in own.iter().enumerate() {
            functions[line.function].own.push(at);
            of_functions[line.function] = of_functions[line.function].saturating_add(*cost);
        }
        let edge =
            |(call, cost): &(Call<'_>, f64)| Edge { caller: call.caller, callee: call.callee, cost: *cost };
        let edges: Vec<Edge> = calls.iter().map(edge).collect();
        let circles = Circles::new(functions.len(), &edges);
        let roots = circles.roots(&of_functions, &edges);
        let outwards = circles.outwards(&roots, &edges);
        for (at, edge) in edges.iter().enumerate().filter(|(at, _)| outwards[*at]) {
            functions[edge.callee].callers.push(at);
        }
        for (function, root) in functions.iter_mut().zip(roots) {
            function.callers.sort_by(|a, b| edges[*b].cost.total_cmp(&edges[*a].cost));
            function.called = function.callers.iter().map(|at| edges[*at].cost).sum();
            function.root = root;
        }
        let total = own.iter().fold(0u64, |sum, (_, cost)| sum.saturating_add(*cost));
        Ok(Self { own, calls, functions, in_circles: circles.functions(), total })
    }

    /// The sum of what lines cost.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Whether a function has several callers, so that stacks are shared out.
    pub(super) fn is_shared_out(&self) -> bool {
        self.functions.iter().any(|function| function.callers.len() > 1)
    }

    /// How many functions call themselves by way of others: their totals are estimates.
    pub(super) fn in_circles(&self) -> usize {
        self.in_circles
    }

    /// All stacks with what they cost by themselves, which has the file's sums by line.
    pub(super) fn amounts(&self, read: &mut Read) -> Vec<(StackId, u64)> {
        let mut all = Vec::new();
        for function in self.functions.iter().filter(|function| !function.own.is_empty()) {
            self.amounts_of(function, read, &mut all);
        }
        all
    }

    fn amounts_of(&self, function: &Function, read: &mut Read, all: &mut Vec<(StackId, u64)>) {
        let cost = |at: &usize| float(self.own[*at].1);
        let own: f64 = function.own.iter().map(cost).sum();
        let first = self.own[function.own[0]].0.function;
        let contexts = self.contexts(first, own, MOST / function.own.len());
        for at in &function.own {
            let (line, _) = self.own[*at];
            let shares: Vec<f64> = contexts.ends.iter().map(|(_, amount)| cost(at) * amount / own).collect();
            for ((end, _), amount) in
                contexts.ends.iter().zip(round_to_sum(&shares)).filter(|part| part.1 > 0)
            {
                let callers = contexts.inwards(*end).fold(None, |parent, call| {
                    let (call, _) = self.calls[call];
                    let frame = read.frame(call.caller, call.file, call.line);
                    Some(read.samples.b.stack(parent, frame))
                });
                let frame = read.frame(line.function, line.file, line.line);
                all.push((read.samples.b.stack(callers, frame), amount));
            }
        }
    }

    /// The ways from `function` to the outermost functions, with what of `own` each has.
    fn contexts(&self, function: usize, own: f64, most: usize) -> Contexts {
        let least = (float(self.total) * SMALL).max(own / float(most.max(1) as u64));
        let mut contexts = Contexts::default();
        let mut pending = vec![Pending { function, amount: own, inner: None, depth: 0 }];
        while let Some(next) = pending.pop() {
            let outer = &self.functions[next.function];
            let whole = outer.root + outer.called;
            let is_shared = next.amount >= least;
            let is_full = next.depth >= DEEPEST || contexts.calls.len() >= MOST_CALLS;
            let is_outermost = outer.callers.is_empty() || is_full;
            if is_outermost || (!is_shared && outer.root >= outer.called) {
                contexts.ends.push((next.inner, next.amount));
                continue;
            }
            if is_shared && outer.root > 0.0 {
                contexts.ends.push((next.inner, next.amount * outer.root / whole));
            }
            // The heaviest one comes first.
            let followed = if is_shared { outer.callers.len() } else { 1 };
            for &call in &outer.callers[..followed] {
                let share = if is_shared { self.calls[call].1 / whole } else { 1.0 };
                let inner = Some(contexts.push(call, next.inner));
                let function = self.calls[call].0.caller;
                pending.push(Pending { function, amount: next.amount * share, inner, depth: next.depth + 1 });
            }
        }
        contexts
    }
}

/// Ways outwards from a function: calls, each with the one inside it.
#[derive(Default)]
struct Contexts {
    calls: Vec<(usize, Option<usize>)>,
    /// The outermost calls of whole ways, and what each has of the function's own cost.
    ends: Vec<(Option<usize>, f64)>,
}

impl Contexts {
    fn push(&mut self, call: usize, inner: Option<usize>) -> usize {
        self.calls.push((call, inner));
        self.calls.len() - 1
    }

    /// The calls from this one inwards.
    fn inwards(&self, from: Option<usize>) -> impl Iterator<Item = usize> {
        let mut next = from;
        std::iter::from_fn(move || {
            let (call, inner) = self.calls[next?];
            next = inner;
            Some(call)
        })
    }
}

/// A function whose callers are to be found.
struct Pending {
    function: usize,
    amount: f64,
    /// The call of the function inside it.
    inner: Option<usize>,
    depth: usize,
}
