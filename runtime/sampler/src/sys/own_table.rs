//! A descriptor where the process has none left.
//!
//! The sampler opens a file for a moment and closes it again: its recording, the list of mappings, a perf event. A
//! program that holds as many descriptors as it may (RLIMIT_NOFILE) leaves no number for that moment. Nothing of
//! the program's may be closed and no limit raised, so the work is done in a thread that lives only for it and has
//! a table of descriptors of its own. The table ends with the thread. Mappings that the thread makes stay.
//!
//! The table is empty from its beginning (close_range(2), Linux 5.9). So the cost does not grow with what the program
//! has open, and a file that the program closes meanwhile is closed at once. Older kernels make a copy of the table, as
//! fork does.
//!
//! The thread is made as vfork makes a child: the caller stands still until it has ended, so it needs no stack of
//! its own. It is a thread and not a process, so the program cannot find it by `wait`, and it blocks all signals.
//! Nobody traces it (CLONE_UNTRACED). If the kernel refuses the thread (RLIMIT_NPROC, the pids limit of a control
//! group), the work fails as it did.
//!
//! Signal safety: system calls, none of which touches what the kernel keeps to restart an interrupted one. Not under
//! a filter on system calls, as everything that opens a file.

use super::{
    Errno, Mask, Result, SIGBUS, arch, call, check, getpid, nr, sched_yield, sigmask, signal_bit, sleep,
    thread_lives,
};

/// Does `work`, whose first step opens a file. If no descriptor is free, `work` is done again from its beginning, in
/// a short-lived thread that has some: [`super::gettid`] gives another number there.
///
/// # Errors
/// As `work`: EMFILE if it cannot be helped.
pub fn with_descriptor<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    match work() {
        Err(Errno::EMFILE) => in_own_table(work),
        done => done,
    }
}

/// Descriptors that the thread closes where it has a copy: as many as `work` may have open at a time. The kernel found
/// no free number below the limit, so the lowest numbers are in use.
const MADE_FREE: usize = 3;

/// Where the thread's table comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    /// The thread shares the program's table until it takes an empty one.
    Empty,
    /// The kernel copies the program's.
    Copied,
}

struct Job<F, T> {
    work: F,
    table: Table,
    /// `None`: there was no table to do the work with.
    done: Option<Result<T>>,
}

extern "C" fn run<T, F: FnMut() -> Result<T>>(job: usize) {
    const ALL_NUMBERS: usize = u32::MAX as usize;
    const CLOSE_RANGE_UNSHARE: usize = 2;
    // SAFETY: the address of the value in `in_thread`, whose thread stands still meanwhile.
    let job = unsafe { &mut *(job as *mut Job<F, T>) };
    match job.table {
        Table::Empty => {
            // SAFETY: this gives the thread a table of its own, which lacks the numbers; the shared one stays as it is.
            let taken =
                check(unsafe { call(nr::CLOSE_RANGE, [0, ALL_NUMBERS, CLOSE_RANGE_UNSHARE, 0, 0, 0]) });
            if taken.is_err() {
                return;
            }
        }
        Table::Copied => {
            for number in 0..MADE_FREE {
                // SAFETY: this thread's table is a copy, and nothing in it is used but by `work`.
                unsafe { call(nr::CLOSE, [number, 0, 0, 0, 0, 0]) };
            }
        }
    }
    job.done = Some((job.work)());
}

#[cold]
#[inline(never)]
fn in_own_table<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    in_thread(&mut work, Table::Empty)
        .or_else(|| in_thread(&mut work, Table::Copied))
        .unwrap_or(Err(Errno::EMFILE))
}

/// What `work` gives in a thread with such a table. `None`: there is no such thread, and nothing was done.
fn in_thread<T, F: FnMut() -> Result<T>>(work: F, table: Table) -> Option<Result<T>> {
    const CLONE_VM: usize = 0x100;
    const CLONE_FS: usize = 0x200;
    const CLONE_FILES: usize = 0x400;
    const CLONE_SIGHAND: usize = 0x800;
    const CLONE_VFORK: usize = 0x4000;
    const CLONE_THREAD: usize = 0x1_0000;
    const CLONE_SYSVSEM: usize = 0x4_0000;
    const CLONE_UNTRACED: usize = 0x80_0000;
    const FLAGS: usize =
        CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_VFORK | CLONE_THREAD | CLONE_SYSVSEM | CLONE_UNTRACED;
    let flags = if table == Table::Empty { FLAGS | CLONE_FILES } else { FLAGS };
    let mut job = Job { work, table, done: None };
    // The thread inherits the mask. A handler of the program's must not run in it; SIGBUS stays open for the
    // sampler's own stores to its file.
    let before = sigmask(Mask::Block, !signal_bit(SIGBUS));
    // SAFETY: the flags let this thread wait until the new one has ended; the job lives as long.
    let made = unsafe { arch::run_in_thread(flags, run::<T, F>, &raw mut job as usize) };
    if let Ok(tid) = u32::try_from(made) {
        wait_until_gone(tid);
    }
    sigmask(Mask::Set, before);
    job.done
}

