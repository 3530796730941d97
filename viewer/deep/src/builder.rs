//! Builds a profile's data node by node, in any order, checking as it goes.
//!
//! The reader feeds it from a file; generators and programs that make profiles feed it directly. [`Builder::finish`]
//! then checks what only the whole profile shows.
//!
//! Contexts mostly come before their procedures. A context makes a claim about its procedure: how many call sites of
//! which kinds and how many coverage counts it has. The claim of each procedure's first context is stored. Different
//! claims of other contexts are stored too; in the end they are errors.

use crate::small::small;
use std::collections::HashMap;

use crate::cursor::put_num;
use crate::error::{DeepError, ErrorCode, NodeRef};
use crate::figures::{Own, PackedOwn};
use crate::goal_path::GoalPath;
use crate::groups::Span;
use crate::id::{CsdId, CssId, Id, IdVec, PdId, PsId};
use crate::label::ProcLabel;
use crate::model::{Coverage, CoveragePoint, Css, DeepData, Header, MOST_NODES, PathId, PointKind, Ps, Slot};
use crate::strings::{StrId, Strings};

/// How many nodes of each kind a profile has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Call site dynamics.
    pub csd: u32,
    /// Call site statics.
    pub css: u32,
    /// Procedure dynamics.
    pub pd: u32,
    /// Procedure statics.
    pub ps: u32,
}

/// Lengths of the arenas when a node began; see [`Builder::roll_back`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    edges: usize,
    counts: usize,
    sites: usize,
    points: usize,
    ps_counts: usize,
}

/// A context's claim about its procedure.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// Kinds of its slots, in [`Builder::kinds`].
    kinds: Span,
    /// Number of its coverage counts.
    counts: u32,
}

/// Tables being filled.
#[derive(Debug)]
pub struct Builder {
    header: Header,
    pub(crate) strings: Strings,
    pub(crate) csd_callee: IdVec<CsdId, Option<PdId>>,
    csd_caller: IdVec<CsdId, Option<PdId>>,
    /// The slot of each CSD in its caller.
    csd_slot: Vec<u32>,
    pub(crate) csd_own: PackedOwn,
    pub(crate) pd_ps: IdVec<PdId, Option<PsId>>,
    /// Index in `edges` of each PD's first CSD. `edges` has the order in which the PDs were defined.
    pd_edges: Vec<u32>,
    pub(crate) edges: Vec<CsdId>,
    /// Number of PDs defined; `ascending`: whether their ids ascended.
    pds: usize,
    ascending: bool,
    pub(crate) pd_counts_start: Vec<u32>,
    pub(crate) pd_counts: Vec<u8>,
    css: IdVec<CssId, Option<Css>>,
    ps: IdVec<PsId, Option<Ps>>,
    sites: Vec<CssId>,
    points: Vec<CoveragePoint>,
    ps_counts: Vec<u64>,
    /// Whether a string, by number, is known to be a goal path.
    known_paths: Vec<bool>,
    /// For the current PD: the slot of each of its edges, and the kind of each of its slots.
    pub(crate) edge_slots: Vec<u32>,
    pub(crate) slot_kinds: Vec<u8>,
    kinds: Vec<u8>,
    /// The claim of the first PD of each PS.
    claims: Vec<Option<Claim>>,
    /// PDs with other claims.
    other_claims: Vec<(PdId, Claim)>,
    /// A CSD that is in two slots, and the PDs of these slots.
    shared: Option<(CsdId, PdId, PdId)>,
}

fn too_large(what: &str) -> DeepError {
    DeepError::new(ErrorCode::TooLarge, format!("more {what} than this program can hold"))
}

