//! callgrind's and cachegrind's files, and those of other writers of the format (Xdebug, pyprof2calltree, our export):
//! <https://valgrind.org/docs/manual/cl-format.html>.
//!
//! A file has what each line of a function cost by itself, and what each call from a line cost in all. It has no whole
//! stacks: they are made of the calls (`graph`), which a note says.

mod circles;
mod graph;
mod lines;
mod read;

use super::problem::Problem;
use super::samples::Sample;
use super::types::{self, SampleType};
use super::wanted::Wanted;
use graph::Graph;
use lines::File;
use pct_num::{count, float};
use pct_profile::Unit;
use pct_profile::model::Profile;
use read::Read;

/// Whether a text has the lines that each file of the format has.
pub(super) fn looks_like(text: &str) -> bool {
    let head = &text[..text.floor_char_boundary(1 << 16)];
    let has = |start: &str| head.lines().any(|line| line.starts_with(start));
    has("# callgrind format") || (has("events:") && has("fn="))
}

pub(super) fn read(text: &str, wanted: Wanted<'_>) -> Result<Profile, Problem> {
    let file = File::parse(text)?;
    let all: Vec<SampleType> = file.events.iter().map(|event| kind(&file, event)).collect();
    let shown = wanted.sample_type.map_or(Ok(0), |name| types::named(&all, name))?;
    let kind = all.get(shown).ok_or_else(|| Problem {
        place: "the whole file".into(),
        problem: "no line `events:` in it says what its numbers are".into(),
    })?;
    let mut read = Read::new(&file);
    let graph = Graph::new(&file, shown).map_err(|value| kind.negative(value))?;
    let amounts = graph.amounts(&mut read);
    let process = read.samples.process(0, file.command.as_deref().unwrap_or("callgrind"));
    let thread = read.samples.b.thread(process, 0, "");
    for (stack, amount) in amounts {
        let amount = float(amount);
        read.samples.add(Sample { thread, stack: Some(stack), amount, samples: 0, time_ns: None });
    }
    let calls = read.calls(&file);
    let others = types::others(&all, |at| at != shown, "also in the file: ");
    let mut profile = read.samples.finish(kind)?;
    if !file.is_ours() {
        profile.call_counts.extend(calls);
    }
    let account = &mut profile.account;
    if !others.is_empty() {
        account.note(format!("{} is shown; {others} (--type NAME shows it)", kind.words()));
    }
    tell(&graph, &file, shown, account);
    Ok(profile)
}

/// What the file does not say, and what of it is not shown.
fn tell(graph: &Graph, file: &File<'_>, shown: usize, account: &mut pct_profile::model::Account) {
    if graph.is_shared_out() {
        account.note(
            "the file has calls, not whole stacks: what a function cost is shared out among its callers in proportion to \
             what their calls cost, and a recursion is shown once",
        );
    }
    if graph.in_circles() > 0 {
        let functions = graph.in_circles() as u64;
        let functions = count(functions, "function calls itself", "functions call themselves");
        account.note(format!("{functions} by way of others: totals of such functions are estimates"));
    }
    let of_lines = graph.total();
    if let Some(total) = file.totals.get(shown).copied().filter(|total| *total != of_lines) {
        account.note_gap(format!("the file says that the sum is {total}, but its lines have {of_lines}"));
    }
}

/// What an event of the file measures. Names of events cannot have spaces, so some writers put the unit behind `_`.
fn kind(file: &File<'_>, event: &str) -> SampleType {
    if let Some((name, unit)) = file.sample_type.filter(|_| file.is_ours()) {
        return SampleType::new(name, unit);
    }
    if file.is_ours() && event == "us" {
        return SampleType::new("cpu", "microseconds");
    }
    if let Some((name, unit)) = event.strip_suffix(')').and_then(|rest| rest.rsplit_once("_(")) {
        return SampleType::new(name, unit);
    }
    // An event may be a unit: pyprof2calltree's is `ns`.
    let time = SampleType::new("time", event);
    if *time.unit() == Unit::Time { time } else { SampleType::new(event, "count") }
}
