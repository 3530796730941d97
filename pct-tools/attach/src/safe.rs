//! Decides whether a stopped thread may run malloc, the loader or setenv at its current point.
//!
//! Calls at a random point corrupted the heap of 10 % of single-threaded programs (glibc takes no lock while
//! there is one thread) and dead-locked half of those with threads. A point is safe if the thread is in no such
//! code: it is in a system call that such code does not make, or it is outside of libc, loader and allocator, and
//! no frame of its stack is in one of the functions listed here.

use crate::facts::Target;
use crate::image::Image;
use crate::loading::is_linking;
use crate::memory::{Memory, ProcessMemory};
use crate::ptrace::call::is_in_a_call;
use crate::ptrace::sys::{self, Regs, Tid};
use crate::unwind::StackWalker;
use crate::unwind::Unwind;
use pct_format::record::Frame;
use procfs::process::MemoryMap;
use std::rc::Rc;

/// Why a point is not safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsafe {
    /// A restartable sequence is running. It would go on unprotected.
    #[error("a restartable sequence is under way")]
    RestartableSequence,
    /// The thread has no libc thread block.
    #[error("the thread has no thread block of the C library")]
    NoThreadBlock,
    /// The thread is in a system call that allocators, loaders or thread starts make.
    #[error("it is in system call {0}")]
    SystemCall(i64),
    /// The program counter is in libc, the loader or an allocator.
    #[error("it runs in {0}")]
    Inside(String),
    /// A frame of the stack is in a function that must not be entered again.
    #[error("it is below {0}")]
    Below(String),
    /// It is inside a signal handler.
    #[error("it is inside a signal handler")]
    SignalHandler,
    /// The stack could not be walked, so nothing is known.
    #[error("its stack could not be followed")]
    Unknown,
    /// The loader is at work.
    #[error("the loader is at work")]
    LoaderBusy,
    /// Another controller was killed while it made a call in the thread.
    #[error("it is still in a call of a pct that was killed")]
    OtherCall,
    /// The kernel turns the thread's system calls into signals.
    #[error("its system calls are turned into signals")]
    Dispatch,
}

/// Functions that hold locks of the allocator, the loader or the environment, or that work without any.
const NOT_BELOW: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "malloc_trim",
    "mallopt",
    "dlopen",
    "dlmopen",
    "dlclose",
    "dlsym",
    "dlvsym",
    "dladdr",
    "dl_iterate_phdr",
    "__tls_get_addr",
    "setenv",
    "unsetenv",
    "putenv",
    "clearenv",
    "getenv",
    "fork",
    "vfork",
    "_Fork",
    "posix_spawn",
    "posix_spawnp",
    "exit",
    "quick_exit",
    "_exit",
    "pthread_create",
    "pthread_exit",
    "pthread_atfork",
    "__libc_start_main_impl",
];

/// System calls that those functions make.
const NOT_IN: &[i64] = &[
    libc::SYS_futex,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_fork,
    libc::SYS_vfork,
];

/// Frames that must be checked before a stack counts as harmless.
const DEEP: usize = 512;

/// What must be known of a target's code to judge a point. It is made once per attach.
pub struct SafePoints {
    /// Address ranges of the functions in [`NOT_BELOW`], with their names.
    functions: Vec<(u64, u64, &'static str)>,
    /// Ranges of the images in which a running thread is not safe.
    images: Vec<(u64, u64, String)>,
    restorer: Option<u64>,
    r_debug: Option<u64>,
    walker: StackWalker,
}

impl SafePoints {
    /// Finds the functions in the target's images.
    pub fn find_in(target: &Target, memory: &ProcessMemory) -> Self {
        let mut functions = Vec::new();
        let mut images = Vec::new();
        for (path, image) in &target.images {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut allocates = false;
            for function in NOT_BELOW {
                if let Some((from, len)) = image.function(memory, function) {
                    functions.push((from, from + len.max(1), *function));
                    allocates |= *function == "malloc";
                }
            }
            let own = target.exe.as_deref() == Some(path.as_path());
            if (allocates && !own) || is_loader(image, memory, &name) {
                images.extend(image.ranges().map(|(from, to)| (from, to, name.clone())));
            }
        }
        let mut walker = StackWalker::new(DEEP, Rc::default());
        walker.refresh(target.facts.pid, memory);
        SafePoints { functions, images, restorer: target.gadgets.restorer, r_debug: target.r_debug, walker }
    }

