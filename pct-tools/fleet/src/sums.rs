//! Rows of samples summed by stack and by who spent the time, row group by row group.

use crate::ids::{NO_STACK, STACK_ID};
use crate::pieces::Error;
use crate::questions::Which;
use crate::scan::{may_have, scan};
use bytes::Bytes;
use parquet::file::metadata::RowGroupMetaData;
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A column of `samples` that rows of an answer can be told apart by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The service.
    Service,
    /// Its version.
    Version,
    /// The host.
    Host,
    /// The environment.
    Env,
}

impl Part {
    fn column(self) -> &'static str {
        Self::ALL.iter().find(|(_, part)| *part == self).map_or("host", |(column, _)| column)
    }

    /// All, with their columns.
    pub const ALL: [(&'static str, Self); 4] =
        [("service", Self::Service), ("version", Self::Version), ("host", Self::Host), ("env", Self::Env)];
}

/// Who spent what: numbers into the texts of [`Sums`].
pub(crate) type Whose = (u32, u32);

/// Sums of rows.
#[derive(Default)]
pub(crate) struct Sums {
    /// Texts of the parts with spaces between them, and names of threads.
    pub(crate) texts: Vec<String>,
    known: FxHashMap<String, u32>,
    /// Samples and nanoseconds.
    pub(crate) cells: FxHashMap<(Whose, [u8; STACK_ID]), (i64, i64)>,
    pub(crate) lost_ns: i64,
}

impl Sums {
    /// Adds the sums of a row group: the codes of `parts` columns, then of the thread, have these meanings.
    fn close_group(
        &mut self,
        group: &GroupSums,
        parts: usize,
        dictionaries: &[Vec<Bytes>],
        stack_ids: &[Bytes],
    ) {
        let meaning = |(column, &code): (usize, &u32)| {
            let value = dictionaries.get(column).and_then(|dictionary| dictionary.get(code as usize));
            String::from_utf8_lossy(value.map_or(&[][..], |value| value.as_ref())).into_owned()
        };
        let mut whose = Vec::with_capacity(group.whose.len());
        for codes in &group.whose {
            let mut words = codes.iter().take(parts + 1).enumerate().map(meaning).collect::<Vec<_>>();
            let thread = words.pop().unwrap_or_default();
            whose.push((self.text(words.join(" ")), self.text(thread)));
        }
        for (&(number, stack), more) in &group.cells {
            let id =
                stack_ids.get(stack as usize).and_then(|id| <[u8; STACK_ID]>::try_from(id.as_ref()).ok());
            let (Some(&whose), Some(id)) = (whose.get(number as usize), id) else { continue };
            // Rows without a stack carry losses only.
            if id != NO_STACK {
                let sum = self.cells.entry((whose, id)).or_default();
                *sum = (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1));
            }
        }
    }

    /// Adds the sums of other files.
    pub(crate) fn merge(&mut self, other: Self) {
        let texts: Vec<u32> = other.texts.into_iter().map(|text| self.text(text)).collect();
        let text = |number: u32| texts.get(number as usize).copied().unwrap_or_default();
        for ((whose, stack), more) in other.cells {
            let sum = self.cells.entry(((text(whose.0), text(whose.1)), stack)).or_default();
            *sum = (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1));
        }
        self.lost_ns = self.lost_ns.saturating_add(other.lost_ns);
    }

    fn text(&mut self, text: String) -> u32 {
        if let Some(&number) = self.known.get(&text) {
            return number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.clone());
        self.known.insert(text, number);
        number
    }
}

/// Sums of the files, made by as many threads as there are processors (at most 8).
pub(crate) fn in_threads(
    files: &[PathBuf],
    add: impl Fn(&Path, &mut Sums) -> Result<(), Error> + Sync,
) -> Vec<(Sums, Vec<String>)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8).min(files.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut sums, mut problems) = (Sums::default(), Vec::new());
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = add(file, &mut sums) {
                problems.push(why.to_string());
            }
        }
        (sums, problems)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let told = running.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| (Sums::default(), vec!["a thread that reads failed".to_owned()]))
        });
        told.collect()
    })
}

const TEXTS: [&str; 7] = ["service", "version", "host", "env", "kind", "thread", "stack_id"];
const NUMBERS: [&str; 4] = ["ts", "samples", "value", "lost"];

fn filters(which: &Which) -> Vec<Wanted<'_>> {
    let wanted = [
        ("kind", Some(&which.kind)),
        ("service", which.service.as_ref()),
        ("version", which.release.as_ref()),
        ("host", which.host.as_ref()),
        ("env", which.env.as_ref()),
    ];
    wanted
        .map(|(column, value)| Wanted { column, value: value.map(String::as_str), is_wanted: Vec::new() })
        .into()
}

/// Which codes of a column's dictionary are wanted.
struct Wanted<'w> {
    column: &'static str,
    /// `None`: all are.
    value: Option<&'w str>,
    is_wanted: Vec<bool>,
}

