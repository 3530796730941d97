//! Reads Deep.data.
//!
//! ```text
//! first line   "Mercury deep profiler data version 8\n" (or 9)
//! header       program: string, flags: fixed, counts of CSD, CSS, PD, PS: fixed,
//!              ticks per second, instrumentation quanta, user quanta, call sequence count: num,
//!              root PD: num
//! nodes        any number, any order: tag byte, fields
//!   1 CSS      id, kind byte, [kind 0: callee PS, type substitution: string],
//!              [version 9: file: string], line, goal path: string
//!   2 CSD      id, callee PD, mask, one num per set bit in the order exits 0x002, fails 0x004,
//!              redos 0x040, excps 0x080, quanta 0x100, callseqs 0x008, allocs 0x010, words 0x020
//!   3 PS       id, label, file: string, line, in-interface byte, N, N CSS ids,
//!              [coverage: M, M times goal path: string, type, [static: count]]
//!   4 PD       id, PS, N, [dynamic coverage: M, M counts],
//!              N slots: kind byte, kind 0: CSD or 0, else CSD ids ended by an octet 00
//! end          end of file, or tag 0
//! flags        bits 0-7 octets per word, 8-9 canonical, 10-11 compression (0), 12-13 coverage
//! ```
//!
//! The file is read in one pass over a window that moves along it. It is not mapped: the profiled program may overwrite
//! its file at any time, and if a mapped file is truncated, its reader is killed. A node that the window's end cuts is
//! dropped and decoded again when more of the file is there.
//!
//! Complete and ordered contexts and edges use the fast path (`fast`). The functions here decode the rest and report
//! what is wrong with it.
//!
//! Memory is only allocated by numbers that were first checked against the length of the file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::builder::{Builder, Counts, ProcStatic};
use crate::cursor::{Cursor, Decoded, Fault, truncated};
use crate::error::{DeepError, ErrorCode, NodeRef};
use crate::figures::{MASK_BITS, Own};
use crate::id::{CsdId, PdId};
use crate::label::{PredOrFunc, ProcLabel};
use crate::merge::{self, Contexts};
use crate::model::{Coverage, CoveragePoint, Css, CssKind, DeepData, Header, PointKind, SiteKind, Slot};
use crate::profile::Profile;
use crate::propagate::Compensation;
use crate::strings::{StrId, Strings};

/// What the first line begins with; a decimal number and a line feed follow.
pub(crate) const FIRST_LINE: &[u8] = b"Mercury deep profiler data version ";
/// Longest first line in octets.
const FIRST_LINE_MAX: usize = 45;

/// Reads a profile's data from memory.
///
/// # Errors
/// The first thing that is wrong, with its offset.
pub fn read(octets: &[u8]) -> Result<DeepData, DeepError> {
    read_from(&mut Window::whole(octets))
}

/// Reads and preprocesses a profile from memory.
///
/// # Errors
/// The first thing that is wrong, with its offset.
pub fn load(octets: &[u8], rule: Compensation) -> Result<Profile, DeepError> {
    let mut window = Window::whole(octets);
    let data = read_from(&mut window)?;
    Profile::new(data, rule).map_err(|e| located(e, &mut window))
}

/// Reads a profile's data from a file.
///
/// # Errors
/// `cannot_open`: the system's message; otherwise the first thing that is wrong, with its offset.
pub fn read_file(path: &Path) -> Result<DeepData, DeepError> {
    Window::open(path).and_then(|mut w| read_from(&mut w)).map_err(|e| e.file(path))
}

/// Reads and preprocesses a profile from a file.
///
/// # Errors
/// Those of [`read_file`] and [`Profile::new`].
pub fn open(path: &Path, reading: impl Into<Reading>) -> Result<Profile, DeepError> {
    let reading: Reading = reading.into();
    Window::open(path)
        .and_then(|mut window| {
            let mut data = read_from(&mut window)?;
            if reading.contexts == Contexts::Canonical {
                data = merge::canonical(data)?;
            }
            Profile::new(data, reading.rule).map_err(|e| located(e, &mut window))
        })
        .map_err(|e| e.file(path))
}

