//! Claims about the query language.

use super::*;
use proptest::prelude::*;
use proptest::sample::select;

fn any_cost() -> impl Strategy<Value = Cost> {
    select(Cost::ALL)
}

fn any_cost_order() -> impl Strategy<Value = CostOrder> {
    (any_cost(), select(Incl::ALL), select(Scope::ALL)).prop_map(|(cost, incl, scope)| CostOrder {
        cost,
        incl,
        scope,
    })
}

fn any_limit() -> impl Strategy<Value = Limit> {
    let float = any::<f64>().prop_filter("finite", |x| x.is_finite());
    prop_oneof![
        (0..i64::MAX, 0..i64::MAX).prop_map(|(a, b)| Limit::Ranks(a, b)),
        float.clone().prop_map(Limit::Percent),
        float.prop_map(Limit::Value),
    ]
}

pub(crate) fn any_cmd() -> impl Strategy<Value = Cmd> {
    let id = any::<i64>();
    let name = "\\PC{0,12}";
    prop_oneof![
        select(vec![Cmd::Quit, Cmd::Restart, Cmd::Menu, Cmd::RecursionTypeFreq, Cmd::ProgramModules]),
        id.prop_map(Cmd::Timeout),
        proptest::option::of(id).prop_map(Cmd::Root),
        id.prop_map(Cmd::Clique),
        id.prop_map(Cmd::CliqueRecursion),
        id.prop_map(Cmd::Proc),
        (id, select(Group::ALL), id, id, select(Contour::ALL)).prop_map(
            |(ps, group, bunch, size, contour)| { Cmd::ProcCallers { ps, group, bunch, size, contour } }
        ),
        id.prop_map(Cmd::StaticCoverage),
        id.prop_map(Cmd::DynamicCoverage),
        id.prop_map(Cmd::VarUse),
        name.prop_map(Cmd::Module),
        name.prop_map(Cmd::GettersSetters),
        name.prop_map(Cmd::ModuleRep),
        (any_limit(), any_cost_order()).prop_map(|(limit, o)| Cmd::TopProcs {
            limit,
            cost: o.cost,
            incl: o.incl,
            scope: o.scope
        }),
        id.prop_map(Cmd::DumpClique),
        id.prop_map(Cmd::DumpPs),
        id.prop_map(Cmd::DumpPd),
        id.prop_map(Cmd::DumpCss),
        id.prop_map(Cmd::DumpCsd),
        name.prop_map(Cmd::Search),
        name.prop_map(Cmd::ProcNamed),
        (id, any_cost()).prop_map(|(n, c)| Cmd::CliqueTree(n, c)),
        select(vec![
            Cmd::Flame,
            Cmd::Owners,
            Cmd::Waits(WaitsOf::Locks),
            Cmd::Waits(WaitsOf::Work),
            Cmd::Recordings
        ]),
        (name, id).prop_map(|(file, line)| Cmd::Source(file, line)),
        (name, select(DiffWhat::ALL), select(Incl::ALL), select(DiffScale::ALL))
            .prop_map(|(base, what, incl, scale)| Cmd::Diff { base, what, incl, scale }),
        proptest::option::of(any::<i64>()).prop_map(Cmd::Feedback),
    ]
}

fn any_prefs() -> impl Strategy<Value = Prefs> {
    let fields = (
        select(PortFields::ALL),
        select(TimeFields::ALL),
        select(CallseqFields::ALL),
        select(AllocFields::ALL),
        select(MemFields::ALL),
    )
        .prop_map(|(port, time, callseqs, allocs, memory)| Fields {
            port,
            time,
            callseqs,
            allocs,
            memory,
        });
    let order = prop_oneof![Just(Order::Context), Just(Order::Name), any_cost_order().prop_map(Order::Cost)];
    let first = (
        fields,
        select(Boxes::ALL),
        select(Colour::ALL),
        proptest::option::of(any::<i64>()),
        any::<i64>(),
        select(Summarise::ALL),
        order,
    );
    let second = (
        select(Contour::ALL),
        select(TimeFormat::ALL),
        select(Qualify::ALL),
        select(Inactive::ALL),
        select(Inactive::ALL),
        select(Inactive::ALL),
        select(Developer::ALL),
    );
    (first, second).prop_map(
        |(
            (fields, boxes, colour, ancestors, recursion_procs, summarise, order),
            (contour, time_format, qualify, s, p, m, developer),
        )| Prefs {
            fields,
            boxes,
            colour,
            ancestors,
            recursion_procs,
            summarise,
            order,
            contour,
            time_format,
            qualify,
            inactive_sites: s,
            inactive_procs: p,
            inactive_modules: m,
            developer,
        },
    )
}

