//! The picture of CPU time: a head line and one of the tables, of the last seconds.

use super::view::{Page, View};
use anyhow::Result;
use pct_profile::flat::Order;
use pct_profile::fold::Whose;
use pct_profile::load::live::Live;
use pct_profile::model::Cell;
use pct_profile::text::numbers::thousands;
use pct_profile::text::table::{Column, Rank, Table, cut_middle, tame};
use pct_profile::text::tree::Prune;
use pct_profile::text::{Layout, account, numbers, tree};
use pct_profile::{By, CallTree, Filter, Flat, Profile, Split};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// What keys show.
pub(super) const PAGES: &str = "f functions  t threads  c calls";

/// CPU time of the last seconds.
pub(super) struct Cpu {
    live: Live,
    profile: Profile,
}

impl Cpu {
    /// Looks at these recordings.
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        Self { live: Live::new(paths), profile: Profile::default() }
    }
    /// Reads them again.
    pub(super) fn refresh(&mut self, view: &View) -> Result<()> {
        self.profile = self.live.read_since(since(view.last_s))?;
        Ok(())
    }
    /// The screen's text.
    pub(super) fn picture(&mut self, view: &View, size: (usize, usize), layout: &Layout) -> String {
        picture(&mut self.profile, view, size, layout)
    }
}

fn since(last_s: u32) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since = now.saturating_sub(Duration::from_secs(u64::from(last_s)));
    u64::try_from(since.as_nanos()).unwrap_or(0)
}

/// The screen's text: a head line and one of the tables, no more lines than fit above the footer.
fn picture(profile: &mut Profile, view: &View, (width, height): (usize, usize), layout: &Layout) -> String {
    let filter = Filter { focus: view.search.clone(), ..Filter::default() };
    let cells = filter.cells(profile);
    let mut text = format!("{}\n", cut_middle(&head(profile, view), width));
    let rows = height.saturating_sub(6).max(3);
    text += &match view.page {
        Page::Functions => functions(profile, &cells, view, rows, layout),
        Page::Parts => threads(profile, &cells, view, rows, layout),
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

/// The processes that are looked at, in words.
pub(super) fn who(profile: &Profile) -> String {
    match (profile.processes.len(), profile.processes.iter().next()) {
        (1, Some(process)) => format!("{} ({})", tame(&process.name), process.pid),
        (n, Some(process)) => format!("{} and {} more", tame(&process.name), n - 1),
        (_, None) => "nothing".into(),
    }
}

fn head(profile: &Profile, view: &View) -> String {
    let first = profile.processes.iter().next();
    let who = who(profile);
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

fn functions(profile: &mut Profile, cells: &[Cell], view: &View, rows: usize, layout: &Layout) -> String {
    let flat = Flat::count_owners(profile, cells, Whose::Owner, Split::Merged, Order::Own);
    let whole = flat.total.cpu_ns();
    let most = flat.rows.first().map_or(1, |row| row.own.cpu_ns()).max(1);
    let mut table = Table::new(vec![
        Column::number("share"),
        Column::number("CPU"),
        Column { align: pct_profile::text::table::Align::Left, ..Column::number("") },
        Column::name("function", 20),
        Column::text("object", 8),
    ]);
    for row in flat.rows.iter().take(rows) {
        let label = row.label;
        let place = label.and_then(|label| label.whereabouts(profile));
        table.row(
            Rank::from_share(row.own.cpu_ns(), whole),
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
    let share = part as f64 / whole as f64;
    let cells = (1..16).take_while(|cells| f64::from(*cells) + 0.5 <= share * 16.0).count() + 1;
    (if unicode { "█" } else { "#" }).repeat(cells)
}

fn threads(profile: &Profile, cells: &[Cell], view: &View, rows: usize, layout: &Layout) -> String {
    let by_thread = Flat::count_cells(profile, cells, None, Split::Thread, Order::Own);
    let hot = Flat::count_cells(profile, cells, Some(By::Function), Split::Thread, Order::Own);
    let mut table = Table::new(vec![
        Column::number("CPU"),
        Column::number("system"),
        Column::text("thread", 12),
        Column::name("hottest function", 20),
    ]);
    let percent = |ns: u64| format!("{:.0}%", ns as f64 / f64::from(view.last_s) / 1e7);
    for row in by_thread.rows.iter().take(rows) {
        let hottest = hot.rows.iter().find(|other| other.part == row.part).and_then(|row| row.label);
        table.row(
            Rank::from_share(row.own.cpu_ns(), by_thread.total.cpu_ns()),
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

    #[test]
    fn an_empty_profile_gives_a_picture_that_says_so() {
        let text = picture(&mut Profile::default(), &View::new(5), (80, 24), &Layout::default());
        assert!(text.contains("nothing sampled in the last 5 s"), "{text}");
        for page in [Page::Parts, Page::Calls] {
            let text =
                picture(&mut Profile::default(), &View { page, ..View::new(5) }, (40, 3), &Layout::default());
            assert!(text.lines().all(|line| line.chars().count() <= 40 || line.starts_with("  ")), "{text}");
        }
    }
}
