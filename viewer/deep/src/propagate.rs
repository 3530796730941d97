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

use crate::small::small;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::cliques::{Cliques, Entries};
use crate::error::{DeepError, ErrorCode};
use crate::figures::{Desc, DescTable, Own, SparseDesc, add_all};
use crate::groups::{Few, Mostly1};
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
///
/// Millions of calls are added up here, to call sites and procedures that follow no order: the less memory these take, the more of
/// them stays in the processor's cache. So own figures are summed in 32 bits, and what does not fit is counted elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Sparse<I: Id> {
    /// Which row, plus 1; 0: all zero.
    index: IdVec<I, u32>,
    /// Lower halves of own figures, by row.
    own: Vec<[u32; 8]>,
    /// Upper halves that are not zero, by row and place; below 2^31.
    upper: HashMap<(u32, u8), i64>,
    desc: Vec<[i64; 4]>,
}

impl<I: Id> Sparse<I> {
    fn new(len: usize) -> Self {
        Self {
            index: IdVec::from_vec(vec![0; len]),
            own: Vec::new(),
            upper: HashMap::new(),
            desc: Vec::new(),
        }
    }
    pub(crate) fn get(&self, id: I) -> Figures {
        let Some(row) = self.index[id].checked_sub(1) else { return Figures::default() };
        let mut own = self.own[row as usize].map(i64::from);
        if !self.upper.is_empty() {
            for (place, sum) in (0u8..).zip(&mut own) {
                *sum += self.upper.get(&(row, place)).map_or(0, |n| n << 32);
            }
        }
        Figures { own: Own::from_array(own), desc: Desc::from_array(self.desc[row as usize]) }
    }
    #[inline]
    fn row(&mut self, id: I) -> usize {
        let at = &mut self.index[id];
        if *at == 0 {
            self.own.push([0; 8]);
            self.desc.push([0; 4]);
            *at = small(self.own.len());
        }
        *at as usize - 1
    }
    /// Adds to the own figure in a place of [`Own::as_array`]; `false` if the sum does not fit.
    #[inline]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the low half")]
    fn add_own(&mut self, row: usize, place: usize, value: i64) -> bool {
        let sum = &mut self.own[row][place];
        let (low, carry) = sum.overflowing_add(value as u32);
        *sum = low;
        let up = (value >> 32) + i64::from(carry);
        up == 0 || self.add_upper(row, place, up)
    }
    #[cold]
    #[expect(clippy::cast_possible_truncation, reason = "one of eight places")]
    fn add_upper(&mut self, row: usize, place: usize, up: i64) -> bool {
        let sum = self.upper.entry((small(row), place as u8)).or_default();
        *sum = sum.saturating_add(up);
        *sum < 1 << 31
    }
    fn add_desc(&mut self, row: usize, desc: &Desc, comp: &Desc) -> Result<(), DeepError> {
        let sum = &mut self.desc[row];
        let fits = add_all(sum, &desc.as_array());
        // Compensation is never negative, so it has a negative.
        if fits && (comp.is_zero() || add_all(sum, &comp.as_array().map(|c| -c))) {
            return Ok(());
        }
        Err(overflow("descendants"))
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        (self.index.len() + 8 * self.own.capacity() + 8 * self.desc.capacity()) * 4
            + self.upper.capacity() * 24
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
    pub(crate) csd_comp: SparseDesc<u32>,
    /// Nonzero compensation of PDs for other procedures of their clique.
    pub(crate) pd_comp: SparseDesc<(PdId, PsId)>,
    pub(crate) ps: Sparse<PsId>,
    pub(crate) css: Sparse<CssId>,
}

pub(crate) struct Graph<'a> {
    pub(crate) data: &'a DeepData,
    pub(crate) pd_callers: &'a Mostly1<PdId, CsdId>,
    pub(crate) cliques: &'a Cliques,
    pub(crate) entries: &'a Entries,
    pub(crate) zeroed: &'a IdVec<PsId, bool>,
    /// The cliques whose occurrences of zeroed procedures anybody asks for; absent: all.
    pub(crate) watched: Option<&'a IdVec<CliqueId, bool>>,
}

