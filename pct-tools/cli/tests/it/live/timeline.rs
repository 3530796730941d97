//! `pct view --timeline`: a range has the numbers that `pct report` gives for the same window.

use crate::support::{PCT, first_line, host_and_path};
use pct_format::Clock;
use pct_format::builder::Builder;
use pct_format::header::wait_door;
use pct_format::layout::header as at;
use pct_format::record::{Blocked, BlockedBy, DescriptorKind, Frame, HandedOn, Wait, WaitKind};
use pct_kit::started::Killed;
use pct_kit::wait::wait_for;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// The code of this test's C library, as it is mapped here: start, end, offset in the file, path. Its
/// functions have names.
fn libc() -> Option<(u64, u64, u64, String)> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.contains("r-xp") && line.contains("libc.so.6"))?;
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let offset = words.nth(1)?;
    let number = |hex: &str| u64::from_str_radix(hex, 16).ok();
    Some((number(start)?, number(end)?, number(offset)?, words.last()?.to_owned()))
}

/// Two threads, a sample each millisecond, in places spread over the library.
pub(super) fn recording() -> Option<Vec<u8>> {
    recording_of(1000)
}

fn recording_of(samples: u64) -> Option<Vec<u8>> {
    let (start, end, offset, path) = libc()?;
    let mut b = Builder::new();
    b.region(1, 0, start..end, offset, 0, &[], path.as_bytes());
    let threads = [b.thread(0, 100, b"first"), b.thread(0, 101, b"second")];
    let place = |i: u64| start + (i * 7919 * 64) % (end - start);
    let stacks: Vec<u32> =
        (0..5).map(|i| b.stack(&[Frame::Return(place(i + 900)), Frame::Return(place(i + 901))])).collect();
    for i in 0..samples {
        let (thread, stack) = (threads[usize::from(i % 3 == 0)], stacks[usize::try_from(i % 5).ok()?]);
        b.sample(thread, 1_000_000 * (i + 1), place(i % 23), 1 + i % 2, i % 11 == 0, stack);
    }
    Some(b.finish())
}

pub(super) struct Serving {
    _child: Killed,
    pub(super) url: String,
}

impl Serving {
    fn new(dir: &Path, files: &[&str]) -> Serving {
        Serving::of(dir, &[&["--timeline"], files].concat())
    }

    /// `pct view` with these words.
    pub(super) fn of(dir: &Path, words: &[&str]) -> Serving {
        let mut child = Command::new(PCT)
            .args(["view", "--no-open", "-q"])
            .args(words)
            .current_dir(dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let url = first_line(&mut child);
        Serving { _child: Killed(child), url }
    }

    /// What the server answers below its secret.
    pub(super) fn get(&self, path: &str) -> String {
        let (host, below) = host_and_path(&self.url);
        let secret = below.split('/').nth(1).expect("a secret");
        let mut stream = TcpStream::connect(host).expect("connects");
        write!(stream, "GET /{secret}/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            .expect("sends");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("receives");
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        body.to_owned()
    }
}

#[test]
fn every_recording_of_a_view_has_a_timeline_that_leads_back() {
    let Some(bytes) = recording() else { return pct_kit::skip("no libc.so.6 is mapped") };
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("a.pct"), &bytes).expect("written");
    std::fs::write(dir.path().join("b.folded"), "main;work 7\n").expect("written");
    let serving = Serving::of(dir.path(), &["b.folded", "a.pct"]);
    let overview = serving.get("deep?menu&&a.pct");
    assert!(overview.contains("<a href=\"of/1/tl\">timeline</a>"), "{overview}");
    let page = serving.get("of/1/tl");
    assert!(page.contains("href=\"../../deep?menu&amp;&amp;a.pct\""), "{page}");
    assert!(page.contains("href=\"../../deep?quit&amp;&amp;a.pct\""), "{page}");
    for part in ["flame", "owners", "program_modules"] {
        assert!(page.contains(&format!("href=\"../../deep?{part}&amp;&amp;a.pct\"")), "{part}: {page}");
    }
    let sums = json(&serving.get("of/1/tl/window.json"));
    assert_eq!(sums["recordings"][0]["samples"], 1000);
    // What has no times says so and leads back.
    let page = serving.get("of/0/tl");
    assert!(page.contains("its 7 samples have no times"), "{page}");
    assert!(page.contains("href=\"../../deep?menu&amp;"), "{page}");
    // A part of a recording has the timeline of all of it, and its link says so.
    let serving = Serving::of(dir.path(), &["--thread", "100", "a.pct"]);
    assert!(serving.get("deep?menu&&a.pct").contains("timeline (all samples)"));
    assert_eq!(json(&serving.get("of/0/tl/window.json"))["recordings"][0]["samples"], 1000);
}

#[test]
fn pictures_of_a_change_name_the_program_that_each_is_of() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, text) in [("old.folded", "main;parse 70\nmain;gone 30\n"), ("new.folded", "main;parse 90\n")] {
        std::fs::write(dir.path().join(name), text).expect("written");
    }
    let page = Serving::of(dir.path(), &["--base", "old.folded", "new.folded"])
        .get("deep?diff/old.folded/procs/self/absolute&&new.folded");
    let pictures = page.split("<g class=\"frames\">").skip(1);
    let roots: Vec<&str> = pictures.filter_map(|svg| svg.split("<title>").nth(1)).collect();
    assert!(
        matches!(roots[..], [after, before, ..] if after.starts_with("new.folded (") && before.starts_with("old.folded (")),
        "{roots:?}"
    );
}

