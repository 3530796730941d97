//! Programs that a follower cannot follow: static and 32-bit ones, which no library of ours is loaded into. Whoever executes one
//! says so in the run directory, since nobody else knows: the time of such a child is in the account, and in no sample.
//!
//! Signal safety: open, read, close; a few hundred bytes of stack.

use pct_sampler::sys::text::Buf;
use pct_sampler::{process::boot, process::file, process::session, sys};

/// Bytes of a program that are looked at: the header, and the table that follows it in all but odd files.
const HEAD: usize = 1024;

/// Why no library can be preloaded into a program that begins with these bytes; `None`: it can be, or it cannot be told.
fn why(head: &[u8]) -> Option<&'static [u8]> {
    const CLASS_32: u8 = 1;
    const DYNAMIC: u16 = 3;
    const EXECUTABLE: u16 = 2;
    const INTERPRETER: u32 = 3;
    let half = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    if head.get(..4)? != b"\x7fELF" {
        return None;
    }
    if *head.get(4)? == CLASS_32 {
        return Some(b"a 32-bit program");
    }
    if !matches!(half(16)?, EXECUTABLE | DYNAMIC) {
        return None;
    }
    let table = usize::try_from(u64::from_le_bytes(head.get(32..40)?.try_into().ok()?)).ok()?;
    let (size, count) = (usize::from(half(54)?), usize::from(half(56)?));
    let table = head.get(table..table.checked_add(size.checked_mul(count)?)?)?;
    for entry in table.chunks_exact(size.max(4)) {
        if u32::from_le_bytes(entry.get(..4)?.try_into().ok()?) == INTERPRETER {
            return None;
        }
    }
    Some(b"a static program")
}

/// Looks at the program that is about to be executed.
pub(crate) fn tell(path: *const u8) {
    let may_call = session::current().is_some_and(|s| s.may_call());
    if !may_call || path.is_null() || !session::seed().options.follow.exec {
        return;
    }
    // SAFETY: the host's path.
    let path = unsafe { boot::text(path) };
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    // What has no slash is looked for by libc. A loader that is started as a program preloads as ever.
    let loader = [&b"ld-"[..], b"ld.so", b"ld64"].iter().any(|l| name.starts_with(l));
    if name.len() == path.len() || loader || !session::seed().options.wants(name) {
        return;
    }
    let mut whole = Buf::<1024>::new();
    whole.push(path);
    let Some(at) = whole.with_nul() else { return };
    let Ok(fd) = sys::open(at, sys::O_RDONLY | sys::O_NONBLOCK, 0) else { return };
    let mut head = [0u8; HEAD];
    let Ok(read) = sys::read(&fd, &mut head) else { return };
    if let Some(why) = head.get(..read).and_then(why) {
        let mut line = Buf::<350>::new();
        line.push(name.get(..name.len().min(64)).unwrap_or(name))
            .push(b" is ")
            .push(why)
            .push(b", which no library can be preloaded into: not sampled (--clock wall sees it, or pct run with it alone)");
        file::report(line.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 64-bit program's first bytes, with program headers of these types.
    fn program(kind: u16, types: &[u32]) -> Vec<u8> {
        let mut head = vec![0u8; 64 + 56 * types.len()];
        head[..5].copy_from_slice(b"\x7fELF\x02");
        head[16..18].copy_from_slice(&kind.to_le_bytes());
        head[32..40].copy_from_slice(&64u64.to_le_bytes());
        head[54..56].copy_from_slice(&56u16.to_le_bytes());
        head[56..58].copy_from_slice(&u16::try_from(types.len()).unwrap().to_le_bytes());
        for (i, kind) in types.iter().enumerate() {
            head[64 + 56 * i..][..4].copy_from_slice(&kind.to_le_bytes());
        }
        head
    }

    #[test]
    fn only_programs_without_a_loader_are_told_of() {
        assert_eq!(why(&program(2, &[6, 3, 1])), None);
        assert_eq!(why(&program(3, &[6, 3, 1])), None);
        assert_eq!(why(&program(2, &[1, 1])), Some(&b"a static program"[..]));
        assert_eq!(why(&program(3, &[1, 2])), Some(&b"a static program"[..]));
        assert_eq!(why(&program(1, &[])), None, "an object file");
        assert_eq!(why(b"#!/bin/sh\n"), None);
        assert_eq!(why(b"\x7fELF\x01"), Some(&b"a 32-bit program"[..]));
    }

    #[test]
    fn damaged_headers_say_nothing() {
        let whole = program(2, &[1, 1]);
        for len in 5..whole.len() {
            assert_eq!(why(&whole[..len]), None, "{len}");
        }
        for at in 32..40 {
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            assert_eq!(why(&damaged), None, "{at}");
        }
        for size in 0..8u8 {
            let mut odd = whole.clone();
            odd[54] = size;
            let _ = why(&odd);
        }
    }
}
