//! Method 4: pct loads the sampler into the target as a shared object, by system calls alone.
//!
//! No code of the target runs, so any point is safe. The object must need nothing: no interpreter, no
//! libraries, no thread storage, no symbols from elsewhere ([`Blob::parse`] checks that). libpct.so is built so
//! that it can serve as the blob.
//!
//! Its segments are never writable and executable at once: mapped writable, filled through `/proc/PID/mem`,
//! then protected.

use crate::dispatch;
use crate::facts::Target;
use crate::image::{self, PctNote};
use crate::inject::{self, Done, InjectError, Need, OWN_CALL, at_safe_point};
use crate::memory::ProcessMemory;
use crate::ptrace::borrow::Borrowed;
use crate::ptrace::entry::HeldThread;
use crate::ptrace::error::CallError;
use object::elf::{self, Dyn64, FileHeader64, ProgramHeader64, Rela64, Sym64};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, Rela as _, Sym as _};
use object::{LittleEndian, ReadRef as _};

const PAGE: u64 = 4096;
/// Length of an ELF file's magic number in octets.
const MAGIC: usize = 4;
/// Largest sampler that is loaded, in octets.
const MOST: u64 = 16 << 20;
const SYMBOL_OCTETS: u64 = size_of::<Sym64<LittleEndian>>() as u64;

type Segment = ProgramHeader64<LittleEndian>;

