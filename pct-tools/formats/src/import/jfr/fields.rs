//! The octets of a chunk: numbers of variable length, texts, and nothing behind the end.

/// Octets with a read position. Each read is checked.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    /// Whole numbers have as many octets as they need. Otherwise as many as their type.
    packed: bool,
}

/// A text of a file, or where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Text {
    Null,
    /// Of the constants of texts.
    Constant(i64),
    Here(String),
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize, packed: bool) -> Self {
        Self { bytes, at, packed }
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    pub(super) fn take_octets(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..)?.get(..n)?;
        self.at += n;
        Some(taken)
    }

    pub(super) fn octet(&mut self) -> Option<u8> {
        self.take_octets(1).map(|octets| octets[0])
    }

    /// A whole number whose type has `octets`, at most eight.
    pub(super) fn number(&mut self, octets: usize) -> Option<i64> {
        if !self.packed || octets == 1 {
            let bytes = self.take_octets(octets.min(8))?;
            let value = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
            // The sign is the highest bit of the type.
            let unused = 64 - 8 * bytes.len();
            return Some((value << unused).cast_signed() >> unused);
        }
        // Seven bits an octet, lowest first; the ninth octet has eight.
        let mut value = 0u64;
        for shift in (0..56).step_by(7) {
            let octet = self.octet()?;
            value |= u64::from(octet & 0x7f) << shift;
            if octet & 0x80 == 0 {
                return Some(value.cast_signed());
            }
        }
        Some((value | u64::from(self.octet()?) << 56).cast_signed())
    }

    pub(super) fn long(&mut self) -> Option<i64> {
        self.number(8)
    }

    /// The number of elements of something, at least one octet each.
    pub(super) fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number(4)?).ok().filter(|count| *count <= self.left())
    }

    pub(super) fn text(&mut self) -> Option<Text> {
        Some(match self.octet()? {
            0 => Text::Null,
            1 => Text::Here(String::new()),
            2 => Text::Constant(self.long()?),
            3 => {
                let length = self.count()?;
                Text::Here(String::from_utf8_lossy(self.take_octets(length)?).into_owned())
            }
            4 => {
                let units = (0..self.count()?).map(|_| u16::try_from(self.number(2)?).ok());
                Text::Here(String::from_utf16_lossy(&units.collect::<Option<Vec<u16>>>()?))
            }
            5 => {
                let length = self.count()?;
                Text::Here(self.take_octets(length)?.iter().map(|octet| char::from(*octet)).collect())
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_octets_as_they_need() {
        for (bytes, want) in [
            (&[0x00][..], Some(0)),
            (&[0x85, 0xb0, 0x03], Some(55301)),
            (&[0xff; 9], Some(-1)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], Some(i64::MAX)),
            (&[0x80], None),
            (&[], None),
        ] {
            assert_eq!(Fields::new(bytes, 0, true).long(), want, "{bytes:?}");
        }
        let mut plain = Fields::new(&[0xff, 0xfe, 0x00, 0x00, 0x00, 0x07, 0x80], 0, false);
        assert_eq!((plain.number(2), plain.number(4), plain.number(1)), (Some(-2), Some(7), Some(-128)));
        assert_eq!(plain.number(2), None);
    }

    #[test]
    fn texts_have_five_encodings() {
        let here = |text: &str| Some(Text::Here(text.to_owned()));
        for (bytes, want) in [
            (&[0][..], Some(Text::Null)),
            (&[1], here("")),
            (&[2, 0x81, 0x01], Some(Text::Constant(129))),
            (&[3, 3, b'a', 0xc3, 0xa4], here("a\u{e4}")),
            (&[4, 2, b'a', 0xe4, 0x01], here("a\u{e4}")),
            (&[5, 2, b'a', 0xe4], here("a\u{e4}")),
            (&[5, 3, b'a', 0xe4], None),
            (&[3, 0xff, 0xff, 0xff, 0xff, 0x07], None),
            (&[6], None),
        ] {
            assert_eq!(Fields::new(bytes, 0, true).text(), want, "{bytes:?}");
        }
    }
}
