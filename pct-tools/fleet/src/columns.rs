//! Columns to Parquet octets: one typed call a column, in the order of the schema.

use crate::{FORMAT, INTERVAL_S};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType};
use parquet::data_type::{Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::cell::Cell;
use std::io::Write;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Arc, Once};

/// Parquet's word on what went wrong.
pub type Problem = parquet::errors::ParquetError;

/// Rows of a row group. Engines skip whole groups by their statistics.
const ROW_GROUP: usize = 1 << 20;
/// zstd's level: higher ones save little here.
const LEVEL: i32 = 3;

/// Footer key: seconds that a row sums up.
pub(crate) const INTERVAL: &str = "pct.interval_s";

/// Footer key: a hash of the names of the files that a rollup was made of.
pub(crate) const SOURCES: &str = "pct.sources";

/// Footer key: the recordings that the rows are of, by [`crate::ids::segment_id`], with commas.
pub const SEGMENTS: &str = "pct.segments";

/// These rows as a Parquet file. The same rows give the same octets. `segments` names the recordings that
/// they are of, if that is known: no recording's rows of an hour may be in two files.
///
/// # Errors
/// What Parquet says; not for rows of these tables.
pub fn file<T: Table>(rows: &[T], segments: &[String]) -> Result<Vec<u8>, Problem> {
    let mut writer = Writer::new(Vec::new(), segments)?;
    writer.add(rows)?;
    writer.finish()
}

/// A Parquet file of a table that is written row group by row group.
pub struct Writer<T, W: Write + Send> {
    to: SerializedFileWriter<W>,
    rows: PhantomData<T>,
}

impl<T: Table, W: Write + Send> Writer<T, W> {
    /// Begins a file; `segments` as for [`file()`].
    ///
    /// # Errors
    /// What Parquet says.
    pub fn new(to: W, segments: &[String]) -> Result<Self, Problem> {
        Self::with_keys(to, segments, INTERVAL_S, None)
    }

    /// The same for rows that sum up so many seconds, with the hash of their sources where they are a rollup.
    ///
    /// # Errors
    /// What Parquet says.
    pub(crate) fn with_keys(
        to: W,
        segments: &[String],
        interval_s: i64,
        sources: Option<&str>,
    ) -> Result<Self, Problem> {
        let key = |name: &str, value: String| KeyValue::new(name.to_owned(), Some(value));
        let segments = (!segments.is_empty()).then(|| key(SEGMENTS, segments.join(",")));
        let sources = sources.map(|hash| key(SOURCES, hash.to_owned()));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_created_by("pct-fleet".to_owned())
            .set_key_value_metadata(Some(
                [
                    key("pct.format", FORMAT.to_owned()),
                    key(INTERVAL, interval_s.to_string()),
                    key("pct.writer", concat!("pct-fleet ", env!("CARGO_PKG_VERSION")).to_owned()),
                ]
                .into_iter()
                .chain(segments)
                .chain(sources)
                .collect(),
            ))
            .build();
        let schema = Arc::new(parse_message_type(T::SCHEMA)?);
        Ok(Self { to: SerializedFileWriter::new(to, schema, Arc::new(properties))?, rows: PhantomData })
    }

    /// Writes rows, which are behind those before by the table's order, as row groups of their own.
    ///
    /// # Errors
    /// What Parquet says.
    pub fn add(&mut self, rows: &[T]) -> Result<(), Problem> {
        self.add_groups(rows, T::write)
    }

    /// The same for rows of another form, of which `write` makes the table's columns.
    ///
    /// # Errors
    /// What Parquet says.
    pub(crate) fn add_groups<R>(
        &mut self,
        rows: &[R],
        write: impl Fn(&[R], &mut Columns<'_, W>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        for rows in rows.chunks(ROW_GROUP) {
            let mut columns = Columns { group: self.to.next_row_group()? };
            write(rows, &mut columns)?;
            columns.group.close()?;
        }
        Ok(())
    }

    /// Writes the footer, and gives back what was written to.
    ///
    /// # Errors
    /// What Parquet says.
    pub fn finish(self) -> Result<W, Problem> {
        self.to.into_inner()
    }
}

