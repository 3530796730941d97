//! Names saved for later: the frames of the sampled addresses, so that a report stays the same on another machine or
//! after a rebuild.
//!
//! An archive is one text file in a directory of profiles, [`FILE_NAME`]; `docs/symbol-archive.md` describes it line
//! by line. It holds resolved frames, not copies of objects. An object is found by its build-id, or by its path if one
//! of the two sides has no build-id.
//!
//! Invariant: a file that [`Archive::read`] accepts is complete (its checksum agrees), and every index in it refers to
//! an existing entry.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pct_elf::FileVersion;

use crate::image::BuildId;
use crate::objects::{ObjectInfo, ObjectKind, shown_path};
use crate::symtab::Source;
use crate::system_call::{Said, Value};

mod escape;
mod parse;

use escape::escape;

/// The archive's name in its directory.
pub const FILE_NAME: &str = "symbols.pctsym";

const FIRST_LINE: &str = "pct-symbols 1";

/// Why an archive could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The archive.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Its version is unknown.
    #[error("{path}: begins with {found:?}, known is {FIRST_LINE:?}", path = path.display())]
    Version {
        /// The archive.
        path: PathBuf,
        /// Its first line.
        found: String,
    },
    /// The checksum does not agree: the file was cut or changed.
    #[error("{path}: damaged: {what}", path = path.display())]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// What shows the damage.
        what: String,
    },
    /// A line is malformed.
    #[error("{path}: line {line}: {what}", path = path.display())]
    BadLine {
        /// The archive.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
}

/// A frame whose names are numbers of the archive's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) function: u32,
    pub(crate) file: Option<u32>,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) inlined: bool,
    pub(crate) source: Source,
    /// File and line of the function's declaration.
    pub(crate) declared: Option<(u32, u32)>,
}

/// The frames of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptSpan {
    /// Bytes from the function's start; None: unknown.
    pub(crate) into: Option<u64>,
    pub(crate) frames: Vec<Kept>,
    /// What the code before the address shows about the system call there.
    pub(crate) system_call: Option<Said>,
}

/// An object with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptObject {
    kind: ObjectKind,
    path: PathBuf,
    build_id: Option<BuildId>,
    /// What told its file's contents from others, if it has no build-id.
    version: FileVersion,
    /// Notes from the time when the names were resolved.
    pub(crate) remarks: Vec<String>,
    pub(crate) spans: HashMap<u64, KeptSpan>,
}

/// An archive in memory.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Archive {
    pub(crate) texts: Vec<String>,
    pub(crate) objects: Vec<KeptObject>,
    by_id: HashMap<(ObjectKind, BuildId), usize>,
    by_path: HashMap<(ObjectKind, PathBuf), Vec<usize>>,
}

