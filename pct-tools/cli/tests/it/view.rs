//! `pct view` and `pct deep` of recordings: folded stacks are the recordings here, as everybody can read and
//! count them.

use pct_deep::Compensation;
use pct_native::{Apart, make};
use pct_reports::sources::{Folders, Sources};
use pct_reports::subject::Subject;
use pct_server::library::{Book, Library};
use pct_server::sweep::{SweepOptions, sweep};
use std::path::Path;
use std::process::Command;

const PCT: &str = env!("CARGO_BIN_EXE_pct");

/// What was said on stdout and stderr, and the status.
fn pct(dir: &Path, args: &[&str]) -> (String, String, i32) {
    let out = Command::new(PCT)
        .args(args)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .env_remove("NO_COLOR")
        .output()
        .expect("pct runs");
    (
        String::from_utf8_lossy(&out.stdout).into_owned(),
        String::from_utf8_lossy(&out.stderr).into_owned(),
        out.status.code().unwrap_or(-1),
    )
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).expect("written");
    }
    dir
}

const BEFORE: &str = "main;load;parse 300\nmain;render;shade 4000\nmain;render;shade;sqrt 1000\nmain;render 20\nmain;walk;walk;walk 50\n";
const AFTER: &str = "main;load;parse 900\nmain;render;shade 4020\nmain;render;shade;sqrt 990\nmain;render 21\nmain;walk;walk 50\n";

#[test]
fn a_recording_shows_time_and_nothing_that_is_not_known() {
    let dir = folder(&[("a.folded", BEFORE)]);
    let (menu, said, status) = pct(dir.path(), &["view", "--text", "menu", "a.folded"]);
    assert_eq!(status, 0, "{said}");
    assert!(menu.contains("Who has the samples"), "{menu}");
    assert!(menu.contains("shade"), "{menu}");
    for word in ["CPU", "Calls  ", "Exits", "words", "Clock ticks", "Procedure", "call sequence"] {
        assert!(!menu.contains(word), "{word}: {menu}");
    }
    let (top, ..) = pct(dir.path(), &["view", "--text", "top_procs/1-9/time/both/oa", "a.folded"]);
    assert!(top.contains("samples") && top.contains("5,020") && !top.contains("CPU"), "{top}");
    assert!(!top.contains("/call"), "{top}");
    // Preferences of an old link ask for columns that are not known: they are left out all the same.
    let old =
        "top_procs/1-9/calls/self/oa&p-qtp-S-A-B/box/cols/5/20/nosum/cost-calls-self-pc/nc/th/mqwd/hhh/nodev";
    let (page, ..) = pct(dir.path(), &["view", "--text", old, "a.folded"]);
    assert!(!page.contains("Exits") && !page.contains("/call"), "{page}");
    let (json, ..) = pct(dir.path(), &["view", "--json", "menu", "a.folded"]);
    assert!(json.contains("\"only_time_is_known\":true"), "{json}");
}

#[test]
fn a_list_of_the_first_by_one_cost_is_not_sorted_by_another_but_asked_for_anew() {
    // 120 functions with time of their own; those that called them have none.
    let text: String = (0..120).map(|n| format!("start;run;work;f{n} {}\n", n + 1)).collect();
    let dir = folder(&[("a.folded", &text)]);
    let subject = subject(&dir.path().join("a.folded"));
    let page = |query: &str| {
        let request = pct_reports::page::Request::parse(query).expect("a query");
        let place = pct_reports::render::html::PageContext { file: "a".into(), ..Default::default() };
        pct_reports::page::html(&subject, &request, &place).body
    };
    let by_self = page("top_procs/1-100/time/self/oa");
    assert!(!by_self.contains("data-flat>"), "a browser would sort the 100 rows that it has");
    assert!(by_self.contains("?top_procs/1-100/time/both/oa&amp;"), "{by_self}");
    let by_total = page("top_procs/1-100/time/both/oa");
    let rows: Vec<&str> = by_total.split("<tr>").filter(|row| row.contains("?proc/")).take(4).collect();
    for (row, name) in rows.iter().zip(["start", "run", "work", "f119"]) {
        assert!(row.contains(&format!(">{name}<")), "{name}: {row}");
    }
    // A list that has them all may be sorted where it is shown.
    assert!(page("program_modules").contains("data-flat>"));
}

