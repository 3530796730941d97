//! Profiles in JSON by other tools: sums in the unit of the file, or a refusal in words.

use crate::foreign::Want::{Refused, Sum};
use crate::foreign::{check, own};
use pct_formats::import::{Wanted, parse, parse_with};
use pct_profile::model::{ObjectKind, Profile};
use pct_profile::{By, CallTree, Language, Split};
use std::path::Path;

const EVENTED: &str = r#"{"$schema": "https://www.speedscope.app/file-format-schema.json",
"shared": {"frames": [{"name": "main", "file": "a.rb", "line": 1}, {"name": "work"}]},
"profiles": [{"type": "evented", "name": "t", "unit": "milliseconds", "startValue": 10, "endValue": 20,
"events": [{"type": "O", "frame": 0, "at": 10}, {"type": "O", "frame": 1, "at": 12},
{"type": "C", "frame": 1, "at": 15}, {"type": "C", "frame": 0, "at": 20}]}]}"#;

/// Two profiles of different units.
const SAMPLED: &str = r#"{"shared": {"frames": [{"name": "main"}, {"name": "a"}]}, "activeProfileIndex": 1,
"profiles": [
{"type": "sampled", "name": "heap", "unit": "bytes", "startValue": 0, "endValue": 9, "samples": [[0, 1]], "weights": [9]},
{"type": "sampled", "name": "t", "unit": "seconds", "startValue": 0, "endValue": 0.02,
"samples": [[0], [0, 1], []], "weights": [0.01, 0.01, 0.01]}]}"#;

const CPU_PROFILE: &str = r#"{"nodes": [
{"id": 1, "callFrame": {"functionName": "(root)", "scriptId": "0", "url": "", "lineNumber": -1, "columnNumber": -1},
 "hitCount": 0, "children": [2, 4]},
{"id": 2, "callFrame": {"functionName": "main", "scriptId": "5", "url": "file:///srv/a.js", "lineNumber": 0,
 "columnNumber": 0}, "hitCount": 1, "children": [3]},
{"id": 3, "callFrame": {"functionName": "", "scriptId": "5", "url": "file:///srv/a.js", "lineNumber": 6,
 "columnNumber": 0}, "hitCount": 2},
{"id": 4, "callFrame": {"functionName": "(idle)", "scriptId": "0", "url": "", "lineNumber": -1, "columnNumber": -1},
 "hitCount": 1}],
"startTime": 1000, "endTime": 8000, "samples": [2, 3, 3, 4], "timeDeltas": [1000, 1000, 2000, 1000]}"#;

/// A processed profile; `$TABLES` are of the thread, or shared in newer versions.
const GECKO: &str = r#"{"meta": {"interval": 1, "startTime": 5, "product": "prog",
"sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"}}, "libs": [{"name": "prog", "path": "/bin/prog"}],
$SHARED
"threads": [{"name": "main", "processName": "prog", "pid": "7", "tid": 8, $TABLES
"samples": {"length": 3, "stack": [1, 0, 1], "time": [1, 2, 3], "weight": null, "weightType": "samples",
"threadCPUDelta": [null, 400000, 600000]}}]}"#;

const TABLES: &str = r#""stringArray": ["main", "work", "prog", "a.c"],
"stackTable": {"length": 2, "frame": [0, 1], "prefix": [null, 0]},
"frameTable": {"length": 2, "func": [0, 1], "line": [3, 9], "address": [-1, -1], "inlineDepth": [0, 0]},
"funcTable": {"length": 2, "name": [0, 1], "resource": [0, 0], "fileName": [3, null], "lineNumber": [2, null],
"isJS": [false, false]}, "resourceTable": {"length": 1, "name": [2], "lib": [0]},"#;

fn gecko(is_shared: bool) -> String {
    let shared = format!("\"shared\": {{{}}},", TABLES.trim_end_matches(','));
    let (shared, tables) = if is_shared { (shared.as_str(), "") } else { ("", TABLES) };
    GECKO.replace("$SHARED", shared).replace("$TABLES", tables)
}

