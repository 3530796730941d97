//! What a recording knows beyond the folded graph: samples and time with each procedure anywhere on the stack
//! (recursion counted once), the tree of stacks by function, the time of source lines, who ran, and the
//! closing account.

use crate::graph::{Graph, Proc};
use crate::measured::measured;
use pct_deep::native::{
    CalleeFacts, FunctionFacts, LineCost, OwnerFacts, ProcessFacts, Recorded, Side, StackNode, ThreadFacts,
};
use pct_deep::{Id as _, PsId};
use pct_profile::flat::Row;
use pct_profile::fold::beginnings;
use pct_profile::model::{Cell, FileId, Id, StackId};
use pct_profile::tree::Label;
use pct_profile::{Flat, Language, Profile};
use pct_text::elided;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Nodes of the tree of stacks that are kept; small branches beyond are counted.
const MOST_STACKS: usize = 20_000;

/// Longest name of a function in a thread's name, in characters.
const LONGEST_BEGINNING: usize = 40;
/// Owners that are listed; the rest is counted.
const MOST_OWNERS: usize = 1000;
/// What is listed of the functions that an owner called.
const MOST_CALLEES: usize = 20;

/// What the stacks say, before it is known which procedure of the deep profile each function is.
#[derive(Debug)]
pub struct Stacks {
    /// By function.
    functions: Vec<FunctionFacts>,
    tree: Vec<Branch>,
    left_out: usize,
    lines: Vec<LineCost>,
    known: bool,
}

/// The stacks of these cells.
#[must_use]
pub fn stacks(profile: &Profile, cells: &[Cell]) -> Stacks {
    let mut weights = vec![(0u64, 0u64); profile.stacks.len()];
    for cell in cells {
        let w = &mut weights[cell.stack.index()];
        w.0 += cell.weight.samples;
        w.1 += cell.weight.cpu_ns();
    }
    let trie = Trie::new(profile, &weights);
    let (tree, left_out) = trie.tree(MOST_STACKS);
    Stacks {
        functions: trie.functions(&weights),
        tree,
        left_out,
        lines: lines(profile, &weights),
        known: trie.has_stacks(),
    }
}

/// The facts of these cells; `procs` are the procedures of the deep profile in the order of their ids, `by_owner` is
/// the table of the cells' owners.
#[must_use]
pub fn facts(
    profile: &Profile,
    cells: &[Cell],
    graph: &Graph,
    procs: &[Proc],
    stacks: Stacks,
    by_owner: &Flat,
) -> Recorded {
    let mut ps_of: Vec<Option<PsId>> = vec![None; profile.functions.len()];
    for (i, proc) in procs.iter().enumerate() {
        if let Proc::Function(function) = proc {
            ps_of[function.index()] = Some(PsId::at(i));
        }
    }
    let mut tree = Vec::with_capacity(stacks.tree.len());
    for branch in &stacks.tree {
        // a function whose samples stand for no time at all is in no context
        let Some(ps) = ps_of[branch.function] else { break };
        tree.push(StackNode { parent: branch.parent, ps, total_ns: branch.total_ns });
    }
    let mut side = side(profile, cells, graph);
    side.stacks_known = stacks.known;
    side.functions = functions(profile, cells, graph, procs, &stacks.functions);
    side.languages = languages(profile, procs);
    side.owners = by_owner
        .rows
        .iter()
        .enumerate()
        .take(MOST_OWNERS)
        .map(|(at, row)| owner(profile, &ps_of, by_owner, at, row))
        .collect();
    let beyond = by_owner.rows.get(MOST_OWNERS..).unwrap_or_default();
    side.owners_beyond = (beyond.len() as u64, beyond.iter().map(|row| row.own.cpu_ns()).sum());
    Recorded {
        side,
        stacks: tree,
        stacks_left_out: stacks.left_out,
        lines: stacks.lines,
        has_lines: true,
        start_realtime_ns: profile.start_realtime_ns,
        ..Recorded::default()
    }
}

/// The interpreted languages with the numbers of their procedures.
fn languages(profile: &Profile, procs: &[Proc]) -> Vec<(String, Vec<u32>)> {
    let mut found: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (number, proc) in (1..).zip(procs) {
        let Proc::Function(function) = proc else { continue };
        let language = profile.language(*function);
        if language != Language::Native {
            found.entry(language.name()).or_default().push(number);
        }
    }
    found.into_iter().map(|(language, numbers)| (language.to_owned(), numbers)).collect()
}

