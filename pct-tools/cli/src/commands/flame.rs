//! `pct flame`: a flame graph as one SVG file.

mod args;
mod memory;

use crate::face::Face;
use crate::foreign::same_quantity;
use crate::look;
use anyhow::Result;
pub use args::{Args, Parts, write_beside};
use pct_formats::flame;
use pct_icicle::svg;
use pct_profile::Split;
use pct_profile::load::Options as Load;
use pct_profile::text::account;
use pct_profile::wait_views::WaitsShown;
use std::path::PathBuf;
use std::process::ExitCode;

/// Draws it.
///
/// # Errors
/// When no profile could be read or the file cannot be written.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let paths = args.choice.paths(&args.paths)?;
    if args.memory.alloc {
        return memory::run(args, &paths, face);
    }
    if let Some(shown) = args.wait {
        return of_waits(args, shown, &paths, face);
    }
    let load = if args.latency { look::load } else { look::load_any_quantity };
    let options = args.choice.narrow(Load { timeline: args.latency, ..args.look.options() });
    let profile = load(&paths, &options, face)?;
    let mut cells = args.look.cells(&profile);
    if args.latency {
        cells = look::latency(&profile, &cells)?.cells;
    }
    let unit = if args.latency { "us of latency".to_owned() } else { flame::unit(&profile) };
    let mut options = args.picture(&profile.title, &unit);
    options.subtitle = account::headline(&profile);
    if let Some(part) = account::after_filtering(&profile, &args.look.cells(&profile)) {
        options.subtitle += &format!("; {part}");
    }
    let tree = if let Some(base) = &args.base {
        let old = look::load_any_quantity(std::slice::from_ref(base), &args.look.options(), face)?;
        same_quantity((base, &old), &profile)?;
        let old_cells = args.look.cells(&old);
        options.normalize = true;
        let tree = flame::difference((&profile, &cells), (&old, &old_cells));
        let unit = if profile.quantity.is_time() { " us" } else { "" };
        args.compare(&mut options, &tree, base, unit);
        tree
    } else {
        flame::tree(&profile, &cells, split(args), args.reverse)
    };
    args.write(&svg(&tree, &options), &paths, "flame.svg", face)?;
    Ok(look::status(&profile.account))
}

/// Waits by where threads waited.
fn of_waits(args: &Args, shown: WaitsShown, paths: &[PathBuf], face: &Face) -> Result<ExitCode> {
    let profile = super::report::waits::load(paths, &args.look, face)?;
    let cells = shown.cells(&profile.waits);
    let tree = flame::tree(&profile, &cells, split(args), args.reverse);
    let options = args.picture(&profile.title, &format!("us of {}", shown.words()));
    args.write(&svg(&tree, &options), paths, "flame-wait.svg", face)?;
    Ok(look::status(&profile.account))
}

fn split(args: &Args) -> Split {
    match args.split {
        None => Split::Merged,
        Some(Parts::Process) => Split::Process,
        Some(Parts::Thread) => Split::Thread,
    }
}