#[test]
fn whose_time_it_was_is_what_the_report_says() {
    let text = "main;handle;[libc.so.6]memcpy 7\nmain;handle;std::sort(int) 5\nmain;idle 8\n";
    let dir = folder(&[("a.folded", text)]);
    let (view, said, _) = pct(dir.path(), &["view", "--json", "owners", "a.folded"]);
    let view: serde_json::Value = serde_json::from_str(&view).unwrap_or_else(|e| panic!("{e}: {said}"));
    let (report, ..) = pct(dir.path(), &["report", "--by", "owner", "--format", "json", "a.folded"]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let rows = |list: &serde_json::Value, name: &str| -> Vec<(String, String)> {
        let rows = list.as_array().expect("rows").iter();
        let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        rows.map(|row| (text(row, name), format!("{:.6}", row["share"].as_f64().expect("a share")))).collect()
    };
    let of_view = &view["report"]["owners"]["Ok"]["rows"];
    assert_eq!(rows(of_view, "name"), rows(&report["rows"], "function"), "{view}");
    let (of_view, of_report) = (&of_view[0]["callees"], &report["rows"][0]["callees"]);
    assert_eq!(rows(of_view, "name"), rows(of_report, "function"), "{view}");
    // The same stands beside a deep profile that is a file.
    pct(dir.path(), &["deep", "a.folded", "-o", "a.data"]);
    let (stored, ..) = pct(dir.path(), &["view", "--json", "owners", "a.data"]);
    let stored: serde_json::Value = serde_json::from_str(&stored).expect("JSON");
    assert_eq!(stored["report"]["owners"], view["report"]["owners"]);
}

#[test]
fn recursion_counts_once_as_in_the_report() {
    let dir = folder(&[("a.folded", "main;a;b;a 7\nmain;a;b 5\nmain;c 8\n")]);
    let (json, said, _) = pct(dir.path(), &["view", "--json", "top_procs/1-9/time/both/oa", "a.folded"]);
    let value: serde_json::Value =
        serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json} {said}"));
    let share = |name: &str| {
        let procs = value["report"]["top_procs"]["Ok"]["procs"].as_array().expect("rows");
        let row = procs.iter().find(|p| p["proc"]["name"] == name).expect("a row");
        row["perf"]["total"]["ticks_share"].as_f64().expect("a number")
    };
    for (name, expected) in [("main", 1.0), ("a", 0.6), ("b", 0.6), ("c", 0.4)] {
        assert!((share(name) - expected).abs() < 1e-9, "{name} {}", share(name));
    }
}

