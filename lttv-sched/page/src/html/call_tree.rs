//! The call tree as a table that opens in place: `details` elements in each other, so it needs no script.
//!
//! It is written as text, not as nested calls: stacks may be deeper than ours.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};
use pct_icicle::text::escape_into;

use crate::view::{View, choose, encoded};
use crate::windows::{CallNode, WindowSums};
use crate::words::{cut, duration, share};

/// Branches below one part in so many of the whole are one row.
const LEAST: u64 = 500;
/// Most rows.
const MOST_ROWS: usize = 3000;
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
                (PreEscaped(rows(nodes, sums.cpu_ns, &choose(view, ""))))
            } }
        }
    }
}

/// What is written of a node that is open.
struct Open {
    node: usize,
    /// Rows that are not shown below it, and their time.
    hidden: (u64, u64),
}

/// The rows; nodes come with each parent right before its callees.
fn rows(nodes: &[CallNode], whole: u64, base: &str) -> String {
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
            close(&mut out, &mut open);
        }
        let is_small = node.total_ns.saturating_mul(LEAST) < whole;
        if is_small || count >= MOST_ROWS || open.len() >= MOST_DEPTH {
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
        row(&mut out, node, whole, (depth, base));
        out.push_str(if has_children { "</summary>" } else { "</div>" });
        if has_children {
            open.push(Open { node: at, hidden: (0, 0) });
        }
    }
    while !open.is_empty() {
        close(&mut out, &mut open);
    }
    more(&mut out, hidden_roots, 0);
    out
}

fn close(out: &mut String, open: &mut Vec<Open>) {
    let depth = open.len();
    if let Some(last) = open.pop() {
        more(out, last.hidden, depth);
        out.push_str("</details>");
    }
}

fn more(out: &mut String, (count, ns): (u64, u64), depth: usize) {
    if count > 0 {
        let _ = write!(
            out,
            r#"<div class="row soft" style="--d:{depth}"><span></span><span></span><span>{}</span><b>{count} more</b></div>"#,
            duration(ns)
        );
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
    out.push_str(r#"">"#);
    escape_into(out, &cut(&node.name, 100));
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
        let text = rows(&nodes, 10_000, "tl?fn=");
        assert_eq!(text.matches("<details").count(), text.matches("</details>").count());
        assert_eq!(text.matches("<div").count(), text.matches("</div>").count());
        assert_eq!(text.matches("data-own").count(), 3, "{text}");
        assert_eq!(text.matches("<b>1 more</b>").count(), 2, "{text}");
        assert!(text.contains("main&lt;x&gt;") && !text.contains("main<x>"));
    }

    #[test]
    fn a_stack_without_end_ends_in_a_row() {
        let deep: Vec<CallNode> = (0..5000_usize).map(|at| node(at.checked_sub(1), "f", 0, 100)).collect();
        let text = rows(&deep, 100, "");
        assert_eq!(text.matches("<details").count(), MOST_DEPTH);
        assert_eq!(text.matches("more</b>").count(), 1);
    }
}
