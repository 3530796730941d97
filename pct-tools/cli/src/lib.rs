//! The command `pct` (and the classic `pct-print`, `addr2func`) over the libraries of the other rooms.
//!
//! Reading order: [`cli`] is what can be typed and the table of subcommands; [`commands`] has one module per
//! subcommand, each with its `Args` and a `run`; [`look`] is what the reading ones share, [`contexts`] what makes call
//! contexts of a recording; [`launch`] starts programs under the sampler; [`inherited`] is what they must get
//! back as pct got it; [`runlib`] is the library that is carried inside; [`face`] knows colours and pipes,
//! [`errors`] says what went wrong.
//!
//! Exit statuses: 0 done, 1 could not, 2 wrong usage; `pct run` ends as its command did (125 when pct itself
//! failed, 126 and 127 as env(1)).
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod cli;
pub mod closing;
pub mod commands;
pub mod contexts;
pub mod errors;
pub mod face;
mod foreign;
#[expect(unsafe_code, reason = "signal dispositions, plain descriptors")]
pub mod inherited;
pub mod launch;
pub mod look;
pub mod memory;
pub mod runlib;
pub mod store;
#[expect(unsafe_code, reason = "one ioctl without a safe wrapper")]
pub mod term;

use std::process::ExitCode;

/// Runs `pct` with this process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    launch::stack::with_room(command)
}

fn command() -> ExitCode {
    let typed: Vec<_> = std::env::args_os().collect();
    // `pct run` keeps 1 and 2 for the command that it runs.
    let runs = typed
        .iter()
        .skip(1)
        .find(|arg| !arg.as_encoded_bytes().starts_with(b"-"))
        .is_some_and(|a| a == "run");
    let parsed = match cli::Cli::parse_words(typed) {
        Ok(parsed) => parsed,
        Err(error) => {
            let printed = error.print().and_then(|()| std::io::Write::flush(&mut std::io::stdout()));
            return ExitCode::from(match error.exit_code() {
                0 => match printed {
                    // Help and version are the answer: that it did not arrive is not success.
                    _ if inherited::stdout_was_closed() => {
                        face::say("pct: stdout is closed\n");
                        1
                    }
                    Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
                        face::say(&format!("pct: stdout: {}\n", face::in_words(&why.to_string())));
                        1
                    }
                    _ => 0,
                },
                _ if runs => launch::FAILED,
                _ => 2,
            });
        }
    };
    let face = face::Face::new(parsed.color, parsed.quiet, parsed.wide);
    match parsed.command.run(&face) {
        Ok(code) => code,
        Err(error) if face::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            face.warn(errors::chain(&error));
            ExitCode::from(match error.is::<errors::Usage>() {
                _ if runs => launch::FAILED,
                true => 2,
                false => 1,
            })
        }
    }
}
