//! The tree: nodes with a name, a weight of their own, and decorations.
//!
//! Nodes are only ever appended below existing ones, so a child's id is always larger than its parent's: sums over
//! subtrees are one backward pass, and no walk can loop. Names and links are interned; a node is a few words.

use crate::colour::Hint;
use crate::palette::{GroupWeights, Palette};
use std::collections::HashMap;

/// A node of one [`Tree`]. It means nothing in another tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    pub(crate) name: u32,
    /// Weight of the node without its children.
    pub(crate) own: u64,
    /// The same in the profile compared with.
    pub(crate) base: u64,
    pub(crate) hint: Hint,
    /// Index into `links` plus one; 0 means no link.
    pub(crate) link: u32,
    /// Index into `groups`.
    pub(crate) group: Option<u32>,
    /// It takes its width, and nothing is drawn there.
    pub(crate) is_gap: bool,
}

impl Node {
    fn new(parent: u32, name: u32) -> Node {
        Node { parent, name, own: 0, base: 0, hint: Hint::Auto, link: 0, group: None, is_gap: false }
    }
}

/// A tree of weighted names.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) names: Vec<Box<str>>,
    name_ids: HashMap<Box<str>, u32, Fast>,
    children: HashMap<(u32, u32), u32, Fast>,
    pub(crate) links: Vec<Box<str>>,
    pub(crate) marked: Option<u32>,
    /// Names of the groups that nodes belong to.
    pub(crate) groups: Vec<Box<str>>,
    /// Weights of the groups in the whole of which this tree is a part.
    pub(crate) weights: Option<GroupWeights>,
    /// The groups' colours in that whole.
    pub(crate) palette: Option<Palette>,
    /// Text in tooltips after the weight, by node.
    pub(crate) details: HashMap<u32, Box<str>, Fast>,
}

impl Tree {
    /// A tree with only a root, of weight 0.
    #[must_use]
    pub fn new(root: &str) -> Self {
        let mut tree = Tree {
            nodes: Vec::new(),
            names: Vec::new(),
            name_ids: HashMap::default(),
            children: HashMap::default(),
            links: Vec::new(),
            marked: None,
            groups: Vec::new(),
            weights: None,
            palette: None,
            details: HashMap::default(),
        };
        let name = tree.intern(root);
        tree.nodes.push(Node::new(0, name));
        tree
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> NodeId {
        NodeId(0)
    }

    /// Number of nodes, the root included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Always false, because there is always a root.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The child of `parent` with this name. It is added if there is none. Use it when equal names below one parent are
    /// one node (stack samples).
    ///
    /// # Panics
    /// If `parent` is of a larger tree, or the tree has 2^32 nodes.
    pub fn child(&mut self, parent: NodeId, name: &str) -> NodeId {
        let name = self.intern(name);
        if let Some(&id) = self.children.get(&(parent.0, name)) {
            return NodeId(id);
        }
        let id = self.append(parent, name);
        self.children.insert((parent.0, name), id.0);
        id
    }

    /// A new child of `parent`, even if it has one with this name already. Cheaper than [`Tree::child`]: use it when
    /// the caller's tree is merged already.
    ///
    /// # Panics
    /// If `parent` is of a larger tree, or the tree has 2^32 nodes.
    pub fn push(&mut self, parent: NodeId, name: &str) -> NodeId {
        let name = self.intern(name);
        self.append(parent, name)
    }

    fn append(&mut self, parent: NodeId, name: u32) -> NodeId {
        assert!((parent.0 as usize) < self.nodes.len(), "parent is a node of this tree");
        let id = u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes");
        self.nodes.push(Node::new(parent.0, name));
        NodeId(id)
    }

    /// Leaves a part of the parent's width empty, between the children before and those after it. It is for pictures
    /// whose siblings are in the order in which they were added ([`crate::Order::AsAdded`]).
    ///
    /// # Panics
    /// If `parent` is of a larger tree, or the tree has 2^32 nodes.
    pub fn push_gap(&mut self, parent: NodeId, weight: u64) {
        let gap = self.push(parent, "");
        self.nodes[gap.0 as usize].is_gap = true;
        self.add(gap, weight);
    }

    /// Adds to the own weight of a node. Saturates.
    pub fn add(&mut self, id: NodeId, weight: u64) {
        let own = &mut self.nodes[id.0 as usize].own;
        *own = own.saturating_add(weight);
    }

    /// Adds to the own weight that the node had in the profile compared with. Saturates.
    pub fn add_base(&mut self, id: NodeId, weight: u64) {
        let base = &mut self.nodes[id.0 as usize].base;
        *base = base.saturating_add(weight);
    }

    /// Adds a stack, outermost function first, and returns its innermost node.
    pub fn add_stack<'a>(&mut self, stack: impl IntoIterator<Item = &'a str>, weight: u64) -> NodeId {
        let mut at = self.root();
        for name in stack {
            at = self.child(at, name);
        }
        self.add(at, weight);
        at
    }

