//! Names of the kernel's functions: `/proc/kallsyms`, or a copy of it that `perf record` kept.
//!
//! A line has an address, a letter for the kind, a name, and the owner if that is a module or a BPF program:
//! `ffff... t ext4_create [ext4]`. The lengths of functions are not given, so a function ends where the next symbol of
//! any kind begins.
//!
//! If a user has no right to see addresses, the kernel writes zeros. That is an error, not a symbol at address 0.

use crate::image::BuildId;
use crate::objects::{ObjectInfo, ObjectKind};
use std::cmp::Reverse;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Largest file that is read. A current kernel's has some 6 MB.
const MOST: u64 = 512 << 20;
/// Assumed length of the last symbol.
const LAST: u64 = 4096;

/// Prefix of a kernel's path.
const OF_BOOT: &str = "[kernel of boot ";
/// Name of code in the kernel that has no symbol.
pub(crate) const NAMELESS: &str = "[no symbol]";

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
    /// The machine was booted again since, and the kernel has other addresses.
    #[error("it is of another boot than the recording (pct archive, before the reboot, keeps the names)")]
    OtherBoot,
    /// There is no symbol in it.
    #[error("no symbol in it")]
    Empty,
}

/// The kernel's symbols, by address.
#[derive(Debug)]
pub struct Kallsyms {
    text: Vec<u8>,
    /// Ascending by address. Of several at one address the best one comes first.
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

impl fmt::Display for KernelFunction<'_> {
    /// `vfs_read`, or `ext4_create [ext4]`: what [`KernelFunction::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.module {
            None => f.write_str(self.name),
            Some(module) => write!(f, "{} [{module}]", self.name),
        }
    }
}

impl<'a> KernelFunction<'a> {
    /// Parses a displayed text.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        let with_module = text
            .strip_suffix(']')
            .and_then(|text| text.split_once(" ["))
            .filter(|(name, _)| !name.is_empty());
        match with_module {
            Some((name, module)) => Self { name, module: Some(module) },
            None => Self { name: text, module: None },
        }
    }
}

/// The object that stands for the kernel of a boot.
#[must_use]
pub fn object_of_boot(boot_id: [u8; 16]) -> ObjectInfo {
    let hex: String = boot_id.iter().map(|byte| format!("{byte:02x}")).collect();
    ObjectInfo { kind: ObjectKind::Kernel, path: format!("{OF_BOOT}{hex}]").into(), ..ObjectInfo::default() }
}

/// Whether [`object_of_boot`] makes such a path.
pub(crate) fn is_of_boot(path: &[u8]) -> bool {
    path.starts_with(OF_BOOT.as_bytes())
}

impl Kallsyms {
    /// The symbols of the running kernel, if `path` names the kernel of this boot.
    ///
    /// # Errors
    /// When the path is of another boot, and those of [`Kallsyms::read`].
    pub(crate) fn of_boot(path: &Path) -> Result<Kallsyms, KallsymsError> {
        let here = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        if path.as_os_str() != &*format!("{OF_BOOT}{}]", here.trim().replace('-', "")) {
            return Err(KallsymsError::OtherBoot);
        }
        Kallsyms::read("/proc/kallsyms".as_ref())
    }

    /// Reads the symbols from a file.
    ///
    /// # Errors
    /// When the file cannot be read, and those of [`Kallsyms::parse`].
    pub fn read(path: &Path) -> Result<Kallsyms, KallsymsError> {
        use std::io::Read as _;
        let mut text = Vec::new();
        std::fs::File::open(path)?.take(MOST).read_to_end(&mut text)?;
        Kallsyms::parse(text)
    }

    /// Parses a text. Lines without a symbol are skipped.
    ///
    /// # Errors
    /// When there is no symbol, or all addresses are 0.
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

    /// The address of the kernel's own symbol with this name.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<u64> {
        let is_it = |symbol: &&Symbol| symbol.module.is_empty() && self.text_at(&symbol.name) == name;
        self.symbols.iter().find(is_it).map(|symbol| symbol.address)
    }

    /// The function that contains an address.
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
        let module = self.text_at(&best.module);
        Some(KernelFunction {
            name: self.text_at(&best.name),
            module: Some(module).filter(|m| !m.is_empty()),
        })
    }

    fn text_at(&self, range: &Range<usize>) -> &str {
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

/// The GNU build-id among the notes of an object. A note has the length of the owner's name, the length of the
/// content, the type, and name and content, both padded to 4 octets.
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
    fn functions_of_modules_survive_the_round_trip() {
        for function in [
            KernelFunction { name: "vfs_read", module: None },
            KernelFunction { name: "ext4_create", module: Some("ext4") },
        ] {
            assert_eq!(KernelFunction::parse(&function.to_string()), function);
        }
        assert_eq!(KernelFunction::parse(NAMELESS), KernelFunction { name: NAMELESS, module: None });
    }

    #[test]
    fn names_of_another_boot_are_not_taken() {
        let other = object_of_boot([7; 16]);
        assert!(is_of_boot(other.path.as_os_str().as_encoded_bytes()));
        assert!(matches!(Kallsyms::of_boot(&other.path), Err(KallsymsError::OtherBoot)));
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
