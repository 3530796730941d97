//! In what a file differs from the one that was sampled.

use std::fmt;

use crate::image::BuildId;

/// In what a file differs from the one that was sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// The build-id.
    BuildId {
        /// The one that was in memory during sampling.
        sampled: BuildId,
        /// That of the file. None: it has none.
        found: Option<BuildId>,
    },
    /// The size.
    Size {
        /// The sampled file's, in octets.
        sampled: u64,
        /// That of the file now, in octets.
        found: u64,
    },
    /// The time at which the contents changed last.
    Changed {
        /// Whether the file is newer than the sampled one.
        later: bool,
    },
    /// The contents of the first page.
    FirstPage,
    /// Device or inode, and nothing else is known of the sampled one.
    Inode,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::BuildId { sampled, found: Some(found) } => {
                write!(f, "its build-id is {found}, that of the sampled file was {sampled}")
            }
            Difference::BuildId { sampled, found: None } => {
                write!(f, "it has no build-id, that of the sampled file was {sampled}")
            }
            Difference::Size { sampled, found } => {
                write!(f, "it has {found} bytes, the sampled file had {sampled}")
            }
            Difference::Changed { later: true } => f.write_str("it was changed after the sampled file"),
            Difference::Changed { later: false } => f.write_str("it was changed before the sampled file"),
            Difference::FirstPage => f.write_str("its first page is not that of the sampled file"),
            Difference::Inode => f.write_str("device or inode are not those of the sampled file"),
        }
    }
}
