//! The modules that walks know, with their unwind data, and when they were looked for last.
//!
//! They are in static memory, not in the session's: a forked child goes on with its parent's copies.
//! (Rules that were found are the session's, so the child finds them again.)
//!
//! Signal safety: [`REGISTRY`] is for handlers; [`refresh`] makes system calls, by who holds the housekeeper's lock.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::code::regions::List;
use crate::code::{java, javascript, python};
use crate::process::session::Session;
use pct_format::StackMode;
use pct_unwind::{Region, Registry};

/// The modules.
pub(super) static REGISTRY: Registry = Registry::new();
/// When a sample last made us look at the regions, monotonic ns.
pub(super) static LOOKED: AtomicU64 = AtomicU64::new(0);
/// How many of these looks in a row have found nothing.
pub(super) static IN_VAIN: AtomicU32 = AtomicU32::new(0);

/// The loader was asked for a change at some time, and since the last look; it was asked to take an object away.
static LOADER_WAS_ASKED: AtomicBool = AtomicBool::new(false);
static LOADER_CHANGES: AtomicBool = AtomicBool::new(false);
static LOADER_REMOVES: AtomicBool = AtomicBool::new(false);
/// Objects may have been taken away since the last look: others may be where they were.
static MAY_BE_GONE: AtomicBool = AtomicBool::new(false);
/// First address of the objects that the loader may take away, and the one behind their last.
static MAY_GO: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// Where those objects are mapped that were there before the loader was asked for anything: they stay. 0 = no more.
static LASTING: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// There was a sample in code that was not known, and no look since.
static MET_UNKNOWN: AtomicBool = AtomicBool::new(false);

/// An interpreter's object was there at the last look, but it was not up yet.
static AWAITS_INTERPRETER: AtomicBool = AtomicBool::new(false);
/// How many looks samples have made while an interpreter was awaited.
static LOOKED_FOR_INTERPRETER: AtomicU32 = AtomicU32::new(0);
/// Most of them: an object may be there whose interpreter is never started.
const MOST_FOR_INTERPRETER: u32 = 128;

/// The last look has found unwind data.
static FOUND_DATA: AtomicBool = AtomicBool::new(false);

/// A walk needed unwind data that were not there when they were looked for: the next look looks once more, and may be
/// at once.
#[cold]
pub(crate) fn expect_data() {
    REGISTRY.look_once_more();
    expect_change();
}

/// Whether the last look has found unwind data, of new objects or of old ones.
pub(super) fn has_found_data() -> bool {
    FOUND_DATA.load(Ordering::Relaxed)
}

/// Makes the modules agree with the regions. By the housekeeper, after each look at the maps.
pub fn refresh(session: &Session, list: &mut List) {
    let mode = session.settings.stack.load(Ordering::Relaxed);
    if mode == StackMode::None as u32 {
        return;
    }
    // Without tables every frame goes by its frame pointer.
    let tables = mode != StackMode::Fp as u32;
    let agree = |list: &List| {
        REGISTRY.refresh(list.entries().iter().flat_map(|entry| {
            let region = |(start, end): (u64, u64), base: u64| Region {
                start,
                end,
                base: if tables { base } else { 0 },
                identity: entry.inode ^ entry.device.rotate_left(32),
            };
            let (from, to) = javascript::with_frame_pointers(session, (entry.start, entry.end));
            let parts = [
                region((entry.start, from), entry.base),
                region((from, to), 0),
                region((to, entry.end), entry.base),
            ];
            parts.into_iter().filter(|region| region.start < region.end)
        }))
    };
    let refreshed = agree(list);
    FOUND_DATA.store(refreshed.loaded > 0, Ordering::Relaxed);
    if refreshed.changed {
        IN_VAIN.store(0, Ordering::Relaxed);
    }
    list.note_look(LOADER_WAS_ASKED.load(Ordering::Relaxed));
    let range = list.may_go(is_lasting);
    for (place, end) in MAY_GO.iter().zip([range.start, range.end]) {
        place.store(end, Ordering::Relaxed);
    }
    python::refresh(session, list);
    java::refresh(session, list);
    if javascript::refresh(session, list) {
        agree(list);
    }
    let awaits = session.java.is_awaited() || session.javascript.is_awaited();
    AWAITS_INTERPRETER.store(awaits, Ordering::Relaxed);
}

/// Whether samples in code that was made at run time look at once for the interpreter that may have made it. Until it
/// is found that code has no names, and a program may live for a shorter time than passes between two looks.
#[inline(always)]
pub(super) fn awaits_interpreter() -> bool {
    AWAITS_INTERPRETER.load(Ordering::Relaxed)
        && LOOKED_FOR_INTERPRETER.load(Ordering::Relaxed) < MOST_FOR_INTERPRETER
}

