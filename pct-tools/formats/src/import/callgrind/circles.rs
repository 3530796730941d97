//! Functions that call each other in circles. Their calls count the same cost several times, so a way from a function
//! out to the outermost one must not go round: of the calls within a circle only those are gone back from which a
//! function is reached first, where the heaviest calls are followed first.

use pct_num::float;
use petgraph::graphmap::DiGraphMap;
use std::collections::BinaryHeap;

/// A call with what it cost.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub(super) caller: usize,
    pub(super) callee: usize,
    pub(super) cost: f64,
}

/// Which functions call each other.
pub(super) struct Circles {
    /// The circle of each function; most have only one function.
    circle_of: Vec<usize>,
    members: Vec<Vec<usize>>,
}

impl Circles {
    /// Of so many functions.
    pub(super) fn new(functions: usize, edges: &[Edge]) -> Self {
        let mut graph: DiGraphMap<usize, ()> = DiGraphMap::new();
        for function in 0..functions {
            graph.add_node(function);
        }
        for edge in edges {
            graph.add_edge(edge.caller, edge.callee, ());
        }
        let members = petgraph::algo::kosaraju_scc(&graph);
        let mut circle_of = vec![0; functions];
        for (circle, members) in members.iter().enumerate() {
            for member in members {
                circle_of[*member] = circle;
            }
        }
        Self { circle_of, members }
    }

    /// How many functions call themselves by way of others.
    pub(super) fn functions(&self) -> usize {
        self.members.iter().map(Vec::len).filter(|members| *members > 1).sum()
    }

    /// What of each function is called from nowhere: what its circle cost and no call from outside pays. `own` is what
    /// each function cost by itself.
    pub(super) fn roots(&self, own: &[u64], edges: &[Edge]) -> Vec<f64> {
        let mut excess = vec![0.0; self.members.len()];
        let mut uncalled: Vec<f64> = own.iter().map(|own| float(*own)).collect();
        for (function, own) in own.iter().enumerate() {
            excess[self.circle_of[function]] += float(*own);
        }
        for edge in edges {
            uncalled[edge.caller] += edge.cost;
            uncalled[edge.callee] -= edge.cost;
            let (from, to) = (self.circle_of[edge.caller], self.circle_of[edge.callee]);
            if from != to {
                excess[from] += edge.cost;
                excess[to] -= edge.cost;
            }
        }
        let mut roots = vec![0.0; own.len()];
        for (members, excess) in self.members.iter().zip(excess) {
            let order = |a: &usize, b: &usize| uncalled[*a].total_cmp(&uncalled[*b]).then(b.cmp(a));
            if let Some(first) = members.iter().copied().max_by(order).filter(|_| excess >= 0.5) {
                roots[first] = excess;
            }
        }
        roots
    }

    /// For each call, whether one may go back from its callee to its caller.
    pub(super) fn outwards(&self, roots: &[f64], edges: &[Edge]) -> Vec<bool> {
        let mut calls: Vec<Vec<usize>> = vec![Vec::new(); roots.len()];
        for (at, edge) in edges.iter().enumerate() {
            calls[edge.caller].push(at);
        }
        let mut reached: Vec<Option<usize>> = vec![None; roots.len()];
        let mut heap: BinaryHeap<Reach> = BinaryHeap::new();
        let is_root = |function: &usize| roots[*function] > 0.0;
        heap.extend((0..roots.len()).filter(is_root).map(|function| Reach { cost: f64::INFINITY, function }));
        let mut next = 0;
        for start in 0..roots.len() {
            // What no root leads to comes last, in the order of the file.
            heap.push(Reach { cost: 0.0, function: start });
            while let Some(Reach { function, .. }) = heap.pop() {
                if reached[function].is_none() {
                    reached[function] = Some(next);
                    next += 1;
                    let reach = |at: &usize| Reach { cost: edges[*at].cost, function: edges[*at].callee };
                    heap.extend(calls[function].iter().map(reach));
                }
            }
        }
        let is_outward = |edge: &Edge| {
            let is_inside = self.circle_of[edge.caller] == self.circle_of[edge.callee];
            !is_inside || reached[edge.caller] < reached[edge.callee]
        };
        edges.iter().map(is_outward).collect()
    }
}

/// A function that a call of this cost leads to.
struct Reach {
    cost: f64,
    function: usize,
}

impl PartialEq for Reach {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Reach {}
impl PartialOrd for Reach {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Reach {
    /// The heaviest first; of equal ones the order is that of the file.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.cost.total_cmp(&other.cost).then(other.function.cmp(&self.function))
    }
}
