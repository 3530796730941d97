//! What questions to a root of many hosts cost: a generator of such roots, and a table of times.
//!
//!     cargo bench -p pct-fleet --bench fleet                         # 100 hosts, 4 hours, a minute or two
//!     cargo bench -p pct-fleet --bench fleet -- 1000 24 [--keep DIR] # a day of 1,000 hosts: some 300 M rows
//!
//! The model: ten services; a host runs one of them, at 19 samples a second on half to three quarters of a
//! core. A service has 3,000 stacks with the weights of Zipf's law (exponent 1.2). Half of the hosts change
//! from version 1.41.0 to 1.42.0 in the middle of the time.
//!
//! Each question is asked three times in processes of their own, with the files in the page cache; the median
//! is printed, and the largest resident set. Beside it DuckDB's time for the same question, where Python has
//! the module: its process with its start, and with the SQL text that `pct-fleet sql` prints. The sum of all
//! values is compared with what the generator wrote.
//!
//! Behind it: what it costs to merge an hour in which each host has a file of its own.

use pct_fleet::columns::Writer;
use pct_fleet::ids::{CodePlace, Kind, STACK_ID, stack_id};
use pct_fleet::root;
use pct_fleet::tables::{Build, Host, Location, Sample, Stack};
use pct_kit::{Cpu, Dice, median};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// 20 November 2026, midnight UTC, in microseconds.
const DAY: i64 = 1_795_132_800_000_000;
const MINUTE: i64 = 60_000_000;
const SERVICES: usize = 10;
const STACKS: usize = 3000;
const VERSIONS: [&str; 2] = ["1.41.0", "1.42.0"];
/// Samples of a host in a minute, at least and at most.
const SAMPLES: (u64, u64) = (580, 880);
/// Nanoseconds that a sample at 19 Hz stands for.
const SAMPLE_NS: i64 = 1_000_000_000 / 19;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let number =
        |at: usize, usual: usize| arguments.get(at).and_then(|word| word.parse().ok()).unwrap_or(usual);
    let (hosts, hours) = (number(0, 100), number(1, 4).min(24));
    let kept = arguments.iter().position(|word| word == "--keep").and_then(|at| arguments.get(at + 1));
    let scratch = tempfile::tempdir().expect("a folder");
    let root = kept.map_or_else(|| scratch.path().join("root"), PathBuf::from);
    if !root.join("samples").exists() {
        generate(&root, hosts, hours);
    }
    let (files, octets) = size(&root.join("samples"));
    println!("{hosts} hosts, {hours} h: {files} files of samples, {:.1} MB", octets as f64 / 1e6);
    questions(&root, hours);
    compaction(hosts, hours);
}

/// A stack's number in its service and its id, of a version.
type Ranked = (usize, [u8; STACK_ID]);

struct Service {
    name: String,
    /// By version: in the order of ids.
    stacks: [Vec<Ranked>; 2],
    /// By version: the place in `stacks` of a rank.
    places: [Vec<usize>; 2],
}

fn build_id(service: usize, version: usize) -> Vec<u8> {
    let octet = |at: usize| u8::try_from((service * 37 + version * 11 + at * 7) % 251).expect("below 251");
    (0..20).map(octet).collect()
}

/// Frames of a stack, innermost first: the same functions in both versions, at other places.
fn frames(service: usize, version: usize, rank: usize) -> Vec<CodePlace> {
    let mut dice = Dice::new((service * STACKS + rank) as u64 + 1);
    let depth = 8 + dice.index(29);
    let frame = |at: usize, dice: &mut Dice| {
        // Outer functions are few, inner ones many.
        let function = dice.index(20 * (depth - at) + 10);
        CodePlace {
            build_id: build_id(service, version),
            addr: i64::try_from(function * 256 + dice.index(4) * 16 + version * 64).expect("small"),
            kind: Kind::Native,
        }
    };
    (0..depth).map(|at| frame(at, &mut dice)).collect()
}

fn save<T: pct_fleet::columns::Table>(path: &Path, parts: impl IntoIterator<Item = Vec<T>>) {
    root::make_folder(path.parent().expect("a folder")).expect("a folder");
    let mut writer = Writer::new(File::create(path).expect("a file"), &[]).expect("a writer");
    for rows in parts {
        writer.add(&rows).expect("written");
    }
    writer.finish().expect("a footer");
}