/// A sample looks while an interpreter is awaited.
pub(super) fn note_look_for_interpreter() {
    LOOKED_FOR_INTERPRETER.fetch_add(1, Ordering::Relaxed);
}

/// Copies what walks may need of the modules' unwind data, because from now on no system call may be made. The caller
/// blocks signals.
pub fn copy_all() {
    REGISTRY.copy_all();
}

/// Whether stacks can be walked: some code's unwind data were read, or no stacks are wanted.
pub fn are_read(session: &Session) -> bool {
    !REGISTRY.is_empty() || session.settings.stack.load(Ordering::Relaxed) == StackMode::None as u32
}

/// True once: the loader is about to be asked for something for the first time.
#[must_use]
pub fn is_first_call_of_loader() -> bool {
    !LOADER_WAS_ASKED.load(Ordering::Relaxed) && !LOADER_WAS_ASKED.swap(true, Ordering::Relaxed)
}

/// An object that is mapped here was there before that. (Of very many the last are looked at too often, and no more.)
pub fn note_lasting(base: u64) {
    if base != 0
        && let Some(place) = LASTING.iter().find(|place| place.load(Ordering::Relaxed) == 0)
    {
        place.store(base, Ordering::Relaxed);
    }
}

/// Whether the loader never takes the object away that is mapped here. Programs that are linked to a fixed address lie
/// low.
fn is_lasting(base: u64) -> bool {
    let mut noted = LASTING.iter().map(|place| place.load(Ordering::Relaxed)).take_while(|noted| *noted != 0);
    base >> 32 == 0 || noted.any(|noted| noted == base)
}

/// A look at the maps begins. What the loader takes away from here on may be missed by it.
pub(crate) fn begin_look() {
    MET_UNKNOWN.store(false, Ordering::Relaxed);
    LOADER_CHANGES.store(false, Ordering::Relaxed);
    // SeqCst: before the maps are read.
    MAY_BE_GONE.store(false, Ordering::SeqCst);
}

/// Whether the loader was asked for a change since the last look.
pub(super) fn loader_changes() -> bool {
    LOADER_CHANGES.load(Ordering::Relaxed)
}

/// Whether objects may have been taken away since the last look.
pub(super) fn may_be_gone() -> bool {
    MAY_BE_GONE.load(Ordering::Relaxed)
}

/// The loader is about to change the regions: the first sample in new code looks at them at once.
pub fn expect_change() {
    LOOKED.store(0, Ordering::Relaxed);
    IN_VAIN.store(0, Ordering::Relaxed);
}

/// The loader is about to add objects, or (`removes`) to take some away. Where samples have stacks, each sample in
/// code that is new, or that may be another's now, looks at the regions itself ([`is_doubtful`]). False: before an
/// object goes, somebody has to look, because there was a sample that could not.
#[must_use]
pub fn samples_will_look(session: &Session, removes: bool) -> bool {
    LOADER_CHANGES.store(true, Ordering::Relaxed);
    if removes {
        LOADER_REMOVES.store(true, Ordering::Relaxed);
    }
    // Also before an object comes: a look while the one before it was being taken away may have seen it still there.
    if LOADER_REMOVES.load(Ordering::Relaxed) {
        MAY_BE_GONE.store(true, Ordering::Relaxed);
    }
    IN_VAIN.store(0, Ordering::Relaxed);
    let have_stacks =
        !session.counts() && session.settings.stack.load(Ordering::Relaxed) != StackMode::None as u32;
    have_stacks && !(removes && MET_UNKNOWN.load(Ordering::Relaxed))
}

/// Whether one of these addresses of a sample may be in another object than at the last look.
#[inline(always)]
pub(super) fn is_doubtful(addresses: impl Iterator<Item = u64>) -> bool {
    if !MAY_BE_GONE.load(Ordering::Relaxed) {
        return false;
    }
    core::hint::cold_path();
    let [start, end] = [&MAY_GO[0], &MAY_GO[1]].map(|place| place.load(Ordering::Relaxed));
    let mut addresses = addresses;
    addresses.any(|address| start <= address && address < end)
}

/// A sample met code that is not known, or may be another's, and nobody could look.
pub(super) fn met_unknown() {
    MET_UNKNOWN.store(true, Ordering::Relaxed);
}

/// For the child of a fork, before its first handler: threads that do not exist there use nothing.
pub fn in_child() {
    REGISTRY.after_fork();
}
