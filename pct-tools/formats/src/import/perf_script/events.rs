//! The events of a perf script file: which there are, which is shown, and what its samples are worth.

use super::super::problem::Problem;
use super::header::Header;
use pct_profile::{Quantity, Unit};

struct Event<'t> {
    name: &'t str,
    samples: u64,
    with_period: u64,
    with_ids: u64,
}

/// All events, in order of their first sample.
#[derive(Default)]
pub(super) struct Events<'t> {
    events: Vec<Event<'t>>,
    /// The earliest time of a sample.
    pub(super) start_ns: Option<u64>,
}

impl<'t> Events<'t> {
    pub(super) fn count(&mut self, header: &Header<'t>) {
        let known = self.events.iter().position(|event| event.name == header.event);
        let at = known.unwrap_or_else(|| {
            self.events.push(Event { name: header.event, samples: 0, with_period: 0, with_ids: 0 });
            self.events.len() - 1
        });
        self.events[at].samples += 1;
        self.start_ns = self.start_ns.into_iter().chain(header.time_ns).min();
        self.events[at].with_period += u64::from(header.period.is_some());
        self.events[at].with_ids += u64::from(header.ids.is_some());
    }

    /// How many samples there are.
    pub(super) fn all(&self) -> u64 {
        self.events.iter().map(|event| event.samples).sum()
    }

    /// The event of this name, with or without its modifiers; else the first that measures time, else the first.
    pub(super) fn choose(&self, name: Option<&str>) -> Result<Choice<'t>, Problem> {
        if self.events.is_empty() {
            return Err(Problem { place: "line 1".into(), problem: "no sample in it".into() });
        }
        let event = match name {
            None => self.events.iter().find(|event| is_clock(event.name)).or(self.events.first()),
            Some(name) => {
                let exact = self.events.iter().find(|event| event.name == name);
                exact.or_else(|| self.events.iter().find(|event| without_modifiers(event.name) == name))
            }
        };
        let Some(event) = event else {
            let all: Vec<String> = self.events.iter().map(words).collect();
            let problem = format!("no event {:?} in it; it has {}", name.unwrap_or(""), all.join(", "));
            return Err(Problem { place: "--type".into(), problem });
        };
        // Without an event a period may be of anything.
        let has_periods = event.with_period == event.samples && !event.name.is_empty();
        Ok(Choice { name: event.name, has_periods })
    }

    /// What is to be said of the choice.
    pub(super) fn notes(&self, chosen: &Choice<'_>) -> Vec<String> {
        let mut notes = Vec::new();
        let others: Vec<String> =
            self.events.iter().filter(|event| event.name != chosen.name).take(20).map(words).collect();
        if !others.is_empty() {
            let shown = self.events.iter().find(|event| event.name == chosen.name).map(words);
            notes.push(format!(
                "{} is shown; also in the file: {} (--type NAME shows it)",
                shown.unwrap_or_default(),
                others.join(", ")
            ));
        }
        if is_clock(chosen.name) && !chosen.has_periods {
            notes.push(
                "the text has no periods, so samples are counted: perf script -F +period prints them".into(),
            );
        }
        let Some(event) = self.events.iter().find(|event| event.name == chosen.name) else { return notes };
        if event.name.is_empty() && event.with_period > 0 {
            notes.push(
                "the text does not say what its periods count, so samples are counted: perf script -F +event prints it"
                    .into(),
            );
        }
        if event.with_ids == 0 {
            notes.push(
                "the text has no ids, so what runs under one name is one process: perf script -F +pid,+tid prints them"
                    .into(),
            );
        }
        notes
    }
}

fn words(event: &Event<'_>) -> String {
    let name = if event.name.is_empty() { "samples without an event" } else { event.name };
    format!("{} ({})", pct_text::visible(name), pct_num::count(event.samples, "sample", "samples"))
}

/// `cycles` of `cycles:ppp`; a tracepoint keeps both of its names.
fn without_modifiers(event: &str) -> &str {
    match event.rsplit_once(':') {
        Some((name, modifiers)) if modifiers.bytes().all(|b| b"ukhGHpPISDWeb".contains(&b)) => name,
        _ => event,
    }
}

/// Events whose period is in nanoseconds of CPU time.
fn is_clock(event: &str) -> bool {
    event.starts_with("cpu-clock") || event.starts_with("task-clock")
}

/// A tracepoint has two names, and its fields behind them.
pub(super) fn is_tracepoint(event: &str) -> bool {
    without_modifiers(event).contains(':')
}

/// The event that is shown.
pub(super) struct Choice<'t> {
    pub(super) name: &'t str,
    /// All of its samples have a period.
    has_periods: bool,
}

impl Choice<'_> {
    /// Whether its samples are worth nanoseconds of CPU time.
    pub(super) fn is_cpu_time(&self) -> bool {
        is_clock(self.name) && self.has_periods
    }

    pub(super) fn quantity(&self) -> Quantity {
        if self.is_cpu_time() {
            return Quantity::Processor;
        }
        if self.name.is_empty() {
            return Quantity::Foreign { name: "samples".into(), unit: Unit::Count };
        }
        let unit = if self.has_periods { Unit::Count } else { Unit::Other("samples".into()) };
        Quantity::Foreign { name: self.name.to_owned(), unit }
    }

    /// What a sample is worth in that quantity.
    pub(super) fn amount(&self, header: &Header<'_>) -> u64 {
        if self.has_periods { header.period.unwrap_or(0) } else { 1 }
    }
}
