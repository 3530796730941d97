//! Claims about a real profile: `deep/mandelbrot` of the test data. Without it these tests say so and pass.

use pct_deep::Compensation;
use pct_reports::page::{self, Request};
use pct_reports::query::{Cmd, Contour, Cost, Group, Incl, Limit, PrefsIndication};
use pct_reports::render::html::PageContext;
use pct_reports::render::text::TextOptions;
use pct_reports::report::recursion::TypeKey;
use pct_reports::report::{Report, coverage};
use pct_reports::subject::Subject;

fn subject() -> Option<Subject> {
    let file = pct_kit::real("deep/mandelbrot/Deep.data")?;
    Some(Subject::open(&file, Compensation::Exact).expect("the sample is readable"))
}

fn report(subject: &Subject, cmd: Cmd) -> Report {
    page::report(subject, &Request { cmd, page: 1, prefs: PrefsIndication::Default })
}

fn top(subject: &Subject, cost: Cost, incl: Incl) -> Vec<(String, i64, i64)> {
    let Report::TopProcs(Ok(r)) = report(subject, Cmd::top(Limit::Ranks(1, 10), cost, incl)) else {
        panic!("a top list")
    };
    r.procs
        .into_iter()
        .map(|p| {
            let total = p.perf.total.expect("totals").callseqs;
            (p.desc.qualified_name, p.perf.own.callseqs, total)
        })
        .collect()
}

#[test]
fn the_ten_largest_are_those_known_from_other_tools() {
    let Some(s) = subject() else { return };
    let own = top(&s, Cost::Callseqs, Incl::Own);
    let expected = [
        ("math.sqrt/2+1-0", 100_996_502, 100_996_502),
        ("mandelbrot.escape/7-0", 100_976_685, 201_933_309),
        ("float.float/2+1-0", 159_514, 159_514),
        ("io.write_byte/4-0", 120_015, 120_015),
        ("cord.foldl_node_pred/4-2", 79_999, 239_999),
        ("mandelbrot.component_gradient/4-0", 59_817, 239_268),
        ("float.round_to_int/2+1-0", 59_817, 59_817),
        ("mandelbrot.draw_row_2/4-0", 40_200, 202_352_472),
        ("cord.snoc/3+1-0", 40_000, 40_000),
        ("mandelbrot.write_colour/4-0", 40_000, 160_000),
    ];
    let own: Vec<(&str, i64, i64)> = own.iter().map(|(n, a, b)| (n.as_str(), *a, *b)).collect();
    assert_eq!(own, expected);
    let total = top(&s, Cost::Callseqs, Incl::Total);
    assert_eq!((total[0].0.as_str(), total[0].2), ("mandelbrot.main/2-0", 202_594_348));
    assert_eq!((total[9].0.as_str(), total[9].2), ("cord.foldl_node_pred/4-2", 239_999));
}

#[test]
fn the_action_starts_at_escape() {
    let Some(s) = subject() else { return };
    let Report::Clique(Ok(r)) = report(&s, Cmd::Root(Some(90))) else { panic!("a clique") };
    assert_eq!((r.clique.clique, r.clique.entry.name.as_str()), (91, "escape/7-0"));
    assert_eq!(r.ancestors.len(), 6);
    // A percentage that nothing reaches stays at the root. One that everything reaches cannot choose.
    for percent in [101, 0] {
        let Report::Clique(Ok(r)) = report(&s, Cmd::Root(Some(percent))) else { panic!("a clique") };
        assert_eq!(r.clique.clique, 185, "{percent}");
    }
}

#[test]
fn the_closure_call_of_my_map_costs_what_other_tools_say() {
    let Some(s) = subject() else { return };
    let Report::Proc(Ok(r)) = report(&s, Cmd::Proc(57)) else { panic!("a procedure") };
    let site = &r.sites[0];
    assert_eq!((site.kind, site.site.line, site.site.goal_path.as_str()), ("higher_order", 296, "s2-na;c2;"));
    let per_call = site.summary.total.as_ref().expect("totals").callseqs_per_call;
    assert_eq!(format!("{per_call:.2}"), "1011764.36");
    let Report::CliqueRecursion(Ok(r)) = report(&s, Cmd::CliqueRecursion(112)) else { panic!("recursion") };
    let json = serde_json::to_value(&r.kind).expect("serializes");
    assert_eq!(json["single"]["depth"], 201.0);
    assert_eq!(json["single"]["recursive"]["count"], 200.0);
}

