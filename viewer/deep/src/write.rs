//! Writes Deep.data, versions 8 and 9, in the order of the Mercury run-time system: contexts depth first from the root,
//! each followed by its edges, and each edge by its callee unless that was written before; then procedures, the root's
//! first, each followed by its call sites. The layout is that of [`mod@crate::read`]. Numbers have their shortest form.

use crate::small::small;
use std::io::{self, Write};

use crate::cursor::{put_num, put_string};
use crate::id::{CsdId, CssId, Id, PdId, PsId};
use crate::label::{PredOrFunc, ProcLabel};
use crate::model::{Coverage, CssKind, DeepData, SiteKind, Slot};
use crate::read::FIRST_LINE;

/// A version of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Call sites are in the file of their procedure.
    V8,
    /// A call site may name its own file.
    V9,
}

impl Version {
    /// The number in the file's first line.
    pub fn number(self) -> u32 {
        match self {
            Self::V8 => 8,
            Self::V9 => 9,
        }
    }
    /// The version of this number.
    pub fn from_number(n: u32) -> Option<Self> {
        match n {
            8 => Some(Self::V8),
            9 => Some(Self::V9),
            _ => None,
        }
    }
}

/// Why a profile was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Version 8 cannot store a call site's own file.
    #[error("css {0}: version 8 cannot say that a call site is in a file of its own")]
    SiteFile(CssId),
}

/// Writes a profile's data, node by node, so pass a buffered writer or memory.
///
/// # Errors
/// Those of the writer; data that the version cannot express.
pub fn write(data: &DeepData, version: Version, out: &mut impl Write) -> Result<(), WriteError> {
    let mut writer = Writer { data, version, node: Vec::new(), out };
    writer.header()?;
    writer.contexts()?;
    writer.statics()?;
    writer.out.flush()?;
    Ok(())
}

/// A profile's data as the octets of a file.
///
/// # Errors
/// Data that the version cannot express.
pub fn to_octets(data: &DeepData, version: Version) -> Result<Vec<u8>, WriteError> {
    let mut out = Vec::new();
    write(data, version, &mut out)?;
    Ok(out)
}

struct Writer<'a, W> {
    data: &'a DeepData,
    version: Version,
    node: Vec<u8>,
    out: &'a mut W,
}

