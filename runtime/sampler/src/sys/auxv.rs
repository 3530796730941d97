//! The auxiliary vector: what the kernel tells a program that it starts.
//!
//! Signal safety: loads, and the three system calls of reading a file.

/// A word of this process's memory.
///
/// # Safety
/// `at` is readable.
unsafe fn word_at(at: u64) -> u64 {
    // SAFETY: by the caller's promise.
    unsafe { (at as *const u64).read_unaligned() }
}

/// The parts of the auxiliary vector that matter here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auxv {
    /// AT_PHDR: the program's headers.
    pub headers: u64,
    /// AT_PHNUM.
    pub header_count: u64,
    /// AT_SYSINFO_EHDR: the vdso, 0 = none.
    pub vdso: u64,
    /// AT_HWCAP2.
    pub hwcap2: u64,
    /// AT_SECURE: set-uid and the like.
    pub secure: bool,
    /// AT_MINSIGSTKSZ: bytes of the kernel's signal frame at most, 0 = not known.
    pub signal_frame: u64,
}

impl Auxv {
    /// Reads /proc/thread-self/auxv.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read() -> crate::sys::Result<Auxv> {
        let mut buffer = [0u8; 1024];
        let bytes = crate::sys::read_file(crate::sys::c(c"/proc/thread-self/auxv"), &mut buffer)?;
        let mut auxv = Auxv::default();
        for pair in bytes.as_chunks::<16>().0 {
            let word = |half: &[u8]| half.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
            auxv.note_entry(word(pair), word(pair.get(8..).unwrap_or(&[])));
        }
        Ok(auxv)
    }

    /// Reads it where the kernel put it: behind the environment vector.
    ///
    /// # Safety
    /// `environ` is the environment vector that the kernel made, with its NULL in place.
    #[must_use]
    pub unsafe fn behind(environ: u64) -> Auxv {
        let mut at = environ;
        // SAFETY: the vector ends with NULL; the auxiliary vector follows and ends with AT_NULL.
        while unsafe { word_at(at) } != 0 {
            at += 8;
        }
        let mut auxv = Auxv::default();
        for i in 0..64u64 {
            // SAFETY: as above.
            let (tag, value) = unsafe { (word_at(at + 8 + 16 * i), word_at(at + 16 + 16 * i)) };
            if tag == 0 {
                break;
            }
            auxv.note_entry(tag, value);
        }
        auxv
    }

    fn note_entry(&mut self, tag: u64, value: u64) {
        match tag {
            3 => self.headers = value,
            5 => self.header_count = value,
            23 => self.secure = value != 0,
            26 => self.hwcap2 = value,
            33 => self.vdso = value,
            51 => self.signal_frame = value,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_behind_an_environment_is_read_up_to_its_end() {
        // Two variables, NULL; pairs; AT_NULL; what follows belongs to nobody.
        let words: [u64; 18] = [1, 2, 0, 3, 0x1000, 5, 9, 33, 0x2000, 23, 1, 51, 3376, 77, 5, 0, 0, 3];
        // SAFETY: the array has the shape of what the kernel makes.
        let found = unsafe { Auxv::behind(words.as_ptr().expose_provenance() as u64) };
        assert_eq!((found.headers, found.header_count, found.vdso), (0x1000, 9, 0x2000));
        assert_eq!((found.secure, found.signal_frame, found.hwcap2), (true, 3376, 0));
    }

    #[test]
    fn our_own_vector_names_our_program() {
        let found = Auxv::read().expect("our own");
        assert!(found.headers != 0 && found.header_count > 3 && !found.secure);
    }
}
