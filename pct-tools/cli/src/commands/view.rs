//! `pct view`: a deep profile in the browser, or one of its pages on the terminal.

use crate::commands::deep;
use crate::face::Face;
use crate::look;
use anyhow::{Result, bail};
use pct_deep::Compensation;
use pct_native::graph::MOST_EDGES;
use pct_profile::load::Options;
use pct_reports::page::{self, Request};
use pct_reports::render::text::TextOptions;
use pct_reports::subject::Subject;
use pct_server::view::{self, Served};
use pct_server::viewer::Viewer;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// What can be typed after `pct view`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct view Deep.data                                     all pages, in a browser
  pct view --text root/90 Deep.data                      where the action starts, here
  pct view --text top_procs/1-20/time/self/oa Deep.data  the 20 procedures with most time of their own
  pct view --json proc/42 Deep.data                      the data of a page

  pct view                                               the newest recording here, as a deep profile
  pct view pct-render-4711                               that recording

Queries are those of the pages' addresses; each row of a text page ends with the query of the page it leads to.")]
pub struct Args {
    /// A deep profile (X.procrep, X.contour and X.native beside it are read too), or a recording: a run's folder, a .pct
    /// file, folded stacks, pprof, perf script text. The newest run here if none.
    #[arg(value_name = "FILE|DIR")]
    pub file: Option<PathBuf>,
    /// Print a page as text.
    #[arg(long, value_name = "QUERY", conflicts_with = "json")]
    pub text: Option<String>,
    /// Print a page's data as JSON.
    #[arg(long, value_name = "QUERY")]
    pub json: Option<String>,
    /// Port of 127.0.0.1 to serve on; 0 takes a free one.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub port: u16,
    /// Do not start a browser.
    #[arg(long)]
    pub no_open: bool,
    /// Compensate recursion through closures as the original Mercury tool does (inexact).
    #[arg(long)]
    pub compat_compensation: bool,
    /// Merge contexts of one procedure within a clique (not supported).
    #[arg(short, long, hide = true)]
    pub canonical_clique: bool,
}

/// Shows it.
///
/// # Errors
/// The file cannot be read, the query is none, the page cannot be made, the port is taken.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    if args.canonical_clique {
        bail!("canonical cliques are not supported: no tool ever merged them rightly");
    }
    let rule = if args.compat_compensation { Compensation::Compat } else { Compensation::Exact };
    let path = look::paths(args.file.as_slice())?.remove(0);
    if !is_deep(&path) {
        return recording(args, &path, face);
    }
    let page = match (&args.text, &args.json) {
        (Some(query), _) => {
            let options = TextOptions { width: face.out.width, commands: true, quiet: face.quiet };
            view::text(&path, query, rule, &options)?
        }
        (None, Some(query)) => view::json(&path, query, rule)?,
        (None, None) => return serve(args, Served::open(&path, rule, args.port)?, face),
    };
    face.print(&page.body)?;
    Ok(if page.failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A deep profile begins with these octets, whatever it is called.
fn is_deep(path: &Path) -> bool {
    use std::io::Read as _;
    const MAGIC: &[u8] = b"Mercury deep profiler data";
    let mut head = [0u8; MAGIC.len()];
    let named = path.extension().is_some_and(|e| e == "data");
    named || std::fs::File::open(path).and_then(|mut f| f.read_exact(&mut head)).is_ok() && head == *MAGIC
}

/// The pages of a recording: folded into a deep profile in memory.
fn recording(args: &Args, path: &Path, face: &Face) -> Result<ExitCode> {
    let profile = look::load(&[path.to_owned()], &Options::default(), face)?;
    let (data, _) = deep::data_of(&profile, &look::Look::default(), MOST_EDGES)?;
    let mut deep = pct_deep::Profile::new(data, Compensation::Exact)?;
    deep.set_native();
    let mut subject = Subject::new(deep);
    subject.path = path.to_owned();
    let page = match (&args.text, &args.json) {
        (Some(query), _) => {
            let request = Request::parse(query).map_err(anyhow::Error::msg)?;
            let options = TextOptions { width: face.out.width, commands: true, quiet: face.quiet };
            page::text(&subject, &request, &options)
        }
        (None, Some(query)) => page::json(&subject, &Request::parse(query).map_err(anyhow::Error::msg)?),
        (None, None) => return serve(args, Served::of(Viewer::of(subject, path), args.port)?, face),
    };
    face.print(&page.body)?;
    Ok(if page.failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn serve(args: &Args, served: Served, face: &Face) -> Result<ExitCode> {
    let url = served.url();
    face.print(&format!("{url}\n"))?;
    if !face.quiet {
        face.hint("open the address in a browser; it is secret and ends with Ctrl-C or `quit` on a page");
    }
    if !args.no_open && face.out.width.is_some() && has_desktop() {
        open(&url);
    }
    served.run();
    Ok(ExitCode::SUCCESS)
}

fn has_desktop() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|v| std::env::var_os(v).is_some_and(|s| !s.is_empty()))
}

/// Asks the desktop to show the page; whether it does is its own affair.
fn open(url: &str) {
    let quiet = |c: &mut Command| c.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Ok(mut child) = quiet(Command::new("xdg-open").arg(url)) {
        // Reaped when it ends, so that it does not stay as a zombie.
        std::thread::spawn(move || child.wait());
    }
}
