//! Call trees: own and inclusive share, and the calls as indentation.
//!
//! A chain of only children stays at its indentation, so that deep stacks fit.

use super::Layout;
use super::flat::weight_json;
use super::numbers::{count, share};
use super::table::{Column, Rank, Table, name_in, tame};
use crate::model::{Id as _, Profile, Weight};
use crate::tree::{Amount, CallTree, Node, NodeId};
use pct_num::{float, rounded};
use pct_text::csv_field;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

/// What of a tree is shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prune {
    /// Nodes with a smaller share of the total are summed up.
    pub least_share: f64,
    /// Lines at most.
    pub lines: usize,
    /// Levels at most.
    pub depth: usize,
}

impl Default for Prune {
    fn default() -> Self {
        Self { least_share: 0.005, lines: 200, depth: usize::MAX }
    }
}

/// The tree for people. `whole` is what shares are of: nanoseconds of CPU time.
#[must_use]
pub fn table(profile: &Profile, tree: &CallTree, whole: u64, prune: &Prune, layout: &Layout) -> String {
    let heads = vec![Column::number("self"), Column::number("total")];
    let least = rounded((float(whole) * prune.least_share).floor());
    let cells = |node: &Node| {
        let own = if node.own.is_zero() { String::new() } else { share(node.own.cpu_ns(), whole) };
        (Rank::from_share(node.own.cpu_ns(), whole), vec![own, share(node.total.cpu_ns(), whole)])
    };
    let hidden = |sum: Weight| share(sum.cpu_ns(), whole);
    draw(profile, tree, (least, prune), layout, (heads, &cells, &hidden))
}

/// The numbers of a tree's lines: their heads, those of a node with its rank, and that of what is not shown.
pub(super) type Numbers<'a, W> =
    (Vec<Column>, &'a dyn Fn(&Node<W>) -> (Rank, Vec<String>), &'a dyn Fn(W) -> String);

/// Draws a tree of any amounts: columns of numbers, then the calls. Nodes below `least` in rank are summed up.
pub(super) fn draw<W: Amount>(
    profile: &Profile,
    tree: &CallTree<W>,
    (least, prune): (u64, &Prune),
    layout: &Layout,
    (heads, numbers, hidden_sum): Numbers<'_, W>,
) -> String {
    let mut columns = heads;
    // Names are elided before the lines of the tree come before them.
    columns.extend([Column::text("call", 24), Column::text("object", 8)]);
    let mut table = Table::new(columns);
    let marks: [&str; 4] =
        if layout.unicode { ["├─ ", "└─ ", "│  ", "   "] } else { ["+- ", "`- ", "|  ", "   "] };
    let chosen = choose(tree, least, prune);
    let (mut hidden, mut not_shown) = (0_u64, W::default());
    // What waits to be written: a node, the prefix of its line, the prefix of lines below it, its level.
    let mut pending: Vec<(NodeId, String, String, usize)> = Vec::new();
    let mut push = |pending: &mut Vec<_>, nodes: &[NodeId], below: &str, level: usize| {
        let (shown, left_out): (Vec<NodeId>, Vec<NodeId>) =
            nodes.iter().partition(|&&id| chosen.contains(&id));
        // What has nothing of what is drawn is not missed.
        for &id in left_out.iter().filter(|&&id| tree.nodes[id].total.heaviness().0 > 0) {
            hidden += 1;
            not_shown += tree.nodes[id].total;
        }
        let alone = shown.len() == 1 && left_out.is_empty();
        for (at, &id) in shown.iter().enumerate().rev() {
            let last = at + 1 == shown.len();
            let entry = if level == 0 {
                (id, String::new(), String::new(), level)
            } else if alone {
                (id, below.to_owned(), below.to_owned(), level)
            } else {
                let (own, under) = if last { (marks[1], marks[3]) } else { (marks[0], marks[2]) };
                (id, format!("{below}{own}"), format!("{below}{under}"), level)
            };
            pending.push(entry);
        }
    };
    push(&mut pending, &tree.roots, "", 0);
    while let Some((id, prefix, below, level)) = pending.pop() {
        let node = &tree.nodes[id];
        if level == 0 && !table.is_empty() {
            table.row(Rank::Plain, Vec::new());
        }
        let object = node.label.whereabouts(profile).map(|place| tame(&place));
        let (rank, mut cells) = numbers(node);
        cells.push(format!("{prefix}{}", name_in(layout, &tame(&node.label.name(profile)))));
        cells.push(object.unwrap_or_default());
        table.row(rank, cells);
        push(&mut pending, tree.children(id), &below, level + 1);
    }
    let mut text = table.render(layout);
    if hidden > 0 {
        let line =
            format!("  ... {} not shown: {}", count(hidden, "branch", "branches"), hidden_sum(not_shown));
        text += &if layout.color { format!("\x1b[2m{line}\x1b[0m\n") } else { line + "\n" };
    }
    text
}

