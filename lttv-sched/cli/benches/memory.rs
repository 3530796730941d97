//! Measures how memory grows with the length of a trace.
//!
//!     cargo bench -p lttv --bench memory [-- EVENTS... | TRACE...]
//!
//! For each number of events (default 1, 4 and 16 million) a CTF trace of two CPUs is written to a temporary folder:
//! threads that switch, make system calls and are interrupted. A separate process then reads it through the engine and
//! prints its greatest resident size: when it only opens the trace, for a foreground request over all events, for a
//! background pass with states and statistics (including saved states), and for both at the same time. Arguments that
//! are folders are read as they are.
//!
//! Two things may grow: saved states, one in 50,000 events and at most 1000, and some 120 octets for each packet.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use lttv_engine::engine::Engine;
use lttv_engine::hooks::Flow;
use lttv_engine::ids::OwnerId;
use lttv_engine::request::EventsRequest;
use lttv_engine::time::Time;
use lttv_modules::{state, stats};

const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 64; align = 8; signed = true; } := i64;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 8; align = 8; } := u8;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = monotonic; };
typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := time;
stream {
    packet.context := struct { u64 content_size; u64 packet_size; time timestamp_begin; time timestamp_end; u64 cpu_id; };
    event.header := struct { u8 id; time timestamp; };
};
event { id = 0; name = sched_switch; fields := struct { i64 prev_tid; i64 prev_state; i64 next_tid; }; };
event { id = 1; name = syscall_entry_read; fields := struct { i64 fd; }; };
event { id = 2; name = syscall_exit_read; fields := struct { i64 ret; }; };
event { id = 3; name = irq_handler_entry; fields := struct { i64 irq; }; };
event { id = 4; name = irq_handler_exit; fields := struct { i64 irq; }; };
";

/// Events in a packet of about 200 KB.
const PACKET: u64 = 10_000;
const THREADS: u64 = 100;

fn write(dir: &Path, events: u64) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join("metadata"), METADATA)?;
    for cpu in 0..2u64 {
        let mut file = BufWriter::new(std::fs::File::create(dir.join(format!("kernel_{cpu}")))?);
        let (mut now, mut running) = (1000 + cpu, 0u64);
        for first in (0..events / 2).step_by(PACKET as usize) {
            let (begin, mut body) = (now, Vec::new());
            for n in first..(first + PACKET).min(events / 2) {
                let (id, fields): (u8, Vec<u64>) = match n % 5 {
                    0 => {
                        let next = 1 + cpu * THREADS + (n * 7919) % THREADS;
                        (0, vec![std::mem::replace(&mut running, next), 1, next])
                    }
                    step => (step as u8, vec![n % 64]),
                };
                body.push(id);
                body.extend(now.to_le_bytes());
                fields.iter().for_each(|field| body.extend(field.to_le_bytes()));
                now += 300 + n % 977;
            }
            let bits = (40 + body.len() as u64) * 8;
            for word in [bits, bits, begin, now - 1, cpu] {
                file.write_all(&word.to_le_bytes())?;
            }
            file.write_all(&body)?;
        }
        file.flush()?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct What {
    foreground: bool,
    background: bool,
}

/// Reads a trace. Returns the number of events read and of states saved.
fn read(dir: &Path, what: What) -> (u64, usize) {
    let mut engine = Engine::default();
    lttv_modules::register_all(&mut engine).expect("the first modules");
    let traceset = engine.traceset_new();
    let mut traces = Vec::new();
    for found in lttv_sources::open(dir, &lttv_ctf::Options::default()) {
        let trace = engine.open_source(found.expect("the trace opens").source);
        engine.traceset_add(traceset, trace).expect("both are there");
        traces.push(trace);
        if what.background {
            engine.request(trace, state::NAME, OwnerId(1)).expect("it is registered");
            engine.request(trace, stats::NAME, OwnerId(1)).expect("it is registered");
        }
    }
    if what.foreground {
        let mut seen = 0u64;
        let request = EventsRequest::new(OwnerId(1)).from_time(Time::MIN).on_event(move |_| {
            seen += 1;
            std::hint::black_box(seen);
            Flow::Go
        });
        engine.events_request(traceset, request).expect("it has a start");
    }
    let events = engine.run_until_idle();
    let saved = traces.iter().filter_map(|trace| engine.trace(*trace)?.data().saved_states(state::NAME));
    (events, saved.map(|saved| saved.states().len()).sum())
}

const WAYS: [(&str, What); 4] = [
    ("opened", What { foreground: false, background: false }),
    ("foreground", What { foreground: true, background: false }),
    ("background", What { foreground: false, background: true }),
    ("both", What { foreground: true, background: true }),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [mark, way, dir] = &args[..]
        && mark == "--one"
    {
        let way = WAYS.iter().find(|(name, _)| name == way).expect("one of the ways");
        let (events, saved) = read(Path::new(dir), way.1);
        println!(
            "{:>8.1} MB {events:>10} events read {saved:>5} states",
            pct_kit::peak_kib("self") as f64 / 1024.0
        );
        return;
    }
    let folder = std::env::temp_dir().join(format!("lttv-memory-{}", std::process::id()));
    let default = ["1000000", "4000000", "16000000"].map(String::from).to_vec();
    for arg in if args.is_empty() { default } else { args } {
        let (dir, made) = match arg.parse::<u64>() {
            Ok(events) => {
                write(&folder, events).expect("the trace is written");
                (folder.clone(), true)
            }
            Err(_) => (PathBuf::from(&arg), false),
        };
        println!("{arg}{}", if made { " events" } else { "" });
        for (way, _) in WAYS {
            let me = std::env::current_exe().expect("this program");
            let said = Command::new(me).args(["--one", way]).arg(&dir).output().expect("it runs");
            print!("  {way:<12}{}", String::from_utf8_lossy(&said.stdout));
            eprint!("{}", String::from_utf8_lossy(&said.stderr));
        }
        if made {
            std::fs::remove_dir_all(&folder).expect("it was made here");
        }
    }
}
