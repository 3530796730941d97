//! Reads ELF images in place: in this process, in another process, in a file.
//!
//! The caller gives a [`Memory`]. [`Image`] finds the program headers and [`Notes`] walks notes. [`Dynamic`] is the
//! dynamic section, and [`Symbols`] finds names in the hash table that the loader uses. [`Imports`] are the words
//! through which an image calls other objects. [`LinkedObjects`] walks the loader's list, and [`Unloadable`] says why
//! a library cannot be preloaded into a program. [`Image::is_relocated`] says whether pointers in its data are valid
//! yet. [`FileVersion`] tells a file's contents from later ones.
//!
//! All input is hostile: another thread may unmap the object at any instant, and a file may contain anything. Every
//! loop is bounded, and unreadable data ends the search with `None`.
//!
//! Only 64-bit little-endian images are read. Signal safety: that of the given memory; this crate allocates nothing,
//! takes no lock and cannot panic.
#![no_std]
#![forbid(unsafe_code)]

mod apart;
mod dynamic;
mod image;
mod imports;
mod linked;
mod memory;
mod notes;
mod relocated;
mod symbols;
mod unloadable;
mod version;

pub use apart::{APART_BYTES, headers_apart};
pub use dynamic::Dynamic;
pub use image::{HEAD_BYTES, Image, Segment, segment_flag, segment_kind};
pub use imports::{Import, Imports};
pub use linked::{LinkedObject, LinkedObjects};
pub use memory::{Ahead, BytesAt, Memory};
pub use notes::{Note, Notes};
pub use symbols::{Symbol, Symbols};
pub use unloadable::Unloadable;
pub use version::{FIRST_PAGE_BYTES, FileVersion, hash_first_page, maps_device};
