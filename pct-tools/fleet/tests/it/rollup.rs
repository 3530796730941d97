//! Hours summed up over hosts and minutes have the sums of the rows that they are made of, whatever happens.

use crate::common::{BEGIN_NS, Scene, files, kills_itself, rows, run_until_killed};
use pct_fleet::ask::{Part, ask};
use pct_fleet::check::check;
use pct_fleet::compact::{Outcome, compact};
use pct_fleet::questions::Which;
use pct_fleet::rollup::rollup;
use pct_fleet::ship::{Config, pass};
use pct_profile::flat::Order;
use pct_profile::{By, Flat, Split};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Later than all rows.
const LATER: i64 = i64::MAX / 2;
const SECONDS: i64 = 600;

/// What another host brings: recordings of two versions, which are alike on each host.
fn host(scene: &Scene, name: &str) {
    let here = scene.on(name);
    for number in 0..6 {
        here.recording("shop", number, 1 + number / 3);
    }
    pass(&Config { host: name.into(), ..here.config() }, here.now_ns(), &mut |_| {}).unwrap();
}

fn two_hosts() -> Scene {
    let scene = Scene::new();
    host(&scene, "host-a");
    host(&scene, "host-b");
    scene
}

fn summed(scene: &Scene) -> PathBuf {
    scene.dir.path().join("summed")
}

fn sum_up(scene: &Scene) -> Outcome {
    rollup(&scene.root, &summed(scene), LATER, SECONDS, &mut |_| {}).unwrap()
}

/// Samples, and own and inclusive nanoseconds, by version and function.
fn figures(root: &Path) -> BTreeMap<String, (u64, u64, u64)> {
    let answer = ask(root, &Which::default(), &[Part::Version]);
    assert_eq!((answer.problems.len(), answer.unknown_ns), (0, 0), "{:?}", answer.problems);
    let profile = &answer.profile;
    let flat = Flat::count_cells(profile, &profile.cells, Some(By::Function), Split::Command, Order::Total);
    let name = |row: &pct_profile::flat::Row| {
        let words = [row.part, row.label].map(|label| label.map(|label| label.name(profile)));
        format!("{words:?}")
    };
    flat.rows.iter().map(|r| (name(r), (r.own.samples, r.own.cpu_ns(), r.total.cpu_ns()))).collect()
}

#[test]
fn a_rollup_answers_as_its_root_does_and_knows_no_host() {
    let scene = two_hosts();
    let (before, sums) = (figures(&scene.root), check(&scene.root).sums);
    assert!(before.len() > 8 && sums.0 > 0, "{before:?}");
    let outcome = sum_up(&scene);
    assert_eq!(outcome.problems, Vec::<String>::new());
    let summed = summed(&scene);
    assert_eq!(figures(&summed), before);
    let found = check(&summed);
    assert_eq!((found.sums, found.unknown_stacks_ns, found.nameless_places), (sums, 0, 0), "{found:?}");
    assert_eq!(found.problems, Vec::<String>::new());
    let (many, few) = (rows(&scene.root, "samples").len(), rows(&summed, "samples").len());
    assert!(2 * few <= many, "{few} rows of {many}");
    for file in files(&summed) {
        let octets = std::fs::read(&file).unwrap();
        assert!(!octets.windows(5).any(|window| window == b"host-"), "{}", file.display());
    }
    // Nothing is new: nothing is made again. What is merged is the same rows.
    assert_eq!(sum_up(&scene).folders, 0);
    compact(&scene.root, LATER, &mut |_| {}).unwrap();
    sum_up(&scene);
    assert_eq!((figures(&summed), check(&summed).sums), (before, sums));
    // Another host comes late.
    host(&scene, "host-c");
    assert!(sum_up(&scene).folders > 0);
    assert_eq!((figures(&summed), check(&summed).sums), (figures(&scene.root), check(&scene.root).sums));
    // The root's own rows are deleted after their time; those that sum them up stay.
    let sums = check(&summed).sums;
    std::fs::remove_dir_all(scene.root.join("samples")).unwrap();
    std::fs::create_dir(scene.root.join("samples")).unwrap();
    sum_up(&scene);
    compact(&summed, LATER, &mut |_| {}).unwrap();
    assert_eq!(check(&summed).sums, sums);
}

#[test]
fn a_time_within_a_long_interval_takes_the_whole_interval() {
    let scene = two_hosts();
    sum_up(&scene);
    let summed = summed(&scene);
    let begin = i64::try_from(BEGIN_NS / 1000).unwrap();
    let interval = SECONDS * 1_000_000;
    let first = begin - begin.rem_euclid(interval);
    let sum = |root: &Path, from: i64, to: i64| {
        let which = Which { from: Some(from), to: Some(to), ..Which::default() };
        ask(root, &which, &[]).profile.total().cpu_ns()
    };
    let (mut times, mut parts) = (0, 0);
    for start in (0..4).map(|nth| first + nth * interval) {
        let whole = sum(&scene.root, start, start + interval);
        times += u64::from(whole > 0);
        parts += whole;
        for late in [0, 1, 60_000_000, interval - 1] {
            assert_eq!(sum(&summed, start + late, start + interval), whole, "{late} us late");
        }
    }
    assert!(times > 1 && parts == ask(&scene.root, &Which::default(), &[]).profile.total().cpu_ns());
}

#[test]
fn roots_that_do_not_fit_are_refused() {
    let scene = two_hosts();
    let refused = |from: &Path, to: &Path, seconds: i64| {
        rollup(from, to, LATER, seconds, &mut |_| {}).unwrap_err().to_string()
    };
    let summed = summed(&scene);
    assert!(refused(&scene.root, &scene.root, SECONDS).contains("the root that they are from"));
    for seconds in [61, 90, 420, 7200] {
        assert!(refused(&scene.root, &summed, seconds).contains("cannot be summed up"), "{seconds}");
    }
    sum_up(&scene);
    assert!(refused(&scene.root, &summed, 1200).contains("its rows sum up 600 s"));
    assert!(refused(&summed, &scene.dir.path().join("third"), 60).contains("rows of 600 s"));
    assert!(refused(&scene.dir.path().join("nothing"), &summed, SECONDS).contains("no tables in it"));
}

/// What a child does in `killed_at_every_step_of_summing_up`.
#[test]
#[ignore = "a part of killed_at_every_step_of_summing_up"]
fn sums_up_until_it_is_killed() {
    kills_itself(|scene, step| {
        rollup(&scene.root, &summed(scene), LATER, SECONDS, step).unwrap();
    });
}

#[test]
fn killed_at_every_step_of_summing_up() {
    let whole = two_hosts();
    let mut steps = 0;
    rollup(&whole.root, &summed(&whole), LATER, SECONDS, &mut |_| steps += 1).unwrap();
    assert!(steps > 40, "{steps} steps");
    for dies_at in 1..=steps {
        let scene = two_hosts();
        run_until_killed("rollup::sums_up_until_it_is_killed", &scene, dies_at);
        sum_up(&scene);
        let found = check(&summed(&scene));
        assert_eq!(found.sums, check(&scene.root).sums, "killed at step {dies_at}");
        assert_eq!(found.problems, Vec::<String>::new(), "killed at step {dies_at}");
        assert_eq!((found.unknown_stacks_ns, found.nameless_places), (0, 0), "killed at step {dies_at}");
    }
}
