//! Flat columns of a file for sums over many rows: texts come as codes into a dictionary, numbers as they are.
//!
//! [`crate::pieces`] hands out a value for each row. Here a text is compared once for each entry of a
//! dictionary, of which a row group has few, and rows are told apart by small integers. Pages and encodings
//! are those of the Parquet format (`parquet-format`, Encodings.md); the crate `parquet` reads, unpacks and
//! decodes them.

use crate::columns::{Problem, guarded};
use crate::hybrid::Hybrid;
use crate::pieces::Error;
use bytes::Bytes;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::column::reader::ColumnReader;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::path::Path;

/// Rows of a chunk at most.
const ROWS: usize = 16 * 1024;

/// A column of texts, or of octets of one length.
struct Texts {
    source: Source,
    /// Octets of a value where all have as many.
    width: Option<usize>,
    /// Whether values may be missing. None is, or the file is refused.
    is_optional: bool,
    dictionary: Vec<Bytes>,
    /// Codes of values that came without a dictionary.
    interned: FxHashMap<Bytes, u32>,
    page: Option<DataPage>,
    codes: Vec<u32>,
}

enum Source {
    Pages(Box<dyn PageReader>),
    /// Of other encodings than dictionaries and plain values, which other writers may use.
    Values(Box<ColumnReader>),
}

/// What is left of a page.
struct DataPage {
    values: Coded,
    left: usize,
}

enum Coded {
    /// By the row group's dictionary.
    Codes(Hybrid),
    /// One value after the other.
    Plain(Bytes),
}

enum Column {
    Texts(Texts),
    Numbers { reader: Box<ColumnReader>, values: Vec<i64>, narrow: Vec<i32> },
}

/// Some rows of a row group.
pub struct Chunk<'a> {
    path: &'a Path,
    /// Number of the row group. Codes of one group say nothing of another's.
    pub group: usize,
    /// Rows.
    pub rows: usize,
    columns: &'a [(&'static str, Column)],
}

impl<'a> Chunk<'a> {
    /// A column is not what it should be.
    pub(crate) fn foreign(&self, column: &'static str, expected: &'static str) -> Error {
        Error::Foreign { path: self.path.to_owned(), column, expected }
    }

    /// A column of texts: each row's code, and what the codes mean. The dictionary grows from chunk to chunk.
    ///
    /// # Errors
    /// [`Error::Foreign`] where it was not asked for as such.
    pub fn texts(&self, column: &'static str) -> Result<(&'a [u32], &'a [Bytes]), Error> {
        match self.columns.iter().find(|(name, _)| *name == column) {
            Some((_, Column::Texts(texts))) => Ok((&texts.codes, &texts.dictionary)),
            _ => Err(self.foreign(column, "binary")),
        }
    }

