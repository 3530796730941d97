//! What the timeline page costs, from the command to the pixels: `pct view --timeline` of a recording with
//! many samples and of a large kernel trace, in headless Chromium.
//!
//! `cargo bench -p pct-tests --bench timeline [-- [SAMPLES [MEGABYTES]]] [--keep DIR]` prints a table; 10,000,000
//! samples and 1,000 MB by default, 0 leaves one out. Files of about that size are made in the temporary folder and
//! removed, or made in DIR and kept: then they can be opened by hand. The passes alone, without server and browser:
//! the example `timeline_bench` of lttv-page.
//!
//! Beside the time by the clock stands the CPU time of the server, which other work on the machine does not change
//! much.
//!
//! The recording has 100 threads, 4,000 stacks and 100 seconds. The trace has 4 CPUs with 25 threads each.

use pct_format::builder::Builder;
use pct_format::layout;
use pct_format::record::Frame;
use pct_kit::browser::{Browser, chromium};
use pct_kit::kernel_trace::{Shape, write};
use pct_kit::{Dice, median, peak_kib};
use pct_tests::pct::binary;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

const THREADS: u32 = 100;
const STACKS: u64 = 4000;
const SPAN_NS: u64 = 100_000_000_000;
/// Samples of the window whose flame graph is timed.
const WINDOW_SAMPLES: u64 = 200_000;
/// Moves of the page that are timed.
const MOVES: usize = 60;

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn row(what: &str, value: impl std::fmt::Display, target: &str) {
    println!("{what:<52} {value:>12}   {target}");
}

fn row_ms(what: &str, value: f64, target: &str) {
    row(what, format!("{value:.1} ms"), target);
}

/// A recording whose functions are those of this very program.
fn recording(samples: u64) -> Vec<u8> {
    let exe = std::env::current_exe().expect("known");
    let text = exe.metadata().expect("there").len() / 4;
    let mut b = Builder::new();
    b.set_header_word(layout::header::STACK_MODE, 4);
    b.region(1, 1, 0x10_0000..0x10_0000 + 4 * text, 0, 0, b"", exe.as_os_str().as_encoded_bytes());
    let threads: Vec<u32> = (0..THREADS).map(|n| b.thread(1, 1000 + n, b"worker")).collect();
    let mut dice = Dice::new(1);
    let address = |n: u64| 0x10_0000 + text + (n * 997) % text;
    let stacks: Vec<u32> = (0..STACKS)
        .map(|n| {
            let depth = 10 + dice.below(30);
            let frames: Vec<Frame> =
                (0..depth).map(|level| Frame::Return(address(level * 40 + dice.below(3) + n % 7))).collect();
            b.stack(&frames)
        })
        .collect();
    let step = (SPAN_NS / samples).max(1);
    for (n, thread) in (0..samples).zip(threads.iter().cycle()) {
        let at = dice.below(STACKS);
        let stack = stacks[usize::try_from(at).expect("small")];
        b.sample(*thread, (n + 1) * step, address(at * 5 + dice.below(16)), 1, false, stack);
    }
    b.finish()
}

/// `pct view --timeline` of a path.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    /// What it keeps between runs is kept in `cache`.
    fn new(path: &Path, cache: &Path) -> Server {
        let mut child = Command::new(binary())
            .args(["view", "--timeline", "--no-open", "-q"])
            .arg(path)
            .env("XDG_CACHE_HOME", cache)
            .stdout(Stdio::piped())
            .spawn()
            .expect("pct can be run");
        let mut url = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut url).expect("an address");
        Server { child, url: url.trim().to_owned() }
    }

    fn address(&self, path: &str) -> String {
        self.url.replace("/deep", &format!("/{path}"))
    }

    fn get(&self, path: &str) -> String {
        let address = self.address(path);
        let rest = address.strip_prefix("http://").expect("an address");
        let (host, path) = rest.split_once('/').expect("a path");
        let mut stream = TcpStream::connect(host).expect("connects");
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("sends");
        let mut octets = Vec::new();
        stream.read_to_end(&mut octets).expect("receives");
        let text = String::from_utf8_lossy(&octets);
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        body.to_owned()
    }

    fn meta(&self) -> Value {
        serde_json::from_str(&self.get("tl/meta")).expect("JSON")
    }

    fn is_whole(&self) -> bool {
        self.meta()["traces"].as_array().is_some_and(|traces| traces.iter().all(|t| t["ready"] == true))
    }

    fn peak_mb(&self) -> u64 {
        peak_kib(&self.child.id().to_string()) / 1024
    }

    /// Memory in use at this moment.
    fn mb_now(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
        kib.unwrap_or(0_u64) / 1024
    }

    /// CPU time of the server so far, user and system, milliseconds.
    fn cpu_ms(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let ticks = stat.rsplit(')').next().unwrap_or("").split_whitespace().skip(11).take(2);
        // The kernel counts 100 ticks a second for programs, whatever it has itself.
        ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() * 10.0
    }

    fn wait_until_whole(&self) {
        while !self.is_whole() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value below which this share of the values lies.
fn percentile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(((values.len().max(1) - 1) as f64 * share) as usize).copied().unwrap_or(f64::NAN)
}

