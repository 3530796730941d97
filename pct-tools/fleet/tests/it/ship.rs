//! Recordings of continuous sampling on their way to a root: each arrives once, whatever happens on the way.

use crate::common::{APART_NS, BEGIN_NS, Scene, files, kills_itself, rows, run_until_killed};
use pct_fleet::ship::{Limits, Target, pass};
use pct_format::State;
use pct_format::layout::header as at;
use std::path::Path;

/// Contents of all files of the tables, for comparing roots.
fn contents(root: &Path) -> Vec<(String, Vec<u8>)> {
    let name = |path: &Path| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    files(root).into_iter().map(|path| (name(&path), std::fs::read(&path).unwrap())).collect()
}

/// Sums of the columns `value` and `lost`.
fn sums(root: &Path) -> (i64, i64) {
    let rows = rows(root, "samples");
    let sum = |column: usize| {
        rows.iter().map(|row| parquet::record::RowAccessor::get_long(row, column).unwrap()).sum::<i64>()
    };
    (sum(9), sum(10))
}

#[test]
fn each_recording_arrives_once() {
    let scene = Scene::new();
    let mut expected = 0;
    for number in 0..3 {
        expected += scene.recording("shop", number, 1);
    }
    let first = scene.ship();
    assert_eq!((first.recordings, first.delivered, first.waiting), (3, 1, 0), "{first:?}");
    assert_eq!(sums(&scene.root), (expected, 0));
    let before = contents(&scene.root);
    let second = scene.ship();
    assert_eq!((second.recordings, second.delivered), (0, 0), "{second:?}");
    assert_eq!(contents(&scene.root), before);
    expected += scene.recording("shop", 3, 2);
    assert_eq!(scene.ship().recordings, 1);
    assert_eq!(sums(&scene.root), (expected, 0));
}

/// A process that goes on in another file may still write to the last one for a while.
#[test]
fn what_a_process_may_still_write_to_waits_and_is_counted() {
    let scene = Scene::new();
    let expected = scene.recording("shop", 0, 1) + scene.recording("shop", 1, 2);
    let mut first = std::fs::read(scene.path(0)).unwrap();
    let state = (State::Replaced as u64).to_le_bytes();
    first[8 * at::STATE..][..8].copy_from_slice(&state);
    std::fs::write(scene.path(0), first).unwrap();
    let soon = pass(&scene.config(), BEGIN_NS + APART_NS, &mut |_| {}).unwrap();
    assert_eq!((soon.recordings, soon.open), (1, 1), "{soon:?}");
    let later = pass(&scene.config(), BEGIN_NS + 2 * APART_NS, &mut |_| {}).unwrap();
    assert_eq!((later.recordings, later.open), (1, 0), "{later:?}");
    assert_eq!(sums(&scene.root), (expected, 0));
}

#[test]
fn a_batch_writes_only_stacks_that_its_date_does_not_have() {
    let scene = Scene::new();
    scene.recording("shop", 0, 1);
    scene.ship();
    let stacks = rows(&scene.root, "stacks").len();
    assert_eq!(stacks, 3);
    let others = ["stacks", "locations", "builds", "hosts"].map(|table| rows(&scene.root, table).len());
    scene.recording("shop", 1, 2);
    scene.ship();
    assert_eq!(
        ["stacks", "locations", "builds", "hosts"].map(|table| rows(&scene.root, table).len()),
        others
    );
}

#[test]
fn two_shippers_of_the_same_recordings_write_the_same_files() {
    let scene = Scene::new();
    for number in 0..4 {
        scene.recording("shop", number, 1);
    }
    scene.ship();
    let first = contents(&scene.root);
    let other = Scene { root: scene.dir.path().join("other"), state: scene.dir.path().join("s2"), ..scene };
    std::fs::create_dir(&other.root).unwrap();
    pass(&other.config(), other.now_ns() + 77, &mut |_| {}).unwrap();
    assert_eq!(contents(&other.root), first);
}