#[test]
fn callers_of_a_procedure_sum_up_to_its_cost_from_outside() {
    let Some(s) = subject() else { return };
    let calls: Vec<i64> = Group::ALL
        .iter()
        .map(|&group| {
            let cmd = Cmd::ProcCallers { ps: 62, group, bunch: 1, size: 20, contour: Contour::Ignore };
            let Report::Callers(Ok(r)) = report(&s, cmd) else { panic!("callers") };
            r.rows.iter().map(|row| row.perf.calls).sum()
        })
        .collect();
    assert!(calls.iter().all(|&c| c == 100_996_502), "{calls:?}");
}

#[test]
fn the_counts_of_every_context_and_procedure_add_up() {
    let Some(s) = subject() else { return };
    let mut made = 0;
    for pd in s.profile.pds() {
        if let Ok(r) = coverage::of_pd(&s, i64::from(pd.number())) {
            assert_eq!(r.problems, Vec::<String>::new(), "context {pd}");
            assert!(r.goals.iter().all(|g| g.before.is_some() && g.after.is_some()));
            made += 1;
        }
    }
    assert_eq!(made, 159);
    for ps in s.profile.pss().filter(|&ps| !s.profile.ps_pds(ps).is_empty()) {
        if let Ok(r) = coverage::of_ps(&s, i64::from(ps.number())) {
            assert_eq!(r.problems, Vec::<String>::new(), "procedure {ps}");
        }
    }
}

#[test]
fn types_of_recursion_are_counted_once_for_each_clique() {
    let Some(s) = subject() else { return };
    let Report::Frequencies(Ok(r)) = report(&s, Cmd::RecursionTypeFreq) else { panic!("frequencies") };
    let counts: Vec<(&TypeKey, usize)> = r.types.iter().map(|t| (&t.key, t.count)).collect();
    let sum: usize = counts.iter().filter(|c| !matches!(c.0, TypeKey::Error(_))).map(|c| c.1).sum();
    assert_eq!(sum, 185);
    assert!(counts.contains(&(&TypeKey::Single, 23)), "{counts:?}");
    assert!(counts.contains(&(&TypeKey::DivideAndConquer, 2)), "{counts:?}");
}

#[test]
fn names_survive_where_numbers_would_not() {
    let Some(s) = subject() else { return };
    let by_name = report(&s, Cmd::ProcNamed("mandelbrot.escape/7-0".into()));
    let by_number = report(&s, Cmd::Proc(61));
    assert_eq!(serde_json::to_value(by_name).ok(), serde_json::to_value(by_number).ok());
}

#[test]
fn a_search_finds_names_modules_and_lines() {
    let Some(s) = subject() else { return };
    let find = |text: &str| {
        let Report::Search(r) = report(&s, Cmd::Search(text.into())) else { panic!("search") };
        r
    };
    assert_eq!(find("ESCAPE mandel").procs[0].desc.name, "escape/7-0");
    assert!(find("mandelbrot").modules.contains(&"mandelbrot".to_owned()));
    // Line 250 is within escape, which begins at 245.
    assert!(find("mandelbrot.m:250").procs.iter().any(|p| p.desc.name == "escape/7-0"));
    assert!(find("").procs.is_empty());
}

#[test]
fn my_map_could_run_in_parallel_and_its_pages_lead_there() {
    let Some(s) = subject() else { return };
    let Report::Feedback(Ok(all)) = report(&s, Cmd::Feedback(None)) else { panic!("feedback") };
    let [c] = all.candidates.as_slice() else { panic!("one candidate") };
    assert_eq!((c.desc.qualified_name.as_str(), c.goal_path.as_str()), ("mandelbrot.my_map/3-0", "s2-na;"));
    assert_eq!((c.calls, c.conjuncts, c.depends_on.len()), (200, 2, 0));
    // A little less than twice as fast: one sparking delay and one wake-up are lost.
    assert!((c.sequential - 2_023_529.72).abs() < 0.01 && (c.parallel - 1_013_765.36).abs() < 0.01);
    let Report::Feedback(Ok(one)) = report(&s, Cmd::Feedback(Some(57))) else { panic!("feedback") };
    assert!(one.text.contains("          mandelbrot.my_map(V_8, V_9, M, Xs, Ys)\n"), "{}", one.text);
    let Report::Feedback(Ok(none)) = report(&s, Cmd::Feedback(Some(3))) else { panic!("feedback") };
    assert!(none.candidates.is_empty() && none.text.is_empty());
    let html = |cmd| {
        let request = Request { cmd, page: 1, prefs: PrefsIndication::Default };
        page::html(&s, &request, &pct_reports::render::html::PageContext::default()).body
    };
    for cmd in [Cmd::Proc(57), Cmd::StaticCoverage(57)] {
        assert!(html(cmd.clone()).contains("href=\"?feedback/57"), "{cmd}");
    }
    // The root's procedure has no body.
    assert!(!html(Cmd::Proc(1)).contains("href=\"?feedback/1&"));
    assert!(html(Cmd::Menu).contains("href=\"?feedback"));
}