fn owner(profile: &Profile, ps_of: &[Option<PsId>], table: &Flat, at: usize, row: &Row) -> OwnerFacts {
    let number = |label: Label| {
        let function = label.function(profile);
        function.and_then(|function| ps_of.get(function.index()).copied().flatten()).map_or(0, PsId::number)
    };
    let callees = table.callees.get(at).into_iter().flatten().take(MOST_CALLEES);
    OwnerFacts {
        ps: row.label.map_or(0, number),
        name: row.label.map_or_else(String::new, |label| label.name(profile)),
        ns: row.own.cpu_ns(),
        total_ns: row.total.cpu_ns(),
        callees: callees
            .map(|&(label, weight)| CalleeFacts {
                ps: number(label),
                name: label.name(profile),
                ns: weight.cpu_ns(),
            })
            .collect(),
    }
}

fn side(profile: &Profile, cells: &[Cell], graph: &Graph) -> Side {
    let mut threads: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for cell in cells {
        let sum = threads.entry(cell.thread.index()).or_default();
        sum.0 += cell.weight.samples;
        sum.1 += cell.weight.cpu_ns();
    }
    let begins = beginnings(profile, cells);
    let mut threads: Vec<ThreadFacts> = threads
        .into_iter()
        .map(|(i, (samples, ns))| {
            let thread = &profile.threads[Id::from_index(i)];
            let process = &profile.processes[thread.process];
            let begins = begins[i].map(|function| profile.functions[function].name.as_str());
            let name = match begins {
                Some(begins) => format!("{} \u{b7} {}", elided(begins, LONGEST_BEGINNING), thread.name),
                None => thread.name.clone(),
            };
            ThreadFacts { pid: process.pid, tid: thread.tid, samples, ns, name }
        })
        .collect();
    threads.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.tid.cmp(&b.tid)));
    Side {
        producer: "sampled".to_owned(),
        measured: measured(profile),
        rate_hz: profile.processes.iter().map(|p| p.hz).max().unwrap_or(0),
        clock: profile.processes.iter().map(|p| p.clock.clone()).next().unwrap_or_default(),
        samples: cells.iter().map(|c| c.weight.samples).sum(),
        folded_ns: graph.folded_ns,
        running: profile.account.running,
        processes: profile
            .processes
            .iter()
            .filter(|p| p.stands_for == 0)
            .map(|p| ProcessFacts { pid: p.pid, name: p.name.clone() })
            .collect(),
        threads,
        headline: pct_profile::text::account::headline_without_time(profile, cells),
        account: pct_profile::text::account::for_pages(profile, cells),
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
pub(super) struct Trie<'a> {
    profile: &'a Profile,
    /// Samples and nanoseconds of a stack and all that begin with it.
    totals: Vec<(u64, u64)>,
    first_child: Vec<Option<StackId>>,
    next: Vec<Option<StackId>>,
    roots: Vec<StackId>,
}

