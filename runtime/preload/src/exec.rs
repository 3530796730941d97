//! exec and spawn: the next program is followed, and the file says that this one was replaced.
//!
//! An environment without us gets `LD_PRELOAD` and `PCT` added, in a vector on the stack: these functions are called in
//! vfork's children and must be async-signal-safe. Clocks need no care: timers are deleted by exec, perf events go with the
//! memory that keeps them; only a perf signal that the thread blocks could stay pending and kill a program without us, so
//! it is taken away, and a process timer (`clock=itimer*`) is stopped.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pct_sampler::text::Buf;
use pct_sampler::{boot, leaving, session, sys};

use crate::host::{self, Real, real};

const TEXT: usize = 2048;

/// The two strings that a followed program needs, with their NUL. Written before there are other threads.
struct Strings {
    preload: core::cell::UnsafeCell<Buf<TEXT>>,
    options: core::cell::UnsafeCell<Buf<TEXT>>,
}

// SAFETY: written once by `remember` before READY, read after it.
unsafe impl Sync for Strings {}

static STRINGS: Strings = Strings {
    preload: core::cell::UnsafeCell::new(Buf::new()),
    options: core::cell::UnsafeCell::new(Buf::new()),
};
static READY: AtomicBool = AtomicBool::new(false);
/// Address of our path's text, for comparing: 0 = not known.
static PATH_LEN: AtomicU64 = AtomicU64::new(0);

/// Keeps what the environment says now: the host may clean it before it executes others.
pub(crate) fn remember(environ: *const *const u8) {
    if READY.load(Ordering::Acquire) {
        return;
    }
    let path = host::own_path();
    if path.is_empty() {
        return;
    }
    // SAFETY: READY is not set, so nobody reads; the constructor or pct_on calls this once.
    let (preload, options) = unsafe { (&mut *STRINGS.preload.get(), &mut *STRINGS.options.get()) };
    preload.push(b"LD_PRELOAD=").push(path);
    PATH_LEN.store(path.len() as u64, Ordering::Relaxed);
    // SAFETY: the host's environment.
    let old = unsafe { boot::variable(environ, b"LD_PRELOAD") }.unwrap_or(&[]);
    for other in old.split(|b| *b == b':' || *b == b' ').filter(|o| !o.is_empty() && *o != path) {
        preload.push(b":").push(other);
    }
    preload.push(b"\0");
    options.push(b"PCT=").push(session::seed().options_text.bytes()).push(b"\0");
    if !preload.is_cut() && !options.is_cut() {
        READY.store(true, Ordering::Release);
    }
}

type Vector = *const *const u8;

/// Most variables for which the vector is made on the stack.
const MOST: usize = 1000;

/// Calls `then` with an environment that has us in it.
fn with_us<R>(environment: Vector, then: impl FnOnce(Vector) -> R) -> R {
    if !READY.load(Ordering::Acquire) || !session::seed().options.follow.exec {
        return then(environment);
    }
    // SAFETY: written before READY.
    let (preload, options) = unsafe { (&*STRINGS.preload.get(), &*STRINGS.options.get()) };
    let len = PATH_LEN.load(Ordering::Relaxed) as usize;
    let path = preload.bytes().get(11..11 + len).unwrap_or(&[]);
    // SAFETY: the host's vector.
    let (had, has_options) = unsafe {
        (boot::variable(environment, b"LD_PRELOAD"), boot::variable(environment, b"PCT").is_some())
    };
    let has_us = had.is_some_and(|v| v.split(|b| *b == b':' || *b == b' ').any(|p| p == path));
    if has_us && has_options {
        return then(environment);
    }
    let mut vector: [*const u8; MOST + 3] = [core::ptr::null(); MOST + 3];
    let mut count = 0;
    let mut merged = Buf::<4096>::new();
    loop {
        let string = if environment.is_null() {
            core::ptr::null()
        } else {
            // SAFETY: a vector that ends with null.
            unsafe { *environment.add(count) }
        };
        if string.is_null() {
            break;
        }
        let Some(place) = vector.get_mut(count) else { return then(environment) };
        *place = string;
        if count >= MOST {
            return then(environment);
        }
        // SAFETY: a C string of the vector.
        if !has_us && unsafe { boot::text(string) }.starts_with(b"LD_PRELOAD=") {
            merged.clear();
            merged.push(b"LD_PRELOAD=").push(path).push(b":").push(had.unwrap_or(&[])).push(b"\0");
            if !merged.is_cut() {
                *place = merged.bytes().as_ptr();
            }
        }
        count += 1;
    }
    let mut add = |string: &[u8]| {
        if let Some(place) = vector.get_mut(count) {
            *place = string.as_ptr();
            count += 1;
        }
    };
    if !has_us && had.is_none() {
        add(preload.bytes());
    }
    if !has_options {
        add(options.bytes());
    }
    then(vector.as_ptr())
}

/// This process is about to become another program: what must be done before, and undone if it fails.
fn around<R>(path: *const u8, exec: impl FnOnce() -> R) -> R {
    let session = session::current().filter(|s| s.pid.load(Ordering::Relaxed) == sys::getpid());
    let Some(session) = session else { return exec() };
    // SAFETY: the host's path.
    let path = if path.is_null() { &[] } else { unsafe { boot::text(path) } };
    leaving::before_exec(session, path);
    let result = exec();
    leaving::exec_failed(session);
    result
}

fn missing() -> i32 {
    -1
}

type Exec3 = unsafe extern "C" fn(*const u8, Vector, Vector) -> i32;

