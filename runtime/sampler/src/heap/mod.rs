//! Where memory is allocated, and what is live: Poisson samples of the bytes that the program requests.
//!
//! ```text
//! malloc(n): countdown of the thread - n ---- > 0 ----> the host's malloc           (nothing else)
//!                      \
//!                       <= 0: draw anew, the host's malloc, then record
//!                                |        stack -> id -> sums of the stack, account
//!                                \------- live table + tag of the address
//! free(p):   tag of p ---- 0 ----> the host's free
//!                 \---- not 0: remove from the live table, then the host's free
//! ```
//!
//! The wrappers are the shells' (`pct-preload`, feature `alloc`); here is what they call when a countdown has
//! run out or a tag is set. Reading order: [`chance`] (what a sample stands for), [`countdown`], [`tags`],
//! `pace` (which of them are recorded), `places` and `live` (the table), `sums`, `areas` (where they lie), `peak`.
//!
//! Always holds: nothing here calls the program's allocator, waits for a lock or moves a block. What is
//! decided is decided by private memory; what is in the file is for readers. Once the areas are there, a sampled
//! request or free makes one system call, which asks whether SIGBUS is blocked ([`StoresMayFault`]); under a
//! filter on system calls none.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pct_format::heap::{ACCOUNT_WORDS, MAX_SHIFT, account, entry_flag};
use pct_format::layout::segment_kind;

use crate::code::call_stack::{self, NoStack};
use crate::code::callers;
use crate::process::session::{self, Session};
use crate::process::{file, report};
use crate::record::time;
use crate::signal::stores_may_fault::StoresMayFault;
use crate::sys;
use crate::sys::arch::Regs;

mod areas;
pub mod chance;
pub mod countdown;
pub(crate) mod facts;
pub(crate) mod level;
mod live;
mod pace;
mod peak;
mod places;
pub mod said;
pub mod state;
mod sums;
pub mod tags;

/// Atomics, by a name that a model checker's test can give to others.
mod sync {
    pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
}

pub use facts::{Facts, facts};
pub use live::Moving;
use live::{Block, Fate};
use pace::Site;
use state::Heap;

/// Recorded samples after which their rate is looked at, and the most a second.
const LOOK_EVERY: u64 = 256;
const MOST_A_SECOND: u64 = 2000;
/// The same of samples that are drawn. Those of busy sites are left out at a tenth of the cost of a recorded one.
const DRAWN_LOOK_EVERY: u64 = 1024;
const MOST_DRAWN_A_SECOND: u64 = 20_000;
/// How often the file is tried to be made before allocation samples are given up.
const MOST_REFUSALS: u32 = 20;

/// What a shell gives: see [`install`].
static STARTER: AtomicUsize = AtomicUsize::new(0);
/// Calls before the wrappers were ready.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// A shell that wraps allocators says so in its constructor, before sampling starts. (Through an address, so
/// that a shell that wraps nothing does not carry what only they need.)
pub fn install(facts: &Facts) {
    facts::set(facts);
    let (tags, bytes) = tags::ALL.memory();
    // SAFETY: whole pages of our own; the child of a fork begins without sampled blocks.
    let _ = unsafe { sys::madvise(tags, bytes, sys::MADV_WIPEONFORK) };
    STARTER.store(start_now as fn(&Session) as usize, Ordering::Release);
}

/// A call came before the wrappers were ready.
pub fn note_early_call() {
    EARLY.fetch_add(1, Ordering::Relaxed);
}

/// Whether allocations are to be sampled and a shell wraps them; what the header says of them is known then.
/// Before the first clock is armed, in whose handler the file may be made.
pub(crate) fn set_up(session: &Session) {
    let heap = &session.heap;
    let options = &session::seed().options;
    if STARTER.load(Ordering::Acquire) == 0 {
        // Nobody has set it up before, and looking would touch a page.
        return;
    }
    if options.alloc == 0 {
        heap.interval.store(0, Ordering::Relaxed);
        return;
    }
    heap.interval.store(options.alloc, Ordering::Relaxed);
    heap.shift.store(heap.least_shift.load(Ordering::Relaxed), Ordering::Relaxed);
    let seed = match options.alloc_seed {
        0 => sys::random(u64::MAX) ^ time::monotonic_ns().rotate_left(32),
        seed => seed,
    };
    heap.seed.store(seed, Ordering::Relaxed);
    heap.dice.store(seed, Ordering::Relaxed);
    let now = time::monotonic_ns();
    heap.rate_looked_ns.store(now, Ordering::Relaxed);
    heap.drawn_looked_ns.store(now, Ordering::Relaxed);
}

