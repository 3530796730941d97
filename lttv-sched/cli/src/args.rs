//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Reads traces: CTF (LTTng, babeltrace2, barectf, perf) and sample logs of pct.
#[derive(Debug, Parser)]
#[command(name = "lttv", version, about, after_help = EXAMPLES)]
pub struct Args {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "Examples:
  lttv events ~/lttng-traces/auto-20261121 --from +1.5s --to +1.6s
  lttv events trace --filter 'name == sched_* && prev_tid == 4711' --columns ns,cpu,name,fields --format json
  lttv events --follow pct-server-4711
  lttv stats trace
  lttv stats trace --by syscall --from 17:46:23
  lttv states trace --at 50%
  lttv threads trace --thread 4711 --from +1s --to +2s
  lttv info trace --packets
  lttv histogram trace --buckets 40
  lttv view trace

Times: 1795295131.094746936 (seconds), 1795295131094746936 (ns), +1.5s +20ms +3us +7ns (from the start), 50% (of the span),
'2026-11-21 17:05:31.5' (local; --utc or a Z at the end: UTC), 17:05:31 (on the day of the first event).
A whole number is taken as seconds where that lies in the traces, else as ns.
Exit status: 0 done, 1 something could not be read (the rest was), 2 wrong usage.";

/// The command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List events in order of time.
    Events(EventsArgs),
    /// Count events by name, CPU and channel; CPU time by thread for kernel traces.
    Stats(StatsArgs),
    /// Show what CPUs and threads were doing: intervals, or everything at one time.
    States(StatesArgs),
    /// Show what each thread did: running, waiting for a CPU, blocked and in what. Kernel traces and .pct recordings.
    Threads(ThreadsArgs),
    /// Show the number of events over time.
    Histogram(HistogramArgs),
    /// Show what a trace says about itself: environment, clocks, streams, packets, losses.
    Info(InfoArgs),
    /// Show the traces on a time axis, in a browser.
    View(ViewArgs),
    /// Write manual pages and completions, from the same definition as the parser (for packagers).
    #[command(hide = true)]
    Generate(GenerateArgs),
}

impl Command {
    /// The common options, for commands on traces.
    pub fn common(&self) -> Option<&Common> {
        match self {
            Command::Events(a) => Some(&a.common),
            Command::Stats(a) => Some(&a.common),
            Command::States(a) => Some(&a.common),
            Command::Threads(a) => Some(&a.common),
            Command::Histogram(a) => Some(&a.common),
            Command::Info(a) => Some(&a.common),
            Command::View(a) => Some(&a.common),
            Command::Generate(_) => None,
        }
    }
}

/// Options that all commands have.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// Trace directories (or directories with traces below), and .pct files.
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Begin of the window.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// End of the window. Events at this time are outside of it.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Only events for which this is true, e.g. 'name == sched_* && cpu == 1 && next_tid > 100'.
    #[arg(long, value_name = "EXPRESSION")]
    pub filter: Option<String>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Report when the first result came and what it cost.
    #[arg(short, long)]
    pub verbose: bool,
    /// Show no progress and no closing lines.
    #[arg(short, long)]
    pub quiet: bool,
    /// Merge traces even if their clocks have different origins.
    #[arg(long)]
    pub any_clock: bool,
    /// Refuse traces with a stream file that is damaged at its start.
    #[arg(long)]
    pub strict: bool,
    /// Do not use index files or what earlier runs stored (positions of packets, states; in $XDG_CACHE_HOME/pct/ctf),
    /// and store nothing.
    #[arg(long)]
    pub no_index: bool,
    /// Show times as local date and time of day, not as seconds.
    #[arg(long)]
    pub wall: bool,
    /// As --wall, in UTC; dates and times of day that you type are UTC then too.
    #[arg(long)]
    pub utc: bool,
    /// Added to the times of CTF traces: of all, or of those with a name (their folder, path or host). In ns, or with a
    /// unit (-3ms). May be given several times.
    #[arg(long, value_name = "[NAME=]TIME", allow_hyphen_values = true)]
    pub clock_shift: Vec<String>,
    /// Most events between two checks of the clock and of waiting work; results do not depend on it.
    #[arg(long, value_name = "N", default_value_t = 6000, value_parser = clap::value_parser!(u64).range(1..))]
    pub chunk: u64,
}

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// JSON: a line for each event or row.
    Json,
    /// CSV: the names of the columns, then a line for each event or row. Rows of another kind follow after an empty
    /// line and their names.
    Csv,
}

