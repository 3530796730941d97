//! Method 4: the sampler as a shared object that we load ourselves into the target, by system calls alone.
//!
//! No code of the target's runs, so any point is safe. The object must need nothing: no interpreter, no libraries, no thread
//! storage, no symbols from elsewhere ([`Blob::parse`] checks). libpct.so is made so; it is the blob as it is.
//!
//! Its segments are never writable and executable at once: mapped writable, filled through `/proc/PID/mem`, then protected.

use crate::entry::Held;
use crate::facts::Target;
use crate::image::PctNote;
use crate::inject::{self, Done, InjectError, Need, at_safe_point};
use crate::memory::ProcessMemory;
use crate::ptrace::borrow::{Borrowed, CallError};
use std::time::Duration;

const CALL: Duration = Duration::from_secs(2);
const PAGE: u64 = 4096;
/// Octets of an ELF file's magic number.
const MAGIC: usize = 4;
/// No sampler is larger than this.
const MOST: u64 = 16 << 20;

/// Why an object cannot be loaded by us.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// It is not a 64-bit x86 shared object, or it is cut short.
    #[error("not a whole 64-bit x86 ELF shared object ({0})")]
    NotElf(&'static str),
    /// It needs something that only a real loader gives.
    #[error("it needs {0}, which a bare target does not have")]
    Needs(&'static str),
    /// It has no PCT note.
    #[error("it has no PCT note")]
    NoNote,
}

#[derive(Debug, Clone, Copy)]
struct Load {
    vaddr: u64,
    offset: u64,
    file: u64,
    memory: u64,
    flags: u32,
}

/// A checked object, ready to be placed at any address.
#[derive(Debug)]
pub struct Blob {
    image: Vec<u8>,
    loads: Vec<Load>,
    /// (address, value relative to the base) of each relocation.
    relocations: Vec<(u64, u64)>,
    /// The note with addresses relative to the object.
    note: PctNote,
}

struct Elf<'a>(&'a [u8]);

impl Elf<'_> {
    fn half(&self, at: u64) -> Option<u16> {
        let at = usize::try_from(at).ok()?;
        Some(u16::from_le_bytes(self.0.get(at..at.checked_add(2)?)?.try_into().ok()?))
    }
    fn word(&self, at: u64) -> Option<u32> {
        let at = usize::try_from(at).ok()?;
        Some(u32::from_le_bytes(self.0.get(at..at.checked_add(4)?)?.try_into().ok()?))
    }
    fn long(&self, at: u64) -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        Some(u64::from_le_bytes(self.0.get(at..at.checked_add(8)?)?.try_into().ok()?))
    }
}

impl Blob {
    /// Checks an object and lays its image out.
    ///
    /// # Errors
    /// What it needs that cannot be given, or where it is damaged.
    pub fn parse(bytes: &[u8]) -> Result<Blob, BlobError> {
        const PT_LOAD: u32 = 1;
        const PT_DYNAMIC: u32 = 2;
        const PT_INTERP: u32 = 3;
        const PT_TLS: u32 = 7;
        let elf = Elf(bytes);
        let cut = || BlobError::NotElf("cut short");
        if !bytes.starts_with(b"\x7fELF\x02\x01") || elf.half(16) != Some(3) || elf.half(18) != Some(62) {
            return Err(BlobError::NotElf("header"));
        }
        let (phoff, phnum) = (elf.long(32).ok_or_else(cut)?, elf.half(56).ok_or_else(cut)?);
        let (mut loads, mut dynamic) = (Vec::new(), None);
        for i in 0..u64::from(phnum) {
            let at = phoff.checked_add(56 * i).ok_or_else(cut)?;
            let long = |o: u64| elf.long(at + o).ok_or_else(cut);
            match elf.word(at).ok_or_else(cut)? {
                PT_LOAD => loads.push(Load {
                    flags: elf.word(at + 4).ok_or_else(cut)?,
                    offset: long(8)?,
                    vaddr: long(16)?,
                    file: long(32)?,
                    memory: long(40)?,
                }),
                PT_DYNAMIC => dynamic = Some((long(16)?, long(40)?)),
                PT_INTERP => return Err(BlobError::Needs("an interpreter")),
                PT_TLS => return Err(BlobError::Needs("thread storage")),
                _ => {}
            }
        }
        let image = lay_out(bytes, &loads).ok_or_else(cut)?;
        let relocations = relocations(&image, dynamic.ok_or(BlobError::NotElf("no dynamic section"))?)?;
        let note = crate::image::note_of_file(bytes).ok_or(BlobError::NoNote)?;
        Ok(Blob { image, loads, relocations, note })
    }

