//! Other profilers' files at the commands: amounts keep their unit, or are refused in words.

use crate::support::pct;
use pct_formats::protobuf::Message;
use pct_kit::{flight_recorder, perf_data};
use std::path::Path;

/// A pprof file: `main` calls `a` and `b`, with these values of each type.
pub(crate) fn pprof(types: &[(&str, &str)], a: &[u64], b: &[u64]) -> Vec<u8> {
    let names =
        ["", "main", "a", "b"].into_iter().chain(types.iter().flat_map(|(name, unit)| [*name, *unit]));
    let mut out = Message::default();
    for at in 0..types.len() as u64 {
        let mut kind = Message::default();
        kind.number(1, 4 + 2 * at);
        kind.number(2, 5 + 2 * at);
        out.bytes(1, &kind.0);
    }
    for function in 1..=3 {
        let [mut location, mut line, mut named] = [(); 3].map(|()| Message::default());
        line.number(1, function);
        location.number(1, function);
        location.bytes(4, &line.0);
        named.number(1, function);
        named.number(2, function);
        out.bytes(4, &location.0);
        out.bytes(5, &named.0);
    }
    for (function, values) in [(2, a), (3, b)] {
        let mut sample = Message::default();
        sample.packed(1, &[function, 1]);
        sample.packed(2, values);
        out.bytes(2, &sample.0);
    }
    for name in names {
        out.bytes(6, name.as_bytes());
    }
    out.0
}

/// What a command prints on both streams, and its status.
pub(crate) fn said(dir: &Path, words: &[&str]) -> (String, i32) {
    let out = pct(dir, words);
    let text = [out.stdout, out.stderr].map(|octets| String::from_utf8(octets).expect("UTF-8")).concat();
    (text, out.status.code().expect("a status"))
}

/// Forms that have but times take samples, each as the same time, and say so. Counts of events have other shares.
#[test]
fn counts_are_no_times_in_another_form() {
    let dir = tempfile::tempdir().expect("a folder");
    let faults = "x 5 1.000001: 90 page-faults: \n\t1 a+0x1 (/bin/x)\n\nx 5 1.000002: 2 page-faults: \n\t2 b+0x1 (/bin/x)\n\n";
    std::fs::write(dir.path().join("faults.txt"), faults).expect("written");
    std::fs::write(dir.path().join("x.folded"), "main;a 3\nmain;b 1\n").expect("written");
    for form in ["chrome", "firefox"] {
        let (said_of_faults, status) =
            said(dir.path(), &["export", "-f", form, "-o", "out.json", "faults.txt"]);
        assert!(
            status == 1 && said_of_faults.contains("(page-faults) are a count; pct report"),
            "{said_of_faults}"
        );
        let (said_of_samples, status) =
            said(dir.path(), &["export", "-f", form, "-o", "out.json", "x.folded"]);
        assert!(
            status == 0 && said_of_samples.contains("each sample is shown as 1 ms of CPU time"),
            "{said_of_samples}"
        );
        let (again, _) = said(dir.path(), &["report", "out.json"]);
        assert!(again.starts_with("0.004 CPU s") && again.contains("75.0%"), "{again}");
    }
}