/// How a profile is made from a file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The rule of compensation.
    pub rule: Compensation,
    /// The contexts that it has.
    pub contexts: Contexts,
}

/// With the contexts that were recorded.
impl From<Compensation> for Reading {
    fn from(rule: Compensation) -> Self {
        Self { rule, contexts: Contexts::Recorded }
    }
}

/// The part of a file that is in memory.
struct Window<'a> {
    source: Source<'a>,
    /// The part, for a file.
    held: Vec<u8>,
    /// Offset of the part.
    base: u64,
    file_len: u64,
}

enum Source<'a> {
    Memory(&'a [u8]),
    File(File),
}

impl<'a> Window<'a> {
    /// Size of the window; larger only while a single node is larger.
    const SIZE: u64 = 1 << 20;

    fn whole(octets: &'a [u8]) -> Self {
        Self { source: Source::Memory(octets), held: Vec::new(), base: 0, file_len: octets.len() as u64 }
    }
    fn open(path: &Path) -> Result<Self, DeepError> {
        let io = |e: io::Error| DeepError::io(&e);
        // It is checked before it is opened, because opening a pipe would wait for a writer.
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(DeepError::new(ErrorCode::CannotOpen, "not a regular file"));
        }
        let file = File::open(path).map_err(io)?;
        let file_len = file.metadata().map_err(io)?.len();
        Ok(Self { source: Source::File(file), held: Vec::new(), base: 0, file_len })
    }
    fn rewind(&mut self) -> Result<(), DeepError> {
        self.base = 0;
        self.held.clear();
        if let Source::File(file) = &mut self.source {
            file.seek(SeekFrom::Start(0)).map_err(|e| DeepError::io(&e))?;
        }
        Ok(())
    }
    fn cursor(&self) -> Cursor<'_> {
        let part = match &self.source {
            Source::Memory(octets) => octets,
            Source::File(_) => self.held.as_slice(),
        };
        Cursor::new(part, self.base, self.file_len)
    }
    /// Drops what is before `done` and reads on. Returns `false` if there is no more.
    fn advance(&mut self, done: usize) -> Result<bool, DeepError> {
        let Source::File(file) = &mut self.source else {
            return Ok(false);
        };
        self.held.drain(..done);
        self.base += done as u64;
        let held = self.held.len() as u64;
        // What is left is one cut node, so the window must be at least twice as large.
        let room = Self::SIZE.max(held * 2) - held;
        let room = room.min(self.file_len.saturating_sub(self.base + held));
        let read = file.take(room).read_to_end(&mut self.held).map_err(|e| DeepError::io(&e))?;
        if (read as u64) < room {
            // The file is shorter than before: somebody truncated it. Lengths are checked against its new length.
            self.file_len = self.base + self.held.len() as u64;
        }
        Ok(read > 0)
    }
    /// Decodes one item, and reads more of the file as needed. `start` moves past it.
    fn decode<T>(
        &mut self,
        start: &mut usize,
        mut f: impl FnMut(&mut Cursor<'_>) -> Decoded<T>,
    ) -> Result<T, DeepError> {
        loop {
            let mut cursor = self.cursor();
            cursor.seek(*start);
            match f(&mut cursor) {
                Ok(value) => {
                    *start = cursor.pos();
                    return Ok(value);
                }
                Err(Fault::Bad(error)) => return Err(*error),
                Err(Fault::Short) => {
                    if !self.advance(*start)? {
                        return Err(truncated().at(self.file_len));
                    }
                    *start = 0;
                }
            }
        }
    }
}

fn read_from(window: &mut Window<'_>) -> Result<DeepData, DeepError> {
    let builder = read_nodes(window, None)?.0;
    builder.finish().map_err(|e| match e.code {
        ErrorCode::MissingNodes => e.at(window.file_len),
        _ => located(e, window),
    })
}

