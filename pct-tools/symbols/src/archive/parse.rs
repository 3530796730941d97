//! Parses an archive from the bytes of its file: the checksum first, then line by line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use pct_elf::FileVersion;
use pct_num::{NumError, str2num};

use super::escape::unescape;
use super::{Archive, ArchiveError, FIRST_LINE, Kept, KeptSpan};
use crate::image::BuildId;
use crate::kallsyms::is_of_boot;
use crate::objects::ObjectKind;
use crate::symtab::Source;
use crate::system_call::{Said, Value};

impl Archive {
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
            // The comparison is exact, so upper-case digits count as damage too.
            Some(sum) if sum != format!("{:08x}", crc32fast::hash(&data[..last])).as_bytes() => {
                return Err(damaged("its checksum does not agree"));
            }
            Some(_) => {}
        }
        let mut reader = Reader { path, line: 1, archive: Archive::default(), open: None, last: None };
        for line in data[..last].split(|b| *b == b'\n').skip(1).filter(|l| !l.is_empty()) {
            reader.line += 1;
            reader.read_line(line)?;
        }
        reader.finish()
    }
}

/// An archive being read.
struct Reader<'a> {
    path: &'a Path,
    line: usize,
    archive: Archive,
    /// The address whose frames are being read, and how many frames are still missing.
    open: Option<(u64, KeptSpan, usize)>,
    /// The address whose frames were read last.
    last: Option<u64>,
}

impl Reader<'_> {
    fn bad(&self, what: impl Into<String>) -> ArchiveError {
        ArchiveError::BadLine { path: self.path.into(), line: self.line, what: what.into() }
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), ArchiveError> {
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
                let text = self.text(rest)?;
                self.archive.texts.push(text);
            }
            b'O' => self.object(rest)?,
            b'R' => {
                let text = self.text(rest)?;
                match self.archive.objects.last_mut() {
                    Some(object) => object.remarks.push(text),
                    None => return Err(self.bad("a remark (R) before any object (O)")),
                }
            }
            b'A' => self.address(rest)?,
            b'F' => self.frame(rest)?,
            b'v' => self.version(rest)?,
            b'd' => self.declarations(rest)?,
            b'c' => self.system_call(rest)?,
            // Lower-case tags are reserved for additions that an older reader may ignore.
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
        let kind = if kind == ObjectKind::Opaque && is_of_boot(&path) { ObjectKind::Kernel } else { kind };
        self.archive.push(kind, PathBuf::from(OsString::from_vec(path)), build_id, FileVersion::default());
        self.last = None;
        Ok(())
    }

    /// Reads what told the contents of the object's file from others.
    fn version(&mut self, rest: &[u8]) -> Result<(), ArchiveError> {
        let mut words = rest.split(|b| *b == b' ');
        let [bytes, changed_ns, first_page] = std::array::from_fn(|_| words.next().unwrap_or(&[]));
        let bad = |e: NumError| self.bad(format!("a version: {e}"));
        let version = FileVersion {
            bytes: str2num::<10>(bytes).map_err(bad)?,
            changed_ns: str2num::<10>(changed_ns).map_err(bad)?,
            first_page: str2num::<16>(first_page).map_err(bad)?,
        };
        match self.archive.objects.last_mut() {
            Some(object) => object.version = version,
            None => return Err(self.bad("a version (v) before any object (O)")),
        }
        Ok(())
    }

    /// Reads where the functions of the frames above are declared, one word each.
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

    /// Reads what the code before the address above shows about a system call.
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

    fn text(&self, escaped: &[u8]) -> Result<String, ArchiveError> {
        let text = unescape(escaped).and_then(|octets| String::from_utf8(octets).ok());
        text.ok_or_else(|| self.bad("its text is not well escaped"))
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
