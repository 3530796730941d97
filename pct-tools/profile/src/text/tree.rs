//! Call trees: own and inclusive share, and the calls as indentation.
//!
//! A chain of only children stays at its indentation, so that deep stacks fit.

use super::Layout;
use super::flat::{csv_field, weight_json};
use super::numbers::{count, share};
use super::table::{Column, Rank, Table, tame};
use crate::model::{Id as _, Profile};
use crate::tree::{CallTree, NodeId};
use serde_json::{Value, json};

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
    let mut table = Table::new(vec![
        Column::number("self"),
        Column::number("total"),
        Column::name("call", 24),
        Column::name("object", 8),
    ]);
    let marks: [&str; 4] =
        if layout.unicode { ["├─ ", "└─ ", "│  ", "   "] } else { ["+- ", "`- ", "|  ", "   "] };
    let least = (whole as f64 * prune.least_share) as u64;
    let mut hidden = (0_u64, 0_u64);
    // What waits to be written: a node, the prefix of its line, the prefix of lines below it, its level.
    let mut pending: Vec<(NodeId, String, String, usize)> = Vec::new();
    let push =
        |pending: &mut Vec<_>, nodes: &[NodeId], below: &str, level: usize, hidden: &mut (u64, u64)| {
            let (shown, small): (Vec<NodeId>, Vec<NodeId>) = nodes
                .iter()
                .partition(|&&id| tree.nodes[id].total.cpu_ns() >= least.max(1) && level < prune.depth);
            for &id in &small {
                hidden.0 += 1;
                hidden.1 = hidden.1.saturating_add(tree.nodes[id].total.cpu_ns());
            }
            let alone = shown.len() == 1 && small.is_empty();
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
    push(&mut pending, &tree.roots, "", 0, &mut hidden);
    while let Some((id, prefix, below, level)) = pending.pop() {
        let node = &tree.nodes[id];
        if table.len() >= prune.lines {
            hidden.0 += 1;
            hidden.1 = hidden.1.saturating_add(node.total.cpu_ns());
            continue;
        }
        if level == 0 && !table.is_empty() {
            table.row(Rank::Plain, Vec::new());
        }
        let own = if node.own.is_zero() { String::new() } else { share(node.own.cpu_ns(), whole) };
        let object = node.label.object(profile).map(|object| tame(profile.objects[object].name()));
        table.row(
            Rank::of(node.own.cpu_ns(), whole),
            vec![
                own,
                share(node.total.cpu_ns(), whole),
                format!("{prefix}{}", tame(&node.label.name(profile))),
                object.unwrap_or_default(),
            ],
        );
        push(&mut pending, tree.children(id), &below, level + 1, &mut hidden);
    }
    let mut text = table.render(layout);
    if hidden.0 > 0 {
        let line =
            format!("  ... {} not shown: {}", count(hidden.0, "branch", "branches"), share(hidden.1, whole));
        text += &if layout.color { format!("\x1b[2m{line}\x1b[0m\n") } else { line + "\n" };
    }
    text
}

/// All nodes as CSV: `node,parent,samples,self_seconds,total_seconds,object,function`, callers before callees.
#[must_use]
pub fn csv(profile: &Profile, tree: &CallTree) -> String {
    let mut out = String::from("node,parent,samples,self_seconds,total_seconds,object,function\n");
    for (id, node) in tree.nodes.enumerate() {
        let object = node.label.object(profile).map(|object| profile.objects[object].name());
        out += &format!(
            "{},{},{},{:.6},{:.6},{},{}\n",
            id.index(),
            node.parent.map(|parent| parent.index().to_string()).unwrap_or_default(),
            node.total.samples,
            node.own.cpu_ns() as f64 / 1e9,
            node.total.cpu_ns() as f64 / 1e9,
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
                "self": weight_json(node.own),
                "total": weight_json(node.total),
                "object": object,
                "function": node.label.name(profile),
            })
        })
        .collect();
    json!({
        "version": 1,
        "title": profile.title,
        "total": weight_json(tree.total),
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
}
