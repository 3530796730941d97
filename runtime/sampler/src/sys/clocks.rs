//! What makes samples due: POSIX timers, setitimer, perf events.

use super::files::O_NONBLOCK;
use super::{Fd, Result, call, check, nr};

/// A POSIX timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(pub i32);

/// Creates a timer whose expiry sends `signal` with `value`: to thread `tid`, or to the process.
///
/// # Errors
/// The kernel's.
pub fn timer_create(clock: i32, signal: i32, value: u64, tid: Option<u32>) -> Result<TimerId> {
    const SIGEV_SIGNAL: u64 = 0;
    const SIGEV_THREAD_ID: u64 = 4;
    let notify = if tid.is_some() { SIGEV_THREAD_ID } else { SIGEV_SIGNAL };
    // struct sigevent: value, signo and notify, tid.
    let event: [u64; 8] =
        [value, notify << 32 | signal as u32 as u64, u64::from(tid.unwrap_or(0)), 0, 0, 0, 0, 0];
    let mut id = 0i32;
    // SAFETY: the event has the 64 bytes of struct sigevent, the id is an int.
    check(unsafe {
        call(
            nr::TIMER_CREATE,
            [clock as isize as usize, event.as_ptr() as usize, (&raw mut id) as usize, 0, 0, 0],
        )
    })?;
    Ok(TimerId(id))
}

/// Starts a timer: first expiry and interval in ns; 0, 0 stops it.
///
/// # Errors
/// The kernel's.
pub fn timer_set(timer: TimerId, first_ns: u64, interval_ns: u64) -> Result<()> {
    let split = |ns: u64| [ns / 1_000_000_000, ns % 1_000_000_000];
    let ([is, in_], [fs, fn_]) = (split(interval_ns), split(first_ns));
    let spec = [is, in_, fs, fn_];
    // SAFETY: `spec` has the 32 bytes of struct itimerspec.
    check(unsafe { call(nr::TIMER_SETTIME, [timer.0 as usize, 0, spec.as_ptr() as usize, 0, 0, 0]) })
        .map(|_| ())
}

/// Nanoseconds until a timer expires; 0 = it is stopped, or the thread on whose clock it is has ended.
///
/// # Errors
/// The kernel's.
pub fn timer_left(timer: TimerId) -> Result<u64> {
    let mut spec = [0u64; 4];
    // SAFETY: `spec` has the 32 bytes of struct itimerspec.
    check(unsafe { call(nr::TIMER_GETTIME, [timer.0 as usize, spec.as_mut_ptr() as usize, 0, 0, 0, 0]) })?;
    let [_, _, seconds, ns] = spec;
    Ok(seconds * 1_000_000_000 + ns)
}

/// Deletes a timer.
pub fn timer_delete(timer: TimerId) {
    // SAFETY: no memory; a wrong id is refused.
    unsafe { call(nr::TIMER_DELETE, [timer.0 as usize, 0, 0, 0, 0, 0]) };
}

/// setitimer: `which` 0 real, 1 virtual, 2 prof; first expiry and interval in µs.
///
/// # Errors
/// The kernel's.
pub fn setitimer(which: i32, first_us: u64, interval_us: u64) -> Result<()> {
    let split = |us: u64| [us / 1_000_000, us % 1_000_000];
    let ([is, iu], [fs, fu]) = (split(interval_us), split(first_us));
    let spec = [is, iu, fs, fu];
    // SAFETY: `spec` has the 32 bytes of struct itimerval.
    check(unsafe { call(nr::SETITIMER, [which as usize, spec.as_ptr() as usize, 0, 0, 0, 0]) }).map(|_| ())
}

/// struct perf_event_attr, version 7 (128 bytes), as words.
pub type PerfAttr = [u64; 16];

/// Opens a perf event on a thread (0 = the caller), on one CPU or any, close-on-exec.
///
/// # Errors
/// The kernel's.
pub fn perf_event_open(attr: &PerfAttr, tid: u32, cpu: Option<u32>) -> Result<Fd> {
    const PERF_FLAG_FD_CLOEXEC: usize = 8;
    let cpu = cpu.map_or(usize::MAX, |cpu| cpu as usize);
    // SAFETY: `attr` says its size in its second half-word, 128 at most.
    let fd = unsafe {
        call(
            nr::PERF_EVENT_OPEN,
            [attr.as_ptr() as usize, tid as usize, cpu, usize::MAX, PERF_FLAG_FD_CLOEXEC, 0],
        )
    };
    check(fd).map(|fd| Fd(fd as i32))
}

/// Lets the event's file send `signal` to thread `tid`.
///
/// # Errors
/// The kernel's.
pub fn signal_owner(fd: &Fd, tid: u32, signal: i32) -> Result<()> {
    const F_SETFL: usize = 4;
    const F_SETSIG: usize = 10;
    const F_SETOWN_EX: usize = 15;
    const FASYNC: usize = 0o20_000;
    let owner = [0i32, tid as i32];
    let fcntl = |command: usize, argument: usize| {
        // SAFETY: the only pointer is `owner`, an f_owner_ex of 8 bytes.
        check(unsafe { call(nr::FCNTL, [fd.0 as usize, command, argument, 0, 0, 0]) })
    };
    fcntl(F_SETOWN_EX, owner.as_ptr() as usize)?;
    fcntl(F_SETSIG, signal as usize)?;
    fcntl(F_SETFL, FASYNC | O_NONBLOCK as usize)?;
    Ok(())
}

/// A perf event expires so many times more, and stops then.
///
/// # Errors
/// The kernel's.
pub fn limit_expiries(event: &Fd, expiries: u32) -> Result<()> {
    const PERF_EVENT_IOC_REFRESH: usize = 0x2402;
    // SAFETY: the argument is a number.
    let done =
        unsafe { call(nr::IOCTL, [event.0 as usize, PERF_EVENT_IOC_REFRESH, expiries as usize, 0, 0, 0]) };
    check(done).map(|_| ())
}