/// The nodes that are drawn: the heaviest, so that a heavy branch is never left out for light ones of a
/// branch before it. Roots come first, up to half of the lines: each is a stack of its own.
fn choose<W: Amount>(tree: &CallTree<W>, least: u64, prune: &Prune) -> HashSet<NodeId> {
    let heaviness = |id: NodeId| tree.nodes[id].total.heaviness().0;
    let shown = |&id: &NodeId| heaviness(id) >= least.max(1);
    let mut chosen = HashSet::new();
    // Of equal ones the earlier. A callee comes into the heap after its caller, and is never heavier.
    let entry = |id: NodeId, level: usize| (heaviness(id), Reverse(id), level);
    let mut heap: BinaryHeap<_> = BinaryHeap::new();
    let mut roots: Vec<_> = tree.roots.iter().copied().filter(shown).map(|id| entry(id, 0)).collect();
    roots.sort_unstable_by(|a, b| b.cmp(a));
    let first = if prune.depth == 0 { 0 } else { prune.lines.div_ceil(2) };
    for (at, &(weight, id, level)) in roots.iter().enumerate() {
        if at < first {
            chosen.insert(id.0);
        }
        heap.push((weight, id, level));
    }
    while let Some((_, Reverse(id), level)) = heap.pop() {
        if level >= prune.depth || chosen.len() >= prune.lines && !chosen.contains(&id) {
            continue;
        }
        chosen.insert(id);
        heap.extend(tree.children(id).iter().copied().filter(shown).map(|child| entry(child, level + 1)));
    }
    chosen
}

/// All nodes as CSV: `node,parent,samples,self_seconds,total_seconds,object,function`, callers before callees. Where
/// weights are no CPU time, `seconds` is the sample type and its unit, as in [`super::flat::csv`].
#[must_use]
pub fn csv(profile: &Profile, tree: &CallTree) -> String {
    let unit = if profile.is_of_cpu_time() { "seconds".to_owned() } else { profile.quantity.column() };
    let (own, total) = (format!("self_{unit}"), format!("total_{unit}"));
    let mut out = format!("node,parent,samples,{},{},object,function\n", csv_field(&own), csv_field(&total));
    for (id, node) in tree.nodes.enumerate() {
        let object = node.label.object(profile).map(|object| profile.objects[object].name());
        out += &format!(
            "{},{},{},{:.6},{:.6},{},{}\n",
            id.index(),
            node.parent.map(|parent| parent.index().to_string()).unwrap_or_default(),
            super::flat::samples(profile, node.total),
            profile.quantity.scaled(node.own.cpu_ns()),
            profile.quantity.scaled(node.total.cpu_ns()),
            csv_field(object.unwrap_or_default()),
            csv_field(&node.label.name(profile)),
        );
    }
    out
}

