//! Memory in which a thread weaves the frames of an interpreter into its stack: one mapping for each ring.

use core::mem::size_of;

use pct_languages::cpython::PythonFrame;
use pct_unwind::Placed;

use crate::code::readable::KnownPages;

/// What a thread needs to weave, beside the words of its stack: in one mapping.
#[derive(Debug)]
pub struct Scratch<'r> {
    pub(super) known: &'r KnownPages,
    /// Native frames.
    pub placed: &'r mut [Placed],
    pub(super) frames: &'r mut [PythonFrame],
}

impl<'r> Scratch<'r> {
    /// Octets of the mapping for stacks of this depth.
    #[must_use]
    pub const fn bytes(depth: u32) -> usize {
        size_of::<KnownPages>() + depth as usize * (size_of::<Placed>() + size_of::<PythonFrame>())
    }

    /// In memory of [`Scratch::bytes`].
    ///
    /// # Safety
    /// `at` is a mapping of so many bytes, zero when it was made and used for nothing else, and nobody else uses it
    /// while the value lives.
    #[must_use]
    pub unsafe fn new(at: *mut u8, depth: u32) -> Scratch<'r> {
        let depth = depth as usize;
        // SAFETY: by the caller's promise; all three are valid as zeros or are written before they are read, and the
        // sizes of the first two are multiples of the alignment of what follows.
        unsafe {
            let placed = at.add(size_of::<KnownPages>());
            let frames = placed.add(depth * size_of::<Placed>());
            Scratch {
                known: &*at.cast(),
                placed: core::slice::from_raw_parts_mut(placed.cast(), depth),
                frames: core::slice::from_raw_parts_mut(frames.cast(), depth),
            }
        }
    }
}

const _: () = {
    assert!(size_of::<KnownPages>().is_multiple_of(align_of::<Placed>()));
    assert!(size_of::<Placed>().is_multiple_of(align_of::<PythonFrame>()));
};
