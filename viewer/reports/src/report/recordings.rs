//! The available profiles.

use crate::subject::{ShelfEntry, Subject};
use serde::Serialize;

/// Data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct RecordingsReport {
    /// Name of the profile that the page belongs to.
    pub this: String,
    /// All of them.
    pub entries: Vec<ShelfEntry>,
}

/// The report.
#[must_use]
pub fn create(subject: &Subject) -> RecordingsReport {
    RecordingsReport {
        this: subject.name.clone(),
        entries: subject.shelf.as_ref().map(|s| s.entries()).unwrap_or_default(),
    }
}
