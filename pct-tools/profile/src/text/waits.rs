//! Tables of waits: by object, by function, by thread; as text, CSV and JSON.
//!
//! Locks and waits for work are told apart in every table and never added: a thread that waits for work is idle.

use super::Layout;
use super::numbers::{count, seconds, share, thousands};
use super::table::{Column, Rank, Table};
use super::wait_names::{WaitNames, function, object_name, thread};
use crate::ids::StackId;
use crate::model::Profile;
use crate::wait_views;
use crate::waits::{Holder, WaitClass, WaitFigures, WaitRow, Waits};
use pct_num::float;
use pct_text::csv_field;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// What the recordings do not have: said under every table.
fn not_recorded(waits: &Waits) -> &'static str {
    if waits.sees_futexes {
        "Waits inside of the C library (its own locks, the loader) and in Go are not recorded."
    } else {
        "Waits on futexes that no pthread call makes (Rust's locks, Go, libc's own locks) are not recorded."
    }
}

/// Said under tables that have such locks.
const OF_LANGUAGES: &str = "A row of a Java monitor, a Java lock or a Python lock is all that one function waited for: \
                            which lock it was is not recorded. Whoever released it counts as its holder for the whole \
                            wait.";

/// Sums of rows that are one row of a table.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) figures: WaitFigures,
    pub(super) waiters: FxHashMap<StackId, u64>,
    pub(super) holders: FxHashMap<StackId, u64>,
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
pub(super) fn top(names: &WaitNames<'_>, of: &FxHashMap<StackId, u64>) -> (String, usize) {
    let mut sums: FxHashMap<String, u64> = FxHashMap::default();
    for (stack, ns) in of {
        *sums.entry(names.function(*stack)).or_default() += ns;
    }
    let others = sums.len().saturating_sub(1);
    let first = sums.into_iter().max_by(|one, other| one.1.cmp(&other.1).then_with(|| other.0.cmp(&one.0)));
    (first.map_or_else(|| "-".to_owned(), |(name, _)| name), others)
}

/// The same in a cell.
pub(super) fn top_cell(names: &WaitNames<'_>, of: &FxHashMap<StackId, u64>) -> String {
    match top(names, of) {
        (name, 0) => name,
        (name, others) => format!("{name} +{others}"),
    }
}

/// What the rows of a table are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// Objects.
    Objects,
    /// Functions that wait: of the program's own language.
    Functions,
    /// Functions that wait: those of machine code.
    MachineFunctions,
}

/// The tables for people: locks, then what else threads wait for. `rows` at most in each.
#[must_use]
pub fn tables(profile: &Profile, waits: &Waits, by: Rows, rows: usize, layout: &Layout) -> String {
    let mut out = String::new();
    let names = match by {
        Rows::MachineFunctions => WaitNames::of_machine(profile),
        Rows::Objects | Rows::Functions => WaitNames::of_owners(profile),
    };
    for class in WaitClass::ALL {
        let sums = sums(&names, waits, by, |of| of == class);
        if sums.is_empty() {
            continue;
        }
        let whole = sums.iter().map(|(_, sum)| sum.figures.ns).sum();
        let all: u64 = sums.iter().map(|(_, sum)| sum.figures.waits).sum();
        let head = match class {
            WaitClass::Lock => "Waits for locks",
            WaitClass::Work => "Waits for work (not contention)",
            WaitClass::Futex => "Waits for futexes (locks or work: the program does not say which)",
        };
        out += &format!("{head}: {} s in {}\n", seconds(whole), count(all, "wait", "waits"));
        let shown = sums.get(..sums.len().min(rows)).unwrap_or_default();
        let table = table_of(&names, waits, (by, class), (shown, whole), layout);
        out += &table.render(layout);
        if sums.len() > rows {
            out += &format!("  ... and {} more (-n shows more)\n", sums.len() - rows);
        }
        out.push('\n');
    }
    out
}

/// In a narrower terminal names need the room of all figures that can be done without.
const WIDE: usize = 120;

/// The table of one class: these rows, of waits of `whole` nanoseconds.
fn table_of(
    names: &WaitNames<'_>,
    waits: &Waits,
    (by, class): (Rows, WaitClass),
    (sums, whole): (&[(RowKey, Sum)], u64),
    layout: &Layout,
) -> Table {
    let is_wide = layout.width.is_none_or(|width| width >= WIDE);
    let (last, other) = match class {
        WaitClass::Lock => ("hand-over", "held by"),
        WaitClass::Work | WaitClass::Futex => ("after wake-up", "woken by"),
    };
    let mut columns = ["seconds", "share", "waits"].map(Column::number).to_vec();
    if is_wide {
        columns.extend(["longest", last].map(Column::number));
    }
    columns.extend(match by {
        Rows::Objects => [Column::name("what", 12), Column::name("waited for in", 12)],
        Rows::Functions | Rows::MachineFunctions => [Column::name("waits in", 12), Column::name("for", 12)],
    });
    columns.push(Column::name(other, 12));
    let mut table = Table::new(columns);
    for (row, sum) in sums {
        let figures = sum.figures;
        let mut cells = vec![seconds(figures.ns), share(figures.ns, whole), thousands(figures.waits)];
        if is_wide {
            cells.extend([figures.longest_ns, figures.hand_over_ns].map(seconds));
        }
        let object = &waits.objects[row.object];
        cells.extend(match by {
            Rows::Objects => [names.object(object), top_cell(names, &sum.waiters)],
            Rows::Functions | Rows::MachineFunctions => {
                [row.waiter.clone(), names.object_beside(object, &row.waiter)]
            }
        });
        cells.push(top_cell(names, &sum.holders));
        table.row(Rank::from_share(figures.ns, whole), cells);
    }
    table
}

