//! Makes every page of a profile: each command for each id, each link on each page.
//!
//! A page is bad if it has no report although its id is valid, if making it panics, if a table's rows do not span its
//! columns, if a link does not print and parse as itself, or if a link leads to a page that cannot be made.

use crate::page_files::PageFiles;
use crate::program::Program;
use pct_deep::{Compensation, Contexts, Reading};
use pct_reports::display::{Display, Item, Link, List};
use pct_reports::page::{self, Request};
use pct_reports::query::{
    Cmd, Contour, Cost, CostOrder, DiffScale, DiffWhat, Group, Incl, Limit, Order, Prefs, PrefsIndication,
    Query, Scope, WaitsOf,
};
use pct_reports::render::html::PageContext;
use pct_reports::render::text::TextOptions;
use pct_reports::subject::Subject;
use pct_text::complain;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a sweep covers.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// At most this many ids of each kind, evenly spread; `None`: all.
    pub sample: Option<usize>,
    /// Whether every link is followed by one step.
    pub follow: bool,
    /// Kinds of pages; empty: all. The words are those of the query language.
    pub only: Option<Vec<String>>,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct SweepResult {
    /// Pages made, by kind.
    pub pages: BTreeMap<String, u64>,
    /// Number of links checked.
    pub links: u64,
    /// Errors: a query and a reason.
    pub errors: Vec<(String, String)>,
    /// Pages that rightly say that there is nothing to show for this id (no body, no coverage), by reason.
    pub absent: BTreeMap<String, u64>,
}

/// Reasons that are valid answers: the data lacks what the page would show.
const ABSENT: &[&str] = &[
    "There is no readable procedure representation information file.",
    "no coverage",
    "has no body in the program representation",
    "was never called",
    "bad sort",
    "bad threshold",
    "entry procedure",
    "cannot be analysed",
    "The program representation has no module named",
    "The stacks are known only where",
    "Whose time it was is known only of recordings",
    "Waits are known only of recordings",
    "is not at hand",
    "nothing to compare with",
];

/// The commands of every kind for every id.
#[must_use]
pub fn commands(subject: &Subject, options: &SweepOptions) -> Vec<Cmd> {
    let profile = &subject.profile;
    let ids = |count: usize| -> Vec<i64> {
        let step = options.sample.map_or(1, |n| count.div_ceil(n.max(1)).max(1));
        (1..=i64::try_from(count).unwrap_or(i64::MAX)).step_by(step).collect()
    };
    let mut out = vec![
        Cmd::Menu,
        Cmd::Root(None),
        Cmd::RecursionTypeFreq,
        Cmd::Feedback(None),
        Cmd::ProgramModules,
        Cmd::Timeout(30),
        Cmd::Quit,
        Cmd::Restart,
        Cmd::Search("a".to_owned()),
        Cmd::Search(String::new()),
        Cmd::Flame,
        Cmd::Owners,
        Cmd::Waits(WaitsOf::Locks),
        Cmd::Waits(WaitsOf::Work),
        Cmd::Recordings,
    ];
    out.extend([0, 1, 50, 90, 99, 101].map(|p| Cmd::Root(Some(p))));
    for &cost in Cost::ALL {
        for &incl in Incl::ALL {
            for &scope in Scope::ALL {
                for limit in
                    [Limit::Ranks(1, 10), Limit::Ranks(5, 100_000), Limit::Percent(0.1), Limit::Value(1000.0)]
                {
                    out.push(Cmd::TopProcs { limit, cost, incl, scope });
                }
            }
        }
    }
    let cliques = ids(profile.clique_count());
    out.extend(cliques.iter().map(|&n| Cmd::Clique(n)));
    out.extend(cliques.iter().map(|&n| Cmd::CliqueRecursion(n)));
    out.extend(cliques.iter().map(|&n| Cmd::DumpClique(n)));
    out.push(Cmd::CliqueTree(0, Cost::Time));
    for &n in &cliques {
        out.extend([Cost::Time, Cost::Callseqs].map(|c| Cmd::CliqueTree(n, c)));
    }
    for base in subject.shelf.iter().flat_map(|s| s.entries()) {
        for &what in DiffWhat::ALL {
            for &incl in Incl::ALL {
                for &scale in DiffScale::ALL {
                    out.push(Cmd::Diff { base: base.name.clone(), what, incl, scale });
                }
            }
        }
    }
    let pss = ids(profile.ps_count());
    out.extend(pss.iter().map(|&n| Cmd::Proc(n)));
    out.extend(pss.iter().map(|&n| Cmd::StaticCoverage(n)));
    out.extend(pss.iter().map(|&n| Cmd::Feedback(Some(n))));
    out.extend(pss.iter().map(|&n| Cmd::DumpPs(n)));
    for &ps in &pss {
        for &group in Group::ALL {
            out.push(Cmd::ProcCallers { ps, group, bunch: 1, size: 20, contour: Contour::Ignore });
        }
    }
    let pds = ids(profile.pd_count());
    out.extend(pds.iter().map(|&n| Cmd::DumpPd(n)));
    out.extend(pds.iter().map(|&n| Cmd::DynamicCoverage(n)));
    out.extend(ids(profile.css_count()).iter().map(|&n| Cmd::DumpCss(n)));
    let csds = ids(profile.csd_count());
    out.extend(csds.iter().map(|&n| Cmd::DumpCsd(n)));
    out.extend(csds.iter().map(|&n| Cmd::VarUse(n)));
    for m in profile.modules() {
        let name = profile.module_name(m).into_owned();
        out.push(Cmd::GettersSetters(name.clone()));
        out.push(Cmd::ModuleRep(name.clone()));
        out.push(Cmd::Module(name));
    }
    out.extend(
        pss.iter().take(50).filter_map(|&n| profile.ps_id(n).map(|ps| Cmd::ProcNamed(profile.raw_name(ps)))),
    );
    if let Some(only) = &options.only {
        out.retain(|c| only.contains(&kind(c)));
    }
    out
}

