//! The host's libc: the functions that we stand in front of, found by our own walk of the loader's list.
//!
//! `dlsym` is not in libc before glibc 2.34, and unversioned references would bind to the oldest version; so each name is
//! looked up by hash in the objects behind ours, default version, at start when sampling is on, else at the first call.
//!
//! Signal safety: after the first look-up a load. Looking up walks the loader's list without its lock: done in the
//! constructor, or at a wrapped call, where the loader cannot be at work in this thread.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pct_sampler::elf::{self, Auxv, Image, Symbols};
use pct_sampler::{arch, time};

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
    RegisterAtfork "__register_atfork",
    PthreadAtfork "pthread_atfork",
    Fork "fork",
    UnderFork "_Fork",
    Execve "execve",
    Execl "execl",
    Execlp "execlp",
    Execle "execle",
    Execvpe "execvpe",
    Fexecve "fexecve",
    PosixSpawn "posix_spawn",
    PosixSpawnp "posix_spawnp",
    Sigaction "sigaction",
    Signal "signal",
    BsdSignal "bsd_signal",
    SysvSignal "__sysv_signal",
    Sigset "sigset",
    Dlopen "dlopen",
    Dlmopen "dlmopen",
    Dlclose "dlclose",
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
    Exit "_exit",
    ExitC99 "_Exit",
}

static FOUND: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];
/// 0 not looked, 1 looked.
static LOOKED: AtomicUsize = AtomicUsize::new(0);
/// Address of the auxiliary facts: the vdso.
static DEBUG: AtomicU64 = AtomicU64::new(0);

/// Address of a function of the host behind us; 0 = it has none.
#[inline]
pub(crate) fn real(which: Real) -> usize {
    let place = &FOUND[which as usize];
    let found = place.load(Ordering::Relaxed);
    if found != 0 || LOOKED.load(Ordering::Acquire) != 0 {
        return found;
    }
    look();
    place.load(Ordering::Relaxed)
}

/// Finds all of them; idempotent. Two threads at once find the same.
#[cold]
pub(crate) fn look() {
    let Ok(auxv) = Auxv::read() else { return };
    arch::set_hwcap2(auxv.hwcap2);
    time::set_vdso(auxv.vdso);
    if auxv.headers == 0 {
        return;
    }
    // SAFETY: the kernel's own account of the program's headers.
    let program = unsafe { Image::from_headers(auxv.headers, auxv.header_count) };
    let Some(dynamic) = program.dynamic() else { return };
    // SAFETY: the program's dynamic section.
    let debug = unsafe { Symbols::new(dynamic, program.bias) }.debug;
    DEBUG.store(debug, Ordering::Relaxed);
    let ours = own_dynamic();
    let mut behind = false;
    // SAFETY: see the module's head about the list.
    unsafe {
        elf::each_object(debug, |bias, _, dynamic| {
            if dynamic == ours {
                behind = true;
                return true;
            }
            // SAFETY: an object's dynamic section, by the loader.
            let symbols = Symbols::new(dynamic, bias);
            for (i, (name, place)) in NAMES.iter().zip(&FOUND).enumerate() {
                // `environ` is the program's own if it has one (copy relocation); functions are those behind us.
                let wanted = behind || i == Real::Environ as usize;
                if wanted
                    && place.load(Ordering::Relaxed) == 0
                    && let Some(at) = symbols.find(name.as_bytes())
                {
                    place.store(at as usize, Ordering::Relaxed);
                }
            }
            true
        });
    }
    if !behind || FOUND[Real::Environ as usize].load(Ordering::Relaxed) == 0 {
        return;
    }
    LOOKED.store(1, Ordering::Release);
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
    let mut path: &'static [u8] = &[];
    // SAFETY: see the module's head about the list; names are C strings that stay while the object is loaded, and we are.
    unsafe {
        elf::each_object(DEBUG.load(Ordering::Relaxed), |_, name, dynamic| {
            if dynamic == ours {
                path = pct_sampler::boot::text(name as *const u8);
            }
            dynamic != ours
        });
    }
    path
}

unsafe extern "C" {
    /// Our own dynamic section, by the linker.
    #[link_name = "_DYNAMIC"]
    static DYNAMIC: [u64; 2];
}

fn own_dynamic() -> u64 {
    (&raw const DYNAMIC) as u64
}
