//! The `lttv` command: a client of the request engine for terminals and pipelines.
//!
//! Each command opens the traces ([`session`]), submits requests to the engine or requests a module, steps it until it
//! is idle, and prints. Windows are seeks, not scans. At the end the command prints what was lost and what was wrong.
//!
//! Reading order: [`args`] (the parsed command line), [`times`] and [`filter`] (its small languages), [`session`],
//! [`fields`] (an event as text or JSON), [`output`], then a module for each command: [`events`], [`stats`] (and
//! [`durations`], [`functions`]), [`states`], [`threads`], [`histogram`], [`info`], [`view`], and [`generate`] for
//! packagers.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod args;
pub mod durations;
pub mod events;
pub mod fields;
pub mod filter;
pub mod functions;
pub mod generate;
pub mod histogram;
pub mod info;
pub mod output;
pub mod session;
pub mod states;
pub mod stats;
pub mod threads;
pub mod times;
pub mod view;

use pct_text::complain;
use std::process::ExitCode;

use args::{Args, Command};
use session::Session;

/// Runs the command. Returns 0: done; 1: something could not be read or done, but the rest was. (Wrong usage, 2, ends
/// in the parser.)
pub fn run(args: &Args) -> ExitCode {
    match command(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            complain!("lttv: {e:#}");
            ExitCode::from(if e.is::<args::Usage>() { 2 } else { 1 })
        }
    }
}

fn command(args: &Args) -> anyhow::Result<bool> {
    let Some(common) = args.command.common() else {
        let Command::Generate(a) = &args.command else { return Ok(true) };
        return generate::run(&a.what).map(|()| true);
    };
    let filter = common.filter.as_deref().map(filter::Filter::parse).transpose().map_err(args::Usage)?;
    let mut session = Session::open(common)?;
    // A filter of rows has other names than a filter of events.
    let of_rows = matches!(args.command, Command::States(_) | Command::Threads(_) | Command::Info(_));
    if let (Some(filter), false) = (&filter, of_rows) {
        session.check_filter(filter)?;
    }
    match &args.command {
        Command::Events(a) => events::run(&mut session, a, filter)?,
        Command::Stats(a) => match a.by {
            Some(args::By::Function) => functions::run(&mut session, a, filter)?,
            Some(by) => durations::run(&mut session, a, by, filter)?,
            None => stats::run(&mut session, a, filter)?,
        },
        Command::States(a) => states::run(&mut session, a, filter)?,
        Command::Threads(a) => threads::run(&mut session, a, filter)?,
        Command::Histogram(a) => histogram::run(&mut session, a, filter)?,
        Command::Info(a) => info::run(&mut session, a, filter.as_ref())?,
        Command::View(a) => view::run(&mut session, a)?,
        Command::Generate(_) => {}
    }
    Ok(session.close())
}
