//! Names kept aside: what the sampled addresses resolved to, so that a report stays the same on another machine or
//! after a rebuild.
//!
//! An archive is one text file in a directory of profiles, [`FILE_NAME`]; `docs/symbol-archive.md` describes it line by
//! line. It holds resolved frames, not copies of objects. An object is found again by its build-id, or by its path
//! where one of both sides has none.
//!
//! Invariant: a file that [`Archive::read`] accepts is whole (its checksum agrees) and every number in it that names
//! something names something that is there.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use pct_num::{NumError, str2num};

use crate::image::BuildId;
use crate::objects::{ObjectInfo, ObjectKind, shown_path};
use crate::symtab::Source;
use crate::system_call::{Said, Value};

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
        /// What the system said.
        source: io::Error,
    },
    /// Its version is not known.
    #[error("{path}: begins with {found:?}, known is {FIRST_LINE:?}", path = path.display())]
    Version {
        /// The archive.
        path: PathBuf,
        /// Its first line.
        found: String,
    },
    /// The checksum does not agree: cut off or changed.
    #[error("{path}: damaged: {what}", path = path.display())]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// How that is known.
        what: String,
    },
    /// A line is not what it should be.
    #[error("{path}: line {line}: {what}", path = path.display())]
    BadLine {
        /// The archive.
        path: PathBuf,
        /// From 1.
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
    /// Bytes into the function; None: not known.
    pub(crate) into: Option<u64>,
    pub(crate) frames: Vec<Kept>,
    /// What the code before the address says of the system call there.
    pub(crate) system_call: Option<Said>,
}

/// An object with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptObject {
    kind: ObjectKind,
    path: PathBuf,
    build_id: Option<BuildId>,
    /// Remarks of the time when the names were found.
    pub(crate) remarks: Vec<String>,
    pub(crate) spans: HashMap<u64, KeptSpan>,
}

/// An archive in memory.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Archive {
    pub(crate) texts: Vec<String>,
    pub(crate) objects: Vec<KeptObject>,
    by_id: HashMap<(ObjectKind, BuildId), usize>,
    by_path: HashMap<(ObjectKind, PathBuf), usize>,
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

    /// Reads an archive from its bytes; `path` is for messages.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn parse(path: &Path, data: &[u8]) -> Result<Archive, ArchiveError> {
        let damaged = |what: &str| ArchiveError::Damaged { path: path.into(), what: what.into() };
        let first = data.split(|b| *b == b'\n').next().unwrap_or(&[]);
        if first != FIRST_LINE.as_bytes() {
            let found = String::from_utf8_lossy(&first[..first.len().min(80)]).into_owned();
            return Err(ArchiveError::Version { path: path.into(), found });
        }
        let body = data.strip_suffix(b"\n").ok_or_else(|| damaged("its last line is cut off"))?;
        let last = memchr::memrchr(b'\n', body).ok_or_else(|| damaged("it has one line only"))? + 1;
        match body[last..].strip_prefix(b"E ") {
            None => return Err(damaged("its last line is not its checksum")),
            // To the letter: upper-case digits are damage too.
            Some(sum) if sum != format!("{:08x}", crc32fast::hash(&data[..last])).as_bytes() => {
                return Err(damaged("its checksum does not agree"));
            }
            Some(_) => {}
        }
        let mut reader = Reader { path, line: 1, archive: Archive::default(), open: None, last: None };
        for line in data[..last].split(|b| *b == b'\n').skip(1).filter(|l| !l.is_empty()) {
            reader.line += 1;
            reader.take(line)?;
        }
        reader.finish()
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
                ObjectKind::Opaque => ("opaque", 0),
            };
            let id = object.build_id.as_ref().map_or_else(|| "-".to_string(), ToString::to_string);
            let _ = writeln!(out, "O {kind} {pid} {id} {}", escape(object.path.as_os_str().as_bytes()));
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

    /// The kept object that a registered one is, if there is one.
    pub(crate) fn find(&self, info: &ObjectInfo) -> Option<usize> {
        if let Some(id) = &info.build_id
            && let Some(found) = self.by_id.get(&(info.kind, id.clone()))
        {
            return Some(*found);
        }
        let found = *self.by_path.get(&(info.kind, shown_path(&info.path)))?;
        // Two different build-ids are two objects, whatever their paths.
        (info.build_id.is_none() || self.objects[found].build_id.is_none()).then_some(found)
    }

    /// The place for an object's addresses: the one it has already, or a new one.
    pub(crate) fn place(&mut self, info: &ObjectInfo) -> usize {
        if let Some(found) = self.find(info) {
            return found;
        }
        self.push(info.kind, shown_path(&info.path), info.build_id.clone())
    }

    fn push(&mut self, kind: ObjectKind, path: PathBuf, build_id: Option<BuildId>) -> usize {
        let number = self.objects.len();
        if let Some(id) = &build_id {
            self.by_id.entry((kind, id.clone())).or_insert(number);
        }
        self.by_path.entry((kind, path.clone())).or_insert(number);
        self.objects.push(KeptObject { kind, path, build_id, remarks: Vec::new(), spans: HashMap::new() });
        number
    }

    /// Objects, addresses and texts in it.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.objects.len(), self.objects.iter().map(|o| o.spans.len()).sum(), self.texts.len())
    }
}

