//! The call tree that people look at: stacks merged by function (or line, or address), split by process or thread.
//!
//! A [`Profile`]'s stacks are exact to the address; a view merges them by [`By`]. Weights go up by one backward
//! pass, because callers have smaller ids. Recursion is not folded in a tree (each level is a node), but wherever
//! one function's inclusive time is asked for, a sample counts once, at the outermost occurrence.

mod label;
mod nodes;
mod parts;

use crate::model::{FunctionId, Id, Profile, StackId};
pub(crate) use label::Labels;
pub use label::{By, Label};
use nodes::Grow;
pub use nodes::{CallTree, Node, NodeId};
pub use parts::{Amount, Measured, Split};
pub(crate) use parts::{Parts, for_each_part, used_stacks};
use rustc_hash::FxHashMap;

impl<W: Amount> CallTree<W> {
    /// The tree of these cells from the outermost frame inwards.
    #[must_use]
    pub fn top_down<C: Measured<Amount = W>>(profile: &Profile, cells: &[C], by: By, split: Split) -> Self {
        let labels = Labels::from_profile(profile, by);
        let mut grow = Grow::default();
        for_each_part(profile, cells, split, |part, stacks| {
            let root = part.map(|label| grow.node(None, label));
            grow.inwards(profile, stacks, |grow, stack, above| {
                let label = labels.of_frame(stack.frame);
                // Merging by object makes a run of frames of one object a single node.
                Some(match above {
                    Some(above) if by == By::Object && grow.nodes[above].label == label => above,
                    _ => grow.node(above.or(root), label),
                })
            });
        });
        grow.finish(profile)
    }

    /// The tree of these cells from the innermost frame outwards: who called what is hot.
    #[must_use]
    pub fn bottom_up<C: Measured<Amount = W>>(profile: &Profile, cells: &[C], by: By, split: Split) -> Self {
        let labels = Labels::from_profile(profile, by);
        let mut grow = Grow::default();
        for_each_part(profile, cells, split, |part, stacks| {
            let root = part.map(|label| grow.node(None, label));
            for (id, weight) in profile.stacks.ids().zip(stacks).filter(|(_, weight)| !weight.is_nothing()) {
                grow.outwards(profile, &labels, root, id, *weight);
                let innermost = grow.node(root, labels.of_frame(profile.stacks[id].frame));
                grow.nodes[innermost].own += *weight;
            }
        });
        grow.finish(profile)
    }

    /// What these functions call, with the weights of the samples that they are part of: a root per function.
    #[must_use]
    pub fn callees<C: Measured<Amount = W>>(
        profile: &Profile,
        cells: &[C],
        of: impl Fn(FunctionId) -> bool,
        by: By,
    ) -> Self {
        let labels = Labels::from_profile(profile, by);
        let wanted: Vec<bool> = profile.functions.ids().map(of).collect();
        let mut grow = Grow::default();
        for_each_part(profile, cells, Split::Merged, |_, stacks| {
            grow.inwards(profile, stacks, |grow, stack, above| {
                let function = profile.frames[stack.frame].function;
                if above.is_some() {
                    Some(grow.node(above, labels.of_frame(stack.frame)))
                } else {
                    wanted[function.index()].then(|| grow.node(None, Label::Function(function)))
                }
            });
        });
        grow.finish(profile)
    }

