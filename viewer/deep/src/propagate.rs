//! Costs handed up from callees to callers, bottom-up over the cliques, and compensation.
//!
//! A PD's *desc* is the cost of the cliques that it enters itself; the desc of a CSD that enters a
//! clique is the cost of that clique and all below it, less the CSD's own. CSDs inside a clique
//! have none.
//!
//! **Compensation.** A call through a closure or a method hides the caller from the recursion
//! check of the profiled program, so the same procedure can occur again below itself as a fresh
//! PD. Plain sums over its PDs would count the inner one twice. So for each entering CSD there is
//! a table: procedure -> total cost of its occurrences below that CSD. Only procedures with such
//! call sites ("zeroed") need entries.
//!
//! Of the tables only a few entries are ever asked for: a PD's entry for the procedures of its own
//! clique, a CSD's entry for its caller's procedure. A clique is entered by one CSD (others get
//! nothing), so each table has one consumer: it is moved up, merged small into large, and what is
//! asked for is noted on the way. Memory is that of the notes, time is near linear.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::cliques::Cliques;
use crate::error::{DeepError, ErrorCode};
use crate::figures::{Desc, DescColumns};
use crate::groups::Groups;
use crate::id::{CliqueId, CsdId, Id, IdVec, PdId, PsId, ids_to};
use crate::model::DeepData;

/// How a clique's own occurrences enter the compensation table of the CSD that enters it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compensation {
    /// Each occurrence is counted once; inclusive costs never exceed the program's.
    #[default]
    Exact,
    /// As the original viewer does: the clique's own entry replaces what other members of the
    /// clique have below them. Differs only where cliques of several PDs are involved.
    Compat,
}

/// What propagation yields.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    pub(crate) pd_desc: DescColumns,
    /// Own and desc of all members, for cliques of several PDs.
    pub(crate) big_clique_total: HashMap<CliqueId, Desc>,
    /// Nonzero compensation of CSDs for the procedure of their caller, ascending.
    pub(crate) csd_comp: Vec<(CsdId, Desc)>,
    /// Nonzero compensation of PDs for procedures of their clique, ascending.
    pub(crate) pd_comp: Vec<(PdId, PsId, Desc)>,
}

pub(crate) struct Graph<'a> {
    pub(crate) data: &'a DeepData,
    pub(crate) pd_callers: &'a Groups<PdId, CsdId>,
    pub(crate) cliques: &'a Cliques,
    pub(crate) entry: &'a IdVec<CliqueId, Option<CsdId>>,
    pub(crate) zeroed: &'a IdVec<PsId, bool>,
}

