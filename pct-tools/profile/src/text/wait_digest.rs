//! Waits in a few lines, for the end of a run and the first page of the viewer: the locks that were waited for longest,
//! and how much threads waited for work.

use super::Layout;
use super::numbers::{count, seconds, share, thousands};
use super::table::{Column, Rank, Table, cut_middle, name_in, tame};
use super::wait_names::WaitNames;
use super::waits::{RowKey, Rows, Sum, sums, top, top_cell};
use crate::model::Profile;
use crate::wait_views::WaitsShown;
use crate::waits::{WaitClass, WaitRow, Waits};
use pct_text::elided;
use rustc_hash::FxHashMap;

/// Locks that are named at the end of a run.
pub const FEW_LOCKS: usize = 3;
/// Characters of a function's name in a sentence at most.
const LONGEST_NAME: usize = 40;

const WORK: &str = "waits for work (not contention)";

/// What is said first of waits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WaitDigest {
    /// The locks that were waited for longest.
    pub locks: WaitedRows,
    /// One line about what else threads waited for; `None`: nothing.
    pub work: Option<String>,
}

/// What was waited for longest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WaitedRows {
    /// Nanoseconds of all waits, also of those that have no row.
    pub ns: u64,
    /// How many waits there were.
    pub waits: u64,
    /// The rows, the longest waited for first.
    pub rows: Vec<WaitedRow>,
    /// Objects that have no row.
    pub more: usize,
}

/// A lock, or whatever else was waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitedRow {
    /// Nanoseconds.
    pub ns: u64,
    /// Waits.
    pub waits: u64,
    /// What it is.
    pub what: String,
    /// The function that waited longest, and how many others there are.
    pub waited_in: String,
    /// The function that held it longest meanwhile, or that ended most of the waiting, and how many others there are;
    /// `-`: it is not known.
    pub by: String,
}

/// What is said of a recording that has waits, with at most `most` locks.
#[must_use]
pub fn digest(profile: &Profile, waits: &Waits, most: usize) -> WaitDigest {
    let names = WaitNames::of_owners(profile);
    WaitDigest { locks: rows_of(&names, waits, WaitsShown::Locks, most), work: work(waits, &names) }
}

/// What was waited for longest, in at most `most` rows.
#[must_use]
pub fn waited_rows(profile: &Profile, waits: &Waits, shown: WaitsShown, most: usize) -> WaitedRows {
    rows_of(&WaitNames::of_owners(profile), waits, shown, most)
}

fn rows_of(names: &WaitNames<'_>, waits: &Waits, shown: WaitsShown, most: usize) -> WaitedRows {
    let sums = sums(names, waits, Rows::Objects, |class| shown.has(class));
    let row = |(key, sum): &(RowKey, Sum)| WaitedRow {
        ns: sum.figures.ns,
        waits: sum.figures.waits,
        what: names.object(&waits.objects[key.object]),
        waited_in: top_cell(names, &sum.waiters),
        by: top_cell(names, &sum.holders),
    };
    WaitedRows {
        ns: sums.iter().map(|(_, sum)| sum.figures.ns).sum(),
        waits: sums.iter().map(|(_, sum)| sum.figures.waits).sum(),
        rows: sums.iter().take(most).map(row).collect(),
        more: sums.len().saturating_sub(most),
    }
}