impl Graph<'_> {
    /// Whether a procedure in this clique needs entries in tables.
    #[inline]
    fn counted(&self, clique: CliqueId, ps: PsId) -> bool {
        self.zeroed[ps] && self.watched.is_none_or(|w| w[clique])
    }
    #[inline]
    fn entry(&self, clique: CliqueId) -> Option<CsdId> {
        self.entries.of(self.data, self.cliques, self.pd_callers, clique)
    }
}

pub(crate) fn overflow(what: impl std::fmt::Display) -> DeepError {
    DeepError::new(ErrorCode::Overflow, format!("a sum of measurements exceeds 63 bits ({what})"))
}

/// Where in the order of [`Own::as_array`] the figures begin that callers inherit.
const INHERITED: usize = 4;

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

/// What waits for the entry CSD of a clique: the place of its table in the list of waiting ones, plus 1, and whether the clique is *plain*,
/// one PD with one caller: then that is the entry CSD, and it inherits what the PD has below it, no more.
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

struct Propagation<'a> {
    graph: &'a Graph<'a>,
    rule: Compensation,
    costs: Costs,
    /// By clique.
    notes: IdVec<CliqueId, Note>,
    /// What the entry CSDs of cliques that are not plain inherit.
    inherited: HashMap<CliqueId, Desc, BuildHasherDefault<IdHasher>>,
    /// Tables of cliques whose callers have not come yet.
    waiting: Vec<Table>,
    /// Places of `waiting` that are free again.
    free: Vec<u32>,
    pool: Pool,
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
            pd_comp: SparseDesc::default(),
            ps: Sparse::new(data.ps_count()),
            css: Sparse::new(data.css_count()),
        },
        notes: IdVec::from_vec(vec![Note::default(); cliques]),
        inherited: HashMap::default(),
        waiting: Vec::new(),
        free: Vec::new(),
        pool: Pool::default(),
    };
    let mut scratch = Scratch::default();
    for clique in ids_to::<CliqueId>(cliques) {
        propagation.clique(clique, &mut scratch)?;
    }
    let Propagation { mut costs, inherited, notes, waiting, free, pool, .. } = propagation;
    drop((inherited, notes, waiting, free, pool));
    costs.csd_comp.sort();
    costs.pd_comp.sort();
    costs.pd_desc.shrink();
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
        match self.graph.cliques.members.few(clique) {
            Few::One(pd) => self.one(clique, pd),
            Few::List(n) => self.several(clique, self.graph.cliques.members.list(n), scratch),
            Few::None => Ok(()),
        }
    }

    /// A clique of one PD.
    fn one(&mut self, clique: CliqueId, pd: PdId) -> Result<(), DeepError> {
        let graph = self.graph;
        let ps = graph.data.pd_ps(pd);
        let (desc, mut table) = self.below(clique, pd)?;
        let plain = matches!(graph.pd_callers.few(pd), Few::One(_));
        let zeroed = graph.counted(clique, ps);
        let mut total = desc;
        if !plain || zeroed {
            for &csd in graph.pd_callers.of(pd) {
                add(&mut total, &graph.data.csd_own(csd).inherited())?;
            }
        }
        if zeroed {
            // By either rule this PD's total takes the place of what is below it.
            table.remove(ps);
            table.add(ps, &total, &mut self.pool)?;
        }
        if plain {
            self.notes[clique] = Note(Note::PLAIN | self.wait(table)?);
            return Ok(());
        }
        self.hand_up(clique, &total, table)
    }

    /// A clique of several PDs.
    fn several(
        &mut self,
        clique: CliqueId,
        members: &[PdId],
        scratch: &mut Scratch,
    ) -> Result<(), DeepError> {
        let graph = self.graph;
        let data = graph.data;
        let Scratch { keys, over } = scratch;
        keys.clear();
        over.clear();
        keys.extend(members.iter().map(|&pd| data.pd_ps(pd)).filter(|&ps| graph.zeroed[ps]));
        keys.sort_unstable();
        keys.dedup();
        over.extend(keys.iter().map(|&ps| (ps, Desc::default())));
        let mut sum = Table::default();
        let mut clique_total = Desc::default();
        for &pd in members {
            let ps = data.pd_ps(pd);
            let (desc, mut table) = self.below(clique, pd)?;
            if !keys.is_empty() {
                let mut fits = true;
                table.note(keys, |other, d| {
                    if other != ps {
                        fits &= self.costs.pd_comp.push((pd, other), &d);
                    }
                });
                if !fits {
                    return Err(overflow("compensation tables"));
                }
            }
            let mut total = desc;
            for &csd in graph.pd_callers.of(pd) {
                add(&mut total, &data.csd_own(csd).inherited())?;
            }
            add(&mut clique_total, &total)?;
            if let Ok(at) = keys.binary_search(&ps) {
                add(&mut over[at].1, &total)?;
                if self.rule == Compensation::Exact {
                    table.remove(ps);
                }
            }
            sum.merge(table, &mut self.pool)?;
        }
        self.costs.big_clique_total.insert(clique, clique_total);
        for (ps, total) in over.drain(..) {
            if self.rule == Compensation::Compat {
                sum.remove(ps);
            }
            sum.add(ps, &total, &mut self.pool)?;
        }
        self.hand_up(clique, &clique_total, sum)
    }

    /// Keeps what a clique that is not plain hands up, if anybody enters it.
    fn hand_up(&mut self, clique: CliqueId, total: &Desc, table: Table) -> Result<(), DeepError> {
        let Some(entry) = self.graph.entry(clique) else { return Ok(()) };
        let own = self.graph.data.csd_own(entry).inherited();
        let inherited = total.checked_sub(&own).ok_or_else(|| overflow("descendants"))?;
        if !inherited.is_zero() {
            self.inherited.insert(clique, inherited);
        }
        self.notes[clique] = Note(self.wait(table)?);
        Ok(())
    }

    /// Keeps a table for a caller, if there is anything in it; its place, plus 1.
    fn wait(&mut self, table: Table) -> Result<u32, DeepError> {
        if table.is_empty() {
            return Ok(0);
        }
        if let Some(place) = self.free.pop() {
            self.waiting[place as usize] = table;
            return Ok(place + 1);
        }
        self.waiting.push(table);
        u32::try_from(self.waiting.len())
            .ok()
            .filter(|&n| n < Note::PLAIN)
            .ok_or_else(|| overflow("cliques that wait for their callers"))
    }

    /// What a PD has below it, in cliques that it enters, and their compensation table. On the way the own figures of the calls
    /// that it makes go to call sites and callees, and what it has below it to its procedure.
    fn below(&mut self, clique: CliqueId, pd: PdId) -> Result<(Desc, Table), DeepError> {
        let graph = self.graph;
        let data = graph.data;
        let ps = data.pd_ps(pd);
        // No other procedure has entries in tables.
        let zeroed = graph.counted(clique, ps);
        let mut desc = [0; 4];
        let mut table = Table::default();
        let mut fits = true;
        for &csd in data.edges(pd) {
            let callee = data.csd_callee(csd);
            let callee_clique = graph.cliques.of[callee];
            let inside = callee_clique == clique;
            let Costs { ps: procs, css: sites, .. } = &mut self.costs;
            let (callee_row, site_row) = (procs.row(data.pd_ps(callee)), sites.row(data.csd_css(csd)));
            // Most figures are zero, and of those that are not one or two are inherited: adding them one by one is cheapest.
            data.csd_own.each(csd.index(), |i, value| {
                fits &= procs.add_own(callee_row, i, value);
                fits &= sites.add_own(site_row, i, value);
                if i >= INHERITED && !inside {
                    fits &= add_one(&mut desc[i - INHERITED], value);
                }
            });
            if inside {
                continue;
            }
            let note = self.notes[callee_clique];
            let inherited = if note.is_plain() {
                self.costs.pd_desc.get(callee.index())
            } else if graph.entry(callee_clique) == Some(csd) {
                self.inherited.remove(&callee_clique).unwrap_or_default()
            } else {
                continue;
            };
            let mut comp = Desc::default();
            if let Some(place) = note.place() {
                self.notes[callee_clique] = Note(0);
                self.free.push(small(place));
                let below = std::mem::take(&mut self.waiting[place]);
                if zeroed {
                    comp = below.get(ps);
                }
                if !comp.is_zero() {
                    fits &= self.costs.csd_comp.push(csd.number(), &comp);
                }
                table.merge(below, &mut self.pool)?;
            }
            fits &= add_all(&mut desc, &inherited.as_array());
            if !inherited.is_zero() || !comp.is_zero() {
                self.costs.css.add_desc(site_row, &inherited, &comp)?;
            }
        }
        if !fits {
            return Err(overflow("own figures or descendants"));
        }
        let desc = Desc::from_array(desc);
        if !desc.is_zero() || !table.is_empty() {
            let comp = if zeroed { table.get(ps) } else { Desc::default() };
            let row = self.costs.ps.row(ps);
            self.costs.ps.add_desc(row, &desc, &comp)?;
            if !self.costs.pd_desc.set(pd.index(), &desc) {
                return Err(overflow("descendants"));
            }
        }
        Ok((desc, table))
    }
}