#[test]
fn a_top_list_is_in_the_order_that_its_query_names() {
    let Some(s) = subject() else { return };
    for query in
        ["top_procs/1-5/time/self/oa", "top_procs/1-5/words/self/oa", "top_procs/1-20/callseqs/both/pc"]
    {
        let request = Request::parse(query).expect("a query");
        let Report::TopProcs(Ok(r)) = page::report(&s, &request) else { panic!("a top list") };
        let text = page::text(&s, &request, &pct_reports::render::text::TextOptions::default()).body;
        let mut from = 0;
        for p in &r.procs {
            let at = text[from..].find(&format!(" {} ", p.desc.qualified_name));
            from +=
                at.unwrap_or_else(|| panic!("{query}: {} is out of order in\n{text}", p.desc.qualified_name));
        }
    }
}

#[test]
fn the_order_of_a_top_list_stays_behind_on_its_page() {
    let Some(s) = subject() else { return };
    let top = Cmd::top(Limit::Ranks(1, 10), Cost::Words, Incl::Own);
    let default = s.prefs(PrefsIndication::Default);
    let there = s.prefs_between(&Cmd::Menu, &top, &default);
    assert_eq!(there, s.prefs_for(&top, PrefsIndication::Default));
    assert_eq!(s.prefs_between(&top, &Cmd::Proc(57), &there), default);
    // An order that the reader chose there is kept.
    let by_name = pct_reports::query::Prefs { order: pct_reports::query::Order::Name, ..there };
    assert_eq!(s.prefs_between(&top, &Cmd::Proc(57), &by_name), by_name);
}

#[test]
fn no_argument_is_used_after_the_end_of_its_call() {
    let Some(s) = subject() else { return };
    let mut bounds = 0;
    for csd in 1..=211 {
        let request = Request { cmd: Cmd::VarUse(csd), page: 1, prefs: PrefsIndication::Default };
        let Report::VarUse(Ok(r)) = page::report(&s, &request) else { continue };
        for arg in &r.args {
            let found = r.first_use(arg);
            assert!((0.0..=1.0).contains(&found.share), "csd {csd}: {found:?}");
            assert!(found.until <= arg.procedure_cost.max(r.cost), "csd {csd}: {found:?}");
            bounds += usize::from(found.is_bound);
        }
        // What is only a bound is marked as one, and the page explains it.
        let text = page::text(&s, &request, &TextOptions::default()).body;
        let any = r.args.iter().any(|a| r.first_use(a).is_bound);
        assert_eq!(text.contains("an upper bound"), any, "csd {csd}: {text}");
    }
    assert!(bounds > 20, "{bounds}");
    // The formula gives 169.5 of 144 for the results of the option parser, which it produces last.
    let page = page::text(
        &s,
        &Request::parse("call_site_dynamic_var_use/7").expect("a query"),
        &TextOptions::default(),
    );
    assert!(page.body.contains("\u{2264} 100.00                          \u{2264} 144.00"), "{}", page.body);
}

#[test]
fn sums_over_what_lies_within_one_another_say_so() {
    let Some(s) = subject() else { return };
    let text =
        |query: &str| page::text(&s, &Request::parse(query).expect("a query"), &TextOptions::default()).body;
    let parallel = text("feedback");
    assert!(
        parallel.contains("\u{2264} 201,952,872.00") && parallel.contains("\u{2264} 99.68"),
        "{parallel}"
    );
    assert!(parallel.contains("its executions lie within one another"), "{parallel}");
    let types = text("recursion_type_freq");
    assert!(types.contains("totals may be more than 100 %"), "{types}");
}

fn html(subject: &Subject, query: &str) -> String {
    page::html(subject, &Request::parse(query).expect("a query"), &PageContext::default()).body
}

/// The content of an element that opens with `start`, up to `end`.
fn part<'a>(page: &'a str, start: &str, end: &str) -> &'a str {
    let from = page.find(start).unwrap_or_else(|| panic!("no {start}"));
    let to = page[from..].find(end).expect("an end");
    &page[from..from + to]
}