/// Commands whose id does not exist: their pages must say so.
#[must_use]
pub fn invalid_commands(subject: &Subject) -> Vec<Cmd> {
    let profile = &subject.profile;
    let beyond = |count: usize| {
        [0, -1, i64::try_from(count).map_or(i64::MAX, |n| n.saturating_add(1)), i64::MAX, i64::MIN]
    };
    let mut out = Vec::new();
    for n in beyond(profile.clique_count()) {
        out.extend([Cmd::Clique(n), Cmd::CliqueRecursion(n), Cmd::DumpClique(n)]);
        // There 0 is the root.
        out.extend((n != 0).then_some(Cmd::CliqueTree(n, Cost::Words)));
    }
    for n in beyond(profile.ps_count()) {
        out.extend([Cmd::Proc(n), Cmd::StaticCoverage(n), Cmd::DumpPs(n), Cmd::Feedback(Some(n))]);
        out.push(Cmd::ProcCallers {
            ps: n,
            group: Group::Proc,
            bunch: 1,
            size: 20,
            contour: Contour::Ignore,
        });
    }
    for n in beyond(profile.pd_count()) {
        out.extend([Cmd::DumpPd(n), Cmd::DynamicCoverage(n)]);
    }
    for n in beyond(profile.css_count()) {
        out.push(Cmd::DumpCss(n));
    }
    for n in beyond(profile.csd_count()) {
        out.extend([Cmd::DumpCsd(n), Cmd::VarUse(n)]);
    }
    let bad = || "no such <module>".to_owned();
    out.extend([
        Cmd::Module(bad()),
        Cmd::GettersSetters(bad()),
        Cmd::ModuleRep(bad()),
        Cmd::ProcNamed(bad()),
        Cmd::Source("/etc/passwd".to_owned(), 1),
        Cmd::Diff { base: bad(), what: DiffWhat::Procs, incl: Incl::Own, scale: DiffScale::Shares },
    ]);
    for (bunch, size) in [(0, 20), (1, 0), (-1, -1)] {
        out.push(Cmd::ProcCallers { ps: 1, group: Group::Proc, bunch, size, contour: Contour::Ignore });
    }
    out
}

/// The keyword of a command.
#[must_use]
pub fn kind(cmd: &Cmd) -> String {
    let text = cmd.to_string();
    text.split('/').next().unwrap_or_default().to_owned()
}

/// Makes every page of every kind and checks every link. `progress` is called for each page.
pub fn sweep(subject: &Subject, options: &SweepOptions, progress: &mut dyn FnMut(&Cmd)) -> SweepResult {
    sweep_to(subject, options, &mut |_, _| {}, progress)
}

