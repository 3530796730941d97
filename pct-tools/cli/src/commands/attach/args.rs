//! What can be typed after `pct attach`.

use crate::commands::run::{Interpreted, Java};
use crate::look;
use pct_attach::choose::Method;
use std::path::PathBuf;
use std::time::Duration;

/// What can be typed after `pct attach`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct attach 4711 --for 10           profile it for ten seconds
  pct attach --explain 4711          which method it would use, and why (stops nothing)
  pct attach --clock wall 4711 --for 5   where its threads run and wait
  pct attach --method 6 4711         nothing is loaded into it: samples by ptrace, until Ctrl-C")]
pub struct Args {
    /// The process.
    #[arg(value_name = "PID", allow_negative_numbers = true, value_parser = look::pid)]
    pub pid: i32,
    /// Seconds to profile. Without it, profile until pct off or until the process ends; with methods 5 and 6, or in
    /// another root folder (chroot, container), until Ctrl-C.
    #[arg(long = "for", value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    pub time: Option<Duration>,
    /// Samples per CPU second of each thread [default: 997; 250 with methods 5 and 6, 100 with --clock
    /// wall].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = look::within(1..=10_000))]
    pub hz: Option<u32>,
    /// Use this way into the process, 1 to 6; --explain lists them.
    #[arg(long, value_name = "N", value_parser = method)]
    pub method: Option<Method>,
    /// What samples measure: CPU time, or wall-clock time, which also shows where threads wait (methods 5 and 6).
    #[arg(long, value_enum, default_value_t = Clock::Cpu)]
    pub clock: Clock,
    /// Also profile the processes that it forks and the programs that they execute.
    #[arg(long)]
    pub follow: bool,
    /// Show Java functions in the stacks (Java 11 to 25), or only name compiled ones (Java 17 and later) [default: on].
    #[arg(long, value_enum)]
    pub java: Option<Java>,
    /// Show JavaScript functions in the stacks (node 18 to 24) [default: on].
    #[arg(long, value_enum)]
    pub javascript: Option<Interpreted>,
    /// Say which method would be used and why, without stopping or changing the process.
    #[arg(long)]
    pub explain: bool,
    /// Not possible: allocations are sampled from the start of a program (pct run --alloc).
    #[arg(long, hide = true, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "512K")]
    pub alloc: Option<String>,
    /// Only record, without a closing table.
    #[arg(long)]
    pub no_report: bool,
    /// Rows of the closing table [default: at most 20, those of a two-hundredth and more].
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = look::number)]
    pub rows: Option<usize>,
    /// Folder for the data [default: a new one, pct-NAME-PID, pct-NAME-PID-2, ...].
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// What makes samples due.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Clock {
    /// CPU time.
    Cpu,
    /// Wall-clock time of each thread, running or waiting.
    Wall,
}

fn method(text: &str) -> Result<Method, String> {
    text.parse().ok().and_then(Method::from_number).ok_or_else(|| "a number from 1 to 6".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let s: f64 = text.trim_end_matches('s').parse().map_err(|_| "a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(s).map_err(|_| "a number of seconds above 0".to_owned())
}
