//! One self-contained page of a profile: the flame graph with zoom and search, the tables of functions and threads
//! with a filter, and the account. It needs no network and no other file.

pub mod memory;

use crate::export::threads::thread_name;
use crate::{flame, sheet};
use maud::{Markup, PreEscaped, html};
use pct_icicle::text::{cut, short_name};
use pct_icicle::{Direction, Options, heat_class, write_svg};
use pct_num::{count, percent, share};
use pct_profile::flat::Order;
use pct_profile::model::{Cell, Profile};
use pct_profile::{By, Flat, Split};
use pct_text::visible;

const SCRIPT: &str = "
const q=document.getElementById('q');
q.addEventListener('input',()=>{const t=q.value.toLowerCase();
for(const r of document.querySelectorAll('#functions tbody tr')){const n=r.querySelector('[title]');
r.hidden=t&&!(r.textContent+(n?n.title:'')).toLowerCase().includes(t);}});
document.addEventListener('keydown',e=>{if(e.key==='/'&&document.activeElement!==q){e.preventDefault();q.focus();}});";

/// Rows of the functions' table. The others become one row with their sum.
const ROWS: usize = 500;

/// A function's name. A long one is shown without template arguments, and whole in the title.
fn function_cell(name: &str) -> Markup {
    match short_name(name) {
        Some(short) => html! { td.w title=(visible(name)) { (cut(&short, 160)) } },
        None => html! { td.w { (cut(name, 160)) } },
    }
}

/// Writes the page. `closing` has the lines of the account.
pub fn page(profile: &Profile, cells: &[Cell], closing: &[String]) -> String {
    let total = cells.iter().fold(0u64, |sum, c| sum.saturating_add(c.weight.cpu_ns()));
    let facts = [
        profile.amount_in_words(total),
        match cells.iter().fold(0u64, |sum, c| sum.saturating_add(c.weight.samples)) {
            0 if !profile.is_of_cpu_time() => "number of samples not known".into(),
            samples => count(samples, "sample", "samples"),
        },
        count(profile.sampled_processes(), "process", "processes"),
        count(pct_profile::text::account::sampled_threads(profile), "thread", "threads"),
    ];
    let tree = flame::tree(profile, cells, Split::Merged, false);
    // the root at the top: the first screen shows the whole, and one scrolls to deep branches
    let options = Options {
        unit: flame::unit(profile),
        width: 1200,
        direction: Direction::Icicle,
        max_depth: 64,
        ..Options::default()
    };
    let mut picture = String::with_capacity(1 << 17);
    write_svg(&mut picture, &tree, &options);
    let content = html! {
        (PreEscaped(picture))
        h2 { "Functions" }
        input #q.filter type="search" placeholder="filter (/)" aria-label="filter";
        (functions(profile, cells, total))
        h2 { "Threads" }
        (threads(profile, cells, total))
        footer { @for line in closing { span { (visible(line)) } } }
    };
    sheet::page(&profile.title, &facts, &content, Some(SCRIPT))
}

/// A share, coloured by its size.
fn share_cell(part: u64, total: u64) -> Markup {
    html! { td class=(heat_class(percent(part, total) / 100.0)) { (share(part, total)) } }
}

fn functions(profile: &Profile, cells: &[Cell], total: u64) -> Markup {
    let flat = Flat::count_cells(profile, cells, Some(By::Function), Split::Merged, Order::Own);
    let rows = &flat.rows;
    let rest = rows.iter().skip(ROWS).fold(0u64, |sum, r| sum.saturating_add(r.own.cpu_ns()));
    html! {
        table.data.boxed #functions {
            thead {
                tr {
                    th { "share" } th { (profile.unit()) } th { "with callees" } th.l { "function" } th.l { "object" }
                }
            }
            tbody {
                @for row in rows.iter().take(ROWS) {
                    @let name = row.label.map_or_else(String::new, |l| l.name(profile));
                    @let object = row.label.and_then(|label| label.whereabouts(profile)).unwrap_or_default();
                    tr {
                        (share_cell(row.own.cpu_ns(), total))
                        td { (profile.amount(row.own.cpu_ns())) }
                        (share_cell(row.total.cpu_ns(), total))
                        (function_cell(&name))
                        td.l { (visible(&object)) }
                    }
                }
            }
            @if rows.len() > ROWS {
                tfoot {
                    tr.sum {
                        (share_cell(rest, total))
                        td { (profile.amount(rest)) }
                        td {}
                        td.l { (count((rows.len() - ROWS) as u64, "more function", "more functions")) }
                        td {}
                    }
                }
            }
        }
    }
}

fn threads(profile: &Profile, cells: &[Cell], total: u64) -> Markup {
    let mut sums: Vec<(u64, String)> =
        profile.threads.enumerate().map(|(id, _)| (0, thread_name(profile, id))).collect();
    for cell in cells {
        sums[pct_profile::model::Id::index(cell.thread)].0 += cell.weight.cpu_ns();
    }
    sums.retain(|s| s.0 > 0);
    sums.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    html! {
        table.data.boxed {
            thead { tr { th { "share" } th { (profile.unit()) } th.l { "thread" } } }
            tbody {
                @for (ns, name) in &sums {
                    tr { (share_cell(*ns, total)) td { (profile.amount(*ns)) } td.l { (visible(name)) } }
                }
            }
        }
    }
}