/// The same. Each page is passed to `keep` as a reader with default preferences would see it.
pub fn sweep_to(
    subject: &Subject,
    options: &SweepOptions,
    keep: &mut dyn FnMut(&Cmd, &str),
    progress: &mut dyn FnMut(&Cmd),
) -> SweepResult {
    let mut result = SweepResult::default();
    let mut followed = Followed::new();
    // The page is made again with everything shown: other rows, other columns, another order.
    let order = Order::Cost(CostOrder { cost: Cost::Callseqs, incl: Incl::Total, scope: Scope::PerCall });
    let everything = Prefs {
        order,
        developer: pct_reports::query::Developer::On,
        inactive_sites: pct_reports::query::Inactive::Show,
        inactive_procs: pct_reports::query::Inactive::Show,
        inactive_modules: pct_reports::query::Inactive::Show,
        ancestors: None,
        ..Prefs::with_all_fields(true)
    };
    for cmd in commands(subject, options) {
        progress(&cmd);
        *result.pages.entry(kind(&cmd)).or_default() += 1;
        let prefs = subject.prefs_for(&cmd, PrefsIndication::Default);
        for p in [prefs, everything] {
            let page = check(subject, &cmd, p, options.follow.then_some(&mut followed), &mut result);
            if p == prefs {
                keep(&cmd, &page);
            }
        }
    }
    if options.only.is_none() {
        for cmd in invalid_commands(subject) {
            let request = Request { cmd: cmd.clone(), page: 1, prefs: PrefsIndication::Default };
            let page = page::html(subject, &request, &PageContext::default());
            match page.failure {
                None => result.errors.push((cmd.to_string(), "an invalid id has a page".to_owned())),
                Some(f) if f.contains("internal software error") => result.errors.push((cmd.to_string(), f)),
                Some(_) => {}
            }
        }
    }
    result
}

/// Links followed so far. Reports do not depend on preferences, so command and page identify a link.
type Followed = HashSet<String>;

fn check(
    subject: &Subject,
    cmd: &Cmd,
    prefs: Prefs,
    mut follow: Option<&mut Followed>,
    result: &mut SweepResult,
) -> String {
    let request = Request { cmd: cmd.clone(), page: 1, prefs: PrefsIndication::Given(prefs) };
    let place = PageContext { file: "x.data".to_owned(), ..PageContext::default() };
    let page = page::html(subject, &request, &place);
    let mut bad = |what: String| result.errors.push((cmd.to_string(), what));
    if let Some(failure) = page.failure {
        match ABSENT.iter().find(|a| failure.contains(**a)) {
            Some(reason) => *result.absent.entry(format!("{}: {reason}", kind(cmd))).or_default() += 1,
            None => bad(failure),
        }
        return page.body;
    }
    let (display, _) = page::display(subject, &request);
    for problem in table_problems(&display) {
        bad(problem);
    }
    let text = page::text(subject, &request, &TextOptions { width: Some(100), commands: true, quiet: false });
    if text.failure.is_some() || text.body.is_empty() {
        bad("the text form is broken".to_owned());
    }
    let json = page::json(subject, &request);
    if json.failure.is_some() || json.body.len() < 20 {
        bad("the json form is broken".to_owned());
    }
    for link in display.links() {
        result.links += 1;
        if let Some(problem) = link_problem(subject, link, follow.as_deref_mut()) {
            result.errors.push((cmd.to_string(), problem));
        }
    }
    page.body
}

fn table_problems(display: &Display) -> Vec<String> {
    fn walk(item: &Item, out: &mut Vec<String>) {
        match item {
            Item::Table(t) => {
                if let Err(row) = t.check() {
                    out.push(format!("row {row} of a table does not span its {} columns", t.columns));
                }
            }
            Item::List(List { items, .. }) => items.iter().for_each(|i| walk(i, out)),
            Item::Columns(columns) => columns.iter().flatten().for_each(|i| walk(i, out)),
            Item::Developer(i) => walk(i, out),
            _ => {}
        }
    }
    let mut out = Vec::new();
    display.items.iter().chain(&display.controls).for_each(|i| walk(i, &mut out));
    out
}

fn link_problem(subject: &Subject, link: &Link, follow: Option<&mut Followed>) -> Option<String> {
    let file = "/tmp/a file.data";
    let text = pct_reports::query::print(&link.cmd, link.page, link.prefs.as_ref(), file);
    let expected = Query { cmd: link.cmd.clone(), page: link.page, prefs: link.prefs, file: file.to_owned() };
    if Query::parse(&text) != Ok(expected) {
        return Some(format!("the link {text} does not parse as itself"));
    }
    if let Some(followed) = follow
        && !link.cmd.is_control()
        && followed.insert(pct_reports::query::print_cmd(&link.cmd, link.page))
    {
        let request = Request {
            cmd: link.cmd.clone(),
            page: link.page,
            prefs: link.prefs.map_or(PrefsIndication::Default, PrefsIndication::Given),
        };
        let failure = page::report(subject, &request).failure().map(|f| f.0.clone());
        if let Some(f) = failure.filter(|f| !ABSENT.iter().any(|a| f.contains(a))) {
            return Some(format!("the link {text} leads to an error: {f}"));
        }
    }
    None
}

