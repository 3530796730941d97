//! Who waits for what, and who held it meanwhile.
//!
//! ```text
//! lock(m):   nobody waits in m's bucket, m is free ----> the host's lock           (nothing else)
//!                     \-- m is taken: count m, note the stack, the host's lock, then record the wait
//! unlock(m): nobody waits in m's bucket -----------------> the host's unlock       (nothing else)
//!                     \-- the host's unlock, then record who released it
//! ```
//!
//! The wrappers are a shell's (`pct-preload`, feature `waits`); here is what they call when somebody waits. Reading
//! order: [`watched`] (what they look at first), `relocks` (the same for mutexes of conditions), `under_way` (waits
//! that are not over), then this file.
//!
//! Always holds: nothing here waits for a lock of the program or allocates. After an object's release only its address
//! is used. Between the taking of a lock and its release a thread reads the time and appends one record. A record that
//! cannot be written is counted in the header.
//!
//! Signal safety: a signal handler of the program may interrupt any of this and call `sem_post`. It then finds the
//! thread's ring busy, and counts a lost record.

use core::sync::atomic::Ordering;

use pct_format::State;
use pct_format::layout::header as at;
use pct_format::record::{CANCELLED, HandedOn, STILL_WAITING, Wait, WaitKind};

use crate::code::call_stack;
use crate::process::session::{self, Session};
use crate::process::{beside, file};
use crate::record::rings::Ring;
use crate::record::time;
use crate::signal::stores_may_fault::StoresMayFault;
use crate::sys;
use crate::sys::arch::Regs;

mod relocks;
mod under_way;
pub mod watched;

/// Words of the longest record.
const RECORD_WORDS: usize = 12;

/// A shell that wraps locks says so in its constructor, before sampling starts.
pub fn install(doors: u64) {
    for (from, bytes) in [watched::ALL.memory(), under_way::ALL.memory(), relocks::ALL.memory()] {
        // SAFETY: whole pages of our own; in the child of a fork nobody waits.
        let _ = unsafe { sys::madvise(from, bytes.next_multiple_of(4096), sys::MADV_WIPEONFORK) };
    }
    beside::register(doors, close);
}

/// The recording ends: what is not over yet is recorded as it stands.
fn close(session: &Session, state: State) {
    let now = time::now();
    // A thread that ends the process does not wait: it has left its last wait by a jump.
    let ends = if state == State::Closed && session.may_call() { sys::gettid() } else { 0 };
    for ring in session.rings.ever_used() {
        let Some(mut wait) = under_way::ALL.take_wait(session.rings.number(ring)) else { continue };
        // Of a thread that ended in its wait, or left it by a jump, nobody knows when: its length stays 0.
        wait.result = CANCELLED;
        if ring.tid.load(Ordering::Relaxed) == wait.tid && wait.tid != ends {
            (wait.length, wait.result) = (now.saturating_sub(wait.time), STILL_WAITING);
        }
        // The thread takes its count off itself if it ever returns.
        let mut words = [0; RECORD_WORDS];
        append(session, None, wait.record(&mut words));
    }
}

/// A wait that has begun. All zeros: it is not recorded.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Begun {
    /// Raw time, 0 = nothing is recorded.
    time: u64,
    /// Number of the stack, and the ring plus one in the upper half (0: the wait is not under [`under_way`]).
    stack_and_ring: u64,
    /// The signals that the thread blocks: asked before the wait, so that nothing is asked while a lock is held.
    mask: u64,
}

/// The call of a wrapper: the caller's registers with the address of its call's last byte as their place, and where it
/// returns to.
pub type Caller = (Regs, u64);

/// The calling thread is about to wait. Nothing of the result says that it has to.
#[must_use]
pub fn begin(kind: WaitKind, object: u64, mutex: u64, (regs, returns): Caller) -> Begun {
    let Some(session) = current().filter(|s| file::is_ready(s) || file::open_patiently(s)) else {
        return Begun::default();
    };
    if is_counted(kind) {
        watched::ALL.add(object);
    }
    if mutex != 0 {
        relocks::ALL.awaits(object, mutex);
    }
    let time = time::now();
    let may_call = session.may_call();
    let mask = if may_call { sys::sigmask(sys::Mask::Block, 0) } else { 0 };
    let _stores = StoresMayFault::under_mask(mask);
    let ring = session.rings.own(may_call);
    let stack = call_stack::number(session, ring, regs, returns).unwrap_or(0);
    let mut stack_and_ring = u64::from(stack);
    if let Some(ring) = ring {
        let (number, tid) = (session.rings.number(ring), ring.tid.load(Ordering::Relaxed));
        if let Some(left) = under_way::ALL.take_left_behind(number, tid, regs.context) {
            forget(&left);
            // Nobody knows when it ended: its length stays 0.
            let ended = Wait { result: CANCELLED, ..left };
            append(session, Some(ring), ended.record(&mut [0; RECORD_WORDS]));
        }
        let wait = Wait { stack, time, length: 0, tid, kind: kind as u64, object, mutex, result: 0 };
        if under_way::ALL.enter(number, &wait, regs.context) {
            stack_and_ring |= u64::from(number + 1) << 32;
        }
    }
    Begun { time, stack_and_ring, mask }
}

