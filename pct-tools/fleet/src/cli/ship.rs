//! `pct ship` and `pct-fleet ship`.

use super::host::named_or_own;
use crate::ask::Names;
use crate::http::{Encryption, Server};
use crate::ship::{self, Config, Limits, Outcome, ProtocolError, Receiver, Target};
use anyhow::{Context as _, Result};
use pct_profile::load::recordings;
use pct_text::complain;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// What can be typed after `ship`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ship --to /srv/profiles                 bring what is finished there, once
  ship --to /srv/profiles --every 10m     go on doing so (a service manager starts it)
  ship /var/lib/pct/shop --to /mnt/profiles --env prod
  ship --push pyroscope=http://localhost:4040 --symbolize --every 10m

It runs with the lowest priority and needs no rights but to read the recordings. Killed at any instant, it goes on
where it was: no recording arrives twice, and what never arrives is summed in the column `lost`.")]
pub struct Args {
    /// Folders of recordings [default: pct in XDG_STATE_HOME, or ~/.local/state/pct].
    #[arg(value_name = "DIR")]
    pub from: Vec<PathBuf>,
    /// The folder of the tables. It must be there.
    #[arg(long, value_name = "ROOT", required_unless_present = "push")]
    pub to: Option<PathBuf>,
    /// Send profiles to a server instead: pyroscope=URL, parca=URL or otlp=URL.
    #[arg(long, value_name = "KIND=URL", conflicts_with = "to")]
    pub push: Option<String>,
    /// Send the names of functions of machine code too, not only build-ids and addresses.
    #[arg(long, requires = "push")]
    pub symbolize: bool,
    /// Let profiles go unencrypted to another machine.
    #[arg(long, requires = "push")]
    pub unencrypted: bool,
    /// Go on, with so much time between two passes: 30s, 10m, 1h.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub every: Option<Duration>,
    /// Folder of what waits and of what is known to have arrived [default: ship in the first folder of recordings,
    /// or ship-KIND].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The host's name in the tables [default: this one's].
    #[arg(long)]
    pub host: Option<String>,
    /// The environment: prod, test.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub env: String,
    /// Write no names of threads.
    #[arg(long)]
    pub without_threads: bool,
    /// Drop the oldest samples, and count them as lost, when more than this waits.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "256M")]
    pub spool: u64,
    /// Drop samples, and count them as lost, when they have waited for so long.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "7d")]
    pub patience: Duration,
}

pub(super) fn time(text: &str) -> Result<Duration, String> {
    const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let found = UNITS.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, seconds)));
    let seconds = found.and_then(|(digits, unit)| digits.parse::<u64>().ok()?.checked_mul(*unit));
    let seconds = seconds.filter(|seconds| (1..=366 * 86_400).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| "expected a time such as 30s, 10m, 1h or 7d".to_owned())
}

fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(char, u64); 3] = [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30)];
    let found = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, *factor)));
    let (digits, factor) = found.unwrap_or((text, 1));
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes.filter(|bytes| *bytes >= 1 << 20).ok_or_else(|| "expected at least 1M bytes, e.g. 256M".to_owned())
}

/// Ships once, or again and again.
///
/// # Errors
/// When there is no folder of recordings, or the state cannot be used.
pub fn run(args: &Args) -> Result<ExitCode> {
    let config = config(args)?;
    // Nobody who works here should notice. Where that is refused, it ships all the same.
    let _ = rustix::process::setpriority_process(None, 19);
    let mut told: Vec<String> = Vec::new();
    loop {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let outcome = ship::pass(&config, now_ns, &mut |_| {})?;
        for problem in &outcome.problems {
            // One line for each state of things, not one for each pass.
            if !told.contains(problem) {
                complain!("pct ship: {problem}");
            }
        }
        told.clone_from(&outcome.problems);
        let Some(every) = args.every else {
            complain!("pct ship: {}", summary(&outcome));
            let whole = outcome.problems.is_empty() && outcome.waiting == 0;
            return Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        };
        if outcome.lost_ns > 0 || outcome.unsure_ns > 0 {
            complain!("pct ship: {}", summary(&outcome));
        }
        std::thread::sleep(every);
    }
}

/// The root or server that the arguments name.
fn target(args: &Args) -> Result<Target> {
    let Some(push) = &args.push else {
        return Ok(Target::Root(args.to.clone().context("--to or --push")?));
    };
    let (kind, url) = push.split_once('=').ok_or(ProtocolError::Unknown)?;
    let encryption = if args.unencrypted { Encryption::Waived } else { Encryption::Required };
    let names = if args.symbolize { Names::All } else { Names::WithoutMachineCode };
    Ok(Target::Receiver(Receiver { protocol: kind.parse()?, server: Server::parse(url, encryption)?, names }))
}

fn config(args: &Args) -> Result<Config> {
    let from = match &args.from[..] {
        [] => vec![recordings::folder().context("no home, so no folder of recordings: name one")?],
        named => named.to_vec(),
    };
    let to = target(args)?;
    let state = match (&args.state, from.first()) {
        (Some(state), _) => state.clone(),
        (None, first) => {
            let kind = match &to {
                Target::Root(_) => String::new(),
                Target::Receiver(receiver) => format!("-{}", receiver.protocol.as_word()),
            };
            first.context("a folder of recordings")?.join(format!("ship{kind}"))
        }
    };
    Ok(Config {
        symbol_cache: Some(state.join("symbols")),
        from,
        to,
        state,
        host: named_or_own(args.host.as_deref())?,
        env: args.env.clone(),
        without_threads: args.without_threads,
        limits: Limits {
            bytes: args.spool,
            age_ns: u64::try_from(args.patience.as_nanos()).unwrap_or(u64::MAX),
        },
    })
}

fn summary(outcome: &Outcome) -> String {
    let mut line = format!(
        "{} ({}), {} delivered",
        pct_num::count(outcome.recordings, "recording", "recordings"),
        pct_num::count(outcome.rows, "row", "rows"),
        pct_num::count(outcome.delivered, "batch", "batches"),
    );
    if outcome.waiting > 0 {
        line += &format!(", {} waiting", outcome.waiting);
    }
    if outcome.lost_ns > 0 {
        line += &format!(", {} s of CPU time lost", pct_num::seconds(outcome.lost_ns));
    }
    if outcome.unsure_ns > 0 {
        let unsure = pct_num::seconds(outcome.unsure_ns);
        line += &format!(", {unsure} s of CPU time sent without an answer and not sent again");
    }
    if outcome.open > 0 {
        let open = pct_num::count(outcome.open, "recording is", "recordings are");
        line += &format!("; {open} not finished yet and will be shipped later");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_bytes_have_units() {
        assert_eq!(time("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(bytes("2M"), Ok(2 << 20));
        for bad in ["", "m", "10", "0s", "999999999999999999999d", "-1s"] {
            assert!(time(bad).is_err(), "{bad}");
        }
        for bad in ["", "M", "5", "99999999999999G"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }
}
