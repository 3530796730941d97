//! exec and spawn: the next program is followed, and the file says that this one was replaced.
//!
//! An environment without us gets `LD_PRELOAD` and `PCT` added, in a vector on the stack: these functions are called in
//! vfork's children and must be async-signal-safe. Timers are deleted by exec with their signals, but a signal of a
//! perf event that is pending stays so, and a process timer (`clock=itimer*`) runs on: both are stopped before
//! ([`leaving`]).

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pct_sampler::sys::text::Buf;
use pct_sampler::{process::boot, process::leaving, process::session, sys};

use crate::host::{self, Real, real};
use crate::{filters, unloadable};

const TEXT: usize = 4096;
const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// The two strings that a followed program needs, `LD_PRELOAD=` and `PCT=`, one behind the other and each
/// with its NUL: on one page if they are short. Written before there are other threads.
struct Strings(core::cell::UnsafeCell<Buf<TEXT>>);

// SAFETY: written once by `remember` before READY, read after it.
unsafe impl Sync for Strings {}

static STRINGS: Strings = Strings(core::cell::UnsafeCell::new(Buf::new()));
/// Where the second string begins.
static OPTIONS_AT: AtomicU64 = AtomicU64::new(0);
static READY: AtomicBool = AtomicBool::new(false);
/// Bytes of our path, which comes first.
static PATH_LEN: AtomicU64 = AtomicU64::new(0);

/// Both strings, once READY was seen.
fn strings() -> (&'static [u8], &'static [u8]) {
    // SAFETY: written before READY, which the caller has seen.
    let text = unsafe { &*STRINGS.0.get() }.bytes();
    text.split_at_checked(OPTIONS_AT.load(Ordering::Relaxed) as usize).unwrap_or((text, &[]))
}

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
    let text = unsafe { &mut *STRINGS.0.get() };
    text.push(PRELOAD).push(path);
    PATH_LEN.store(path.len() as u64, Ordering::Relaxed);
    // SAFETY: the host's environment.
    let old = unsafe { boot::variable(environ, b"LD_PRELOAD") }.unwrap_or(&[]);
    for other in old.split(|b| *b == b':' || *b == b' ').filter(|o| !o.is_empty() && *o != path) {
        text.push(b":").push(other);
    }
    text.push(b"\0");
    OPTIONS_AT.store(text.bytes().len() as u64, Ordering::Relaxed);
    text.push(b"PCT=").push(session::seed().options_text.bytes()).push(b"\0");
    if !text.is_cut() {
        READY.store(true, Ordering::Release);
    }
}

type Vector = *const *const u8;

/// Most variables for which the vector is made on the stack.
const MOST: usize = 1000;
/// The usual number and a small one: threads that execute others may have a stack of 16 KiB.
const USUAL: usize = 200;
const FEW: usize = 40;

/// Whether the value of `LD_PRELOAD` names us.
fn names_us(value: &[u8], path: &[u8]) -> bool {
    value.split(|b| *b == b':' || *b == b' ').any(|p| p == path)
}

/// Calls `then` with an environment that has us in it.
fn with_us<R>(environment: Vector, then: impl FnOnce(Vector) -> R) -> R {
    if !READY.load(Ordering::Acquire) || !session::seed().options.follow.exec {
        return then(environment);
    }
    if filters::starts_would_kill() {
        let replaced = Some((&b"PCT="[..], &b"PCT_NOT_UNDER_THIS_FILTER=\0"[..]));
        return with_more(environment, &Change { has_options: true, replaced, had: true }, then);
    }
    // SAFETY: the host's vector.
    let (had, has_options) = unsafe {
        (boot::variable(environment, b"LD_PRELOAD"), boot::variable(environment, b"PCT").is_some())
    };
    match had {
        Some(had) if names_us(had, own_path()) => {
            if has_options {
                then(environment)
            } else {
                with_more(environment, &Change { has_options, replaced: None, had: true }, then)
            }
        }
        Some(had) => with_merged(environment, had, has_options, then),
        None => with_more(environment, &Change { has_options, replaced: None, had: false }, then),
    }
}