#[test]
fn a_functions_page_has_each_caller_each_callee_and_each_calling_line_once() {
    // With the address of each call: perf's text has one for each frame.
    let mut script = String::new();
    for (i, (caller, callee, weight)) in
        [("one", "leaf", 3), ("two", "leaf", 5), ("one", "other", 7), ("two", "leaf", 11)].iter().enumerate()
    {
        let frames = [*callee, "f", *caller, "main"];
        script.push_str(&format!("prog 1 {i}.000000: {weight} cpu-clock:\n"));
        for (depth, name) in frames.iter().enumerate() {
            script.push_str(&format!("\t{:x} {name} (/bin/prog)\n", 0x1000 * (depth + 1) + 16 * i));
        }
        script.push('\n');
    }
    let dir = folder(&[("a.txt", &script)]);
    let (json, said, _) = pct(dir.path(), &["view", "--json", "proc_named/f", "a.txt"]);
    let value: serde_json::Value =
        serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json} {said}"));
    let f = &value["report"]["proc"]["Ok"];
    let rows = |list: &serde_json::Value, name: &str, perf: &str| -> Vec<(String, i64)> {
        let list = list.as_array().expect("rows").iter();
        let mut rows: Vec<(String, i64)> = list
            .map(|r| {
                let name = r.pointer(name).and_then(|n| n.as_str()).expect("a name");
                (name.to_owned(), r[perf]["total"]["ticks"].as_i64().expect("ticks"))
            })
            .collect();
        rows.sort();
        rows
    };
    let times = |rows: &[(&str, i64)], tick: i64| -> Vec<(String, i64)> {
        rows.iter().map(|(name, n)| ((*name).to_owned(), n * tick)).collect()
    };
    let tick = f["perf"]["total"]["ticks"].as_i64().expect("ticks") / 26;
    assert!(tick > 0, "{json}");
    let around = &f["neighbours"];
    assert_eq!(rows(&around["callers"], "/proc/name", "perf"), times(&[("one", 10), ("two", 16)], tick));
    assert_eq!(rows(&around["callees"], "/proc/name", "perf"), times(&[("leaf", 19), ("other", 7)], tick));
    assert_eq!(rows(&f["sites"], "/site/callee/name", "summary"), times(&[("leaf", 19), ("other", 7)], tick));
    let (page, ..) = pct(dir.path(), &["view", "--text", "proc_callers/2/cs/1/20/nc", "a.txt"]);
    assert!(!page.to_lowercase().contains("procedure"), "{page}");
}

#[test]
fn a_deep_profile_is_read_where_a_recording_is() {
    let dir = folder(&[("a.folded", BEFORE), ("b.folded", AFTER)]);
    for name in ["a", "b"] {
        let (_, said, status) =
            pct(dir.path(), &["deep", &format!("{name}.folded"), "-o", &format!("{name}.data")]);
        assert_eq!(status, 0, "{said}");
    }
    let table = |args: &[&str]| {
        let (out, said, status) = pct(dir.path(), args);
        assert_eq!(status, 0, "{args:?}: {said}");
        out
    };
    let report = table(&["report", "--tree", "a.data"]);
    assert!(report.contains("shade") && report.contains("74.5%"), "{report}");
    let of = |file: &str, args: &[&str]| {
        let mut rows: Vec<String> = table(&[args, &[file]].concat()).lines().map(str::to_owned).collect();
        rows.sort();
        rows
    };
    // Folded recursion is one level deep, so its lines are left out; the others are the recording's.
    let folded = |file| {
        let mut rows = of(file, &["export", "--format", "folded", "-o", "-"]);
        rows.retain(|row| !row.contains("walk"));
        rows
    };
    assert_eq!(folded("a.data"), folded("a.folded"));
    let changes = table(&["diff", "--base", "a.data", "b.data"]);
    assert_eq!(changes, table(&["diff", "a.data", "b.data"]));
    assert!(changes.contains("parse"), "{changes}");
    assert!(table(&["flame", "-o", "-", "--base", "a.data", "b.data"]).contains("parse ("));
    for format in ["speedscope", "callgrind"] {
        assert!(table(&["export", "--format", format, "-o", "-", "a.data"]).contains("shade"), "{format}");
    }
}

#[test]
fn what_changed_is_told_from_chance() {
    let dir = folder(&[("old.folded", BEFORE), ("new.folded", AFTER)]);
    let query = "diff/old.folded/procs/self/absolute";
    let (page, said, status) =
        pct(dir.path(), &["view", "--base", "old.folded", "--json", query, "new.folded"]);
    assert_eq!(status, 0, "{said}");
    let value: serde_json::Value = serde_json::from_str(&page).expect("JSON");
    let rows = value["report"]["diff"]["Ok"]["rows"].as_array().expect("rows");
    let clear: Vec<&str> =
        rows.iter().filter(|r| r["own"]["clear"] == true).filter_map(|r| r["name"].as_str()).collect();
    assert_eq!(clear, ["parse"], "{page}");
    let (text, ..) = pct(
        dir.path(),
        &["view", "--base", "old.folded", "--text", "diff/old.folded/cliques/both/shares", "new.folded"],
    );
    assert!(text.contains("load < main") || text.contains("Called from"), "{text}");
    let (list, ..) = pct(dir.path(), &["view", "--text", "recordings", "new.folded", "old.folded"]);
    assert!(list.contains("new.folded") && list.contains("old.folded"), "{list}");
}

