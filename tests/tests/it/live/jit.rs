//! Code that a program compiles while it runs has names, where its runtime writes them to a map file, and whole stacks.

use std::path::Path;
use std::process::Command;

use pct_kit::harm::{harm, unharmed};
use pct_tests::pct::{Run, binary, folded, run, samples, seconds_in};
use pct_tests::tool_or_skip;
use pct_tests::victims::{Guest, victim, works};

/// The map files of a run, which runtimes write for all to see. They are removed when this value goes.
struct Maps(Vec<u32>);

impl Maps {
    fn of(r: &Run) -> Maps {
        Maps(r.report(&["--by", "process"]).iter().map(|row| row.pid).collect())
    }
}

impl Drop for Maps {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = std::fs::remove_file(Path::new("/tmp").join(format!("perf-{pid}.map")));
        }
    }
}

/// The guest ended well, and `true` is its first line.
fn said_true(r: &Run) {
    if unharmed(&r.output).lines().next() != Some("true") {
        harm(&format!("{}{}", r.stdout(), r.stderr()));
    }
}

/// The program printed that line and nothing else: a dump of its threads would be an answer to a SIGQUIT.
fn only_true(r: &Run) {
    if unharmed(&r.output) != "true\n" {
        harm(&format!("{}{}", r.stdout(), r.stderr()));
    }
}

/// Asserts that `hot` has most of the time, and that `least` of a hundred stacks reach the thread's start.
fn hot_and_whole(r: &Run, hot: &str, least: f64) {
    let rows = r.report(&["--by", "function"]);
    let all: f64 = rows.iter().map(|row| row.cpu_seconds).sum();
    assert!(seconds_in(&rows, hot) > 0.5 * all, "{hot}: {rows:?}");
    let folded = folded(&r.dir);
    let weight = |line: &str| line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    let through = folded.lines().filter(|l| l.contains(hot));
    let (mut hot_weight, mut whole) = (0.0, 0.0);
    for line in through {
        hot_weight += weight(line);
        if !line.contains("<truncated") {
            whole += weight(line);
        }
    }
    assert!(hot_weight > 0.4 * samples(&rows), "{folded}");
    assert!(100.0 * whole >= least * hot_weight, "{whole} of {hot_weight} whole: {folded}");
}

#[test]
fn compiled_code_without_names_is_one_row_and_the_report_says_what_would_help() {
    let test = "compiled_code_without_names_is_one_row_and_the_report_says_what_would_help";
    let Some(node) = tool_or_skip("node", test) else { return };
    let script = "let s = 0; for (let i = 0; i < 3e8; i++) s += i % 7; console.log(s)";
    let options = ["--hz", "997", "--no-report", "--javascript", "off"];
    let r = run(&options, &[node.to_str().unwrap(), "-e", script]);
    unharmed(&r.output);
    let rows = r.report(&["--by", "function"]);
    let of_code = rows.iter().filter(|row| row.object == "[jit]").collect::<Vec<_>>();
    assert!(matches!(of_code[..], [row] if row.function == "[no name]"), "{of_code:?}");
    let text = Command::new(binary()).arg("report").arg(&r.dir).output().unwrap();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("note: no names for code made at run time: "), "{text}");
    assert!(text.contains("--perf-basic-prof"), "{text}");
}

#[test]
fn node_says_what_it_compiled() {
    let Some(node) = tool_or_skip("node", "node_says_what_it_compiled") else { return };
    let script = "function hotLoop(n) { let x = 1; for (let i = 0; i < n; i++) x = (x * 48271 + i) % 2147483647; return x }
        const end = process.cpuUsage().user + 1e6; let s = 0;
        while (process.cpuUsage().user < end) s += hotLoop(100000);
        console.log(s > 0)";
    let options = ["--hz", "997", "--javascript", "off"];
    let r = run(&options, &[node.to_str().unwrap(), "--perf-basic-prof", "-e", script]);
    let _maps = Maps::of(&r);
    said_true(&r);
    // The map has "JS:*hotLoop [eval]:1:17" for the optimized code and others for what ran before it.
    let rows = r.report(&["--by", "function"]);
    let name = rows.iter().map(|row| row.function.clone()).find(|f| f.contains("hotLoop"));
    hot_and_whole(&r, &name.expect("a function of that name"), 99.0);
}

