//! `mdprof_procrep`: procedure bodies as text, by module.

use pct_text::complain;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use pct_deep::{ProcRep, RepModuleId};
use pct_text::visible_lines;

use crate::program::Program;

const PROGRAM: Program = Program {
    name: "mdprof_procrep",
    usage: "\
usage: mdprof_procrep [options] [module...]

Prints the procedures of a program representation file, of the named modules in the order given, or of
all modules in the order of their names.

options:
  -f, --file FILE   read FILE (default: Deep.procrep)
  -h, --help        print this
  -V, --version     print the version

example: mdprof_procrep -f Deep.procrep mandelbrot",
};

/// The whole program: reads its arguments, prints, and returns the exit code.
pub fn main() -> ExitCode {
    PROGRAM.run(run)
}

fn run(mut parser: lexopt::Parser) -> Result<ExitCode, lexopt::Error> {
    use lexopt::prelude::*;
    let mut file = PathBuf::from("Deep.procrep");
    let mut names = Vec::new();
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(PROGRAM.help()),
            Short('V') | Long("version") => return Ok(PROGRAM.version()),
            Short('f') | Long("file") => file = parser.value()?.into(),
            Value(name) => names.push(name.to_string_lossy().into_owned()),
            _ => return Err(arg.unexpected()),
        }
    }
    let rep = match ProcRep::open(&file) {
        Ok(rep) => rep,
        Err(e) => {
            complain!("mdprof_procrep: {e}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut problems = Vec::new();
    let modules: Vec<RepModuleId> = if names.is_empty() {
        rep.modules_by_name().to_vec()
    } else {
        let find = |name: &String| {
            let found = rep.module(name);
            if found.is_none() {
                problems.push(format!("{}: no module {name}", file.display()));
            }
            found
        };
        names.iter().filter_map(find).collect()
    };
    let out = &mut BufWriter::new(io::stdout().lock());
    let written = print(&rep, &modules, out, &mut problems).and_then(|()| out.flush());
    for problem in &problems {
        complain!("mdprof_procrep: {problem}");
    }
    let code = PROGRAM.finish(written);
    Ok(if problems.is_empty() { code } else { ExitCode::FAILURE })
}

/// Prints modules. Procedures that cannot be decoded are left out and named in `problems`.
///
/// # Errors
/// The writer's.
pub fn print(
    rep: &ProcRep,
    modules: &[RepModuleId],
    out: &mut impl Write,
    problems: &mut Vec<String>,
) -> io::Result<()> {
    for &module in modules {
        out.write_all(visible_lines(&rep.module_head_text(module)).as_bytes())?;
        for &proc in rep.module_procs(module) {
            match rep.procedure_text(proc) {
                Ok(text) => out.write_all(visible_lines(&text).as_bytes())?,
                Err(e) => problems.push(format!("{}: {e}", pct_text::visible(&rep.label(proc).raw_name()))),
            }
        }
    }
    Ok(())
}
