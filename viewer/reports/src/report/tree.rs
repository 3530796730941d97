//! The tree of cliques as a picture: below one clique, or the surroundings of one.
//!
//! In files of the real writer every clique except the root's is entered once, so cliques form a tree whose branches
//! add up. If a damaged file is different, a clique is drawn below its entry only.

use super::common::proc_desc;
use crate::analysis::Failure;
use crate::memo::Memo;
use crate::query::Cost;
use crate::subject::Subject;
use pct_deep::{CliqueId, CsdId, Profile};
use serde::Serialize;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// A tree of cliques.
#[derive(Clone, Debug, Serialize)]
pub struct TreeReport {
    /// The unit of weights: time (ticks), callseqs, allocs or words.
    pub cost: Cost,
    /// The nodes. A parent comes before its children. The first is the top.
    pub nodes: Vec<TreeNode>,
    /// The node that the page is about.
    pub here: usize,
    /// Branches left out because they are small.
    pub left_out: usize,
}

/// A clique in the tree.
#[derive(Clone, Debug, Serialize)]
pub struct TreeNode {
    /// Index of the parent; for the top its own index.
    pub parent: usize,
    /// The clique.
    pub clique: u32,
    /// Name of the procedure that enters it.
    pub name: String,
    /// Its cost, with everything below it.
    pub total: u64,
    /// Its procedure's module.
    pub module: String,
}

/// The cost that a picture of `cost` really shows: counts of calls have no tree, and a zero cost has no picture.
fn shown_cost(profile: &Profile, cost: Cost) -> Cost {
    let cost = match cost {
        Cost::Calls | Cost::Redos => Cost::Callseqs,
        c => c,
    };
    match cost.weight(&profile.root_total()) {
        0 if profile.is_native() => Cost::Time,
        0 => Cost::Callseqs,
        _ => cost,
    }
}

/// Stored results: pictures, and the children of cliques that have very many.
#[derive(Default)]
struct Kept {
    trees: Memo<(CliqueId, Cost), TreeReport, 32>,
    children: Memo<(CliqueId, Cost), Children, 64>,
}

/// The heaviest cliques that a clique enters.
#[derive(Debug)]
pub struct Children {
    /// By weight, the heaviest first.
    pub heaviest: Vec<(u64, CliqueId)>,
    /// Number of further children.
    pub more: usize,
}

/// The children of a clique with more calls than this are stored.
const MANY: usize = 2000;

struct Builder<'a> {
    subject: &'a Subject,
    cost: Cost,
    nodes: Vec<TreeNode>,
    left_out: usize,
}

impl Builder<'_> {
    fn push(&mut self, parent: usize, clique: CliqueId, total: u64) -> usize {
        let profile = &self.subject.profile;
        let desc = proc_desc(profile, profile.pd_ps(profile.clique_entry_pd(clique)));
        self.nodes.push(TreeNode {
            parent,
            clique: clique.number(),
            name: desc.name,
            total,
            module: desc.module,
        });
        self.nodes.len() - 1
    }

    /// The cliques that a clique enters, the heaviest first. For a clique with very many they are computed once.
    fn children(&self, clique: CliqueId) -> Arc<Children> {
        let profile = &self.subject.profile;
        let many = profile.clique_members(clique).len() > MANY
            || profile
                .clique_members(clique)
                .iter()
                .flat_map(|&pd| profile.csds_of_pd(pd))
                .nth(MANY)
                .is_some();
        let kept = self.subject.memos.value_of_type::<Kept>();
        if many && let Some(known) = kept.children.get(&(clique, self.cost)) {
            return known;
        }
        let mut heaviest: Vec<(u64, CliqueId)> = Vec::new();
        let mut csds: Vec<CsdId> = Vec::new();
        for &pd in profile.clique_members(clique) {
            csds.extend_from_slice(profile.edges(pd));
        }
        let below = |csd: &CsdId| profile.csd_child_clique(*csd).filter(|&c| c < clique);
        let children: Vec<Option<CliqueId>> = csds.iter().map(below).collect();
        let entering = csds.into_iter().zip(children).filter_map(|(csd, c)| Some((csd, c?)));
        let entering = entering.filter(|&(csd, c)| profile.clique_entry(c) == Some(csd));
        let (csds, children): (Vec<CsdId>, Vec<CliqueId>) = entering.unzip();
        // The cost of an entering call is the cost of its clique.
        let (owns, descs) = (profile.csd_owns(&csds), profile.csd_descs(&csds));
        for ((child, own), desc) in children.into_iter().zip(owns).zip(descs) {
            let weight = self.cost.weight(&own.total(&desc));
            if weight > 0 {
                heaviest.push((weight, child));
            }
        }
        let more = heaviest.len().saturating_sub(NODES);
        if more > 0 {
            heaviest.select_nth_unstable_by(NODES, |a, b| b.cmp(a));
            heaviest.truncate(NODES);
            heaviest.shrink_to_fit();
        }
        heaviest.sort_unstable_by(|a, b| b.cmp(a));
        let found = Arc::new(Children { heaviest, more });
        if many {
            kept.children.keep((clique, self.cost), &found);
        }
        found
    }

    /// Adds what is below node `top`, the heaviest first: at most `count` nodes, none below `least`, and at most
    /// `depth` levels.
    fn grow(&mut self, top: usize, clique: CliqueId, count: usize, least: u64, depth: usize) {
        let mut heap = BinaryHeap::from([(self.nodes[top].total, std::cmp::Reverse(top), clique, 0usize)]);
        let limit = self.nodes.len() + count;
        while let Some((_, std::cmp::Reverse(node), clique, level)) = heap.pop() {
            if level >= depth {
                continue;
            }
            let children = self.children(clique);
            self.left_out += children.more;
            for &(total, child) in &children.heaviest {
                if total < least || self.nodes.len() >= limit {
                    self.left_out += 1;
                    continue;
                }
                let id = self.push(node, child, total);
                heap.push((total, std::cmp::Reverse(id), child, level + 1));
            }
        }
    }
}

