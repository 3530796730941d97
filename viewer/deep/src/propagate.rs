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
//! What a finished clique hands up waits in a list of the clique that its entering CSD is in, so
//! slots need not be walked again.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::cliques::Cliques;
use crate::error::{DeepError, ErrorCode};
use crate::figures::{Desc, DescTable, Own, SparseDesc, add_all};
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

/// Figures of those items that have any.
#[derive(Clone, Debug)]
pub(crate) struct Sparse<I: Id> {
    /// Where in `rows`, plus 1; 0: all zero.
    index: IdVec<I, u32>,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    own: [i64; 8],
    desc: [i64; 4],
}

impl Row {
    fn add_desc(&mut self, desc: &Desc, comp: &Desc) -> Result<(), DeepError> {
        let fits = add_all(&mut self.desc, &desc.as_array());
        // Compensation is never negative, so it has a negative.
        if fits && (comp.is_zero() || add_all(&mut self.desc, &comp.as_array().map(|c| -c))) {
            return Ok(());
        }
        Err(overflow("descendants"))
    }
}

impl<I: Id> Sparse<I> {
    fn new(len: usize) -> Self {
        Self { index: IdVec::from_vec(vec![0; len]), rows: Vec::new() }
    }
    pub(crate) fn get(&self, id: I) -> Figures {
        match self.index[id] {
            0 => Figures::default(),
            n => {
                let row = &self.rows[n as usize - 1];
                Figures { own: Own::from_array(row.own), desc: Desc::from_array(row.desc) }
            }
        }
    }
    #[inline]
    fn row(&mut self, id: I) -> &mut Row {
        let at = &mut self.index[id];
        if *at == 0 {
            self.rows.push(Row::default());
            *at = self.rows.len() as u32;
        }
        &mut self.rows[*at as usize - 1]
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        self.index.len() * 4 + self.rows.capacity() * size_of::<Row>()
    }
}

/// What propagation yields.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    pub(crate) pd_desc: DescTable,
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
    /// CSDs that enter a clique besides its entry CSD, by ascending caller: none in real files.
    pub(crate) others: &'a [(PdId, CsdId)],
    pub(crate) zeroed: &'a IdVec<PsId, bool>,
}

pub(crate) fn overflow(what: impl std::fmt::Display) -> DeepError {
    DeepError::new(ErrorCode::Overflow, format!("a sum of measurements exceeds 63 bits ({what})"))
}

/// Adds in place; `false` if the sum does not fit.
#[inline]
fn add_one(sum: &mut i64, more: i64) -> bool {
    let (s, overflow) = sum.overflowing_add(more);
    *sum = s;
    !overflow
}

fn add(sum: &mut Desc, more: &Desc) -> Result<(), DeepError> {
    *sum = sum.checked_add(more).ok_or_else(|| overflow("descendants"))?;
    Ok(())
}

/// What a finished clique hands to the PD that makes its entry CSD.
struct Waiting {
    caller: PdId,
    total: Desc,
    table: Table,
    /// The next of the same clique, plus 1.
    next: u32,
}

/// What waits for each clique. Places are used again.
struct Pending {
    /// By clique: its first in `places`, plus 1.
    first: IdVec<CliqueId, u32>,
    places: Vec<Waiting>,
    /// The first free place, plus 1; free places are linked like others.
    free: u32,
}

impl Pending {
    fn push(&mut self, clique: CliqueId, caller: PdId, total: Desc, table: Table) {
        let new = Waiting { caller, total, table, next: self.first[clique] };
        self.first[clique] = match self.free.checked_sub(1) {
            Some(place) => {
                let place = &mut self.places[place as usize];
                let at = std::mem::replace(&mut self.free, place.next);
                *place = new;
                at
            }
            None => {
                self.places.push(new);
                // There are fewer cliques than 2^32.
                self.places.len() as u32
            }
        };
    }
    /// Takes out what waits for a clique.
    fn take(&mut self, clique: CliqueId, mut f: impl FnMut(PdId, Desc, Table)) {
        let mut next = std::mem::take(&mut self.first[clique]);
        while let Some(place) = next.checked_sub(1) {
            let at = &mut self.places[place as usize];
            f(at.caller, at.total, std::mem::take(&mut at.table));
            let after = at.next;
            at.next = self.free;
            self.free = next;
            next = after;
        }
    }
}

/// What a PD has from below.
#[derive(Default)]
struct Below {
    desc: Desc,
    comp: Table,
}

impl Below {
    fn add(&mut self, total: &Desc, table: Table) -> Result<(), DeepError> {
        add(&mut self.desc, total)?;
        self.comp.merge(table)
    }
}