/// The wait is over, with this result. For a join, `object` in the record is the other thread's id: `named`.
pub fn end(begun: &Begun, kind: WaitKind, (object, named): (u64, u64), mutex: u64, result: u64) {
    let now = time::now();
    if !leave(begun, kind, object) {
        return;
    }
    let Some(session) = current() else { return };
    let _stores = StoresMayFault::under_mask(begun.mask);
    let ring = session.rings.own(session.may_call());
    let wait = Wait {
        stack: stack_of(begun),
        time: begun.time,
        length: now.saturating_sub(begun.time),
        tid: tid(session, ring),
        kind: kind as u64,
        object: named,
        mutex,
        result,
    };
    append(session, ring, wait.record(&mut [0; RECORD_WORDS]));
}

/// The call has returned without a wait.
pub fn did_not_wait(begun: &Begun, kind: WaitKind, object: u64) {
    let _ = leave(begun, kind, object);
}

/// Whether the calling thread's last wait for a futex was for this one; the next answer is no.
///
/// Who had to wait for a lock wakes others when it releases it, whether they wait or not. A wake-up that woke nobody
/// says that the thread had the lock, so it is recorded as a taking.
#[must_use]
pub fn was_waited_for(futex: u64) -> bool {
    let ring = current().and_then(|session| Some((session, session.rings.own(session.may_call())?)));
    ring.is_some_and(|(session, ring)| under_way::ALL.was_last_futex(session.rings.number(ring), futex))
}

/// The calling thread is cancelled in its wait, or leaves it by an exception: it does not come back to [`end`].
pub fn cancelled() {
    let now = time::now();
    let Some(session) = current() else { return };
    let Some(ring) = session.rings.own(session.may_call()) else { return };
    if let Some(wait) = under_way::ALL.take_wait(session.rings.number(ring)) {
        forget(&wait);
        let _stores = StoresMayFault::in_thread(session.may_call());
        let length = now.saturating_sub(wait.time);
        let wait = Wait { length, result: CANCELLED, ..wait };
        append(session, Some(ring), wait.record(&mut [0; RECORD_WORDS]));
    }
}

/// The wait of a thread that does not come back to [`end`] is over.
fn forget(wait: &Wait) {
    if wait.kind != WaitKind::Futex as u64 {
        watched::ALL.sub(wait.object);
    }
    if wait.kind == WaitKind::Condition as u64 {
        relocks::ALL.returned(wait.object, &watched::ALL);
    }
}

/// At most `most` threads that wait for this condition are about to be woken, and will take its mutex.
pub fn wakes(condition: u64, most: u8) {
    relocks::ALL.wakes(condition, most, &watched::ALL);
}

/// The calling thread waited for this condition and has its mutex again.
pub fn relocked(condition: u64) {
    relocks::ALL.returned(condition, &watched::ALL);
}

/// The thread did not wait: it is the one for which the others waited (the last one at a barrier).
pub fn end_as_release(begun: &Begun, kind: WaitKind, object: u64) {
    if leave(begun, kind, object)
        && let Some(session) = current()
    {
        let _stores = StoresMayFault::under_mask(begun.mask);
        let ring = session.rings.own(session.may_call());
        let (stack, time) = (stack_of(begun), begun.time);
        let event = HandedOn { stack, time, tid: tid(session, ring), kind: kind as u64, object };
        append(session, ring, event.released(&mut [0; RECORD_WORDS]));
    }
}

/// The calling thread has released an object, or woken those who wait for it, at raw time `time`. The object may be
/// gone.
pub fn released(kind: WaitKind, object: u64, time: u64, (regs, returns): Caller) {
    let Some(session) = current().filter(|session| session.log.is_open()) else { return };
    let _stores = StoresMayFault::in_thread(session.may_call());
    let ring = session.rings.own(session.may_call());
    let stack = call_stack::number(session, ring, regs, returns).unwrap_or(0);
    let event = HandedOn { stack, time, tid: tid(session, ring), kind: kind as u64, object };
    append(session, ring, event.released(&mut [0; RECORD_WORDS]));
}

