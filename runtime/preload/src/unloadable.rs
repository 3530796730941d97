//! Programs that a follower cannot follow, because no library can be preloaded into them ([`Unloadable`]). The process
//! that executes one, or that makes the child which does, says so in the run directory: nobody else knows, and the
//! child's time is in the account but in no sample. `pct run` has such a process sampled from outside then.
//!
//! Signal safety: open, read, close; three kilobytes of stack.

use crate::host;
use pct_elf::Unloadable;
use pct_sampler::sys::text::Buf;
use pct_sampler::{process::boot, process::report, process::session, sys};

/// Bytes of a program that are looked at: the header, and the table that follows it in all but odd files.
const HEAD: usize = 1024;

/// Looks at the program that this process is about to execute.
pub(crate) fn tell(path: *const u8) {
    let Some(path) = program_of_host(path) else { return };
    let mut head = [0u8; HEAD];
    let read = if path.contains(&b'/') {
        read_head(&[path], &mut head)
    } else {
        // SAFETY: libc's own list of variables.
        let folders = unsafe { boot::variable(host::environ(), b"PATH") }.unwrap_or(b"/bin:/usr/bin");
        // an empty one is the working directory
        let slash = |folder: &[u8]| if folder.is_empty() { &b""[..] } else { b"/" };
        folders.split(|b| *b == b':').find_map(|folder| read_head(&[folder, slash(folder), path], &mut head))
    };
    tell_of(sys::getpid(), path, read.and_then(|read| head.get(..read)));
}

/// Looks at the program that a child executes which this process has made, whose host calls the program so.
pub(crate) fn tell_of_child(path: *const u8, child: i32) {
    let (Some(path), Ok(child)) = (program_of_host(path), u32::try_from(child)) else { return };
    let mut head = [0u8; HEAD];
    let mut number = Buf::<16>::new();
    number.push_number(u64::from(child));
    // it may have ended already
    let of_host = |head: &mut _| if path.contains(&b'/') { read_head(&[path], head) } else { None };
    let read = read_head(&[b"/proc/", number.bytes(), b"/exe"], &mut head).or_else(|| of_host(&mut head));
    tell_of(child, path, read.and_then(|read| head.get(..read)));
}

/// The host's word for a program, if somebody is to be told of programs.
fn program_of_host<'a>(path: *const u8) -> Option<&'a [u8]> {
    let may_call = session::current().is_some_and(|s| s.may_call());
    if !may_call || path.is_null() || !session::seed().options.follow.exec {
        return None;
    }
    // SAFETY: the host's path.
    Some(unsafe { boot::text(path) })
}

/// Reads the beginning of a file whose path is these parts: how many bytes.
fn read_head(parts: &[&[u8]], head: &mut [u8; HEAD]) -> Option<usize> {
    let mut path = Buf::<1024>::new();
    for part in parts {
        path.push(part);
    }
    let fd = sys::open(path.with_nul()?, sys::O_RDONLY | sys::O_NONBLOCK, 0).ok()?;
    sys::read(&fd, head).ok()
}

/// Says if the program that begins so can load no library.
fn tell_of(pid: u32, path: &[u8], head: Option<&[u8]>) {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    // A loader that is started as a program preloads as ever.
    let loader = [&b"ld-"[..], b"ld.so", b"ld64"].iter().any(|l| name.starts_with(l));
    if loader || !session::seed().options.wants(name) {
        return;
    }
    if let Some(reason) = head.and_then(|head| Unloadable::reason(&head)) {
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
        if reason == Unloadable::Static && pid == sys::getpid() {
            report::report_outside(line.bytes());
        } else {
            report::report_of(pid, line.bytes());
        }
    }
}