impl Builder {
    /// Empty tables of the given sizes. The caller must have checked the sizes: this allocates memory for them.
    ///
    /// # Errors
    /// `bad_id`: the root is not among the PDs; `too_large`: more than 2^31 - 1 CSDs or PDs.
    pub fn new(header: Header, strings: Strings, counts: Counts) -> Result<Self, DeepError> {
        if header.root.number() > counts.pd {
            return Err(bad_id("root pd", header.root.number(), counts.pd));
        }
        if counts.csd > MOST_NODES || counts.pd > MOST_NODES {
            return Err(too_large("contexts and calls"));
        }
        let dynamic = header.coverage == Coverage::Dynamic;
        let (csds, pds) = (counts.csd as usize, counts.pd as usize);
        Ok(Self {
            header,
            strings,
            csd_callee: IdVec::from_vec(vec![None; csds]),
            csd_caller: IdVec::from_vec(vec![None; csds]),
            csd_slot: vec![0; csds],
            csd_own: PackedOwn::with_len(csds),
            pd_ps: IdVec::from_vec(vec![None; pds]),
            pd_edges: vec![0; pds + 1],
            edges: Vec::new(),
            pds: 0,
            ascending: true,
            pd_counts_start: if dynamic { vec![0; pds] } else { Vec::new() },
            pd_counts: Vec::new(),
            css: IdVec::from_vec(vec![None; counts.css as usize]),
            ps: IdVec::from_vec(vec![None; counts.ps as usize]),
            sites: Vec::new(),
            points: Vec::new(),
            ps_counts: Vec::new(),
            known_paths: Vec::new(),
            edge_slots: Vec::new(),
            slot_kinds: Vec::new(),
            kinds: Vec::new(),
            claims: vec![None; counts.ps as usize],
            other_claims: Vec::new(),
            shared: None,
        })
    }

    /// The header given at the start.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The id of a string, added if new.
    ///
    /// # Errors
    /// `bad_string`: it has a NUL octet; `too_large`: 4 GiB are in use.
    pub fn string(&mut self, text: &[u8]) -> Result<StrId, DeepError> {
        if memchr::memchr(0, text).is_some() {
            return Err(DeepError::new(ErrorCode::BadString, "a string with a NUL octet"));
        }
        self.strings.intern(text).ok_or_else(|| too_large("strings"))
    }

    /// The id of a goal path, added if new.
    ///
    /// # Errors
    /// As [`Builder::string`]; `bad_goal_path`: it does not parse.
    pub fn path(&mut self, text: &[u8]) -> Result<PathId, DeepError> {
        let id = self.string(text)?;
        let n = id.0 as usize;
        if !self.known_paths.get(n).copied().unwrap_or(false) {
            GoalPath::check(text).map_err(|bad| DeepError::new(ErrorCode::BadGoalPath, bad.to_string()))?;
            if self.known_paths.len() <= n {
                self.known_paths.resize(n + 1, false);
            }
            self.known_paths[n] = true;
        }
        Ok(PathId(id))
    }

    /// The id with this number, if it is in the table of CSDs.
    ///
    /// # Errors
    /// `bad_id`
    pub fn csd_id(&self, number: u64) -> Result<CsdId, DeepError> {
        within("csd", number, self.csd_callee.len())
    }
    /// The id with this number, if it is in the table of PDs.
    ///
    /// # Errors
    /// `bad_id`
    pub fn pd_id(&self, number: u64) -> Result<PdId, DeepError> {
        within("pd", number, self.pd_ps.len())
    }
    /// The id with this number, if it is in the table of CSSs.
    ///
    /// # Errors
    /// `bad_id`
    pub fn css_id(&self, number: u64) -> Result<CssId, DeepError> {
        within("css", number, self.css.len())
    }
    /// The id with this number, if it is in the table of PSs.
    ///
    /// # Errors
    /// `bad_id`
    pub fn ps_id(&self, number: u64) -> Result<PsId, DeepError> {
        within("ps", number, self.ps.len())
    }

