//! Objects of any layout that a loader takes: their stacks are whole, and their functions have their names.

use pct_tests::odd_objects::{Odd, make};
use pct_tests::pct::{folded, run};
use pct_tests::skip;
use pct_tests::victims::{Guest, victim, victim_with};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rounds of a call of the chain: about 3 ms of CPU time.
const ROUNDS: &str = "1200000";

/// `count` objects in `folder`, and the file that lists them.
fn made(test: &str, folder: &Path, count: usize) -> Option<(Vec<Odd>, PathBuf)> {
    let odd = make(folder, count).map_err(|why| skip(test, &why)).ok()?;
    let list = folder.join("list");
    let paths: Vec<String> = odd.iter().map(|odd| odd.path.display().to_string()).collect();
    std::fs::write(&list, paths.join("\n")).expect("written");
    Some((odd, list))
}

/// What is wrong with the stacks in which functions of these objects are.
fn faults(stacks: &str, odd: &[Odd]) -> Vec<String> {
    let mut faults = Vec::new();
    for odd in odd.iter().filter(|odd| odd.has_names) {
        let own = format!("c{:04}_", odd.number);
        let chain = format!("chain_entry;{}", odd.names().join(";"));
        let mut of_object = stacks.lines().filter(|line| line.contains(&own)).peekable();
        if of_object.peek().is_none() {
            faults.push(format!("{}: not seen: {}", odd.number, odd.layout));
        }
        let is_wrong = |line: &&str| {
            let (stack, _) = line.rsplit_once(' ').unwrap_or((line, ""));
            let user = stack.strip_suffix(";[system]").unwrap_or(stack);
            let from_main = user.split_once(";main;").map(|(_, called)| called);
            stack.contains("<truncated") || !from_main.is_some_and(|called| chain.starts_with(called))
        };
        faults.extend(of_object.filter(is_wrong).map(|line| format!("{line}: {}", odd.layout)));
    }
    // Those without names.
    let cut = stacks.lines().filter(|line| line.contains("<truncated") && !line.contains("c0"));
    faults.extend(cut.map(str::to_owned));
    faults
}

#[test]
fn stacks_through_objects_of_odd_layouts_are_whole() {
    let test = "stacks_through_objects_of_odd_layouts_are_whole";
    let folder = tempfile::tempdir().expect("a folder");
    let Some((odd, list)) = made(test, folder.path(), 500) else { return };
    let words = [victim("odd_run.c"), list].map(|path| path.display().to_string());
    let r = run(&["--hz", "4000"], &[&words[0], &words[1], ROUNDS]);
    assert_eq!(r.unharmed(), "500 objects\n");
    let stacks = folded(&r.dir);
    let faults = faults(&stacks, &odd);
    assert!(faults.is_empty(), "{} faults:\n{}\n{}", faults.len(), faults.join("\n"), r.stderr());
}

#[test]
fn stacks_through_objects_of_odd_layouts_are_whole_from_outside() {
    let test = "stacks_through_objects_of_odd_layouts_are_whole_from_outside";
    let folder = tempfile::tempdir().expect("a folder");
    let Some((odd, list)) = made(test, folder.path(), 100) else { return };
    let guest =
        Guest::started(Command::new(victim("odd_run.c")).arg(list).args([ROUNDS, "on"]), "100 objects");
    guest.attached(folder.path(), &["--method", "6", "--hz", "500", "--out", "recording"], 6.0);
    let stacks = folded(&folder.path().join("recording"));
    let faults = faults(&stacks, &odd);
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// What maps an object slowly, and the object.
fn halfway() -> [String; 2] {
    let object = victim_with("halfway_object.c", "cc -shared -fPIC -O2 -nostdlib -Wl,-e,turns", "halfway.so");
    [victim("halfway.c"), object.expect("it builds")].map(|path| path.display().to_string())
}

/// Whether the stacks of the object's function are whole, and there are some.
fn are_whole(recording: &Path) {
    let stacks = folded(recording);
    let of_object: Vec<&str> = stacks.lines().filter(|line| line.contains("turns")).collect();
    assert!(!of_object.is_empty() && of_object.iter().all(|line| line.contains(";main;turns")), "{stacks}");
}

/// Who looks while the loader maps an object sees its code, and not yet its unwind data.
#[test]
fn an_object_that_was_seen_half_mapped_has_whole_stacks_later() {
    let [program, object] = halfway();
    let r = run(&["--no-report"], &[&program, &object, "0.4", "0.4"]);
    assert_eq!(r.unharmed(), "half\nwhole\n");
    are_whole(&r.dir);
}

#[test]
fn an_object_that_was_seen_half_mapped_has_whole_stacks_later_from_outside() {
    let [program, object] = halfway();
    let folder = tempfile::tempdir().expect("a folder");
    let guest = Guest::started(Command::new(program).args([&object, "3", "0"]), "half");
    guest.attached(folder.path(), &["--method", "5", "--hz", "200", "--out", "recording"], 4.0);
    are_whole(&folder.path().join("recording"));
}