/// Why pct cannot load an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// The file is not a 64-bit x86 shared object, or it is cut short.
    #[error("not a whole 64-bit x86 ELF shared object ({0})")]
    NotElf(&'static str),
    /// The object needs something that only a real loader provides.
    #[error("it needs {0}, which a bare target does not have")]
    Needs(&'static str),
    /// The object has no PCT note.
    #[error("it has no PCT note")]
    NoNote,
}

/// A loadable segment. Addresses are relative to the base.
#[derive(Debug, Clone, Copy)]
struct Load {
    start: u64,
    end: u64,
    flags: elf::ProgramFlags,
}

/// A checked object, ready to be placed at any address.
#[derive(Debug)]
pub struct Blob {
    image: Vec<u8>,
    loads: Vec<Load>,
    /// Relocations: address and value of each, relative to the base.
    relocations: Vec<(u64, u64)>,
    /// The note. Its addresses are relative to the object.
    note: PctNote,
}

impl Blob {
    /// Checks an object and builds its image.
    ///
    /// # Errors
    /// When the object needs something that pct cannot provide, or is damaged.
    pub fn parse(bytes: &[u8]) -> Result<Blob, BlobError> {
        let not_elf = |_| BlobError::NotElf("header");
        let header = FileHeader64::<LittleEndian>::parse(bytes).map_err(not_elf)?;
        let le = header.endian().map_err(not_elf)?;
        if header.e_type(le) != elf::ET_DYN || header.e_machine(le) != elf::EM_X86_64 {
            return Err(BlobError::NotElf("header"));
        }
        let segments = header.program_headers(le, bytes).map_err(cut)?;
        let (mut loads, mut dynamic) = (Vec::new(), None);
        for segment in segments {
            match segment.p_type(le) {
                elf::PT_LOAD => loads.push(segment),
                elf::PT_DYNAMIC => dynamic = Some((segment.p_vaddr(le), segment.p_memsz(le))),
                elf::PT_INTERP => return Err(BlobError::Needs("an interpreter")),
                elf::PT_TLS => return Err(BlobError::Needs("thread storage")),
                _ => {}
            }
        }
        let image = lay_out(bytes, &loads)?;
        let relocations = relocations(&image, dynamic.ok_or(BlobError::NotElf("no dynamic section"))?)?;
        let notes = segments.iter().filter(|s| s.p_type(le) == elf::PT_NOTE);
        let note = notes
            .filter_map(|s| Some((s.data(le, bytes).ok()?, s.p_vaddr(le))))
            .find_map(|(notes, at)| image::find_note(notes, at))
            .ok_or(BlobError::NoNote)?;
        let loads = loads.iter().map(|s| Load {
            start: s.p_vaddr(le),
            end: s.p_vaddr(le) + s.p_memsz(le), // checked by `lay_out`
            flags: s.p_flags(le),
        });
        Ok(Blob { image, loads: loads.collect(), relocations, note })
    }

    /// Size of the address space that the object occupies, in octets.
    pub fn span(&self) -> u64 {
        self.image.len() as u64
    }

    /// The image as it must be when it is loaded at `base`.
    fn at(&self, base: u64) -> Vec<u8> {
        let mut image = self.image.clone();
        for (place, addend) in &self.relocations {
            let place = usize::try_from(*place).expect("`relocations` checked that it is in the image");
            image[place..place + 8].copy_from_slice(&base.wrapping_add(*addend).to_le_bytes());
        }
        image
    }

    /// The entry points when the object is loaded at `base`.
    fn note_at(&self, base: u64) -> PctNote {
        let n = self.note;
        let at = |a: u64| a.wrapping_add(base);
        PctNote { abi: n.abi, on: at(n.on), off: at(n.off), stat: at(n.stat) }
    }

    /// Maps the object in the target, fills it and returns its base. The first octets are written last: if pct is
    /// killed before that, nobody mistakes the incomplete mapping for a sampler that can be called.
    fn place(&self, thread: &mut Borrowed<'_>, memory: &ProcessMemory) -> Result<u64, CallError> {
        let rw = u64::from((libc::PROT_READ | libc::PROT_WRITE).cast_unsigned());
        let flags = u64::from((libc::MAP_PRIVATE | libc::MAP_ANONYMOUS).cast_unsigned());
        let base =
            thread.checked("mmap", libc::SYS_mmap, [0, self.span(), rw, flags, u64::MAX, 0], OWN_CALL)?;
        let filled = self.fill(thread, memory, base);
        if filled.is_err() {
            let _ = thread.system_call(libc::SYS_munmap, [base, self.span(), 0, 0, 0, 0], OWN_CALL);
        }
        filled.map(|()| base)
    }

    fn fill(&self, thread: &mut Borrowed<'_>, memory: &ProcessMemory, base: u64) -> Result<(), CallError> {
        let image = self.at(base);
        memory.write(base + MAGIC as u64, &image[MAGIC..])?;
        for load in &self.loads {
            let from = load.start & !(PAGE - 1);
            let to = load.end.next_multiple_of(PAGE);
            let protection =
                [(elf::PF_R, libc::PROT_READ), (elf::PF_W, libc::PROT_WRITE), (elf::PF_X, libc::PROT_EXEC)]
                    .iter()
                    .filter(|(flag, _)| load.flags.contains(*flag))
                    .fold(0, |p, (_, bit)| p | *bit);
            let args = [base + from, to - from, u64::from(protection.cast_unsigned()), 0, 0, 0];
            thread.checked("mprotect", libc::SYS_mprotect, args, OWN_CALL)?;
        }
        memory.write(base, &image[..MAGIC])?;
        Ok(())
    }
}

/// Turns an error of the `object` crate into a [`BlobError`]: a table or a segment is incomplete.
fn cut(_: object::read::Error) -> BlobError {
    BlobError::NotElf("cut short")
}

fn lay_out(bytes: &[u8], loads: &[&Segment]) -> Result<Vec<u8>, BlobError> {
    let le = LittleEndian;
    let damaged = || BlobError::NotElf("segments");
    let mut span = 0;
    for load in loads {
        if load.p_flags(le).contains(elf::PF_W | elf::PF_X) {
            return Err(BlobError::Needs("memory that is writable and executable"));
        }
        span = span.max(load.p_vaddr(le).checked_add(load.p_memsz(le)).ok_or_else(damaged)?);
    }
    if span == 0 || span > MOST {
        return Err(damaged());
    }
    let mut image = vec![0; usize::try_from(span.next_multiple_of(PAGE)).map_err(|_| damaged())?];
    for load in loads {
        let from = load.data(le, bytes).map_err(|()| BlobError::NotElf("cut short"))?;
        let to =
            usize::try_from(load.p_vaddr(le)).ok().and_then(|at| image.get_mut(at..)?.get_mut(..from.len()));
        to.ok_or_else(damaged)?.copy_from_slice(from);
    }
    Ok(image)
}

/// Reads the relocations of the image, as addresses and values relative to the base. It accepts relative
/// relocations and references to the object's own symbols, and refuses all others and any library dependency.
fn relocations(image: &[u8], (at, len): (u64, u64)) -> Result<Vec<(u64, u64)>, BlobError> {
    let le = LittleEndian;
    let cut = |()| BlobError::NotElf("dynamic section");
    let entries = image.read_slice_at::<Dyn64<LittleEndian>>(at, elements::<Dyn64<LittleEndian>>(len));
    let (mut table, mut bytes, mut symbols) = (0, 0, 0);
    for entry in entries.map_err(cut)? {
        let value = entry.d_val(le);
        match entry.d_tag(le) {
            elf::DT_NULL => break,
            elf::DT_NEEDED => return Err(BlobError::Needs("a library")),
            elf::DT_PLTRELSZ if value != 0 => return Err(BlobError::Needs("symbols from elsewhere")),
            elf::DT_REL | elf::DT_RELR => {
                return Err(BlobError::Needs("another kind of relocation table"));
            }
            elf::DT_SYMTAB => symbols = value,
            elf::DT_RELA => table = value,
            elf::DT_RELASZ => bytes = value,
            _ => {}
        }
    }
    let table = image.read_slice_at::<Rela64<LittleEndian>>(table, elements::<Rela64<LittleEndian>>(bytes));
    let mut found = Vec::new();
    for relocation in table.map_err(cut)? {
        let value = match relocation.r_type(le, false) {
            elf::R_X86_64_RELATIVE => relocation.r_addend(le).cast_unsigned(),
            elf::R_X86_64_GLOB_DAT => {
                let index = u64::from(relocation.r_sym(le, false));
                let symbol_at = symbols.checked_add(index * SYMBOL_OCTETS).ok_or(()).map_err(cut)?;
                let symbol = image.read_at::<Sym64<LittleEndian>>(symbol_at).map_err(cut)?;
                if symbol.st_shndx(le) == elf::SHN_UNDEF {
                    return Err(BlobError::Needs("symbols from elsewhere"));
                }
                symbol.st_value(le)
            }
            _ => return Err(BlobError::Needs("another kind of relocation")),
        };
        let place = relocation.r_offset(le);
        image.read_bytes_at(place, 8).map_err(cut)?;
        found.push((place, value));
    }
    Ok(found)
}

/// How many entries of type `T` fit into this many octets.
fn elements<T>(octets: u64) -> usize {
    usize::try_from(octets).unwrap_or(usize::MAX) / size_of::<T>()
}

/// Loads the blob and turns it on.
///
/// # Errors
/// When the target refuses the mappings or the sampler refuses to start. The mappings are then removed.
pub fn by_blob(
    target: &Target,
    memory: &ProcessMemory,
    blob: &Blob,
    options: &str,
) -> Result<Done, InjectError> {
    dispatch::check(target)?;
    let (note, stopped, tries) =
        at_safe_point(target, memory, Need::Nothing, |thread| load(thread, memory, blob, options))?;
    Ok(Done { stopped, tries, note, children: false })
}

/// Loads the blob into a program that stands at its first instruction, turns it on, and releases the program.
///
/// # Errors
/// As [`by_blob`]. The program then runs without the sampler.
pub fn at_entry(
    held: HeldThread,
    target: &Target,
    memory: &ProcessMemory,
    blob: &Blob,
    options: &str,
) -> Result<PctNote, InjectError> {
    let mut planted = target.gadgets.plant(target.padding, memory).map_err(CallError::Memory)?;
    let mut thread = Borrowed::adopt(held, memory, &planted.gadgets, &target.maps)?;
    let note = load(&mut thread, memory, blob, options);
    if matches!(note, Err(InjectError::Call(CallError::Timeout { .. }))) {
        // to cut the call off would leave a sampler half on, so it runs to its end in memory that pct mapped
        thread.let_run();
        planted.keep();
        return note;
    }
    thread.unmap_scratch(OWN_CALL)?;
    thread.give_back()?;
    note
}

/// The steps in the borrowed thread. If the sampler refuses to start, its mappings are removed.
fn load(
    thread: &mut Borrowed<'_>,
    memory: &ProcessMemory,
    blob: &Blob,
    options: &str,
) -> Result<PctNote, InjectError> {
    thread.map_scratch(OWN_CALL)?;
    let base = blob.place(thread, memory)?;
    let note = blob.note_at(base);
    match inject::turn_on(thread, &note, options) {
        // the sampler refused, so nothing in the target refers to it; after any other error something may
        Err(e @ (InjectError::On(_) | InjectError::Clock(_))) => {
            let _ = thread.system_call(libc::SYS_munmap, [base, blob.span(), 0, 0, 0, 0], OWN_CALL);
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