/// The kernel lets this thread go on a moment before the other one has left the process, and the program may be about
/// to do what only a process of one thread can.
fn wait_until_gone(tid: u32) {
    // Nearly always it is gone by then. If this thread has a real-time priority that the other does not inherit
    // (SCHED_RESET_ON_FORK), only sleep gives that one the processor.
    const YIELDS: u32 = 100;
    const SLEEPS: u32 = 10_000;
    const SLEEP_NS: u64 = 100_000;
    for tried in 0..YIELDS + SLEEPS {
        if !thread_lives(getpid(), tid) {
            return;
        }
        if tried < YIELDS { sched_yield() } else { sleep(SLEEP_NS) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fd, O_RDONLY, c, gettid, open, read};
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    /// Runs `then` in a child process that may open nothing more; it says by its status whether all was well.
    fn where_none_is_left(then: fn() -> bool) {
        // SAFETY: the child calls the system only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: as above.
            unsafe {
                libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
                limit.rlim_cur = 64;
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
                while libc::dup(0) >= 0 {}
                libc::_exit(i32::from(!then()));
            }
        }
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child's status");
    }

    fn open_self() -> Result<Fd> {
        open(c(c"/proc/self/exe"), O_RDONLY, 0)
    }

    fn first_bytes() -> Result<[u8; 4]> {
        let mut bytes = [0; 4];
        let file = open_self()?;
        read(&file, &mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn a_file_is_read_although_no_descriptor_is_free() {
        where_none_is_left(|| {
            first_bytes() == Err(Errno::EMFILE) && with_descriptor(first_bytes) == Ok(*b"\x7fELF")
        });
    }

    #[test]
    fn the_programs_descriptors_and_signals_are_as_before_and_the_thread_is_gone() {
        where_none_is_left(|| {
            let (thread, mask) = (gettid(), sigmask(Mask::Block, 0));
            let mut done_by = 0;
            let done = with_descriptor(|| {
                done_by = gettid();
                first_bytes()
            });
            let open = |number: i32| {
                // SAFETY: asks for the flags of a descriptor.
                unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
            };
            done.is_ok()
                && done_by != thread
                && !thread_lives(getpid(), done_by)
                && sigmask(Mask::Block, 0) == mask
                && (0..3).all(open)
                && first_bytes() == Err(Errno::EMFILE)
        });
    }

    #[test]
    fn the_thread_has_nothing_of_the_programs_open() {
        where_none_is_left(|| {
            let open = || {
                // SAFETY: asks for the flags of descriptors.
                (0..64).filter(|number| unsafe { libc::fcntl(*number, libc::F_GETFD) >= 0 }).count()
            };
            let mut in_thread = 64;
            let done = with_descriptor(|| {
                let file = open_self()?;
                in_thread = open();
                drop(file);
                Ok(())
            });
            done.is_ok() && in_thread == 1 && open() == 64
        });
    }

    #[test]
    fn kernels_without_empty_tables_give_a_copy() {
        where_none_is_left(|| in_thread(first_bytes, Table::Copied) == Some(Ok(*b"\x7fELF")));
    }

    #[test]
    fn other_errors_and_successes_are_the_works_own() {
        let file = File::open("/proc/self/exe").expect("our own");
        let mut times = 0;
        let mut work = |outcome: Result<i32>| {
            with_descriptor(|| {
                times += 1;
                outcome
            })
        };
        assert_eq!(work(Err(Errno::ENOENT)), Err(Errno::ENOENT));
        assert_eq!(work(Ok(file.as_raw_fd())), Ok(file.as_raw_fd()));
        assert_eq!(times, 2);
    }
}
