//! Merging: profiles of several runs of a program into one, and the contexts of a recursion into one.
//!
//! Two contexts are **the same** in these cases, and in no others:
//!
//! 1. They are the roots of two runs.
//! 2. Contexts that are the same call them from the same call site, and they are of one procedure.
//! 3. They are of one procedure and in one clique, where cliques are those of the merged graph.
//!
//! A profile in which rule 3 finds nothing is **canonical**: no clique has two contexts of one procedure. The smallest
//! example of another: `run` calls `step`, `step` calls itself through a closure, and the inner `step` calls `run`. The
//! run-time system's recursion check does not see through the closure, so the inner `step` gets a new context; its call
//! of `run` leads back to the active context.
//!
//! ```text
//!     recorded:   run -> step -> step' -> run       a clique of three, with two contexts of step
//!     canonical:  run -> step -> step, run          a clique of two; figures of step and step' added
//! ```
//!
//! Contexts that are the same become one. Its calls, figures and coverage counts are the sums. The rules only ever make
//! more contexts the same, so the result is the smallest such relation, whatever the order. So merging is commutative
//! and associative, to the octet of the file written ([`merge`] numbers everything by content).
//!
//! A run assigns ids to procedures and call sites as it goes, so those of another run differ. Procedures are recognised
//! by label, file and line; their call sites by position. All must agree.

use crate::builder::{Builder, Counts, ProcStatic};
use crate::cliques;
use crate::error::{DeepError, ErrorCode, NodeRef};
use crate::figures::Own;
use crate::id::{CsdId, CssId, Id, IdVec, PdId, PsId};
use crate::label::ProcLabel;
use crate::model::{Coverage, Css, CssKind, DeepData, Header, SiteKind, Slot};
use crate::small::small;

/// The contexts of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contexts {
    /// As the program recorded them.
    #[default]
    Recorded,
    /// All contexts of one procedure in one clique are one.
    Canonical,
}

/// Why profiles cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is no profile.
    #[error("there is no profile to merge")]
    Nothing,
    /// One profile is of another program than the first one. `part` counts from 0.
    #[error("not of the same program: {what}")]
    OtherProgram {
        /// Which profile.
        part: usize,
        /// The first difference.
        what: String,
    },
    /// The sums are too large, or a profile contradicts itself.
    #[error(transparent)]
    Deep(#[from] DeepError),
}

/// The sum of several runs of one program, canonical.
///
/// # Errors
/// No profile; profiles of different programs; figures beyond 63 bits.
pub fn merge(parts: &[DeepData]) -> Result<DeepData, MergeError> {
    let statics = Statics::by_content(parts)?;
    let parts: Vec<&DeepData> = parts.iter().collect();
    Ok(canonical(fold(&parts, &statics, &[])?)?)
}

/// The same profile with one context for each procedure of a clique. A canonical profile is returned unchanged.
///
/// # Errors
/// Figures beyond 63 bits.
pub fn canonical(mut data: DeepData) -> Result<DeepData, DeepError> {
    // A union may close a cycle and enlarge a clique, so repeat until nothing is left to unite.
    loop {
        let same = duplicates(&data);
        if same.is_empty() {
            data.header.canonical = true;
            return Ok(data);
        }
        data = fold(&[&data], &Statics::unchanged(&data), &same)?;
    }
}

/// Pairs of contexts of one procedure in one clique.
fn duplicates(data: &DeepData) -> Vec<(PdId, PdId)> {
    let cliques = cliques::find(data);
    let mut out = Vec::new();
    for n in 0..cliques.members.lists() {
        let mut members = cliques.members.list(n).to_vec();
        members.sort_unstable_by_key(|&pd| (data.pd_ps(pd), pd));
        out.extend(members.windows(2).filter(|w| data.pd_ps(w[0]) == data.pd_ps(w[1])).map(|w| (w[0], w[1])));
    }
    out
}

/// The ids of each profile's procedures and call sites in the result.
struct Statics {
    ps: Vec<IdVec<PsId, PsId>>,
    css: Vec<IdVec<CssId, CssId>>,
}

impl Statics {
    fn unchanged(data: &DeepData) -> Self {
        Self {
            ps: vec![IdVec::from_vec(data.pss().collect())],
            css: vec![IdVec::from_vec(data.csss().collect())],
        }
    }