/// What a row of a table is about.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RowKey {
    /// Its place in [`Waits::objects`].
    pub(super) object: usize,
    /// The function that waits; empty if a row is an object.
    waiter: String,
}

/// The rows of a table, the longest waits first.
pub(super) fn sums(
    names: &WaitNames<'_>,
    waits: &Waits,
    by: Rows,
    is_wanted: impl Fn(WaitClass) -> bool,
) -> Vec<(RowKey, Sum)> {
    let mut sums: FxHashMap<RowKey, Sum> = FxHashMap::default();
    let is_row = |row: &&WaitRow| is_wanted(waits.objects[row.object].class());
    for row in waits.rows.iter().filter(is_row) {
        let waiter = if by == Rows::Objects { String::new() } else { names.function(row.stack) };
        sums.entry(RowKey { object: row.object, waiter }).or_default().add(row);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|one, other| other.1.figures.ns.cmp(&one.1.figures.ns).then_with(|| one.0.cmp(&other.0)));
    sums
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
    let mut line =
        format!("{}; {} lost", count(all, "wait", "waits"), count(waits.lost, "record", "records"));
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
    if waits.objects.iter().any(|object| object.of_language.is_some()) {
        lines.push(OF_LANGUAGES.to_owned());
    }
    lines.push(not_recorded(waits).to_owned());
    lines
}

/// Every pair of waiter and holder as CSV. The rows `hand-over` and `not known` have no holder.
#[must_use]
pub fn csv(profile: &Profile, waits: &Waits, rows: usize) -> String {
    let mut out = String::from(
        "seconds,waits,kind,object,pid,waiter_tid,waiter_thread,waiter_function,part,holder_tid,holder_thread,\
         holder_function,waiter_owner,holder_owner\n",
    );
    let owners = WaitNames::of_owners(profile);
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
        let part = if object.is_lock() { "held" } else { "woken" };
        let waits_in = csv_field(owners.plain(row.stack));
        for holder in &row.holders {
            let by = &profile.threads[holder.thread];
            lines += 1;
            if lines > rows {
                return out;
            }
            out += &format!(
                "{:.9},{front},{part},{},{},{},{waits_in},{}\n",
                float(holder.ns) / 1e9,
                by.tid,
                csv_field(&by.name),
                csv_field(function(profile, holder.stack)),
                csv_field(owners.plain(holder.stack)),
            );
        }
        for (part, ns) in [("hand-over", row.figures.hand_over_ns), ("not known", row.figures.unknown_ns)] {
            if ns > 0 {
                lines += 1;
                if lines > rows {
                    return out;
                }
                out += &format!("{:.9},{front},{part},,,,{waits_in},\n", float(ns) / 1e9);
            }
        }
    }
    out
}

/// Everything as JSON.
#[must_use]
pub fn json(profile: &Profile, waits: &Waits, rows: usize) -> Value {
    let seconds = |ns: u64| float(ns) / 1e9;
    let owners = WaitNames::of_owners(profile);
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
                    "owner": owners.plain(holder.stack),
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
            "is_lock": object.is_lock(),
            "kind": row.kind.name(),
            "object": format!("{:#x}", object.address),
            "name": object_name(profile, object),
            "pid": profile.processes[object.process].pid,
            "tid": profile.threads[row.thread].tid,
            "thread": profile.threads[row.thread].name,
            "function": function(profile, row.stack),
            "owner": owners.plain(row.stack),
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
    use crate::text::wait_names::tests::{WAITS, waited};

    #[test]
    fn in_a_narrow_terminal_names_have_the_room_of_some_figures() {
        let profile = waited(WAITS);
        let at = |width: usize| {
            let layout = Layout { width: Some(width), ..Layout::default() };
            tables(&profile, &profile.waits, Rows::Objects, 20, &layout)
        };
        let (wide, narrow) = (at(WIDE), at(WIDE - 20));
        for word in ["longest", "hand-over", "after wake-up"] {
            assert!(wide.contains(word) && !narrow.contains(word), "{word}: {narrow}");
        }
        for row in ["mutex 0x2000 (take_gil)", "pack (srv/app.py:7)", "parse (srv/app.py)"] {
            assert!(wide.contains(row) && narrow.contains(row), "{row}: {narrow}");
        }
        assert!(narrow.lines().all(|line| line.chars().count() < WIDE - 20), "{narrow}");
    }
}
