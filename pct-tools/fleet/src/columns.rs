//! Columns to Parquet octets: one typed call a column, in the order of the schema.

use crate::{FORMAT, INTERVAL_S};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType};
use parquet::data_type::{Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

/// Parquet's word on what went wrong.
pub type Problem = parquet::errors::ParquetError;

/// Rows of a row group. Engines skip whole groups by their statistics.
const ROW_GROUP: usize = 1 << 20;
/// zstd's level: higher ones save little here.
const LEVEL: i32 = 3;

/// These rows as a Parquet file. The same rows give the same octets.
///
/// # Errors
/// What Parquet says; not for rows of these tables.
pub fn file<T: Table>(rows: &[T]) -> Result<Vec<u8>, Problem> {
    let key = |name: &str, value: String| KeyValue::new(name.to_owned(), Some(value));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_created_by("pct-fleet".to_owned())
        .set_key_value_metadata(Some(vec![
            key("pct.format", FORMAT.to_owned()),
            key("pct.interval_s", INTERVAL_S.to_string()),
            key("pct.writer", concat!("pct-fleet ", env!("CARGO_PKG_VERSION")).to_owned()),
        ]))
        .build();
    let schema = Arc::new(parse_message_type(T::SCHEMA)?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    for rows in rows.chunks(ROW_GROUP) {
        let mut columns = Columns { group: writer.next_row_group()? };
        T::write(rows, &mut columns)?;
        columns.group.close()?;
    }
    writer.into_inner()
}

/// A row group, written column after column.
pub struct Columns<'w> {
    group: SerializedRowGroupWriter<'w, Vec<u8>>,
}

impl Columns<'_> {
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

/// Definition and repetition levels of a required list (Dremel's): an empty list has one place that holds nothing (0, 0); else
/// all places hold something (1), and all but the first of a row repeat (1).
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
    fn write(rows: &[Self], to: &mut Columns<'_>) -> Result<(), Problem>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CodePlace, Kind};
    use crate::tables::Stack;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
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
        let octets = file(&rows).unwrap();
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
                assert_eq!(found.get_string(2).unwrap(), frame.kind.word());
            }
        }
    }

    #[test]
    fn the_same_rows_give_the_same_octets_and_no_arrow_schema() {
        let rows = [stack(1, 2), stack(2, 5)];
        let octets = file(&rows).unwrap();
        assert_eq!(octets, file(&rows).unwrap());
        assert!(!octets.windows(12).any(|window| window == b"ARROW:schema"));
    }
}