#[test]
fn what_was_deleted_before_it_was_taken_is_lost_with_its_size() {
    let scene = Scene::new();
    let first = scene.recording("shop", 0, 1);
    scene.ship();
    // Two recordings come and go unseen.
    let unseen: i64 = [1, 2].map(|number| scene.recording("shop", number, 1)).iter().sum();
    for number in [1, 2] {
        std::fs::remove_file(scene.path(number)).unwrap();
    }
    let last = scene.recording("shop", 3, 1);
    let outcome = scene.ship();
    assert_eq!(outcome.lost_ns, u64::try_from(unseen).unwrap());
    assert_eq!(sums(&scene.root), (first + last, unseen));
}

#[test]
fn a_damaged_recording_is_named_and_counted_as_lost() {
    let scene = Scene::new();
    let good = scene.recording("shop", 0, 1);
    let bad = scene.recording("shop", 1, 1);
    let good = good + scene.recording("shop", 2, 1);
    // A length of blocks that no recording has.
    let mut octets = std::fs::read(scene.path(1)).unwrap();
    octets[32..40].copy_from_slice(&7u64.to_le_bytes());
    std::fs::write(scene.path(1), octets).unwrap();
    let outcome = scene.ship();
    assert_eq!(outcome.problems.len(), 1, "{outcome:?}");
    assert_eq!(sums(&scene.root), (good, bad), "{outcome:?}");
}

#[test]
fn a_target_that_is_away_gets_all_when_it_is_back() {
    let scene = Scene::new();
    std::fs::remove_dir(&scene.root).unwrap();
    let mut expected = 0;
    for number in 0..3 {
        expected += scene.recording("shop", number, 1);
        let outcome = scene.ship();
        assert_eq!((outcome.waiting, outcome.problems.len()), (number + 1, 1), "{outcome:?}");
    }
    assert!(!scene.root.exists(), "a root that is not there is not made: it may be one that is not mounted");
    std::fs::create_dir(&scene.root).unwrap();
    assert_eq!(scene.ship().delivered, 3);
    assert_eq!(sums(&scene.root), (expected, 0));
}

#[test]
fn what_a_full_spool_drops_is_lost_to_the_nanosecond() {
    let mut scene = Scene::new();
    std::fs::remove_dir(&scene.root).unwrap();
    // Nothing has room but the rows that say what is lost, and what later batches refer to.
    scene.limits = Limits { bytes: 1, ..Limits::default() };
    let dropped = scene.recording("shop", 0, 1);
    scene.ship();
    scene.ship();
    scene.limits = Limits::default();
    let kept = scene.recording("shop", 1, 1);
    scene.ship();
    std::fs::create_dir(&scene.root).unwrap();
    scene.ship();
    assert_eq!(sums(&scene.root), (kept, dropped));
    // Stacks of the dropped samples are those of the later ones.
    assert_eq!(rows(&scene.root, "stacks").len(), 3);
}

#[test]
fn what_waits_too_long_is_lost_to_the_nanosecond() {
    let mut scene = Scene::new();
    std::fs::remove_dir(&scene.root).unwrap();
    let dropped = scene.recording("shop", 0, 1);
    scene.ship();
    scene.limits = Limits { age_ns: 1000, ..Limits::default() };
    let outcome = pass(&scene.config(), scene.now_ns() + 2000, &mut |_| {}).unwrap();
    assert_eq!(i64::try_from(outcome.lost_ns).unwrap(), dropped);
    std::fs::create_dir(&scene.root).unwrap();
    scene.ship();
    assert_eq!(sums(&scene.root), (0, dropped));
}

