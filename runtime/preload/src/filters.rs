//! Filters on system calls, and other limits that a program sets itself and our handlers would break: `prctl`,
//! `seccomp`, `seccomp_load`, `syscall`.
//!
//! A filter is looked into before it is in force ([`pct_sampler::sys::filter`]). If it lets our calls pass, all goes on
//! as before. If not, our handlers make no system call but their own return: the file is made and blocks are allocated
//! before. If it forbids that return too, sampling ends. If it would kill a process that starts to be sampled, the
//! programs that are executed under it are not.
//!
//! A filter that the program sets by an instruction of its own is not seen. Without root's rights it must give up new
//! privileges first (PR_SET_NO_NEW_PRIVS), so sampling pauses there. What cannot be known: a filter of root's, or of
//! a program that gives up its privileges by such an instruction too, or that was started without them.
//!
//! In a program that pct was loaded into while it ran, [`crate::late`] redirects its calls to here.
//!
//! Under three settings pct's handlers cannot run: the kernel's strict mode, dispatch of system calls by the program,
//! and a time stamp counter whose reading is a fault. Sampling ends before one of them is in force. If the program
//! makes such a setting by a system call instruction of its own, nobody tells us, and our next handler ends the
//! program.
//!
//! Signal safety: as the functions' own; all of it runs before the host's call.

use core::sync::atomic::{AtomicBool, Ordering};

use pct_format::OffFor;
use pct_sampler::process::session::{self, Session};
use pct_sampler::process::{leaving, life, report, secure, threads, watch};
use pct_sampler::sys::filter;

use crate::host::{Real, real};
use crate::jump::jump_after;
#[cfg(all(feature = "waits", target_arch = "x86_64"))]
use crate::jump::jump_code;
use crate::process::{before_less_rights, own};
use crate::still_allowed;

/// Sampling is off since the program gave up new privileges ([`before_unseen_filter`]).
static PAUSED: AtomicBool = AtomicBool::new(false);
/// The filter comes by libseccomp, whose calls pass through us.
static EXPECTED: AtomicBool = AtomicBool::new(false);
/// A filter that is in force would kill a process that starts to be sampled.
static NO_STARTS: AtomicBool = AtomicBool::new(false);

/// Whether a program that is executed now would be killed if it were sampled.
pub(crate) fn starts_would_kill() -> bool {
    NO_STARTS.load(Ordering::Relaxed)
}

/// Whether a child of vfork calls: it has its parent's memory, but what it sets is its own.
fn is_vfork_child() -> bool {
    // In a pause a filter that forbids the question may be in force, unseen. But here the pause is about to end, with
    // many more system calls.
    let asked = |session: &Session| session.pid.load(Ordering::Relaxed) != pct_sampler::sys::getpid();
    session::current().is_some_and(|s| own().is_none() || PAUSED.load(Ordering::Relaxed) && asked(s))
}

/// Before a filter on system calls. `program` is its `struct sock_fprog`.
fn before_filter(program: usize) {
    // Under an earlier filter that kills we may not even look.
    if starts_would_kill() || is_vfork_child() {
        return;
    }
    // The kernel will refuse one that cannot be read: programs ask so whether filters are known to it.
    let Some(verdict) = filter::of_program(program) else { return };
    if !verdict.starts_are_safe {
        NO_STARTS.store(true, Ordering::Relaxed);
        if session::seed().options.follow.exec && verdict.lets_execute {
            report::report(b"its filter on system calls would kill a sampled program: what it executes from then on is not sampled");
        }
    }
    if session::current().is_none() && PAUSED.load(Ordering::Relaxed) && verdict.handlers_return {
        // The child of a fork, which began after the pause.
        PAUSED.store(false, Ordering::Relaxed);
        life::end_pause_in_child();
    }
    let Some(session) = own() else { return };
    still_allowed::narrow(verdict, session.may_call() || PAUSED.load(Ordering::Relaxed));
    if verdict.handlers_return {
        if PAUSED.swap(false, Ordering::Relaxed) {
            life::resume(session);
        }
        before_less_rights();
        if session.may_call() {
            threads::settle_periods(session);
            let _alone = session::alone();
            secure::secure_memory(session);
        }
        if !verdict.calls_are_safe {
            session.forbid_calls();
        }
    } else if life::pause(session, OffFor::Filter) || PAUSED.swap(false, Ordering::Relaxed) {
        report::report_outside(b"the program's filter on system calls forbids the return from a signal handler: sampling ends there");
    }
}

