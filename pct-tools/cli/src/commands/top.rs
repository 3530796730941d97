//! `pct top`: what is hot right now, straight from the files of programs that run. Nothing is stopped or mapped.
//!
//! One turn: look at the last seconds, make the screen's lines, write them, wait for a key or the next turn. The
//! screen is a pure function of the profile and the `View`; keys change only the view.

use crate::face::Face;
use crate::look;
use crate::term::{self, Raw};
use anyhow::{Result, bail};
use pct_profile::flat::Order;
use pct_profile::load::live::{Live, files_of_process};
use pct_profile::model::Cell;
use pct_profile::text::numbers::thousands;
use pct_profile::text::table::{Column, Rank, Table, cut_middle, tame};
use pct_profile::text::tree::Prune;
use pct_profile::text::{Layout, account, numbers, tree};
use pct_profile::{By, CallTree, Filter, Flat, Pattern, Profile, Split};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// What can be typed after `pct top`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct top 4711               a process that runs under pct run, or that pct attach works on
  pct top pct-render-4711    all processes of a run
  pct top --once             one picture of the newest run here, to a pipe

Keys: f functions, t threads, c calls, p pause, / search, + and - seconds shown, q quit.")]
pub struct Args {
    /// Process id, .pct file or run folder; the newest run here if none.
    #[arg(value_name = "PID|FILE|DIR")]
    pub target: Option<String>,
    /// Seconds that are shown.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, allow_negative_numbers = true, value_parser = crate::look::within(1..=3600))]
    pub last: u32,
    /// Seconds between two pictures.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, allow_negative_numbers = true, value_parser = crate::look::within(1..=60))]
    pub every: u32,
    /// Print one picture and end.
    #[arg(long)]
    pub once: bool,
}

/// What is on the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Page {
    Functions,
    Threads,
    Calls,
}

/// The state that keys change.
struct View {
    page: Page,
    paused: bool,
    /// What is typed behind `/`, while it is typed.
    typing: Option<String>,
    search: Option<Pattern>,
    last_s: u32,
}