/// An archive being read.
struct Reader<'a> {
    path: &'a Path,
    line: usize,
    archive: Archive,
    /// The address whose frames are being read, and how many are still to come.
    open: Option<(u64, KeptSpan, usize)>,
    /// The address whose frames were read last.
    last: Option<u64>,
}

impl Reader<'_> {
    fn bad(&self, what: impl Into<String>) -> ArchiveError {
        ArchiveError::BadLine { path: self.path.into(), line: self.line, what: what.into() }
    }

    fn take(&mut self, line: &[u8]) -> Result<(), ArchiveError> {
        let (tag, rest) = match line {
            [tag, b' ', rest @ ..] => (*tag, rest),
            [tag] => (*tag, &[][..]),
            _ => return Err(self.bad("no tag and blank at its beginning")),
        };
        if self.open.is_some() && tag != b'F' {
            return Err(self.bad("a frame (F) was expected"));
        }
        match tag {
            b'S' => {
                let text = unescape(rest).and_then(|t| String::from_utf8(t).ok());
                let text = text.ok_or_else(|| self.bad("its text is not well escaped"))?;
                self.archive.texts.push(text);
            }
            b'O' => self.object(rest)?,
            b'R' => {
                let text = unescape(rest).and_then(|t| String::from_utf8(t).ok());
                let text = text.ok_or_else(|| self.bad("its text is not well escaped"))?;
                match self.archive.objects.last_mut() {
                    Some(object) => object.remarks.push(text),
                    None => return Err(self.bad("a remark (R) before any object (O)")),
                }
            }
            b'A' => self.address(rest)?,
            b'F' => self.frame(rest)?,
            b'd' => self.declarations(rest)?,
            b'c' => self.system_call(rest)?,
            // Room for later additions that an older reader may ignore: lower-case tags.
            b'a'..=b'z' => {}
            other => return Err(self.bad(format!("unknown tag {:?}", char::from(other)))),
        }
        Ok(())
    }

    fn object(&mut self, rest: &[u8]) -> Result<(), ArchiveError> {
        let mut words = rest.splitn(4, |b| *b == b' ');
        let [kind, pid, id, path] = std::array::from_fn(|_| words.next().unwrap_or(&[]));
        let pid = self.number(pid)?;
        let kind = match kind {
            b"file" => ObjectKind::File,
            b"vdso" => ObjectKind::Vdso,
            b"jit" => ObjectKind::Jit { pid },
            b"opaque" => ObjectKind::Opaque,
            _ => return Err(self.bad("its kind is none of file, vdso, jit, opaque")),
        };
        let build_id = match id {
            b"-" => None,
            text => {
                let id = std::str::from_utf8(text).ok().and_then(BuildId::parse);
                Some(id.ok_or_else(|| self.bad("its build-id is not hexadecimal"))?)
            }
        };
        let path = unescape(path).ok_or_else(|| self.bad("its path is not well escaped"))?;
        self.archive.push(kind, PathBuf::from(std::ffi::OsString::from_vec(path)), build_id);
        self.last = None;
        Ok(())
    }

    /// Where the functions of the frames above are declared, a word each.
    fn declarations(&mut self, rest: &[u8]) -> Result<(), ArchiveError> {
        let texts = self.archive.texts.len();
        let place = |word: &[u8]| -> Result<Option<(u32, u32)>, ArchiveError> {
            if word == b"-" {
                return Ok(None);
            }
            let colon = memchr::memchr(b':', word).ok_or_else(|| self.bad("neither FILE:LINE nor -"))?;
            let (file, line) = (self.number(&word[..colon])?, self.number(&word[colon + 1..])?);
            if file as usize >= texts {
                return Err(self.bad(format!("names text {file}, there are {texts}")));
            }
            Ok(Some((file, line)))
        };
        let places = rest.split(|b| *b == b' ').map(place).collect::<Result<Vec<_>, _>>()?;
        let open = self.last.take();
        let last = self.archive.objects.last_mut().zip(open).and_then(|(o, a)| o.spans.get_mut(&a));
        match last {
            Some(span) if span.frames.len() == places.len() => {
                for (frame, place) in span.frames.iter_mut().zip(places) {
                    frame.declared = place;
                }
                Ok(())
            }
            Some(span) => {
                let frames = span.frames.len();
                Err(self.bad(format!("{} declarations of {frames} frames", places.len())))
            }
            None => Err(self.bad("declarations (d) without frames (F) above")),
        }
    }

    /// What the code before the address above says of a system call.
    fn system_call(&mut self, rest: &[u8]) -> Result<(), ArchiveError> {
        let mut words = rest.split(|b| *b == b' ');
        let [register, how, what] = std::array::from_fn(|_| words.next().unwrap_or(&[]));
        let register_of = |text: &[u8]| {
            let number = self.number(text)?;
            let known = u8::try_from(number).ok().filter(|register| *register < 16);
            known.ok_or_else(|| self.bad(format!("names register {number}, there are 16")))
        };
        let register = register_of(register)?;
        let value = match how {
            b"=" => Value::Number(self.number(what)?),
            b"from" => Value::Entry(register_of(what)?),
            _ => return Err(self.bad("neither = nor from in what is said of a system call")),
        };
        let last = self.archive.objects.last_mut().zip(self.last);
        match last.and_then(|(object, address)| object.spans.get_mut(&address)) {
            Some(span) => {
                span.system_call = Some(Said { register, value });
                Ok(())
            }
            None => Err(self.bad("a system call (c) without frames (F) above")),
        }
    }

    fn address(&mut self, rest: &[u8]) -> Result<(), ArchiveError> {
        let mut words = rest.split(|b| *b == b' ');
        let [address, into, count] = std::array::from_fn(|_| words.next().unwrap_or(&[]));
        if self.archive.objects.is_empty() {
            return Err(self.bad("an address (A) before any object (O)"));
        }
        let hex = |t: &[u8]| str2num::<16>(t).map_err(|e| self.bad(format!("an address: {e}")));
        let address = hex(address)?;
        let into = if into == b"-" { None } else { Some(hex(into)?) };
        let count = self.number(count)? as usize;
        if !(1..=10_000).contains(&count) {
            return Err(self.bad(format!("{count} frames, from 1 to 10000 can be")));
        }
        self.open = Some((address, KeptSpan { into, frames: Vec::new(), system_call: None }, count));
        Ok(())
    }

    fn frame(&mut self, rest: &[u8]) -> Result<(), ArchiveError> {
        let mut words = rest.split(|b| *b == b' ');
        let [function, file, line, column, inlined, source] =
            std::array::from_fn(|_| words.next().unwrap_or(&[]));
        let texts = self.archive.texts.len();
        let text = |n: u32| {
            let known = (n as usize) < texts;
            if known { Ok(n) } else { Err(self.bad(format!("names text {n}, there are {texts}"))) }
        };
        let frame = Kept {
            function: text(self.number(function)?)?,
            file: if file == b"-" { None } else { Some(text(self.number(file)?)?) },
            line: self.number(line)?,
            column: self.number(column)?,
            inlined: match inlined {
                b"i" => true,
                b"-" => false,
                _ => return Err(self.bad("neither i nor - for an inlined call")),
            },
            source: *Source::ALL
                .get(self.number(source)? as usize)
                .ok_or_else(|| self.bad("an unknown source of names"))?,
            declared: None,
        };
        let Some((address, mut span, count)) = self.open.take() else {
            return Err(self.bad("a frame (F) without an address (A)"));
        };
        span.frames.push(frame);
        if span.frames.len() < count {
            self.open = Some((address, span, count));
        } else if let Some(object) = self.archive.objects.last_mut() {
            object.spans.insert(address, span);
            self.last = Some(address);
        }
        Ok(())
    }

    fn number(&self, text: &[u8]) -> Result<u32, ArchiveError> {
        str2num::<10>(text)
            .and_then(|n| u32::try_from(n).map_err(|_| NumError::Overflow))
            .map_err(|e| self.bad(format!("a number: {e}")))
    }

    fn finish(self) -> Result<Archive, ArchiveError> {
        if self.open.is_some() {
            return Err(self.bad("ends within the frames of an address"));
        }
        Ok(self.archive)
    }
}