    /// Who calls these functions: a root per function, its children are callers, theirs the callers' callers. A
    /// sample in a recursion counts once, by the callers of the outermost occurrence.
    #[must_use]
    pub fn callers<C: Measured<Amount = W>>(
        profile: &Profile,
        cells: &[C],
        of: impl Fn(FunctionId) -> bool,
        by: By,
    ) -> Self {
        let labels = Labels::from_profile(profile, by);
        let wanted: Vec<bool> = profile.functions.ids().map(of).collect();
        let mut grow = Grow::default();
        for_each_part(profile, cells, Split::Merged, |_, stacks| {
            // For each stack the outermost occurrence of a wanted function on it, itself included.
            let mut outermost: Vec<Option<StackId>> = Vec::with_capacity(profile.stacks.len());
            // What passes through each of them, and the part of it that was measured in the function itself.
            let mut at: FxHashMap<StackId, (W, W)> = FxHashMap::default();
            for (id, stack) in profile.stacks.enumerate() {
                let found = stack
                    .parent
                    .and_then(|parent| outermost[parent.index()])
                    .or_else(|| wanted[profile.frames[stack.frame].function.index()].then_some(id));
                if let Some(found) = found.filter(|_| !stacks[id.index()].is_nothing()) {
                    let (passing, own) = at.entry(found).or_default();
                    *passing += stacks[id.index()];
                    if profile.leaf(id) == profile.leaf(found) {
                        *own += stacks[id.index()];
                    }
                }
                outermost.push(found);
            }
            let mut at: Vec<_> = at.into_iter().collect();
            at.sort_by_key(|(stack, _)| *stack);
            for (stack, (weight, own)) in at {
                let root = grow.node(None, Label::Function(profile.leaf(stack)));
                grow.nodes[root].own += own;
                match profile.stacks[stack].parent {
                    Some(parent) => grow.outwards(profile, &labels, Some(root), parent, weight),
                    None => grow.nodes[root].ends += weight,
                }
            }
        });
        grow.finish(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{add_folded, folded};
    use crate::model::{Builder, Process};
    use proptest::prelude::*;

    fn drawn(profile: &Profile, tree: &CallTree) -> String {
        let mut out = String::new();
        tree.walk(|id, depth| {
            let node = &tree.nodes[id];
            let name = node.label.name(profile);
            out += &format!("{}{name} {}/{}\n", " ".repeat(depth), node.own.samples, node.total.samples);
            true
        });
        out
    }

    #[test]
    fn own_and_total_go_up_the_tree() {
        let p = folded("main;a;b 1\nmain;a 2\nmain;c 4\nmain;c;[system] 1");
        let tree = CallTree::top_down(&p, &p.cells, By::Function, Split::Merged);
        assert_eq!(drawn(&p, &tree), "main 0/8\n c 4/5\n  [system] 1/1\n a 2/3\n  b 1/1\n");
        assert_eq!(tree.total.system_ns, 1_000_000);
    }

    #[test]
    fn bottom_up_starts_at_the_hot_end() {
        let p = folded("main;a;b 3\nmain;c;b 2\nmain 1");
        let tree = CallTree::bottom_up(&p, &p.cells, By::Function, Split::Merged);
        assert_eq!(drawn(&p, &tree), "b 5/5\n a 0/3\n  main 0/3\n c 0/2\n  main 0/2\nmain 1/1\n");
    }

    #[test]
    fn callers_and_callees_count_recursion_once() {
        let p = folded("main;f;f;f;g 3\nmain;x;f 2\nmain 5");
        let is_f = |id: FunctionId| p.functions[id].name == "f";
        let down = CallTree::callees(&p, &p.cells, is_f, By::Function);
        assert_eq!(drawn(&p, &down), "f 2/5\n f 0/3\n  f 0/3\n   g 3/3\n");
        let up = CallTree::callers(&p, &p.cells, is_f, By::Function);
        assert_eq!(drawn(&p, &up), "f 2/5\n main 0/3\n x 0/2\n  main 0/2\n");
    }

    #[test]
    fn commands_and_thread_names_are_sums_over_processes() {
        let mut b = Builder::new(false);
        for (pid, process, thread, lines) in [
            (1, "cc1", "cc1", "main;a 1"),
            (2, "make", "make", "main 2"),
            (3, "cc1", "worker", "main;a 4"),
            (4, "ld", "worker", "main 8"),
        ] {
            let process = b.process(Process { pid, name: process.into(), ..Process::default() });
            let thread = b.thread(process, pid, thread);
            add_folded(&mut b, thread, lines);
        }
        let p = b.finish();
        let tree = CallTree::top_down(&p, &p.cells, By::Function, Split::Command);
        assert_eq!(drawn(&p, &tree), "ld 0/8\n main 8/8\ncc1 0/5\n main 0/5\n  a 5/5\nmake 0/2\n main 2/2\n");
        let tree = CallTree::top_down(&p, &p.cells, By::Object, Split::ThreadName);
        assert_eq!(drawn(&p, &tree), "worker 0/12\n prog 12/12\nmake 0/2\n prog 2/2\ncc1 0/1\n prog 1/1\n");
    }

    #[test]
    fn a_split_gives_each_process_its_own_root() {
        let mut b = Builder::new(false);
        for (pid, lines) in [(1, "main;a 1"), (2, "main;a 2\nmain 1")] {
            let process = b.process(Process { pid, name: "p".into(), ..Process::default() });
            let thread = b.thread(process, pid, "t");
            add_folded(&mut b, thread, lines);
        }
        let p = b.finish();
        let tree = CallTree::top_down(&p, &p.cells, By::Function, Split::Process);
        assert_eq!(drawn(&p, &tree), "p (2) 0/3\n main 1/3\n  a 2/2\np (1) 0/1\n main 0/1\n  a 1/1\n");
        let tree = CallTree::top_down(&p, &p.cells, By::Object, Split::Merged);
        assert_eq!(drawn(&p, &tree), "prog 4/4\n");
    }

    proptest! {
        /// Whatever the stacks: nothing is lost or counted twice, children fit into their parents.
        #[test]
        fn trees_keep_the_sum(stacks in proptest::collection::vec(
            (proptest::collection::vec(0_u8..6, 1..12), 1_u64..9), 1..40)) {
            let lines: String = stacks.iter().map(|(frames, n)| {
                let names: Vec<String> = frames.iter().map(|f| format!("f{f}")).collect();
                format!("{} {n}\n", names.join(";"))
            }).collect();
            let p = folded(&lines);
            let want: u64 = stacks.iter().map(|(_, n)| n).sum();
            for tree in [
                CallTree::top_down(&p, &p.cells, By::Function, Split::Merged),
                CallTree::bottom_up(&p, &p.cells, By::Function, Split::Merged),
                CallTree::top_down(&p, &p.cells, By::Function, Split::Thread),
            ] {
                prop_assert_eq!(tree.total.samples, want);
                let mut seen = 0;
                tree.walk(|id, _| {
                    seen += 1;
                    let below: u64 = tree.children(id).iter().map(|&c| tree.nodes[c].total.samples).sum();
                    assert_eq!(tree.nodes[id].ends.samples + below, tree.nodes[id].total.samples);
                    true
                });
                prop_assert_eq!(seen, tree.nodes.len());
                let own: u64 = tree.nodes.iter().map(|node| node.own.samples).sum();
                prop_assert_eq!(own, want, "each sample is some function's own");
            }
            // The naive twin: a sample belongs to f0 when f0 is anywhere on its stack.
            let with: u64 = stacks.iter().filter(|(f, _)| f.contains(&0)).map(|(_, n)| n).sum();
            let is = |id: FunctionId| p.functions[id].name == "f0";
            prop_assert_eq!(CallTree::callers(&p, &p.cells, is, By::Function).total.samples, with);
            prop_assert_eq!(CallTree::callees(&p, &p.cells, is, By::Function).total.samples, with);
        }
    }
}
