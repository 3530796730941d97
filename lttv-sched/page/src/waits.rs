//! What the threads of a recording waited for: spans of time, one for each wait.
//!
//! Some recordings have each wait for a lock with its begin and its end. Those by the wall clock have samples of
//! threads that did not run; neighbours for one cause make one wait here.

use std::collections::HashMap;
use std::sync::Arc;

use pct_icicle::colour::{Rgb, name_hash};

/// What sort of thing threads wait for. Times of different sorts mean different things.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitSort {
    /// A lock that another thread holds.
    Lock,
    /// Another thread, another program or a clock.
    Work,
    /// A file, or a page of memory.
    File,
    /// A processor.
    Processor,
    /// It is not known what.
    Unknown,
}

impl WaitSort {
    /// All of them, in the order of tables.
    pub const ALL: [WaitSort; 5] =
        [WaitSort::Lock, WaitSort::Work, WaitSort::File, WaitSort::Processor, WaitSort::Unknown];

    /// In words, after "waits for".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            WaitSort::Lock => "locks",
            WaitSort::Work => "work of others, or a time",
            WaitSort::File => "files and memory",
            WaitSort::Processor => "a CPU",
            WaitSort::Unknown => "what is not known",
        }
    }

    /// The colour that waits of this sort have, more or less.
    #[must_use]
    pub fn colour(self) -> Rgb {
        match self {
            WaitSort::Lock => Rgb(212, 72, 68),
            WaitSort::Work => Rgb(158, 172, 194),
            WaitSort::File => Rgb(58, 150, 150),
            WaitSort::Processor => Rgb(236, 158, 40),
            WaitSort::Unknown => Rgb(204, 196, 172),
        }
    }
}

/// What threads wait for, as lanes tell it: `mutex`, `read pipe`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitName {
    /// In a word or two.
    pub name: Arc<str>,
    /// What sort of thing it is.
    pub sort: WaitSort,
}

impl WaitName {
    /// The name of its cells.
    pub(crate) fn in_lanes(&self) -> String {
        format!("{BEFORE_NAME}{}", self.name)
    }

    /// Those of one sort differ a little, so that one sees where one ends and the other begins.
    pub(crate) fn colour(&self) -> Rgb {
        let Rgb(r, g, b) = self.sort.colour();
        let lighter = u8::try_from(name_hash(&self.name) % 5 * 9).unwrap_or(0);
        Rgb(r.saturating_add(lighter), g.saturating_add(lighter), b.saturating_add(lighter))
    }
}

/// What stands before the name of what is waited for in a lane: marks of programs have names too.
const BEFORE_NAME: &str = "waits: ";

/// Who ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EndedBy {
    /// The thread: its place in the recording's threads.
    pub thread: u32,
    /// Where it was then: a place in [`RecordedWaits::texts`]; none: it ended.
    pub place: Option<u32>,
}

/// A wait of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Its begin, ns since 1970.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// What for, as lanes tell it: a place in [`RecordedWaits::names`].
    pub name: u32,
    /// What for exactly, a lock for instance: a place in [`RecordedWaits::texts`].
    pub object: u32,
    /// The function that waited: a place in the same list.
    pub place: u32,
    /// Who ended it; none: that is not known.
    pub ended_by: Option<EndedBy>,
}

impl Wait {
    /// Nanoseconds of it in a range.
    pub(crate) fn inside(&self, (from, to): (i64, i64)) -> u64 {
        let (from, to) = (self.from_ns.max(from), self.to_ns.min(to));
        u64::try_from(to.saturating_sub(from)).unwrap_or(0)
    }
}

/// What the waits of a recording's threads name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordedWaits {
    /// What is waited for, as lanes tell it.
    pub names: Vec<WaitName>,
    /// Names of objects and functions.
    pub texts: Vec<Arc<str>>,
    /// By stack: whether a thread with it did not run. Such samples are waits already. Empty: all ran.
    pub blocked: Arc<[bool]>,
}

impl RecordedWaits {
    /// Whether a sample with this stack is of a thread that did not run.
    pub(crate) fn is_blocked(&self, stack: u32) -> bool {
        usize::try_from(stack).ok().and_then(|stack| self.blocked.get(stack)).copied().unwrap_or(false)
    }

    /// What a cell of this name in a lane is.
    pub(crate) fn named(&self, in_lanes: &str) -> Option<&WaitName> {
        let name = in_lanes.strip_prefix(BEFORE_NAME)?;
        self.names.iter().find(|row| *row.name == *name)
    }

    /// A name of an object or a function.
    pub(crate) fn text(&self, place: u32) -> &str {
        usize::try_from(place).ok().and_then(|place| self.texts.get(place)).map_or("", |text| text)
    }