/// Begins, if [`set_up`] found that it should. Sampling is on.
pub(crate) fn start(session: &Session) {
    let starter = STARTER.load(Ordering::Acquire);
    if starter != 0 && session.heap.interval.load(Ordering::Relaxed) != 0 {
        // SAFETY: `install` stored this function.
        let starter: fn(&Session) = unsafe { core::mem::transmute(starter) };
        starter(session);
    }
}

fn start_now(session: &Session) {
    let heap = &session.heap;
    if heap.live.places() == 0 {
        // Of an earlier session, or of a parent whose kernel does not wipe memory.
        tags::ALL.clear();
    }
    heap.on.store(true, Ordering::Release);
    if !countdown::begin() {
        heap.on.store(false, Ordering::Release);
    }
}

/// Ends: requests count no more.
pub(crate) fn stop(session: &Session) {
    if session.heap.on.swap(false, Ordering::Relaxed) {
        countdown::end();
    }
}

/// Makes the areas before that may become impossible. The file is there.
pub(crate) fn secure(session: &Session) {
    let heap = &session.heap;
    if heap.on.load(Ordering::Relaxed) && !heap.ready.load(Ordering::Acquire) && session.log.is_open() {
        heap.make_areas(session);
    }
}

/// A request of so many bytes: if it is to be sampled, the shift of the sample. `subtracted`: the wrapper has
/// lowered the countdown, to 0 or below. Before the host's allocator is called.
#[must_use]
pub fn due(bytes: u64, subtracted: bool) -> Option<u32> {
    let Some(session) = session::current().filter(|s| s.heap.on.load(Ordering::Relaxed)) else {
        // Off, or a child that nobody follows.
        countdown::end();
        return None;
    };
    countdown::settle(bytes.max(1), subtracted, || session.heap.drawing())
}

/// Records a request that [`due`] chose and the host has served. `regs`: the caller's, with the address of
/// its call's last byte as its place; `returns` is where the call returns to.
pub fn record(address: u64, size: u64, shift: u32, flags: u16, regs: Regs, returns: u64) {
    if let Some(session) = session::current().filter(|s| s.heap.on.load(Ordering::Relaxed)) {
        session.heap.record(session, address, size, shift, flags, (regs, returns));
    }
}

/// A block is about to be freed whose tag is set.
pub fn free(address: u64) {
    if let Some(session) = session::current() {
        let heap = &session.heap;
        // A tag is shared by addresses: most that come here were not sampled, and are not in the table.
        if let Some(taken) = live::take_block(&heap.live, address) {
            let _stores = StoresMayFault::in_thread(session.may_call());
            let now = time::now();
            let block = taken.remove(&session.log, now, heap.peak.time());
            heap.freed(session, &block, now);
        }
    }
}

/// A block is about to be reallocated whose tag is set.
#[must_use]
pub fn begin_move(address: u64) -> Option<Moving> {
    let session = session::current()?;
    live::begin_move(&session.heap.live, &session.log, session.may_call(), address)
}

/// The host has done so, or has refused: then the block is as it was.
pub fn end_move(moving: &Moving, done: bool) {
    let Some(session) = session::current() else { return };
    let heap = &session.heap;
    let _stores = StoresMayFault::in_thread(session.may_call());
    if !done {
        return live::undo_move(&heap.live, &session.log, moving);
    }
    let now = time::now();
    if let Some(block) = live::end_move(&heap.live, &session.log, moving, now, heap.peak.time()) {
        heap.freed(session, &block, now);
    }
}

impl Heap {
    /// Unmaps what it has beside itself. Nobody is in the session any more.
    pub(crate) fn unmap(&self) {
        self.live.unmap();
        self.sums.unmap();
    }

    /// Interval asked for, how often it is doubled, and the seed, for the header.
    pub(crate) fn for_header(&self) -> Option<(u64, u64, u64)> {
        let interval = self.interval.load(Ordering::Relaxed);
        (interval != 0).then(|| {
            let shift = self.shift.load(Ordering::Relaxed);
            (interval, u64::from(shift), self.seed.load(Ordering::Relaxed))
        })
    }

    fn random(&self) -> u64 {
        chance::mixed(self.dice.fetch_add(chance::STEP, Ordering::Relaxed))
    }

