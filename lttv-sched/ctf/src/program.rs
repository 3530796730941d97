//! Compiles field classes to flat decode steps.
//!
//! Most fields of real traces have a position that is known as soon as the start of their structure is. These are
//! gathered into a [`Run`], whose length is checked once and which is skipped by an addition. A run ends at a string, a
//! sequence or a variant, after which the position depends on the data, or at an alignment that is greater than what is
//! known of the position.
//!
//! ```text
//! struct { u32 a; u16 b[3]; string s; u64 align(64) t; }
//!     Run { align 8, 80 bits: a b0 b1 b2 }   Str   Run { align 64, 64 bits: t }
//! ```

use crate::bits::row;
use crate::model::{Bits, BitsKind, ByteOrder, FieldClass, FieldKind, Length, Range, Role};
use crate::resolve::{Key, Ref, Resolved, RootField};

/// Steps that decode one field class.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
}

impl Program {
    /// Alignment and length, if every record has the same and the reader itself needs nothing in it.
    pub(crate) fn plain(&self) -> Option<(u64, u64)> {
        match &self.ops[..] {
            [] => Some((1, 0)),
            [Op::Run(r)] if r.marks.is_empty() && r.first.is_none() => Some((r.align, r.bits)),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Op {
    Run(Run),
    /// Text up to a zero code unit of this many bytes, byte-aligned.
    Str(u64),
    /// Text or BLOB, byte-aligned.
    Bytes {
        len: Len,
        align: u64,
    },
    VarInt {
        signed: bool,
        marks: Box<[Mark]>,
    },
    Array(Box<Array>),
    Variant(Box<Choice>),
    Optional(Box<Maybe>),
    /// The trace's UUID is here (byte-aligned): its position is stored.
    Uuid,
    /// Two fields of different byte order share a byte here.
    Conflict,
}

/// Fields with positions relative to the start of the run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) align: u64,
    pub(crate) bits: u64,
    pub(crate) fields: Box<[Fixed]>,
    /// Fields (by index) whose value the reader needs.
    pub(crate) marks: Box<[(u32, Mark)]>,
    /// Byte order of the first and last field, if the run may start or ends inside a byte.
    pub(crate) first: Option<ByteOrder>,
    pub(crate) last: Option<ByteOrder>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fixed {
    /// Bits from the start of the run.
    pub(crate) off: u64,
    pub(crate) load: Load,
}

/// How a field is loaded. Floats, booleans and bit arrays are loaded as unsigned integers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    U8,
    I8,
    U16L,
    U16B,
    I16L,
    I16B,
    U32L,
    U32B,
    I32L,
    I32B,
    U64L,
    U64B,
    Bits {
        len: u8,
        big: bool,
        signed: bool,
        reversed: bool,
    },
    /// This many bytes of text or BLOB.
    Bytes(u64),
}

/// What happens with a value besides display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Store { reg: u32, signed: bool },
    Role { role: Role, len: u32 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Len {
    Fixed(u64),
    Reg(u32),
}

#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) len: Len,
    pub(crate) align: u64,
    pub(crate) body: Program,
    /// Least bits of an element.
    pub(crate) least: u64,
    /// Bits from one element to the next, if all are the same and have no marks.
    pub(crate) stride: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) reg: u32,
    /// Ranges with their option, in the order of options.
    pub(crate) table: Vec<(Range, u32)>,
    pub(crate) options: Vec<Program>,
    /// Registers of the fields inside.
    pub(crate) clear: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Maybe {
    pub(crate) reg: u32,
    pub(crate) ranges: Option<Vec<Range>>,
    pub(crate) body: Program,
    pub(crate) clear: Vec<u32>,
}

/// Compiles a root class.
pub(crate) fn compile(resolved: &Resolved, place: RootField, class: &FieldClass) -> Program {
    let any = resolved.refs.keys().chain(resolved.stores.keys()).any(|k| k.0 == place);
    let mut c = Compiler { resolved: any.then_some(resolved), path: (place, Vec::new()) };
    c.program(class)
}

/// Longest array that is laid out field by field.
const UNROLL: u64 = 16;

struct Compiler<'a> {
    /// None if nothing in this class refers to a field or is referred to.
    resolved: Option<&'a Resolved>,
    path: Key,
}

/// A program in the making.
struct Draft {
    ops: Vec<Op>,
    /// The position is `offset` modulo `modulus`.
    modulus: u64,
    offset: u64,
    run: Option<Open>,
}

struct Open {
    align: u64,
    bits: u64,
    fields: Vec<Fixed>,
    marks: Vec<(u32, Mark)>,
    first: Option<ByteOrder>,
    last: Option<(ByteOrder, u64)>,
}

impl Draft {
    fn open(&mut self) -> &mut Open {
        self.run.get_or_insert_with(|| Open {
            align: 1,
            bits: 0,
            fields: Vec::new(),
            marks: Vec::new(),
            first: None,
            last: None,
        })
    }

