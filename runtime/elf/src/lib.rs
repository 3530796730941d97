//! ELF images where they lie: in our own memory, in another process, in a file.
//!
//! The caller gives a [`Memory`]. [`Image`] finds the program headers and [`Notes`] walks notes. [`Dynamic`] is the
//! dynamic section, and [`Symbols`] looks names up by the hash table that the loader uses. [`LinkedObjects`] walks the
//! loader's list, and [`Unloadable`] says why a program cannot take a preloaded library.
//!
//! Everything read is hostile: another thread may unmap the object at any instant, and a file may hold anything. Every
//! loop is bounded, and what cannot be read ends the search with `None`.
//!
//! Only 64-bit little-endian images are read. Signal safety: as the given memory; nothing here allocates, locks or panics.
#![no_std]
#![forbid(unsafe_code)]

mod dynamic;
mod image;
mod linked;
mod memory;
mod notes;
mod symbols;
mod unloadable;

pub use dynamic::Dynamic;
pub use image::{Image, Segment, segment_flag, segment_kind};
pub use linked::{LinkedObject, LinkedObjects};
pub use memory::{Ahead, BytesAt, Memory};
pub use notes::{Note, Notes};
pub use symbols::{Symbol, Symbols};
pub use unloadable::Unloadable;
