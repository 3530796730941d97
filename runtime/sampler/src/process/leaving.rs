//! The process makes a child, or is about to become another program.
//!
//! Signal safety: system calls and try-locks; called between fork and exec too.

use core::sync::atomic::Ordering;

use crate::code::stack_finder;
use crate::process::session::Session;
use crate::signal::clock::{itimer, perf};
use crate::sys::{self, Mask};
use crate::{
    process::bookkeeping, process::life, process::session, process::threads, record::time, signal::masks,
};
use pct_format::head::kind;
use pct_format::layout::header as at;
use pct_format::record::Encoder;
use pct_format::{Clock, State};

/// The calling thread is about to fork.
pub fn before_fork(session: &Session) {
    stack_finder::before_fork(session);
}

/// The process made a child.
pub fn forked(session: &Session, child: u32) {
    if !session.log.is_open() {
        return;
    }
    if !session.may_call() {
        return life::note_child_under_filter(session);
    }
    if let Some(mut house) = session.house.try_lock() {
        let house = &mut *house;
        let record = Encoder::new(&mut house.record)
            .raw_word(time::now())
            .number(u64::from(child))
            .finish(kind::FORK, 0);
        if let Some(record) = record {
            house.process.append(&session.log, true, record, &[]);
        }
    }
}

/// Notes the exec, stops what would survive it.
pub fn before_exec(session: &Session, path: &[u8]) {
    if !session.may_call() {
        return;
    }
    if !session.on.load(Ordering::Relaxed) {
        return life::end(session, State::Replaced);
    }
    itimer::disarm(session.clock());
    stop_perf(session);
    masks::close(session);
    if !session.log.is_open() {
        life::say_without_sample(session);
        return;
    }
    let alone = session::alone();
    if let Some(mut house) = session.house.try_lock() {
        bookkeeping::note_times_while_blocked(session, &mut house, alone.signals());
        let house = &mut *house;
        let path = path.get(..path.len().min(1024)).unwrap_or(path);
        let record = Encoder::new(&mut house.record).raw_word(time::now()).text(path).finish(kind::EXEC, 0);
        if let Some(record) = record {
            house.process.append(&session.log, true, record, &[]);
        }
    }
    session.log.header_set(at::STATE, State::Replaced as u64);
}

/// Ends the calling thread's perf event and takes away a signal of it that is pending. Signals that are
/// pending stay so over the exec while handlers do not: one that was sent between the last instruction of
/// ours and the kernel's entry, or that the thread blocks, would kill the next program before its
/// constructors. (POSIX timers take theirs with them; other threads' signals go with their threads.)
fn stop_perf(session: &Session) {
    if !matches!(session.clock(), Clock::Perf | Clock::Sigtrap) {
        return;
    }
    let signal = sys::signal_bit(session.settings.signal.load(Ordering::Relaxed));
    let before = sys::sigmask(Mask::Block, signal);
    let own = session.rings.own(true);
    let believed = own.map_or(0, masks::believed);
    if (before | believed) & signal != 0 || session.inherited.sees_kernel() {
        // An inherited event would send its signal, which waits, up to the exec. (Where signals come through
        // it sends none in the kernel, unless it counts time there.)
        session.inherited.end();
    }
    if let Some(ring) = own {
        // Unmapping waits for what the event still has to send.
        perf::disarm(ring);
    }
    while sys::take_pending(signal) {}
    if before & signal == 0 {
        sys::sigmask(Mask::Unblock, signal);
    }
}

/// The program is about to execute another one in a way that tells nobody if it fails. Time in the kernel is
/// no longer sampled with its calls: a signal that waits while the kernel replaces the program would kill the
/// next one. Clocks of user mode send none there.
pub fn before_bare_exec(session: &Session) {
    if !session.may_call()
        || !session.on.load(Ordering::Relaxed)
        || !session.settings.kernel.swap(false, Ordering::Relaxed)
    {
        return;
    }
    stop_perf(session);
    if !session.inherited.is_on() {
        threads::arm_eventless(session);
        let _alone = session::alone();
        threads::note_inherited(session);
    }
}

/// The exec failed: the program goes on, and so do we.
pub fn exec_failed(session: &Session) {
    if !session.may_call() || !session.on.load(Ordering::Relaxed) {
        return;
    }
    masks::reopen(session);
    {
        let _alone = session::alone();
        session.log.header_set(at::STATE, State::Armed as u64);
    }
    let settings = &session.settings;
    let period = settings.period_ns.load(Ordering::Relaxed);
    if itimer::which(session.clock()).is_some() {
        let _ = itimer::arm(session.clock(), period);
    }
    if !session.inherited.is_on() {
        threads::arm_eventless(session);
        let _alone = session::alone();
        threads::note_inherited(session);
    }
}
