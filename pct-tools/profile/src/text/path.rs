//! The critical path of a process, as text, CSV and JSON.

use super::Layout;
use super::numbers::{seconds, share, thousands};
use super::table::{Column, Rank, Table};
use super::wait_names::{WaitNames, function, object_name, thread};
use crate::ids::StackId;
use crate::model::Profile;
use crate::path_sums::PathSums;
use crate::waits::Waits;
use crate::waits::path::{Chain, Path, What};
use pct_num::float;
use pct_text::csv_field;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// Of which process the path is shown: the one that took longest.
#[must_use]
pub fn longest(waits: &Waits) -> Option<&Chain> {
    waits.chains.iter().filter(|chain| !chain.threads.is_empty()).min_by_key(|chain| Reverse(chain.ns()))
}

/// What a piece is, in a word.
const fn name(what: What) -> &'static str {
    match what {
        What::GoesOn => "goes on",
        What::HandOver(_) => "hand-over",
        What::Begins => "thread's begin",
        What::Outside(_) => "outside",
        What::Unknown => "not known",
    }
}

/// The rows of the first table: what the path consists of. They sum up to its length.
fn parts(sums: &PathSums, on_cpu: impl Fn(StackId) -> String, names: &WaitNames<'_>) -> Vec<(String, u64)> {
    let mut functions: FxHashMap<String, u64> = FxHashMap::default();
    for (stack, ns) in &sums.on_cpu {
        *functions.entry(on_cpu(*stack)).or_default() += ns;
    }
    let mut parts: Vec<(String, u64)> = functions.into_iter().collect();
    parts.push(("[off the CPU, in no recorded wait]".to_owned(), sums.off_cpu_ns));
    parts.push(("[hand-over: woken, and not running yet]".to_owned(), sums.hand_over_ns));
    parts.push(("[a thread was made, and had not begun]".to_owned(), sums.begins_ns));
    let mut outside: FxHashMap<String, u64> = FxHashMap::default();
    for (stack, ns) in &sums.outside {
        *outside.entry(names.function(*stack)).or_default() += ns;
    }
    parts.extend(outside.into_iter().map(|(name, ns)| (format!("[outside: waits in {name}]"), ns)));
    parts.push(("[not known who made the thread]".to_owned(), sums.unknown_ns));
    parts.retain(|(_, ns)| *ns > 0);
    parts.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    parts
}

/// The tables for people. `rows` at most in each.
#[must_use]
pub fn tables(profile: &Profile, waits: &Waits, chain: &Chain, rows: usize, layout: &Layout) -> String {
    let path = chain.path();
    let sums = PathSums::sum_up(profile, chain, &path);
    let whole = chain.ns();
    let process = &profile.processes[chain.process];
    let mut out = format!("Critical path of {} {}: {} s\n", process.name, process.pid, seconds(whole));
    let more = |out: &mut String, table: &Table, all: usize| {
        *out += &table.render(layout);
        if all > rows {
            *out += &format!("  ... and {} more (-n shows more)\n", all - rows);
        }
        out.push('\n');
    };
    let names = WaitNames::of_owners(profile);
    let parts = parts(&sums, |stack| names.owner_name(stack), &names);
    let columns = vec![Column::number("seconds"), Column::number("share"), Column::name("on the path", 24)];
    let mut table = Table::new(columns);
    for (name, ns) in parts.iter().take(rows) {
        table.row(Rank::from_share(*ns, whole), vec![seconds(*ns), share(*ns, whole), name.clone()]);
    }
    more(&mut out, &table, parts.len());
    out += "Threads on the path\n";
    let columns = [Column::number("seconds"), Column::number("share"), Column::number("pieces")];
    let mut table = Table::new([&columns[..], &[Column::text("thread", 12)]].concat());
    for (of, ns, pieces) in sums.threads.iter().take(rows) {
        let cells = vec![seconds(*ns), share(*ns, whole), thousands(*pieces), thread(profile, *of)];
        table.row(Rank::from_share(*ns, whole), cells);
    }
    more(&mut out, &table, sums.threads.len());
    if !sums.changes.is_empty() {
        out += "Where the path goes from one thread to another\n";
        let mut table = Table::new(vec![
            Column::number("times"),
            Column::number("hand-over"),
            Column::name("waited in", 12),
            Column::name("woken by", 12),
            Column::name("for", 24),
        ]);
        for change in sums.changes.iter().take(rows) {
            let waker = change.waker.map_or_else(|| "its end".to_owned(), |stack| names.function(stack));
            let waiter = names.function(change.waiter);
            let object = names.object_beside(&waits.objects[change.object], &waiter);
            let cells = vec![thousands(change.count), seconds(change.hand_over_ns), waiter, waker, object];
            table.row(Rank::Plain, cells);
        }
        more(&mut out, &table, sums.changes.len());
    }
    out
}

