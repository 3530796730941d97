//! What pages cost: `cargo run --release -p pct-reports --example page_bench [FILE.data | CONTEXTS] [SHAPE]`.
//!
//! Takes a profile (a file, or a generated one of so many contexts, default 100,000; shape mixed, deep, wide, recursive or
//! closures) and makes the HTML page of every kind for the ids that cost most: the largest cliques, the procedures with
//! most contexts and callers, the largest modules. Prints median and worst for each kind, in milliseconds.
#![forbid(unsafe_code)]

use pct_deep::synthetic::{Params, Shape, generate};
use pct_deep::{Compensation, Profile};
use pct_reports::page::{Request, html};
use pct_reports::query::{Cmd, Contour, Cost, Group, Incl, Limit, PrefsIndication, Scope};
use pct_reports::render::html::Place;
use pct_reports::subject::Subject;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;

fn load() -> Result<Subject, String> {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_else(|| "100000".to_owned());
    let Ok(contexts) = what.parse::<u32>() else {
        return Subject::open(what.as_ref(), Compensation::Exact).map_err(|e| e.to_string());
    };
    let shape = match args.next().as_deref() {
        Some("deep") => Shape::Deep,
        Some("wide") => Shape::Wide,
        Some("recursive") => Shape::Recursive,
        Some("closures") => Shape::Closures,
        _ => Shape::Mixed,
    };
    let params = Params { shape, contexts, procs: (contexts / 100).clamp(100, 20_000), ..Params::default() };
    let data = generate(&params).map_err(|e| e.to_string())?;
    let profile = Profile::new(data, Compensation::Exact).map_err(|e| e.to_string())?;
    Ok(Subject::new(profile))
}

fn top<T: Copy>(ids: impl Iterator<Item = T>, key: impl Fn(T) -> usize, n: usize) -> Vec<T> {
    let mut all: Vec<(usize, T)> = ids.map(|i| (key(i), i)).collect();
    all.sort_by_key(|&(k, _)| Reverse(k));
    all.into_iter().take(n).map(|(_, i)| i).collect()
}

fn commands(subject: &Subject) -> Vec<Cmd> {
    let p = &subject.profile;
    let mut out = vec![Cmd::Menu, Cmd::Root(None), Cmd::Root(Some(90)), Cmd::ProgramModules];
    let mut cliques = top(p.cliques(), |c| p.clique_members(c).len(), 8);
    cliques.extend(top(
        p.cliques(),
        |c| p.clique_members(c).iter().map(|&d| p.csds_of_pd(d).count()).sum(),
        8,
    ));
    for c in cliques {
        let n = i64::from(c.number());
        out.extend([Cmd::Clique(n), Cmd::DumpClique(n), Cmd::CliqueTree(n, Cost::Callseqs)]);
    }
    for ps in top(p.pss(), |ps| p.ps_pds(ps).iter().map(|&d| p.pd_callers(d).len()).sum(), 8) {
        let n = i64::from(ps.number());
        out.extend([Cmd::Proc(n), Cmd::StaticCoverage(n)]);
        for &group in Group::ALL {
            out.push(Cmd::ProcCallers { ps: n, group, bunch: 1, size: 20, contour: Contour::Ignore });
        }
    }
    for m in top(p.modules(), |m| p.module_procs(m).len(), 4) {
        let name = p.module_name(m).into_owned();
        out.extend([Cmd::Module(name.clone()), Cmd::GettersSetters(name)]);
    }
    for cost in [Cost::Callseqs, Cost::Words] {
        out.push(Cmd::top(Limit::Ranks(1, 100), cost, Incl::Own));
        out.push(Cmd::TopProcs { limit: Limit::Value(1.0), cost, incl: Incl::Total, scope: Scope::PerCall });
    }
    out.extend([Cmd::Search("a".to_owned()), Cmd::Search("proc 7".to_owned())]);
    out
}

fn main() {
    let start = Instant::now();
    let subject = load().unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(1);
    });
    let p = &subject.profile;
    eprintln!(
        "{} contexts, {} edges, {} cliques, {} procedures; ready after {:.1} s",
        p.pd_count(),
        p.csd_count(),
        p.clique_count(),
        p.ps_count(),
        start.elapsed().as_secs_f64()
    );
    let mut times: BTreeMap<String, Vec<(f64, usize, String)>> = BTreeMap::new();
    for cmd in commands(&subject) {
        let request = Request { cmd: cmd.clone(), page: 1, prefs: PrefsIndication::Default };
        let place = Place { file: "x.data".to_owned(), ..Place::default() };
        let mut best = f64::INFINITY;
        let mut size = 0;
        for _ in 0..3 {
            let start = Instant::now();
            size = html(&subject, &request, &place).body.len();
            best = best.min(start.elapsed().as_secs_f64() * 1e3);
        }
        let text = cmd.to_string();
        let kind = text.split('/').next().unwrap_or_default().to_owned();
        times.entry(kind).or_default().push((best, size, text));
    }
    println!(
        "{:<24} {:>6} {:>10} {:>10} {:>10}  worst",
        "kind", "pages", "median ms", "worst ms", "max bytes"
    );
    for (kind, mut rows) in times {
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let worst = &rows[rows.len() - 1];
        let size = rows.iter().map(|r| r.1).max().unwrap_or(0);
        println!(
            "{kind:<24} {:>6} {:>10.2} {:>10.2} {size:>10}  {}",
            rows.len(),
            rows[rows.len() / 2].0,
            worst.0,
            worst.2
        );
    }
}
