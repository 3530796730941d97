//! Raw time of records, and the anchors that tie it to the kernel's clocks.
//!
//! Where the kernel itself keeps time by the processor's counter, raw time is that counter (10 ns a read);
//! elsewhere it is CLOCK_MONOTONIC through the vdso, found by our own symbol search (22 ns), or by system
//! call.
//!
//! Signal safety: an instruction, a vdso function without locks, or one system call.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::sys::loaded::Loaded;
use crate::{sys, sys::arch};
use pct_elf::Image;
use pct_format::{Anchor, TimeSource};

/// 0: the counter. 1: CLOCK_MONOTONIC.
static SOURCE: AtomicU8 = AtomicU8::new(0);
/// Address of the vdso's clock_gettime, 0 = none.
static VDSO: AtomicUsize = AtomicUsize::new(0);

/// Raw time now; never 0.
#[inline(always)]
#[must_use]
pub fn now() -> u64 {
    if SOURCE.load(Ordering::Relaxed) == 0 {
        arch::counter()
    } else {
        core::hint::cold_path();
        monotonic_ns()
    }
}

/// CLOCK_MONOTONIC in ns.
#[must_use]
pub fn monotonic_ns() -> u64 {
    clock_ns(sys::CLOCK_MONOTONIC)
}

fn clock_ns(clock: i32) -> u64 {
    let function = VDSO.load(Ordering::Relaxed);
    if function == 0 {
        return sys::clock_ns(clock);
    }
    let mut time = [0u64; 2];
    // SAFETY: the address is that of the vdso's clock_gettime(clockid_t, struct timespec *).
    let call: extern "C" fn(i32, *mut u64) -> i32 = unsafe { core::mem::transmute(function) };
    call(clock, time.as_mut_ptr());
    time[0] * 1_000_000_000 + time[1]
}

/// What raw times are.
#[must_use]
pub fn source() -> TimeSource {
    if SOURCE.load(Ordering::Relaxed) == 0 { arch::COUNTER } else { TimeSource::MonotonicNs }
}

/// Remembers the vdso (address of its ELF header, 0 = none).
pub fn set_vdso(base: u64) {
    if base == 0 {
        return;
    }
    // SAFETY: the kernel maps the vdso whole and for good.
    let memory = unsafe { Loaded::new() };
    let symbols = Image::at_base(&memory, base).and_then(|image| image.symbols(&memory));
    let found = symbols.and_then(|symbols| {
        let clock = symbols.find(&memory, b"__vdso_clock_gettime");
        clock.or_else(|| symbols.find(&memory, b"__kernel_clock_gettime"))
    });
    VDSO.store(found.map_or(0, |clock| clock.address) as usize, Ordering::Relaxed);
}

/// Decides the time source by what the kernel itself uses.
pub fn choose_source() {
    let mut buffer = [0u8; 32];
    let path = sys::c(c"/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let counter = match sys::read_file(path, &mut buffer) {
        Ok(name) => name.starts_with(b"tsc") || name.starts_with(b"arch_sys_counter"),
        Err(_) => false,
    };
    SOURCE.store(u8::from(!counter), Ordering::Relaxed);
}

/// An instant on all scales: raw by the counter, whatever the source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Instant {
    counter: u64,
    monotonic_ns: u64,
    realtime_ns: u64,
}

impl Instant {
    /// No instant.
    pub const ZERO: Instant = Instant { counter: 0, monotonic_ns: 0, realtime_ns: 0 };

    /// Now.
    #[must_use]
    pub fn now() -> Self {
        let realtime_ns = clock_ns(sys::CLOCK_REALTIME);
        // The counter is read on both sides of the clock: the middle is within some 30 ns of it.
        let before = arch::counter();
        let monotonic_ns = monotonic_ns();
        let after = arch::counter();
        Instant { counter: before + after.wrapping_sub(before) / 2, monotonic_ns, realtime_ns }
    }

    /// As an anchor of the time source in use.
    #[must_use]
    pub fn anchor(&self) -> Anchor {
        let raw = if SOURCE.load(Ordering::Relaxed) == 0 { self.counter } else { self.monotonic_ns };
        Anchor { raw: raw.max(1), monotonic_ns: self.monotonic_ns, realtime_ns: self.realtime_ns }
    }
}