#[test]
fn a_timeline_of_another_profilers_file_is_in_the_time_that_the_file_has() {
    let cpu_profile = r#"{"nodes": [{"id": 1, "callFrame": {"functionName": "main", "url": "a.js", "lineNumber": 0}}],
        "startTime": 0, "endTime": 40000, "samples": [1, 1], "timeDeltas": [0, 10000]}"#;
    let sample = |at: &str, event: &str| format!("p 5 {at}: 30000000 {event}: \n\t1 a+0x1 (/bin/p)\n\n");
    let dir = tempfile::tempdir().expect("a folder");
    for (name, text, clock, samples, ns) in [
        ("x.cpuprofile", cpu_profile.to_owned(), "wall", 2, 40_000_000),
        (
            "clock.txt",
            ["7.500000", "7.600000"].map(|at| sample(at, "cpu-clock")).concat(),
            "CPU",
            2,
            60_000_000,
        ),
        (
            "cycles.txt",
            ["7.500000", "7.600000"].map(|at| sample(at, "cycles")).concat(),
            "1 ms a sample",
            2,
            2_000_000,
        ),
    ] {
        std::fs::write(dir.path().join(name), text).expect("written");
        let serving = Serving::of(dir.path(), &[name]);
        let page = serving.get("of/0/tl");
        assert!(!page.contains("This cannot be shown"), "{name}: {page}");
        let sums = &json(&serving.get("of/0/tl/window.json"))["recordings"][0];
        assert_eq!(
            (sums["clock"].as_str(), sums["samples"].as_u64()),
            (Some(clock), Some(samples)),
            "{name}: {sums}"
        );
        assert_eq!(sums["cpu_ns"], ns, "{name}: {sums}");
        let lines = serving.get("of/0/tl/file?as=jsonl");
        assert_eq!(lines.contains("\"weight_ns\""), clock == "wall", "{name}: {lines}");
    }
}

/// A recording of functions in six libraries that are not there: the first half of its time is spent in other ones
/// than the second.
fn recording_of_libraries() -> Vec<u8> {
    let mut b = Builder::new();
    let start = |n: u64| 0x7000_0000 + n * 0x10_0000;
    for n in 0..6 {
        let path = format!("/nowhere/lib{n}.so");
        b.region(
            u32::try_from(n).expect("small") + 1,
            0,
            start(n)..start(n) + 0x8000,
            0,
            0,
            &[],
            path.as_bytes(),
        );
    }
    let thread = b.thread(0, 100, b"first");
    let outer = b.stack(&[Frame::Return(start(0) + 0x100)]);
    for i in 0..1000 {
        let library = if i < 500 { i % 6 } else { 5 - (i % 11) / 2 };
        b.sample(thread, 1_000_000 * (i + 1), start(library) + 0x400, 1, false, outer);
    }
    b.finish()
}

