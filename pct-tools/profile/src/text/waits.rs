//! Tables of waits: by object, by function, by thread; as text, CSV and JSON.
//!
//! Locks and waits for work are told apart in every table and never added: a thread that waits for work is idle.

use super::Layout;
use super::numbers::{seconds, share, thousands};
use super::table::{Column, Rank, Table};
use crate::ids::{StackId, ThreadId};
use crate::model::Profile;
use crate::wait_views;
use crate::waits::{Holder, Object, WaitClass, WaitFigures, WaitRow, Waits};
use pct_format::WaitKind;
use pct_num::float;
use pct_text::csv_field;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// What the recordings do not have: said under every table.
fn not_recorded(waits: &Waits) -> &'static str {
    if waits.sees_futexes {
        "Waits inside of the C library (its own locks, the loader) and in Go are not recorded."
    } else {
        "Waits on futexes that no pthread call makes (Rust's locks, Go, libc's own locks) are not recorded."
    }
}

/// Beginnings of the names of functions that only lead to a lock: the caller says more.
const LEAD_TO_LOCKS: &[&str] = &[
    "__gthread_",
    "std::mutex::",
    "std::__mutex_base",
    "std::recursive_mutex::",
    "std::timed_mutex::",
    "std::shared_mutex::",
    "std::__shared_mutex_pthread::",
    "std::lock_guard<",
    "std::unique_lock<",
    "std::shared_lock<",
    "std::scoped_lock<",
    "std::condition_variable",
    "std::__condvar",
    "std::thread::join",
    "std::__glibcxx_rwlock_",
    "std::__atomic_futex_unsigned_base",
    "std::__atomic_wait",
    "std::__detail::__platform_",
    "std::__detail::__waiter",
    // Rust's.
    "std::sys",
    "<std::sys",
    "std::sync::",
    "<std::sync::",
    "std::thread::park",
    "std::thread::functions::park",
    "<std::thread::",
    "std::thread::current::",
    "std::thread::Thread::unpark",
    "std::thread::thread::Thread::",
    "std::thread::local::",
    "std::thread::scoped::",
    "core::mem::drop",
    "core::ptr::drop_in_place",
    "core::ptr::drop_glue",
    "core::ops::function::",
    "<core::",
    "alloc::sync::Arc<",
    "<alloc::",
    "parking_lot",
    "<parking_lot",
    "lock_api::",
    "<lock_api::",
];

/// Whether a function of this name only leads to a lock.
fn only_leads(name: &str) -> bool {
    LEAD_TO_LOCKS.iter().any(|start| name.starts_with(start))
}

/// The function in which a stack waits, or releases: the innermost one that does not only lead to a lock.
pub(super) fn function(profile: &Profile, stack: StackId) -> &str {
    let mut names = profile.outwards(stack).map(|(_, frame)| profile.functions[frame.function].name.as_str());
    names.find(|name| !only_leads(name)).unwrap_or_else(|| &profile.functions[profile.leaf(stack)].name)
}

pub(super) fn thread(profile: &Profile, thread: ThreadId) -> String {
    let row = &profile.threads[thread];
    let (tid, name) = (row.tid, &row.name);
    if name.is_empty() { tid.to_string() } else { format!("{name} {tid}") }
}

/// What threads wait for, in words.
#[must_use]
pub fn object_name(profile: &Profile, object: &Object) -> String {
    if object.kind == WaitKind::Join {
        if object.address == 0 {
            return "end of a thread".to_owned();
        }
        let of_process = |row: &ThreadId| profile.threads[*row].process == object.process;
        let has_ended = |row: &ThreadId| u64::from(profile.threads[*row].tid) == object.address;
        let ended = profile.threads.ids().filter(of_process).rfind(has_ended);
        return ended.map_or_else(
            || "end of a thread".to_owned(),
            |row| format!("end of thread {}", thread(profile, row)),
        );
    }
    let first = function(profile, object.first_stack);
    let kind = match object.kind {
        WaitKind::ReadLock | WaitKind::WriteLock => "rwlock",
        kind => kind.name(),
    };
    format!("{kind} {:#x}, first waited for in {first}", object.address)
}

