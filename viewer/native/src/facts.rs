//! What a recording knows beyond the folded graph: samples and time with each procedure anywhere on the stack (recursion
//! counted once), the tree of stacks by function, the time of source lines, who ran, and the closing account.

use crate::graph::{Graph, Proc};
use pct_deep::native::{FunctionFacts, LineCost, ProcessFacts, Recorded, Side, StackNode, ThreadFacts};
use pct_deep::{Id as _, PsId};
use pct_profile::Profile;
use pct_profile::model::{Cell, Id, StackId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Nodes of the tree of stacks that are kept; small branches beyond are counted.
const MOST_STACKS: usize = 20_000;

/// The facts of these cells; `procs` are the procedures of the deep profile in the order of their ids.
#[must_use]
pub fn facts(profile: &Profile, cells: &[Cell], graph: &Graph, procs: &[Proc]) -> Recorded {
    let mut weights = vec![(0u64, 0u64); profile.stacks.len()];
    for cell in cells {
        let w = &mut weights[cell.stack.index()];
        w.0 += cell.weight.samples;
        w.1 += cell.weight.cpu_ns();
    }
    let trie = Trie::new(profile, &weights);
    let ps_of: FxHashMap<Proc, PsId> = procs.iter().enumerate().map(|(i, p)| (*p, PsId::at(i))).collect();
    let (stacks, stacks_left_out) = trie.tree(&ps_of);
    let mut out = Recorded {
        side: side(profile, cells, graph),
        stacks,
        stacks_left_out,
        lines: lines(profile, &weights),
        has_lines: true,
    };
    out.side.stacks_known = trie.has_stacks();
    out.side.functions = functions(profile, cells, graph, procs, &trie, &weights);
    out
}

fn side(profile: &Profile, cells: &[Cell], graph: &Graph) -> Side {
    let mut threads: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for cell in cells {
        let sum = threads.entry(cell.thread.index()).or_default();
        sum.0 += cell.weight.samples;
        sum.1 += cell.weight.cpu_ns();
    }
    let mut threads: Vec<ThreadFacts> = threads
        .into_iter()
        .map(|(i, (samples, ns))| {
            let thread = &profile.threads[Id::from_index(i)];
            let process = &profile.processes[thread.process];
            ThreadFacts { pid: process.pid, tid: thread.tid, samples, ns, name: thread.name.clone() }
        })
        .collect();
    threads.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.tid.cmp(&b.tid)));
    Side {
        producer: "sampled".to_owned(),
        rate_hz: profile.processes.iter().map(|p| p.hz).max().unwrap_or(0),
        clock: profile.processes.iter().map(|p| p.clock.clone()).next().unwrap_or_default(),
        samples: cells.iter().map(|c| c.weight.samples).sum(),
        folded_ns: graph.folded_ns,
        running: profile.account.running,
        processes: profile
            .processes
            .iter()
            .map(|p| ProcessFacts { pid: p.pid, name: p.name.clone() })
            .collect(),
        threads,
        headline: pct_profile::text::account::headline(profile),
        account: pct_profile::text::account::closing(profile, cells),
        build_ids: profile
            .objects
            .iter()
            .filter_map(|o| o.build_id.clone().map(|id| (id, o.path.clone())))
            .collect(),
        losses: profile.account.losses.iter().map(|l| (l.samples, l.cause.clone())).collect(),
        ..Side::default()
    }
}

