//! Two profiles of one program, the older one the *base*: what changed, and which changes are more than chance.
//!
//! Procedures are matched by name and module (not by number, since the builds may differ). Cliques are matched by the
//! path to them: the procedures that enter them, from the root. For native programs what the samples measured is
//! compared, and significance is that of [`pct_num::significance`]. Call sequence numbers of other profiles are exact,
//! so every difference counts.

use crate::analysis::Failure;
use crate::query::{DiffScale, DiffWhat, Incl};
use crate::subject::Subject;
use pct_deep::measured::Measured;
use pct_deep::native::{FunctionFacts, OwnerFacts};
use pct_deep::{CliqueId, Id, IdVec, Profile, PsId};
use pct_num::{CLEAR, Sampled, significance};
use serde::Serialize;
use std::collections::HashMap;

/// Data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct DiffReport {
    /// Name of the older profile.
    pub base: String,
    /// The program in it.
    pub base_program: String,
    /// The key of the match. It is [`DiffWhat::Procs`] where owners were asked for and are not known of both.
    pub what: DiffWhat,
    /// Whether owners are known of both profiles.
    pub owners_known: bool,
    /// The cost that rows are ordered by.
    pub incl: Incl,
    /// How costs are compared.
    pub scale: DiffScale,
    /// The unit of costs: `ns`, `callseqs`, or that of what was measured if it is no time.
    pub unit: String,
    /// What the samples measured; `None`: calls were counted.
    #[serde(skip)]
    pub measured: Option<Measured>,
    /// Whether the costs are of samples whose number is known, so that changes can be held against chance.
    pub chance_known: bool,
    /// The whole program.
    pub whole: Change,
    /// The factor by which costs of the newer profile were multiplied.
    pub factor: f64,
    /// The rows: clear changes first, then by size.
    pub rows: Vec<DiffRow>,
    /// Rows that are not listed because they changed least.
    pub not_listed: usize,
    /// Number of rows that changed clearly.
    pub clear: usize,
    /// The tree of call contexts, callers first, ordered by their total cost in both profiles.
    pub tree: Vec<DiffNode>,
}

/// A cost in both profiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// In the older one.
    pub before: i64,
    /// In the newer one, scaled.
    pub after: i64,
    /// Distance of the difference from zero in standard deviations; 0 if the sampling error is unknown.
    pub z: f64,
    /// Whether it is more than chance, even for one row of a thousand.
    pub clear: bool,
}

impl Change {
    /// After minus before.
    #[must_use]
    pub fn change(&self) -> i64 {
        self.after.saturating_sub(self.before)
    }
}

/// A row: what changed.
#[derive(Clone, Debug, Serialize)]
pub struct DiffRow {
    /// The procedure, or the one that enters the clique.
    pub name: String,
    /// Its module.
    pub module: String,
    /// Its number in the newer profile.
    pub ps: Option<u32>,
    /// The clique's number in the newer profile.
    pub clique: Option<u32>,
    /// The path to the clique: the procedures above it, the nearest first.
    pub way: Vec<String>,
    /// The change in itself.
    pub own: Change,
    /// The change including everything below.
    pub total: Change,
}

/// A call context in both profiles.
#[derive(Clone, Debug, Serialize)]
pub struct DiffNode {
    /// Index of the caller; for the first node its own index.
    pub parent: usize,
    /// The procedure that enters it.
    pub name: String,
    /// The clique in the newer profile.
    pub clique: Option<u32>,
    /// Cost in the older one.
    pub before: u64,
    /// Cost in the newer one, scaled.
    pub after: u64,
}

/// Most rows that are listed.
const ROWS: usize = 1000;
/// Most callers of a clique that are named.
const WAY: usize = 6;
/// Most nodes of the tree.
const NODES: usize = 3000;
/// Cliques with less than this fraction of the whole are ignored.
const FINE: i64 = 50_000;

/// A cost, and the number of samples it is the sum of (0: it is no sum of samples).
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    cost: i64,
    samples: u64,
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Sum) {
        self.cost = self.cost.saturating_add(other.cost);
        self.samples = self.samples.saturating_add(other.samples);
    }
}

/// One side of the comparison.
struct Side<'a> {
    profile: &'a Profile,
    owners: &'a [OwnerFacts],
    facts: &'a [FunctionFacts],
    /// Nanoseconds of an average sample; 0: unknown.
    quantum: f64,
    factor: f64,
}

