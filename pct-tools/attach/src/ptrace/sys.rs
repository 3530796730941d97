//! The ptrace requests that attaching needs, one safe function each: the fence around `ptrace(2)`.
//!
//! Every function names the thread by its tid and turns errno into [`Errno`]. `ESRCH` is a normal answer at any time: the
//! thread may die between any two requests. No request here can break memory safety of the *caller*: the pointers are to
//! locals that outlive the call. What they do to the target is the business of the modules above.
//!
//! nix covers about half of these requests (no signal masks, no rseq); one fence for all of them is easier to read.

use std::fmt;
use std::io;

/// A kernel thread id of the target, as this process's pid namespace numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tid(pub i32);

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An error number of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// The thread is gone, or not stopped.
    pub fn is_gone(self) -> bool {
        self.0 == libc::ESRCH
    }

    fn last() -> Self {
        Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

impl std::error::Error for Errno {}

/// The general registers, as `NT_PRSTATUS` lays them out.
pub type Regs = libc::user_regs_struct;

const NT_PRSTATUS: usize = 1;
const NT_X86_XSTATE: usize = 0x202;
/// Room for the extended state: AVX-512 takes 2.7 KiB, AMX 11 KiB.
const XSTATE_ROOM: usize = 16 << 10;
const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;
const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;

fn request(what: libc::c_uint, tid: Tid, addr: usize, data: usize) -> Result<libc::c_long, Errno> {
    // SAFETY: for every request used in this module the kernel reads and writes only the `data` object, which the caller
    // in this module keeps alive over the call and whose size is passed or fixed by the request.
    let r = unsafe { libc::ptrace(what, tid.0, addr, data) };
    if r == -1 { Err(Errno::last()) } else { Ok(r) }
}

/// `PTRACE_SEIZE`: traces the thread without stopping it. `options` are `PTRACE_O_*`.
pub fn seize(tid: Tid, options: i32) -> Result<(), Errno> {
    request(libc::PTRACE_SEIZE, tid, 0, options as usize).map(drop)
}

/// `PTRACE_SETOPTIONS` of a stopped thread.
pub fn set_options(tid: Tid, options: i32) -> Result<(), Errno> {
    request(libc::PTRACE_SETOPTIONS, tid, 0, options as usize).map(drop)
}

/// `PTRACE_INTERRUPT`: asks a seized thread to stop; the stop is reported to [`wait`].
pub fn interrupt(tid: Tid) -> Result<(), Errno> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0).map(drop)
}

/// `PTRACE_CONT` with `signal` (0: none) delivered.
pub fn cont(tid: Tid, signal: i32) -> Result<(), Errno> {
    request(libc::PTRACE_CONT, tid, 0, signal as usize).map(drop)
}

/// `PTRACE_SYSCALL`: runs to the next entry to or exit from a system call.
pub fn syscall(tid: Tid, signal: i32) -> Result<(), Errno> {
    request(libc::PTRACE_SYSCALL, tid, 0, signal as usize).map(drop)
}

/// `PTRACE_LISTEN`: leaves a group-stopped thread stopped, but reports what happens to it.
pub fn listen(tid: Tid) -> Result<(), Errno> {
    request(libc::PTRACE_LISTEN, tid, 0, 0).map(drop)
}

/// `PTRACE_DETACH`, delivering `signal` (0: none). The thread must be in a ptrace stop.
pub fn detach(tid: Tid, signal: i32) -> Result<(), Errno> {
    request(libc::PTRACE_DETACH, tid, 0, signal as usize).map(drop)
}

/// Registers of zeros.
pub fn no_regs() -> Regs {
    // SAFETY: all-zero registers are a valid value of a plain struct of integers.
    unsafe { std::mem::zeroed() }
}

/// The general registers of a stopped thread.
pub fn regs(tid: Tid) -> Result<Regs, Errno> {
    let mut regs = no_regs();
    let mut iov = libc::iovec { iov_base: (&raw mut regs).cast(), iov_len: size_of::<Regs>() };
    request(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, &raw mut iov as usize)?;
    Ok(regs)
}

/// Sets the general registers of a stopped thread: the one call that commits a prepared chain.
pub fn set_regs(tid: Tid, regs: &Regs) -> Result<(), Errno> {
    let mut regs = *regs;
    let mut iov = libc::iovec { iov_base: (&raw mut regs).cast(), iov_len: size_of::<Regs>() };
    request(libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, &raw mut iov as usize).map(drop)
}

