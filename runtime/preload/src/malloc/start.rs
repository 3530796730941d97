//! What the wrappers need before they count: the host's functions, a place for countdowns, and who serves malloc.

use pct_format::heap::{AllocServer, source};
use pct_sampler::heap::{self, Facts, countdown};
use pct_sampler::process::{report, session};

use super::entry::WRAPPED;
use super::wrapped::ROWS;
use super::{hosts, python};
use crate::host::{self, definer};

/// By the constructor, before it looks at the options: when sampling starts, all must be known. Without `PCT`
/// nothing is.
pub(crate) fn prepare(options: Option<&[u8]>) {
    let asked = |text: &[u8]| text.split(|byte| *byte == b',').any(|item| item.starts_with(b"alloc="));
    if !options.is_some_and(asked) {
        hosts::set_counting(false);
        return;
    }
    find_slots();
    hosts::set_counting(true);
    for which in 0..ROWS {
        hosts::find(which, &WRAPPED);
    }
    let mut facts = facts();
    if python::install() {
        facts.sources |= source::PYTHON;
    }
    heap::install(&facts);
}

/// By the constructor, when sampling has started or not: says what will not be seen.
pub(crate) fn tell() {
    if session::seed().options.alloc == 0 || session::current().is_none() {
        return;
    }
    match heap::facts().server {
        AllocServer::Program => report::report(
            b"--alloc: the program has an allocator of its own (it defines malloc), so its allocations are not seen",
        ),
        AllocServer::Before => report::report(
            b"--alloc: malloc is served by a library that is preloaded before pct's, so allocations are not seen",
        ),
        _ => {}
    }
}

/// Who serves malloc: the first object that the loader finds it in, and if that is ours, the next.
fn facts() -> Facts {
    let not_known = Facts { server: AllocServer::NotKnown, path: &[], sources: 0 };
    let Some(first) = definer(b"malloc", false) else { return not_known };
    if !host::is_ours(&first) {
        let server = if first.number == 0 { AllocServer::Program } else { AllocServer::Before };
        return Facts { server, path: first.path, sources: source::API };
    }
    let Some(next) = definer(b"malloc", true) else { return not_known };
    let is_libc = hosts::is_c_library(&next);
    let server = if is_libc { AllocServer::CLibrary } else { AllocServer::Library };
    Facts { server, path: next.path, sources: source::MALLOC | source::NEW | source::API }
}

/// Takes two keys and finds where threads have their slots. Only of glibc, whose control block is known to be
/// long enough.
fn find_slots() {
    let function = |name: &[u8]| definer(name, true).map_or(0, |found| found.address);
    let create = function(b"pthread_key_create");
    let set = function(b"pthread_setspecific");
    if create == 0 || set == 0 || function(b"gnu_get_libc_version") == 0 {
        return;
    }
    // SAFETY: libc's function of this name.
    let create: extern "C" fn(*mut u32, usize) -> i32 = unsafe { core::mem::transmute(create) };
    // SAFETY: as above.
    let set: extern "C" fn(u32, usize) -> i32 = unsafe { core::mem::transmute(set) };
    let mut slots = [0; 2];
    for slot in &mut slots {
        let mut key = 0;
        if create(&raw mut key, 0) != 0 {
            return;
        }
        *slot = slot_of(|value| set(key, value) == 0).unwrap_or(0);
        set(key, 0);
    }
    if slots.iter().all(|slot| *slot != 0) {
        countdown::found(slots);
    }
}

/// Octets of a thread's control block that are looked through: it has 2,304, of which the slots of the first
/// 32 keys begin at 784 (glibc 2.36).
const BLOCK: core::ops::Range<usize> = 512..1536;

/// Where the value goes that `set` gives to a key: the one word that follows two different values.
fn slot_of(set: impl Fn(usize) -> bool) -> Option<usize> {
    const COOKIES: [usize; 2] = [0x7063_7431_5a5a_a5a5, 0x2e6b_6579_3c3c_c3c3];
    let mut places = BLOCK.step_by(8);
    if !set(COOKIES[0]) {
        return None;
    }
    let first = places.find(|at| control_word(*at) == COOKIES[0])?;
    if places.any(|at| control_word(at) == COOKIES[0]) || !set(COOKIES[1]) {
        return None;
    }
    (control_word(first) == COOKIES[1]).then_some(first)
}

/// A word of this thread's control block.
fn control_word(at: usize) -> usize {
    let word;
    // SAFETY: within the control block, see `BLOCK`.
    unsafe {
        core::arch::asm!("mov {}, fs:[{}]", out(reg) word, in(reg) at, options(nostack, readonly, preserves_flags))
    };
    word
}