fn exec3(which: Real, path: *const u8, arguments: Vector, environment: Vector) -> i32 {
    let at = real(which);
    if at == 0 {
        return missing();
    }
    // SAFETY: libc's function of this shape.
    let exec: Exec3 = unsafe { core::mem::transmute(at) };
    around(path, || {
        // SAFETY: the host's arguments, and a vector that lives through the call.
        with_us(environment, |environment| unsafe { exec(path, arguments, environment) })
    })
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const u8, arguments: Vector, environment: Vector) -> i32 {
    exec3(Real::Execve, path, arguments, environment)
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const u8, arguments: Vector, environment: Vector) -> i32 {
    exec3(Real::Execvpe, file, arguments, environment)
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const u8, arguments: Vector) -> i32 {
    exec3(Real::Execve, path, arguments, host::environ())
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const u8, arguments: Vector) -> i32 {
    exec3(Real::Execvpe, file, arguments, host::environ())
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: i32, arguments: Vector, environment: Vector) -> i32 {
    let at = real(Real::Fexecve);
    if at == 0 {
        return missing();
    }
    // SAFETY: libc's fexecve.
    let exec: unsafe extern "C" fn(i32, Vector, Vector) -> i32 = unsafe { core::mem::transmute(at) };
    around(core::ptr::null(), || {
        // SAFETY: the host's arguments, and a vector that lives through the call.
        with_us(environment, |environment| unsafe { exec(fd, arguments, environment) })
    })
}

type Spawn = unsafe extern "C" fn(*mut i32, *const u8, *const u8, *const u8, Vector, Vector) -> i32;

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut i32,
    path: *const u8,
    actions: *const u8,
    attributes: *const u8,
    arguments: Vector,
    environment: Vector,
) -> i32 {
    let at = real(Real::PosixSpawn);
    if at == 0 {
        return 38; // ENOSYS
    }
    // SAFETY: libc's posix_spawn.
    let spawn: Spawn = unsafe { core::mem::transmute(at) };
    // SAFETY: the host's arguments, and a vector that lives through the call.
    with_us(environment, |environment| unsafe {
        spawn(pid, path, actions, attributes, arguments, environment)
    })
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut i32,
    file: *const u8,
    actions: *const u8,
    attributes: *const u8,
    arguments: Vector,
    environment: Vector,
) -> i32 {
    let at = real(Real::PosixSpawnp);
    if at == 0 {
        return 38; // ENOSYS
    }
    // SAFETY: libc's posix_spawnp.
    let spawn: Spawn = unsafe { core::mem::transmute(at) };
    // SAFETY: the host's arguments, and a vector that lives through the call.
    with_us(environment, |environment| unsafe {
        spawn(pid, file, actions, attributes, arguments, environment)
    })
}

/// Most arguments of `execl` and kin for which the vector is made on the stack.
const MOST_ARGUMENTS: usize = 500;

/// What the variadic wrappers lead to: `path`, the arguments that came in registers, then those on the stack. libc's own
/// would call its exec without passing by us.
extern "C" fn exec_list(
    path: *const u8,
    registers: *const *const u8,
    stack: *const *const u8,
    which: u32,
) -> i32 {
    let mut arguments: [*const u8; MOST_ARGUMENTS + 1] = [core::ptr::null(); MOST_ARGUMENTS + 1];
    let next = |i: usize| {
        // SAFETY: the host passed a list that ends with null, and `execle` an environment behind it.
        unsafe { if i < IN_REGISTERS { *registers.add(i) } else { *stack.add(i - IN_REGISTERS) } }
    };
    let mut count = 0;
    loop {
        let argument = next(count);
        let Some(place) = arguments.get_mut(count) else { return -1 };
        *place = argument;
        if argument.is_null() {
            break;
        }
        count += 1;
    }
    match which {
        0 => exec3(Real::Execve, path, arguments.as_ptr(), host::environ()),
        1 => exec3(Real::Execvpe, path, arguments.as_ptr(), host::environ()),
        _ => exec3(Real::Execve, path, arguments.as_ptr(), next(count + 1).cast()),
    }
}

#[cfg(target_arch = "x86_64")]
const IN_REGISTERS: usize = 5;
#[cfg(target_arch = "aarch64")]
const IN_REGISTERS: usize = 7;

/// Defines the exported variadic `$name`. (Rust cannot define variadic functions: the arguments are put in a row here.)
macro_rules! exec_list {
    ($name:ident, $which:literal) => {
        /// Stands in front of libc's.
        ///
        /// # Safety
        /// As libc's.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "push r9", "push r8", "push rcx", "push rdx", "push rsi",
                "mov rsi, rsp",
                "lea rdx, [rsp + 48]",
                "mov ecx, {which}",
                "call {list}",
                "add rsp, 40",
                "ret",
                which = const $which,
                list = sym exec_list,
            )
        }

        /// Stands in front of libc's.
        ///
        /// # Safety
        /// As libc's.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "stp x1, x2, [sp, #16]",
                "stp x3, x4, [sp, #32]",
                "stp x5, x6, [sp, #48]",
                "str x7, [sp, #64]",
                "add x1, sp, #16",
                "add x2, sp, #80",
                "mov w3, #{which}",
                "bl {list}",
                "ldp x29, x30, [sp], #80",
                "ret",
                which = const $which,
                list = sym exec_list,
            )
        }
    };
}

exec_list!(execl, 0);
exec_list!(execlp, 1);
exec_list!(execle, 2);