/// The whole extended state (x87, SSE, AVX, AMX...) in the kernel's standard format; its length is the kernel's.
pub fn xstate(tid: Tid) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0u8; XSTATE_ROOM];
    let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    request(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, &raw mut iov as usize)?;
    bytes.truncate(iov.iov_len);
    Ok(bytes)
}

/// Sets the whole extended state, as [`xstate`] gave it.
pub fn set_xstate(tid: Tid, bytes: &[u8]) -> Result<(), Errno> {
    let mut bytes = bytes.to_vec();
    let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    request(libc::PTRACE_SETREGSET, tid, NT_X86_XSTATE, &raw mut iov as usize).map(drop)
}

/// The blocked signals of a stopped thread: bit n-1 is signal n.
pub fn sigmask(tid: Tid) -> Result<u64, Errno> {
    let mut mask = 0u64;
    request(PTRACE_GETSIGMASK, tid, size_of::<u64>(), &raw mut mask as usize)?;
    Ok(mask)
}

/// Sets the blocked signals of a stopped thread.
pub fn set_sigmask(tid: Tid, mask: u64) -> Result<(), Errno> {
    let mut mask = mask;
    request(PTRACE_SETSIGMASK, tid, size_of::<u64>(), &raw mut mask as usize).map(drop)
}

/// What the last event is about: the new tid of a clone or fork, the old tid at an exec.
pub fn event_message(tid: Tid) -> Result<u64, Errno> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut message as usize)?;
    Ok(message)
}

/// The address of the thread's `struct rseq`, when it has registered one (kernel >= 5.13).
pub fn rseq_area(tid: Tid) -> Result<Option<u64>, Errno> {
    /// `struct ptrace_rseq_configuration` of linux/ptrace.h.
    #[repr(C)]
    #[derive(Default)]
    struct Configuration {
        pointer: u64,
        size: u32,
        signature: u32,
        flags: u32,
        pad: u32,
    }
    let mut c = Configuration::default();
    request(PTRACE_GET_RSEQ_CONFIGURATION, tid, size_of::<Configuration>(), &raw mut c as usize)?;
    Ok((c.pointer != 0).then_some(c.pointer))
}

/// Sends `signal` to one thread.
pub fn send(process: i32, tid: Tid, signal: i32) -> Result<(), Errno> {
    // SAFETY: tgkill takes three integers.
    match unsafe { libc::syscall(libc::SYS_tgkill, process, tid.0, signal) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// A set of signals that a controller waits for instead of handling them.
#[derive(Clone, Copy)]
pub struct Signals(libc::sigset_t);

impl fmt::Debug for Signals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signals")
    }
}

impl Signals {
    /// SIGCHLD, which tells of stops, and those that end a controller politely.
    pub fn control() -> Signals {
        Signals::blocked(&[libc::SIGCHLD, libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
    }

    /// SIGCHLD alone: the others have handlers.
    pub fn child() -> Signals {
        Signals::blocked(&[libc::SIGCHLD])
    }

    /// Blocks them from now on, so that [`Signals::wait`] gets them.
    fn blocked(numbers: &[i32]) -> Signals {
        // SAFETY: an all-zero sigset_t is an empty set on Linux, sigaddset writes within it, and the mask is read from it.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            for s in numbers {
                libc::sigaddset(&raw mut set, *s);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            Signals(set)
        }
    }

    /// Lets them through again.
    pub fn unblock(self) {
        // SAFETY: the pointer is to a live set; no old mask is asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const self.0, std::ptr::null_mut()) };
    }

    /// Waits for one of them at most `ns`; its number.
    pub fn wait(&self, ns: u64) -> Option<i32> {
        let t = libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
        // SAFETY: both pointers are to live objects; no siginfo is asked for.
        let r = unsafe { libc::sigtimedwait(&raw const self.0, std::ptr::null_mut(), &raw const t) };
        (r > 0).then_some(r)
    }
}

/// Blocks SIGCHLD in this thread while it lives, so that a stop wakes [`ChildSignal::wait`] and is never missed.
pub struct ChildSignal {
    child: libc::sigset_t,
    before: libc::sigset_t,
}

impl ChildSignal {
    /// Blocks it.
    pub fn block() -> ChildSignal {
        // SAFETY: all-zero sets are empty sets on Linux; both are live locals.
        unsafe {
            let (mut child, mut before): (libc::sigset_t, libc::sigset_t) =
                (std::mem::zeroed(), std::mem::zeroed());
            libc::sigaddset(&raw mut child, libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const child, &raw mut before);
            ChildSignal { child, before }
        }
    }

