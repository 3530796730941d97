//! Exports are judged by the programs that read them, imports by the programs that write them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pct_kit::wait::wait_for;
use pct_tests::pct::{Run, binary, run};
use pct_tests::victims::victim_with;
use pct_tests::{skip, tool_or_skip};

/// The leaves of the victim, each with some share of its time.
const LEAVES: [&str; 5] = ["leaf_plain", "leaf_deep", "leaf_sort", "leaf_thread", "leaf_signal"];

fn victim() -> PathBuf {
    victim_with(
        "paths.c",
        "cc -O2 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls -pthread",
        "paths-with-frame-pointers",
    )
    .expect("the victim builds")
}

fn recording() -> Run {
    let r = run(&["--hz", "997"], &[victim().to_str().expect("UTF-8")]);
    pct_kit::harm::unharmed(&r.output);
    r
}

fn pct(arguments: &[&str], dir: &Path) -> Output {
    let out = Command::new(binary()).args(arguments).current_dir(dir).output().expect("pct can be run");
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    out
}

fn export(r: &Run, format: &str) -> PathBuf {
    let file = r.scratch().join(format!("exported.{format}"));
    let (file_name, dir) = (file.to_str().expect("UTF-8"), r.dir.to_str().expect("UTF-8"));
    pct(&["export", "-f", format, "-o", file_name, dir], r.scratch());
    file
}

fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Nanoseconds of "0.64s", "12ms", "3us".
fn nanoseconds(word: &str) -> f64 {
    let split = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
    let scale = match &word[split..] {
        "mins" | "min" => 60e9,
        "s" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        _ => 1.0,
    };
    word[..split].parse::<f64>().unwrap_or_else(|_| panic!("a time: {word}")) * scale
}

/// The shares that pct itself reports.
fn own(rows: &[pct_tests::pct::Row], function: &str) -> f64 {
    pct_tests::pct::seconds_in(rows, function)
}

