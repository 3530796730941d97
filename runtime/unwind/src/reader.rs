//! A cursor over untrusted bytes of an object.
//!
//! Every read is checked against the slice. Reading past its end gives `None`, never a panic. The cursor knows the
//! address of its first byte in the process, because most pointers in unwind data are relative to their own address.

/// Bytes, and the address of the first of them in the profiled process.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// The bytes: pct's own copy, never the host's mapping.
    pub bytes: &'a [u8],
    /// Address of `bytes[0]` in the process.
    pub addr: u64,
}

impl<'a> Section<'a> {
    /// A cursor at byte `at`; past the end it reads nothing.
    pub fn cursor(&self, at: usize) -> Cursor<'a> {
        Cursor { bytes: self.bytes, pos: at, addr: self.addr }
    }

    /// The part before byte `end`, with the same address.
    pub fn until(&self, end: usize) -> Section<'a> {
        Section { bytes: self.bytes.get(..end).unwrap_or(self.bytes), addr: self.addr }
    }
}

/// Why unwind data gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// No function has this address, or the bytes are malformed.
    Nothing,
    /// The kernel could not read the bytes.
    Unreadable,
    /// The bytes were not copied yet and may not be copied now.
    NotNow,
}

/// Where the entries of an `.eh_frame` are read from.
pub trait Source<'a> {
    /// The bytes from byte `at` on, at least `len` of them; as many more as take no effort.
    ///
    /// # Errors
    /// They are not there, or not to be had now.
    fn bytes(&mut self, at: usize, len: usize) -> Result<Section<'a>, Lack>;
}

impl<'a> Source<'a> for Section<'a> {
    fn bytes(&mut self, at: usize, len: usize) -> Result<Section<'a>, Lack> {
        let bytes = self.bytes.get(at..).filter(|bytes| bytes.len() >= len).ok_or(Lack::Nothing)?;
        Ok(Section { bytes, addr: self.addr.wrapping_add(at as u64) })
    }
}

/// A position in a [`Section`].
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
    addr: u64,
}

/// How a pointer in `.eh_frame` is encoded (the Linux Standard Base's `DW_EH_PE_*`): its form, what it is relative to,
/// and whether it is indirect.
pub mod pe {
    /// Pointer of the machine's width.
    pub const ABSPTR: u8 = 0x00;
    /// No value is present.
    pub const OMIT: u8 = 0xff;
    /// Relative to the pointer's own address.
    pub const PCREL: u8 = 0x10;
    /// Relative to the start of `.eh_frame_hdr`.
    pub const DATAREL: u8 = 0x30;
    /// The two forms of the binary search table that linkers write.
    pub const SDATA4: u8 = 0x0b;
}

impl<'a> Cursor<'a> {
    /// Offset of the next byte in the section.
    pub fn pos(&self) -> usize {
        self.pos
    }

    /// Whether no byte is left.
    pub fn at_end(&self) -> bool {
        self.pos >= self.bytes.len()
    }

    /// Skips `n` bytes. Reads after the end give `None`.
    pub fn skip(&mut self, n: usize) -> Option<()> {
        self.pos = self.pos.checked_add(n)?;
        (self.pos <= self.bytes.len()).then_some(())
    }

