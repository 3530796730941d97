//! The images of this process as [`pct_elf`] reads them: by plain loads, or through the kernel, which refuses what is
//! not mapped.
//!
//! Signal safety: loads; or one system call a read.

use core::ptr;

use crate::sys;
use pct_elf::Memory;

/// Images that the loader or the kernel mapped and that stay mapped. Their headers are trusted as far as the loader
/// trusted them; `pct_elf` bounds every number, so that a broken table ends the search and not the host.
#[derive(Debug)]
pub struct Loaded(());

impl Loaded {
    /// For reading such images.
    ///
    /// # Safety
    /// Reading begins at an address in such an image, and the image's own tables lead to readable memory.
    #[must_use]
    pub unsafe fn new() -> Loaded {
        Loaded(())
    }
}

impl Memory for Loaded {
    #[inline]
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let from = ptr::with_exposed_provenance::<u8>(at as usize);
        // SAFETY: readable by the promise of `new`; `into` is ours alone, so the two do not overlap.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Byte by byte: a shorter text may be the last thing in mapped memory.
    fn text_is(&self, at: u64, text: &[u8]) -> bool {
        let same = (0_u64..).zip(text).all(|(i, byte)| self.bytes(at.wrapping_add(i)) == Some([*byte]));
        same && self.bytes(at.wrapping_add(text.len() as u64)) == Some([0])
    }
}

/// This process's memory through its file: what is not mapped, or is unmapped meanwhile, cannot be read.
#[derive(Debug)]
pub struct MemoryFile<'f>(pub &'f sys::Fd);

impl Memory for MemoryFile<'_> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        sys::pread(self.0, into, at) == Ok(into.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::auxv::Auxv;
    use pct_elf::Image;

    #[test]
    fn the_program_and_the_vdso_are_read_alike_by_loads_and_by_the_file() {
        let auxv = Auxv::read().expect("our own");
        // SAFETY: the program and the vdso stay mapped.
        let loaded = unsafe { Loaded::new() };
        let fd = sys::open(sys::c(c"/proc/self/mem"), sys::O_RDONLY, 0).expect("our own");
        let file = MemoryFile(&fd);
        let by_loads = Image::at_base(&loaded, auxv.vdso).expect("the vdso");
        assert_eq!(Image::at_base(&file, auxv.vdso), Some(by_loads));
        let symbols = by_loads.symbols(&loaded).expect("it has some");
        let clock = symbols.find(&loaded, b"__vdso_clock_gettime");
        assert!(clock.is_some());
        assert_eq!(by_loads.symbols(&file).and_then(|s| s.find(&file, b"__vdso_clock_gettime")), clock);
        let program = Image::with_headers(&loaded, auxv.headers, auxv.header_count);
        let own = the_program_and_the_vdso_are_read_alike_by_loads_and_by_the_file as fn() as usize as u64;
        assert!(program.segments(&loaded).any(|s| s.loads(own.wrapping_sub(program.bias))));
        assert_eq!(Image::at_base(&file, 8), None, "nothing is mapped there");
    }
}