    fn flush(&mut self) {
        if let Some(r) = self.run.take()
            && (r.align > 1 || r.bits > 0 || !r.fields.is_empty())
        {
            self.ops.push(Op::Run(Run {
                align: r.align,
                bits: r.bits,
                fields: r.fields.into(),
                marks: r.marks.into(),
                first: r.first.filter(|_| r.align < 8),
                last: r.last.map(|l| l.0).filter(|_| r.align < 8 || r.bits % 8 != 0),
            }));
        }
    }

    fn align(&mut self, align: u64) {
        if align <= self.modulus {
            let pad = (align - self.offset % align) % align;
            if pad > 0 {
                self.advance(pad);
            }
        } else {
            self.flush();
            self.open().align = align;
            (self.modulus, self.offset) = (align, 0);
        }
    }

    fn advance(&mut self, bits: u64) {
        let m = self.modulus;
        self.offset = (self.offset + bits % m) % m;
        let r = self.open();
        r.bits = r.bits.saturating_add(bits);
    }

    /// Adds a step, after which the position is only known modulo `modulus`.
    fn push(&mut self, op: Op, modulus: u64) {
        self.flush();
        self.ops.push(op);
        (self.modulus, self.offset) = (modulus, 0);
    }

    /// Adds a field at the (aligned) position. Returns its index in the run.
    fn field(&mut self, load: Load, bits: u64, order: Option<ByteOrder>) -> u32 {
        if let Some(order) = order {
            let inside_known = self.modulus >= 8;
            let inside = !self.offset.is_multiple_of(8);
            let last = self.run.as_ref().and_then(|r| r.last);
            if let (Some((old, end)), Some(r)) = (last, &self.run)
                && old != order
                && end == r.bits
            {
                if !inside_known {
                    // Only with the position is it known whether the two share a byte; the next run checks that.
                    self.flush();
                } else if inside {
                    self.push(Op::Conflict, 1);
                }
            }
        }
        let r = self.open();
        if let Some(order) = order {
            if r.fields.is_empty() && r.bits == 0 {
                r.first = Some(order);
            }
            r.last = Some((order, r.bits.saturating_add(bits)));
        }
        r.fields.push(Fixed { off: r.bits, load });
        let i = row(r.fields.len() - 1);
        self.advance(bits);
        i
    }
}

impl Compiler<'_> {
    fn program(&mut self, class: &FieldClass) -> Program {
        let mut d = Draft { ops: Vec::new(), modulus: 1, offset: 0, run: None };
        self.class(&mut d, class);
        d.flush();
        Program { ops: d.ops }
    }

    fn reference(&self) -> Ref {
        // `resolve` made an entry for each field that refers to another; otherwise the trace would not have opened.
        self.resolved.and_then(|r| r.refs.get(&self.path)).cloned().unwrap_or(Ref { reg: 0, options: None })
    }

    fn len(&self, l: &Length) -> Len {
        match l {
            Length::Fixed(n) => Len::Fixed(*n),
            Length::Field(_) => Len::Reg(self.reference().reg),
        }
    }

    fn nested(&mut self, step: u32, class: &FieldClass) -> Program {
        self.path.1.push(step);
        let p = self.program(class);
        self.path.1.pop();
        p
    }

    /// Registers of the fields below the current one.
    fn inside(&self) -> Vec<u32> {
        let Some(r) = self.resolved else { return Vec::new() };
        let mut v: Vec<u32> = r
            .stores
            .iter()
            .filter(|((p, path), _)| {
                *p == self.path.0 && path.len() > self.path.1.len() && path.starts_with(&self.path.1)
            })
            .map(|s| *s.1)
            .collect();
        v.sort_unstable();
        v.dedup();
        v
    }

    fn marks(&self, roles: &[Role], len: u32, signed: bool) -> Vec<Mark> {
        let reg =
            self.resolved.and_then(|r| r.stores.get(&self.path)).map(|reg| Mark::Store { reg: *reg, signed });
        reg.into_iter().chain(roles.iter().map(|role| Mark::Role { role: *role, len })).collect()
    }