/// Text on a line: `\\`, `\n` and `\xNN` (control characters and bytes that are not UTF-8) are escaped.
fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                c if c.is_ascii_control() => {
                    let _ = write!(out, "\\x{:02x}", c as u32);
                }
                c => out.push(c),
            }
        }
        for b in chunk.invalid() {
            let _ = write!(out, "\\x{b:02x}");
        }
    }
    out
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(b) = text.get(at) {
        at += 1;
        if *b != b'\\' {
            out.push(*b);
            continue;
        }
        match text.get(at)? {
            b'\\' => out.push(b'\\'),
            b'n' => out.push(b'\n'),
            b'x' => {
                out.push(u8::try_from(str2num::<16>(text.get(at + 1..at + 3)?).ok()?).ok()?);
                at += 2;
            }
            _ => return None,
        }
        at += 1;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Archive {
        let mut archive =
            Archive { texts: vec!["main".into(), "a\nb\\c\u{1}é".into()], ..Archive::default() };
        let path = PathBuf::from(std::ffi::OsString::from_vec(b"/odd \xff\nname".to_vec()));
        archive.push(ObjectKind::File, path, BuildId::parse("00ff"));
        archive.push(ObjectKind::Jit { pid: 7 }, "//anon".into(), None);
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

    /// The bytes with a checksum that agrees.
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
