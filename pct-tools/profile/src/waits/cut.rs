//! Cuts a wait at the changes of hands.
//!
//! ```text
//!            begin                                                 end
//! wait         |----------------------------------------------------|
//! events                R(A)      T(B)         R(B)
//! belongs to   A........|hand-over|  B..........|  hand-over ........|
//! ```
//!
//! Whoever holds the object when the wait begins took it before anybody waited, so nothing says so; its release does.
//! If a taking was not seen, the time up to the next release belongs to who released then: it had it at the end.
//!
//! A lock that is taken without a call (Rust's) tells less. The kernel lets a thread sleep only while the lock is
//! taken, and each release of such a lock wakes somebody. So whoever releases it next had it since the sleep began.
//! What passes between a release and the next such proof has no known holder ([`Interval::proofs_only`]).

use pct_format::WaitKind;

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Released, or its waiters woken; by which of the events' owners.
    Released,
    /// Taken, at once or after a wait.
    Taken,
    /// It is taken at this moment, by whom is not known: another thread begins to wait.
    IsTaken,
}

/// A change of hands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<H> {
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// What.
    pub change: Change,
    /// Who did it.
    pub who: H,
}

/// Whose a part of a wait is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose<H> {
    /// This one held the object, or woke the waiter at the end of it.
    Of(H),
    /// Nobody had it: the waiter or another one was woken and did not run yet.
    HandOver,
    /// Not known.
    Unknown,
}

/// What is known of the wait that is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// What was waited for.
    pub kind: WaitKind,
    /// Nanoseconds.
    pub begin: u64,
    /// Nanoseconds.
    pub end: u64,
    /// The waiter has the object now; otherwise it gave up, or waits on.
    pub took: bool,
    /// The waiter was woken at the begin, and the mutex may have been free then: a condition's, which is taken again.
    pub relocks: bool,
    /// Most takings are not seen, so only who is proved to have had the object is named.
    pub proofs_only: bool,
}