/// Lines about what the path does not say.
#[must_use]
pub fn closing(profile: &Profile, waits: &Waits, chain: &Chain) -> Vec<String> {
    let sums = PathSums::sum_up(profile, chain, &chain.path());
    let mut lines = vec![
        "Work off the path does not delay the end. Shortening work on it helps until another path is the longest."
            .to_owned(),
    ];
    let outside: u64 = sums.outside.iter().map(|(_, ns)| ns).sum();
    if outside > 0 {
        lines.push(format!(
            "outside: {} s ({}) of waits on the path were ended by nobody that the recording knows",
            seconds(outside),
            share(outside, chain.ns()),
        ));
    }
    let missing = waits.lost + waits.overwritten + waits.damaged;
    if missing > 0 {
        lines.push(format!("unsure: {} records of waits are missing", thousands(missing)));
    }
    let others = waits.chains.len().saturating_sub(1);
    if others > 0 {
        lines.push(format!(
            "{} other processes have paths of their own: name a .pct file of the folder",
            thousands(others as u64)
        ));
    }
    lines
}

/// The pieces as CSV, in order of time.
#[must_use]
pub fn csv(profile: &Profile, chain: &Chain, rows: usize) -> String {
    let mut out = String::from("from_seconds,to_seconds,what,tid,thread,waits_in\n");
    let Path { pieces, .. } = chain.path();
    for piece in pieces.iter().take(rows) {
        let life = &chain.threads[piece.thread];
        let row = &profile.threads[life.thread];
        let waits_in = match piece.what {
            What::HandOver(number) | What::Outside(number) => function(profile, life.waits[number].stack),
            _ => "",
        };
        out += &format!(
            "{:.9},{:.9},{},{},{},{}\n",
            float(piece.from) / 1e9,
            float(piece.to) / 1e9,
            name(piece.what),
            row.tid,
            csv_field(&row.name),
            csv_field(waits_in),
        );
    }
    out
}

/// Everything as JSON.
#[must_use]
pub fn json(profile: &Profile, waits: &Waits, chain: &Chain, rows: usize) -> Value {
    let seconds = |ns: u64| float(ns) / 1e9;
    let path = chain.path();
    let sums = PathSums::sum_up(profile, chain, &path);
    let piece = |piece: &crate::waits::path::Piece| {
        let life = &chain.threads[piece.thread];
        json!({
            "from_seconds": seconds(piece.from),
            "to_seconds": seconds(piece.to),
            "what": name(piece.what),
            "tid": profile.threads[life.thread].tid,
            "thread": profile.threads[life.thread].name,
        })
    };
    let change = |change: &crate::path_sums::ThreadChange| {
        json!({
            "times": change.count,
            "hand_over_seconds": seconds(change.hand_over_ns),
            "waits_in": function(profile, change.waiter),
            "woken_by": change.waker.map(|stack| function(profile, stack)),
            "object": object_name(profile, &waits.objects[change.object]),
        })
    };
    let by_thread = |(thread, ns, pieces): &(crate::ids::ThreadId, u64, u64)| {
        json!({
            "tid": profile.threads[*thread].tid,
            "thread": profile.threads[*thread].name,
            "seconds": seconds(*ns),
            "pieces": pieces,
        })
    };
    let leaf = |stack| profile.functions[profile.leaf(stack)].name.clone();
    let parts = parts(&sums, leaf, &WaitNames::of_machine(profile));
    let part = |(name, ns): &(String, u64)| json!({ "name": name, "seconds": seconds(*ns) });
    json!({
        "pid": profile.processes[chain.process].pid,
        "process": profile.processes[chain.process].name,
        "seconds": seconds(chain.ns()),
        "parts": parts.iter().take(rows).map(part).collect::<Vec<_>>(),
        "threads": sums.threads.iter().take(rows).map(by_thread).collect::<Vec<_>>(),
        "changes": sums.changes.iter().take(rows).map(change).collect::<Vec<_>>(),
        "pieces": path.pieces.iter().take(rows).map(piece).collect::<Vec<_>>(),
        "records_missing": waits.lost + waits.overwritten + waits.damaged,
    })
}