/// What is missing of a file is told, and beside it stands no word that nothing is.
#[test]
fn a_file_that_lacks_a_part_is_not_said_to_be_whole() {
    let dir = tempfile::tempdir().expect("a folder");
    let perf = perf_data::file(&perf_data::data());
    let mut killed = flight_recorder::chunk(0, &[flight_recorder::cpu(6_000, 1, 1, 400_000)]);
    let whole = killed.clone();
    killed[64] = 6;
    let text = "x 5 1.000001: 90 cpu-clock: \n\t1 a+0x1 (/bin/x)\n\n";
    let stray = format!("{text}\t 1 stray+0x1 (/bin/x)\n\n{text}");
    let pprof = pprof(&[("cpu", "ms")], &[30], &[10]);
    for (name, octets, is_whole) in [
        ("perf.txt", text.as_bytes(), true),
        ("stray.txt", stray.as_bytes(), false),
        ("whole.jfr", &whole, true),
        ("killed.jfr", &killed, false),
        ("cut.jfr", &[&whole[..], &whole[..whole.len() - 9]].concat(), false),
        ("cut.data", &perf[..perf.len() - 20], false),
        ("time.pb", &pprof, true),
        ("cut.pb", &[&pprof[..], b"\x2a"].concat(), false),
        ("callgrind.out", b"version: 1\nevents: Ir\nfn=a\n1 3\ntotals: 3\n", true),
        ("sum.out", b"version: 1\nevents: Ir\nfn=a\n1 3\ntotals: 4\n", false),
        (
            "trace.json",
            br#"[{"ph":"X","name":"a","ts":1,"dur":3,"pid":1,"tid":1},{"ph":"X","name":"b""#,
            false,
        ),
    ] {
        std::fs::write(dir.path().join(name), octets).expect("written");
        let (report, status) = said(dir.path(), &["report", name]);
        assert_eq!((report.contains("nothing lost"), status), (is_whole, 0), "{name}: {report}");
    }
}

/// A file that has but the sum of its CPU time says nothing of the kernel's part.
#[test]
fn time_in_the_kernel_is_told_where_the_file_tells_it() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("time.pb"), pprof(&[("cpu", "ms")], &[30], &[10])).expect("written");
    let (report, _) = said(dir.path(), &["report", "time.pb"]);
    assert!(report.starts_with("0.040 CPU s in 1 process, 1 thread, number of samples"), "{report}");
    let (threads, _) = said(dir.path(), &["report", "--by", "thread", "time.pb"]);
    assert!(!threads.contains("user") && !threads.contains("system"), "{threads}");
    let sample = "prog 5 1.000001: 30000000 cpu-clock: \n\tffffffff81000010 a+0x1 ([kernel.kallsyms])\n\n";
    std::fs::write(dir.path().join("perf.txt"), sample).expect("written");
    let (report, _) = said(dir.path(), &["report", "--by", "thread", "perf.txt"]);
    assert!(report.contains("(0.00 user, 0.030 system)") && report.contains("  user  system"), "{report}");
}

