//! What a futex is waited for, where the program calls the kernel itself.
//!
//! The kernel knows addresses only. The names of the functions that wait say more: those of Rust's standard library are
//! known here. A lock of which nothing is known stays a futex.

use super::cut::{Change, Event, Interval};
use pct_format::WaitKind;

/// What the function of this name waits for, if it is one of Rust's standard library.
#[must_use]
pub fn kind_of(function: &str) -> Option<WaitKind> {
    // `<std::sys::sync::mutex::futex::Mutex>::lock_contended`, or without the angle brackets.
    let name = function.strip_prefix('<').unwrap_or(function);
    let rest = name.strip_prefix("std::sys")?;
    let ends = |with: &str| rest.ends_with(with);
    match rest {
        _ if rest.contains("Mutex") && ends("::lock_contended") => Some(WaitKind::Mutex),
        _ if rest.contains("RwLock") && ends("::read_contended") => Some(WaitKind::ReadLock),
        _ if rest.contains("RwLock") && ends("::write_contended") => Some(WaitKind::WriteLock),
        _ if rest.contains("Condvar") && rest.contains("::wait") => Some(WaitKind::Condition),
        _ => None,
    }
}

/// A wait for a futex: who waited, from when to when, and whether somebody woke it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FutexWait<H> {
    /// Who waited.
    pub who: H,
    /// Nanoseconds.
    pub begin: u64,
    /// Nanoseconds.
    pub end: u64,
    /// The call returned 0.
    pub is_woken: bool,
}

/// Reads waits for a futex as those for a mutex of Rust's standard library: the same waits with what is known of them,
/// and the changes of hands in order of time. `wakes` are in order of time; one that woke nobody is a *taken*: its
/// thread had the futex. `same` says whether two are one thread.
///
/// Such a mutex is free, taken, or taken and waited for. A thread sleeps only in the last state, and the mutex leaves
/// that state only by a release, which wakes somebody. A woken thread takes the mutex in that state too, or sleeps
/// again.
pub fn as_mutex<H: Copy>(
    waits: &[FutexWait<H>],
    wakes: &[Event<H>],
    same: impl Fn(H, H) -> bool,
) -> (Vec<Interval>, Vec<Event<H>>) {
    let mut events: Vec<_> = wakes.iter().filter(|event| event.change == Change::Released).copied().collect();
    let mut intervals = Vec::with_capacity(waits.len());
    for (number, wait) in waits.iter().enumerate() {
        events.push(Event { time_ns: wait.begin, change: Change::IsTaken, who: wait.who });
        let again = waits[number + 1..].iter().find(|next| same(next.who, wait.who));
        let from = wakes.partition_point(|event| event.time_ns < wait.end);
        let releases = wakes[from..].iter().find(|event| same(event.who, wait.who));
        let took = wait.is_woken
            && releases.is_some_and(|release| again.is_none_or(|again| again.begin > release.time_ns));
        if took {
            events.push(Event { time_ns: wait.end, change: Change::Taken, who: wait.who });
        }
        intervals.push(Interval {
            kind: WaitKind::Mutex,
            begin: wait.begin,
            end: wait.end,
            took,
            relocks: false,
            proofs_only: true,
        });
    }
    events.sort_by_key(|event| (event.time_ns, event.change != Change::Released));
    (intervals, events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Change::{IsTaken, Released, Taken};

    #[test]
    fn names_of_the_standard_library_say_what_is_waited_for() {
        for (name, kind) in [
            ("<std::sys::sync::mutex::futex::Mutex>::lock_contended", Some(WaitKind::Mutex)),
            ("std::sys::unix::locks::futex_mutex::Mutex::lock_contended", Some(WaitKind::Mutex)),
            ("<std::sys::sync::rwlock::futex::RwLock>::read_contended", Some(WaitKind::ReadLock)),
            ("std::sys::sync::rwlock::futex::RwLock::write_contended", Some(WaitKind::WriteLock)),
            ("<std::sys::sync::condvar::futex::Condvar>::wait_optional_timeout", Some(WaitKind::Condition)),
            ("std::thread::functions::park", None),
            ("my::Mutex::lock_contended", None),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }

    #[test]
    fn who_releases_a_mutex_after_a_wait_has_taken_it() {
        let wait = |who, begin, end| FutexWait { who, begin, end, is_woken: true };
        let wake = |time_ns, who| Event { time_ns, change: Released, who };
        let had_it = Event { time_ns: 60, change: Taken, who: 'b' };
        // 'a' holds it. 'b' is woken, but finds it taken by 'c' and sleeps again. 'b' takes it then and releases it,
        // and nobody waits any more.
        let waits = [wait('b', 10, 21), wait('b', 22, 41)];
        let (intervals, events) = as_mutex(&waits, &[wake(20, 'a'), wake(40, 'c'), had_it], |a, b| a == b);
        assert_eq!(intervals.iter().map(|interval| interval.took).collect::<Vec<_>>(), [false, true]);
        let events: Vec<_> = events.iter().map(|event| (event.time_ns, event.change, event.who)).collect();
        assert_eq!(
            events,
            [
                (10, IsTaken, 'b'),
                (20, Released, 'a'),
                (22, IsTaken, 'b'),
                (40, Released, 'c'),
                (41, Taken, 'b')
            ]
        );
    }
}
