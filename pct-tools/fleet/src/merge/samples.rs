//! Rows of samples merged within bounded memory.
//!
//! Texts are numbers into lists of names here, so a row has 64 octets. Files are read once to count the rows
//! of each service, version and first octet of the stack's id, and as long as all rows fit, they are kept.
//! Where they do not, the files are read again for each part of the table that fits; parts follow each other
//! in the table's order, so the file is written part by part.

use super::{Failure, Merger};
use crate::columns::{Columns, Problem, Writer};
use crate::ids::STACK_ID;
use crate::pieces::Error;
use crate::scan::{Chunk, may_have, scan};
use crate::tables::Sample;
use bytes::Bytes;
use parquet::data_type::ByteArray;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Rows in memory at once: 128 MiB, and half of that again while they are sorted.
const ROWS: usize = 2 << 20;

const TEXTS: [&str; 7] = ["service", "version", "host", "env", "kind", "thread", "stack_id"];
const NUMBERS: [&str; 4] = ["ts", "samples", "value", "lost"];

/// What becomes of the rows.
pub(crate) struct How<'a> {
    /// Whether rows of this service and host are kept.
    pub(crate) keep: &'a dyn Fn(&str, &str) -> bool,
    /// Microseconds that a row shall sum up; those of the files, or a multiple.
    pub(crate) interval: i64,
    /// Rows of all hosts become one, without a name of a host.
    pub(crate) without_hosts: bool,
    /// Rows in memory at once, at least one.
    pub(crate) rows: usize,
}

impl Default for How<'_> {
    fn default() -> Self {
        Self { keep: &|_, _| true, interval: crate::INTERVAL_S * 1_000_000, without_hosts: false, rows: ROWS }
    }
}

/// Texts, and a number for each in the order in which they were met.
#[derive(Default)]
struct Names {
    texts: Vec<Bytes>,
    known: FxHashMap<Bytes, u32>,
}

impl Names {
    fn number(&mut self, text: &Bytes) -> u32 {
        if let Some(&number) = self.known.get(text) {
            return number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        // A copy, since the dictionary's octets hold on to a whole page.
        let read = Bytes::copy_from_slice(text);
        self.texts.push(match std::str::from_utf8(&read) {
            Ok(_) => read.clone(),
            Err(_) => String::from_utf8_lossy(&read).into_owned().into(),
        });
        self.known.insert(read, number);
        number
    }

    fn text(&self, number: u32) -> &[u8] {
        self.texts.get(number as usize).map_or(&[], |text| text.as_ref())
    }
}

/// Pairs of numbers of texts, as one number.
#[derive(Default)]
struct Pairs {
    pairs: Vec<(u32, u32)>,
    known: FxHashMap<(u32, u32), u32>,
    last: Option<((u32, u32), u32)>,
}

impl Pairs {
    fn number(&mut self, pair: (u32, u32)) -> u32 {
        // Rows are sorted, so the pair is mostly the last one.
        if let Some((_, number)) = self.last.filter(|(last, _)| *last == pair) {
            return number;
        }
        let pairs = &mut self.pairs;
        let number = *self.known.entry(pair).or_insert_with(|| {
            pairs.push(pair);
            u32::try_from(pairs.len() - 1).unwrap_or(u32::MAX)
        });
        self.last = Some((pair, number));
        number
    }
}

/// The texts of all rows so far.
#[derive(Default)]
struct Dictionary {
    names: Names,
    /// Service and version.
    services: Pairs,
    /// Kind and environment.
    kinds: Pairs,
}

impl Dictionary {
    fn len(&self) -> (usize, usize, usize) {
        (self.names.texts.len(), self.services.pairs.len(), self.kinds.pairs.len())
    }
}

/// A row of samples; the fields above `samples` are its place in the table's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    service: u32,
    stack: u128,
    host: u32,
    ts: i64,
    thread: u32,
    kind: u32,
    samples: i32,
    value: i64,
    lost: i64,
}

impl Row {
    fn is_same(&self, other: &Self) -> bool {
        let place = |row: &Self| (row.service, row.stack, row.host, row.ts, row.thread, row.kind);
        place(self) == place(other)
    }

    /// The part of the table that the row is in: its service and version, and the first octet of its stack's id.
    fn cell(&self) -> Cell {
        let [first, ..] = self.stack.to_be_bytes();
        (self.service, first)
    }
}

/// Service and version, and the first octet of a stack's id.
type Cell = (u32, u8);

