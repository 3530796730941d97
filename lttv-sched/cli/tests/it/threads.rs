//! The command `threads`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::common::put;
use crate::support::*;

/// Thread 5 reads a file and blocks; an interrupt wakes it; it is preempted by 6, which it then wakes by name.
fn reading(dir: &Path) {
    reading_by(dir, "reader", "/etc/x");
}

/// Like [`reading()`], with names for the thread and for the file.
pub(crate) fn reading_by(dir: &Path, thread: &str, file: &str) {
    let metadata = "/* CTF 1.8 */ typealias integer { size = 64; align = 8; signed = true; } := i64;
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = monotonic; };
        typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := time;
        stream { packet.context := struct { i64 cpu_id; }; event.header := struct { i64 id; time timestamp; }; };
        event { id = 0; name = sched_switch; fields := struct { i64 prev_tid; i64 prev_state; i64 next_tid; string next_comm; }; };
        event { id = 1; name = syscall_entry_openat; fields := struct { i64 x; string filename; }; };
        event { id = 2; name = syscall_exit_openat; fields := struct { i64 ret; }; };
        event { id = 3; name = syscall_entry_read; fields := struct { i64 fd; }; };
        event { id = 4; name = syscall_exit_read; fields := struct { i64 ret; }; };
        event { id = 5; name = irq_handler_entry; fields := struct { i64 irq; string name; }; };
        event { id = 6; name = irq_handler_exit; fields := struct { i64 irq; }; };
        event { id = 7; name = sched_waking; fields := struct { i64 tid; }; };
        event { id = 8; name = lttng_statedump_interrupt; fields := struct { i64 irq; string action; }; };";
    let mut stream = 0i64.to_le_bytes().to_vec();
    let mut event = |at: i64, id: i64, numbers: &[i64], text: Option<&str>| {
        [id, at].iter().chain(numbers).for_each(|n| stream.extend(n.to_le_bytes()));
        stream.extend(text.into_iter().flat_map(|text| text.bytes().chain([0])));
    };
    event(100, 8, &[9], Some("eth0"));
    event(1000, 0, &[0, 0, 5], Some(thread));
    event(1100, 1, &[0], Some(file));
    event(1200, 2, &[3], None);
    event(1300, 3, &[3], None);
    event(1400, 0, &[5, 1, 0], Some("swapper/0"));
    event(2000, 5, &[9], Some("eth0"));
    event(2010, 7, &[5], None);
    event(2020, 6, &[9], None);
    event(2100, 0, &[0, 0, 5], Some(thread));
    event(2200, 4, &[1], None);
    event(2300, 0, &[5, 0, 6], Some("other"));
    event(2500, 0, &[6, 1, 5], Some(thread));
    event(2600, 7, &[6], None);
    event(3000, 0, &[5, 1, 0], Some("swapper/0"));
    put(dir, metadata.as_bytes(), &[("kernel_0", &stream)]);
}

/// Begin, end, what it did, system call, file, who woke it.
type Told = (i64, i64, String, String, String, String);

fn told(row: &Value) -> Told {
    let text = |name: &str| row[name].as_str().unwrap_or("-").to_string();
    let int = |name: &str| row[name].as_i64().unwrap();
    (
        int("from_ns"),
        int("to_ns"),
        text("state") + " " + &text("mode"),
        text("call"),
        text("file"),
        text("woken_by"),
    )
}