/// The colour of each function of these libraries in a picture.
fn colours(picture: &str) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for frame in picture.split("<title>").skip(1) {
        let Some((title, rest)) = frame.split_once("</title>") else { continue };
        let name = title.split(" (").next().unwrap_or_default();
        let fill = rest.split("fill=\"").nth(1).and_then(|rest| rest.get(..7)).unwrap_or_default();
        if name.starts_with("[lib") {
            let known = found.entry(name.to_owned()).or_insert_with(|| fill.to_owned());
            assert_eq!(known, fill, "{name} has two colours in one picture");
        }
    }
    found
}

#[test]
fn a_function_has_one_colour_in_all_pictures_of_a_recording() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("a.pct"), recording_of_libraries()).expect("written");
    let serving = Serving::of(dir.path(), &["a.pct"]);
    let whole = colours(&serving.get("deep?flame&&a.pct"));
    assert_eq!(whole.len(), 7, "{whole:?}");
    let shades: std::collections::BTreeSet<&String> = whole.values().collect();
    assert!(shades.len() >= 6, "objects have colours of their own: {whole:?}");
    let meta = json(&serving.get("of/0/tl/meta"));
    let start: i64 = meta["traces"][0]["start"].as_str().and_then(|t| t.parse().ok()).expect("a time");
    let (middle, end) = (start + 500_000_000, start + 2_000_000_000);
    let written = |args: &[&str], file: &str| {
        let run = Command::new(PCT).args(args).current_dir(dir.path()).output().expect("runs");
        assert!(run.status.success(), "{args:?}: {run:?}");
        std::fs::read_to_string(dir.path().join(file)).expect("a picture")
    };
    let part = format!("a={middle}&b={end}");
    let overview = serving.get("deep?menu&&a.pct");
    let root = overview.split("?clique_tree/").nth(1).and_then(|rest| rest.split('/').next());
    let root = root.expect("a link to the call graph").to_owned();
    for (what, picture) in [
        ("call graph", serving.get(&format!("deep?clique_tree/{root}/time&&a.pct"))),
        ("overview", overview),
        ("timeline", serving.get("of/0/tl")),
        ("second half", serving.get(&format!("of/0/tl?{part}"))),
        ("inverted", serving.get(&format!("of/0/tl?{part}&tab=inverted"))),
        ("of an object", serving.get("of/0/tl?object=lib3")),
        ("saved", serving.get(&format!("of/0/tl/file?{part}&as=flame"))),
        ("flame", written(&["flame", "-o", "a.svg", "a.pct"], "a.svg")),
        ("flame of the second half", written(&["flame", "--from", "500ms", "-o", "b.svg", "a.pct"], "b.svg")),
        ("report", written(&["report", "--html", "a.html", "a.pct"], "a.html")),
    ] {
        let found = colours(&picture);
        assert!(found.len() >= 2, "{what}: {found:?}");
        for (name, colour) in &found {
            assert_eq!(whole.get(name), Some(colour), "{what}: {name}");
        }
    }
    // The lanes: by the numbers of functions.
    let keys: Vec<String> = (0..20).map(|number| format!("0.{}", (1 << 30) + number)).collect();
    let names = json(&serving.get(&format!("of/0/tl/names?k={}", keys.join(","))));
    let of_lanes = names.as_object().expect("names").values();
    let of_lanes =
        of_lanes.filter(|found| found["name"].as_str().is_some_and(|name| name.starts_with("[lib")));
    let mut compared = 0;
    for found in of_lanes {
        let name = found["name"].as_str().expect("a name");
        assert_eq!(whole.get(name).map(String::as_str), found["color"].as_str(), "{name}");
        compared += 1;
    }
    assert!(compared >= 6, "{names}");
}

#[test]
fn a_recording_that_grows_or_is_replaced_is_shown_as_it_is_by_then() {
    let Some(bytes) = recording_of(10) else { return pct_kit::skip("no libc.so.6 is mapped") };
    let dir = tempfile::tempdir().expect("a folder");
    // As a whole, so that no half of it is ever read.
    let put = |bytes: &[u8]| {
        std::fs::write(dir.path().join("new"), bytes).expect("written");
        std::fs::rename(dir.path().join("new"), dir.path().join("a.pct")).expect("renamed");
    };
    put(&bytes);
    let serving = Serving::new(dir.path(), &["a.pct"]);
    let until = |done: &dyn Fn(&Value) -> bool| {
        wait_for("the page's next state", || Some(json(&serving.get("tl/state"))).filter(|state| done(state)))
    };
    let samples = || json(&serving.get("tl/window.json"))["recordings"][0]["samples"].as_u64();
    let first = until(&|_| true);
    assert_eq!(
        (&first["revision"], &first["written"], samples()),
        (&Value::from(0), &Value::from(false), Some(10))
    );
    put(&recording_of(1000).expect("as before"));
    let grown = until(&|state| state["revision"] == 1);
    assert_eq!(samples(), Some(1000));
    assert!(grown["span"][1].as_str() > first["span"][1].as_str(), "{grown} after {first}");
    // What is no recording any more leaves what there was, and says so.
    put(b"no recording");
    let gone = until(&|state| state["news"] != "");
    assert!(gone["news"].as_str().is_some_and(|news| news.contains("cannot be read again")), "{gone}");
    assert_eq!((&gone["revision"], samples()), (&Value::from(1), Some(1000)));
    assert!(serving.get("tl").contains("cannot be read again"));
}

