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
            auxv.take(word(pair), word(pair.get(8..).unwrap_or(&[])));
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
            auxv.take(tag, value);
        }
        auxv
    }

    fn take(&mut self, tag: u64, value: u64) {
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