    /// Defines a CSD.
    ///
    /// # Errors
    /// `duplicate_node`, `too_large`; `number_too_large`: a figure is negative.
    pub fn csd(&mut self, id: CsdId, callee: PdId, own: &Own) -> Result<(), DeepError> {
        let slot = &mut self.csd_callee[id];
        if slot.is_some() {
            return Err(duplicate(NodeRef::Csd(id)));
        }
        *slot = Some(callee);
        if own.as_array().iter().any(|&v| v < 0) {
            let error = DeepError::new(ErrorCode::NumberTooLarge, "a negative figure");
            return Err(error.node(NodeRef::Csd(id)));
        }
        if !self.csd_own.set(id.index(), &own.as_array()) {
            return Err(too_large("figures"));
        }
        Ok(())
    }

    /// Adds a slot to the current PD; see [`Builder::pd`].
    pub(crate) fn slot(&mut self, slot: Slot<'_>) {
        let number = small(self.slot_kinds.len());
        for csd in slot.csds() {
            self.edges.push(csd);
            self.edge_slots.push(number);
        }
        self.slot_kinds.push(slot.kind().number());
    }

    /// Adds a coverage count to the current PD; see [`Builder::pd`].
    pub(crate) fn count(&mut self, value: u64) {
        put_num(&mut self.pd_counts, value);
    }

    /// Defines a PD with what was passed to [`Builder::slot`] and (`counts` times) [`Builder::count`] since `since`.
    ///
    /// # Errors
    /// `duplicate_node`, `too_large`
    #[inline]
    pub(crate) fn pd_since(
        &mut self,
        since: &Mark,
        id: PdId,
        ps: PsId,
        counts: u32,
    ) -> Result<(), DeepError> {
        if self.pd_ps[id].is_some() {
            return Err(duplicate(NodeRef::Pd(id)));
        }
        let place = |n: usize| u32::try_from(n).map_err(|_| too_large("call sites or counts"));
        let (first_edge, first_count) = (place(since.edges)?, place(since.counts)?);
        match self.claims[ps.index()] {
            Some(claim) if claim.counts == counts && claim.kinds.slice_of(&self.kinds) == self.slot_kinds => {
            }
            claim => {
                let kinds = span(self.kinds.len(), self.kinds.len() + self.slot_kinds.len())?;
                self.kinds.extend_from_slice(&self.slot_kinds);
                let new = Claim { kinds, counts };
                if claim.is_some() {
                    self.other_claims.push((id, new));
                } else {
                    self.claims[ps.index()] = Some(new);
                }
            }
        }
        self.pd_ps.as_mut_slice()[id.index()] = Some(ps);
        self.ascending &= id.index() == self.pds;
        self.pds += 1;
        self.pd_edges[id.index()] = first_edge;
        for (&csd, &slot) in self.edges[since.edges..].iter().zip(&self.edge_slots) {
            if let Some(other) = self.csd_caller[csd].replace(id) {
                self.shared.get_or_insert((csd, other, id));
            }
            self.csd_slot[csd.index()] = slot;
        }
        if let Some(start) = self.pd_counts_start.get_mut(id.index()) {
            *start = first_count;
        }
        self.edge_slots.clear();
        self.slot_kinds.clear();
        Ok(())
    }