    /// A column of integers.
    ///
    /// # Errors
    /// [`Error::Foreign`] where it was not asked for as such.
    pub fn numbers(&self, column: &'static str) -> Result<&'a [i64], Error> {
        match self.columns.iter().find(|(name, _)| *name == column) {
            Some((_, Column::Numbers { values, .. })) => Ok(values),
            _ => Err(self.foreign(column, "int64")),
        }
    }
}

/// Whether a row group may have texts between these (both included) in a column, by its statistics.
pub(crate) fn may_have(group: &RowGroupMetaData, column: &str, first: &[u8], last: &[u8]) -> bool {
    let column = group.columns().iter().find(|found| found.column_path().string() == column);
    let Some(statistics) = column.and_then(|column| column.statistics()) else { return true };
    let (least, most) = (statistics.min_bytes_opt(), statistics.max_bytes_opt());
    least.is_none_or(|least| least <= last) && most.is_none_or(|most| first <= most)
}

/// Reads these columns of a file, of the row groups that are wanted.
///
/// # Errors
/// [`Error`], or what `take` says.
pub fn scan(
    path: &Path,
    texts: &[&'static str],
    numbers: &[&'static str],
    is_wanted: &dyn Fn(&RowGroupMetaData) -> bool,
    mut take: impl FnMut(&Chunk<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let damaged = |why: Problem| Error::Damaged { path: path.to_owned(), why };
    let file = File::open(path).map_err(|why| damaged(why.into()))?;
    let reader = guarded(|| SerializedFileReader::new(file)).map_err(damaged)?;
    for number in 0..reader.metadata().num_row_groups() {
        let meta = reader.metadata().row_group(number);
        if !is_wanted(meta) {
            continue;
        }
        let group = guarded(|| reader.get_row_group(number)).map_err(damaged)?;
        let mut columns = Vec::new();
        for &name in texts.iter().chain(numbers) {
            let foreign =
                |expected: &'static str| Error::Foreign { path: path.to_owned(), column: name, expected };
            let at = meta.columns().iter().position(|column| column.column_path().string() == name);
            let at = at.ok_or_else(|| foreign("any"))?;
            let is_text = texts.contains(&name);
            let found = guarded(|| open(&*group, meta, at, is_text)).map_err(damaged)?;
            columns.push((name, found.ok_or_else(|| foreign(if is_text { "binary" } else { "int64" }))?));
        }
        loop {
            let mut rows = None;
            for (name, column) in &mut columns {
                let found = guarded(|| column.advance()).map_err(damaged)?;
                if rows.is_some_and(|rows| rows != found) {
                    let why = format!("column {name} has {found} rows, not {}", rows.unwrap_or_default());
                    return Err(damaged(Problem::General(why)));
                }
                rows = Some(found);
            }
            let rows = rows.unwrap_or_default();
            if rows == 0 {
                break;
            }
            take(&Chunk { path, group: number, rows, columns: &columns })?;
        }
    }
    Ok(())
}

/// A column's reader; `None` if it has another type than is wanted.
fn open(
    group: &dyn RowGroupReader,
    meta: &RowGroupMetaData,
    at: usize,
    is_text: bool,
) -> Result<Option<Column>, Problem> {
    let descriptor = meta.column(at).column_descr();
    if descriptor.max_rep_level() > 0 || descriptor.max_def_level() > 1 {
        return Ok(None);
    }
    let width = match (descriptor.physical_type(), is_text) {
        (Type::BYTE_ARRAY, true) => None,
        (Type::FIXED_LEN_BYTE_ARRAY, true) => {
            let Ok(width @ 1..) = usize::try_from(descriptor.type_length()) else { return Ok(None) };
            Some(width)
        }
        (Type::INT32 | Type::INT64, false) => {
            let reader = Box::new(group.get_column_reader(at)?);
            return Ok(Some(Column::Numbers { reader, values: Vec::new(), narrow: Vec::new() }));
        }
        _ => return Ok(None),
    };
    let is_usual = |encoding: Encoding| {
        #[expect(deprecated, reason = "older files have them")]
        let usual = [
            Encoding::PLAIN,
            Encoding::RLE,
            Encoding::BIT_PACKED,
            Encoding::RLE_DICTIONARY,
            Encoding::PLAIN_DICTIONARY,
        ];
        usual.contains(&encoding)
    };
    let source = if meta.column(at).encodings().all(is_usual) {
        Source::Pages(group.get_column_page_reader(at)?)
    } else {
        Source::Values(Box::new(group.get_column_reader(at)?))
    };
    Ok(Some(Column::Texts(Texts {
        source,
        width,
        is_optional: descriptor.max_def_level() > 0,
        dictionary: Vec::new(),
        interned: FxHashMap::default(),
        page: None,
        codes: Vec::new(),
    })))
}

fn damage(why: &str) -> Problem {
    Problem::General(why.to_owned())
}

impl Column {
    /// Reads the next rows; says how many.
    fn advance(&mut self) -> Result<usize, Problem> {
        let (reader, values, narrow) = match self {
            Self::Texts(texts) => return texts.advance(),
            Self::Numbers { reader, values, narrow } => (reader, values, narrow),
        };
        let mut levels = Vec::new();
        values.clear();
        let rows = match &mut **reader {
            ColumnReader::Int32ColumnReader(reader) => {
                narrow.clear();
                let (rows, ..) = reader.read_records(ROWS, Some(&mut levels), None, narrow)?;
                values.extend(narrow.iter().map(|&value| i64::from(value)));
                rows
            }
            ColumnReader::Int64ColumnReader(reader) => {
                let (rows, ..) = reader.read_records(ROWS, Some(&mut levels), None, values)?;
                rows
            }
            _ => return Err(damage("a column of numbers has another type")),
        };
        if values.len() == rows { Ok(rows) } else { Err(damage("nulls are not expected")) }
    }
}

impl Texts {
    fn advance(&mut self) -> Result<usize, Problem> {
        self.codes.clear();
        while self.codes.len() < ROWS {
            let Some(page) = self.page.as_mut().filter(|page| page.left > 0) else {
                let pages = match &mut self.source {
                    Source::Pages(pages) => pages,
                    Source::Values(reader) => {
                        for value in some_values(reader)? {
                            self.intern(value)?;
                        }
                        break;
                    }
                };
                let Some(page) = pages.get_next_page()? else { break };
                self.turn_to(page)?;
                continue;
            };
            let (from, wanted) = (self.codes.len(), page.left.min(ROWS - self.codes.len()));
            page.left -= wanted;
            match &mut page.values {
                Coded::Codes(decoder) => {
                    self.codes.resize(from + wanted, 0);
                    let fresh = self.codes.get_mut(from..).unwrap_or_default();
                    decoder.fill(fresh)?;
                    let known = self.dictionary.len();
                    if fresh.iter().max().is_some_and(|&most| most as usize >= known) {
                        return Err(damage("a code is outside of the dictionary"));
                    }
                }
                Coded::Plain(octets) => {
                    let width = self.width;
                    let values: Result<Vec<_>, _> = (0..wanted).map(|_| next_value(octets, width)).collect();
                    for value in values? {
                        self.intern(value)?;
                    }
                }
            }
        }
        Ok(self.codes.len())
    }

    /// Appends the code of a value, which is a new one where the value is new.
    fn intern(&mut self, value: Bytes) -> Result<(), Problem> {
        let next = u32::try_from(self.dictionary.len())
            .map_err(|_| damage("a row group has too many different values"))?;
        let dictionary = &mut self.dictionary;
        let code = *self.interned.entry(value).or_insert_with_key(|value| {
            dictionary.push(value.clone());
            next
        });
        self.codes.push(code);
        Ok(())
    }

    fn turn_to(&mut self, page: Page) -> Result<(), Problem> {
        let (octets, count, encoding) = match page {
            Page::DictionaryPage { mut buf, num_values, .. } => {
                for _ in 0..num_values {
                    let value = next_value(&mut buf, self.width)?;
                    self.dictionary.push(value);
                }
                return Ok(());
            }
            Page::DataPage { mut buf, num_values, encoding, .. } => {
                if self.is_optional {
                    let length = next_length(&mut buf)?;
                    no_nulls(first_octets(&mut buf, length)?, num_values)?;
                }
                (buf, num_values, encoding)
            }
            Page::DataPageV2 {
                mut buf,
                num_values,
                encoding,
                num_nulls,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                if num_nulls > 0 {
                    return Err(damage("nulls are not expected"));
                }
                first_octets(&mut buf, rep_levels_byte_len as usize)?;
                first_octets(&mut buf, def_levels_byte_len as usize)?;
                (buf, num_values, encoding)
            }
        };
        let left = usize::try_from(count).map_err(|_| damage("a page is too long"))?;
        let values = match encoding {
            Encoding::PLAIN => Coded::Plain(octets),
            // Older files say PLAIN_DICTIONARY, with the same meaning.
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                let width = octets.first().copied().ok_or_else(|| damage("a page is empty"))?;
                Coded::Codes(Hybrid::new(octets.slice(1..), width.into())?)
            }
            other => return Err(Problem::NYI(format!("a column of texts is encoded as {other}"))),
        };
        self.page = Some(DataPage { values, left });
        Ok(())
    }
}

/// The next values of a column, one for each row.
fn some_values(reader: &mut ColumnReader) -> Result<Vec<Bytes>, Problem> {
    let mut levels = Vec::new();
    macro_rules! read {
        ($reader:expr) => {{
            let mut values = Vec::new();
            let (rows, ..) = $reader.read_records(ROWS, Some(&mut levels), None, &mut values)?;
            (rows, values.iter().map(|value| Bytes::copy_from_slice(value.data())).collect::<Vec<_>>())
        }};
    }
    let (rows, values) = match reader {
        ColumnReader::ByteArrayColumnReader(reader) => read!(reader),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => read!(reader),
        _ => return Err(damage("a column of texts has another type")),
    };
    if values.len() == rows { Ok(values) } else { Err(damage("nulls are not expected")) }
}

/// Whether a page's definition levels say that all its values are there.
fn no_nulls(levels: Bytes, count: u32) -> Result<(), Problem> {
    let mut decoder = Hybrid::new(levels, 1)?;
    let mut left = usize::try_from(count).map_err(|_| damage("a page is too long"))?;
    let mut some = [0; 1024];
    while left > 0 {
        let part = some.get_mut(..left.min(1024)).unwrap_or_default();
        decoder.fill(part)?;
        if part.contains(&0) {
            return Err(damage("nulls are not expected"));
        }
        left -= part.len();
    }
    Ok(())
}

/// Takes the first octets off.
fn first_octets(octets: &mut Bytes, count: usize) -> Result<Bytes, Problem> {
    if octets.len() < count {
        return Err(damage("a page ends within a value"));
    }
    Ok(octets.split_to(count))
}

fn next_length(octets: &mut Bytes) -> Result<usize, Problem> {
    let four = first_octets(octets, 4)?;
    let length = <[u8; 4]>::try_from(four.as_ref()).map_err(|_| damage("a page ends within a value"))?;
    Ok(u32::from_le_bytes(length) as usize)
}

/// The next value of a plain page: of the width, or with its length in front.
fn next_value(octets: &mut Bytes, width: Option<usize>) -> Result<Bytes, Problem> {
    let length = match width {
        Some(width) => width,
        None => next_length(octets)?,
    };
    first_octets(octets, length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    const WORDS: usize = 20_000;

    fn word(row: usize) -> String {
        format!("word {}", row * 7 % 331)
    }

    /// A file as other writers make it: 50,000 rows in groups of 20,000.
    fn written(
        properties: WriterProperties,
        optional: bool,
        null_at: Option<usize>,
    ) -> tempfile::NamedTempFile {
        let need = if optional { "optional" } else { "required" };
        let schema = format!("message rows {{ {need} binary name (UTF8); required int64 number; }}");
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let file = tempfile::NamedTempFile::new().unwrap();
        let to = file.reopen().unwrap();
        let mut writer = SerializedFileWriter::new(to, schema, Arc::new(properties)).unwrap();
        for rows in [0..WORDS, WORDS..2 * WORDS, 2 * WORDS..50_000] {
            let mut group = writer.next_row_group().unwrap();
            let is_there = |row: &usize| null_at != Some(*row);
            let words: Vec<ByteArray> =
                rows.clone().filter(is_there).map(|row| ByteArray::from(word(row).as_str())).collect();
            let levels: Vec<i16> = rows.clone().map(|row| i16::from(is_there(&row))).collect();
            let mut column = group.next_column().unwrap().unwrap();
            let levels = optional.then_some(levels.as_slice());
            column.typed::<ByteArrayType>().write_batch(&words, levels, None).unwrap();
            column.close().unwrap();
            let numbers: Vec<i64> = rows.map(|row| i64::try_from(row).unwrap()).collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(&numbers, None, None).unwrap();
            column.close().unwrap();
            group.close().unwrap();
        }
        writer.close().unwrap();
        file
    }

    /// All rows as `scan` has them.
    fn scanned(path: &Path) -> Result<Vec<(String, i64)>, Error> {
        let mut rows = Vec::new();
        scan(path, &["name"], &["number"], &|_| true, |chunk| {
            let ((codes, dictionary), numbers) = (chunk.texts("name")?, chunk.numbers("number")?);
            for (code, number) in codes.iter().zip(numbers) {
                let text = String::from_utf8_lossy(&dictionary[*code as usize]).into_owned();
                rows.push((text, *number));
            }
            Ok(())
        })?;
        Ok(rows)
    }

    #[test]
    fn files_of_all_writers_have_the_same_rows() {
        let expected: Vec<_> = (0..50_000).map(|row| (word(row), i64::try_from(row).unwrap())).collect();
        let plain = || WriterProperties::builder().set_dictionary_enabled(false);
        // The dictionary is given up where it has more than 500 octets.
        let small = || WriterProperties::builder().set_dictionary_page_size_limit(500);
        let second = WriterVersion::PARQUET_2_0;
        let writers = [
            WriterProperties::builder(),
            WriterProperties::builder().set_writer_version(second),
            small(),
            small().set_writer_version(second),
            plain(),
            plain().set_encoding(Encoding::DELTA_LENGTH_BYTE_ARRAY),
            plain().set_encoding(Encoding::DELTA_BYTE_ARRAY).set_writer_version(second),
        ];
        for (number, writer) in writers.into_iter().enumerate() {
            let properties = writer.set_column_encoding("number".into(), Encoding::PLAIN).build();
            for optional in [false, true] {
                let file = written(properties.clone(), optional, None);
                let rows = scanned(file.path()).unwrap();
                assert!(rows == expected, "writer {number}, optional: {optional}");
                if optional {
                    let file = written(properties.clone(), true, Some(33_333));
                    let why = scanned(file.path()).unwrap_err().to_string();
                    assert!(why.contains("nulls are not expected"), "writer {number}: {why}");
                }
            }
        }
    }

    #[test]
    fn damaged_pages_are_errors() {
        let file = written(WriterProperties::builder().build(), true, None);
        let octets = std::fs::read(file.path()).unwrap();
        let expected = scanned(file.path()).unwrap();
        let mut dice = pct_kit::Dice::new(5);
        for _ in 0..300 {
            let mut damaged = octets.clone();
            let at = dice.index(damaged.len());
            damaged[at] ^= 1 << dice.below(8);
            std::fs::write(file.path(), &damaged).unwrap();
            // Other values may come out, but no panic and no row too many.
            if let Ok(rows) = scanned(file.path()) {
                assert!(rows.len() <= expected.len(), "octet {at}: {} rows", rows.len());
            }
        }
    }
}