    fn drawing(&self) -> countdown::Drawing {
        let shift = self.shift.load(Ordering::Relaxed);
        countdown::Drawing { random: self.random(), interval: self.interval_of(shift), shift }
    }

    fn interval_of(&self, shift: u32) -> u64 {
        self.interval.load(Ordering::Relaxed) << shift.min(MAX_SHIFT - 8)
    }

    fn weight(&self, size: u64, shift: u32) -> chance::Weight {
        chance::weight(size, self.interval_of(shift))
    }

    pub(super) fn account<'s>(&self, session: &'s Session) -> Option<&'s [AtomicU64; ACCOUNT_WORDS]> {
        let first = self.account.load(Ordering::Relaxed) as usize;
        session.log.words(first, ACCOUNT_WORDS).filter(|_| first != 0)?.first_chunk()
    }

    fn count(&self, session: &Session, at: usize) {
        self.add(session, at, 1);
    }

    fn add(&self, session: &Session, at: usize, more: u64) {
        if let Some(word) = self.account(session).and_then(|words| words.get(at)) {
            word.fetch_add(more, Ordering::Relaxed);
        }
    }

    #[inline(never)]
    fn record(
        &self,
        session: &Session,
        address: u64,
        size: u64,
        shift: u32,
        flags: u16,
        (regs, returns): (Regs, u64),
    ) {
        let site = Site::new(returns, callers::stack_pointer(regs), size);
        let Some(shift) = self.kept_at(site, size, shift) else {
            // Nothing is stored to the file here, so nothing is asked of the kernel.
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return self.count_drawn(session);
        };
        let _stores = StoresMayFault::in_thread(session.may_call());
        if !self.ready.load(Ordering::Acquire) && !self.prepare(session) {
            return;
        }
        live::expect(&self.live, &session.log, address);
        let stack = self.stack(session, regs, returns);
        let now = time::now();
        let weight = self.weight(size, shift);
        self.add_to_sums(session, size, stack, &weight);
        if shift != 0
            && let Some(account) = self.account(session)
        {
            account[account::MOST_SITE_SHIFT].fetch_max(u64::from(shift), Ordering::Relaxed);
            account[account::LEFT_OUT].store(self.left_out.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let block = Block { address, size, shift, flags, stack, allocated: now };
        self.enter(session, &block, weight.bytes);
        self.pace.count(site);
        self.count_drawn(session);
        self.look_at_rate(session);
    }

    /// Whether a sample of a site is recorded: the shift that it has then. A busy site's samples are thinned.
    fn kept_at(&self, site: Site, size: u64, shift: u32) -> Option<u32> {
        let more = self.pace.shift(site);
        if more == 0 {
            return Some(shift);
        }
        let coarse = (shift + more).min(MAX_SHIFT - 8);
        let chance = chance::kept(size, self.interval_of(shift), self.interval_of(coarse));
        self.happens(chance).then_some(coarse)
    }

    /// Of so many draws the share `chance` is true.
    fn happens(&self, chance: f64) -> bool {
        chance * (1_u64 << 53) as f64 > (self.random() >> 11) as f64
    }

    /// The file and the first areas. False: not now.
    #[cold]
    #[inline(never)]
    fn prepare(&self, session: &Session) -> bool {
        if !session.may_call() || self.refused.load(Ordering::Relaxed) >= MOST_REFUSALS {
            return false;
        }
        let _alone = session::alone();
        let made = file::open_patiently(session) && self.make_areas(session);
        if !made && self.refused.fetch_add(1, Ordering::Relaxed) + 1 == MOST_REFUSALS {
            stop(session);
            if session.log.is_open() {
                report::report(b"no room in its file for allocation samples (a larger --limit makes some)");
            }
        }
        made
    }

    #[cold]
    fn make_areas(&self, session: &Session) -> bool {
        let Some(_guard) = self.growth.lock_patiently(session.may_call()) else { return false };
        if self.ready.load(Ordering::Acquire) {
            return true;
        }
        let (log, may_call) = (&session.log, session.may_call());
        if self.account.load(Ordering::Relaxed) == 0 {
            let claimed = areas::claim(log, may_call, segment_kind::HEAP_ACCOUNT, ACCOUNT_WORDS, 1);
            self.account.store(claimed.unwrap_or(0) as u64, Ordering::Relaxed);
        }
        let made = self.account.load(Ordering::Relaxed) != 0
            && (self.live.places() > 0 || self.live.add(log, may_call, &live::SHAPE))
            && (self.sums.places() > 0 || self.sums.add(log, may_call, &sums::SHAPE));
        if made {
            if let Some(account) = self.account(session) {
                account[account::EARLY_CALLS].store(EARLY.load(Ordering::Relaxed), Ordering::Relaxed);
                account[account::SHARED].store(u64::from(countdown::is_shared()), Ordering::Relaxed);
            }
            self.note_own_bytes(session);
        }
        self.ready.store(made, Ordering::Release);
        made
    }

    fn note_own_bytes(&self, session: &Session) {
        let octets = self.live.octets(&live::SHAPE) + self.sums.octets(&sums::SHAPE) + tags::TAGS as u64;
        if let Some(account) = self.account(session) {
            account[account::OWN_BYTES].store(octets, Ordering::Relaxed);
        }
    }

    /// The number of the caller's stack; 0 = it has none.
    fn stack(&self, session: &Session, regs: Regs, returns: u64) -> u32 {
        let own = session.rings.own(session.may_call());
        call_stack::number(session, own, regs, returns).unwrap_or_else(|refused| {
            self.count(session, account::WITHOUT_STACK);
            if refused == NoStack::Taken {
                self.count(session, account::STACKS_TAKEN);
            }
            0
        })
    }

    fn add_to_sums(&self, session: &Session, size: u64, stack: u32, weight: &chance::Weight) {
        if let Some(account) = self.account(session) {
            account[account::SAMPLES].fetch_add(1, Ordering::Relaxed);
            sums::add(&account[account::BYTES], weight.bytes);
            sums::add(&account[account::BYTES_VARIANCE], weight.bytes_variance);
            sums::add(&account[account::BLOCKS], weight.blocks);
            sums::add(&account[account::BLOCKS_VARIANCE], weight.blocks_variance);
        }
        let mut words = sums::find_or_make(&self.sums, &session.log, stack);
        if words.is_none() {
            let places = self.sums.places();
            if let Some(_guard) = self.growth.lock_patiently(session.may_call())
                && self.sums.places() == places
            {
                self.sums.add(&session.log, session.may_call(), &sums::SHAPE);
                self.note_own_bytes(session);
            }
            words = sums::find_or_make(&self.sums, &session.log, stack);
        }
        match words {
            Some(words) => sums::allocated(words, size, weight),
            None => self.count(session, account::WITHOUT_SUM),
        }
    }

    /// Enters a block in the live table.
    fn enter(&self, session: &Session, block: &Block, bytes: f64) {
        let log = &session.log;
        if tags::ALL.any(block.address) {
            // The host gave this address out again: a free of it was not seen.
            let peak_time = self.peak.time();
            if let Some(stale) = live::take_block(&self.live, block.address) {
                let stale = stale.remove(log, block.allocated, peak_time);
                self.count(session, account::MISSED_FREES);
                self.freed(session, &stale, block.allocated);
            }
        }
        tags::ALL.add(block.address);
        let tid = if session.may_call() { self.tid(session) } else { 0 };
        let insert = || live::insert(&self.live, log, block, tid, self.peak.time());
        let has_address = places::is_address(block.address);
        if has_address && (insert() || self.make_room(session) && insert()) {
            self.peak.change(bytes, self.account(session));
            return;
        }
        tags::ALL.sub(block.address);
        if let Some(account) = self.account(session) {
            account[account::UNTRACKED].fetch_add(1, Ordering::Relaxed);
            sums::add(&account[account::UNTRACKED_BYTES], bytes);
        }
    }

    fn tid(&self, session: &Session) -> u32 {
        session.rings.own(true).map_or(0, |ring| ring.tid.load(Ordering::Relaxed))
    }

    /// A further area, or half of the blocks in the table.
    #[cold]
    #[inline(never)]
    fn make_room(&self, session: &Session) -> bool {
        let places = self.live.places();
        let Some(_guard) = self.growth.lock_patiently(session.may_call()) else { return false };
        if self.live.places() != places {
            // Another thread has made room meanwhile.
            return true;
        }
        if self.live.add(&session.log, session.may_call(), &live::SHAPE) {
            self.note_own_bytes(session);
            return true;
        }
        let shift = self.shift.load(Ordering::Relaxed) + 1;
        if shift > MAX_SHIFT - 8 {
            return false;
        }
        self.least_shift.store(shift, Ordering::Relaxed);
        self.set_shift(session, shift);
        let mut change = 0.0;
        live::thin(&self.live, &session.log, |block, is_ghost| {
            if block.shift >= shift {
                return Fate::Stays;
            }
            let chance = chance::kept(block.size, self.interval_of(block.shift), self.interval_of(shift));
            let is_kept = self.happens(chance);
            if !is_ghost {
                change -= self.weight(block.size, block.shift).bytes;
                change += if is_kept { self.weight(block.size, shift).bytes } else { 0.0 };
            }
            if is_kept { Fate::Shift(shift) } else { Fate::Goes }
        });
        self.count(session, account::THINNINGS);
        self.peak.change(change, self.account(session));
        true
    }

    fn freed(&self, session: &Session, block: &Block, now: u64) {
        let weight = self.weight(block.size, block.shift);
        self.peak.change(-weight.bytes, self.account(session));
        if block.flags & entry_flag::INHERITED != 0 {
            return;
        }
        if let Some(account) = self.account(session) {
            account[account::FREED_SAMPLES].fetch_add(1, Ordering::Relaxed);
            sums::add(&account[account::FREED_BYTES], weight.bytes);
        }
        if let Some(words) = sums::find_or_make(&self.sums, &session.log, block.stack) {
            sums::freed(words, &weight, block.allocated, now);
        }
    }

    /// Thins busy sites when samples come too often, and all sites if none is busy. Takes it back when they are few.
    fn look_at_rate(&self, session: &Session) {
        let samples = self.samples.fetch_add(1, Ordering::Relaxed) + 1;
        if !samples.is_multiple_of(LOOK_EVERY) {
            return;
        }
        let rate = rate_since(&self.rate_looked_ns, LOOK_EVERY);
        if rate > MOST_A_SECOND {
            match self.pace.slow_down() {
                0 => self.raise(session),
                sites => self.add(session, account::SITE_RISES, u64::from(sites)),
            }
        } else if rate < MOST_A_SECOND / 4 {
            self.speed_up(session);
        }
        self.pace.next_window();
    }

    /// Samples are few: busy sites are thinned less, or all sites if none is thinned.
    fn speed_up(&self, session: &Session) {
        let shift = self.shift.load(Ordering::Relaxed);
        if !self.pace.speed_up() && shift > self.least_shift.load(Ordering::Relaxed) {
            self.set_shift(session, shift - 1);
        }
    }

    /// Called a few times in a second of CPU time. A program that hardly allocates any more would not get through a
    /// number of samples.
    pub(super) fn look_at_time(&self, session: &Session) {
        let now = time::monotonic_ns();
        let since = now.saturating_sub(self.rate_looked_ns.load(Ordering::Relaxed));
        // With as many samples a look would have been due before.
        if since > LOOK_EVERY * 4 * 1_000_000_000 / MOST_A_SECOND {
            self.rate_looked_ns.store(now, Ordering::Relaxed);
            self.samples.store(0, Ordering::Relaxed);
            self.speed_up(session);
            self.pace.next_window();
        }
    }

    /// Thins all sites when samples are drawn too often, though few of them may be recorded.
    fn count_drawn(&self, session: &Session) {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
        if drawn.is_multiple_of(DRAWN_LOOK_EVERY)
            && rate_since(&self.drawn_looked_ns, DRAWN_LOOK_EVERY) > MOST_DRAWN_A_SECOND
        {
            let _stores = StoresMayFault::in_thread(session.may_call());
            self.raise(session);
        }
    }

    fn raise(&self, session: &Session) {
        let shift = self.shift.load(Ordering::Relaxed);
        if shift < MAX_SHIFT - 8 {
            self.count(session, account::RATE_RISES);
            self.set_shift(session, shift + 1);
        }
    }

    fn set_shift(&self, session: &Session, shift: u32) {
        self.shift.store(shift, Ordering::Relaxed);
        session.log.header_set(pct_format::layout::header::ALLOC_SHIFT, u64::from(shift));
        if let Some(account) = self.account(session) {
            account[account::SHIFT].store(u64::from(shift), Ordering::Relaxed);
            account[account::MOST_SHIFT].fetch_max(u64::from(shift), Ordering::Relaxed);
        }
    }
}

/// Events a second, if there were `events` of them since this was asked last.
fn rate_since(looked_ns: &AtomicU64, events: u64) -> u64 {
    let now = time::monotonic_ns();
    let took = now.saturating_sub(looked_ns.swap(now, Ordering::Relaxed));
    (events * 1_000_000_000).checked_div(took).unwrap_or(u64::MAX)
}