pub(crate) fn propagate(graph: &Graph<'_>, rule: Compensation) -> Result<Costs, DeepError> {
    let data = graph.data;
    let cliques = graph.cliques.members.keys();
    let mut costs = Costs {
        pd_desc: DescTable::zeros(data.pd_count()),
        big_clique_total: HashMap::new(),
        csd_comp: SparseDesc::default(),
        pd_comp: Vec::new(),
        ps: Sparse::new(data.ps_count()),
        css: Sparse::new(data.css_count()),
    };
    let mut pending = Pending { first: IdVec::from_vec(vec![0; cliques]), places: Vec::new(), free: 0 };
    let mut keys: Vec<PsId> = Vec::new();
    let mut below: Vec<Below> = Vec::new();
    let mut over: Vec<(PsId, Desc)> = Vec::new();

    for clique in ids_to::<CliqueId>(cliques) {
        let members = graph.cliques.members.of(clique);
        let entry = graph.entry[clique];
        let mut entry_own = [0; 8];

        // From below: the cliques that each member enters.
        below.clear();
        let mut only = Below::default();
        let mut result = Ok(());
        keys.clear();
        if members.len() == 1 {
            pending.take(clique, |_, total, table| {
                if result.is_ok() {
                    result = only.add(&total, table);
                }
            });
        } else {
            below.resize_with(members.len(), Below::default);
            pending.take(clique, |caller, total, table| {
                if let (Ok(at), Ok(())) = (members.binary_search(&caller), &result) {
                    result = below[at].add(&total, table);
                }
            });
            // Other procedures of the clique that a member's table may be asked for.
            keys.extend(members.iter().map(|&pd| data.pd_ps(pd)).filter(|&ps| graph.zeroed[ps]));
            keys.sort_unstable();
            keys.dedup();
        }
        result?;

        over.clear();
        over.extend(keys.iter().map(|&ps| (ps, Desc::default())));
        let mut sum = Table::default();
        let mut clique_total = Desc::default();
        for (i, &pd) in members.iter().enumerate() {
            let ps = data.pd_ps(pd);
            let Below { mut desc, mut comp } = std::mem::take(below.get_mut(i).unwrap_or(&mut only));
            if !graph.others.is_empty() {
                let from = graph.others.partition_point(|&(caller, _)| caller < pd);
                for &(_, csd) in graph.others[from..].iter().take_while(|&&(caller, _)| caller == pd) {
                    add(&mut desc, &data.csd_own(csd).inherited())?;
                }
            }

            // From above: the CSDs that lead here.
            let ps_row = costs.ps.row(ps);
            let mut own = [0; 8];
            let mut fits = true;
            for &csd in graph.pd_callers.of(pd) {
                let css_own = &mut costs.css.row(graph.csd_css[csd]).own;
                let before = own;
                data.csd_own.each(csd.index(), |i, value| {
                    fits &= add_one(&mut css_own[i], value);
                    fits &= add_one(&mut ps_row.own[i], value);
                    fits &= add_one(&mut own[i], value);
                });
                if entry == Some(csd) {
                    entry_own = std::array::from_fn(|i| own[i].wrapping_sub(before[i]));
                }
            }
            ps_row.add_desc(&desc, &comp.get(ps))?;
            if !fits || !costs.pd_desc.set(pd.index(), &desc) {
                return Err(overflow("own figures"));
            }
            if !keys.is_empty() {
                comp.note(&keys, |other, d| {
                    if other != ps {
                        costs.pd_comp.push((pd, other, d));
                    }
                });
            }

            let mut total = Own::from_array(own).inherited();
            add(&mut total, &desc)?;
            add(&mut clique_total, &total)?;
            if graph.zeroed[ps] {
                match keys.binary_search(&ps) {
                    Ok(at) => add(&mut over[at].1, &total)?,
                    // A clique of one PD.
                    Err(_) => over.push((ps, total)),
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
        let Some(entry) = entry else { continue };
        for (ps, total) in over.drain(..) {
            if rule == Compensation::Compat {
                sum.remove(ps);
            }
            sum.add(ps, &total)?;
        }
        let caller = graph.csd_caller[entry];
        let comp = sum.get(data.pd_ps(caller));
        if !comp.is_zero() && !costs.csd_comp.push(entry.number(), &comp) {
            return Err(overflow("compensation"));
        }
        let desc = clique_total
            .checked_sub(&Own::from_array(entry_own).inherited())
            .ok_or_else(|| overflow("descendants"))?;
        costs.css.row(graph.csd_css[entry]).add_desc(&desc, &comp)?;
        pending.push(graph.cliques.of[caller], caller, clique_total, sum);
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

/// A compensation table. Many are empty, nearly all others have a few entries.
#[derive(Default)]
struct Table(Option<Box<Entries>>);

enum Entries {
    Few(Vec<(PsId, Desc)>),
    Many(Map),
}

impl Table {
    fn get(&self, ps: PsId) -> Desc {
        self.0.as_ref().map_or(Desc::default(), |e| e.get(ps))
    }
    fn remove(&mut self, ps: PsId) {
        if let Some(entries) = &mut self.0 {
            entries.remove(ps);
            if entries.len() == 0 {
                self.0 = None;
            }
        }
    }
    fn add(&mut self, ps: PsId, desc: &Desc) -> Result<(), DeepError> {
        if desc.is_zero() {
            return Ok(());
        }
        match &mut self.0 {
            Some(entries) => entries.add(ps, desc),
            None => {
                self.0 = Some(Box::new(Entries::Few(vec![(ps, *desc)])));
                Ok(())
            }
        }
    }
    /// Adds another table; the smaller one is walked.
    fn merge(&mut self, other: Self) -> Result<(), DeepError> {
        let Some(mut other) = other.0 else { return Ok(()) };
        let Some(this) = &mut self.0 else {
            self.0 = Some(other);
            return Ok(());
        };
        if other.len() > this.len() {
            std::mem::swap(this, &mut other);
        }
        match *other {
            Entries::Few(list) => list.into_iter().try_for_each(|(ps, d)| this.add(ps, &d)),
            Entries::Many(map) => map.into_iter().try_for_each(|(ps, d)| this.add(ps, &d)),
        }
    }
    /// Calls `f` for the entries of some procedures, given in ascending order.
    fn note(&self, keys: &[PsId], mut f: impl FnMut(PsId, Desc)) {
        let Some(entries) = &self.0 else { return };
        if keys.len() <= entries.len() {
            for &ps in keys {
                let desc = entries.get(ps);
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
        match &**entries {
            Entries::Few(list) => list.iter().for_each(|&(ps, d)| each(ps, d)),
            Entries::Many(map) => map.iter().for_each(|(&ps, &d)| each(ps, d)),
        }
    }
}

impl Entries {
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
}
