//! One self-contained page of a profile: the flame graph with zoom and search, the tables of functions and threads with a
//! filter, and what was accounted for. No network, no file beside it.

use crate::export::threads::thread_name;
use crate::flame;
use pct_icicle::text::{cut, escape_into};
use pct_icicle::{Direction, Options, write_svg};
use pct_profile::flat::Order;
use pct_profile::model::{Cell, Profile};
use pct_profile::text::numbers;
use pct_profile::{By, Flat, Split};
use std::fmt::Write as _;

const STYLE: &str = "
:root{color-scheme:light dark;--line:#8884;--soft:#8882}
body{font:15px/1.45 system-ui,sans-serif;margin:1.2rem auto;max-width:1240px;padding:0 1rem}
h1{font-size:1.25rem;margin:.2rem 0}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
p.sum{color:#888;margin:.1rem 0 1rem}
table{border-collapse:collapse;width:100%}th,td{padding:.15rem .6rem;text-align:left;border-bottom:1px solid var(--line)}
th{position:sticky;top:0;background:Canvas}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.f{overflow-wrap:anywhere}tr:hover{background:var(--soft)}
input{font:inherit;width:24rem;max-width:100%;padding:.25rem .5rem;margin:.2rem 0 .6rem}
.bar{display:inline-block;height:.7em;background:#e8863a;border-radius:2px;vertical-align:baseline}
svg{max-width:100%;height:auto}footer{margin-top:2rem;color:#888}
@media print{input{display:none}}";

const SCRIPT: &str = "
const q=document.getElementById('q');
q.addEventListener('input',()=>{const t=q.value.toLowerCase();
for(const r of document.querySelectorAll('#functions tbody tr'))r.hidden=t&&!r.textContent.toLowerCase().includes(t);});
document.addEventListener('keydown',e=>{if(e.key==='/'&&document.activeElement!==q){e.preventDefault();q.focus();}});";

/// Rows of the functions' table; the rest is one row with its sum.
const ROWS: usize = 500;

/// The page. `closing` are the lines of the account.
pub fn page(profile: &Profile, cells: &[Cell], closing: &[String]) -> String {
    let mut out = String::with_capacity(1 << 18);
    let total = cells.iter().fold(0u64, |sum, c| sum.saturating_add(c.weight.cpu_ns()));
    let title = text(&profile.title);
    let _ = write!(
        out,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>pct: {title}</title><style>{STYLE}</style><h1>{title}</h1><p class=\"sum\">{} CPU s in {}, {}; {}</p>",
        seconds(total),
        numbers::count(profile.processes.len() as u64, "process", "processes"),
        numbers::count(profile.threads.len() as u64, "thread", "threads"),
        numbers::count(cells.iter().map(|c| c.weight.samples).sum(), "sample", "samples"),
    );
    let tree = flame::tree(profile, cells, Split::Merged, false);
    // the root on top: the first screen shows the whole, deep branches are a scroll away
    let options = Options {
        unit: "us of CPU time".into(),
        width: 1200,
        direction: Direction::Icicle,
        max_depth: 64,
        ..Options::default()
    };
    write_svg(&mut out, &tree, &options);
    out.push_str(
        "<h2>Functions</h2><input id=\"q\" type=\"search\" placeholder=\"filter (/)\" aria-label=\"filter\">",
    );
    functions(&mut out, profile, cells, total);
    out.push_str("<h2>Threads</h2>");
    threads(&mut out, profile, cells, total);
    out.push_str("<footer>");
    for line in closing {
        let _ = write!(out, "<div>{}</div>", text(line));
    }
    let _ = writeln!(out, "</footer><script>{SCRIPT}</script></html>");
    out
}

fn functions(out: &mut String, profile: &Profile, cells: &[Cell], total: u64) {
    let flat = Flat::of(profile, cells, Some(By::Function), Split::Merged, Order::Own);
    out.push_str(
        "<table id=\"functions\"><thead><tr><th class=\"n\">share<th><th class=\"n\">CPU s<th class=\"n\">with callees\
         <th>function<th>object</thead><tbody>",
    );
    let rows = &flat.rows;
    for row in rows.iter().take(ROWS) {
        let name = row.label.map_or_else(String::new, |l| l.name(profile));
        let object = row.label.and_then(|label| label.whereabouts(profile)).unwrap_or_default();
        let share = percent(row.own.cpu_ns(), total);
        let _ = write!(
            out,
            "<tr><td class=\"n\">{share:.1}%<td><span class=\"bar\" style=\"width:{:.1}em\"></span><td class=\"n\">{}\
             <td class=\"n\">{:.1}%<td class=\"f\">{}<td>{}",
            share / 8.0,
            seconds(row.own.cpu_ns()),
            percent(row.total.cpu_ns(), total),
            text(&cut(&name, 160)),
            text(&object),
        );
    }
    let rest = rows.iter().skip(ROWS).fold(0u64, |sum, r| sum.saturating_add(r.own.cpu_ns()));
    if rows.len() > ROWS {
        let _ = write!(
            out,
            "<tr><td class=\"n\">{:.1}%<td><td class=\"n\">{}<td><td>{} more<td>",
            percent(rest, total),
            seconds(rest),
            rows.len() - ROWS
        );
    }
    out.push_str("</tbody></table>");
}

fn threads(out: &mut String, profile: &Profile, cells: &[Cell], total: u64) {
    let mut sums: Vec<(u64, String)> =
        profile.threads.enumerate().map(|(id, _)| (0, thread_name(profile, id))).collect();
    for cell in cells {
        sums[pct_profile::model::Id::index(cell.thread)].0 += cell.weight.cpu_ns();
    }
    sums.retain(|s| s.0 > 0);
    sums.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    out.push_str("<table><thead><tr><th class=\"n\">share<th class=\"n\">CPU s<th>thread</thead><tbody>");
    for (ns, name) in sums {
        let _ = write!(
            out,
            "<tr><td class=\"n\">{:.1}%<td class=\"n\">{}<td>{}",
            percent(ns, total),
            seconds(ns),
            text(&name)
        );
    }
    out.push_str("</tbody></table>");
}

fn text(s: &str) -> String {
    let mut out = String::new();
    escape_into(&mut out, s);
    out
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn percent(part: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { part as f64 * 100.0 / total as f64 }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn seconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e9)
}