/// Arguments of `events`.
#[derive(Debug, clap::Args)]
pub struct EventsArgs {
    /// What all commands have.
    #[command(flatten)]
    pub common: Common,
    /// What to show of each event.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    pub columns: Vec<Column>,
    /// At most this many events.
    #[arg(short = 'n', long, value_name = "N")]
    pub count: Option<u64>,
    /// Follow recordings (.pct) while programs write them, until all programs have ended.
    #[arg(short, long)]
    pub follow: bool,
}

/// What to show of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Column {
    /// Time as seconds with nine digits after the point.
    Time,
    /// Time as ns.
    Ns,
    /// CPU.
    Cpu,
    /// Channel.
    Channel,
    /// Name of the event.
    Name,
    /// Context fields: of the stream and of the event.
    Context,
    /// Payload fields.
    Fields,
    /// Fields of the context of the event's packet.
    Packet,
    /// Index of the trace among the command line's traces.
    Trace,
    /// Stream file or thread.
    Tracefile,
    /// Log level.
    Loglevel,
}

/// Arguments of `stats`.
#[derive(Debug, clap::Args)]
pub struct StatsArgs {
    /// What all commands have.
    #[command(flatten)]
    pub common: Common,
    /// Most rows of each table.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
    /// Show how long things took instead: how often, total, mean, percentiles, longest (kernel traces). Or samples by
    /// function (.pct recordings).
    #[arg(long, value_enum, value_name = "WHAT")]
    pub by: Option<By>,
}

/// What `stats --by` groups by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// System calls.
    Syscall,
    /// Time on a CPU from switch to switch, by process.
    Process,
    /// Handlers of interrupts and traps.
    Irq,
    /// Requests of block devices.
    Device,
    /// System calls on file descriptors, by file.
    File,
    /// Samples of recordings, by the function that ran.
    Function,
}

/// Arguments of `states`.
#[derive(Debug, clap::Args)]
pub struct StatesArgs {
    /// What all commands have.
    #[command(flatten)]
    pub common: Common,
    /// Show everything at this time, instead of intervals.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
}

/// Arguments of `threads`.
#[derive(Debug, clap::Args)]
pub struct ThreadsArgs {
    /// What all commands have.
    #[command(flatten)]
    pub common: Common,
    /// List the intervals of this thread, one by one. May be given several times.
    #[arg(long, value_name = "TID")]
    pub thread: Vec<i64>,
    /// Most rows of the table.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
}

/// Arguments of `info`.
#[derive(Debug, clap::Args)]
pub struct InfoArgs {
    /// What all commands have.
    #[command(flatten)]
    pub common: Common,
    /// List each packet, with the fields of its context.
    #[arg(long)]
    pub packets: bool,
}

/// Arguments of `histogram`.
#[derive(Debug, clap::Args)]
pub struct HistogramArgs {
    /// What all commands have.
    #[command(flatten)]
    pub common: Common,
    /// Number of buckets.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub buckets: u32,
}

/// Arguments of `view`.
#[derive(Debug, clap::Args)]
pub struct ViewArgs {
    /// What all commands have.
    #[command(flatten)]
    pub common: Common,
    /// Port of 127.0.0.1 to serve on; 0 takes a free one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub port: u16,
    /// Do not start a browser.
    #[arg(long)]
    pub no_open: bool,
}

/// Arguments of `generate`.
#[derive(Debug, clap::Args)]
pub struct GenerateArgs {
    /// What to write.
    #[command(subcommand)]
    pub what: pct_manual::What,
}

/// An argument without a meaning.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}