#[test]
fn what_changed_is_told_of_the_programs_own_functions() {
    // The same work is done by another function of the C library.
    let sample = |leaf: &str, at: u32, period: u32| {
        format!(
            "prog 10 1.{at:06}: {period} cycles:\n\t2000 {leaf} (/usr/lib/libc.so.6)\n\t1000 handle (/opt/prog)\n\n"
        )
    };
    let samples =
        |leaf: &str, period: u32| -> String { (0..100).map(|at| sample(leaf, at, period)).collect() };
    let dir = folder(&[("a.txt", &samples("memcpy", 70)), ("b.txt", &samples("memmove", 120))]);
    let diff = |words: &[&str]| {
        let (text, said, status) = pct(dir.path(), &[&["diff", "a.txt", "b.txt"], words].concat());
        assert_eq!(status, 0, "{said}");
        text
    };
    let names = |text: &str| -> Vec<String> {
        let rows = text.lines().skip_while(|line| !line.contains("function")).skip(1);
        rows.filter_map(|line| Some(line.split_whitespace().nth(4)?.to_owned())).collect()
    };
    assert_eq!(names(&diff(&[])), ["handle"], "{}", diff(&[]));
    assert_eq!(names(&diff(&["--by", "leaf"])), ["memmove", "memcpy"]);
    assert_eq!(names(&diff(&["--by", "library"])), ["memmove", "memcpy"]);
    // Programs read what they always read.
    assert_eq!(diff(&["--format", "csv"]), diff(&["--format", "csv", "--by", "function"]));
    assert!(diff(&["--format", "csv", "--by", "owner"]).contains(",handle\n"));
    // So does the page; without owners it compares functions.
    let page = |what: &str| {
        let query = format!("diff/a.txt/{what}/self/absolute");
        let (text, said, status) = pct(dir.path(), &["view", "--base", "a.txt", "--json", &query, "b.txt"]);
        assert_eq!(status, 0, "{said}");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let rows = value["report"]["diff"]["Ok"]["rows"].as_array().expect("rows").clone();
        rows.into_iter()
            .map(|row| (row["name"].clone(), row["own"]["before"].clone(), row["own"]["after"].clone()))
    };
    assert_eq!(page("owners").collect::<Vec<_>>(), [("handle".into(), 7000.into(), 12000.into())]);
    assert_eq!(page("procs").count(), 3);
}

#[test]
fn a_list_of_levels_gives_rows_within_rows_in_its_order() {
    let dir = folder(&[("a.folded", "main;parse;read 30\nmain;parse 40\nmain;write;read 20\nmain 10\n")]);
    let said = |words: &[&str]| {
        let (text, said, status) = pct(dir.path(), &[&["report"], words, &["a.folded"]].concat());
        assert_eq!(status, 0, "{said}");
        text
    };
    let names = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| !line.contains("name")).skip(1);
        let lines = lines.take_while(|line| !line.is_empty());
        lines.map(|line| line.split_whitespace().skip(3).collect::<Vec<_>>().join(" ")).collect()
    };
    let table = said(&["--by", "object,function"]);
    assert_eq!(names(&table), ["[folded]", "read [folded]", "parse [folded]", "main [folded]"], "{table}");
    let table = said(&["--by", "function,object", "-n", "2"]);
    assert_eq!(names(&table)[..2], ["read [folded]", "[folded]"], "{table}");
    assert!(table.contains("... 2 more rows"), "{table}");
    // A program gets the rows of the last level, with a column for each level.
    let csv = said(&["--by", "object,function,line", "--format", "csv"]);
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("samples,samples_count,share,object,function,line"), "{csv}");
    assert_eq!(lines.next(), Some("50,50.000000,0.500000,[folded],read,read"), "{csv}");
    let json: serde_json::Value =
        serde_json::from_str(&said(&["--by", "object,function,line", "--format", "json"])).expect("JSON");
    assert_eq!(json["levels"], serde_json::json!(["object", "function", "line"]));
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(3));
    assert_eq!((&json["rows"][1]["function"], &json["rows"][1]["samples"]), (&"parse".into(), &40.into()));
}