/// Ids are small and dense: a multiplication spreads them well enough.
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

/// Lists that are empty again, with room for a few entries.
#[derive(Default)]
struct Pool(Vec<Vec<(PsId, Desc)>>);

impl Pool {
    /// More are given back: where very many tables wait at once, as many lists are empty in the end.
    const MOST: usize = 1000;

    fn put(&mut self, list: Vec<(PsId, Desc)>) {
        if self.0.len() < Self::MOST {
            self.0.push(list);
        }
    }
}

/// A compensation table. Many are empty, nearly all others have a few entries. No entry is zero, nor is `Few` or `Many` empty.
#[derive(Default)]
enum Table {
    #[default]
    Empty,
    Few(Vec<(PsId, Desc)>),
    Many(Box<Map>),
}

impl Table {
    /// More entries than this are hashed.
    const FEW: usize = 12;

    fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
    fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Few(list) => list.len(),
            Self::Many(map) => map.len(),
        }
    }
    #[inline]
    fn get(&self, ps: PsId) -> Desc {
        match self {
            Self::Empty => None,
            Self::Few(list) => list.iter().find(|(p, _)| *p == ps).map(|(_, d)| *d),
            Self::Many(map) => map.get(&ps).copied(),
        }
        .unwrap_or_default()
    }
    fn remove(&mut self, ps: PsId) {
        let now_empty = match self {
            Self::Empty => true,
            Self::Few(list) => {
                list.retain(|(p, _)| *p != ps);
                list.is_empty()
            }
            Self::Many(map) => {
                map.remove(&ps);
                map.is_empty()
            }
        };
        if now_empty {
            *self = Self::Empty;
        }
    }
    fn add(&mut self, ps: PsId, desc: &Desc, pool: &mut Pool) -> Result<(), DeepError> {
        if desc.is_zero() {
            return Ok(());
        }
        match self {
            Self::Empty => {
                let mut list = pool.0.pop().unwrap_or_default();
                list.push((ps, *desc));
                *self = Self::Few(list);
                Ok(())
            }
            Self::Few(list) => {
                if let Some((_, sum)) = list.iter_mut().find(|(p, _)| *p == ps) {
                    return add(sum, desc);
                }
                if list.len() < Self::FEW {
                    list.push((ps, *desc));
                    return Ok(());
                }
                let mut map: Box<Map> = Box::new(list.drain(..).collect());
                map.insert(ps, *desc);
                pool.put(std::mem::take(list));
                *self = Self::Many(map);
                Ok(())
            }
            Self::Many(map) => add(map.entry(ps).or_default(), desc),
        }
    }
    /// Adds another table; the smaller one is walked.
    fn merge(&mut self, mut other: Self, pool: &mut Pool) -> Result<(), DeepError> {
        if other.len() > self.len() {
            std::mem::swap(self, &mut other);
        }
        match other {
            Self::Empty => Ok(()),
            Self::Few(mut list) => {
                let done = list.drain(..).try_for_each(|(ps, d)| self.add(ps, &d, pool));
                pool.put(list);
                done
            }
            Self::Many(map) => map.into_iter().try_for_each(|(ps, d)| self.add(ps, &d, pool)),
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
            Self::Empty => {}
            Self::Few(list) => list.iter().for_each(|&(ps, d)| each(ps, d)),
            Self::Many(map) => map.iter().for_each(|(&ps, &d)| each(ps, d)),
        }
    }
}
