//! Signals: actions, masks, what is pending, and sending.

use super::{Result, call, check, getpid, gettid, nr};

/// A set of signals: bit n-1 is signal n.
pub type SignalSet = u64;

/// The set of one signal; empty for a number that no signal has.
#[must_use]
pub const fn signal_bit(signal: i32) -> SignalSet {
    if signal >= 1 && signal <= 64 { 1 << (signal - 1) } else { 0 }
}

/// Number of the signal for memory that is mapped and cannot be had.
pub const SIGBUS: i32 = 7;
/// A trap: of a breakpoint, or of a perf event.
pub const SIGTRAP: i32 = 5;
/// Urgent data; ignored by default.
pub const SIGURG: i32 = 23;

/// As a handler: the default action.
pub const SIG_DFL: usize = 0;
/// As a handler: the signal is ignored.
pub const SIG_IGN: usize = 1;

/// SIGILL, SIGBUS, SIGFPE and SIGSEGV: blocked or not, a fault comes, and a blocked one kills.
pub const FAULTS: SignalSet = signal_bit(4) | signal_bit(SIGBUS) | signal_bit(8) | signal_bit(11);

/// SIGCHLD, SIGCONT, SIGURG and SIGWINCH: a process that has set no action for them does not notice them.
pub const IGNORED_BY_DEFAULT: SignalSet =
    signal_bit(17) | signal_bit(18) | signal_bit(SIGURG) | signal_bit(28);

/// What the kernel holds for a signal.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SigAction {
    /// Handler's address; 0 default, 1 ignore.
    pub handler: usize,
    /// SA_* flags.
    pub flags: u64,
    /// Address of the return trampoline (x86-64).
    pub restorer: usize,
    /// Signals blocked while it runs.
    pub mask: SignalSet,
}

/// Handler takes siginfo and context.
pub const SA_SIGINFO: u64 = 4;
/// Runs on the alternate stack if the thread has one.
pub const SA_ONSTACK: u64 = 0x0800_0000;
/// Interrupted calls go on.
pub const SA_RESTART: u64 = 0x1000_0000;
/// Has a restorer.
#[cfg(target_arch = "x86_64")]
pub const SA_RESTORER: u64 = 0x0400_0000;
/// No restorer on this machine.
#[cfg(target_arch = "aarch64")]
pub const SA_RESTORER: u64 = 0;
/// Not blocked while its handler runs.
pub const SA_NODEFER: u64 = 0x4000_0000;
/// One shot.
pub const SA_RESETHAND: u64 = 0x8000_0000;

/// Reads, and perhaps sets, the kernel's action of a signal.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// A handler that is set must be right to run at any instant in any thread.
pub unsafe fn sigaction(signal: i32, new: Option<&SigAction>) -> Result<SigAction> {
    let mut old = SigAction::default();
    let new = new.map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: both are kernel_sigaction structures (x86-64 and aarch64 have the same), or null; the handler is the
    // caller's promise.
    check(unsafe {
        call(nr::RT_SIGACTION, [signal as usize, new as usize, (&raw mut old) as usize, 8, 0, 0])
    })?;
    Ok(old)
}

/// How to change the mask.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum Mask {
    /// Adds.
    Block = 0,
    /// Takes away.
    Unblock = 1,
    /// Replaces.
    Set = 2,
}

/// Changes the thread's signal mask; gives the old one.
pub fn sigmask(how: Mask, set: SignalSet) -> SignalSet {
    let mut old: SignalSet = 0;
    // SAFETY: both sets have 8 bytes.
    unsafe {
        call(nr::RT_SIGPROCMASK, [how as usize, (&raw const set) as usize, (&raw mut old) as usize, 8, 0, 0])
    };
    old
}

/// A thread's alternate stack: `stack_t` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlternateStack {
    /// Lowest address.
    pub at: usize,
    /// SS_* flags.
    pub flags: i32,
    /// Size.
    pub bytes: usize,
}

/// [`AlternateStack::flags`] of a thread without an alternate stack.
pub const SS_DISABLE: i32 = 2;

