//! One self-contained page of a profile: the table of functions with a filter, the flame graph with zoom and search,
//! the threads, and the account. It needs no network and no other file.

pub mod memory;
mod waits;

use crate::export::threads::thread_name;
use crate::{flame, sheet};
use maud::{Markup, PreEscaped, html};
use pct_icicle::text::{cut, short_name};
use pct_icicle::{Direction, Options, heat_class, write_svg};
use pct_num::{count, percent, share};
use pct_profile::flat::Row;
use pct_profile::model::{Cell, Profile};
use pct_profile::{Flat, Label, Split};
use pct_text::visible;
use std::ops::Range;

const SCRIPT: &str = "
const q=document.getElementById('q');
q.addEventListener('input',()=>{const t=q.value.toLowerCase();
const d=document.querySelector('details');if(d&&t)d.open=true;
for(const r of document.querySelectorAll('.functions tbody tr')){const n=r.querySelector('[title]');
r.hidden=t&&!(r.textContent+(n?n.title:'')).toLowerCase().includes(t);}});
document.addEventListener('keydown',e=>{if(e.key==='/'&&document.activeElement!==q){e.preventDefault();q.focus();}});";

/// Rows of the functions' table. The others become one row with their sum.
const ROWS: usize = 500;
/// Rows that are shown however little time they have.
const LEAST_ROWS: usize = 10;

/// A function's name. A long one is shown without template arguments, and whole in the title.
fn function_cell(name: &str) -> Markup {
    match short_name(name) {
        Some(short) => html! { td.w title=(visible(name)) { (cut(&short, 160)) } },
        None => html! { td.w { (cut(name, 160)) } },
    }
}

/// Writes the page. `owners` is the table of the cells by owner ([`Flat::count_owners`]), `closing` has the lines of
/// the account.
pub fn page(profile: &Profile, cells: &[Cell], owners: &Flat, closing: &[String]) -> String {
    let total = cells.iter().fold(0u64, |sum, c| sum.saturating_add(c.weight.cpu_ns()));
    let facts = [
        profile.amount_in_words(total),
        match cells.iter().fold(0u64, |sum, c| sum.saturating_add(c.weight.samples)) {
            0 if profile.is_sampled_without_number() => "number of samples not known".into(),
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
        h2 { "Functions" }
        input #q.filter type="search" placeholder="filter (/)" aria-label="filter";
        (functions(profile, owners, total))
        h2 { "Flame graph" }
        (PreEscaped(picture))
        @if !profile.waits.is_empty() {
            h2 { "What threads waited for" }
            (waits::part(profile))
        }
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

/// Functions with what worked for them. Those that are not worth a glance are folded away.
fn functions(profile: &Profile, owners: &Flat, total: u64) -> Markup {
    let own = |rows: &[Row]| rows.iter().fold(0u64, |sum, r| sum.saturating_add(r.own.cpu_ns()));
    let first = owners.rows_worth_a_glance().clamp(LEAST_ROWS, ROWS).min(owners.rows.len());
    let listed = owners.rows.len().min(ROWS);
    let (folded, rest) = (own(&owners.rows[first..]), own(&owners.rows[listed..]));
    let more = |rows: usize| count(rows as u64, "more function", "more functions");
    html! {
        p { "A function has its own time and that of what worked for it: library functions that it called, the C library, allocators, the kernel." }
        p.narrow { "left out in a narrow window: where" }
        (rows_of_functions(profile, owners, 0..first, total))
        @if first < owners.rows.len() {
            details {
                summary { (more(owners.rows.len() - first)) ": " (share(folded, total)) }
                (rows_of_functions(profile, owners, first..listed, total))
                @if rest > 0 { p { (more(owners.rows.len() - listed)) ": " (share(rest, total)) } }
            }
        }
    }
}

fn rows_of_functions(profile: &Profile, owners: &Flat, range: Range<usize>, total: u64) -> Markup {
    let place = |label: Label| label.whereabouts(profile).unwrap_or_default();
    html! {
        table.data.boxed.functions {
            thead {
                tr {
                    th { "self" } th { (profile.unit()) } th { "total" } th.l { "function" } th.l.pl { "where" }
                }
            }
            tbody {
                @for at in range {
                    @let row = &owners.rows[at];
                    tr {
                        (share_cell(row.own.cpu_ns(), total))
                        td { (profile.amount(row.own.cpu_ns())) }
                        (share_cell(row.total.cpu_ns(), total))
                        (function_cell(&row.label.map_or_else(String::new, |label| label.name(profile))))
                        td.l.pl { (visible(&row.label.map(place).unwrap_or_default())) }
                    }
                    @for &(label, weight) in owners.callees_worth_a_line(at) {
                        tr.part {
                            (share_cell(weight.cpu_ns(), total))
                            td { (profile.amount(weight.cpu_ns())) }
                            td {}
                            (function_cell(&label.name(profile)))
                            td.l.pl { (visible(&place(label))) }
                        }
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
        table.data.boxed.threads {
            thead { tr { th { "share" } th { (profile.unit()) } th.l { "thread" } } }
            tbody {
                @for (ns, name) in &sums {
                    tr { (share_cell(*ns, total)) td { (profile.amount(*ns)) } td.l { (visible(name)) } }
                }
            }
        }
    }
}
