//! What can be typed: the options of all commands, and the table of commands.
//!
//! A subcommand is a module in [`crate::commands`] with `Args` (what was typed) and `run` (what it means), and a
//! line in the table below. Help, manual pages and completions are made from the same definition.

use crate::commands;
use crate::face::{ColorChoice, Face};
use anyhow::Result;
use clap::{CommandFactory as _, FromArgMatches as _};
use std::ffi::OsString;
use std::process::ExitCode;

/// A sampling profiler: where did the time go?
///
/// Profiles programs without a rebuild and without root, and says which functions their CPU time went to.
#[derive(clap::Parser, Debug)]
#[command(
    name = "pct",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(after_help = "Examples:
  pct run -- ./render scene.json      run a program, end with a table
  pct report                          the table of the newest run here
  pct report --tree                   the same as a call tree
  pct doctor                          which clocks and rates this machine gives

Exit status: 0 done, 1 could not, 2 wrong usage, 3 over a limit (pct diff);
pct run gives the program's own.")]
pub struct Cli {
    /// Colour the output.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Everywhere")]
    pub color: ColorChoice,
    /// No hints, no closing lines, no progress.
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    pub quiet: bool,
    /// Names of functions whole, also beyond the terminal's width. Without it template arguments of names of more than
    /// 60 characters are shown as <...>, and then parameters as (...).
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub wide: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

macro_rules! commands {
    ($( $(#[$meta:meta])* $variant:ident($module:ident) ),* $(,)?) => {
        /// The subcommands.
        #[derive(clap::Subcommand, Debug)]
        pub enum Command { $( $(#[$meta])* $variant(commands::$module::Args), )* }

        impl Command {
            /// Does it.
            ///
            /// # Errors
            /// Whatever stopped the command; one line for people, without the `pct: ` in front.
            pub fn run(self, face: &Face) -> Result<ExitCode> {
                match self { $( Self::$variant(args) => commands::$module::run(&args, face), )* }
            }
        }
    };
}

commands! {
    /// Run a program and say where its CPU time went
    Run(run),
    /// Profile a process that runs already
    Attach(attach),
    /// End the sampling that attach began
    Off(off),
    /// List the recordings of continuous sampling
    Ls(ls),
    /// Write recordings of continuous sampling into the tables of many hosts
    Ship(ship),
    /// Say where the time of a recorded run went
    Report(report),
    /// Draw a flame graph, or the difference of two
    Flame(flame),
    /// Write a recording in the format of another tool
    Export(export),
    /// Write a recording as a deep profile
    Deep(deep),
    /// Show a recording or a deep profile in the browser, or print one of its pages
    View(view),
    /// Compare two profiles, and say which differences are more than chance
    Diff(diff),
    /// Show what is hot right now, in a run in progress
    Top(top),
    /// Show where the live memory of a running program was allocated
    Heap(heap),
    /// Show a function's source lines and instructions with their shares
    Annotate(annotate),
    /// Keep names, lines and build-ids beside a run's data
    Archive(archive),
    /// Say which clocks and rates this machine gives
    Doctor(doctor),
    /// Print counts, addresses and translations, for pipelines
    Print(print),
    /// Print a circular log as text, oldest first
    Log(log),
    /// Answer an agent's questions about recordings, over the Model Context Protocol
    Mcp(mcp),
    /// Print the path of libpct.so, for use by hand
    Lib(lib),
    /// Write manual pages or shell completions
    #[command(hide = true)]
    Generate(generate),
}

/// The commands that most people want, in the order of their use.
const FIRST: [&str; 5] = ["run", "attach", "report", "flame", "view"];

impl Cli {
    /// What was typed.
    ///
    /// # Errors
    /// When it cannot be done, or is a call for help.
    pub fn parse_words(typed: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::from_arg_matches(&with_few_first(Self::command()).try_get_matches_from(typed)?)
    }
}

/// Its help lists few commands first and the others below.
fn with_few_first(command: clap::Command) -> clap::Command {
    let shown: Vec<&clap::Command> = command.get_subcommands().filter(|c| !c.is_hide_set()).collect();
    let width = shown.iter().map(|c| c.get_name().len()).max().unwrap_or(0);
    let line = |c: &clap::Command| {
        let about = c.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:width$}  {about}\n", c.get_name())
    };
    let first: String = FIRST.iter().filter_map(|name| command.find_subcommand(name)).map(line).collect();
    let more: String = shown.iter().filter(|c| !FIRST.contains(&c.get_name())).map(|c| line(c)).collect();
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\nCommands:\n{first}\nMore:\n{more}\nOptions:\n\
         {{options}}{{after-help}}\n"
    ))
}

/// The hint behind a result: the commands of these that this pct has, else the call tree.
#[must_use]
pub fn next_step(run: &str, commands: &[&str]) -> String {
    let all = Cli::command();
    let had: Vec<String> = commands
        .iter()
        .filter(|name| all.find_subcommand(name).is_some())
        .map(|name| format!("pct {name} {run}"))
        .collect();
    if had.is_empty() {
        format!("try: pct report --tree {run}")
    } else {
        format!("try: {}", had.join("   or: "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_begins_with_few_commands_and_leaves_none_out() {
        let help = with_few_first(Cli::command()).render_help().to_string();
        let (first, more) = help.split_once("\nMore:\n").expect("two lists");
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let line = format!("\n  {} ", command.get_name());
            let (within, without) =
                if FIRST.contains(&command.get_name()) { (first, more) } else { (more, first) };
            assert!(format!("\n{within}").contains(&line) && !without.contains(&line), "{line}{help}");
        }
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        for command in Cli::command().get_subcommands() {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Example"), "pct {}: no example", command.get_name());
            // What clap breaks again in a terminal of its default width looks torn.
            let long = after.lines().find(|line| line.chars().count() > 100);
            assert_eq!(long, None, "pct {}", command.get_name());
        }
    }
}
