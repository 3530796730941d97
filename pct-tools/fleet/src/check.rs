//! Whether a root is sound: every file is read, ids are made again, and what refers to something finds it.

use crate::columns::{self, Table as _};
use crate::compact::{dates, hours};
use crate::ids::{NO_STACK, STACK_ID, stack_id};
use crate::pieces::Error;
use crate::root::parts_of;
use crate::rows::Rows;
use crate::scan::scan;
use crate::tables::{Build, Host, Location, Sample, Stack};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Files and rows of each table.
    pub tables: BTreeMap<&'static str, (u64, u64)>,
    /// Sums of `value` and `lost`, nanoseconds.
    pub sums: (i64, i64),
    /// Nanoseconds of stacks that no file has.
    pub unknown_stacks_ns: i64,
    /// Places in code without a name.
    pub nameless_places: u64,
    /// What is wrong, a line each.
    pub problems: Vec<String>,
}

/// Looks through a root.
#[must_use]
pub fn check(root: &Path) -> Found {
    let mut found = Found::default();
    let mut problems = Vec::new();
    let stack_folders = dates(&root.join(Stack::NAME), &mut problems);
    let host_folders = dates(&root.join(Host::NAME), &mut problems);
    let hours = hours(root, &mut problems);
    found.problems.append(&mut problems);

    let mut known: FxHashSet<[u8; STACK_ID]> = FxHashSet::default();
    let mut places: FxHashSet<(Vec<u8>, i64)> = FxHashSet::default();
    found.each::<Stack>(&stack_folders, &mut |file, rows, problems| {
        for row in rows {
            if stack_id(&row.frames) != row.stack_id {
                problems.push(format!("{}: a stack is not the one that its id names", file.display()));
            }
            known.insert(row.stack_id);
            places.extend(row.frames.iter().map(|frame| (frame.build_id.clone(), frame.addr)));
        }
    });
    found.each::<Location>(&[root.join(Location::NAME)], &mut |_, rows, _| {
        for row in rows {
            places.remove(&(row.build_id.clone(), row.addr));
        }
    });
    found.nameless_places = places.len() as u64;
    found.each::<Build>(&[root.join(Build::NAME)], &mut |_, _, _| {});
    found.each::<Host>(&host_folders, &mut |_, _, _| {});
    let mut claimed: FxHashMap<(&Path, String), PathBuf> = FxHashMap::default();
    let (mut files, mut rows) = (0, 0);
    for folder in &hours {
        for file in parts_of(folder, &mut found.problems) {
            files += 1;
            match found.samples(&file, &known) {
                Ok(more) => rows += more,
                Err(why) => found.problems.push(why.to_string()),
            }
            for segment in columns::segments_of(&file).unwrap_or_default() {
                if let Some(other) = claimed.insert((folder, segment), file.clone()) {
                    found.problems.push(format!(
                        "{}: it has rows of a recording that {} has too (pct-fleet compact leaves them out)",
                        file.display(),
                        other.file_name().unwrap_or_default().display()
                    ));
                    break;
                }
            }
        }
    }
    found.tables.insert(Sample::NAME, (files, rows));
    found
}

/// Told of each file: its rows, and where problems are noted.
type FileVisitor<'a, T> = &'a mut dyn FnMut(&Path, &[T], &mut Vec<String>);

impl Found {
    /// Adds a file of samples up; says how many rows it has.
    fn samples(&mut self, file: &Path, known: &FxHashSet<[u8; STACK_ID]>) -> Result<u64, Error> {
        // All columns are read, so that damage in each of them is found.
        let texts = ["service", "version", "host", "env", "kind", "thread", "stack_id"];
        let mut rows = 0;
        let (mut group, mut is_known) = (None, Vec::new());
        scan(file, &texts, &["ts", "samples", "value", "lost"], &|_| true, |chunk| {
            if group != Some(chunk.group) {
                group = Some(chunk.group);
                is_known.clear();
            }
            let (stacks, ids) = chunk.texts("stack_id")?;
            let is_found = |id: &[u8]| {
                id == NO_STACK || <[u8; STACK_ID]>::try_from(id).is_ok_and(|id| known.contains(&id))
            };
            is_known.extend(ids.iter().skip(is_known.len()).map(|id| is_found(id)));
            for ((&stack, &value), &lost) in
                stacks.iter().zip(chunk.numbers("value")?).zip(chunk.numbers("lost")?)
            {
                self.sums = (self.sums.0.saturating_add(value), self.sums.1.saturating_add(lost));
                if !is_known[stack as usize] {
                    self.unknown_stacks_ns = self.unknown_stacks_ns.saturating_add(value);
                }
            }
            rows += chunk.rows as u64;
            Ok(())
        })?;
        Ok(rows)
    }

    /// Reads the files of a table's folders.
    fn each<T: Rows>(&mut self, folders: &[PathBuf], look: FileVisitor<'_, T>) {
        let mut sums = (0, 0);
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            for file in parts_of(folder, &mut self.problems) {
                let mut rows = Vec::new();
                match T::read(&file, &mut rows) {
                    Ok(()) => look(&file, &rows, &mut self.problems),
                    Err(why) => self.problems.push(why.to_string()),
                }
                sums = (sums.0 + 1, sums.1 + rows.len() as u64);
            }
        }
        self.tables.insert(T::NAME, sums);
    }
}
