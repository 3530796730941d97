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
//! The same walk over the calls of each PD sums up own figures by call site and by callee: the calls
//! of a PD lie together in memory, and so do the call sites of its procedure.

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
    pub(crate) pd_callers: &'a Groups<PdId, CsdId>,
    pub(crate) cliques: &'a Cliques,
    pub(crate) entry: &'a IdVec<CliqueId, Option<CsdId>>,
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

/// What waits for the entry CSD of a clique: its place in the list of waiting things, plus 1, and whether the CSD inherits
/// what the clique's one PD has below it, no more. Hashing cliques took a tenth of the time.
#[derive(Clone, Copy, Default)]
struct Note(u32);

impl Note {
    const PLAIN: u32 = 1 << 31;
    fn is_plain(self) -> bool {
        self.0 & Self::PLAIN != 0
    }
    /// Where in the list, if something waits.
    fn place(self) -> Option<usize> {
        ((self.0 & !Self::PLAIN) as usize).checked_sub(1)
    }
}

/// What an entry CSD inherits beyond what the notes say.
#[derive(Default)]
struct Waiting {
    /// Of cliques that are not plain.
    inherited: Desc,
    table: Table,
}

struct Propagation<'a> {
    graph: &'a Graph<'a>,
    rule: Compensation,
    costs: Costs,
    /// By clique.
    notes: IdVec<CliqueId, Note>,
    /// What waits for callers that have not come yet.
    waiting: Vec<Waiting>,
    /// Places of `waiting` that are free again.
    free: Vec<u32>,
}

pub(crate) fn propagate(graph: &Graph<'_>, rule: Compensation) -> Result<Costs, DeepError> {
    let data = graph.data;
    let cliques = graph.cliques.members.keys();
    let mut propagation = Propagation {
        graph,
        rule,
        costs: Costs {
            pd_desc: DescTable::zeros(data.pd_count()),
            big_clique_total: HashMap::new(),
            csd_comp: SparseDesc::default(),
            pd_comp: Vec::new(),
            ps: Sparse::new(data.ps_count()),
            css: Sparse::new(data.css_count()),
        },
        notes: IdVec::from_vec(vec![Note::default(); cliques]),
        waiting: Vec::new(),
        free: Vec::new(),
    };
    let mut scratch = Scratch::default();
    for clique in ids_to::<CliqueId>(cliques) {
        propagation.clique(clique, &mut scratch)?;
    }
    let mut costs = propagation.costs;
    costs.csd_comp.sort();
    costs.pd_comp.sort_unstable_by_key(|&(pd, ps, _)| (pd, ps));
    costs.pd_comp.shrink_to_fit();
    Ok(costs)
}

#[derive(Default)]
struct Scratch {
    /// Zeroed procedures of a clique of several PDs, ascending.
    keys: Vec<PsId>,
    /// Cost of the clique's own occurrences of zeroed procedures.
    over: Vec<(PsId, Desc)>,
}