/// Merges files of samples.
pub(crate) struct Samples<'a> {
    how: How<'a>,
    files: Vec<PathBuf>,
    dictionary: Dictionary,
    cells: FxHashMap<Cell, u64>,
    /// All rows, while they fit.
    rows: Option<Vec<Row>>,
    kept: u64,
    removed: u64,
}

impl<'a> Samples<'a> {
    pub(crate) fn new(how: How<'a>) -> Self {
        Self {
            how,
            files: Vec::new(),
            dictionary: Dictionary::default(),
            cells: FxHashMap::default(),
            rows: Some(Vec::new()),
            kept: 0,
            removed: 0,
        }
    }
}

impl Merger for Samples<'_> {
    type Row = Sample;

    fn add(&mut self, file: &Path) -> Result<(), Error> {
        let Self { how, dictionary, rows, .. } = self;
        let mut cells: FxHashMap<Cell, u64> = FxHashMap::default();
        let (mut kept, mut removed) = (0, 0);
        let before = rows.as_ref().map_or(0, Vec::len);
        let mut held = rows.take();
        let mut reader = Reader::new(how);
        let read = scan(file, &TEXTS, &NUMBERS, &|_| true, |chunk| {
            reader.each(chunk, dictionary, |row| {
                let Some(row) = row else {
                    removed += 1;
                    return;
                };
                kept += 1;
                *cells.entry(row.cell()).or_default() += 1;
                if let Some(rows) = &mut held {
                    rows.push(row);
                    if rows.len() > how.rows {
                        held = None;
                    }
                }
            })
        });
        if let (Err(_), Some(rows)) = (&read, &mut held) {
            rows.truncate(before);
        }
        *rows = held;
        read?;
        for (cell, count) in cells {
            *self.cells.entry(cell).or_default() += count;
        }
        self.kept += kept;
        self.removed += removed;
        self.files.push(file.to_owned());
        Ok(())
    }

    fn kept(&self) -> u64 {
        self.kept
    }

    fn removed(&self) -> u64 {
        self.removed
    }

    fn write<W: Write + Send>(self, to: &mut Writer<Sample, W>) -> Result<(), Failure> {
        let Self { how, files, mut dictionary, cells, rows, kept, .. } = self;
        let (order, known) = (Order::by_meaning(&dictionary), dictionary.len());
        if let Some(mut rows) = rows {
            rows.iter_mut().for_each(|row| order.apply(row));
            return Ok(write_rows(rows, &dictionary, &order, to)?);
        }
        let mut read = 0;
        let mut sorted: BTreeMap<Cell, u64> = BTreeMap::new();
        for ((service, first), count) in cells {
            sorted.insert((rank(&order.services, service), first), count);
        }
        for part in parts(&sorted, how.rows as u64) {
            let mut rows: Vec<Row> = Vec::new();
            let (first, last) = order.services_of(&dictionary, &part);
            for file in &files {
                let mut reader = Reader::new(&how);
                scan(file, &TEXTS, &NUMBERS, &|group| may_have(group, "service", &first, &last), |chunk| {
                    reader.each(chunk, &mut dictionary, |row| {
                        let Some(mut row) = row else { return };
                        order.apply(&mut row);
                        if part.contains(&row.cell()) {
                            rows.push(row);
                        }
                    })
                })?;
            }
            read += rows.len() as u64;
            write_rows(rows, &dictionary, &order, to)?;
        }
        // Ranks are of what was read first.
        if read == kept && dictionary.len() == known { Ok(()) } else { Err(Failure::Changed) }
    }
}

/// Cells in order, as ranges with at most so many rows; a cell with more stands alone.
fn parts(cells: &BTreeMap<Cell, u64>, most: u64) -> Vec<RangeInclusive<Cell>> {
    let mut parts: Vec<(RangeInclusive<Cell>, u64)> = Vec::new();
    for (&cell, &count) in cells {
        match parts.last_mut().filter(|(_, sum)| *sum + count <= most) {
            Some((part, sum)) => {
                *part = *part.start()..=cell;
                *sum += count;
            }
            None => parts.push((cell..=cell, count)),
        }
    }
    parts.into_iter().map(|(part, _)| part).collect()
}

/// Makes rows of the columns of a file.
struct Reader<'h> {
    how: &'h How<'h>,
    /// Row group that `numbers` is of.
    group: Option<usize>,
    /// By column of [`TEXTS`] but the stack's id: what the group's codes are in the dictionary.
    numbers: [Vec<u32>; 6],
    /// Ids of stacks by the group's codes.
    stacks: Vec<u128>,
    /// Service and host, by their numbers, to whether they are kept.
    kept: FxHashMap<(u32, u32), bool>,
}

