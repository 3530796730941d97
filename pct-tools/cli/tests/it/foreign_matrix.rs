//! Each form of another profiler's file at each command: the sums agree, or the command says why it has none.

use crate::foreign::{pprof, said};
use pct_kit::{flight_recorder, perf_data};
use std::path::Path;

/// A form, its file, and what its amounts are.
struct Form {
    name: &'static str,
    text: &'static str,
    /// The sum with its unit, and in the unit of CSV.
    words: &'static str,
    sum: f64,
    /// The sum of the counts in folded text.
    folded: u64,
    /// The sum in the table of facts of the first page: its head, and the number.
    page: [&'static str; 2],
}

const FORMS: &[Form] = &[
    Form {
        name: "x.folded",
        text: "main;a 30\nmain;b 10\n",
        words: "40 samples",
        sum: 40.0,
        folded: 40,
        page: ["samples", "40"],
    },
    Form {
        name: "perf.txt",
        text: "prog 5 1.000001: 30000000 cpu-clock: \n\t1 a+0x1 (/bin/p)\n\t2 main+0x1 (/bin/p)\n\n\
               prog 5 1.000002: 10000000 cpu-clock: \n\t3 b+0x1 (/bin/p)\n\t2 main+0x1 (/bin/p)\n\n",
        words: "0.040 CPU s",
        sum: 0.04,
        folded: 2,
        page: ["CPU seconds", "0.040"],
    },
    Form {
        name: "evented.json",
        text: r#"{"shared": {"frames": [{"name": "main"}, {"name": "a"}]}, "profiles": [{"type": "evented", "name": "t",
            "unit": "milliseconds", "startValue": 0, "endValue": 40, "events": [{"type": "O", "frame": 0, "at": 0},
            {"type": "O", "frame": 1, "at": 5}, {"type": "C", "frame": 1, "at": 35}, {"type": "C", "frame": 0, "at": 40}]}]}"#,
        words: "0.040 s of time",
        sum: 0.04,
        folded: 40_000_000,
        page: ["seconds of time", "0.040"],
    },
    Form {
        name: "x.cpuprofile",
        text: r#"{"nodes": [{"id": 1, "callFrame": {"functionName": "main", "url": "a.js", "lineNumber": 0}, "children": [2]},
            {"id": 2, "callFrame": {"functionName": "a", "url": "a.js", "lineNumber": 4}}],
            "startTime": 0, "endTime": 40000, "samples": [1, 2], "timeDeltas": [0, 10000]}"#,
        words: "0.040 s of wall",
        sum: 0.04,
        folded: 40_000_000,
        page: ["seconds of wall", "0.040"],
    },
    Form {
        name: "gecko.json",
        text: r#"{"meta": {"interval": 1}, "threads": [{"name": "t", "samples": {"stack": [0, 1, 1, 1], "time": [1, 2, 3, 4]},
            "stackTable": {"frame": [0, 1], "prefix": [null, 0]}, "frameTable": {"func": [0, 1]},
            "funcTable": {"name": [0, 1]}, "stringArray": ["main", "a"]}]}"#,
        words: "4 samples",
        sum: 4.0,
        folded: 4,
        page: ["samples", "4"],
    },
    Form {
        name: "raw.json",
        text: r#"{"meta": {"interval": 1}, "threads": [{"name": "t", "samples": {"schema": {"stack": 0, "time": 1},
            "data": [[0, 1], [1, 2], [1, 3], [1, 4]]}, "frameTable": {"schema": {"location": 0}, "data": [[0], [1]]},
            "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [[null, 0], [0, 1]]},
            "stringTable": ["main (in p)", "a (in p)"]}]}"#,
        words: "4 samples",
        sum: 4.0,
        folded: 4,
        page: ["samples", "4"],
    },
    Form {
        name: "trace.json",
        text: r#"[{"ph": "B", "name": "main", "pid": 1, "tid": 1, "ts": 0}, {"ph": "X", "name": "a", "pid": 1, "tid": 1,
            "ts": 5000, "dur": 30000}, {"ph": "E", "pid": 1, "tid": 1, "ts": 40000}]"#,
        words: "0.040 s of duration",
        sum: 0.04,
        folded: 40_000_000,
        page: ["seconds of duration", "0.040"],
    },
    Form {
        name: "callgrind.out",
        text: "events: Ir\nfn=main\n1 10\ncfn=a\ncalls=1 0\n2 30\nfn=a\n4 30\n",
        words: "40 of Ir (count)",
        sum: 40.0,
        folded: 40,
        page: ["Ir (count)", "40"],
    },
];

/// The sum of a column of a table in CSV.
fn column(csv: &str, of: impl Fn(&str) -> bool) -> f64 {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().expect("a head").split(',').collect();
    let at = names.iter().position(|name| of(name)).unwrap_or_else(|| panic!("{names:?}"));
    lines.filter_map(|line| line.split(',').nth(at)?.parse::<f64>().ok()).sum()
}

