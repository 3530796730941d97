//! The profile as it is in the file: header, four tables of nodes, strings.
//!
//! There may be millions of contexts (PDs) and edges (CSDs), so they are stored as arrays of small integers. Procedures
//! and call sites are plain records. Links that the file lacks (callers and callees) are in
//! [`Profile`](crate::Profile).

use std::borrow::Cow;

use crate::figures::{Desc, Own, PackedOwn};
use crate::goal_path::GoalPath;
use crate::groups::{MOSTLY1_MAX, Span};
use crate::id::{CsdId, CssId, Id, IdVec, PdId, PsId, ids_to};
use crate::label::ProcLabel;
use crate::strings::{StrId, Strings};

/// Which counts of coverage points the file carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coverage {
    /// None.
    #[default]
    None,
    /// Counts per procedure.
    Static,
    /// Counts per context.
    Dynamic,
}

/// The first part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Format version, 8 or 9.
    pub version: u32,
    /// argv\[0\] of the profiled program.
    pub program: StrId,
    /// Octets per machine word, 8 or 4. Other values in the file are accepted.
    pub bytes_per_word: u8,
    /// Whether the writer says that no clique has two contexts of one procedure.
    pub canonical: bool,
    /// The coverage counts in the file.
    pub coverage: Coverage,
    /// Clock ticks per second; 0: unknown.
    pub ticks_per_second: u64,
    /// Ticks in the profiling code itself.
    pub instrument_quanta: u64,
    /// Ticks elsewhere.
    pub user_quanta: u64,
    /// Calls counted, modulo 2^32.
    pub callseqs: u64,
    /// The root context.
    pub root: PdId,
}

/// The kinds of call sites; the numbers are the file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SiteKind {
    /// First order, callee known.
    Normal = 0,
    /// Unify or compare through a type_info.
    Special = 1,
    /// Call of a closure.
    HigherOrder = 2,
    /// Call of a type class method.
    Method = 3,
    /// Foreign code calling back.
    Callback = 4,
}

impl SiteKind {
    /// The kind with this number in the file.
    pub fn from_number(n: u8) -> Option<Self> {
        Some(match n {
            0 => Self::Normal,
            1 => Self::Special,
            2 => Self::HigherOrder,
            3 => Self::Method,
            4 => Self::Callback,
            _ => return None,
        })
    }
    /// The number in the file.
    pub fn number(self) -> u8 {
        self as u8
    }
    /// Whether the call hides the calling procedure from the program's recursion check.
    pub fn is_zeroing(self) -> bool {
        matches!(self, Self::HigherOrder | Self::Method)
    }
}

/// What a call site calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CssKind {
    /// One procedure.
    Normal {
        /// The procedure.
        callee: PsId,
        /// Type substitution in words, or empty.
        type_subst: StrId,
    },
    /// Unify or compare through a type_info.
    Special,
    /// A closure.
    HigherOrder,
    /// A type class method.
    Method,
    /// Foreign code calling back.
    Callback,
}

impl CssKind {
    /// The kind without the callee.
    pub fn kind(&self) -> SiteKind {
        match self {
            Self::Normal { .. } => SiteKind::Normal,
            Self::Special => SiteKind::Special,
            Self::HigherOrder => SiteKind::HigherOrder,
            Self::Method => SiteKind::Method,
            Self::Callback => SiteKind::Callback,
        }
    }
    /// The callee of a normal call.
    pub fn callee(&self) -> Option<PsId> {
        match self {
            Self::Normal { callee, .. } => Some(*callee),
            _ => None,
        }
    }
}

/// A goal path in the file. Its text is known to parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub(crate) StrId);

/// A call site static.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Css {
    /// What it calls.
    pub kind: CssKind,
    /// Its file, or empty: the file of the procedure. Always empty in version 8.
    pub file: StrId,
    /// Line number.
    pub line: u32,
    /// Its position in the body.
    pub path: PathId,
}

/// What a coverage point counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PointKind {
    /// Execution passed just after the goal.
    After = 0,
    /// The branch arm was entered.
    BranchArm = 1,
}

/// A coverage point of a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoveragePoint {
    /// Which goal.
    pub path: PathId,
    /// What is counted.
    pub kind: PointKind,
}

/// A procedure static.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ps {
    /// Its label.
    pub label: ProcLabel<StrId>,
    /// Source file.
    pub file: StrId,
    /// Line number.
    pub line: u32,
    /// Whether it is in its module's interface.
    pub in_interface: bool,
    pub(crate) sites: Span,
    pub(crate) points: Span,
}