/// Adds the offset of an error's node, which it finds by reading the file again.
fn located(error: DeepError, window: &mut Window<'_>) -> DeepError {
    let (Some(node), None) = (error.node, error.offset) else {
        return error;
    };
    match window.rewind().and_then(|()| read_nodes(window, Some(node))) {
        Ok((_, Some(offset))) => error.at(offset),
        _ => error,
    }
}

/// Reads the whole file. Also returns the offset of the wanted node.
fn read_nodes(window: &mut Window<'_>, wanted: Option<NodeRef>) -> Result<(Builder, Option<u64>), DeepError> {
    let mut pos = 0;
    let version = window.decode(&mut pos, first_line)?;
    let (header, strings, counts) = window.decode(&mut pos, |cursor| header(cursor, version))?;
    let mut builder = Builder::new(header, strings, counts)?;
    let mut multi = Vec::new();
    let mut found = None;
    loop {
        let mut cursor = window.cursor();
        cursor.seek(pos);
        let cut = loop {
            let (start, offset) = (cursor.pos(), cursor.offset());
            if cursor.at_end() {
                break false;
            }
            if let Some((node, len)) = builder.whole_node(cursor.rest_of_part()) {
                cursor.seek(start + len);
                if wanted == Some(node) {
                    found = Some(offset);
                }
                continue;
            }
            let mark = builder.mark();
            match node(&mut builder, &mut cursor, &mut multi) {
                Ok(Some(node)) => {
                    if wanted == Some(node) {
                        found = Some(offset);
                    }
                }
                Ok(None) => {
                    if cursor.rest_of_file() > 0 {
                        let message = format!("{} octets after the end tag", cursor.rest_of_file());
                        return Err(DeepError::new(ErrorCode::TrailingData, message).at(cursor.offset()));
                    }
                    return Ok((builder, found));
                }
                Err(Fault::Bad(error)) => return Err(error.at(offset)),
                Err(Fault::Short) => {
                    builder.roll_back(&mark);
                    cursor.seek(start);
                    break true;
                }
            }
        };
        pos = cursor.pos();
        if !window.advance(pos)? {
            if cut {
                return Err(truncated().at(window.file_len));
            }
            return Ok((builder, found));
        }
        pos = 0;
    }
}

fn first_line(cursor: &mut Cursor<'_>) -> Decoded<u32> {
    let mut line = Vec::with_capacity(FIRST_LINE_MAX);
    while line.len() < FIRST_LINE_MAX {
        match cursor.byte()? {
            b'\n' => break,
            octet => line.push(octet),
        }
    }
    let not_deep = || DeepError::new(ErrorCode::NotDeepFile, "not a deep profiling data file").at(0);
    let digits = line.strip_prefix(FIRST_LINE).ok_or_else(not_deep)?;
    let (negative, digits) = match digits {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(not_deep().into());
    }
    let version = digits.iter().fold(0_u64, |n, d| n * 10 + u64::from(d - b'0'));
    match (negative, version) {
        (false, 8) => Ok(8),
        (false, 9) => Ok(9),
        _ => Err(DeepError::new(ErrorCode::BadVersion, "version number mismatch")
            .at(FIRST_LINE.len() as u64)
            .into()),
    }
}

