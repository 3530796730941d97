//! Programs that gain rights when they are executed (another user, another group, capabilities) do so under pct too:
//! when pct has no right to trace everybody, they are not traced.

use pct_kit::harm::unharmed;
use pct_tests::pct::{binary, folded, report, seconds_in};
use pct_tests::victims::{truth, victim, victim_with};
use pct_tests::{skip, tool_or_skip};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Somebody who has no rights.
const NOBODY: u32 = 65534;

/// A folder in which another user can run copies of our programs.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// `None`: we cannot become another user, or only parents may trace here; that is said.
    fn new(test: &str) -> Option<Place> {
        let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        if !["", "0"].contains(&yama.trim()) {
            skip(test, "only parents may trace here (Yama)");
            return None;
        }
        let place = Place { folder: tempfile::tempdir().expect("a folder") };
        std::fs::set_permissions(place.folder.path(), PermissionsExt::from_mode(0o777)).expect("set");
        place.copy(binary(), "pct", 0o755);
        if place.command("true").output().is_err() {
            skip(test, "this user cannot become another one");
            return None;
        }
        Some(place)
    }

    fn copy(&self, program: &Path, name: &str, mode: u32) -> PathBuf {
        let copy = self.folder.path().join(name);
        std::fs::copy(program, &copy).expect("copied");
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(mode)).expect("set");
        copy
    }

    /// A command of the other user's.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.uid(NOBODY).gid(NOBODY).current_dir(self.folder.path()).env("HOME", self.folder.path());
        command
    }

    /// `pct run` with `options` of a program and its words, by the other user; the recording is `name`.
    fn run(&self, name: &str, options: &[&str], program: &[&str]) -> Output {
        let mut command = self.command("./pct");
        command.args(["run", "-o", name]).args(options).arg("--").args(program);
        command.output().expect("pct runs")
    }
}

/// A program by each kind of right that it gains. One that the user may not read is executed all the same.
fn programs_with_rights(place: &Place, test: &str) -> Vec<&'static str> {
    let rights = victim("rights.c");
    let add = |program: &Path, name: &str, mode: u32| {
        let program = place.copy(program, name, mode);
        chown(&program, Some(0), Some(0)).expect("we are root");
        // who changes the owner takes the rights away
        std::fs::set_permissions(&program, PermissionsExt::from_mode(mode)).expect("set");
    };
    for (name, mode) in
        [("user", 0o4755), ("group", 0o2755), ("user-unreadable", 0o4111), ("capabilities", 0o755)]
    {
        add(&rights, name, mode);
    }
    let script = place.folder.path().join("script");
    std::fs::write(&script, format!("#!{}/user word\n", place.folder.path().display())).expect("written");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("set");
    let mut programs = vec!["./user", "./group", "./user-unreadable", "./script"];
    match victim_with("rights32.c", "cc -m32 -nostdlib -static -O1", "rights32") {
        Ok(built) if Command::new(&built).status().is_ok_and(|ended| ended.success()) => {
            add(&built, "user-32", 0o4755);
            programs.push("./user-32");
        }
        _ => skip(test, "no 32-bit programs here"),
    }
    if let Some(setcap) = tool_or_skip("setcap", test) {
        let file = place.folder.path().join("capabilities");
        let set = Command::new(setcap).arg("cap_net_raw=ep").arg(file).status().expect("it runs");
        if set.success() {
            programs.push("./capabilities");
        }
    }
    programs
}