#[test]
fn a_state_is_of_one_root_and_of_one_process_at_a_time() {
    let scene = Scene::new();
    scene.recording("shop", 0, 1);
    scene.ship();
    let mut other = scene.config();
    other.to = Target::Root(scene.dir.path().join("elsewhere"));
    let why = pass(&other, 0, &mut |_| {}).unwrap_err();
    assert!(format!("{why:#}").contains("--state"), "{why:#}");
    scene.recording("shop", 1, 1);
    let mut refused = false;
    pass(&scene.config(), scene.now_ns(), &mut |_| refused |= pass(&scene.config(), 0, &mut |_| {}).is_err())
        .unwrap();
    assert!(refused);
}

#[test]
fn nothing_private_arrives() {
    let scene = Scene::new();
    scene.recording("shop", 0, 1);
    scene.recording("shop", 2, 1);
    scene.ship();
    let private = ["secret", "hunter2", "3777111", "3777112", "host-of-the-file", "/home", "password"];
    let look = |text: &str, what: &str| {
        for word in private {
            assert!(!text.contains(word), "{word} in {what}: {text}");
        }
    };
    for (name, octets) in contents(&scene.root) {
        look(&name, "a name");
        // Statistics and footers are not compressed.
        look(&String::from_utf8_lossy(&octets), &name);
        for id in [3_777_111u32, 3_777_112] {
            let found = octets.windows(4).any(|window| window == id.to_le_bytes());
            assert!(!found, "a process id in {name}");
        }
    }
    let mut seen = 0;
    for table in ["samples", "stacks", "locations", "builds", "hosts"] {
        for row in rows(&scene.root, table) {
            look(&row.to_string(), table);
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} rows");
}

/// What a child does in `killed_at_every_step`: two passes, dead at the step that `PCT_TEST_DIES_AT` names.
#[test]
#[ignore = "a part of killed_at_every_step"]
fn ships_until_it_is_killed() {
    kills_itself(run_the_story);
}

/// A story with all that a shipper does: recordings, a target that is away, samples that are dropped, a
/// target that is back. What was done before is not done again, so that a killed shipper's successor can tell
/// it from the start.
fn run_the_story(scene: &Scene, step: &mut dyn FnMut(&str)) {
    let away = scene.dir.path().join("away");
    if away.exists() {
        // Two batches wait, and the first one is dropped.
        let few = Limits { age_ns: 1000, ..Limits::default() };
        if !scene.path(1).exists() {
            scene.recording("shop", 0, 1);
            pass(&scene.config(), scene.now_ns(), step).unwrap();
        }
        scene.recording("shop", 1, 2);
        let config = pct_fleet::ship::Config { limits: few, ..scene.config() };
        pass(&config, scene.now_ns() + 2000, step).unwrap();
        step("the target comes back");
        std::fs::rename(&away, &scene.root).unwrap();
    }
    scene.recording("shop", 2, 3);
    scene.recording("till", 3, 1);
    pass(&scene.config(), scene.now_ns() + 3000, step).unwrap();
}

#[test]
fn killed_at_every_step() {
    let told = |scene: &Scene| {
        std::fs::rename(&scene.root, scene.dir.path().join("away")).unwrap();
    };
    let whole = Scene::new();
    told(&whole);
    let mut steps: u64 = 0;
    run_the_story(&whole, &mut |_| steps += 1);
    assert!(steps > 60, "{steps} steps");
    let (value, lost) = sums(&whole.root);
    assert!(value > 0 && lost > 0, "{value} {lost}");
    for dies_at in 1..=steps {
        let scene = Scene::new();
        told(&scene);
        run_until_killed("ship::ships_until_it_is_killed", &scene, dies_at);
        run_the_story(&scene, &mut |_| {});
        assert_eq!(sums(&scene.root), (value, lost), "killed at step {dies_at}");
        let names =
            |scene: &Scene| contents(&scene.root).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert!(names(&scene).iter().all(|name| !name.contains("/.")), "{:?}", names(&scene));
        let left = std::fs::read_dir(scene.state.join("spool")).unwrap().count();
        assert_eq!(left, 0, "killed at step {dies_at}");
    }
}