/// As `perf script report gecko` writes it.
const RAW: &str = r#"{"meta": {"interval": 1, "product": "x", "startTime": 0}, "libs": [], "processes": [],
"threads": [{"tid": 8, "pid": 7, "name": "prog", "markers": {"schema": {"name": 0}, "data": []},
"samples": {"schema": {"stack": 0, "time": 1, "responsiveness": 2}, "data": [[1, 1.0, 0], [0, 2.0, 0], [1, 3.0]]},
"frameTable": {"schema": {"location": 0, "relevantForJS": 1, "line": 2}, "data": [[0, false, null], [1, false, 12]]},
"stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [[null, 0], [0, 1]]},
"stringTable": ["main (in prog)", "spin (https://e.org/a.js:10:2)"]}]}"#;

/// Slices of two threads: whole ones, and begins with ends.
const TRACE: &str = r#"{"traceEvents": [
{"ph": "M", "name": "process_name", "pid": 7, "tid": 7, "args": {"name": "shop"}},
{"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "worker 8"}},
{"ph": "P", "name": "Profile", "id": "0x1", "pid": 7, "tid": 8, "ts": 0, "args": {}},
{"ph": "X", "name": "inner", "cat": "v8", "pid": 7, "tid": 7, "ts": 102, "dur": 3},
{"ph": "X", "name": "outer", "cat": "v8", "pid": 7, "tid": 7, "ts": 100, "dur": 10},
{"ph": "B", "name": "job", "cat": "w", "pid": 7, "tid": 8, "ts": 100},
{"ph": "B", "name": "step", "cat": "w", "pid": 7, "tid": 8, "ts": 101},
{"ph": "E", "pid": 7, "tid": 8, "ts": 104}, {"ph": "E", "pid": 7, "tid": 8, "ts": 106},
{"ph": "C", "name": "heap", "pid": 7, "tid": 8, "ts": 106, "args": {"used": 5}}]}"#;

#[test]
fn each_form_gives_its_sum_in_its_unit() {
    let (own_tables, shared_tables) = (gecko(false), gecko(true));
    for (name, text, sample_type, want) in [
        ("evented", EVENTED, None, Sum("0.010 s of time", 0, "")),
        ("sampled", SAMPLED, None, Sum("0.030 s of time", 3, "1 sample without a stack")),
        ("sampled", SAMPLED, None, Sum("0.030 s of time", 3, "also in the file: memory (bytes)")),
        ("sampled", SAMPLED, Some("memory"), Sum("9 bytes of memory", 0, "")),
        ("sampled", SAMPLED, Some("cpu"), Refused("it has memory (bytes), time (seconds)")),
        // The time before the first sample is in none.
        ("cpuprofile", CPU_PROFILE, None, Sum("0.006 s of wall", 4, "")),
        ("cpuprofile", CPU_PROFILE, Some("samples"), Sum("4 samples", 4, "wall (microseconds)")),
        ("gecko", &own_tables, None, Sum("3 samples", 3, "cpu (ns)")),
        ("gecko", &own_tables, Some("cpu"), Sum("0.001 CPU s", 3, "")),
        ("gecko, shared tables", &shared_tables, None, Sum("3 samples", 3, "")),
        ("gecko, raw", RAW, None, Sum("3 samples", 3, "")),
        (
            "gecko, framed",
            &format!("{{\"label\": \"x\", \"profile\": {RAW}}}"),
            None,
            Sum("3 samples", 3, ""),
        ),
        ("trace events", TRACE, None, Sum("0.000 s of duration", 0, "1 event of another kind")),
    ] {
        check(name, text.as_bytes(), sample_type, want);
    }
}

/// Own amounts by function, in our unit.
fn amounts(text: &str) -> Vec<(String, u64)> {
    let profile = parse(text.as_bytes(), Path::new("x")).expect("a profile");
    own(&profile).into_iter().map(|(name, weight)| (name, weight.cpu_ns())).collect()
}

fn pairs(rows: &[(&str, u64)]) -> Vec<(String, u64)> {
    rows.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
}

#[test]
fn own_amounts_are_those_of_the_innermost_function() {
    for (text, want) in [
        (EVENTED, pairs(&[("main", 7_000_000), ("work", 3_000_000)])),
        (CPU_PROFILE, pairs(&[("(anonymous:7)", 3_000_000), ("(idle)", 2_000_000), ("main", 1_000_000)])),
        (&gecko(true), pairs(&[("main", 1), ("work", 2)])),
        (RAW, pairs(&[("main", 1), ("spin", 2)])),
        (TRACE, pairs(&[("inner", 3000), ("job", 3000), ("outer", 7000), ("step", 3000)])),
    ] {
        assert_eq!(amounts(text), want, "{text}");
    }
}