/// Number of cliques whose children are computed ahead.
const AHEAD: usize = 12;

/// Computes the children of the cliques that enter most others. They are slow to find, so no page has to wait for them.
pub(crate) fn prepare(subject: &Subject) {
    let profile = &subject.profile;
    let calls = |clique: CliqueId| -> usize {
        profile.clique_members(clique).iter().map(|&pd| profile.edges(pd).len()).sum()
    };
    let mut large: Vec<(usize, CliqueId)> =
        profile.cliques().map(|c| (calls(c), c)).filter(|&(n, _)| n > MANY).collect();
    large.sort_unstable_by(|a, b| b.cmp(a));
    let mut costs: Vec<Cost> =
        [Cost::Callseqs, Cost::Time, Cost::Words, Cost::Allocs].map(|c| shown_cost(profile, c)).to_vec();
    costs.dedup();
    for (_, clique) in large.into_iter().take(AHEAD) {
        for &cost in &costs {
            let _ = Builder { subject, cost, nodes: Vec::new(), left_out: 0 }.children(clique);
        }
    }
}

/// Most nodes of a picture that is a page.
const NODES: usize = 3000;
/// Levels of the path to a clique that its strip shows.
const PATH: usize = 8;
/// Siblings at each of these levels.
const SIBLINGS: usize = 14;

/// The tree below a clique. The root's number may be given as 0.
///
/// # Errors
/// There is no such clique.
pub fn create(subject: &Subject, number: i64, cost: Cost) -> Result<Arc<TreeReport>, Failure> {
    let profile = &subject.profile;
    let clique = match number {
        0 => Some(profile.root_clique()),
        number => profile.clique_id(number),
    };
    let clique =
        clique.ok_or_else(|| Failure(format!("There is no clique {number}: invalid clique index.")))?;
    let cost = shown_cost(profile, cost);
    subject.memos.value_of_type::<Kept>().trees.get_or((clique, cost), || {
        let mut b = Builder { subject, cost, nodes: Vec::new(), left_out: 0 };
        let total = cost.weight(&profile.clique_total(clique));
        let top = b.push(0, clique, total);
        b.grow(top, clique, NODES, total / 3000, usize::MAX);
        Ok(TreeReport { cost, nodes: b.nodes, here: 0, left_out: b.left_out })
    })
}

/// The heaviest part of the tree below a clique, a dozen levels deep.
#[must_use]
pub fn overview(subject: &Subject, clique: CliqueId, cost: Cost) -> TreeReport {
    let profile = &subject.profile;
    let cost = shown_cost(profile, cost);
    let mut b = Builder { subject, cost, nodes: Vec::new(), left_out: 0 };
    let total = cost.weight(&profile.clique_total(clique));
    let top = b.push(0, clique, total);
    b.grow(top, clique, 400, (total / 500).max(1), 12);
    TreeReport { cost, nodes: b.nodes, here: 0, left_out: b.left_out }
}

/// The surroundings of a clique: the path to it with the heaviest siblings, and two levels below it.
#[must_use]
pub fn strip(subject: &Subject, clique: CliqueId, cost: Cost) -> TreeReport {
    let profile = &subject.profile;
    let cost = shown_cost(profile, cost);
    let mut path = vec![clique];
    while let Some(entry) = profile.clique_entry(path[path.len() - 1]) {
        let above = profile.pd_clique(profile.csd_caller(entry));
        if above <= path[path.len() - 1] || path.len() >= PATH {
            break;
        }
        path.push(above);
    }
    path.reverse();
    let mut b = Builder { subject, cost, nodes: Vec::new(), left_out: 0 };
    let mut at = b.push(0, path[0], cost.weight(&profile.clique_total(path[0])));
    for pair in path.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let mut next = None;
        let children = b.children(from);
        b.left_out += children.more;
        for (i, &(total, child)) in children.heaviest.iter().enumerate() {
            if child == to || i < SIBLINGS {
                let id = b.push(at, child, total);
                if child == to {
                    next = Some(id);
                }
            } else {
                b.left_out += 1;
            }
        }
        // A clique without weight is still on its own path.
        at = match next {
            Some(id) => id,
            None => b.push(at, to, 0),
        };
    }
    let least = cost.weight(&profile.clique_total(path[0])) / 1000;
    b.grow(at, clique, 120, least.max(1), 2);
    TreeReport { cost, nodes: b.nodes, here: at, left_out: b.left_out }
}