impl<'a> Side<'a> {
    fn new(subject: &'a Subject, factor: f64) -> Side<'a> {
        let side = subject.recorded.as_ref().map(|r| &r.side);
        let samples = side.map_or(0, |s| s.samples);
        let total = subject.profile.root_total().quanta as f64;
        Side {
            profile: &subject.profile,
            owners: side.map_or(&[], |s| s.owners.as_slice()),
            facts: side.map_or(&[], |s| s.functions.as_slice()),
            quantum: if samples == 0 { 0.0 } else { total / samples as f64 },
            factor,
        }
    }

    /// A cost of the tree. Its number of samples is computed from the average weight.
    fn sum(&self, cost: i64) -> Sum {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, not below 0")]
        let samples =
            if self.quantum > 0.0 { (cost as f64 / self.quantum).round().max(0.0) as u64 } else { 0 };
        self.scaled(cost, samples)
    }

    fn scaled(&self, cost: i64, samples: u64) -> Sum {
        #[expect(clippy::cast_possible_truncation, reason = "rounded; what is too large stays at the limit")]
        let cost = if self.factor == 1.0 { cost } else { (cost as f64 * self.factor).round() as i64 };
        Sum { cost, samples }
    }

    fn proc(&self, ps: PsId) -> (Sum, Sum) {
        let f = self.profile.ps_figures(ps);
        let (own, total) =
            (self.profile.main_cost(&f.own.inherited()), self.profile.main_cost(&f.own.total(&f.desc)));
        match self.facts.get(ps.index()) {
            Some(facts) => (self.scaled(own, facts.samples), self.scaled(total, facts.stacked)),
            None => (self.sum(own), self.sum(total)),
        }
    }
}

fn change(before: Sum, after: Sum, chance_known: bool) -> Change {
    let weight = |s: Sum| Sampled { samples: s.samples, amount: s.cost as f64 };
    let z = if chance_known { significance(weight(before), weight(after)) } else { 0.0 };
    let clear = if chance_known { z.abs() >= CLEAR } else { before.cost != after.cost };
    Change { before: before.cost, after: after.cost, z, clear }
}

/// The report on what changed from the profile named `base` to `subject`.
///
/// # Errors
/// There is no such profile, or one of the two is native and the other is not.
pub fn create(
    subject: &Subject,
    base: &str,
    what: DiffWhat,
    incl: Incl,
    scale: DiffScale,
) -> Result<DiffReport, Failure> {
    let shelf =
        subject.shelf.as_ref().ok_or_else(|| Failure("There is nothing to compare with.".to_owned()))?;
    let older = shelf.subject(base)?;
    compare(&older, subject, base, what, incl, scale)
}

/// Compares two profiles.
///
/// # Errors
/// One of the two is native and the other is not.
pub fn compare(
    older: &Subject,
    newer: &Subject,
    base: &str,
    what: DiffWhat,
    incl: Incl,
    scale: DiffScale,
) -> Result<DiffReport, Failure> {
    if older.is_sampled() != newer.is_sampled() {
        return Err(Failure(
            "Only one of the two profiles knows of calls: they have no common measure.".to_owned(),
        ));
    }
    if older.measured() != newer.measured() {
        let of = |subject: &Subject| subject.measured().map_or("calls", Measured::name).to_owned();
        return Err(Failure(format!(
            "One of the two profiles is of {}, the other of {}: they have no common measure.",
            of(older),
            of(newer)
        )));
    }
    let counted = |s: &Subject| s.recorded.as_ref().is_some_and(|recorded| recorded.side.samples > 0);
    let chance_known = newer.is_sampled() && (counted(older) || counted(newer));
    let whole = |s: &Subject| s.profile.main_cost(&s.profile.root_total());
    let factor = match scale {
        DiffScale::Shares if whole(newer) > 0 => whole(older) as f64 / whole(newer) as f64,
        DiffScale::Shares | DiffScale::Absolute => 1.0,
    };
    let (a, b) = (Side::new(older, 1.0), Side::new(newer, factor));
    let tree = Tree::new(&a, &b);
    let owners_known = !a.owners.is_empty() && !b.owners.is_empty();
    let what = if what == DiffWhat::Owners && !owners_known { DiffWhat::Procs } else { what };
    let mut rows = match what {
        DiffWhat::Owners => owners(&a, &b, chance_known),
        DiffWhat::Procs => procs(&a, &b, chance_known),
        DiffWhat::Cliques => tree.rows(chance_known),
    };
    let by = |r: &DiffRow| if incl == Incl::Own { r.own } else { r.total };
    rows.retain(|r| r.own.before != 0 || r.own.after != 0 || r.total.before != 0 || r.total.after != 0);
    rows.sort_by(|x, y| {
        let (p, q) = (by(x), by(y));
        q.clear
            .cmp(&p.clear)
            .then(q.change().unsigned_abs().cmp(&p.change().unsigned_abs()))
            .then_with(|| x.name.cmp(&y.name))
            .then_with(|| x.module.cmp(&y.module))
            .then_with(|| x.way.cmp(&y.way))
    });
    let clear = rows.iter().filter(|r| by(r).clear).count();
    let not_listed = rows.len().saturating_sub(ROWS);
    rows.truncate(ROWS);
    Ok(DiffReport {
        base: base.to_owned(),
        base_program: older.profile.program().into_owned(),
        what,
        owners_known,
        incl,
        scale,
        unit: match newer.measured() {
            Some(Measured::Amount { unit, .. }) => unit.clone(),
            Some(_) => "ns".to_owned(),
            None => "callseqs".to_owned(),
        },
        measured: newer.measured().cloned(),
        chance_known,
        whole: change(a.sum(whole(older)), Side { factor: 1.0, ..b }.sum(whole(newer)), chance_known),
        factor,
        rows,
        not_listed,
        clear,
        tree: tree.nodes(),
    })
}

#[derive(Default)]
struct Pair {
    own: [Sum; 2],
    total: [Sum; 2],
    newer: Option<u32>,
}

/// Pairs by name and module.
type Pairs = HashMap<(String, String), Pair>;

fn procs(a: &Side<'_>, b: &Side<'_>, chance_known: bool) -> Vec<DiffRow> {
    let mut pairs = Pairs::new();
    for (i, side) in [a, b].into_iter().enumerate() {
        let root = side.profile.pd_ps(side.profile.root());
        for ps in side.profile.pss().filter(|&ps| ps != root) {
            let (own, total) = side.proc(ps);
            if own.cost == 0 && total.cost == 0 {
                continue;
            }
            let key = (side.profile.unqualified_name(ps), side.profile.ps_module_name(ps).into_owned());
            let pair = pairs.entry(key).or_default();
            pair.own[i] += own;
            pair.total[i] += total;
            if i == 1 {
                pair.newer = Some(ps.number());
            }
        }
    }
    rows_of(pairs, chance_known)
}

/// What functions own: their own time and that of what worked for them.
fn owners(a: &Side<'_>, b: &Side<'_>, chance_known: bool) -> Vec<DiffRow> {
    let mut pairs = Pairs::new();
    let cost = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    for (i, side) in [a, b].into_iter().enumerate() {
        for owner in side.owners {
            // What a runtime does for itself is no function's.
            let ps = Some(owner.ps).filter(|ps| *ps > 0).and_then(|ps| side.profile.ps_id(i64::from(ps)));
            let (name, module) = match ps {
                Some(ps) => (side.profile.unqualified_name(ps), side.profile.ps_module_name(ps).into_owned()),
                None => (owner.name.clone(), String::new()),
            };
            let pair = pairs.entry((name, module)).or_default();
            pair.own[i] += side.sum(cost(owner.ns));
            pair.total[i] += side.sum(cost(owner.total_ns));
            if i == 1 {
                pair.newer = ps.map(Id::number);
            }
        }
    }
    rows_of(pairs, chance_known)
}

fn rows_of(pairs: Pairs, chance_known: bool) -> Vec<DiffRow> {
    pairs
        .into_iter()
        .map(|((name, module), p)| DiffRow {
            name,
            module,
            ps: p.newer,
            clique: None,
            way: Vec::new(),
            own: change(p.own[0], p.own[1], chance_known),
            total: change(p.total[0], p.total[1], chance_known),
        })
        .collect()
}

/// The cliques of both profiles by the path to them.
struct Tree {
    /// Parent (its own for the root), name, module.
    keys: Vec<(usize, String, String)>,
    pairs: Vec<Pair>,
}

impl Tree {
    fn new(a: &Side<'_>, b: &Side<'_>) -> Tree {
        let mut tree = Tree { keys: vec![(0, String::new(), String::new())], pairs: vec![Pair::default()] };
        let mut index: HashMap<(usize, String, String), usize> = HashMap::new();
        for (i, side) in [a, b].into_iter().enumerate() {
            tree.add(i, side, &mut index);
        }
        tree
    }