pub(super) fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn a_range_has_the_numbers_of_the_report_of_the_same_window() {
    let Some(bytes) = recording() else { return pct_kit::skip("no libc.so.6 is mapped") };
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("a.pct"), bytes).expect("written");
    let serving = Serving::new(dir.path(), &["a.pct"]);
    // The report counts from the begin of the process.
    let meta = json(&serving.get("tl/meta"));
    let start: i64 = meta["traces"][0]["start"].as_str().and_then(|t| t.parse().ok()).expect("a time");
    let mut samples = Vec::new();
    for (from_us, to_us) in
        [(0, 2_000_000), (1_000, 2_000), (100_000, 400_500), (250_250, 250_251), (999_000, 5_000_000)]
    {
        let window = ["--from", &format!("{from_us}us"), "--to", &format!("{to_us}us")];
        let report = |by: &[&str]| {
            let report = Command::new(PCT)
                .args(["report", "-q", "--format", "json", "a.pct"])
                .args(window)
                .args(by)
                .current_dir(dir.path())
                .output()
                .expect("runs");
            json(&String::from_utf8_lossy(&report.stdout))
        };
        let by_leaf = report(&[]);
        let (a, b) = (start + from_us * 1000, start + to_us * 1000);
        let page = json(&serving.get(&format!("tl/window.json?a={a}&b={b}")));
        let page = &page["recordings"][0];
        assert_eq!(page["samples"], by_leaf["total"]["samples"], "{window:?}");
        let of_leaf = shown(page, "samples", "total_ns");
        assert_eq!(of_leaf, reported_rows(&by_leaf, "total_seconds"), "{window:?}");
        let by_owner = report(&["--by", "owner"]);
        let mut of_owner = shown(page, "owned_samples", "owned_ns");
        of_owner.retain(|row| row.1 > 0);
        let mut of_report = reported_rows(&by_owner, "cpu_seconds");
        of_report.retain(|row| row.1 > 0);
        assert_eq!(of_owner, of_report, "{window:?}");
        samples.push(of_leaf.len());
    }
    // Windows with many functions, with one, with none.
    assert!(samples[0] > 3 && samples[1] == 1 && samples[3] == 0, "{samples:?}");
}