impl AlternateStack {
    /// What a thread has that set none.
    pub const NONE: Self = AlternateStack { at: 0, flags: SS_DISABLE, bytes: 0 };
}

/// Sets the thread's alternate stack; gives the one that it had.
///
/// # Errors
/// The kernel's: the thread is on the one that it has.
///
/// # Safety
/// Nobody else uses the new stack, and it stays mapped while the thread has it.
pub unsafe fn set_alternate_stack(new: &AlternateStack) -> Result<AlternateStack> {
    let mut old = AlternateStack::NONE;
    // SAFETY: two stack_t; the stack itself is the caller's promise.
    check(unsafe {
        call(nr::SIGALTSTACK, [core::ptr::from_ref(new).addr(), (&raw mut old).addr(), 0, 0, 0, 0])
    })?;
    Ok(old)
}

/// A siginfo_t, as the kernel fills it.
pub type RawInfo = [u64; 16];

/// Takes one pending signal of `set` away without waiting.
pub fn take_pending_info(set: SignalSet) -> Option<RawInfo> {
    let mut info: RawInfo = [0; 16];
    let zero = [0u64; 2];
    // SAFETY: the set has 8 bytes, the timeout 16, the siginfo 128.
    let r = unsafe {
        call(
            nr::RT_SIGTIMEDWAIT,
            [(&raw const set) as usize, info.as_mut_ptr() as usize, zero.as_ptr() as usize, 8, 0, 0],
        )
    };
    (r > 0).then_some(info)
}

/// Signals that wait for this thread to unblock them.
pub fn pending() -> SignalSet {
    let mut set: SignalSet = 0;
    // SAFETY: the set has 8 bytes.
    unsafe { call(nr::RT_SIGPENDING, [(&raw mut set) as usize, 8, 0, 0, 0, 0]) };
    set
}

/// Takes one pending signal of `set` away without waiting; whether there was one.
pub fn take_pending(set: SignalSet) -> bool {
    let zero = [0u64; 2];
    // SAFETY: the set has 8 bytes, the timeout 16; no siginfo is wanted.
    let r =
        unsafe { call(nr::RT_SIGTIMEDWAIT, [(&raw const set) as usize, 0, zero.as_ptr() as usize, 8, 0, 0]) };
    r > 0
}

/// Sends a signal to a thread of this process.
///
/// # Errors
/// The kernel's.
pub fn tgkill(pid: u32, tid: u32, signal: i32) -> Result<()> {
    // SAFETY: a signal, no memory.
    check(unsafe { call(nr::TGKILL, [pid as usize, tid as usize, signal as usize, 0, 0, 0]) }).map(|_| ())
}

/// Sends a signal of this process once more, to whom it was for: to the calling thread (`si_code` of tkill),
/// or to the process.
///
/// # Safety
/// `info` is a siginfo_t with this signal and `code`.
pub unsafe fn send_again(signal: i32, info: *const u8, code: i32) {
    const SI_TKILL: i32 = -6;
    let (pid, signal, info) = (getpid() as usize, signal as usize, info as usize);
    // SAFETY: the kernel reads the siginfo of 128 bytes.
    unsafe {
        if code == SI_TKILL {
            call(nr::RT_TGSIGQUEUEINFO, [pid, gettid() as usize, signal, info, 0, 0]);
        } else if check(call(nr::RT_SIGQUEUEINFO, [pid, signal, info, 0, 0, 0])).is_err() {
            // Only the first thread may say that a signal is of kill(2): the sender becomes this process.
            call(nr::KILL, [pid, signal, 0, 0, 0, 0]);
        }
    }
}

/// Sleeps for `ns`, less than a second; shorter if a signal comes. (By a call that is made anyway: a filter
/// that knows our system calls knows no other.)
pub fn sleep(ns: u64) {
    let (nothing, time): (SignalSet, [u64; 2]) = (0, [0, ns.min(999_999_999)]);
    // SAFETY: the set has 8 bytes, the timeout 16; no siginfo is wanted.
    unsafe { call(nr::RT_SIGTIMEDWAIT, [(&raw const nothing) as usize, 0, time.as_ptr() as usize, 8, 0, 0]) };
}
