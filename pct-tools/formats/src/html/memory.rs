//! One self-contained page of memory: the flame graph of a measure, sites with their intervals, memory over time, the
//! account.

use crate::{flame, sheet};
use maud::{Markup, PreEscaped, html};
use pct_icicle::{Direction, Options, heat_class, write_svg};
use pct_num::{bytes, float, percent};
use pct_profile::flat::Order;
use pct_profile::memory::{Figures, Level, Measure, MemoryCell, ProcessMemory};
use pct_profile::model::Profile;
use pct_profile::text::memory::{Columns, Texts, headline, texts};
use pct_profile::text::numbers::seconds;
use pct_profile::{By, Flat, Split};
use pct_text::visible;

/// Rows of the table of sites. A sentence gives the sum of the others.
const ROWS: usize = 500;
/// Rows of the other tables.
const FEW_ROWS: usize = 50;

/// What a page shows.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The measure of the picture and of the first table.
    pub measure: Measure,
    /// What a row of the first table stands for.
    pub by: By,
    /// How rows are split, for example by process.
    pub split: Split,
}

/// Writes the page. `closing` has the lines of the account.
#[must_use]
pub fn page(profile: &Profile, cells: &[MemoryCell], shown: Shown, closing: &[String]) -> String {
    let all: Figures = cells.iter().map(|cell| cell.figures).sum();
    let facts: Vec<String> = headline(profile, &profile.memory, &all).lines().map(str::to_owned).collect();
    // Ages and means have no widths.
    let drawn = match shown.measure {
        Measure::Age => Measure::Live,
        Measure::Size => Measure::Bytes,
        measure => measure,
    };
    let other = if drawn == Measure::Live { Measure::Bytes } else { Measure::Live };
    let table = |measure, by, split, rows| {
        let flat: Flat<Figures> = Flat::count_cells(profile, cells, Some(by), split, Order::Own);
        sites(&texts(profile, &flat, measure, Columns { rows, wide: true, total: false }))
    };
    let content = html! {
        h2 { (in_words(drawn)) " by stack" }
        (picture(profile, cells, drawn, true))
        details {
            summary { (in_words(other)) " by stack" }
            (picture(profile, cells, other, false))
        }
        h2 { "Sites by " (shown.measure.name()) }
        input #q.filter type="search" placeholder="filter (/)" aria-label="filter";
        div #sites style="overflow-x:auto" { (table(shown.measure, shown.by, shown.split, ROWS)) }
        @for measure in [Measure::Live, Measure::Peak, Measure::Bytes].into_iter().filter(|m| *m != shown.measure) {
            details {
                summary { "Sites by " (measure.name()) }
                div style="overflow-x:auto" { (table(measure, shown.by, shown.split, FEW_ROWS)) }
            }
        }
        @for process in profile.memory.processes.iter().filter(|process| process.levels.len() > 1) {
            h2 { "Over time: " (visible(&profile.processes[process.process].name)) }
            (over_time(process))
        }
        footer { @for line in closing { span { (visible(&one_line(line))) } } }
    };
    sheet::page(&profile.title, &facts, &content, Some(SCRIPT))
}

const SCRIPT: &str = "
const q=document.getElementById('q');
q.addEventListener('input',()=>{const t=q.value.toLowerCase();
for(const r of document.querySelectorAll('#sites tbody tr'))r.hidden=t&&!r.textContent.toLowerCase().includes(t);});
document.addEventListener('keydown',e=>{if(e.key==='/'&&document.activeElement!==q){e.preventDefault();q.focus();}});";

/// Joins an account's lines, which on a terminal are several.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

fn in_words(measure: Measure) -> &'static str {
    match measure {
        Measure::Live | Measure::Age => "Live",
        Measure::Peak => "Live at the peak",
        Measure::Bytes | Measure::Size => "Allocated",
        Measure::Blocks => "Blocks allocated",
    }
}

/// A flame graph with its root at the top. One of a page has a search box, and the page's address keeps that
/// graph's search and zoom.
fn picture(profile: &Profile, cells: &[MemoryCell], measure: Measure, search: bool) -> Markup {
    let tree = flame::memory::tree(profile, cells, measure, Split::Merged, false);
    let octets: fn(u64) -> String = |octets| bytes(float(octets));
    let blocks: fn(u64) -> String = pct_num::thousands;
    let is_blocks = measure == Measure::Blocks;
    let options = Options {
        unit: if is_blocks { "blocks".into() } else { String::new() },
        weight: if is_blocks { blocks } else { octets },
        width: 1200,
        direction: Direction::Icicle,
        max_depth: 64,
        frame: search,
        ..Options::default()
    };
    let mut svg = String::with_capacity(1 << 16);
    write_svg(&mut svg, &tree, &options);
    PreEscaped(svg)
}

fn sites(texts: &Texts) -> Markup {
    html! {
        table.data.boxed {
            thead {
                tr {
                    th { "share" }
                    @for head in &texts.numbers { th { (head) } }
                    @for head in &texts.names { th.l { (head) } }
                }
            }
            tbody {
                @for row in &texts.rows {
                    @let share = percent(row.amount, texts.whole);
                    tr {
                        td class=(heat_class(share / 100.0)) { (pct_num::share(row.amount, texts.whole)) }
                        @for number in &row.numbers { td { (number) } }
                        @for (at, name) in row.names.iter().enumerate() {
                            @if texts.names[at] == "site" {
                                (super::function_cell(name))
                            } @else {
                                td.l { (visible(name)) }
                            }
                        }
                    }
                }
            }
        }
        @for line in &texts.rest { p { "\u{2026} " (line) } }
    }
}

/// Width and height of the picture over time, in its own units.
const PLOT: (f64, f64) = (1000.0, 160.0);

/// Resident and live memory of a process over time.
fn over_time(process: &ProcessMemory) -> Markup {
    let levels = &process.levels;
    let last = levels.last().map_or(0, |level| level.time_ns);
    let first = levels.first().map_or(0, |level| level.time_ns);
    let largest =
        levels.iter().map(|level| level.resident().unwrap_or(0).max(level.live)).max().unwrap_or(0).max(1);
    let line = |value: &dyn Fn(&Level) -> Option<u64>| -> String {
        let points = levels.iter().filter_map(|level| {
            let x = float(level.time_ns - first) / float((last - first).max(1)) * PLOT.0;
            let y = PLOT.1 - float(value(level)?) / float(largest) * PLOT.1;
            Some(format!("{x:.1},{y:.1}"))
        });
        points.collect::<Vec<_>>().join(" ")
    };
    let view = format!("0 0 {} {}", PLOT.0, PLOT.1);
    html! {
        svg viewBox=(view) preserveAspectRatio="none" role="img" aria-label="memory over time"
            style="width:100%;height:160px;border:1px solid var(--line);border-radius:6px" {
            polyline points=(line(&|level| level.resident())) fill="none" stroke="var(--soft)"
                stroke-width="1.5" vector-effect="non-scaling-stroke" {}
            polyline points=(line(&|level| Some(level.live))) fill="none" stroke="var(--link)"
                stroke-width="2" vector-effect="non-scaling-stroke" {}
        }
        p {
            "From " (seconds(first)) " to " (seconds(last)) " s; the upper edge is "
            (bytes(float(largest))) ". "
            span style="color:var(--link)" { "live (estimate)" } ", "
            span style="color:var(--soft)" { "resident" } "."
        }
    }
}
