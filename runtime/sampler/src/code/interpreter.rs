//! The interpreters of the process whose frames are read, as handlers see them. [`super::python`], [`super::java`] and
//! [`super::javascript`] find them.
//!
//! Signal safety: [`Python::current`], [`Java::current`] and [`JavaScript::current`] are one load.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pct_format::record::InterpreterState;
use pct_languages::cpython::{Interpreter, ThreadData};
use pct_languages::hotspot::Jvm;
use pct_languages::hotspot::layout::Layout;
use pct_languages::v8;

use crate::code::shown::Shown;

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
    pub(super) current: Shown<FoundInterpreter>,
    /// Code of the package greenlet: first address, and the one behind the last.
    greenlets: (AtomicU64, AtomicU64),
}

impl Python {
    /// The interpreter whose frames are read.
    #[inline(always)]
    #[must_use]
    pub fn current(&self) -> Option<&FoundInterpreter> {
        self.current.get()
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
    pub(super) current: Shown<FoundJvm>,
    /// Its layout, as soon as it was read.
    pub(super) layout: Shown<Layout>,
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
        self.current.get()
    }

    /// Whether an object of it was found, but not yet a virtual machine that is up.
    pub(super) fn is_awaited(&self) -> bool {
        self.base.load(Ordering::Relaxed) != 0 && self.said.load(Ordering::Relaxed) == 0
    }

    /// Whether it was found that its frames cannot be read.
    pub(super) fn is_refused(&self) -> bool {
        let said = self.said.load(Ordering::Relaxed);
        said != 0 && said != InterpreterState::Read as u32
    }
}

/// Places of V8's own machine code beside the first that are known.
pub(super) const COPIES: usize = 4;

/// A V8 whose functions are read.
#[derive(Debug)]
pub struct FoundV8 {
    pub(super) layout: v8::Layout,
    /// V8's own machine code in its object: first address, and the one behind the last.
    pub(super) own: (u64, u64),
    /// V8 maps that code once more, near the code that it makes: where.
    copies: [(AtomicU64, AtomicU64); COPIES],
}

impl FoundV8 {
    pub(super) fn new(layout: v8::Layout, (start, octets): (u64, u64)) -> FoundV8 {
        let copies = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; COPIES];
        FoundV8 { layout, own: (start, start.saturating_add(octets)), copies }
    }

    /// Where V8's own machine code lies: first address, and the one behind the last.
    #[inline]
    pub(super) fn builtins(&self) -> impl Iterator<Item = (u64, u64)> {
        let copies = self.copies.iter().map(|(start, end)| {
            // Acquire: the end comes with its start.
            let end = end.load(Ordering::Acquire);
            (start.load(Ordering::Relaxed), end)
        });
        core::iter::once(self.own).chain(copies)
    }

    /// Whether an address lies there.
    #[inline]
    pub(super) fn is_builtin(&self, pc: u64) -> bool {
        self.builtins().any(|(start, end)| pc >= start && pc < end)
    }

    /// Its copies lie there, and nowhere else; whether that is new. By the housekeeper.
    pub(super) fn set_copies(&self, mut found: impl Iterator<Item = (u64, u64)>) -> bool {
        let mut changed = false;
        for (start, end) in &self.copies {
            let (first, last) = found.next().unwrap_or((0, 0));
            if (start.load(Ordering::Relaxed), end.load(Ordering::Relaxed)) == (first, last) {
                continue;
            }
            end.store(0, Ordering::Relaxed);
            start.store(first, Ordering::Release);
            end.store(last, Ordering::Release);
            changed = true;
        }
        changed
    }
}

/// The V8 of the process. All zeros: none was found.
#[derive(Debug)]
#[repr(C)]
pub struct JavaScript {
    pub(super) current: Shown<FoundV8>,
    /// Where its object is mapped, 0 = no object of it was found.
    pub(super) base: AtomicU64,
    /// The [`InterpreterState`] that the file has of it, 0 = none yet.
    pub(super) said: AtomicU32,
}

impl JavaScript {
    /// Whether an object of it was found, but not yet a V8 that is up.
    pub(super) fn is_awaited(&self) -> bool {
        self.base.load(Ordering::Relaxed) != 0 && self.said.load(Ordering::Relaxed) == 0
    }

    /// The V8 whose functions are read.
    #[inline(always)]
    #[must_use]
    pub fn current(&self) -> Option<&FoundV8> {
        self.current.get()
    }
}
