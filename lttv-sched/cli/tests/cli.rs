//! The command on traces that the naive writer of the CTF tests makes, and on the shared data where it is there.

#[path = "../../ctf/tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use common::{Written, put, written};
use serde_json::Value;

fn lttv(args: &[&str]) -> Output {
    // No test reads or writes the cache of the user who runs it.
    Command::cargo_bin("lttv").unwrap().args(args).env("XDG_CACHE_HOME", "").env("HOME", "").output().unwrap()
}

fn out(args: &[&str]) -> String {
    let o = lttv(args);
    assert!(o.status.success(), "{args:?}: {}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8(o.stdout).unwrap()
}

fn rows(args: &[&str]) -> Vec<Value> {
    out(args).lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

/// A trace of 4 packets of 30 events on disk.
fn trace(dir: &Path, seed: u64) -> (String, Written) {
    let w = written(seed, 4, 30);
    put(dir, w.tsdl.as_bytes(), &[("chan_2", &w.stream)]);
    (dir.to_str().unwrap().to_string(), w)
}

#[test]
fn events_come_with_their_times_whatever_the_chunk() {
    let tmp = tempfile::tempdir().unwrap();
    let (t, w) = trace(tmp.path(), 11);
    let all = rows(&["events", &t, "--format", "json", "--columns", "ns,cpu,channel,name,fields"]);
    assert_eq!(all.len(), w.events.len());
    for (row, (clock, payload)) in all.iter().zip(&w.events) {
        assert_eq!(row["ns"].as_u64(), Some(*clock));
        assert_eq!(
            (&row["cpu"], &row["channel"], &row["name"]),
            (&Value::from(2), &Value::from("chan"), &Value::from("e"))
        );
        for (name, v) in payload.as_object().unwrap().iter().filter(|(_, v)| v.is_number() || v.is_string()) {
            assert_eq!(&row["fields"][name], v);
        }
    }
    let text = out(&["events", &t]);
    for chunk in ["1", "7"] {
        assert_eq!(out(&["events", &t, "--chunk", chunk]), text);
    }
}

#[test]
fn windows_filters_and_counts_choose_the_same_events_as_looking_at_all() {
    let tmp = tempfile::tempdir().unwrap();
    let (t, w) = trace(tmp.path(), 12);
    let (from, to) = (w.events[40].0, w.events[77].0);
    let ns = |args: &[&str]| {
        let rows = rows(&[&["events", &t, "--format", "json", "--columns", "ns"], args].concat());
        rows.iter().map(|r| r["ns"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let window: Vec<u64> = w.events.iter().map(|e| e.0).filter(|c| *c >= from && *c < to).collect();
    let (a, b) = (format!("{from}"), format!("{}.{:09}", to / 1_000_000_000, to % 1_000_000_000));
    assert_eq!(ns(&["--from", &a, "--to", &b]), window);
    let filter = format!("ns >= {from} && !(ns >= {to}) && name == e* && cpu == 2 && !vpid || name == nope");
    assert_eq!(ns(&["--filter", &filter]), window);
    // A field that no event has is an error, not an empty answer.
    let o = lttv(&["events", &t, "--filter", &filter.replace("!vpid", "vpid != 3")]);
    assert_eq!(o.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&o.stderr).contains("no event here has a field `vpid`"), "{o:?}");
    assert_eq!(ns(&["--from", &a, "-n", "5"]), window[..5]);
    assert_eq!(ns(&["--filter", &format!("ns >= {from}"), "-n", "5"]), window[..5]);
    assert_eq!(ns(&["-n", "0"]), Vec::<u64>::new());
    let hist = rows(&["histogram", &t, "--from", &a, "--to", &b, "--buckets", "7", "--format", "json"]);
    assert_eq!(hist.iter().map(|r| r["events"].as_u64().unwrap()).sum::<u64>(), window.len() as u64);
    for args in [vec!["stats", &t], vec!["stats", &t, "--from", "0ns"]] {
        let stats = rows(&[&args[..], &["--format", "json"]].concat());
        assert_eq!(stats[0]["events"].as_u64(), Some(w.events.len() as u64), "{args:?}");
        assert_eq!(stats[0]["first_ns"].as_u64(), Some(w.events[0].0));
        let of = |kind: &str| -> u64 {
            stats.iter().filter(|r| r["kind"] == kind).map(|r| r["events"].as_u64().unwrap()).sum()
        };
        assert_eq!(
            (of("event"), of("cpu"), of("channel")),
            (of("total"), of("total"), of("total")),
            "{args:?}"
        );
    }
}

#[test]
fn exit_status_tells_what_went_wrong() {
    let tmp = tempfile::tempdir().unwrap();
    let (t, _) = trace(&tmp.path().join("good"), 13);
    let status = |args: &[&str]| lttv(args).status.code();
    assert_eq!(status(&["events", &t]), Some(0));
    assert_eq!(status(&["events", &t, "--filter", "name =="]), Some(2));
    assert_eq!(status(&["events", &t, "--from", "yesterday"]), Some(2));
    assert_eq!(status(&["events"]), Some(2));
    assert_eq!(status(&["events", "/nonexistent"]), Some(1));
    // One damaged trace beside a good one: the good one is shown.
    let bad = tmp.path().join("bad");
    put(&bad, b"/* CTF 1.8 */ trace {", &[]);
    let o = lttv(&["events", &t, bad.to_str().unwrap()]);
    assert_eq!(o.status.code(), Some(1));
    assert_eq!(o.stdout.iter().filter(|b| **b == b'\n').count(), 120);
    let told = String::from_utf8_lossy(&o.stderr);
    assert!(told.contains("bad/metadata: line 1:"), "{told}");
    // Cut in the middle of a packet: events before it, a diagnostic, and 1.
    let stream = tmp.path().join("good/chan_2");
    let bytes = std::fs::read(&stream).unwrap();
    std::fs::write(&stream, &bytes[..bytes.len() * 5 / 8]).unwrap();
    let o = lttv(&["events", &t]);
    assert_eq!(o.status.code(), Some(1));
    let n = o.stdout.iter().filter(|b| **b == b'\n').count();
    assert!((60..100).contains(&n), "{n} events");
    let told = String::from_utf8_lossy(&o.stderr);
    assert!(told.contains("chan_2") && told.contains("truncated"), "{told}");
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let tmp = tempfile::tempdir().unwrap();
    let w = written(14, 40, 200);
    put(tmp.path(), w.tsdl.as_bytes(), &[("s", &w.stream)]);
    let bin = assert_cmd::cargo::cargo_bin("lttv");
    let mut child = std::process::Command::new(bin)
        .args(["events", tmp.path().to_str().unwrap()])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let o = child.wait_with_output().unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
}

#[test]
fn samples_and_events_are_looked_at_together() {
    let tmp = tempfile::tempdir().unwrap();
    let mut b = pct_format::builder::Builder::new();
    let thread = b.thread(5, 77, b"main");
    b.sample(thread, 100, 0x4000, 1, false, 0);
    let log = tmp.path().join("run.pct");
    std::fs::write(&log, b.finish()).unwrap();
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        clock { name = monotonic; offset_s = 1; };
        stream { event.header := struct { integer { size = 64; map = clock.monotonic.value; } t; }; };
        event { name = tick; fields := struct { integer { size = 8; } n; }; };";
    let stream: Vec<u8> =
        [(50u64, 1u8), (150, 2)].iter().flat_map(|(t, n)| t.to_le_bytes().into_iter().chain([*n])).collect();
    let dir = tmp.path().join("ctf");
    put(&dir, metadata.as_bytes(), &[("s", &stream)]);
    let (log, dir) = (log.to_str().unwrap(), dir.to_str().unwrap());
    let all = rows(&["events", log, dir, "--format", "json"]);
    let seen: Vec<(u64, &str)> = all
        .iter()
        .map(|r| (r["ns"].as_u64().unwrap() - 1_000_000_000, r["name"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [(5, "thread_begin"), (50, "tick"), (100, "sample"), (150, "tick")]);
    // A clock that counts from nowhere known is not merged unasked.
    let odd = tmp.path().join("odd");
    put(&odd, metadata.replace("monotonic", "mine").as_bytes(), &[("s", &stream)]);
    let odd = odd.to_str().unwrap();
    assert_eq!(lttv(&["events", dir, odd]).status.code(), Some(1));
    let o = lttv(&["events", dir, odd, "--any-clock"]);
    assert!(o.status.success() && String::from_utf8_lossy(&o.stderr).contains("different instants"));
}

#[test]
fn real_traces_give_their_counts_windows_and_run_times() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    for name in ["tc/bug446190", "bt/succeed__multi-domains", "ust/ust-rot"] {
        let t = dir.join(name);
        let t = t.to_str().unwrap();
        let file = dir.join("expected").join(format!("{}.stats.json", name.replace('/', "__")));
        let want: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let stats = rows(&["stats", t, "--format", "json"]);
        assert_eq!(stats[0]["events"], want["events"]);
        for (event, n) in want["by_name"].as_object().unwrap() {
            let row = stats.iter().find(|r| r["kind"] == "event" && r["name"] == event.as_str());
            assert_eq!(row.map(|r| &r["events"]), Some(n), "{name}: {event}");
        }
        for w in want["windows_half_open"].as_array().unwrap() {
            let (a, b) = (w["start_ns"].to_string(), w["end_ns"].to_string());
            let n = out(&["events", t, "--from", &a, "--to", &b, "--columns", "ns"]).lines().count();
            assert_eq!(n as u64, w["events"].as_u64().unwrap(), "{name} {w}");
        }
    }
    let snapshot =
        rows(&["states", dir.join("tc/bug446190").to_str().unwrap(), "--at", "50%", "--format", "json"]);
    assert_eq!(snapshot.iter().filter(|r| r["kind"] == "cpu").count(), 4);
    let intervals = rows(&["states", dir.join("tc/bug446190").to_str().unwrap(), "--format", "json"]);
    // Intervals of a CPU follow each other without a gap.
    let mut last = std::collections::BTreeMap::new();
    for i in &intervals {
        let cpu = i["cpu"].as_u64().unwrap();
        let (from, to) = (i["from_ns"].as_i64().unwrap(), i["to_ns"].as_i64().unwrap());
        assert!(from < to);
        if let Some(end) = last.insert(cpu, to) {
            assert!(from >= end, "{i}");
        }
    }
    assert!(last.len() == 4 && intervals.len() > 1000);
}

#[test]
fn manual_pages_and_completions_know_every_command() {
    let dir = tempfile::tempdir().expect("a folder");
    let pages = dir.path().join("man");
    out(&["generate", "man", pages.to_str().expect("UTF-8")]);
    for page in ["lttv", "lttv-events", "lttv-stats", "lttv-states", "lttv-histogram"] {
        let text = std::fs::read_to_string(pages.join(format!("{page}.1"))).expect(page);
        assert!(text.contains(".TH") && (page == "lttv" || text.contains("\\-\\-filter")), "{page}: {text}");
    }
    let bash = out(&["generate", "completions", "bash"]);
    assert!(bash.contains("histogram") && bash.contains("--columns"), "{bash}");
}

/// What runs on a CPU is whom the last switch on it went to, whatever the window was reached by.
#[test]
fn states_of_real_traces_are_those_of_the_switches_before() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    for name in ["bt/succeed__lttng-tracefile-rotation__kernel", "tc/bug446190"] {
        let t = dir.join(name);
        let t = t.to_str().unwrap();
        let options = ["--filter", "name == sched_switch", "--columns", "ns,cpu,fields", "--format", "json"];
        let switches: Vec<(u64, u64, i64)> = rows(&[&["events", t][..], &options].concat())
            .iter()
            .map(|r| {
                let next = r["fields"]["next_tid"].as_i64().expect("a thread");
                (r["ns"].as_u64().expect("a time"), r["cpu"].as_u64().expect("a CPU"), next)
            })
            .collect();
        assert!(switches.len() > 1000, "{name}: {} switches", switches.len());
        let mut judged = 0;
        for part in 1..8 {
            // Right behind a switch: what ran before it does not run any more.
            let at = switches[switches.len() * part / 8].0 + 1;
            let mut running = std::collections::BTreeMap::new();
            for (_, cpu, next) in switches.iter().take_while(|s| s.0 < at) {
                running.insert(*cpu, *next);
            }
            let states = rows(&["states", t, "--at", &at.to_string(), "--format", "json"]);
            for row in states.iter().filter(|r| r["kind"] == "cpu") {
                let cpu = row["cpu"].as_u64().expect("a CPU");
                if let Some(next) = running.get(&cpu) {
                    assert_eq!(row["tid"].as_i64(), Some(*next), "{name} at {at}: {row}");
                    judged += 1;
                }
            }
        }
        assert!(judged >= 14, "{name}: {judged} CPUs looked at");
    }
}

/// Number bases, labels of enumerations, texts and arrays as babeltrace2 shows them.
#[test]
fn fields_as_text_are_those_of_babeltrace2() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    let manifest: Value = serde_json::from_slice(&std::fs::read(dir.join("MANIFEST.json")).unwrap()).unwrap();
    let mut compared = 0;
    for entry in manifest["traces"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        if entry["expected_text"] != "full" || entry["reader"]["exit"] != 0 {
            continue;
        }
        let want =
            std::fs::read_to_string(dir.join("expected").join(format!("{}.txt", name.replace('/', "__"))))
                .unwrap();
        let trace = dir.join(name);
        let got = out(&["events", trace.to_str().unwrap(), "--columns", "name,context,fields", "-q"]);
        // Between the two columns stands a space.
        let mut got: Vec<String> = got.lines().map(|line| line.replacen("} {", "}, {", 1)).collect();
        let names: std::collections::BTreeSet<&str> =
            got.iter().map(|line| line.split_once(" {").map_or(line.as_str(), |(name, _)| name)).collect();
        // Of the expected lines the part from the event's name on, without the packet's context; tied events in any order.
        let shown = |line: &str| {
            let of = |before: &str| {
                let fits = names.iter().filter(|name| before.ends_with(**name));
                (*fits.max_by_key(|name| name.len()).unwrap_or_else(|| panic!("{line}"))).to_string()
            };
            let Some((before, fields)) = line.split_once(": {") else {
                return of(line.trim_end_matches(": "));
            };
            let fields = match fields.split_once(" }, {") {
                Some((packet, rest)) if packet.starts_with(" cpu_id = ") => rest,
                _ => fields,
            };
            format!("{} {{{fields}", of(before))
        };
        let mut want: Vec<String> = want.lines().map(shown).collect();
        assert_eq!(got.len(), want.len(), "{name}");
        want.sort();
        got.sort();
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got, want, "{name}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared} events compared");
}

#[test]
fn perf_says_the_cpu_in_its_events() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    let trace = dir.join("tc/perf-taskset2");
    let trace = trace.to_str().unwrap();
    let all = rows(&["events", trace, "--columns", "ns,cpu,fields", "--format", "json"]);
    assert_eq!(all.len(), 1500);
    assert!(all.iter().all(|row| row["cpu"] == row["fields"]["perf_cpu"] && row["cpu"].is_u64()));
    let stats = rows(&["stats", trace, "--format", "json"]);
    let cpus = stats.iter().filter(|row| row["kind"] == "cpu").count();
    assert!(cpus > 1, "{cpus} CPUs");
    let snapshot = rows(&["states", trace, "--at", "100%", "--format", "json"]);
    assert_eq!(snapshot.iter().filter(|row| row["kind"] == "cpu").count(), cpus);
}

#[test]
fn windows_of_real_traces_add_up_by_mode() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    let trace = dir.join("tc/bug446190");
    let trace = trace.to_str().unwrap();
    let modes = |args: &[&str]| {
        let all = rows(&[&["stats", trace, "--format", "json"][..], args].concat());
        let modes = all.iter().filter(|row| row["kind"] == "mode");
        let entry = |row: &Value| {
            (
                row["mode"].as_str().unwrap().to_string(),
                (row["events"].as_u64().unwrap(), row["cpu_ns"].as_i64().unwrap()),
            )
        };
        modes.map(entry).collect::<std::collections::BTreeMap<_, _>>()
    };
    let whole = modes(&[]);
    assert!(whole.len() >= 3, "{whole:?}");
    let mut sum = std::collections::BTreeMap::new();
    for part in
        [["--from", "0%", "--to", "30%"], ["--from", "30%", "--to", "31%"], ["--from", "31%", "--to", "200%"]]
    {
        for (mode, (events, ns)) in modes(&part) {
            let entry: &mut (u64, i64) = sum.entry(mode).or_default();
            *entry = (entry.0 + events, entry.1 + ns);
        }
    }
    assert_eq!(sum, whole);
}

/// A packet of a kernel trace: begin, end, counter of lost events, switches (time, from, to).
type Packet = (u64, u64, u64, Vec<(u64, u64, u64)>);

/// A trace of one CPU that switches.
fn switching(dir: &Path, packets: &[Packet]) {
    let metadata = "/* CTF 1.8 */ typealias integer { size = 64; align = 8; signed = true; } := i64;
        typealias integer { size = 64; align = 8; } := u64;
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = monotonic; };
        typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := time;
        stream { packet.context := struct { u64 content_size; u64 packet_size; time timestamp_begin; time timestamp_end;
            u64 events_discarded; u64 cpu_id; }; event.header := struct { time timestamp; }; };
        event { name = sched_switch; fields := struct { i64 prev_tid; i64 prev_state; i64 next_tid; }; };";
    let mut stream = Vec::new();
    for (begin, end, lost, switches) in packets {
        let bits = (48 + 32 * switches.len() as u64) * 8;
        let events = switches.iter().flat_map(|(t, prev, next)| [*t, *prev, 1, *next]);
        let words = [bits, bits, *begin, *end, *lost, 0].into_iter().chain(events);
        stream.extend(words.flat_map(u64::to_le_bytes));
    }
    put(dir, metadata.as_bytes(), &[("kernel_0", &stream)]);
}

