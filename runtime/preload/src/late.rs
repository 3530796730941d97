//! For a library that was loaded into a running program, by a controller or by `dlopen`: it stands in front of the
//! functions by which the program would make a setting that our handlers do not survive ([`crate::filters`]).
//!
//! By then the loader has bound the program's calls to the C library. So this library writes the addresses of its own
//! functions into the words through which each object calls these ([`pct_elf::Imports`]): at once for all objects that
//! are loaded, and at each call of `dlsym` for those that were loaded since.
//!
//! Another thread may unload an object meanwhile, or load one. At the start, in a thread that a controller has stopped
//! anywhere, the loader's lock may not be waited for. So memory is read and written through the kernel, which refuses
//! what is not mapped; and a word is written only if it holds what it is expected to hold: the C library's function, or
//! the way to the loader's search, which comes at the first call. The file `mem` writes to private pages that are
//! read-only, as those of relocated objects are. (A kernel may forbid that: `proc_mem.force_override`. Then such words
//! stay as they are.) Later looks are under the loader's lock, by `dl_iterate_phdr`.
//!
//! *Not seen:* a function that the program found by `dlsym` itself, and what an object does while it is being loaded.
//! The words have our addresses until this library is unloaded: a controller never does that, a program that loaded it
//! may. Then they get the C library's.
//!
//! Signal safety: none. System calls; some kilobytes of stack.

use core::sync::atomic::{AtomicBool, Ordering};

use pct_elf::{Ahead, Dynamic, HEAD_BYTES, Image, Import, Memory, Segment};
use pct_sampler::code::system_calls::OwnMemory;
use pct_sampler::process::session;
use pct_sampler::sys::{self, lock::Lock};

use crate::filters::{before_load, before_prctl, before_syscall};
use crate::host::{self, Real, real};
use crate::jump::jump_code;

/// The functions' names, in the order of [`FUNCTIONS`].
const NAMES: &[&[u8]] = &[b"prctl", b"syscall", b"seccomp_load", b"dlsym"];
const FUNCTIONS: [(Real, unsafe extern "C" fn()); 4] =
    [(Real::Prctl, prctl), (Real::Syscall, syscall), (Real::SeccompLoad, seccomp_load), (Real::Dlsym, dlsym)];

/// Not the exported functions of these names: the loader binds their addresses to the C library's.
#[unsafe(naked)]
unsafe extern "C" fn prctl() {
    jump_code!(before_prctl, 0)
}

#[unsafe(naked)]
unsafe extern "C" fn syscall() {
    jump_code!(before_syscall, 0)
}

#[unsafe(naked)]
unsafe extern "C" fn seccomp_load() {
    jump_code!(before_load, 0)
}

#[unsafe(naked)]
unsafe extern "C" fn dlsym() {
    jump_code!(before_dlsym, 0)
}

/// How many objects the loader has added and removed so far, by its own counts.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Counts {
    added: u64,
    removed: u64,
}

/// What was looked at.
struct Looked {
    /// When that was.
    counts: Counts,
    /// How many objects there were, from the first one on. New ones come behind.
    objects: u64,
}

static LOOKED: Lock<Looked> = Lock::new(Looked { counts: Counts { added: 0, removed: 0 }, objects: 0 });

/// Words have our addresses.
static STANDS: AtomicBool = AtomicBool::new(false);

/// Sampling has started by a call. Where the library was preloaded, the loader has put it in front.
pub(crate) fn stand_in_front() {
    if host::came_late() {
        let _alone = session::alone();
        STANDS.store(true, Ordering::Relaxed);
        host::each_mapped(|image| {
            let _ = look_at(image);
        });
    }
}

/// By the destructor: at the end of the process, or before this library is unloaded.
#[inline]
pub(crate) fn stand_back() {
    if STANDS.load(Ordering::Relaxed) {
        put_back();
    }
}

#[cold]
fn put_back() {
    // Under a filter on system calls nobody unloads it; the words cannot be written either.
    let may_call = session::current().is_none_or(|session| session.may_call());
    if !may_call || !STANDS.swap(false, Ordering::Relaxed) {
        return;
    }
    let _alone = session::alone();
    host::each_mapped(|image| {
        each_import(image, |slot, holds, (which, ours)| {
            if holds == ours {
                write(slot, real(which) as u64);
            }
            true
        });
    });
}

extern "C" fn before_dlsym(_: usize) -> usize {
    if session::current().is_some_and(|session| session.may_call()) {
        look_at_new();
    }
    real(Real::Dlsym)
}

