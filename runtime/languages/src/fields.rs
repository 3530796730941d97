//! Words of one object that are read together: what is mapped is asked once for all of them.

/// Octets of a word.
const WORD: u64 = 8;

/// Offsets of words in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<const N: usize> {
    first: u64,
    bytes: u64,
    /// From the first word on, each at least a word less than `bytes`.
    offsets: [u64; N],
}

impl<const N: usize> Fields<N> {
    /// The words at these offsets.
    #[must_use]
    pub const fn new(mut offsets: [u64; N]) -> Self {
        let (mut first, mut last) = (u64::MAX, 0);
        let mut rest: &[u64] = &offsets;
        while let Some((offset, others)) = rest.split_first() {
            first = if *offset < first { *offset } else { first };
            last = if *offset > last { *offset } else { last };
            rest = others;
        }
        let mut rest: &mut [u64] = &mut offsets;
        while let Some((offset, others)) = rest.split_first_mut() {
            *offset -= first;
            rest = others;
        }
        Fields { first, bytes: last.saturating_sub(first) + WORD, offsets }
    }

    /// Offset of the first octet that is read, and how many octets lie between it and the end of the last one.
    #[must_use]
    pub const fn span(&self) -> (u64, u64) {
        (self.first, self.bytes)
    }

    /// Offset of each word from the first octet that is read: at least a word before the end of the span.
    #[must_use]
    pub const fn offsets(&self) -> [u64; N] {
        self.offsets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_goes_from_the_first_word_to_the_end_of_the_last() {
        let fields = Fields::new([32, 48, 8, 68]);
        assert_eq!(fields.span(), (8, 68));
        assert_eq!(fields.offsets(), [24, 40, 0, 60]);
        assert_eq!(Fields::new([16]).span(), (16, 8));
    }
}