/// The calling thread has just taken an object for which others wait. `mask`: the signals that it blocks.
pub fn taken(kind: WaitKind, object: u64, mask: u64) {
    let time = time::now();
    let Some(session) = current().filter(|session| session.log.is_open()) else { return };
    let _stores = StoresMayFault::under_mask(mask);
    let ring = session.rings.own(session.may_call());
    let event = HandedOn { stack: 0, time, tid: tid(session, ring), kind: kind as u64, object };
    append(session, ring, event.taken(&mut [0; RECORD_WORDS]));
}

/// The calling thread is about to make another one: raw time, and its own kernel's id. `None`: not recorded.
#[must_use]
pub fn makes_thread() -> Option<(u64, u32)> {
    let session = current().filter(|s| file::is_ready(s) || file::open_patiently(s))?;
    Some((time::now(), tid(session, session.rings.own(session.may_call()))))
}

/// The calling thread has just begun; another one made it, see [`makes_thread`].
pub fn was_made((time, by): (u64, u32)) {
    let Some(session) = current().filter(|session| session.log.is_open()) else { return };
    let Some(ring) = session.rings.own(session.may_call()) else { return };
    let _stores = StoresMayFault::in_thread(session.may_call());
    let object = u64::from(ring.tid.load(Ordering::Relaxed));
    let event = HandedOn { stack: 0, time, tid: by, kind: WaitKind::Start as u64, object };
    append(session, Some(ring), event.released(&mut [0; RECORD_WORDS]));
}

/// The signals that the calling thread blocks, for [`taken`].
#[must_use]
pub fn mask() -> u64 {
    if current().is_some_and(Session::may_call) { sys::sigmask(sys::Mask::Block, 0) } else { 0 }
}

/// The signals that a thread blocked when its wait began.
#[must_use]
pub fn mask_of(begun: &Begun) -> u64 {
    begun.mask
}

/// Whether waits are recorded at this moment.
#[must_use]
pub fn are_recorded() -> bool {
    current().is_some()
}

/// Kernel's id of the calling thread; 0 = not known.
#[must_use]
pub fn own_tid() -> u32 {
    current().map_or(0, |session| tid(session, session.rings.own(session.may_call())))
}

/// Kernel's id of the thread whose control block is at this address; 0 = not known.
#[must_use]
pub fn tid_of_block(base: u64) -> u32 {
    let Some(session) = current() else { return 0 };
    let found = session.rings.ever_used().find(|ring| ring.base.load(Ordering::Relaxed) == base);
    found.map_or(0, |ring| ring.tid.load(Ordering::Relaxed))
}

fn current() -> Option<&'static Session> {
    session::current().filter(|s| s.on.load(Ordering::Relaxed) && beside::doors() != 0)
}

/// Whether waits for it are counted in [`watched`]. A futex is released by a system call, which is recorded anyway.
fn is_counted(kind: WaitKind) -> bool {
    kind != WaitKind::Futex
}

fn stack_of(begun: &Begun) -> u32 {
    // The lower half.
    (begun.stack_and_ring & 0xffff_ffff) as u32
}

/// Takes the count off. False: nothing began, or the wait was recorded when the recording was closed.
fn leave(begun: &Begun, kind: WaitKind, object: u64) -> bool {
    if begun.time == 0 {
        return false;
    }
    let ring_plus_one = (begun.stack_and_ring >> 32) as u32;
    if is_counted(kind) {
        watched::ALL.sub(object);
    } else if ring_plus_one != 0 {
        under_way::ALL.waited_for_futex(ring_plus_one - 1, object);
    }
    ring_plus_one == 0 || under_way::ALL.leave(ring_plus_one - 1)
}

fn tid(session: &Session, ring: Option<&Ring>) -> u32 {
    match ring {
        Some(ring) => ring.tid.load(Ordering::Relaxed),
        None if session.may_call() => sys::gettid(),
        None => 0,
    }
}

/// Appends a record to the thread's ring, or to the process's where the thread has none.
fn append(session: &Session, ring: Option<&Ring>, record: Option<&[u64]>) {
    let Some(record) = record else { return };
    let may_call = session.may_call();
    let is_written = match ring {
        Some(ring) if ring.enter().is_ok() => {
            let is_written = ring.append_beside(&session.log, record) || {
                // A new segment: a handler of the program's must not leave this by a jump.
                let _alone = session::alone();
                ring.push(&session.log, &session.rings, may_call, 0, 0, record, &[])
            };
            ring.exit();
            is_written
        }
        Some(_) => false,
        None => {
            let _alone = session::alone();
            session
                .house
                .lock_patiently(may_call)
                .is_some_and(|mut house| house.process.append(&session.log, may_call, record, &[]))
        }
    };
    let count = if is_written { at::WAIT_RECORDS } else { at::WAIT_RECORDS_LOST };
    if let Some(count) = session.log.header(count) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}