fn header(cursor: &mut Cursor<'_>, version: u32) -> Decoded<(Header, Strings, Counts)> {
    let mut strings = Strings::default();
    let program = cursor.string()?;
    let program = strings
        .intern(program)
        .ok_or_else(|| DeepError::new(ErrorCode::TooLarge, "the program's name is too long"))?;
    let flags_at = cursor.offset();
    let flags = cursor.fixed()?.cast_unsigned();
    let bad_flags = || {
        DeepError::new(
            ErrorCode::BadFlags,
            format!("Error parsing flags in file header, flags are {flags:#x}"),
        )
        .at(flags_at)
    };
    let coverage = match flags >> 12 & 3 {
        0 => Coverage::None,
        1 => Coverage::Static,
        2 => Coverage::Dynamic,
        _ => return Err(bad_flags().into()),
    };
    if flags >> 14 != 0 || flags >> 10 & 3 != 0 || flags >> 8 & 3 > 1 {
        return Err(bad_flags().into());
    }
    let counts_at = cursor.offset();
    let counts = [cursor.fixed()?, cursor.fixed()?, cursor.fixed()?, cursor.fixed()?];
    let ticks_per_second = cursor.num()?;
    let instrument_quanta = cursor.num()?;
    let user_quanta = cursor.num()?;
    let callseqs = cursor.num()?;
    let root_at = cursor.offset();
    let root = cursor.num()?;

    let has_points = u64::from(coverage != Coverage::None);
    let smallest = [
        ("csd", 4),
        ("css", if version >= 9 { 6 } else { 5 }),
        ("pd", if coverage == Coverage::Dynamic { 5 } else { 4 }),
        ("ps", 12 + has_points),
    ];
    let rest = cursor.rest_of_file();
    let mut needed = 0_u64;
    let mut checked = [0_u32; 4];
    for (i, (&count, (what, octets))) in counts.iter().zip(smallest).enumerate() {
        let at = counts_at + 8 * i as u64;
        let bad =
            |why: &str| DeepError::new(ErrorCode::BadCount, format!("{count} {what} nodes {why}")).at(at);
        let n = u64::try_from(count).map_err(|_| bad("cannot be"))?;
        needed = n
            .checked_mul(octets)
            .and_then(|o| o.checked_add(needed))
            .filter(|&o| o <= rest)
            .ok_or_else(|| bad("do not fit in the rest of the file"))?;
        checked[i] = u32::try_from(n)
            .ok()
            .filter(|&n| n < u32::MAX)
            .ok_or_else(|| DeepError::new(ErrorCode::TooLarge, format!("{n} {what} nodes")).at(at))?;
    }
    let [csd, css, pd, ps] = checked;
    let counts = Counts { csd, css, pd, ps };
    let root = u32::try_from(root).ok().filter(|&n| n <= pd).and_then(PdId::new).ok_or_else(|| {
        let hint =
            if counts == Counts::default() { "; the program ended before it wrote the counts" } else { "" };
        DeepError::new(ErrorCode::BadId, format!("root pd {root} is not among 1 to {pd}{hint}")).at(root_at)
    })?;
    let header = Header {
        version,
        program,
        bytes_per_word: (flags & 0xff) as u8,
        canonical: flags >> 8 & 3 == 1,
        coverage,
        ticks_per_second,
        instrument_quanta,
        user_quanta,
        callseqs,
        root,
    };
    Ok((header, strings, counts))
}

/// Decodes one node; `None` at the end tag. `multi` is scratch space.
fn node(builder: &mut Builder, cursor: &mut Cursor<'_>, multi: &mut Vec<CsdId>) -> Decoded<Option<NodeRef>> {
    Ok(Some(match cursor.byte()? {
        0 => return Ok(None),
        1 => css(builder, cursor)?,
        2 => csd(builder, cursor)?,
        3 => ps(builder, cursor)?,
        4 => pd(builder, cursor, multi)?,
        tag => return Err(cursor.bad_byte(ErrorCode::BadToken, format!("unexpected token {tag}"))),
    }))
}

/// Adds node and offset to errors of a field.
trait InNode<T> {
    fn in_node(self, node: NodeRef) -> Decoded<T>;
    fn at(self, offset: u64) -> Decoded<T>;
}

impl<T> InNode<T> for Decoded<T> {
    fn in_node(self, node: NodeRef) -> Self {
        self.map_err(|fault| match fault {
            Fault::Bad(error) => error.node(node).into(),
            Fault::Short => Fault::Short,
        })
    }
    fn at(self, offset: u64) -> Self {
        self.map_err(|fault| match fault {
            Fault::Bad(error) => error.at(offset).into(),
            Fault::Short => Fault::Short,
        })
    }
}