/// All nodes as JSON: an array of `{node, parent, self, total, object, function}`, callers before callees.
#[must_use]
pub fn json(profile: &Profile, tree: &CallTree) -> Value {
    let nodes: Vec<Value> = tree
        .nodes
        .enumerate()
        .map(|(id, node)| {
            let object = node.label.object(profile).map(|object| profile.objects[object].name());
            json!({
                "node": id.index(),
                "parent": node.parent.map(crate::model::Id::index),
                "self": weight_json(&profile.quantity, node.own),
                "total": weight_json(&profile.quantity, node.total),
                "object": object,
                "function": node.label.name(profile),
            })
        })
        .collect();
    json!({
        "version": 1,
        "title": profile.title,
        "total": weight_json(&profile.quantity, tree.total),
        "nodes": nodes,
        "account": super::flat::account_json(profile),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::folded;
    use crate::tree::{By, Split};

    #[test]
    fn branches_are_drawn_and_small_ones_summed() {
        let p = folded("main;run;a;x 500\nmain;run;b 400\nmain;run 98\nmain;run;tiny 2");
        let tree = CallTree::top_down(&p, &p.cells, By::Function, Split::Merged);
        let text = table(&p, &tree, tree.total.cpu_ns(), &Prune::default(), &Layout::default());
        let want = "   self   total  call  object
         100.0%  main  prog
   9.8%  100.0%  run   prog
          50.0%  +- a  prog
  50.0%   50.0%  |  x  prog
  40.0%   40.0%  `- b  prog
  ... 1 branch not shown: 0.2%
";
        assert_eq!(text, want);
        assert_eq!(csv(&p, &tree).lines().count(), 7);
        assert_eq!(json(&p, &tree)["nodes"][1]["parent"], 0);
    }

    #[test]
    fn long_names_are_elided_whatever_their_depth() {
        let long = "std::map<std::basic_string<char>, std::basic_string<char> >::at(int)";
        let short = "std::map<std::basic_string<char>, int>::at(unsigned long)";
        let p = folded(&format!("main;a;{long} 500\nmain;a;{short} 300\nmain;b 200"));
        let tree = CallTree::top_down(&p, &p.cells, By::Function, Split::Merged);
        let drawn = |layout| table(&p, &tree, tree.total.cpu_ns(), &Prune::default(), &layout);
        let text = drawn(Layout::default());
        assert!(text.contains("|  +- std::map<...>::at(int)  "), "{text}");
        assert!(text.contains(&format!("|  `- {short}  ")), "less than 60 columns: {text}");
        let text = drawn(Layout { wide: true, ..Layout::default() });
        assert!(text.contains(&format!("|  +- {long}  ")), "{text}");
    }

    #[test]
    fn a_heavy_root_is_shown_before_light_branches_of_another() {
        let p = folded("main;a;b;c;d;e;f 640\nthread;work 360");
        let tree = CallTree::top_down(&p, &p.cells, By::Function, Split::Merged);
        let few = |lines| {
            let prune = Prune { lines, ..Prune::default() };
            table(&p, &tree, tree.total.cpu_ns(), &prune, &Layout::default())
        };
        let text = few(4);
        assert!(text.contains("main") && text.contains("thread") && !text.contains("work"), "{text}");
        assert!(text.ends_with("  ... 2 branches not shown: 100.0%\n"), "{text}");
        let text = few(0);
        assert!(text.ends_with("  ... 2 branches not shown: 100.0%\n"), "{text}");
    }

    #[test]
    fn what_is_shown_and_what_is_not_is_the_whole() {
        let p = folded("m;a;x 300\nm;a;y 200\nm;b;x 150\nm;b 100\nm 50\nt;w;z 120\nt;w 60\nu 20");
        let tree = CallTree::top_down(&p, &p.cells, By::Function, Split::Merged);
        for lines in 0..=tree.nodes.ids().count() {
            for depth in 0..4 {
                let prune = Prune { lines, depth, least_share: 0.0 };
                let chosen = choose(&tree, 0, &prune);
                assert!(chosen.len() <= lines);
                let own: u64 = chosen.iter().map(|&id| tree.nodes[id].own.cpu_ns()).sum();
                let left_out = tree.nodes.enumerate().filter(|(id, node)| {
                    !chosen.contains(id) && node.parent.is_none_or(|parent| chosen.contains(&parent))
                });
                let left_out: u64 = left_out.map(|(_, node)| node.total.cpu_ns()).sum();
                assert_eq!(own + left_out, tree.total.cpu_ns(), "{lines} lines, {depth} levels");
            }
        }
    }
}
