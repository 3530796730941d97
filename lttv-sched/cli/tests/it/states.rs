//! The command `states`.

use serde_json::Value;

use crate::support::*;

/// The thread on a CPU is the one that the last switch went to, in whichever way the window was reached.
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
            // Right after a switch: what ran before it no longer runs.
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

/// Events lost in the second packet put states in doubt until the next switch after it.
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
    // The time of a status is its own, and not that of the mode.
    let threads = rows(&["states", t, "--at", "300ns", "--format", "json", "--filter", "tid == 5"]);
    let thread = threads.iter().find(|row| row["kind"] == "thread").unwrap();
    assert_eq!((&thread["status"], &thread["since_ns"]), (&Value::from("run"), &Value::from(10)));
    let idle = rows(&["states", t, "--at", "500ns", "--format", "json", "--filter", "cpu == 0"]);
    assert_eq!(idle[0]["thread_mode"], "idle");
    // A trace without kernel events is refused with a message, and so is an inverted window.
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