/// As `struct dl_phdr_info` in `<link.h>`.
#[repr(C)]
struct Info {
    bias: u64,
    _name: u64,
    headers: u64,
    header_count: u16,
    counts: Counts,
}

/// Looks at the objects that were added since the last look.
fn look_at_new() {
    // Who holds the lock looks for us too.
    let Some(mut looked) = LOOKED.try_lock() else { return };
    let (mut counts, mut objects) = (looked.counts, 0);
    each_object(&mut |info| {
        counts = info.counts;
        objects += 1;
        counts != looked.counts
    });
    if counts == looked.counts {
        return;
    }
    // Of what was added some may have gone. What is left of it is at the end.
    let fresh = counts.added.wrapping_sub(looked.counts.added);
    let first =
        if counts.removed == looked.counts.removed { looked.objects } else { objects - fresh.min(objects) };
    let mut number = 0;
    let mut ready = 0;
    each_object(&mut |info| {
        if number >= first {
            let count = u64::from(info.header_count);
            let mut image = Image::with_headers(&OwnMemory, info.headers, count);
            image.bias = info.bias;
            if !look_at(&image) {
                return false;
            }
        }
        number += 1;
        ready = number;
        info.counts == counts
    });
    // An object that was not ready counts as one that was added later.
    let added = counts.added.wrapping_sub(objects - ready.min(objects));
    *looked = Looked { counts: Counts { added, ..counts }, objects: ready };
}

/// Calls `each` for the objects in the loader's order, under its lock, until it gives `false`.
fn each_object(each: &mut dyn FnMut(&Info) -> bool) {
    type Function<'e> = &'e mut dyn FnMut(&Info) -> bool;
    type Callback = unsafe extern "C" fn(*const Info, usize, *mut Function<'_>) -> i32;

    unsafe extern "C" fn call(info: *const Info, bytes: usize, each: *mut Function<'_>) -> i32 {
        // SAFETY: the loader's structure, and the variable below.
        i32::from(bytes < size_of::<Info>() || unsafe { !(*each)(&*info) })
    }

    let function = real(Real::EachHeaders);
    if function == 0 {
        return;
    }
    let mut each = each;
    // SAFETY: the host's function of this name and shape. `dlsym` itself is about to take the same lock.
    unsafe {
        let function: unsafe extern "C" fn(Callback, *mut Function<'_>) -> i32 =
            core::mem::transmute(function);
        function(call, &raw mut each);
    }
}

/// Most words of an object: each function may have one in both tables.
const MOST_SLOTS: usize = 2 * NAMES.len();

/// Puts ours into an object's words. False: the loader has not relocated it yet.
fn look_at(image: &Image) -> bool {
    let headers = Ahead::<_, HEAD_BYTES>::new(&OwnMemory, image.headers());
    let is_own = |address: u64| {
        image.segments(&headers).any(|segment: Segment| segment.loads(address.wrapping_sub(image.bias)))
    };
    each_import(image, |slot, holds, (which, ours)| {
        if holds == ours {
            return true;
        }
        // 0: a function that the program can do without, and that nobody has.
        if holds != 0 && (holds == real(which) as u64 || is_own(holds)) {
            write(slot, ours);
            return true;
        }
        image.is_relocated(&OwnMemory)
    })
}

/// Calls `each` with the address of each of an object's words, what it holds, the host's function and the address of
/// ours, until it gives `false`; gives what the last call gave. This library's own words are left out.
fn each_import(image: &Image, mut each: impl FnMut(u64, u64, (Real, u64)) -> bool) -> bool {
    let headers = Ahead::<_, HEAD_BYTES>::new(&OwnMemory, image.headers());
    let Some(at) = image.dynamic(&headers).filter(|at| !host::is_own_dynamic(*at)) else { return true };
    let dynamic = Dynamic::read(&Ahead::<_, 512>::new(&OwnMemory, at), at, image.bias);
    dynamic.imports(&OwnMemory, NAMES).take(MOST_SLOTS).all(|Import { slot, name }| {
        let (Some((which, ours)), Some(holds)) = (FUNCTIONS.get(name), OwnMemory.read_word(slot)) else {
            return true;
        };
        each(slot, holds, (*which, *ours as usize as u64))
    })
}

/// Writes a word of an object's data. (The kernel copies eight bytes of one line of the cache in one piece: a thread
/// that calls through the word at this instant finds the old address or the new one.)
fn write(slot: u64, value: u64) {
    let _ = sys::with_descriptor(|| {
        let memory = sys::open(sys::c(c"/proc/thread-self/mem"), sys::O_RDWR, 0)?;
        sys::pwrite(&memory, &value.to_ne_bytes(), slot)
    });
}
