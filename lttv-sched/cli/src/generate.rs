//! `lttv generate`: manual pages and completions.

use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;

use crate::args::{Args, Generate};

/// Writes them.
///
/// # Errors
/// The folder or a page cannot be written.
pub fn run(what: &Generate) -> anyhow::Result<()> {
    let mut command = Args::command();
    match what {
        Generate::Man { dir } => {
            std::fs::create_dir_all(dir).with_context(|| format!("{}: cannot make it", dir.display()))?;
            command.build();
            pages(&command, "lttv", dir)
        }
        Generate::Completions { shell } => {
            clap_complete::generate(*shell, &mut command, "lttv", &mut std::io::stdout());
            Ok(())
        }
    }
}

fn pages(command: &clap::Command, name: &str, dir: &Path) -> anyhow::Result<()> {
    let page = dir.join(format!("{name}.1"));
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone().name(name.to_owned())).render(&mut text)?;
    std::fs::write(&page, text).with_context(|| format!("{}: cannot write it", page.display()))?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        pages(sub, &format!("{name}-{}", sub.get_name()), dir)?;
    }
    Ok(())
}
