//! Rows of many files become rows of one: the small tables in memory, samples by parts ([`samples`]).

pub(crate) mod samples;

use crate::columns::{Problem, Table, Writer};
use crate::pieces::Error;
use crate::rows::Rows;
use std::io::Write;
use std::path::Path;

/// Why files could not be merged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A file that could be read before cannot be read again.
    #[error(transparent)]
    Input(#[from] Error),
    /// A file has other rows than when it was read first.
    #[error("a file was changed while it was merged")]
    Changed,
    /// The new file cannot be written.
    #[error("{0}")]
    Output(#[from] Problem),
}

/// Takes files one after the other, then writes the rows of all.
pub(crate) trait Merger {
    /// What the rows are.
    type Row: Table;
    /// Takes a file.
    ///
    /// # Errors
    /// [`Error`]; then nothing of the file is taken.
    fn add(&mut self, file: &Path) -> Result<(), Error>;
    /// Rows that were taken and are kept.
    fn kept(&self) -> u64;
    /// Rows that are left out.
    fn removed(&self) -> u64;
    /// Writes what was taken, in the table's order.
    ///
    /// # Errors
    /// [`Failure`]; what was written until then is of no use.
    fn write<W: Write + Send>(self, to: &mut Writer<Self::Row, W>) -> Result<(), Failure>;
}

/// All rows in memory: for tables that grow with releases, not with hosts and time.
pub(crate) struct InMemory<'a, T> {
    rows: Vec<T>,
    keep: &'a dyn Fn(&T) -> bool,
    removed: u64,
}

impl<'a, T> InMemory<'a, T> {
    pub(crate) fn new(keep: &'a dyn Fn(&T) -> bool) -> Self {
        Self { rows: Vec::new(), keep, removed: 0 }
    }
}

impl<T: Rows> Merger for InMemory<'_, T> {
    type Row = T;

    fn add(&mut self, file: &Path) -> Result<(), Error> {
        let mut rows = Vec::new();
        T::read(file, &mut rows)?;
        let before = rows.len();
        rows.retain(|row| (self.keep)(row));
        self.removed += (before - rows.len()) as u64;
        self.rows.append(&mut rows);
        Ok(())
    }

    fn kept(&self) -> u64 {
        self.rows.len() as u64
    }

    fn removed(&self) -> u64 {
        self.removed
    }

    fn write<W: Write + Send>(mut self, to: &mut Writer<T, W>) -> Result<(), Failure> {
        T::merge(&mut self.rows);
        Ok(to.add(&self.rows)?)
    }
}
