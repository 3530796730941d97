//! Caches the positions of packets between runs, for stream files without an index.
//!
//! If a file has many small packets and no index, each packet's head must be read before the first event can be shown.
//! The result of that walk is stored in a folder that the caller names (never in the trace's), one file for each stream
//! file. It is used the next time if neither the stream file (device, inode, size, times of modification and change)
//! nor the metadata has changed. Otherwise, and after any damage, the heads are read again and the file is rewritten.
//!
//! ```text
//! "PCTPACKS"  version u64
//! 10 x u64:
//!   the stream file: device, inode, size, mtime (s, ns), ctime (s, ns)
//!   FNV-1a of the metadata, stream class id, number of packets
//!   each packet: size (bytes), begin, end, number, discarded, which of these four it has (bits 0 to 3)   (6 x u64)
//! checksum u64: FNV-1a over words of all before
//! ```
//!
//! All numbers are little-endian. Only files that were walked to their end without a fault and whose packets all have a
//! begin are cached, and only if they have many packets, because a few are found as quickly.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::folder::Folder;
use crate::packet::{Extent, Packet, StreamFile};

const MAGIC: &[u8; 8] = b"PCTPACKS";
const VERSION: u64 = 2;
const HEAD_WORDS: usize = 12;
const PACKET_WORDS: usize = 6;
/// Files with fewer packets than this are not cached.
const LEAST_PACKETS: usize = 1000;
/// Age at which a file counts as complete.
const SETTLED: Duration = Duration::from_secs(2);

/// FNV-1a, 64 bits, over bytes.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(PRIME))
}

const PRIME: u64 = 0x0100_0000_01b3;

/// The same over words, for long data. It guards against damage, not malice.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |sum: u64, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (sum ^ u64::from_le_bytes(word)).wrapping_mul(PRIME).rotate_left(23)
    })
}

/// Distinguishes a file from every other and from itself at another time. None if it was changed so recently that it
/// could change again within the same tick of its clock.
pub(crate) fn identity(m: &std::fs::Metadata) -> Option<[u64; 7]> {
    let age = SystemTime::now().duration_since(m.modified().ok()?).ok()?;
    let word = i64::cast_unsigned;
    let words = [
        m.dev(),
        m.ino(),
        m.len(),
        word(m.mtime()),
        word(m.mtime_nsec()),
        word(m.ctime()),
        word(m.ctime_nsec()),
    ];
    (age >= SETTLED).then_some(words)
}

/// A folder with packets of stream files.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    folder: Folder,
    metadata: u64,
}

impl Cache {
    /// The cache in `dir` for files that this metadata describes.
    pub(crate) fn new(dir: &Path, metadata: u64) -> Cache {
        Cache { folder: Folder::new(dir), metadata }
    }

    /// First words of a cache file, and its name. None if the stream file is unreadable or was changed too recently.
    fn key(&self, f: &StreamFile, class: u64, packets: u64) -> Option<([u64; HEAD_WORDS], String)> {
        let m = f.metadata().ok().filter(|m| m.len() == f.len)?;
        let [dev, ino, len, mtime, mtime_ns, ctime, ctime_ns] = identity(&m)?;
        let magic = u64::from_le_bytes(*MAGIC);
        let head =
            [magic, VERSION, dev, ino, len, mtime, mtime_ns, ctime, ctime_ns, self.metadata, class, packets];
        Some((head, format!("{:x}-{:x}.packets", m.dev(), m.ino())))
    }