/// Events lost in the second packet: states are in doubt until the next switch after it.
#[test]
fn losses_put_states_in_doubt() {
    let tmp = tempfile::tempdir().unwrap();
    switching(
        tmp.path(),
        &[
            (10, 100, 0, vec![(10, 0, 1), (50, 1, 2)]),
            (110, 200, 7, vec![(120, 2, 3), (180, 3, 1)]),
            (300, 400, 7, vec![(300, 1, 0), (400, 0, 1)]),
        ],
    );
    let t = tmp.path().to_str().unwrap();
    let intervals: Vec<(i64, i64, i64, bool)> = rows(&["states", t, "--format", "json"])
        .iter()
        .map(|row| {
            let int = |name: &str| row[name].as_i64().unwrap();
            (int("from_ns"), int("to_ns"), int("tid"), row["in_doubt"].as_bool().unwrap())
        })
        .collect();
    // Lost after 100 (the end of the first packet) and up to 200.
    let expected = [
        (10, 50, 1, false),
        (50, 100, 2, false),
        (100, 120, 2, true),
        (120, 180, 3, true),
        (180, 300, 1, true),
        (300, 400, 0, false),
    ];
    assert_eq!(intervals, expected);
    let doubt = |args: &[&str]| {
        let all = rows(&[&["states", t, "--format", "json", "--at"][..], args].concat());
        all.iter().find(|row| row["kind"] == "cpu").unwrap()["in_doubt"].as_bool().unwrap()
    };
    assert!(!doubt(&["60ns"]) && doubt(&["150ns"]) && doubt(&["250ns"]) && !doubt(&["350ns"]));
    let text = out(&["states", t]);
    assert!(text.lines().any(|line| line.contains("busy? ")), "{text}");
}