/// The recordings that a file says its rows are of, from its footer.
///
/// # Errors
/// When it cannot be read or is no Parquet file.
pub fn segments_of(path: &Path) -> Result<Vec<String>, Problem> {
    let value = footer_value(path, SEGMENTS)?;
    Ok(value.map(|list| list.split(',').map(str::to_owned).collect()).unwrap_or_default())
}

/// What a file's footer says under a key.
///
/// # Errors
/// When it cannot be read or is no Parquet file.
pub(crate) fn footer_value(path: &Path, key: &str) -> Result<Option<String>, Problem> {
    let file = std::fs::File::open(path)?;
    let reader = guarded(|| SerializedFileReader::new(file))?;
    let keys = reader.metadata().file_metadata().key_value_metadata();
    Ok(keys.into_iter().flatten().find(|pair| pair.key == key).and_then(|pair| pair.value.clone()))
}

thread_local! {
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Reads with the crate `parquet`, which panics on some damaged files: such a panic is an error here, and
/// nothing is printed.
///
/// # Errors
/// What `read` says, or that it panicked.
pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    static SILENCE: Once = Once::new();
    SILENCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_GUARDED.get() {
                usual(info);
            }
        }));
    });
    IS_GUARDED.set(true);
    // What is half read is dropped with the reader.
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
    IS_GUARDED.set(false);
    done.unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Problem::General(format!("damaged: {}", said.unwrap_or_default())))
    })
}

/// A row group, written column after column.
pub struct Columns<'w, W: Write + Send> {
    group: SerializedRowGroupWriter<'w, W>,
}

impl<W: Write + Send> Columns<'_, W> {
    fn write<D: DataType>(
        &mut self,
        values: &[D::T],
        definitions: Option<&[i16]>,
        repetitions: Option<&[i16]>,
    ) -> Result<(), Problem> {
        let mut column = self
            .group
            .next_column()?
            .ok_or_else(|| Problem::General("more columns than the schema has".to_owned()))?;
        column.typed::<D>().write_batch(values, definitions, repetitions)?;
        column.close()
    }

    /// A required column of 32-bit integers.
    pub fn int32(&mut self, values: impl Iterator<Item = i32>) -> Result<(), Problem> {
        self.write::<Int32Type>(&values.collect::<Vec<_>>(), None, None)
    }

    /// A required column of 64-bit integers.
    pub fn int64(&mut self, values: impl Iterator<Item = i64>) -> Result<(), Problem> {
        self.write::<Int64Type>(&values.collect::<Vec<_>>(), None, None)
    }

    /// A required column of text.
    pub fn text<'v>(&mut self, values: impl Iterator<Item = &'v str>) -> Result<(), Problem> {
        self.octets(values.map(str::as_bytes))
    }

    /// A required column of octets.
    pub fn octets<'v>(&mut self, values: impl Iterator<Item = &'v [u8]>) -> Result<(), Problem> {
        self.write::<ByteArrayType>(&byte_arrays(values), None, None)
    }

    /// A required column of octets of one length.
    pub fn fixed<'v>(&mut self, values: impl Iterator<Item = &'v [u8]>) -> Result<(), Problem> {
        let values: Vec<_> = values.map(|octets| FixedLenByteArray::from(octets.to_vec())).collect();
        self.write::<FixedLenByteArrayType>(&values, None, None)
    }

    /// A required column of text, given as numbers into a list of texts.
    pub(crate) fn coded(
        &mut self,
        codes: impl Iterator<Item = u32>,
        texts: &[ByteArray],
    ) -> Result<(), Problem> {
        let text = |code: u32| texts.get(code as usize).cloned();
        let values: Option<Vec<_>> = codes.map(text).collect();
        let values = values.ok_or_else(|| Problem::General("a text has no number".to_owned()))?;
        self.write::<ByteArrayType>(&values, None, None)
    }

    /// A required column of 16 octets, given as big-endian numbers.
    pub(crate) fn ids(&mut self, ids: impl Iterator<Item = u128>) -> Result<(), Problem> {
        let mut last = (0, FixedLenByteArray::from(vec![0; 16]));
        // Equal ids follow each other, and share their octets.
        let values: Vec<_> = ids
            .map(|id| {
                if id != last.0 {
                    last = (id, FixedLenByteArray::from(id.to_be_bytes().to_vec()));
                }
                last.1.clone()
            })
            .collect();
        self.write::<FixedLenByteArrayType>(&values, None, None)
    }

    /// A required member of the structs in a list of this length in each row.
    pub fn octets_in_lists<'v>(
        &mut self,
        lengths: &[usize],
        values: impl Iterator<Item = &'v [u8]>,
    ) -> Result<(), Problem> {
        let (definitions, repetitions) = levels(lengths);
        self.write::<ByteArrayType>(&byte_arrays(values), Some(&definitions), Some(&repetitions))
    }

    /// The same for integers.
    pub fn int64_in_lists(
        &mut self,
        lengths: &[usize],
        values: impl Iterator<Item = i64>,
    ) -> Result<(), Problem> {
        let (definitions, repetitions) = levels(lengths);
        self.write::<Int64Type>(&values.collect::<Vec<_>>(), Some(&definitions), Some(&repetitions))
    }
}

