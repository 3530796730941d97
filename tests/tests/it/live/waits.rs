//! Waits of programs that know who waited for whom, as `pct run --wait` and `pct report --wait` tell them.

use std::process::Command;

use pct_kit::harm::harm;
use pct_tests::java::compiled_or_skip;
use pct_tests::pct::{Run, binary, run};
use pct_tests::victims::victim;
use pct_tests::waits::{self, Counts, Matrix, Truth, each_is_found, reported};
use pct_tests::{root, tool_or_skip};

/// A run of the C victim in a mode: what it said of itself, and what the recording says.
fn run_mode(mode: &str) -> (Run, Vec<Truth>, Matrix, Counts) {
    waits::run_mode("lock_waits.c", mode)
}

/// Four threads, three locks, four sites. pct's clocks are read between those of the program: of two threads that both
/// hold the lock by the program's clocks, pct must say which one did, and it may not name anybody else.
#[test]
fn waits_for_mutexes_belong_to_those_who_held_them() {
    let (r, truth, mut found, _) = run_mode("matrix");
    let flame =
        Command::new(binary()).args(["flame", "--wait", "-o", "-"]).arg(&r.dir).output().expect("it starts");
    let flame = String::from_utf8_lossy(&flame.stdout);
    assert!(flame.contains("site_a") && flame.contains("us of waits for locks"), "{flame}");
    // The end of a thread is no lock: where it is waited for is not in the picture.
    assert!(!flame.contains("__libc_start_call_main"), "{flame}");
    let of_work = Command::new(binary()).args(["flame", "--wait=work", "-o", "-"]).arg(&r.dir).output();
    let of_work = of_work.expect("it starts");
    let of_work = String::from_utf8_lossy(&of_work.stdout);
    assert!(of_work.contains("us of waits for work") && !of_work.contains("site_a"), "{of_work}");
    assert!(of_work.contains("__libc_start_call_main"), "{of_work}");
    let all = Command::new(binary()).args(["report", "--wait=all", "--tree"]).arg(&r.dir).output();
    let all = all.expect("it starts");
    let all = String::from_utf8_lossy(&all.stdout);
    assert!(all.starts_with("Waits for locks and for work ("), "{all}");
    assert!(all.contains("site_a") && all.contains("__libc_start_call_main"), "{all}");
    found.retain(|(_, kind, _), _| kind == "mutex");
    let all: f64 = found.values().sum();
    let most: f64 = truth.iter().map(|cell| cell.most).sum();
    for cell in &truth {
        let key = (cell.waiter.clone(), cell.kind.clone(), cell.holder.clone());
        let seconds = found.remove(&key).unwrap_or(0.0);
        println!("{key:?}: {seconds:.6} of at most {:.6} s", cell.most);
        assert!(seconds <= cell.most, "{key:?}: {seconds} s, at most {} s", cell.most);
    }
    // What remains has no known holder, or one that the program does not know.
    let unknown: f64 = found.iter().filter(|((_, _, holder), _)| holder == "-").map(|(_, s)| s).sum();
    found.retain(|(_, _, holder), _| holder != "-");
    assert!(found.is_empty(), "{found:?}");
    println!("{all:.6} of at most {most:.6} s, holder not known: {unknown:.6} s");
    // A thread may lose its processor between the program's clock and pct's, but not each time: all four threads would
    // have to be kept from running at each of 240 places.
    assert!(all > most / 10.0 && unknown < all / 2.0, "{all} s, at most {most} s, not known {unknown} s");
}

#[test]
fn waits_for_work_name_who_ended_them() {
    let (_keep, truth, found, waits) = run_mode("work");
    assert_eq!(truth.len(), 4);
    each_is_found(&truth, &found, &waits);
}

/// The time after the signal is a wait for the mutex, because of the thread that keeps it.
#[test]
fn a_mutex_that_is_kept_after_the_signal_is_waited_for() {
    let (_keep, truth, found, waits) = run_mode("relock");
    assert_eq!(truth.len(), 2);
    each_is_found(&truth, &found, &waits);
}

/// Who waits for a condition releases its mutex inside of the C library: the time before belongs to that thread.
#[test]
fn a_mutex_that_is_released_by_a_wait_has_its_holder() {
    let (_keep, truth, found, waits) = run_mode("given_up");
    assert_eq!(truth.len(), 1);
    each_is_found(&truth, &found, &waits);
}

#[test]
fn readers_and_writers_wait_for_each_other() {
    let (_keep, truth, found, waits) = run_mode("rwlock");
    assert_eq!(truth.len(), 2);
    each_is_found(&truth, &found, &waits);
}

