//! The classic `pct-print`: `pct print` under its old name, with a small parser for a quick start.
#![forbid(unsafe_code)]

use pct_cli::commands::print::{Args, Key, What, run};
use pct_cli::errors::chain;
use pct_cli::face::{ColorChoice, Face, in_words, is_closed_pipe, say};
use std::process::ExitCode;

const HELP: &str = "\
Usage: pct-print [OPTIONS] FILE.pct...

Prints COUNT PC TRANSLATION, most frequent first.

  --just_pcs      only the addresses
  --just_cts      only the counts
  -t COMMAND      translate by this program (%o object, %b build-id), e.g. 'addr2line -f -C -e %o'
  -F FD|FIFO      counts to a second descriptor or fifo
  -n N            lines at most
  -s KEYS         sort keys: count, pc, name, object
  --by WHAT       pc, function, line, object, thread
  -q              no remarks on stderr
  -h, --help      this text
  -V, --version   the version

Examples:
  pct-print prog.pct | head
  pct-print --just_pcs prog.pct | addr2line -f -e prog
";

fn main() -> ExitCode {
    match parse() {
        Ok(Asked::Text(text)) => {
            let face = Face::new(ColorChoice::Never, false, false);
            match face.print(text) {
                Err(error) if !is_closed_pipe(&error) => ExitCode::from(1),
                _ => ExitCode::SUCCESS,
            }
        }
        Ok(Asked::Print(args, quiet)) => {
            let face = Face::new(ColorChoice::Never, quiet, false);
            match run(&args, &face) {
                Ok(code) => code,
                Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
                Err(error) => {
                    say(&format!("pct-print: {}\n", in_words(&chain(&error))));
                    ExitCode::from(1)
                }
            }
        }
        Err(error) => {
            say(&format!("pct-print: {error}\nTry 'pct-print --help'.\n"));
            ExitCode::from(2)
        }
    }
}

/// What the command line asks for.
enum Asked {
    Text(&'static str),
    Print(Box<Args>, bool),
}

fn parse() -> Result<Asked, lexopt::Error> {
    use lexopt::prelude::*;
    let mut args = Args::default();
    let mut quiet = false;
    let mut parser = lexopt::Parser::from_env();
    fn parse_word<T: clap::ValueEnum>(text: &str) -> Result<T, String> {
        T::from_str(text, false).map_err(|_| format!("not a known word: {text:?}"))
    }
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(Asked::Text(HELP)),
            Short('V') | Long("version") => {
                return Ok(Asked::Text(concat!("pct-print ", env!("CARGO_PKG_VERSION"), "\n")));
            }
            Short('q') | Long("quiet") => quiet = true,
            Long("just_pcs" | "just-pcs") => args.just_pcs = true,
            Long("just_cts" | "just-cts") => args.just_cts = true,
            Short('F') => args.fifo = Some(parser.value()?.string()?),
            Short('t') | Long("translator") => args.translator = Some(parser.value()?.string()?),
            Short('n') => args.lines = Some(parser.value()?.parse()?),
            Short('s') | Long("sort") => {
                let keys = parser.value()?.string()?;
                args.sort = keys.split(',').map(parse_word::<Key>).collect::<Result<_, _>>()?;
            }
            Long("by") => args.by = parse_word::<What>(&parser.value()?.string()?)?,
            Value(path) => args.paths.push(path.into()),
            _ => return Err(arg.unexpected()),
        }
    }
    if args.just_pcs && args.just_cts {
        return Err("--just_pcs and --just_cts exclude each other".into());
    }
    if args.paths.is_empty() {
        return Err("expected at least one FILE.pct".into());
    }
    Ok(Asked::Print(Box::new(args), quiet))
}