    fn add(&mut self, i: usize, side: &Side<'_>, index: &mut HashMap<(usize, String, String), usize>) {
        let profile = side.profile;
        let least = profile.main_cost(&profile.root_total()) / FINE;
        let root = profile.root_clique();
        let mut key_of: IdVec<CliqueId, u32> = IdVec::from_vec(vec![u32::MAX; profile.clique_count()]);
        // Callers have larger numbers.
        for clique in profile.cliques().rev() {
            let total = profile.main_cost(&profile.clique_total(clique));
            let at = match profile.clique_entry(clique) {
                None if clique == root => {
                    self.keys[0].1 = profile.program().into_owned();
                    0
                }
                Some(entry) if total > least => {
                    let above = key_of[profile.pd_clique(profile.csd_caller(entry))];
                    if above == u32::MAX {
                        continue;
                    }
                    let ps = profile.pd_ps(profile.csd_callee(entry));
                    let key = (
                        above as usize,
                        profile.unqualified_name(ps),
                        profile.ps_module_name(ps).into_owned(),
                    );
                    *index.entry(key.clone()).or_insert_with(|| {
                        self.keys.push(key);
                        self.pairs.push(Pair::default());
                        self.keys.len() - 1
                    })
                }
                _ => continue,
            };
            key_of[clique] =
                u32::try_from(at).expect("not more keys than cliques, whose numbers are 32 bits");
            let pair = &mut self.pairs[at];
            pair.own[i] += side.sum(profile.main_cost(&profile.clique_figures(clique).own.inherited()));
            pair.total[i] += side.sum(total);
            if i == 1 {
                pair.newer = Some(clique.number());
            }
        }
    }

