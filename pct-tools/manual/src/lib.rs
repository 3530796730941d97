//! Manual pages and completions of a command, from the same definition as its parser: the body of `pct generate` and
//! `lttv generate`, which are for packagers and hidden from the others.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

use std::io;
use std::path::{Path, PathBuf};

/// What to generate.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum What {
    /// A manual page for each command, into a folder
    Man {
        /// The folder; made if it is not there.
        dir: PathBuf,
    },
    /// Completions for a shell, to stdout
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

/// Generates it for a command; gives what is for stdout.
///
/// # Errors
/// The folder or a page cannot be written; the message names it.
pub fn generate(what: &What, mut command: clap::Command, name: &str) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    match what {
        What::Man { dir } => {
            std::fs::create_dir_all(dir).map_err(|e| at(dir, &e))?;
            command.build();
            pages(&command, name, dir)?;
        }
        What::Completions { shell } => clap_complete::generate(*shell, &mut command, name, &mut out),
    }
    Ok(out)
}

fn pages(command: &clap::Command, name: &str, dir: &Path) -> io::Result<()> {
    let page = dir.join(format!("{name}.1"));
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone().name(name.to_owned())).render(&mut text)?;
    std::fs::write(&page, text).map_err(|e| at(&page, &e))?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        pages(sub, &format!("{name}-{}", sub.get_name()), dir)?;
    }
    Ok(())
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: cannot write it: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    fn command() -> Command {
        Command::new("tool")
            .subcommand(Command::new("show").about("Shows it").subcommand(Command::new("all")))
            .subcommand(Command::new("secret").hide(true))
    }

    #[test]
    fn every_command_that_is_shown_has_a_page() {
        let dir = tempfile::tempdir().expect("a folder");
        let inner = dir.path().join("new/man");
        generate(&What::Man { dir: inner.clone() }, command(), "tool").expect("written");
        let mut names: Vec<String> = std::fs::read_dir(&inner)
            .expect("a folder")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(names, ["tool-show-all.1", "tool-show.1", "tool.1"]);
        let page = std::fs::read_to_string(inner.join("tool-show.1")).expect("written");
        assert!(page.contains("Shows it"), "{page}");
    }

    #[test]
    fn completions_know_the_commands() {
        let shell = clap_complete::Shell::Bash;
        let text = generate(&What::Completions { shell }, command(), "tool").expect("into memory");
        assert!(String::from_utf8_lossy(&text).contains("show"));
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("written");
        let what = What::Man { dir: file.join("man") };
        let error = generate(&what, command(), "tool").expect_err("a file is no folder").to_string();
        assert!(error.contains("file/man"), "{error}");
    }
}