#[test]
fn the_states_of_a_window_are_whole_for_each_cpu_and_a_filter_chooses_rows() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("trace");
    // CPU 0 switches at 10 and at 400 only; CPU 1 every 10 ns.
    let quiet = vec![(0, 900, 0, vec![(10, 0, 5), (400, 5, 0)])];
    let busy = vec![(0, 900, 0, (1..90).map(|n| (n * 10, n % 2, (n + 1) % 2)).collect())];
    switching(&dir, &quiet);
    std::fs::rename(dir.join("kernel_0"), tmp.path().join("kernel_0")).unwrap();
    switching(&dir, &busy);
    // The packet context ends with the CPU.
    let mut bytes = std::fs::read(dir.join("kernel_0")).unwrap();
    bytes[40] = 1;
    std::fs::write(dir.join("kernel_1"), bytes).unwrap();
    std::fs::rename(tmp.path().join("kernel_0"), dir.join("kernel_0")).unwrap();
    let t = dir.to_str().unwrap();
    let states = |args: &[&str]| {
        let all = rows(&[&["states", t, "--format", "json"][..], args].concat());
        let int = |row: &Value, name: &str| row[name].as_i64().unwrap();
        all.iter()
            .map(|row| (int(row, "cpu"), int(row, "from_ns"), int(row, "to_ns"), int(row, "tid")))
            .collect::<Vec<_>>()
    };
    let window = ["--from", "195ns", "--to", "215ns"];
    let mut found = states(&window);
    found.sort_unstable();
    assert_eq!(found, [(0, 195, 215, 5), (1, 195, 200, 0), (1, 200, 210, 1), (1, 210, 215, 0)]);
    let filtered = states(&[&window[..], &["--filter", "cpu == 1 && tid > 0"]].concat());
    assert_eq!(filtered, [(1, 200, 210, 1)]);
    let o = lttv(&["states", t, "--filter", "comm == x"]);
    assert_eq!(o.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&o.stderr).contains("no `comm`; they have trace, cpu"), "{o:?}");
    // The time of a status is its own, not that of the mode.
    let threads = rows(&["states", t, "--at", "300ns", "--format", "json", "--filter", "tid == 5"]);
    let thread = threads.iter().find(|row| row["kind"] == "thread").unwrap();
    assert_eq!((&thread["status"], &thread["since_ns"]), (&Value::from("run"), &Value::from(10)));
    let idle = rows(&["states", t, "--at", "500ns", "--format", "json", "--filter", "cpu == 0"]);
    assert_eq!(idle[0]["thread_mode"], "idle");
    // A trace without events of the kernel says so, inverted windows too.
    let (user, _) = trace(&tmp.path().join("user"), 15);
    let o = lttv(&["states", &user]);
    assert_eq!(o.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&o.stderr).contains("nothing is known of what CPUs and threads did"));
    let status = |from: &str, to: &str| {
        let o = lttv(&["events", t, "--from", from, "--to", to]);
        (o.status.code(), String::from_utf8_lossy(&o.stderr).into_owned())
    };
    let (inverted, empty, outside) = (status("9ns", "5ns"), status("20ns", "20ns"), status("5s", "6s"));
    assert!(inverted.0 == Some(2) && inverted.1.contains("ends before it begins"), "{inverted:?}");
    assert!(empty.0 == Some(0) && empty.1.contains("window is empty"), "{empty:?}");
    assert!(outside.0 == Some(0) && outside.1.contains("lies outside the traces"), "{outside:?}");
}

