//! Merging and forgetting leave all sums, whatever happens meanwhile.

use crate::common::{Scene, files, kills_itself, rows, run_until_killed};
use pct_fleet::ask::ask;
use pct_fleet::check::check;
use pct_fleet::compact::{compact, forget};
use pct_fleet::questions::Which;
use pct_fleet::ship::{Config, pass};
use std::path::Path;

/// Later than all rows.
const LATER: i64 = i64::MAX / 2;

fn ship(scene: &Scene, host: &str) {
    pass(&Config { host: host.into(), ..scene.config() }, scene.now_ns(), &mut |_| {}).unwrap();
}

/// A root with a file of each host and recording.
fn small_files(hosts: &[&str]) -> Scene {
    let scene = Scene::new();
    for host in hosts {
        more_of(&scene, host);
    }
    scene
}

/// What another host brings: three recordings, a file each.
fn more_of(scene: &Scene, host: &str) {
    let scene = scene.on(host);
    for number in 0..3 {
        scene.recording("shop", number, 1 + number);
        ship(&scene, host);
    }
}

/// All rows of a table as text, in order; of `first_seen` only the earliest is left by merging.
fn texts(root: &Path, table: &str) -> Vec<String> {
    let mut all: Vec<String> = rows(root, table).iter().map(ToString::to_string).collect();
    all.sort();
    all
}

fn samples(root: &Path) -> usize {
    files(root).iter().filter(|path| path.to_str().unwrap().contains("/samples/")).count()
}

#[test]
fn merging_leaves_every_row_and_few_files() {
    let scene = small_files(&["host-a", "host-b"]);
    let before = ["samples", "hosts"].map(|table| texts(&scene.root, table));
    let sums = check(&scene.root).sums;
    let answer = ask(&scene.root, &Which::default(), &[]).profile;
    assert_eq!(samples(&scene.root), 6);
    let outcome = compact(&scene.root, LATER, &mut |_| {}).unwrap();
    assert_eq!(outcome.problems, Vec::<String>::new());
    assert_eq!(samples(&scene.root), 1);
    assert_eq!(["samples", "hosts"].map(|table| texts(&scene.root, table)), before);
    let found = check(&scene.root);
    assert_eq!((found.sums, found.unknown_stacks_ns, found.nameless_places), (sums, 0, 0), "{found:?}");
    assert_eq!(found.problems, Vec::<String>::new());
    assert_eq!(ask(&scene.root, &Which::default(), &[]).profile.cells, answer.cells);
    // Again there is nothing to do, and what comes later is merged too.
    assert_eq!(compact(&scene.root, LATER, &mut |_| {}).unwrap().folders, 0);
    scene.on("host-a").recording("shop", 3, 1);
    ship(&scene.on("host-a"), "host-a");
    let sums = check(&scene.root).sums;
    compact(&scene.root, LATER, &mut |_| {}).unwrap();
    assert_eq!((samples(&scene.root), check(&scene.root).sums), (1, sums));
}

#[test]
fn hours_that_may_still_grow_are_left_alone() {
    let scene = small_files(&["host-a"]);
    let now = i64::try_from(crate::common::BEGIN_NS / 1000).unwrap();
    compact(&scene.root, now, &mut |_| {}).unwrap();
    assert_eq!(samples(&scene.root), 3);
}

#[test]
fn what_arrives_while_files_are_merged_stays() {
    let scene = small_files(&["host-a"]);
    let mut arrived = 0;
    let before = check(&scene.root).sums;
    compact(&scene.root, LATER, &mut |step| {
        // Just before the folders change places another host delivers, and its files lie in the old folder.
        if step == "before the exchange" && arrived == 0 {
            more_of(&scene, "host-b");
            arrived += 1;
        }
    })
    .unwrap();
    assert_eq!(arrived, 1);
    assert_eq!(check(&scene.root).sums, (2 * before.0, 0));
}