/// Functions that are made, run for a while and are dropped, one after the other: V8 puts the code of each
/// where that of the one before was. The program says how much CPU time each had.
#[test]
fn code_where_other_code_was_has_its_own_name() {
    let Some(node) = tool_or_skip("node", "code_where_other_code_was_has_its_own_name") else { return };
    let script = "const used = () => { const u = process.cpuUsage(); return u.user + u.system };
        for (let g = 0; g < 30; g++) {
            let f = new Function('n', `return (function made_${g}_(n) {
                let x = ${g}; for (let i = 0; i < n; i++) x = (x * 48271 + i) % 2147483647; return x })`)();
            const from = used();
            while (used() - from < 50000) f(20000);
            console.log(`made_${g}_`, (used() - from) / 1e6);
            f = null; gc(); gc();
        }";
    let flags = ["--expose-gc", "--perf-basic-prof", "--interpreted-frames-native-stack", "-e", script];
    let mut command = vec![node.to_str().unwrap()];
    command.extend(flags);
    let r = run(&["--hz", "997", "--no-report", "--javascript", "off"], &command);
    // What is read is the copy beside the recording: the map itself is gone.
    drop(Maps::of(&r));
    let rows = r.report(&["--by", "function"]);
    let text = unharmed(&r.output);
    let truth: Vec<(&str, f64)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, s)| Some((name, s.parse().ok()?)))
        .collect();
    if truth.len() != 30 {
        harm(&format!("{text}{}", r.stderr()));
    }
    let all: f64 = truth.iter().map(|(_, seconds)| seconds).sum();
    let (mut named, mut wrong) = (0.0, 0.0);
    for &(name, seconds) in &truth {
        // One of several is said to be that, and is nobody's.
        let own = rows.iter().filter(|row| row.function.contains(name) && !row.function.contains(" or "));
        let got: f64 = own.map(|row| row.cpu_seconds).sum();
        named += got;
        // Four standard deviations of the number of samples.
        wrong += (got - seconds - 4.0 * (seconds / 997.0).sqrt()).max(0.0);
    }
    assert!(named > 0.5 * all, "{named} s of {all} s have a name: {rows:?}");
    assert!(wrong < 0.01 * all, "{wrong} s of {all} s are some other function's: {rows:?}");
}

#[test]
fn java_says_what_it_compiled() {
    let (Some(java), Some(javac)) = (
        tool_or_skip("java", "java_says_what_it_compiled"),
        tool_or_skip("javac", "java_says_what_it_compiled"),
    ) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("Hot.java");
    let text = "public class Hot {
        static long hotLoop(long x) { for (int i = 0; i < 200_000; i++) { x ^= x << 13; x ^= x >>> 7; x ^= x << 17; } return x; }
        public static void main(String[] a) {
            long x = 7, end = java.lang.management.ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() + 2_000_000_000L;
            while (java.lang.management.ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() < end) x = hotLoop(x);
            System.out.println(x != 0);
        }
    }";
    std::fs::write(&source, text).unwrap();
    assert!(Command::new(javac).arg("-d").arg(folder.path()).arg(&source).status().unwrap().success());
    // A Java without these options (they are there from 17 on) says so and ends.
    let options = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-XX:+PreserveFramePointer"];
    let mut command = vec![java.to_str().unwrap(), "-cp", folder.path().to_str().unwrap()];
    command.extend(options);
    command.push("Hot");
    let r = run(&["--hz", "997", "--java", "names"], &command);
    if !r.output.status.success() && r.stderr().contains("DumpPerfMapAtExit") {
        return pct_tests::skip("java_says_what_it_compiled", "this Java writes no map file");
    }
    let _maps = Maps::of(&r);
    said_true(&r);
    hot_and_whole(&r, "long Hot.hotLoop(long)", 95.0);
}