/// The slot of a context for the calls of one call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot<'a> {
    /// Of a normal call site: its edge, if it was executed.
    Normal(Option<CsdId>),
    /// Of a call site of several callees.
    Multi {
        /// Never [`SiteKind::Normal`].
        kind: SiteKind,
        /// One edge for each callee, in the file's order (most recently created first).
        csds: &'a [CsdId],
    },
}

impl<'a> Slot<'a> {
    /// The kind of the slot's call site.
    pub fn kind(&self) -> SiteKind {
        match self {
            Self::Normal(_) => SiteKind::Normal,
            Self::Multi { kind, .. } => *kind,
        }
    }
    /// The edges in the slot, in the file's order.
    pub fn csds(self) -> impl Iterator<Item = CsdId> + use<'a> {
        let (one, many) = match self {
            Self::Normal(one) => (one, [].as_slice()),
            Self::Multi { csds, .. } => (None, csds),
        };
        one.into_iter().chain(many.iter().copied())
    }
}

/// The slots of a context, one for each call site of its procedure, in the same order.
#[derive(Clone, Debug)]
pub struct Slots<'a> {
    data: &'a DeepData,
    sites: std::slice::Iter<'a, CssId>,
    /// Edges of the remaining sites.
    edges: &'a [CsdId],
}

impl<'a> Iterator for Slots<'a> {
    type Item = Slot<'a>;
    fn next(&mut self) -> Option<Slot<'a>> {
        let &css = self.sites.next()?;
        let of_site = |&csd: &CsdId| self.data.csd_css[csd] == css;
        let len = self.edges.iter().take_while(|csd| of_site(csd)).count();
        let (csds, rest) = self.edges.split_at(len);
        self.edges = rest;
        Some(match self.data.css[css].kind.kind() {
            SiteKind::Normal => Slot::Normal(csds.first().copied()),
            kind => Slot::Multi { kind, csds },
        })
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.sites.size_hint()
    }
}

impl ExactSizeIterator for Slots<'_> {}

/// The largest number of CSDs, and of PDs.
pub(crate) const MOST_NODES: u32 = MOSTLY1_MAX;

/// A deep profile's data: the contents of the file, complete, with each node checked against the others that it refers
/// to. The reader or a [`Builder`](crate::Builder) makes it.
///
/// Accessors that take an id panic if it is beyond its table, as indexing does. Check ids from outside with `has_`
/// first, or get them from [`DeepData::csd_id`] and the like.
#[derive(Clone, Debug)]
pub struct DeepData {
    pub(crate) header: Header,
    pub(crate) strings: Strings,

    pub(crate) csd_callee: IdVec<CsdId, PdId>,
    pub(crate) csd_caller: IdVec<CsdId, PdId>,
    /// The call site of the call. It belongs to the caller's procedure.
    pub(crate) csd_css: IdVec<CsdId, CssId>,
    pub(crate) csd_own: PackedOwn,

    pub(crate) pd_ps: IdVec<PdId, PsId>,
    /// Index in `edges` of each PD's first CSD, with one more entry for the end.
    pub(crate) pd_edges: Vec<u32>,
    /// All CSDs: by ascending caller, then in slot order, then in the file's order.
    pub(crate) edges: Vec<CsdId>,
    /// Index in `pd_counts` of each PD's first coverage count. A PD has as many as its PS has points. Empty without
    /// dynamic coverage.
    pub(crate) pd_counts_start: Vec<u32>,
    /// Nums, as in the file.
    pub(crate) pd_counts: Vec<u8>,

    pub(crate) css: IdVec<CssId, Css>,
    pub(crate) ps: IdVec<PsId, Ps>,
    pub(crate) sites: Vec<CssId>,
    pub(crate) points: Vec<CoveragePoint>,
    /// With static coverage: the counts, as many as `points`; otherwise empty.
    pub(crate) ps_counts: Vec<u64>,
    /// Whether the program is native: names have no arity or mode, and calls are unknown.
    pub(crate) native: bool,
}

