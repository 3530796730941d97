//! What pages cost: `cargo run --release -p pct-reports --example page_bench [FILE.data | CONTEXTS] [SHAPE]
//! [--lines N]`.
//!
//! Takes a profile (a file; or a made-up one of so many contexts, default 100,000: shape mixed, deep, wide, recursive,
//! closures, or bushy, which has procedure bodies and recursion of every type) and makes the HTML page of every command
//! for the ids that cost most: the largest cliques, the procedures with most contexts and callers, the largest modules.
//! For each kind it prints the worst page, at its first and at its second request, in milliseconds of processor time,
//! then the N slowest pages (default 12).
#![forbid(unsafe_code)]

use pct_deep::synthetic::{Params, Shape, generate};
use pct_deep::{Compensation, ProcRep, Profile};
use pct_kit::Cpu;
use pct_reports::page::{Request, html};
use pct_reports::query::{Cmd, Contour, Cost, Group, Incl, Limit, PrefsIndication, Scope};
use pct_reports::render::html::PageContext;
use pct_reports::report::ahead;
use pct_reports::subject::{RepState, Subject};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

struct Args {
    what: String,
    shape: String,
    lines: usize,
}

fn args() -> Args {
    let mut out = Args { what: "100000".to_owned(), shape: "mixed".to_owned(), lines: 12 };
    let mut args = std::env::args().skip(1);
    let mut place = 0;
    while let Some(arg) = args.next() {
        if arg == "--lines" {
            out.lines = args.next().and_then(|n| n.parse().ok()).unwrap_or(out.lines);
            continue;
        }
        if place == 0 {
            out.what = arg;
        } else {
            out.shape = arg;
        }
        place += 1;
    }
    out
}

fn load(args: &Args) -> Result<Subject, String> {
    let Ok(contexts) = args.what.parse::<u32>() else {
        return Subject::open(args.what.as_ref(), Compensation::Exact).map_err(|e| e.to_string());
    };
    if args.shape == "bushy" {
        let program = pct_feedback::synthetic::bushy(contexts as usize);
        let data = program.data().map_err(|e| e.to_string())?;
        let rep = ProcRep::new(program.rep()).map_err(|e| e.to_string())?;
        let profile = Profile::new(data, Compensation::Exact).map_err(|e| e.to_string())?;
        let mut subject = Subject::new(profile);
        subject.rep = RepState::Good(Box::new(rep));
        return Ok(subject);
    }
    let shape = Shape::ALL.into_iter().find(|s| format!("{s:?}").eq_ignore_ascii_case(&args.shape));
    let shape = shape.ok_or_else(|| format!("{}: no such shape", args.shape))?;
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
    let costs = [Cost::Callseqs, Cost::Words, Cost::Time];
    let mut out =
        vec![Cmd::Menu, Cmd::Root(None), Cmd::Root(Some(90)), Cmd::Root(Some(10)), Cmd::ProgramModules];
    let mut cliques = vec![p.root_clique()];
    cliques.extend(top(p.cliques(), |c| p.clique_members(c).len(), 8));
    cliques.extend(top(p.cliques(), |c| p.clique_members(c).iter().map(|&d| p.csds_of_pd(d).len()).sum(), 8));
    for c in cliques {
        let n = i64::from(c.number());
        out.extend([Cmd::Clique(n), Cmd::DumpClique(n), Cmd::CliqueRecursion(n)]);
        out.extend(costs.map(|cost| Cmd::CliqueTree(n, cost)));
        let pd = p.clique_entry_pd(c);
        out.extend([Cmd::DumpPd(pd.number().into()), Cmd::DynamicCoverage(pd.number().into())]);
        if let Some(csd) = p.clique_entry(c) {
            let n = i64::from(csd.number());
            out.extend([Cmd::DumpCsd(n), Cmd::VarUse(n), Cmd::DumpCss(p.csd_css(csd).number().into())]);
        }
    }
    let mut procs = top(p.pss(), |ps| p.calls_of(ps).len(), 8);
    procs.extend(top(p.pss(), |ps| p.sites(ps).len() * p.ps_pds(ps).len(), 4));
    for ps in procs {
        let n = i64::from(ps.number());
        out.extend([Cmd::Proc(n), Cmd::StaticCoverage(n), Cmd::DumpPs(n), Cmd::Feedback(Some(n))]);
        out.push(Cmd::ProcNamed(p.raw_name(ps)));
        for &group in Group::ALL {
            out.push(Cmd::ProcCallers { ps: n, group, bunch: 1, size: 20, contour: Contour::Ignore });
        }
    }
    for m in top(p.modules(), |m| p.module_procs(m).len(), 4) {
        let name = p.module_name(m).into_owned();
        out.extend([Cmd::Module(name.clone()), Cmd::GettersSetters(name.clone()), Cmd::ModuleRep(name)]);
    }
    for cost in costs {
        out.push(Cmd::top(Limit::Ranks(1, 100), cost, Incl::Own));
        out.push(Cmd::TopProcs { limit: Limit::Value(1.0), cost, incl: Incl::Total, scope: Scope::PerCall });
    }
    out.extend([Cmd::Search("a".to_owned()), Cmd::Search("proc 7".to_owned())]);
    out.extend([Cmd::RecursionTypeFreq, Cmd::Feedback(None)]);
    out
}

