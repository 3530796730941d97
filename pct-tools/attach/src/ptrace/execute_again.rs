//! A program that has just been executed is executed once more, by nobody's tracee.
//!
//! What a traced process executes does not gain rights ([`crate::rights`]), and that is known only when it has been
//! executed. But then the kernel has just laid out everything on the new stack that the call needs, and nothing of the
//! program has run: so the same call is made again, and the thread is let go before it.
//!
//! ```text
//! execve ... exec stop -- exit of the call -- registers for execve, let go -- execve, untraced
//! ```
//!
//! The registers are set at the exit of the first call, which overwrites the one for its result until then.

use super::error::CallError;
use super::stop::{STOP, wait_stop};
use super::sys::{self, Regs, Stop, Tid};
use crate::memory::{Memory, ProcessMemory};
use crate::rights::{self, LONGEST_PATH};
use crate::tasks;
use memchr::memmem;
use procfs::process::{MMPermissions, MMapPath, MemoryMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

/// Why a program cannot be executed once more. It stands in the exec stop still.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAgain {
    /// Its memory, its map or its program cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// Its stack and its code are other ones.
    #[error("it is a 32-bit program")]
    Bits32,
    /// No path that lies on its stack leads to its program (any more).
    #[error("no path leads to its program")]
    NoPath,
    /// No instruction in its memory makes a system call.
    #[error("it has no system call instruction")]
    NoInstruction,
    /// The kernel's refusal.
    #[error(transparent)]
    Ptrace(#[from] CallError),
}

/// The code segment of 64-bit programs.
const CODE_OF_64_BITS: u64 = 0x33;
/// `AT_EXECFN`: the address of the path that was executed.
const PATH: u64 = 31;
/// `syscall`
const INSTRUCTION: &[u8] = &[0x0f, 0x05];
/// Of a mapping no more than this is searched for the instruction.
const MOST_SEARCHED: u64 = 4 << 20;

/// Executes the program of a thread that stands in its exec stop once more, untraced. If that is refused with anything
/// but [`NotAgain::Ptrace`], the thread stands there still.
pub(crate) fn execute_again(tid: Tid) -> Result<(), NotAgain> {
    let request = |what| move |source| CallError::Request { what, tid, source };
    let memory = ProcessMemory::open(tid.0, false)?;
    let regs = sys::regs(tid).map_err(request("get registers"))?;
    let call = call_of(tid, &regs, &memory)?;
    sys::syscall(tid, 0).map_err(request("continue"))?;
    // signals come later, on the way out of the kernel
    while !matches!(wait_stop(tid, STOP)?, Stop::Syscall) {
        sys::syscall(tid, 0).map_err(request("continue"))?;
    }
    sys::set_regs(tid, &call).map_err(request("set registers"))?;
    sys::detach(tid, 0).map_err(request("detach"))?;
    Ok(())
}

/// The registers with which the thread executes its program again.
fn call_of(tid: Tid, regs: &Regs, memory: &ProcessMemory) -> Result<Regs, NotAgain> {
    if regs.cs != CODE_OF_64_BITS {
        return Err(NotAgain::Bits32);
    }
    let arguments = regs.rsp.wrapping_add(8);
    let environment = memory.read_word(regs.rsp)?.wrapping_mul(8).wrapping_add(8).wrapping_add(arguments);
    let path = path_of(tid, memory.read_word(arguments)?, memory)?;
    let maps = tasks::maps(tid.0).map_err(std::io::Error::other)?;
    let mut call = *regs;
    call.rip = instruction_in(&maps.0, memory).ok_or(NotAgain::NoInstruction)?;
    call.rax = libc::SYS_execve.cast_unsigned();
    // no call is under way that the kernel could make again
    call.orig_rax = u64::MAX;
    (call.rdi, call.rsi, call.rdx) = (path, arguments, environment);
    Ok(call)
}

/// Where a path to the program lies: the one that was executed or, if that is a script, the first argument.
fn path_of(tid: Tid, first: u64, memory: &ProcessMemory) -> Result<u64, NotAgain> {
    let process = tasks::folder(tid.0);
    let program = fs::metadata(process.join("exe"))?;
    let executed = value_of(&fs::read(process.join("auxv"))?, PATH);
    let leads_there = |at: &u64| {
        let path = memory.string(*at, LONGEST_PATH).unwrap_or_default();
        let path = rights::seen_from(&process, &process.join("cwd"), OsStr::from_bytes(&path).as_ref());
        fs::metadata(path).is_ok_and(|file| (file.dev(), file.ino()) == (program.dev(), program.ino()))
    };
    executed.into_iter().chain([first]).find(leads_there).ok_or(NotAgain::NoPath)
}

/// The value of an entry in the auxiliary vector (pairs of words, as in /proc/PID/auxv).
fn value_of(vector: &[u8], key: u64) -> Option<u64> {
    let word = |octets: &[u8]| octets.try_into().map(u64::from_ne_bytes).ok();
    let (pairs, _) = vector.as_chunks::<16>();
    pairs.iter().find(|pair| word(&pair[..8]) == Some(key)).and_then(|pair| word(&pair[8..]))
}

/// Where a system call instruction lies. The kernel's own object has one, if it is there.
fn instruction_in(maps: &[MemoryMap], memory: &ProcessMemory) -> Option<u64> {
    let is_code = |map: &&MemoryMap| map.perms.contains(MMPermissions::EXECUTE | MMPermissions::READ);
    let of_kernel = maps.iter().filter(|map| map.pathname == MMapPath::Vdso);
    let others =
        maps.iter().filter(|map| map.pathname != MMapPath::Vdso && map.pathname != MMapPath::Vsyscall);
    of_kernel.chain(others).filter(is_code).find_map(|map| {
        let (start, end) = map.address;
        let length = end.saturating_sub(start).min(MOST_SEARCHED);
        let text = memory.bytes(start, length, MOST_SEARCHED).ok()?;
        Some(start + memmem::find(&text, INSTRUCTION)? as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_the_auxiliary_vector_are_found() {
        let vector: Vec<u8> =
            [6, 4096, PATH, 0x7fff_0000, 0, 0].into_iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(value_of(&vector, PATH), Some(0x7fff_0000));
        assert_eq!(value_of(&vector, 7), None);
        assert_eq!(value_of(&vector[..31], PATH), None);
        assert_eq!(value_of(&[], PATH), None);
    }
}