#[test]
fn a_thread_says_what_it_waited_for_and_who_woke_it() {
    let tmp = tempfile::tempdir().unwrap();
    reading(tmp.path());
    let t = tmp.path().to_str().unwrap();
    let of = |tid: &str| {
        let all = rows(&["threads", t, "--thread", tid, "--format", "json"]);
        all.iter().map(told).collect::<Vec<_>>()
    };
    let want = |from, to, state: &str, call: &str, file: &str, woken: &str| {
        (from, to, state.to_string(), call.to_string(), file.to_string(), woken.to_string())
    };
    assert_eq!(
        of("5"),
        [
            want(1000, 1100, "running unknown", "", "", "-"),
            want(1100, 1200, "running syscall", "openat", "/etc/x", "-"),
            want(1200, 1300, "running user", "", "", "-"),
            want(1300, 1400, "running syscall", "read", "/etc/x", "-"),
            want(1400, 2010, "blocked syscall", "read", "/etc/x", "irq eth0"),
            want(2010, 2100, "waits_for_cpu syscall", "read", "/etc/x", "-"),
            want(2100, 2200, "running syscall", "read", "/etc/x", "-"),
            want(2200, 2300, "running user", "", "", "-"),
            want(2300, 2500, "waits_for_cpu user", "", "", "-"),
            want(2500, 3000, "running user", "", "", "-"),
        ]
    );
    assert_eq!(of("6")[1], want(2500, 2600, "blocked unknown", "", "", "5 reader"));
    let sums = &rows(&["threads", t, "--format", "json"])[0];
    let int = |name: &str| sums[name].as_i64().unwrap();
    assert_eq!((int("tid"), int("running_ns"), int("user_ns"), int("kernel_ns")), (5, 1100, 700, 300));
    assert_eq!((int("waits_for_cpu_ns"), int("blocked_ns")), (290, 610));
    assert_eq!(sums["blocked_in"].to_string(), r#"[{"call":"read","count":1,"file":"/etc/x","ns":610}]"#);
    // A window cuts intervals at its borders, and includes what began before it.
    let inside =
        rows(&["threads", t, "--thread", "5", "--from", "1500ns", "--to", "2050ns", "--format", "json"]);
    let inside: Vec<Told> = inside.iter().map(told).collect();
    assert_eq!((inside[0].0, inside[0].1, &*inside[0].3), (1500, 2010, "read"));
    assert_eq!((inside[1].0, inside[1].1), (2010, 2050));
    // A filter chooses rows; CSV has a head.
    let csv = out(&["threads", t, "--thread", "5", "--filter", "state == blocked", "--format", "csv"]);
    assert_eq!(
        csv,
        "trace,tid,name,from_ns,to_ns,state,mode,call,file,cpu,woken_by,in_doubt\n\
         0,5,reader,1400,2010,blocked,syscall,read,/etc/x,,irq eth0,false\n"
    );
    let text = out(&["threads", t]);
    assert!(text.contains("5  reader  (read /etc/x: 610 ns, 1 times)"), "{text}");
}

#[test]
fn threads_of_real_traces_run_as_long_as_the_statistics_say_and_do_one_thing_at_a_time() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    let kernels = [
        "bt/succeed__lttng-tracefile-rotation__kernel",
        "tc/bug446190",
        "tc/flipping-endianness",
        "tc/perf-taskset2",
    ];
    for name in kernels {
        let t = dir.join(name);
        let t = t.to_str().unwrap();
        for window in [&[][..], &["--from", "20%", "--to", "70%"]] {
            let sums = |command: &str, kind: Option<&str>, figure: &str| {
                let mut sums: BTreeMap<i64, i64> = BTreeMap::new();
                for row in rows(&[&[command, t, "--format", "json"][..], window].concat()) {
                    let ns = row[figure].as_i64().unwrap_or(0);
                    if kind.is_none_or(|kind| row["kind"] == kind) && row["tid"] != 0 && ns > 0 {
                        *sums.entry(row["tid"].as_i64().unwrap()).or_default() += ns;
                    }
                }
                sums
            };
            let running = sums("threads", None, "running_ns");
            assert!(running.len() >= 5, "{name}: {running:?}");
            assert_eq!(running, sums("stats", Some("thread"), "cpu_ns"), "{name} {window:?}");
        }
        // The busiest thread: one interval begins where the one before ends.
        let busiest = rows(&["threads", t, "--format", "json"])[0].clone();
        let tid = busiest["tid"].to_string();
        let all = rows(&["threads", t, "--thread", &tid, "--format", "json"]);
        assert!(all.len() > 10, "{name}");
        for pair in all.windows(2) {
            assert_eq!(pair[0]["to_ns"], pair[1]["from_ns"], "{name}: {pair:?}");
            assert_ne!(
                told(&pair[0]).2 + &told(&pair[0]).3 + &told(&pair[0]).4 + &pair[0]["cpu"].to_string(),
                told(&pair[1]).2 + &told(&pair[1]).3 + &told(&pair[1]).4 + &pair[1]["cpu"].to_string(),
                "{name}"
            );
        }
    }
    let ust = lttv(&["threads", dir.join("ust/ust-small").to_str().unwrap()]);
    assert_eq!(ust.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ust.stderr).contains("nor samples of threads"));
}