struct Row {
    first: f64,
    again: f64,
    octets: usize,
    /// Wall-clock time of the first request.
    wall: f64,
    text: String,
}

fn main() {
    let args = args();
    let start = Instant::now();
    let subject = Arc::new(load(&args).unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(1);
    }));
    let p = &subject.profile;
    eprintln!(
        "{} contexts, {} edges, {} cliques, {} procedures; ready after {:.1} s",
        p.pd_count(),
        p.csd_count(),
        p.clique_count(),
        p.ps_count(),
        start.elapsed().as_secs_f64()
    );
    // Like servers, which answer meanwhile.
    let before = Instant::now();
    if let Some(thread) = ahead::prepare(&subject) {
        let _ = thread.join();
    }
    eprintln!("prepared after {:.2} s more", before.elapsed().as_secs_f64());
    let place = PageContext { file: "x.data".to_owned(), ..PageContext::default() };
    let mut seen = HashSet::new();
    let mut kinds: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for cmd in commands(&subject) {
        let text = cmd.to_string();
        if !seen.insert(text.clone()) {
            continue;
        }
        let request = Request { cmd, page: 1, prefs: PrefsIndication::Default };
        let timed = || {
            let (start, wall) = (Cpu::own().total(), Instant::now());
            let page = html(&subject, &request, &place);
            ((Cpu::own().total() - start) * 1e3, page.body.len(), wall.elapsed().as_secs_f64() * 1e3)
        };
        let (first, octets, wall) = timed();
        let again = timed().0.min(timed().0);
        let kind = text.split('/').next().unwrap_or_default().to_owned();
        kinds.entry(kind).or_default().push(Row { first, again, octets, wall, text });
    }
    println!(
        "{:<26} {:>5} {:>10} {:>10} {:>10}  slowest",
        "kind", "pages", "first ms", "again ms", "max bytes"
    );
    for (kind, rows) in &kinds {
        let most = |f: fn(&Row) -> f64| rows.iter().map(f).fold(0.0, f64::max);
        let octets = rows.iter().map(|r| r.octets).max().unwrap_or(0);
        let slowest = rows.iter().max_by(|a, b| a.first.total_cmp(&b.first)).map_or("", |r| r.text.as_str());
        println!(
            "{kind:<26} {:>5} {:>10.2} {:>10.2} {octets:>10}  {slowest}",
            rows.len(),
            most(|r| r.first),
            most(|r| r.again)
        );
    }
    let mut all: Vec<&Row> = kinds.values().flatten().collect();
    all.sort_by(|a, b| b.first.total_cmp(&a.first));
    println!("\n{:>10} {:>10} {:>10} {:>10}  slowest", "first ms", "again ms", "bytes", "first wall");
    for r in all.iter().take(args.lines) {
        println!("{:>10.2} {:>10.2} {:>10} {:>10.2}  {}", r.first, r.again, r.octets, r.wall, r.text);
    }
}
