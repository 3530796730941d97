//! The stacks that sums name, the places in code that stacks name, and what functions there are called.

use crate::ids::{Kind, STACK_ID};
use crate::pieces::{self, Error};
use crate::questions::Which;
use crate::root::{folders, parts_of};
use crate::rows::{FRAME_COLUMNS, for_each_location};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

/// Places in code that stacks name, each with a number.
#[derive(Default)]
struct CodePlaces {
    builds: FxHashMap<Vec<u8>, u32>,
    known: FxHashMap<PlaceKey, u32>,
    list: Vec<CodePlace>,
}

/// Number of the build, address.
type PlaceKey = (u32, i64);

/// A place in code: build and address. Of code that has only a name the address is a line.
pub(crate) struct CodePlace {
    pub(crate) build_id: Vec<u8>,
    pub(crate) addr: i64,
    pub(crate) is_name: bool,
    pub(crate) names: Names,
}

impl CodePlace {
    /// Forgets what functions of machine code are called, and where their source is.
    pub(crate) fn forget_name(&mut self) {
        let Some(name) = self.names.first_entry().map(|entry| entry.get().object.clone()) else { return };
        if !self.is_name {
            let function = format!("[{name}+{:#x}]", self.addr);
            let (object, file) = (name, String::new());
            let name = Name { is_nameless: true, function, object, file, line: 0 };
            self.names = Names::from([(0, name)]);
        }
    }
}

impl CodePlaces {
    /// The number of a place.
    fn number(&mut self, build_id: &[u8], addr: i64, is_name: bool) -> u32 {
        let build = match self.builds.get(build_id) {
            Some(&build) => build,
            None => {
                let build = u32::try_from(self.builds.len()).unwrap_or(u32::MAX);
                self.builds.insert(build_id.to_vec(), build);
                build
            }
        };
        let list = &mut self.list;
        *self.known.entry((build, addr)).or_insert_with(|| {
            list.push(CodePlace { build_id: build_id.to_vec(), addr, is_name, names: Names::default() });
            u32::try_from(list.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

/// Numbers of places, innermost first.
pub(crate) type Frames = Vec<u32>;

/// The frames of these stacks, as numbers of places, and the places with their names. Each date has the stacks
/// of its samples; other dates are read only where some are missing.
pub(crate) fn stacks(
    root: &Path,
    which: &Which,
    wanted: &FxHashSet<[u8; STACK_ID]>,
    problems: &mut Vec<String>,
) -> (FxHashMap<[u8; STACK_ID], Frames>, Vec<CodePlace>) {
    let mut found = FxHashMap::default();
    let mut places = CodePlaces::default();
    let day = |ts: i64| {
        Timestamp::from_microsecond(ts).map(|time| time.to_zoned(TimeZone::UTC).date().to_string()).ok()
    };
    let (first, last) = (which.from_interval().and_then(day), which.to.and_then(day));
    let is_near = |date: &str| {
        first.as_ref().is_none_or(|first| date >= first.as_str())
            && last.as_ref().is_none_or(|last| date <= last.as_str())
    };
    let (near, far): (Vec<_>, Vec<_>) =
        folders(&root.join("stacks"), "date=", problems).into_iter().partition(|(date, _)| is_near(date));
    for (_, folder) in near.into_iter().chain(far) {
        if found.len() == wanted.len() {
            break;
        }
        for file in parts_of(&folder, problems) {
            if let Err(why) = add_stacks(&file, wanted, &mut places, &mut found) {
                problems.push(why.to_string());
            }
        }
    }
    for file in parts_of(&root.join("locations"), problems) {
        if let Err(why) = add_names(&file, &mut places) {
            problems.push(why.to_string());
        }
    }
    (found, places.list)
}

fn add_stacks(
    file: &Path,
    wanted: &FxHashSet<[u8; STACK_ID]>,
    places: &mut CodePlaces,
    found: &mut FxHashMap<[u8; STACK_ID], Frames>,
) -> Result<(), Error> {
    let [build, addr, kind] = FRAME_COLUMNS;
    pieces::read(file, &["stack_id", build, addr, kind], &|_| true, |piece| {
        let (ids, builds) = (piece.fixed::<STACK_ID>("stack_id")?, piece.octets(build)?);
        let (addrs, kinds) = (piece.int64(addr)?, piece.octets(kind)?);
        let mut from = 0;
        for (id, length) in ids.iter().zip(&piece.lengths) {
            let to = from + length;
            if wanted.contains(id) && !found.contains_key(id) {
                let mut frame = |at: usize| {
                    let is_name = kinds[at].data() == Kind::Name.as_word().as_bytes();
                    places.number(builds[at].data(), addrs[at], is_name)
                };
                found.insert(*id, (from..to).map(&mut frame).collect());
            }
            from = to;
        }
        Ok(())
    })
}

/// What the functions at a place are called: one more for each call that was inlined there, the innermost
/// first.
pub(crate) type Names = BTreeMap<i32, Name>;

/// In the order in which one is better than another: a host without symbols wrote `[object+0x1234]`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    is_nameless: bool,
    pub(crate) function: String,
    pub(crate) object: String,
    pub(crate) file: String,
    pub(crate) line: i32,
}

/// Adds the names that a file of `locations` has for these places.
fn add_names(file: &Path, places: &mut CodePlaces) -> Result<(), Error> {
    let CodePlaces { builds, known, list } = places;
    let number = |build_id: &[u8], addr: i64| known.get(&(*builds.get(build_id)?, addr)).copied();
    for_each_location(
        file,
        |build_id, addr| number(build_id, addr).is_some(),
        |location| {
            let found = number(&location.build_id, location.addr);
            let Some(place) = found.and_then(|number| list.get_mut(number as usize)) else { return };
            let name = Name {
                is_nameless: location.function.starts_with('['),
                function: location.function,
                object: location.object,
                file: location.file,
                line: location.line,
            };
            match place.names.entry(location.depth) {
                Entry::Vacant(free) => {
                    free.insert(name);
                }
                Entry::Occupied(mut held) if name < *held.get() => {
                    held.insert(name);
                }
                Entry::Occupied(_) => {}
            }
        },
    )
}
