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
//!
//! Cliques are numbered callees first, depth first, so what waits for its caller is a stack: the
//! children of a clique are on top when its turn comes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::cliques::Cliques;
use crate::error::{DeepError, ErrorCode};
use crate::figures::{Desc, DescColumns, Own, SparseDesc};
use crate::groups::Groups;
use crate::id::{CliqueId, CsdId, CssId, Id, IdVec, PdId, PsId, ids_to};
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

/// Own and desc figures of a procedure, call site or module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Own figures.
    pub own: Own,
    /// Inherited from descendants, recursion compensated.
    pub desc: Desc,
}

impl Figures {
    fn add_own(&mut self, own: &Own) -> Result<(), DeepError> {
        self.own = self.own.checked_add(own).ok_or_else(|| overflow("own figures"))?;
        Ok(())
    }
    fn add_desc(&mut self, desc: &Desc, comp: &Desc) -> Result<(), DeepError> {
        self.desc = self
            .desc
            .checked_add(desc)
            .and_then(|d| d.checked_sub(comp))
            .ok_or_else(|| overflow("descendants"))?;
        Ok(())
    }
}

/// Figures of those items that have any.
#[derive(Clone, Debug)]
pub(crate) struct Sparse<I: Id> {
    /// Where in `rows`, plus 1; 0: all zero.
    index: IdVec<I, u32>,
    rows: Vec<Figures>,
}

impl<I: Id> Sparse<I> {
    fn new(len: usize) -> Self {
        Self { index: IdVec::from_vec(vec![0; len]), rows: Vec::new() }
    }
    pub(crate) fn get(&self, id: I) -> Figures {
        match self.index[id] {
            0 => Figures::default(),
            n => self.rows[n as usize - 1],
        }
    }
    fn row(&mut self, id: I) -> &mut Figures {
        let at = &mut self.index[id];
        if *at == 0 {
            self.rows.push(Figures::default());
            *at = self.rows.len() as u32;
        }
        &mut self.rows[*at as usize - 1]
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        self.index.len() * 4 + self.rows.capacity() * size_of::<Figures>()
    }
}

/// What propagation yields.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    pub(crate) pd_desc: DescColumns,
    /// Own and desc of all members, for cliques of several PDs.
    pub(crate) big_clique_total: HashMap<CliqueId, Desc>,
    /// Nonzero compensation of CSDs for the procedure of their caller. Summed over the CSDs of a
    /// PD it is the PD's for its own procedure.
    pub(crate) csd_comp: SparseDesc,
    /// Nonzero compensation of PDs for other procedures of their clique, ascending.
    pub(crate) pd_comp: Vec<(PdId, PsId, Desc)>,
    pub(crate) ps: Sparse<PsId>,
    pub(crate) css: Sparse<CssId>,
}

pub(crate) struct Graph<'a> {
    pub(crate) data: &'a DeepData,
    pub(crate) csd_caller: &'a IdVec<CsdId, PdId>,
    pub(crate) csd_css: &'a IdVec<CsdId, CssId>,
    pub(crate) pd_callers: &'a Groups<PdId, CsdId>,
    pub(crate) cliques: &'a Cliques,
    pub(crate) entry: &'a IdVec<CliqueId, Option<CsdId>>,
    pub(crate) zeroed: &'a IdVec<PsId, bool>,
}

pub(crate) fn overflow(what: impl std::fmt::Display) -> DeepError {
    DeepError::new(ErrorCode::Overflow, format!("a sum of measurements exceeds 63 bits ({what})"))
}

fn add(sum: &mut Desc, more: &Desc) -> Result<(), DeepError> {
    *sum = sum.checked_add(more).ok_or_else(|| overflow("descendants"))?;
    Ok(())
}

/// What a finished clique hands to the CSD that enters it.
struct Waiting {
    clique: CliqueId,
    total: Desc,
    table: Table,
    taken: bool,
}

