//! The part of protobuf that pprof needs: varints, lengths, packed numbers. Written, and read without trust.

/// A message being written.
#[derive(Default, Debug, Clone)]
pub struct Message(pub Vec<u8>);

impl Message {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n.to_le_bytes()[0] | 0x80);
            n >>= 7;
        }
        self.0.push(n.to_le_bytes()[0]);
    }

    /// Adds a number. Zero is the default and is left out.
    pub fn number(&mut self, field: u32, n: u64) {
        if n != 0 {
            self.varint(u64::from(field) << 3);
            self.varint(n);
        }
    }

    /// Adds a number of eight octets. Zero is the default and is left out.
    #[cfg(feature = "otlp")]
    pub fn fixed(&mut self, field: u32, n: u64) {
        if n != 0 {
            self.varint((u64::from(field) << 3) | 1);
            self.0.extend_from_slice(&n.to_le_bytes());
        }
    }

    /// Adds octets, a string or a message.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint((u64::from(field) << 3) | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Adds packed numbers.
    pub fn packed(&mut self, field: u32, numbers: &[u64]) {
        if numbers.is_empty() {
            return;
        }
        let mut inner = Message::default();
        for n in numbers {
            inner.varint(*n);
        }
        self.bytes(field, &inner.0);
    }
}

/// One field of a message that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A varint or a fixed number.
    Number(u64),
    /// Octets, a string, a message, packed numbers.
    Bytes(&'a [u8]),
}

/// Reads the fields of a message. It stops at the first octet that is invalid.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where reading stopped before the end, if it did.
    pub broken: Option<usize>,
}

impl<'a> Fields<'a> {
    /// Reads a whole message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Fields { bytes, at: 0, broken: None }
    }

    fn varint(&mut self) -> Option<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    fn fixed(&mut self, len: usize) -> Option<u64> {
        let part = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(part.iter().rev().fold(0, |n, b| (n << 8) | u64::from(*b)))
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(self.fixed(8)?),
            5 => Value::Number(self.fixed(4)?),
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                let part = self.bytes.get(self.at..self.at.checked_add(len)?)?;
                self.at += len;
                Value::Bytes(part)
            }
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.broken.is_some() || self.at >= self.bytes.len() {
            return None;
        }
        let start = self.at;
        let field = self.field();
        if field.is_none() {
            self.broken = Some(start);
        }
        field
    }
}

/// The numbers of a repeated field, packed or not.
pub fn numbers(value: Value<'_>) -> Vec<u64> {
    match value {
        Value::Number(n) => vec![n],
        Value::Bytes(bytes) => {
            let mut f = Fields::new(bytes);
            std::iter::from_fn(|| if f.at < bytes.len() { f.varint() } else { None }).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(n in 1u64.., text: Vec<u8>, list in proptest::collection::vec(any::<u64>(), 1..9)) {
            let mut m = Message::default();
            m.number(3, n);
            m.bytes(5, &text);
            m.packed(70, &list);
            let read: Vec<_> = Fields::new(&m.0).collect();
            prop_assert_eq!(read[0], (3, Value::Number(n)));
            prop_assert_eq!(read[1], (5, Value::Bytes(&text)));
            prop_assert_eq!(numbers(read[2].1), list);
        }

        #[test]
        fn any_octets_are_read_to_an_end(bytes: Vec<u8>) {
            let mut f = Fields::new(&bytes);
            let n = f.by_ref().count();
            prop_assert!(n <= bytes.len());
        }
    }
}