/// Procedure ids are small and dense: a multiplication spreads them well enough.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, octets: &[u8]) {
        for &o in octets {
            self.write_u32(u32::from(o));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.0 = (self.0 ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

type Table = HashMap<PsId, Desc, BuildHasherDefault<IdHasher>>;

pub(crate) fn overflow(what: impl std::fmt::Display) -> DeepError {
    DeepError::new(ErrorCode::Overflow, format!("a sum of measurements exceeds 63 bits ({what})"))
}

fn add(sum: &mut Desc, more: &Desc) -> Result<(), DeepError> {
    *sum = sum.checked_add(more).ok_or_else(|| overflow("descendants"))?;
    Ok(())
}

/// Adds one table to another; the smaller one is walked.
fn merge(into: &mut Table, mut from: Table) -> Result<(), DeepError> {
    if from.len() > into.len() {
        std::mem::swap(into, &mut from);
    }
    for (ps, desc) in from {
        add(into.entry(ps).or_default(), &desc)?;
    }
    Ok(())
}

impl Graph<'_> {
    fn pd_own(&self, pd: PdId) -> Result<Desc, DeepError> {
        let mut sum = Desc::default();
        for &csd in self.pd_callers.of(pd) {
            add(&mut sum, &self.data.csd_own(csd).inherited())?;
        }
        Ok(sum)
    }
    fn clique_total(&self, costs: &Costs, clique: CliqueId) -> Result<Desc, DeepError> {
        match self.cliques.members.of(clique) {
            &[pd] => {
                let mut total = self.pd_own(pd)?;
                add(&mut total, &costs.pd_desc.get(pd.index()))?;
                Ok(total)
            }
            _ => Ok(costs.big_clique_total.get(&clique).copied().unwrap_or_default()),
        }
    }
}

pub(crate) fn propagate(graph: &Graph<'_>, rule: Compensation) -> Result<Costs, DeepError> {
    let data = graph.data;
    let mut costs = Costs {
        pd_desc: DescColumns::zeros(data.pd_count()),
        big_clique_total: HashMap::new(),
        csd_comp: Vec::new(),
        pd_comp: Vec::new(),
    };
    // Tables of entering CSDs that their callers have not consumed yet; empty ones are left out.
    let mut live: HashMap<CliqueId, Table> = HashMap::new();

    for clique in ids_to::<CliqueId>(graph.cliques.members.keys()) {
        let members = graph.cliques.members.of(clique);
        // Zeroed procedures of the clique: keys that somebody may ask its members' tables for.
        let mut own_keys: Vec<PsId> =
            members.iter().map(|&pd| data.pd_ps(pd)).filter(|&ps| graph.zeroed[ps]).collect();
        own_keys.sort_unstable();
        own_keys.dedup();

        let mut sum = Table::default();
        let mut over = Table::default();
        let mut clique_total = Desc::default();
        for &pd in members {
            let ps = data.pd_ps(pd);
            let mut desc = Desc::default();
            let mut comp = Table::default();
            for csd in data.csds_of_pd(pd) {
                let callee_clique = graph.cliques.of[data.csd_callee(csd)];
                if callee_clique == clique {
                    continue;
                }
                if graph.entry[callee_clique] != Some(csd) {
                    add(&mut desc, &data.csd_own(csd).inherited())?;
                    continue;
                }
                add(&mut desc, &graph.clique_total(&costs, callee_clique)?)?;
                if let Some(table) = live.remove(&callee_clique) {
                    if let Some(d) = table.get(&ps).filter(|d| !d.is_zero()) {
                        costs.csd_comp.push((csd, *d));
                    }
                    merge(&mut comp, table)?;
                }
            }
            costs.pd_desc.set(pd.index(), &desc);
            if !comp.is_empty() {
                note_pd_comp(&mut costs.pd_comp, pd, &comp, &own_keys);
            }
            let zeroed = graph.zeroed[ps];
            if zeroed || members.len() > 1 {
                let mut total = graph.pd_own(pd)?;
                add(&mut total, &desc)?;
                add(&mut clique_total, &total)?;
                if zeroed {
                    add(over.entry(ps).or_default(), &total)?;
                    if rule == Compensation::Exact {
                        comp.remove(&ps);
                    }
                }
            }
            merge(&mut sum, comp)?;
        }
        if members.len() > 1 {
            costs.big_clique_total.insert(clique, clique_total);
        }
        match rule {
            Compensation::Exact => merge(&mut sum, over)?,
            Compensation::Compat => sum.extend(over),
        }
        sum.retain(|_, d| !d.is_zero());
        if !sum.is_empty() && graph.entry[clique].is_some() {
            live.insert(clique, sum);
        }
    }
    costs.csd_comp.sort_unstable_by_key(|&(csd, _)| csd);
    costs.pd_comp.sort_unstable_by_key(|&(pd, ps, _)| (pd, ps));
    costs.csd_comp.shrink_to_fit();
    costs.pd_comp.shrink_to_fit();
    Ok(costs)
}

/// Notes the entries of a PD's table for the procedures of its clique.
fn note_pd_comp(notes: &mut Vec<(PdId, PsId, Desc)>, pd: PdId, comp: &Table, keys: &[PsId]) {
    let mut note = |ps: PsId, desc: &Desc| {
        if !desc.is_zero() {
            notes.push((pd, ps, *desc));
        }
    };
    if keys.len() <= comp.len() {
        for &ps in keys {
            if let Some(desc) = comp.get(&ps) {
                note(ps, desc);
            }
        }
    } else {
        for (&ps, desc) in comp {
            if keys.binary_search(&ps).is_ok() {
                note(ps, desc);
            }
        }
    }
}
