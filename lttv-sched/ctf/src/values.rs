//! Decoded fields, seen through their class.
//!
//! A [`View`] is a class, the slots from decoding (see [`exec`](crate::exec)) and the bytes that texts point into.

use std::borrow::Cow;

use crate::bits::index;
use crate::model::{Bits, BitsKind, Encoding, FieldClass, FieldKind, Length, VarInt};

/// A decoded field.
#[derive(Clone, Copy, Debug)]
pub struct View<'s, 'd> {
    class: &'d FieldClass,
    slots: &'s [u64],
    data: &'d [u8],
}

/// The value of a field.
#[derive(Clone, Debug)]
pub enum FieldValue<'s, 'd> {
    /// A fixed-length number, by bit pattern: sign-extended if signed.
    Bits(&'d Bits, u64),
    /// A LEB128 integer, sign-extended if signed.
    VarInt(&'d VarInt, u64),
    /// Text, up to its end; invalid bytes are replaced.
    Text(Cow<'d, str>),
    /// Bytes.
    Blob(&'d [u8]),
    /// A structure: iterate with [`View::parts`].
    Struct,
    /// This many elements: iterate with [`View::parts`].
    Array(u64),
    /// The chosen option: its name and value.
    Variant(&'d str, View<'s, 'd>),
    /// The value of an optional, if it is present.
    Optional(Option<View<'s, 'd>>),
}

/// Number of slots of a field.
fn width(c: &FieldClass, slots: &[u64]) -> usize {
    let first = || slots.first().copied().unwrap_or(0);
    match &c.kind {
        FieldKind::Bits(_) | FieldKind::VarInt(_) => 1,
        FieldKind::String(_) | FieldKind::Text(..) | FieldKind::Blob(_) => 2,
        FieldKind::Struct(m) => m.iter().fold(0, |n, m| n + width(&m.class, slots.get(n..).unwrap_or(&[]))),
        FieldKind::Array(len, e) => {
            let (start, n) = match len {
                Length::Fixed(n) => (0, *n),
                Length::Field(_) => (1, first()),
            };
            if matches!(e.kind, FieldKind::Bits(_) | FieldKind::VarInt(_)) {
                return index(n).saturating_add(start);
            }
            (0..n).fold(start, |at, _| at + width(e, slots.get(at..).unwrap_or(&[])))
        }
        FieldKind::Variant(_, o) => {
            1 + o.get(index(first())).map_or(0, |o| width(&o.class, slots.get(1..).unwrap_or(&[])))
        }
        FieldKind::Optional(_, _, e) => {
            1 + if first() == 1 { width(e, slots.get(1..).unwrap_or(&[])) } else { 0 }
        }
    }
}

impl<'s, 'd> View<'s, 'd> {
    pub(crate) fn new(class: &'d FieldClass, slots: &'s [u64], data: &'d [u8]) -> View<'s, 'd> {
        View { class, slots, data }
    }

    /// The field's class.
    pub fn class(&self) -> &'d FieldClass {
        self.class
    }

    /// Its value.
    pub fn seen(&self) -> FieldValue<'s, 'd> {
        let first = self.slots.first().copied().unwrap_or(0);
        let below = |class| View { class, slots: self.slots.get(1..).unwrap_or(&[]), data: self.data };
        match &self.class.kind {
            FieldKind::Bits(b) => FieldValue::Bits(b, first),
            FieldKind::VarInt(v) => FieldValue::VarInt(v, first),
            FieldKind::String(e) => FieldValue::Text(text(*e, self.bytes(), false)),
            FieldKind::Text(_, e) => FieldValue::Text(text(*e, self.bytes(), true)),
            FieldKind::Blob(_) => FieldValue::Blob(self.bytes()),
            FieldKind::Struct(_) => FieldValue::Struct,
            FieldKind::Array(Length::Fixed(n), _) => FieldValue::Array(*n),
            FieldKind::Array(Length::Field(_), _) => FieldValue::Array(first),
            FieldKind::Variant(_, o) => match o.get(index(first)) {
                Some(o) => FieldValue::Variant(&o.name, below(&o.class)),
                None => FieldValue::Struct,
            },
            FieldKind::Optional(_, _, e) => FieldValue::Optional((first == 1).then(|| below(e))),
        }
    }

    /// Raw bytes of a text or BLOB (a text's up to its terminator, or all that its length covers); empty for
    /// other fields.
    pub fn bytes(&self) -> &'d [u8] {
        let at = |i: usize| index(self.slots.get(i).copied().unwrap_or(0));
        match self.class.kind {
            FieldKind::String(_) | FieldKind::Text(..) | FieldKind::Blob(_) => {
                self.data.get(at(0)..at(0).saturating_add(at(1))).unwrap_or(&[])
            }
            _ => &[],
        }
    }

    /// Members of a structure with their names, or elements of an array with empty names.
    pub fn parts(&self) -> Parts<'s, 'd> {
        let (at, left) = match &self.class.kind {
            FieldKind::Struct(m) => (0, m.len() as u64),
            FieldKind::Array(Length::Fixed(n), _) => (0, *n),
            FieldKind::Array(Length::Field(_), _) => (1, self.slots.first().copied().unwrap_or(0)),
            _ => (0, 0),
        };
        Parts { of: *self, index: 0, at, left }
    }

    /// A member of a structure, an element by its index, or a part further down by a dotted path. Variants and
    /// optionals are entered.
    pub fn find(&self, path: &str) -> Option<View<'s, 'd>> {
        let inner = self.chosen()?;
        if path.is_empty() {
            return Some(inner);
        }
        if let Some(v) = inner.part(path) {
            return v.chosen();
        }
        let (head, rest) = path.split_once('.')?;
        inner.part(head)?.find(rest)
    }

    fn part(&self, name: &str) -> Option<View<'s, 'd>> {
        match &self.class.kind {
            FieldKind::Struct(members) => {
                let i = members.iter().position(|m| m.name == name)?;
                self.parts().nth(i).map(|p| p.1)
            }
            FieldKind::Array(..) => self.parts().nth(name.parse().ok()?).map(|p| p.1),
            _ => None,
        }
    }

    /// The value of the chosen option, of a present optional, or the field itself.
    fn chosen(&self) -> Option<View<'s, 'd>> {
        // Only these two are entered, since reading a text means walking over its bytes.
        if !matches!(self.class.kind, FieldKind::Variant(..) | FieldKind::Optional(..)) {
            return Some(*self);
        }
        match self.seen() {
            FieldValue::Variant(_, v) => v.chosen(),
            FieldValue::Optional(v) => v?.chosen(),
            _ => Some(*self),
        }
    }
}

/// Parts of a structure or array.
#[derive(Clone, Debug)]
pub struct Parts<'s, 'd> {
    of: View<'s, 'd>,
    index: usize,
    at: usize,
    left: u64,
}

impl<'s, 'd> Iterator for Parts<'s, 'd> {
    type Item = (&'d str, View<'s, 'd>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (name, class) = match &self.of.class.kind {
            FieldKind::Struct(m) => m.get(self.index).map(|m| (m.name.as_str(), &m.class))?,
            FieldKind::Array(_, e) => ("", &**e),
            _ => return None,
        };
        let slots = self.of.slots.get(self.at..)?;
        self.index += 1;
        self.at += width(class, slots);
        Some((name, View { class, slots, data: self.of.data }))
    }
}

/// Bytes to text. `cut`: stop at the first zero code unit.
fn text(e: Encoding, bytes: &[u8], cut: bool) -> Cow<'_, str> {
    let unit = index(e.unit());
    let bytes = match cut {
        true if unit == 1 => &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())],
        true => {
            let n = bytes
                .chunks_exact(unit)
                .position(|c| c.iter().all(|b| *b == 0))
                .map_or(bytes.len(), |i| i * unit);
            &bytes[..n]
        }
        false => bytes,
    };
    let units16 = |f: fn([u8; 2]) -> u16| bytes.chunks_exact(2).map(move |c| f([c[0], c[1]]));
    let units32 = |f: fn([u8; 4]) -> u32| {
        bytes.chunks_exact(4).map(move |c| char::from_u32(f([c[0], c[1], c[2], c[3]])).unwrap_or('\u{FFFD}'))
    };
    let wide = |u: &mut dyn Iterator<Item = u16>| {
        char::decode_utf16(u).map(|c| c.unwrap_or('\u{FFFD}')).collect::<String>()
    };
    match e {
        Encoding::Utf8 => String::from_utf8_lossy(bytes),
        Encoding::Utf16Le => Cow::Owned(wide(&mut units16(u16::from_le_bytes))),
        Encoding::Utf16Be => Cow::Owned(wide(&mut units16(u16::from_be_bytes))),
        Encoding::Utf32Le => Cow::Owned(units32(u32::from_le_bytes).collect()),
        Encoding::Utf32Be => Cow::Owned(units32(u32::from_be_bytes).collect()),
    }
}

/// A fixed-length floating-point number.
pub fn float(b: &Bits, v: u64) -> f64 {
    if b.len == 32 {
        f64::from(f32::from_bits(u32::try_from(v & u64::from(u32::MAX)).unwrap_or(0)))
    } else {
        f64::from_bits(v)
    }
}

/// A fixed-length or LEB128 integer as a number.
pub fn integer(signed: bool, v: u64) -> i128 {
    if signed { i128::from(v.cast_signed()) } else { i128::from(v) }
}

impl Bits {
    /// Signed integer?
    pub fn signed(&self) -> bool {
        self.kind == BitsKind::Signed
    }
}
