//! The ptrace requests that attaching needs, one safe function each: the fence around `ptrace(2)`.
//!
//! Every function names the thread by its tid and turns errno into [`Errno`]. `ESRCH` is a normal answer at
//! any time: the thread may die between any two requests. No request here can break memory safety of the
//! *caller*: the pointers are to locals that outlive the call. What they do to the target is the business of
//! the modules above.
//!
//! nix covers about half of these requests (no signal masks, no rseq); one fence for all of them is easier to read.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

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
const PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG: libc::c_uint = 0x4211;

fn request(what: libc::c_uint, tid: Tid, addr: usize, data: usize) -> Result<libc::c_long, Errno> {
    // SAFETY: for every request used in this module the kernel reads and writes only the `data` object, which
    // the caller in this module keeps alive over the call and whose size is passed or fixed by the request.
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

/// What the kernel hands to a handler along with a signal.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct SignalInfo(libc::siginfo_t);

impl fmt::Debug for SignalInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignalInfo({}, {})", self.0.si_signo, self.0.si_code)
    }
}

impl SignalInfo {
    /// Its number.
    pub fn signal(&self) -> i32 {
        self.0.si_signo
    }

    /// A timer or a perf event of this thread sent it, as those of a sampler do: nobody waits for it in a system call.
    pub fn is_of_clock(&self) -> bool {
        const REAL_TIME: i32 = 32;
        // POLL_IN to POLL_HUP: what a file sends whose owner chose the signal. (The kernel's own SIGURG has another
        // code.)
        let by_file = (1..=6).contains(&self.0.si_code)
            && (self.0.si_signo >= REAL_TIME || [libc::SIGURG, libc::SIGSTKFLT].contains(&self.0.si_signo));
        self.0.si_code == libc::SI_TIMER || by_file || self.is_of_perf_event()
    }

    /// A perf event sent it: a sample of a sampler that lives in the thread.
    pub fn is_of_perf_event(&self) -> bool {
        /// `TRAP_PERF` of asm-generic/siginfo.h.
        const TRAP_PERF: i32 = 6;
        (self.0.si_signo, self.0.si_code) == (libc::SIGTRAP, TRAP_PERF)
    }
}

/// `PTRACE_PEEKSIGINFO`: signals that wait for a stopped thread itself, not those that wait for its process.
pub fn waiting_signals(tid: Tid) -> Result<Vec<SignalInfo>, Errno> {
    const PTRACE_PEEKSIGINFO: libc::c_uint = 0x4209;
    const MOST: usize = 64;
    /// `struct ptrace_peeksiginfo_args` of linux/ptrace.h.
    #[repr(C)]
    struct Wanted {
        offset: u64,
        flags: u32,
        count: i32,
    }
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut infos = vec![SignalInfo(unsafe { std::mem::zeroed() }); MOST];
    let wanted = Wanted { offset: 0, flags: 0, count: MOST as i32 };
    let count = request(PTRACE_PEEKSIGINFO, tid, &raw const wanted as usize, infos.as_mut_ptr() as usize)?;
    infos.truncate(count as usize);
    Ok(infos)
}

/// `PTRACE_GETSIGINFO`: of the signal that a stopped thread is about to get.
pub fn signal_info(tid: Tid) -> Result<SignalInfo, Errno> {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETSIGINFO, tid, 0, &raw mut info as usize)?;
    Ok(SignalInfo(info))
}