/// The names of all stacks with samples, outermost first.
fn stacks(profile: &Profile) -> Vec<String> {
    let name = |id| profile.functions[profile.frames[profile.stacks[id].frame].function].name.clone();
    let of = |cell: &pct_profile::model::Cell| {
        let mut names: Vec<String> = profile.outwards(cell.stack).map(|(id, _)| name(id)).collect();
        names.reverse();
        names.join(";")
    };
    profile.cells.iter().map(of).collect()
}

#[test]
fn places_threads_and_times_are_those_of_the_file() {
    let read = |text: &str| {
        let wanted = Wanted { timeline: true, sample_type: None };
        parse_with(text.as_bytes(), Path::new("x"), wanted).expect("a profile")
    };
    let v8 = read(CPU_PROFILE);
    let script = v8.objects.iter().find(|object| object.kind == ObjectKind::Module(Language::JavaScript));
    assert_eq!(script.expect("a script").path, "/srv/a.js");
    assert_eq!(
        v8.timeline.iter().map(|s| s.time_ns).collect::<Vec<_>>(),
        [1_000_000, 2_000_000, 4_000_000, 5_000_000]
    );
    let spans = read(TRACE);
    let threads: Vec<_> = spans.threads.iter().map(|thread| (thread.tid, thread.name.as_str())).collect();
    assert_eq!(threads, [(7, ""), (8, "worker 8")], "names are those of the file");
    assert_eq!(spans.processes.iter().next().expect("one").name, "shop");
    assert_eq!(stacks(&spans), ["outer", "outer;inner", "job", "job;step"]);
    let gecko = read(&gecko(false));
    assert_eq!(gecko.timeline.iter().map(|s| s.time_ns).collect::<Vec<_>>(), [0, 1_000_000, 2_000_000]);
    let frame = gecko.frames.iter().next().expect("a frame");
    assert_eq!(gecko.place_of(frame).as_deref(), Some("a.c:3"));
    assert!(gecko.objects.iter().any(|object| object.path == "/bin/prog"));
    let raw = read(RAW);
    let spin = raw.frames.iter().find(|frame| raw.functions[frame.function].name == "spin").expect("one");
    assert_eq!(
        (raw.place_of(spin).as_deref(), raw.language(spin.function)),
        (Some("https://e.org/a.js:12"), Language::JavaScript)
    );
}

#[test]
fn lines_of_frames_are_places_where_a_function_has_several() {
    let file = |second: &str| {
        format!(
            r#"{{"shared": {{"frames": [{{"name": "f", "file": "a.py", "line": 3}}, {{"name": "{second}", "file": "a.py",
            "line": 4}}]}}, "profiles": [{{"type": "sampled", "name": "t", "unit": "none", "samples": [[0], [1]],
            "weights": [1, 1]}}]}}"#
        )
    };
    let places = parse(file("f").as_bytes(), Path::new("x")).expect("a profile");
    assert_eq!(places.functions.len(), 1);
    assert_eq!(places.frames.iter().map(|frame| frame.line).collect::<Vec<_>>(), [3, 4]);
    let declared = parse(file("g").as_bytes(), Path::new("x")).expect("a profile");
    let lines = declared.functions.iter().map(|function| function.declared.expect("a line").1);
    assert_eq!(lines.collect::<Vec<_>>(), [3, 4]);
    let tree = CallTree::top_down(&declared, &declared.cells, By::Function, Split::Merged);
    assert_eq!(tree.roots.len(), 2);
}