const FINAL: &str = "window.timeline&&document.documentElement.dataset.state==='final'";

/// Milliseconds until the page is final after a step.
const TIMED: &str = "(function(step){var t=performance.now();step();return new Promise(function(done){\
    (function look(){document.documentElement.dataset.state==='final'?done(performance.now()-t):requestAnimationFrame(look)})()})})";

fn moves(browser: &mut Browser) {
    let number = |browser: &mut Browser, script: &str| browser.eval(script).as_f64().unwrap_or(f64::NAN);
    let steps = |browser: &mut Browser, script: &str| {
        let times: Vec<f64> = (0..MOVES)
            .map(|i| {
                let script = script.replace("STEP", &i.to_string());
                number(browser, &format!("{TIMED}(function(){{{script}}})"))
            })
            .collect();
        (median(times.clone()), percentile(times, 0.95))
    };
    // Inside what is at hand: to and fro by a pixel.
    browser.eval("timeline.go(0,timeline.span.to,false)");
    browser.until(FINAL);
    let asked = number(browser, "timeline.count.asked");
    let frame = number(
        browser,
        "new Promise(function(done){var n=0,t=performance.now();(function step(){timeline.paint();\
         if(++n===60)done((performance.now()-t)/60);else setTimeout(step,0)})()})",
    );
    row_ms("drawing one frame", frame, "16 (one frame)");
    let (middle, most) = steps(
        browser,
        "var v=timeline.view(),by=(v.to-v.from)/2000*(STEP%2?-1:1);timeline.go(v.from+by,v.to+by,false)",
    );
    let asked = number(browser, "timeline.count.asked") - asked;
    row_ms("pan over tiles at hand, final, median", middle, "one frame");
    row_ms("  95 %", most, "");
    row("  tiles asked for", asked, "0");
    // Some zoom level in the pyramid, and some below it; each time another place.
    for (what, parts, target) in [
        ("zoom to new tiles (an eighth), final, median", 8.0, "100 (95 %)"),
        ("zoom to new tiles (a hundredth), final, median", 100.0, "100 (95 %)"),
        ("zoom below the pyramid (a 20,000th), final, median", 20_000.0, "150 (95 %)"),
    ] {
        let (middle, most) = steps(
            browser,
            &format!(
                "var all=timeline.span.to,w=all/{parts},from=((STEP*37+11)%{MOVES})/{MOVES}*(all-w);\
                 timeline.go(from,from+w,false)"
            ),
        );
        row_ms(what, middle, target);
        row_ms("  95 %", most, "");
    }
}

/// The same trace once more: what the first run has kept is there.
fn again(path: &Path, cache: &Path) {
    let kept = |ending: &str| {
        let files = std::fs::read_dir(cache.join("pct/ctf")).into_iter().flatten().flatten();
        let found = files.map(|file| file.path()).find(|path| path.extension().is_some_and(|e| e == ending));
        found.and_then(|path| path.metadata().ok()).map(|meta| meta.len() >> 20)
    };
    let size = |ending: &str| kept(ending).map_or_else(|| "none".to_owned(), |mb| format!("{mb} MB"));
    row("kept: timeline", size("timeline"), "");
    row("kept: states", size("states"), "");
    let begun = Instant::now();
    let server = Server::new(path, cache);
    row_ms("again: from the command to an address", ms(begun.elapsed()), "");
    let up = Instant::now();
    server.wait_until_whole();
    row_ms("again: whole view final, from the address on", ms(up.elapsed()), "300");
    row("again: memory of the server, most", format!("{} MB", server.peak_mb()), "200");
}

