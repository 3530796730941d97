//! The nodes of a call tree, and how they are put together.

use super::label::{Label, Labels};
use super::parts::{Amount, used_stacks};
use crate::model::{Id, IdVec, Profile, StackId, StackNode, Weight};
use rustc_hash::FxHashMap;

crate::ids! {
    /// Names a node of a [`CallTree`].
    NodeId,
}

/// A node: a label in the context of its parents.
#[derive(Clone, Copy, Debug)]
pub struct Node<W = Weight> {
    /// The caller; `None` for roots.
    pub parent: Option<NodeId>,
    /// What it stands for.
    pub label: Label,
    /// What was measured in the function itself: in a tree of callers that of the root, on the way through no
    /// other node.
    pub own: W,
    /// Of the stacks that end at this node, wherever the tree begins: these sum up to the totals.
    pub ends: W,
    /// With everything below.
    pub total: W,
    first: u32,
    count: u32,
}

/// Nodes in an arena, callers before callees.
#[derive(Clone, Debug, Default)]
pub struct CallTree<W = Weight> {
    /// All nodes; a parent has a smaller id than its children.
    pub nodes: IdVec<NodeId, Node<W>>,
    /// The outermost nodes, heaviest first.
    pub roots: Vec<NodeId>,
    /// Sum over the roots.
    pub total: W,
    children: Vec<NodeId>,
}

impl<W> CallTree<W> {
    /// A node's children, heaviest first.
    #[must_use]
    pub fn children(&self, node: NodeId) -> &[NodeId] {
        let node = &self.nodes[node];
        &self.children[node.first as usize..][..node.count as usize]
    }

    /// Depth-first walk, heaviest first: `visit` gets the node and its depth from 0, and says whether to go below.
    pub fn walk(&self, mut visit: impl FnMut(NodeId, usize) -> bool) {
        let mut pending: Vec<(NodeId, usize)> = self.roots.iter().rev().map(|&root| (root, 0)).collect();
        while let Some((node, depth)) = pending.pop() {
            if visit(node, depth) {
                pending.extend(self.children(node).iter().rev().map(|&child| (child, depth + 1)));
            }
        }
    }
}

/// Levels that views from the inside outwards go: more than anybody reads.
const MOST_LEVELS: usize = 2000;

/// A tree that is being made.
pub(super) struct Grow<W> {
    pub(super) nodes: IdVec<NodeId, Node<W>>,
    known: FxHashMap<(Option<NodeId>, Label), NodeId>,
}

impl<W> Default for Grow<W> {
    fn default() -> Self {
        Self { nodes: IdVec::new(), known: FxHashMap::default() }
    }
}

impl<W: Amount> Grow<W> {
    /// The node of this label below `parent`, made if there is none.
    pub(super) fn node(&mut self, parent: Option<NodeId>, label: Label) -> NodeId {
        *self.known.entry((parent, label)).or_insert_with(|| {
            self.nodes.push(Node {
                parent,
                label,
                own: W::default(),
                ends: W::default(),
                total: W::default(),
                first: 0,
                count: 0,
            })
        })
    }

    /// Adds a weight to a node of a tree from the outside inwards.
    pub(super) fn measure(&mut self, node: NodeId, weight: W) {
        self.nodes[node].own += weight;
        self.nodes[node].ends += weight;
    }

    /// Goes through all stacks with weight from the outside inwards. `node_of` gives the node of a stack, from the one
    /// of its caller; `None` leaves the stack out.
    pub(super) fn inwards(
        &mut self,
        profile: &Profile,
        weights: &[W],
        mut node_of: impl FnMut(&mut Self, StackNode, Option<NodeId>) -> Option<NodeId>,
    ) {
        let used = used_stacks(profile, weights);
        let mut nodes: Vec<Option<NodeId>> = Vec::with_capacity(profile.stacks.len());
        for (id, stack) in profile.stacks.enumerate() {
            let above = stack.parent.and_then(|parent| nodes[parent.index()]);
            let node = used[id.index()].then(|| node_of(self, *stack, above)).flatten();
            if let Some(node) = node {
                self.measure(node, weights[id.index()]);
            }
            nodes.push(node);
        }
    }

    /// Adds the path from `stack` out to its root below `parent`; it ends at the far end, which has no further caller.
    pub(super) fn outwards(
        &mut self,
        profile: &Profile,
        labels: &Labels,
        parent: Option<NodeId>,
        stack: StackId,
        weight: W,
    ) {
        let mut at = parent;
        let mut next = Some(stack);
        // Each stack is walked by itself here: without a limit a deep recursion would cost its depth squared.
        for _ in 0..MOST_LEVELS {
            let Some(id) = next else { break };
            let node = profile.stacks[id];
            at = Some(self.node(at, labels.of_frame(node.frame)));
            next = node.parent;
        }
        if let Some(end) = at {
            self.nodes[end].ends += weight;
        }
    }

    /// Sums, and puts children in order.
    pub(super) fn finish(mut self, profile: &Profile) -> CallTree<W> {
        let mut counts = vec![0_u32; self.nodes.len()];
        for id in self.nodes.ids().rev() {
            let ends = self.nodes[id].ends;
            self.nodes[id].total += ends;
            if let Some(parent) = self.nodes[id].parent {
                let total = self.nodes[id].total;
                self.nodes[parent].total += total;
                counts[parent.index()] += 1;
            }
        }
        let mut at = 0_u32;
        for id in self.nodes.ids() {
            let node = &mut self.nodes[id];
            node.first = at;
            at += counts[id.index()];
        }
        let mut children = vec![NodeId::from_index(0); at as usize];
        let mut roots = Vec::new();
        for id in self.nodes.ids() {
            match self.nodes[id].parent {
                Some(parent) => {
                    let parent = &mut self.nodes[parent];
                    children[(parent.first + parent.count) as usize] = id;
                    parent.count += 1;
                }
                None => roots.push(id),
            }
        }
        let nodes = &self.nodes;
        let heavier = |a: &NodeId, b: &NodeId| {
            let (a, b) = (&nodes[*a], &nodes[*b]);
            b.total
                .heaviness()
                .cmp(&a.total.heaviness())
                .then_with(|| a.label.cmp_names(b.label, profile))
                .then(a.label.cmp(&b.label))
        };
        roots.sort_by(heavier);
        for node in nodes.iter() {
            children[node.first as usize..][..node.count as usize].sort_by(heavier);
        }
        let total = roots.iter().map(|&root| nodes[root].total).sum();
        CallTree { nodes: self.nodes, roots, total, children }
    }
}
