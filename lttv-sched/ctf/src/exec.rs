//! Runs decode programs over the bytes of a packet.
//!
//! The same code walks an event without storing anything (to find its end, its id and its time) and decodes its fields
//! into slots. A [`Sink`] makes the difference. So whatever the walk accepts, decoding accepts.
//!
//! Slots are in the order of fields. A number has one slot (sign-extended; floats by bit pattern); text and BLOBs have
//! two (byte offset in the data, bytes). An array with a length field has its count in front, a variant the index of
//! its option, an optional 0 or 1. Structures and arrays of fixed length have no slot of their own.

use crate::bits;
use crate::bits::index;
use crate::error::Fault;
use crate::model::{ByteOrder, Role};
use crate::program::{Array, Fixed, Len, Load, Mark, Op, Program, Run};

/// Most array elements that one event may have.
pub(crate) const MAX_ELEMENTS: u64 = 1 << 24;
/// Most elements of zero bits in one event.
pub(crate) const MAX_EMPTY: u64 = 1 << 20;

/// Why a program stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The input has fewer bytes than needed.
    Short,
    /// The data is invalid.
    Fault(Box<Fault>),
}

impl From<Fault> for Stop {
    fn from(f: Fault) -> Stop {
        Stop::Fault(Box::new(f))
    }
}

/// Bytes of a packet, from a certain position on.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    pub(crate) data: &'a [u8],
    /// Bits from the packet's start to the data's.
    pub(crate) base: u64,
    /// Bits of the data that may be read: at most `data.len() * 8`.
    pub(crate) limit: u64,
    /// Bits from the data's start to the end of the packet's content: `limit` or more.
    pub(crate) content: u64,
}

/// Receives decoded values.
pub(crate) trait Sink {
    /// Whether it needs the values.
    const KEEPS: bool;
    /// One slot.
    fn push_slot(&mut self, v: u64);
}

/// A sink that needs nothing.
pub(crate) struct Nothing;

impl Sink for Nothing {
    const KEEPS: bool = false;
    fn push_slot(&mut self, _: u64) {}
}

impl Sink for Vec<u64> {
    const KEEPS: bool = true;
    #[inline]
    fn push_slot(&mut self, v: u64) {
        self.push(v);
    }
}

/// The decoder's memory between fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// Values of fields that others refer to.
    pub(crate) regs: Vec<Option<i128>>,
    /// Running clock value.
    pub(crate) clock: u64,
    /// Event class id of the header decoded last.
    pub(crate) id: u64,
    /// Packet fields by role.
    pub(crate) roles: [Option<u64>; ROLES],
    /// Bit of the packet header at which the trace UUID begins.
    pub(crate) uuid_at: Option<u64>,
    last_order: Option<ByteOrder>,
    elements: u64,
    empty: u64,
}

const ROLES: usize = Role::Clock as usize + 1;

impl State {
    /// A state with this many registers.
    pub(crate) fn new(regs: u32) -> State {
        State { regs: vec![None; regs as usize], ..State::default() }
    }

    /// Resets what belongs to one record.
    pub(crate) fn start_record(&mut self) {
        self.elements = 0;
        self.empty = 0;
        self.last_order = None;
    }

    /// Value of a packet field.
    pub(crate) fn role(&self, r: Role) -> Option<u64> {
        self.roles[r as usize]
    }

    /// Sets the value of a packet field.
    pub(crate) fn set_role(&mut self, r: Role, v: Option<u64>) {
        self.roles[r as usize] = v;
    }

    fn mark(&mut self, m: Mark, v: u64, read: u32) {
        match m {
            Mark::Store { reg, signed } => {
                self.regs[reg as usize] =
                    Some(if signed { i128::from(v.cast_signed()) } else { i128::from(v) });
            }
            Mark::Role { role: Role::Clock, len } => self.tick(v, if len == 0 { read } else { len }),
            Mark::Role { role: Role::EventId, .. } => self.id = v,
            Mark::Role { role, .. } => self.roles[role as usize] = Some(v),
        }
    }