impl Wanted<'_> {
    /// Judges the entries that the dictionary has got since.
    fn learn(&mut self, dictionary: &[Bytes]) {
        let wanted = self.value;
        let fresh = dictionary.iter().skip(self.is_wanted.len());
        self.is_wanted.extend(fresh.map(|said| wanted.is_none_or(|wanted| wanted.as_bytes() == said)));
    }
}

/// Sums of one row group, by codes.
#[derive(Default)]
struct GroupSums {
    /// Codes of the parts and the thread, and their numbers.
    known: FxHashMap<[u32; 5], u32>,
    whose: Vec<[u32; 5]>,
    /// By number of `whose` and code of the stack: samples and value.
    cells: FxHashMap<(u32, u32), (i64, i64)>,
}

impl GroupSums {
    fn number(&mut self, codes: [u32; 5]) -> u32 {
        let whose = &mut self.whose;
        *self.known.entry(codes).or_insert_with(|| {
            whose.push(codes);
            u32::try_from(whose.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn add(&mut self, cell: (u32, u32), more: (i64, i64)) {
        if more != (0, 0) {
            let sum = self.cells.entry(cell).or_default();
            *sum = (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1));
        }
    }
}

/// Adds the rows of a file. Each row group is summed by its own codes; texts and ids come in at its end, once
/// for each sum.
pub(crate) fn add(file: &Path, which: &Which, parts: &[Part], sums: &mut Sums) -> Result<(), Error> {
    let is_wanted = |group: &RowGroupMetaData| {
        let service = which.service.as_deref().map(str::as_bytes);
        service.is_none_or(|service| may_have(group, "service", service, service))
    };
    let columns: Vec<&'static str> = parts.iter().map(|part| part.column()).chain(["thread"]).collect();
    let from = which.from_interval().unwrap_or(i64::MIN);
    let to = which.to.unwrap_or(i64::MAX);
    let mut group = None;
    let mut of_group = GroupSums::default();
    let mut dictionaries: Vec<Vec<Bytes>> = Vec::new();
    let mut stack_ids: Vec<Bytes> = Vec::new();
    let mut filters = Vec::new();
    let mut lost_ns = 0i64;
    scan(file, &TEXTS, &NUMBERS, &is_wanted, |chunk| {
        if group != Some(chunk.group) {
            sums.close_group(&std::mem::take(&mut of_group), parts.len(), &dictionaries, &stack_ids);
            group = Some(chunk.group);
            filters = self::filters(which);
            dictionaries = vec![Vec::new(); columns.len()];
            stack_ids.clear();
        }
        let mut judged = Vec::new();
        for filter in &mut filters {
            let (codes, dictionary) = chunk.texts(filter.column)?;
            filter.learn(dictionary);
            if filter.is_wanted.contains(&false) {
                judged.push((codes, filter.is_wanted.as_slice()));
            }
        }
        let mut told_apart = Vec::new();
        for (column, known) in columns.iter().zip(&mut dictionaries) {
            let (codes, dictionary) = chunk.texts(column)?;
            told_apart.push(codes);
            known.extend_from_slice(dictionary.get(known.len()..).unwrap_or_default());
        }
        let (stacks, dictionary) = chunk.texts("stack_id")?;
        stack_ids.extend_from_slice(dictionary.get(stack_ids.len()..).unwrap_or_default());
        let (ts, samples) = (chunk.numbers("ts")?, chunk.numbers("samples")?);
        let (values, lost) = (chunk.numbers("value")?, chunk.numbers("lost")?);
        // Rows are sorted, so neighbours mostly belong to one sum.
        let (mut codes, mut whose) = ([0; 5], None);
        let (mut cell, mut sum) = ((0, 0), (0i64, 0i64));
        for row in 0..chunk.rows {
            if ts[row] < from
                || ts[row] >= to
                || judged.iter().any(|(codes, is_wanted)| !is_wanted[codes[row] as usize])
            {
                continue;
            }
            lost_ns = lost_ns.saturating_add(lost[row]);
            let mut here = [0; 5];
            for (code, column) in here.iter_mut().zip(&told_apart) {
                *code = column[row];
            }
            if whose.is_none() || codes != here {
                codes = here;
                whose = Some(of_group.number(here));
            }
            let here = (whose.unwrap_or_default(), stacks[row]);
            if here != cell {
                of_group.add(cell, sum);
                (cell, sum) = (here, (0, 0));
            }
            sum = (sum.0.saturating_add(samples[row]), sum.1.saturating_add(values[row]));
        }
        of_group.add(cell, sum);
        Ok(())
    })?;
    sums.close_group(&of_group, parts.len(), &dictionaries, &stack_ids);
    sums.lost_ns = sums.lost_ns.saturating_add(lost_ns);
    Ok(())
}