fn measure(path: &Path, cache: &Path, window: Option<u64>) {
    let begun = Instant::now();
    let server = Server::new(path, cache);
    row_ms("from the command to an address", ms(begun.elapsed()), "");
    let opened = server.cpu_ms();
    row_ms("  CPU time", opened, "");
    let up = Instant::now();
    let page = server.get("tl");
    row_ms("first picture, by HTTP", ms(up.elapsed()), "150");
    server.wait_until_whole();
    row_ms("whole view final, from the address on", ms(up.elapsed()), "pass + 100");
    row_ms("  CPU time", server.cpu_ms() - opened, "");
    let meta = server.meta();
    let events: u64 =
        meta["traces"].as_array().into_iter().flatten().filter_map(|trace| trace["events"].as_u64()).sum();
    row("samples or events", events, "");
    let script: usize =
        page.split("<script").skip(1).filter_map(|part| Some(part.split_once("</script>")?.0.len())).sum();
    row("script, octets", script, "60000");
    let origin: i64 = meta["origin"].as_str().and_then(|text| text.parse().ok()).expect("a time");
    if let Some(samples) = window {
        let width = i64::try_from(SPAN_NS * WINDOW_SAMPLES.min(samples) / samples).expect("small");
        let times: Vec<f64> = (1..12)
            .map(|n| {
                let from = origin + n * 7_000_000_000;
                let begun = Instant::now();
                let answer = server.get(&format!("tl/window?a={from}&b={}", from + width));
                assert!(answer.contains("<svg"), "a flame graph");
                ms(begun.elapsed())
            })
            .collect();
        row_ms("flame graph of a window of 200,000 samples, median", median(times.clone()), "200");
        row_ms("  most", percentile(times, 1.0), "");
    } else {
        let begun = Instant::now();
        let _ = server.get(&format!("tl/window?a={origin}&b={}&tab=stats", origin + 100_000_000));
        row_ms("statistics of 100 ms", ms(begun.elapsed()), "");
    }
    row("memory of the server, most, after the pass", format!("{} MB", server.peak_mb()), "200");
    row("memory of the server, then", format!("{} MB", server.mb_now()), "200");
    let Some(chromium) = chromium() else {
        println!("no chromium: the page itself is not measured");
        return;
    };
    let mut browser = Browser::start(&chromium);
    browser.size(1500, 1000);
    let begun = Instant::now();
    browser.open(&server.address("tl?all=1"));
    browser.until(FINAL);
    row_ms("page opened in a browser, final", ms(begun.elapsed()), "");
    row("lanes", browser.eval("timeline.rows().length"), "");
    moves(&mut browser);
    browser.call("HeapProfiler.collectGarbage", Value::Object(serde_json::Map::new()));
    let heap = browser.eval("performance.memory.usedJSHeapSize").as_f64().unwrap_or(f64::NAN) / 1e6;
    row("memory of the page's script", format!("{heap:.1} MB"), "150");
    row("memory of the server, most", format!("{} MB", server.peak_mb()), "200");
}

/// What the figures were measured on.
fn conditions() {
    let version = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let version =
        version.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    println!("commit {version}, {cpus} CPUs, load {load}, {}", binary().display());
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = words.iter().filter_map(|word| word.parse::<u64>().ok());
    let (samples, megabytes) = (numbers.next().unwrap_or(10_000_000), numbers.next().unwrap_or(1000));
    let keep =
        words.iter().position(|word| word == "--keep").and_then(|at| words.get(at + 1)).map(PathBuf::from);
    let removed = tempfile::tempdir().expect("a folder");
    let folder = keep.as_deref().unwrap_or(removed.path());
    std::fs::create_dir_all(folder).expect("made");
    conditions();
    if samples > 0 {
        let path = folder.join("samples.pct");
        std::fs::write(&path, recording(samples)).expect("written");
        let size = path.metadata().map_or(0, |meta| meta.len()) >> 20;
        println!("\n{samples} samples, {THREADS} threads, {size} MB");
        measure(&path, folder, Some(samples));
    }
    if megabytes > 0 {
        let path = folder.join("kernel");
        let shape = Shape { octets: megabytes << 20, cpus: 4, threads: 25, seed: 1 };
        let truth = write(&path, &shape).expect("written");
        println!("\nkernel trace, {} events, {megabytes} MB", truth.total());
        // What was written a moment ago may change again, so nothing of it would be kept.
        for file in std::fs::read_dir(&path).expect("a folder").flatten() {
            let file = std::fs::File::options().append(true).open(file.path()).expect("opens");
            file.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("is set");
        }
        measure(&path, folder, None);
        again(&path, folder);
    }
}