impl<'a> Trie<'a> {
    pub(super) fn new(profile: &'a Profile, weights: &[(u64, u64)]) -> Self {
        let mut totals = weights.to_vec();
        let mut first_child = vec![None; totals.len()];
        let mut next = vec![None; totals.len()];
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
                    first_child[p] = Some(id);
                }
                None => roots.push(id),
            }
        }
        roots.reverse();
        Trie { profile, totals, first_child, next, roots }
    }

    fn function(&self, stack: StackId) -> usize {
        let node = self.profile.stacks[stack];
        self.profile.frames[node.frame].function.index()
    }

    fn children(&self, stack: StackId) -> impl Iterator<Item = StackId> + '_ {
        std::iter::successors(self.first_child[stack.index()], move |s| self.next[s.index()])
    }

    /// Visits stacks outermost first: `enter` when met, `leave` when all below were.
    fn walk(&self, mut enter: impl FnMut(StackId), mut leave: impl FnMut(StackId)) {
        for &root in &self.roots {
            let mut path = vec![root];
            enter(root);
            let mut down = self.first_child[root.index()];
            while let Some(&top) = path.last() {
                if let Some(child) = down {
                    path.push(child);
                    enter(child);
                    down = self.first_child[child.index()];
                } else {
                    leave(top);
                    path.pop();
                    down = if path.is_empty() { None } else { self.next[top.index()] };
                }
            }
        }
    }

    /// Whether any stack tells who called: a kernel frame below the program's only frame does not.
    fn has_stacks(&self) -> bool {
        let kernel = |s: StackId| {
            let node = self.profile.stacks[s];
            self.profile.object_of(node.frame).kind == pct_profile::model::ObjectKind::Kernel
                || self.profile.frames[node.frame].inlined
        };
        self.roots.iter().any(|&r| self.children(r).any(|child| !kernel(child)))
    }

    /// Samples in each function, and samples and time with it on the stack, recursion counted once.
    fn functions(&self, weights: &[(u64, u64)]) -> Vec<FunctionFacts> {
        let mut facts = vec![FunctionFacts::default(); self.profile.functions.len()];
        let depth = std::cell::RefCell::new(vec![0u32; facts.len()]);
        self.walk(
            |stack| {
                let function = self.function(stack);
                let facts = &mut facts[function];
                facts.samples += weights[stack.index()].0;
                let on_stack = &mut depth.borrow_mut()[function];
                if *on_stack == 0 {
                    facts.stacked += self.totals[stack.index()].0;
                    facts.stacked_ns += self.totals[stack.index()].1;
                }
                *on_stack += 1;
            },
            |stack| depth.borrow_mut()[self.function(stack)] -= 1,
        );
        facts
    }

    /// The `most` heaviest branches of the tree by function, the heaviest first, callers before what they
    /// call; and how many stacks are in none of them. A caller is never lighter than what it calls, so the
    /// tree is opened from its root, always at the heaviest branch, and the rest of it is never looked at.
    pub(super) fn tree(&self, most: usize) -> (Vec<Branch>, usize) {
        let mut branches: Vec<Branch> = Vec::new();
        // Branches that are known and not yet taken; of equal ones the one met first.
        let mut open: BinaryHeap<(u64, Reverse<usize>)> = BinaryHeap::new();
        let mut waiting: Vec<Option<(Branch, Vec<StackId>)>> = Vec::new();
        let offer = |parent, stacks: &mut Vec<StackId>, open: &mut BinaryHeap<_>, waiting: &mut Vec<_>| {
            stacks.sort_by_key(|s| self.function(*s));
            for same in stacks.chunk_by(|a, b| self.function(*a) == self.function(*b)) {
                let total_ns = same.iter().map(|s| self.totals[s.index()].1).sum();
                open.push((total_ns, Reverse(waiting.len())));
                let branch = Branch { parent, function: self.function(same[0]), total_ns };
                waiting.push(Some((branch, same.to_vec())));
            }
        };
        let mut stacks = self.roots.clone();
        offer(None, &mut stacks, &mut open, &mut waiting);
        let mut covered = 0;
        while branches.len() < most {
            let Some((_, Reverse(next))) = open.pop() else { break };
            let Some((branch, mine)) = waiting[next].take() else { continue };
            branches.push(branch);
            covered += mine.len();
            stacks.clear();
            stacks.extend(mine.iter().flat_map(|s| self.children(*s)));
            let own = u32::try_from(branches.len() - 1).ok();
            offer(own, &mut stacks, &mut open, &mut waiting);
        }
        let used = self.totals.iter().filter(|t| **t != (0, 0)).count();
        (branches, used - covered)
    }
}

/// A branch of the tree of stacks by function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    /// The caller's place in the list of branches.
    pub(super) parent: Option<u32>,
    /// Index of the function.
    pub(super) function: usize,
    pub(super) total_ns: u64,
}

fn functions(
    profile: &Profile,
    cells: &[Cell],
    graph: &Graph,
    procs: &[Proc],
    by_function: &[FunctionFacts],
) -> Vec<FunctionFacts> {
    let mut of: FxHashMap<Proc, FunctionFacts> = FxHashMap::default();
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
    let facts = |proc: &Proc| match proc {
        Proc::Function(function) => by_function[function.index()],
        other => of.get(other).copied().unwrap_or_default(),
    };
    procs.iter().map(facts).collect()
}

