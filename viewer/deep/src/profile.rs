//! The preprocessed profile: the data of the file, the links that follow from it, and all costs.
//!
//! Values that are cheap to compute are not stored: a PD's own figures are summed from the CSDs that enter it, and a
//! CSD's desc comes from the clique that it enters.

use crate::small::small;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Deref;

use crate::cliques::{self, Cliques, Entries};
use crate::error::{DeepError, ErrorCode, NodeRef, Warning};
use crate::figures::{Desc, Own};
use crate::groups::{Few, Groups, Mostly1};
use crate::id::{CliqueId, CsdId, CssId, Id, IdVec, ModuleId, PdId, PsId, ids_to};
use crate::label::BadName;
use crate::model::{Coverage, DeepData};
pub use crate::propagate::Figures;
use crate::propagate::{Compensation, Costs, Graph, overflow, propagate};

#[derive(Clone, Debug)]
struct Module {
    name: Vec<u8>,
    procs: Vec<PsId>,
    figures: Figures,
}

/// A preprocessed deep profile.
///
/// Dereferences to its [`DeepData`]. Accessors that take an id panic if it is beyond its table.
#[derive(Clone, Debug)]
pub struct Profile {
    data: DeepData,
    rule: Compensation,
    warnings: Vec<Warning>,

    css_place: IdVec<CssId, (PsId, u32)>,
    zeroed: IdVec<PsId, bool>,
    pd_callers: Mostly1<PdId, CsdId>,
    ps_pds: Groups<PsId, PdId>,
    cliques: Cliques,
    entries: Entries,
    costs: Costs,

    modules: IdVec<ModuleId, Module>,
    ps_module: IdVec<PsId, ModuleId>,
    /// Sums of coverage counts, as many as all procedures have points; empty without coverage.
    coverage: Vec<i64>,
    /// Quanta with a procedure anywhere on the stack, by procedure; empty: unknown.
    stacked: Vec<i64>,
}

impl Deref for Profile {
    type Target = DeepData;
    fn deref(&self) -> &DeepData {
        &self.data
    }
}

impl Profile {
    /// Preprocesses a profile's data.
    ///
    /// # Errors
    /// `shared_css`, `orphan_css`: a call site is not in exactly one procedure;
    /// `overflow`: sums do not fit in 63 bits.
    pub fn new(data: DeepData, rule: Compensation) -> Result<Self, DeepError> {
        Self::preprocessed(data, rule, false)
    }