/// Six threads begin with a wait at the same moment. One of them makes the file; the others wait until the program's
/// code is known, so all have whole stacks.
#[test]
fn the_first_waits_of_a_process_have_whole_stacks() {
    let program = victim("lock_waits.c");
    // It was seen in four of five runs.
    for _ in 0..3 {
        let r = run(&["--wait", "--no-report"], &[program.to_str().expect("a path"), "start"]);
        r.unharmed();
        let tree = Command::new(binary()).args(["report", "--wait", "--tree"]).arg(&r.dir).output();
        let tree = tree.expect("it starts");
        let tree = String::from_utf8_lossy(&tree.stdout);
        assert!(tree.contains("begins_with_a_wait") && !tree.contains("<truncated"), "{tree}");
        let (_, waits) = reported(&r.dir);
        assert_eq!(waits.get(&("wait_at_once".to_owned(), "mutex".to_owned())), Some(&6.0), "{waits:?}");
    }
}

/// What odd calls return, cancellation, robust locks, locks in shared memory, forks between waiting threads: as bare.
#[test]
fn a_program_with_odd_locks_behaves_as_bare() {
    let program = victim("lock_waits.c");
    let bare = Command::new(&program).arg("manners").output().expect("it starts");
    assert!(bare.status.success() && bare.stdout.len() > 1000, "{bare:?}");
    let r = run(&["--wait", "--no-report"], &[program.to_str().expect("a path"), "manners"]);
    if r.unharmed().as_bytes() != bare.stdout {
        harm(&format!("{}\nbare: {}", r.stdout(), String::from_utf8_lossy(&bare.stdout)));
    }
    let (_, waits) = reported(&r.dir);
    for (function, kind) in [
        ("cancelled_in_condition", "condition"),
        ("cancelled_in_semaphore", "semaphore"),
        ("cancelled_in_join", "thread's end"),
    ] {
        let cancelled = waits.get(&(function.to_owned(), kind.to_owned()));
        assert_eq!(cancelled, Some(&3.0), "{function}: waits that ended by cancellation: {waits:?}");
    }
    let jumped = waits.get(&("jumps_out_of_semaphore".to_owned(), "semaphore".to_owned()));
    assert_eq!(jumped, Some(&4.0), "waits that a handler left by a jump: {waits:?}");
    // The sleeper waits for a signal, in no call that is wrapped.
    let text = Command::new(binary()).args(["report", "--wait"]).arg(&r.dir).output().expect("it starts");
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("waits; 0 records lost") && !text.contains("not over at the end"), "{text}");
}

#[test]
fn a_recording_without_waits_says_how_to_record_them() {
    let r = run(&["--no-report"], &["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"]);
    let report = Command::new(binary()).args(["report", "--wait"]).arg(&r.dir).output().expect("it starts");
    assert_eq!(report.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&report.stderr).contains("pct run --wait -- COMMAND"), "{report:?}");
}

/// The part about waits stands between the table of functions and the account.
#[test]
fn a_run_ends_with_the_locks_that_were_waited_for() {
    let program = victim("lock_waits.c");
    let r = run(&["--wait"], &[program.to_str().expect("a path"), "matrix"]);
    r.unharmed();
    let said = r.stderr();
    let from = said.find("\nwaits for locks: ").unwrap_or_else(|| panic!("no part about locks: {said}"));
    let until = said.find("\naccounted ").unwrap_or_else(|| panic!("no account: {said}"));
    let part: Vec<&str> = said.get(from..until).unwrap_or_default().trim().lines().collect();
    assert!(part.len() <= 8 && part[1].contains("waited for in"), "{said}");
    let rows = part.iter().filter(|line| line.contains(" mutex 0x") && line.contains("site_"));
    assert_eq!(rows.count(), 3, "{said}");
    assert!(part.iter().any(|line| line.starts_with("waits for work (not contention): ")), "{said}");
    assert!(said.contains("try: pct report --wait "), "{said}");
}

#[test]
fn a_run_that_waited_for_no_lock_says_so() {
    let program = victim("lock_waits.c");
    let r = run(&["--wait"], &[program.to_str().expect("a path"), "start"]);
    assert!(r.stderr().contains("\nwaits for locks: "), "{}", r.stderr());
    let script = ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"];
    let r = run(&["--wait"], &script);
    assert!(r.stderr().contains("\nno thread waited for a lock\n"), "{}", r.stderr());
    let r = run(&[], &script);
    assert!(!r.stderr().contains("waited for a lock"), "{}", r.stderr());
}

