//! Files that are deleted or replaced while their code runs, or afterwards: each function keeps its name, and no
//! function has that of another file.

use pct_kit::wait::wait_until;
use pct_tests::pct::{Row, binary, report, run, seconds_in};
use pct_tests::victims::{Guest, Left, signal, truth, victim, victim_with};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Linkers write a build-id, or none.
const WITH_AND_WITHOUT: [&str; 2] = ["sha1", "none"];

/// A plug-in whose function is called `version_K`.
fn plug(number: usize, build_id: &str) -> PathBuf {
    let build = format!("cc -O2 -shared -fPIC -DVERSION=version_{number} -Wl,--build-id={build_id}");
    victim_with("replaced_plug.c", &build, &format!("plug{number}.so")).expect("as replaced_plug.c says")
}

/// A copy of the program, which may go away.
fn program(folder: &Path, build_id: &str) -> PathBuf {
    let build = format!("cc -O2 -ldl -Wl,--build-id={build_id}");
    let built = victim_with("replaced.c", &build, "replaced").expect("as replaced.c says");
    let copy = folder.join("replaced");
    fs::copy(built, &copy).expect("copied");
    copy
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Rows without the name of a function although their object is one of the test's.
fn nameless(rows: &[Row]) -> Vec<&Row> {
    rows.iter()
        .filter(|row| row.function.starts_with("[live.so+") || row.function.starts_with("[replaced+"))
        .collect()
}

#[test]
fn versions_of_a_plugin_under_one_path_keep_their_names() {
    for build_id in WITH_AND_WITHOUT {
        let plugs: Vec<PathBuf> = (1..=3).map(|number| plug(number, build_id)).collect();
        let victim = victim("replaced.c");
        let mut words = vec![text(&victim), "reload", "0.5"];
        words.extend(plugs.iter().map(|plug| text(plug)));
        let r = run(&[], &words);
        let truth = truth(&r.unharmed());
        let rows = r.report(&[]);
        for (name, seconds) in &truth {
            let seen = seconds_in(&rows, name);
            assert!((seen / seconds - 1.0).abs() < 0.2, "{build_id}: {name} {seen} of {seconds}\n{rows:?}");
        }
        assert!(nameless(&rows).is_empty(), "{build_id}: {:?}", nameless(&rows));
        // Where the copies are gone, there is no name, rather than a wrong one.
        fs::remove_dir_all(r.dir.join("objects")).expect("two versions were copied");
        let rows = r.report(&[]);
        for (name, _) in &truth[..2] {
            assert!(seconds_in(&rows, name) == 0.0, "{build_id}: {name}: {rows:?}");
        }
        let (last, seconds) = &truth[2];
        let seen = seconds_in(&rows, last);
        assert!((seen / seconds - 1.0).abs() < 0.2, "{build_id}: {last} {seen} of {seconds}");
    }
}

#[test]
fn programs_and_libraries_that_are_deleted_keep_their_names() {
    for build_id in WITH_AND_WITHOUT {
        let here = tempfile::tempdir().expect("a folder");
        let r = run(&[], &[text(&program(here.path(), build_id)), "program", "0.6"]);
        assert_eq!(r.unharmed(), "ready\n");
        let rows = r.report(&[]);
        let seen = seconds_in(&rows, "of_the_program");
        assert!(seen > 0.5 && nameless(&rows).is_empty(), "{build_id}: {seen}: {rows:?}");

        let library = here.path().join("live.so");
        fs::copy(plug(1, build_id), &library).expect("copied");
        let r = run(&[], &[text(&program(here.path(), build_id)), "library", "0.6", text(&library)]);
        assert_eq!(r.unharmed(), "ready\n");
        let rows = r.report(&[]);
        let seen = seconds_in(&rows, "version_1");
        assert!(seen > 0.5 && nameless(&rows).is_empty(), "{build_id}: {seen}: {rows:?}");
    }
}

#[test]
fn what_was_deleted_before_an_attach_has_its_names() {
    let ways: [&[&str]; 2] = [&[], &["--method", "6"]];
    for (build_id, way) in WITH_AND_WITHOUT.into_iter().flat_map(|id| ways.map(|way| (id, way))) {
        let here = tempfile::tempdir().expect("a folder");
        let folder = here.path().join("recording");
        let attached = |words: &[&str]| {
            let mut guest = Guest::start(Command::new(program(here.path(), build_id)).args(words));
            guest.hear("ready");
            guest.attached(here.path(), &[way, &["--out", "recording"]].concat(), 0.6);
            let rows = report(&folder, &[]);
            fs::remove_dir_all(&folder).expect("removed");
            rows
        };
        let rows = attached(&["program", "60"]);
        assert!(seconds_in(&rows, "of_the_program") > 0.3, "{build_id} {way:?}: {rows:?}");
        assert!(nameless(&rows).is_empty(), "{build_id} {way:?}: {rows:?}");
        let library = here.path().join("live.so");
        fs::copy(plug(1, build_id), &library).expect("copied");
        let rows = attached(&["library", "60", text(&library)]);
        assert!(seconds_in(&rows, "version_1") > 0.3, "{build_id} {way:?}: {rows:?}");
        assert!(nameless(&rows).is_empty(), "{build_id} {way:?}: {rows:?}");
    }
}

/// `pct WORDS RECORDING`: what it says on both streams.
fn said(words: &[&str], recording: &Path) -> String {
    let out = Command::new(binary()).args(words).arg(recording).output().expect("pct can be run");
    assert!(out.status.success(), "{words:?}: {out:?}");
    String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
}

#[test]
fn a_file_that_was_replaced_later_gives_no_names_and_the_report_says_in_what_it_differs() {
    for (build_id, difference) in [("sha1", "its build-id is"), ("none", "it was changed after")] {
        let victim = victim("replaced.c");
        let r = run(&[], &[text(&victim), "reload", "0.4", text(&plug(1, build_id))]);
        r.unharmed();
        let library = r.scratch().join("live.so");
        let before = said(&["report"], &r.dir);
        assert!(before.contains("version_1") && !before.contains("replaced or rebuilt"), "{before}");
        // The same size, the same first page where there is no build-id: one letter in the symbol table differs.
        let octets = fs::read(&library).expect("read");
        let other: Vec<u8> = match build_id {
            "none" => octets,
            _ => fs::read(plug(2, build_id)).expect("read"),
        };
        fs::remove_file(&library).and_then(|()| fs::write(&library, other)).expect("written");
        let after = said(&["report"], &r.dir);
        assert!(!after.contains("version_"), "{after}");
        assert!(after.contains("replaced or rebuilt since") && after.contains(difference), "{after}");
        let code = said(&["annotate", "--asm", "live.so"], &r.dir);
        assert!(code.contains("no instructions") && code.contains(difference), "{code}");
    }
}

#[test]
fn an_archive_tells_versions_without_build_ids_apart() {
    let victim = victim("replaced.c");
    let plugs = [plug(1, "none"), plug(2, "none")];
    let r = run(&[], &[text(&victim), "reload", "0.4", text(&plugs[0]), text(&plugs[1])]);
    let truth = truth(&r.unharmed());
    said(&["archive"], &r.dir);
    fs::remove_dir_all(r.dir.join("objects")).expect("one version was copied");
    fs::remove_file(r.scratch().join("live.so")).expect("removed");
    let rows = r.report(&[]);
    for (name, seconds) in &truth {
        let seen = seconds_in(&rows, name);
        assert!((seen / seconds - 1.0).abs() < 0.2, "{name} {seen} of {seconds}\n{rows:?}");
    }
}

#[test]
fn names_of_deleted_files_outlive_a_pct_that_is_killed() {
    let here = tempfile::tempdir().expect("a folder");
    let folder = here.path().join("recording");
    let mut command = Command::new(binary());
    command.args(["run", "--out", text(&folder), "--", text(&program(here.path(), "none")), "program", "2"]);
    let mut guest = Guest::start(&mut command);
    guest.hear("ready");
    wait_until("the program to be copied", || !copies(&folder).is_empty());
    let running = Left::by(guest.pid());
    signal(guest.pid(), "KILL");
    running.wait();
    let rows = report(&folder, &[]);
    assert!(seconds_in(&rows, "of_the_program") > 1.0 && nameless(&rows).is_empty(), "{rows:?}");
}

fn copies(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("objects")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}