/// Functions with a number of samples and a time, by name.
fn shown(page: &Value, samples: &str, ns: &str) -> Vec<(String, u64, u64)> {
    let rows = page["functions"].as_array().expect("functions").iter().map(|row| {
        let number = |name: &str| row[name].as_u64().expect("a number");
        (row["name"].as_str().expect("a name").to_owned(), number(samples), number(ns))
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

/// The same of a report's rows.
fn reported_rows(report: &Value, seconds: &str) -> Vec<(String, u64, u64)> {
    let rows = report["rows"].as_array().expect("rows").iter().map(|row| {
        let ns = (row[seconds].as_f64().expect("seconds") * 1e9).round();
        let name = row["function"].as_str().expect("a name").to_owned();
        (name, row["samples"].as_u64().expect("a count"), format!("{ns}").parse().expect("ns"))
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

/// Functions with their samples, and the number of all samples.
type Counted = (Vec<(String, u64)>, u64);

/// What `pct report` counts with these options.
fn reported(dir: &Path, options: &[&str]) -> Counted {
    let run = Command::new(PCT)
        .args(["report", "-q", "--format", "json", "a.pct", "--from", "0us", "--to", "2000000us"])
        .args(options)
        .current_dir(dir)
        .output()
        .expect("runs");
    let report = json(&String::from_utf8_lossy(&run.stdout));
    counted(&report["rows"], &report["total"]["samples"], "function")
}

fn counted(rows: &Value, total: &Value, name: &str) -> Counted {
    let row = |row: &Value| {
        (row[name].as_str().expect("a name").to_owned(), row["samples"].as_u64().expect("a count"))
    };
    let mut rows: Vec<(String, u64)> = rows.as_array().expect("rows").iter().map(row).collect();
    rows.sort();
    (rows, total.as_u64().expect("a count"))
}

#[test]
fn filters_and_transforms_count_what_the_report_with_the_like_options_counts() {
    let Some(bytes) = recording() else { return pct_kit::skip("no libc.so.6 is mapped") };
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("a.pct"), bytes).expect("written");
    let serving = Serving::new(dir.path(), &["a.pct"]);
    let shown = |query: &str| {
        let page = json(&serving.get(&format!("tl/window.json?{query}")));
        let page = &page["recordings"][0];
        counted(&page["functions"], &page["samples"], "name")
    };
    let (all, total) = shown("");
    let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let (name, of_name) =
        all.iter().find(|(name, _)| plain(name)).expect("a function with a plain name").clone();
    let exactly = format!("^{name}$");
    for (query, options) in [
        (String::new(), vec![]),
        (format!("x=focus:{name}"), vec!["--focus", &*exactly]),
        (format!("x=ignore:{name}"), vec!["--ignore", &*exactly]),
        (format!("function=%5E{name}%24"), vec!["--focus", &*exactly]),
        (format!("thread=101&x=ignore:{name}"), vec!["--thread", "101", "--ignore", &*exactly]),
        ("thread=first&object=libc".to_owned(), vec!["--thread", "first", "--object", "libc"]),
    ] {
        assert_eq!(shown(&query), reported(dir.path(), &options), "{query}");
    }
    // Whatever is merged or collapsed, no sample goes.
    for query in [format!("x=merge:{name}"), format!("x=recursion:{name}"), "x=object:libc.so.6".to_owned()] {
        let (rows, sum) = shown(&query);
        assert_eq!((sum, rows.iter().map(|row| row.1).sum()), (total, total), "{query}");
    }
    assert!(of_name > 0 && shown(&format!("x=ignore:{name}")).1 < total);
    // A saved window has the same samples.
    let folded = serving.get("tl/file?as=folded");
    let counts = folded.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    assert_eq!(counts.sum::<u64>(), total);
}

#[test]
fn what_is_no_recording_and_no_trace_is_said_and_the_rest_is_shown() {
    let Some(bytes) = recording() else { return pct_kit::skip("no libc.so.6 is mapped") };
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("a.pct"), bytes).expect("written");
    std::fs::create_dir(dir.path().join("empty")).expect("made");
    let alone = |file: &str| {
        let run = Command::new(PCT)
            .args(["view", "--timeline", "--no-open", file])
            .current_dir(dir.path())
            .output();
        let run = run.expect("runs");
        (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    let (status, why) = alone("empty");
    assert_eq!(status, Some(1), "{why}");
    assert!(why.contains("neither a CTF trace nor a .pct file"), "{why}");
    assert_eq!(alone("nothing").0, Some(1));
    let serving = Serving::new(dir.path(), &["empty", "a.pct"]);
    assert_eq!(json(&serving.get("tl/meta"))["traces"].as_array().map(Vec::len), Some(1));
}

/// A recording of waits: the second thread waits from 0.2 to 0.5 s for a mutex that the first one releases.
pub(super) fn recording_of_waits() -> Option<Vec<u8>> {
    let (start, end, offset, path) = libc()?;
    let mut b = Builder::new();
    b.region(1, 0, start..end, offset, 0, &[], path.as_bytes())
        .set_header_word(at::WAIT_DOORS, wait_door::PTHREAD);
    let [first, second] =
        [(100, "first"), (101, "second")].map(|(tid, name)| b.thread(0, tid, name.as_bytes()));
    let stack = b.stack(&[Frame::Return(start + 900 * 64)]);
    for i in 1..=1000 {
        b.sample(first, 1_000_000 * i, start + 64 * 64, 1, false, stack);
    }
    let mutex = WaitKind::Mutex as u64;
    let released = HandedOn { stack, time: 500_000_000, tid: 100, kind: mutex, object: 0x1000 };
    let (time, length) = (200_000_000, 300_000_000);
    let wait = Wait { stack, time, length, tid: 101, kind: mutex, object: 0x1000, mutex: 0, result: 0 };
    let mut words = [0; 16];
    b.ring_record(first, released.time, released.released(&mut words)?);
    b.ring_record(second, time, wait.record(&mut words)?);
    Some(b.finish())
}

/// A recording by the wall clock: a thread runs for 0.1 s, reads from a pipe for 0.3 s and waits for a CPU for 0.1 s.
fn recording_by_the_wall_clock() -> Option<Vec<u8>> {
    let (start, end, offset, path) = libc()?;
    let mut b = Builder::new();
    b.region(1, 0, start..end, offset, 0, &[], path.as_bytes());
    b.set_header_word(at::CLOCK_ASKED, Clock::Wall as u64).set_header_word(at::CLOCK_GOT, Clock::Wall as u64);
    let thread = b.thread(0, 100, b"first");
    let caller = Frame::Return(start + 900 * 64);
    let descriptor = Some(DescriptorKind::Pipe);
    let read = Blocked { by: BlockedBy::SystemCall, call: Some(0), descriptor };
    let [ran, read, ready] = [None, Some(read), Some(Blocked::by(BlockedBy::RunQueue))].map(|blocked| {
        let frames: Vec<Frame> = blocked.map(Frame::Blocked).into_iter().chain([caller]).collect();
        b.stack(&frames)
    });
    for (i, (stack, waits)) in
        (1..).zip([(ran, false); 10].into_iter().chain([(read, true); 30]).chain([(ready, true); 10]))
    {
        // Ten periods of the clock, 10 ms.
        b.sample(thread, 10_000_000 * i, start + 64 * 64, 10, waits, stack);
    }
    Some(b.finish())
}

/// The cells of a table's rows, without what is around their text.
pub(super) fn rows_of_waits(html: &str) -> Vec<Vec<String>> {
    let cells = |row: &str| {
        let cells = row.split("<td").skip(1).filter_map(|cell| cell.split_once('>')?.1.split("</td>").next());
        cells.map(str::to_owned).collect()
    };
    html.split("<tr data-ns=\"").skip(1).map(cells).collect()
}

#[test]
fn waits_are_in_the_lanes_of_their_threads_and_in_a_table_of_the_range() {
    let (Some(waits), Some(wall)) = (recording_of_waits(), recording_by_the_wall_clock()) else {
        return pct_kit::skip("no libc.so.6 is mapped");
    };
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("waits.pct"), waits).expect("written");
    std::fs::write(dir.path().join("wall.pct"), wall).expect("written");
    let kinds = |page: &str| -> Vec<String> {
        let rows = page.split("data-kind=\"").skip(1).filter_map(|rest| rest.split('"').next());
        rows.map(str::to_owned).collect()
    };
    let serving = Serving::new(dir.path(), &["waits.pct"]);
    wait_for("all lanes", || serving.get("tl?tab=waits").contains("\"whole\":true").then_some(()));
    let page = serving.get("tl?tab=waits");
    // The second thread has no sample.
    assert_eq!(kinds(&page), ["samples", "waits"], "{page}");
    let rows = rows_of_waits(&page);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0][..5], ["300.0 ms", "100.0%", "1", "300.0 ms", "mutex 0x1000"], "{rows:?}");
    // What is waited for stands in the notes too: how many records were lost.
    assert!(page.contains("1 wait; 0 records lost"), "{page}");
    let serving = Serving::new(dir.path(), &["wall.pct"]);
    wait_for("all lanes", || serving.get("tl?tab=waits").contains("\"whole\":true").then_some(()));
    let page = serving.get("tl?tab=waits");
    assert_eq!(kinds(&page), ["ran", "waits"], "{page}");
    assert!(page.contains("50 samples"), "all of them are counted");
    let rows: Vec<Vec<String>> = rows_of_waits(&page).into_iter().map(|row| row[..5].to_vec()).collect();
    let row = |cells: [&str; 5]| cells.map(str::to_owned).to_vec();
    let expected = [
        row(["300.0 ms", "100.0%", "1", "300.0 ms", "read pipe"]),
        row(["100.0 ms", "100.0%", "1", "100.0 ms", "a CPU"]),
    ];
    assert_eq!(rows, expected);
}