    /// Sets the low `len` bits of the clock. A smaller new value means that they wrapped once.
    fn tick(&mut self, v: u64, len: u32) {
        let mask = bits::mask(len);
        let (low, old) = (v & mask, self.clock & mask);
        let next = (self.clock & !mask) | low;
        self.clock = if low < old && len < 64 { next.wrapping_add(mask).wrapping_add(1) } else { next };
    }

    fn value(&self, reg: u32) -> Result<i128, Stop> {
        self.regs.get(reg as usize).copied().flatten().ok_or_else(|| Fault::NotDecoded.into())
    }

    fn len(&self, len: Len) -> Result<u64, Stop> {
        match len {
            Len::Fixed(n) => Ok(n),
            Len::Reg(r) => Ok(u64::try_from(self.value(r)?).unwrap_or(u64::MAX)),
        }
    }
}

/// `x` aligned up, both relative to the data.
#[inline]
fn aligned(inp: &Input<'_>, x: u64, align: u64) -> Result<u64, Stop> {
    let m = align - 1;
    match (x + inp.base).checked_add(m) {
        Some(v) => Ok((v & !m) - inp.base),
        None => Err(Fault::PastContent.into()),
    }
}

/// Bounds of a field that ends at `end`.
#[inline]
fn check(inp: &Input<'_>, end: Option<u64>) -> Result<u64, Stop> {
    match end {
        Some(e) if e <= inp.limit => Ok(e),
        Some(e) if e <= inp.content => Err(Stop::Short),
        _ => Err(Fault::PastContent.into()),
    }
}

/// Runs a program from bit `x` of the input. Returns the next bit.
pub(crate) fn run<S: Sink>(
    p: &Program,
    inp: &Input<'_>,
    mut x: u64,
    st: &mut State,
    sink: &mut S,
) -> Result<u64, Stop> {
    for op in &p.ops {
        x = match op {
            Op::Run(r) => fixed(r, inp, x, st, sink)?,
            Op::Str(unit) => string(*unit, inp, x, sink)?,
            Op::Bytes { len, align } => {
                let n = st.len(*len)?;
                let x = aligned(inp, x, *align)?;
                let left = inp.content.saturating_sub(x);
                if n > left / 8 {
                    return Err(Fault::SequenceLength { len: n, least: 8, left }.into());
                }
                let end = check(inp, x.checked_add(n * 8))?;
                sink.push_slot(x / 8);
                sink.push_slot(n);
                end
            }
            Op::VarInt { signed, marks } => {
                let x = aligned(inp, x, 8)?;
                let (v, n) = leb128(inp, x, *signed)?;
                for m in marks {
                    st.mark(*m, v, (7 * n).min(64));
                }
                sink.push_slot(v);
                x + u64::from(n) * 8
            }
            Op::Array(a) => array(a, inp, x, st, sink)?,
            Op::Variant(c) => {
                let v = st.value(c.reg)?;
                let (_, i) = c.table.iter().find(|(r, _)| r.contains(v)).ok_or(Fault::NoOption(v))?;
                for r in &c.clear {
                    st.regs[*r as usize] = None;
                }
                sink.push_slot(u64::from(*i));
                run(&c.options[*i as usize], inp, x, st, sink)?
            }
            Op::Optional(m) => {
                let v = st.value(m.reg)?;
                let there = match &m.ranges {
                    Some(r) => r.iter().any(|r| r.contains(v)),
                    None => v != 0,
                };
                for r in &m.clear {
                    st.regs[*r as usize] = None;
                }
                sink.push_slot(u64::from(there));
                if there { run(&m.body, inp, x, st, sink)? } else { x }
            }
            Op::Uuid => {
                let x = aligned(inp, x, 8)?;
                st.uuid_at = Some(x);
                x
            }
            Op::Conflict => return Err(Fault::ByteOrder.into()),
        };
    }
    Ok(x)
}

