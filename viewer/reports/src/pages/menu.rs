//! The menu.

use super::ctx::Ctx;
use crate::display::{Data, Display, Item, List, ListClass, MemUnit, Table};
use crate::query::{Cmd, Cost, Incl, Limit};
use crate::report::menu::MenuReport;

pub(super) fn display(ctx: &Ctx<'_>, r: &MenuReport) -> Display {
    if ctx.subject.is_sampled() {
        return super::overview::display(ctx, r);
    }
    let mut d = Display::new(format!("Deep profile of {}", r.program));
    d.items.extend(r.warnings.iter().map(|w| Item::Warning(w.clone())));
    let times = ctx.subject.times_matter();
    let root = ctx.subject.profile.root_clique();
    d.items.push(super::tree::overview(ctx, root, if times { Cost::Time } else { Cost::Callseqs }));
    let mut columns = vec![Item::List(List {
        class: ListClass::Bullets,
        title: Some("Where to begin".to_owned()),
        items: starts(ctx),
    })];
    let all = |limits: &dyn Fn(Cost) -> Vec<(Limit, Incl, String)>| {
        let mut items = Vec::new();
        let costs: &[Cost] =
            if times { &[Cost::Time, Cost::Callseqs, Cost::Words] } else { &[Cost::Callseqs, Cost::Words] };
        for &cost in costs {
            for (limit, incl, label) in limits(cost) {
                items.push(Item::Link(ctx.link(Cmd::top(limit, cost, incl), label)));
            }
        }
        items
    };
    columns.push(Item::List(List {
        class: ListClass::Bullets,
        title: Some("Procedures by cost".to_owned()),
        items: all(&|cost| {
            let ranks = Limit::Ranks(1, 100);
            vec![
                (ranks, Incl::Own, format!("by {}, self", cost.label())),
                (ranks, Incl::Total, format!("by {}, self and descendants", cost.label())),
            ]
        }),
    }));
    let rate = ctx.subject.profile.header().ticks_per_second;
    columns.push(Item::List(List {
        class: ListClass::Bullets,
        title: Some("Procedures above a limit".to_owned()),
        items: all(&|cost| {
            let name = cost.label();
            let mut limits = vec![
                (Limit::Percent(0.1), Incl::Own, format!("above 0.1% of the program's {name}, self")),
                (
                    Limit::Percent(1.0),
                    Incl::Total,
                    format!("above 1% of the program's {name}, self and descendants"),
                ),
            ];
            match cost {
                Cost::Time if rate > 0 => {
                    limits.push((
                        Limit::Value(rate as f64),
                        Incl::Total,
                        "above 1 second, self and descendants".to_owned(),
                    ));
                }
                Cost::Callseqs => limits.push((
                    Limit::Value(1_000_000.0),
                    Incl::Total,
                    "above 1,000,000 call sequence numbers, self and descendants".to_owned(),
                )),
                Cost::Words => limits.push((
                    Limit::Value(2.0 * 1024.0 * 1024.0),
                    Incl::Total,
                    "above 2 Mi words, self and descendants".to_owned(),
                )),
                _ => {}
            }
            limits
        }),
    }));
    columns.push(Item::Developer(Box::new(Item::List(List {
        class: ListClass::Bullets,
        title: Some("For developers".to_owned()),
        items: vec![Item::Link(ctx.link(Cmd::RecursionTypeFreq, "how often each type of recursion occurs"))],
    }))));
    d.items.push(Item::Heading("The most expensive procedures".to_owned()));
    d.items.push(super::top_procs::hottest(ctx, if times { Cost::Time } else { Cost::Callseqs }, 5));
    d.items.push(Item::Columns(columns.into_iter().map(|list| vec![list]).collect()));
    let count = |n: u64| Data::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let size = |n: usize| count(n as u64);
    let mut facts = vec![
        ("Clock ticks in the program", count(r.user_quanta)),
        ("Clock ticks in the profiler itself, counted nowhere else", count(r.instrumentation_quanta)),
    ];
    if r.ticks_per_second > 0 {
        facts.push(("Ticks a second", count(r.ticks_per_second)));
    }
    let words = ctx.subject.profile.root_total().words;
    facts.extend([
        ("Call sequence numbers", count(r.callseqs)),
        ("Memory, words", Data::Memory(words as f64, MemUnit::Words, 0)),
        ("Call contexts (procedure dynamics)", size(r.pds)),
        ("Call edges (call site dynamics)", size(r.csds)),
        ("Procedures", size(r.pss)),
        ("Call sites", size(r.csss)),
        ("Cliques", size(r.cliques)),
        ("Modules", size(r.modules)),
    ]);
    d.items.push(Item::Heading("The profile".to_owned()));
    d.items.push(Item::Table(Table::facts(facts)));
    d.controls = vec![ctx.general_controls(), ctx.developer_controls()];
    d
}

fn starts(ctx: &Ctx<'_>) -> Vec<Item> {
    let root = i64::from(ctx.subject.profile.root_clique().number());
    let cost = if ctx.subject.times_matter() { Cost::Time } else { Cost::Callseqs };
    let mut items = vec![
        Item::Link(ctx.link(Cmd::Root(None), "the root of the call graph")),
        Item::Link(ctx.link(Cmd::Root(Some(90)), "where the action starts: the call graph from there on")),
        Item::Link(ctx.link(Cmd::CliqueTree(root, cost), "the whole call graph as a picture")),
        Item::Link(ctx.link(Cmd::ProgramModules, "the program's modules")),
    ];
    if ctx.subject.procrep().is_ok() {
        items.push(Item::Link(ctx.link(Cmd::Feedback(None), "what could run in parallel")));
    }
    items
}
