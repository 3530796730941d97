//! Decides which modules the handlers see, and when old ones are freed.
//!
//! There is one writer at a time (the housekeeper) and any number of handlers. The writer makes a new [`Set`] and
//! publishes it by one pointer. A handler must not wait, and the memory must not vanish under it. So it announces the
//! set that it uses in a *slot* before it reads the set:
//!
//! ```text
//!  handler                                   writer
//!    slot := p (current)        SeqCst         current := new        SeqCst
//!    current == p?  no: again   SeqCst         any slot == old?      SeqCst
//!    ... walk ...                                yes: keep it for the next time
//!    slot := null               Release          no:  unmap          (Acquire by the same load)
//! ```
//!
//! All four SeqCst operations have one total order. If the handler's check still read `p`, its slot was written before
//! the writer's exchange, so the writer sees the slot. If the writer read the slots first, the handler's check reads
//! the new pointer, and the handler drops the old one without reading the set. The Release store at the end makes the
//! handler's reads happen before the unmapping.
//!
//! Signal safety: [`Registry::hold`] is a few atomic operations; [`Registry::refresh`] maps memory and is only for the
//! housekeeper.

#![expect(unsafe_code, reason = "pointers to published sets")]

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::locate::Effort;
use super::object::Object;
use super::os;
use super::pages;
use super::set::{Entry, Set};

/// Most handlers that may walk at the same time. A further one records no stack, and the sample says so.
pub const SLOTS: usize = 64;
/// Most executable regions that are kept. A process with more (thousands of JIT pages) keeps the first ones.
const MOST_REGIONS: usize = 1 << 16;

/// An executable region, from region discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Address at which the object's ELF header is, for all its regions the same; 0: no object.
    pub base: u64,
    /// Distinguishes objects that are mapped at the same address one after another: inode and device. 0: no file.
    pub identity: u64,
}

/// The result of [`Registry::refresh`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Whether a new set was published.
    pub changed: bool,
    /// Number of objects whose unwind data was found now.
    pub loaded: usize,
    /// Number of objects without unwind data, or whose data could not be read.
    pub without: usize,
    /// Number of sets that wait until no handler uses them.
    pub waiting: usize,
}

/// How often unwind data of an object are looked for. The first look goes by the object's headers alone, and may come
/// while the loader maps the object: then its code is there, and its unwind data are not.
const MOST_LOOKS: u8 = 2;

/// A region and the object that it shares.
#[derive(Clone, Copy)]
struct KnownRegion {
    region: Region,
    object: Option<NonNull<Object>>,
    /// How often the object was looked for.
    looks: u8,
}

impl KnownRegion {
    /// The object is to be looked for once more.
    fn is_unsure(&self) -> bool {
        self.region.base != 0 && self.object.is_none() && self.looks < MOST_LOOKS
    }
}

/// A published set with what it owns. It is at the start of its own mapping, and the two arrays follow.
struct Published {
    set: Set<'static>,
    known: &'static [KnownRegion],
    len: usize,
    /// The next set that waits to be freed. Only the writer uses it.
    next: *mut Published,
}

struct Writer {
    generation: u64,
    waiting: *mut Published,
}

/// The modules of a process.
pub struct Registry {
    current: AtomicPtr<Published>,
    slots: [AtomicPtr<Published>; SLOTS],
    busy: AtomicBool,
    /// A walk needed unwind data of an unsure object.
    wanted: AtomicBool,
    writer: UnsafeCell<Writer>,
}

// SAFETY: `writer` is touched only by the thread that set `busy`; what the pointers lead to is shared
// read-only, except for the counts and links that only that thread touches.
unsafe impl Sync for Registry {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Registry {}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

/// A set that stays valid while this value lives.
pub struct HeldSet<'r> {
    slot: &'r AtomicPtr<Published>,
    published: NonNull<Published>,
}

impl HeldSet<'_> {
    /// The modules.
    #[inline(always)]
    pub fn set(&self) -> &Set<'_> {
        // SAFETY: it was current after the slot said so; the writer frees nothing that a slot names.
        unsafe { &self.published.as_ref().set }
    }
}

impl Drop for HeldSet<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.slot.store(ptr::null_mut(), Ordering::Release);
    }
}

