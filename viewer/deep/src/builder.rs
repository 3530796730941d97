//! Builds a profile's data node by node, in any order, checking as it goes.
//!
//! The reader feeds it from a file; generators and programs that make profiles feed it directly.
//! [`Builder::finish`] then checks what only the whole can show.

use crate::cursor::put_num;
use crate::error::{DeepError, ErrorCode, NodeRef};
use crate::figures::{Own, PackedOwn};
use crate::goal_path::GoalPath;
use crate::id::{CsdId, CssId, Id, IdVec, PdId, PsId};
use crate::label::ProcLabel;
use crate::model::{
    Coverage, CoveragePoint, Css, DeepData, Header, PathId, PointKind, Ps, SLOT_BITS, SLOT_MAX, Slot, Span,
    each_csd,
};
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

/// Where the arenas stood when a node began; see [`Builder::roll_back`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    slots: usize,
    multi: usize,
    counts: usize,
    sites: usize,
    points: usize,
    ps_counts: usize,
}

/// Tables being filled.
#[derive(Debug)]
pub struct Builder {
    header: Header,
    pub(crate) strings: Strings,
    pub(crate) csd_callee: IdVec<CsdId, Option<PdId>>,
    pub(crate) csd_own: PackedOwn,
    pub(crate) pd_ps: IdVec<PdId, Option<PsId>>,
    pub(crate) pd_slots: IdVec<PdId, Span>,
    pub(crate) slots: Vec<u32>,
    pub(crate) multi: Vec<CsdId>,
    pub(crate) pd_counts_start: Vec<u32>,
    pub(crate) pd_counts_len: Vec<u32>,
    pub(crate) pd_counts: Vec<u8>,
    css: IdVec<CssId, Option<Css>>,
    ps: IdVec<PsId, Option<Ps>>,
    sites: Vec<CssId>,
    points: Vec<CoveragePoint>,
    ps_counts: Vec<u64>,
    /// Strings known to be goal paths, by string number.
    known_paths: Vec<bool>,
}

fn too_large(what: &str) -> DeepError {
    DeepError::new(ErrorCode::TooLarge, format!("more {what} than this program can hold"))
}

impl Builder {
    /// Empty tables of the given sizes. The caller answers for the sizes: memory is taken by them.
    ///
    /// # Errors
    /// `bad_id`: the root is not among the PDs; `too_large`: more than 2^29 - 1 CSDs.
    pub fn new(header: Header, strings: Strings, counts: Counts) -> Result<Self, DeepError> {
        if header.root.number() > counts.pd {
            return Err(bad_id("root pd", header.root.number(), counts.pd));
        }
        if counts.csd > SLOT_MAX {
            return Err(too_large("csds"));
        }
        let dynamic = header.coverage == Coverage::Dynamic;
        let pds = counts.pd as usize;
        Ok(Self {
            header,
            strings,
            csd_callee: IdVec::from_vec(vec![None; counts.csd as usize]),
            csd_own: PackedOwn::with_len(counts.csd as usize),
            pd_ps: IdVec::from_vec(vec![None; pds]),
            pd_slots: IdVec::from_vec(vec![Span::default(); pds]),
            slots: Vec::new(),
            multi: Vec::new(),
            pd_counts_start: if dynamic { vec![0; pds] } else { Vec::new() },
            pd_counts_len: if dynamic { vec![0; pds] } else { Vec::new() },
            pd_counts: Vec::new(),
            css: IdVec::from_vec(vec![None; counts.css as usize]),
            ps: IdVec::from_vec(vec![None; counts.ps as usize]),
            sites: Vec::new(),
            points: Vec::new(),
            ps_counts: Vec::new(),
            known_paths: Vec::new(),
        })
    }

    /// The header given at the start.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The id of a string, added if new.
    ///
    /// # Errors
    /// `bad_string`: it has a NUL octet; `too_large`: 4 GiB are full.
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

    /// Adds a slot to the PD that is being built; see [`Builder::pd`].
    ///
    /// # Errors
    /// `too_large`
    pub fn slot(&mut self, slot: Slot<'_>) -> Result<(), DeepError> {
        let low = match slot {
            Slot::Normal(csd) => CsdId::number_or_zero(csd),
            Slot::Multi { csds: [], .. } => 0,
            Slot::Multi { csds, .. } => {
                let at = u32::try_from(self.multi.len() + 1)
                    .ok()
                    .filter(|&n| n <= SLOT_MAX)
                    .ok_or_else(|| too_large("call edges"))?;
                self.multi.push(CsdId::at(csds.len() - 1));
                self.multi.extend_from_slice(csds);
                at
            }
        };
        self.slots.push(low | (u32::from(slot.kind().number()) << SLOT_BITS));
        Ok(())
    }

    /// Adds a coverage count to the PD that is being built; see [`Builder::pd`].
    pub fn count(&mut self, value: u64) {
        put_num(&mut self.pd_counts, value);
    }

    /// Defines a PD with what was given to [`Builder::slot`] and (`counts` of them)
    /// [`Builder::count`] since `since`.
    ///
    /// # Errors
    /// `duplicate_node`, `too_large`
    pub(crate) fn pd_since(
        &mut self,
        since: &Mark,
        id: PdId,
        ps: PsId,
        counts: u32,
    ) -> Result<(), DeepError> {
        let place = &mut self.pd_ps[id];
        if place.is_some() {
            return Err(duplicate(NodeRef::Pd(id)));
        }
        *place = Some(ps);
        self.pd_slots[id] = span(since.slots, self.slots.len())?;
        if let Some(start) = self.pd_counts_start.get_mut(id.index()) {
            *start = span(since.counts, self.pd_counts.len())?.start;
            self.pd_counts_len[id.index()] = counts;
        }
        Ok(())
    }