#[test]
fn views_are_tabs_and_settings_are_options() {
    let Some(s) = subject() else { return };
    for (query, here, others) in [
        ("proc/57", "call sites and callees", ["callers", "text with coverage", "in parallel"]),
        (
            "proc_static_coverage/57",
            "text with coverage",
            ["callers", "call sites and callees", "in parallel"],
        ),
        ("feedback/57", "in parallel", ["callers", "call sites and callees", "text with coverage"]),
        ("clique/91", "procedures and calls", ["icicle of all below", "the procedure", ""]),
        ("clique_tree/91/callseqs", "icicle of all below", ["procedures and calls", "the procedure", ""]),
    ] {
        let page = html(&s, query);
        let tabs = part(&page, "<nav class=\"tabs\"", "</nav>");
        assert!(tabs.contains(&format!("<span aria-current=\"page\">{here}</span>")), "{query}: {tabs}");
        for other in others.into_iter().filter(|o| !o.is_empty()) {
            assert!(tabs.contains(&format!(">{other}</a>")), "{query}: {tabs}");
        }
        let sections = part(&page, "<nav class=\"sections\"", "</nav>");
        for section in ["menu", "call tree", "icicle", "procedures", "modules", "in parallel"] {
            assert!(sections.contains(&format!(">{section}</a>")), "{query}: {sections}");
        }
        let options = part(&page, "<details class=\"options\"", "</details>");
        assert!(!options.contains("icicle") && !options.contains("coverage"), "{query}: {options}");
    }
}

#[test]
fn coverage_is_coloured_and_its_counts_are_grouped() {
    let Some(s) = subject() else { return };
    let page = html(&s, "proc_static_coverage/57");
    // One of 201 calls is the end of the list.
    assert!(
        page.contains("<tr class=\"seldom\"><td>1</td><td>1</td><td class=\"l\"><code>      V_3 &lt;= []"),
        "{page}"
    );
    assert!(page.contains("<tr class=\"hot\"><td>200</td><td>200</td>"), "{page}");
    let Report::TopProcs(Ok(r)) = report(&s, Cmd::top(Limit::Ranks(1, 60), Cost::Callseqs, Incl::Total))
    else {
        panic!("a top list")
    };
    let escape = r.procs.iter().find(|p| p.desc.name == "escape/7-0").expect("is there").desc.ps;
    let page = html(&s, &format!("proc_static_coverage/{escape}"));
    assert!(page.contains("<td>100,976,685</td>"), "{page}");
    // The terminal's form is still the text with its counts among the lines.
    let request = Request::parse("proc_static_coverage/57").expect("a query");
    let text = page::text(&s, &request, &TextOptions::default()).body;
    assert!(text.contains("      % 1 - 1\n      V_3 <= []"), "{text}");
}

#[test]
fn costs_come_first_zeros_are_muted_and_columns_of_zeros_are_not_there() {
    let Some(s) = subject() else { return };
    // Long texts may be broken at a colon.
    let page = html(&s, "clique/91").replace("<wbr>", "");
    let heads: Vec<&str> = page
        .match_indices("scope=\"colgroup\">")
        .map(|(at, m)| {
            let rest = &page[at + m.len()..];
            &rest[..rest.find('<').expect("an end")]
        })
        .collect();
    assert_eq!(heads, ["Clock ticks", "Call sequence numbers", "Memory words", "Port counts"]);
    assert!(page.contains("Columns of zeros are left out: Port counts (Fails, Redos, Excps)."), "{page}");
    assert!(!page.contains(">Excps</th>") && page.contains("<td class=\"z\">0</td>"), "{page}");
}

#[test]
fn a_title_counts_the_rows_below_it() {
    let Some(s) = subject() else { return };
    let text = |limit| {
        let cmd = Cmd::top(limit, Cost::Time, Incl::Own);
        let request = Request { cmd, page: 1, prefs: PrefsIndication::Default };
        page::text(&s, &request, &TextOptions::default()).body
    };
    let rows = |page: &str| {
        page.lines().filter(|line| line.contains("math.sqrt") || line.contains("escape/")).count()
    };
    // Two procedures have ticks of their own.
    for (limit, title, said, expected) in [
        (Limit::Ranks(1, 5), "Top 2 procedures by time, self", "No other of the procedures has any.", 2),
        (Limit::Ranks(1, 2), "Top 2 procedures by time, self", "", 2),
        (Limit::Ranks(1, 1), "Top procedure by time, self", "", 1),
        (Limit::Ranks(2, 9), "Procedure ranked 2 by time, self", "No other of the procedures has any.", 1),
        (
            Limit::Ranks(101, 200),
            "Procedures from rank 101 on, by time, self",
            "Only 2 procedures have any.",
            0,
        ),
    ] {
        let page = text(limit);
        assert!(page.lines().any(|line| line.trim() == title), "{title}: {page}");
        assert!(page.contains(said), "{said}: {page}");
        assert_eq!(page.contains("has any.") || page.contains("have any."), !said.is_empty(), "{page}");
        assert_eq!(rows(&page), expected, "{page}");
    }
}