/// Gives the parts of a wait, in order: whose each is, and nanoseconds. `events` are those of the object by other
/// threads than the waiter's, in order of time.
pub fn cut<H: Copy>(
    Interval { kind, begin, end, took, relocks, proofs_only }: Interval,
    events: impl Iterator<Item = Event<H>> + Clone,
    mut part: impl FnMut(Whose<H>, u64),
) {
    let mut during = events.skip_while(|event| event.time_ns < begin);
    let mut at = begin;
    let is_next = |change| during.clone().next().is_some_and(|event| event.change == change);
    let mut is_held = !relocks || is_next(Change::Released);
    let mut give = |whose, from: &mut u64, to: u64| {
        if to > *from {
            part(whose, to - *from);
            *from = to;
        }
    };
    if !kind.is_lock() {
        // Of several wake-ups the last one is the one that let this thread go on.
        let last = during
            .take_while(|event| event.time_ns <= end)
            .filter(|event| event.change == Change::Released)
            .last();
        match last {
            Some(event) => {
                give(Whose::Of(event.who), &mut at, event.time_ns);
                give(Whose::HandOver, &mut at, end);
            }
            None => give(Whose::Unknown, &mut at, end),
        }
        return;
    }
    // Readers hold a lock together: between two releases somebody has it all the time.
    let is_shared = kind != WaitKind::Mutex;
    for event in during.clone().take_while(|event| event.time_ns <= end) {
        match (event.change, is_held) {
            (Change::Released, false) if proofs_only => give(Whose::Unknown, &mut at, event.time_ns),
            (Change::Released, _) => {
                give(Whose::Of(event.who), &mut at, event.time_ns);
                is_held = false;
            }
            (Change::Taken, _) if is_shared => {}
            (Change::Taken, false) => {
                give(Whose::HandOver, &mut at, event.time_ns);
                is_held = true;
            }
            (Change::IsTaken, false) => {
                give(Whose::Unknown, &mut at, event.time_ns);
                is_held = true;
            }
            (Change::IsTaken, true) => {}
            // Its release was not seen.
            (Change::Taken, true) => give(Whose::Unknown, &mut at, event.time_ns),
        }
    }
    if is_held {
        // Without the object: who releases it next had it. With it: its holder released it just when the wait began,
        // and did not know of the waiter yet.
        let whose = match during.find(|event| event.time_ns > end && event.change != Change::IsTaken) {
            Some(Event { change: Change::Released, who, .. }) if !took => Whose::Of(who),
            _ => Whose::Unknown,
        };
        give(whose, &mut at, end);
    } else {
        give(if proofs_only && !took { Whose::Unknown } else { Whose::HandOver }, &mut at, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Change::{Released, Taken};
    use Whose::{HandOver, Of, Unknown};
    use proptest::prelude::*;

    fn parts(
        kind: WaitKind,
        (begin, end, took): (u64, u64, bool),
        events: &[(u64, Change, char)],
    ) -> Vec<(Whose<char>, u64)> {
        let mut parts = Vec::new();
        let events = events.iter().map(|&(time_ns, change, who)| Event { time_ns, change, who });
        let interval = Interval { kind, begin, end, took, relocks: false, proofs_only: false };
        cut(interval, events, |whose, ns| parts.push((whose, ns)));
        parts
    }

    #[test]
    fn of_a_lock_that_is_taken_without_a_call_only_proved_holders_are_named() {
        let of = |took, events: &[(u64, Change, char)]| {
            let mut parts = Vec::new();
            let events = events.iter().map(|&(time_ns, change, who)| Event { time_ns, change, who });
            let kind = WaitKind::Mutex;
            let interval = Interval { kind, begin: 100, end: 200, took, relocks: false, proofs_only: true };
            cut(interval, events, |whose, ns| parts.push((whose, ns)));
            parts
        };
        // The second one that was woken found it taken, and sleeps again: who took it meanwhile is not known.
        let barged = [(120, Released, 'a'), (130, Change::IsTaken, 'b'), (190, Released, 'c')];
        assert_eq!(of(true, &barged), [(Of('a'), 20), (Unknown, 10), (Of('c'), 60), (HandOver, 10)]);
        // The second one took it, and nobody proves that the third one had it.
        let twice = [(120, Released, 'a'), (130, Taken, 'b'), (150, Released, 'b'), (190, Released, 'c')];
        let parts = of(true, &twice);
        assert_eq!(parts, [(Of('a'), 20), (HandOver, 10), (Of('b'), 20), (Unknown, 40), (HandOver, 10)]);
        // Woken, and it was taken again.
        assert_eq!(of(false, &[(150, Released, 'a')]), [(Of('a'), 50), (Unknown, 50)]);
    }

    #[test]
    fn a_wait_belongs_to_those_who_held_the_lock() {
        let of = |events: &[_]| parts(WaitKind::Mutex, (100, 200, true), events);
        assert_eq!(of(&[(190, Released, 'a')]), [(Of('a'), 90), (HandOver, 10)]);
        assert_eq!(
            of(&[(50, Released, 'z'), (130, Released, 'a'), (140, Taken, 'b'), (195, Released, 'b')]),
            [(Of('a'), 30), (HandOver, 10), (Of('b'), 55), (HandOver, 5)]
        );
        // A taking that was not seen.
        assert_eq!(
            of(&[(130, Released, 'a'), (190, Released, 'b')]),
            [(Of('a'), 30), (Of('b'), 60), (HandOver, 10)]
        );
        // A release that was not seen.
        assert_eq!(of(&[(150, Taken, 'b'), (200, Released, 'b')]), [(Unknown, 50), (Of('b'), 50)]);
    }

    #[test]
    fn who_released_after_a_wait_in_vain_held_it() {
        let in_vain = |events: &[_]| parts(WaitKind::Mutex, (100, 200, false), events);
        assert_eq!(in_vain(&[(300, Released, 'a')]), [(Of('a'), 100)]);
        assert_eq!(in_vain(&[(250, Taken, 'b'), (300, Released, 'b')]), [(Unknown, 100)]);
    }

    #[test]
    fn who_released_after_a_wait_that_got_the_lock_did_not_hold_it() {
        let later = [(300, Released, 'a')];
        assert_eq!(parts(WaitKind::Mutex, (100, 200, true), &later), [(Unknown, 100)]);
    }

    #[test]
    fn readers_hold_a_lock_together() {
        let events = [(120, Released, 'a'), (130, Taken, 'c'), (180, Released, 'b')];
        assert_eq!(
            parts(WaitKind::WriteLock, (100, 200, true), &events),
            [(Of('a'), 20), (Of('b'), 60), (HandOver, 20)]
        );
    }

    #[test]
    fn a_mutex_that_was_free_at_the_signal_is_handed_over() {
        let of = |events: &[(u64, Change, char)]| {
            let mut parts = Vec::new();
            let events = events.iter().map(|&(time_ns, change, who)| Event { time_ns, change, who });
            let kind = WaitKind::Mutex;
            let interval =
                Interval { kind, begin: 100, end: 200, took: true, relocks: true, proofs_only: false };
            cut(interval, events, |whose, ns| parts.push((whose, ns)));
            parts
        };
        assert_eq!(of(&[(190, Released, 'a')]), [(Of('a'), 90), (HandOver, 10)]);
        assert_eq!(
            of(&[(120, Taken, 'b'), (180, Released, 'b')]),
            [(HandOver, 20), (Of('b'), 60), (HandOver, 20)]
        );
    }

    #[test]
    fn the_last_wake_up_counts() {
        let events = [(120, Released, 'a'), (180, Released, 'b')];
        assert_eq!(parts(WaitKind::Condition, (100, 200, true), &events), [(Of('b'), 80), (HandOver, 20)]);
        assert_eq!(parts(WaitKind::Condition, (100, 200, true), &[]), [(Unknown, 100)]);
    }

    proptest! {
        #[test]
        fn the_parts_sum_up(
            begin in 0u64..100, length in 0u64..100, kind in 0usize..WaitKind::ALL.len(), took in proptest::bool::ANY,
            mut events in proptest::collection::vec((0u64..300, proptest::bool::ANY, proptest::char::any()), 0..20)
        ) {
            events.sort_by_key(|event| event.0);
            let events: Vec<_> = events
                .into_iter()
                .map(|(time, released, who)| (time, if released { Released } else { Taken }, who))
                .collect();
            let parts = parts(WaitKind::ALL[kind], (begin, begin + length, took), &events);
            prop_assert_eq!(parts.iter().map(|part| part.1).sum::<u64>(), length);
        }
    }
}
