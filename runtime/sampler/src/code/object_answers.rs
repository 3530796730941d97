//! What was found out about objects by searching all of their code, kept in a file of the user's.
//!
//! `pct run` makes the file. The library never does, so that a program leaves nothing behind by itself. It is a table
//! of words; a word is 0 or the hash of an object's identity (device, inode, size, time of the last change) with the
//! answer in its lowest bit. An object has eight places, at one of which it may be. Processes read and write words
//! without a lock: what another one overwrites is found out again. No word of the file leads anywhere, so it may hold
//! anything.
//!
//! Signal safety: system calls.

use crate::sys::{self, CStr};

/// Bytes of the places of one object.
const GROUP: usize = 64;
/// `pct run` makes a file of 64 KB. A longer one than this is something else.
const MOST_BYTES: u64 = 16 << 20;
/// Changes when the search does: older answers are nobody's then.
const SEARCH: u64 = 1;

/// The file, open.
#[derive(Debug)]
pub(super) struct Answers {
    file: sys::Fd,
    groups: u64,
}

/// An object's place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u64);

impl Key {
    /// Of an open object.
    pub(super) fn read(object: &sys::Fd) -> Option<Key> {
        Some(Key::mix(sys::version_of_file(object).ok()?))
    }

    /// FNV-1a over words, mixed once more (the finalizer of MurmurHash3): any bit changes half of the others.
    fn mix(words: [u64; 5]) -> Key {
        let mixed = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(23);
        let hash = words.into_iter().chain([SEARCH]).fold(0xcbf2_9ce4_8422_2325, mixed);
        let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        // Never 0, which is an empty place.
        Key((hash ^ hash >> 33) << 1 | 2)
    }

    const fn with_answer(self, answer: bool) -> u64 {
        self.0 | answer as u64
    }
}

impl Answers {
    /// Opens the file at `path`. `None`: it is not there, is no such table, or this process may not write to it.
    pub(super) fn open(path: CStr<'_>) -> Option<Answers> {
        let file = sys::open(path, sys::O_RDWR | sys::O_NOFOLLOW | sys::O_NONBLOCK, 0).ok()?;
        let size = sys::regular_size(&file).ok()??;
        let groups = size / GROUP as u64;
        (groups > 0 && size <= MOST_BYTES).then_some(Answers { file, groups })
    }

    fn group_of(&self, key: Key) -> u64 {
        (key.0 >> 4).checked_rem(self.groups).unwrap_or(0) * GROUP as u64
    }

    fn read(&self, key: Key) -> Option<[u8; GROUP]> {
        let mut group = [0; GROUP];
        (sys::pread(&self.file, &mut group, self.group_of(key)) == Ok(GROUP)).then_some(group)
    }

    /// What is known of an object.
    pub(super) fn get(&self, key: Key) -> Option<bool> {
        let words = self.read(key)?;
        let mut words = words.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        words.find(|word| word & !1 == key.0).map(|word| word & 1 != 0)
    }

    /// Keeps what was found out: in an empty place, else in one of the others'.
    pub(super) fn keep(&self, key: Key, answer: bool) {
        // Beyond the limit the kernel would send SIGXFSZ.
        if sys::soft_limit(sys::RLIMIT_FSIZE) < MOST_BYTES {
            return;
        }
        let Some(words) = self.read(key) else { return };
        let empty = words.as_chunks::<8>().0.iter().position(|word| *word == [0; 8]);
        let place = empty.unwrap_or((key.0 >> 1) as usize % (GROUP / 8));
        let at = self.group_of(key) + 8 * place as u64;
        let _ = sys::pwrite(&self.file, &key.with_answer(answer).to_ne_bytes(), at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn open(path: &std::path::Path) -> Option<Answers> {
        let mut bytes = path.as_os_str().as_bytes().to_vec();
        bytes.push(0);
        Answers::open(CStr::new(&bytes)?)
    }

    #[test]
    fn answers_are_found_again_and_the_oldest_give_way() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("objects");
        assert!(open(&path).is_none(), "the library makes none");
        std::fs::write(&path, [0; GROUP]).expect("written");
        let answers = open(&path).expect("there");
        let key = |number| Key::mix([number, 2, 3, 4, 5]);
        assert_eq!(answers.get(key(1)), None);
        for number in 0..8 {
            answers.keep(key(number), number % 2 == 0);
        }
        for number in 0..8 {
            assert_eq!(answers.get(key(number)), Some(number % 2 == 0));
        }
        answers.keep(key(100), true);
        assert_eq!(answers.get(key(100)), Some(true));
        assert_eq!((0..8).filter(|number| answers.get(key(*number)).is_none()).count(), 1);
        assert_eq!(std::fs::read(&path).expect("read").len(), GROUP, "it does not grow");
    }

    #[test]
    fn what_is_no_such_file_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(open(folder.path()).is_none());
        let short = folder.path().join("short");
        std::fs::write(&short, [0; GROUP - 1]).expect("written");
        assert!(open(&short).is_none());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&short, &link).expect("made");
        assert!(open(&link).is_none());
    }
}
