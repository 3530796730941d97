//! The command `stats`.

use serde_json::Value;

use crate::support::*;

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
    // The intervals of a CPU follow each other without a gap.
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
    // One clock is shifted, selected by the name of its host or folder.
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

/// Each call of the short processes takes 1 us, each time on the CPU 18 us.
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

/// The stdout and stderr of a command that succeeds.
fn said(args: &[&str]) -> (String, String) {
    let run = lttv(args);
    let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap();
    let (shown, told) = (text(run.stdout), text(run.stderr));
    assert!(run.status.success(), "{args:?}: {told}");
    (shown, told)
}

#[test]
fn a_table_without_rows_has_no_head_and_says_why_it_is_empty() {
    let tmp = tempfile::tempdir().unwrap();
    let calls = tmp.path().join("calls");
    short_processes(&calls, 3);
    let calls = calls.to_str().unwrap();
    let switches = tmp.path().join("switches");
    switching(&switches, &[(0, 1000, 0, vec![(100, 0, 5), (500, 5, 0)])]);
    let switches = switches.to_str().unwrap();
    for (args, why) in [
        // The trace does not have such events.
        (vec!["stats", calls, "--by", "device"], "block_rq_complete), and the trace has no such events"),
        (vec!["stats", calls, "--by", "irq"], "and the trace has no such events"),
        (vec!["stats", switches, "--by", "syscall"], "syscall_exit_*), and the trace has no such events"),
        (vec!["stats", switches, "--by", "file"], "and the trace has no such events"),
        (vec!["stats", switches, calls, "--by", "irq", "--any-clock"], "and the traces have no such events"),
        // It does, but not in the window.
        (
            vec!["stats", calls, "--by", "syscall", "--from", "+900s"],
            "the window has no syscall whose begin and end",
        ),
        (vec!["stats", calls, "--by", "syscall", "--filter", "name == none"], "that passes the filter"),
        (vec!["stats", calls, "--filter", "name == none"], "the trace has no event that passes the filter"),
        (vec!["stats", calls, "--from", "+900s"], "the window has no event"),
        (vec!["events", calls, "--filter", "name == none"], "the trace has no event that passes the filter"),
        (
            vec!["threads", calls, "--filter", "name == none"],
            "the trace has no thread that passes the filter",
        ),
        (vec!["threads", calls, "--thread", "4711"], "the trace has no state of these threads"),
        (
            vec!["states", calls, "--filter", "cpu == 7"],
            "the trace has no state of a CPU that passes the filter",
        ),
        (
            vec!["states", calls, "--at", "50%", "--filter", "tid == 4711"],
            "no CPU or thread that passes the filter",
        ),
    ] {
        let (shown, told) = said(&args);
        assert!(told.contains("nothing to show: ") && told.contains(why), "{args:?}: {told}");
        // Only sentences about the whole remain, such as "0 events".
        for head in ["count  ", "event\n", "thread\n", "CPU  mode", "status", "tid  "] {
            assert!(!shown.contains(head), "{args:?} has the head of a table: {shown}");
        }
    }
    // Tables with rows have their heads and no warning.
    for args in [vec!["stats", calls], vec!["threads", calls], vec!["states", calls, "--at", "50%"]] {
        let (shown, told) = said(&args);
        assert!(!told.contains("nothing to show") && shown.contains("  tid"), "{args:?}: {shown} {told}");
    }
    // So does the list of packets.
    let (packets, _) = said(&["info", switches, "--packets", "--from", "+900s"]);
    assert!(!packets.contains("packets of"), "{packets}");
}