    /// Judges a stopped thread for which [`any_call`] has found no objection.
    ///
    /// # Errors
    /// Why it is not safe. Another moment or another thread may be.
    pub fn judge(&mut self, regs: &Regs, memory: &ProcessMemory, loader: bool) -> Result<(), Unsafe> {
        if regs.fs_base == 0 {
            return Err(Unsafe::NoThreadBlock);
        }
        if loader && self.loader_is_busy(memory) {
            return Err(Unsafe::LoaderBusy);
        }
        let call = regs.orig_rax.cast_signed();
        if call >= 0 {
            if NOT_IN.contains(&call) {
                return Err(Unsafe::SystemCall(call));
            }
        } else if let Some((_, _, name)) = self.images.iter().find(|(a, b, _)| (*a..*b).contains(&regs.rip)) {
            return Err(Unsafe::Inside(name.clone()));
        }
        self.stack(regs, memory)
    }

    fn stack(&mut self, regs: &Regs, memory: &ProcessMemory) -> Result<(), Unsafe> {
        let mut frames = Vec::new();
        if self.walker.walk(regs, memory, &mut frames).is_some() {
            return Err(Unsafe::Unknown);
        }
        for word in std::iter::once(regs.rip + 1).chain(frames.iter().map(|frame| frame.entry)) {
            let Frame::Return(pc) = Frame::decode(word) else { return Err(Unsafe::Unknown) };
            let call = pc.wrapping_sub(1);
            if self.restorer.is_some_and(|r| (r..r + 9).contains(&pc)) {
                return Err(Unsafe::SignalHandler);
            }
            let below = self.functions.iter().find(|(from, to, _)| (*from..*to).contains(&call));
            match below {
                // every stack ends in the start routine; only the frames inside of it matter
                Some((_, _, "__libc_start_main_impl")) | None => {}
                Some((_, _, name)) => return Err(Unsafe::Below((*name).to_owned())),
            }
        }
        Ok(())
    }

    /// Whether a dlopen or dlclose is running: `r_debug.r_state` is not RT_CONSISTENT.
    fn loader_is_busy(&self, memory: &ProcessMemory) -> bool {
        self.r_debug.is_some_and(|list| is_linking(list, memory))
    }
}

/// The rules for any call, even if only pct's own code runs: no restartable sequence and no call of another
/// controller may be in progress, and system calls must be what they are.
///
/// # Errors
/// [`Unsafe::RestartableSequence`], [`Unsafe::OtherCall`], [`Unsafe::Dispatch`].
pub fn any_call(tid: Tid, regs: &Regs, maps: &[MemoryMap], memory: &ProcessMemory) -> Result<(), Unsafe> {
    const RSEQ_CS: u64 = 8;
    if is_in_a_call(regs, maps, memory) {
        return Err(Unsafe::OtherCall);
    }
    if sys::dispatches_calls(tid) == Ok(true) {
        return Err(Unsafe::Dispatch);
    }
    match sys::rseq_area(tid) {
        Ok(Some(area)) if memory.read_word(area + RSEQ_CS).is_ok_and(|cs| cs != 0) => {
            Err(Unsafe::RestartableSequence)
        }
        _ => Ok(()),
    }
}

fn is_loader(image: &Image, memory: &ProcessMemory, name: &str) -> bool {
    name.starts_with("ld-") || image.soname(memory).is_some_and(|s| s.starts_with(b"ld-"))
}

/// The threads of a target that can be stopped.
///
/// The first thread comes after equally good ones, or after all others if any point is safe. While it is stopped,
/// the kernel delivers signals to the process to another thread, and the main loop may wait for the first.
#[derive(Debug, Default)]
pub struct Candidates {
    /// The threads, with those first that wait where calls are safest. Nothing was stopped to find this out.
    pub threads: Vec<Tid>,
    /// Threads that cannot be stopped, because their vfork has not returned: the child has not executed or ended yet.
    pub in_vfork: Vec<Tid>,
}

impl Candidates {
    /// The candidates of a process. `memory` is the process's, and holds the flags of `clone3`. `anywhere`: all points
    /// are equally safe.
    pub fn of_process(pid: i32, memory: &impl Memory, anywhere: bool) -> Candidates {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            return Candidates::default();
        };
        let mut calls = Vec::new();
        let mut in_vfork = Vec::new();
        for tid in entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok().map(Tid)) {
            let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
            match is_in_vfork(&text, memory) {
                true => in_vfork.push(tid),
                false => calls.push((tid, text)),
            }
        }
        Candidates { threads: in_order(Tid(pid), calls, anywhere), in_vfork }
    }
}