/// Shows it until q is pressed.
///
/// # Errors
/// When there is nothing to look at.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let paths = target(args.target.as_deref())?;
    let mut live = Live::new(paths);
    let mut view =
        View { page: Page::Functions, paused: false, typing: None, search: None, last_s: args.last };
    let mut profile = live.look(since(view.last_s))?;
    if args.once || face.out.width.is_none() {
        let size = (face.out.width.unwrap_or(100), 40);
        face.print(&picture(&profile, &view, size, &face.layout()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut screen = Raw::enter()?;
    loop {
        let size = term::size(&std::io::stdout()).unwrap_or((80, 24));
        let layout = Layout { width: Some(size.0), ..face.layout() };
        let text = picture(&profile, &view, size, &layout);
        screen.show(&text, &cut_middle(&footer(&view), size.0), size.1)?;
        match screen.key(Duration::from_secs(u64::from(args.every)))? {
            Some(key) if !press(&mut view, key) => return Ok(ExitCode::SUCCESS),
            Some(_) if view.typing.is_some() => continue,
            _ => {}
        }
        if !view.paused {
            profile = live.look(since(view.last_s))?;
        }
    }
}

/// The files of what was typed: a process id, a file, a folder; the newest run here if nothing was.
///
/// # Errors
/// When there is no such process, or it writes no recording.
pub(crate) fn target(typed: Option<&str>) -> Result<Vec<PathBuf>> {
    let Some(word) = typed else { return look::paths(&[]) };
    match word.parse::<u32>() {
        Ok(pid) if !PathBuf::from(word).exists() => {
            let files = files_of_process(pid);
            if !files.is_empty() {
                return Ok(files);
            }
            if PathBuf::from(format!("/proc/{pid}")).exists() {
                bail!("process {pid} is not being profiled (or may not be looked at); try: pct attach {pid}");
            }
            bail!("there is no process {pid}");
        }
        _ => Ok(vec![PathBuf::from(word)]),
    }
}

fn since(last_s: u32) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since = now.saturating_sub(Duration::from_secs(u64::from(last_s)));
    u64::try_from(since.as_nanos()).unwrap_or(0)
}

/// What a key does; `false` = quit.
fn press(view: &mut View, key: u8) -> bool {
    const ESCAPE: u8 = 0x1b;
    if let Some(text) = &mut view.typing {
        match key {
            b'\r' | b'\n' => {
                view.search = Pattern::parse(text).ok().filter(|pattern| !pattern.as_str().is_empty());
                view.typing = None;
            }
            ESCAPE => view.typing = None,
            0x7f | 0x08 => drop(text.pop()),
            term::CTRL_C => return false,
            key if key.is_ascii_graphic() || key == b' ' => text.push(char::from(key)),
            _ => {}
        }
        return true;
    }
    match key {
        b'q' | b'Q' | term::CTRL_C => return false,
        b'f' => view.page = Page::Functions,
        b't' => view.page = Page::Threads,
        b'c' => view.page = Page::Calls,
        b'p' | b' ' => view.paused = !view.paused,
        b'/' => view.typing = Some(String::new()),
        ESCAPE => view.search = None,
        b'+' => view.last_s = (view.last_s * 2).min(3600),
        b'-' => view.last_s = (view.last_s / 2).max(1),
        _ => {}
    }
    true
}

/// The screen's text: a head line and one of the tables, no more lines than fit above the footer.
fn picture(profile: &Profile, view: &View, (width, height): (usize, usize), layout: &Layout) -> String {
    let filter = Filter { focus: view.search.clone(), ..Filter::default() };
    let cells = filter.cells(profile);
    let mut text = format!("{}\n", cut_middle(&head(profile, view), width));
    let rows = height.saturating_sub(6).max(3);
    text += &match view.page {
        Page::Functions => functions(profile, &cells, view, rows, layout),
        Page::Threads => threads(profile, &cells, view, rows, layout),
        Page::Calls => {
            let drawn = CallTree::top_down(profile, &cells, By::Function, Split::Merged);
            let prune = Prune { least_share: 0.01, lines: rows, depth: usize::MAX };
            tree::table(profile, &drawn, drawn.total.cpu_ns(), &prune, layout)
        }
    };
    if cells.is_empty() {
        text += &format!("\n  nothing sampled in the last {} s\n", view.last_s);
    }
    let lost: u64 = profile.account.losses.iter().map(|loss| loss.samples).sum();
    if lost > 0 {
        text += &format!("  {} lost since the start\n", numbers::count(lost, "sample", "samples"));
    }
    text
}

fn head(profile: &Profile, view: &View) -> String {
    let first = profile.processes.iter().next();
    let who = match (profile.processes.len(), first) {
        (1, Some(process)) => format!("{} ({})", tame(&process.name), process.pid),
        (n, Some(process)) => format!("{} and {} more", tame(&process.name), n - 1),
        (_, None) => "nothing".into(),
    };
    let cpu = profile.total().cpu_ns() as f64 / f64::from(view.last_s) / 1e7;
    let mut line = format!(
        "{who}  {}  {cpu:.0}% CPU",
        numbers::count(profile.threads.len() as u64, "thread", "threads")
    );
    if let Some(process) = first.filter(|process| process.hz > 0) {
        line += &format!("  {} Hz  {}", thousands(process.hz), account::clock_in_words(&process.clock));
    }
    line += &format!("  last {} s", view.last_s);
    if profile.account.running == 0 {
        line += if profile.processes.len() > 1 { "  all have ended" } else { "  it has ended" };
    }
    if view.paused {
        line += "  PAUSED";
    }
    line
}

/// The last line: what is typed, or what can be.
fn footer(view: &View) -> String {
    match (&view.typing, &view.search) {
        (Some(text), _) => format!("/{text}_"),
        (None, Some(pattern)) => {
            format!("only stacks with /{}/   escape: all   q quit", tame(pattern.as_str()))
        }
        (None, None) => format!(
            "f functions  t threads  c calls  p {}  / search  +- {} s  q quit",
            if view.paused { "go on" } else { "pause" },
            view.last_s
        ),
    }
}

fn functions(profile: &Profile, cells: &[Cell], view: &View, rows: usize, layout: &Layout) -> String {
    let flat = Flat::of(profile, cells, Some(By::Function), Split::Merged, Order::Own);
    let whole = flat.total.cpu_ns();
    let most = flat.rows.first().map_or(1, |row| row.own.cpu_ns()).max(1);
    let mut table = Table::new(vec![
        Column::number("share"),
        Column::number("CPU"),
        Column { head: "", align: pct_profile::text::table::Align::Left, cut_to: None },
        Column::name("function", 20),
        Column::name("object", 8),
    ]);
    for row in flat.rows.iter().take(rows) {
        let label = row.label;
        let place = label.and_then(|label| label.whereabouts(profile));
        table.row(
            Rank::of(row.own.cpu_ns(), whole),
            vec![
                numbers::share(row.own.cpu_ns(), whole),
                format!("{:.0}%", row.own.cpu_ns() as f64 / f64::from(view.last_s) / 1e7),
                bar(row.own.cpu_ns(), most, layout.unicode),
                label.map(|label| tame(&label.name(profile))).unwrap_or_default(),
                place.map(|place| tame(&place)).unwrap_or_default(),
            ],
        );
    }
    table.render(layout)
}

/// A bar of up to 16 characters.
fn bar(part: u64, whole: u64, unicode: bool) -> String {
    let cells = (part as f64 / whole as f64 * 16.0).round() as usize;
    (if unicode { "█" } else { "#" }).repeat(cells.clamp(1, 16))
}

fn threads(profile: &Profile, cells: &[Cell], view: &View, rows: usize, layout: &Layout) -> String {
    let by_thread = Flat::of(profile, cells, None, Split::Thread, Order::Own);
    let hot = Flat::of(profile, cells, Some(By::Function), Split::Thread, Order::Own);
    let mut table = Table::new(vec![
        Column::number("CPU"),
        Column::number("system"),
        Column::name("thread", 12),
        Column::name("hottest function", 20),
    ]);
    let percent = |ns: u64| format!("{:.0}%", ns as f64 / f64::from(view.last_s) / 1e7);
    for row in by_thread.rows.iter().take(rows) {
        let hottest = hot.rows.iter().find(|other| other.part == row.part).and_then(|row| row.label);
        table.row(
            Rank::of(row.own.cpu_ns(), by_thread.total.cpu_ns()),
            vec![
                percent(row.own.cpu_ns()),
                percent(row.own.system_ns),
                row.part.map(|part| tame(&part.name(profile))).unwrap_or_default(),
                hottest.map(|label| tame(&label.name(profile))).unwrap_or_default(),
            ],
        );
    }
    table.render(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View { page: Page::Functions, paused: false, typing: None, search: None, last_s: 5 }
    }

    #[test]
    fn keys_change_the_view() {
        let mut v = view();
        assert!(press(&mut v, b't') && v.page == Page::Threads);
        assert!(press(&mut v, b'/'));
        for key in *b"ma(q" {
            assert!(press(&mut v, key));
        }
        assert!(press(&mut v, 0x7f) && press(&mut v, 0x7f) && press(&mut v, b'\r'));
        assert_eq!(v.search.as_ref().map(Pattern::as_str), Some("ma"));
        assert!(press(&mut v, 0x1b) && v.search.is_none());
        assert!(press(&mut v, b'p') && v.paused);
        assert!(!press(&mut v, b'q'));
        assert!(!press(&mut view(), 3));
    }

    #[test]
    fn an_empty_profile_gives_a_picture_that_says_so() {
        let text = picture(&Profile::default(), &view(), (80, 24), &Layout::default());
        assert!(text.contains("nothing sampled in the last 5 s"), "{text}");
        for page in [Page::Threads, Page::Calls] {
            let text = picture(&Profile::default(), &View { page, ..view() }, (40, 3), &Layout::default());
            assert!(text.lines().all(|line| line.chars().count() <= 40 || line.starts_with("  ")), "{text}");
        }
    }
}