    /// One byte.
    #[inline(always)]
    pub fn u8(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.pos)?;
        self.pos += 1;
        Some(byte)
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let end = self.pos.checked_add(N)?;
        let part = self.bytes.get(self.pos..end)?.first_chunk::<N>()?;
        self.pos = end;
        Some(*part)
    }

    /// Two bytes, little endian.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes, little endian.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little endian.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Unsigned LEB128. Bits beyond 64 are dropped; more than ten bytes are refused.
    #[inline(always)]
    pub fn uleb(&mut self) -> Option<u64> {
        let first = self.u8()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        self.uleb_rest(first)
    }

    fn uleb_rest(&mut self, first: u8) -> Option<u64> {
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        while shift < 70 {
            let byte = self.u8()?;
            if shift < 64 {
                value |= u64::from(byte & 0x7f) << shift;
            }
            if byte < 0x80 {
                return Some(value);
            }
            shift += 7;
        }
        None
    }

    /// Signed LEB128 with the same limits.
    #[inline(always)]
    pub fn sleb(&mut self) -> Option<i64> {
        let mut value = 0u64;
        let mut shift = 0;
        while shift < 70 {
            let byte = self.u8()?;
            if shift < 64 {
                value |= u64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte < 0x80 {
                if shift < 64 && byte & 0x40 != 0 {
                    value |= u64::MAX << shift;
                }
                return Some(value as i64);
            }
        }
        None
    }

    /// The zero-terminated string that starts here, without its zero.
    pub fn cstr(&mut self) -> Option<&'a [u8]> {
        let start = self.pos;
        while self.u8()? != 0 {}
        self.bytes.get(start..self.pos.checked_sub(1)?)
    }

    /// A pointer in encoding `enc`. [`pe::DATAREL`] pointers are relative to `base`. For indirect pointers the result
    /// is the address of the pointer (callers only skip those).
    #[inline(always)]
    pub fn pointer(&mut self, enc: u8, base: u64) -> Option<u64> {
        let here = self.addr.wrapping_add(self.pos as u64);
        if enc == pe::PCREL | pe::SDATA4 {
            return Some(here.wrapping_add(self.u32()? as i32 as i64 as u64));
        }
        self.pointer_any(enc, base, here)
    }

    fn pointer_any(&mut self, enc: u8, base: u64, here: u64) -> Option<u64> {
        if enc == pe::OMIT {
            return None;
        }
        let value = match enc & 0x0f {
            0x00 | 0x04 | 0x0c => self.u64()?,
            0x01 => self.uleb()?,
            0x02 => u64::from(self.u16()?),
            0x03 => u64::from(self.u32()?),
            0x09 => self.sleb()? as u64,
            0x0a => self.u16()? as i16 as i64 as u64,
            0x0b => self.u32()? as i32 as i64 as u64,
            _ => return None,
        };
        let from = match enc & 0x70 {
            0x00 => 0,
            0x10 => here,
            0x30 => base,
            _ => return None,
        };
        Some(value.wrapping_add(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(bytes: &[u8]) -> Cursor<'_> {
        Section { bytes, addr: 0x1000 }.cursor(0)
    }

    proptest! {
        #[test]
        fn leb128_reads_back_what_was_written(v in any::<u64>(), s in any::<i64>()) {
            let mut out = Vec::new();
            let mut x = v;
            loop {
                let b = (x & 0x7f) as u8;
                x >>= 7;
                if x == 0 { out.push(b); break; }
                out.push(b | 0x80);
            }
            prop_assert_eq!(at(&out).uleb(), Some(v));
            let mut out = Vec::new();
            let mut x = s;
            loop {
                let b = (x & 0x7f) as u8;
                x >>= 7;
                if (x == 0 && b & 0x40 == 0) || (x == -1 && b & 0x40 != 0) { out.push(b); break; }
                out.push(b | 0x80);
            }
            prop_assert_eq!(at(&out).sleb(), Some(s));
        }

        #[test]
        fn no_bytes_make_it_read_past_the_end(bytes in proptest::collection::vec(any::<u8>(), 0..24), enc in any::<u8>()) {
            let _ = at(&bytes).uleb();
            let _ = at(&bytes).sleb();
            let _ = at(&bytes).cstr();
            let _ = at(&bytes).pointer(enc, 5);
            let mut c = at(&bytes);
            while c.u8().is_some() {}
            prop_assert_eq!(c.pos(), bytes.len());
            prop_assert!(c.u32().is_none() && c.u64().is_none() && c.u16().is_none());
        }
    }

    #[test]
    fn a_relative_pointer_counts_from_its_own_place() {
        let bytes = [0, 0xfc, 0xff, 0xff, 0xff];
        let mut c = at(&bytes);
        c.u8();
        assert_eq!(c.pointer(0x1b, 0), Some(0x1001 - 4));
    }

    #[test]
    fn endless_leb128_is_refused() {
        assert_eq!(at(&[0x80; 40]).uleb(), None);
        assert_eq!(at(&[0x80; 40]).sleb(), None);
    }
}
