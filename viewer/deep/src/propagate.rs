//! Propagates costs from callees to callers, bottom-up over the cliques, and compensates for recursion.
//!
//! A PD's *desc* is the cost of the cliques that it enters itself. The desc of a CSD that enters a clique is the cost
//! of that clique and all below it, less the CSD's own. CSDs inside a clique have no desc.
//!
//! **Compensation.** A call through a closure or a method hides the caller from the profiled program's recursion check,
//! so the same procedure can occur again below itself as a new PD. Plain sums over its PDs would count the inner one
//! twice. So each entering CSD has a table: procedure -> total cost of its occurrences below that CSD. Only procedures
//! with such call sites ("zeroed") need entries.
//!
//! Only a few entries of the tables are ever needed: a PD's entry for the procedures of its own clique, and a CSD's
//! entry for its caller's procedure. One CSD enters a clique (others get nothing), so each table has one consumer. It
//! is moved upwards, merged small into large, and the needed entries are stored on the way. The memory is that of these
//! entries; the time is nearly linear.
//!
//! The same walk over the calls of each PD sums up own figures by call site and by callee: the calls of a PD are
//! adjacent in memory, and so are the call sites of its procedure.

mod tables;

use crate::small::small;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::cliques::{Cliques, Entries};
use crate::error::DeepError;
use crate::figures::{Desc, DescTable, Own, SparseDesc, add_all};
use crate::groups::{Few, Mostly1};
use crate::id::{CliqueId, CsdId, CssId, Id, IdVec, PdId, PsId, ids_to};
use crate::model::DeepData;
pub(crate) use tables::overflow;
use tables::{IdHasher, Pool, Table, add};

/// How a clique's own occurrences are added to the compensation table of the CSD that enters it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compensation {
    /// Each occurrence is counted once; inclusive costs never exceed the program's.
    #[default]
    Exact,
    /// As in the original viewer: the clique's own entry replaces what other members of the clique have below them. It
    /// differs only for cliques of several PDs.
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
/// Millions of calls are added up here, to call sites and procedures in no order. The less memory these use, the more
/// of them stays in the processor's cache. So own figures are summed in 32 bits, and the rest of larger sums is stored
/// elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Sparse<I: Id> {
    /// Number of the row, plus 1; 0: all zero.
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
    /// Adds to the own figure at an index of [`Own::as_array`]. Returns `false` if the sum does not fit.
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
        // Compensation is never negative, so it can be negated.
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

/// The result of propagation.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    pub(crate) pd_desc: DescTable,
    /// Own and desc of all members, for cliques of several PDs.
    pub(crate) big_clique_total: HashMap<CliqueId, Desc>,
    /// Nonzero compensation of CSDs for the procedure of their caller. Its sum over the CSDs of a PD is the PD's
    /// compensation for its own procedure.
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
    /// The cliques whose occurrences of zeroed procedures are needed; absent: all.
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
        self.entries.entry_of_clique(self.data, self.cliques, self.pd_callers, clique)
    }
}

/// Index in [`Own::as_array`] of the first figure that callers inherit.
const INHERITED: usize = 4;

/// Adds in place; `false` if the sum does not fit.
#[inline]
fn add_one(sum: &mut i64, more: i64) -> bool {
    let (s, overflow) = sum.overflowing_add(more);
    *sum = s;
    !overflow
}

/// What is stored for the entry CSD of a clique: the index of its table in `waiting`, plus 1, and whether the clique is
/// *plain*, which means one PD with one caller. That caller is then the entry CSD, and inherits exactly what the PD has
/// below it.
#[derive(Clone, Copy, Default)]
struct Note(u32);

impl Note {
    const PLAIN: u32 = 1 << 31;
    fn is_plain(self) -> bool {
        self.0 & Self::PLAIN != 0
    }
    /// Index in `waiting`, if there is a table.
    fn place(self) -> Option<usize> {
        ((self.0 & !Self::PLAIN) as usize).checked_sub(1)
    }
}

struct Propagation<'a> {
    graph: &'a Graph<'a>,
    rule: Compensation,
    costs: Costs,
    /// Notes by clique.
    notes: IdVec<CliqueId, Note>,
    /// What the entry CSDs of other than plain cliques inherit.
    inherited: HashMap<CliqueId, Desc, BuildHasherDefault<IdHasher>>,
    /// Tables of cliques whose callers were not visited yet.
    waiting: Vec<Table>,
    /// Free indices of `waiting`.
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

    /// Handles a clique of one PD.
    fn one(&mut self, clique: CliqueId, pd: PdId) -> Result<(), DeepError> {
        let graph = self.graph;
        let ps = graph.data.pd_ps(pd);
        let (desc, mut table) = self.below(clique, pd)?;
        let plain = matches!(graph.pd_callers.few(pd), Few::One(_));
        let zeroed = graph.counted(clique, ps);
        let mut total = desc;
        if !plain || zeroed {
            for &csd in graph.pd_callers.items_of(pd) {
                add(&mut total, &graph.data.csd_own(csd).inherited())?;
            }
        }
        if zeroed {
            // By both rules this PD's total replaces what is below it.
            table.remove(ps);
            table.add(ps, &total, &mut self.pool)?;
        }
        if plain {
            self.notes[clique] = Note(Note::PLAIN | self.wait(table)?);
            return Ok(());
        }
        self.hand_up(clique, &total, table)
    }

    /// Handles a clique of several PDs.
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
            for &csd in graph.pd_callers.items_of(pd) {
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

    /// Stores what a clique that is not plain passes upwards, if anything enters it.
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

    /// Stores a table for a caller, unless it is empty. Returns its index, plus 1.
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

    /// What a PD has below it in the cliques that it enters, and their compensation table. On the way the own figures
    /// of its calls are added to call sites and callees, and what it has below it to its procedure.
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
            // Most figures are zero, and one or two of the others are inherited, so adding them one by one is cheapest.
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
