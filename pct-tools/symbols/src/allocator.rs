//! Finds out which allocator a program contains that no preloaded library can replace.
//!
//! A preloaded library sees the calls of malloc that go through the loader's tables. It does not see an allocator
//! that the linker has bound to its callers: that of a static program, one that the program itself defines, or Go's
//! heap. The answers here come from the program's file: from its headers and notes, from its symbols, and if those are
//! stripped, from the texts of messages that the allocators contain.

use crate::image::Image;
use memchr::memmem;
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Object as _, ObjectSymbol as _, elf};
use std::fmt;
use std::path::Path;

/// How an allocator came into a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linkage {
    /// The program has no loader: nothing can be preloaded.
    Static,
    /// The program defines `malloc` for itself and its libraries.
    Exported,
    /// The program calls it by another name, or has made `malloc` local to itself. The libraries use another malloc.
    Hidden,
    /// It is Go's heap. The malloc of a C library in the same program is seen.
    Go,
}

/// An allocator inside a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inside {
    /// Its name, such as `jemalloc`. `None`: the program has an allocator of unknown name.
    pub name: Option<&'static str>,
    /// The evidence in the file: a symbol, a message, a note.
    pub sign: String,
    /// How it is linked.
    pub linkage: Linkage,
}

/// An allocator and its evidence: symbols (a name, or the beginning of one with `*`), and a message in its code.
struct Signs {
    name: &'static str,
    symbols: &'static [&'static str],
    message: &'static [u8],
    /// The allocator's own means to profile its memory.
    own_profile: &'static str,
}

const ALLOCATORS: &[Signs] = &[
    Signs {
        name: "jemalloc",
        symbols: &["mallctl", "je_mallctl", "je_malloc", "_rjem_malloc", "_rjem_mallocx", "_rjem_mallctl"],
        message: b"<jemalloc>: ",
        own_profile: "jemalloc's own profile (MALLOC_CONF=prof:true, if it is built with it)",
    },
    Signs {
        name: "tcmalloc",
        symbols: &["tc_malloc", "TCMallocInternalMalloc", "_ZN8tcmalloc*", "_ZN17tcmalloc_internal*"],
        message: b"tcmalloc: ",
        own_profile: "tcmalloc's own profile (HEAPPROFILE=FILE)",
    },
    Signs {
        name: "mimalloc",
        symbols: &["mi_malloc", "mi_malloc_aligned", "_mi_malloc_generic", "mi_heap_malloc"],
        message: b"mimalloc: ",
        own_profile: "mimalloc's own sums (MIMALLOC_SHOW_STATS=1)",
    },
    Signs {
        name: "snmalloc",
        symbols: &["sn_malloc", "sn_rust_alloc", "_ZN8snmalloc*"],
        message: b"",
        own_profile: "",
    },
    Signs { name: "rpmalloc", symbols: &["rpmalloc", "rpaligned_alloc"], message: b"", own_profile: "" },
    Signs { name: "scudo", symbols: &["scudo_malloc", "_ZN5scudo*"], message: b"", own_profile: "" },
    Signs { name: "TBB's allocator", symbols: &["scalable_malloc"], message: b"", own_profile: "" },
];

/// C libraries in static programs.
const C_LIBRARIES: &[Signs] = &[
    Signs {
        name: "glibc's malloc",
        symbols: &["_int_malloc"],
        message: b"malloc(): corrupted top size",
        own_profile: "",
    },
    Signs {
        name: "musl's malloc",
        symbols: &["__libc_malloc_impl", "__malloc_alloc_meta", "__malloc_donate", "__bin_chunk"],
        message: b"",
        own_profile: "",
    },
];

/// Examines a program's file. `None`: it cannot be read, or the program's memory comes from shared libraries.
#[must_use]
pub fn inside(program: &Path) -> Option<Inside> {
    of_image(&Image::open(program).ok()?)
}

