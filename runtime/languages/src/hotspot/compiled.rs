//! The methods at an address in compiled code: the method itself, and those that were inlined there.
//!
//! A *PcDesc* is 16 octets: offset of the code, offset of the scope. They are sorted. A scope is three numbers or
//! more: offset of the scope outside (0: none), index of the method (from 1) and bytecode index + 1.

use pct_elf::Memory;

use super::find::Jvm;
use super::frame::{JavaFrame, JavaFrames};
use super::heap::Blob;
use super::layout::DebugData;
use super::lines::number;

/// Octets of a PcDesc.
const DESC: u64 = 16;
/// Most PcDescs of a method.
const MOST_DESCS: u64 = 1 << 20;
/// Most levels of inlining.
const LEVELS: u32 = 256;

/// The debugging data of compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debug {
    /// The method that was compiled.
    pub method: u64,
    descs: u64,
    count: u64,
    scopes: u64,
    metadata: u64,
}

/// A place in the code of which something is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Desc {
    /// Offset from the code's beginning.
    pub offset: i32,
    scope: i32,
}

impl Debug {
    /// Reads where the debugging data of a compiled method is.
    #[must_use]
    pub fn read_from<M: Memory>(memory: &M, jvm: &Jvm, blob: &Blob) -> Option<Debug> {
        let layout = &jvm.layout;
        let method = memory.read_word(blob.at + layout.compiled_method)?;
        let offset = |field| memory.half(blob.at + field).map(u64::from);
        let (descs, end, scopes, metadata) = match layout.debug {
            DebugData::Own { pcs, scopes, metadata } => (
                blob.at + offset(pcs.0)?,
                blob.at + offset(pcs.1)?,
                memory.read_word(blob.at + scopes)?,
                blob.at + offset(metadata)?,
            ),
            DebugData::Apart { immutable, pcs, mutable, relocations } => {
                let data = memory.read_word(blob.at + immutable)?;
                let end = data.checked_add(offset(pcs.1)?)?;
                let metadata =
                    memory.read_word(blob.at + mutable)?.checked_add((offset(relocations)? + 7) & !7)?;
                (data.checked_add(offset(pcs.0)?)?, end, end, metadata)
            }
        };
        let count = end.checked_sub(descs)? / DESC;
        (count <= MOST_DESCS).then_some(Debug { method, descs, count, scopes, metadata })
    }

    fn desc<M: Memory>(&self, memory: &M, index: u64) -> Option<Desc> {
        let word = memory.read_word(self.descs.checked_add(DESC * index)?)?;
        Some(Desc { offset: (word as u32).cast_signed(), scope: ((word >> 32) as u32).cast_signed() })
    }

    /// The first place at or behind an offset.
    #[must_use]
    pub fn next<M: Memory>(&self, memory: &M, offset: u64) -> Option<Desc> {
        let offset = i32::try_from(offset).ok()?;
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.desc(memory, middle)?.offset < offset { low = middle + 1 } else { high = middle }
        }
        if low < self.count { self.desc(memory, low) } else { None }
    }

    /// Gives `out` the methods at a place, innermost first; false: `out` wants no more. `None`: they are not readable;
    /// nothing was given then.
    pub fn frames<M: Memory>(
        &self,
        memory: &M,
        jvm: &Jvm,
        desc: Desc,
        out: &mut impl JavaFrames,
    ) -> Option<bool> {
        let biased = jvm.layout.biased;
        if desc.scope <= 0 {
            return Some(out.push(JavaFrame { method: self.method, bci: None }));
        }
        // Twice: what cannot be read to its end is not shown at all.
        for shown in [false, true] {
            let mut scope = u64::try_from(desc.scope).ok()?;
            let mut ended = false;
            for _ in 0..LEVELS {
                let mut at = self.scopes.checked_add(scope)?;
                let mut next = || {
                    let [octet] = memory.bytes(at)?;
                    at = at.checked_add(1)?;
                    Some(octet)
                };
                let sender = number(&mut next, biased)?;
                let index = number(&mut next, biased)?;
                let bci = number(&mut next, biased)?;
                let method = match u64::from(index).checked_sub(1) {
                    Some(index) => memory.read_word(self.metadata.checked_add(8 * index)?)?,
                    None => return None,
                };
                let outermost = sender == 0;
                if outermost && method != self.method {
                    return None;
                }
                // -1 stands for the method's entry.
                let frame =
                    JavaFrame { method, bci: bci.checked_sub(1).filter(|bci| *bci <= u32::from(u16::MAX)) };
                if shown && !out.push(frame) {
                    return Some(false);
                }
                if outermost {
                    ended = true;
                    break;
                }
                scope = u64::from(sender);
            }
            if !ended {
                return None;
            }
        }
        Some(true)
    }
}
