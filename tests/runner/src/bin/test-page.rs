//! `test-page`: says at the end of `tests/run` what happened.
//!
//!     test-page --steps FILE --skipped FILE --json FILE REPORT...    the page; exit status 1 when something failed
//!     test-page --soak REPORT...                                     failures a test over several runs
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use lexopt::{Arg, ValueExt as _};
use pct_runner::page::{Run, soak, steps};
use pct_runner::report;

fn main() -> Result<ExitCode> {
    let mut run = Run::default();
    let (mut soaked, mut json, mut reports) = (false, None, Vec::new());
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("soak") => soaked = true,
            Arg::Long("steps") => run.steps = steps(&read(parser.value()?.into())?),
            Arg::Long("skipped") => run.skipped = lines(&read(parser.value()?.into())?),
            Arg::Long("json") => json = Some(PathBuf::from(parser.value()?)),
            Arg::Value(report) => reports.push(PathBuf::from(report.string()?)),
            other => return Err(other.unexpected().into()),
        }
    }
    let tests = reports.iter().map(|path| report::read(path)).collect::<Result<Vec<_>>>()?;
    if soaked {
        print!("{}", soak(&tests));
        return Ok(ExitCode::SUCCESS);
    }
    run.tests = tests.into_iter().flatten().collect();
    if let Some(path) = json {
        std::fs::write(&path, run.json_lines()?).with_context(|| path.display().to_string())?;
    }
    print!("{}", run.page());
    Ok(if run.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(path: PathBuf) -> Result<String> {
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The lines of a text, each once, in order.
fn lines(text: &str) -> Vec<String> {
    let lines: std::collections::BTreeSet<&str> = text.lines().collect();
    lines.into_iter().map(str::to_owned).collect()
}
