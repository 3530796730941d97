//! Where the recordings and traces of a timeline come from, and whether they have changed since they were read.

use super::opened::{ClockShift, open_all, recording};
use crate::look;
use crate::store::Choice;
use anyhow::Result;
use lttv_page::{Origin, Shown};
use lttv_sources::stamp;
use pct_profile::Frames;
use pct_profile::load::{self, Options};
use std::path::PathBuf;

/// Recordings and traces as they were typed.
pub(super) struct AtPaths {
    pub(super) paths: Vec<PathBuf>,
    pub(super) shifts: Vec<ClockShift>,
}

impl Origin for AtPaths {
    fn stamp(&self) -> u64 {
        stamp(&self.paths)
    }

    fn is_written(&self) -> bool {
        self.paths.iter().any(|path| load::is_running(path))
    }

    fn open(&self) -> Result<Vec<Shown>, String> {
        let (shown, errors) = open_all(&self.paths, &self.shifts, &mut look::load_any_quantity_quietly);
        // Half of what there was would look like less than there is.
        errors.first().map_or(Ok(shown), |error| Err(crate::errors::chain(error)))
    }
}

/// A recording, or those that were chosen from a folder.
pub(super) struct ChosenOf {
    pub(super) path: PathBuf,
    pub(super) choice: Choice,
    pub(super) frames: Frames,
}

impl ChosenOf {
    fn whole(&self) -> Result<Shown> {
        let typed = vec![self.path.clone()];
        let paths = if self.choice.is_made() { self.choice.paths(&typed)? } else { typed };
        let options = Options { by_thread: true, waits: true, frames: self.frames, ..look::defaults() };
        recording(&self.path, &paths, &self.choice.narrow(options), &mut look::load_any_quantity_quietly)
    }
}

impl Origin for ChosenOf {
    fn stamp(&self) -> u64 {
        stamp(std::slice::from_ref(&self.path))
    }

    fn is_written(&self) -> bool {
        load::is_running(&self.path)
    }

    fn open(&self) -> Result<Vec<Shown>, String> {
        self.whole().map(|shown| vec![shown]).map_err(|why| crate::errors::chain(&why))
    }
}
