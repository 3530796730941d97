//! The target's memory: reads it, and writes it for a call in the target.
//!
//! The other modules are generic over [`Memory`], so that tests can use made-up images. What is read is not trusted:
//! every length is bounded before use.

use crate::tasks;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// An address space: a process, or a test's image.
pub trait Memory {
    /// Fills `out` with the octets at `addr`.
    ///
    /// # Errors
    /// When any octet of the range cannot be read.
    fn read(&self, addr: u64, out: &mut [u8]) -> io::Result<()>;

    /// Reads a 64-bit word.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn read_word(&self, addr: u64) -> io::Result<u64> {
        let mut b = [0; 8];
        self.read(addr, &mut b)?;
        Ok(u64::from_ne_bytes(b))
    }

    /// Reads a 32-bit word.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn half(&self, addr: u64) -> io::Result<u32> {
        let mut b = [0; 4];
        self.read(addr, &mut b)?;
        Ok(u32::from_ne_bytes(b))
    }

    /// Reads `len` octets at `addr`, if `len` is at most `limit`.
    ///
    /// # Errors
    /// When `len` is above `limit`, or as [`Memory::read`].
    fn bytes(&self, addr: u64, len: u64, limit: u64) -> io::Result<Vec<u8>> {
        let room = usize::try_from(len).ok().filter(|_| len <= limit).ok_or_else(|| {
            let why = format!("length {len} at {addr:#x} above {limit}");
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        let mut out = vec![0; room];
        self.read(addr, &mut out)?;
        Ok(out)
    }

    /// Reads the string at `addr` up to its NUL, but at most `limit` octets.
    ///
    /// # Errors
    /// When the first octet cannot be read.
    fn string(&self, addr: u64, limit: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        while out.len() < limit {
            // read up to the end of a page, so that a string at the end of a mapping is read whole
            let at = addr.wrapping_add(out.len() as u64);
            let step = usize::try_from((4096 - at % 4096).min(256)).unwrap_or(1).min(limit - out.len());
            let mut chunk = vec![0; step];
            match self.read(at, &mut chunk) {
                Err(e) if out.is_empty() => return Err(e),
                Err(_) => break,
                Ok(()) => {}
            }
            if let Some(end) = memchr::memchr(0, &chunk) {
                out.extend_from_slice(&chunk[..end]);
                return Ok(out);
            }
            out.extend_from_slice(&chunk);
        }
        Ok(out)
    }
}

/// Gives a target's memory to the readers that the sampler also uses.
pub(crate) struct Readable<'m, M>(pub(crate) &'m M);

impl<M: Memory> pct_elf::Memory for Readable<'_, M> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.read(at, into).is_ok()
    }
}

/// A process's memory through `/proc/PID/mem`. It needs the same right as ptrace, and it can write read-only pages.
#[derive(Debug)]
pub struct ProcessMemory {
    file: File,
}

impl ProcessMemory {
    /// Opens the memory of `pid`, also for writing if `write` is set.
    ///
    /// # Errors
    /// EACCES or EPERM without the right to trace the process; ENOENT when it is gone.
    pub fn open(pid: i32, write: bool) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(write).open(tasks::folder(pid).join("mem"))?;
        Ok(ProcessMemory { file })
    }

    /// Reads as much of `out` as is mapped at `addr`, and returns the number of octets.
    pub fn read_some(&self, addr: u64, out: &mut [u8]) -> usize {
        let mut done = 0;
        while done < out.len() {
            match self.file.read_at(&mut out[done..], addr.wrapping_add(done as u64)) {
                Ok(n) if n > 0 => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        done
    }

    /// Writes all of `bytes` at `addr`.
    ///
    /// # Errors
    /// When the range is not mapped or the process is gone.
    pub fn write(&self, addr: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, addr)
    }
}

impl Memory for ProcessMemory {
    fn read(&self, addr: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, addr)
    }
}

/// A made-up address space for tests: areas of octets at addresses.
#[derive(Debug, Default)]
pub struct FakeMemory {
    /// (start, octets), in any order.
    pub areas: Vec<(u64, Vec<u8>)>,
}

impl Memory for FakeMemory {
    fn read(&self, addr: u64, out: &mut [u8]) -> io::Result<()> {
        for (start, bytes) in &self.areas {
            if let Some(offset) = addr.checked_sub(*start)
                && let Some(from) = bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..)
                && let Some(part) = from.get(..out.len())
            {
                out.copy_from_slice(part);
                return Ok(());
            }
        }
        Err(io::Error::from_raw_os_error(libc::EIO))
    }
}
