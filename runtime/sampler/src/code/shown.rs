//! Something that the housekeeper has found, as handlers see it: nothing, or all of it.
//!
//! Signal safety: [`Shown::get`] is one load.

use core::mem::size_of;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::sys;

/// The place of something that may be found. All zeros: it was not.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Shown<T>(AtomicPtr<T>);

impl<T> Shown<T> {
    /// What was found.
    #[inline(always)]
    #[must_use]
    pub(super) fn get(&self) -> Option<&T> {
        // SAFETY: shown when it was complete, in memory that stays.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Shows it from now on; false: there is no memory for it. Few things are found in a process's life: their memory
    /// is not given back, because handlers may still use it.
    pub(super) fn show(&self, found: T) -> bool {
        let Ok(memory) = sys::map_memory(size_of::<T>()) else { return false };
        let place = memory.cast::<T>();
        // SAFETY: fresh memory of that size, aligned to a page.
        unsafe { place.write(found) };
        // Release: whoever sees the pointer sees what it leads to.
        self.0.store(place, Ordering::Release);
        true
    }

    /// It is gone; whether it was shown.
    pub(super) fn hide(&self) -> bool {
        !self.0.swap(core::ptr::null_mut(), Ordering::AcqRel).is_null()
    }
}