fn check(dir: &Path, name: &str, words: &str, sum: f64, folded: u64, [head, number]: [&str; 2]) {
    let run = |words: &[&str]| {
        let (text, status) = said(dir, words);
        assert_eq!(status, 0, "{name}: {words:?}: {text}");
        text
    };
    let near =
        |what: &str, found: f64| assert!((found - sum).abs() < 1e-6, "{name}: {what}: {found}, not {sum}");
    assert!(run(&["report", name]).contains(words), "{name}: {}", run(&["report", name]));
    let out = |words: &[&str]| {
        let done = crate::support::pct(dir, words);
        assert!(done.status.success(), "{name}: {words:?}");
        String::from_utf8(done.stdout).expect("UTF-8")
    };
    // Three columns of a table are amounts: samples, then the unit, then its share.
    near(
        "report",
        column(&out(&["report", "--format", "csv", name]), |head| !["samples", "share"].contains(&head)),
    );
    near(
        "tree",
        column(&out(&["report", "--tree", "--format", "csv", name]), |head| head.starts_with("self_")),
    );
    assert!(run(&["report", "--html", "-", name]).contains(words), "{name}: the page");
    assert!(run(&["flame", "-o", "-", name]).contains("main"), "{name}: flame");
    let diff = run(&["diff", name, name]);
    // A table of differences is of CPU time where it names no other.
    let unit = words;
    let words = words.replace("CPU s", "s");
    assert!(diff.contains(&format!("{words} before, {words} after")), "{name}: {diff}");
    let text = out(&["export", "--format", "folded", "-o", "-", name]);
    let counts: u64 = text
        .lines()
        .map(|line| line.rsplit_once(' ').expect("a count").1.parse::<u64>().expect("a number"))
        .sum();
    assert_eq!(counts, folded, "{name}: {text}");
    let whole = |page: &str| {
        let mut lines = page.lines().map(str::trim);
        lines.any(|line| line.strip_prefix(head).is_some_and(|rest| rest.trim() == number))
    };
    let page = run(&["view", "--text", "menu", name]);
    assert!(whole(&page), "{name}: {page}");
    // A deep profile of it says the same, as a page and as a table.
    run(&["deep", "-o", "x.data", name]);
    let page = run(&["view", "--text", "menu", "x.data"]);
    assert!(whole(&page), "{name}: {page}");
    let again = run(&["report", "x.data"]);
    assert!(again.contains(unit), "{name}: {again}");
}

#[test]
fn each_form_has_the_same_sum_in_each_view() {
    let dir = tempfile::tempdir().expect("a folder");
    for form in FORMS {
        std::fs::write(dir.path().join(form.name), form.text).expect("written");
        check(dir.path(), form.name, form.words, form.sum, form.folded, form.page);
    }
}

#[test]
fn each_binary_form_has_the_same_sum_in_each_view() {
    let dir = tempfile::tempdir().expect("a folder");
    let put = |name: &str, octets: &[u8]| std::fs::write(dir.path().join(name), octets).expect("written");
    put("heap.pb", &pprof(&[("space", "bytes")], &[1_000], &[50]));
    check(dir.path(), "heap.pb", "1,050 bytes of space", 1_050.0, 1_050, ["bytes of space", "1,050"]);
    put("shop.jfr", &flight_recorder::file());
    check(dir.path(), "shop.jfr", "0.012 CPU s", 0.012, 5, ["CPU seconds", "0.012"]);
    let records = [
        perf_data::mmap2(5, 0x10000, 0x1000, "/no/such/main", 11),
        perf_data::sample(5, 30, false, 30_000_000, &[perf_data::USER, 0x10010, 0x10101]),
        perf_data::sample(5, 40, false, 10_000_000, &[perf_data::USER, 0x10020, 0x10101]),
    ];
    let page = ["CPU seconds", "0.040"];
    put("perf.data", &perf_data::file(&records.concat()));
    check(dir.path(), "perf.data", "0.040 CPU s", 0.04, 2, page);
    // As perf record --threads writes it, under a name that deep profiles have.
    std::fs::create_dir(dir.path().join("threads.data")).expect("made");
    put("threads.data/data", &perf_data::file(&records[0]));
    put("threads.data/data.0", &records[1]);
    put("threads.data/data.1", &records[2]);
    check(dir.path(), "threads.data", "0.040 CPU s", 0.04, 2, page);
}

#[test]
fn each_export_has_the_same_sum_in_each_view() {
    let dir = tempfile::tempdir().expect("a folder");
    let cpu = pprof(&[("samples", "count"), ("cpu", "nanoseconds")], &[3, 30_000_000], &[1, 10_000_000]);
    std::fs::write(dir.path().join("cpu.pb"), cpu).expect("written");
    let page = ["CPU seconds", "0.040"];
    check(dir.path(), "cpu.pb", "0.040 CPU s", 0.04, 4, page);
    // Folded text has amounts where the number of samples is not known.
    let ns = 40_000_000;
    for (format, folded) in
        [("pprof", 4), ("speedscope", ns), ("callgrind", ns), ("chrome", ns), ("firefox", ns)]
    {
        let (text, status) = said(dir.path(), &["export", "--format", format, "-o", format, "cpu.pb"]);
        assert_eq!(status, 0, "{text}");
        check(dir.path(), format, "0.040 CPU s", 0.04, folded, page);
    }
}