#[test]
fn a_long_list_of_changes_is_told_by_pages() {
    let functions = |extra: u32| -> String {
        let line = |n: u32| format!("main;f{n} {}\n", 10 + n % 7 + extra * (n % 3));
        (0..450).map(line).collect()
    };
    let dir = folder(&[("old.folded", &functions(0)), ("new.folded", &functions(1))]);
    let of = |page: u32| {
        let query = format!("diff/old.folded/procs/self/absolute@{page}");
        let (text, said, status) =
            pct(dir.path(), &["view", "--base", "old.folded", "--text", &query, "new.folded"]);
        assert_eq!(status, 0, "{said}");
        text
    };
    let pages: Vec<String> = (1..=3).map(of).collect();
    let rows = |page: &String| page.lines().filter(|line| line.contains("  proc/")).count();
    assert_eq!(pages.iter().map(rows).collect::<Vec<_>>(), [200, 200, 51], "main and 450 functions");
    assert!(pages[1].contains("rows 201 to 400 of 451"), "{}", pages[1]);
}

#[test]
fn what_is_counted_reads_well_when_there_is_none() {
    let dir = folder(&[("a.folded", BEFORE), ("b.folded", BEFORE)]);
    let (same, said, status) = pct(
        dir.path(),
        &["view", "--base", "a.folded", "b.folded", "--text", "diff/a.folded/procs/self/absolute"],
    );
    assert_eq!(status, 0, "{said}");
    assert!(same.contains("No row changed by more than chance (3.3 standard deviations"), "{same}");
    assert!(!same.contains("what did comes first"), "{same}");
    // The number is beside the name; no column is without a name.
    let (all, said, status) = pct(dir.path(), &["view", "a.folded", "b.folded", "--text", "recordings"]);
    assert_eq!(status, 0, "{said}");
    let head = all.lines().find(|line| line.starts_with("Recording ")).unwrap_or_else(|| panic!("{all}"));
    let heads: Vec<&str> = head.split("  ").map(str::trim).filter(|name| !name.is_empty()).collect();
    assert_eq!(heads, ["Recording", "Other amount", "Begun", "Kind", "Command", "Compare"], "{all}");
}

#[test]
fn pages_of_a_recording_speak_of_functions_callers_and_objects() {
    let dir = folder(&[("a.folded", BEFORE)]);
    let queries =
        ["menu", "root/no", "root/90", "clique/2", "proc/2", "program_modules", "clique_tree/2/time"];
    for query in queries {
        let (text, said, status) = pct(dir.path(), &["view", "--text", query, "a.folded"]);
        assert_eq!(status, 0, "{query}: {said}");
        for word in ["clique", "procedure", "redo", "mercury", "module", "ancestor"] {
            // Commands (`clique/2`) are the same for all profiles.
            let words = text.split_whitespace().filter(|token| !token.contains(['/', '_']));
            let found: Vec<&str> = words.filter(|token| token.to_lowercase().contains(word)).collect();
            assert!(found.is_empty(), "{query}: {found:?}");
        }
    }
}

