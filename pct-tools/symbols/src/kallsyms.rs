//! Names of the kernel's functions: `/proc/kallsyms`, or a copy of it that `perf record` kept.
//!
//! A line is an address, a letter for the kind, a name, and for modules and BPF programs whose it is: `ffff... t ext4_create [ext4]`.
//! Nothing says how long a function is, so it ends where the next symbol of any kind begins.
//!
//! Without the right to see addresses the kernel writes zeros: that is an error, not a symbol at address 0.

use crate::image::BuildId;
use std::cmp::Reverse;
use std::io;
use std::ops::Range;
use std::path::Path;

/// The largest file that is read; a kernel of today has some 6 MB.
const MOST: u64 = 512 << 20;
/// How far the last symbol is believed to reach.
const LAST: u64 = 4096;

/// Why there are no names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KallsymsError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The kernel hides its addresses from this user.
    #[error("its addresses are hidden from this user (kernel.kptr_restrict, CAP_SYSLOG)")]
    Hidden,
    /// There is no symbol in it.
    #[error("no symbol in it")]
    Empty,
}

/// The kernel's symbols, by address.
#[derive(Debug)]
pub struct Kallsyms {
    text: Vec<u8>,
    /// Ascending; of several at one address the best one first.
    symbols: Vec<Symbol>,
}

#[derive(Clone, Debug)]
struct Symbol {
    address: u64,
    kind: u8,
    name: Range<usize>,
    /// Empty: the kernel itself.
    module: Range<usize>,
}

/// A function of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelFunction<'a> {
    /// Its name.
    pub name: &'a str,
    /// The module that it belongs to; `None`: the kernel itself. (`bpf` and `__builtin__ftrace` are names here too.)
    pub module: Option<&'a str>,
}

impl Kallsyms {
    /// Those of a file.
    ///
    /// # Errors
    /// When it cannot be read, or as [`Kallsyms::parse`].
    pub fn read(path: &Path) -> Result<Kallsyms, KallsymsError> {
        use std::io::Read as _;
        let mut text = Vec::new();
        std::fs::File::open(path)?.take(MOST).read_to_end(&mut text)?;
        Kallsyms::parse(text)
    }

    /// Those of a text. Lines that are no symbol are passed over.
    ///
    /// # Errors
    /// When there is none, or all addresses are 0.
    pub fn parse(text: Vec<u8>) -> Result<Kallsyms, KallsymsError> {
        let mut symbols = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            symbols.extend(symbol(&text, start..start + line.len()));
            start += line.len();
        }
        if symbols.is_empty() {
            return Err(KallsymsError::Empty);
        }
        if symbols.iter().all(|symbol: &Symbol| symbol.address == 0) {
            return Err(KallsymsError::Hidden);
        }
        let order = |symbol: &Symbol| {
            let name = text.get(symbol.name.clone()).unwrap_or_default();
            let underscores = name.iter().take_while(|byte| **byte == b'_').count();
            let by_kind = match symbol.kind {
                b'T' => 0,
                b't' => 1,
                b'W' | b'w' => 2,
                _ => 3,
            };
            (symbol.address, by_kind, underscores, Reverse(name.len()))
        };
        symbols.sort_by_key(order);
        Ok(Kallsyms { text, symbols })
    }

    /// The address of the symbol of this name in the kernel itself.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<u64> {
        let is_it = |symbol: &&Symbol| symbol.module.is_empty() && self.word(&symbol.name) == name;
        self.symbols.iter().find(is_it).map(|symbol| symbol.address)
    }

    /// The function that an address lies in.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<KernelFunction<'_>> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let last = self.symbols.get(after.checked_sub(1)?)?;
        let first = self.symbols.partition_point(|symbol| symbol.address < last.address);
        let best = self.symbols.get(first)?;
        let end = self.symbols.get(after).map_or(best.address.saturating_add(LAST), |next| next.address);
        if address >= end || !matches!(best.kind, b'T' | b't' | b'W' | b'w') {
            return None;
        }
        let module = self.word(&best.module);
        Some(KernelFunction { name: self.word(&best.name), module: Some(module).filter(|m| !m.is_empty()) })
    }

    fn word(&self, range: &Range<usize>) -> &str {
        std::str::from_utf8(self.text.get(range.clone()).unwrap_or_default()).unwrap_or_default()
    }
}

fn symbol(text: &[u8], line: Range<usize>) -> Option<Symbol> {
    let mut words = words(text, line);
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let address = u64::from_str_radix(std::str::from_utf8(text.get(address)?).ok()?, 16).ok()?;
    let [kind] = *text.get(kind)? else { return None };
    let module = words
        .next()
        .filter(|word| {
            text.get(word.clone()).is_some_and(|w| w.len() > 2 && w.starts_with(b"[") && w.ends_with(b"]"))
        })
        .map_or(0..0, |word| word.start + 1..word.end - 1);
    std::str::from_utf8(text.get(name.clone())?).ok()?;
    std::str::from_utf8(text.get(module.clone())?).ok()?;
    Some(Symbol { address, kind, name, module })
}