#[test]
fn slices_that_overlap_or_do_not_end_are_told() {
    let trace = |events: &str| format!("{{\"traceEvents\": [{events}]}}");
    let slice = |name: &str, from: u32, us: u32, cpu: u32| {
        format!(
            r#"{{"ph": "X", "name": "{name}", "pid": 1, "tid": 1, "ts": {from}, "dur": {us}, "tdur": {cpu}, "tts": 0}}"#
        )
    };
    let overlapping = trace(&[slice("a", 0, 10, 8), slice("b", 5, 10, 9)].join(","));
    check("overlap", overlapping.as_bytes(), Some("duration"), Sum("0.000 s of duration", 0, "cut off"));
    assert_eq!(amounts(&overlapping), pairs(&[("a", 8000), ("b", 9000)]), "CPU time is that of both");
    let open = trace(
        r#"{"ph": "B", "name": "a", "pid": 1, "tid": 1, "ts": 1}, {"ph": "E", "pid": 1, "tid": 2, "ts": 4},
        {"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 2, "dur": 5}"#,
    );
    check("open", open.as_bytes(), None, Sum("0.000 s of duration", 0, "1 slice without an end"));
    check("open", open.as_bytes(), None, Sum("0.000 s of duration", 0, "1 end of a slice without its begin"));
    assert_eq!(amounts(&open), pairs(&[("a", 1000), ("b", 5000)]));
    // Equal times: the first one is the outer one.
    let equal = trace(&[slice("a", 0, 10, 4), slice("b", 0, 10, 4)].join(","));
    let profile = parse(equal.as_bytes(), Path::new("x")).expect("a profile");
    assert_eq!(stacks(&profile), ["a;b"]);
}

#[test]
fn ends_close_the_slice_of_their_name() {
    let event = |ph: &str, name: &str, at: u32| {
        format!(r#"{{"ph": "{ph}", {name} "pid": 1, "tid": 1, "ts": "{at}"}}"#)
    };
    let named = |name: &str| format!(r#""name": "{name}","#);
    let text = format!(
        "[{}]",
        [
            event("B", &named("a"), 0),
            event("B", &named("b"), 1),
            event("E", &named("a"), 10),
            event("B", &named("c"), 10),
            event("E", &named("d"), 11),
            event("E", "", 13),
        ]
        .join(",")
    );
    assert_eq!(amounts(&text), pairs(&[("a", 1000), ("b", 9000), ("c", 3000)]));
    check("ends", text.as_bytes(), None, Sum("0.000 s of duration", 0, "1 end of a slice without its begin"));
}

#[test]
fn samples_of_all_threads_have_their_stacks_beside_the_events() {
    let text = r#"{"traceEvents": [{"ph": "M", "name": "process_name", "pid": 7, "ts": "5", "tid": "-1", "args": {"name": "app"}}],
        "samples": [{"pid": 7, "tid": "9", "ts": "1000", "weight": "1", "sf": 1}, {"pid": 7, "tid": "9", "ts": "1500",
        "weight": "2", "sf": 2}], "stackFrames": {"1": {"name": "[root]", "category": "root"},
        "2": {"name": "f(http://host/a.js?x=1:3:4)", "category": "JavaScript", "parent": 1}}}"#;
    check("hermes", text.as_bytes(), None, Sum("3 samples", 3, ""));
    let wanted = Wanted { timeline: true, sample_type: None };
    let profile = parse_with(text.as_bytes(), Path::new("x"), wanted).expect("a profile");
    assert_eq!(stacks(&profile), ["[root]", "[root];f"]);
    assert_eq!(profile.timeline.iter().map(|s| s.time_ns).collect::<Vec<_>>(), [0, 500_000]);
    assert_eq!(profile.threads.iter().next().expect("one").tid, 9);
    let circle = text.replace("\"category\": \"root\"", "\"parent\": 2");
    check("a circle", circle.as_bytes(), None, Refused("among its own callers"));
}

#[test]
fn samples_of_v8_come_in_parts_of_a_trace() {
    let node = |id: u32, parent: &str, name: &str| {
        format!(
            r#"{{"id": {id}, {parent} "callFrame": {{"functionName": "{name}", "url": "a.js", "lineNumber": 0}}}}"#
        )
    };
    let chunk = |ts: u32, nodes: &str, samples: &str, deltas: &str, end: &str| {
        format!(
            r#"{{"ph": "P", "name": "ProfileChunk", "id": "0x1", "pid": 7, "tid": 9, "ts": {ts}, "args": {{"data": {{{end}
            "cpuProfile": {{"nodes": [{nodes}], "samples": {samples}}}, "timeDeltas": {deltas}}}}}}}"#
        )
    };
    let text = format!(
        "{{\"traceEvents\": [{}, {}, {}]}}",
        r#"{"ph": "P", "name": "Profile", "id": "0x1", "pid": 7, "tid": 8, "ts": 0, "args": {"data": {"startTime": 100}}}"#,
        chunk(
            1,
            &[node(1, "", "(root)"), node(2, "\"parent\": 1,", "f")].join(","),
            "[2, 2]",
            "[10, 10]",
            ""
        ),
        chunk(2, &node(3, "\"parent\": 2,", "g"), "[3]", "[10]", "\"endTime\": 145,"),
    );
    check("chunks", text.as_bytes(), None, Sum("0.000 s of wall", 3, ""));
    assert_eq!(amounts(&text), pairs(&[("f", 20_000), ("g", 15_000)]));
    let profile = parse(text.as_bytes(), Path::new("x")).expect("a profile");
    assert_eq!(
        profile.threads.iter().map(|thread| thread.tid).collect::<Vec<_>>(),
        [8],
        "not the profiler's thread"
    );
}