    /// Numbers them by label, file and line.
    fn by_content(parts: &[DeepData]) -> Result<Self, MergeError> {
        let first = parts.first().ok_or(MergeError::Nothing)?;
        let sorted: Vec<Vec<PsId>> = parts.iter().map(sorted_procedures).collect();
        let mut statics = Self { ps: Vec::new(), css: Vec::new() };
        for (data, order) in parts.iter().zip(&sorted) {
            let mut ps = IdVec::from_vec(data.pss().collect());
            let mut css: IdVec<CssId, Option<CssId>> = IdVec::from_vec(vec![None; data.css_count()]);
            let mut next = 0;
            for (k, &old) in order.iter().enumerate() {
                ps[old] = PsId::at(k);
                for &site in data.sites(old) {
                    css[site] = Some(CssId::at(next));
                    next += 1;
                }
            }
            // Call sites without a procedure come last.
            let mut number = |new: Option<CssId>| {
                new.unwrap_or_else(|| {
                    next += 1;
                    CssId::at(next - 1)
                })
            };
            statics.css.push(IdVec::from_vec(css.into_vec().into_iter().map(&mut number).collect()));
            statics.ps.push(ps);
        }
        for part in 1..parts.len() {
            let comparison = Comparison {
                data: [first, &parts[part]],
                order: [&sorted[0], &sorted[part]],
                ps: [&statics.ps[0], &statics.ps[part]],
            };
            if let Some(what) = comparison.difference() {
                return Err(MergeError::OtherProgram { part, what });
            }
        }
        Ok(statics)
    }
}

/// The identity of a procedure.
fn identity(data: &DeepData, ps: PsId) -> (ProcLabel<&[u8]>, &[u8], u32) {
    let proc = data.ps(ps);
    (data.label(ps), data.strings().octets(proc.file), proc.line)
}

fn sorted_procedures(data: &DeepData) -> Vec<PsId> {
    let mut out: Vec<PsId> = data.pss().collect();
    out.sort_by(|&a, &b| identity(data, a).cmp(&identity(data, b)));
    out
}