    fn rows(&self, chance_known: bool) -> Vec<DiffRow> {
        (1..self.keys.len())
            .map(|at| {
                let mut way = Vec::new();
                let mut above = self.keys[at].0;
                while above != 0 && way.len() < WAY {
                    way.push(self.keys[above].1.clone());
                    above = self.keys[above].0;
                }
                let p = &self.pairs[at];
                DiffRow {
                    name: self.keys[at].1.clone(),
                    module: self.keys[at].2.clone(),
                    ps: None,
                    clique: p.newer,
                    way,
                    own: change(p.own[0], p.own[1], chance_known),
                    total: change(p.total[0], p.total[1], chance_known),
                }
            })
            .collect()
    }

    /// The heaviest nodes, as a tree for a picture. A caller's cost includes its callees' in both, so it is kept with
    /// them.
    fn nodes(&self) -> Vec<DiffNode> {
        let cost = |s: Sum| u64::try_from(s.cost).unwrap_or(0);
        let heavy = |p: &Pair| cost(p.total[0]).max(cost(p.total[1]));
        let mut order: Vec<u64> = self.pairs.iter().map(heavy).collect();
        let least =
            if order.len() > NODES { *order.select_nth_unstable_by(NODES, |a, b| b.cmp(a)).1 } else { 0 };
        let mut place = vec![usize::MAX; self.keys.len()];
        let mut out: Vec<DiffNode> = Vec::new();
        // For each node, the cost that belongs neither to itself nor to a listed node.
        let mut rest: Vec<(u64, u64)> = Vec::new();
        for (at, (pair, key)) in self.pairs.iter().zip(&self.keys).enumerate() {
            if at > 0 && (heavy(pair) < least.max(1) || place[key.0] == usize::MAX) {
                continue;
            }
            place[at] = out.len();
            let (before, after) = (cost(pair.total[0]), cost(pair.total[1]));
            rest.push((before.saturating_sub(cost(pair.own[0])), after.saturating_sub(cost(pair.own[1]))));
            if let (true, Some(above)) = (at > 0, rest.get_mut(place[key.0])) {
                *above = (above.0.saturating_sub(before), above.1.saturating_sub(after));
            }
            out.push(DiffNode {
                parent: place[key.0],
                name: key.1.clone(),
                clique: pair.newer,
                before,
                after,
            });
        }
        for (parent, (before, after)) in rest.into_iter().enumerate().filter(|(_, r)| *r != (0, 0)) {
            let name = "(smaller branches)".to_owned();
            out.push(DiffNode { parent, name, clique: None, before, after });
        }
        out
    }
}
