//! Prints all figures of a preprocessed profile as JSON lines, for notebooks and databases, and to check the viewer.
//!
//! There is one object per line. Its first key gives its kind: `ps` procedures, `css` call sites, `module` modules,
//! `clique` cliques, each in ascending order. `own` has all nine figures, `total` (own and descendants, recursion
//! compensated) the four that callers inherit. Ticks are clock ticks, words machine words.

use std::io::{self, Write};

use pct_deep::{Desc, Figures, Own, Profile, SiteKind};
use serde::Serialize;

#[derive(Serialize)]
struct OwnRow {
    calls: i64,
    exits: i64,
    fails: i64,
    redos: i64,
    excps: i64,
    quanta: i64,
    callseqs: i64,
    allocs: i64,
    words: i64,
}

impl From<Own> for OwnRow {
    fn from(own: Own) -> Self {
        let Own { exits, fails, redos, excps, quanta, callseqs, allocs, words } = own;
        Self { calls: own.calls(), exits, fails, redos, excps, quanta, callseqs, allocs, words }
    }
}

#[derive(Serialize)]
struct TotalRow {
    quanta: i64,
    callseqs: i64,
    allocs: i64,
    words: i64,
}

impl From<Desc> for TotalRow {
    fn from(Desc { quanta, callseqs, allocs, words }: Desc) -> Self {
        Self { quanta, callseqs, allocs, words }
    }
}

#[derive(Serialize)]
struct Costs {
    own: OwnRow,
    total: TotalRow,
}

impl From<Figures> for Costs {
    fn from(f: Figures) -> Self {
        Self { own: f.own.into(), total: f.own.total(&f.desc).into() }
    }
}

#[derive(Serialize)]
struct PsRow<'a> {
    ps: u32,
    label: &'a str,
    raw: &'a str,
    module: &'a str,
    file: &'a str,
    line: u32,
    contexts: usize,
    #[serde(flatten)]
    costs: Costs,
}

#[derive(Serialize)]
struct CssRow<'a> {
    css: u32,
    container: u32,
    slot: usize,
    file: &'a str,
    line: u32,
    path: &'a str,
    kind: &'a str,
    callee: Option<u32>,
    #[serde(flatten)]
    costs: Costs,
}

#[derive(Serialize)]
struct ModuleRow<'a> {
    module: &'a str,
    procs: usize,
    #[serde(flatten)]
    costs: Costs,
}

#[derive(Serialize)]
struct CliqueRow {
    clique: u32,
    entry: Option<u32>,
    members: Vec<u32>,
    #[serde(flatten)]
    costs: Costs,
}

fn line(row: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    out.write_all(pct_text::visible_json(&serde_json::to_string(row)?).as_bytes())?;
    out.write_all(b"\n")
}

/// Prints the figures of a profile.
///
/// # Errors
/// The writer's.
pub fn print(p: &Profile, out: &mut impl Write) -> io::Result<()> {
    for ps in p.pss() {
        let row = PsRow {
            ps: ps.number(),
            label: &p.qualified_name(ps),
            raw: &p.raw_name(ps),
            module: &p.module_name(p.ps_module(ps)),
            file: &p.text(p.ps(ps).file),
            line: p.ps(ps).line,
            contexts: p.ps_pds(ps).len(),
            costs: p.ps_figures(ps).into(),
        };
        line(&row, out)?;
    }
    for id in p.csss() {
        let css = p.css(id);
        let row = CssRow {
            css: id.number(),
            container: p.css_container(id).number(),
            slot: p.css_slot(id),
            file: &p.css_file(id),
            line: css.line,
            path: &p.path(css.path).to_string(),
            kind: match css.kind.kind() {
                SiteKind::Normal => "normal",
                SiteKind::Special => "special",
                SiteKind::HigherOrder => "higher_order",
                SiteKind::Method => "method",
                SiteKind::Callback => "callback",
            },
            callee: css.kind.callee().map(|ps| ps.number()),
            costs: p.css_figures(id).into(),
        };
        line(&row, out)?;
    }
    for module in p.modules() {
        let row = ModuleRow {
            module: &p.module_name(module),
            procs: p.module_procs(module).len(),
            costs: p.module_figures(module).into(),
        };
        line(&row, out)?;
    }
    for clique in p.cliques() {
        let row = CliqueRow {
            clique: clique.number(),
            entry: p.clique_entry(clique).map(|csd| csd.number()),
            members: p.clique_members(clique).iter().map(|pd| pd.number()).collect(),
            costs: p.clique_figures(clique).into(),
        };
        line(&row, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_deep::Compensation;
    use pct_deep::synthetic::{Params, generate};
    use serde_json::Value;

    #[test]
    fn each_item_is_a_line_and_the_sums_agree() {
        let data = generate(&Params { contexts: 300, procs: 40, ..Params::default() }).unwrap();
        let p = Profile::new(data, Compensation::Exact).unwrap();
        let mut out = Vec::new();
        print(&p, &mut out).unwrap();
        let rows: Vec<Value> =
            String::from_utf8(out).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let of = |key: &str| rows.iter().filter(|r| r.get(key).is_some()).collect::<Vec<_>>();
        assert_eq!(of("ps").len(), p.ps_count());
        assert_eq!(of("css").len(), p.css_count());
        assert_eq!(of("module").len() - of("ps").len(), p.modules().len());
        assert_eq!(of("clique").len(), p.clique_count());
        let sum = |key: &str| -> i64 { of(key).iter().map(|r| r["own"]["callseqs"].as_i64().unwrap()).sum() };
        let whole = p.root_total().callseqs;
        assert_eq!((sum("ps"), sum("css"), sum("clique")), (whole, whole, whole));
        let root = of("ps")[0];
        assert_eq!(root["label"], "Mercury runtime.Mercury runtime/0-0");
        assert_eq!(root["total"]["callseqs"].as_i64(), Some(whole));
    }
}
