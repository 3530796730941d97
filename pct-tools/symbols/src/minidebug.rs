//! MiniDebugInfo: the symbol table that Fedora and others leave in stripped programs.
//!
//! The section `.gnu_debugdata` holds an ELF file, compressed with xz, with only the symbols that `.dynsym` lacks
//! (GDB manual, "Debugging information in a special section"). It is small (the limit is generous), so all of it is
//! unpacked.
//!
//! Invariant: hostile data costs at most [`MOST`] bytes of memory and causes no panic.

use std::io::{self, Write};

use object::{Object, ObjectSection};

/// Most bytes that are unpacked. The symbols of the largest programs take a few megabytes.
const MOST: usize = 64 << 20;
/// Largest section that is read, in bytes.
const MOST_PACKED: usize = 16 << 20;

/// The unpacked ELF file of an object's `.gnu_debugdata`. `None`: there is none, or it cannot be read.
pub(crate) fn unpack(elf: &object::File<'_>) -> Option<Vec<u8>> {
    let packed = elf.section_by_name_bytes(b".gnu_debugdata")?.data().ok()?;
    unxz(packed)
}

fn unxz(packed: &[u8]) -> Option<Vec<u8>> {
    if !packed.starts_with(b"\xfd7zXZ\0") || packed.len() > MOST_PACKED {
        return None;
    }
    // The decoder is another crate's. Hostile input to it must not end a report.
    let unpacked = std::panic::catch_unwind(|| {
        let mut out = Bounded(Vec::new());
        lzma_rs::xz_decompress(&mut io::Cursor::new(packed), &mut out).ok()?;
        Some(out.0)
    });
    unpacked.ok().flatten()
}

/// A vector that refuses to grow beyond [`MOST`].
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len().saturating_add(bytes.len()) > MOST {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::OnceLock;

    /// Compresses `text` with the machine's xz, if it has one.
    fn xz(text: &[u8]) -> Option<Vec<u8>> {
        use std::process::{Command, Stdio};
        let mut child =
            Command::new("xz").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        child.stdin.take()?.write_all(text).ok()?;
        child.wait_with_output().ok().map(|out| out.stdout)
    }

    fn sample() -> Option<&'static (Vec<u8>, Vec<u8>)> {
        static SAMPLE: OnceLock<Option<(Vec<u8>, Vec<u8>)>> = OnceLock::new();
        let made = SAMPLE.get_or_init(|| {
            let text: Vec<u8> = (0..40_000_u32).map(|n| (n * n / 7 % 61) as u8).collect();
            xz(&text).map(|packed| (text, packed))
        });
        if made.is_none() {
            pct_kit::skip("no xz");
        }
        made.as_ref()
    }

    #[test]
    fn what_xz_packed_comes_back() {
        let Some((text, packed)) = sample() else { return };
        assert_eq!(unxz(packed).as_ref(), Some(text));
        assert_eq!(unxz(b""), None);
        assert_eq!(unxz(b"\xfd7zXZ\0"), None);
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let Some(packed) = xz(&vec![0; MOST + 1]) else { return };
        assert_eq!(unxz(&packed), None);
    }

    proptest! {
        #[test]
        fn damaged_data_is_no_panic(at in 0_usize..1 << 16, byte: u8, cut in 0_usize..1 << 16) {
            if let Some((_, packed)) = sample() {
                let mut damaged = packed.clone();
                let n = damaged.len();
                damaged[at % n] ^= byte;
                let _ = unxz(&damaged[..n - cut % n]);
                let _ = unxz(&damaged);
            }
        }
    }
}