/// Also when it is known too late, and the program is executed once more: the same words come to it.
#[test]
fn programs_that_processes_execute_which_are_sampled_from_outside_gain_their_rights() {
    let test = "programs_that_processes_execute_which_are_sampled_from_outside_gain_their_rights";
    let Some(place) = Place::new(test) else { return };
    place.copy(&victim("executes.c"), "executes", 0o755);
    let programs = programs_with_rights(&place, test);
    let alone = place.command("./user").output().expect("it runs");
    if !String::from_utf8_lossy(&alone.stdout).contains("user 65534 0") {
        return skip(test, "programs gain no rights on this file system");
    }
    for program in programs {
        let mut words = vec!["./executes", program];
        // nobody can have these executed once more
        words.extend(["./user-unreadable", "./user-32"].contains(&program).then_some("once"));
        let bare = place.command(words[0]).args(&words[1..]).output().expect("it runs");
        let name = format!("recording-{}", &program[2..]);
        let run = place.run(&name, &["--clock", "wall"], &words);
        assert_eq!(unharmed(&run), unharmed(&bare), "{program}");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(said.contains(" on start (set") && said.contains("): not sampled ("), "{program}: {said}");
        assert!(!said.contains("run pct as root"), "{program}: {said}");
        // What gains nothing is sampled on. (A table's row has only what the function does itself; half of its time is
        // spent in what it calls.)
        let stacks = folded(&place.folder.path().join(&name));
        let through = stacks.lines().filter(|stack| stack.contains(";works"));
        let samples = through.filter_map(|stack| stack.rsplit(' ').next()?.parse::<f64>().ok());
        let works = samples.sum::<f64>() / 100.0;
        assert!(works > if words.len() == 2 { 0.15 } else { 0.07 }, "{program}: {works} s\n{said}");
    }
}

/// A program that pct itself starts is in no sample then, under whatever clock.
#[test]
fn programs_that_pct_starts_gain_their_rights() {
    let test = "programs_that_pct_starts_gain_their_rights";
    let Some(place) = Place::new(test) else { return };
    for program in programs_with_rights(&place, test) {
        let bare = place.command(program).output().expect("it runs");
        for clock in ["auto", "wall", "itimer"] {
            let run =
                place.run(&format!("recording-{clock}-{}", &program[2..]), &["--clock", clock], &[program]);
            assert_eq!(unharmed(&run), unharmed(&bare), "{program} {clock}");
            let said = String::from_utf8_lossy(&run.stderr);
            // Why is said before the program runs.
            let first = said.lines().next().unwrap_or_default();
            assert!(first.contains(" on start (set"), "{program} {clock}: {said}");
        }
    }
}

/// With new privileges given up for good nothing is gained, with and without us.
#[test]
fn programs_that_cannot_gain_rights_are_sampled() {
    let test = "programs_that_cannot_gain_rights_are_sampled";
    let Some(place) = Place::new(test) else { return };
    let Some(setpriv) = tool_or_skip("setpriv", test) else { return };
    place.copy(&victim("executes.c"), "executes", 0o755);
    programs_with_rights(&place, test);
    let words = [
        "--no-new-privs",
        "./pct",
        "run",
        "--clock",
        "wall",
        "-o",
        "recording",
        "--",
        "./executes",
        "./user",
    ];
    let run = place.command(setpriv.to_str().expect("UTF-8")).args(words).output().expect("it runs");
    let printed = unharmed(&run);
    assert!(printed.contains("user 65534 65534") && !printed.contains("user 65534 0"), "{printed}");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(!said.contains(" on start (set"), "{said}");
}

/// What is taken over in the midst of a run is followed by every user.
#[test]
fn another_user_than_root_follows_what_was_taken_over() {
    let test = "another_user_than_root_follows_what_was_taken_over";
    let Some(place) = Place::new(test) else { return };
    programs_with_rights(&place, test);
    let mut ways = vec![("takesall", place.copy(&victim("takesall.c"), "takesall", 0o755))];
    match victim_with("takesall.c", "cc -O2 -static", "takesall-static") {
        Ok(built) => ways.push(("takesall-static", place.copy(&built, "takesall-static", 0o755))),
        Err(why) => skip(test, &why),
    }
    for (name, program) in ways {
        let script = format!("{} ./user-unreadable; exit $?", program.display());
        let recording = format!("recording-of-{name}");
        let run = place.run(&recording, &["--hz", "997"], &["sh", "-c", &script]);
        let printed = unharmed(&run);
        assert!(printed.contains("user 65534 0"), "{name}: {printed}");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(said.contains(": sampled from outside from there on (process "), "{name}: {said}");
        let rows = report(&place.folder.path().join(&recording), &["--by", "function"]);
        for (function, spent) in truth(&printed) {
            let seen = seconds_in(&rows, &function);
            assert!(
                (seen - spent).abs() < spent * 0.25 + 0.03,
                "{name}: {function}: {seen} of {spent} s\n{said}"
            );
        }
    }
}
