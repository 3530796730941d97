//! The host's libc: the functions that we stand in front of, found by our own walk of the loader's list.
//!
//! `dlsym` is not in libc before glibc 2.34, and unversioned references would bind to the oldest version; so
//! each name is looked up by hash in the objects behind ours, default version, at its first call.
//!
//! Signal safety: after the first look-up a load. Looking up walks the loader's list without its lock:
//! objects are added at its end, and libc, where nearly all is found, is never taken away.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use pct_elf::{Ahead, Dynamic, HEAD_BYTES, Image, LinkedObjects, Symbols};
use pct_sampler::code::system_calls::{self, OwnMemory};
use pct_sampler::sys::{self, CStr, arch, auxv::Auxv, loaded::Loaded};
use pct_sampler::{process::boot, record::time};

macro_rules! functions {
    ($($variant:ident $name:literal,)*) => {
        /// A function or variable of the host.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Real { $($variant),* }

        const NAMES: &[&str] = &[$($name),*];
    };
}

functions! {
    Environ "environ",
    PthreadCreate "pthread_create",
    Clone "clone",
    DefaultAttributes "pthread_getattr_default_np",
    StackSize "pthread_attr_getstacksize",
    GuardSize "pthread_attr_getguardsize",
    DestroyAttributes "pthread_attr_destroy",
    Daemon "daemon",
    Forkpty "forkpty",
    Fork "fork",
    UnderFork "_Fork",
    Execve "execve",
    Execvpe "execvpe",
    Fexecve "fexecve",
    Execveat "execveat",
    PosixSpawn "posix_spawn",
    PosixSpawnp "posix_spawnp",
    Sigaction "sigaction",
    Signal "signal",
    BsdSignal "bsd_signal",
    SysvSignal "__sysv_signal",
    Sigset "sigset",
    TimerCreate "timer_create",
    Setitimer "setitimer",
    Alarm "alarm",
    Sigaltstack "sigaltstack",
    PthreadSigmask "pthread_sigmask",
    Sigprocmask "sigprocmask",
    Errno "__errno_location",
    Sigwait "sigwait",
    Sigwaitinfo "sigwaitinfo",
    Sigtimedwait "sigtimedwait",
    Signalfd "signalfd",
    Sigsuspend "sigsuspend",
    Ppoll "ppoll",
    PpollChecked "__ppoll_chk",
    Pselect "pselect",
    EpollPwait "epoll_pwait",
    EpollPwait2 "epoll_pwait2",
    Dlopen "dlopen",
    Dlmopen "dlmopen",
    Dlclose "dlclose",
    Dlsym "dlsym",
    EachHeaders "dl_iterate_phdr",
    Prctl "prctl",
    Syscall "syscall",
    Seccomp "seccomp",
    SeccompLoad "seccomp_load",
    Setuid "setuid",
    Setgid "setgid",
    Seteuid "seteuid",
    Setreuid "setreuid",
    Setresuid "setresuid",
    Chroot "chroot",
    Unshare "unshare",
    Setns "setns",
    Exit "_exit",
    ExitC99 "_Exit",
}

static FOUND: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];
/// The program's calls were bound before this library came: it stands behind the C library, or in no list.
static LATE: AtomicBool = AtomicBool::new(false);
/// Address of the loader's r_debug, 0 = there is none; valid once KNOWN.
static DEBUG: AtomicU64 = AtomicU64::new(0);
static KNOWN: AtomicBool = AtomicBool::new(false);
/// Bytes of the kernel's signal frame by its own account; 0 = it gives none, or it was not read yet.
static FRAME_BYTES: AtomicU64 = AtomicU64::new(0);
/// The environment vector as the constructor found it, 0 = not.
static FIRST_ENVIRON: AtomicU64 = AtomicU64::new(0);

/// Address of a function of the host behind us; 0 = it has none.
#[inline]
pub(crate) fn real(which: Real) -> usize {
    match FOUND[which as usize].load(Ordering::Relaxed) {
        0 => find_symbol(which),
        found => found,
    }
}

/// Whether this library came too late to stand in front of the C library by the loader's order. From then on functions
/// are looked for in all objects.
pub(crate) fn came_late() -> bool {
    if !LATE.load(Ordering::Relaxed) && real(Real::Prctl) == 0 {
        LATE.store(true, Ordering::Relaxed);
    }
    LATE.load(Ordering::Relaxed)
}

