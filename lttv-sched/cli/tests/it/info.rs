//! The command `info`.

use serde_json::Value;

use crate::common::{put, written};
use crate::support::*;

#[test]
fn losses_of_real_traces_are_those_that_babeltrace2_tells() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    let manifest: Value = serde_json::from_slice(&std::fs::read(dir.join("MANIFEST.json")).unwrap()).unwrap();
    let mut judged = 0;
    for entry in manifest["traces"].as_array().unwrap() {
        let (name, reader) = (entry["name"].as_str().unwrap(), &entry["reader"]);
        if reader["exit"] != 0 {
            continue;
        }
        let info = rows(&["info", dir.join(name).to_str().unwrap(), "--format", "json"]);
        for (figure, what) in [("discarded_events", "events"), ("discarded_packets", "packets")] {
            let Some(want) = reader[figure].as_u64() else { continue };
            let of = info.iter().filter(|row| row["kind"] == "loss" && row["what"] == what);
            let found: u64 = of.filter_map(|row| row["count"].as_u64()).sum();
            assert_eq!(found, want, "{name}: {what}");
            judged += usize::from(want > 0);
        }
    }
    assert!(judged >= 4, "{judged} traces that lost something");
}

#[test]
fn a_trace_shows_its_clock_streams_packets_and_their_contexts() {
    let tmp = tempfile::tempdir().unwrap();
    let w = written(5, 4, 30);
    put(tmp.path(), w.tsdl.as_bytes(), &[("chan_2", &w.stream)]);
    let t = tmp.path().to_str().unwrap();
    let info = |args: &[&str]| rows(&[&["info", t, "--format", "json"][..], args].concat());
    let of =
        |all: &[Value], kind: &str| all.iter().filter(|row| row["kind"] == kind).cloned().collect::<Vec<_>>();
    let all = info(&["--packets"]);
    let (clock, stream, packets) = (of(&all, "clock"), of(&all, "stream"), of(&all, "packet"));
    assert!(clock[0]["frequency"].as_u64().unwrap() > 0, "{clock:?}");
    assert_eq!((&stream[0]["channel"], &stream[0]["packets"]), (&Value::from("chan"), &Value::from(4)));
    assert_eq!(stream[0]["bytes"].as_u64().unwrap(), w.stream.len() as u64);
    assert_eq!(packets.len(), 4);
    // The event list and the packet list say the same about packets.
    let events = rows(&["events", t, "--columns", "packet", "--format", "json"]);
    for packet in &packets {
        assert!(packet["context"].as_object().unwrap().len() > 3, "{packet}");
        assert!(events.iter().any(|event| event["packet"] == packet["context"]), "{packet}");
    }
    // A window leaves out packets, but does not change the streams.
    let begin = packets[2]["begin_ns"].as_i64().unwrap();
    let late = info(&["--packets", "--from", &format!("{begin}ns")]);
    assert!((2..4).contains(&of(&late, "packet").len()));
    assert_eq!(of(&late, "stream"), stream);
    assert_eq!(lttv(&["info", t, "--filter", "cpu == 1"]).status.code(), Some(2));
}