#[test]
fn memory_of_another_profiler_is_shown_in_bytes_and_never_as_cpu_time() {
    let dir = tempfile::tempdir().expect("a folder");
    let heap = pprof(&[("objects", "count"), ("space", "bytes")], &[10, 1000], &[1, 50]);
    std::fs::write(dir.path().join("heap.pb"), &heap).expect("written");
    let less = pprof(&[("objects", "count"), ("space", "bytes")], &[10, 400], &[1, 50]);
    std::fs::write(dir.path().join("less.pb"), &less).expect("written");
    let time = pprof(&[("cpu", "ns")], &[1], &[2]);
    std::fs::write(dir.path().join("time.pb"), &time).expect("written");
    for (words, status, part) in [
        (&["report", "heap.pb"][..], 0, "1,050 bytes of space"),
        (&["report", "heap.pb"], 0, "objects (count) (--type NAME shows it)"),
        (&["report", "--type", "objects", "heap.pb"], 0, "11 objects"),
        (&["report", "--type", "wall", "heap.pb"], 1, "it has objects (count), space (bytes)"),
        (&["report", "--tree", "heap.pb"], 0, "95.2%"),
        (&["report", "--format", "csv", "heap.pb"], 0, "samples,space_bytes,share"),
        (&["report", "--format", "csv", "heap.pb"], 0, "\n,1000.000000,0.952381"),
        (&["report", "--tree", "--format", "csv", "heap.pb"], 0, "self_space_bytes"),
        (&["report", "--format", "json", "heap.pb"], 0, "\"unit\":\"bytes\""),
        (&["report", "--html", "-", "heap.pb"], 0, "1,050 bytes of space"),
        (&["report", "--alloc", "heap.pb"], 1, "--type inuse_space heap.pb"),
        (&["flame", "-o", "-", "heap.pb"], 0, "1,000 bytes of space"),
        (&["diff", "heap.pb", "less.pb"], 0, "1,050 bytes of space before, 450 bytes of space after: -600"),
        (&["diff", "--format", "csv", "heap.pb", "less.pb"], 0, "before_space_bytes"),
        (
            &["diff", "heap.pb", "time.pb"],
            1,
            "its values are space (bytes), those of the other are cpu (nanoseconds)",
        ),
        (&["export", "--format", "folded", "-o", "-", "heap.pb"], 0, "main;a 1000\nmain;b 50\n"),
        (&["export", "--format", "callgrind", "-o", "-", "heap.pb"], 0, "events: space\nsummary: 1050"),
        (&["export", "--format", "speedscope", "-o", "-", "heap.pb"], 0, "\"unit\":\"bytes\""),
        (&["export", "--format", "chrome", "-o", "-", "heap.pb"], 1, "memory in bytes"),
        (&["view", "--text", "menu", "heap.pb"], 0, "bytes of space"),
        (&["view", "--text", "flame", "heap.pb"], 0, "bytes of space"),
        (&["view", "--json", "owners", "heap.pb"], 0, "\"measured\":{\"of\":\"space\",\"unit\":\"bytes\"}"),
        (&["deep", "-o", "x.data", "heap.pb"], 0, ""),
        (&["view", "--text", "top_procs/1-9/time/self/oa", "x.data"], 0, "bytes of space"),
        (&["report", "x.data"], 0, "1,050 bytes of space"),
        (&["annotate", "a", "heap.pb"], 0, "1,000 bytes of space in it (95.2%)"),
        (&["print", "heap.pb"], 1, ""),
    ] {
        let (text, code) = said(dir.path(), words);
        assert_eq!(code, status, "{words:?}: {text}");
        assert!(text.contains(part), "{words:?}: {text}");
        assert!(!text.contains("CPU s") && !text.contains("cpu_seconds"), "{words:?}: {text}");
    }
    let exported = said(dir.path(), &["export", "--format", "pprof", "-o", "again.pb.gz", "heap.pb"]);
    assert_eq!(exported.1, 0, "{}", exported.0);
    assert!(said(dir.path(), &["report", "again.pb.gz"]).0.contains("1,050 bytes of space"));
}

#[test]
fn counts_of_samples_are_no_time_in_any_view() {
    let dir = tempfile::tempdir().expect("a folder");
    let sample = "java 19983 cycles: \n\t1 a+0x1 (/bin/prog)\n\t2 main+0x1 (/bin/prog)\n\n";
    std::fs::write(dir.path().join("perf.txt"), sample.repeat(3)).expect("written");
    let (report, _) = said(dir.path(), &["report", "perf.txt"]);
    assert!(report.starts_with("3 samples of cycles") && !report.contains("CPU s"), "{report}");
    let (view, status) = said(dir.path(), &["view", "--text", "menu", "perf.txt"]);
    assert!(
        status == 0 && view.starts_with("perf.txt: 3 samples of cycles\n") && !view.contains("CPU"),
        "{view}"
    );
}

#[test]
fn pages_compare_only_what_measures_the_same_and_claim_no_chance_without_samples() {
    let dir = tempfile::tempdir().expect("a folder");
    let calls = |cost: u32| format!("events: Ir\nfn=main\n1 {cost}\n");
    std::fs::write(dir.path().join("a.out"), calls(10)).expect("written");
    std::fs::write(dir.path().join("b.out"), calls(40)).expect("written");
    std::fs::write(dir.path().join("x.folded"), "main;a 3\n").expect("written");
    let diff = |before: &str, after: &str| {
        let query = format!("diff/{before}/procs/self/absolute");
        said(dir.path(), &["view", "--base", before, "--text", &query, after]).0
    };
    let page = diff("a.out", "b.out");
    assert!(page.contains("Ir (count): 10 before, 40 after (+300.0%).\n"), "{page}");
    assert!(page.contains("it is not known which changes may be chance"), "{page}");
    let page = diff("x.folded", "b.out");
    assert!(
        page.contains("One of the two profiles is of samples, the other of Ir: they have no common measure"),
        "{page}"
    );
}