/// Finds one. Two threads at once find the same.
#[cold]
fn find_symbol(which: Real) -> usize {
    let Some(name) = NAMES.get(which as usize) else { return 0 };
    let ours = own_dynamic();
    let memory = objects_memory();
    let mut behind = LATE.load(Ordering::Relaxed);
    let mut found = 0;
    for object in LinkedObjects::new(&memory, debug()) {
        if object.dynamic == ours {
            behind = true;
            continue;
        }
        // `environ` is the program's own if it has one (copy relocation); functions are those behind us.
        if behind || which == Real::Environ {
            let symbols = Symbols::new(&memory, object.dynamic, object.bias);
            let symbol = symbols.and_then(|symbols| symbols.find(&memory, name.as_bytes()));
            found = symbol.map_or(0, |symbol| symbol.address) as usize;
        }
        if found != 0 {
            break;
        }
    }
    if found != 0
        && let Some(place) = FOUND.get(which as usize)
    {
        place.store(found, Ordering::Relaxed);
    }
    found
}

/// An object of the loader's list that has what was looked for.
#[cfg(any(feature = "alloc", feature = "waits"))]
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "alloc"),
    expect(dead_code, reason = "who serves malloc is told by its place and path")
)]
pub(crate) struct Definer {
    /// Address of the function.
    pub(crate) address: usize,
    /// Address of the object's dynamic section, by which objects are told apart.
    pub(crate) dynamic: u64,
    /// Its place in the list; the program's is 0.
    pub(crate) number: usize,
    /// The object's path as the loader knows it; the program's is empty.
    pub(crate) path: &'static [u8],
}

/// The first object that defines `name`: of all (with ours), or of those behind ours.
#[cfg(any(feature = "alloc", feature = "waits"))]
pub(crate) fn definer(name: &[u8], only_behind: bool) -> Option<Definer> {
    let ours = own_dynamic();
    let memory = objects_memory();
    let mut behind = false;
    for (number, object) in LinkedObjects::new(&memory, debug()).enumerate() {
        if object.dynamic == ours {
            behind = true;
            if only_behind {
                continue;
            }
        }
        if only_behind && !behind {
            continue;
        }
        let symbols = Symbols::new(&memory, object.dynamic, object.bias);
        if let Some(symbol) = symbols.and_then(|symbols| symbols.find(&memory, name)) {
            // SAFETY: names are C strings that stay while the object is loaded; allocators are not unloaded.
            let path = unsafe { boot::text(object.name as *const u8) };
            return Some(Definer { address: symbol.address as usize, dynamic: object.dynamic, number, path });
        }
    }
    None
}

/// Whether an object is this library.
#[cfg(any(feature = "alloc", feature = "waits"))]
pub(crate) fn is_ours(definer: &Definer) -> bool {
    definer.dynamic == own_dynamic()
}

/// Where the objects of the loader's list are mapped: the differences to the addresses in their files.
pub(crate) fn each_bias(each: impl FnMut(u64)) {
    let memory = objects_memory();
    LinkedObjects::new(&memory, debug()).map(|object| object.bias).for_each(each);
}