#[test]
fn lists_of_events_may_lack_their_end() {
    let slice = r#"{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 5}"#;
    for (end, note) in [("]", ""), ("", ""), (",", ""), (",\n{\"ph\": \"X\", \"na", "line 2: cut short")] {
        let text = format!("[{slice}{end}");
        check(&text, text.as_bytes(), None, Sum("0.000 s of duration", 0, note));
        assert_eq!(amounts(&text), pairs(&[("a", 5000)]), "{text}");
    }
    check("a list", b"[{\"a\": 1}, 2]", None, Refused("line 1"));
}

#[test]
fn json_that_does_not_fit_is_refused_with_its_place() {
    let changed = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    let gecko = gecko(false);
    for (text, words) in [
        (changed(EVENTED, "\"at\": 15", "\"at\": 11"), "an event at 11 behind one at 12"),
        (changed(EVENTED, "\"C\", \"frame\": 1", "\"C\", \"frame\": 9"), "frame 9 is closed and not open"),
        (changed(EVENTED, "\"O\", \"frame\": 1", "\"O\", \"frame\": 7"), "frame 7 of 2 frames"),
        (changed(EVENTED, "evented", "other"), "type \"other\""),
        (changed(SAMPLED, "[0.01, 0.01, 0.01]", "[0.01]"), "3 samples, but 1 weights"),
        (changed(SAMPLED, "[0.01, 0.01, 0.01]", "[-0.01, 0.01, 0.01]"), "pct diff"),
        (changed(CPU_PROFILE, "\"samples\": [2,", "\"samples\": [9,"), "node 9 is not in the file"),
        (changed(CPU_PROFILE, "\"timeDeltas\": [1000,", "\"timeDeltas\": ["), "4 samples, but 3 times"),
        (changed(CPU_PROFILE, "\"children\": [3]", "\"children\": [3, 2]"), "among its own callers"),
        (changed(&gecko, "\"prefix\": [null, 0]", "\"prefix\": [null, 1]"), "stack 1 is called by stack 1"),
        (changed(&gecko, "\"stack\": [1,", "\"stack\": [5,"), "stack 5 of 2"),
        (changed(&gecko, "\"func\": [0, 1]", "\"func\": [0, 4]"), "function 4 of 2"),
        (changed(&gecko, "\"name\": [0, 1]", "\"name\": [0, 17]"), "string 17 of 4"),
        (changed(&gecko, "\"time\": [1, 2, 3]", "\"time\": [1]"), "3 samples, but 1 times"),
        (changed(RAW, "[[null, 0], [0, 1]]", "[[null, 0], [0, 4]]"), "stack 1 has no frame"),
        (TRACE[..TRACE.len() - 9].to_owned(), "it seems to be trace events"),
        (EVENTED[..200].to_owned(), "it seems to be speedscope's JSON"),
        ("{\"head\": {\"callFrame\": {}, \"selfSize\": 3}}".to_owned(), "V8's sampling heap profile"),
        (
            r#"{"snapshot": {"meta": {"node_fields": ["type"]}}, "nodes": [9], "samples": []}"#.to_owned(),
            "heap snapshot",
        ),
        (r#"{"root_frame": {}, "sample_count": 3}"#.to_owned(), "pyinstrument"),
        (r#"{"dhatFileVersion": 2}"#.to_owned(), "dhat's file"),
        ("{\"a\": 12}".to_owned(), "JSON of a form that is not known"),
        ("{\"traceEvents\": [{\"ph\": \"C\", \"name\": \"x\"}]}".to_owned(), "no slices and no samples"),
    ] {
        check(&text, text.as_bytes(), None, Refused(words));
    }
}

#[test]
fn stacks_that_look_like_json_are_folded_text() {
    check("closures", b"{closure};main 3\n[unknown];{x} 4\n", None, Sum("7 samples", 7, ""));
    check("a list", b"[unknown];main 3\n", None, Sum("3 samples", 3, ""));
}