/// Our own path, as `remember` found it.
fn own_path() -> &'static [u8] {
    let len = PATH_LEN.load(Ordering::Relaxed) as usize;
    strings().0.get(PRELOAD.len()..PRELOAD.len() + len).unwrap_or(&[])
}

/// An environment that preloads others: with us in front of them.
#[inline(never)]
fn with_merged<R>(environment: Vector, had: &[u8], has_options: bool, then: impl FnOnce(Vector) -> R) -> R {
    let mut merged = Buf::<4096>::new();
    merged.push(PRELOAD).push(own_path()).push(b":").push(had).push(b"\0");
    if merged.is_cut() {
        return then(environment);
    }
    let replaced = Some((PRELOAD, merged.bytes()));
    with_more(environment, &Change { has_options, replaced, had: true }, then)
}

/// What an environment lacks.
struct Change<'a> {
    has_options: bool,
    /// How a variable begins that gives its place to another one, and that one.
    replaced: Option<(&'a [u8], &'a [u8])>,
    /// It has an `LD_PRELOAD`.
    had: bool,
}

fn with_more<R>(environment: Vector, change: &Change<'_>, then: impl FnOnce(Vector) -> R) -> R {
    let mut count = 0;
    // SAFETY: a vector that ends with null, if there is one.
    while !environment.is_null() && unsafe { !(*environment.add(count)).is_null() } {
        count += 1;
    }
    if count <= FEW {
        changed::<{ FEW + 3 }, R>(environment, count, change, then)
    } else if count <= USUAL {
        changed::<{ USUAL + 3 }, R>(environment, count, change, then)
    } else if count <= MOST {
        changed::<{ MOST + 3 }, R>(environment, count, change, then)
    } else {
        then(environment)
    }
}

/// Calls `then` with a changed copy of the vector, whose `count` strings and two more and the null fit into `N` places.
#[inline(never)]
fn changed<const N: usize, R>(
    environment: Vector,
    count: usize,
    change: &Change<'_>,
    then: impl FnOnce(Vector) -> R,
) -> R {
    let mut vector: [*const u8; N] = [core::ptr::null(); N];
    for (i, place) in vector.iter_mut().enumerate().take(count) {
        // SAFETY: below the vector's null, as counted.
        *place = unsafe { *environment.add(i) };
        if let Some((beginning, other)) = change.replaced
            // SAFETY: a C string of the vector.
            && unsafe { boot::text(*place) }.starts_with(beginning)
        {
            *place = other.as_ptr();
        }
    }
    let (preload, options) = strings();
    let wanted = [(!change.had).then_some(preload), (!change.has_options).then_some(options)];
    for (string, place) in wanted.into_iter().flatten().zip(vector.iter_mut().skip(count)) {
        *place = string.as_ptr();
    }
    then(vector.as_ptr())
}