    /// Defines a PD.
    ///
    /// # Errors
    /// `duplicate_node`, `too_large`
    pub fn pd(&mut self, id: PdId, ps: PsId, slots: &[Slot<'_>], counts: &[u64]) -> Result<(), DeepError> {
        let since = self.mark();
        for &slot in slots {
            self.slot(slot)?;
        }
        for &count in counts {
            self.count(count);
        }
        self.pd_since(&since, id, ps, counts.len() as u32)
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

    /// Adds a call site to the PS that is being built.
    pub(crate) fn site(&mut self, site: CssId) {
        self.sites.push(site);
    }

    /// Adds a coverage point, and its count if coverage is static, to the PS that is being built.
    pub(crate) fn point(&mut self, point: CoveragePoint, count: u64) {
        self.points.push(point);
        if self.header.coverage == Coverage::Static {
            self.ps_counts.push(count);
        }
    }

    /// Defines a PS with the sites and points given since `since`.
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
            slots: self.slots.len(),
            multi: self.multi.len(),
            counts: self.pd_counts.len(),
            sites: self.sites.len(),
            points: self.points.len(),
            ps_counts: self.ps_counts.len(),
        }
    }

    /// Forgets the parts of a node that was not completed.
    pub(crate) fn roll_back(&mut self, mark: &Mark) {
        self.slots.truncate(mark.slots);
        self.multi.truncate(mark.multi);
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
    /// `shared_csd`, `orphan_csd`: a CSD is not in exactly one slot.
    pub fn finish(self) -> Result<DeepData, DeepError> {
        let Self {
            header,
            strings,
            csd_callee,
            mut csd_own,
            pd_ps,
            pd_slots,
            mut slots,
            mut multi,
            pd_counts_start,
            pd_counts_len,
            mut pd_counts,
            css,
            ps,
            mut sites,
            mut points,
            mut ps_counts,
            known_paths: _,
        } = self;
        let csd_callee = all_defined("csd", csd_callee)?;
        let pd_ps = all_defined("pd", pd_ps)?;
        let css = all_defined("css", css)?;
        let ps = all_defined("ps", ps)?;

        let kinds: Vec<u8> = css.as_slice().iter().map(|c| c.kind.kind().number()).collect();
        let mut csd_caller: IdVec<CsdId, Option<PdId>> = IdVec::from_vec(vec![None; csd_callee.len()]);
        for (pd, &p) in pd_ps.iter() {
            let proc: &Ps = &ps[p];
            let of = |code, what: String| DeepError::new(code, what).node(NodeRef::Pd(pd));
            let slots = pd_slots[pd].of(&slots);
            if slots.len() != proc.sites.len as usize {
                return Err(of(
                    ErrorCode::SiteMismatch,
                    format!("{} call site slots, but ps {p} has {} call sites", slots.len(), proc.sites.len),
                ));
            }
            for (k, (&slot, &site)) in slots.iter().zip(proc.sites.of(&sites)).enumerate() {
                let (found, wanted) = ((slot >> SLOT_BITS) as u8, kinds[site.index()]);
                if found != wanted {
                    return Err(of(
                        ErrorCode::SiteMismatch,
                        format!("slot {k} has kind {found}, but css {site} has kind {wanted}"),
                    ));
                }
                let mut shared = None;
                each_csd(slot, &multi, |csd| {
                    if let Some(other) = csd_caller[csd].replace(pd) {
                        shared.get_or_insert((csd, other));
                    }
                });
                if let Some((csd, other)) = shared {
                    let message = format!("in a slot of pd {other} and in one of pd {pd}");
                    return Err(DeepError::new(ErrorCode::SharedCsd, message).node(NodeRef::Csd(csd)));
                }
            }
            if let Some(&counts) = pd_counts_len.get(pd.index())
                && counts != proc.points.len
            {
                return Err(of(
                    ErrorCode::CoverageMismatch,
                    format!("{counts} coverage counts, but ps {p} has {} coverage points", proc.points.len),
                ));
            }
        }
        drop(pd_counts_len);
        if let Some(csd) = csd_caller.as_slice().iter().position(Option::is_none) {
            let error = DeepError::new(ErrorCode::OrphanCsd, "in no context's slots");
            return Err(error.node(NodeRef::Csd(CsdId::at(csd))));
        }
        let all = "a missing one was looked for";
        let csd_caller = IdVec::from_vec(csd_caller.into_vec().into_iter().map(|c| c.expect(all)).collect());
        let pd_slots = IdVec::from_vec(pd_slots.as_slice().iter().map(|s| s.start).collect());
        csd_own.shrink();
        slots.shrink_to_fit();
        multi.shrink_to_fit();
        pd_counts.shrink_to_fit();
        sites.shrink_to_fit();
        points.shrink_to_fit();
        ps_counts.shrink_to_fit();
        Ok(DeepData {
            header,
            strings,
            csd_callee,
            csd_caller,
            csd_own,
            pd_ps,
            pd_slots,
            slots,
            multi,
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

/// The plain part of a PS, for [`Builder::ps`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcStatic {
    /// What it is called.
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
