//! Answers from a root against the reports of the recordings that it was made of.

use crate::common::{BEGIN_NS, Scene, files};
use pct_fleet::ask::{Part, ask};
use pct_fleet::questions::Which;
use pct_fleet::ship::{Config, pass};
use pct_profile::flat::Order;
use pct_profile::load::{self, Options};
use pct_profile::{By, Flat, Profile, Split};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Own and inclusive CPU nanoseconds of each function.
fn figures(profile: &Profile) -> BTreeMap<String, (u64, u64)> {
    let flat = Flat::count_cells(profile, &profile.cells, Some(By::Function), Split::Merged, Order::Total);
    let row = |row: &pct_profile::flat::Row| (row.own.cpu_ns(), row.total.cpu_ns());
    flat.rows.iter().map(|r| (r.label.unwrap().name(profile), row(r))).collect()
}

/// Three hosts with recordings of two versions, shipped to one root.
fn fleet() -> (Scene, Vec<PathBuf>) {
    let scene = Scene::new();
    let paths = (0..6).map(|number| {
        scene.recording("shop", number, 1 + number / 3);
        scene.path(number)
    });
    let paths: Vec<_> = paths.collect();
    for host in ["host-a", "host-b", "host-c"] {
        let state = scene.dir.path().join(host);
        pass(&Config { host: host.into(), state, ..scene.config() }, scene.now_ns(), &mut |_| {}).unwrap();
    }
    (scene, paths)
}

fn report(paths: &[PathBuf]) -> Profile {
    load::load(paths, &Options::default()).unwrap()
}

fn tripled(figures: BTreeMap<String, (u64, u64)>) -> BTreeMap<String, (u64, u64)> {
    figures.into_iter().map(|(name, (own, total))| (name, (3 * own, 3 * total))).collect()
}

#[test]
fn answers_are_those_of_the_report_to_the_nanosecond() {
    let (scene, paths) = fleet();
    let all = ask(&scene.root, &Which::default(), &[]);
    assert_eq!((all.problems.len(), all.unknown_ns, all.lost_ns), (0, 0, 0), "{:?}", all.problems);
    assert_eq!(figures(&all.profile), tripled(figures(&report(&paths))));
    assert!(figures(&all.profile).len() > 4, "{:?}", figures(&all.profile));

    let newer = Which { service: Some("shop".into()), release: Some("1.2".into()), ..Which::default() };
    assert_eq!(figures(&ask(&scene.root, &newer, &[]).profile), tripled(figures(&report(&paths[3..]))));

    let one = Which { host: Some("host-b".into()), ..newer };
    assert_eq!(figures(&ask(&scene.root, &one, &[]).profile), figures(&report(&paths[3..])));

    let other = Which { service: Some("till".into()), ..Which::default() };
    assert!(ask(&scene.root, &other, &[]).profile.cells.is_empty());
}

#[test]
fn answers_of_a_time_have_the_minutes_of_that_time() {
    let (scene, paths) = fleet();
    // Recordings begin 150 s apart; the first samples of each are in the minute of its begin or the next one.
    let middle = i64::try_from(BEGIN_NS / 1000).unwrap() + 3 * 150_000_000;
    let minute = middle - middle.rem_euclid(60_000_000);
    let before = ask(&scene.root, &Which { to: Some(minute), ..Which::default() }, &[]);
    let after = ask(&scene.root, &Which { from: Some(minute), ..Which::default() }, &[]);
    let sum = |profile: &Profile| profile.total().cpu_ns();
    assert_eq!(figures(&before.profile), tripled(figures(&report(&paths[..3]))));
    assert_eq!(figures(&after.profile), tripled(figures(&report(&paths[3..]))));
    assert_eq!(sum(&before.profile) + sum(&after.profile), 3 * sum(&report(&paths)));
    let never = ask(&scene.root, &Which { from: Some(minute + 86_400_000_000), ..Which::default() }, &[]);
    assert!(never.profile.cells.is_empty());
}

#[test]
fn parts_have_their_own_sums() {
    let (scene, paths) = fleet();
    let answer = ask(&scene.root, &Which::default(), &[Part::Version, Part::Host]);
    let profile = &answer.profile;
    let flat = Flat::count_cells(profile, &profile.cells, None, Split::Command, Order::Own);
    let found: BTreeMap<String, u64> =
        flat.rows.iter().map(|row| (row.part.unwrap().name(profile), row.own.cpu_ns())).collect();
    let mut expected = BTreeMap::new();
    for host in ["host-a", "host-b", "host-c"] {
        expected.insert(format!("1.1 {host}"), report(&paths[..3]).total().cpu_ns());
        expected.insert(format!("1.2 {host}"), report(&paths[3..]).total().cpu_ns());
    }
    assert_eq!(found, expected);
}

#[test]
fn an_answer_written_as_pprof_is_read_back_with_the_same_figures() {
    let (scene, _) = fleet();
    let profile = ask(&scene.root, &Which::default(), &[]).profile;
    let path = scene.dir.path().join("answer.pb.gz");
    std::fs::write(&path, pct_formats::export(&profile, &profile.cells, pct_formats::Format::Pprof)).unwrap();
    let read = pct_formats::import(&path).unwrap();
    assert_eq!(figures(&read), figures(&profile));
}

#[test]
fn a_damaged_or_foreign_file_is_named_and_the_others_go_on() {
    let (scene, _) = fleet();
    let whole = ask(&scene.root, &Which::default(), &[]).profile.total().cpu_ns();
    let samples: Vec<_> =
        files(&scene.root).into_iter().filter(|p| p.to_str().unwrap().contains("/samples/")).collect();
    let good = std::fs::read(&samples[0]).unwrap();
    let folder = samples[0].parent().unwrap();
    let stacks = files(&scene.root).into_iter().find(|p| p.to_str().unwrap().contains("/stacks/")).unwrap();
    let bad = folder.join("part-bad.parquet");
    std::fs::copy(&stacks, &bad).unwrap();
    let answer = ask(&scene.root, &Which::default(), &[]);
    assert_eq!(answer.profile.total().cpu_ns(), whole);
    assert!(answer.problems.len() == 1 && answer.problems[0].contains("part-bad"), "{:?}", answer.problems);
    // Cut anywhere, it has no footer.
    for cut in (0..good.len()).step_by(good.len() / 40 + 1) {
        std::fs::write(&bad, &good[..cut]).unwrap();
        let answer = ask(&scene.root, &Which::default(), &[]);
        assert_eq!(answer.profile.total().cpu_ns(), whole, "cut at {cut}");
        assert_eq!(answer.problems.len(), 1, "cut at {cut}");
    }
    // Octets that are others: an error or other figures, but an answer.
    let mut dice = pct_kit::Dice::new(20);
    for _ in 0..300 {
        let mut octets = good.clone();
        let at = usize::try_from(dice.below(octets.len() as u64)).unwrap();
        octets[at] ^= 1 << dice.below(8);
        std::fs::write(&bad, octets).unwrap();
        let _ = ask(&scene.root, &Which::default(), &[]);
    }
}
