//! The account of memory: what resident memory is made of, as far as the recording has it, and what was not seen.

use super::memory_words::{estimate_json, interval, limit};
use super::numbers::{bytes, count, seconds, share};
use crate::memory::{Figures, Level, Memory, ProcessMemory, Server};
use crate::model::Profile;
use pct_num::{Estimate, bytes_binary, float, rounded};
use serde_json::{Value, json};

/// Frees that were not seen make the view of what is live doubtful from this share of the samples on.
const DOUBTFUL_MISSED: f64 = 0.01;

/// Estimates of what is live that differ by less than this share are taken for those of one instant.
const SAME_INSTANT: f64 = 0.01;

/// What resident memory is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct Account {
    /// Resident memory.
    pub resident: u64,
    /// Its parts in words, as estimates or as the kernel says. Live memory is the first.
    pub parts: Vec<(&'static str, u64)>,
    /// Anonymous memory that no part explains: the allocator's slack if that is not known, the data of libraries, maps.
    pub rest: u64,
    /// More was live than is resident: by so much. It was never touched, or is swapped out.
    pub over: u64,
}

impl Account {
    /// Of a process at an instant, given what was live then.
    #[must_use]
    pub fn at_instant(level: &Level, live: f64) -> Option<Self> {
        let resident = level.resident()?;
        let live = rounded(live.clamp(0.0, 1e18));
        let mut parts = vec![("live", live)];
        let of_anonymous = [("allocator's slack", level.slack), ("thread stacks", level.stacks)];
        let of_others =
            [("files, code and pct's own", level.resident_files), ("shared memory", level.resident_shared)];
        for (name, octets) in of_anonymous.into_iter().chain(of_others) {
            if let Some(octets) = octets {
                parts.push((name, octets));
            }
        }
        let anonymous = level.resident_anonymous.unwrap_or(0);
        let explained = of_anonymous.iter().filter_map(|(_, octets)| *octets).fold(live, u64::saturating_add);
        Some(Self {
            resident,
            parts,
            rest: anonymous.saturating_sub(explained),
            over: explained.saturating_sub(anonymous),
        })
    }
    /// Resident memory without what nothing explains.
    #[must_use]
    pub fn explained(&self) -> u64 {
        self.resident.saturating_sub(self.rest)
    }
}

/// The account of one process at the end of the recording.
#[must_use]
pub fn at_end(process: &ProcessMemory, live: f64) -> Option<Account> {
    Account::at_instant(process.levels.last()?, live)
}

/// The closing lines: what resident memory is made of, what cannot be seen, what was not seen.
#[must_use]
pub fn closing(
    profile: &Profile,
    memory: &Memory,
    live_of: &dyn Fn(&ProcessMemory) -> Figures,
) -> Vec<String> {
    let mut lines = Vec::new();
    for process in &memory.processes {
        let of = if memory.processes.len() == 1 {
            String::new()
        } else {
            let about = &profile.processes[process.process];
            format!("{} ({}): ", pct_text::visible(&about.name), about.pid)
        };
        lines.extend(of_process(process, &live_of(process)).into_iter().map(|line| format!("{of}{line}")));
    }
    if !memory.is_empty() {
        lines.push(limit(memory));
    }
    lines.extend(profile.account.notes.iter().map(|note| format!("note: {note}")));
    // An account takes several lines.
    lines.iter().map(|line| pct_text::visible_lines(line).into_owned()).collect()
}

fn of_process(process: &ProcessMemory, figures: &Figures) -> Vec<String> {
    let mut lines = Vec::new();
    let live = &figures.live.bytes;
    // A program that runs or was killed may have more or less live than when its resident memory was read
    // last: compared is what was live then.
    let then = |level: &Level| {
        let then = float(level.live);
        let is_now = (then - live.amount).abs() <= SAME_INSTANT * then.max(live.amount);
        if is_now || level.live == 0 { (live.amount, true) } else { (then, false) }
    };
    if let Some(level) = process.levels.last()
        && let (amount, is_now) = then(level)
        && let Some(account) = Account::at_instant(level, amount)
    {
        let parts: Vec<String> = account
            .parts
            .iter()
            .map(|(name, octets)| match *name {
                "live" if is_now => format!("live {} ({})", bytes(float(*octets)), interval(live)),
                "live" => format!("live then {}", bytes(float(*octets))),
                name => format!("{name} {}", bytes(float(*octets))),
            })
            .collect();
        let slack = if level.slack.is_none() { "the allocator's slack, " } else { "" };
        let rest = match (account.rest, account.over) {
            (_, 1..) => format!(
                "; {} more than is resident: some of it was never touched or is swapped out",
                bytes(float(account.over))
            ),
            (0, 0) => String::new(),
            (rest, _) => {
                format!(",\n  {} not told apart ({slack}maps, data of libraries)", bytes(float(rest)))
            }
        };
        lines.push(format!(
            "resident {} at {} s, {} of it explained:\n  {}{rest}",
            bytes(float(account.resident)),
            seconds(level.time_ns),
            share(account.explained(), account.resident),
            parts.join(", "),
        ));
    }
    let server = &process.server;
    if let Some(inside) = &server.inside {
        lines.push(format!("the program {inside}"));
    } else if server.unseen {
        lines.push(unseen(process));
    }
    if process.most_shift > 0 {
        lines.push(format!(
            "the interval rose from {} to {}: {} for the rate of samples, {} because the table of live blocks was full",
            bytes_binary(process.interval),
            bytes_binary(process.coarsest_interval()),
            count(process.rate_rises, "time", "times"),
            count(process.thinnings, "time", "times"),
        ));
    }
    if process.left_out > 0 {
        lines.push(format!(
            "for the rate of samples {} of the busiest sites were left out, for which others stand: intervals of these \
             sites are wider",
            count(process.left_out, "sample", "samples"),
        ));
    }
    lines.extend(losses(process));
    lines
}