impl<T> InNode<T> for Result<T, DeepError> {
    fn in_node(self, node: NodeRef) -> Decoded<T> {
        self.map_err(|e| e.node(node).into())
    }
    fn at(self, offset: u64) -> Decoded<T> {
        self.map_err(|e| e.at(offset).into())
    }
}

fn csd(builder: &mut Builder, cursor: &mut Cursor<'_>) -> Decoded<NodeRef> {
    let at = cursor.offset();
    let id = builder.csd_id(cursor.num()?).at(at)?;
    let node = NodeRef::Csd(id);
    let at = cursor.offset();
    let callee = cursor.num().in_node(node)?;
    let callee = builder.pd_id(callee).at(at).in_node(node)?;
    let at = cursor.offset();
    let mask = cursor.num().in_node(node)?;
    if mask & !0x1fe != 0 {
        return Err(DeepError::new(
            ErrorCode::BadMask,
            format!("measurement mask {mask:#x} has unknown bits"),
        )
        .at(at)
        .node(node)
        .into());
    }
    // The values have the order of the fields of `Own`.
    let mut own = [0; 8];
    for (value, bit) in own.iter_mut().zip(MASK_BITS) {
        if mask & bit != 0 {
            *value = cursor.num().in_node(node)?.cast_signed();
        }
    }
    builder.csd(id, callee, &Own::from_array(own))?;
    Ok(node)
}

fn pd(builder: &mut Builder, cursor: &mut Cursor<'_>, multi: &mut Vec<CsdId>) -> Decoded<NodeRef> {
    let at = cursor.offset();
    let id = builder.pd_id(cursor.num()?).at(at)?;
    let node = NodeRef::Pd(id);
    pd_fields(builder, cursor, multi, id).in_node(node)?;
    Ok(node)
}

fn pd_fields(
    builder: &mut Builder,
    cursor: &mut Cursor<'_>,
    multi: &mut Vec<CsdId>,
    id: PdId,
) -> Decoded<()> {
    let since = builder.mark();
    let at = cursor.offset();
    let ps = builder.ps_id(cursor.num()?).at(at)?;
    let sites = cursor.count()?;
    let mut counts = 0;
    if builder.header().coverage == Coverage::Dynamic {
        counts = cursor.count()?;
        for _ in 0..counts {
            builder.count(cursor.num()?);
        }
    }
    for _ in 0..sites {
        let kind = site_kind(cursor)?;
        if kind == SiteKind::Normal {
            let at = cursor.offset();
            let csd = match cursor.num()? {
                0 => None,
                n => Some(builder.csd_id(n).at(at)?),
            };
            builder.slot(Slot::Normal(csd));
            continue;
        }
        multi.clear();
        while cursor.peek()? != 0 {
            let at = cursor.offset();
            match cursor.num()? {
                // A padded zero does not end the list and refers to nothing.
                0 => {}
                n => multi.push(builder.csd_id(n).at(at)?),
            }
        }
        cursor.byte()?;
        builder.slot(Slot::Multi { kind, csds: multi });
    }
    builder.pd_since(&since, id, ps, counts)?;
    Ok(())
}

fn site_kind(cursor: &mut Cursor<'_>) -> Decoded<SiteKind> {
    let n = cursor.byte()?;
    SiteKind::from_number(n)
        .ok_or_else(|| cursor.bad_byte(ErrorCode::BadCallSiteKind, format!("unexpected call_site_kind {n}")))
}

fn css(builder: &mut Builder, cursor: &mut Cursor<'_>) -> Decoded<NodeRef> {
    let at = cursor.offset();
    let id = builder.css_id(cursor.num()?).at(at)?;
    let node = NodeRef::Css(id);
    let css = css_fields(builder, cursor).in_node(node)?;
    builder.css(id, css)?;
    Ok(node)
}

