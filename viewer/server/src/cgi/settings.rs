//! Settings from the environment and the command line.

use pct_deep::{Compensation, Contexts, Reading};
use pct_text::complain;
use std::path::PathBuf;
use std::time::Duration;

/// Settings from the environment and the command line.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directories whose files may be shown; `None`: any.
    pub roots: Option<Vec<PathBuf>>,
    /// How long a new server stays idle; `None`: for ever.
    pub idle: Option<Duration>,
    /// How a new server reads the file.
    pub reading: Reading,
    /// How long a request waits for locks, loads and answers together.
    pub wait: Duration,
    /// Whether a server may be started.
    pub server: bool,
    /// Whether a new server detaches from its starter.
    pub detach: bool,
    /// Whether the last request and answer are stored.
    pub debug: bool,
    /// How long a new server works on one page before its reader is told to come back.
    pub query: Duration,
    /// Whether commands that change the server need POST.
    pub post: bool,
    /// Whether a refusal says why a file is not shown, and thereby whether it exists.
    pub tells: bool,
}

/// Whether a variable of the environment says yes.
fn is_set(name: &str) -> bool {
    !matches!(std::env::var(name).as_deref(), Ok("" | "0") | Err(_))
}

/// Parses minutes, with fractions, as an idle time; 0 is for ever. `None`: it is no number of minutes up to a week.
#[must_use]
pub fn idle_of(minutes: &str) -> Option<Option<Duration>> {
    let n: f64 = minutes.trim().parse().ok()?;
    #[expect(clippy::cast_precision_loss, reason = "a week in minutes")]
    let most = crate::viewer::MAX_TIMEOUT as f64;
    if !(0.0..=most).contains(&n) {
        return None;
    }
    Some((n > 0.0).then(|| Duration::from_secs_f64(n * 60.0)))
}

impl Settings {
    /// Reads the environment. Invalid values are named on stderr (the web server's log) and replaced by their defaults.
    #[must_use]
    pub fn from_env() -> Settings {
        let complain = |name: &str| complain!("mdprof_cgi: {name} is not understood; the default holds");
        let number = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let default_idle = Some(Duration::from_secs(30 * 60));
        let idle = number("MDPROF_TIMEOUT").map_or(default_idle, |v| {
            idle_of(&v).unwrap_or_else(|| {
                complain("MDPROF_TIMEOUT");
                default_idle
            })
        });
        let wait =
            number("MDPROF_WAIT").map_or(Some(50), |v| v.parse().ok()).filter(|n| (1..=86_400).contains(n));
        if wait.is_none() {
            complain("MDPROF_WAIT");
        }
        let query: Option<f64> = number("MDPROF_QUERY")
            .map_or(Some(40.0), |v| v.parse().ok())
            .filter(|n| (0.000_001..=86_400.0).contains(n));
        if query.is_none() {
            complain("MDPROF_QUERY");
        }
        Settings {
            roots: std::env::var_os("MDPROF_ROOTS").map(|v| {
                std::env::split_paths(&v)
                    .filter(|p| p.is_absolute())
                    .filter_map(|p| p.canonicalize().ok())
                    .collect()
            }),
            idle,
            reading: Reading {
                rule: if is_set("MDPROF_COMPAT") { Compensation::Compat } else { Compensation::Exact },
                contexts: if is_set("MDPROF_CANONICAL") { Contexts::Canonical } else { Contexts::Recorded },
            },
            wait: Duration::from_secs(wait.unwrap_or(50)),
            server: true,
            detach: true,
            debug: false,
            query: Duration::from_secs_f64(query.unwrap_or(40.0)),
            post: std::env::var("MDPROF_POST").as_deref() != Ok("0"),
            tells: is_set("MDPROF_TELLS"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_times_are_minutes() {
        assert_eq!(idle_of("30"), Some(Some(Duration::from_secs(1800))));
        assert_eq!(idle_of("0"), Some(None));
        for bad in ["", "-1", "x", "1e9", "NaN", "inf"] {
            assert_eq!(idle_of(bad), None, "{bad}");
        }
    }
}