/// The words of a line, as ranges of the text.
fn words(text: &[u8], line: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = line.start;
    std::iter::from_fn(move || {
        let space = |at: usize| text.get(at).is_some_and(u8::is_ascii_whitespace);
        while at < line.end && space(at) {
            at += 1;
        }
        let start = at;
        while at < line.end && !space(at) {
            at += 1;
        }
        (start < at).then_some(start..at)
    })
}

/// The build-id of the kernel that runs here.
#[must_use]
pub fn running_build_id() -> Option<BuildId> {
    gnu_build_id(&std::fs::read("/sys/kernel/notes").ok()?)
}

/// The GNU build-id among the notes of an object: length of the owner's name, of the content, type, and both padded to 4 octets.
fn gnu_build_id(mut notes: &[u8]) -> Option<BuildId> {
    const BUILD_ID: u32 = 3;
    loop {
        let half = |at: usize| Some(u32::from_ne_bytes(notes.get(at..at + 4)?.try_into().ok()?));
        let name_len = usize::try_from(half(0)?).ok()?;
        let content_len = usize::try_from(half(4)?).ok()?;
        let kind = half(8)?;
        let content_at = name_len.checked_next_multiple_of(4)?.checked_add(12)?;
        let name = notes.get(12..12_usize.checked_add(name_len)?)?;
        let content = notes.get(content_at..content_at.checked_add(content_len)?)?;
        if kind == BUILD_ID && name == b"GNU\0" {
            return BuildId::new(content);
        }
        let next = content_at.checked_add(content_len.checked_next_multiple_of(4)?)?;
        notes = notes.get(next..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(symbols: &Kallsyms, address: u64) -> Option<&str> {
        symbols.find(address).map(|function| function.name)
    }

    #[test]
    fn an_address_is_in_the_function_before_it_up_to_the_next_symbol() {
        let text = "ffffffff81000000 T _text\nffffffff81000000 T startup_64\nffffffff81000100 t vfs_read\r\nnot a line\n\
                    ffffffff81000180 W weak\nffffffff81000180 T __sys_read\nffffffff81000180 T sys_read\n\
                    ffffffff81000200 D data\nffffffffc0000000 t ext4_create\t[ext4]\n";
        let symbols = Kallsyms::parse(text.into()).expect("symbols");
        assert_eq!(name(&symbols, 0xffff_ffff_80ff_ffff), None);
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0010), Some("startup_64"), "fewer underscores");
        assert_eq!(name(&symbols, 0xffff_ffff_8100_017f), Some("vfs_read"));
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0180), Some("sys_read"), "not the weak one");
        assert_eq!(name(&symbols, 0xffff_ffff_8100_0200), None, "data");
        assert_eq!(
            symbols.find(0xffff_ffff_c000_0fff),
            Some(KernelFunction { name: "ext4_create", module: Some("ext4") })
        );
        assert_eq!(name(&symbols, 0xffff_ffff_c000_1000), None, "nobody knows how long the last one is");
        assert_eq!(symbols.address_of("_text"), Some(0xffff_ffff_8100_0000));
        assert_eq!(symbols.address_of("ext4_create"), None);
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        let hidden = Kallsyms::parse("0000000000000000 T _text\n0000000000000000 t a\n".into());
        assert!(matches!(hidden, Err(KallsymsError::Hidden)));
        for nothing in ["", "\n\n", "x", "ffff T\n", "ffff TT name\n"] {
            assert!(matches!(Kallsyms::parse(nothing.into()), Err(KallsymsError::Empty)), "{nothing:?}");
        }
        assert!(Kallsyms::parse(b"\xff\xff\xff T \xff\xff\n1 t a [\xff]\n".to_vec()).is_err());
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let note = |name: &[u8], kind: u32, content: &[u8]| {
            let mut note = Vec::new();
            for word in [name.len(), content.len()] {
                note.extend(u32::try_from(word).expect("small").to_ne_bytes());
            }
            note.extend(kind.to_ne_bytes());
            for part in [name, content] {
                note.extend(part);
                note.resize(note.len().next_multiple_of(4), 0);
            }
            note
        };
        let notes = [note(b"Xen\0", 6, b"linux"), note(b"GNU\0", 3, &[7; 20])].concat();
        assert_eq!(gnu_build_id(&notes), BuildId::new(&[7; 20]));
        for cut in 0..notes.len() {
            assert_eq!(gnu_build_id(&notes[..cut]), None, "{cut}");
        }
    }
}