/// Before the kernel's strict mode: the thread may read, write, return from handlers and end, and on x86-64 reading the
/// time stamp counter faults in it.
fn before_strict_mode() {
    NO_STARTS.store(true, Ordering::Relaxed);
    end_for(OffFor::StrictMode, b"the program enters seccomp's strict mode: sampling ends there");
}

/// Before the program turns its system calls into signals, all but those from a range of code, while a byte of its
/// memory says so (Wine and emulators do). Our calls, and the return from handlers, come from outside of that range.
fn before_dispatch() {
    end_for(
        OffFor::Dispatch,
        b"the program turns its system calls into signals (PR_SET_SYSCALL_USER_DISPATCH): sampling ends there",
    );
}

/// Before reading the processor's time stamp counter becomes a fault.
fn before_counter_faults() {
    let cause = b"the program forbids itself to read the time stamp counter: sampling ends there";
    end_for(OffFor::NoCounter, cause);
}

/// Before a setting under which pct's handlers cannot run: sampling ends for good. Under an earlier filter on system
/// calls the clocks cannot be stopped any more.
fn end_for(why: OffFor, cause: &[u8]) {
    let Some(session) = own() else { return };
    still_allowed::end();
    if PAUSED.swap(false, Ordering::Relaxed) {
        // A pause would end as soon as a filter is seen. Until then nobody may be told but the file.
        return life::note_off_for(session, Some(why));
    }
    if !session.may_call() {
        return;
    }
    if life::pause(session, why) {
        report::report(cause);
    }
    session.forbid_calls();
}

/// Before the program gives up new privileges, as it must before a filter unless it is root's. If the filter comes
/// through us, sampling goes on. If it comes by an instruction of the program's own, nobody tells us, and our next
/// call would end the process. So sampling pauses until a filter is seen or another program is executed.
fn before_unseen_filter() {
    still_allowed::end();
    if !EXPECTED.load(Ordering::Relaxed)
        && let Some(session) = own().filter(|s| s.may_call())
        && life::pause(session, OffFor::UnseenFilter)
    {
        PAUSED.store(true, Ordering::Relaxed);
        report::report(
            b"it gives up new privileges: sampling pauses until its filter on system calls is seen, or it executes a program",
        );
    }
}

/// Before landlock's limits on files, for which new privileges must be given up too (xz does). What the
/// sampler still has to open is opened now. Sampling goes on: a program that also sets a filter by an
/// instruction of its own is not known.
fn before_landlock() {
    let Some(session) = own().filter(|_| !is_vfork_child()) else { return };
    if PAUSED.swap(false, Ordering::Relaxed) {
        life::resume(session);
    }
    before_less_rights();
}

const PR_SET_SECCOMP: usize = 22;
#[cfg(target_arch = "x86_64")]
const SYS_SECCOMP: usize = 317;
#[cfg(target_arch = "aarch64")]
const SYS_SECCOMP: usize = 277;
/// The same on all machines.
#[cfg(target_arch = "x86_64")]
const SYS_EXECVE: usize = 59;
#[cfg(target_arch = "x86_64")]
const SYS_EXECVEAT: usize = 322;
#[cfg(target_arch = "aarch64")]
const SYS_EXECVE: usize = 221;
#[cfg(target_arch = "aarch64")]
const SYS_EXECVEAT: usize = 281;
#[cfg(target_arch = "x86_64")]
const SYS_CLONE: usize = 56;
#[cfg(target_arch = "aarch64")]
const SYS_CLONE: usize = 220;
const SYS_CLONE3: usize = 435;
const SYS_LANDLOCK_RESTRICT_SELF: usize = 446;
#[cfg(target_arch = "x86_64")]
const SYS_PRCTL: usize = 157;
#[cfg(target_arch = "aarch64")]
const SYS_PRCTL: usize = 167;
#[cfg(target_arch = "x86_64")]
const SYS_RT_SIGACTION: usize = 13;
#[cfg(target_arch = "aarch64")]
const SYS_RT_SIGACTION: usize = 134;
const SECCOMP_SET_MODE_STRICT: u32 = 0;
const SECCOMP_SET_MODE_FILTER: u32 = 1;