/// A Java program without any option of its own: pct asks it for its names while it runs.
#[test]
fn java_that_is_asked_has_names_of_compiled_functions() {
    let test = "java_that_is_asked_has_names_of_compiled_functions";
    let (Some(java), Some(javac)) = (tool_or_skip("java", test), tool_or_skip("javac", test)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("Plain.java");
    // It prints its number, and after that runs until its first function has had so much CPU time.
    let text = "public class Plain {
        static long first(long x) { for (int i = 0; i < 200_000; i++) { x ^= x << 13; x ^= x >>> 7; x ^= x << 17; } return x; }
        static long second(long x) { for (int i = 0; i < 200_000; i++) { x = x * 6364136223846793005L + 1442695040888963407L; x ^= x >>> 33; } return x; }
        public static void main(String[] a) {
            var threads = java.lang.management.ManagementFactory.getThreadMXBean();
            System.out.println(ProcessHandle.current().pid());
            long x = 7, in_first = 0, in_second = 0;
            while (in_first < 2_000_000_000L) {
                long from = threads.getCurrentThreadCpuTime();
                for (int n = 0; n < 20; n++) x = first(x);
                long between = threads.getCurrentThreadCpuTime();
                for (int n = 0; n < 20; n++) x = second(x);
                in_first += between - from;
                in_second += threads.getCurrentThreadCpuTime() - between;
            }
            System.out.println(in_first / 1e9 + \" \" + in_second / 1e9 + \" \" + (x != 0));
        }
    }";
    std::fs::write(&source, text).unwrap();
    assert!(Command::new(javac).arg("-d").arg(folder.path()).arg(&source).status().unwrap().success());
    let command = [java.to_str().unwrap(), "-cp", folder.path().to_str().unwrap(), "Plain"];
    let r = run(&["--hz", "997", "--no-report", "--java", "names"], &command);
    if r.stderr().contains("Java 17 is the first that tells") {
        return pct_tests::skip(test, "this Java writes no map when asked");
    }
    let out = r.stdout();
    let lines: Vec<&str> = out.lines().collect();
    // A dump of all threads on stdout would be the answer to a SIGQUIT that came at the wrong time.
    let [pid, truth] = lines[..] else { panic!("{out}\n{}", r.stderr()) };
    let truth: Vec<f64> = truth.split(' ').take(2).map(|s| s.parse().unwrap()).collect();
    let rows = r.report(&["--by", "function"]);
    for (name, seconds) in [("Plain.first(long)", truth[0]), ("Plain.second(long)", truth[1])] {
        let got: f64 = rows.iter().filter(|row| row.function.contains(name)).map(|row| row.cpu_seconds).sum();
        // Four standard deviations of the number of samples, and what ran before it was compiled.
        let spread = 4.0 * (seconds / 997.0).sqrt();
        assert!(got < seconds + spread, "{name}: {got} of {seconds} s: {rows:?}");
        assert!(got > 0.8 * seconds - spread, "{name}: {got} of {seconds} s: {rows:?}\n{}", r.stderr());
    }
    // What was written for us is in the recording and nowhere else.
    for left in [format!("perf-{pid}.map"), format!(".attach_pid{pid}"), format!(".java_pid{pid}")] {
        assert!(!Path::new("/tmp").join(&left).exists(), "/tmp/{left} is left");
    }
}

/// A Java program that tools may not attach to: SIGQUIT would have it print all its threads.
#[test]
fn java_that_may_not_be_asked_is_not_touched() {
    let test = "java_that_may_not_be_asked_is_not_touched";
    let (Some(java), Some(javac)) = (tool_or_skip("java", test), tool_or_skip("javac", test)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("Quiet.java");
    let text = "public class Quiet {
        public static void main(String[] a) {
            var threads = java.lang.management.ManagementFactory.getThreadMXBean();
            long x = 7;
            while (threads.getCurrentThreadCpuTime() < 1_500_000_000L) x = x * 6364136223846793005L + 1;
            System.out.println(x != 0);
        }
    }";
    std::fs::write(&source, text).unwrap();
    assert!(Command::new(javac).arg("-d").arg(folder.path()).arg(&source).status().unwrap().success());
    let classes = folder.path().to_str().unwrap();
    for (option, words) in [
        ("-XX:+DisableAttachMechanism", "-XX:+DisableAttachMechanism"),
        ("-XX:-UsePerfData", "-XX:-UsePerfData"),
        ("-Xrs", "-Xrs"),
    ] {
        let command = [java.to_str().unwrap(), option, "-cp", classes, "Quiet"];
        let r = run(&["--no-report", "--java", "names"], &command);
        only_true(&r);
        let stderr = r.stderr();
        let said = stderr.lines().filter(|line| line.contains("Java was not asked") && line.contains(words));
        assert_eq!(said.count(), 1, "{option}: {stderr}");
    }
    // With its functions in the samples there is nothing to ask for.
    for java_option in ["on", "off"] {
        let options = ["--no-report", "--java", java_option];
        let r =
            run(&options, &[java.to_str().unwrap(), "-XX:+DisableAttachMechanism", "-cp", classes, "Quiet"]);
        only_true(&r);
        assert!(!r.stderr().contains("Java was not asked"), "{java_option}: {}", r.stderr());
    }
}

/// A Java program that runs already, attached to from inside and from outside. It goes on afterwards, and is asked for
/// names only where samples do not carry its functions.
#[test]
fn java_that_runs_already_has_names() {
    let test = "java_that_runs_already_has_names";
    let (Some(java), Some(javac)) = (tool_or_skip("java", test), tool_or_skip("javac", test)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("Goes.java");
    // It says when its function has been compiled for a long time, and ends when its input does.
    let text = "public class Goes {
        static long hot(long x) { for (int i = 0; i < 200_000; i++) { x ^= x << 13; x ^= x >>> 7; x ^= x << 17; } return x; }
        public static void main(String[] a) throws Exception {
            long x = 7;
            for (int n = 0; n < 2_000; n++) x = hot(x);
            System.out.println(\"warm\");
            while (System.in.available() == 0) x = hot(x);
            System.out.println(x != 0);
        }
    }";
    std::fs::write(&source, text).unwrap();
    assert!(Command::new(javac).arg("-d").arg(folder.path()).arg(&source).status().unwrap().success());
    // From inside, from outside, and from inside until pct off ends it.
    let (by_frames, by_asking) = ("Goes.hot", "long Goes.hot(long)");
    for (number, (way, name)) in [
        (&["--for", "2"][..], by_frames),
        (&["--for", "2", "--java", "names"], by_asking),
        (&["--for", "2", "--method", "5"], by_frames),
        (&["--for", "2", "--clock", "wall"], by_frames),
        (&["--for", "2", "--method", "5", "--java", "names"], by_asking),
        (&["--method", "4"], by_frames),
    ]
    .into_iter()
    .enumerate()
    {
        let mut guest = Guest::started(Command::new(&java).arg("-cp").arg(folder.path()).arg("Goes"), "warm");
        let id = guest.id();
        let dir = folder.path().join(format!("recording{number}"));
        let pct = |words: &[&str], last: &[&str]| {
            let done = Command::new(binary()).args(words).args(last).arg(&id).output().unwrap();
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{said}");
            said
        };
        let mut said = pct(&["attach", "-o", dir.to_str().unwrap()], way);
        if !way.contains(&"--for") {
            // A CPU second, of which there are a thousand samples.
            works(guest.pid(), 1.0);
            said = pct(&["off"], &[]);
        }
        let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap().filter_map(Result::ok);
        let listens = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        let is_asked = listens.into_iter().any(|name| name.starts_with("Attach Listener"));
        guest.tell("end\n");
        if unharmed(&guest.wait()) != "true\n" {
            harm(&said);
        }
        if said.contains("Java 17 is the first that tells") {
            return pct_tests::skip(test, "this Java writes no map when asked");
        }
        let report = Command::new(binary()).args(["report", "--format", "csv"]).arg(&dir).output().unwrap();
        let report = String::from_utf8_lossy(&report.stdout).into_owned();
        // The function of the first row: nearly all of the time is its.
        // (By the wall clock there are rows of waiting threads before it, in the kernel.)
        let first = report.lines().skip(1).find(|row| !row.contains(",kernel,")).unwrap_or_default();
        assert!(first.contains(name), "{way:?}: {report}\n{said}");
        assert_eq!(is_asked, name == by_asking, "{way:?}: {said}");
        assert!(!Path::new("/tmp").join(format!("perf-{id}.map")).exists(), "its map is left");
    }
}

/// Samples at an address without code behind it do not delay the discovery of code that is made later.
#[test]
fn code_that_is_made_after_looks_in_vain_is_found() {
    let program = victim("latecode.c");
    let r = run(&["--hz", "997"], &[program.to_str().unwrap(), "25", "1000"]);
    if unharmed(&r.output) != "done\n" {
        harm(&format!("{}{}", r.stdout(), r.stderr()));
    }
    let folded = folded(&r.dir);
    let sum = |name: &str| {
        let lines = folded.lines().filter(|line| line.contains(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    // Of code that was not found, as of that in the first mapping, the address is known. Without a look from a sample
    // it is found by the next round of pct's own, up to a quarter of a second later.
    let (late, lost) = (sum(";run_late;"), sum("<truncated"));
    assert!(late > 100.0 && lost < 0.12 * late, "{late} found, {lost} not: {folded}");
}
