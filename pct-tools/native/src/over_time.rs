//! When a recording's time was spent, for the pages of the viewer.

use pct_deep::over_time::{GroupOverTime, OverTime};
use pct_profile::Profile;
use rustc_hash::FxHashMap;

/// Most columns.
const MOST_COLUMNS: usize = 280;
/// Least samples of a busy thread in a column: with fewer, columns would be now full and now empty.
const PERIODS: u64 = 8;

/// What was spent when, by language and object. `None`: it was not loaded, or there is no sample.
#[must_use]
pub fn over_time(profile: &Profile) -> Option<OverTime> {
    let sums = profile.over_time.as_ref()?;
    let slots = sums.cells.last()?.slot + 1;
    let most_columns = most_columns(profile, slots as u64 * sums.slot_ns);
    let slots_a_column = slots.div_ceil(most_columns);
    let columns = slots.div_ceil(slots_a_column);
    let mut of: FxHashMap<&str, GroupOverTime> = FxHashMap::default();
    for cell in &sums.cells {
        let function = profile.frames[profile.stacks[cell.stack].frame].function;
        let name = profile.group(function);
        let group = of
            .entry(name)
            .or_insert_with(|| GroupOverTime { name: name.to_owned(), spent: vec![0; columns] });
        let spent = &mut group.spent[cell.slot / slots_a_column];
        *spent = spent.saturating_add(cell.ns);
    }
    let mut groups: Vec<GroupOverTime> = of.into_values().collect();
    groups.sort_by_cached_key(|group| {
        let whole = group.spent.iter().fold(0_u64, |sum, spent| sum.saturating_add(*spent));
        (std::cmp::Reverse(whole), group.name.clone())
    });
    let column_ns = sums.slot_ns.saturating_mul(slots_a_column as u64);
    Some(OverTime { begin_realtime_ns: sums.begin_realtime_ns, column_ns, columns, groups })
}

/// How many columns a time may have, so that each is longer than several periods of sampling.
fn most_columns(profile: &Profile, ns: u64) -> usize {
    // The slowest clock counts.
    let hz = profile.processes.iter().map(|process| process.hz).filter(|hz| *hz > 0).min();
    let fitting = hz.map_or(u64::MAX, |hz| ns / (1_000_000_000 / hz).max(1) / PERIODS);
    usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, MOST_COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_profile::model::{Builder, Object, ObjectKind, OverTime as Slots, Process, SlotCell};

    /// Two functions of two objects in alternating slots of a millisecond, and a third in the last one.
    fn profile(slots: usize, hz: u64) -> Profile {
        let mut b = Builder::new(false);
        let process = b.process(Process { hz, ..Process::default() });
        let thread = b.thread(process, 1, "a");
        let stacks = ["one;f", "two;g", "three;h"].map(|line| {
            let (object, name) = line.split_once(';').unwrap();
            let object = b.object(Object::new(object, ObjectKind::File));
            let function = b.function(object, name);
            let frame = b.plain_frame(function);
            b.stack(None, frame)
        });
        let cell = |slot: usize| {
            let stack = stacks[if slot + 1 == slots { 2 } else { slot % 2 }];
            SlotCell { slot, thread, stack, ns: 1_000 + slot as u64 }
        };
        let cells = (0..slots).map(cell).collect();
        b.profile_mut().over_time = Some(Slots { begin_realtime_ns: 77, slot_ns: 1_000_000, cells });
        b.finish()
    }

    #[test]
    fn columns_are_longer_than_several_periods_and_few() {
        let columns = |slots, hz| over_time(&profile(slots, hz)).unwrap().columns;
        assert_eq!(columns(1000, 1000), 125);
        assert_eq!(columns(1000, 100), 12);
        assert_eq!(columns(100_000, 1000), 280);
        assert_eq!(columns(1, 1000), 1);
        assert_eq!(columns(50, 0), 50, "the rate is not known");
    }

    #[test]
    fn every_nanosecond_is_in_the_column_of_its_slot_and_in_its_group() {
        let found = over_time(&profile(1000, 1000)).unwrap();
        assert_eq!((found.begin_realtime_ns, found.column_ns), (77, 8_000_000));
        let names: Vec<&str> = found.groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["one", "two", "three"], "the one with most time is first");
        let of = |name: &str| &found.groups.iter().find(|group| group.name == name).unwrap().spent;
        let sum = |slots: &mut dyn Iterator<Item = u64>| slots.map(|slot| 1_000 + slot).sum::<u64>();
        assert_eq!(of("one")[1], sum(&mut (8..16).step_by(2)));
        assert_eq!(of("two")[124], sum(&mut (993..999).step_by(2)));
        assert_eq!(of("three").iter().filter(|ns| **ns > 0).count(), 1);
        let whole: u64 = found.groups.iter().flat_map(|group| &group.spent).sum();
        assert_eq!(whole, sum(&mut (0..1000)));
    }

    #[test]
    fn nothing_is_known_of_what_was_not_loaded() {
        let mut profile = profile(3, 1000);
        profile.over_time.as_mut().unwrap().cells.clear();
        assert_eq!(over_time(&profile), None);
        profile.over_time = None;
        assert_eq!(over_time(&profile), None);
    }
}