/// The used part of the trie of stacks: totals, and children in the order of their ids.
struct Trie<'a> {
    profile: &'a Profile,
    /// Samples and nanoseconds of a stack and all that begin with it.
    totals: Vec<(u64, u64)>,
    first_child: Vec<u32>,
    next: Vec<u32>,
    roots: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl<'a> Trie<'a> {
    fn new(profile: &'a Profile, weights: &[(u64, u64)]) -> Self {
        let mut totals = weights.to_vec();
        let mut first_child = vec![NONE; totals.len()];
        let mut next = vec![NONE; totals.len()];
        let mut roots = Vec::new();
        // from the last to the first: a stack's total is complete when its turn comes, and lists are built from behind
        for (id, node) in profile.stacks.enumerate().rev() {
            let i = id.index();
            if totals[i] == (0, 0) {
                continue;
            }
            match node.parent {
                Some(parent) => {
                    let (samples, ns) = totals[i];
                    let p = parent.index();
                    totals[p].0 += samples;
                    totals[p].1 += ns;
                    next[i] = first_child[p];
                    first_child[p] = i as u32;
                }
                None => roots.push(i as u32),
            }
        }
        roots.reverse();
        Trie { profile, totals, first_child, next, roots }
    }

    fn proc(&self, stack: u32) -> Proc {
        let node = self.profile.stacks[StackId::from_index(stack as usize)];
        Proc::Function(self.profile.frames[node.frame].function)
    }

    /// Visits stacks outermost first: `enter` when met, `leave` when all below were.
    fn walk(&self, mut enter: impl FnMut(u32), mut leave: impl FnMut(u32)) {
        for &root in &self.roots {
            let mut path = vec![root];
            enter(root);
            let mut down = self.first_child[root as usize];
            while let Some(&top) = path.last() {
                if down != NONE {
                    path.push(down);
                    enter(down);
                    down = self.first_child[down as usize];
                } else {
                    leave(top);
                    path.pop();
                    down = if path.is_empty() { NONE } else { self.next[top as usize] };
                }
            }
        }
    }

    /// Whether any stack tells who called: a kernel frame below the program's only frame does not.
    fn has_stacks(&self) -> bool {
        let kernel = |s: u32| {
            let node = self.profile.stacks[StackId::from_index(s as usize)];
            self.profile.object_of(node.frame).kind == pct_profile::model::ObjectKind::Kernel
                || self.profile.frames[node.frame].inlined
        };
        self.roots.iter().any(|&r| {
            let mut child = self.first_child[r as usize];
            while child != NONE {
                if !kernel(child) {
                    return true;
                }
                child = self.next[child as usize];
            }
            false
        })
    }

    /// The tree by function, without the smallest branches when there are very many.
    fn tree(&self, ps_of: &FxHashMap<Proc, PsId>) -> (Vec<StackNode>, usize) {
        let mut nodes: Vec<StackNode> = Vec::new();
        let mut known: FxHashMap<(Option<u32>, PsId), u32> = FxHashMap::default();
        let mut at: Vec<Option<u32>> = vec![None];
        let at = std::cell::RefCell::new(&mut at);
        self.walk(
            |stack| {
                let parent = at.borrow().last().copied().flatten();
                let Some(&ps) = ps_of.get(&self.proc(stack)) else { return at.borrow_mut().push(parent) };
                let node = *known.entry((parent, ps)).or_insert_with(|| {
                    nodes.push(StackNode { parent, ps, total_ns: 0 });
                    nodes.len() as u32 - 1
                });
                nodes[node as usize].total_ns += self.totals[stack as usize].1;
                at.borrow_mut().push(Some(node));
            },
            |_| {
                at.borrow_mut().pop();
            },
        );
        prune(nodes)
    }
}

/// Keeps the heaviest nodes; a caller is never lighter than what it calls, so what is kept is a tree.
fn prune(nodes: Vec<StackNode>) -> (Vec<StackNode>, usize) {
    if nodes.len() <= MOST_STACKS {
        return (nodes, 0);
    }
    let mut totals: Vec<u64> = nodes.iter().map(|n| n.total_ns).collect();
    let (_, &mut least, _) = totals.select_nth_unstable_by(MOST_STACKS, |a, b| b.cmp(a));
    let mut kept = Vec::new();
    let mut moved = vec![NONE; nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        if node.total_ns > least {
            moved[i] = kept.len() as u32;
            kept.push(StackNode { parent: node.parent.map(|p| moved[p as usize]), ..*node });
        }
    }
    let left_out = nodes.len() - kept.len();
    (kept, left_out)
}

fn functions(
    profile: &Profile,
    cells: &[Cell],
    graph: &Graph,
    procs: &[Proc],
    trie: &Trie<'_>,
    weights: &[(u64, u64)],
) -> Vec<FunctionFacts> {
    let mut of: FxHashMap<Proc, FunctionFacts> = FxHashMap::default();
    let mut depth: FxHashMap<Proc, u32> = FxHashMap::default();
    let depth = std::cell::RefCell::new(&mut depth);
    trie.walk(
        |stack| {
            let proc = trie.proc(stack);
            let facts = of.entry(proc).or_default();
            facts.samples += weights[stack as usize].0;
            let mut depths = depth.borrow_mut();
            let on_stack = depths.entry(proc).or_default();
            if *on_stack == 0 {
                facts.stacked += trie.totals[stack as usize].0;
                facts.stacked_ns += trie.totals[stack as usize].1;
            }
            *on_stack += 1;
        },
        |stack| {
            if let Some(n) = depth.borrow_mut().get_mut(&trie.proc(stack)) {
                *n -= 1;
            }
        },
    );
    let add = |facts: &mut FunctionFacts, cell: &Cell| {
        facts.stacked += cell.weight.samples;
        facts.stacked_ns += cell.weight.cpu_ns();
    };
    for cell in cells {
        add(of.entry(Proc::Root).or_default(), cell);
        if !graph.groups.is_empty() {
            for group in graph.known_groups_of(profile, cell) {
                add(of.entry(Proc::Group(group)).or_default(), cell);
            }
        }
    }
    procs.iter().map(|p| of.get(p).copied().unwrap_or_default()).collect()
}