impl<'h> Reader<'h> {
    fn new(how: &'h How<'h>) -> Self {
        Self { how, group: None, numbers: Default::default(), stacks: Vec::new(), kept: FxHashMap::default() }
    }

    /// Gives `take` each row; `None` for one that is left out.
    fn each(
        &mut self,
        chunk: &Chunk<'_>,
        dictionary: &mut Dictionary,
        mut take: impl FnMut(Option<Row>),
    ) -> Result<(), Error> {
        if self.group != Some(chunk.group) {
            self.group = Some(chunk.group);
            self.numbers = Default::default();
            self.stacks.clear();
        }
        let [services, versions, hosts, envs, kinds, threads, stacks] = TEXTS;
        let columns = [services, versions, hosts, envs, kinds, threads];
        let mut codes: [&[u32]; 6] = [&[]; 6];
        for ((column, numbers), codes) in columns.into_iter().zip(&mut self.numbers).zip(&mut codes) {
            let (found, texts) = chunk.texts(column)?;
            let fresh = texts.iter().skip(numbers.len());
            numbers.extend(fresh.map(|text| dictionary.names.number(text)));
            *codes = found;
        }
        let (stack_codes, ids) = chunk.texts(stacks)?;
        for id in ids.iter().skip(self.stacks.len()) {
            let id = <[u8; STACK_ID]>::try_from(id.as_ref())
                .map_err(|_| chunk.foreign(stacks, "fixed_len_byte_array(16)"))?;
            self.stacks.push(u128::from_be_bytes(id));
        }
        let [ts, samples, values, lost] = NUMBERS;
        let (ts, samples) = (chunk.numbers(ts)?, chunk.numbers(samples)?);
        let (values, lost) = (chunk.numbers(values)?, chunk.numbers(lost)?);
        let no_host = self.how.without_hosts.then(|| dictionary.names.number(&Bytes::new()));
        for at in 0..chunk.rows {
            // All columns have as many rows, and codes are within their dictionaries, as the scan has proved.
            let [service, version, host, env, kind, thread] = std::array::from_fn(|column| {
                let code = codes.get(column).and_then(|codes| codes.get(at)).copied().unwrap_or_default();
                rank(self.numbers.get(column).map_or(&[], Vec::as_slice), code)
            });
            let names = &dictionary.names;
            let how = self.how;
            let is_kept = self.kept.entry((service, host)).or_insert_with(|| {
                let text = |number: u32| String::from_utf8_lossy(names.text(number));
                (how.keep)(&text(service), &text(host))
            });
            if !*is_kept {
                take(None);
                continue;
            }
            let number = |column: &[i64]| column.get(at).copied().unwrap_or_default();
            let time = number(ts);
            let stack = stack_codes.get(at).and_then(|&code| self.stacks.get(code as usize));
            take(Some(Row {
                service: dictionary.services.number((service, version)),
                stack: stack.copied().unwrap_or_default(),
                host: no_host.unwrap_or(host),
                ts: time - time.rem_euclid(self.how.interval),
                thread,
                kind: dictionary.kinds.number((kind, env)),
                samples: i32::try_from(number(samples)).unwrap_or(i32::MAX),
                value: number(values),
                lost: number(lost),
            }));
        }
        Ok(())
    }
}

/// The member at a code; 0 behind the end.
fn rank(ranks: &[u32], code: u32) -> u32 {
    ranks.get(code as usize).copied().unwrap_or_default()
}

/// Numbers in the order of what they mean, by the numbers of a dictionary.
struct Order {
    names: Vec<u32>,
    services: Vec<u32>,
    kinds: Vec<u32>,
    /// The other way.
    by_rank: ByRank,
}

/// Numbers of a dictionary in the order of what they mean.
struct ByRank {
    names: Vec<u32>,
    services: Vec<u32>,
    kinds: Vec<u32>,
}

impl Order {
    fn by_meaning(dictionary: &Dictionary) -> Self {
        let (names, by_name) = ranks(dictionary.names.texts.len(), |number| dictionary.names.text(number));
        let pair = |pairs: &Pairs, number: u32| {
            let (first, second) = pairs.pairs.get(number as usize).copied().unwrap_or_default();
            (rank(&names, first), rank(&names, second))
        };
        let (services, by_service) =
            ranks(dictionary.services.pairs.len(), |number| pair(&dictionary.services, number));
        let (kinds, by_kind) = ranks(dictionary.kinds.pairs.len(), |number| pair(&dictionary.kinds, number));
        Self {
            names,
            services,
            kinds,
            by_rank: ByRank { names: by_name, services: by_service, kinds: by_kind },
        }
    }