#[test]
fn a_file_is_the_same_each_time_and_reads_back_with_its_names() {
    let dir = folder(&[("a.folded", BEFORE)]);
    for name in ["one.data", "two.data"] {
        let (_, said, status) = pct(dir.path(), &["deep", "-o", name, "a.folded"]);
        assert_eq!(status, 0, "{said}");
    }
    let read = |name: &str| std::fs::read(dir.path().join(name)).expect("is there");
    assert_eq!(read("one.data"), read("two.data"));
    assert_eq!(read("one.native"), read("two.native"));
    let (of_file, ..) = pct(dir.path(), &["view", "--json", "top_procs/1-99/time/both/oa", "one.data"]);
    let (of_recording, ..) = pct(dir.path(), &["view", "--json", "top_procs/1-99/time/both/oa", "a.folded"]);
    assert_eq!(of_file, of_recording);
}

#[test]
fn a_damaged_side_file_is_ignored_with_a_warning() {
    let dir = folder(&[("a.folded", BEFORE)]);
    pct(dir.path(), &["deep", "-o", "x.data", "a.folded"]);
    let side = dir.path().join("x.native");
    let good = std::fs::read_to_string(&side).expect("is there");
    let hash = good.lines().find(|l| l.starts_with("hash")).expect("a hash");
    for bad in
        ["", "rubbish\n", &good.replace(hash, "hash 0123"), &good.replace("function 2 ", "function 9 ")]
    {
        std::fs::write(&side, bad).expect("written");
        let (menu, said, status) = pct(dir.path(), &["view", "--text", "menu", "x.data"]);
        assert_eq!(status, 0, "{said}");
        assert!(menu.contains("x.native") && menu.contains("ignored"), "{bad:.20}: {menu}");
        // What its costs are amounts of stands only there.
        assert!(menu.starts_with("a.folded: 5,370 of cost (no unit given)\n"), "{menu}");
        assert!(menu.contains("Functions with most cost") && !menu.contains("shade/0-0"), "{menu}");
        let (table, ..) = pct(dir.path(), &["report", "x.data"]);
        assert!(table.starts_with("5,370 of cost (no unit given)"), "{table}");
    }
}

#[test]
fn every_row_of_the_objects_page_has_a_name() {
    let dir = folder(&[("a.folded", BEFORE)]);
    for split in ["merge", "split"] {
        let ask = ["view", "--threads", split, "--json", "program_modules", "a.folded"];
        let (json, said, status) = pct(dir.path(), &ask);
        assert_eq!(status, 0, "{said}");
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let modules = value["report"]["program_modules"]["modules"]
            .as_array()
            .or_else(|| value["report"]["program_modules"]["Ok"]["modules"].as_array())
            .unwrap_or_else(|| panic!("{json}"));
        assert!(!modules.is_empty() && modules.iter().all(|m| m["name"] != ""), "{json}");
    }
}

#[test]
fn threads_can_be_kept_apart() {
    let dir = folder(&[("a.folded", BEFORE)]);
    let (root, said, status) =
        pct(dir.path(), &["view", "--threads", "split", "--text", "root/no", "a.folded"]);
    assert_eq!(status, 0, "{said}");
    assert!(root.contains("<thread"), "{root}");
}

/// Two processes, as pprof has them.
fn two_processes() -> Vec<u8> {
    let mut b = pct_profile::model::Builder::new(false);
    let object = b.unknown_object();
    for (pid, names) in [(7, ["main", "left"]), (8, ["main", "right"])] {
        let process = b.process(pct_profile::model::Process { pid, ..Default::default() });
        let thread = b.thread(process, pid, "worker");
        let mut at = None;
        for name in names {
            let function = b.function(object, name);
            let frame = b.plain_frame(function);
            at = Some(b.stack(at, frame));
        }
        let weight =
            pct_profile::model::Weight { samples: 1, user_ns: u64::from(pid) * 1_000_000, system_ns: 0 };
        b.add(thread, at.expect("a stack"), weight);
    }
    let profile = b.finish();
    pct_formats::export(&profile, &profile.cells, pct_formats::Format::Pprof)
}

