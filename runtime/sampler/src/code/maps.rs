//! /proc/PID/maps in a caller's buffer: no allocation, any number of lines, lines of any length.
//!
//! The kernel hands out whole lines per `read`, but a line may be longer than what is left of the buffer; what is cut
//! by the buffer's end is continued with the next read. A line longer than the entire buffer is given with
//! its path cut.

use crate::sys;
use crate::sys::text::{parse_hex, split_once};

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Readable, writable, executable, shared.
    pub permissions: [u8; 4],
    /// Offset in the file.
    pub offset: u64,
    /// `major << 32 | minor`.
    pub device: u64,
    /// Inode, 0 = no file.
    pub inode: u64,
    /// Path as the kernel writes it: newlines as `\012`, perhaps with ` (deleted)`; empty = anonymous.
    pub path: &'a [u8],
}

impl<'a> Mapping<'a> {
    /// Parses a line without its newline. `None` when it is not one.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let (start, rest) = parse_hex(line)?;
        let (end, rest) = parse_hex(rest.strip_prefix(b"-")?)?;
        let rest = rest.strip_prefix(b" ")?;
        let (permissions, rest) = rest.split_first_chunk::<4>()?;
        let (offset, rest) = parse_hex(rest.strip_prefix(b" ")?)?;
        let (major, rest) = parse_hex(rest.strip_prefix(b" ")?)?;
        let (minor, rest) = parse_hex(rest.strip_prefix(b":")?)?;
        let (inode, path) = split_once(rest.strip_prefix(b" ")?, b' ');
        let inode = crate::sys::text::parse_number(inode)?;
        let path = path.unwrap_or(&[]);
        let blanks = path.iter().take_while(|b| **b == b' ').count();
        let path = path.get(blanks..)?;
        Some(Mapping {
            start,
            end,
            permissions: *permissions,
            offset,
            device: major << 32 | minor,
            inode,
            path,
        })
    }

    /// Whether code can run there.
    #[must_use]
    pub fn executable(&self) -> bool {
        self.permissions[2] == b'x'
    }

    /// Whether it can be written.
    #[must_use]
    pub fn writable(&self) -> bool {
        self.permissions[1] == b'w'
    }

    /// Whether it can be read.
    #[must_use]
    pub fn readable(&self) -> bool {
        self.permissions[0] == b'r'
    }

    /// The path without ` (deleted)`, and whether that was there. (A file whose name ends so is taken for deleted too:
    /// the kernel does not tell them apart.)
    #[must_use]
    pub fn file(&self) -> (&'a [u8], bool) {
        match self.path.strip_suffix(b" (deleted)") {
            Some(path) => (path, true),
            None => (self.path, false),
        }
    }
}

/// Splits what a reader delivers into lines, in a buffer of the caller.
pub struct Lines<'b, R> {
    buffer: &'b mut [u8],
    /// Bytes `from..to` are not given out yet.
    from: usize,
    to: usize,
    read: R,
    ended: bool,
}

impl<'b, R: FnMut(&mut [u8]) -> usize> Lines<'b, R> {
    /// `read` fills a buffer and says how much; 0 = end (or error).
    pub fn new(buffer: &'b mut [u8], read: R) -> Self {
        Lines { buffer, from: 0, to: 0, read, ended: false }
    }

    /// The next line, without its newline; `None` at the end.
    pub fn next_line(&mut self) -> Option<&[u8]> {
        let mut searched = 0;
        loop {
            let have = self.buffer.get(self.from..self.to)?;
            let newline = have.get(searched..).and_then(|rest| rest.iter().position(|b| *b == b'\n'));
            if let Some(at) = newline {
                let (from, end) = (self.from, self.from + searched + at);
                self.from = end + 1;
                return self.buffer.get(from..end);
            }
            searched = have.len();
            let full = self.from == 0 && self.to == self.buffer.len();
            if self.ended || full {
                let (from, to) = (self.from, self.to);
                self.from = to;
                if full && !self.ended {
                    // Longer than the buffer: give what there is, skip to the line's end.
                    self.skip_line();
                    return self.buffer.get(from..to);
                }
                return if from == to { None } else { self.buffer.get(from..to) };
            }
            if self.from > 0 {
                self.buffer.copy_within(self.from..self.to, 0);
                self.to -= self.from;
                self.from = 0;
            }
            let n = (self.read)(self.buffer.get_mut(self.to..)?);
            self.ended = n == 0;
            self.to = (self.to + n).min(self.buffer.len());
        }
    }

    /// Drops bytes up to the next newline. The buffer's content stays for the caller: only a byte at a time is read.
    fn skip_line(&mut self) {
        let mut byte = [0u8; 1];
        loop {
            if (self.read)(&mut byte) == 0 {
                self.ended = true;
            } else if byte != *b"\n" {
                continue;
            }
            self.from = 0;
            self.to = 0;
            return;
        }
    }
}