    /// Sets the target of a click on the node. Only same-document, relative and http(s) addresses are drawn; others are
    /// left out (a name can never become a script).
    pub fn set_link(&mut self, id: NodeId, link: &str) {
        self.links.push(link.into());
        self.nodes[id.0 as usize].link = u32::try_from(self.links.len()).expect("fewer than 2^32 links");
    }

    /// Sets how the node is coloured.
    pub fn set_hint(&mut self, id: NodeId, hint: Hint) {
        self.nodes[id.0 as usize].hint = hint;
    }

    /// Sets the tooltip's text after the weight, about how certain that is. It must not contain ` (`.
    pub fn set_detail(&mut self, id: NodeId, detail: &str) {
        self.details.insert(id.0, detail.into());
    }

    /// Gives groups the shares that they have in the whole, of which the tree shows a part.
    pub fn set_group_weights(&mut self, weights: GroupWeights) {
        self.weights = Some(weights);
    }

    /// Gives groups the colours that they have in the whole. Without them they have those of this tree's own weights.
    pub fn set_palette(&mut self, palette: Palette) {
        self.palette = Some(palette);
    }

    /// Sets the group of the node (an object, a module). Nodes of one group have one colour, which the legend names.
    pub fn set_group(&mut self, id: NodeId, group: &str) {
        // There are few objects, so a list is searched as fast as a table.
        let known = self.groups.iter().position(|g| **g == *group);
        let at = known.unwrap_or_else(|| {
            self.groups.push(group.into());
            self.groups.len() - 1
        });
        self.nodes[id.0 as usize].group = u32::try_from(at).ok();
    }

    /// Sets the node to outline ("you are here").
    pub fn mark(&mut self, id: NodeId) {
        self.marked = Some(id.0);
    }

    /// The name of a node.
    #[must_use]
    pub fn name(&self, id: NodeId) -> &str {
        &self.names[self.nodes[id.0 as usize].name as usize]
    }

    /// Weights of whole subtrees by node: (this profile, the one compared with).
    pub(crate) fn totals(&self) -> (Vec<u64>, Vec<u64>) {
        let mut total: Vec<u64> = self.nodes.iter().map(|n| n.own).collect();
        let mut base: Vec<u64> = self.nodes.iter().map(|n| n.base).collect();
        for i in (1..self.nodes.len()).rev() {
            let p = self.nodes[i].parent as usize;
            total[p] = total[p].saturating_add(total[i]);
            base[p] = base[p].saturating_add(base[i]);
        }
        (total, base)
    }

    /// Weight, in the profile compared with, of the contexts that are missing in this one.
    #[must_use]
    pub fn vanished(&self) -> u64 {
        let (totals, _) = self.totals();
        let gone = self.nodes.iter().zip(&totals).filter(|(_, total)| **total == 0);
        gone.fold(0, |sum, (node, _)| sum.saturating_add(node.base))
    }

    fn intern(&mut self, name: &str) -> u32 {
        if let Some(&id) = self.name_ids.get(name) {
            return id;
        }
        let id = u32::try_from(self.names.len()).expect("fewer than 2^32 names");
        self.names.push(name.into());
        self.name_ids.insert(name.into(), id);
        id
    }
}

/// A quick hasher for short names and id pairs. Nothing here depends on the order of a map.
#[derive(Clone, Default, Debug)]
pub(crate) struct Fast;

impl std::hash::BuildHasher for Fast {
    type Hasher = FastHasher;
    fn build_hasher(&self) -> FastHasher {
        FastHasher(0)
    }
}

/// Multiplies and rotates, one word at a time.
#[derive(Debug)]
pub(crate) struct FastHasher(u64);

impl FastHasher {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl std::hash::Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.mix(u64::from(n));
    }
    fn finish(&self) -> u64 {
        // The table uses the upper bits for its tags and the lower bits for its buckets.
        self.0.rotate_left(26)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_share_nodes_and_sum() {
        let mut t = Tree::new("all");
        let a = t.add_stack(["main", "f"], 2);
        let b = t.add_stack(["main", "f"], 3);
        t.add_stack(["main"], 1);
        assert_eq!(a, b);
        assert_eq!(t.len(), 3);
        assert_eq!(t.totals().0, vec![6, 6, 5]);
    }

    #[test]
    fn push_never_merges() {
        let mut t = Tree::new("all");
        let a = t.push(t.root(), "f");
        let b = t.push(t.root(), "f");
        assert_ne!(a, b);
        assert_eq!(t.name(a), t.name(b));
    }

    #[test]
    fn weights_saturate() {
        let mut t = Tree::new("all");
        t.add_stack(["f"], u64::MAX);
        t.add_stack(["g"], u64::MAX);
        assert_eq!(t.totals().0[0], u64::MAX);
    }
}