proptest! {
    #[test]
    fn commands_print_and_parse_as_inverses(cmd in any_cmd()) {
        prop_assert_eq!(cmd.to_string().parse::<Cmd>(), Ok(cmd));
    }

    #[test]
    fn preferences_print_and_parse_as_inverses(prefs in any_prefs()) {
        prop_assert_eq!(prefs.to_string().parse::<Prefs>(), Ok(prefs));
    }

    #[test]
    fn queries_print_and_parse_as_inverses(
        cmd in any_cmd(),
        page in 1u32..,
        prefs in proptest::option::of(any_prefs()),
        file in "\\PC{1,20}",
    ) {
        let query = Query { cmd, page, prefs, file };
        let text = query.to_string();
        prop_assert!(text.is_ascii());
        prop_assert_eq!(Query::parse(&text), Ok(query));
    }

    #[test]
    fn any_text_is_a_query_or_an_error(text in any::<String>()) {
        if let Ok(query) = Query::parse(&text) {
            prop_assert_eq!(Query::parse(&query.to_string()), Ok(query));
        }
    }

    #[test]
    fn texts_near_the_grammar_never_panic(text in "[a-z_]{0,12}(/[-+0-9a-z._@%]{0,6}){0,6}(&[a-z/-]{0,20}){0,3}") {
        let _ = Query::parse(&text);
    }
}

fn cmd_of(text: &str) -> Cmd {
    Query::parse(text).expect("a query").cmd
}

#[test]
fn the_default_preferences_are_the_known_string() {
    let known = "p-q-s-_-w/box/cols/5/20/nosum/context/nc/th/mqwd/hhh/nodev";
    assert_eq!(Prefs::default_for(true).to_string(), known);
    assert_eq!(Prefs::default_for(false).to_string(), known.replace("-q-", "-_-"));
}

#[test]
fn a_file_alone_is_its_menu() {
    let q = Query::parse("/tmp/Deep.data").expect("a query");
    assert_eq!((q.cmd, q.prefs, q.file.as_str()), (Cmd::Menu, None, "/tmp/Deep.data"));
}

#[test]
fn what_is_not_recognised_is_the_menu_or_the_default() {
    assert_eq!(cmd_of("nonsense&f.data"), Cmd::Menu);
    assert_eq!(cmd_of("proc/1/2&f.data"), Cmd::Menu);
    assert_eq!(cmd_of("proc//1&f.data"), Cmd::Menu);
    assert_eq!(cmd_of("top_procs/-1-5/calls/self/oa&f.data"), Cmd::Menu);
    let one_bad = Query::parse("proc/3&p-q-s-_-w/box/cols/5/20/nosum/context/nc/th/mqwd/hhx/nodev&f.data");
    let q = one_bad.expect("a query");
    assert_eq!((q.cmd, q.prefs), (Cmd::Proc(3), None));
}

#[test]
fn more_than_three_parts_or_no_file_is_an_error() {
    for bad in ["", "menu&", "a&b&c&d", "menu&&"] {
        assert_eq!(Query::parse(bad), Err(BadQuery), "{bad}");
    }
}

#[test]
fn known_spellings_parse() {
    assert_eq!(cmd_of("root/90&f.data"), Cmd::Root(Some(90)));
    assert_eq!(cmd_of("root/no&&f.data"), Cmd::Root(None));
    assert_eq!(
        cmd_of("top_procs/v1e+06/words/both/pc&f.data"),
        Cmd::TopProcs {
            limit: Limit::Value(1e6),
            cost: Cost::Words,
            incl: Incl::Total,
            scope: Scope::PerCall
        }
    );
    assert_eq!(
        cmd_of("proc_callers/60/cl/1/20/nc&f.data"),
        Cmd::ProcCallers { ps: 60, group: Group::Clique, bunch: 1, size: 20, contour: Contour::Ignore }
    );
}

#[test]
fn two_mebi_words_keep_all_their_digits() {
    let cmd = Cmd::top(Limit::Value(2_097_152.0), Cost::Words, Incl::Total);
    assert_eq!(cmd.to_string(), "top_procs/v2097152/words/both/oa");
}

#[test]
fn module_names_with_blanks_and_slashes_survive() {
    let cmd = Cmd::Module("Mercury runtime/x&y".into());
    let text = print(&cmd, 1, None, "a b.data");
    assert_eq!(text, "module/Mercury%20runtime%2Fx%26y&&a%20b.data");
    assert_eq!(cmd_of(&text), cmd);
}

#[test]
fn the_search_form_is_understood() {
    let q = Query::parse("s=foo%2Fbar+baz&p=&f=%2Ftmp%2FDeep.data").expect("a query");
    assert_eq!((q.cmd, q.file.as_str()), (Cmd::Search("foo/bar baz".into()), "/tmp/Deep.data"));
}

#[test]
fn pages_are_numbered_from_one() {
    let q = Query::parse("module/list@3&&f.data").expect("a query");
    assert_eq!((q.cmd, q.page), (Cmd::Module("list".into()), 3));
    assert_eq!(cmd_of("module/list@0&&f.data"), Cmd::Module("list@0".into()));
}
