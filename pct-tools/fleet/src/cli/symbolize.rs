//! `pct-fleet symbolize`.

use crate::http::{Encryption, Server};
use crate::symbolize::{self, Sources};
use anyhow::{Result, bail};
use pct_text::complain;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct-fleet symbolize /srv/profiles                              programs and debug files of this machine
  pct-fleet symbolize /srv/profiles --files /srv/builds/shop     and these, found by their build-ids
  pct-fleet symbolize /srv/profiles --debuginfod http://localhost:8002

/usr/lib/debug and the cache of debuginfod's own client are always looked into. So where a server speaks only https,
let debuginfod-find fetch a build, then call this.")]
pub(super) struct Symbolize {
    /// The folder of the tables.
    #[arg(value_name = "ROOT")]
    root: PathBuf,
    /// Object files, or a folder that is searched for them with all below it. May be given several times.
    #[arg(long, value_name = "DIR|FILE")]
    files: Vec<PathBuf>,
    /// A folder laid out as /usr/lib/debug. May be given several times.
    #[arg(long, value_name = "DIR")]
    debug_dir: Vec<PathBuf>,
    /// A folder with an archive of pct archive. May be given several times.
    #[arg(long, value_name = "DIR")]
    archive: Vec<PathBuf>,
    /// Ask this debuginfod server for what is not found here. It learns the build-ids.
    #[arg(long, value_name = "URL")]
    debuginfod: Option<String>,
}

pub(super) fn run(args: &Symbolize) -> Result<ExitCode> {
    for path in args.files.iter().chain(&args.debug_dir).chain(&args.archive) {
        if !path.exists() {
            bail!("{}: it is not there", path.display());
        }
    }
    // Build-ids tell nothing that a network must not see.
    let server = args.debuginfod.as_ref().map(|url| Server::parse(url, Encryption::Waived));
    let sources = Sources {
        files: args.files.clone(),
        debug_dirs: args.debug_dir.clone(),
        archives: args.archive.clone(),
        debuginfod: server.transpose()?,
    };
    let outcome = symbolize::symbolize(&args.root, &sources, &mut |_| {})?;
    for note in &outcome.notes {
        complain!("note: {note}");
    }
    for problem in &outcome.problems {
        complain!("pct-fleet: {problem}");
    }
    let places = |count: u64| pct_num::count(count, "place", "places");
    let builds = |count: u64| pct_num::count(count, "build", "builds");
    println!("{} of {} named", places(outcome.named), builds(outcome.builds));
    let left: u64 = outcome.nameless.iter().map(|build| build.places).sum();
    if left > 0 {
        println!("{} of {} have no name:", places(left), builds(outcome.nameless.len() as u64));
    }
    for build in &outcome.nameless {
        let name = if build.name.is_empty() { "[unknown file]" } else { build.name.as_str() };
        println!("  {} in {}, build-id {}", places(build.places), pct_text::visible(name), build.build_id);
    }
    Ok(if outcome.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