impl<W: Write> Writer<'_, W> {
    fn num(&mut self, n: u32) {
        put_num(&mut self.node, u64::from(n));
    }
    fn string(&mut self, id: crate::StrId) {
        put_string(&mut self.node, self.data.strings().octets(id));
    }
    fn end_node(&mut self) -> io::Result<()> {
        self.out.write_all(&self.node)?;
        self.node.clear();
        Ok(())
    }

    fn header(&mut self) -> Result<(), WriteError> {
        let header = self.data.header();
        self.node.extend_from_slice(FIRST_LINE);
        self.node.extend_from_slice(format!("{}\n", self.version.number()).as_bytes());
        self.string(header.program);
        let coverage = match header.coverage {
            Coverage::None => 0_u64,
            Coverage::Static => 1,
            Coverage::Dynamic => 2,
        };
        let flags = u64::from(header.bytes_per_word) | u64::from(header.canonical) << 8 | coverage << 12;
        let data = self.data;
        let counts = [data.csd_count(), data.css_count(), data.pd_count(), data.ps_count()];
        for fixed in std::iter::once(flags).chain(counts.map(|n| n as u64)) {
            self.node.extend_from_slice(&fixed.to_le_bytes());
        }
        for n in [header.ticks_per_second, header.instrument_quanta, header.user_quanta, header.callseqs] {
            put_num(&mut self.node, n);
        }
        self.num(header.root.number());
        self.end_node()?;
        Ok(())
    }

    fn contexts(&mut self) -> Result<(), WriteError> {
        let data = self.data;
        let mut written = vec![false; data.pd_count()];
        // Remaining edges, the next one last.
        let mut stack: Vec<CsdId> = Vec::new();
        let roots = std::iter::once(data.root()).chain(data.pds());
        for pd in roots {
            self.context(pd, &mut written, &mut stack)?;
            while let Some(csd) = stack.pop() {
                self.edge(csd)?;
                self.context(data.csd_callee(csd), &mut written, &mut stack)?;
            }
        }
        Ok(())
    }

    fn context(&mut self, pd: PdId, written: &mut [bool], stack: &mut Vec<CsdId>) -> Result<(), WriteError> {
        if std::mem::replace(&mut written[pd.index()], true) {
            return Ok(());
        }
        let data = self.data;
        self.node.push(4);
        self.num(pd.number());
        self.num(data.pd_ps(pd).number());
        let slots = data.slots(pd);
        self.num(small(slots.len()));
        if data.header().coverage == Coverage::Dynamic {
            let counts = data.pd_coverage(pd);
            self.num(small(counts.len()));
            for count in counts {
                put_num(&mut self.node, count);
            }
        }
        let first = stack.len();
        for slot in slots {
            self.node.push(slot.kind().number());
            match slot {
                Slot::Normal(csd) => self.num(CsdId::number_or_zero(csd)),
                Slot::Multi { csds, .. } => {
                    for csd in csds {
                        self.num(csd.number());
                    }
                    self.node.push(0);
                }
            }
            stack.extend(slot.csds());
        }
        stack[first..].reverse();
        self.end_node()?;
        Ok(())
    }

    fn edge(&mut self, csd: CsdId) -> Result<(), WriteError> {
        self.node.push(2);
        self.num(csd.number());
        self.num(self.data.csd_callee(csd).number());
        let own = self.data.csd_own(csd).as_array();
        let mask =
            own.iter().zip(crate::figures::MASK_BITS).map(|(&v, bit)| if v == 0 { 0 } else { bit }).sum();
        put_num(&mut self.node, mask);
        for value in own.into_iter().filter(|&v| v != 0) {
            put_num(&mut self.node, value.cast_unsigned());
        }
        self.end_node()?;
        Ok(())
    }

    fn statics(&mut self) -> Result<(), WriteError> {
        let data = self.data;
        let mut written = vec![false; data.css_count()];
        let root = data.pd_ps(data.root());
        for ps in std::iter::once(root).chain(data.pss().filter(|&ps| ps != root)) {
            self.procedure(ps)?;
            for &css in data.sites(ps) {
                if !std::mem::replace(&mut written[css.index()], true) {
                    self.call_site(css)?;
                }
            }
        }
        // Call sites without a procedure. A valid profile has none, but they are kept.
        for css in data.csss().filter(|css| !written[css.index()]) {
            self.call_site(css)?;
        }
        Ok(())
    }

    fn procedure(&mut self, ps: PsId) -> Result<(), WriteError> {
        let data = self.data;
        let proc = data.ps(ps);
        self.node.push(3);
        self.num(ps.number());
        match &proc.label {
            ProcLabel::Ordinary { kind, decl_module, def_module, name, arity, mode } => {
                self.node.push(if *kind == PredOrFunc::Pred { 0 } else { 1 });
                self.string(*decl_module);
                self.string(*def_module);
                self.string(*name);
                self.num(*arity);
                self.num(*mode);
            }
            ProcLabel::Special { type_name, type_module, def_module, pred_name, arity, mode } => {
                self.node.push(2);
                self.string(*type_name);
                self.string(*type_module);
                self.string(*def_module);
                self.string(*pred_name);
                self.num(*arity);
                self.num(*mode);
            }
        }
        self.string(proc.file);
        self.num(proc.line);
        self.node.push(u8::from(proc.in_interface));
        self.num(small(data.sites(ps).len()));
        for css in data.sites(ps) {
            self.num(css.number());
        }
        let coverage = data.header().coverage;
        if coverage != Coverage::None {
            let points = data.points(ps);
            self.num(small(points.len()));
            let counts = data.ps_own_coverage(ps).unwrap_or_default();
            for (i, point) in points.iter().enumerate() {
                self.string(point.path.0);
                self.num(point.kind as u32);
                if coverage == Coverage::Static {
                    put_num(&mut self.node, counts.get(i).copied().unwrap_or(0));
                }
            }
        }
        self.end_node()?;
        Ok(())
    }

    fn call_site(&mut self, id: CssId) -> Result<(), WriteError> {
        let css = self.data.css(id);
        self.node.push(1);
        self.num(id.number());
        self.node.push(css.kind.kind().number());
        if let CssKind::Normal { callee, type_subst } = css.kind {
            debug_assert_eq!(css.kind.kind(), SiteKind::Normal);
            self.num(callee.number());
            self.string(type_subst);
        }
        match self.version {
            Version::V9 => self.string(css.file),
            Version::V8 if css.file == crate::Strings::EMPTY => {}
            Version::V8 => return Err(WriteError::SiteFile(id)),
        }
        self.num(css.line);
        self.string(css.path.0);
        self.end_node()?;
        Ok(())
    }
}
