//! `pct flame --alloc`: where memory was allocated, as a flame graph.

use super::args::{Args, Parts};
use crate::errors::Usage;
use crate::face::Face;
use crate::look;
use anyhow::Result;
use pct_formats::flame::memory as flame;
use pct_icicle::svg;
use pct_num::{bytes, float};
use pct_profile::Split;
use pct_profile::memory::Measure;
use pct_profile::text::memory::headline;
use pct_profile::text::memory_words::limit;
use std::path::PathBuf;
use std::process::ExitCode;

/// Draws it.
///
/// # Errors
/// When no recording with allocation samples could be read, or the file cannot be written.
pub(super) fn run(args: &Args, paths: &[PathBuf], face: &Face) -> Result<ExitCode> {
    let measure = args.by.unwrap_or_default();
    let what = match measure {
        Measure::Live => "live",
        Measure::Peak => "live at the peak",
        Measure::Bytes => "allocated",
        Measure::Blocks => "blocks allocated",
        Measure::Age | Measure::Size => {
            return Err(Usage(format!(
                "--by {}: a picture's widths are live, peak, bytes or blocks",
                measure.name()
            ))
            .into());
        }
    };
    let split = match args.split {
        None => Split::Merged,
        Some(Parts::Process) => Split::Process,
        Some(Parts::Thread) => {
            return Err(Usage("memory is counted by stack, not by thread: --split process".into()).into());
        }
    };
    let loaded = args.memory.load(paths, &args.look, measure, face)?;
    let (profile, cells) = (&loaded.profile, &loaded.cells[..]);
    let mut options = args.picture(&profile.title, what);
    if measure != Measure::Blocks {
        options.weight = |octets| bytes(float(octets));
    }
    let tree = if let Some(base) = &args.base {
        let old = args.memory.load(std::slice::from_ref(base), &args.look, measure, face)?;
        // Memory that grew is the question, not its share.
        options.normalize = false;
        let tree = flame::difference((profile, cells), (&old.profile, &old.cells), measure);
        args.compare(&mut options, &tree, base, "");
        options.subtitle = format!("{what}, {}", options.subtitle);
        tree
    } else {
        let all = cells.iter().map(|cell| cell.figures).sum();
        options.subtitle = format!(
            "{what}; {}; {}",
            headline(profile, &profile.memory, &all).replace('\n', "; "),
            limit(&profile.memory)
        );
        flame::tree(profile, cells, measure, split, args.reverse)
    };
    args.write(&svg(&tree, &options), paths, &format!("flame-{}.svg", measure.name()), face)?;
    Ok(look::status(&profile.account))
}