    /// Octets of address space that it takes.
    pub fn span(&self) -> u64 {
        self.image.len() as u64
    }

    /// The image as it must be at `base`.
    fn at(&self, base: u64) -> Vec<u8> {
        let mut image = self.image.clone();
        for (place, addend) in &self.relocations {
            let place = *place as usize; // checked by `relocations`
            image[place..place + 8].copy_from_slice(&base.wrapping_add(*addend).to_le_bytes());
        }
        image
    }

    /// The entry points when it lies at `base`.
    fn note_at(&self, base: u64) -> PctNote {
        let n = self.note;
        let at = |a: u64| a.wrapping_add(base);
        PctNote { abi: n.abi, on: at(n.on), off: at(n.off), stat: at(n.stat) }
    }

    /// Maps and fills it in the target; its base. The first octets come last: should we be killed before, nobody takes what is
    /// there for a sampler that can be called.
    fn place(&self, thread: &mut Borrowed<'_>, memory: &ProcessMemory) -> Result<u64, CallError> {
        let rw = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let base = thread.checked("mmap", libc::SYS_mmap, [0, self.span(), rw, flags, u64::MAX, 0], CALL)?;
        let filled = self.fill(thread, memory, base);
        if filled.is_err() {
            let _ = thread.system_call(libc::SYS_munmap, [base, self.span(), 0, 0, 0, 0], CALL);
        }
        filled.map(|()| base)
    }

    fn fill(&self, thread: &mut Borrowed<'_>, memory: &ProcessMemory, base: u64) -> Result<(), CallError> {
        let image = self.at(base);
        memory.write(base + MAGIC as u64, &image[MAGIC..])?;
        for load in &self.loads {
            let from = load.vaddr & !(PAGE - 1);
            let to = (load.vaddr + load.memory).next_multiple_of(PAGE);
            let protection = [(4, libc::PROT_READ), (2, libc::PROT_WRITE), (1, libc::PROT_EXEC)]
                .iter()
                .filter(|(f, _)| load.flags & f != 0)
                .fold(0, |p, (_, bit)| p | *bit);
            let args = [base + from, to - from, protection as u64, 0, 0, 0];
            thread.checked("mprotect", libc::SYS_mprotect, args, CALL)?;
        }
        memory.write(base, &image[..MAGIC])?;
        Ok(())
    }
}

fn lay_out(bytes: &[u8], loads: &[Load]) -> Option<Vec<u8>> {
    let mut span = 0;
    for l in loads {
        if l.flags & 3 == 3 {
            return None; // writable and executable
        }
        span = span.max(l.vaddr.checked_add(l.memory)?);
    }
    if span == 0 || span > MOST {
        return None;
    }
    let mut image = vec![0; usize::try_from(span.next_multiple_of(PAGE)).ok()?];
    for l in loads {
        let from = bytes.get(usize::try_from(l.offset).ok()?..)?.get(..usize::try_from(l.file).ok()?)?;
        image.get_mut(usize::try_from(l.vaddr).ok()?..)?.get_mut(..from.len())?.copy_from_slice(from);
    }
    Some(image)
}