impl Registry {
    /// A registry without modules, usable in a static.
    pub const fn new() -> Registry {
        Registry {
            current: AtomicPtr::new(ptr::null_mut()),
            slots: [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS],
            busy: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
            writer: UnsafeCell::new(Writer { generation: 0, waiting: ptr::null_mut() }),
        }
    }

    /// The current modules. `hint`: any number that differs between threads. `None`: no modules were published yet, or
    /// all slots are in use.
    #[inline]
    pub fn hold(&self, hint: usize) -> Option<HeldSet<'_>> {
        for i in 0..SLOTS {
            let slot = self.slots.get(hint.wrapping_add(i) % SLOTS)?;
            let mut seen = self.current.load(Ordering::Acquire);
            NonNull::new(seen)?;
            // SeqCst, with the check below: see the module's head.
            if slot.compare_exchange(ptr::null_mut(), seen, Ordering::SeqCst, Ordering::Relaxed).is_err() {
                continue;
            }
            for _ in 0..8 {
                let now = self.current.load(Ordering::SeqCst);
                if now == seen {
                    return Some(HeldSet { slot, published: NonNull::new(seen)? });
                }
                slot.store(now, Ordering::SeqCst);
                seen = now;
            }
            slot.store(ptr::null_mut(), Ordering::Release);
            return None;
        }
        None
    }

    /// The next [`Registry::refresh`] looks once more for the unwind data of objects that had none: a walk has come to
    /// their code, so the loader is done with them.
    pub fn look_once_more(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Whether nothing was published so far.
    pub fn is_empty(&self) -> bool {
        self.current.load(Ordering::Acquire).is_null()
    }

    /// Updates the set to the regions of the process, which are given in order of address, and frees what no handler
    /// can use any more. Does nothing while another thread does the same.
    pub fn refresh(&self, regions: impl Iterator<Item = Region> + Clone) -> Refreshed {
        let mut out = Refreshed::default();
        if self.busy.swap(true, Ordering::Acquire) {
            return out;
        }
        // SAFETY: `busy` was false, and this thread has set it.
        let writer = unsafe { &mut *self.writer.get() };
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: only the writer takes it out of `current`, and frees it only then.
        let old = unsafe { current.as_ref() }.map_or(&[][..], |p| p.known);
        let wanted = self.wanted.swap(false, Ordering::Relaxed);
        let clean = Ordered { inner: regions, last: 0 }.take(MOST_REGIONS);
        if current.is_null()
            || wanted && old.iter().any(KnownRegion::is_unsure)
            || !clean.clone().eq(old.iter().map(|k| k.region))
        {
            writer.generation += 1;
            if let Some(new) = publishable(clean, (old, wanted), writer.generation, &mut out) {
                self.current.store(new.as_ptr(), Ordering::SeqCst);
                out.changed = true;
                if let Some(p) = NonNull::new(current) {
                    // SAFETY: `next` belongs to the writer; handlers read the other fields only.
                    unsafe { (&raw mut (*p.as_ptr()).next).write(writer.waiting) };
                    writer.waiting = p.as_ptr();
                }
            }
        }
        out.waiting = self.free_unused(writer);
        self.busy.store(false, Ordering::Release);
        out
    }

    /// Clears the announcements of threads that do not exist in this process, for the child of a fork.
    ///
    /// If the parent's writer was at work, the lists that it was changing are abandoned, with the memory they refer to.
    pub fn after_fork(&self) {
        for slot in &self.slots {
            slot.store(ptr::null_mut(), Ordering::Release);
        }
        if self.busy.load(Ordering::Acquire) {
            // SAFETY: the thread that set `busy` does not exist here, and the caller guarantees that no other thread is
            // here.
            unsafe { (*self.writer.get()).waiting = ptr::null_mut() };
        }
        self.busy.store(false, Ordering::Release);
        if pages::claims_are_lost() {
            self.each_object(|object| {
                if let Some(pages) = object.pages() {
                    pages.give_up_claims();
                }
            });
        }
    }

    /// Copies all unwind data of the current modules: from now on a walk can copy nothing, because the program is about
    /// to forbid system calls.
    pub fn copy_all(&self) {
        self.each_object(|object| {
            if let Some(pages) = object.pages() {
                pages.copy_all();
            }
        });
    }

    /// Calls `each` for the object of each current region.
    fn each_object(&self, mut each: impl FnMut(&Object)) {
        let Some(held) = self.hold(0) else { return };
        // SAFETY: as in `HeldSet::set`.
        let known = unsafe { held.published.as_ref() }.known;
        for object in known.iter().filter_map(|known| known.object) {
            // SAFETY: this set counts it; the count is the writer's, and nobody else refers to it exclusively.
            each(unsafe { object.as_ref() });
        }
    }

    /// Frees waiting sets that no slot names. Returns how many still wait.
    fn free_unused(&self, writer: &mut Writer) -> usize {
        let mut still = ptr::null_mut();
        let mut left = 0;
        let mut at = writer.waiting;
        while let Some(p) = NonNull::new(at) {
            // SAFETY: waiting sets belong to the writer; they are freed here and nowhere else.
            at = unsafe { (*p.as_ptr()).next };
            // SeqCst: after the exchange of `current` in the one order of the module's head.
            if self.slots.iter().any(|slot| slot.load(Ordering::SeqCst) == p.as_ptr()) {
                // SAFETY: as above.
                unsafe { (&raw mut (*p.as_ptr()).next).write(still) };
                still = p.as_ptr();
                left += 1;
            } else {
                // SAFETY: it is not current any more and no handler announced it, so nothing refers to it.
                unsafe { free(p) };
            }
        }
        writer.waiting = still;
        left
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let writer = self.writer.get_mut();
        if let Some(p) = NonNull::new(*self.current.get_mut()) {
            // SAFETY: `&mut self`: no handler holds anything.
            unsafe { (&raw mut (*p.as_ptr()).next).write(writer.waiting) };
            writer.waiting = p.as_ptr();
        }
        let mut at = writer.waiting;
        while let Some(p) = NonNull::new(at) {
            // SAFETY: as above; each is freed once.
            unsafe {
                at = (*p.as_ptr()).next;
                free(p);
            }
        }
    }
}