/// Sums of rows that are one row of a table.
#[derive(Default)]
struct Sum {
    figures: WaitFigures,
    waiters: FxHashMap<StackId, u64>,
    holders: FxHashMap<StackId, u64>,
}

impl Sum {
    fn add(&mut self, row: &WaitRow) {
        self.figures += row.figures;
        *self.waiters.entry(row.stack).or_default() += row.figures.ns;
        for Holder { stack, ns, .. } in &row.holders {
            *self.holders.entry(*stack).or_default() += ns;
        }
    }
}

/// The function with the most of it, and how many others there are.
fn top(profile: &Profile, of: &FxHashMap<StackId, u64>) -> String {
    let mut sums: FxHashMap<&str, u64> = FxHashMap::default();
    for (stack, ns) in of {
        *sums.entry(function(profile, *stack)).or_default() += ns;
    }
    let first = sums.iter().max_by_key(|(name, ns)| (**ns, Reverse(**name)));
    match (first, sums.len()) {
        (None, _) => "-".to_owned(),
        (Some((name, _)), 1) => (*name).to_owned(),
        (Some((name, _)), others) => format!("{name} +{}", others - 1),
    }
}

/// What the rows of a table are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// Objects.
    Objects,
    /// Functions that wait.
    Functions,
}

/// The tables for people: locks, then what else threads wait for. `rows` at most in each.
#[must_use]
pub fn tables(profile: &Profile, waits: &Waits, by: Rows, rows: usize, layout: &Layout) -> String {
    let mut out = String::new();
    for class in WaitClass::ALL {
        let of_class = |row: &&WaitRow| WaitClass::of_kind(waits.objects[row.object].kind) == class;
        let sums = sums(profile, waits, by, of_class);
        if sums.is_empty() {
            continue;
        }
        let whole = sums.iter().map(|(_, sum)| sum.figures.ns).sum();
        let all: u64 = sums.iter().map(|(_, sum)| sum.figures.waits).sum();
        let locks = class == WaitClass::Lock;
        let head = match class {
            WaitClass::Lock => "Waits for locks",
            WaitClass::Work => "Waits for work (not contention)",
            WaitClass::Futex => "Waits for futexes (locks or work: the program does not say which)",
        };
        out += &format!("{head}: {} s in {} waits\n", seconds(whole), thousands(all));
        let (last, other) = if locks { ("hand-over", "held by") } else { ("after wake-up", "woken by") };
        let mut columns = vec![
            Column::number("seconds"),
            Column::number("share"),
            Column::number("waits"),
            Column::number("longest"),
            Column::number(last),
        ];
        columns.extend(match by {
            Rows::Objects => [Column::name("what", 24), Column::name("waited for in", 12)],
            Rows::Functions => [Column::name("waits in", 12), Column::name("for", 24)],
        });
        columns.push(Column::name(other, 12));
        let mut table = Table::new(columns);
        for (name, sum) in sums.iter().take(rows) {
            let figures = sum.figures;
            let mut cells = vec![
                seconds(figures.ns),
                share(figures.ns, whole),
                thousands(figures.waits),
                seconds(figures.longest_ns),
                seconds(figures.hand_over_ns),
            ];
            let second = match by {
                Rows::Objects => top(profile, &sum.waiters),
                Rows::Functions => name.1.clone(),
            };
            cells.extend([name.0.clone(), second, top(profile, &sum.holders)]);
            table.row(Rank::from_share(figures.ns, whole), cells);
        }
        out += &table.render(layout);
        if sums.len() > rows {
            out += &format!("  ... and {} more (-n shows more)\n", sums.len() - rows);
        }
        out.push('\n');
    }
    out
}