/// Compares the first profile with another one.
struct Comparison<'a> {
    data: [&'a DeepData; 2],
    order: [&'a [PsId]; 2],
    ps: [&'a IdVec<PsId, PsId>; 2],
}

impl Comparison<'_> {
    /// The first difference, in words, if they are of different programs.
    fn difference(&self) -> Option<String> {
        let [a, b] = self.data.map(DeepData::header);
        let number = |what: &str, a: u64, b: u64| (a != b).then(|| format!("{what} {b}, not {a}"));
        number("octets per word:", a.bytes_per_word.into(), b.bytes_per_word.into())
            .or_else(|| number("clock ticks per second:", a.ticks_per_second, b.ticks_per_second))
            .or_else(|| {
                let other = format!("coverage counts are {:?}, not {:?}", b.coverage, a.coverage);
                (a.coverage != b.coverage).then_some(other)
            })
            .or_else(|| self.order[0].iter().zip(self.order[1]).find_map(|(&a, &b)| self.procedure([a, b])))
            .or_else(|| {
                let [a, b] = self.data;
                number("procedures:", a.ps_count() as u64, b.ps_count() as u64)
                    .or_else(|| number("call sites:", a.css_count() as u64, b.css_count() as u64))
            })
            .or_else(|| {
                let [a, b] = [0, 1].map(|i| self.ps[i][self.data[i].pd_ps(self.data[i].root())]);
                (a != b).then(|| "another procedure is the root".to_owned())
            })
    }

    fn procedure(&self, ps: [PsId; 2]) -> Option<String> {
        let [a, b] = [0, 1].map(|i| identity(self.data[i], ps[i]));
        let [name, other] = [0, 1].map(|i| self.data[i].raw_name(ps[i]));
        if a.0 != b.0 {
            // The tables are sorted, so what comes earlier is missing on the other side.
            let (verb, what) = if a.0 < b.0 { ("lacks", name) } else { ("has", other) };
            return Some(format!("it {verb} the procedure {what}"));
        }
        let [file, other_file] = [a.1, b.1].map(String::from_utf8_lossy);
        if (a.1, a.2) != (b.1, b.2) {
            return Some(format!("{name} is at {other_file}:{}, not {file}:{}", b.2, a.2));
        }
        let [a, b] = [0, 1].map(|i| self.data[i].ps(ps[i]).in_interface);
        if a != b {
            return Some(format!("{name}: one is in its module's interface, one is not"));
        }
        let [sites, other_sites] = [0, 1].map(|i| self.data[i].sites(ps[i]));
        let [points, other_points] = [0, 1].map(|i| self.data[i].points(ps[i]));
        if sites.len() != other_sites.len() || points.len() != other_points.len() {
            return Some(format!(
                "{name} has {} call sites and {} coverage points, not {} and {}",
                other_sites.len(),
                other_points.len(),
                sites.len(),
                points.len()
            ));
        }
        let site = sites.iter().zip(other_sites).position(|(&a, &b)| self.site(0, a) != self.site(1, b));
        if let Some(k) = site {
            let line = self.data[1].css(other_sites[k]).line;
            return Some(format!("call site {} of {name}, line {line}, is another one", k + 1));
        }
        let point =
            |i: usize, p: &crate::CoveragePoint| (self.data[i].path_text(p.path).into_owned(), p.kind);
        let point = points.iter().zip(other_points).position(|(a, b)| point(0, a) != point(1, b));
        point.map(|k| format!("coverage point {} of {name} is another one", k + 1))
    }

    /// The identity of a call site.
    fn site(&self, i: usize, css: CssId) -> (SiteKind, Option<PsId>, [&[u8]; 3], u32) {
        let data = self.data[i];
        let css = data.css(css);
        let octets = |id| data.strings().octets(id);
        let (callee, subst) = match css.kind {
            CssKind::Normal { callee, type_subst } => (Some(self.ps[i][callee]), octets(type_subst)),
            _ => (None, [].as_slice()),
        };
        (css.kind.kind(), callee, [subst, octets(css.file), octets(css.path.0)], css.line)
    }
}

/// A call from a context: position of the call site in the caller, procedure of the callee.
type Call = (u32, PsId);

/// The classes of equal contexts, among those of all profiles one after the other.
struct Classes {
    /// For each context, the one that represents both, or itself.
    stands_for: Vec<u32>,
    ps: Vec<PsId>,
    /// For each representative: its callees, by ascending calls.
    calls: Vec<Vec<(Call, u32)>>,
}

impl Classes {
    fn find(&mut self, mut context: u32) -> u32 {
        while self.stands_for[context as usize] != context {
            let next = self.stands_for[self.stands_for[context as usize] as usize];
            self.stands_for[context as usize] = next;
            context = next;
        }
        context
    }

    /// Unites two contexts, and so their callees.
    fn unite(&mut self, a: u32, b: u32) {
        let mut pairs = vec![(a, b)];
        while let Some((a, b)) = pairs.pop() {
            let (a, b) = (self.find(a), self.find(b));
            if a == b {
                continue;
            }
            let longer = self.calls[a as usize].len() >= self.calls[b as usize].len();
            let (stays, goes) = if longer { (a, b) } else { (b, a) };
            self.stands_for[goes as usize] = stays;
            let one = std::mem::take(&mut self.calls[stays as usize]);
            let other = std::mem::take(&mut self.calls[goes as usize]);
            self.calls[stays as usize] = united(one, &other, &mut pairs);
        }
    }
}

/// Merges two lists of calls. The callees of calls in both must be united: `pairs`.
fn united(one: Vec<(Call, u32)>, other: &[(Call, u32)], pairs: &mut Vec<(u32, u32)>) -> Vec<(Call, u32)> {
    if other.is_empty() {
        return one;
    }
    let mut out = Vec::with_capacity(one.len() + other.len());
    let mut other = other.iter().copied().peekable();
    for (call, callee) in one {
        while let Some(before) = other.next_if(|o| o.0 < call) {
            out.push(before);
        }
        if let Some((_, same)) = other.next_if(|o| o.0 == call) {
            pairs.push((callee, same));
        }
        out.push((call, callee));
    }
    out.extend(other);
    out
}

/// Makes one profile of several. Their roots are united, and so are the pairs in `same` (of the first profile).
fn fold(parts: &[&DeepData], statics: &Statics, same: &[(PdId, PdId)]) -> Result<DeepData, DeepError> {
    let mut bases = Vec::with_capacity(parts.len());
    let mut classes = Classes { stands_for: Vec::new(), ps: Vec::new(), calls: Vec::new() };
    for (data, ps) in parts.iter().zip(&statics.ps) {
        let base = u32::try_from(classes.ps.len()).map_err(|_| too_many())?;
        bases.push(base);
        u32::try_from(classes.ps.len() + data.pd_count()).map_err(|_| too_many())?;
        for pd in data.pds() {
            classes.stands_for.push(base + pd.number() - 1);
            classes.ps.push(ps[data.pd_ps(pd)]);
            classes.calls.push(Vec::new());
        }
    }
    let context = |part: usize, pd: PdId| bases[part] + pd.number() - 1;
    let mut pairs: Vec<(u32, u32)> = same.iter().map(|&(a, b)| (context(0, a), context(0, b))).collect();
    for (part, data) in parts.iter().enumerate() {
        pairs.push((context(0, parts[0].root()), context(part, data.root())));
        for pd in data.pds() {
            let mut calls: Vec<(Call, u32)> = Vec::with_capacity(data.edges(pd).len());
            for (k, slot) in data.slots(pd).enumerate() {
                for csd in slot.csds() {
                    let callee = context(part, data.csd_callee(csd));
                    calls.push(((small(k), classes.ps[callee as usize]), callee));
                }
            }
            calls.sort_unstable();
            // Two calls from one site to one procedure have the same callee.
            calls.dedup_by(|b, a| {
                a.0 == b.0 && {
                    pairs.push((a.1, b.1));
                    true
                }
            });
            classes.calls[context(part, pd) as usize] = calls;
        }
    }
    for (a, b) in pairs {
        classes.unite(a, b);
    }
    Folded::fold_classes(classes, context(0, parts[0].root()))?.data(parts, statics, &bases)
}

/// The contexts of the result, numbered depth first from the root.
struct Folded {
    classes: Classes,
    /// The representatives, in the order of their numbers.
    order: Vec<u32>,
    /// The number of each, from 0.
    number: Vec<u32>,
    /// Index of each context's first call, by number, with one more at the end.
    first_call: Vec<u32>,
}

impl Folded {
    fn fold_classes(mut classes: Classes, root: u32) -> Result<Self, DeepError> {
        const NONE: u32 = u32::MAX;
        let mut number = vec![NONE; classes.ps.len()];
        let mut order = Vec::new();
        // The root first. Contexts that it does not reach, which no program writes, are kept.
        let all = small(classes.ps.len());
        for start in std::iter::once(root).chain(0..all) {
            let mut stack = vec![start];
            while let Some(context) = stack.pop() {
                let class = classes.find(context);
                if number[class as usize] != NONE {
                    continue;
                }
                number[class as usize] = small(order.len());
                order.push(class);
                stack.extend(classes.calls[class as usize].iter().rev().map(|&(_, callee)| callee));
            }
        }
        let mut first_call = Vec::with_capacity(order.len() + 1);
        let mut calls = 0;
        for &class in &order {
            first_call.push(u32::try_from(calls).map_err(|_| too_many())?);
            calls += classes.calls[class as usize].len();
        }
        first_call.push(u32::try_from(calls).map_err(|_| too_many())?);
        Ok(Self { classes, order, number, first_call })
    }

    fn number_of(&mut self, context: u32) -> usize {
        self.number[self.classes.find(context) as usize] as usize
    }

    fn data(mut self, parts: &[&DeepData], statics: &Statics, bases: &[u32]) -> Result<DeepData, DeepError> {
        let first = parts[0];
        let (calls, contexts) = (self.first_call[self.order.len()], small(self.order.len()));
        let counts =
            Counts { csd: calls, css: small(first.css_count()), pd: contexts, ps: small(first.ps_count()) };
        let mut strings = first.strings().clone();
        // Runs may have called the program by different names.
        let program = parts.iter().map(|p| p.strings().octets(p.header().program)).min().unwrap_or_default();
        let program = strings.intern(program).ok_or_else(too_many)?;
        let header = Header {
            version: parts.iter().map(|p| p.header().version).max().unwrap_or_default(),
            program,
            canonical: false,
            instrument_quanta: total(parts, |h| h.instrument_quanta)?,
            user_quanta: total(parts, |h| h.user_quanta)?,
            callseqs: total(parts, |h| h.callseqs)?,
            root: PdId::at(0),
            ..first.header().clone()
        };
        let mut builder = Builder::new(header, strings, counts)?;
        copy_statics(parts, statics, &mut builder)?;

        let mut own = vec![Own::default(); calls as usize];
        let mut points: Vec<Vec<u64>> = vec![Vec::new(); self.order.len()];
        for (part, data) in parts.iter().enumerate() {
            for pd in data.pds() {
                let at = self.number_of(bases[part] + pd.number() - 1);
                add_counts(&mut points[at], data.pd_coverage(pd), NodeRef::Pd(pd))?;
                for (k, slot) in data.slots(pd).enumerate() {
                    for csd in slot.csds() {
                        let call = (small(k), statics.ps[part][data.pd_ps(data.csd_callee(csd))]);
                        let sum = &mut own[self.call_number(at, call)];
                        *sum = sum
                            .checked_add(&data.csd_own(csd))
                            .ok_or_else(|| overflow().node(NodeRef::Csd(csd)))?;
                    }
                }
            }
        }
        let mut sites: IdVec<PsId, &[CssId]> = IdVec::from_vec(vec![&[]; first.ps_count()]);
        for old in first.pss() {
            sites[statics.ps[0][old]] = first.sites(old);
        }
        for (at, points) in points.iter().enumerate() {
            let ps = self.classes.ps[self.order[at] as usize];
            let kinds = sites[ps].iter().map(|&css| first.css(css).kind.kind());
            self.write_context(at, ps, kinds, points, &own, &mut builder)?;
        }
        let mut data = builder.finish()?;
        data.native = first.native;
        Ok(data)
    }

    /// The number of a context's call, from 0. The context must have it.
    fn call_number(&self, at: usize, call: Call) -> usize {
        let calls = &self.classes.calls[self.order[at] as usize];
        let among = calls.partition_point(|c| c.0 < call);
        self.first_call[at] as usize + among
    }

    fn write_context(
        &mut self,
        at: usize,
        ps: PsId,
        kinds: impl ExactSizeIterator<Item = SiteKind>,
        points: &[u64],
        own: &[Own],
        builder: &mut Builder,
    ) -> Result<(), DeepError> {
        let class = self.order[at] as usize;
        let calls = std::mem::take(&mut self.classes.calls[class]);
        let numbers: Vec<CsdId> =
            (0..calls.len()).map(|i| CsdId::at(self.first_call[at] as usize + i)).collect();
        let mut slots = Vec::with_capacity(kinds.len());
        let mut from = 0;
        for (k, kind) in kinds.enumerate() {
            let to = from + calls[from..].iter().take_while(|c| c.0.0 as usize == k).count();
            slots.push(match kind {
                SiteKind::Normal if to - from > 1 => {
                    let what = "a call site with a known callee calls another procedure";
                    return Err(DeepError::new(ErrorCode::SiteMismatch, what).node(NodeRef::Ps(ps)));
                }
                SiteKind::Normal => Slot::Normal(numbers.get(from).copied().filter(|_| to > from)),
                kind => Slot::Multi { kind, csds: &numbers[from..to] },
            });
            from = to;
        }
        builder.pd(PdId::at(at), ps, &slots, points)?;
        for (&csd, (_, callee)) in numbers.iter().zip(&calls) {
            let callee = PdId::at(self.number_of(*callee));
            builder.csd(csd, callee, &own[csd.index()])?;
        }
        Ok(())
    }
}

fn copy_statics(parts: &[&DeepData], statics: &Statics, builder: &mut Builder) -> Result<(), DeepError> {
    let (first, ps, css) = (parts[0], &statics.ps[0], &statics.css[0]);
    // Coverage counts of procedures, by their new number.
    let mut counts: Vec<Vec<u64>> = vec![Vec::new(); first.ps_count()];
    if first.header().coverage == Coverage::Static {
        for (data, ps) in parts.iter().zip(&statics.ps) {
            for old in data.pss() {
                let own = data.ps_own_coverage(old).unwrap_or_default().iter().copied();
                add_counts(&mut counts[ps[old].index()], own, NodeRef::Ps(old))?;
            }
        }
    }
    for old in first.csss() {
        let mut site: Css = first.css(old).clone();
        if let CssKind::Normal { callee, .. } = &mut site.kind {
            *callee = ps[*callee];
        }
        builder.css(css[old], site)?;
    }
    for old in first.pss() {
        let proc = first.ps(old);
        let sites: Vec<CssId> = first.sites(old).iter().map(|&c| css[c]).collect();
        let points: Vec<_> = first.points(old).iter().map(|p| (p.path, p.kind)).collect();
        let proc = ProcStatic {
            label: proc.label.clone(),
            file: proc.file,
            line: proc.line,
            in_interface: proc.in_interface,
        };
        builder.ps(ps[old], proc, &sites, &points, &counts[ps[old].index()])?;
    }
    Ok(())
}

fn total(parts: &[&DeepData], figure: fn(&Header) -> u64) -> Result<u64, DeepError> {
    let sum = parts.iter().try_fold(0_u64, |sum, p| sum.checked_add(figure(p.header())));
    sum.filter(|&n| n <= i64::MAX.cast_unsigned()).ok_or_else(overflow)
}

fn add_counts(
    sums: &mut Vec<u64>,
    counts: impl ExactSizeIterator<Item = u64>,
    node: NodeRef,
) -> Result<(), DeepError> {
    sums.resize(sums.len().max(counts.len()), 0);
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum = sum.checked_add(count).ok_or_else(|| overflow().node(node))?;
    }
    Ok(())
}

fn overflow() -> DeepError {
    DeepError::new(ErrorCode::Overflow, "a sum of measurements beyond 63 bits")
}

fn too_many() -> DeepError {
    DeepError::new(ErrorCode::TooLarge, "more contexts and calls than this program can hold")
}
