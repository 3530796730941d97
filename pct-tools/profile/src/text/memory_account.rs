//! The account of memory: what resident memory is made of, as far as the recording has it, and what was not seen.

use super::memory_words::{estimate_json, interval, limit};
use super::numbers::{bytes, count, seconds, share};
use crate::memory::{Figures, Level, Memory, MemoryLosses, ProcessMemory, Server};
use crate::model::Profile;
use pct_num::{Estimate, bytes_binary, float, rounded};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Frees that were not seen make the view of what is live doubtful from this share of the samples on.
const DOUBTFUL_MISSED: f64 = 0.01;

/// Processes that have lines of their own at most, and one more if it is the only other one.
const MOST_PROCESSES: usize = 3;

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
    /// Live memory that is not resident, by the lower limit of what is live: what was never touched or is swapped
    /// out.
    pub over: u64,
}

impl Account {
    /// Of a process at an instant, given what was live then and the lower limit of that.
    #[must_use]
    pub fn at_instant(level: &Level, live: f64, low: f64) -> Option<Self> {
        let resident = level.resident()?;
        let [live, low] = [live, low].map(|octets| rounded(octets.clamp(0.0, 1e18)));
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
        let with_others =
            |live| of_anonymous.iter().filter_map(|(_, octets)| *octets).fold(live, u64::saturating_add);
        Some(Self {
            resident,
            parts,
            rest: anonymous.saturating_sub(with_others(live)),
            over: with_others(low).saturating_sub(anonymous),
        })
    }
    /// Resident memory without what nothing explains.
    #[must_use]
    pub fn explained(&self) -> u64 {
        self.resident.saturating_sub(self.rest)
    }
}

/// The closing lines: what resident memory is made of, what cannot be seen, what was not seen. Of many processes those
/// that have most are told each, the others in sum.
#[must_use]
pub fn closing(
    profile: &Profile,
    memory: &Memory,
    live_of: &dyn Fn(&ProcessMemory) -> Figures,
) -> Vec<String> {
    let mut processes: Vec<(&ProcessMemory, Estimate)> =
        memory.processes.iter().map(|process| (process, live_of(process).live.bytes)).collect();
    let many = processes.len() > MOST_PROCESSES + 1;
    if many {
        let resident = |process: &ProcessMemory| process.levels.last().and_then(Level::resident);
        processes.sort_by(|(a, a_live), (b, b_live)| {
            b_live.amount.total_cmp(&a_live.amount).then_with(|| resident(b).cmp(&resident(a)))
        });
    }
    let (told, rest) = processes.split_at(if many { MOST_PROCESSES } else { processes.len() });
    let mut lines = Vec::new();
    let mut add = |of: &str, more: Vec<String>| lines.extend(more.iter().map(|line| format!("{of}{line}")));
    for (process, live) in told {
        let about = &profile.processes[process.process];
        let of = match memory.processes.len() {
            1 => String::new(),
            _ => format!("{} ({}): ", pct_text::visible(&about.name), about.pid),
        };
        add(&of, of_process(process, live));
    }
    if !rest.is_empty() {
        add(&format!("{} more processes: ", rest.len()), in_sum(rest));
    }
    if !memory.is_empty() {
        lines.push(limit(memory));
    }
    lines.extend(profile.account.notes.iter().map(|note| format!("note: {note}")));
    // An account takes several lines.
    lines.iter().map(|line| pct_text::visible_lines(line).into_owned()).collect()
}

fn of_process(process: &ProcessMemory, live: &Estimate) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(process.levels.last().and_then(|level| of_level(process, level, live)));
    lines.extend(who_serves(process));
    lines.extend(interval_rose(process));
    lines.extend(NotSeen::from_process(process).lines());
    lines
}

/// What resident memory was made of when it was read last.
fn of_level(process: &ProcessMemory, level: &Level, live: &Estimate) -> Option<String> {
    // A program that runs or was killed may have more or less live than when its resident memory was read
    // last: compared is what was live then.
    let then = float(level.live);
    let is_now = level.live == 0 || (then - live.amount).abs() <= SAME_INSTANT * then.max(live.amount);
    let low = live.interval().low;
    let (amount, low) = match is_now {
        true => (live.amount, low),
        // As sure as what is live now.
        false if live.amount > 0.0 => (then, low / live.amount * then),
        false => (then, 0.0),
    };
    let account = Account::at_instant(level, amount, low)?;
    let since = if process.is_forked { " of what it allocated since its fork" } else { "" };
    let parts: Vec<String> = account
        .parts
        .iter()
        .map(|(name, octets)| match *name {
            "live" if is_now => format!("live {} ({}){since}", bytes(float(*octets)), interval(live)),
            "live" => format!("live then {}{since}", bytes(float(*octets))),
            name => format!("{name} {}", bytes(float(*octets))),
        })
        .collect();
    let before = if process.is_forked { "what its parent had allocated, " } else { "" };
    let slack = if level.slack.is_none() { "the allocator's slack, " } else { "" };
    let rest = match (account.rest, account.over) {
        (_, 1..) => format!("; at least {} of what is live is not resident", bytes(float(account.over))),
        (0, 0) => String::new(),
        (rest, _) => {
            format!(",\n  {} not told apart ({before}{slack}maps, data of libraries)", bytes(float(rest)))
        }
    };
    Some(format!(
        "resident {} at {} s, {} of it explained:\n  {}{rest}",
        bytes(float(account.resident)),
        seconds(level.time_ns),
        share(account.explained(), account.resident),
        parts.join(", "),
    ))
}

