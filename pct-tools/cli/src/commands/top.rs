//! `pct top`: what is hot right now, straight from the files of programs that run. Nothing is stopped or mapped.
//!
//! One turn: look at the last seconds, make the screen's lines, write them, wait for a key or the next turn. The
//! picture is a pure function of what was seen and the `View`; keys change only the view.

mod cpu;
mod memory;
mod view;

use crate::face::Face;
use crate::look;
use crate::term::{self, Raw};
use anyhow::{Result, bail};
use cpu::Cpu;
use memory::Memory;
use pct_profile::load::live::files_of_process;
use pct_profile::text::Layout;
use pct_profile::text::table::cut_middle;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use view::{View, footer, press};

/// What can be typed after `pct top`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct top 4711               a process that runs under pct run, or that pct attach works on
  pct top pct-render-4711    all processes of a run
  pct top --once             one table of the newest run here, to a pipe
  pct top --alloc 4711       what is live and grows (started by pct run --alloc)

Keys: f functions, t threads, c calls, p pause, / search, + and - seconds shown, q quit.
With --alloc: f sites, t processes, c calls, g ranked by growth; growth is over the seconds shown.")]
pub struct Args {
    /// Process id, .pct file or run folder; the newest run here if none.
    #[arg(value_name = "PID|FILE|DIR")]
    pub target: Option<String>,
    /// Show the samples of this many seconds up to now.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, allow_negative_numbers = true, value_parser = crate::look::within(1..=3600))]
    pub last: u32,
    /// Seconds between two updates.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, allow_negative_numbers = true, value_parser = crate::look::within(1..=60))]
    pub every: u32,
    /// Print one table and end. With --alloc this takes as long as one update, because growth needs two readings.
    #[arg(long)]
    pub once: bool,
    /// Memory instead of CPU time, of programs under pct run --alloc: live and growth a second by site, each with its
    /// 95 % interval.
    #[arg(long)]
    pub alloc: bool,
}

/// What is watched.
enum Watched {
    Cpu(Box<Cpu>),
    Memory(Box<Memory>),
}

impl Watched {
    fn refresh(&mut self, view: &View) -> Result<()> {
        match self {
            Self::Cpu(cpu) => cpu.refresh(view),
            Self::Memory(memory) => memory.refresh(view),
        }
    }
    fn picture(&mut self, view: &View, size: (usize, usize), layout: &Layout) -> String {
        match self {
            Self::Cpu(cpu) => cpu.picture(view, size, layout),
            Self::Memory(memory) => memory.picture(view, size, layout),
        }
    }
    fn pages(&self) -> &'static str {
        match self {
            Self::Cpu(_) => cpu::PAGES,
            Self::Memory(_) => memory::PAGES,
        }
    }
}

/// Shows it until q is pressed.
///
/// # Errors
/// When there is nothing to look at.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let paths = target(args.target.as_deref())?;
    let mut watched = if args.alloc {
        Watched::Memory(Box::new(Memory::new(paths)))
    } else {
        Watched::Cpu(Box::new(Cpu::new(paths)))
    };
    let mut view = View::new(args.last);
    watched.refresh(&view)?;
    let every = Duration::from_secs(u64::from(args.every));
    if args.once || face.out.width.is_none() {
        if args.alloc {
            // Growth needs two readings.
            std::thread::sleep(every);
            watched.refresh(&view)?;
        }
        let size = (face.out.width.unwrap_or(100), 40);
        face.print(&watched.picture(&view, size, &face.layout()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut screen = Raw::enter()?;
    loop {
        let size = term::size(&std::io::stdout()).unwrap_or((80, 24));
        let layout = Layout { width: Some(size.0), ..face.layout() };
        let text = watched.picture(&view, size, &layout);
        screen.show(&text, &cut_middle(&footer(&view, watched.pages()), size.0), size.1)?;
        match screen.key(every)? {
            Some(key) if !press(&mut view, key) => return Ok(ExitCode::SUCCESS),
            Some(_) if view.typing.is_some() => continue,
            _ => {}
        }
        if !view.paused {
            watched.refresh(&view)?;
        }
    }
}

/// The files of what was typed: a process id, a file, a folder; the newest run here if nothing was.
///
/// # Errors
/// When there is no such process, or it writes no recording.
pub(crate) fn target(typed: Option<&str>) -> Result<Vec<PathBuf>> {
    let Some(word) = typed else { return look::paths(&[]) };
    match word.parse::<u32>() {
        Ok(pid) if !PathBuf::from(word).exists() => {
            let files = files_of_process(pid);
            if !files.is_empty() {
                return Ok(files);
            }
            if !PathBuf::from(format!("/proc/{pid}")).exists() {
                bail!("there is no process {pid}");
            }
            if let Err(why) = std::fs::read(format!("/proc/{pid}/maps")) {
                bail!("process {pid}: its mappings cannot be read: {why}");
            }
            bail!("process {pid} is not being profiled; try: pct attach {pid}");
        }
        _ => Ok(vec![PathBuf::from(word)]),
    }
}

#[cfg(test)]
mod tests {
    use super::target;

    #[test]
    fn a_process_that_writes_no_recording_and_one_that_is_not_there_are_told_apart() {
        let told = |pid: u32| target(Some(&pid.to_string())).expect_err("no recording").to_string();
        let own = told(std::process::id());
        assert!(own.contains("is not being profiled; try: pct attach"), "{own}");
        // Larger than any process's number.
        assert!(told((1 << 22) + 1).starts_with("there is no process"));
    }
}
