//! The interpreters of the process whose frames are read, as handlers see them. [`super::python`] and [`super::java`]
//! find them.
//!
//! Signal safety: [`Python::current`] and [`Java::current`] are one load.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use pct_format::record::InterpreterState;
use pct_languages::cpython::{Interpreter, ThreadData};
use pct_languages::hotspot::Jvm;
use pct_languages::hotspot::layout::Layout;

/// An interpreter whose frames are read.
#[derive(Debug)]
pub struct FoundInterpreter {
    pub(super) interpreter: Interpreter,
    pub(super) data: ThreadData,
    /// Where its object is mapped.
    pub(super) base: u64,
}

/// The interpreter of the process. All zeros: none was found.
#[derive(Debug)]
#[repr(C)]
pub struct Python {
    pub(super) current: AtomicPtr<FoundInterpreter>,
    /// Code of the package greenlet: first address, and the one behind the last.
    greenlets: (AtomicU64, AtomicU64),
}

impl Python {
    /// The interpreter whose frames are read.
    #[inline(always)]
    #[must_use]
    pub fn current(&self) -> Option<&FoundInterpreter> {
        // SAFETY: published when it was complete, in memory that stays.
        unsafe { self.current.load(Ordering::Acquire).as_ref() }
    }

    /// Where the code of the package greenlet lies: first address, and the one behind the last. Equal: nowhere.
    #[inline(always)]
    #[must_use]
    pub fn greenlets(&self) -> (u64, u64) {
        // Acquire: the end comes with its start.
        let end = self.greenlets.1.load(Ordering::Acquire);
        (self.greenlets.0.load(Ordering::Relaxed), end)
    }

    /// The code of the package greenlet lies there. By the housekeeper.
    pub(super) fn set_greenlets(&self, (first, end): (u64, u64)) {
        self.greenlets.1.store(0, Ordering::Relaxed);
        self.greenlets.0.store(first, Ordering::Release);
        self.greenlets.1.store(end, Ordering::Release);
    }
}

/// A Java virtual machine whose frames are read.
#[derive(Debug)]
pub struct FoundJvm {
    pub(super) jvm: Jvm,
}

/// The Java virtual machine of the process. All zeros: none was found.
#[derive(Debug)]
#[repr(C)]
pub struct Java {
    pub(super) current: AtomicPtr<FoundJvm>,
    /// Its layout, as soon as it was read.
    pub(super) layout: AtomicPtr<Layout>,
    /// Where its object is mapped, 0 = no object of it was found.
    pub(super) base: AtomicU64,
    /// The [`InterpreterState`] that the file has of it, 0 = none yet.
    pub(super) said: AtomicU32,
    /// How often it was found unreadable.
    pub(super) refusals: AtomicU32,
}

impl Java {
    /// The virtual machine whose frames are read.
    #[inline(always)]
    #[must_use]
    pub fn current(&self) -> Option<&FoundJvm> {
        // SAFETY: published when it was complete, in memory that stays.
        unsafe { self.current.load(Ordering::Acquire).as_ref() }
    }

    /// Whether it was found that its frames cannot be read.
    pub(super) fn is_refused(&self) -> bool {
        let said = self.said.load(Ordering::Relaxed);
        said != 0 && said != InterpreterState::Read as u32
    }
}