fn byte_arrays<'v>(values: impl Iterator<Item = &'v [u8]>) -> Vec<ByteArray> {
    values.map(|octets| ByteArray::from(octets.to_vec())).collect()
}

/// Definition and repetition levels of a required list (Dremel's): an empty list has one place that holds
/// nothing (0, 0); else all places hold something (1), and all but the first of a row repeat (1).
fn levels(lengths: &[usize]) -> (Vec<i16>, Vec<i16>) {
    let (mut definitions, mut repetitions) = (Vec::new(), Vec::new());
    for &length in lengths {
        for at in 0..length.max(1) {
            definitions.push(i16::from(length > 0));
            repetitions.push(i16::from(at > 0));
        }
    }
    (definitions, repetitions)
}

/// A kind of row: its table, its schema, its columns in the schema's order.
pub trait Table: Ord + Sized {
    /// Name of the table's folder.
    const NAME: &'static str;
    /// Parquet's text form of the schema.
    const SCHEMA: &'static str;
    /// Writes all columns of these rows.
    ///
    /// # Errors
    /// What Parquet says.
    fn write<W: Write + Send>(rows: &[Self], to: &mut Columns<'_, W>) -> Result<(), Problem>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CodePlace, Kind};
    use crate::tables::Stack;
    use parquet::file::reader::SerializedFileReader;
    use parquet::record::{ListAccessor as _, RowAccessor as _};

    fn stack(id: u8, frames: usize) -> Stack {
        let frame = |at: usize| CodePlace {
            build_id: vec![id; 4 + at],
            addr: i64::try_from(at).unwrap() - 1,
            kind: if at.is_multiple_of(2) { Kind::Native } else { Kind::Name },
        };
        Stack { stack_id: [id; 16], frames: (0..frames).map(frame).collect(), first_seen: 7 }
    }

    #[test]
    fn lists_of_every_length_are_read_back() {
        let rows: Vec<Stack> = [(1, 0), (2, 3), (3, 1), (4, 0), (5, 40)].map(|(id, n)| stack(id, n)).into();
        let octets = file(&rows, &[]).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(octets)).unwrap();
        let read: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(read.len(), rows.len());
        for (row, expected) in read.iter().zip(&rows) {
            let frames = row.get_list(1).unwrap();
            assert_eq!(frames.len(), expected.frames.len());
            for (at, frame) in expected.frames.iter().enumerate() {
                let found = frames.get_group(at).unwrap();
                assert_eq!(found.get_bytes(0).unwrap().data(), frame.build_id);
                assert_eq!(found.get_long(1).unwrap(), frame.addr);
                assert_eq!(found.get_string(2).unwrap(), frame.kind.as_word());
            }
        }
    }

    #[test]
    fn the_same_rows_give_the_same_octets_and_no_arrow_schema() {
        let rows = [stack(1, 2), stack(2, 5)];
        let octets = file(&rows, &[]).unwrap();
        assert_eq!(octets, file(&rows, &[]).unwrap());
        assert!(!octets.windows(12).any(|window| window == b"ARROW:schema"));
    }
}