/// The relocations of the image, as places and values relative to the base: relative ones, and references to symbols of its
/// own. Any other kind, or a need for a library, is refused.
fn relocations(image: &[u8], (at, len): (u64, u64)) -> Result<Vec<(u64, u64)>, BlobError> {
    const DT_NEEDED: u64 = 1;
    const DT_PLTRELSZ: u64 = 2;
    const DT_RELA: u64 = 7;
    const DT_RELASZ: u64 = 8;
    const DT_REL: u64 = 17;
    const DT_RELR: u64 = 36;
    const DT_SYMTAB: u64 = 6;
    const R_GLOB_DAT: u64 = 6;
    const R_RELATIVE: u64 = 8;
    let elf = Elf(image);
    let cut = || BlobError::NotElf("dynamic section");
    let (mut table, mut size, mut symbols) = (0, 0, 0);
    for i in 0..len / 16 {
        let (tag, value) =
            (elf.long(at + 16 * i).ok_or_else(cut)?, elf.long(at + 16 * i + 8).ok_or_else(cut)?);
        match tag {
            0 => break,
            DT_NEEDED => return Err(BlobError::Needs("a library")),
            DT_PLTRELSZ if value != 0 => return Err(BlobError::Needs("symbols from elsewhere")),
            DT_REL | DT_RELR => return Err(BlobError::Needs("another kind of relocation table")),
            DT_SYMTAB => symbols = value,
            DT_RELA => table = value,
            DT_RELASZ => size = value,
            _ => {}
        }
    }
    let mut found = Vec::new();
    for i in 0..size / 24 {
        let long = |o: u64| elf.long(table.wrapping_add(24 * i + o)).ok_or_else(cut);
        let (place, info, addend) = (long(0)?, long(8)?, long(16)?);
        let value = match info & 0xffff_ffff {
            R_RELATIVE => addend,
            R_GLOB_DAT => {
                let symbol =
                    (info >> 32).checked_mul(24).and_then(|o| o.checked_add(symbols)).ok_or_else(cut)?;
                // section 0: defined elsewhere
                if elf.half(symbol.wrapping_add(6)).ok_or_else(cut)? == 0 {
                    return Err(BlobError::Needs("symbols from elsewhere"));
                }
                elf.long(symbol.wrapping_add(8)).ok_or_else(cut)?
            }
            _ => return Err(BlobError::Needs("another kind of relocation")),
        };
        if elf.long(place).is_none() {
            return Err(cut());
        }
        found.push((place, value));
    }
    Ok(found)
}

/// Loads the blob and turns it on.
///
/// # Errors
/// When the target refuses the mappings or the sampler refuses to start; the mappings are taken back then.
pub fn by_blob(
    target: &Target,
    memory: &ProcessMemory,
    blob: &Blob,
    options: &str,
) -> Result<Done, InjectError> {
    let (note, stopped, tries) =
        at_safe_point(target, memory, Need::Nothing, |thread| load(thread, memory, blob, options))?;
    Ok(Done { stopped, tries, note, children: false })
}

/// Loads the blob into a program that stands at its first instruction, turns it on, and lets the program go.
///
/// # Errors
/// As [`by_blob`]; the program runs on without the sampler.
pub fn at_entry(
    held: Held,
    target: &Target,
    memory: &ProcessMemory,
    blob: &Blob,
    options: &str,
) -> Result<PctNote, InjectError> {
    let mut planted = target.gadgets.plant(target.padding, memory).map_err(CallError::Memory)?;
    let mut thread = Borrowed::adopt(held, memory, &planted.gadgets, &target.maps)?;
    let note = load(&mut thread, memory, blob, options);
    if matches!(note, Err(InjectError::Call(CallError::Timeout { .. }))) {
        // cut off it would leave a sampler half on: it runs to its end, on what we mapped
        thread.let_run();
        planted.keep();
        return note;
    }
    thread.unmap_scratch(CALL)?;
    thread.give_back()?;
    note
}

/// The steps in the borrowed thread. What was mapped is taken back when the sampler refuses.
fn load(
    thread: &mut Borrowed<'_>,
    memory: &ProcessMemory,
    blob: &Blob,
    options: &str,
) -> Result<PctNote, InjectError> {
    thread.map_scratch(CALL)?;
    let base = blob.place(thread, memory)?;
    let note = blob.note_at(base);
    match inject::turn_on(thread, &note, options) {
        // it said no, so nothing of the target leads to it; after anything else something may
        Err(e @ (InjectError::On(_) | InjectError::Clock(_))) => {
            let _ = thread.system_call(libc::SYS_munmap, [base, blob.span(), 0, 0, 0, 0], CALL);
            Err(e)
        }
        other => other.map(|()| note),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_object_that_needs_libraries_is_refused() {
        let mut me = std::fs::read("/proc/self/exe").unwrap();
        me.truncate(8 << 20);
        assert!(Blob::parse(&me).is_err());
        assert!(matches!(Blob::parse(b"#!/bin/sh"), Err(BlobError::NotElf(_))));
    }

    proptest! {
        #[test]
        fn damaged_objects_are_an_error_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
            elf.extend(bytes);
            prop_assert!(Blob::parse(&elf).is_err());
        }
    }
}
