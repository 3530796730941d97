//! Programs that a follower cannot follow, because no library can be preloaded into them ([`Unloadable`]). The process
//! that executes one says so in the run directory: nobody else knows, and the child's time is in the account but in no
//! sample.
//!
//! Signal safety: open, read, close; a few hundred bytes of stack.

use pct_elf::Unloadable;
use pct_sampler::sys::text::Buf;
use pct_sampler::{process::boot, process::report, process::session, sys};

/// Bytes of a program that are looked at: the header, and the table that follows it in all but odd files.
const HEAD: usize = 1024;

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
    if let Some(reason) = head.get(..read).and_then(|head| Unloadable::reason(&head)) {
        let what: &[u8] = match reason {
            Unloadable::Bits32 => b"a 32-bit program",
            Unloadable::Machine(_) => b"a program for another machine",
            Unloadable::Static => b"a static program",
        };
        let mut line = Buf::<350>::new();
        line.push(name.get(..name.len().min(64)).unwrap_or(name))
            .push(b" is ")
            .push(what)
            .push(b", which no library can be preloaded into: not sampled (--clock wall sees it, or pct run with it alone)");
        report::report(line.bytes());
    }
}