#[test]
fn go_tool_pprof_shows_the_shares_that_pct_shows() {
    let Some(go) = tool_or_skip("go", "go_tool_pprof_shows_the_shares_that_pct_shows") else { return };
    let r = recording();
    let file = export(&r, "pprof");
    let pprof = |what: &[&str]| {
        let out = Command::new(&go)
            .args(["tool", "pprof", "-symbolize=none", "-nodefraction=0", "-edgefraction=0"])
            .args(what)
            .arg(&file)
            .env("PPROF_TMPDIR", r.scratch())
            .output();
        let out = out.expect("go can be run");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        text(&out)
    };
    let (top, rows) = (pprof(&["-top"]), r.report(&[]));
    for leaf in LEAVES {
        let line = top.lines().find(|l| l.ends_with(leaf)).unwrap_or_else(|| panic!("{leaf}:\n{top}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let (flat, wanted) = (nanoseconds(words[0]) / 1e9, own(&rows, leaf));
        // pprof prints hundredths of a second.
        assert!((flat - wanted).abs() <= 0.011, "{leaf}: {flat} {wanted}\n{top}");
    }
    // The path, by its inclusive times.
    let peek = pprof(&["-peek", "leaf_plain"]);
    assert!(peek.contains("plain_inner"), "{peek}");
    let lines = pprof(&["-top", "-lines"]);
    assert!(lines.contains("paths.c:"), "{lines}");
}

#[test]
fn callgrind_annotate_shows_the_shares_that_pct_shows() {
    let test = "callgrind_annotate_shows_the_shares_that_pct_shows";
    let Some(annotate) = tool_or_skip("callgrind_annotate", test) else { return };
    let r = recording();
    let file = export(&r, "callgrind");
    let out =
        Command::new(annotate).args(["--auto=no", "--threshold=100", "--inclusive=no"]).arg(&file).output();
    let out = out.expect("callgrind_annotate can be run");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let (shown, rows) = (text(&out), r.report(&[]));
    for leaf in LEAVES {
        let line = shown
            .lines()
            .find(|l| l.contains(&format!(":{leaf} [")))
            .unwrap_or_else(|| panic!("{leaf}:\n{shown}"));
        let us: String = line
            .trim()
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == ',')
            .filter(|c| *c != ',')
            .collect();
        let (cost, wanted) = (us.parse::<f64>().expect("a cost") / 1e6, own(&rows, leaf));
        assert!((cost - wanted).abs() <= 0.001, "{leaf}: {cost} {wanted}\n{shown}");
    }
}

#[test]
fn perf_data_gives_the_shares_that_perf_report_gives() {
    let test = "perf_data_gives_the_shares_that_perf_report_gives";
    let Some(perf) = tool_or_skip("perf", test) else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (file, stream) = (dir.path().join("perf.data"), dir.path().join("stream"));
    let record = |out: &str, stdout: Stdio| {
        Command::new(&perf)
            .args(["record", "-q", "-e", "cpu-clock:u", "-F", "997", "-g", "-o", out, "--"])
            .arg("sh")
            .args(["-c", "exec \"$0\" > /dev/null"])
            .arg(victim())
            .stdout(stdout)
            .stderr(Stdio::null())
            .status()
    };
    let made = std::fs::File::create(&stream).expect("created");
    let done = record(file.to_str().expect("UTF-8"), Stdio::null())
        .and_then(|s| Ok(s.success() && record("-", made.into())?.success()));
    if !done.is_ok_and(|done| done) || !file.exists() {
        skip(test, "perf may not record here");
        return;
    }
    let out = Command::new(&perf)
        .args(["report", "--stdio", "--no-children", "-g", "none", "-i"])
        .arg(&file)
        .stderr(Stdio::null())
        .output();
    let shown = text(&out.expect("perf can be run"));
    let rows = pct_tests::pct::report(&file, &[]);
    let total: f64 = rows.iter().map(|r| r.cpu_seconds).sum();
    for leaf in LEAVES {
        let line = shown.lines().find(|l| l.ends_with(leaf)).unwrap_or_else(|| panic!("{leaf}:\n{shown}"));
        let percent: f64 = line.trim().split('%').next().expect("a share").trim().parse().expect("a share");
        let ours = 100.0 * own(&rows, leaf) / total;
        // perf rounds to hundredths of a percent, and counts what is inlined as the function around it
        let inlined = 100.0 * own(&rows, "thread_cpu") / total;
        assert!(
            percent > ours - 0.02 && percent < ours + inlined + 0.02,
            "{leaf}: {percent} {ours} {inlined}"
        );
    }
    // By the chains: all of the leaf is below its callers.
    let tree =
        text(&pct(&["report", "--callers", "leaf_plain", "--format", "json", "perf.data"], dir.path()));
    assert!(tree.contains("plain_inner") && tree.contains("plain_outer"), "{tree}");
    let streamed = pct_tests::pct::report(&stream, &[]);
    assert!(LEAVES.iter().all(|leaf| own(&streamed, leaf) > 0.0), "{streamed:?}");
    // Its text gives the same.
    let script = dir.path().join("script.txt");
    let written = Command::new(&perf)
        .args(["script", "-i"])
        .arg(&file)
        .stderr(Stdio::null())
        .output()
        .expect("perf can be run");
    std::fs::write(&script, written.stdout).expect("written");
    let by_text = pct_tests::pct::report(&script, &[]);
    for leaf in LEAVES {
        assert!((own(&by_text, leaf) - own(&rows, leaf)).abs() < 0.002, "{leaf}");
    }
}

#[test]
fn copies_of_the_stack_give_the_callers_that_perf_script_finds() {
    let test = "copies_of_the_stack_give_the_callers_that_perf_script_finds";
    let Some(perf) = tool_or_skip("perf", test) else { return };
    let without = "cc -O2 -g -fomit-frame-pointer -fno-optimize-sibling-calls -pthread";
    let victim = victim_with("paths.c", without, "paths-without-frame-pointers").expect("the victim builds");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let done = Command::new(&perf)
        .args([
            "record",
            "-q",
            "-e",
            "cpu-clock:u",
            "-F",
            "199",
            "--call-graph",
            "dwarf",
            "-o",
            "perf.data",
            "--",
        ])
        .arg(victim)
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !done.is_ok_and(|s| s.success()) || !dir.path().join("perf.data").exists() {
        skip(test, "perf may not record here");
        return;
    }
    let script = Command::new(&perf)
        .args(["script", "-i", "perf.data"])
        .current_dir(dir.path())
        .stderr(Stdio::null())
        .output()
        .expect("perf can be run");
    std::fs::write(dir.path().join("script.txt"), script.stdout).expect("written");
    let report = |file: &str| -> serde_json::Value {
        let out = pct(&["report", "--total", "-n", "10000", "--format", "json", file], dir.path());
        serde_json::from_slice(&out.stdout).expect("JSON")
    };
    let (ours, theirs) = (report("perf.data"), report("script.txt"));
    let account = &ours["account"];
    let cut: u64 =
        account["cut_stacks"].as_array().expect("a list").iter().filter_map(|c| c["samples"].as_u64()).sum();
    let samples = ours["total"]["samples"].as_u64().expect("a number");
    assert_eq!(account["whole_stacks"].as_u64().expect("a number") + cut, samples);
    // What is as deep as 200 calls need not fit into the copy.
    assert!(cut * 2 < samples, "{cut} of {samples} cut");
    let seconds = |of: &serde_json::Value, function: &str| -> f64 {
        let rows = of["rows"].as_array().expect("rows");
        rows.iter().filter(|r| r["function"] == function).filter_map(|r| r["total_seconds"].as_f64()).sum()
    };
    let all = ours["total"]["cpu_seconds"].as_f64().expect("a number");
    for function in [
        "main",
        "plain_outer",
        "plain_inner",
        "leaf_plain",
        "leaf_deep",
        "leaf_sort",
        "leaf_thread",
        "leaf_signal",
    ] {
        let (a, b) = (seconds(&ours, function), seconds(&theirs, function));
        assert!(
            a > 0.0 && (a - b).abs() <= 0.02 * all,
            "{function}: {a} by us, {b} by perf script, of {all}"
        );
    }
}

/// A page in headless Chromium, after its scripts ran, as text of its document.
fn dom(chromium: &Path, url: &str, dir: &Path) -> String {
    let out = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--allow-file-access-from-files", "--virtual-time-budget=8000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", dir.join("browser").display()))
        .arg(url)
        .stderr(Stdio::null())
        .output();
    text(&out.expect("chromium can be run"))
}

#[test]
fn folded_stacks_and_flame_graphs_have_every_leaf() {
    let test = "folded_stacks_and_flame_graphs_have_every_leaf";
    let r = recording();
    let folded = std::fs::read_to_string(export(&r, "folded")).expect("UTF-8");
    let rows = r.report(&[]);
    for leaf in LEAVES {
        let counted: u64 = folded
            .lines()
            .filter_map(|l| l.rsplit_once(' '))
            .filter(|(stack, _)| stack.ends_with(&format!(";{leaf}")))
            .map(|(_, n)| n.parse::<u64>().expect("a count"))
            .sum();
        let samples: f64 = rows.iter().filter(|row| row.function == leaf).map(|row| row.samples).sum();
        assert!((counted as f64 - samples).abs() < 0.5, "{leaf}: {counted} of {samples} samples");
    }
    let Some(chromium) = tool_or_skip("chromium", test) else { return };
    let dir = r.dir.to_str().expect("UTF-8");
    pct(&["flame", "-o", "x.svg", dir], r.scratch());
    let page = format!(
        "<!doctype html><title>x</title><body>{}<script>document.title = [...document.querySelectorAll('svg g title, svg title')].map(t => t.textContent).filter(t => t.includes('leaf_')).length + ' leaves, ' + [...document.querySelectorAll('svg rect')].filter(r => r.getBoundingClientRect().width > 20).length + ' boxes';</script></body>",
        std::fs::read_to_string(r.scratch().join("x.svg")).expect("UTF-8")
    );
    let file = r.scratch().join("page.html");
    std::fs::write(&file, page).expect("written");
    let seen = dom(&chromium, &format!("file://{}", file.display()), r.scratch());
    let title = seen.split("<title>").nth(1).and_then(|t| t.split("</title>").next()).unwrap_or_default();
    let number = |word: &str| -> u32 {
        let before = title.split(word).next().unwrap_or_default();
        before.split_whitespace().next_back().and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    assert!(number("leaves") >= 5 && number("boxes") >= 20, "{title}");
}

/// The app of speedscope (npm package of that name) lies in the folder that `PCT_SPEEDSCOPE` names, as npm unpacked it.
#[test]
fn speedscopes_own_page_shows_every_leaf_once() {
    let test = "speedscopes_own_page_shows_every_leaf_once";
    let Some(app) = std::env::var_os("PCT_SPEEDSCOPE").map(PathBuf::from) else {
        skip(test, "PCT_SPEEDSCOPE names no unpacked npm package speedscope");
        return;
    };
    let Some(chromium) = tool_or_skip("chromium", test) else { return };
    let r = recording();
    let bytes = std::fs::read(export(&r, "speedscope")).expect("readable");
    let script = r.scratch().join("profile.js");
    std::fs::write(&script, format!("speedscope.loadFileFromBase64('x', '{}')", base64(&bytes)))
        .expect("written");
    let page = app.join("dist/release/index.html");
    let url = format!("file://{}#localProfilePath={}&view=sandwich", page.display(), script.display());
    let seen = dom(&chromium, &url, r.scratch());
    // The first of the threads is shown: the program's main one.
    for leaf in LEAVES.iter().filter(|l| **l != "leaf_thread") {
        let rows = seen.matches(&format!(">{leaf}<")).count();
        assert_eq!(rows, 1, "{leaf} in the table of functions: {}", &seen[..seen.len().min(4000)]);
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let word =
            three.iter().chain(std::iter::repeat(&0)).take(3).fold(0u32, |w, b| w << 8 | u32::from(*b));
        for digit in 0..4 {
            let shown = digit <= three.len();
            out.push(if shown { DIGITS[(word >> (18 - 6 * digit) & 63) as usize] as char } else { '=' });
        }
    }
    out
}

/// Innermost functions of the kernel by samples, as `perf script` names them.
fn innermost_by_perf(perf: &Path, data: &Path) -> std::collections::BTreeMap<String, u64> {
    let out = Command::new(perf)
        .args(["script", "-F", "ip,sym", "-i"])
        .arg(data)
        .output()
        .expect("perf can be run");
    let mut sums = std::collections::BTreeMap::new();
    for sample in text(&out).split("\n\n") {
        let Some(line) = sample.lines().find(|line| !line.trim().is_empty()) else { continue };
        if let Some((address, name)) = line.trim().split_once(' ')
            && address.starts_with("ffffffff")
        {
            *sums.entry(name.to_owned()).or_default() += 1;
        }
    }
    sums
}

/// One name for all names of an address (memcpy is __pi_memcpy too), of which perf may choose another one than we do.
fn one_name_for_each_address() -> std::collections::HashMap<String, String> {
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let mut first = std::collections::HashMap::new();
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .filter(|words| words.len() >= 3)
        .map(|words| {
            let name = words[2].to_owned();
            let first = first.entry(words[0].to_owned()).or_insert_with(|| name.clone());
            (name, first.clone())
        })
        .collect()
}

/// What the kernel does for a program has the names that perf gives it, in plain and in compressed recordings, and in
/// folders with a file for each of the recorder's threads.
#[test]
fn functions_of_the_kernel_in_perf_data_are_those_of_perf() {
    let test = "functions_of_the_kernel_in_perf_data_are_those_of_perf";
    let Some(perf) = tool_or_skip("perf", test) else { return };
    let scratch = tempfile::tempdir().expect("a folder");
    let script = "i=0; while [ $i -lt 6000 ]; do i=$((i+1)); : > f$((i%10)); done";
    for (n, more) in [&[][..], &["-z"], &["--threads"], &["-z", "--threads"]].into_iter().enumerate() {
        let data = scratch.path().join(format!("perf{n}.data"));
        let done = Command::new(&perf)
            .args(["record", "-q", "-e", "cpu-clock", "-F", "1999", "-g", "-o"])
            .arg(&data)
            .args(more)
            .args(["--", "sh", "-c", script])
            .current_dir(scratch.path())
            .output()
            .expect("perf can be run");
        let wanted = innermost_by_perf(&perf, &data);
        if !done.status.success() || wanted.values().sum::<u64>() < 30 {
            return skip(test, "perf may not look into the kernel here");
        }
        let report = Command::new(binary()).arg("report").arg(&data).output().expect("runs");
        let said = format!("{}{}", text(&report), String::from_utf8_lossy(&report.stderr));
        if said.contains("functions of the kernel have no names") {
            return skip(test, "the kernel hides its addresses");
        }
        let rows = pct_tests::pct::report(&data, &[]);
        let names = one_name_for_each_address();
        let renamed = |rows: &mut dyn Iterator<Item = (String, u64)>| {
            let mut sums = std::collections::BTreeMap::<String, u64>::new();
            for (name, samples) in rows {
                *sums.entry(names.get(&name).unwrap_or(&name).clone()).or_default() += samples;
            }
            sums
        };
        let mut found = rows
            .iter()
            .filter(|row| row.object.starts_with('['))
            .map(|row| (row.function.clone(), row.samples as u64));
        assert_eq!(renamed(&mut found), renamed(&mut wanted.into_iter()), "{more:?}");
        let name = data.file_name().and_then(|name| name.to_str()).expect("UTF-8");
        let page = text(&pct(&["view", "--text", "menu", name], scratch.path()));
        assert!(page.starts_with(name) && page.contains(" samples at 1,999 Hz"), "{more:?}: {page}");
    }
}

/// The recording of the only process in a folder, as soon as it is there.
fn recording_in(dir: &Path) -> PathBuf {
    wait_for("a recording", || {
        let mut names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        names.find(|path| path.extension().is_some_and(|e| e == "pct"))
    })
}

#[test]
fn a_recording_that_is_followed_has_the_samples_that_it_has_at_its_end() {
    let lttv = binary().with_file_name("lttv");
    if !lttv.exists() {
        return skip("following a recording", "lttv is not built beside pct");
    }
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let dir = scratch.path().join("recording");
    let mut recorder = Command::new(binary())
        .args(["-q", "run", "--hz", "997", "--out"])
        .arg(&dir)
        .args(["--", victim().to_str().expect("UTF-8")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("pct can be run");
    let file = recording_in(&dir);
    let followed = Command::new(&lttv)
        .args([
            "events",
            "--follow",
            "--columns",
            "ns,name",
            "--filter",
            "name == sample || name == system_sample",
        ])
        .arg(&file)
        .output()
        .expect("lttv can be run");
    assert!(recorder.wait().expect("pct ends").success());
    assert!(followed.status.success(), "{followed:?}");
    assert_eq!(String::from_utf8_lossy(&followed.stderr), "", "no event came too late to be listed");
    let times: Vec<u64> = String::from_utf8_lossy(&followed.stdout)
        .lines()
        .map(|line| line.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a time"))
        .collect();
    assert!(times.is_sorted(), "in order of time");
    let log = pct(&["log", file.to_str().expect("UTF-8")], scratch.path());
    let samples = log.stdout.iter().filter(|octet| **octet == b'\n').count();
    assert!(samples > 100, "{samples} samples");
    assert_eq!(times.len(), samples);
}

/// What a command of pct prints.
fn printed(arguments: &[&str], dir: &Path) -> String {
    text(&pct(arguments, dir))
}

#[test]
fn profiles_that_node_writes_have_its_functions_and_the_time_between_its_samples() {
    let Some(node) = tool_or_skip("node", "profiles_that_node_writes") else { return };
    let scratch = tempfile::tempdir().expect("a folder");
    let script = "function spin(until) { while (Date.now() < until) ; }\nspin(Date.now() + 400);\n";
    std::fs::write(scratch.path().join("a.js"), script).expect("written");
    let mut node = Command::new(node);
    let done = node
        .args(["--cpu-prof", "--cpu-prof-name=a.cpuprofile", "a.js"])
        .current_dir(scratch.path())
        .output();
    assert!(done.expect("node runs").status.success());
    let file = std::fs::read(scratch.path().join("a.cpuprofile")).expect("node's profile");
    let file: serde_json::Value = serde_json::from_slice(&file).expect("JSON");
    let deltas = file["timeDeltas"].as_array().expect("times").iter().map(|d| d.as_f64().expect("a number"));
    // V8 may write samples out of order: the sum lies between the first of them and the end.
    let times: Vec<f64> = deltas
        .scan(file["startTime"].as_f64().expect("a time"), |at, delta| {
            *at += delta;
            Some(*at)
        })
        .collect();
    let first = times.iter().copied().fold(f64::INFINITY, f64::min);
    let last = times.iter().copied().fold(file["endTime"].as_f64().expect("a time"), f64::max);
    let rows = printed(&["report", "--by", "leaf", "--format", "csv", "a.cpuprofile"], scratch.path());
    let seconds = |row: &str| row.split(',').nth(1).and_then(|s| s.parse::<f64>().ok()).unwrap_or(0.0);
    let sum: f64 = rows.lines().skip(1).map(seconds).sum();
    assert!((sum - (last - first) / 1e6).abs() < 1e-3, "{sum} s in {rows}, {} us in the file", last - first);
    let spin = rows.lines().find(|row| row.ends_with("spin")).expect("a row of spin");
    let samples: f64 = spin.split(',').next().and_then(|s| s.parse().ok()).expect("a number");
    let id = |node: &serde_json::Value| node["id"].as_u64();
    let nodes = file["nodes"].as_array().expect("nodes").iter();
    let spins: Vec<_> =
        nodes.filter(|node| node["callFrame"]["functionName"] == "spin").filter_map(id).collect();
    let all = file["samples"].as_array().expect("samples").iter();
    let counted = all.filter(|sample| spins.contains(&sample.as_u64().expect("a node"))).count();
    assert!(
        (samples - counted as f64).abs() < 0.5 && counted > 0,
        "{samples} samples in {spin}, {counted} in the file"
    );
}

#[test]
fn callgrinds_files_have_the_sums_that_callgrind_annotate_prints() {
    let Some(valgrind) = tool_or_skip("valgrind", "callgrinds_files_have_the_sums") else { return };
    let Some(annotate) = tool_or_skip("callgrind_annotate", "callgrinds_files_have_the_sums") else { return };
    let scratch = tempfile::tempdir().expect("a folder");
    let source = "#include <stdlib.h>\nstatic int cmp(const void *a, const void *b) { return *(int *)a - *(int *)b; }\n\
        int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n\
        void sorted(int n) { int *v = malloc(n * 4); for (int i = 0; i < n; i++) v[i] = rand(); qsort(v, n, 4, cmp); free(v); }\n\
        int main(void) { int s = 0; for (int i = 0; i < 3; i++) s += fib(15); sorted(4000); sorted(100); return s & 1; }\n";
    std::fs::write(scratch.path().join("t.c"), source).expect("written");
    let run = |program: &Path, words: &[&str]| {
        Command::new(program).args(words).current_dir(scratch.path()).output().expect("it runs")
    };
    let built = run(Path::new("cc"), &["-g", "-O1", "-fno-inline", "-o", "t", "t.c"]);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let file = "--callgrind-out-file=t.out";
    run(&valgrind, &["--tool=callgrind", "--dump-instr=yes", "--collect-jumps=yes", file, "./t"]);
    let rows = printed(&["report", "--by", "leaf", "--total", "--format", "json", "t.out"], scratch.path());
    let rows: serde_json::Value = serde_json::from_str(&rows).expect("JSON");
    for (options, key) in [
        (&["--threshold=100", "--auto=no"][..], "amount"),
        (&["--inclusive=yes", "--threshold=100", "--auto=no"], "total_amount"),
    ] {
        let text = text(&run(&annotate, &[options, &["t.out"]].concat()));
        for function in ["cmp", "sorted", "main", "fib"] {
            // `8,551,138 (92.10%)  t.c:sorted [/tmp/t]`
            let line = text
                .lines()
                .find(|line| line.contains(&format!(":{function} ")))
                .unwrap_or_else(|| panic!("{function}: {text}"));
            let said: f64 =
                line.trim().split(' ').next().expect("a number").replace(',', "").parse().expect("a number");
            let row = rows["rows"]
                .as_array()
                .expect("rows")
                .iter()
                .find(|row| row["function"] == function)
                .expect("a row");
            let found = row[key].as_f64().unwrap_or_else(|| panic!("{row}"));
            // Totals are without what is too small to be followed.
            let slack = if key == "amount" { 0.5 } else { said / 500.0 };
            assert!((found - said).abs() <= slack, "{function}: {key} {found}, {said} by callgrind_annotate");
        }
    }
}
