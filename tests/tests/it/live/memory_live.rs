//! A program that allocates by command, watched while it runs: `pct top --alloc`, and the page of `pct report --alloc
//! --html`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pct_kit::browser::{Browser, chromium};
use pct_kit::terminal::Terminal;
use pct_tests::pct::binary;
use pct_tests::victims::victim;

/// `heaps` under `pct run --alloc`.
struct Heaps {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    dir: PathBuf,
    _keep: tempfile::TempDir,
}

/// Octets that are live in leak() and cache(), and that churn() has allocated.
#[derive(Clone, Copy, Debug)]
struct Truth {
    leak: f64,
    cache: f64,
    churn: f64,
}

impl Heaps {
    fn start() -> Heaps {
        let keep = tempfile::tempdir().expect("a folder");
        let dir = keep.path().join("recording");
        let mut command = Command::new(binary());
        command
            .args(["run", "--alloc=4K", "--no-report", "--out"])
            .arg(&dir)
            .arg("--")
            .arg(victim("heaps.c"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let from = BufReader::new(child.stdout.take().expect("piped"));
        Heaps { to: child.stdin.take(), child, from, dir, _keep: keep }
    }

    /// Lets it do something, and waits until it is done.
    fn tell(&mut self, command: &str) -> Truth {
        let mut line = String::new();
        writeln!(self.to.as_ref().expect("it listens"), "{command}").expect("it listens");
        self.from.read_line(&mut line).expect("it answers");
        let mut numbers = line.split(' ').skip(1).map(|word| word.trim().parse().expect("a number"));
        let mut next = || numbers.next().expect("three numbers");
        Truth { leak: next(), cache: next(), churn: next() }
    }

    fn end(&mut self) {
        self.to = None;
        assert!(self.child.wait().expect("its status").success());
    }
}

impl Drop for Heaps {
    fn drop(&mut self) {
        // The program ends with its input, and pct with the program.
        self.to = None;
        let _ = self.child.wait();
    }
}

/// `1.5 MB` or `+1.5 MB`, in octets.
fn octets(text: &str) -> f64 {
    let (number, unit) = text.trim().split_once(' ').unwrap_or_else(|| panic!("{text:?}"));
    let factor = match unit {
        "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => panic!("{text:?}"),
    };
    number.parse::<f64>().unwrap_or_else(|_| panic!("{text:?}")) * factor
}

/// `1.2 .. 3.4 MB`, in octets.
fn limits(text: &str) -> (f64, f64) {
    let (low, high) = text.split_once(" .. ").unwrap_or_else(|| panic!("{text:?}"));
    let unit = high.split_once(' ').map_or("", |(_, unit)| unit);
    let low = if low.contains(' ') { low.to_owned() } else { format!("{low} {unit}") };
    (octets(&low), octets(high))
}

/// The cells of the row of a site: columns stand two spaces apart.
fn row<'s>(screen: &'s str, site: &str) -> Vec<&'s str> {
    let line = screen.lines().find(|line| line.contains(&format!("  {site} ")));
    let line = line.unwrap_or_else(|| panic!("no {site}:\n{screen}"));
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// The 95 % interval is twice the standard deviation to each side. This many of its half widths are passed once in a
/// million.
const WIDTHS: f64 = 2.5;

fn agrees(estimate: &str, interval: &str, seconds: f64, truth: f64) -> bool {
    let (low, high) = limits(interval);
    let estimate = octets(estimate);
    assert!(low <= estimate * 1.01 + 1.0 && estimate <= high * 1.01 + 1.0, "{estimate} in {interval}");
    // The screen has three digits, and the seconds one behind the point.
    let rounding = 0.06 / seconds + 0.01;
    (estimate * seconds - truth).abs() <= WIDTHS * (high - low) / 2.0 * seconds + truth.abs() * rounding
}

/// The seconds that growth is taken over, as the head line says them.
fn seconds(screen: &str) -> f64 {
    let (_, behind) = screen.split_once("growth over ").unwrap_or_else(|| panic!("{screen}"));
    behind.split(' ').next().and_then(|word| word.parse().ok()).expect("seconds")
}

#[test]
fn top_shows_what_is_live_and_how_fast_it_grows() {
    let mut heaps = Heaps::start();
    heaps.tell("cache 24000");
    let before = heaps.tell("leak 1000");
    let mut command = Command::new(binary());
    command.args(["top", "--alloc", "--last", "3600"]).arg(&heaps.dir);
    let mut top = Terminal::start(&mut command, 150, 30);
    let first = top.pictures(1);
    assert!(first.contains("growth is known from the second look on"), "{first}");
    assert!(agrees(row(&first, "leak")[0], row(&first, "leak")[1], 1.0, before.leak), "{first}");
    for command in ["leak 5000", "drop 8000"] {
        heaps.tell(command);
    }
    let truth = heaps.tell("churn 20000");
    // A look that is under way may have begun before.
    top.pictures(2);
    let screen = top.until(|screen| screen.contains("growth over"));
    let seconds = seconds(&screen);
    for (site, live, grown, allocated) in [
        ("leak", truth.leak, truth.leak - before.leak, truth.leak - before.leak),
        ("cache", truth.cache, truth.cache - before.cache, 0.0),
        ("churn", 0.0, 0.0, truth.churn),
    ] {
        let cells = row(&screen, site);
        println!("{site}: {cells:?}, true {live} {grown} {allocated} in {seconds} s");
        assert!(agrees(cells[0], cells[1], 1.0, live), "{site}:\n{screen}");
        assert!(agrees(cells[2], cells[3], seconds, grown), "{site}: {grown} in {seconds} s:\n{screen}");
        assert!(agrees(cells[4], cells[5], seconds, allocated), "{site}: {allocated}:\n{screen}");
    }
    let order = |screen: &str| screen.find("  leak ") < screen.find("  cache ");
    // 10 MB of the cache are more than 6 MB of the leak, which has grown.
    assert!(!order(&screen), "{screen}");
    top.keys("g");
    top.until(order);
    top.keys("t");
    top.until(|screen| {
        screen.contains("heaps (") && screen.contains("process") && !screen.contains("  leak ")
    });
    top.keys("c");
    top.until(|screen| screen.contains("main") && screen.contains("share"));
    top.keys("f/cache\r");
    top.until(|screen| screen.contains("only stacks with /cache/") && !screen.contains("  leak "));
    top.keys("\x1bp");
    top.until(|screen| screen.contains("PAUSED") && screen.contains("  leak "));
    top.keys("q");
    assert!(top.end().success());
    // In a pipe: two looks, one picture.
    let once =
        Command::new(binary()).args(["top", "--alloc", "--once"]).arg(&heaps.dir).output().expect("runs");
    let text = String::from_utf8_lossy(&once.stdout);
    assert!(once.status.success() && text.contains("growth/s"), "{once:?}");
    let cells = row(&text, "leak");
    assert!(octets(cells[2]).abs() < 1.0, "nothing was allocated between the looks: {text}");
    heaps.end();
}

#[test]
fn top_of_memory_says_where_allocations_are_not_sampled() {
    let keep = tempfile::tempdir().expect("a folder");
    let dir = keep.path().join("recording");
    let victim = victim("shares.c");
    let run =
        Command::new(binary()).args(["run", "--no-report", "--out"]).arg(&dir).arg("--").arg(victim).output();
    assert!(run.expect("runs").status.success());
    let top = Command::new(binary()).args(["top", "--alloc", "--once"]).arg(&dir).output().expect("runs");
    let said = String::from_utf8_lossy(&top.stderr);
    assert!(!top.status.success() && said.contains("allocations are not sampled there"), "{said}");
}

/// A script: how wide the page is if it is wider than the window, and what reaches beyond its edge.
const WIDER: &str = "(d=>d.scrollWidth<=innerWidth?'':d.scrollWidth+': '+Array.from(document.querySelectorAll('*'))\
    .filter(e=>e.getBoundingClientRect().right>innerWidth+0.5).slice(0,8)\
    .map(e=>e.tagName+'.'+e.getAttribute('class')+' '+(e.textContent||'').slice(0,60)).join(' | '))\
    (document.documentElement)";

#[test]
fn a_page_of_memory_stands_alone_and_fits_its_window() {
    let mut heaps = Heaps::start();
    for command in ["cache 24000", "leak 5000", "churn 20000"] {
        heaps.tell(command);
    }
    heaps.end();
    let page = heaps.dir.with_file_name("memory.html");
    let report = Command::new(binary())
        .args(["report", "--alloc", "--html"])
        .arg(&page)
        .arg(&heaps.dir)
        .output()
        .expect("runs");
    assert!(report.status.success(), "{report:?}");
    let text = std::fs::read_to_string(&page).expect("written");
    for word in ["src=", "@import", "url(", "<link rel=\"stylesheet"] {
        assert!(!text.contains(word), "{word}");
    }
    assert!(
        text.contains("of it explained: live") && !text.contains("\\n"),
        "the account is not in one line"
    );
    // What the table on the terminal says stands there too.
    let table = Command::new(binary()).args(["report", "--alloc"]).arg(&heaps.dir).output().expect("runs");
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let cells = row(&table, "leak");
    for cell in &cells[..3] {
        assert!(text.contains(&format!("<td>{cell}</td>")), "{cell}: {table}");
    }
    let Some(chromium) = chromium() else { return };
    let mut browser = Browser::start(&chromium);
    browser.open(&format!("file://{}", page.display()));
    for width in [1400, 400] {
        browser.size(width, 900);
        assert_eq!(browser.eval(WIDER), "", "at {width}");
    }
    browser.size(1400, 900);
    // Frames of the picture: the program's functions, with their intervals.
    let titles =
        "Array.from(document.querySelectorAll('svg.pct-icicle .f title')).map(t=>t.textContent).join('|')";
    let titles = browser.eval(titles).as_str().expect("text").to_owned();
    assert!(titles.contains("leak") && titles.contains("95 %"), "{titles}");
    // The filter leaves the rows that have the word.
    let shown = "Array.from(document.querySelectorAll('#sites tbody tr')).filter(r=>!r.hidden).length";
    let all = browser.eval(shown).as_u64().expect("a number");
    browser.eval("q.value='leak';q.dispatchEvent(new Event('input'))");
    let filtered = browser.eval(shown).as_u64().expect("a number");
    assert!(all >= 2 && filtered == 1, "{all}, {filtered}");
    for event in &browser.heard {
        let is_error = event["params"]["entry"]["level"] == "error";
        assert!(event["method"] != "Runtime.exceptionThrown" && !is_error, "{event}");
    }
}