/// What all hosts run.
struct Model {
    services: Vec<Service>,
    /// Sums of the weights of stacks up to each rank.
    cumulated: Vec<f64>,
    stacks: Vec<Stack>,
    locations: Vec<Location>,
    builds: Vec<Build>,
}

impl Model {
    fn new() -> Self {
        let mut services: Vec<Service> = Vec::new();
        let (mut stacks, mut locations, mut builds) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..SERVICES {
            let mut service = Service {
                name: format!("svc{number}"),
                stacks: Default::default(),
                places: Default::default(),
            };
            for version in 0..VERSIONS.len() {
                let mut ranked: Vec<Ranked> = Vec::new();
                for rank in 0..STACKS {
                    let frames = frames(number, version, rank);
                    let id = stack_id(&frames);
                    locations.extend(frames.iter().map(|frame| Location {
                        build_id: frame.build_id.clone(),
                        addr: frame.addr,
                        depth: 0,
                        function: format!("svc{number}::function_{}", frame.addr / 256),
                        object: service.name.clone(),
                        file: String::new(),
                        line: 0,
                    }));
                    stacks.push(Stack { stack_id: id, frames, first_seen: DAY });
                    ranked.push((rank, id));
                }
                ranked.sort_by_key(|(_, id)| *id);
                service.places[version] = vec![0; STACKS];
                for (place, (rank, _)) in ranked.iter().enumerate() {
                    service.places[version][*rank] = place;
                }
                service.stacks[version] = ranked;
                builds.push(Build {
                    build_id: build_id(number, version),
                    name: service.name.clone(),
                    arch: "x86_64".to_owned(),
                    size: 1_000_000,
                    first_seen: DAY,
                    symbols: "table".to_owned(),
                });
            }
            services.push(service);
        }
        stacks.sort();
        stacks.dedup_by(|a, b| a.stack_id == b.stack_id);
        locations.sort();
        locations.dedup();
        builds.sort();
        let mut cumulated: Vec<f64> = Vec::new();
        for rank in 0..STACKS {
            let weight = ((rank + 1) as f64).powf(-1.2);
            cumulated.push(cumulated.last().copied().unwrap_or(0.0) + weight);
        }
        Self { services, cumulated, stacks, locations, builds }
    }
}

