//! From a tree to frames: which are drawn, at which position and width. Numbers only; [`crate::draw`] writes them as
//! text.

use crate::tree::Tree;

/// Where the root is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// At the top, callees below their callers: what a page shows first is the root.
    #[default]
    Icicle,
    /// At the bottom, callees above their callers.
    Flame,
}

/// The order of siblings, from the left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By name, so that two pictures of one program look alike.
    #[default]
    Name,
    /// The heaviest first.
    Weight,
    /// As they were added to the tree.
    AsAdded,
}

/// The difference that colours a frame of a differential picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffBy {
    /// That of the whole subtree: the path to the cause is red from the root.
    Total,
    /// That of the node alone.
    Own,
}

/// One rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameBox {
    /// The node's index in its tree.
    pub node: u32,
    /// 0 is the root.
    pub depth: u32,
    /// Left edge as a share of the picture, 0 to 1.
    pub x: f64,
    /// Width as a share of the picture, 0 to 1.
    pub width: f64,
    /// Weight of the whole subtree.
    pub total: u64,
}

/// What is drawn and what is left out.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// In the order of a walk from the root, siblings from the left.
    pub frames: Vec<FrameBox>,
    /// Levels that hold a frame.
    pub depth: u32,
    /// Subtrees left out because they are too narrow, and their weight.
    pub narrow: (u64, u64),
    /// Subtrees left out because they are too deep, and their weight.
    pub deep: (u64, u64),
    /// Weight of the root.
    pub total: u64,
}

/// Computes the frames of `tree`. Subtrees with a share below `min_share` (0 to 1) or deeper than `max_depth` levels
/// are counted, not drawn.
#[must_use]
pub fn layout(tree: &Tree, totals: &[u64], order: Order, min_share: f64, max_depth: u32) -> Layout {
    let n = tree.nodes.len();
    let total = totals[0];
    let mut out = Layout { total, ..Layout::default() };
    let whole = if total == 0 { 1.0 } else { total as f64 };

    // Children in one array, by parent: first counts, then positions.
    let mut start = vec![0u32; n + 1];
    for node in &tree.nodes[1..] {
        start[node.parent as usize + 1] += 1;
    }
    for i in 0..n {
        start[i + 1] += start[i];
    }
    let mut place = start.clone();
    let mut children = vec![0u32; n.saturating_sub(1)];
    for (i, node) in tree.nodes.iter().enumerate().skip(1) {
        let p = &mut place[node.parent as usize];
        children[*p as usize] = u32::try_from(i).expect("ids are 32 bits");
        *p += 1;
    }

    let mut stack = vec![FrameBox { node: 0, depth: 0, x: 0.0, width: 1.0, total }];
    let mut wide: Vec<u32> = Vec::new();
    while let Some(frame) = stack.pop() {
        out.depth = out.depth.max(frame.depth + 1);
        out.frames.push(frame);
        let span = start[frame.node as usize] as usize..start[frame.node as usize + 1] as usize;
        if frame.depth + 1 >= max_depth {
            for &c in children[span].iter().filter(|&&c| !tree.nodes[c as usize].is_gap) {
                out.deep.0 += 1;
                out.deep.1 = out.deep.1.saturating_add(totals[c as usize]);
            }
            continue;
        }
        wide.clear();
        for &c in &children[span] {
            let weight = totals[c as usize];
            let is_gap = tree.nodes[c as usize].is_gap;
            if weight > 0 && (is_gap || weight as f64 / whole >= min_share) {
                wide.push(c);
            } else if weight > 0 {
                out.narrow.0 += 1;
                out.narrow.1 = out.narrow.1.saturating_add(weight);
            }
        }
        match order {
            Order::AsAdded => {}
            Order::Name => wide.sort_by(|&a, &b| name(tree, a).cmp(name(tree, b))),
            Order::Weight => wide.sort_by_key(|&c| std::cmp::Reverse(totals[c as usize])),
        }
        let mut x = frame.x;
        let first = stack.len();
        for &c in &wide {
            let width = (totals[c as usize] as f64 / whole).min(1.0);
            if !tree.nodes[c as usize].is_gap {
                stack.push(FrameBox { node: c, depth: frame.depth + 1, x, width, total: totals[c as usize] });
            }
            x += width;
        }
        stack[first..].reverse();
    }
    out
}

fn name(tree: &Tree, node: u32) -> &str {
    &tree.names[tree.nodes[node as usize].name as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(tree: &Tree, min_share: f64, max_depth: u32) -> Layout {
        layout(tree, &tree.totals().0, Order::Name, min_share, max_depth)
    }

    #[test]
    fn siblings_stand_side_by_side_in_the_order_of_names() {
        let mut t = Tree::new("all");
        t.add_stack(["b"], 3);
        t.add_stack(["a"], 1);
        let l = of(&t, 0.0, 100);
        let seen: Vec<_> = l.frames.iter().map(|f| (name(&t, f.node).to_owned(), f.x, f.width)).collect();
        assert_eq!(seen, vec![("all".into(), 0.0, 1.0), ("a".into(), 0.0, 0.25), ("b".into(), 0.25, 0.75)]);
    }

    #[test]
    fn gaps_take_their_width_and_are_not_drawn() {
        let mut t = Tree::new("all");
        t.push_gap(t.root(), 10);
        let a = t.push(t.root(), "a");
        t.push_gap(a, 30);
        let b = t.push(a, "b");
        t.add(b, 20);
        t.push_gap(t.root(), 40);
        // However narrow they are, and at whatever level: what is not there is not counted as left out.
        for (min_share, levels, drawn) in [(0.0, 9, 3), (0.15, 9, 3), (0.5, 9, 2), (0.0, 2, 2)] {
            let l = layout(&t, &t.totals().0, Order::AsAdded, min_share, levels);
            let seen: Vec<_> = l.frames.iter().map(|f| (name(&t, f.node).to_owned(), f.x, f.width)).collect();
            let want: Vec<(String, f64, f64)> =
                vec![("all".into(), 0.0, 1.0), ("a".into(), 0.1, 0.5), ("b".into(), 0.4, 0.2)];
            assert_eq!(seen, want[..drawn], "{min_share} {levels}");
            assert_eq!(l.narrow.0 + l.deep.0, 3 - drawn as u64);
        }
    }

    #[test]
    fn an_empty_tree_is_its_root() {
        let l = of(&Tree::new("all"), 0.01, 100);
        assert_eq!(l.frames.len(), 1);
        assert_eq!(l.total, 0);
    }

    proptest! {
        #[test]
        fn children_lie_within_their_parent_and_nothing_is_lost(
            stacks in proptest::collection::vec((proptest::collection::vec("[a-d]", 0..6), 0u64..100), 1..40),
            min in 0.0f64..0.2,
            depth in 1u32..8,
        ) {
            let mut t = Tree::new("all");
            for (stack, weight) in &stacks {
                t.add_stack(stack.iter().map(String::as_str), *weight);
            }
            let l = of(&t, min, depth);
            let mut own = 0u64;
            let mut open: Vec<FrameBox> = Vec::new();
            for f in &l.frames {
                while open.last().is_some_and(|p| p.depth >= f.depth) {
                    open.pop();
                }
                if let Some(p) = open.last() {
                    prop_assert!(f.x >= p.x - 1e-9 && f.x + f.width <= p.x + p.width + 1e-9);
                }
                own += t.nodes[f.node as usize].own;
                open.push(*f);
            }
            prop_assert_eq!(own + l.narrow.1 + l.deep.1, l.total);
        }
    }
}