fn lines(profile: &Profile, weights: &[(u64, u64)]) -> Vec<LineCost> {
    let mut sums: FxHashMap<(u32, u32), u64> = FxHashMap::default();
    for ((_, node), &(_, ns)) in profile.stacks.enumerate().zip(weights) {
        let frame = &profile.frames[node.frame];
        if let Some(file) = frame.file.filter(|_| ns > 0 && frame.line > 0) {
            *sums.entry((file.index() as u32, frame.line)).or_default() += ns;
        }
    }
    let mut out: Vec<LineCost> = sums
        .into_iter()
        .map(|((file, line), ns)| LineCost {
            file: profile.files[Id::from_index(file as usize)].clone(),
            line,
            ns,
        })
        .collect();
    out.sort_by(|a, b| a.file.cmp(&b.file).then(a.line.cmp(&b.line)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::make;
    use pct_deep::Compensation;
    use pct_profile::model::{Builder, Object, ObjectKind, Process, Weight};
    use pct_profile::{By, Flat, Split};
    use proptest::prelude::*;

    fn profile(lines: &[(Vec<u8>, u64)]) -> Profile {
        let mut b = Builder::new(false);
        let process = b.process(Process::default());
        let thread = b.thread(process, 1, "t");
        for (stack, ns) in lines {
            let mut at = None;
            for f in stack {
                let path = if f % 2 == 0 { "/bin/p" } else { "/lib/x.so" };
                let object = b.object(Object { path: path.into(), build_id: None, kind: ObjectKind::File });
                let function = b.function(object, &format!("f{}", f % 5));
                let frame = b.plain_frame(function);
                at = Some(b.stack(at, frame));
            }
            b.add(thread, at.unwrap(), Weight { samples: 1, user_ns: *ns, system_ns: 0 });
        }
        b.finish()
    }

    proptest! {
        #[test]
        fn shares_of_every_function_are_those_of_the_report(
            lines in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 1..10), 1u64..1000), 1..30)
        ) {
            let p = profile(&lines);
            let made = make(&p, &p.cells, Default::default(), usize::MAX).unwrap();
            let deep = made.profile(Compensation::Exact).unwrap();
            let flat = Flat::of(&p, &p.cells, Some(By::Function), Split::Merged, pct_profile::flat::Order::Total);
            prop_assert_eq!(deep.root_total().quanta as u64, p.total().cpu_ns());
            let mut seen = 0;
            for row in &flat.rows {
                let label = row.label.unwrap();
                let (name, object) = (label.name(&p), label.object(&p).unwrap());
                let ps = deep
                    .pss()
                    .find(|&ps| {
                        deep.text_of_name(ps) == name && deep.ps_module_name(ps) == p.objects[object].name()
                    })
                    .unwrap();
                let f = deep.ps_figures(ps);
                prop_assert_eq!(f.own.quanta as u64, row.own.cpu_ns());
                prop_assert_eq!(f.own.total(&f.desc).quanta as u64, row.total.cpu_ns(), "{}", name);
                seen += 1;
            }
            prop_assert_eq!(seen + 1, deep.ps_count());
            // No recursion is left for readers to compensate.
            for csd in deep.csds() {
                prop_assert_eq!(deep.csd_comp(csd).quanta, 0);
            }
        }

        #[test]
        fn the_tree_of_stacks_has_all_time(
            lines in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 1..10), 1u64..1000), 1..30)
        ) {
            let p = profile(&lines);
            let made = make(&p, &p.cells, Default::default(), usize::MAX).unwrap();
            let roots: u64 =
                made.recorded.stacks.iter().filter(|n| n.parent.is_none()).map(|n| n.total_ns).sum();
            prop_assert_eq!(roots, p.total().cpu_ns());
            for (i, n) in made.recorded.stacks.iter().enumerate() {
                let below: u64 = made.recorded.stacks.iter()
                    .filter(|m| m.parent == Some(i as u32)).map(|m| m.total_ns).sum();
                prop_assert!(below <= n.total_ns);
                prop_assert!(n.parent.is_none_or(|p| (p as usize) < i));
            }
        }
    }

    #[test]
    fn a_recording_without_stacks_is_known_as_such() {
        let made = |lines: &[(Vec<u8>, u64)]| {
            let p = profile(lines);
            make(&p, &p.cells, Default::default(), usize::MAX).unwrap().recorded.side.stacks_known
        };
        assert!(!made(&[(vec![1], 5), (vec![2], 6)]));
        assert!(made(&[(vec![1], 5), (vec![1, 2], 6)]));
    }
}
