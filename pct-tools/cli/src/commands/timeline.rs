//! `pct view --timeline`: recordings and traces on one time axis.
//!
//! The page knows no symbols: here a recording is read, its functions are named, and it goes to the page as plain data.
//! What a range of it spent where is counted from the same profile as `pct report` counts it.

mod counted;
mod opened;
mod origin;
mod waited;

use crate::errors::Usage;
use crate::face::Face;
use crate::look::{self, Look};
use crate::store::Choice;
use anyhow::Result;
use lttv_page::{Links, Origin as _, Store, TimelinePage};
use pct_profile::load::{Options, whole};
use pct_server::answer::SharedAnswers;
use pct_server::library::{LinksBack, PageBeside};
use pct_server::view::Served;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opened::open_all;
use origin::{AtPaths, ChosenOf};

pub(super) use opened::ClockShift;

/// Opens everything and begins to compute.
///
/// # Errors
/// Nothing could be opened; a filter was given; the port is taken.
pub(super) fn served(
    paths: &[PathBuf],
    look: &Look,
    shifts: &[ClockShift],
    port: u16,
    face: &Face,
) -> Result<Served> {
    if !look.is_everything() {
        let what = "--timeline shows all samples: choose a range or a thread on the page";
        return Err(Usage(what.to_owned()).into());
    }
    let paths = look::paths(paths)?;
    let origin = AtPaths { paths: paths.clone(), shifts: shifts.to_vec() };
    let stamp = origin.stamp();
    let mut read = |paths: &[PathBuf], options: &Options| look::load_any_quantity(paths, options, face);
    let (shown, errors) = open_all(&paths, shifts, &mut read);
    if shown.is_empty() {
        let first = errors.into_iter().next();
        return Err(first.unwrap_or_else(|| anyhow::anyhow!("nothing to show")));
    }
    errors.iter().for_each(|error| face.warn(format_args!("{error:#}")));
    let store = Store::new(shown).map_err(anyhow::Error::msg)?;
    let is_stream = paths.iter().any(|path| whole::is_stream(path));
    let page = if is_stream {
        TimelinePage::new(store)
    } else {
        TimelinePage::following(Box::new(origin), store, stamp)
    };
    Ok(Served::serve_answers(Arc::new(page), "timeline", port)?)
}

/// The timeline of one recording as a page beside its profile. None: the path can be read but once.
pub(super) fn beside(path: &Path, look: &Look, choice: &Choice) -> Option<PageBeside> {
    if whole::is_stream(path) {
        return None;
    }
    let label = if look.is_everything() { "timeline" } else { "timeline (all samples)" };
    let (path, choice, frames) = (path.to_owned(), choice.clone(), look.frames.into());
    let open = move |links: &LinksBack| {
        let origin = ChosenOf { path: path.clone(), choice: choice.clone(), frames };
        let stamp = origin.stamp();
        let store = Store::new(origin.open()?)?;
        let links = Links {
            program: Some(links.program.clone()),
            parts: links.parts.clone(),
            takes_part: links.takes_part,
            quit: links.quit.clone(),
        };
        let page = TimelinePage::following(Box::new(origin), store, stamp).with_links(links);
        Ok(Arc::new(page) as SharedAnswers)
    };
    Some(PageBeside { label: label.into(), open: Box::new(open) })
}