/// Examines an image that is open already.
#[must_use]
pub fn of_image(image: &Image) -> Option<Inside> {
    let data = image.data();
    let file: ElfFile64<'_> = ElfFile64::parse(data).ok()?;
    if has_go_note(&file, data) {
        return Some(Inside {
            name: Some("Go's heap"),
            sign: "note of Go's linker".into(),
            linkage: Linkage::Go,
        });
    }
    let endian = file.endian();
    let is_static =
        !file.elf_program_headers().iter().any(|segment| segment.p_type(endian) == elf::PT_INTERP);
    let exports =
        file.dynamic_symbols().any(|symbol| !symbol.is_undefined() && symbol.name() == Ok("malloc"));
    let linkage = match (is_static, exports) {
        (true, _) => Linkage::Static,
        (false, true) => Linkage::Exported,
        (false, false) => Linkage::Hidden,
    };
    let found = by_symbol(&file, ALLOCATORS).or_else(|| by_message(image, &file, ALLOCATORS));
    let found = match found {
        None if is_static => by_symbol(&file, C_LIBRARIES).or_else(|| by_message(image, &file, C_LIBRARIES)),
        found => found,
    };
    match (found, linkage) {
        (Some((name, sign)), _) => Some(Inside { name: Some(name), sign, linkage }),
        (None, Linkage::Hidden) => None,
        (None, Linkage::Exported) => Some(Inside { name: None, sign: "symbol malloc".into(), linkage }),
        (None, _) => Some(Inside { name: None, sign: "no loader is named".into(), linkage }),
    }
}

/// Whether the file has the note of Go's linker, which stripping keeps.
fn has_go_note(file: &ElfFile64<'_>, data: &[u8]) -> bool {
    const BUILD_ID: elf::NoteType = elf::NoteType(4);
    let endian = file.endian();
    file.elf_program_headers().iter().any(|segment| {
        let Ok(Some(mut notes)) = segment.notes(endian, data) else { return false };
        std::iter::from_fn(|| notes.next().ok().flatten())
            .any(|note| note.name() == b"Go" && note.n_type(endian) == BUILD_ID)
    })
}

/// The first of these allocators that defines one of the program's own functions.
fn by_symbol(file: &ElfFile64<'_>, allocators: &[Signs]) -> Option<(&'static str, String)> {
    let is = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    };
    let symbols = file.symbols().chain(file.dynamic_symbols()).filter(|symbol| !symbol.is_undefined());
    symbols.filter_map(|symbol| symbol.name().ok()).find_map(|name| {
        let signs = allocators.iter().find(|signs| signs.symbols.iter().any(|pattern| is(pattern, name)))?;
        Some((signs.name, format!("symbol {name}")))
    })
}

/// For a stripped program: the first of these allocators whose messages are among the program's constants.
fn by_message(image: &Image, file: &ElfFile64<'_>, allocators: &[Signs]) -> Option<(&'static str, String)> {
    if file.symbols().next().is_some() {
        return None;
    }
    let data = image.data();
    let constants = image.segments().iter().filter_map(|segment| {
        let from = usize::try_from(segment.offset).ok()?;
        data.get(from..from.checked_add(usize::try_from(segment.file_size).ok()?)?)
    });
    let constants: Vec<&[u8]> = constants.collect();
    let signs = allocators
        .iter()
        .filter(|signs| !signs.message.is_empty())
        .find(|signs| constants.iter().any(|bytes| memmem::find(bytes, signs.message).is_some()))?;
    Some((signs.name, format!("its message \"{}\"", String::from_utf8_lossy(signs.message).trim_end())))
}

impl Inside {
    fn own_profile(&self) -> &'static str {
        let signs = ALLOCATORS.iter().find(|signs| Some(signs.name) == self.name);
        signs.map_or("", |signs| signs.own_profile)
    }
}

impl fmt::Display for Inside {
    /// Writes the end of a sentence about the program: who serves its memory, what the evidence is, and what would
    /// help.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = &self.sign;
        let name = self.name.unwrap_or("an allocator of its own");
        match self.linkage {
            Linkage::Go => {
                return write!(
                    f,
                    "has Go's heap ({sign}), which --alloc does not see: of its memory only what C code asks of malloc \
                     is shown; Go has a profile of its own (net/http/pprof: go tool pprof http://HOST/debug/pprof/heap)"
                );
            }
            Linkage::Static if self.name.is_none() => write!(
                f,
                "is static ({sign}), so its allocations are not seen; what helps: a build that links the C library \
                 dynamically"
            ),
            Linkage::Static => write!(
                f,
                "is static and has {name} inside ({sign}), so its allocations are not seen; what helps: a build that \
                 links the C library dynamically"
            ),
            Linkage::Exported => write!(
                f,
                "has {name} inside ({sign}), so its allocations are not seen; what helps: the allocator as a \
                 shared library"
            ),
            Linkage::Hidden => write!(
                f,
                "has {name} inside ({sign}): what it allocates there is not seen, only what passes through the \
                 libraries' malloc; what helps: the crate pct-alloc around a Rust program's global allocator"
            ),
        }?;
        match self.own_profile() {
            "" => write!(f, ", or telling of blocks by pct_alloc (pct.h)"),
            own => write!(f, ", telling of blocks by pct_alloc (pct.h), or {own}"),
        }
    }
}