#[test]
fn processes_are_merged_kept_apart_or_chosen() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("two.pb.gz"), two_processes()).expect("written");
    let top = |args: &[&str]| {
        pct(dir.path(), &[&["view", "--text", "top_procs/1-9/time/both/oa", "two.pb.gz"], args].concat())
    };
    let (merged, said, status) = top(&[]);
    assert_eq!(status, 0, "{said}");
    assert!(merged.contains("left") && merged.contains("right") && merged.contains("0.015"), "{merged}");
    let (chosen, ..) = top(&["--process", "8"]);
    assert!(!chosen.contains("left") && chosen.contains("right"), "{chosen}");
    let (apart, ..) = pct(dir.path(), &["view", "--processes", "split", "--text", "root/no", "two.pb.gz"]);
    assert!(apart.contains("<process 7") && apart.contains("<process 8"), "{apart}");
    let (_, said, status) = top(&["--process", "9"]);
    assert_eq!(status, 1);
    assert!(said.contains("none of the 2 samples is in the part that was asked for"), "{said}");
}

#[test]
fn the_file_is_read_by_mdprof_dump_as_any_other() {
    let dir = folder(&[("a.folded", BEFORE)]);
    let (_, said, status) = pct(dir.path(), &["deep", "-o", "x.data", "a.folded"]);
    assert_eq!(status, 0, "{said}");
    let octets = std::fs::read(dir.path().join("x.data")).expect("is there");
    let data = pct_deep::read(&octets).expect("well formed");
    let mut dump = Vec::new();
    pct_server::dump::print(&data, pct_server::dump::DumpOptions::ALL, &mut dump).expect("into memory");
    let dump = String::from_utf8(dump).expect("UTF-8");
    for word in ["shade", "program_name", "ticks_per_sec"] {
        assert!(dump.contains(word), "{word}: {dump:.400}");
    }
    // All that the file counts.
    let profile = pct_deep::Profile::new(data, Compensation::Exact).expect("well formed");
    assert_eq!(profile.root_total().quanta, 300 + 4000 + 1000 + 20 + 50);
}

#[test]
fn without_stacks_the_page_says_how_to_record_them() {
    let dir = folder(&[("a.folded", "main 5\nother 9\n")]);
    let (menu, said, status) = pct(dir.path(), &["view", "--text", "menu", "a.folded"]);
    assert_eq!(status, 0, "{said}");
    assert!(menu.contains("no stacks") && menu.contains("--stack"), "{menu}");
    assert!(menu.contains("other"), "{menu}");
    let empty = folder(&[("a.folded", "\n")]);
    let (_, said, status) = pct(empty.path(), &["view", "--text", "menu", "a.folded"]);
    assert_eq!(status, 1);
    assert!(said.starts_with("pct: "), "{said}");
}

fn subject(path: &Path) -> Subject {
    let profile = pct_formats::import(path).expect("reads");
    let made = make(&profile, &profile.cells, Apart::default(), 1000).expect("has samples");
    let recorded = made.recorded.clone();
    let mut subject =
        Subject::of_recording(made.profile(Compensation::Exact).expect("is well formed"), recorded, path);
    subject.sources = Sources::Below(Folders {
        beside: vec![path.parent().expect("a folder").to_owned()],
        ..Folders::default()
    });
    subject
}