/// This process is about to become another program: what must be done before, and undone if it fails.
fn around<R>(path: *const u8, exec: impl FnOnce() -> R) -> R {
    let session =
        session::current().filter(|s| s.may_call() && s.pid.load(Ordering::Relaxed) == sys::getpid());
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
    unloadable::tell(path);
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

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    folder: i32,
    path: *const u8,
    arguments: Vector,
    environment: Vector,
    flags: i32,
) -> i32 {
    let at = real(Real::Execveat);
    if at == 0 {
        return missing();
    }
    // SAFETY: libc's execveat.
    let exec: unsafe extern "C" fn(i32, *const u8, Vector, Vector, i32) -> i32 =
        unsafe { core::mem::transmute(at) };
    around(path, || {
        // SAFETY: the host's arguments, and a vector that lives through the call.
        with_us(environment, |environment| unsafe { exec(folder, path, arguments, environment, flags) })
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
    telling_of_child(pid, path, |pid| {
        // SAFETY: the host's arguments, and a vector that lives through the call.
        with_us(environment, |environment| unsafe {
            spawn(pid, path, actions, attributes, arguments, environment)
        })
    })
}

/// Makes a child by `spawn`, which stores its id, and tells if its program cannot load us.
fn telling_of_child(pid: *mut i32, program: *const u8, spawn: impl FnOnce(*mut i32) -> i32) -> i32 {
    let mut own = 0;
    let pid = if pid.is_null() { &raw mut own } else { pid };
    let result = spawn(pid);
    if result == 0 {
        // SAFETY: the host's place for the id or ours, where libc has just stored it.
        unloadable::tell_of_child(program, unsafe { *pid });
    }
    result
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
    telling_of_child(pid, file, |pid| {
        // SAFETY: the host's arguments, and a vector that lives through the call.
        with_us(environment, |environment| unsafe {
            spawn(pid, file, actions, attributes, arguments, environment)
        })
    })
}

/// Arguments of `execl` and kin for which the vector is made on the stack: the usual, and the most.
const FEW_ARGUMENTS: usize = 30;
const MOST_ARGUMENTS: usize = 500;

/// The arguments of a variadic call: those that came in registers, then those on the stack.
struct List {
    registers: Vector,
    stack: Vector,
}

impl List {
    fn get(&self, i: usize) -> *const u8 {
        // SAFETY: the host passed a list that ends with null, and `execle` an environment behind it; `i` is not beyond.
        unsafe { if i < IN_REGISTERS { *self.registers.add(i) } else { *self.stack.add(i - IN_REGISTERS) } }
    }

    /// Executes with the `places.len() - 1` arguments, put in a row.
    fn exec(&self, path: *const u8, which: u32, places: &mut [*const u8]) -> i32 {
        for (i, place) in places.iter_mut().enumerate() {
            *place = self.get(i);
        }
        let arguments = places.as_ptr();
        match which {
            0 => exec3(Real::Execve, path, arguments, host::environ()),
            1 => exec3(Real::Execvpe, path, arguments, host::environ()),
            _ => exec3(Real::Execve, path, arguments, self.get(places.len()).cast()),
        }
    }

    #[inline(never)]
    fn exec_on_stack<const N: usize>(&self, path: *const u8, which: u32, count: usize) -> i32 {
        let mut places: [*const u8; N] = [core::ptr::null(); N];
        places.get_mut(..=count).map_or(-1, |places| self.exec(path, which, places))
    }

    /// For more arguments than a stack should be asked for.
    fn exec_in_memory(&self, path: *const u8, which: u32, count: usize) -> i32 {
        let bytes = (count + 1) * size_of::<*const u8>();
        let Ok(memory) = sys::map_memory(bytes) else { return -1 };
        // SAFETY: fresh memory of so many words, which nobody else knows.
        let places = unsafe { core::slice::from_raw_parts_mut(memory.cast(), count + 1) };
        let result = self.exec(path, which, places);
        // SAFETY: the exec failed, and `places` is not used any more.
        unsafe { sys::unmap(memory, bytes) };
        result
    }
}

/// What the variadic wrappers lead to. libc's own would call its exec without passing by us.
extern "C" fn exec_list(path: *const u8, registers: Vector, stack: Vector, which: u32) -> i32 {
    let list = List { registers, stack };
    let mut count = 0;
    while !list.get(count).is_null() {
        count += 1;
    }
    if count <= FEW_ARGUMENTS {
        list.exec_on_stack::<{ FEW_ARGUMENTS + 1 }>(path, which, count)
    } else if count <= MOST_ARGUMENTS {
        list.exec_on_stack::<{ MOST_ARGUMENTS + 1 }>(path, which, count)
    } else {
        list.exec_in_memory(path, which, count)
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