fn css_fields(builder: &mut Builder, cursor: &mut Cursor<'_>) -> Decoded<Css> {
    let kind = match site_kind(cursor)? {
        SiteKind::Normal => {
            let at = cursor.offset();
            let callee = builder.ps_id(cursor.num()?).at(at)?;
            CssKind::Normal { callee, type_subst: string(builder, cursor)? }
        }
        SiteKind::Special => CssKind::Special,
        SiteKind::HigherOrder => CssKind::HigherOrder,
        SiteKind::Method => CssKind::Method,
        SiteKind::Callback => CssKind::Callback,
    };
    let file = if builder.header().version >= 9 { string(builder, cursor)? } else { Strings::EMPTY };
    let line = cursor.num32("line number")?;
    let at = cursor.offset();
    let path = builder.path(cursor.string()?).at(at)?;
    Ok(Css { kind, file, line, path })
}

fn string(builder: &mut Builder, cursor: &mut Cursor<'_>) -> Decoded<StrId> {
    let at = cursor.offset();
    builder.string(cursor.string()?).at(at)
}

fn ps(builder: &mut Builder, cursor: &mut Cursor<'_>) -> Decoded<NodeRef> {
    let at = cursor.offset();
    let id = builder.ps_id(cursor.num()?).at(at)?;
    let node = NodeRef::Ps(id);
    let since = builder.mark();
    let proc = ps_fields(builder, cursor).in_node(node)?;
    builder.ps_since(&since, id, proc)?;
    Ok(node)
}

fn ps_fields(builder: &mut Builder, cursor: &mut Cursor<'_>) -> Decoded<ProcStatic> {
    let mut owned = |text: &[u8], at: u64, _end: u64| builder.string(text).at(at);
    let label = label(cursor, &mut owned)?;
    let file = string(builder, cursor)?;
    let line = cursor.num32("line number")?;
    let in_interface = cursor.byte()? != 0;
    for _ in 0..cursor.count()? {
        let at = cursor.offset();
        let site = builder.css_id(cursor.num()?).at(at)?;
        builder.site(site);
    }
    let coverage = builder.header().coverage;
    if coverage != Coverage::None {
        for _ in 0..cursor.count()? {
            let at = cursor.offset();
            let path = builder.path(cursor.string()?).at(at)?;
            let at = cursor.offset();
            let kind = match cursor.num()? {
                0 => PointKind::After,
                1 => PointKind::BranchArm,
                n => {
                    let message = format!("unexpected coverage point type {n}");
                    return Err(DeepError::new(ErrorCode::BadCoverageType, message).at(at).into());
                }
            };
            let count = if coverage == Coverage::Static { cursor.num()? } else { 0 };
            builder.point(CoveragePoint { path, kind }, count);
        }
    }
    Ok(ProcStatic { label, file, line, in_interface })
}

/// Decodes a procedure label. `keep` turns its strings, given with their start (including the length) and end, into
/// `S`.
pub(crate) fn label<'a, S>(
    cursor: &mut Cursor<'a>,
    keep: &mut impl FnMut(&'a [u8], u64, u64) -> Decoded<S>,
) -> Decoded<ProcLabel<S>> {
    let kind = cursor.byte()?;
    if kind > 2 {
        return Err(cursor.bad_byte(ErrorCode::BadProclabelKind, format!("unexpected proclabel_kind {kind}")));
    }
    let mut string = |cursor: &mut Cursor<'a>| {
        let at = cursor.offset();
        let text = cursor.string()?;
        keep(text, at, cursor.offset())
    };
    if kind == 2 {
        return Ok(ProcLabel::Special {
            type_name: string(cursor)?,
            type_module: string(cursor)?,
            def_module: string(cursor)?,
            pred_name: string(cursor)?,
            arity: cursor.num32("arity")?,
            mode: cursor.num32("mode")?,
        });
    }
    Ok(ProcLabel::Ordinary {
        kind: if kind == 0 { PredOrFunc::Pred } else { PredOrFunc::Func },
        decl_module: string(cursor)?,
        def_module: string(cursor)?,
        name: string(cursor)?,
        arity: cursor.num32("arity")?,
        mode: cursor.num32("mode")?,
    })
}