#[test]
fn a_window_of_time_picks_samples_or_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let sample = |time: &str| format!("p 5 {time}: 1000000 cpu-clock: \n\t1 a+0x1 (/bin/p)\n\n");
    let text = ["7.000000", "7.500000", "8.000000", "9.000000"].map(sample).concat();
    std::fs::write(dir.path().join("perf.txt"), text).expect("written");
    std::fs::write(dir.path().join("x.folded"), "main;a 3\n").expect("written");
    let (part, _) = said(dir.path(), &["report", "--from", "0.5", "--to", "1.5", "perf.txt"]);
    assert!(part.starts_with("0.002 CPU s"), "{part}");
    let (nothing, _) = said(dir.path(), &["report", "--from", "5", "perf.txt"]);
    assert!(
        nothing.contains("the chosen time holds none of 4 samples, the last of which is at 2.00 s"),
        "{nothing}"
    );
    let (refused, status) = said(dir.path(), &["report", "--from", "0.5", "x.folded"]);
    assert!(status == 1 && refused.contains("no times of samples"), "{refused}");
}

#[test]
fn a_type_is_chosen_of_one_file_by_another_profiler() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("x.folded"), "main;a 3\n").expect("written");
    std::fs::create_dir(dir.path().join("run")).expect("made");
    assert_eq!(said(dir.path(), &["report", "--type", "wall", "x.folded"]).1, 1);
    assert_eq!(said(dir.path(), &["report", "--type", "wall", "run"]).1, 2);
    let (two, status) = said(dir.path(), &["report", "x.folded", "x.folded"]);
    assert!(status == 1 && two.contains("one at a time"), "{two}");
}

#[test]
fn names_of_types_units_and_events_show_no_hidden_characters() {
    const EVIL: &str = "evil\u{1b}[2J\u{202e}\nINJECTED";
    let dir = tempfile::tempdir().expect("a folder");
    let types = [("other", EVIL), (EVIL, EVIL)];
    std::fs::write(dir.path().join("x.pb"), pprof(&types, &[1, 2], &[3, 4])).expect("written");
    let event = EVIL.replace(['\n', ' '], "_");
    let text = |event: &str| format!("prog 5 1.000001: 1 {event}: \n\t1 a+0x1 (/bin/p)\n\n");
    std::fs::write(dir.path().join("x.txt"), text(&event) + &text("b")).expect("written");
    for file in ["x.pb", "x.txt"] {
        for words in [
            &["report", file][..],
            &["report", "--format", "csv", file],
            &["report", "--tree", "--format", "csv", file],
            &["report", "--format", "json", file],
            &["report", "--html", "-", file],
            &["report", "--type", "none", file],
            &["flame", "-o", "-", file],
            &["diff", file, file],
            &["diff", "--format", "csv", file, file],
            &["diff", "--format", "json", file, file],
            &["export", "--format", "folded", "-o", "-", file],
            &["export", "--format", "callgrind", "-o", "-", file],
            &["export", "--format", "speedscope", "-o", "-", file],
            &["view", "--text", "menu", file],
            &["deep", "-o", "x.data", file],
            &["report", "--alloc", file],
        ] {
            let (text, _) = said(dir.path(), words);
            let hidden = text.find(|c| pct_text::is_hidden(c) && !matches!(c, '\n' | '\t'));
            assert_eq!(hidden, None, "{words:?}: {text:?}");
            assert!(!text.lines().any(|line| line.starts_with("INJECTED")), "{words:?}: {text}");
        }
    }
}
