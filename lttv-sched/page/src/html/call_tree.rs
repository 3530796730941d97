//! The call tree as a table that opens in place: `details` elements in each other, so it needs no script.
//!
//! It is written as text, not as nested calls: stacks may be deeper than ours.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};
use pct_icicle::text::escape_into;

use crate::view::{MOST_DETAIL, Tab, View, choose, encoded, link};
use crate::windows::{CallNode, WindowSums};
use crate::words::{duration, function, share};

/// Branches below one part in so many of the whole are one row. It leads to a page that shows more of them: each
/// time branches that are so many times smaller.
const LEAST: u64 = 500;
const FINER: u64 = 20;
/// Most rows, and most of a page with more of them.
const MOST_ROWS: usize = 3000;
const MOST_FINER_ROWS: usize = 30_000;
/// Most levels: browsers cut the depth of pages.
const MOST_DEPTH: usize = 200;
/// Branches from one part in so many on are open at first.
const OPEN: u64 = 5;

/// The tree of a range.
pub(super) fn markup(sums: &WindowSums, view: &View) -> Markup {
    html! {
        @for nodes in &sums.trees {
            div.tablebox { div.tree role="tree" {
                div.row.head { span { "total" } span { "self" } span { "time" } b { "function" } }
                (PreEscaped(rows(nodes, sums.cpu_ns, &Links::new(view))))
            } }
        }
    }
}

/// Where rows lead, and which of them are shown.
struct Links {
    /// To a function: its name comes at the end.
    function: String,
    /// To a page with smaller branches, if there is one.
    finer: Option<String>,
    detail: u32,
}

impl Links {
    fn new(view: &View) -> Links {
        let finer = View { detail: view.detail + 1, tab: Some(Tab::Tree), ..view.clone() };
        let finer = (view.detail < MOST_DETAIL).then(|| link(&finer));
        Links { function: choose(view, ""), finer, detail: view.detail }
    }

    /// Whether a branch is too small to be shown.
    fn hides(&self, ns: u64, whole: u64) -> bool {
        self.detail < MOST_DETAIL && ns.saturating_mul(LEAST.saturating_mul(FINER.pow(self.detail))) < whole
    }

    fn most_rows(&self) -> usize {
        if self.detail == 0 { MOST_ROWS } else { MOST_FINER_ROWS }
    }
}

/// What is written of a node that is open.
struct Open {
    node: usize,
    /// Rows that are not shown below it, and their time.
    hidden: (u64, u64),
}

/// The rows; nodes come with each parent right before its callees.
fn rows(nodes: &[CallNode], whole: u64, links: &Links) -> String {
    let mut out = String::new();
    let mut open: Vec<Open> = Vec::new();
    let mut left_out = vec![false; nodes.len()];
    let (mut count, mut hidden_roots) = (0, (0, 0));
    for (at, node) in nodes.iter().enumerate() {
        if node.parent.is_some_and(|parent| left_out[parent]) {
            left_out[at] = true;
            continue;
        }
        while open.last().is_some_and(|last| Some(last.node) != node.parent) {
            close(&mut out, &mut open, links);
        }
        let is_small = links.hides(node.total_ns, whole);
        if is_small || count >= links.most_rows() || open.len() >= MOST_DEPTH {
            left_out[at] = true;
            let hidden = open.last_mut().map_or(&mut hidden_roots, |last| &mut last.hidden);
            *hidden = (hidden.0 + 1, hidden.1 + node.total_ns);
            continue;
        }
        count += 1;
        let has_children = nodes.get(at + 1).is_some_and(|next| next.parent == Some(at));
        let depth = open.len();
        if has_children {
            let is_open = node.total_ns.saturating_mul(OPEN) >= whole;
            out.push_str(if is_open { "<details open>" } else { "<details>" });
            out.push_str("<summary");
        } else {
            out.push_str("<div");
        }
        row(&mut out, node, whole, (depth, &links.function));
        out.push_str(if has_children { "</summary>" } else { "</div>" });
        if has_children {
            open.push(Open { node: at, hidden: (0, 0) });
        }
    }
    while !open.is_empty() {
        close(&mut out, &mut open, links);
    }
    more(&mut out, hidden_roots, 0, links);
    out
}