    fn apply(&self, row: &mut Row) {
        row.service = rank(&self.services, row.service);
        row.host = rank(&self.names, row.host);
        row.thread = rank(&self.names, row.thread);
        row.kind = rank(&self.kinds, row.kind);
    }

    /// The first and last service of a part.
    fn services_of(&self, dictionary: &Dictionary, part: &RangeInclusive<Cell>) -> (Bytes, Bytes) {
        let name = |(service, _): &Cell| {
            let pair = dictionary.services.pairs.get(rank(&self.by_rank.services, *service) as usize);
            pair.map(|(service, _)| Bytes::copy_from_slice(dictionary.names.text(*service)))
                .unwrap_or_default()
        };
        (name(part.start()), name(part.end()))
    }
}

/// The rank of each number below `count`, and the numbers by rank.
fn ranks<K: Ord>(count: usize, meaning: impl Fn(u32) -> K) -> (Vec<u32>, Vec<u32>) {
    let mut numbers: Vec<u32> = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
    numbers.sort_by_key(|&number| meaning(number));
    let mut ranks = vec![0; numbers.len()];
    for (at, &number) in (0..).zip(&numbers) {
        if let Some(rank) = ranks.get_mut(number as usize) {
            *rank = at;
        }
    }
    (ranks, numbers)
}