/// `PTRACE_SETSIGINFO`: replaces it. The thread must be about to get a signal of the same number.
pub fn set_signal_info(tid: Tid, info: &SignalInfo) -> Result<(), Errno> {
    let mut info = *info;
    request(libc::PTRACE_SETSIGINFO, tid, 0, &raw mut info.0 as usize).map(drop)
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

/// Whether a stopped thread has its system calls turned into signals (`PR_SET_SYSCALL_USER_DISPATCH`). Kernels before
/// 6.4 do not tell: EIO.
pub fn dispatches_calls(tid: Tid) -> Result<bool, Errno> {
    /// `struct ptrace_sud_config` of linux/ptrace.h.
    #[repr(C)]
    #[derive(Default)]
    struct Configuration {
        mode: u64,
        selector: u64,
        offset: u64,
        length: u64,
    }
    let mut c = Configuration::default();
    let size = size_of::<Configuration>();
    request(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tid, size, &raw mut c as usize)?;
    Ok(c.mode != 0)
}

/// Sends `signal` to one thread.
pub fn send(process: i32, tid: Tid, signal: i32) -> Result<(), Errno> {
    // SAFETY: tgkill takes three integers.
    match unsafe { libc::syscall(libc::SYS_tgkill, process, tid.0, signal) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}

/// A process that its number cannot stop to stand for, as long as this is kept (pidfd_open(2)).
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// The process that has this number now.
    ///
    /// # Errors
    /// It is gone, or the kernel is older than 5.3.
    pub fn open(pid: i32) -> Result<ProcessHandle, Errno> {
        // SAFETY: pidfd_open takes two integers.
        let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let descriptor = i32::try_from(opened).ok().filter(|fd| *fd >= 0).ok_or_else(Errno::last)?;
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows of it.
        Ok(ProcessHandle(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It has ended, or we may not.
    pub fn send(&self, signal: i32) -> Result<(), Errno> {
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: pidfd_send_signal takes integers and a pointer that may be null.
        match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), signal, no_info, 0) } {
            0 => Ok(()),
            _ => Err(Errno::last()),
        }
    }
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CPU nanoseconds of a process: of all its threads, also of those that have ended. A process that has ended
/// has a clock until somebody waits for it. `None`: it is gone.
pub fn cpu_ns(pid: i32) -> Option<u64> {
    /// The kernel's CPUCLOCK_SCHED: what the scheduler counts, to the nanosecond.
    const SCHEDULER: i32 = 2;
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live local; a number that is no clock is refused.
    let r = unsafe { libc::clock_gettime((!pid << 3) | SCHEDULER, &raw mut t) };
    let ns =
        u64::try_from(t.tv_sec).ok()?.checked_mul(1_000_000_000)?.checked_add(u64::try_from(t.tv_nsec).ok()?);
    ns.filter(|_| r == 0)
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

    /// SIGCHLD, SIGTERM, and SIGIO, by which [`signal_when_written`] tells.
    pub fn told() -> Signals {
        Signals::blocked(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGIO])
    }

    /// Blocks them from now on, so that [`Signals::wait`] gets them.
    fn blocked(numbers: &[i32]) -> Signals {
        // SAFETY: an all-zero sigset_t is an empty set on Linux, sigaddset writes within it, and the mask is
        // read from it.
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

/// From now on this process gets SIGIO when a file of `folder` is written to, as long as that is open (fcntl(2),
/// *File and directory change notification*). The end of such a watch costs nothing; that of inotify waits for some
/// milliseconds in the kernel.
///
/// # Errors
/// What the kernel says, which may be built without it.
pub fn signal_when_written(folder: BorrowedFd<'_>) -> io::Result<()> {
    // <linux/fcntl.h>; the crate libc has neither.
    const DN_MODIFY: u32 = 2;
    const DN_MULTISHOT: u32 = 0x8000_0000;
    let events = DN_MODIFY | DN_MULTISHOT;
    // SAFETY: the command takes a number; the descriptor lives as long as it is borrowed.
    match unsafe { libc::fcntl(folder.as_raw_fd(), libc::F_NOTIFY, events) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

thread_local! {
    /// A [`ChildSignal`] of this thread lives.
    static CHILD_SIGNAL_BLOCKED: Cell<bool> = const { Cell::new(false) };
}

/// Blocks SIGCHLD in this thread while it lives, so that a stop wakes [`ChildSignal::wait`] and is never missed.
/// One that is made while another one lives makes no system call.
pub struct ChildSignal {
    child: libc::sigset_t,
    /// The mask to set again; `None`: another one will.
    before: Option<libc::sigset_t>,
    /// It belongs to the thread that made it.
    _of_thread: PhantomData<*const ()>,
}

impl ChildSignal {
    /// Blocks it.
    pub fn block() -> ChildSignal {
        let is_blocked = CHILD_SIGNAL_BLOCKED.replace(true);
        // SAFETY: all-zero sets are empty sets on Linux; both are live locals.
        unsafe {
            let (mut child, mut before): (libc::sigset_t, libc::sigset_t) =
                (std::mem::zeroed(), std::mem::zeroed());
            libc::sigaddset(&raw mut child, libc::SIGCHLD);
            if !is_blocked {
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const child, &raw mut before);
            }
            ChildSignal { child, before: (!is_blocked).then_some(before), _of_thread: PhantomData }
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
        if let Some(before) = &self.before {
            CHILD_SIGNAL_BLOCKED.set(false);
            // SAFETY: the pointer is to a live set that the kernel filled.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::from_ref(before), std::ptr::null_mut())
            };
        }
    }
}

/// Raises the number of files that may be open as far as it goes: each sampled thread takes two, while there
/// are enough.
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

/// How many files may be open, as numbers of descriptors go.
pub fn most_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live local.
    let r = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if r == 0 { limit.rlim_cur } else { u64::MAX }
}

/// Whether a file could not be opened because no descriptor was free.
pub fn no_descriptor(why: &std::io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
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

/// Which traced thread has stopped or ended, and whether it has ended, without taking that: until [`wait`]
/// the kernel still tells what the thread used. `Ok(None)`: nothing has happened.
pub fn peek() -> Result<Option<(Tid, bool)>, Errno> {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: `info` is a live local; the kernel writes one siginfo.
    if unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, options) } != 0 {
        return Err(Errno::last());
    }
    // SAFETY: after waitid the siginfo has the fields of SIGCHLD, or is all zero.
    let tid = unsafe { info.si_pid() };
    let has_ended = !matches!(info.si_code, libc::CLD_TRAPPED | libc::CLD_STOPPED);
    Ok((tid != 0).then_some((Tid(tid), has_ended)))
}

/// What one traced thread is stopped by, without taking the stop: a signal that it is about to be given is
/// given to it should we die before it is resumed, which the kernel does not do once the stop was taken. The
/// end of a thread is taken.
pub fn peek_stop(tid: Tid) -> Result<Option<Stop>, Errno> {
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
