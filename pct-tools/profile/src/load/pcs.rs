//! The histogram of interrupted addresses, without stacks: what `pct-print` prints.
//!
//! Addresses are object-relative, so that the same code in several processes is one row. The symbolizer with all
//! objects registered comes along, for the built-in translation; other translators need only object and address.

use super::raw::{ROOT, Raw, RawFrame};
use super::{Error, Options, Progress, each_once, files_of, note_or_first, whole};
use crate::model::Account;
use pct_symbols::{CodeAddr, Image, ObjectId, ObjectKind, Symbolizer, image_of};
use rustc_hash::FxHashMap;
use std::path::PathBuf;

/// One address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The object, in [`Pcs::symbols`]; `None`: in no region.
    pub object: Option<ObjectId>,
    /// Offset in the object's file; for code without a file the address in the process (of code that was made
    /// at run time with its age, see [`pct_symbols::jit`]); 0 for `None`.
    pub offset: u64,
    /// Samples.
    pub samples: u64,
    /// CPU time in nanoseconds.
    pub ns: u64,
}

/// All addresses that were sampled.
#[derive(Debug)]
pub struct Pcs {
    /// The rows, most samples first.
    pub rows: Vec<Row>,
    /// Knows the objects; nothing is resolved yet.
    pub symbols: Symbolizer,
    /// Translators that the files' headers name, by object.
    pub translators: FxHashMap<ObjectId, String>,
    /// Notes and losses.
    pub account: Account,
    images: FxHashMap<ObjectId, Option<Image>>,
}

impl Pcs {
    /// Reads the files.
    ///
    /// # Errors
    /// When none of the paths could be read: the first one's error. Others are notes of the account.
    pub fn load(paths: &[PathBuf], progress: Progress<'_>) -> Result<Self, Error> {
        let mut symbols = Symbolizer::default();
        let mut account = Account::default();
        let mut raw = Raw::new(&Options::default());
        let mut first_error = None;
        let mut translators = FxHashMap::default();
        let mut all = Vec::new();
        for path in paths {
            let files = files_of(path).map_err(|error| note_or_first(&mut first_error, &mut account, error));
            let mut files = files.unwrap_or_default();
            all.append(&mut files);
        }
        each_once(&mut all);
        for (done, file) in all.iter().enumerate() {
            progress("reading", done as u64, all.len() as u64);
            let before = raw.nodes.len();
            match raw.read(file, whole::read(file), &mut symbols, &mut account) {
                Ok(None) => {}
                Ok(Some(translator)) => {
                    for (_, place) in &raw.nodes[before..] {
                        if let RawFrame::Code(object, _) = place {
                            translators.entry(*object).or_insert_with(|| translator.clone());
                        }
                    }
                }
                Err(error) => note_or_first(&mut first_error, &mut account, error),
            }
        }
        match first_error {
            Some(error) if raw.is_empty() => return Err(error),
            Some(error) => {
                account.unreadable += 1;
                account.note(error.to_string());
            }
            None => {}
        }
        let mut sums: FxHashMap<(Option<ObjectId>, u64), (u64, u64)> = FxHashMap::default();
        for ((_, node), sum) in &raw.sums {
            let (mut parent, mut place) = raw.nodes[*node as usize];
            // Time in the kernel belongs to the place that entered it.
            while matches!(
                place,
                RawFrame::System
                    | RawFrame::Waiting
                    | RawFrame::Blocked(_)
                    | RawFrame::Kernel(..)
                    | RawFrame::Boundary(_)
            ) && parent != ROOT
            {
                (parent, place) = raw.nodes[parent as usize];
            }
            let key = match place {
                RawFrame::Code(object, address) => (Some(object), address.lookup()),
                _ => (None, 0),
            };
            let row = sums.entry(key).or_default();
            row.0 = row.0.saturating_add(sum.samples);
            row.1 = row.1.saturating_add(sum.ns);
        }
        let mut rows: Vec<Row> = sums
            .into_iter()
            .map(|((object, offset), (samples, ns))| Row { object, offset, samples, ns })
            .collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.samples), row.object, row.offset));
        Ok(Self { rows, symbols, translators, account, images: FxHashMap::default() })
    }

    /// The address as the object's own tools (`objdump -d`, `addr2line`) write it; the offset where the file is gone.
    pub fn address(&mut self, row: &Row) -> u64 {
        let Some(object) = row.object else { return row.offset };
        let info = self.symbols.object(object);
        match info.kind {
            ObjectKind::File => {}
            ObjectKind::Jit { .. } => return pct_symbols::jit::address_of(row.offset),
            ObjectKind::Vdso | ObjectKind::Kernel | ObjectKind::Opaque => return row.offset,
        }
        let image = self.images.entry(object).or_insert_with(|| image_of(info).ok());
        image.as_ref().and_then(|image| image.address_of_offset(row.offset)).unwrap_or(row.offset)
    }

    /// Resolves all rows by the built-in translation.
    pub fn resolve(&mut self) {
        let queries: Vec<(ObjectId, CodeAddr)> =
            self.rows.iter().filter_map(|row| Some((row.object?, CodeAddr::Pc(row.offset)))).collect();
        self.symbols.resolve(queries);
    }

    /// The built-in translation of a row after [`Self::resolve`]: `function+0x1f file:line (object)`.
    #[must_use]
    pub fn words(&self, row: &Row) -> String {
        let Some(object) = row.object else { return "[unknown]".into() };
        let address = CodeAddr::Pc(row.offset);
        let mut words = match self.symbols.frames(object, address).first() {
            Some(frame) => {
                let mut words = self.symbols.text(frame.function).to_owned();
                // Inlined code has no start of its own.
                if let Some(into) =
                    self.symbols.offset_in_function(object, address).filter(|_| !frame.inlined)
                {
                    words += &format!("+0x{into:x}");
                }
                if let Some(file) = frame.file {
                    words += &format!(" {}:{}", self.symbols.text(file), frame.line);
                }
                words
            }
            None => "??".into(),
        };
        let path = &self.symbols.object(object).path;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        words += &if name.is_empty() { " ([jit])".to_owned() } else { format!(" ({name})") };
        words
    }
}