#[test]
fn threads_of_a_recording_run_where_their_samples_are() {
    let tmp = tempfile::tempdir().unwrap();
    let log = tmp.path().join("run.pct");
    let period = 1_000_000_000 / 997;
    let mut b = pct_format::builder::Builder::new();
    let main = b.thread(1_000, 70, b"main");
    let idle = b.thread(2_000, 71, b"idle");
    // Two samples a period apart, one of the system, then a long gap.
    for (at, system) in [(10, false), (11, false), (12, true), (40, false)] {
        b.sample(main, at * period, 0x4000, 1, system, 0);
    }
    b.sample(idle, 50 * period, 0x4000, 1, false, 0);
    std::fs::write(&log, b.finish()).unwrap();
    let t = log.to_str().unwrap();
    let at = |ns: u64| i64::try_from(1_000_000_000 + ns).unwrap();
    let of = |tid: &str, extra: &[&str]| {
        let all = rows(&[&["threads", t, "--thread", tid, "--format", "json"][..], extra].concat());
        all.iter().map(told).map(|told| (told.0, told.1, told.2)).collect::<Vec<_>>()
    };
    let want = |from: u64, to: u64, state: &str| (at(from), at(to), state.to_string());
    assert_eq!(
        of("70", &[]),
        [
            want(1_000, 9 * period, "off_cpu "),
            want(9 * period, 11 * period, "running user"),
            want(11 * period, 12 * period, "running syscall"),
            want(12 * period, 39 * period, "off_cpu "),
            want(39 * period, 40 * period, "running user"),
            want(40 * period, 50 * period, "off_cpu "),
        ]
    );
    // A thread without an event in the window is listed anyway.
    let window = ["--from", "+20ms", "--to", "+30ms"];
    assert_eq!(of("71", &window), [(at(20_000_000 + 1_000), at(30_000_000 + 1_000), "off_cpu ".to_string())]);
    let sums = rows(&["threads", t, "--format", "json"]);
    let running: Vec<u64> = sums.iter().map(|row| row["running_ns"].as_u64().unwrap()).collect();
    assert_eq!(running, [4 * period, period]);
    // `states` shows the same. A recording has threads but no CPUs.
    let now = rows(&["states", t, "--at", "+10.5ms", "--format", "json"]);
    let now: Vec<(i64, &str)> =
        now.iter().map(|row| (row["tid"].as_i64().unwrap(), row["state"].as_str().unwrap())).collect();
    assert_eq!(now, [(70, "running"), (71, "off_cpu")]);
    assert_eq!(rows(&["states", t, "--at", "100%", "--format", "json"]).len(), 2);
}