    /// The cached packets of a stream file (the `file`-th of its trace), if they are still valid.
    pub(crate) fn load(&self, f: &StreamFile, file: u32, class: u64) -> Option<Vec<Packet>> {
        let (mut head, name) = self.key(f, class, 0)?;
        let bytes = self.folder.read(&name)?;
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        let (words, rest) = body.as_chunks::<8>();
        let (first, packets) = words.split_at_checked(HEAD_WORDS)?;
        let count = packets.len() / PACKET_WORDS;
        head[HEAD_WORDS - 1] = count as u64;
        let fits = rest.is_empty()
            && count * PACKET_WORDS == packets.len()
            && first.iter().zip(head).all(|(word, want)| u64::from_le_bytes(*word) == want)
            && u64::from_le_bytes(*sum) == checksum(body);
        if !fits {
            return None;
        }
        let mut at = 0u64;
        let mut out = Vec::with_capacity(count);
        for (number, packet) in (0u32..).zip(packets.chunks_exact(PACKET_WORDS)) {
            let word = |i: usize| u64::from_le_bytes(packet[i]);
            let size = word(0);
            let has = |i: usize| (word(5) >> (i - 1) & 1 == 1).then(|| word(i));
            if size == 0 || size > f.len - at {
                return None;
            }
            out.push(Packet {
                extent: Extent { file, number, at, size, there: size },
                begin: has(1),
                end: has(2),
                seq: has(3),
                discarded: has(4),
                upto: 0,
                bad: false,
            });
            at += size;
        }
        (at == f.len).then_some(out)
    }