fn generate(root: &Path, hosts: usize, hours: usize) {
    let begun = Instant::now();
    let Model { services, cumulated, stacks, locations, builds } = Model::new();
    let whose = |host: usize| Host {
        host: host_name(host),
        service: services[host % SERVICES].name.clone(),
        clock: "thread".to_owned(),
        hz_asked: 19,
        hz: 19,
        first_seen: DAY,
        pct: "0".to_owned(),
    };
    let mut rows: Vec<Host> = (0..hosts).map(whose).collect();
    rows.sort();
    save(&root.join("hosts/date=2026-11-20/part-all.parquet"), [rows]);
    save(&root.join("stacks/date=2026-11-20/part-all.parquet"), [stacks]);
    save(&root.join("locations/part-all.parquet"), [locations]);
    save(&root.join("builds/part-all.parquet"), [builds]);
    let (next, count, sum) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicI64::new(0));
    let work = || {
        loop {
            let hour = next.fetch_add(1, Relaxed);
            if hour >= hours {
                return;
            }
            let path = root.join(format!("samples/date=2026-11-20/hour={hour}/part-all.parquet"));
            let parts = services.iter().enumerate().map(|(number, service)| {
                let rows = hour_of(service, number, hosts, hour, hours, &cumulated);
                count.fetch_add(rows.len() as u64, Relaxed);
                sum.fetch_add(rows.iter().map(|row| row.value).sum::<i64>(), Relaxed);
                rows
            });
            save(&path, parts);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let (count, sum) = (count.into_inner(), sum.into_inner());
    File::create(root.join("sum")).and_then(|mut file| write!(file, "{sum}")).expect("written");
    println!("generated {count} rows in {:.0} s", begun.elapsed().as_secs_f64());
}

fn host_name(host: usize) -> String {
    format!("host-{host:04}")
}

/// Merges an hour's files, one of each host.
fn compaction(hosts: usize, hours: usize) {
    let scratch = tempfile::tempdir().expect("a folder");
    let Model { services, cumulated, .. } = Model::new();
    let mut rows = 0;
    for (number, service) in services.iter().enumerate() {
        let mut of_hosts: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
        for row in hour_of(service, number, hosts, hours / 2, hours, &cumulated) {
            of_hosts.entry(row.host.clone()).or_default().push(row);
        }
        for (host, of_host) in of_hosts {
            rows += of_host.len();
            let file = format!("samples/date=2026-11-20/hour=0/part-{host}-0.parquet");
            save(&scratch.path().join(file), [of_host]);
        }
    }
    let (_, before) = size(scratch.path());
    let begun = Cpu::children().total();
    let (_, seconds, peak) = timed(pct_fleet(&["compact", scratch.path().to_str().expect("UTF-8")]), "");
    let cpu = Cpu::children().total() - begun;
    let (files, after) = size(&scratch.path().join("samples"));
    println!(
        "compact: {rows} rows of {hosts} files ({:.1} MB) to {files} ({:.1} MB): {seconds:.2} s, {cpu:.2} CPU s, \
         {:.2} M rows a CPU s, {peak} MiB",
        before as f64 / 1e6,
        after as f64 / 1e6,
        rows as f64 / 1e6 / cpu
    );
}

/// A service's rows of an hour, in the table's order.
fn hour_of(
    service: &Service,
    number: usize,
    hosts: usize,
    hour: usize,
    hours: usize,
    cumulated: &[f64],
) -> Vec<Sample> {
    let all = cumulated.last().copied().unwrap_or(1.0);
    // Version, place of the stack, host, minute.
    let mut drawn: Vec<(usize, usize, usize, i64)> = Vec::new();
    for host in (number..hosts).step_by(SERVICES) {
        let is_new = hour >= hours / 2 && (host / SERVICES) % 2 == 1;
        let version = usize::from(is_new);
        let mut dice = Dice::new((hour * hosts + host) as u64 + 1);
        for minute in 0..60 {
            for _ in 0..SAMPLES.0 + dice.below(SAMPLES.1 - SAMPLES.0) {
                let at = dice.below(1 << 53) as f64 / (1u64 << 53) as f64 * all;
                let rank = cumulated.partition_point(|&below| below < at).min(STACKS - 1);
                drawn.push((version, service.places[version][rank], host, minute));
            }
        }
    }
    drawn.sort_unstable();
    let begin = DAY + i64::try_from(hour).expect("small") * 60 * MINUTE;
    let mut rows = Vec::new();
    for same in drawn.chunk_by(|a, b| a == b) {
        let (version, place, host, minute) = same[0];
        let samples = i32::try_from(same.len()).expect("few");
        rows.push(Sample {
            service: service.name.clone(),
            version: VERSIONS[version].to_owned(),
            stack_id: service.stacks[version][place].1,
            host: host_name(host),
            ts: begin + minute * MINUTE,
            thread: "worker-#".to_owned(),
            kind: "cpu".to_owned(),
            env: "prod".to_owned(),
            samples,
            value: i64::from(samples) * SAMPLE_NS,
            lost: 0,
        });
    }
    rows
}

fn size(folder: &Path) -> (u64, u64) {
    let mut sum = (0, 0);
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let more = if entry.path().is_dir() {
            size(&entry.path())
        } else {
            (1, entry.metadata().expect("a file").len())
        };
        sum = (sum.0 + more.0, sum.1 + more.1);
    }
    sum
}