/// # Safety
/// `p` came from [`publishable`] and nothing refers to it any more; the caller is the writer.
unsafe fn free(p: NonNull<Published>) {
    // SAFETY: alive until `unmap` below.
    let (known, len) = unsafe { (p.as_ref().known, p.as_ref().len) };
    for object in known.iter().filter_map(|k| k.object) {
        // SAFETY: this set counts as one user per region, so the object is alive; counts are the writer's.
        unsafe {
            let users = &raw mut (*object.as_ptr()).users;
            *users -= 1;
            if *users == 0 {
                Object::free(object);
            }
        }
    }
    os::unmap(p.as_ptr().cast(), len);
}

/// Builds a set over `regions`. It reuses objects of `old` if region and identity are the same; if `wanted`, not those
/// that are unsure.
fn publishable(
    regions: impl Iterator<Item = Region> + Clone,
    (old, wanted): (&[KnownRegion], bool),
    generation: u64,
    out: &mut Refreshed,
) -> Option<NonNull<Published>> {
    let n = regions.clone().count();
    let len = size_of::<Published>() + n * (size_of::<KnownRegion>() + size_of::<Entry<'static>>());
    let at = os::map(len)?;
    let head = at.cast::<Published>();
    // SAFETY: the mapping is fresh, page aligned and long enough for the head and two arrays of `n` (sizes
    // are multiples of 8, the alignment of all three); the arrays do not overlap.
    let (known, entries) = unsafe {
        let known = head.add(1).cast::<MaybeUninit<KnownRegion>>();
        let entries = known.add(n).cast::<MaybeUninit<Entry<'static>>>();
        (slice::from_raw_parts_mut(known, n), slice::from_raw_parts_mut(entries, n))
    };
    let mut done: usize = 0;
    for ((region, known), entry) in regions.zip(known.iter_mut()).zip(entries.iter_mut()) {
        let (object, looks) = if region.base == 0 {
            (None, 0)
        } else {
            let same =
                |k: &&KnownRegion| k.region.base == region.base && k.region.identity == region.identity;
            // SAFETY: all entries before this one were written below.
            let here = unsafe { slice::from_raw_parts(head.add(1).cast::<KnownRegion>(), done) };
            let before = old.iter().find(same);
            match here.iter().rev().find(same).or(before.filter(|k| !(wanted && k.is_unsure()))) {
                Some(k) => (k.object, k.looks),
                None => {
                    let effort = if before.is_some() { Effort::Shape } else { Effort::Header };
                    let loaded = Object::load(region.base, effort);
                    out.loaded += usize::from(loaded.is_some());
                    out.without += usize::from(loaded.is_none());
                    (loaded, before.map_or(0, |k| k.looks) + 1)
                }
            }
        };
        let table = object.map(|object| {
            // SAFETY: the object is alive as long as a set counts it; the count is the writer's, handlers see
            // the table only.
            unsafe {
                (*object.as_ptr()).users += 1;
                (*object.as_ptr()).table()
            }
        });
        let k = KnownRegion { region, object, looks };
        let (Region { start, end, .. }, of_file) = (region, region.identity != 0);
        entry.write(Entry { start, end, table, unsure: k.is_unsure(), of_file });
        known.write(k);
        done += 1;
    }
    // SAFETY: the first `done` items of both arrays are written; `done` <= `n`. The head's place is free.
    unsafe {
        let known = slice::from_raw_parts(head.add(1).cast::<KnownRegion>(), done);
        let entries =
            slice::from_raw_parts(head.add(1).cast::<KnownRegion>().add(n).cast::<Entry<'static>>(), done);
        head.write(Published { set: Set { entries, generation }, known, len, next: ptr::null_mut() });
    }
    NonNull::new(head)
}

/// Skips regions that are empty or out of order, because discovery may have read anything.
#[derive(Clone)]
struct Ordered<I> {
    inner: I,
    last: u64,
}

impl<I: Iterator<Item = Region>> Iterator for Ordered<I> {
    type Item = Region;
    fn next(&mut self) -> Option<Region> {
        loop {
            let region = self.inner.next()?;
            if region.start >= self.last && region.end > region.start {
                self.last = region.end;
                return Some(region);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Lack;
    use crate::rule::RuleKind;
    use crate::testing;
    use std::sync::atomic::AtomicUsize;

    fn lines_of_maps() -> usize {
        std::fs::read_to_string("/proc/self/maps").expect("maps").lines().count()
    }

    #[test]
    fn what_is_gone_is_freed_and_what_stays_is_shared() {
        let regions = testing::regions();
        let registry = Registry::new();
        assert!(registry.hold(0).is_none(), "no modules yet");
        let first = registry.refresh(regions.iter().copied());
        assert!(first.changed && first.loaded >= 2);
        assert_eq!(registry.refresh(regions.iter().copied()), Refreshed::default(), "nothing new");
        let half: Vec<Region> = regions.iter().copied().step_by(2).collect();
        let second = registry.refresh(half.iter().copied());
        assert_eq!((second.changed, second.loaded, second.waiting), (true, 0, 0));
        let held = registry.hold(7).expect("modules");
        let third = registry.refresh(regions.iter().copied());
        assert_eq!((third.changed, third.waiting), (true, 1), "a handler still uses the second");
        assert_eq!(held.set().entries.len(), half.len());
        drop(held);
        assert_eq!(registry.refresh(regions.iter().copied()).waiting, 0);
        assert_eq!(registry.hold(0).expect("modules").set().generation, 3);
    }

    /// The loader maps an object segment by segment. Who looks in between finds code and no unwind data.
    #[test]
    fn an_object_that_was_not_mapped_entirely_is_looked_at_once_more() {
        const LEN: usize = 0x4000;
        let at = os::map(LEN).expect("memory");
        let base = at.expose_provenance() as u64;
        let image = testing::program(&[(base + 0x1010, 0x20)], base);
        // SAFETY: fresh memory of this length.
        unsafe { at.copy_from_nonoverlapping(image.as_ptr(), LEN) };
        let data_are = |mapped: bool| {
            let rights = if mapped { libc::PROT_READ } else { libc::PROT_NONE };
            // SAFETY: pages of the memory above, to which nobody refers.
            assert_eq!(unsafe { libc::mprotect(at.add(0x2000).cast(), 0x2000, rights) }, 0);
        };
        let region = Region { start: base + 0x1000, end: base + 0x2000, base, identity: 1 };
        let kind = |registry: &Registry| {
            let held = registry.hold(0).expect("modules");
            let set = held.set();
            (set.rule(base + 0x1010, || true).expect("readable").kind(), set.entries[0].unsure)
        };
        for mapped_in_time in [true, false] {
            let registry = Registry::new();
            data_are(false);
            assert_eq!(registry.refresh([region].into_iter()).without, 1);
            assert_eq!(kind(&registry), (RuleKind::Fp, true));
            data_are(mapped_in_time);
            assert!(!registry.refresh([region].into_iter()).changed, "no walk has come there");
            registry.look_once_more();
            let second = registry.refresh([region].into_iter());
            assert_eq!((second.changed, second.loaded), (true, usize::from(mapped_in_time)));
            let expected = if mapped_in_time { RuleKind::Sp } else { RuleKind::Fp };
            assert_eq!(kind(&registry), (expected, false));
            registry.look_once_more();
            assert!(!registry.refresh([region].into_iter()).changed, "it is looked at no more");
        }
    }

    #[test]
    fn regions_out_of_order_are_left_out() {
        let r = |start, end| Region { start, end, base: 0, identity: 0 };
        let registry = Registry::new();
        registry.refresh([r(10, 20), r(15, 30), r(20, 20), r(40, 30), r(50, 60)].into_iter());
        let held = registry.hold(0).expect("modules");
        let starts: Vec<u64> = held.set().entries.iter().map(|e| e.start).collect();
        assert_eq!(starts, [10, 50]);
    }

    #[test]
    fn more_handlers_than_slots_are_told_so() {
        let registry = Registry::new();
        registry.refresh(testing::regions().into_iter());
        let held: Vec<_> = (0..SLOTS).map(|i| registry.hold(i * 3).expect("a slot")).collect();
        assert!(registry.hold(5).is_none());
        drop(held);
        assert!(registry.hold(5).is_some());
    }

    #[test]
    fn handlers_never_see_a_set_go_away() {
        let rounds = pct_kit::asked("PCT_UNWIND_ROUNDS", 300);
        let regions = testing::regions();
        // An address in each region with unwind data, which is looked up again and again.
        let before = lines_of_maps();
        {
            let registry = Registry::new();
            let done = AtomicBool::new(false);
            let walks = AtomicUsize::new(0);
            registry.refresh(regions.iter().copied());
            std::thread::scope(|s| {
                for t in 0..3 {
                    let (registry, done, walks) = (&registry, &done, &walks);
                    s.spawn(move || {
                        let mut seen = 0;
                        while !done.load(Ordering::Relaxed) {
                            let Some(held) = registry.hold(t) else { continue };
                            let set = held.set();
                            assert!(set.generation >= seen, "sets come in order");
                            seen = set.generation;
                            for entry in set.entries {
                                // Reads index and unwind data. A fault here is the bug that this test would find.
                                let rule = set.rule(entry.start + 64, || true);
                                // (Another thread may have been stopped while it copied the page.)
                                assert!(
                                    matches!(rule, Err(Lack::NotNow))
                                        || rule.is_ok_and(|rule| rule.kind() != RuleKind::Empty)
                                );
                            }
                            walks.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                let mut left = rounds;
                let mut random = 1u64;
                while left > 0 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let mask = random >> 40;
                    let some = regions
                        .iter()
                        .enumerate()
                        .filter(|(i, _)| mask >> (i % 16) & 1 == 0)
                        .map(|(_, r)| *r);
                    let out = registry.refresh(some);
                    assert!(out.waiting <= 3 + 1);
                    left -= 1;
                }
                pct_kit::wait::wait_until("a walk", || walks.load(Ordering::Relaxed) > 0);
                done.store(true, Ordering::Relaxed);
            });
            assert_eq!(registry.refresh(regions.iter().copied()).waiting, 0);
        }
        // Other tests of this process also map memory. A leak per round must not happen.
        assert!(lines_of_maps() < before + rounds / 4 + 40);
    }
}
