//! The memory from which an image is read.

/// Bytes at addresses (of a process) or offsets (of a file).
pub trait Memory {
    /// Copies the bytes at `at`. Returns false if not all of them can be read. Never faults.
    fn copy(&self, at: u64, into: &mut [u8]) -> bool;

    /// A number of `N` bytes, little-endian.
    #[inline(always)]
    fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.copy(at, &mut bytes).then_some(bytes)
    }

    /// Eight bytes.
    #[inline(always)]
    fn read_word(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// Four bytes.
    #[inline(always)]
    fn half(&self, at: u64) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    /// Two bytes.
    fn quarter(&self, at: u64) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    /// Whether the text at `at`, which ends with NUL, equals `text`.
    fn text_is(&self, at: u64, text: &[u8]) -> bool {
        let mut at = at;
        let mut parts = text.chunks(PART).peekable();
        while let Some(part) = parts.next() {
            let mut found = [0; PART + 1];
            // The last part includes the NUL.
            let bytes = part.len() + usize::from(parts.peek().is_none());
            let Some(found) = found.get_mut(..bytes) else { return false };
            if !self.copy(at, found) || !part.iter().chain(&[0]).zip(&*found).all(|(want, is)| want == is) {
                return false;
            }
            let Some(next) = at.checked_add(part.len() as u64) else { return false };
            at = next;
        }
        !text.is_empty() || self.bytes::<1>(at) == Some([0])
    }
}

/// Bytes of a text that are compared in one piece.
const PART: usize = 32;

/// The bytes of a file or a test, addressed by offset.
impl Memory for &[u8] {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let Ok(at) = usize::try_from(at) else { return false };
        let Some(end) = at.checked_add(into.len()) else { return false };
        match self.get(at..end) {
            Some(bytes) => {
                // Not copy_from_slice, because its check of lengths is a panic, which must not be linked into a host.
                for (to, from) in into.iter_mut().zip(bytes) {
                    *to = *from;
                }
                true
            }
            None => false,
        }
    }
}

/// Bytes at an address. Nothing else is mapped.
#[derive(Clone, Copy, Debug)]
pub struct BytesAt<'a> {
    /// Address of the first byte.
    pub at: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl Memory for BytesAt<'_> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        at.checked_sub(self.at).is_some_and(|from| self.bytes.copy(from, into))
    }
}

/// A memory that reads the bytes after an address in one piece, since each read of another process is a system call.
#[derive(Debug)]
pub struct Ahead<'m, M, const N: usize> {
    memory: &'m M,
    at: u64,
    bytes: [u8; N],
    /// Whether all of the bytes could be read.
    whole: bool,
}

impl<'m, M: Memory, const N: usize> Ahead<'m, M, N> {
    /// Reads `N` bytes at `at`. If they cannot all be read, each later request is read singly.
    pub fn new(memory: &'m M, at: u64) -> Self {
        let mut bytes = [0; N];
        let whole = memory.copy(at, &mut bytes);
        Ahead { memory, at, bytes, whole }
    }
}

impl<M: Memory, const N: usize> Memory for Ahead<'_, M, N> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let known = BytesAt { at: self.at, bytes: &self.bytes };
        self.whole && known.copy(at, into) || self.memory.copy(at, into)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::cell::Cell;

    struct Counted<'a>(&'a [u8], Cell<u32>);

    impl Memory for Counted<'_> {
        fn copy(&self, at: u64, into: &mut [u8]) -> bool {
            self.1.set(self.1.get() + 1);
            self.0.copy(at, into)
        }
    }

    #[test]
    fn what_was_read_ahead_is_not_read_again() {
        let bytes: [u8; 32] = core::array::from_fn(|i| i as u8);
        let memory = Counted(&bytes, Cell::new(0));
        let ahead = Ahead::<_, 16>::new(&memory, 8);
        assert_eq!((ahead.bytes(8), ahead.bytes(20)), (Some([8_u8]), Some([20_u8, 21, 22, 23])));
        assert_eq!(memory.1.get(), 1);
        assert_eq!(ahead.bytes(23), Some([23_u8, 24]), "across its end");
        assert_eq!(ahead.bytes(7), Some([7_u8]), "before its start");
        assert_eq!(memory.1.get(), 3);
        let beyond = Ahead::<_, 16>::new(&memory, 24);
        assert_eq!(beyond.bytes(31), Some([31_u8]), "not all of it is there");
        assert_eq!(beyond.bytes::<2>(31), None);
    }

    #[test]
    fn a_text_ends_where_it_says() {
        let long = [b'a'; 40];
        let mut bytes = long.to_vec();
        bytes.extend(b"\0b");
        let memory = bytes.as_slice();
        assert!(memory.text_is(0, &long));
        assert!(memory.text_is(39, b"a"));
        assert!(!memory.text_is(0, &long[1..]), "a longer one");
        assert!(!memory.text_is(41, b"b"), "no NUL");
        assert!(!memory.text_is(u64::MAX, b"b"));
    }
}