    /// The sort of a wait.
    pub(crate) fn sort(&self, wait: &Wait) -> WaitSort {
        let name = usize::try_from(wait.name).ok().and_then(|name| self.names.get(name));
        name.map_or(WaitSort::Unknown, |name| name.sort)
    }
}

/// In order of time, and none of them begins before the one before it has ended: what lanes are made of. Of two that
/// overlap the first one keeps all of its time.
pub(crate) fn without_overlaps(mut waits: Vec<Wait>) -> Vec<Wait> {
    waits.sort_by_key(|wait| (wait.from_ns, wait.to_ns));
    let mut end = i64::MIN;
    waits.retain_mut(|wait| {
        wait.from_ns = wait.from_ns.max(end);
        end = end.max(wait.to_ns);
        wait.from_ns < wait.to_ns
    });
    waits
}

/// Waits for one object in one function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct WaitSum {
    /// ns in the range.
    pub(crate) ns: u64,
    /// Waits that reach into it.
    pub(crate) waits: u64,
    /// ns of the longest, in the range.
    pub(crate) longest_ns: u64,
    /// Who ended them, with the ns of those waits, the longest first.
    pub(crate) ended_by: Vec<(EndedBy, u64)>,
}

/// What a sum is of: name, object and function, as [`Wait`] has them.
pub(crate) type WaitKey = (u32, u32, u32);

/// Sums of waits in a range, the longest first.
pub(crate) fn sums<'w>(waits: impl Iterator<Item = &'w Wait>, range: (i64, i64)) -> Vec<(WaitKey, WaitSum)> {
    let mut sums: HashMap<WaitKey, WaitSum> = HashMap::new();
    let mut enders: HashMap<(WaitKey, EndedBy), u64> = HashMap::new();
    for wait in waits {
        let ns = wait.inside(range);
        if ns == 0 {
            continue;
        }
        let key = (wait.name, wait.object, wait.place);
        let sum = sums.entry(key).or_default();
        (sum.ns, sum.waits) = (sum.ns.saturating_add(ns), sum.waits + 1);
        sum.longest_ns = sum.longest_ns.max(ns);
        if let Some(who) = wait.ended_by {
            *enders.entry((key, who)).or_default() += ns;
        }
    }
    for ((key, who), ns) in enders {
        sums.entry(key).or_default().ended_by.push((who, ns));
    }
    let mut rows: Vec<(WaitKey, WaitSum)> = sums.into_iter().collect();
    for (_, sum) in &mut rows {
        sum.ended_by.sort_by_key(|(who, ns)| (std::cmp::Reverse(*ns), who.thread, who.place));
    }
    rows.sort_by_key(|(key, sum)| (std::cmp::Reverse(sum.ns), *key));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(from_ns: i64, to_ns: i64, object: u32) -> Wait {
        Wait { from_ns, to_ns, name: 0, object, place: 7, ended_by: None }
    }

    #[test]
    fn of_waits_that_overlap_the_first_keeps_its_time() {
        let all =
            vec![wait(50, 60, 2), wait(0, 100, 1), wait(90, 130, 3), wait(130, 130, 4), wait(200, 210, 5)];
        let expected = vec![wait(0, 100, 1), wait(100, 130, 3), wait(200, 210, 5)];
        assert_eq!(without_overlaps(all), expected);
    }

    #[test]
    fn sums_count_what_lies_in_the_range() {
        let by = |thread| Some(EndedBy { thread, place: Some(1) });
        let all = [
            Wait { ended_by: by(3), ..wait(0, 100, 1) },
            Wait { ended_by: by(2), ..wait(110, 150, 1) },
            wait(150, 400, 2),
            wait(400, 500, 3),
        ];
        let rows = sums(all.iter(), (40, 200));
        let first = WaitSum {
            ns: 100,
            waits: 2,
            longest_ns: 60,
            ended_by: vec![
                (EndedBy { thread: 3, place: Some(1) }, 60),
                (EndedBy { thread: 2, place: Some(1) }, 40),
            ],
        };
        let second = WaitSum { ns: 50, waits: 1, longest_ns: 50, ended_by: Vec::new() };
        assert_eq!(rows, [((0, 1, 7), first), ((0, 2, 7), second)]);
    }

    #[test]
    fn sorts_of_waits_can_be_told_apart_by_their_colours() {
        for (at, a) in WaitSort::ALL.iter().enumerate() {
            for b in &WaitSort::ALL[at + 1..] {
                let (Rgb(r, g, b1), Rgb(x, y, z)) = (a.colour(), b.colour());
                let far = |x: u8, y: u8| u32::from(x.abs_diff(y)).pow(2);
                assert!(far(r, x) + far(g, y) + far(b1, z) >= 40_u32.pow(2), "{a:?} and {b:?}");
            }
        }
    }
}
