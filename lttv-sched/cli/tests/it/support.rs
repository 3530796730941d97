//! Runs the command, and makes traces that several tests need.

use std::path::Path;
use std::process::{Command, Output};

use pct_kit::started::Killed;
use serde_json::Value;

use crate::common::{Written, put, written};

/// A process that ends with its test. No test reads or writes the cache of the user who runs it.
pub(crate) fn started(command: &mut Command) -> Killed {
    Killed(command.env("XDG_CACHE_HOME", "").env("HOME", "").spawn().unwrap())
}

pub(crate) fn lttv(args: &[&str]) -> Output {
    // Tests do not read or write the cache of the user who runs them.
    Command::new(env!("CARGO_BIN_EXE_lttv"))
        .args(args)
        .env("XDG_CACHE_HOME", "")
        .env("HOME", "")
        .output()
        .unwrap()
}

pub(crate) fn out(args: &[&str]) -> String {
    let o = lttv(args);
    assert!(o.status.success(), "{args:?}: {}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8(o.stdout).unwrap()
}

pub(crate) fn rows(args: &[&str]) -> Vec<Value> {
    out(args).lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

/// A trace of 4 packets of 30 events on disk.
pub(crate) fn trace(dir: &Path, seed: u64) -> (String, Written) {
    let w = written(seed, 4, 30);
    put(dir, w.tsdl.as_bytes(), &[("chan_2", &w.stream)]);
    (dir.to_str().unwrap().to_string(), w)
}

/// A packet of a kernel trace: begin, end, counter of lost events, switches (time, from, to).
pub(crate) type Packet = (u64, u64, u64, Vec<(u64, u64, u64)>);

/// A trace of one CPU that switches.
pub(crate) fn switching(dir: &Path, packets: &[Packet]) {
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

/// The largest resident size that a run reports.
pub(crate) fn peak_kib(args: &[&str]) -> u64 {
    let o = lttv(&[args, &["-v"]].concat());
    let told = String::from_utf8_lossy(&o.stderr);
    assert!(o.status.success(), "{told}");
    let peak = told.split_once("at most ").and_then(|(_, rest)| rest.split_once(" KiB")?.0.parse().ok());
    peak.unwrap_or_else(|| panic!("{told}"))
}

/// A trace of processes that are forked, make eight system calls, and exit.
pub(crate) fn short_processes(dir: &Path, count: u32) {
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
