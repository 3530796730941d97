//! Code that a program compiles while it runs has names, where its runtime writes them to a map file, and whole stacks.

use std::path::Path;
use std::process::Command;

use pct_kit::harm::{harm, unharmed};
use pct_tests::pct::{Run, binary, run, samples, seconds_in};
use pct_tests::tool_or_skip;

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

/// Asserts that `hot` has most of the time, and that `least` of a hundred stacks reach the thread's start.
fn hot_and_whole(r: &Run, hot: &str, least: f64) {
    let rows = r.report(&["--by", "function"]);
    let all: f64 = rows.iter().map(|row| row.cpu_seconds).sum();
    assert!(seconds_in(&rows, hot) > 0.5 * all, "{hot}: {rows:?}");
    let folded = Command::new(binary())
        .args(["export", "--format", "folded", "-o", "-"])
        .arg(&r.dir)
        .output()
        .unwrap();
    let folded = String::from_utf8_lossy(&folded.stdout).into_owned();
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
    let r = run(&["--hz", "997", "--no-report"], &[node.to_str().unwrap(), "-e", script]);
    unharmed(&r.output);
    let rows = r.report(&["--by", "function"]);
    let of_code = rows.iter().filter(|row| row.object == "[jit]").collect::<Vec<_>>();
    assert!(matches!(of_code[..], [row] if row.function == "[no name]"), "{of_code:?}");
    let text = Command::new(binary()).arg("report").arg(&r.dir).output().unwrap();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("note: no names for code compiled at run time: "), "{text}");
    assert!(text.contains("--perf-basic-prof"), "{text}");
}

#[test]
fn node_says_what_it_compiled() {
    let Some(node) = tool_or_skip("node", "node_says_what_it_compiled") else { return };
    let script = "function hotLoop(n) { let x = 1; for (let i = 0; i < n; i++) x = (x * 48271 + i) % 2147483647; return x }
        const end = process.cpuUsage().user + 1e6; let s = 0;
        while (process.cpuUsage().user < end) s += hotLoop(100000);
        console.log(s > 0)";
    let r = run(&["--hz", "997"], &[node.to_str().unwrap(), "--perf-basic-prof", "-e", script]);
    let _maps = Maps::of(&r);
    said_true(&r);
    // The map has "JS:*hotLoop [eval]:1:17" for the optimized code and others for what ran before it.
    let rows = r.report(&["--by", "function"]);
    let name = rows.iter().map(|row| row.function.clone()).find(|f| f.contains("hotLoop"));
    hot_and_whole(&r, &name.expect("a function of that name"), 99.0);
}

/// Functions that are made, run for a while and are dropped, one after the other: V8 puts the code of each where that of the one
/// before was. The program says how much CPU time each had.
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
    let r = run(&["--hz", "997", "--no-report"], &command);
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
    let r = run(&["--hz", "997"], &command);
    if !r.output.status.success() && r.stderr().contains("DumpPerfMapAtExit") {
        return pct_tests::skip("java_says_what_it_compiled", "this Java writes no map file");
    }
    let _maps = Maps::of(&r);
    said_true(&r);
    hot_and_whole(&r, "long Hot.hotLoop(long)", 95.0);
}