#[test]
fn the_viewer_shows_what_was_waited_for() {
    let program = victim("lock_waits.c");
    let r = run(&["--wait", "--no-report"], &[program.to_str().expect("a path"), "matrix"]);
    r.unharmed();
    let page = |query: &str| {
        let page = Command::new(binary()).args(["view", "--text", query]).arg(&r.dir).output();
        String::from_utf8_lossy(&page.expect("it starts").stdout).into_owned()
    };
    let overview = page("menu");
    assert!(overview.contains("\nWaits for locks: ") && overview.contains("mutex 0x"), "{overview}");
    let waits = page("waits/locks");
    let stacks = waits.split_once("Where threads waited for locks").unwrap_or_else(|| panic!("{waits}")).1;
    assert!(stacks.contains("site_a"), "{waits}");
}

/// What `pct report --wait` prints of a run.
fn table_by(rows: &str, r: &Run) -> String {
    let table = Command::new(binary()).args(["report", "--wait", "--by", rows]).arg(&r.dir).output();
    String::from_utf8_lossy(&table.expect("it starts").stdout).into_owned()
}

/// The interpreter's functions wait; the reader wrote none of them.
#[test]
fn waits_of_python_are_answered_in_python_functions() {
    let Some(python) = tool_or_skip("python3", "waits_of_python_are_answered_in_python_functions") else {
        return;
    };
    let program = root().join("tests/victims/locks.py");
    let words = [python.to_str().expect("a path"), program.to_str().expect("a path")];
    let r = run(&["--wait", "--no-report"], &words);
    r.unharmed();
    for rows in ["lock", "function", "owner"] {
        let table = table_by(rows, &r);
        assert!(table.contains("hold (victims/locks.py:8)"), "--by {rows}: {table}");
    }
    let machine = table_by("leaf", &r);
    assert!(!machine.contains("locks.py") && machine.contains("waits in"), "{machine}");
}

/// Seconds of waits in a function of the program: those for locks of this name, and all others.
fn seconds_for(r: &Run, owner: &str, name: &str) -> (f64, f64) {
    let json = Command::new(binary()).args(["report", "--wait", "--format", "json"]).arg(&r.dir).output();
    let value: serde_json::Value = serde_json::from_slice(&json.expect("it starts").stdout).expect("JSON");
    let (mut named, mut others) = (0.0, 0.0);
    for row in value["waits"].as_array().expect("rows").iter().filter(|row| row["owner"] == owner) {
        let is_named = row["name"].as_str().is_some_and(|found| found.starts_with(name));
        assert!(!is_named || row["is_lock"] == true, "{row}");
        *(if is_named { &mut named } else { &mut others }) += row["seconds"].as_f64().expect("a number");
    }
    (named, others)
}

/// Runtimes make locks of conditions and semaphores, with which others wait for work.
#[test]
fn locks_of_java_are_locks() {
    let Some((java, classes)) = compiled_or_skip("Locks.java", "locks_of_java_are_locks") else { return };
    let [java, classes] = [&java, classes.path()].map(|path| path.to_str().expect("a path"));
    let r = run(&["--wait", "--no-report"], &[java, "-cp", classes, "Locks", "1000"]);
    assert_eq!(r.unharmed(), "done\n");
    for (owner, name) in [("Locks.monitored", "Java monitor"), ("Locks.locked", "Java lock")] {
        // One thread or the other waits, but for hand-overs; the waits for work are those of `sleep`.
        let (named, _) = seconds_for(&r, owner, name);
        assert!(named > 0.4 && named < 2.0, "{owner}: {named}");
    }
    let (locks, work) = seconds_for(&r, "Locks.idle", "Java");
    assert!(locks == 0.0 && work > 0.4, "{locks} {work}");
}

#[test]
fn locks_of_python_are_locks() {
    let Some(python) = tool_or_skip("python3", "locks_of_python_are_locks") else { return };
    let program = root().join("tests/victims/locks.py");
    let words = [python.to_str().expect("a path"), program.to_str().expect("a path")];
    let r = run(&["--wait", "--no-report"], &words);
    r.unharmed();
    // Of three threads that each hold it ten times for 20 ms, two wait as long as there are three.
    let (named, _) = seconds_for(&r, "hold", "Python lock");
    assert!(named > 0.4, "{named}");
    let (gil, _) = seconds_for(&r, "spin", "Python's GIL");
    assert!(gil > 0.1, "{gil}");
    // The main thread waits for the ends of the others: by a lock, but not for one.
    let (locks, work) = seconds_for(&r, "<module>", "Python lock");
    assert!(locks == 0.0 && work > 0.4, "{locks} {work}");
}
