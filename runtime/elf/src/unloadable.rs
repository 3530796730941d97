//! Finds out from the first bytes of a program's file why no library can be preloaded into it.
//!
//! `pct run` checks this before it starts a program, and the preloaded library before the host executes one.

use crate::{Image, Memory, segment_kind};

/// Why no dynamic linker loads a 64-bit library for this machine into a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unloadable {
    /// It is a 32-bit program.
    Bits32,
    /// It is for another machine (the number in its ELF header).
    Machine(u16),
    /// It names no dynamic linker.
    Static,
}

/// Number of this machine in ELF headers.
const NATIVE_MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
const CLASS_32: u8 = 1;
/// The two types of files that can be executed.
const EXECUTABLES: [u16; 2] = [2, 3];

impl Unloadable {
    /// The reason for the program whose file is `file`, or begins with it.
    ///
    /// `None`: libraries can be preloaded, or it is no ELF program, or the bytes do not show it.
    #[must_use]
    pub fn reason<M: Memory>(file: &M) -> Option<Unloadable> {
        let [magic @ .., class] = file.bytes::<5>(0)?;
        if magic != *b"\x7fELF" {
            return None;
        }
        if class == CLASS_32 {
            return Some(Unloadable::Bits32);
        }
        if !EXECUTABLES.contains(&file.quarter(16)?) {
            return None;
        }
        let machine = file.quarter(18)?;
        if machine != NATIVE_MACHINE {
            return Some(Unloadable::Machine(machine));
        }
        let image = Image::of_file(file)?;
        let mut read = 0;
        for segment in image.segments(file) {
            if segment.kind == segment_kind::INTERPRETER {
                return None;
            }
            read += 1;
        }
        (read == image.header_count()).then_some(Unloadable::Static)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;

    /// A file's first bytes, with program headers of these types.
    fn program(kind: u16, machine: u16, types: &[u32]) -> Vec<u8> {
        let mut head = vec![0u8; 64 + 56 * types.len()];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        head[16..18].copy_from_slice(&kind.to_le_bytes());
        head[18..20].copy_from_slice(&machine.to_le_bytes());
        head[32..40].copy_from_slice(&64u64.to_le_bytes());
        head[54..56].copy_from_slice(&56u16.to_le_bytes());
        head[56..58].copy_from_slice(&u16::try_from(types.len()).expect("few").to_le_bytes());
        for (i, kind) in types.iter().enumerate() {
            head[64 + 56 * i..][..4].copy_from_slice(&kind.to_le_bytes());
        }
        head
    }

    fn reason(bytes: &[u8]) -> Option<Unloadable> {
        Unloadable::reason(&bytes)
    }

    #[test]
    fn headers_tell_static_dynamic_and_foreign_programs() {
        let native = NATIVE_MACHINE;
        assert_eq!(reason(&program(2, native, &[6, 3, 1])), None);
        assert_eq!(reason(&program(3, native, &[6, 3, 1])), None);
        assert_eq!(reason(&program(2, native, &[1, 1])), Some(Unloadable::Static));
        assert_eq!(reason(&program(3, native, &[1, 2])), Some(Unloadable::Static));
        assert_eq!(reason(&program(2, 40, &[1, 3])), Some(Unloadable::Machine(40)));
        assert_eq!(reason(&program(1, native, &[])), None, "an object file");
        assert_eq!(reason(b"#!/bin/sh\n"), None);
        assert_eq!(reason(b"\x7fELF\x01"), Some(Unloadable::Bits32));
    }

    #[test]
    fn cut_and_damaged_headers_say_nothing() {
        let whole = program(2, NATIVE_MACHINE, &[1, 1]);
        for len in 0..whole.len() {
            assert_eq!(reason(&whole[..len]), None, "{len}");
        }
        for at in 32..40 {
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            assert_eq!(reason(&damaged), None, "{at}");
        }
        let mut odd = whole;
        odd[54] = 8;
        assert_eq!(reason(&odd), None, "program headers of another size");
    }
}