pub(crate) fn propagate(graph: &Graph<'_>, rule: Compensation) -> Result<Costs, DeepError> {
    let data = graph.data;
    let mut costs = Costs {
        pd_desc: DescColumns::zeros(data.pd_count()),
        big_clique_total: HashMap::new(),
        csd_comp: SparseDesc::default(),
        pd_comp: Vec::new(),
        ps: Sparse::new(data.ps_count()),
        css: Sparse::new(data.css_count()),
    };
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut keys: Vec<PsId> = Vec::new();
    let mut over: Vec<(PsId, Desc)> = Vec::new();

    for clique in ids_to::<CliqueId>(graph.cliques.members.keys()) {
        let members = graph.cliques.members.of(clique);
        let entry = graph.entry[clique];
        let mut entry_own = Desc::default();
        // Other procedures of the clique that a member's table may be asked for.
        keys.clear();
        if members.len() > 1 {
            keys.extend(members.iter().map(|&pd| data.pd_ps(pd)).filter(|&ps| graph.zeroed[ps]));
            keys.sort_unstable();
            keys.dedup();
        }
        over.clear();
        let mut sum = Table::default();
        let mut clique_total = Desc::default();
        for &pd in members {
            let ps = data.pd_ps(pd);

            // From above: the CSDs that lead here.
            let mut own = Own::default();
            for &csd in graph.pd_callers.of(pd) {
                let figures = data.csd_own(csd);
                if entry == Some(csd) {
                    entry_own = figures.inherited();
                }
                costs.css.row(graph.csd_css[csd]).add_own(&figures)?;
                own = own.checked_add(&figures).ok_or_else(|| overflow("own figures"))?;
            }
            let row = costs.ps.row(ps);
            row.add_own(&own)?;

            // From below: the cliques that this PD enters.
            let mut desc = Desc::default();
            let mut comp = Table::default();
            let mut error = None;
            data.each_csd(pd, |_, csd| {
                let callee = graph.cliques.of[data.csd_callee(csd)];
                if callee == clique {
                    return;
                }
                let below = if graph.entry[callee] == Some(csd) {
                    let Ok(at) = waiting.binary_search_by_key(&callee, |w| w.clique) else { return };
                    waiting[at].taken = true;
                    let table = std::mem::take(&mut waiting[at].table);
                    if let Err(e) = comp.merge(table) {
                        error = Some(e);
                    }
                    waiting[at].total
                } else {
                    data.csd_own(csd).inherited()
                };
                if let Err(e) = add(&mut desc, &below) {
                    error = Some(e);
                }
            });
            if let Some(error) = error {
                return Err(error);
            }
            costs.pd_desc.set(pd.index(), &desc);
            costs.ps.row(ps).add_desc(&desc, &comp.get(ps))?;
            comp.note(&keys, |other, d| {
                if other != ps {
                    costs.pd_comp.push((pd, other, d));
                }
            });

            let mut total = own.inherited();
            add(&mut total, &desc)?;
            add(&mut clique_total, &total)?;
            if graph.zeroed[ps] {
                match over.iter_mut().find(|(p, _)| *p == ps) {
                    Some((_, sum)) => add(sum, &total)?,
                    None => over.push((ps, total)),
                }
                if rule == Compensation::Exact {
                    comp.remove(ps);
                }
            }
            sum.merge(comp)?;
        }
        if members.len() > 1 {
            costs.big_clique_total.insert(clique, clique_total);
        }
        while waiting.last().is_some_and(|w| w.taken) {
            waiting.pop();
        }
        let Some(entry) = entry else { continue };
        for (ps, total) in over.drain(..) {
            if rule == Compensation::Compat {
                sum.remove(ps);
            }
            sum.add(ps, &total)?;
        }
        let comp = sum.get(data.pd_ps(graph.csd_caller[entry]));
        if !comp.is_zero() && !costs.csd_comp.push(entry.number(), &comp) {
            return Err(overflow("compensation"));
        }
        let desc = clique_total.checked_sub(&entry_own).ok_or_else(|| overflow("descendants"))?;
        costs.css.row(graph.csd_css[entry]).add_desc(&desc, &comp)?;
        waiting.push(Waiting { clique, total: clique_total, table: sum, taken: false });
    }
    costs.csd_comp.sort();
    costs.pd_comp.sort_unstable_by_key(|&(pd, ps, _)| (pd, ps));
    costs.pd_comp.shrink_to_fit();
    Ok(costs)
}

/// Procedure ids are small and dense: a multiplication spreads them well enough.
#[derive(Default)]
struct IdHasher(u64);

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

type Map = HashMap<PsId, Desc, BuildHasherDefault<IdHasher>>;

/// A compensation table. Nearly all have a few entries.
enum Table {
    Few(Vec<(PsId, Desc)>),
    Many(Map),
}

impl Default for Table {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Table {
    /// More entries than this are hashed.
    const FEW: usize = 12;

    fn len(&self) -> usize {
        match self {
            Self::Few(list) => list.len(),
            Self::Many(map) => map.len(),
        }
    }
    fn get(&self, ps: PsId) -> Desc {
        match self {
            Self::Few(list) => list.iter().find(|(p, _)| *p == ps).map(|(_, d)| *d),
            Self::Many(map) => map.get(&ps).copied(),
        }
        .unwrap_or_default()
    }
    fn remove(&mut self, ps: PsId) {
        match self {
            Self::Few(list) => list.retain(|(p, _)| *p != ps),
            Self::Many(map) => {
                map.remove(&ps);
            }
        }
    }
    fn add(&mut self, ps: PsId, desc: &Desc) -> Result<(), DeepError> {
        if desc.is_zero() {
            return Ok(());
        }
        match self {
            Self::Few(list) => {
                if let Some((_, sum)) = list.iter_mut().find(|(p, _)| *p == ps) {
                    return add(sum, desc);
                }
                if list.len() >= Self::FEW {
                    let mut map: Map = list.drain(..).collect();
                    map.insert(ps, *desc);
                    *self = Self::Many(map);
                } else {
                    list.push((ps, *desc));
                }
                Ok(())
            }
            Self::Many(map) => add(map.entry(ps).or_default(), desc),
        }
    }
    /// Adds another table; the smaller one is walked.
    fn merge(&mut self, mut other: Self) -> Result<(), DeepError> {
        if other.len() > self.len() {
            std::mem::swap(self, &mut other);
        }
        match other {
            Self::Few(list) => list.into_iter().try_for_each(|(ps, d)| self.add(ps, &d)),
            Self::Many(map) => map.into_iter().try_for_each(|(ps, d)| self.add(ps, &d)),
        }
    }
    /// Calls `f` for the entries of some procedures, given in ascending order.
    fn note(&self, keys: &[PsId], mut f: impl FnMut(PsId, Desc)) {
        if keys.len() <= self.len() {
            for &ps in keys {
                let desc = self.get(ps);
                if !desc.is_zero() {
                    f(ps, desc);
                }
            }
            return;
        }
        let mut each = |ps: PsId, d: Desc| {
            if keys.binary_search(&ps).is_ok() {
                f(ps, d);
            }
        };
        match self {
            Self::Few(list) => list.iter().for_each(|&(ps, d)| each(ps, d)),
            Self::Many(map) => map.iter().for_each(|(&ps, &d)| each(ps, d)),
        }
    }
}