    /// The same for data whose contexts were folded by the creator rule: a call leads to the context of its procedure
    /// among the caller and its creators, or else to a new one. So every call leads to a context that it creates or
    /// back to one above it, and the procedure of a clique of one context does not occur again below it: only
    /// procedures of larger cliques need compensation. For other data the figures would be wrong.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_creator_rule(data: DeepData, rule: Compensation) -> Result<Self, DeepError> {
        Self::preprocessed(data, rule, true)
    }

    fn preprocessed(data: DeepData, rule: Compensation, by_creators: bool) -> Result<Self, DeepError> {
        let css_place = places_of_sites(&data)?;

        let ps_pds = Groups::by(data.ps_count(), data.pd_count(), |pd| data.pd_ps(pd));
        let zeroed = IdVec::from_vec(
            data.pss()
                .map(|ps| {
                    !ps_pds.items_of(ps).is_empty()
                        && data.sites(ps).iter().any(|&s| data.css(s).kind.kind().is_zeroing())
                })
                .collect(),
        );
        let cliques = cliques::find(&data);
        let pd_callers = Mostly1::by(data.pd_count(), data.csd_count(), |c| data.csd_callee(c));
        let entries = Entries::new(&data, &cliques, &pd_callers);
        let (mut compensated, mut watched) = (zeroed.clone(), None);
        if by_creators {
            let larger = |pd: &PdId| matches!(cliques.members.few(cliques.of[*pd]), Few::List(_));
            for ps in data.pss().filter(|&ps| zeroed[ps]) {
                compensated[ps] = ps_pds.items_of(ps).iter().any(larger);
            }
            let entry = |clique| entries.entry_of_clique(&data, &cliques, &pd_callers, clique);
            watched = Some(in_or_below_larger(&data, &cliques, entry));
        }
        let costs = propagate(
            &Graph {
                data: &data,
                pd_callers: &pd_callers,
                cliques: &cliques,
                entries: &entries,
                zeroed: &compensated,
                watched: watched.as_ref(),
            },
            rule,
        )?;
        let mut profile = Self {
            rule,
            warnings: name_warnings(&data),
            css_place,
            zeroed,
            pd_callers,
            ps_pds,
            cliques,
            entries,
            costs,
            modules: IdVec::new(),
            ps_module: IdVec::new(),
            coverage: Vec::new(),
            stacked: Vec::new(),
            data,
        };
        profile.sum_coverage()?;
        profile.make_modules(Vec::new())?;
        Ok(profile)
    }

    /// Marks the program as a native one (as the `.native` file beside the data says): names are shown without arity
    /// and mode, and what has time counts as active.
    pub fn set_native(&mut self) {
        self.data.native = true;
    }
    /// Sets how many quanta have each procedure anywhere on the stack. A recording of stacks knows that, while folded
    /// contexts do not. The desc of a procedure is then this number less its own quanta. Ignored (returns false) unless
    /// there is a number for each procedure, none below its own quanta or above the program's.
    pub fn set_stacked(&mut self, stacked: Vec<i64>) -> bool {
        let whole = self.root_total().quanta;
        let fits = |(ps, &n): (PsId, &i64)| self.costs.ps.get(ps).own.quanta <= n && n <= whole;
        let fit = stacked.len() == self.data.ps_count() && self.data.pss().zip(&stacked).all(fits);
        if fit {
            self.stacked = stacked;
        }
        fit
    }
    /// The cost by which rows are ranked by default: call sequence numbers, which are the same in every run; for a
    /// native program its time, since nothing else is known.
    pub fn main_cost(&self, cost: &Desc) -> i64 {
        if self.data.native && cost.callseqs == 0 { cost.quanta } else { cost.callseqs }
    }
    /// Stores what the side file of a native program says. Returns false if its figures of procedures belong to another
    /// profile.
    pub fn set_native_facts(&mut self, side: &crate::native::Side) -> bool {
        self.set_native();
        let stacked = side.functions.iter().map(|f| i64::try_from(f.stacked_ns).unwrap_or(-1)).collect();
        side.functions.is_empty() || self.set_stacked(stacked)
    }
    /// The data as it is in the file.
    pub fn data(&self) -> &DeepData {
        &self.data
    }
    /// The rule by which recursion was compensated.
    pub fn compensation(&self) -> Compensation {
        self.rule
    }
    /// Oddities that do not prevent showing the profile.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    // Links.

    /// The clique that a CSD enters; `None` if it stays in its caller's.
    pub fn csd_child_clique(&self, csd: CsdId) -> Option<CliqueId> {
        let callee = self.cliques.of[self.data.csd_callee(csd)];
        (callee != self.cliques.of[self.data.csd_caller(csd)]).then_some(callee)
    }
    /// The procedure that contains a call site.
    pub fn css_container(&self, css: CssId) -> PsId {
        self.css_place[css].0
    }
    /// The call site's index in its procedure, from 0.
    pub fn css_slot(&self, css: CssId) -> usize {
        self.css_place[css].1 as usize
    }
    /// The file of a call site: its own, or its procedure's.
    pub fn css_file(&self, css: CssId) -> Cow<'_, str> {
        let own = self.data.css(css).file;
        if own == crate::Strings::EMPTY {
            self.data.text(self.data.ps(self.css_container(css)).file)
        } else {
            self.data.text(own)
        }
    }
    /// All CSDs of a call site, by ascending caller, then in the file's order.
    pub fn css_csds(&self, css: CssId) -> impl Iterator<Item = CsdId> + '_ {
        let of_site = move |&csd: &CsdId| self.data.csd_css(csd) == css;
        self.ps_pds.items_of(self.css_container(css)).iter().flat_map(move |&pd| {
            self.data.csds_of_pd(pd).skip_while(move |c| !of_site(c)).take_while(of_site)
        })
    }
    /// Whether a procedure hides itself from recursion checks: it was called and has higher order
    /// or method call sites.
    pub fn is_zeroed(&self, ps: PsId) -> bool {
        self.zeroed[ps]
    }
    /// The contexts of a procedure, ascending.
    pub fn ps_pds(&self, ps: PsId) -> &[PdId] {
        self.ps_pds.items_of(ps)
    }
    /// The CSDs that lead to a context, ascending.
    pub fn pd_callers(&self, pd: PdId) -> &[CsdId] {
        self.pd_callers.items_of(pd)
    }
    /// The CSDs that lead to a context.
    #[inline]
    pub(crate) fn few_callers(&self, pd: PdId) -> Few<CsdId> {
        self.pd_callers.few(pd)
    }

    // Cliques.

    /// How many cliques there are.
    pub fn clique_count(&self) -> usize {
        self.cliques.members.keys()
    }
    /// All cliques, callees before callers.
    pub fn cliques(&self) -> impl DoubleEndedIterator<Item = CliqueId> + ExactSizeIterator + use<> {
        ids_to(self.clique_count())
    }
    /// The clique with a number from outside, if it exists.
    pub fn clique_id(&self, number: i64) -> Option<CliqueId> {
        let n = u32::try_from(number).ok()?;
        CliqueId::new(n).filter(|_| n as usize <= self.clique_count())
    }
    /// The clique of a context.
    pub fn pd_clique(&self, pd: PdId) -> CliqueId {
        self.cliques.of[pd]
    }
    /// The root's clique.
    pub fn root_clique(&self) -> CliqueId {
        self.cliques.of[self.data.root()]
    }
    /// The contexts of a clique, ascending; at least one.
    pub fn clique_members(&self, clique: CliqueId) -> &[PdId] {
        self.cliques.members.items_of(clique)
    }
    /// The CSD that enters a clique; `None` for the root's.
    pub fn clique_entry(&self, clique: CliqueId) -> Option<CsdId> {
        self.entries.entry_of_clique(&self.data, &self.cliques, &self.pd_callers, clique)
    }
    /// The context by which a clique is entered: the callee of its entry CSD, or the root.
    pub fn clique_entry_pd(&self, clique: CliqueId) -> PdId {
        match self.clique_entry(clique) {
            Some(csd) => self.data.csd_callee(csd),
            None if clique == self.root_clique() => self.data.root(),
            None => self.clique_members(clique)[0],
        }
    }

    // Costs.

    /// Own figures of a context: those of the CSDs that lead to it. The root's are zero.
    pub fn pd_own(&self, pd: PdId) -> Own {
        self.pd_callers(pd).iter().map(|&c| self.data.csd_own(c)).sum()
    }
    /// The cost of the cliques that a context itself enters.
    pub fn pd_desc(&self, pd: PdId) -> Desc {
        self.costs.pd_desc.get(pd.index())
    }
    /// Own and desc of a context.
    pub fn pd_total(&self, pd: PdId) -> Desc {
        self.pd_own(pd).total(&self.pd_desc(pd))
    }
    /// What a CSD inherits from the clique that it enters; zero if it stays in its caller's.
    pub fn csd_desc(&self, csd: CsdId) -> Desc {
        let callee = self.data.csd_callee(csd);
        let clique = self.cliques.of[callee];
        if self.clique_entry(clique) != Some(csd) {
            return Desc::default();
        }
        if self.clique_members(clique).len() == 1 && self.pd_callers.few(callee) == Few::One(csd) {
            return self.pd_desc(callee);
        }
        self.clique_total(clique) - self.data.csd_own(csd).inherited()
    }
    /// Own and desc of a CSD.
    pub fn csd_total(&self, csd: CsdId) -> Desc {
        self.data.csd_own(csd).total(&self.csd_desc(csd))
    }
    /// The compensation table's entry of a CSD for the procedure of its caller: what to subtract from its desc when
    /// CSDs of that procedure's call sites are summed.
    pub fn csd_comp(&self, csd: CsdId) -> Desc {
        self.costs.csd_comp.get(csd.number())
    }
    /// The compensation table's entry of a context for a procedure *of its own clique* (other entries are not stored,
    /// and read as zero): what to subtract from its desc when contexts of that procedure are summed.
    pub fn pd_comp(&self, pd: PdId, ps: PsId) -> Desc {
        if self.data.pd_ps(pd) == ps {
            return self.data.csds_of_pd(pd).map(|c| self.csd_comp(c)).sum();
        }
        self.costs.pd_comp.get((pd, ps))
    }
    /// Cost of a CSD as a caller of procedure `ps`, for sums over callers: own figures, and desc less the compensation
    /// in the callee's clique. Direct self calls (caller and callee are the same context) are left out of such sums:
    /// `None`.
    pub fn call_cost(&self, csd: CsdId, ps: PsId) -> Option<Figures> {
        let callee = self.data.csd_callee(csd);
        if callee == self.data.csd_caller(csd) {
            return None;
        }
        let members = self.clique_members(self.cliques.of[callee]);
        // Only procedures with closure or method calls are in any table.
        let comp: Desc = if self.zeroed[ps] {
            members.iter().map(|&pd| self.pd_comp(pd, ps)).sum()
        } else {
            Desc::default()
        };
        Some(Figures { own: self.data.csd_own(csd), desc: self.csd_desc(csd) - comp })
    }
    /// Figures of a procedure.
    pub fn ps_figures(&self, ps: PsId) -> Figures {
        let mut figures = self.costs.ps.get(ps);
        if let Some(stacked) = self.stacked.get(ps.index()) {
            figures.desc.quanta = stacked - figures.own.quanta;
        }
        figures
    }
    /// Own figures of a procedure.
    pub fn ps_own(&self, ps: PsId) -> Own {
        self.costs.ps.get(ps).own
    }
    /// Desc of a procedure.
    pub fn ps_desc(&self, ps: PsId) -> Desc {
        self.ps_figures(ps).desc
    }
    /// Figures of a call site. Its desc may be negative (a procedure that calls itself through a closure), but own +
    /// desc is never negative.
    pub fn css_figures(&self, css: CssId) -> Figures {
        self.costs.css.get(css)
    }
    /// Own figures of a call site.
    pub fn css_own(&self, css: CssId) -> Own {
        self.costs.css.get(css).own
    }
    /// Desc of a call site.
    pub fn css_desc(&self, css: CssId) -> Desc {
        self.costs.css.get(css).desc
    }
    /// Own and desc of all members of a clique: the cost of it and everything below it.
    pub fn clique_total(&self, clique: CliqueId) -> Desc {
        match self.clique_members(clique) {
            &[pd] => self.pd_total(pd),
            _ => self.costs.big_clique_total.get(&clique).copied().unwrap_or_default(),
        }
    }
    /// Own and desc of a clique: the sums over its members.
    pub fn clique_figures(&self, clique: CliqueId) -> Figures {
        let members = self.clique_members(clique);
        Figures {
            own: members.iter().map(|&pd| self.pd_own(pd)).sum(),
            desc: members.iter().map(|&pd| self.pd_desc(pd)).sum(),
        }
    }
    /// The program's cost: own and desc of the root context. The denominator of percentages.
    pub fn root_total(&self) -> Desc {
        self.pd_total(self.data.root())
    }

    // Coverage.

    /// Counts of a procedure's coverage points, in the order of the points: the sums over its contexts, or the file's
    /// own counts. `None` without coverage, and with dynamic coverage for a procedure that was never called.
    pub fn ps_coverage(&self, ps: PsId) -> Option<&[i64]> {
        match self.data.header().coverage {
            Coverage::None => None,
            Coverage::Dynamic if self.ps_pds(ps).is_empty() => None,
            Coverage::Dynamic | Coverage::Static => Some(self.data.ps(ps).points.slice_of(&self.coverage)),
        }
    }

    // Modules.

    /// All modules, by name in octet order.
    pub fn modules(&self) -> impl DoubleEndedIterator<Item = ModuleId> + ExactSizeIterator + use<> {
        self.modules.ids()
    }
    /// The module with a name.
    pub fn module_id(&self, name: &str) -> Option<ModuleId> {
        self.modules
            .as_slice()
            .binary_search_by(|m| m.name.as_slice().cmp(name.as_bytes()))
            .ok()
            .map(ModuleId::at)
    }
    /// The name of a module.
    pub fn module_name(&self, module: ModuleId) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.modules[module].name)
    }
    /// The procedures of a module, ascending. None if only the program representation has the module.
    pub fn module_procs(&self, module: ModuleId) -> &[PsId] {
        &self.modules[module].procs
    }
    /// Sums over the procedures of a module, without compensation: its desc includes calls to its
    /// own procedures.
    pub fn module_figures(&self, module: ModuleId) -> Figures {
        self.modules[module].figures
    }
    /// The module of a procedure.
    pub fn ps_module(&self, ps: PsId) -> ModuleId {
        self.ps_module[ps]
    }
    /// Adds modules that only the program representation has. Module ids change.
    ///
    /// # Errors
    /// None in practice: sums that fitted before fit again.
    pub fn add_modules<'a>(&mut self, names: impl IntoIterator<Item = &'a [u8]>) -> Result<(), DeepError> {
        self.make_modules(names.into_iter().map(<[u8]>::to_vec).collect())
    }

    /// Octets that the profile uses on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.data.heap_bytes()
            + self.css_place.len() * 8
            + self.zeroed.len() * 5
            + self.pd_callers.heap_bytes()
            + self.ps_pds.heap_bytes()
            + self.cliques.of.len() * 4
            + self.cliques.members.heap_bytes()
            + self.entries.heap_bytes()
            + self.costs.pd_desc.heap_bytes()
            + self.costs.big_clique_total.capacity() * 48
            + self.costs.csd_comp.heap_bytes()
            + self.costs.pd_comp.heap_bytes()
            + self.costs.ps.heap_bytes()
            + self.costs.css.heap_bytes()
            + self.coverage.capacity() * 8
    }

    fn sum_coverage(&mut self) -> Result<(), DeepError> {
        let too_much = || overflow("coverage counts");
        match self.data.header().coverage {
            Coverage::None => {}
            Coverage::Static => {
                self.coverage = self
                    .data
                    .ps_counts
                    .iter()
                    .map(|&n| i64::try_from(n).map_err(|_| too_much()))
                    .collect::<Result<_, _>>()?;
            }
            Coverage::Dynamic => {
                self.coverage = vec![0; self.data.points.len()];
                for pd in self.data.pds() {
                    let span = self.data.ps(self.data.pd_ps(pd)).points;
                    let sums = &mut self.coverage[span.start as usize..][..span.len as usize];
                    for (sum, count) in sums.iter_mut().zip(self.data.pd_coverage(pd)) {
                        *sum = i64::try_from(count)
                            .ok()
                            .and_then(|n| sum.checked_add(n))
                            .ok_or_else(too_much)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn make_modules(&mut self, extra: Vec<Vec<u8>>) -> Result<(), DeepError> {
        let data = &self.data;
        let octets = |ps: PsId| data.strings().octets(*data.ps(ps).label.module());
        let mut names: Vec<Vec<u8>> =
            self.modules.as_slice().iter().map(|m| m.name.clone()).chain(extra).collect();
        let mut last = None;
        for ps in data.pss() {
            let module = *data.ps(ps).label.module();
            if last != Some(module) {
                names.push(octets(ps).to_vec());
                last = Some(module);
            }
        }
        names.sort_unstable();
        names.dedup();
        let by_name: HashMap<&[u8], ModuleId> =
            names.iter().enumerate().map(|(i, n)| (n.as_slice(), ModuleId::at(i))).collect();
        self.ps_module = IdVec::from_vec(data.pss().map(|ps| by_name[octets(ps)]).collect());
        let mut modules: IdVec<ModuleId, Module> = IdVec::from_vec(
            names
                .iter()
                .map(|name| Module { name: name.clone(), procs: Vec::new(), figures: Figures::default() })
                .collect(),
        );
        for ps in data.pss() {
            let module = &mut modules[self.ps_module[ps]];
            module.procs.push(ps);
            let figures = self.costs.ps.get(ps);
            let sum = &mut module.figures;
            sum.own = sum.own.checked_add(&figures.own).ok_or_else(|| overflow("module"))?;
            sum.desc = sum.desc.checked_add(&figures.desc).ok_or_else(|| overflow("module"))?;
        }
        self.modules = modules;
        Ok(())
    }
}

fn places_of_sites(data: &DeepData) -> Result<IdVec<CssId, (PsId, u32)>, DeepError> {
    let mut places: IdVec<CssId, Option<(PsId, u32)>> = IdVec::from_vec(vec![None; data.css_count()]);
    for ps in data.pss() {
        for (slot, &css) in data.sites(ps).iter().enumerate() {
            if let Some((other, _)) = places[css].replace((ps, small(slot))) {
                return Err(DeepError::new(
                    ErrorCode::SharedCss,
                    format!("listed by ps {other} and by ps {ps}"),
                )
                .node(NodeRef::Css(css)));
            }
        }
    }
    for (css, place) in places.iter() {
        if place.is_none() {
            return Err(DeepError::new(ErrorCode::OrphanCss, "no procedure lists it").node(NodeRef::Css(css)));
        }
    }
    let all = "each was looked at above";
    Ok(IdVec::from_vec(places.into_vec().into_iter().map(|p| p.expect(all)).collect()))
}

/// The cliques of several contexts and all that are below them.
fn in_or_below_larger(
    data: &DeepData,
    cliques: &Cliques,
    entry: impl Fn(CliqueId) -> Option<CsdId>,
) -> IdVec<CliqueId, bool> {
    let count = cliques.members.keys();
    let mut found = IdVec::from_vec(vec![false; count]);
    // callers' cliques have larger numbers
    for clique in ids_to::<CliqueId>(count).rev() {
        found[clique] = matches!(cliques.members.few(clique), Few::List(_))
            || entry(clique).is_some_and(|csd| found[cliques.of[data.csd_caller(csd)]]);
    }
    found
}

fn name_warnings(data: &DeepData) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for ps in data.pss() {
        if let Err(bad) = data.label(ps).unqualified_name() {
            let bad: BadName = bad;
            warnings.push(Warning {
                code: bad.code(),
                node: Some(NodeRef::Ps(ps)),
                message: bad.to_string(),
            });
        }
    }
    warnings
}
