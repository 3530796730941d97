//! Storage of results between runs. The engine does no I/O: a program that has a folder for them provides a [`Kept`].

/// Files with results, keyed by the content of the trace from which they were computed.
pub trait Kept: Send + Sync {
    /// The bytes stored under this key ([`crate::source::Source::content_key`]) and the name `what`. None if there are
    /// none or they cannot be read.
    fn read(&self, key: &[u8], what: &str) -> Option<Vec<u8>>;

    /// Stores bytes. If that fails, the next run computes them again.
    fn write(&self, key: &[u8], what: &str, bytes: &[u8]);
}