#[test]
fn a_recording_that_is_in_two_files_counts_once_after_merging() {
    let scene = small_files(&["host-a"]);
    let once = check(&scene.root).sums;
    // A copy under another name: what a restored backup would bring.
    let file =
        files(&scene.root).into_iter().find(|path| path.to_str().unwrap().contains("/samples/")).unwrap();
    std::fs::copy(&file, file.with_file_name("part-z.parquet")).unwrap();
    let found = check(&scene.root);
    assert!(found.sums > once && found.problems.len() == 1, "{found:?}");
    let outcome = compact(&scene.root, LATER, &mut |_| {}).unwrap();
    assert_eq!(outcome.problems.len(), 1, "{outcome:?}");
    assert_eq!(check(&scene.root).sums, once);
}

#[test]
fn a_batch_that_was_merged_is_not_delivered_again() {
    let scene = Scene::new();
    for number in 0..3 {
        scene.recording("shop", number, 1);
    }
    // Killed behind the samples, before that was noted: the batch is in the spool, and its files have
    // arrived.
    let state = scene.dir.path().join("host-a");
    let config = Config { host: "host-a".into(), state: state.clone(), ..scene.config() };
    let saved = scene.dir.path().join("saved");
    pass(&config, scene.now_ns(), &mut |step| {
        if step == "a file in its place" && samples(&scene.root) > 0 && !saved.exists() {
            copy(&state, &saved);
        }
    })
    .unwrap();
    let sums = check(&scene.root).sums;
    std::fs::remove_dir_all(&state).unwrap();
    std::fs::rename(&saved, &state).unwrap();
    more_of(&scene, "host-b");
    let both = check(&scene.root).sums;
    assert!(both > sums, "{both:?}");
    compact(&scene.root, LATER, &mut |_| {}).unwrap();
    pass(&config, scene.now_ns(), &mut |_| {}).unwrap();
    assert_eq!(check(&scene.root).sums, both);
    assert_eq!(samples(&scene.root), 1);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)
        } else {
            drop(std::fs::copy(entry.path(), target))
        }
    }
}

#[test]
fn a_forgotten_host_has_no_row_and_the_others_have_all() {
    let scene = small_files(&["host-a", "host-b"]);
    let of = |host: &str| {
        let which = Which { host: Some(host.into()), ..Which::default() };
        ask(&scene.root, &which, &[]).profile.total().cpu_ns()
    };
    let other = of("host-b");
    let outcome = forget(&scene.root, &|_, host| host == "host-a", &mut |_| {}).unwrap();
    assert!(outcome.removed > 0 && outcome.problems.is_empty(), "{outcome:?}");
    assert_eq!((of("host-a"), of("host-b")), (0, other));
    for table in ["samples", "hosts"] {
        assert!(texts(&scene.root, table).iter().all(|row| !row.contains("host-a")));
    }
}

/// What a child does in `killed_at_every_step_of_merging`.
#[test]
#[ignore = "a part of killed_at_every_step_of_merging"]
fn merges_until_it_is_killed() {
    kills_itself(|scene, step| {
        compact(&scene.root, LATER, step).unwrap();
    });
}

#[test]
fn killed_at_every_step_of_merging() {
    let whole = small_files(&["host-a"]);
    let sums = check(&whole.root).sums;
    let mut steps = 0;
    compact(&whole.root, LATER, &mut |_| steps += 1).unwrap();
    assert!(steps > 12, "{steps} steps");
    for dies_at in 1..=steps {
        let scene = small_files(&["host-a"]);
        run_until_killed("compact::merges_until_it_is_killed", &scene, dies_at);
        // A shipper goes on before anybody clears up.
        more_of(&scene, "host-b");
        compact(&scene.root, LATER, &mut |_| {}).unwrap();
        let found = check(&scene.root);
        assert_eq!(found.sums, (2 * sums.0, sums.1), "killed at step {dies_at}");
        assert_eq!(found.problems, Vec::<String>::new(), "killed at step {dies_at}");
        assert_eq!((samples(&scene.root), found.unknown_stacks_ns), (1, 0), "killed at step {dies_at}");
        let left = std::fs::read_dir(scene.root.join(".pct-work")).unwrap().count();
        assert_eq!(left, 1, "only the lock is left; killed at step {dies_at}");
    }
}