/// Who serves malloc without pct, as a sentence.
#[must_use]
pub fn unseen(process: &ProcessMemory) -> String {
    let server = &process.server;
    let path = if server.path.is_empty() { String::new() } else { format!(" ({})", server.path) };
    format!(
        "malloc is served by {}{path}: its calls do not pass through pct, and what is shown is not the program's heap",
        server.kind
    )
}

fn losses(process: &ProcessMemory) -> Vec<String> {
    let losses = &process.losses;
    let mut lines = Vec::new();
    if losses.missed_frees > 0 {
        let doubt = if process.missed_share() > DOUBTFUL_MISSED {
            ": what is live is less than is shown"
        } else {
            ""
        };
        lines.push(format!(
            "{} not seen ({} of the samples){doubt}",
            count(losses.missed_frees, "free was", "frees were"),
            share(losses.missed_frees, process.allocated.samples())
        ));
    }
    if losses.untracked.0 > 0 {
        lines.push(format!(
            "{} had no place in the table of live blocks: {} are in what was allocated, and not in what is live",
            count(losses.untracked.0, "sample", "samples"),
            bytes(losses.untracked.1)
        ));
    }
    if process.inherited.0 > 0 {
        lines.push(format!("{} were live at the fork, allocated by the parent", bytes(process.inherited.1)));
    }
    let counts = [
        (losses.without_stack, "without a stack"),
        (losses.without_sum, "in the totals alone, because the table of sums was full"),
        (losses.nested, "dropped inside another"),
        (losses.half_written, "being written when the file was taken, and left out"),
        (losses.shared, "by countdowns that threads share"),
    ];
    for (n, what) in counts.into_iter().filter(|(n, _)| *n > 0) {
        lines.push(format!("{} {what}", count(n, "sample", "samples")));
    }
    if losses.early_calls > 0 {
        lines.push(format!("{} before the sampler was ready", count(losses.early_calls, "call", "calls")));
    }
    lines
}

fn server(server: &Server) -> Value {
    let inside = server.inside.as_ref().map(|inside| json!({"name": inside.name, "sign": inside.sign}));
    json!({"kind": server.kind, "path": server.path, "unseen": server.unseen, "inside": inside})
}

/// The account as JSON: an array, one member for each process.
#[must_use]
pub fn json(profile: &Profile, memory: &Memory) -> Value {
    let level = |level: &Level| {
        json!({
            "seconds": float(level.time_ns) / 1e9, "live": level.live, "allocated": level.allocated,
            "resident": level.resident(), "resident_anonymous": level.resident_anonymous,
            "resident_files": level.resident_files, "resident_shared": level.resident_shared,
            "thread_stacks": level.stacks, "allocator_slack": level.slack,
        })
    };
    let process = |process: &ProcessMemory| {
        let losses = &process.losses;
        json!({
            "pid": profile.processes[process.process].pid,
            "process": profile.processes[process.process].name,
            "interval": process.interval,
            "coarsest_interval": process.coarsest_interval(),
            "detection_limit": pct_num::detection_limit(process.coarsest_interval()),
            "left_out_of_busy_sites": process.left_out,
            "seed": process.seed,
            "malloc_served_by": server(&process.server),
            "allocated": {"bytes": estimate_json(&process.allocated.bytes), "blocks": estimate_json(&process.allocated.blocks)},
            "peak_seconds": process.peak_ns.map(|ns| float(ns) / 1e9),
            "own_bytes": process.own_bytes,
            "inherited": {"samples": process.inherited.0, "bytes": process.inherited.1},
            "lost": {
                "untracked_samples": losses.untracked.0, "untracked_bytes": losses.untracked.1,
                "missed_frees": losses.missed_frees, "without_stack": losses.without_stack,
                "without_sum": losses.without_sum, "nested": losses.nested, "early_calls": losses.early_calls,
                "shared_countdowns": losses.shared, "damaged": losses.damaged, "half_written": losses.half_written,
            },
            "levels": process.levels.iter().map(level).collect::<Vec<_>>(),
            "marks": process.marks.iter().map(|mark| json!({
                "seconds": float(mark.time_ns) / 1e9, "name": mark.name, "live": mark.live,
            })).collect::<Vec<_>>(),
        })
    };
    json!({
        "processes": memory.processes.iter().map(process).collect::<Vec<_>>(),
        "notes": profile.account.notes,
    })
}

/// The sum of live memory of one process among cells.
#[must_use]
pub fn live_of(cells: &[crate::memory::MemoryCell], process: &ProcessMemory) -> Figures {
    let mut sum: Figures =
        cells.iter().filter(|cell| cell.process == process.process).map(|cell| cell.figures).sum();
    sum.live.bytes += Estimate::nothing(float(process.coarsest_interval()));
    sum
}