#[test]
fn the_overview_has_one_figure_for_the_time_of_the_whole() {
    let dir = folder(&[("a.folded", BEFORE)]);
    let path = dir.path().join("a.folded");
    let mut profile = pct_formats::import(&path).expect("reads");
    // As if each of its samples stood for 1 ms.
    profile.quantity = pct_profile::Quantity::Processor;
    profile.cells.iter_mut().for_each(|cell| cell.weight.user_ns *= 1_000_000);
    // The kernel counted more time than there is in samples: this happens wherever a process ends between two of them.
    profile.account.used = Some((6_440_000_000, 170_000_000));
    assert!(
        pct_profile::text::account::headline(&profile).starts_with("6.61 CPU s"),
        "what the reports begin with"
    );
    let made = make(&profile, &profile.cells, Apart::default(), 1000).expect("has samples");
    let recorded = made.recorded.clone();
    let subject =
        Subject::of_recording(made.profile(Compensation::Exact).expect("well formed"), recorded, &path);
    let menu = pct_reports::page::Request::parse("menu").expect("a query");
    let page =
        pct_reports::page::text(&subject, &menu, &pct_reports::render::text::TextOptions::default()).body;
    let (above, account) = page.split_once("What was accounted for").unwrap_or_else(|| panic!("{page}"));
    // 5.37 CPU s of samples: in the bar on top. The kernel's figure stands where the difference is explained.
    assert!(above.contains("5.37 CPU s, ") || above.contains("5.37 CPU s\n"), "{above}");
    for kernels in ["6.61", "6.44", "0.17"] {
        assert!(!above.contains(kernels), "{kernels}: {above}");
    }
    assert!(account.contains("accounted 5.37 of 6.61 CPU s"), "{account}");
}

#[test]
fn every_page_of_a_recording_and_of_a_comparison_is_good() {
    let dir = folder(&[("old.folded", BEFORE), ("new.folded", AFTER)]);
    let book = |name: &str| {
        let path = dir.path().join(name);
        let entry = pct_reports::subject::ShelfEntry { name: name.to_owned(), ..Default::default() };
        Book { entry, load: Box::new(move || Ok(subject(&path))), load_part: None, beside: None }
    };
    let library = Library::new(vec![book("new.folded"), book("old.folded")]);
    let subject = library.subject("new.folded").expect("reads");
    let options = SweepOptions { sample: None, follow: true, only: None };
    let result = sweep(&subject, &options, &mut |_| {});
    let errors: Vec<String> = result.errors.iter().take(10).map(|(q, e)| format!("{q}: {e}")).collect();
    assert_eq!(errors, Vec::<String>::new());
    for kind in ["flame", "recordings", "diff"] {
        assert!(result.pages[kind] > 0, "{kind}");
    }
}

#[test]
fn deep_profiles_of_several_runs_become_one_and_recordings_do_so_by_themselves() {
    use pct_deep::synthetic::{Params, generate};
    let dir = folder(&[("a.folded", BEFORE), ("b.folded", AFTER)]);
    for run in [1, 2] {
        let data =
            generate(&Params { run, contexts: 200, procs: 20, ..Params::default() }).expect("generates");
        let octets = pct_deep::to_octets(&data, pct_deep::Version::V9).expect("encodes");
        std::fs::write(dir.path().join(format!("{run}.data")), octets).expect("written");
    }
    let calls = |name: &str| {
        let data = pct_deep::read_file(&dir.path().join(name)).expect("reads");
        (data.header().callseqs, data.header().canonical)
    };
    let (_, said, status) = pct(dir.path(), &["deep", "1.data", "2.data", "-o", "ALL.data"]);
    assert_eq!(status, 0, "{said}");
    assert_eq!(calls("ALL.data"), (calls("1.data").0 + calls("2.data").0, true));
    let (menu, said, status) = pct(dir.path(), &["view", "--text", "menu", "ALL.data"]);
    assert_eq!(status, 0, "{said}");
    assert!(menu.contains("./synthetic"), "{menu}");
    let (_, said, status) = pct(dir.path(), &["deep", "1.data", "a.folded", "-o", "x.data"]);
    assert!(status == 1 && said.contains("a.folded: is no deep profile"), "{said}");
    for name in ["a", "b"] {
        pct(dir.path(), &["deep", &format!("{name}.folded"), "-o", &format!("{name}.data")]);
    }
    let (_, said, status) = pct(dir.path(), &["deep", "a.data", "b.data", "-o", "x.data"]);
    assert!(status == 1 && said.contains("a.data: was made of a recording"), "{said}");
}