    /// Defines a PD.
    ///
    /// # Errors
    /// `duplicate_node`, `too_large`
    pub fn pd(&mut self, id: PdId, ps: PsId, slots: &[Slot<'_>], counts: &[u64]) -> Result<(), DeepError> {
        let since = self.mark();
        for &slot in slots {
            self.slot(slot);
        }
        for &count in counts {
            self.count(count);
        }
        self.pd_since(&since, id, ps, small(counts.len()))
    }

    /// Defines a CSS.
    ///
    /// # Errors
    /// `duplicate_node`
    pub fn css(&mut self, id: CssId, css: Css) -> Result<(), DeepError> {
        let place = &mut self.css[id];
        if place.is_some() {
            return Err(duplicate(NodeRef::Css(id)));
        }
        *place = Some(css);
        Ok(())
    }

    /// Adds a call site to the current PS.
    pub(crate) fn site(&mut self, site: CssId) {
        self.sites.push(site);
    }

    /// Adds a coverage point, and its count if coverage is static, to the current PS.
    pub(crate) fn point(&mut self, point: CoveragePoint, count: u64) {
        self.points.push(point);
        if self.header.coverage == Coverage::Static {
            self.ps_counts.push(count);
        }
    }

    /// Defines a PS with the sites and points added since `since`.
    ///
    /// # Errors
    /// `duplicate_node`, `too_large`
    pub(crate) fn ps_since(&mut self, since: &Mark, id: PsId, proc: ProcStatic) -> Result<(), DeepError> {
        let sites = span(since.sites, self.sites.len())?;
        let points = span(since.points, self.points.len())?;
        let place = &mut self.ps[id];
        if place.is_some() {
            return Err(duplicate(NodeRef::Ps(id)));
        }
        *place = Some(Ps {
            label: proc.label,
            file: proc.file,
            line: proc.line,
            in_interface: proc.in_interface,
            sites,
            points,
        });
        Ok(())
    }

    /// Defines a PS. `counts` are used with static coverage only, one for each point (0 if short).
    ///
    /// # Errors
    /// `duplicate_node`, `too_large`
    pub fn ps(
        &mut self,
        id: PsId,
        proc: ProcStatic,
        sites: &[CssId],
        points: &[(PathId, PointKind)],
        counts: &[u64],
    ) -> Result<(), DeepError> {
        let since = self.mark();
        self.sites.extend_from_slice(sites);
        for (i, &(path, kind)) in points.iter().enumerate() {
            self.point(CoveragePoint { path, kind }, counts.get(i).copied().unwrap_or(0));
        }
        self.ps_since(&since, id, proc)
    }

    pub(crate) fn ps_len(&self) -> usize {
        self.ps.len()
    }

    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            edges: self.edges.len(),
            counts: self.pd_counts.len(),
            sites: self.sites.len(),
            points: self.points.len(),
            ps_counts: self.ps_counts.len(),
        }
    }

    /// Removes the parts of a node that was not completed.
    pub(crate) fn roll_back(&mut self, mark: &Mark) {
        self.edges.truncate(mark.edges);
        self.edge_slots.clear();
        self.slot_kinds.clear();
        self.pd_counts.truncate(mark.counts);
        self.sites.truncate(mark.sites);
        self.points.truncate(mark.points);
        self.ps_counts.truncate(mark.ps_counts);
    }

    /// The finished data.
    ///
    /// # Errors
    /// `missing_nodes`; `site_mismatch`: a PD's slots do not agree with its procedure's call sites
    /// in number or kind; `coverage_mismatch`: nor its counts with the coverage points;
    /// `shared_csd`, `orphan_csd`: a CSD is not in exactly one slot;
    /// `shared_css`: a CSS is in two procedures, or twice in one.
    pub fn finish(self) -> Result<DeepData, DeepError> {
        let Self {
            header,
            strings,
            csd_callee,
            csd_caller,
            csd_slot,
            mut csd_own,
            pd_ps,
            mut pd_edges,
            mut edges,
            ascending,
            pd_counts_start,
            mut pd_counts,
            css,
            ps,
            mut sites,
            mut points,
            mut ps_counts,
            kinds,
            claims,
            other_claims,
            shared,
            ..
        } = self;
        let csd_callee = all_defined("csd", csd_callee)?;
        let pd_ps = all_defined("pd", pd_ps)?;
        let css = all_defined("css", css)?;
        let ps = all_defined("ps", ps)?;

        let statics =
            Statics { css: &css, ps: &ps, sites: &sites, dynamic: header.coverage == Coverage::Dynamic };
        statics.check(&pd_ps, &claims, &other_claims, &kinds)?;
        drop((claims, other_claims, kinds));
        if let Some((csd, one, other)) = shared {
            let message = format!("in a slot of pd {one} and in one of pd {other}");
            return Err(DeepError::new(ErrorCode::SharedCsd, message).node(NodeRef::Csd(csd)));
        }
        if let Some(csd) = csd_caller.as_slice().iter().position(Option::is_none) {
            let error = DeepError::new(ErrorCode::OrphanCsd, "in no context's slots");
            return Err(error.node(NodeRef::Csd(CsdId::at(csd))));
        }
        statics.check_sites()?;
        let all = "a missing one was looked for";
        let csd_caller: IdVec<CsdId, PdId> =
            IdVec::from_vec(csd_caller.into_vec().into_iter().map(|c| c.expect(all)).collect());
        let mut callers = csd_caller.as_slice().iter();
        let site = |slot: u32| {
            let caller = *callers.next().expect("there are as many as slots");
            ps[pd_ps[caller]].sites.slice_of(&sites)[slot as usize]
        };
        let csd_css = IdVec::from_vec(csd_slot.into_iter().map(site).collect());
        // Each CSD is in one slot, so there are as many edges as CSDs, which are fewer than 2^31.
        if ascending {
            pd_edges[pd_ps.len()] = small(edges.len());
        } else {
            by_caller(&mut pd_edges, &mut edges, &csd_caller);
        }
        csd_own.shrink();
        edges.shrink_to_fit();
        pd_counts.shrink_to_fit();
        sites.shrink_to_fit();
        points.shrink_to_fit();
        ps_counts.shrink_to_fit();
        Ok(DeepData {
            header,
            strings,
            csd_callee,
            csd_caller,
            csd_css,
            csd_own,
            pd_ps,
            pd_edges,
            edges,
            pd_counts_start,
            pd_counts,
            css,
            ps,
            sites,
            points,
            ps_counts,
            native: false,
        })
    }
}

