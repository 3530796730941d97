//! The host's name in the tables.

use anyhow::{Context as _, Result};

/// The host that was named, or this one.
pub(super) fn named_or_own(named: Option<&str>) -> Result<String> {
    match named {
        Some(host) => Ok(host.to_owned()),
        None => Ok(nix::unistd::gethostname().context("the host's name")?.to_string_lossy().into_owned()),
    }
}
