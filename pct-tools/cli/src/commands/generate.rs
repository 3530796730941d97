//! `pct generate`: manual pages and completions, from the same definition as the parser (hidden, for packagers).

use crate::cli::Cli;
use crate::face::Face;
use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What can be typed after `pct generate`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct generate man target/man
  pct generate completions bash > /etc/bash_completion.d/pct")]
pub struct Args {
    /// What to write.
    #[command(subcommand)]
    pub what: What,
}

/// What to generate.
#[derive(clap::Subcommand, Debug)]
pub enum What {
    /// A manual page per command into a folder
    Man {
        /// The folder; made if it is not there.
        dir: PathBuf,
    },
    /// Completions of one shell to stdout
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

/// Writes them.
///
/// # Errors
/// When the folder cannot be written.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let mut command = Cli::command();
    match &args.what {
        What::Man { dir } => {
            std::fs::create_dir_all(dir).with_context(|| format!("{}: cannot make it", dir.display()))?;
            command.build();
            pages(&command, "pct", dir)?;
        }
        What::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut command, "pct", &mut text);
            face.print(&String::from_utf8_lossy(&text))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn pages(command: &clap::Command, name: &str, dir: &Path) -> Result<()> {
    let page = dir.join(format!("{name}.1"));
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone().name(name.to_owned())).render(&mut text)?;
    std::fs::write(&page, text).with_context(|| format!("{}: cannot write it", page.display()))?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        pages(sub, &format!("{name}-{}", sub.get_name()), dir)?;
    }
    Ok(())
}
