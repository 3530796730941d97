//! Translates addresses into functions, files, lines and inlined calls.
//!
//! A profile says *which object* (path, build-id, device and inode) and *where in its file* each sample fell.
//! This crate turns that into frames, with the best source that it has for each address: debug information of the
//! object or of its separate debug file, symbol table, dynamic symbols, PLT relocations, maps of JITs, and at the
//! very least the function's borders from the unwind tables. It does not know `.pct` files.
//!
//! ```no_run
//! use pct_symbols::{CodeAddr, ObjectInfo, Symbolizer};
//!
//! let mut symbols = Symbolizer::default();
//! let libc = symbols.add(ObjectInfo::file("/usr/lib/x86_64-linux-gnu/libc.so.6"));
//! // Addresses are file offsets: address in memory - region start + region file offset.
//! symbols.resolve([(libc, CodeAddr::Pc(0x9fe10)), (libc, CodeAddr::Return(0x2724a))]);
//! for frame in symbols.frames(libc, CodeAddr::Pc(0x9fe10)) {
//!     let file = frame.file.map_or("?", |f| symbols.text(f));
//!     println!("{} at {}:{}", symbols.text(frame.function), file, frame.line);
//! }
//! for note in symbols.notes() {
//!     eprintln!("{note}");
//! }
//! ```
//!
//! In reading order:
//!
//! - [`Symbolizer`]: objects, batches, frames; the table of distinct addresses; parallel by object.
//! - [`Image`]: one ELF file; file offsets to image addresses; build-id. `sections`: a section table for files without
//!   one.
//! - `identity`: whether a file is the one that was sampled; `difference`: in what it is not.
//! - [`debugfile`]: the search for separate debug files.
//! - `dwarf`: debug information; `symtab`: every other source of function names.
//! - [`demangle()`]: names as people wrote them.
//! - [`jit`]: code that programs generated themselves; [`kallsyms`]: the kernel's functions.
//! - [`archive`]: names saved for another machine or for after a rebuild; `cache`: the same, for the next run here.
//! - [`system_call`]: which system call a thread was in, from the code before the address to which it returned.
//! - [`allocator`]: which allocator a program contains.
//! - [`unwind`]: an object's unwind data, for recordings that hold copies of the stack.
//! - [`translator`]: other programs as co-processes.
//! - [`names`], [`addr2func`]: name lists of `nm -n`, searched without loading them.
//!
//! Damaged files never cause a panic: they give fewer answers, and [`Symbolizer::notes`] says why.
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]
#![deny(unsafe_code)]

pub mod addr2func;
pub mod allocator;
mod answers;
pub mod archive;
mod cache;
pub mod debugfile;
mod demangle;
mod difference;
mod dwarf;
mod identity;
mod image;
pub mod jit;
pub mod kallsyms;
mod map;
mod minidebug;
pub mod names;
mod objects;
mod open;
mod options;
mod quickhash;
mod sections;
mod symbolizer;
mod symtab;
pub mod system_call;
mod system_calls;
pub mod translator;
pub mod unwind;
mod vdso;
mod work;

pub use archive::{Archive, ArchiveError};
pub use debugfile::DebugDirs;
pub use demangle::demangle;
pub use difference::Difference;
pub use image::{BuildId, Image, ImageError};
pub use objects::{CodeAddr, Note, ObjectId, ObjectInfo, ObjectKind, Problem, Stripped};
pub use open::image_of;
pub use options::{Cache, Options};
pub use pct_elf::FileVersion;
pub use symbolizer::{Declaration, ResolvedFrame, Symbolizer, TextId};
pub use symtab::NAMELESS_CODE;
pub use symtab::Source;
pub use system_call::CallSite;