/// Calls `each` for every mapping of this process, in order of address, until it gives `false`.
///
/// Signal safety: open, read, close; `buffer` may be on the stack, 512 bytes are enough for most, 4096 for all paths.
///
/// # Errors
/// The maps file cannot be opened.
pub fn each(buffer: &mut [u8], mut each: impl FnMut(Mapping<'_>) -> bool) -> sys::Result<()> {
    sys::with_descriptor(|| read_maps(buffer, &mut each))
}

/// [`each`] for work that sees to its descriptors itself.
///
/// # Errors
/// As [`each`]'s; EMFILE also where descriptors can be had.
pub(super) fn read_maps(buffer: &mut [u8], mut each: impl FnMut(Mapping<'_>) -> bool) -> sys::Result<()> {
    let fd = sys::open(sys::c(c"/proc/thread-self/maps"), sys::O_RDONLY, 0)?;
    let mut lines = Lines::new(buffer, |b: &mut [u8]| sys::read(&fd, b).unwrap_or(0));
    while let Some(line) = lines.next_line() {
        if let Some(mapping) = Mapping::parse(line)
            && !each(mapping)
        {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_all_kinds_are_understood() {
        let line = b"7f0c1a200000-7f0c1a3f5000 r-xp 00028000 fe:01 1056796                    /usr/lib/a b.so (deleted)";
        let m = Mapping::parse(line).unwrap();
        assert_eq!((m.start, m.end, m.offset), (0x7f0c_1a20_0000, 0x7f0c_1a3f_5000, 0x28000));
        assert_eq!((m.device, m.inode), (0xfe << 32 | 1, 1_056_796));
        assert_eq!(m.file(), (&b"/usr/lib/a b.so"[..], true));
        assert!(m.executable() && !m.writable() && m.readable());
        let m = Mapping::parse(b"7ffd1000-7ffd3000 r-xp 00000000 00:00 0                          [vdso]")
            .unwrap();
        assert_eq!(m.file(), (&b"[vdso]"[..], false));
        let m = Mapping::parse(b"7ffd1000-7ffd3000 rwxp 00000000 00:00 0 ").unwrap();
        assert_eq!(m.path, b"");
        for bad in ["", "x", "1-2", "1-2 r-xp", "1-2 r-xp 0 0:0", "1-2 r-xp 0 00:00 x"] {
            assert_eq!(Mapping::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn our_own_mappings_are_found_whatever_the_buffer() {
        let mut seen = Vec::new();
        for size in [80, 200, 512, 4096] {
            let mut ours = 0;
            let here = our_own_mappings_are_found_whatever_the_buffer as *const () as u64;
            each(&mut vec![0; size], |m| {
                ours += u32::from(m.executable() && m.start <= here && here < m.end);
                true
            })
            .unwrap();
            seen.push(ours);
        }
        assert_eq!(seen, [1, 1, 1, 1]);
    }

    proptest! {
        #[test]
        fn lines_cut_by_reads_and_buffers_are_whole(
            lines in proptest::collection::vec("[a-z]{0,30}", 0..20),
            reads in proptest::collection::vec(1usize..40, 1..30),
            size in 31usize..100,
        ) {
            let text: Vec<u8> = lines.iter().flat_map(|l| l.bytes().chain([b'\n'])).collect();
            let (mut at, mut turn) = (0, 0);
            let mut buffer = vec![0; size];
            let mut reader = Lines::new(&mut buffer, |b: &mut [u8]| {
                let n = reads[turn % reads.len()].min(b.len()).min(text.len() - at);
                turn += 1;
                b[..n].copy_from_slice(&text[at..at + n]);
                at += n;
                n
            });
            let mut got = Vec::new();
            while let Some(line) = reader.next_line() {
                got.push(String::from_utf8(line.to_vec()).unwrap());
            }
            prop_assert_eq!(got, lines);
        }

        #[test]
        fn a_line_longer_than_the_buffer_is_cut_and_the_next_is_whole(long in 50usize..200) {
            let text = format!("{}\nshort\n", "x".repeat(long));
            let mut at = 0;
            let mut buffer = vec![0; 40];
            let mut reader = Lines::new(&mut buffer, |b: &mut [u8]| {
                let n = b.len().min(text.len() - at);
                b[..n].copy_from_slice(&text.as_bytes()[at..at + n]);
                at += n;
                n
            });
            prop_assert_eq!(reader.next_line().map(<[u8]>::len), Some(40));
            prop_assert_eq!(reader.next_line(), Some(&b"short"[..]));
            prop_assert_eq!(reader.next_line(), None);
        }

        #[test]
        fn any_bytes_parse_without_panic(line: Vec<u8>) {
            let _ = Mapping::parse(&line);
        }
    }
}