    /// Waits for it at most `ns`.
    pub fn wait(&self, ns: u64) {
        let t = libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
        // SAFETY: both pointers are to live objects; no siginfo is asked for.
        unsafe { libc::sigtimedwait(&raw const self.child, std::ptr::null_mut(), &raw const t) };
    }
}

impl Drop for ChildSignal {
    fn drop(&mut self) {
        // SAFETY: the pointer is to a live set that the kernel filled.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Raises the number of files that may be open as far as it goes: each sampled thread takes two.
pub fn many_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live local in both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// How a traced thread stopped or ended, told from its wait status alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// By [`interrupt`], or the first stop of a new task that is traced automatically.
    Interrupted,
    /// The whole process is stopped by this job-control signal.
    Group(i32),
    /// A signal is about to be delivered: it must be passed on at the next resume, unless it is ours.
    Signal(i32),
    /// Entry to or exit from a system call.
    Syscall,
    /// A `PTRACE_EVENT_*` (fork, vfork, clone, exec, vfork done, exit).
    Event(i32),
    /// The thread ended with this status.
    Exited(i32),
    /// The thread was killed by this signal.
    Killed(i32),
}

impl Stop {
    /// Reads a wait status. `PTRACE_O_TRACESYSGOOD` must be set for system call stops to be told from SIGTRAP.
    pub fn of_status(status: i32) -> Stop {
        if libc::WIFEXITED(status) {
            return Stop::Exited(libc::WEXITSTATUS(status));
        }
        if libc::WIFSIGNALED(status) {
            return Stop::Killed(libc::WTERMSIG(status));
        }
        let signal = (status >> 8) & 0xff;
        match status >> 16 {
            0 if signal == libc::SIGTRAP | 0x80 => Stop::Syscall,
            0 => Stop::Signal(signal),
            libc::PTRACE_EVENT_STOP => match signal {
                libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => Stop::Group(signal),
                _ => Stop::Interrupted,
            },
            event => Stop::Event(event),
        }
    }

    /// The thread is gone and no further request on it makes sense.
    pub fn is_end(self) -> bool {
        matches!(self, Stop::Exited(_) | Stop::Killed(_))
    }
}

/// `waitpid` without blocking: `Ok(None)` when nothing has happened. `tid` `None` waits for any traced thread.
pub fn wait(tid: Option<Tid>) -> Result<Option<(Tid, Stop)>, Errno> {
    let mut status = 0;
    // SAFETY: `status` is a live local; the kernel writes one int.
    let r = unsafe { libc::waitpid(tid.map_or(-1, |t| t.0), &raw mut status, libc::__WALL | libc::WNOHANG) };
    match r {
        -1 => Err(Errno::last()),
        0 => Ok(None),
        t => Ok(Some((Tid(t), Stop::of_status(status)))),
    }
}

/// What one traced thread is stopped by, without taking the stop: a signal that it is about to be given is given to it should we
/// die before it is resumed, which the kernel does not do once the stop was taken. The end of a thread is taken.
pub fn look(tid: Tid) -> Result<Option<Stop>, Errno> {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: `info` is a live local; the kernel writes one siginfo.
    if unsafe { libc::waitid(libc::P_PID, tid.0 as libc::id_t, &raw mut info, options) } != 0 {
        return Err(Errno::last());
    }
    // SAFETY: after waitid the siginfo has the fields of SIGCHLD, or is all zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    match info.si_code {
        _ if pid == 0 => Ok(None),
        libc::CLD_TRAPPED | libc::CLD_STOPPED => Ok(Some(Stop::of_status((status << 8) | 0x7f))),
        _ => Ok(wait(Some(tid))?.map(|(_, stop)| stop)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_told_by_event_and_signal_only() {
        let stopped = |event: i32, signal: i32| (event << 16) | (signal << 8) | 0x7f;
        assert_eq!(Stop::of_status(stopped(128, libc::SIGTRAP)), Stop::Interrupted);
        assert_eq!(Stop::of_status(stopped(128, libc::SIGSTOP)), Stop::Group(libc::SIGSTOP));
        assert_eq!(Stop::of_status(stopped(0, libc::SIGTRAP | 0x80)), Stop::Syscall);
        assert_eq!(Stop::of_status(stopped(0, libc::SIGTRAP)), Stop::Signal(libc::SIGTRAP));
        assert_eq!(Stop::of_status(stopped(0, libc::SIGSTOP)), Stop::Signal(libc::SIGSTOP));
        assert_eq!(Stop::of_status(stopped(libc::PTRACE_EVENT_FORK, libc::SIGTRAP)), Stop::Event(1));
        assert_eq!(Stop::of_status(3 << 8), Stop::Exited(3));
        assert_eq!(Stop::of_status(9), Stop::Killed(9));
    }
}