/// Sorts edges by caller. Edges of one caller keep their order.
fn by_caller(starts: &mut [u32], edges: &mut Vec<CsdId>, caller: &IdVec<CsdId, PdId>) {
    starts.fill(0);
    for &pd in caller.as_slice() {
        starts[pd.index() + 1] += 1;
    }
    let mut sum = 0;
    for start in starts.iter_mut() {
        sum += *start;
        *start = sum;
    }
    let mut next = starts.to_vec();
    let mut sorted = edges.clone();
    for &csd in edges.iter() {
        let at = &mut next[caller[csd].index()];
        sorted[*at as usize] = csd;
        *at += 1;
    }
    *edges = sorted;
}

/// Procedures and call sites, with which contexts are compared.
struct Statics<'a> {
    css: &'a IdVec<CssId, Css>,
    ps: &'a IdVec<PsId, Ps>,
    sites: &'a [CssId],
    dynamic: bool,
}

impl Statics<'_> {
    /// What is wrong with a context's claim about its procedure.
    fn fault(&self, p: PsId, claim: &Claim, kinds: &[u8]) -> Option<DeepError> {
        let proc = &self.ps[p];
        let found = claim.kinds.slice_of(kinds);
        if found.len() != proc.sites.len as usize {
            return Some(DeepError::new(
                ErrorCode::SiteMismatch,
                format!("{} call site slots, but ps {p} has {} call sites", found.len(), proc.sites.len),
            ));
        }
        for (k, (&found, &site)) in found.iter().zip(proc.sites.slice_of(self.sites)).enumerate() {
            let wanted = self.css[site].kind.kind().number();
            if found != wanted {
                return Some(DeepError::new(
                    ErrorCode::SiteMismatch,
                    format!("slot {k} has kind {found}, but css {site} has kind {wanted}"),
                ));
            }
        }
        if self.dynamic && claim.counts != proc.points.len {
            let message = format!(
                "{} coverage counts, but ps {p} has {} coverage points",
                claim.counts, proc.points.len
            );
            return Some(DeepError::new(ErrorCode::CoverageMismatch, message));
        }
        None
    }

    /// Finds the first context that does not agree with its procedure.
    fn check(
        &self,
        pd_ps: &IdVec<PdId, PsId>,
        claims: &[Option<Claim>],
        others: &[(PdId, Claim)],
        kinds: &[u8],
    ) -> Result<(), DeepError> {
        let faults: HashMap<PsId, DeepError> = claims
            .iter()
            .enumerate()
            .filter_map(|(i, claim)| Some((PsId::at(i), self.fault(PsId::at(i), claim.as_ref()?, kinds)?)))
            .collect();
        if faults.is_empty() && others.is_empty() {
            return Ok(());
        }
        let others: HashMap<PdId, &Claim> = others.iter().map(|(pd, claim)| (*pd, claim)).collect();
        for (pd, &p) in pd_ps.iter() {
            let fault = match others.get(&pd) {
                Some(claim) => self.fault(p, claim, kinds),
                None => faults.get(&p).cloned(),
            };
            if let Some(fault) = fault {
                return Err(fault.node(NodeRef::Pd(pd)));
            }
        }
        // Two contexts with different claims cannot both agree with their procedure.
        Ok(())
    }

    /// Checks that each call site is in at most one slot.
    fn check_sites(&self) -> Result<(), DeepError> {
        let mut container: Vec<Option<PsId>> = vec![None; self.css.len()];
        for (ps, proc) in self.ps.iter() {
            for &css in proc.sites.slice_of(self.sites) {
                if let Some(other) = container[css.index()].replace(ps) {
                    let message = format!("listed by ps {other} and by ps {ps}");
                    return Err(DeepError::new(ErrorCode::SharedCss, message).node(NodeRef::Css(css)));
                }
            }
        }
        Ok(())
    }
}