fn close(out: &mut String, open: &mut Vec<Open>, links: &Links) {
    let depth = open.len();
    if let Some(last) = open.pop() {
        more(out, last.hidden, depth, links);
        out.push_str("</details>");
    }
}

fn more(out: &mut String, (count, ns): (u64, u64), depth: usize, links: &Links) {
    if count == 0 {
        return;
    }
    let _ = write!(
        out,
        r#"<div class="row soft" style="--d:{depth}"><span></span><span></span><span>{}</span><b>"#,
        duration(ns)
    );
    if let Some(finer) = &links.finer {
        out.push_str(r#"<a href=""#);
        escape_into(out, finer);
        let _ = write!(out, r#"">{count} more</a></b></div>"#);
    } else {
        let _ = write!(out, "{count} more</b></div>");
    }
}

fn row(out: &mut String, node: &CallNode, whole: u64, (depth, base): (usize, &str)) {
    let own = if node.own_ns == 0 { String::new() } else { share(node.own_ns, whole) };
    let _ = write!(
        out,
        r#" class="row" style="--d:{depth}" data-own="{}" data-total="{}"><span>{}</span><span>{own}</span><span>{}</span><b><a class="fn" href=""#,
        node.own_ns,
        node.total_ns,
        share(node.total_ns, whole),
        duration(node.total_ns),
    );
    escape_into(out, base);
    escape_into(out, &encoded(&node.name));
    out.push('"');
    let name = function(&node.name, 100);
    if *name != *node.name {
        out.push_str(r#" title=""#);
        escape_into(out, &node.name);
        out.push('"');
    }
    out.push('>');
    escape_into(out, &name);
    out.push_str("</a> <i>");
    escape_into(out, &node.object);
    out.push_str("</i></b>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(parent: Option<usize>, name: &str, own: u64, total: u64) -> CallNode {
        let (name, object) = (name.into(), "prog".into());
        CallNode { parent, name, object, own_ns: own, ends_ns: own, total_ns: total }
    }

    #[test]
    fn elements_are_closed_and_what_is_left_out_is_summed() {
        let nodes = [
            node(None, "main<x>", 0, 10_000),
            node(Some(0), "a", 6_000, 9_990),
            node(Some(1), "b", 3_980, 3_990),
            node(Some(2), "tiny", 10, 10),
            node(Some(0), "small", 6, 10),
            node(Some(4), "below small", 4, 4),
        ];
        let view = View::whole((0, 10_000));
        let text = rows(&nodes, 10_000, &Links::new(&view));
        assert_eq!(text.matches("<details").count(), text.matches("</details>").count());
        assert_eq!(text.matches("<div").count(), text.matches("</div>").count());
        assert_eq!(text.matches("data-own").count(), 3, "{text}");
        assert_eq!(text.matches(">1 more</a></b>").count(), 2, "{text}");
        assert!(text.contains("detail=1"), "{text}");
        // One step finer nothing is small enough to be hidden.
        let finer = rows(&nodes, 10_000, &Links::new(&View { detail: 1, ..view }));
        assert_eq!((finer.matches("data-own").count(), finer.matches("more<").count()), (6, 0), "{finer}");
        assert!(text.contains("main&lt;x&gt;") && !text.contains("main<x>"));
    }

    #[test]
    fn a_stack_without_end_ends_in_a_row() {
        let deep: Vec<CallNode> = (0..5000_usize).map(|at| node(at.checked_sub(1), "f", 0, 100)).collect();
        for detail in [0, MOST_DETAIL] {
            let view = View { detail, ..View::whole((0, 1000)) };
            let text = rows(&deep, 100, &Links::new(&view));
            assert_eq!(text.matches("<details").count(), MOST_DEPTH);
            assert_eq!(text.matches("more<").count(), 1, "no link leads further than everything");
        }
    }
}
