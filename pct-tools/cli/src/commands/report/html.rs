//! Where a page of `--html` goes.

use crate::face::Face;
use anyhow::{Context as _, Result};
use std::path::Path;

/// Writes the page to a file, or to stdout for `-`.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write(path: &Path, page: &str, face: &Face) -> Result<()> {
    if path.as_os_str() == "-" {
        return face.print(page);
    }
    std::fs::write(path, page).with_context(|| path.display().to_string())?;
    face.hint(path.display());
    Ok(())
}