impl Propagation<'_> {
    fn clique(&mut self, clique: CliqueId, scratch: &mut Scratch) -> Result<(), DeepError> {
        let graph = self.graph;
        let data = graph.data;
        let members = graph.cliques.members.of(clique);
        let entry = graph.entry[clique];
        let Scratch { keys, over } = scratch;
        keys.clear();
        over.clear();
        if members.len() > 1 {
            keys.extend(members.iter().map(|&pd| data.pd_ps(pd)).filter(|&ps| graph.zeroed[ps]));
            keys.sort_unstable();
            keys.dedup();
            over.extend(keys.iter().map(|&ps| (ps, Desc::default())));
        }
        let mut sum = Table::default();
        let mut clique_total = Desc::default();
        let mut plain = false;
        for &pd in members {
            let ps = data.pd_ps(pd);
            let (desc, mut comp) = self.below(clique, pd)?;
            self.costs.ps.row(ps).add_desc(&desc, &comp.get(ps))?;
            if !self.costs.pd_desc.set(pd.index(), &desc) {
                return Err(overflow("descendants"));
            }
            if !keys.is_empty() {
                comp.note(keys, |other, d| {
                    if other != ps {
                        self.costs.pd_comp.push((pd, other, d));
                    }
                });
            }
            let zeroed = graph.zeroed[ps];
            plain = members.len() == 1 && graph.pd_callers.of(pd).len() == 1;
            if !plain || zeroed {
                let mut total = desc;
                for &csd in graph.pd_callers.of(pd) {
                    add(&mut total, &data.csd_own(csd).inherited())?;
                }
                add(&mut clique_total, &total)?;
                if zeroed {
                    match keys.binary_search(&ps) {
                        Ok(at) => add(&mut over[at].1, &total)?,
                        // A clique of one PD.
                        Err(_) => over.push((ps, total)),
                    }
                    if self.rule == Compensation::Exact {
                        comp.remove(ps);
                    }
                }
            }
            sum.merge(comp)?;
        }
        if members.len() > 1 {
            self.costs.big_clique_total.insert(clique, clique_total);
        }
        let Some(entry) = entry else { return Ok(()) };
        let mut inherited = Desc::default();
        if !plain {
            let own = data.csd_own(entry).inherited();
            inherited = clique_total.checked_sub(&own).ok_or_else(|| overflow("descendants"))?;
        }
        for (ps, total) in over.drain(..) {
            if self.rule == Compensation::Compat {
                sum.remove(ps);
            }
            sum.add(ps, &total)?;
        }
        let mut note = if plain { Note::PLAIN } else { 0 };
        if !plain || !sum.is_empty() {
            note |= self.wait(Waiting { inherited, table: sum })?;
        }
        self.notes[clique] = Note(note);
        Ok(())
    }

    /// Keeps something for a caller; its place, plus 1.
    fn wait(&mut self, waiting: Waiting) -> Result<u32, DeepError> {
        if let Some(place) = self.free.pop() {
            self.waiting[place as usize] = waiting;
            return Ok(place + 1);
        }
        self.waiting.push(waiting);
        u32::try_from(self.waiting.len())
            .ok()
            .filter(|&n| n < Note::PLAIN)
            .ok_or_else(|| overflow("cliques that wait for their callers"))
    }

    /// What a PD has below it, in cliques that it enters; on the way the own figures of the calls
    /// that it makes go to call sites and callees.
    fn below(&mut self, clique: CliqueId, pd: PdId) -> Result<(Desc, Table), DeepError> {
        let graph = self.graph;
        let data = graph.data;
        let ps = data.pd_ps(pd);
        let sites = data.sites(ps);
        let mut desc = [0; 4];
        let mut comp = Table::default();
        let mut fits = true;
        let mut result = Ok(());
        data.each_csd(pd, |slot, csd| {
            let callee = data.csd_callee(csd);
            let css_row = self.costs.css.row(sites[slot]);
            let ps_row = self.costs.ps.row(data.pd_ps(callee));
            let mut own = [0; 8];
            data.csd_own.each(csd.index(), |i, value| {
                fits &= add_one(&mut css_row.own[i], value);
                fits &= add_one(&mut ps_row.own[i], value);
                own[i] = value;
            });
            let callee_clique = graph.cliques.of[callee];
            if callee_clique == clique {
                return;
            }
            let [_, _, _, _, own @ ..] = own;
            fits &= add_all(&mut desc, &own);
            if graph.entry[callee_clique] != Some(csd) {
                return;
            }
            // A clique that was not met yet leaves nothing: a damaged file may name its entry below itself.
            let note = std::mem::take(&mut self.notes[callee_clique]);
            let waiting = note.place().map(|place| {
                self.free.push(place as u32);
                std::mem::take(&mut self.waiting[place])
            });
            let mut inherited = waiting.as_ref().map_or(Desc::default(), |w| w.inherited);
            if note.is_plain() {
                inherited = self.costs.pd_desc.get(callee.index());
            }
            fits &= add_all(&mut desc, &inherited.as_array());
            let mut csd_comp = Desc::default();
            if let Some(Waiting { table, .. }) = waiting
                && !table.is_empty()
            {
                csd_comp = table.get(ps);
                if !csd_comp.is_zero() {
                    fits &= self.costs.csd_comp.push(csd.number(), &csd_comp);
                }
                if let Err(error) = comp.merge(table) {
                    result = Err(error);
                }
            }
            if let Err(error) = css_row.add_desc(&inherited, &csd_comp) {
                result = Err(error);
            }
        });
        result?;
        if !fits {
            return Err(overflow("own figures or descendants"));
        }
        Ok((Desc::from_array(desc), comp))
    }
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
struct Table(Option<Entries>);

enum Entries {
    Few(Vec<(PsId, Desc)>),
    Many(Map),
}

impl Table {
    fn is_empty(&self) -> bool {
        self.0.is_none()
    }
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
                self.0 = Some(Entries::Few(vec![(ps, *desc)]));
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
        match other {
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
        match entries {
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