impl DeepData {
    /// The first part of the file.
    pub fn header(&self) -> &Header {
        &self.header
    }
    /// All strings.
    pub fn strings(&self) -> &Strings {
        &self.strings
    }
    /// A string as text. Octets that are not UTF-8 become U+FFFD.
    pub fn text(&self, id: StrId) -> Cow<'_, str> {
        self.strings.text(id)
    }
    /// A goal path, without numbers of functors.
    pub fn path(&self, id: PathId) -> GoalPath {
        GoalPath::parse(self.strings.octets(id.0)).unwrap_or_default().normalised()
    }
    /// A goal path as in the file.
    pub fn path_text(&self, id: PathId) -> Cow<'_, str> {
        self.strings.text(id.0)
    }
    /// The program's name.
    pub fn program(&self) -> Cow<'_, str> {
        self.text(self.header.program)
    }
    /// The root context.
    pub fn root(&self) -> PdId {
        self.header.root
    }

    /// Number of CSDs; ids are 1 to that.
    pub fn csd_count(&self) -> usize {
        self.csd_callee.len()
    }
    /// Number of PDs.
    pub fn pd_count(&self) -> usize {
        self.pd_ps.len()
    }
    /// Number of CSSs.
    pub fn css_count(&self) -> usize {
        self.css.len()
    }
    /// Number of PSs.
    pub fn ps_count(&self) -> usize {
        self.ps.len()
    }
    /// All CSDs, ascending.
    pub fn csds(&self) -> impl DoubleEndedIterator<Item = CsdId> + ExactSizeIterator + use<> {
        ids_to(self.csd_count())
    }
    /// All PDs, ascending.
    pub fn pds(&self) -> impl DoubleEndedIterator<Item = PdId> + ExactSizeIterator + use<> {
        ids_to(self.pd_count())
    }
    /// All CSSs, ascending.
    pub fn csss(&self) -> impl DoubleEndedIterator<Item = CssId> + ExactSizeIterator + use<> {
        ids_to(self.css_count())
    }
    /// All PSs, ascending.
    pub fn pss(&self) -> impl DoubleEndedIterator<Item = PsId> + ExactSizeIterator + use<> {
        ids_to(self.ps_count())
    }
    /// The CSD with a number from outside, if it exists.
    pub fn csd_id(&self, number: i64) -> Option<CsdId> {
        id_within(number, self.csd_count())
    }
    /// The PD with a number from outside, if it exists.
    pub fn pd_id(&self, number: i64) -> Option<PdId> {
        id_within(number, self.pd_count())
    }
    /// The CSS with a number from outside, if it exists.
    pub fn css_id(&self, number: i64) -> Option<CssId> {
        id_within(number, self.css_count())
    }
    /// The PS with a number from outside, if it exists.
    pub fn ps_id(&self, number: i64) -> Option<PsId> {
        id_within(number, self.ps_count())
    }

    /// The context that a CSD leads to.
    pub fn csd_callee(&self, csd: CsdId) -> PdId {
        self.csd_callee[csd]
    }
    /// The context that makes the call.
    pub fn csd_caller(&self, csd: CsdId) -> PdId {
        self.csd_caller[csd]
    }
    /// The call site that makes the call.
    pub fn csd_css(&self, csd: CsdId) -> CssId {
        self.csd_css[csd]
    }
    /// Own figures of a CSD.
    pub fn csd_own(&self, csd: CsdId) -> Own {
        Own::from_array(self.csd_own.get(csd.index()))
    }
    /// The procedure of a context.
    pub fn pd_ps(&self, pd: PdId) -> PsId {
        self.pd_ps[pd]
    }
    /// The slots of a context, one for each call site of its procedure, in the same order.
    pub fn slots(&self, pd: PdId) -> Slots<'_> {
        Slots { data: self, sites: self.sites(self.pd_ps[pd]).iter(), edges: self.edges(pd) }
    }
    /// One slot of a context, counted from 0.
    pub fn slot(&self, pd: PdId, slot: usize) -> Option<Slot<'_>> {
        self.slots(pd).nth(slot)
    }
    /// All CSDs of a context, in slot order, then in the file's order.
    #[inline]
    pub fn edges(&self, pd: PdId) -> &[CsdId] {
        let at = pd.index();
        &self.edges[self.pd_edges[at] as usize..self.pd_edges[at + 1] as usize]
    }
    /// All CSDs of a context, in slot order.
    pub fn csds_of_pd(&self, pd: PdId) -> impl ExactSizeIterator<Item = CsdId> + Clone + '_ {
        self.edges(pd).iter().copied()
    }
    /// Coverage counts of a context, one for each coverage point of its procedure; empty without
    /// dynamic coverage.
    pub fn pd_coverage(&self, pd: PdId) -> impl ExactSizeIterator<Item = u64> + '_ {
        let (count, start) = match self.pd_counts_start.get(pd.index()) {
            Some(&start) => (self.ps[self.pd_ps[pd]].points.len, start as usize),
            None => (0, 0),
        };
        let mut rest = self.pd_counts.get(start..).unwrap_or_default().iter();
        (0..count).map(move |_| {
            let mut value = 0;
            for &octet in rest.by_ref() {
                value = value << 7 | u64::from(octet & 0x7f);
                if octet & 0x80 == 0 {
                    break;
                }
            }
            value
        })
    }

    /// A call site.
    pub fn css(&self, css: CssId) -> &Css {
        &self.css[css]
    }
    /// A procedure.
    pub fn ps(&self, ps: PsId) -> &Ps {
        &self.ps[ps]
    }
    /// The call sites of a procedure, in slot order.
    pub fn sites(&self, ps: PsId) -> &[CssId] {
        self.ps[ps].sites.slice_of(&self.sites)
    }
    /// The coverage points of a procedure.
    pub fn points(&self, ps: PsId) -> &[CoveragePoint] {
        self.ps[ps].points.slice_of(&self.points)
    }
    /// Coverage counts that the file has for the procedure itself; `None` unless coverage is static. See
    /// [`Profile::ps_coverage`](crate::Profile::ps_coverage) for both kinds.
    pub fn ps_own_coverage(&self, ps: PsId) -> Option<&[u64]> {
        (self.header.coverage == Coverage::Static).then(|| self.ps[ps].points.slice_of(&self.ps_counts))
    }
    /// The label of a procedure, with its strings.
    pub fn label(&self, ps: PsId) -> ProcLabel<&[u8]> {
        self.ps[ps].label.map(|&s| self.strings.octets(s))
    }
    /// The module of a procedure: the declaring one; for a special, its type's.
    pub fn ps_module_name(&self, ps: PsId) -> Cow<'_, str> {
        self.text(*self.ps[ps].label.module())
    }
    /// The raw name of a procedure: `module.name/arity-mode`. For a native program: `object:name`.
    pub fn raw_name(&self, ps: PsId) -> String {
        if self.native {
            return format!("{}:{}", self.ps_module_name(ps), self.text_of_name(ps));
        }
        self.label(ps).raw_name()
    }
    /// The refined name of a procedure without its module; the raw one if it has none.
    pub fn unqualified_name(&self, ps: PsId) -> String {
        if self.native {
            return self.text_of_name(ps).into_owned();
        }
        let label = self.label(ps);
        label.unqualified_name().unwrap_or_else(|_| label.raw_name())
    }
    /// The refined name of a procedure with its module; the raw one if it has none.
    pub fn qualified_name(&self, ps: PsId) -> String {
        if self.native {
            return self.text_of_name(ps).into_owned();
        }
        let label = self.label(ps);
        label.qualified_name().unwrap_or_else(|_| label.raw_name())
    }

    /// The name in the label of a procedure, unchanged.
    pub fn text_of_name(&self, ps: PsId) -> Cow<'_, str> {
        match &self.ps[ps].label {
            ProcLabel::Ordinary { name, .. } | ProcLabel::Special { type_name: name, .. } => self.text(*name),
        }
    }
    /// Whether the program is native, so that only its time is known; see
    /// [`Profile::set_native`](crate::Profile::set_native).
    pub fn is_native(&self) -> bool {
        self.native
    }
    /// Whether a procedure or module with these figures was active: it was called, or, in a native program with unknown
    /// calls, has time or memory.
    pub fn is_active(&self, own: &Own, desc: &Desc) -> bool {
        if !self.native {
            return own.is_active();
        }
        [own.quanta, own.allocs, own.words, desc.quanta, desc.allocs, desc.words]
            .iter()
            .any(|cost| *cost != 0)
    }

    /// Octets that the tables use on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.strings.heap_bytes()
            + self.csd_own.heap_bytes()
            + 4 * (3 * self.csd_callee.len()
                + self.pd_ps.len()
                + self.pd_edges.capacity()
                + self.edges.capacity()
                + self.pd_counts_start.capacity()
                + self.sites.capacity())
            + self.pd_counts.capacity()
            + self.css.len() * size_of::<Css>()
            + self.ps.len() * size_of::<Ps>()
            + self.points.capacity() * size_of::<CoveragePoint>()
            + self.ps_counts.capacity() * 8
    }
}

fn id_within<I: Id>(number: i64, count: usize) -> Option<I> {
    let n = u32::try_from(number).ok()?;
    if n as usize > count { None } else { I::new(n) }
}