/// Writes rows, sorted, those of one place as one.
fn write_rows<W: Write + Send>(
    mut rows: Vec<Row>,
    dictionary: &Dictionary,
    order: &Order,
    to: &mut Writer<Sample, W>,
) -> Result<(), Problem> {
    // Stable: it finds that files are sorted, and merges them.
    rows.sort();
    rows.dedup_by(|more, row| {
        let same = row.is_same(more);
        if same {
            row.samples = row.samples.saturating_add(more.samples);
            row.value = row.value.saturating_add(more.value);
            row.lost = row.lost.saturating_add(more.lost);
        }
        same
    });
    let texts = |numbers: &[u32]| -> Vec<ByteArray> {
        numbers.iter().map(|&number| ByteArray::from(dictionary.names.text(number).to_vec())).collect()
    };
    let pairs = |pairs: &Pairs, by_rank: &[u32]| -> (Vec<u32>, Vec<u32>) {
        let of = |&number: &u32| pairs.pairs.get(number as usize).copied().unwrap_or_default();
        by_rank.iter().map(of).unzip()
    };
    let names = texts(&order.by_rank.names);
    let (services, versions) = pairs(&dictionary.services, &order.by_rank.services);
    let (kinds, envs) = pairs(&dictionary.kinds, &order.by_rank.kinds);
    let (services, versions) = (texts(&services), texts(&versions));
    let (kinds, envs) = (texts(&kinds), texts(&envs));
    to.add_groups(&rows, |rows: &[Row], columns: &mut Columns<'_, W>| {
        let codes = |of: fn(&Row) -> u32| rows.iter().map(of);
        columns.int64(rows.iter().map(|row| row.ts))?;
        columns.coded(codes(|row| row.service), &services)?;
        columns.coded(codes(|row| row.service), &versions)?;
        columns.coded(codes(|row| row.host), &names)?;
        columns.coded(codes(|row| row.thread), &names)?;
        columns.coded(codes(|row| row.kind), &envs)?;
        columns.ids(rows.iter().map(|row| row.stack))?;
        columns.coded(codes(|row| row.kind), &kinds)?;
        columns.int32(rows.iter().map(|row| row.samples))?;
        columns.int64(rows.iter().map(|row| row.value))?;
        columns.int64(rows.iter().map(|row| row.lost))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns;
    use crate::gather::merge_samples;
    use pct_kit::Dice;

    const MINUTE: i64 = 60_000_000;

    /// Rows of a host in the table's order, some of which are like those of other hosts but for the host.
    fn rows_of(host: u64, count: usize) -> Vec<Sample> {
        let mut dice = Dice::new(host + 1);
        let mut word = |stem: &str, most: u64| format!("{stem}{}", dice.below(most));
        let mut rows: Vec<Sample> = Vec::new();
        for at in 0..count {
            let at = u8::try_from(at % 7).unwrap();
            rows.push(Sample {
                service: word("s", 3),
                version: word("v", 2),
                stack_id: std::array::from_fn(|octet| if octet < 2 { at * 36 } else { 1 }),
                host: format!("h{host}"),
                ts: i64::from(at % 3) * 7 * MINUTE,
                thread: word("t", 2),
                kind: "cpu".to_owned(),
                env: word("e", 2),
                samples: 1 + i32::from(at),
                value: 1000 + i64::from(at),
                lost: i64::from(at % 2),
            });
        }
        merge_samples(rows)
    }

    fn written(files: &[PathBuf], how: How<'_>) -> (Vec<u8>, u64, u64) {
        let mut samples = Samples::new(how);
        for file in files {
            samples.add(file).unwrap();
        }
        let (kept, removed) = (samples.kept(), samples.removed());
        let mut writer = Writer::new(Vec::new(), &[]).unwrap();
        samples.write(&mut writer).unwrap();
        (writer.finish().unwrap(), kept, removed)
    }

    fn read(octets: Vec<u8>) -> Vec<String> {
        use parquet::file::reader::{FileReader as _, SerializedFileReader};
        let reader = SerializedFileReader::new(Bytes::from(octets)).unwrap();
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
    }

    fn expected(rows: Vec<Sample>) -> Vec<String> {
        read(columns::file(&merge_samples(rows), &[]).unwrap())
    }

    /// Files of four hosts, and all their rows.
    fn files(folder: &Path) -> (Vec<PathBuf>, Vec<Sample>) {
        let mut all = Vec::new();
        let mut paths = Vec::new();
        for host in 0..4 {
            let rows = rows_of(host % 3, 200);
            let path = folder.join(format!("part-{host}.parquet"));
            std::fs::write(&path, columns::file(&rows, &[]).unwrap()).unwrap();
            all.extend(rows);
            paths.push(path);
        }
        (paths, all)
    }

    #[test]
    fn parts_of_any_size_make_the_rows_of_a_merge_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let (files, all) = files(folder.path());
        let count = all.len() as u64;
        let wanted = expected(all);
        for rows in [1, 7, 50, 100_000] {
            let (octets, kept, removed) = written(&files, How { rows, ..How::default() });
            assert_eq!((kept, removed), (count, 0));
            assert_eq!(read(octets), wanted, "{rows} rows at once");
        }
    }

    #[test]
    fn rows_are_left_out_by_service_and_host_and_summed_over_hosts_and_time() {
        let folder = tempfile::tempdir().unwrap();
        let (files, mut all) = files(folder.path());
        let keep = |service: &str, host: &str| service != "s1" || host == "h2";
        let count = all.len();
        all.retain(|row| keep(&row.service, &row.host));
        let left = all.len();
        for row in &mut all {
            row.host.clear();
            row.ts -= row.ts % (10 * MINUTE);
        }
        let wanted = expected(all);
        for rows in [5, 100_000] {
            let how = How { keep: &keep, interval: 10 * MINUTE, without_hosts: true, rows };
            let (octets, kept, removed) = written(&files, how);
            assert_eq!((kept, removed), (left as u64, (count - left) as u64));
            assert_eq!(read(octets), wanted);
        }
    }

    #[test]
    fn of_a_damaged_file_nothing_is_taken_and_a_changed_one_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (files, all) = files(folder.path());
        let damaged = folder.path().join("damaged");
        let whole = std::fs::read(&files[3]).unwrap();
        let mut refused = 0;
        for at in (4..whole.len() - 8).step_by(whole.len() / 60) {
            let mut octets = whole.clone();
            octets[at] ^= 0x55;
            std::fs::write(&damaged, octets).unwrap();
            let mut samples = Samples::new(How { rows: 5, ..How::default() });
            samples.add(&files[0]).unwrap();
            let before = (samples.kept(), samples.cells.clone());
            if samples.add(&damaged).is_err() {
                assert_eq!((samples.kept(), samples.cells.clone()), before, "octet {at}");
                refused += 1;
            }
        }
        assert!(refused > 20, "{refused}");
        let mut samples = Samples::new(How { rows: 5, ..How::default() });
        for file in &files {
            samples.add(file).unwrap();
        }
        std::fs::write(&files[1], columns::file(&all, &[]).unwrap()).unwrap();
        let mut writer = Writer::new(Vec::new(), &[]).unwrap();
        assert!(matches!(samples.write(&mut writer), Err(Failure::Changed)));
    }
}
