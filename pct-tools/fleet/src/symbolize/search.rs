//! What has no name, what was found of it, and the rows that come of that.

use crate::columns::{self, Table as _};
use crate::compact::{Steps, dates};
use crate::ids::{Kind, hex};
use crate::pieces::{self, Error};
use crate::root::{self, content_hash, parts_of};
use crate::rows::{FRAME_COLUMNS, Rows as _, for_each_location};
use crate::tables::{Build, Location, Stack};
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Addresses by build.
pub(super) type Places = BTreeMap<Vec<u8>, BTreeSet<i64>>;

/// A build with places that have no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamelessBuild {
    /// Base name of its file; empty if no host wrote it.
    pub name: String,
    /// Its build-id, in hexadecimal digits.
    pub build_id: String,
    /// How many of its places have no name.
    pub places: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Places that got a name.
    pub named: u64,
    /// Builds that these are of.
    pub builds: u64,
    /// What has no name still, the builds with most places first.
    pub nameless: Vec<NamelessBuild>,
    /// Remarks on files that were looked at and not used.
    pub notes: Vec<String>,
    /// What went wrong, a line each.
    pub problems: Vec<String>,
}

/// Where names of a build are from, the better one later; as in `builds.symbols`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Symbols {
    None,
    Table,
    Dwarf,
}

impl Symbols {
    fn as_word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Table => "table",
            Self::Dwarf => "dwarf",
        }
    }

    fn from_word(word: &str) -> Self {
        [Self::Table, Self::Dwarf].into_iter().find(|said| said.as_word() == word).unwrap_or(Self::None)
    }
}

/// A build's rows: the one that is kept, and the best that any says of its symbols.
struct KnownBuild {
    row: Build,
    symbols: Symbols,
}

/// What is asked and what was answered so far.
pub(super) struct Search {
    /// Places without a name.
    pub(super) nameless: Places,
    /// Those of them that no row of `locations` has.
    without_row: Places,
    builds: BTreeMap<Vec<u8>, KnownBuild>,
    rows: Vec<Location>,
    found: BTreeMap<Vec<u8>, Symbols>,
    pub(super) outcome: Outcome,
}

/// The places of machine code in stacks that no host named, and those of them that no row of `locations` has.
fn nameless(root: &Path, problems: &mut Vec<String>) -> (Places, Places) {
    let mut places = Places::new();
    for folder in dates(&root.join(Stack::NAME), problems) {
        for file in parts_of(&folder, problems) {
            problems.extend(add_places(&file, &mut places).err().map(|why| why.to_string()));
        }
    }
    let mut without_row = places.clone();
    let folder = root.join(Location::NAME);
    let files = if folder.is_dir() { parts_of(&folder, problems) } else { Vec::new() };
    for file in files {
        let mut told = Vec::new();
        let has = |build: &[u8], addr: i64| places.get(build).is_some_and(|addrs| addrs.contains(&addr));
        let done = for_each_location(&file, has, |row| {
            if row.depth == 0 {
                told.push((row.build_id, row.addr, is_name(&row.function)));
            }
        });
        problems.extend(done.err().map(|why| why.to_string()));
        for (build, addr, named) in told {
            remove(&mut without_row, &build, addr);
            if named {
                // Another file may say so too; then it is gone already.
                remove(&mut places, &build, addr);
            }
        }
    }
    (places, without_row)
}

fn remove(places: &mut Places, build: &[u8], addr: i64) {
    if let Some(addrs) = places.get_mut(build) {
        addrs.remove(&addr);
        if addrs.is_empty() {
            places.remove(build);
        }
    }
}

/// Whether a function's name is one, not `[object+0x1234]`.
fn is_name(function: &str) -> bool {
    !function.starts_with('[')
}

fn add_places(file: &Path, places: &mut Places) -> Result<(), Error> {
    let [build, addr, kind] = FRAME_COLUMNS;
    pieces::read(file, &[build, addr, kind], &|_| true, |piece| {
        let (builds, addrs, kinds) = (piece.octets(build)?, piece.int64(addr)?, piece.octets(kind)?);
        for ((build, addr), kind) in builds.iter().zip(addrs).zip(kinds) {
            if kind.data() != Kind::Native.as_word().as_bytes() {
                continue;
            }
            if let Some(known) = places.get_mut(build.data()) {
                known.insert(*addr);
            } else {
                places.insert(build.data().to_vec(), BTreeSet::from([*addr]));
            }
        }
        Ok(())
    })
}