/// How much was waited for work, and for futexes that may be either.
fn work(waits: &Waits, names: &WaitNames<'_>) -> Option<String> {
    let of = |class: WaitClass| {
        let of_class = move |row: &&WaitRow| waits.objects[row.object].class() == class;
        let rows: Vec<&WaitRow> = waits.rows.iter().filter(of_class).collect();
        let ns: u64 = rows.iter().map(|row| row.figures.ns).sum();
        let number: u64 = rows.iter().map(|row| row.figures.waits).sum();
        (rows, ns, count(number, "wait", "waits"), number)
    };
    let ((rows, ns, in_waits, number), (_, futex_ns, in_futexes, futexes)) =
        (of(WaitClass::Work), of(WaitClass::Futex));
    let mut parts = Vec::new();
    if number > 0 {
        let mut by_stack: FxHashMap<_, u64> = FxHashMap::default();
        for row in rows {
            *by_stack.entry(row.stack).or_default() += row.figures.ns;
        }
        let (first, _) = top(names, &by_stack);
        let first = cut_middle(&tame(&elided(&first, LONGEST_NAME)), LONGEST_NAME);
        parts.push(format!("{WORK}: {} s in {}, most in {first}", seconds(ns), in_waits));
    }
    if futexes > 0 {
        parts.push(format!("waits for futexes (locks or work): {} s in {}", seconds(futex_ns), in_futexes));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

impl WaitDigest {
    /// The line above the table.
    #[must_use]
    pub fn heading(&self) -> String {
        match self.locks.waits {
            0 => "no thread waited for a lock".to_owned(),
            waits => {
                format!("waits for locks: {} s in {}", seconds(self.locks.ns), count(waits, "wait", "waits"))
            }
        }
    }

    /// The part for people: at most eight lines where nothing is broken.
    #[must_use]
    pub fn text(&self, layout: &Layout) -> String {
        let mut out = layout.prose(&self.heading());
        if !self.locks.rows.is_empty() {
            let mut table = Table::new(vec![
                Column::number("seconds"),
                Column::number("share"),
                Column::number("waits"),
                Column::name("what", 12),
                Column::name("waited for in", 12),
                Column::name("held by", 12),
            ]);
            for row in &self.locks.rows {
                let names = [&row.what, &row.waited_in, &row.by];
                let figures = [seconds(row.ns), share(row.ns, self.locks.ns), thousands(row.waits)];
                let cells = figures.into_iter().chain(names.map(|name| name_in(layout, name).into_owned()));
                table.row(Rank::from_share(row.ns, self.locks.ns), cells.collect());
            }
            out += &table.render(layout);
        }
        if self.locks.more > 0 {
            out += &format!("  ... and {} more\n", self.locks.more);
        }
        out + &self.work.as_ref().map(|line| layout.prose(line)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language_locks;
    use crate::text::wait_names::tests::{WAITS, waited};

    #[test]
    fn the_locks_that_were_waited_for_longest_are_named_and_the_rest_is_summed_up() {
        let profile = waited(WAITS);
        let digest = digest(&profile, &profile.waits, FEW_LOCKS);
        assert_eq!((digest.locks.ns, digest.locks.waits, digest.locks.more), (11_000_000_000, 5, 1));
        let text = digest.text(&Layout { width: Some(100), ..Layout::default() });
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "waits for locks: 11.00 s in 5 waits",
                "seconds share waits what waited for in held by",
                "5.00 45.5% 1 mutex 0x1000 insert insert",
                "3.00 27.3% 1 mutex 0x2000 (take_gil) pack (srv/app.py:7) parse (srv/app.py)",
                "2.00 18.2% 2 mutex 0x3000 main +1 -",
                "... and 1 more",
                "waits for work (not contention): 9.00 s in 1 wait, most in take_job; waits for futexes (locks or",
                "work): 0.50 s in 1 wait",
            ]
        );
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    /// The stacks are as the runtimes have them, innermost function last.
    #[test]
    fn locks_of_languages_are_told_from_what_they_are_made_of() {
        let juc = "java:java.util.concurrent.locks.";
        let park = format!(
            "{juc}LockSupport.park;java:jdk.internal.misc.Unsafe.park;jvm:Unsafe_Park;jvm:Parker::park(bool, long)"
        );
        let queue = format!("{juc}AbstractQueuedSynchronizer.acquire");
        let acquire = "lock_PyThread_acquire_lock;acquire_timed";
        let cases = [
            (
                "java:App.in;jvm:ObjectMonitor::enter(JavaThread*);jvm:ObjectMonitor::EnterI(JavaThread*)"
                    .into(),
                "Java monitor",
            ),
            ("java:App.in;jvm:ObjectMonitor::wait(long, bool);jvm:os::PlatformEvent::park()".into(), ""),
            (
                "java:App.in;jvm:ObjectMonitor::wait(long, bool);jvm:ObjectMonitor::ReenterI(JavaThread*)"
                    .into(),
                "Java monitor",
            ),
            (
                format!("java:App.in;{juc}ReentrantLock.lock;{juc}ReentrantLock$Sync.lock;{queue};{park}"),
                "Java lock",
            ),
            (format!("java:App.in;java:java.util.concurrent.Semaphore.acquire;{queue};{park}"), ""),
            (format!("java:App.in;{juc}AbstractQueuedSynchronizer$ConditionObject.await;{park}"), ""),
            (
                format!("java:App.in;{juc}AbstractQueuedSynchronizer$ConditionObject.await;{queue};{park}"),
                "Java lock",
            ),
            (format!("java:App.in;java:java.lang.VirtualThread.parkOnCarrierThread;{park}"), ""),
            (format!("loop;py:in;{acquire};PyThread_acquire_lock_timed"), "Python lock"),
            (
                format!("loop;py:in;threading:Condition.__enter__;{acquire};PyThread_acquire_lock_timed"),
                "Python lock",
            ),
            (format!("loop;py:in;threading:Condition.wait;{acquire};PyThread_acquire_lock_timed"), ""),
            (
                format!(
                    "loop;py:in;threading:Thread._wait_for_tstate_lock;{acquire};PyThread_acquire_lock_timed"
                ),
                "",
            ),
            (
                format!("loop;py:in;threading:Condition.wait;{acquire};PyEval_RestoreThread;take_gil"),
                "Python's GIL",
            ),
            (format!("main;loop;{acquire};PyThread_acquire_lock_timed"), ""),
            // A program's own functions may have such names.
            ("main;ObjectMonitor::enter".into(), ""),
            ("main;take_gil".into(), ""),
            ("main;in".into(), ""),
        ];
        for (stack, what) in cases {
            let mut profile = waited(&format!("condition 40 {} 2", stack.replace(' ', "_")));
            let names: Vec<String> = profile.functions.iter().map(|function| function.name.clone()).collect();
            language_locks::part(&mut profile);
            let digest = digest(&profile, &profile.waits, FEW_LOCKS);
            let found: Vec<&str> = digest.locks.rows.iter().map(|lock| &*lock.what).collect();
            let expected = if what.is_empty() { Vec::new() } else { vec![what] };
            assert_eq!(found, expected, "{stack}: {names:?}");
            assert_eq!(digest.work.is_none(), digest.locks.ns == 2_000_000_000, "{stack}");
        }
    }

    /// Waits for the same kind of lock in one function are one row, whatever they were made of.
    #[test]
    fn a_function_s_waits_for_such_locks_are_one_row() {
        let enter = "jvm:ObjectMonitor::EnterI(JavaThread*)";
        let mut profile = waited(&format!(
            "condition 40 java:App.in;{enter} 2\ncondition 50 java:App.in;{enter} 3\ncondition 60 java:App.other;{enter} 1"
        ));
        language_locks::part(&mut profile);
        let digest = digest(&profile, &profile.waits, FEW_LOCKS);
        let rows = |digest: &WaitDigest| -> Vec<(u64, String)> {
            digest.locks.rows.iter().map(|row| (row.ns / 1_000_000_000, row.waited_in.clone())).collect()
        };
        let expected = [(5, "App.in (App.java)".to_owned()), (1, "App.other (App.java)".to_owned())];
        assert_eq!(rows(&digest), expected);
        let mut profile = waited(
            "condition 40 loop;py:in;PyEval_RestoreThread;0x1230 2\nmutex 50 py:on;take_gil 1\ncondition 40 py:on;0x1230 3",
        );
        language_locks::part(&mut profile);
        let digest = super::digest(&profile, &profile.waits, FEW_LOCKS);
        assert_eq!(rows(&digest), [(6, "on (srv/app.py) +1".to_owned())]);
    }

    #[test]
    fn where_no_lock_was_waited_for_one_line_says_so() {
        let profile = waited("condition 40 main;libc:wait 2");
        let text = digest(&profile, &profile.waits, FEW_LOCKS).text(&Layout::default());
        assert_eq!(
            text,
            "no thread waited for a lock\nwaits for work (not contention): 2.00 s in 1 wait, most in main\n"
        );
    }
}