/// Runs a command: what it printed, seconds, and its largest resident set in MiB.
fn timed(mut command: Command, input: &str) -> (String, f64, u64) {
    let begun = Instant::now();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().expect("it starts");
    let id = child.id();
    let peak = std::thread::spawn(move || {
        let mut most = 0;
        loop {
            match std::fs::read_to_string(format!("/proc/{id}/status")) {
                Ok(text) if text.contains("VmHWM") => {
                    most = most.max(pct_kit::peak_kib(&id.to_string()));
                }
                _ => return most,
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    let seconds = begun.elapsed().as_secs_f64();
    assert!(output.status.success(), "{output:?}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), seconds, peak.join().unwrap_or(0) / 1024)
}

fn pct_fleet(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pct-fleet"));
    command.args(words);
    command
}

const DUCKDB: &str = "import duckdb, sys
rows = duckdb.sql(sys.stdin.read()).fetchall()
print(len(rows))";

fn questions(root: &Path, hours: usize) {
    let path = root.to_str().expect("UTF-8");
    let hour = format!("2026-11-20T{:02}:00", hours / 2);
    let next = if hours / 2 + 1 < 24 { format!("2026-11-20T{:02}:00", hours / 2 + 1) } else { hour.clone() };
    let minutes = format!("2026-11-20T{:02}:20", hours / 2);
    let all_hours = format!("{hours} h");
    let svg = root.join("flame.svg");
    let svg = svg.to_str().expect("UTF-8");
    let one = ["--service", "svc3"];
    let window = ["--from", &hour, "--to", &next];
    let sql = |question: &[&str], rest: &[&[&str]]| -> Vec<String> {
        let mut words = vec!["sql"];
        words.extend(question);
        words.extend(["--engine", "duckdb", "--root", path]);
        words.extend(rest.concat());
        words.iter().map(|&word| word.to_owned()).collect()
    };
    let own = |question: &[&str], rest: &[&[&str]]| -> Vec<String> {
        let mut words = question.to_vec();
        words.push(path);
        words.extend(rest.concat());
        words.iter().map(|&word| word.to_owned()).collect()
    };
    let flame_out: &[&str] = &["-o", svg];
    let rows = [
        ("top, one service, 1 h", own(&["top"], &[&one, &window]), sql(&["top"], &[&one, &window])),
        (
            "top by host, one service, 1 h",
            own(&["top"], &[&one, &window, &["--by", "host"]]),
            sql(&["top", "--by", "host"], &[&one, &window]),
        ),
        ("top, one service, all hours", own(&["top"], &[&one]), sql(&["top"], &[&one])),
        (
            "top by service and version, all",
            own(&["top"], &[&["--by", "service,version"]]),
            sql(&["top", "--by", "service,version"], &[]),
        ),
        (
            "diff of two versions, all hours",
            own(&["diff", VERSIONS[0], VERSIONS[1]], &[&one]),
            sql(&["diff", VERSIONS[0], VERSIONS[1]], &[&one]),
        ),
        (
            "flame graph, one service, 20 min",
            own(&["flame"], &[&one, &["--from", &hour, "--to", &minutes], flame_out]),
            sql(&["flame"], &[&one, &["--from", &hour, "--to", &minutes]]),
        ),
        (
            "flame graph, one service, all hours",
            own(&["flame"], &[&one, flame_out]),
            sql(&["flame"], &[&one]),
        ),
    ];
    let python = std::env::var("PCT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_duckdb = Command::new(&python)
        .args(["-c", "import duckdb"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !has_duckdb {
        println!("{python} has no module duckdb (PCT_PYTHON names another one): its column is empty");
    }
    println!(
        "{:38} {:>10} {:>9} {:>10} {:>9}",
        format!("question (all: {all_hours})"),
        "pct-fleet",
        "MiB",
        "DuckDB",
        "MiB"
    );
    for (name, own, sql) in rows {
        let (mut here, mut there, mut most, mut peer_most) = (Vec::new(), Vec::new(), 0, 0);
        for _ in 0..3 {
            let (_, seconds, peak) =
                timed(pct_fleet(&own.iter().map(String::as_str).collect::<Vec<_>>()), "");
            here.push(seconds);
            most = most.max(peak);
            if has_duckdb {
                let (text, ..) = timed(pct_fleet(&sql.iter().map(String::as_str).collect::<Vec<_>>()), "");
                let mut command = Command::new(&python);
                command.args(["-c", DUCKDB]);
                let (_, seconds, peak) = timed(command, &text);
                there.push(seconds);
                peer_most = peer_most.max(peak);
            }
        }
        let peer = if there.is_empty() { "-".to_owned() } else { format!("{:.2} s", median(there)) };
        println!("{name:38} {:>8.2} s {most:>9} {peer:>10} {peer_most:>9}", median(here));
    }
    let (json, ..) = timed(pct_fleet(&["top", path, "--format", "json", "-n", "1"]), "");
    let told: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let written = std::fs::read_to_string(root.join("sum")).expect("the generator's sum");
    println!("sum of all rows: generated {written} ns; top says {} s", told["total"]["cpu_seconds"]);
}