/// The objects of the program's own that the loader has mapped: neither ours nor the C library's.
pub(crate) fn each_object(each: &mut dyn FnMut(Option<&Image>, CStr<'_>)) {
    let ours = own_dynamic();
    let auxv = auxv();
    let memory = objects_memory();
    if auxv.headers != 0 {
        let program = Image::with_headers(&memory, auxv.headers, auxv.header_count);
        each(Some(&program), sys::c(c"/proc/self/exe"));
    }
    // The program is the first of the list.
    for object in LinkedObjects::new(&memory, debug()).skip(1) {
        // SAFETY: names are C strings that stay while the object is loaded.
        let path = sys::c(unsafe { core::ffi::CStr::from_ptr(object.name as *const _) });
        if object.dynamic == ours || object.bias == auxv.vdso || system_calls::is_of_c_library(path.bytes()) {
            continue;
        }
        // Through the kernel: the first page of an object that is not linked to 0 lies elsewhere.
        let headers = Ahead::<_, HEAD_BYTES>::new(&OwnMemory, object.bias);
        each(Image::at_base(&headers, object.bias).as_ref(), path);
    }
}

/// The objects that the loader has mapped. For a moment at which another thread may unload some: all is
/// read through the kernel.
pub(crate) fn each_mapped(mut each: impl FnMut(&Image)) {
    let auxv = auxv();
    if auxv.headers != 0 {
        each(&Image::with_headers(&OwnMemory, auxv.headers, auxv.header_count));
    }
    for object in LinkedObjects::new(&OwnMemory, debug()).skip(1) {
        let headers = Ahead::<_, HEAD_BYTES>::new(&OwnMemory, object.bias);
        Image::at_base(&headers, object.bias).iter().for_each(&mut each);
    }
}

/// The memory of the loader's list and of the objects in it.
fn objects_memory() -> Loaded {
    // SAFETY: see the module's head about the list; the objects in it are mapped by the loader.
    unsafe { Loaded::new() }
}

/// The loader's list: r_debug's address, through the program's headers. Reads the other facts of the
/// auxiliary vector too.
fn debug() -> u64 {
    if !KNOWN.load(Ordering::Acquire) {
        let auxv = auxv();
        arch::set_hwcap2(auxv.hwcap2);
        time::set_vdso(auxv.vdso);
        FRAME_BYTES.store(auxv.signal_frame, Ordering::Relaxed);
        DEBUG.store(debug_of(&auxv).unwrap_or(0), Ordering::Relaxed);
        KNOWN.store(true, Ordering::Release);
    }
    DEBUG.load(Ordering::Relaxed)
}

fn auxv() -> Auxv {
    match FIRST_ENVIRON.load(Ordering::Relaxed) {
        0 => Auxv::read().unwrap_or_default(),
        // SAFETY: the vector that `from_constructor` checked has the auxiliary vector behind it.
        environ => unsafe { Auxv::behind(environ) },
    }
}

fn debug_of(auxv: &Auxv) -> Option<u64> {
    if auxv.headers == 0 {
        return None;
    }
    // The kernel's own account of the program's headers, which stay mapped.
    let memory = objects_memory();
    let program = Image::with_headers(&memory, auxv.headers, auxv.header_count);
    Some(Dynamic::read(&memory, program.dynamic(&memory)?, program.bias).debug)
}

/// Whether the program uses a C library that we stand in front of: one that names no library at all (Go's)
/// does by itself what others leave to libc.
pub(crate) fn has_libc() -> bool {
    let memory = objects_memory();
    // The first entry of the list is the program.
    let program = LinkedObjects::new(&memory, debug()).next().filter(|program| program.dynamic != 0);
    program.is_none_or(|program| Dynamic::read(&memory, program.dynamic, program.bias).needs_library)
}

/// Bytes of the kernel's signal frame by its own account (AT_MINSIGSTKSZ); 0 = it gives none.
pub(crate) fn signal_frame_bytes() -> u64 {
    FRAME_BYTES.load(Ordering::Relaxed)
}

/// Reads the processor's and the kernel's facts, before sampling starts.
pub(crate) fn facts() {
    let _ = debug();
}

/// The environment vector from a constructor's arguments, if they are what glibc passes: the vectors that the
/// kernel put on this very stack. musl passes nothing, so the registers may hold anything: each check is on
/// numbers before a word is read, and what passes them all is the vectors.
pub(crate) fn from_constructor(count: usize, arguments: u64, environment: u64) -> bool {
    let here = (&raw const count) as u64;
    let plausible = count < 1 << 22
        && arguments.is_multiple_of(8)
        && arguments > here
        && arguments - here < 64 << 20
        && environment == arguments + 8 * (count as u64 + 1);
    if !plausible {
        return false;
    }
    let word = |at: u64| {
        // SAFETY: on the stack above us, between our frame and the vectors' end.
        unsafe { (at as *const u64).read() }
    };
    if word(arguments - 8) != count as u64 || word(environment - 8) != 0 {
        return false;
    }
    FIRST_ENVIRON.store(environment, Ordering::Relaxed);
    true
}

/// The host's environment vector.
pub(crate) fn environ() -> *const *const u8 {
    let at = real(Real::Environ);
    if at == 0 {
        return core::ptr::null();
    }
    // SAFETY: `environ` is a pointer variable of libc.
    unsafe { *(at as *const *const *const u8) }
}

/// Path of this library as the loader knows it, empty when it is not in the list.
pub(crate) fn own_path() -> &'static [u8] {
    let ours = own_dynamic();
    let memory = objects_memory();
    let own = LinkedObjects::new(&memory, debug()).find(|object| object.dynamic == ours);
    // SAFETY: names are C strings that stay while the object is loaded, and we are.
    own.map_or(&[], |own| unsafe { boot::text(own.name as *const u8) })
}

unsafe extern "C" {
    /// Our own dynamic section, by the linker.
    #[link_name = "_DYNAMIC"]
    static DYNAMIC: [u64; 2];
}

/// Whether a dynamic section is this library's.
pub(crate) fn is_own_dynamic(dynamic: u64) -> bool {
    dynamic == own_dynamic()
}

fn own_dynamic() -> u64 {
    (&raw const DYNAMIC) as u64
}