const PR_SET_TSC: usize = 26;
const PR_TSC_SIGSEGV: usize = 2;

const PR_SET_NO_NEW_PRIVS: usize = 38;

const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
const PR_SYS_DISPATCH_OFF: usize = 0;

pub(crate) extern "C" fn before_prctl(_: usize, option: usize, value: usize, program: usize) -> usize {
    look_at_prctl(option, value, program);
    real(Real::Prctl)
}

fn look_at_prctl(option: usize, value: usize, program: usize) {
    const SECCOMP_MODE_STRICT: usize = 1;
    match option as u32 as usize {
        PR_SET_SECCOMP if value == SECCOMP_MODE_STRICT => before_strict_mode(),
        PR_SET_SECCOMP => before_filter(program.max(1)),
        PR_SET_NO_NEW_PRIVS if value == 1 => before_unseen_filter(),
        PR_SET_TSC if value == PR_TSC_SIGSEGV => before_counter_faults(),
        PR_SET_SYSCALL_USER_DISPATCH if value != PR_SYS_DISPATCH_OFF => before_dispatch(),
        _ => {}
    }
}

pub(crate) extern "C" fn before_syscall(
    _: usize,
    number: usize,
    first: usize,
    second: usize,
    third: usize,
) -> usize {
    match number {
        SYS_RT_SIGACTION if second != 0 => crate::signals::taken_by_system_call(first as i32),
        SYS_SECCOMP => look_at_seccomp(first, second, third),
        SYS_PRCTL => look_at_prctl(first, second, third),
        SYS_LANDLOCK_RESTRICT_SELF => before_landlock(),
        SYS_CLONE => crate::threads::before_clone_with(first),
        // Its flags are in the host's memory, and the address may lead nowhere.
        SYS_CLONE3 => watch::expect_unseen_threads(),
        SYS_EXECVE | SYS_EXECVEAT => {
            if let Some(session) = own() {
                leaving::before_bare_exec(session);
            }
        }
        _ => {}
    }
    real(Real::Syscall)
}

/// What `syscall` does where `locks` exports it, with a number that is not the one of `futex`.
///
/// # Safety
/// As libc's `syscall`.
#[cfg(all(feature = "waits", target_arch = "x86_64"))]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn other_system_call() {
    jump_code!(before_syscall, 0)
}

fn look_at_seccomp(operation: usize, flags: usize, program: usize) {
    match operation as u32 {
        // With flags the kernel refuses it: libseccomp asks so whether there is such a call.
        SECCOMP_SET_MODE_STRICT if flags == 0 && program == 0 => before_strict_mode(),
        SECCOMP_SET_MODE_FILTER => before_filter(program.max(1)),
        _ => {}
    }
}

extern "C" fn before_seccomp(_: usize, operation: usize, flags: usize, program: usize) -> usize {
    look_at_seccomp(operation, flags, program);
    real(Real::Seccomp)
}

/// libseccomp installs its filter by `prctl` and `syscall`, where it is looked at.
pub(crate) extern "C" fn before_load(_: usize) -> usize {
    EXPECTED.store(true, Ordering::Relaxed);
    before_less_rights();
    real(Real::SeccompLoad)
}

jump_after!(prctl, before_prctl, 0);
#[cfg(not(all(feature = "waits", target_arch = "x86_64")))]
jump_after!(syscall, before_syscall, 0);
jump_after!(seccomp, before_seccomp, 0);
jump_after!(seccomp_load, before_load, 0);
