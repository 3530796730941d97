//! Rows out of Parquet files: columns by name, a bounded number of rows at a time.
//!
//! Files of a root may be anybody's. A file that lacks a column, or has one of another type, is an error that
//! names both. Nothing is allocated by a number that stands in a file, but by what is read.

use crate::columns::{Problem, guarded};
use parquet::basic::Type;
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Rows of a piece at most.
const ROWS: usize = 16 * 1024;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is no Parquet file, or a damaged one.
    #[error("{}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Parquet's word.
        why: Problem,
    },
    /// It is a file of something else.
    #[error("{}: no column {column} of type {expected}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// What it should hold.
        expected: &'static str,
    },
}

/// A column of a piece.
#[derive(Clone, Debug)]
enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Octets(Vec<ByteArray>),
    Fixed(Vec<FixedLenByteArray>),
}

/// Some rows of a file.
pub struct Piece<'a> {
    path: &'a Path,
    columns: Vec<(&'static str, Values)>,
    /// Rows.
    pub rows: usize,
    /// Of lists: the number of members of each row.
    pub lengths: Vec<usize>,
}

impl Piece<'_> {
    fn find(&self, column: &'static str) -> Option<&Values> {
        self.columns.iter().find(|(name, _)| *name == column).map(|(_, values)| values)
    }

    fn foreign(&self, column: &'static str, expected: &'static str) -> Error {
        Error::Foreign { path: self.path.to_owned(), column, expected }
    }

    /// A column of 32-bit integers.
    ///
    /// # Errors
    /// [`Error::Foreign`] where it is another one.
    pub fn int32(&self, column: &'static str) -> Result<&[i32], Error> {
        match self.find(column) {
            Some(Values::Int32(values)) => Ok(values),
            _ => Err(self.foreign(column, "int32")),
        }
    }

    /// A column of 64-bit integers.
    ///
    /// # Errors
    /// [`Error::Foreign`] where it is another one.
    pub fn int64(&self, column: &'static str) -> Result<&[i64], Error> {
        match self.find(column) {
            Some(Values::Int64(values)) => Ok(values),
            _ => Err(self.foreign(column, "int64")),
        }
    }

    /// A column of octets of any length.
    ///
    /// # Errors
    /// [`Error::Foreign`] where it is another one.
    pub fn octets(&self, column: &'static str) -> Result<&[ByteArray], Error> {
        match self.find(column) {
            Some(Values::Octets(values)) => Ok(values),
            _ => Err(self.foreign(column, "binary")),
        }
    }

    /// A column of octets of one length.
    ///
    /// # Errors
    /// [`Error::Foreign`] where it is another one, or of another length.
    pub fn fixed<const N: usize>(&self, column: &'static str) -> Result<Vec<[u8; N]>, Error> {
        let Some(Values::Fixed(values)) = self.find(column) else {
            return Err(self.foreign(column, "fixed_len_byte_array"));
        };
        let exact = |value: &FixedLenByteArray| <[u8; N]>::try_from(value.data()).ok();
        values
            .iter()
            .map(exact)
            .collect::<Option<_>>()
            .ok_or_else(|| self.foreign(column, "fixed_len_byte_array(16)"))
    }
}

/// Text of a column. What is no UTF-8 has marks in its place.
#[must_use]
pub fn text(octets: &ByteArray) -> String {
    String::from_utf8_lossy(octets.data()).into_owned()
}

/// Reads a file piece by piece: these columns (names of leaves, such as `ts` and `frames.list.element.addr`),
/// of the row groups that are wanted.
///
/// # Errors
/// [`Error`], or what `take` says.
pub fn read<E: From<Error>>(
    path: &Path,
    columns: &[&'static str],
    is_wanted: &dyn Fn(&RowGroupMetaData) -> bool,
    mut take: impl FnMut(&Piece<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let damaged = |why: Problem| E::from(Error::Damaged { path: path.to_owned(), why });
    let file = File::open(path).map_err(|why| damaged(why.into()))?;
    let reader = guarded(|| SerializedFileReader::new(file)).map_err(damaged)?;
    for group in 0..reader.metadata().num_row_groups() {
        let meta = reader.metadata().row_group(group);
        if !is_wanted(meta) {
            continue;
        }
        let group = guarded(|| reader.get_row_group(group)).map_err(damaged)?;
        let mut readers = Vec::new();
        for &name in columns {
            let at = meta.columns().iter().position(|column| column.column_path().string() == name);
            let at = at.ok_or_else(|| {
                E::from(Error::Foreign { path: path.to_owned(), column: name, expected: "any" })
            })?;
            readers.push((name, guarded(|| group.get_column_reader(at)).map_err(damaged)?));
        }
        loop {
            let mut piece = Piece { path, columns: Vec::new(), rows: 0, lengths: Vec::new() };
            for (at, (name, reader)) in readers.iter_mut().enumerate() {
                let (rows, values, lengths) = guarded(|| some(reader)).map_err(damaged)?;
                if at > 0 && rows != piece.rows {
                    return Err(damaged(Problem::General(format!(
                        "column {name} has {rows} rows, not {}",
                        piece.rows
                    ))));
                }
                piece.rows = rows;
                if !lengths.is_empty() {
                    piece.lengths = lengths;
                }
                piece.columns.push((name, values));
            }
            if piece.rows == 0 {
                break;
            }
            take(&piece)?;
        }
    }
    Ok(())
}

/// The next rows of a column: how many, their values, and of lists their lengths.
fn some(reader: &mut ColumnReader) -> Result<(usize, Values, Vec<usize>), Problem> {
    let (mut definitions, mut repetitions) = (Vec::new(), Vec::new());
    macro_rules! read {
        ($reader:expr, $variant:ident) => {{
            let mut values = Vec::new();
            let (levels, nested) = (Some(&mut definitions), Some(&mut repetitions));
            let (rows, ..) = $reader.read_records(ROWS, levels, nested, &mut values)?;
            (rows, Values::$variant(values))
        }};
    }
    let (rows, values) = match reader {
        ColumnReader::Int32ColumnReader(reader) => read!(reader, Int32),
        ColumnReader::Int64ColumnReader(reader) => read!(reader, Int64),
        ColumnReader::ByteArrayColumnReader(reader) => read!(reader, Octets),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => read!(reader, Fixed),
        _ => {
            return Err(Problem::General(format!(
                "a column has another type than {:?}",
                [Type::INT32, Type::INT64, Type::BYTE_ARRAY, Type::FIXED_LEN_BYTE_ARRAY]
            )));
        }
    };
    let count = match &values {
        Values::Int32(values) => values.len(),
        Values::Int64(values) => values.len(),
        Values::Octets(values) => values.len(),
        Values::Fixed(values) => values.len(),
    };
    let lengths = lengths(&definitions, &repetitions);
    let told: usize = if lengths.is_empty() { rows } else { lengths.iter().sum() };
    // A null would shift all values behind it.
    if count != told || !lengths.is_empty() && lengths.len() != rows {
        return Err(Problem::General(format!("{rows} rows with {count} values: nulls are not expected")));
    }
    Ok((rows, values, lengths))
}

/// The inverse of the levels that are written: see `columns`.
fn lengths(definitions: &[i16], repetitions: &[i16]) -> Vec<usize> {
    let mut lengths: Vec<usize> = Vec::new();
    if repetitions.is_empty() {
        return lengths;
    }
    for (definition, repetition) in definitions.iter().zip(repetitions) {
        match lengths.last_mut() {
            Some(last) if *repetition > 0 => *last += 1,
            _ => lengths.push(usize::from(*definition > 0)),
        }
    }
    lengths
}