fn builds(root: &Path, problems: &mut Vec<String>) -> BTreeMap<Vec<u8>, KnownBuild> {
    let mut rows: Vec<Build> = Vec::new();
    let folder = root.join(Build::NAME);
    let files = if folder.is_dir() { parts_of(&folder, problems) } else { Vec::new() };
    for file in files {
        problems.extend(Build::read(&file, &mut rows).err().map(|why| why.to_string()));
    }
    rows.sort_by(|a, b| (&a.build_id, a.first_seen, a).cmp(&(&b.build_id, b.first_seen, b)));
    let mut builds: BTreeMap<Vec<u8>, KnownBuild> = BTreeMap::new();
    for row in rows {
        let symbols = Symbols::from_word(&row.symbols);
        let known = builds.entry(row.build_id.clone()).or_insert(KnownBuild { row, symbols });
        known.symbols = known.symbols.max(symbols);
    }
    builds
}

impl Search {
    /// What a root asks for.
    pub(super) fn begin(root: &Path, mut problems: Vec<String>) -> Self {
        let (nameless, without_row) = nameless(root, &mut problems);
        let builds = builds(root, &mut problems);
        let outcome = Outcome { problems, ..Outcome::default() };
        Self { nameless, without_row, builds, rows: Vec::new(), found: BTreeMap::new(), outcome }
    }

    /// Base name of a build's file, for looking it up: no path, whatever a file of the root says.
    pub(super) fn file_name(&self, build: &[u8]) -> Option<&str> {
        let name = &self.builds.get(build)?.row.name;
        let name = name.strip_suffix(" (deleted)").unwrap_or(name);
        (!name.is_empty() && !name.contains(['/', '\0']) && name != "..").then_some(name)
    }

    /// What rows say of a build's file.
    pub(super) fn shown_name(&self, build: &[u8]) -> String {
        match self.builds.get(build) {
            Some(known) => known.row.name.clone(),
            None => hex(build.get(..4).unwrap_or(build)),
        }
    }

    /// A place has these names, innermost first.
    pub(super) fn name(&mut self, build: &[u8], addr: i64, rows: Vec<Location>, symbols: Symbols) {
        remove(&mut self.nameless, build, addr);
        self.rows.extend(rows);
        self.outcome.named += 1;
        let found = self.found.entry(build.to_vec()).or_insert(Symbols::None);
        *found = symbols.max(*found);
    }

    /// Gives the places that no row has the name that hosts write where they know none.
    pub(super) fn name_by_object(&mut self) {
        for (build, addrs) in &self.without_row {
            let Some(nameless) = self.nameless.get(build) else { continue };
            let object = self.shown_name(build);
            let row = |&addr: &i64| Location {
                build_id: build.clone(),
                addr,
                depth: 0,
                function: format!("[{object}+{addr:#x}]"),
                object: object.clone(),
                file: String::new(),
                line: 0,
            };
            self.rows.extend(addrs.intersection(nameless).map(row));
        }
    }

    /// Writes the new rows.
    pub(super) fn write(&mut self, root: &Path, aside: &Path, step: Steps<'_>) -> Result<()> {
        let better = |(build, found): (&Vec<u8>, &Symbols)| {
            let known = self.builds.get(build).filter(|known| *found > known.symbols)?;
            Some(Build { symbols: found.as_word().to_owned(), ..known.row.clone() })
        };
        let builds: Vec<Build> = self.found.iter().filter_map(better).collect();
        self.rows.sort();
        self.rows.dedup();
        write(root, aside, &builds, step)?;
        write(root, aside, &self.rows, step)
    }

    pub(super) fn finish(self) -> Outcome {
        let nameless = |(build, addrs): (&Vec<u8>, &BTreeSet<i64>)| NamelessBuild {
            name: self.builds.get(build).map_or_else(String::new, |known| known.row.name.clone()),
            build_id: hex(build),
            places: addrs.len() as u64,
        };
        let mut nameless: Vec<NamelessBuild> = self.nameless.iter().map(nameless).collect();
        nameless.sort_by_key(|row| std::cmp::Reverse(row.places));
        Outcome { builds: self.found.len() as u64, nameless, ..self.outcome }
    }
}

/// Writes rows as a file of their table.
fn write<T: columns::Table>(root: &Path, aside: &Path, rows: &[T], step: Steps<'_>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let octets = columns::file(rows, &[]).with_context(|| T::NAME)?;
    let path = root.join(T::NAME).join(format!("part-symbols-{}.parquet", content_hash(&octets)));
    root::replace_file_from(aside, &path, &octets, step)
}
