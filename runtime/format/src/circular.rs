//! The founding notes' circular log: an array of words with at least one zero among them.
//!
//! The word 0 is never data. The zero is right after the newest word. After it come the older words, before it the
//! newer ones. If only zeros follow it, the log has not wrapped yet:
//!
//! ```text
//! limit 4, x first pass, y second:   x0..  xx0.  xxx0  y0xx  yy0x  yyy0
//! ```
//!
//! (dots: zeros never written). In memory [`crate::push::append_circular`] appends. On disk one `write(2)` writes the
//! word and the zero, and the next one begins at that zero: [`step`] says what to write at which offset.

/// Reads a circular log from a copy or mapping of its words.
#[derive(Clone, Copy, Debug)]
pub struct CircularLog<'a> {
    words: &'a [u64],
    zero: usize,
}

impl<'a> CircularLog<'a> {
    /// Finds the zero. If there is none (no log, or its zero is damaged), all words count as data, in order.
    #[must_use]
    pub fn new(words: &'a [u64]) -> Self {
        let zero = words.iter().position(|w| *w == 0).unwrap_or(words.len());
        CircularLog { words, zero }
    }

    /// Index of the zero after the newest word, or the number of words if there is none.
    #[must_use]
    pub fn zero(&self) -> usize {
        self.zero
    }

    /// Whether old words have been overwritten.
    #[must_use]
    pub fn wrapped(&self) -> bool {
        self.older().iter().any(|w| *w != 0)
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let newer = self.words.get(..self.zero).unwrap_or(&[]);
        self.older().iter().chain(newer).copied().filter(|w| *w != 0)
    }

    fn older(&self) -> &'a [u64] {
        self.words.get(self.zero + 1..).unwrap_or(&[])
    }
}

/// What to write to append one word with `write(2)`: `bytes` at byte offset `at`; before that, if set, a zero at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendWrite {
    /// Byte offset of the write.
    pub at: u64,
    /// The word, and the zero after it unless that is at the file's start.
    pub bytes: [u8; 16],
    /// How many of `bytes` to write: 16, or 8 at the end of the file, after a zero was written at offset 0.
    pub len: usize,
    /// Whether a zero goes to offset 0 *before* the write (the log wraps).
    pub zero_first: bool,
    /// Byte offset of the zero afterwards, at which the next step begins.
    pub next: u64,
}

/// The step that appends `word` (not 0) to a log of `limit` words (at least 2) whose zero is at byte offset `zero`.
/// `None`: an argument is invalid.
#[must_use]
pub fn step(zero: u64, limit: u64, word: u64) -> Option<AppendWrite> {
    let size = limit.checked_mul(8)?;
    if word == 0 || limit < 2 || !zero.is_multiple_of(8) || zero >= size {
        return None;
    }
    let mut bytes = [0; 16];
    bytes.first_chunk_mut::<8>()?.copy_from_slice(&word.to_le_bytes());
    let wraps = zero + 8 == size;
    Some(AppendWrite {
        at: zero,
        bytes,
        len: if wraps { 8 } else { 16 },
        zero_first: wraps,
        next: if wraps { 0 } else { zero + 8 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn the_notes_picture_is_reproduced() {
        let mut file = [0u8; 32];
        let mut zero = 0;
        let mut seen = Vec::new();
        for n in 1..=6u64 {
            let s = step(zero, 4, n).unwrap();
            if s.zero_first {
                file[..8].fill(0);
            }
            let at = s.at as usize;
            file[at..at + s.len].copy_from_slice(&s.bytes[..s.len]);
            zero = s.next;
            let words: Vec<u64> = file.chunks(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect();
            seen.push(words);
        }
        assert_eq!(
            seen,
            [[1, 0, 0, 0], [1, 2, 0, 0], [1, 2, 3, 0], [0, 2, 3, 4], [5, 0, 3, 4], [5, 6, 0, 4]]
        );
    }

    proptest! {
        #[test]
        fn a_log_keeps_the_newest_words_in_order(size in 2usize..40, pushes in proptest::collection::vec(1u64.., 0..100)) {
            use core::sync::atomic::AtomicU64;
            let log: Vec<AtomicU64> = (0..size).map(|_| AtomicU64::new(0)).collect();
            let mut naive = VecDeque::new();
            let mut at = 0;
            for word in pushes {
                at = crate::push::append_circular(&log[..], at, word);
                naive.push_back(word);
                if naive.len() == size {
                    naive.pop_front();
                }
                let words: Vec<u64> = log.iter().map(|w| w.load(core::sync::atomic::Ordering::Relaxed)).collect();
                let reader = CircularLog::new(&words);
                prop_assert_eq!(reader.iter().collect::<VecDeque<_>>(), naive.clone());
                prop_assert_eq!(reader.zero(), at);
            }
        }

        #[test]
        fn any_words_are_read_without_panic(words: Vec<u64>) {
            prop_assert!(CircularLog::new(&words).iter().count() <= words.len());
        }
    }
}