/// The rows of a table with their names, the longest waits first.
fn sums(
    profile: &Profile,
    waits: &Waits,
    by: Rows,
    wanted: impl Fn(&&WaitRow) -> bool,
) -> Vec<((String, String), Sum)> {
    let mut sums: FxHashMap<(usize, &str), Sum> = FxHashMap::default();
    for row in waits.rows.iter().filter(wanted) {
        let waiter = if by == Rows::Functions { function(profile, row.stack) } else { "" };
        sums.entry((row.object, waiter)).or_default().add(row);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(key, sum)| (Reverse(sum.figures.ns), *key));
    let names = |(object, waiter): (usize, &str)| {
        let name = object_name(profile, &waits.objects[object]);
        if by == Rows::Functions { (waiter.to_owned(), name) } else { (name, String::new()) }
    };
    sums.into_iter().map(|(key, sum)| (names(key), sum)).collect()
}

/// One row a thread: its time, and what of it the waits explain.
#[must_use]
pub fn threads(profile: &Profile, waits: &Waits, rows: usize, layout: &Layout) -> String {
    let accounts = wait_views::accounts(profile, waits);
    let any_futex = accounts.iter().any(|account| account.futexes_ns > 0);
    let mut columns = vec![
        Column::number("seconds"),
        Column::number("on a CPU"),
        Column::number("for locks"),
        Column::number("for work"),
    ];
    columns.extend(any_futex.then(|| Column::number("for futexes")));
    columns.extend([Column::number("not by a lock"), Column::text("thread", 12)]);
    let mut table = Table::new(columns);
    for account in accounts.iter().take(rows) {
        let mut cells = vec![
            seconds(account.wall_ns),
            seconds(account.cpu_ns),
            seconds(account.locks_ns),
            seconds(account.work_ns),
        ];
        cells.extend(any_futex.then(|| seconds(account.futexes_ns)));
        cells.extend([seconds(account.rest_ns()), thread(profile, account.thread)]);
        table.row(Rank::from_share(account.locks_ns, account.wall_ns), cells);
    }
    let mut out = String::from(
        "Time of threads (not by a lock: sleep, files, sockets, waiting for a CPU, and waits that are not recorded)\n",
    );
    out += &table.render(layout);
    if accounts.len() > rows {
        out += &format!("  ... and {} more (-n shows more)\n", accounts.len() - rows);
    }
    out
}

/// Lines about what is there and what is not.
#[must_use]
pub fn closing(waits: &Waits) -> Vec<String> {
    let mut lines = Vec::new();
    let open: u64 = waits.rows.iter().map(|row| row.figures.open).sum();
    let unknown: u64 = waits.rows.iter().map(|row| row.figures.unknown_ns).sum();
    let all: u64 = waits.rows.iter().map(|row| row.figures.waits).sum();
    let mut line = format!("{} waits; {} records lost", thousands(all), thousands(waits.lost));
    if waits.overwritten > 0 {
        line += &format!(
            "; {} overwritten in full logs (a larger --limit keeps more)",
            thousands(waits.overwritten)
        );
    }
    if waits.damaged > 0 {
        line += &format!("; {} damaged records left out", thousands(waits.damaged));
    }
    if open > 0 {
        line += &format!("; {} not over at the end", thousands(open));
    }
    lines.push(line);
    if unknown > 0 {
        lines.push(format!("{} s of waits have no known holder or waker", seconds(unknown)));
    }
    lines.push(not_recorded(waits).to_owned());
    lines
}

