//! `pct deep`: a recording as a deep profile file, for `pct view`, mdprof_cgi, mdprof_dump and the rest.

use crate::face::Face;
use crate::look::{self, Look};
use anyhow::{Context as _, Result, bail};
use pct_deep::{DeepData, Version, to_octets};
use pct_native::{Graph, deep, graph::MOST_EDGES, side};
use pct_profile::Profile;
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be typed after `pct deep`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct deep pct-render-4711 -o Deep.data      then: pct view Deep.data, mdprof_dump Deep.data
  pct deep --thread worker -o worker.data    only some threads")]
pub struct Args {
    /// Run folders and .pct files (or perf.data, folded, pprof, perf script text); the newest run here if none.
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// The file to write; what its format cannot say goes into NAME.native beside it.
    #[arg(short, long, value_name = "FILE.data", default_value = "Deep.data")]
    pub out: PathBuf,
    /// Most call edges; contexts beyond are folded, and their time is told.
    #[arg(long, value_name = "N", default_value_t = MOST_EDGES)]
    pub nodes: usize,
    /// Which samples.
    #[command(flatten)]
    pub look: Look,
}

/// Writes it.
///
/// # Errors
/// When no profile could be read, it has no samples, or the files cannot be written.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let paths = look::paths(&args.paths)?;
    let profile = look::load(&paths, &args.look.options(), face)?;
    let (data, graph) = data_of(&profile, &args.look, args.nodes)?;
    let octets = to_octets(&data, Version::V9)?;
    let beside = args.out.with_extension("native");
    if beside == args.out {
        bail!("{}: the name must not end in .native", args.out.display());
    }
    std::fs::write(&args.out, &octets).with_context(|| args.out.display().to_string())?;
    std::fs::write(&beside, side::text(&profile, graph.folded_ns, &octets))
        .with_context(|| beside.display().to_string())?;
    if graph.folded_ns > 0 {
        let s = std::time::Duration::from_nanos(graph.folded_ns).as_secs_f64();
        face.warn(format_args!(
            "{s:.3} CPU s are in contexts that were folded: more than {} call edges",
            args.nodes
        ));
    }
    face.hint(format_args!("{}   try: pct view {}", args.out.display(), args.out.display()));
    Ok(look::status(&profile.account))
}

/// The deep profile's data of a profile.
///
/// # Errors
/// When it has no samples.
pub fn data_of(profile: &Profile, look: &Look, nodes: usize) -> Result<(DeepData, Graph)> {
    let cells = look.cells(profile);
    let mut graph = Graph::new();
    graph.add(profile, &cells, nodes);
    let data = deep(profile, &graph)?;
    Ok((data, graph))
}