    /// Stores the packets of a stream file. A failure (a full disk, an unwritable folder) is no error: the next run
    /// reads the heads again.
    pub(crate) fn store(&self, f: &StreamFile, class: u64, packets: &[Packet]) {
        let worth = packets.len() >= LEAST_PACKETS && packets.iter().all(|p| p.begin.is_some() && !p.bad);
        if !worth {
            return;
        }
        let Some((head, name)) = self.key(f, class, packets.len() as u64) else { return };
        let mut bytes = Vec::with_capacity((HEAD_WORDS + PACKET_WORDS * packets.len() + 1) * 8);
        let mut put = |word: u64| bytes.extend_from_slice(&word.to_le_bytes());
        head.into_iter().for_each(&mut put);
        for p in packets {
            let fields = [p.begin, p.end, p.seq, p.discarded];
            put(p.extent.size);
            fields.iter().for_each(|field| put(field.unwrap_or(0)));
            put((0..).zip(fields).map(|(bit, field)| u64::from(field.is_some()) << bit).sum());
        }
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        let _ = self.folder.write(&name, &bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::PathBuf;

    use super::*;
    use crate::folder::MOST_FILES;
    use proptest::prelude::*;

    fn packets(sizes: &[u64]) -> Vec<Packet> {
        let mut at = 0;
        let packet = |(number, &size): (u32, &u64)| {
            let here = at;
            at += size;
            Packet {
                extent: Extent { file: 3, number, at: here, size, there: size },
                begin: Some(u64::from(number) * 10),
                end: (number % 3 != 0).then_some(u64::MAX - u64::from(number)),
                seq: (number % 2 == 0).then_some(u64::from(number)),
                discarded: (number % 5 == 0).then_some(7),
                upto: 0,
                bad: false,
            }
        };
        (0u32..).zip(sizes).map(packet).collect()
    }

    fn same(a: &[Packet], b: &[Packet]) -> bool {
        let words = |p: &Packet| {
            let e = p.extent;
            (e.file, e.number, e.at, e.size, e.there, p.begin, p.end, p.seq, p.discarded)
        };
        a.iter().map(words).eq(b.iter().map(words))
    }

    struct Place {
        tmp: tempfile::TempDir,
        file: StreamFile,
        kept: Vec<Packet>,
    }

    impl Place {
        fn new() -> Place {
            let tmp = tempfile::tempdir().unwrap();
            let path = tmp.path().join("stream");
            let sizes: Vec<u64> = (0..LEAST_PACKETS as u64).map(|n| 1 + n % 7).collect();
            let len = sizes.iter().sum();
            std::fs::write(&path, vec![0; len as usize]).unwrap();
            let old = SystemTime::now() - Duration::from_secs(1000);
            File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
            Place { file: StreamFile::new(path, len, true), kept: packets(&sizes), tmp }
        }
        fn cache(&self) -> Cache {
            Cache::new(&self.tmp.path().join("cache/deep"), 42)
        }
        fn written(&self) -> PathBuf {
            let mut all = std::fs::read_dir(self.tmp.path().join("cache/deep")).unwrap();
            let only = all.next().unwrap().unwrap().path();
            assert!(all.next().is_none(), "no other file is left behind");
            only
        }
    }

    #[test]
    fn what_was_kept_comes_back_for_the_same_file_class_and_metadata_only() {
        let f = Place::new();
        assert!(f.cache().load(&f.file, 3, 0).is_none());
        f.cache().store(&f.file, 0, &f.kept);
        assert!(same(&f.cache().load(&f.file, 3, 0).unwrap(), &f.kept));
        assert!(f.cache().load(&f.file, 3, 1).is_none());
        let other = Cache { metadata: 43, ..f.cache() };
        assert!(other.load(&f.file, 3, 0).is_none());
        let mode = std::fs::metadata(f.written()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_changed_stream_file_is_walked_again() {
        let f = Place::new();
        f.cache().store(&f.file, 0, &f.kept);
        let older = SystemTime::now() - Duration::from_secs(2000);
        File::options().write(true).open(&f.file.path).unwrap().set_modified(older).unwrap();
        assert!(f.cache().load(&f.file, 3, 0).is_none());
        f.cache().store(&f.file, 0, &f.kept);
        assert!(f.cache().load(&f.file, 3, 0).is_some(), "written anew");
        // Another file of the same name, size and times has another inode.
        let copy = f.file.path.with_extension("copy");
        std::fs::copy(&f.file.path, &copy).unwrap();
        File::options().write(true).open(&copy).unwrap().set_modified(older).unwrap();
        std::fs::rename(&copy, &f.file.path).unwrap();
        let again = StreamFile::new(f.file.path.clone(), f.file.len, true);
        assert!(f.cache().load(&again, 3, 0).is_none());
    }

    #[test]
    fn a_file_that_was_written_just_now_few_packets_and_bad_ones_are_not_kept() {
        let f = Place::new();
        f.cache().store(&f.file, 0, &f.kept[1..]);
        let mut bad = f.kept.clone();
        bad[5].bad = true;
        f.cache().store(&f.file, 0, &bad);
        bad[5] = Packet { begin: None, ..f.kept[5].clone() };
        f.cache().store(&f.file, 0, &bad);
        File::options().write(true).open(&f.file.path).unwrap().set_modified(SystemTime::now()).unwrap();
        f.cache().store(&f.file, 0, &f.kept);
        assert!(!f.tmp.path().join("cache").exists());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_error() {
        let f = Place::new();
        std::fs::write(f.tmp.path().join("cache"), b"a file").unwrap();
        f.cache().store(&f.file, 0, &f.kept);
        assert!(f.cache().load(&f.file, 3, 0).is_none());
    }

    #[test]
    fn many_files_are_halved() {
        let f = Place::new();
        let dir = f.tmp.path().join("cache/deep");
        std::fs::create_dir_all(&dir).unwrap();
        for n in 0..MOST_FILES {
            std::fs::write(dir.join(format!("{n}.packets")), b"").unwrap();
        }
        std::fs::write(dir.join("somebody else's"), b"").unwrap();
        f.cache().store(&f.file, 0, &f.kept);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), MOST_FILES / 2 + 2);
        assert!(f.cache().load(&f.file, 3, 0).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn damage_is_nothing_that_is_known(flips in proptest::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..4), cut in any::<prop::sample::Index>(), mend in any::<bool>()) {
            let f = Place::new();
            f.cache().store(&f.file, 0, &f.kept);
            let path = f.written();
            let whole = std::fs::read(&path).unwrap();
            let mut bytes = whole.clone();
            for (at, flip) in flips {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
            }
            if mend {
                // For somebody who knows the checksum: still only packets that fit the file, and no panic.
                let body = bytes.len() - 8;
                let sum = checksum(&bytes[..body]);
                bytes[body..].copy_from_slice(&sum.to_le_bytes());
            }
            std::fs::write(&path, &bytes).unwrap();
            match f.cache().load(&f.file, 3, 0) {
                None => {}
                Some(_) if bytes == whole => {}
                Some(packets) => {
                    prop_assert!(mend);
                    prop_assert_eq!(packets.iter().map(|p| p.extent.size).sum::<u64>(), f.file.len);
                }
            }
            std::fs::write(&path, &whole[..cut.index(whole.len())]).unwrap();
            prop_assert!(f.cache().load(&f.file, 3, 0).is_none());
        }
    }
}