/// Every pair of waiter and holder as CSV. The rows `hand-over` and `not known` have no holder.
#[must_use]
pub fn csv(profile: &Profile, waits: &Waits, rows: usize) -> String {
    let mut out = String::from(
        "seconds,waits,kind,object,pid,waiter_tid,waiter_thread,waiter_function,part,holder_tid,holder_thread,holder_function\n",
    );
    let mut lines = 0;
    for row in &waits.rows {
        let object = &waits.objects[row.object];
        let waiter = &profile.threads[row.thread];
        let front = format!(
            "{},{},{:#x},{},{},{},{}",
            row.figures.waits,
            csv_field(row.kind.name()),
            object.address,
            profile.processes[object.process].pid,
            waiter.tid,
            csv_field(&waiter.name),
            csv_field(function(profile, row.stack)),
        );
        let part = if object.kind.is_lock() { "held" } else { "woken" };
        for holder in &row.holders {
            let by = &profile.threads[holder.thread];
            lines += 1;
            if lines > rows {
                return out;
            }
            out += &format!(
                "{:.9},{front},{part},{},{},{}\n",
                float(holder.ns) / 1e9,
                by.tid,
                csv_field(&by.name),
                csv_field(function(profile, holder.stack)),
            );
        }
        for (part, ns) in [("hand-over", row.figures.hand_over_ns), ("not known", row.figures.unknown_ns)] {
            if ns > 0 {
                lines += 1;
                if lines > rows {
                    return out;
                }
                out += &format!("{:.9},{front},{part},,,\n", float(ns) / 1e9);
            }
        }
    }
    out
}

/// Everything as JSON.
#[must_use]
pub fn json(profile: &Profile, waits: &Waits, rows: usize) -> Value {
    let seconds = |ns: u64| float(ns) / 1e9;
    let waited = |row: &WaitRow| {
        let object = &waits.objects[row.object];
        let holders: Vec<Value> = row
            .holders
            .iter()
            .map(|holder| {
                json!({
                    "seconds": seconds(holder.ns),
                    "tid": profile.threads[holder.thread].tid,
                    "thread": profile.threads[holder.thread].name,
                    "function": function(profile, holder.stack),
                })
            })
            .collect();
        json!({
            "seconds": seconds(row.figures.ns),
            "waits": row.figures.waits,
            "longest_seconds": seconds(row.figures.longest_ns),
            "hand_over_seconds": seconds(row.figures.hand_over_ns),
            "not_known_seconds": seconds(row.figures.unknown_ns),
            "not_over": row.figures.open,
            "is_lock": object.kind.is_lock(),
            "kind": row.kind.name(),
            "object": format!("{:#x}", object.address),
            "name": object_name(profile, object),
            "pid": profile.processes[object.process].pid,
            "tid": profile.threads[row.thread].tid,
            "thread": profile.threads[row.thread].name,
            "function": function(profile, row.stack),
            "by": holders,
        })
    };
    let thread = |account: &wait_views::ThreadAccount| {
        json!({
            "pid": profile.process_of(account.thread).pid,
            "tid": profile.threads[account.thread].tid,
            "thread": profile.threads[account.thread].name,
            "seconds": seconds(account.wall_ns),
            "cpu_seconds": seconds(account.cpu_ns),
            "lock_seconds": seconds(account.locks_ns),
            "work_seconds": seconds(account.work_ns),
            "futex_seconds": seconds(account.futexes_ns),
            "not_by_a_lock_seconds": seconds(account.rest_ns()),
        })
    };
    let accounts = wait_views::accounts(profile, waits);
    json!({
        "waits": waits.rows.iter().take(rows).map(waited).collect::<Vec<_>>(),
        "threads": accounts.iter().map(thread).collect::<Vec<_>>(),
        "records_lost": waits.lost,
        "records_overwritten": waits.overwritten,
        "not_recorded": not_recorded(waits),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are as GCC's library has them in its inline functions.
    #[test]
    fn functions_of_the_standard_library_only_lead_to_locks() {
        for name in [
            "std::__glibcxx_rwlock_wrlock",
            "std::__shared_mutex_pthread::lock_shared",
            "std::mutex::lock",
            "__gthread_mutex_lock",
            "std::unique_lock<std::shared_mutex>::lock",
            "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
            "<std::sync::poison::mutex::Mutex<u64>>::lock",
            "std::sys::pal::unix::futex::futex_wake",
        ] {
            assert!(only_leads(name), "{name}");
        }
        assert!(!only_leads("std::thread::spawn"));
        assert!(!only_leads("holder()") && !only_leads("my::mutex::lock"));
    }
}
