//! Address spaces: which object was mapped where in which process, at the time of the record that is being read.

use pct_symbols::{BuildId, CodeAddr, ObjectId, ObjectInfo, ObjectKind, Symbolizer};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Where a frame's code is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum FrameOrigin {
    /// In the kernel, at an unknown address.
    System,
    /// In the kernel's code.
    Kernel(CodeAddr),
    /// At an address where nothing was mapped.
    Unknown(u64),
    /// In an object.
    Code(ObjectId, CodeAddr),
    /// No code: the stack was cut here, for this reason.
    Cut(&'static str),
}

impl FrameOrigin {
    /// The question to the symbolizer.
    pub(super) fn query(&self) -> Option<(ObjectId, CodeAddr)> {
        match self {
            FrameOrigin::Code(object, address) => Some((*object, *address)),
            _ => None,
        }
    }
}

/// A mapping: its end, what to add (wrapping) to an address to get the object's own, and the object.
#[derive(Clone, Copy)]
struct Mapping {
    end: u64,
    shift: u64,
    object: ObjectId,
}

/// The mappings of all processes, by start.
#[derive(Default)]
pub(super) struct Spaces {
    of: FxHashMap<u32, BTreeMap<u64, Mapping>>,
}

impl Spaces {
    /// Adds a mapping of something executable.
    #[expect(clippy::too_many_arguments, reason = "they are the fields of one record")]
    pub(super) fn map(
        &mut self,
        pid: u32,
        start: u64,
        len: u64,
        offset: u64,
        path: &[u8],
        build_id: Option<&[u8]>,
        inode: Option<(u64, u64)>,
        symbols: &mut Symbolizer,
    ) {
        let Some(end) = start.checked_add(len).filter(|end| *end > start) else { return };
        let (kind, shift) = match path {
            b"[vdso]" => (ObjectKind::Vdso, start.wrapping_neg()),
            _ if path.starts_with(b"//anon")
                || path.is_empty()
                || path == b"[heap]"
                || path == b"[stack]"
                || path.starts_with(b"[anon")
                || path.ends_with(b".dump") && memmem(path, b"/jit-") =>
            {
                (ObjectKind::Jit { pid }, 0)
            }
            _ if path.starts_with(b"[") => (ObjectKind::Opaque, 0),
            _ => (ObjectKind::File, offset.wrapping_sub(start)),
        };
        let file = kind == ObjectKind::File;
        let path = if path.starts_with(b"//anon") { b"" } else { path };
        let object = symbols.add(ObjectInfo {
            kind,
            path: PathBuf::from(OsStr::from_bytes(path)),
            build_id: build_id.filter(|_| file).and_then(BuildId::new),
            // Inodes of unnamed devices do not identify a file.
            dev_ino: inode
                .filter(|(device, inode)| file && *device != 0 && *inode != 0 && build_id.is_none()),
            map_offset: file.then_some(offset),
            ..ObjectInfo::default()
        });
        let space = self.of.entry(pid).or_default();
        // The new mapping replaces what was there, except for the parts before and after it.
        let covered: Vec<(u64, Mapping)> =
            space.range(..end).rev().take_while(|(_, m)| m.end > start).map(|(at, m)| (*at, *m)).collect();
        for (at, old) in covered {
            space.remove(&at);
            if at < start {
                space.insert(at, Mapping { end: start, ..old });
            }
            if old.end > end {
                space.insert(end, old);
            }
        }
        space.insert(start, Mapping { end, shift, object });
    }

    /// The process executes another program: nothing of the old one is mapped.
    pub(super) fn exec(&mut self, pid: u32) {
        self.of.remove(&pid);
    }

    /// A child has the mappings of its parent.
    pub(super) fn fork(&mut self, parent: u32, child: u32) {
        if let Some(space) = self.of.get(&parent).cloned() {
            self.of.insert(child, space);
        }
    }

    /// What is at an address of a process.
    pub(super) fn find(&self, pid: u32, address: CodeAddr) -> FrameOrigin {
        let exact = address.lookup();
        let found = self.of.get(&pid).and_then(|s| s.range(..=exact).next_back());
        match found.filter(|(_, m)| exact < m.end) {
            Some((_, m)) => FrameOrigin::Code(
                m.object,
                match address {
                    CodeAddr::Pc(a) => CodeAddr::Pc(a.wrapping_add(m.shift)),
                    CodeAddr::Return(a) => CodeAddr::Return(a.wrapping_add(m.shift)),
                },
            ),
            None => FrameOrigin::Unknown(exact),
        }
    }
}

fn memmem(hay: &[u8], needle: &[u8]) -> bool {
    hay.windows(needle.len()).any(|w| w == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_over_hides_what_was_there_and_leaves_its_ends() {
        let (mut spaces, mut symbols) = (Spaces::default(), Symbolizer::default());
        let mut map = |start, len, path: &str| {
            spaces.map(1, start, len, 0, path.as_bytes(), None, None, &mut symbols);
        };
        map(0x1000, 0x3000, "/a");
        map(0x2000, 0x1000, "/b");
        map(0x9000, u64::MAX, "/beyond");
        spaces.fork(1, 2);
        spaces.exec(1);
        let at = |address| match spaces.find(2, CodeAddr::Pc(address)) {
            FrameOrigin::Code(object, CodeAddr::Pc(offset)) => {
                Some((symbols.object(object).path.to_str().unwrap().to_owned(), offset))
            }
            _ => None,
        };
        assert_eq!(at(0x1fff), Some(("/a".into(), 0xfff)));
        assert_eq!(at(0x2000), Some(("/b".into(), 0)));
        assert_eq!(at(0x3000), Some(("/a".into(), 0x2000)));
        assert_eq!((at(0xfff), at(0x4000)), (None, None));
        assert_eq!(spaces.find(1, CodeAddr::Return(0x2000)), FrameOrigin::Unknown(0x1fff));
    }
}