#[test]
fn hosts_have_rows_of_their_own_and_copies_are_read_once() {
    let tmp = tempfile::tempdir().unwrap();
    let make = |name: &str, uuid: u8| {
        let dir = tmp.path().join(name);
        switching(&dir, &[(0, 900, 0, vec![(10, 0, 5), (400, 5, 0)])]);
        let metadata = std::fs::read_to_string(dir.join("metadata")).unwrap();
        let uuid = format!("trace {{ uuid = \"00112233-4455-6677-8899-aabbccddee{uuid:02x}\";");
        let metadata = metadata.replacen("trace {", &uuid, 1);
        let metadata =
            metadata.replacen("clock {", &format!("env {{ hostname = \"host-{name}\"; }}; clock {{"), 1);
        std::fs::write(dir.join("metadata"), metadata).unwrap();
        dir.to_str().unwrap().to_string()
    };
    let (a, b, copy) = (make("a", 1), make("b", 2), make("copy", 1));
    let of = |args: &[&str]| {
        let all = rows(&[&["stats", &a, &b, "--format", "json", "--any-clock"][..], args].concat());
        let threads = all.iter().filter(|row| row["kind"] == "thread");
        threads
            .map(|row| {
                (
                    row["trace"].as_u64().unwrap(),
                    row["tid"].as_i64().unwrap(),
                    row["cpu_ns"].as_i64().unwrap(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&[]), [(0, 5, 390), (1, 5, 390)]);
    let text = out(&["stats", &a, &b, "--any-clock"]);
    assert!(text.contains("5    in host-a\n") && text.contains("5    in host-b\n"), "{text}");
    let o = lttv(&["stats", &a, &copy, "--any-clock", "--format", "json"]);
    let told = String::from_utf8_lossy(&o.stderr);
    assert!(told.contains("is the same trace as") && told.contains("read once"), "{told}");
    assert!(String::from_utf8_lossy(&o.stdout).starts_with("{\"kind\":\"total\",\"events\":2,"), "{o:?}");
    // One clock moved, by the name of its host or folder.
    for name in ["host-b", "b"] {
        let shift = format!("{name}=2us");
        let all = rows(&["events", &a, &b, "--any-clock", "--clock-shift", &shift, "--format", "json"]);
        let times: Vec<i64> = all.iter().map(|row| row["ns"].as_i64().unwrap()).collect();
        assert_eq!(times, [10, 400, 2010, 2400]);
    }
    let o = lttv(&["events", &a, "--clock-shift", "nobody=5"]);
    assert_eq!(o.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&o.stderr).contains("no trace is called nobody"));
}

/// Traces that other readers take: a character constant, packets of another UUID; and a clock beyond all times.
#[test]
fn odd_traces_are_read_with_a_word() {
    let tmp = tempfile::tempdir().unwrap();
    let metadata = |attribute: &str, offset: &str| {
        format!(
            "/* CTF 1.8 */ typealias integer {{ size = 8; }} := u8;
            trace {{ major = 1; minor = 8; byte_order = le; uuid = \"00112233-4455-6677-8899-aabbccddeeff\"; {attribute}
            packet.header := struct {{ u8 uuid[16]; }}; }};
            clock {{ name = monotonic; {offset} }};
            stream {{ event.header := struct {{ integer {{ size = 64; align = 8; map = clock.monotonic.value; }} timestamp; }}; }};
            event {{ name = tick; fields := struct {{ u8 n; }}; }};"
        )
    };
    let own =
        [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
    let run = |name: &str, metadata: String, uuid: [u8; 16], args: &[&str]| {
        let dir = tmp.path().join(name);
        put(&dir, metadata.as_bytes(), &[("s", &[&uuid[..], &5u64.to_le_bytes(), &[7]].concat())]);
        let o = lttv(&[&["events", dir.to_str().unwrap()][..], args].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (o.status.code(), text(&o.stdout).lines().count(), text(&o.stderr))
    };
    let constant = run("constant", metadata("colour = '\\n';", ""), own, &[]);
    assert!(constant.0 == Some(0) && constant.1 == 1 && constant.2.contains("colour"), "{constant:?}");
    let foreign = run("foreign", metadata("", ""), [9; 16], &[]);
    assert!(
        foreign.0 == Some(0) && foreign.1 == 1 && foreign.2.contains("belongs to trace 0909"),
        "{foreign:?}"
    );
    let strict = run("foreign", metadata("", ""), [9; 16], &["--strict"]);
    assert!(strict.0 == Some(1) && strict.1 == 0, "{strict:?}");
    let late = run("late", metadata("", "offset_s = 9223372036854775807;"), own, &[]);
    assert!(late.0 == Some(1) && late.1 == 0 && late.2.contains("does not fit 64 bits of ns"), "{late:?}");
}

#[test]
fn metadata_of_many_event_classes_takes_little_memory() {
    let tmp = tempfile::tempdir().unwrap();
    let mut metadata = String::from(
        "/* CTF 1.8 */ typealias integer { size = 32; align = 8; } := u32;
        trace { major = 1; minor = 8; byte_order = le; };
        stream { event.header := struct { u32 id; }; };",
    );
    for id in 0..100_000 {
        metadata += &format!(
            "event {{ name = \"e{id}\"; id = {id}; fields := struct {{ u32 a; u32 b; string c; }}; }};\n"
        );
    }
    let bytes: Vec<u8> = [99_999u32, 1, 2].iter().flat_map(|n| n.to_le_bytes()).chain([0]).collect();
    put(tmp.path(), metadata.as_bytes(), &[("s", &bytes)]);
    let t = tmp.path().to_str().unwrap();
    assert!(out(&["events", t]).contains("e99999"));
    let peak = peak_kib(&["events", t]);
    assert!(peak < 100_000, "{peak} KiB for 100,000 event classes");
}

/// Each call of the short processes takes 1 us, each stay on the CPU 18 us.
#[test]
fn durations_are_told_by_what_they_are_of() {
    let tmp = tempfile::tempdir().unwrap();
    short_processes(tmp.path(), 100);
    let t = tmp.path().to_str().unwrap();
    let by = |what: &str, extra: &[&str]| {
        rows(&[&["stats", t, "--by", what, "--format", "json"][..], extra].concat())
    };
    let calls = by("syscall", &[]);
    assert_eq!(calls.len(), 8);
    for call in &calls {
        let int = |name: &str| call[name].as_u64().unwrap();
        assert_eq!(
            (int("count"), int("total_ns"), int("mean_ns"), int("max_ns")),
            (100, 100_000, 1000, 1000)
        );
        assert!(int("p50_ns").abs_diff(1000) <= 10 && int("p99_ns").abs_diff(1000) <= 10, "{call}");
    }
    let one = by("syscall", &["--filter", "name == *_futex"]);
    assert_eq!((one.len(), one[0]["name"].as_str()), (1, Some("futex")));
    let half: u64 = by("syscall", &["--from", "50%"]).iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert!((395..=405).contains(&half), "{half}");
    let processes = by("process", &[]);
    let of =
        |name: &str| processes.iter().filter(|row| row["name"].as_str().unwrap().ends_with(name)).count();
    assert_eq!((of(" cc1"), of(" sh")), (100, 1));
    assert_eq!(by("irq", &[]).len() + by("device", &[]).len(), 0);
    let text = out(&["stats", t, "--by", "syscall"]);
    assert!(
        text.starts_with("       count       total        mean         p50         p99         max  syscall"),
        "{text}"
    );
}

#[test]
fn times_are_typed_and_shown_as_people_write_them() {
    let tmp = tempfile::tempdir().unwrap();
    let second = 1_000_000_000;
    let start = 1_457_113_582 * second;
    let switches = (0..10).map(|n| (start + n * second, n % 2, (n + 1) % 2)).collect();
    switching(tmp.path(), &[(start, start + 10 * second, 0, switches)]);
    let t = tmp.path().to_str().unwrap();
    let count = |args: &[&str]| out(&[&["events", t][..], args].concat()).lines().count();
    assert_eq!(count(&["--from", "1457113585", "--to", "1457113588"]), 3);
    assert_eq!(count(&["--from", "17:46:25", "--to", "17:46:28", "--utc"]), 3);
    assert_eq!(count(&["--from", "2016-03-04 17:46:25Z", "--to", "2016-03-04T17:46:28Z"]), 3);
    let packets = rows(&["events", t, "--columns", "packet", "--format", "json", "-n", "1"]);
    assert_eq!(
        (&packets[0]["packet"]["cpu_id"], &packets[0]["packet"]["timestamp_begin"]),
        (&0.into(), &start.into())
    );
    let shown = out(&["events", t, "--utc", "-n", "1"]);
    assert!(shown.starts_with("2016-03-04 17:46:22.000000000 0 kernel sched_switch"), "{shown}");
}

/// Names in traces steer no terminal.
#[test]
fn hostile_names_are_shown_as_escapes() {
    let tmp = tempfile::tempdir().unwrap();
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        event { name = \"evil\x1b[2J\u{202e}\"; fields := struct { integer { size = 8; } n; }; };";
    put(tmp.path(), metadata.as_bytes(), &[("s", &[1])]);
    let t = tmp.path().to_str().unwrap();
    for args in [["events", t], ["stats", t]] {
        let text = out(&args);
        assert!(text.contains("evil\\u{1b}[2J\\u{202e}") && !text.contains(['\u{1b}', '\u{202e}']), "{text}");
        let json = out(&[args[0], t, "--format", "json"]);
        assert!(!json.contains(['\u{1b}', '\u{202e}']), "{json}");
        assert!(
            json.lines().any(|line| {
                serde_json::from_str::<Value>(line).unwrap()["name"] == "evil\u{1b}[2J\u{202e}"
            })
        );
    }
}

#[test]
fn what_is_kept_of_a_trace_without_an_index_changes_no_answer() {
    use std::os::unix::fs::MetadataExt;
    let tmp = tempfile::tempdir().unwrap();
    let w = written(21, 1200, 3);
    let dir = tmp.path().join("trace");
    put(&dir, w.tsdl.as_bytes(), &[("chan_2", &w.stream)]);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    std::fs::File::options().write(true).open(dir.join("chan_2")).unwrap().set_modified(old).unwrap();
    let before: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    let run = |extra: &[&str]| {
        let args = [&["events", dir.to_str().unwrap(), "--from", "40%", "--to", "60%"][..], extra].concat();
        let o = Command::cargo_bin("lttv")
            .unwrap()
            .args(&args)
            .env("XDG_CACHE_HOME", tmp.path().join("cache"))
            .output();
        let o = o.unwrap();
        assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
        o.stdout
    };
    let plain = run(&["--no-index"]);
    assert!(!tmp.path().join("cache").exists(), "nothing is kept when nothing is to be used");
    let first = run(&[]);
    let kept = tmp.path().join("cache/pct/ctf");
    let file = std::fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    assert_eq!(
        (kept.metadata().unwrap().mode() & 0o777, file.metadata().unwrap().mode() & 0o777),
        (0o700, 0o600)
    );
    let again = run(&[]);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let damaged = run(&[]);
    bytes[middle] ^= 1;
    assert!(std::fs::read(&file).unwrap() == bytes, "written anew");
    assert!(plain == first && first == again && again == damaged && !plain.is_empty());
    let after: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(before, after, "nothing is written beside the trace");
}

#[test]
fn states_that_an_earlier_run_kept_give_the_same_answers_without_reading_the_trace() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("trace");
    let packets: Vec<Packet> = (0..110)
        .map(|packet| {
            let first = packet * 1000;
            let switches = (first..first + 1000).map(|n| (n * 10, n % 90, (n + 1) % 90)).collect();
            (first * 10, first * 10 + 9999, 0, switches)
        })
        .collect();
    switching(&dir, &packets);
    let settle = |seconds| {
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
        let file = std::fs::File::options().write(true).open(dir.join("kernel_0")).unwrap();
        file.set_modified(old).unwrap();
    };
    settle(100);
    let cache = tmp.path().join("cache");
    let run = |extra: &[&str]| {
        let args =
            [&["states", dir.to_str().unwrap(), "--at", "70%", "--format", "json", "-v"], extra].concat();
        let o =
            Command::cargo_bin("lttv").unwrap().args(args).env("XDG_CACHE_HOME", &cache).output().unwrap();
        let told = String::from_utf8_lossy(&o.stderr).into_owned();
        assert!(o.status.success(), "{told}");
        let whole = told.contains("110001 events read") || told.contains("110000 events read");
        (o.stdout, whole, told)
    };
    let plain = run(&["--no-index"]);
    assert!(plain.1 && !cache.exists(), "{}", plain.2);
    let first = run(&[]);
    assert!(first.1, "{}", first.2);
    let kept = || {
        let all = std::fs::read_dir(cache.join("pct/ctf")).unwrap().map(|e| e.unwrap().path());
        all.filter(|path| path.extension().is_some_and(|e| e == "states")).collect::<Vec<_>>()
    };
    assert_eq!(kept().len(), 1);
    let again = run(&[]);
    assert!(!again.1, "{}", again.2);
    let mut bytes = std::fs::read(&kept()[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&kept()[0], &bytes).unwrap();
    let damaged = run(&[]);
    assert!(damaged.1 && damaged.2.contains("damaged"), "{}", damaged.2);
    assert!(!run(&[]).1, "written anew");
    settle(50);
    assert!(run(&[]).1, "the stream file is another one now");
    assert!(plain.0 == first.0 && first.0 == again.0 && again.0 == damaged.0 && !plain.0.is_empty());
}

/// The largest resident size that a run says it had.
fn peak_kib(args: &[&str]) -> u64 {
    let o = lttv(&[args, &["-v"]].concat());
    let told = String::from_utf8_lossy(&o.stderr);
    assert!(o.status.success(), "{told}");
    let peak = told.split_once("at most ").and_then(|(_, rest)| rest.split_once(" KiB")?.0.parse().ok());
    peak.unwrap_or_else(|| panic!("{told}"))
}

/// A trace of processes that are forked, make eight system calls, and exit.
fn short_processes(dir: &Path, count: u32) {
    const CALLS: [&str; 8] = ["open", "read", "write", "close", "mmap", "munmap", "futex", "brk"];
    let mut metadata = String::from(
        "/* CTF 1.8 */ typealias integer { size = 64; align = 8; signed = true; } := i64;
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = monotonic; };
        typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := time;
        stream { packet.context := struct { i64 cpu_id; }; event.header := struct { i64 id; time timestamp; }; };
        event { id = 0; name = sched_switch; fields := struct { i64 prev_tid; i64 prev_state; i64 next_tid; string next_comm; }; };
        event { id = 1; name = sched_process_fork; fields := struct { i64 parent_tid; i64 child_tid; string child_comm; }; };
        event { id = 2; name = sched_process_exit; fields := struct { i64 tid; }; };
        event { id = 3; name = sched_process_free; fields := struct { i64 tid; }; };",
    );
    for (call, name) in CALLS.iter().enumerate() {
        for (way, id) in [("entry", 10 + 2 * call), ("exit", 11 + 2 * call)] {
            metadata += &format!(
                "event {{ id = {id}; name = syscall_{way}_{name}; fields := struct {{ i64 x; }}; }};"
            );
        }
    }
    let mut stream = 0i64.to_le_bytes().to_vec();
    let mut now = 0i64;
    let mut event = |id: i64, numbers: &[i64], text: &str| {
        now += 1000;
        [id, now].iter().chain(numbers).for_each(|n| stream.extend(n.to_le_bytes()));
        if !text.is_empty() {
            stream.extend(text.bytes().chain([0]));
        }
    };
    for tid in (1000..).take(count as usize) {
        event(1, &[1, tid], "cc1");
        event(0, &[1, 0, tid], "cc1");
        for call in 0..8 {
            event(10 + 2 * call, &[0], "");
            event(11 + 2 * call, &[0], "");
        }
        event(2, &[tid], "");
        event(0, &[tid, 64, 1], "sh");
        event(3, &[tid], "");
    }
    put(dir, metadata.as_bytes(), &[("kernel_0", &stream)]);
}

#[test]
fn statistics_of_many_short_processes_take_little_memory_and_name_each() {
    let tmp = tempfile::tempdir().unwrap();
    let (few, many) = (tmp.path().join("few"), tmp.path().join("many"));
    short_processes(&few, 1_000);
    short_processes(&many, 21_000);
    let [few, many] = [&few, &many].map(|dir| peak_kib(&["stats", dir.to_str().unwrap(), "--no-index"]));
    assert!(many - few <= 2 * 20_000, "{many} KiB for 21,000 processes, {few} KiB for 1,000");
    let rows = rows(&["stats", tmp.path().join("few").to_str().unwrap(), "--format", "json"]);
    let threads = rows.iter().filter(|row| row["kind"] == "thread");
    let names: Vec<&str> = threads.map(|row| row["name"].as_str().unwrap()).collect();
    let of = |name: &str| names.iter().filter(|other| **other == name).count();
    assert_eq!((of("cc1"), of("sh"), names.len()), (1000, 1, 1001));
}