#[inline]
fn fixed<S: Sink>(r: &Run, inp: &Input<'_>, x: u64, st: &mut State, sink: &mut S) -> Result<u64, Stop> {
    let x = aligned(inp, x, r.align)?;
    let end = check(inp, x.checked_add(r.bits))?;
    if let Some(order) = r.first
        && x % 8 != 0
        && st.last_order.is_some_and(|o| o != order)
    {
        return Err(Fault::ByteOrder.into());
    }
    st.last_order = r.last;
    if S::KEEPS {
        for f in &r.fields {
            decode_fixed(f, inp.data, x, sink);
        }
    }
    for (i, m) in &r.marks {
        let f = &r.fields[*i as usize];
        st.mark(*m, load(f, inp.data, x), 0);
    }
    Ok(end)
}

#[inline]
fn decode_fixed<S: Sink>(f: &Fixed, data: &[u8], x: u64, sink: &mut S) {
    if let Load::Bytes(n) = f.load {
        sink.push_slot((x + f.off) / 8);
        sink.push_slot(n);
    } else {
        sink.push_slot(load(f, data, x));
    }
}

#[inline]
fn load(f: &Fixed, data: &[u8], x: u64) -> u64 {
    /// The bytes of a byte-aligned number. The caller has checked that they exist; if not, the result is zeros and no
    /// panic.
    #[inline]
    fn bytes<const N: usize>(data: &[u8], x: u64) -> [u8; N] {
        let i = (x / 8) as usize;
        data.get(i..i + N).and_then(|b| b.try_into().ok()).unwrap_or([0; N])
    }
    let x = x + f.off;
    match f.load {
        Load::U8 => u64::from(bytes::<1>(data, x)[0]),
        Load::I8 => i64::from(bytes::<1>(data, x)[0].cast_signed()).cast_unsigned(),
        Load::U16L => u64::from(u16::from_le_bytes(bytes(data, x))),
        Load::U16B => u64::from(u16::from_be_bytes(bytes(data, x))),
        Load::I16L => i64::from(i16::from_le_bytes(bytes(data, x))).cast_unsigned(),
        Load::I16B => i64::from(i16::from_be_bytes(bytes(data, x))).cast_unsigned(),
        Load::U32L => u64::from(u32::from_le_bytes(bytes(data, x))),
        Load::U32B => u64::from(u32::from_be_bytes(bytes(data, x))),
        Load::I32L => i64::from(i32::from_le_bytes(bytes(data, x))).cast_unsigned(),
        Load::I32B => i64::from(i32::from_be_bytes(bytes(data, x))).cast_unsigned(),
        Load::U64L => u64::from_le_bytes(bytes(data, x)),
        Load::U64B => u64::from_be_bytes(bytes(data, x)),
        Load::Bits { len, big, signed, reversed } => {
            let len = u32::from(len);
            let v = if big { bits::big(data, x, len) } else { bits::little(data, x, len) };
            let v = if reversed { bits::reverse(v, len) } else { v };
            if signed { bits::extend(v, len) } else { v }
        }
        Load::Bytes(_) => 0,
    }
}

fn string<S: Sink>(unit: u64, inp: &Input<'_>, x: u64, sink: &mut S) -> Result<u64, Stop> {
    let x = aligned(inp, x, 8)?;
    check(inp, Some(x))?;
    let start = (x / 8) as usize;
    let text = &inp.data[start..(inp.limit / 8) as usize];
    let n = if unit == 1 {
        memchr::memchr(0, text)
    } else {
        let wide = index(unit);
        text.chunks_exact(wide).position(|c| c.iter().all(|b| *b == 0)).map(|i| i * wide)
    };
    match n {
        Some(n) => {
            sink.push_slot(start as u64);
            sink.push_slot(n as u64);
            Ok(x + (n as u64 + unit) * 8)
        }
        None if inp.limit < inp.content => Err(Stop::Short),
        None => Err(Fault::PastContent.into()),
    }
}