    fn bits(&mut self, d: &mut Draft, b: &Bits) {
        let byte_known = d.modulus >= 8 && d.offset.is_multiple_of(8);
        let load = load_of(b, byte_known);
        // A byte-aligned field shares no byte with the field before it, and with the one after it only if its length is
        // odd.
        let order = (!(byte_known && b.len.is_multiple_of(8))).then_some(b.order);
        let i = d.field(load, u64::from(b.len), order);
        let marks = self.marks(&b.roles, b.len, b.kind == BitsKind::Signed);
        d.open().marks.extend(marks.into_iter().map(|m| (i, m)));
    }

    fn class(&mut self, d: &mut Draft, c: &FieldClass) {
        match &c.kind {
            FieldKind::Bits(b) => {
                d.align(c.align);
                self.bits(d, b);
            }
            FieldKind::VarInt(v) => {
                let marks = self.marks(&v.roles, 0, v.signed);
                d.push(Op::VarInt { signed: v.signed, marks: marks.into() }, 8);
            }
            FieldKind::String(e) => d.push(Op::Str(e.unit()), 8),
            FieldKind::Text(len, _) | FieldKind::Blob(len) => {
                if c.role == Some(Role::TraceUuid) {
                    d.push(Op::Uuid, 8);
                }
                match self.len(len) {
                    Len::Fixed(n) if n < 1 << 32 => {
                        d.align(c.align.max(8));
                        d.field(Load::Bytes(n), n * 8, None);
                    }
                    len => d.push(Op::Bytes { len, align: c.align.max(8) }, 8),
                }
            }
            FieldKind::Struct(members) => {
                d.align(c.align);
                for (i, m) in members.iter().enumerate() {
                    self.path.1.push(row(i));
                    self.class(d, &m.class);
                    self.path.1.pop();
                }
            }
            FieldKind::Array(len, e) => self.array(d, c, len, e),
            FieldKind::Variant(_, options) => {
                let Ref { reg, options: labels } = self.reference();
                let mut table = Vec::new();
                for (i, o) in options.iter().enumerate() {
                    let ranges =
                        o.ranges.as_deref().or_else(|| labels.as_ref().map(|l| &l[i][..])).unwrap_or(&[]);
                    table.extend(ranges.iter().map(|r| (*r, row(i))));
                }
                let clear = self.inside();
                let options =
                    options.iter().enumerate().map(|(i, o)| self.nested(row(i), &o.class)).collect();
                d.push(Op::Variant(Box::new(Choice { reg, table, options, clear })), 1);
            }
            FieldKind::Optional(_, ranges, inner) => {
                let reg = self.reference().reg;
                let clear = self.inside();
                let body = self.nested(0, inner);
                d.push(Op::Optional(Box::new(Maybe { reg, ranges: ranges.clone(), body, clear })), 1);
            }
        }
    }

    fn array(&mut self, d: &mut Draft, c: &FieldClass, len: &Length, e: &FieldClass) {
        if c.role == Some(Role::TraceUuid) {
            d.push(Op::Uuid, 8);
        }
        if let (Length::Fixed(n), FieldKind::Bits(b)) = (len, &e.kind)
            && *n <= UNROLL
        {
            d.align(c.align);
            self.path.1.push(0);
            for _ in 0..*n {
                d.align(e.align);
                self.bits(d, b);
            }
            self.path.1.pop();
            return;
        }
        let len = self.len(len);
        let body = self.nested(0, e);
        let stride = body.plain().and_then(|(align, bits)| bits.checked_next_multiple_of(align.max(1)));
        // With a stride, the position after the array is at best that of an aligned element plus whole bytes.
        let modulus = match (body.plain(), stride) {
            (Some((_, bits)), Some(s)) if bits == s && bits > 0 && bits % 8 == 0 && c.align >= 8 => 8,
            _ => 1,
        };
        d.push(
            Op::Array(Box::new(Array { len, align: c.align, body, least: e.least_bits(), stride })),
            modulus,
        );
    }
}

fn load_of(b: &Bits, byte_known: bool) -> Load {
    use ByteOrder::{Big, Little};
    let signed = b.kind == BitsKind::Signed;
    if byte_known && !b.reversed {
        match (b.len, b.order, signed) {
            (8, _, false) => return Load::U8,
            (8, _, true) => return Load::I8,
            (16, Little, false) => return Load::U16L,
            (16, Big, false) => return Load::U16B,
            (16, Little, true) => return Load::I16L,
            (16, Big, true) => return Load::I16B,
            (32, Little, false) => return Load::U32L,
            (32, Big, false) => return Load::U32B,
            (32, Little, true) => return Load::I32L,
            (32, Big, true) => return Load::I32B,
            (64, Little, _) => return Load::U64L,
            (64, Big, _) => return Load::U64B,
            _ => {}
        }
    }
    Load::Bits { len: u8::try_from(b.len).unwrap_or(64), big: b.order == Big, signed, reversed: b.reversed }
}