/// The parts of a PS that are no lists, for [`Builder::ps`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcStatic {
    /// Its label.
    pub label: ProcLabel<StrId>,
    /// Source file.
    pub file: StrId,
    /// Line number.
    pub line: u32,
    /// Whether it is in its module's interface.
    pub in_interface: bool,
}

fn span(start: usize, end: usize) -> Result<Span, DeepError> {
    let start = u32::try_from(start).map_err(|_| too_large("call sites or counts"))?;
    let end = u32::try_from(end).map_err(|_| too_large("call sites or counts"))?;
    Ok(Span { start, len: end - start })
}

fn bad_id(what: &str, number: impl std::fmt::Display, count: impl std::fmt::Display) -> DeepError {
    DeepError::new(ErrorCode::BadId, format!("{what} {number} is not among 1 to {count}"))
}

fn within<I: Id>(what: &str, number: u64, count: usize) -> Result<I, DeepError> {
    u32::try_from(number)
        .ok()
        .filter(|&n| n as usize <= count)
        .and_then(I::new)
        .ok_or_else(|| bad_id(what, number, count))
}

fn duplicate(node: NodeRef) -> DeepError {
    DeepError::new(ErrorCode::DuplicateNode, "defined twice").node(node)
}

fn all_defined<I: Id, T>(what: &str, table: IdVec<I, Option<T>>) -> Result<IdVec<I, T>, DeepError> {
    let missing = table.as_slice().iter().filter(|t| t.is_none()).count();
    if missing > 0 {
        let first = table.as_slice().iter().position(Option::is_none).map_or(0, |i| i + 1);
        return Err(DeepError::new(
            ErrorCode::MissingNodes,
            format!("{missing} of {} {what} nodes are missing, the first is {what} {first}", table.len()),
        ));
    }
    let all = "the missing ones were counted above";
    Ok(IdVec::from_vec(table.into_vec().into_iter().map(|t| t.expect(all)).collect()))
}