/// A byte-aligned LEB128 integer, and its number of bytes.
fn leb128(inp: &Input<'_>, x: u64, signed: bool) -> Result<(u64, u32), Stop> {
    let (mut v, mut n) = (0u64, 0u32);
    loop {
        check(inp, x.checked_add(u64::from(n + 1) * 8))?;
        let b = inp.data[(x / 8) as usize + n as usize];
        let low = u64::from(b & 0x7F);
        if n == 9 {
            // One bit is left of 64, so the rest may only repeat the sign.
            let fits = if signed { low == 0 || low == 0x7F } else { low <= 1 };
            if !fits || b & 0x80 != 0 {
                return Err(Fault::VarInt.into());
            }
        }
        v |= low << (7 * n);
        n += 1;
        if b & 0x80 == 0 {
            if signed && n < 10 {
                v = bits::extend(v, 7 * n);
            }
            return Ok((v, n));
        }
    }
}

fn array<S: Sink>(a: &Array, inp: &Input<'_>, x: u64, st: &mut State, sink: &mut S) -> Result<u64, Stop> {
    let n = st.len(a.len)?;
    let mut x = aligned(inp, x, a.align)?;
    let left = inp.content.saturating_sub(x);
    if n.checked_mul(a.least).is_none_or(|need| need > left) {
        return Err(Fault::SequenceLength { len: n, least: a.least, left }.into());
    }
    if a.least == 0 {
        st.empty = st.empty.saturating_add(n);
        if st.empty > MAX_EMPTY {
            return Err(Fault::TooManyFields(MAX_EMPTY).into());
        }
    }
    st.elements = st.elements.saturating_add(n);
    if st.elements > MAX_ELEMENTS {
        return Err(Fault::TooManyFields(MAX_ELEMENTS).into());
    }
    if let Len::Reg(_) = a.len {
        sink.push_slot(n);
    }
    if n == 0 {
        return Ok(x);
    }
    if let (Some(stride), Some((align, bits))) = (a.stride, a.body.plain()) {
        x = aligned(inp, x, align)?;
        let end = check(
            inp,
            stride.checked_mul(n - 1).and_then(|s| s.checked_add(bits)).and_then(|s| s.checked_add(x)),
        )?;
        if S::KEEPS
            && let [Op::Run(r)] = &a.body.ops[..]
        {
            for i in 0..n {
                for f in &r.fields {
                    decode_fixed(f, inp.data, x + i * stride, sink);
                }
            }
        }
        return Ok(end);
    }
    for _ in 0..n {
        x = run(&a.body, inp, x, st, sink)?;
    }
    Ok(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(data: &[u8]) -> Input<'_> {
        Input { data, base: 0, limit: data.len() as u64 * 8, content: data.len() as u64 * 8 }
    }

    #[test]
    fn leb128_takes_64_bits_and_no_more() {
        let most = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
        assert_eq!(leb128(&input(&most), 0, false).unwrap(), (u64::MAX, 10));
        let least = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7F];
        assert_eq!(leb128(&input(&least), 0, true).unwrap(), (i64::MIN as u64, 10));
        for last in [0x02, 0x81] {
            let mut b = most;
            b[9] = last;
            assert!(
                matches!(leb128(&input(&b), 0, false), Err(Stop::Fault(f)) if *f == Fault::VarInt),
                "{last:#x}"
            );
        }
        assert_eq!(leb128(&input(&[0x7E]), 0, true).unwrap().0 as i64, -2);
        assert!(matches!(leb128(&input(&[0x80]), 0, true), Err(Stop::Fault(f)) if *f == Fault::PastContent));
    }

    #[test]
    fn a_partial_clock_wraps_once() {
        let mut s = State { clock: 0x1_FFFF_FFF0, ..State::new(0) };
        s.tick(0x10, 32);
        assert_eq!(s.clock, 0x2_0000_0010);
        s.tick(0x10, 32);
        assert_eq!(s.clock, 0x2_0000_0010);
        s.tick(5, 64);
        assert_eq!(s.clock, 5);
    }
}