#[test]
fn a_trace_without_system_calls_says_so_once_and_names_no_unknown_ones() {
    let tmp = tempfile::tempdir().unwrap();
    let silent = tmp.path().join("silent");
    switching(&silent, &[(0, 1000, 0, vec![(100, 0, 5), (300, 5, 6), (500, 6, 5), (700, 5, 0)])]);
    let run = lttv(&["threads", silent.to_str().unwrap()]);
    let (shown, told) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(shown.contains("blocked") && !shown.contains("blocked longest in"), "{shown}");
    assert!(!shown.contains('('), "nothing is known, nothing is said: {shown}");
    assert_eq!(told.matches("the trace has no events of system calls").count(), 1, "{told}");
    let each = out(&["threads", silent.to_str().unwrap(), "--thread", "5"]);
    assert!(each.contains("blocked\n") && !each.contains("unknown)"), "{each}");
    // A trace with such events says where threads were blocked, and there is no warning.
    let reads = tmp.path().join("reads");
    reading(&reads);
    let run = lttv(&["threads", reads.to_str().unwrap()]);
    let (shown, told) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(shown.contains("(blocked longest in)") && shown.contains("(read /etc/x: "), "{shown}");
    assert_eq!(told, "");
}

/// Follows the names of threads event by event: from each event on, the name is the one that it gives.
#[derive(Default)]
struct Names(BTreeMap<i64, String>);

impl Names {
    fn read(&mut self, event: &Value) {
        let fields = &event["fields"];
        let number = |names: [&str; 2]| names.iter().find_map(|name| fields[name].as_i64());
        let text = |name: &str| fields[name].as_str().unwrap_or_default().to_string();
        let mut says = |tid: Option<i64>, name: String| {
            if let (Some(tid), false) = (tid, name.is_empty()) {
                self.0.insert(tid, name);
            }
        };
        // perf adds the name of the subsystem to its events.
        match event["name"].as_str().unwrap().rsplit(':').next().unwrap() {
            "sched_switch" => {
                says(number(["prev_tid", "prev_pid"]), text("prev_comm"));
                says(number(["next_tid", "next_pid"]), text("next_comm"));
            }
            "sched_process_fork" => says(number(["child_tid", "child_pid"]), text("child_comm")),
            "sched_process_exec" => {
                let path = text("filename");
                let file = path.rsplit('/').next().unwrap();
                // The kernel keeps 15 octets of it.
                says(number(["tid", "pid"]), file[..file.len().min(15)].to_string());
            }
            "sched_wakeup" | "sched_wakeup_new" | "sched_waking" | "sched_process_exit" => {
                says(number(["tid", "pid"]), text("comm"));
            }
            "task_rename" => says(number(["tid", "pid"]), text("newcomm")),
            "lttng_statedump_process_state" => says(number(["tid", "tid"]), text("name")),
            _ => {}
        }
    }
}

#[test]
fn threads_of_real_traces_have_the_names_that_events_gave_them_last() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    for (name, threads) in [
        ("bt/succeed__lttng-tracefile-rotation__kernel", 180),
        ("tc/bug446190", 206),
        ("tc/flipping-endianness", 76),
        ("tc/perf-taskset2", 8),
    ] {
        let trace = dir.join(name);
        let trace = trace.to_str().unwrap();
        let events = rows(&["events", trace, "--format", "json"]);
        let at: Vec<i64> =
            (1..=8).map(|part| events[part * (events.len() - 1) / 8]["ns"].as_i64().unwrap()).collect();
        let mut names = Names::default();
        let mut next = events.iter().peekable();
        for time in at {
            while let Some(event) = next.next_if(|event| event["ns"].as_i64().unwrap() < time) {
                names.read(event);
            }
            let states = rows(&["states", trace, "--at", &format!("{time}ns"), "--format", "json"]);
            for row in states.iter().filter(|row| row["kind"] == "thread" && row["tid"] != 0) {
                let tid = row["tid"].as_i64().unwrap();
                let told = names.0.get(&tid).map_or("", String::as_str);
                assert_eq!(row["name"], told, "{name}: thread {tid} at {time}");
            }
        }
        next.for_each(|event| names.read(event));
        let mut shown = 0;
        for row in rows(&["threads", trace, "--format", "json"]) {
            // A thread that ended may have left its number to another one. The last row has the last name.
            let tid = row["tid"].as_i64().unwrap();
            assert_eq!(row["name"], names.0[&tid].as_str(), "{name}: thread {tid}");
            shown += 1;
        }
        assert_eq!(shown, threads, "{name}");
    }
}
