//! A file's bytes as words.

/// Words in a file's bytes. Every access is checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// The whole words in `bytes`. An incomplete word at the end is left out.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Words(bytes.get(..bytes.len() & !7).unwrap_or(&[]))
    }

    /// Number of words.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / 8
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Word `at`, if there is one.
    #[inline]
    #[must_use]
    pub fn get(&self, at: usize) -> Option<u64> {
        let from = at.checked_mul(8)?;
        let bytes = self.0.get(from..from.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Words `from..to`, or as many of them as exist.
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> Words<'a> {
        let to = to.min(self.len());
        let from = from.min(to);
        Words(self.0.get(from * 8..to * 8).unwrap_or(&[]))
    }

    /// The words one after another.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + use<'a> {
        self.0.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }
}