fn lines(profile: &Profile, weights: &[(u64, u64)]) -> Vec<LineCost> {
    let mut sums: FxHashMap<(FileId, u32), u64> = FxHashMap::default();
    for ((_, node), &(_, ns)) in profile.stacks.enumerate().zip(weights) {
        let frame = &profile.frames[node.frame];
        if let Some(file) = frame.file.filter(|_| ns > 0 && frame.line > 0) {
            *sums.entry((file, frame.line)).or_default() += ns;
        }
    }
    let mut out: Vec<LineCost> = sums
        .into_iter()
        .map(|((file, line), ns)| LineCost { file: profile.files[file].clone(), line, ns })
        .collect();
    out.sort_by(|a, b| a.file.cmp(&b.file).then(a.line.cmp(&b.line)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Beside, make, make_with};
    use pct_deep::Compensation;
    use pct_profile::flat::Order;
    use pct_profile::fold::Whose;
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
                let object = b.object(Object::new(path, ObjectKind::File));
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
            let flat = Flat::count_cells(&p, &p.cells, Some(By::Function), Split::Merged, pct_profile::flat::Order::Total);
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
        fn the_short_cut_of_the_creator_rule_gives_the_same_figures(
            lines in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 1..16), 1u64..1000), 1..60)
        ) {
            let p = profile(&lines);
            for most in [usize::MAX, 20] {
                let data = make(&p, &p.cells, Default::default(), most).unwrap().data;
                let long = pct_deep::Profile::new(data.clone(), Compensation::Exact).unwrap();
                let short = pct_deep::Profile::of_creator_rule(data, Compensation::Exact).unwrap();
                for ps in long.pss() {
                    prop_assert_eq!(long.ps_figures(ps), short.ps_figures(ps));
                    for &pd in long.ps_pds(ps) {
                        for &member in long.clique_members(long.pd_clique(pd)) {
                            let other = long.pd_ps(member);
                            prop_assert_eq!(long.pd_comp(pd, other), short.pd_comp(pd, other));
                        }
                    }
                    for &css in long.sites(ps) {
                        prop_assert_eq!(long.css_figures(css), short.css_figures(css));
                    }
                }
                for csd in long.csds() {
                    prop_assert_eq!(long.csd_comp(csd), short.csd_comp(csd));
                    prop_assert_eq!(long.csd_total(csd), short.csd_total(csd));
                }
            }
        }

        #[test]
        fn owners_have_all_time(
            lines in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 1..10), 1u64..1000), 1..30)
        ) {
            let mut p = profile(&lines);
            let cells = p.cells.clone();
            let owners = Flat::count_owners(&mut p, &cells, Whose::Owner, Split::Merged, Order::Own);
            let beside = Beside { has_own_work: true, ..Beside::default() };
            let made = make_with(&p, &cells, &beside, Default::default(), usize::MAX).unwrap();
            let side = &made.recorded.side;
            prop_assert_eq!(side.owners.iter().map(|o| o.ns).sum::<u64>(), p.total().cpu_ns());
            let ns: Vec<u64> = owners.rows.iter().map(|row| row.own.cpu_ns()).collect();
            prop_assert_eq!(side.owners.iter().map(|o| o.ns).collect::<Vec<_>>(), ns);
            prop_assert!(side.owners.iter().all(|o| o.ps > 0 && o.ns <= o.total_ns));
            prop_assert_eq!(side.owners_beyond, (0, 0));
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

    proptest! {
        #[test]
        fn the_heaviest_branches_are_kept(
            lines in proptest::collection::vec((proptest::collection::vec(0u8..20, 1..8), 1u64..50), 1..40), most in 1usize..40
        ) {
            let p = profile(&lines);
            let weights: Vec<(u64, u64)> = {
                let mut w = vec![(0, 0); p.stacks.len()];
                for c in &p.cells {
                    w[c.stack.index()].0 += c.weight.samples;
                    w[c.stack.index()].1 += c.weight.cpu_ns();
                }
                w
            };
            // every way from a root by functions, and its time
            let mut naive: BTreeMap<Vec<usize>, u64> = BTreeMap::new();
            for c in &p.cells {
                let mut way: Vec<usize> = p.outwards(c.stack).map(|(_, f)| f.function.index()).collect();
                way.reverse();
                for end in 1..=way.len() {
                    *naive.entry(way[..end].to_vec()).or_default() += c.weight.cpu_ns();
                }
            }
            let (kept, _) = Trie::new(&p, &weights).tree(most);
            let mut ways: Vec<Vec<usize>> = Vec::new();
            for branch in &kept {
                let mut way = branch.parent.map_or(Vec::new(), |p| ways[p as usize].clone());
                way.push(branch.function);
                prop_assert_eq!(naive.get(&way), Some(&branch.total_ns));
                prop_assert!(!ways.contains(&way));
                ways.push(way);
            }
            let mut totals: Vec<u64> = naive.values().copied().collect();
            totals.sort_by(|a, b| b.cmp(a));
            totals.truncate(most);
            prop_assert_eq!(kept.iter().map(|b| b.total_ns).collect::<Vec<_>>(), totals);
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
