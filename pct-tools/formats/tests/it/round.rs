//! What is written can be read: each format that `pct export` writes comes back with its names and sums.

use crate::naive::{PERIOD_NS, built, names, rows};
use pct_formats::import::{Wanted, parse, parse_with};
use pct_formats::{Format, export};
use pct_profile::model::{Builder, Object, ObjectKind, Process, Profile, TimedSample, Weight};
use pct_profile::{By, Flat, Quantity, Split, Unit, flat::Order};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Own and total amounts by function.
pub(crate) fn by_function(profile: &Profile) -> BTreeMap<String, (u64, u64)> {
    let flat = Flat::count_cells(profile, &profile.cells, Some(By::Function), Split::Merged, Order::Own);
    let rows = flat
        .rows
        .iter()
        .map(|row| (row.label.expect("a function").name(profile), (row.own.cpu_ns(), row.total.cpu_ns())));
    rows.filter(|(_, (own, total))| own + total > 0).collect()
}

fn read(profile: &Profile, format: Format) -> Profile {
    let bytes = export(profile, &profile.cells, format);
    parse(&bytes, Path::new("again")).unwrap_or_else(|why| panic!("{format:?}: {why}"))
}

/// The formats whose files have all of a profile's amounts.
fn formats() -> impl Iterator<Item = Format> {
    let all = Format::ALL.iter().map(|(_, format)| *format);
    // Folded text counts samples. Of OpenTelemetry's profiles there is no reader.
    all.filter(|format| *format != Format::Folded && format.suffix() != "otlp.pb")
}

fn has_a_circle(rows: &[(usize, Vec<usize>, u64)]) -> bool {
    let calls: BTreeSet<(usize, usize)> =
        rows.iter().flat_map(|row| row.1.windows(2).map(|w| (w[0], w[1]))).collect();
    let mut reached = calls.clone();
    for _ in 0..5 {
        let more: Vec<_> = reached
            .iter()
            .flat_map(|(a, b)| calls.iter().filter(move |(c, _)| b == c).map(move |(_, d)| (*a, *d)))
            .collect();
        reached.extend(more);
    }
    reached.iter().any(|(from, to)| from == to)
}

proptest! {
    #[test]
    fn each_format_comes_back_with_its_names_and_sums(rows in rows()) {
        let profile = built(&rows);
        for format in formats() {
            let again = read(&profile, format);
            prop_assert_eq!(&again.quantity, &Quantity::Processor, "{:?}", format);
            prop_assert_eq!(again.total().cpu_ns(), profile.total().cpu_ns(), "{:?}", format);
            let (found, want) = (by_function(&again), by_function(&profile));
            if format == Format::Callgrind {
                // It has no stacks: only where no function calls itself, by whatever way, are totals known.
                let near = |a: u64, b: u64| a.abs_diff(b) <= b / 100;
                let own = |all: &BTreeMap<String, (u64, u64)>| {
                    all.iter().filter(|row| row.1.0 > 0).map(|row| (row.0.clone(), row.1.0)).collect::<Vec<_>>()
                };
                prop_assert_eq!(own(&found), own(&want));
                let totals = want.iter().all(|(name, (_, total))| near(found.get(name).map_or(0, |row| row.1), *total));
                prop_assert!(totals || has_a_circle(&rows), "{:?} {:?}", found, want);
            } else {
                prop_assert_eq!(found, want, "{:?}", format);
            }
        }
    }

    #[test]
    fn threads_come_back_with_their_times_and_names(rows in rows()) {
        let profile = built(&rows);
        let threads = |profile: &Profile| {
            let mut sums: BTreeMap<(String, u32), u64> = BTreeMap::new();
            for cell in &profile.cells {
                let thread = &profile.threads[cell.thread];
                *sums.entry((thread.name.clone(), thread.tid)).or_default() += cell.weight.cpu_ns();
            }
            sums
        };
        for format in [Format::Speedscope, Format::Firefox] {
            prop_assert_eq!(threads(&read(&profile, format)), threads(&profile), "{:?}", format);
        }
    }

    #[test]
    fn damaged_files_are_read_or_refused(
        rows in rows(),
        flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6),
        cut in 0usize..40,
    ) {
        let profile = built(&rows);
        for format in formats() {
            let mut bytes = export(&profile, &profile.cells, format);
            for (at, byte) in &flips {
                let len = bytes.len();
                bytes[at % len] = *byte;
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            let _ = parse(&bytes, Path::new("x"));
        }
    }
}

#[test]
fn other_quantities_keep_their_name_and_unit() {
    let rows = [(0, vec![0, 1], 3), (0, vec![0], 2)];
    for (name, unit) in [
        ("inuse_space", Unit::Bytes),
        ("wall", Unit::Time),
        ("samples", Unit::Count),
        ("cache-misses:u", Unit::Count),
        ("fuel", Unit::Other("gallons".into())),
        ("weight", Unit::Other(String::new())),
    ] {
        let mut profile = built(&rows);
        profile.quantity = Quantity::Foreign { name: name.into(), unit };
        for format in [Format::Pprof, Format::Speedscope, Format::Callgrind] {
            let again = read(&profile, format);
            assert_eq!(again.quantity, profile.quantity, "{format:?}");
            assert_eq!(again.total().cpu_ns(), 5 * PERIOD_NS, "{format:?}");
            assert_eq!(by_function(&again), by_function(&profile), "{format:?}: {:?}", names(&[0, 1]));
        }
    }
}

#[test]
fn times_of_samples_come_back() {
    let mut b = Builder::new(true);
    let process = b.process(Process { pid: 7, name: "prog".into(), hz: 1000, ..Process::default() });
    let thread = b.thread(process, 8, "worker");
    let object = b.object(Object::new("/bin/prog", ObjectKind::File));
    let [main, leaf] = ["main", "leaf"].map(|name| b.function(object, name));
    let [main, leaf] = [main, leaf].map(|function| b.plain_frame(function));
    let main = b.stack(None, main);
    let leaf = b.stack(Some(main), leaf);
    for (time_ns, weight_ns, stack) in
        [(0, 1_000_007, leaf), (2_000_000, 999_000, main), (90_000_000, 1_000_000, leaf)]
    {
        b.add(thread, stack, Weight { samples: 1, user_ns: weight_ns, system_ns: 0 });
        b.add_timed(TimedSample { time_ns, weight_ns, thread, stack });
    }
    let profile = b.finish();
    for format in [Format::Firefox, Format::Chrome] {
        let bytes = export(&profile, &profile.cells, format);
        let wanted = Wanted { timeline: true, sample_type: None };
        let again = parse_with(&bytes, Path::new("again"), wanted).expect("a profile");
        assert_eq!(again.total().cpu_ns(), 3_000_000 - 993, "{format:?}");
        let times: Vec<u64> = again.timeline.iter().map(|sample| sample.time_ns).collect();
        // A slice of two samples begins with the first; one without own time has none.
        let want: &[u64] =
            if format == Format::Firefox { &[0, 2_000_000, 90_000_000] } else { &[0, 0, 90_000_000] };
        assert_eq!(times, want, "{format:?}");
    }
}

#[test]
fn slices_are_written_in_the_order_of_their_begin() {
    let rows = [(0, vec![0, 1, 2], 3)];
    let profile = built(&rows);
    let file: serde_json::Value =
        serde_json::from_slice(&export(&profile, &profile.cells, Format::Chrome)).expect("JSON");
    let slices = file["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == "X");
    let found: Vec<&str> = slices.map(|slice| slice["name"].as_str().expect("a name")).collect();
    assert_eq!(found, names(&[0, 1, 2]));
}