/// Sorts threads by their `/proc/TID/syscall`, the best first.
fn in_order(first: Tid, threads: Vec<(Tid, String)>, anywhere: bool) -> Vec<Tid> {
    // a thread that does not run stops at once
    let runs = |syscall: &str| u8::from(syscall.trim_end() == "running");
    let mut ranked: Vec<(bool, u8, bool, Tid)> = threads
        .into_iter()
        .map(|(tid, syscall)| match anywhere {
            true => (tid == first, runs(&syscall), false, tid),
            false => (false, rank(&syscall), tid == first, tid),
        })
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(.., tid)| tid).collect()
}

/// How good it is to stop a thread with this `/proc/TID/syscall`. 0 is best.
fn rank(syscall: &str) -> u8 {
    const BEST: &[i64] = &[
        libc::SYS_poll,
        libc::SYS_ppoll,
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_select,
        libc::SYS_pselect6,
        libc::SYS_read,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_recvfrom,
        libc::SYS_nanosleep,
        libc::SYS_clock_nanosleep,
        libc::SYS_wait4,
    ];
    match syscall.split_whitespace().next().and_then(|word| word.parse::<i64>().ok()) {
        Some(call) if BEST.contains(&call) => 0,
        None => 1, // running
        Some(call) if !NOT_IN.contains(&call) => 2,
        Some(_) => 3,
    }
}

/// Whether a thread with this `/proc/TID/syscall` waits in vfork, or in a clone that waits in the same way
/// (posix_spawn).
fn is_in_vfork(syscall: &str, memory: &impl Memory) -> bool {
    let mut words = syscall.split_whitespace();
    let Some(call) = words.next().and_then(|word| word.parse::<i64>().ok()) else { return false };
    let first = words.next().and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    let flags = match (call, first) {
        (libc::SYS_vfork, _) => return true,
        (libc::SYS_clone, Some(flags)) => flags,
        // the first word of struct clone_args
        (libc::SYS_clone3, Some(at)) => memory.read_word(at).unwrap_or(0),
        _ => 0,
    };
    flags & u64::from(libc::CLONE_VFORK.unsigned_abs()) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn the_first_thread_is_taken_when_no_other_is_as_good() {
        let call =
            |tid: i32, number: i64| (Tid(tid), format!("{number} 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n"));
        let order = |other: (Tid, String), anywhere| {
            in_order(Tid(1), vec![call(1, libc::SYS_epoll_wait), other], anywhere)
        };
        let (first, other) = (Tid(1), Tid(2));
        assert_eq!(order(call(2, libc::SYS_nanosleep), false), [other, first]);
        // a point in futex is not safe for malloc
        assert_eq!(order(call(2, libc::SYS_futex), false), [first, other]);
        assert_eq!(order(call(2, libc::SYS_futex), true), [other, first]);
        assert_eq!(order((other, "running\n".to_owned()), true), [other, first]);
    }

    #[test]
    fn threads_in_vfork_are_told_by_their_call() {
        struct Flags;
        impl Memory for Flags {
            fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
                let word = if at == 0x1000 { 0x4100_u64 } else { 0 };
                into.copy_from_slice(word.to_le_bytes().get(..into.len()).expect("a word"));
                Ok(())
            }
        }
        for (syscall, waits) in [
            ("58 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n", true),
            ("56 0x4111 0x7f00 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n", true),
            ("56 0x1200011 0x0 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n", false),
            ("435 0x1000 0x58 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n", true),
            ("435 0x2000 0x58 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n", false),
            ("0 0x3 0x4111 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n", false),
            ("running\n", false),
            ("", false),
        ] {
            assert_eq!(is_in_vfork(syscall, &Flags), waits, "{syscall}");
        }
    }
}
