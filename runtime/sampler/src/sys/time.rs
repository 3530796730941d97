//! Clocks of the kernel that are read by a system call.

use super::{call, nr};

/// CLOCK_REALTIME.
pub const CLOCK_REALTIME: i32 = 0;
/// CLOCK_MONOTONIC.
pub const CLOCK_MONOTONIC: i32 = 1;
/// CPU time of the process.
pub const CLOCK_PROCESS_CPU: i32 = 2;
/// CPU time of the calling thread.
pub const CLOCK_THREAD_CPU: i32 = 3;
/// Its resolution is the kernel's tick.
pub const CLOCK_MONOTONIC_COARSE: i32 = 6;

/// The clock id of another thread's CPU time.
#[must_use]
pub const fn thread_cpu_clock(tid: u32) -> i32 {
    !(tid as i32) << 3 | 6
}

/// Nanoseconds of a clock; 0 when the clock is not there (its thread ended).
#[must_use]
pub fn clock_ns(clock: i32) -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: `time` has the 16 bytes of struct timespec.
    let r =
        unsafe { call(nr::CLOCK_GETTIME, [clock as isize as usize, time.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    if r < 0 { 0 } else { time[0] * 1_000_000_000 + time[1] }
}

/// Kernel ticks a second, from the resolution of the coarse clock; 0 = not known.
#[must_use]
pub fn tick_hz() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: `time` has the 16 bytes of struct timespec.
    let r = unsafe {
        call(nr::CLOCK_GETRES, [CLOCK_MONOTONIC_COARSE as usize, time.as_mut_ptr() as usize, 0, 0, 0, 0])
    };
    if r < 0 { 0 } else { 1_000_000_000u64.checked_div(time[1]).unwrap_or(0) }
}