impl Archive {
    /// Reads the archive of a directory; None if there is none.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn read(dir: &Path) -> Result<Option<Archive>, ArchiveError> {
        Archive::read_file(&dir.join(FILE_NAME))
    }

    /// Reads an archive; None if there is no such file.
    pub(crate) fn read_file(path: &Path) -> Result<Option<Archive>, ArchiveError> {
        if path.exists() && !path.is_file() {
            return Err(ArchiveError::Io {
                path: path.into(),
                source: io::Error::other("not a regular file"),
            });
        }
        match std::fs::read(path) {
            Ok(data) => Archive::parse(path, &data).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ArchiveError::Io { path: path.into(), source }),
        }
    }

    /// The archive as its file's bytes. The same contents give the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = String::from(FIRST_LINE);
        out.push('\n');
        for text in &self.texts {
            let _ = writeln!(out, "S {}", escape(text.as_bytes()));
        }
        for object in &self.objects {
            let (kind, pid) = match object.kind {
                ObjectKind::File => ("file", 0),
                ObjectKind::Vdso => ("vdso", 0),
                ObjectKind::Jit { pid } => ("jit", pid),
                // Recognised by its path, because older readers know no other kind.
                ObjectKind::Opaque | ObjectKind::Kernel => ("opaque", 0),
            };
            let id = object.build_id.as_ref().map_or_else(|| "-".to_string(), ToString::to_string);
            let _ = writeln!(out, "O {kind} {pid} {id} {}", escape(object.path.as_os_str().as_bytes()));
            if !object.version.is_unknown() {
                let FileVersion { bytes, changed_ns, first_page } = object.version;
                let _ = writeln!(out, "v {bytes} {changed_ns} {first_page:016x}");
            }
            for remark in &object.remarks {
                let _ = writeln!(out, "R {}", escape(remark.as_bytes()));
            }
            let mut spans: Vec<(&u64, &KeptSpan)> = object.spans.iter().collect();
            spans.sort_unstable_by_key(|s| *s.0);
            for (address, span) in spans {
                let into = span.into.map_or_else(|| "-".to_string(), |n| format!("{n:x}"));
                let _ = writeln!(out, "A {address:x} {into} {}", span.frames.len());
                for f in &span.frames {
                    let file = f.file.map_or_else(|| "-".to_string(), |n| n.to_string());
                    let inlined = if f.inlined { 'i' } else { '-' };
                    let _ = writeln!(
                        out,
                        "F {} {file} {} {} {inlined} {}",
                        f.function, f.line, f.column, f.source as u8
                    );
                }
                match span.system_call {
                    Some(Said { register, value: Value::Number(number) }) => {
                        let _ = writeln!(out, "c {register} = {number}");
                    }
                    Some(Said { register, value: Value::Entry(from) }) => {
                        let _ = writeln!(out, "c {register} from {from}");
                    }
                    Some(Said { value: Value::Unknown, .. }) | None => {}
                }
                if span.frames.iter().any(|f| f.declared.is_some()) {
                    out.push('d');
                    for f in &span.frames {
                        let _ = match f.declared {
                            Some((file, line)) => write!(out, " {file}:{line}"),
                            None => write!(out, " -"),
                        };
                    }
                    out.push('\n');
                }
            }
        }
        let sum = crc32fast::hash(out.as_bytes());
        let _ = writeln!(out, "E {sum:08x}");
        out.into_bytes()
    }

    /// Writes the archive into a directory: a new file (mode 0600) renamed over an older one.
    ///
    /// # Errors
    /// [`ArchiveError::Io`].
    pub fn write(&self, dir: &Path) -> Result<PathBuf, ArchiveError> {
        let path = dir.join(FILE_NAME);
        self.write_file(&path)?;
        Ok(path)
    }

    /// [`Archive::write`] under any name.
    pub(crate) fn write_file(&self, path: &Path) -> Result<(), ArchiveError> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{}.new", std::process::id()));
        let io = |source| ArchiveError::Io { path: path.into(), source };
        let mut file = std::fs::File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&new)
            .map_err(io)?;
        let written = file.write_all(&self.to_bytes()).and_then(|()| std::fs::rename(&new, path));
        if let Err(e) = written {
            let _ = std::fs::remove_file(&new);
            return Err(io(e));
        }
        Ok(())
    }

    /// The archive's entry for a registered object, if it has one.
    pub(crate) fn find(&self, info: &ObjectInfo) -> Option<usize> {
        if let Some(id) = &info.build_id
            && let Some(found) = self.by_id.get(&(info.kind, id.clone()))
        {
            return Some(*found);
        }
        // Two different build-ids are two objects, whatever their paths. So are two versions of a file.
        let fits = |at: &&usize| {
            let KeptObject { build_id, version, .. } = &self.objects[**at];
            (info.build_id.is_none() || build_id.is_none())
                && (version.is_unknown() || info.version.is_unknown() || *version == info.version)
        };
        let named = self.by_path.get(&(info.kind, shown_path(&info.path)))?;
        let is_exact = |at: &&usize| self.objects[**at].version == info.version;
        named.iter().filter(fits).find(is_exact).or_else(|| named.iter().find(fits)).copied()
    }

    /// The entry for an object's addresses: its existing one, or a new one.
    pub(crate) fn place(&mut self, info: &ObjectInfo) -> usize {
        if let Some(found) = self.find(info) {
            return found;
        }
        self.push(info.kind, shown_path(&info.path), info.build_id.clone(), info.version)
    }

    fn push(
        &mut self,
        kind: ObjectKind,
        path: PathBuf,
        build_id: Option<BuildId>,
        version: FileVersion,
    ) -> usize {
        let number = self.objects.len();
        if let Some(id) = &build_id {
            self.by_id.entry((kind, id.clone())).or_insert(number);
        }
        self.by_path.entry((kind, path.clone())).or_default().push(number);
        let (remarks, spans) = Default::default();
        self.objects.push(KeptObject { kind, path, build_id, version, remarks, spans });
        number
    }

    /// Number of objects, addresses and texts in it.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.objects.len(), self.objects.iter().map(|o| o.spans.len()).sum(), self.texts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::escape::unescape;
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStringExt as _;

    fn sample() -> Archive {
        let mut archive =
            Archive { texts: vec!["main".into(), "a\nb\\c\u{1}é".into()], ..Archive::default() };
        let path = PathBuf::from(std::ffi::OsString::from_vec(b"/odd \xff\nname".to_vec()));
        archive.push(ObjectKind::File, path, BuildId::parse("00ff"), FileVersion::default());
        archive.push(ObjectKind::Jit { pid: 7 }, "//anon".into(), None, FileVersion::default());
        archive.objects[0].remarks.push("was rebuilt".into());
        let frame = Kept {
            function: 0,
            file: Some(1),
            line: 3,
            column: 0,
            inlined: true,
            source: Source::Debug,
            declared: Some((1, 2)),
        };
        let outer =
            Kept { function: 1, file: None, inlined: false, source: Source::Symbol, declared: None, ..frame };
        archive.objects[0].spans.insert(
            0x1234,
            KeptSpan {
                into: Some(4),
                frames: vec![frame, outer],
                system_call: Some(Said { register: 0, value: Value::Number(202) }),
            },
        );
        archive.objects[1].spans.insert(
            u64::MAX,
            KeptSpan {
                into: None,
                frames: vec![outer],
                system_call: Some(Said { register: 7, value: Value::Entry(6) }),
            },
        );
        archive
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = sample().to_bytes();
        let read = Archive::parse(Path::new("x"), &bytes).expect("just written");
        assert_eq!(read, sample());
        assert_eq!(read.to_bytes(), bytes);
        assert_eq!(read.counts(), (2, 2, 2));
    }

    #[test]
    fn versions_of_a_file_are_objects_of_their_own() {
        let info = |bytes, first_page| ObjectInfo {
            version: FileVersion { bytes, changed_ns: 1_700_000_000_123_456_789, first_page },
            ..ObjectInfo::file("/lib/live.so")
        };
        let (first, second, third) = (info(100, u64::MAX), info(100, 7), info(101, 7));
        let mut archive = Archive::default();
        assert_eq!((archive.place(&first), archive.place(&second)), (0, 1));
        let read = Archive::parse(Path::new("x"), &archive.to_bytes()).expect("just written");
        assert_eq!(read, archive);
        assert_eq!((read.find(&first), read.find(&second), read.find(&third)), (Some(0), Some(1), None));
        // Recordings and archives that say nothing of versions are found by path, as before.
        assert_eq!(read.find(&ObjectInfo::file("/lib/live.so")), Some(0));
        let mut older = Archive::default();
        older.place(&ObjectInfo::file("/lib/live.so"));
        assert_eq!(older.find(&third), Some(0));
    }

    #[test]
    fn archives_without_declarations_are_read_as_before() {
        let text = String::from_utf8(sample().to_bytes()).expect("text");
        let body: String =
            text.lines().skip(1).filter(|l| !l.starts_with(['d', 'E'])).map(|l| format!("{l}\n")).collect();
        let mut expected = sample();
        for object in &mut expected.objects {
            object.spans.values_mut().flat_map(|s| &mut s.frames).for_each(|f| f.declared = None);
        }
        assert_eq!(Archive::parse(Path::new("x"), &signed(&body)).expect("an older one"), expected);
    }

    /// The bytes followed by the correct checksum.
    fn signed(body: &str) -> Vec<u8> {
        let mut out = format!("{FIRST_LINE}\n{body}");
        let sum = crc32fast::hash(out.as_bytes());
        let _ = writeln!(out, "E {sum:08x}");
        out.into_bytes()
    }

    #[test]
    fn bad_lines_say_where_and_what() {
        for (body, wanted) in [
            ("S a\nO file 0 - /x\nA 1 - 1\nF 7 - 0 0 - 0\n", "line 5: names text 7, there are 1"),
            ("F 0 - 0 0 - 0\n", "line 2: names text 0"),
            ("v 1 2 3\n", "line 2: a version (v) before any object"),
            ("O file 0 - /x\nv 1 2\n", "line 3: a version"),
            ("O file 0 - /x\nv 1 -2 3\n", "line 3: a version"),
            ("A 1 - 1\n", "line 2: an address (A) before"),
            ("O file 0 zz /x\n", "line 2: its build-id"),
            ("O disk 0 - /x\n", "line 2: its kind"),
            ("S a\nO file 0 - /x\nA 1 - 2\nF 0 - 0 0 - 0\n", "ends within"),
            ("S a\nO file 0 - /x\nA 1 - 0\n", "0 frames"),
            ("S \\q\n", "escaped"),
            ("Z 1\n", "unknown tag"),
            ("S a\nO file 0 - /x\nA 1 - 1\nF 0 - 0 0 - 99\n", "unknown source"),
            ("S a\nO file 0 - /x\nA 1 - 1\nF 0 - 0 0 - 0\nd 0:1 0:1\n", "line 6: 2 declarations of 1 frames"),
            ("S a\nO file 0 - /x\nA 1 - 1\nF 0 - 0 0 - 0\nd 1:1\n", "line 6: names text 1, there are 1"),
            ("S a\nO file 0 - /x\nA 1 - 1\nF 0 - 0 0 - 0\nd 0\n", "line 6: neither FILE:LINE"),
            (
                "S a\nO file 0 - /x\nA 1 - 1\nF 0 - 0 0 - 0\nO file 0 - /y\nd -\n",
                "line 7: declarations (d) without",
            ),
        ] {
            let e = Archive::parse(Path::new("x"), &signed(body)).expect_err(body).to_string();
            assert!(e.contains(wanted), "{body:?}: {e}");
        }
        assert!(Archive::parse(Path::new("x"), &signed("z later addition\n")).is_ok());
        let e = Archive::parse(Path::new("x"), b"pct-symbols 2\n").expect_err("version").to_string();
        assert!(e.contains("known is"), "{e}");
    }

    proptest! {
        #[test]
        fn damage_is_noticed(at in 0usize..400, byte in any::<u8>(), cut in 0usize..400) {
            let good = sample().to_bytes();
            let mut data = good.clone();
            let at = at % data.len();
            data[at] = byte;
            data.truncate(data.len() - cut % 3 * (cut % data.len()) / 3);
            if data != good {
                prop_assert!(Archive::parse(Path::new("x"), &data).is_err());
            }
        }

        #[test]
        fn any_signed_text_is_judged_without_a_panic(body in "([SOARFEd] [0-9a-fx: -]{0,20}\n){0,8}") {
            let _ = Archive::parse(Path::new("x"), &signed(&body));
        }

        #[test]
        fn escaping_loses_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = escape(&bytes);
            prop_assert!(!text.contains('\n'));
            prop_assert_eq!(unescape(text.as_bytes()), Some(bytes));
        }
    }
}