fn who_serves(process: &ProcessMemory) -> Option<String> {
    match &process.server.inside {
        Some(inside) => Some(format!("the program {inside}")),
        None => process.server.unseen.then(|| unseen(process)),
    }
}

fn interval_rose(process: &ProcessMemory) -> Option<String> {
    if process.most_shift == 0 {
        return None;
    }
    let causes = [
        (process.rate_rises, "for the rate of samples"),
        (process.thinnings, "because the table of live blocks was full"),
    ];
    let causes: Vec<String> = causes
        .iter()
        .filter(|(times, _)| *times > 0)
        .map(|(times, why)| format!("{} {why}", count(*times, "time", "times")))
        .collect();
    Some(format!(
        "the interval rose from {} to {}{}{}",
        bytes_binary(process.interval),
        bytes_binary(process.coarsest_interval()),
        if causes.is_empty() { "" } else { ": " },
        causes.join(", ")
    ))
}

/// Several processes together.
fn in_sum(processes: &[(&ProcessMemory, Estimate)]) -> Vec<String> {
    let live: Estimate = processes.iter().map(|(_, live)| *live).sum();
    let resident: Vec<u64> =
        processes.iter().filter_map(|(process, _)| process.levels.last().and_then(Level::resident)).collect();
    let forked = processes.iter().filter(|(process, _)| process.is_forked).count();
    let since = match forked {
        0 => String::new(),
        n if n == processes.len() => " of what they allocated since their forks".to_owned(),
        n => format!("; of {n} of them only what they allocated since their forks"),
    };
    let resident = match resident.iter().copied().reduce(u64::saturating_add) {
        Some(sum) => format!("resident {} in sum (shared pages count in each), ", bytes(float(sum))),
        None => String::new(),
    };
    let mut lines = vec![format!("{resident}live {} ({}){since}", bytes(live.amount), interval(&live))];
    let mut servers: BTreeMap<String, u64> = BTreeMap::new();
    for said in processes.iter().filter_map(|(process, _)| who_serves(process)) {
        *servers.entry(said).or_default() += 1;
    }
    lines.extend(servers.into_iter().map(|(said, n)| format!("in {n} of them {said}")));
    let rises: Vec<u64> = processes
        .iter()
        .filter(|(process, _)| process.most_shift > 0)
        .map(|(process, _)| process.coarsest_interval())
        .collect();
    if let Some(most) = rises.iter().max() {
        lines.push(format!("in {} of them the interval rose, up to {}", rises.len(), bytes_binary(*most)));
    }
    let not_seen = processes.iter().map(|(process, _)| NotSeen::from_process(process));
    lines.extend(not_seen.fold(NotSeen::default(), NotSeen::and).lines());
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

/// What is missing of a process, or of several.
#[derive(Clone, Copy, Default)]
struct NotSeen {
    losses: MemoryLosses,
    /// Samples, among which those are that `losses` counts.
    samples: u64,
    /// Samples of busy sites that were left out.
    left_out: u64,
    /// Samples that parents had live at the fork, and their octets.
    inherited: (u64, f64),
}

impl NotSeen {
    fn from_process(process: &ProcessMemory) -> Self {
        Self {
            losses: process.losses,
            samples: process.allocated.samples(),
            left_out: process.left_out,
            inherited: process.inherited,
        }
    }

    fn and(self, other: Self) -> Self {
        let pairs = |a: (u64, f64), b: (u64, f64)| (a.0.saturating_add(b.0), a.1 + b.1);
        Self {
            losses: self.losses.and(&other.losses),
            samples: self.samples.saturating_add(other.samples),
            left_out: self.left_out.saturating_add(other.left_out),
            inherited: pairs(self.inherited, other.inherited),
        }
    }

    fn lines(&self) -> Vec<String> {
        let losses = &self.losses;
        let mut lines = Vec::new();
        if self.left_out > 0 {
            lines.push(format!(
                "for the rate of samples {} of the busiest sites were left out, for which others stand: intervals of \
                 these sites are wider",
                count(self.left_out, "sample", "samples"),
            ));
        }
        if losses.missed_frees > 0 {
            let missed = float(losses.missed_frees) / float(self.samples.max(1));
            let doubt = if missed > DOUBTFUL_MISSED { ": what is live is less than is shown" } else { "" };
            lines.push(format!(
                "{} not seen ({} of the samples){doubt}",
                count(losses.missed_frees, "free was", "frees were"),
                share(losses.missed_frees, self.samples)
            ));
        }
        if losses.untracked.0 > 0 {
            lines.push(format!(
                "{} had no place in the table of live blocks: {} are in what was allocated, and not in what is live",
                count(losses.untracked.0, "sample", "samples"),
                bytes(losses.untracked.1)
            ));
        }
        if self.inherited.0 > 0 {
            lines.push(format!("{} were live at the fork, allocated by the parent", bytes(self.inherited.1)));
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
            lines
                .push(format!("{} before the sampler was ready", count(losses.early_calls, "call", "calls")));
        }
        lines
    }
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
            "forked": process.is_forked,
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