const PROGRAM: Program = Program {
    name: "mdprof_test",
    usage: "\
Usage: mdprof_test [options] FILE.data

Makes every page of a deep profile and looks at every link; status 1 if one is bad.

  --verify-profile FILE...  only read and preprocess; silent on success
  --sample N                at most N ids of each kind
  --only KIND[,KIND...]     only these kinds of pages (as in queries: proc, clique, ...)
  --no-follow               do not follow links
  -T, --test                write the pages, too
  --test-dir DIR            below this folder (deep_test), a thousand to a folder; implies --test
  --no-compress             as they are, not gzipped
  --static-procrep-coverage, --dynamic-procrep-coverage, --recursion-types-histogram
                            only these kinds of pages
  -c, --canonical-clique    one context for each procedure of a clique
      --compat-compensation     compensate recursion as the original tool does
  -v, --verbose             say what is done
  -h, --help                this text
  -V, --version             the version",
};

/// Prints the result of a sweep.
fn print(found: &SweepResult, file: &Path) -> io::Result<()> {
    let out = &mut BufWriter::new(io::stdout().lock());
    let pages: u64 = found.pages.values().sum();
    writeln!(out, "{}: {pages} pages, {} links, {} errors", file.display(), found.links, found.errors.len())?;
    for (kind, n) in &found.pages {
        writeln!(out, "  {n:>8} {kind}")?;
    }
    for (reason, n) in &found.absent {
        writeln!(out, "  {n:>8} {reason} (nothing to show)")?;
    }
    for (query, what) in found.errors.iter().take(100) {
        writeln!(out, "  error: {query}: {what}")?;
    }
    out.flush()
}

/// The program `mdprof_test`.
#[must_use]
pub fn main() -> ExitCode {
    PROGRAM.run(run)
}

fn run(mut parser: lexopt::Parser) -> Result<ExitCode, lexopt::Error> {
    use lexopt::prelude::*;
    let mut files: Vec<PathBuf> = Vec::new();
    let mut options = SweepOptions { sample: None, follow: true, only: None };
    let (mut verify, mut verbose) = (false, false);
    let mut reading = Reading::from(Compensation::Exact);
    let (mut store, mut compress, mut kinds): (Option<PathBuf>, _, Vec<String>) = (None, true, Vec::new());
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(PROGRAM.help()),
            Short('V') | Long("version") => return Ok(PROGRAM.version()),
            Short('v') | Long("verbose") => verbose = true,
            Long("verify-profile") => verify = true,
            Long("no-follow") => options.follow = false,
            Long("compat-compensation") => reading.rule = Compensation::Compat,
            Short('c') | Long("canonical-clique") => reading.contexts = Contexts::Canonical,
            Short('T') | Long("test") => {
                store.get_or_insert_with(|| PathBuf::from("deep_test"));
            }
            Long("test-dir") => store = Some(parser.value()?.into()),
            Long("no-compress") => compress = false,
            Long("compress") => compress = true,
            Long("static-procrep-coverage") => kinds.push("proc_static_coverage".to_owned()),
            Long("dynamic-procrep-coverage") => kinds.push("proc_dynamic_coverage".to_owned()),
            Long("recursion-types-histogram") => kinds.push("recursion_type_freq".to_owned()),
            Long("sample") => options.sample = Some(parser.value()?.parse()?),
            Long("only") => {
                kinds.extend(parser.value()?.string()?.split(',').map(str::to_owned));
            }
            Value(file) => files.push(file.into()),
            _ => return Err(arg.unexpected()),
        }
    }
    if files.is_empty() {
        if !verify {
            return Err("a data file is needed".into());
        }
        files.push("Deep.data".into());
    }
    if !kinds.is_empty() {
        options.only = Some(kinds);
    }
    let mut pages = store.map(|dir| PageFiles::below(dir, compress));
    let mut bad = false;
    for file in &files {
        let subject = match Subject::open(file, reading) {
            Ok(s) => s,
            Err(e) => {
                complain!("mdprof_test: {e}");
                bad = true;
                continue;
            }
        };
        if verify {
            continue;
        }
        let mut last = String::new();
        let mut unwritten = None;
        let mut keep = |cmd: &Cmd, page: &str| {
            if let (Some(pages), None) = (&mut pages, &unwritten) {
                unwritten = pages.store(&kind(cmd), page).err();
            }
        };
        let result = sweep_to(&subject, &options, &mut keep, &mut |cmd| {
            if verbose && kind(cmd) != last {
                last = kind(cmd);
                complain!("{last}");
            }
        });
        if let Some(e) = unwritten {
            complain!("mdprof_test: pages cannot be written: {e}");
            bad = true;
        }
        bad |= !result.errors.is_empty() || PROGRAM.finish(print(&result, file)) != ExitCode::SUCCESS;
    }
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
