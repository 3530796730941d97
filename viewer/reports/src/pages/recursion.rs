//! How a clique recurses; how often each type of recursion occurs.

use super::ctx::Ctx;
use super::perf::{PerfColumns, sort_by_cost};
use crate::analysis::recursion::{Level, RecursionType};
use crate::display::table::{Boxing, ColumnClass, Head};
use crate::display::{Cell, Data, Display, HeadGroup, Item, Label, List, ListClass, Row, Table, format};
use crate::query::{Cmd, Order};
use crate::report::recursion::{CliqueRecursionReport, Frequency, FrequencyProc, FrequencyReport, TypeKey};

pub(super) fn of_clique(ctx: &Ctx<'_>, r: &CliqueRecursionReport) -> Display {
    let n = i64::from(r.clique.clique);
    let mut d = Display::new(format!("Recursion of clique {n}: {}", r.clique.entry.qualified_name));
    match &r.kind {
        RecursionType::NotRecursive => d.items.push(Item::Text("This clique is not recursive.".to_owned())),
        RecursionType::Mutual(count) => d.items.push(Item::Text(format!(
            "This clique is mutually recursive: it has {} procedure contexts.",
            format::count(*count)
        ))),
        RecursionType::Errors(texts) => d.items.push(Item::List(List {
            class: ListClass::Bullets,
            title: Some("The type of recursion cannot be told".to_owned()),
            items: texts.iter().map(|t| Item::Text(t.clone())).collect(),
        })),
        RecursionType::Single(s) => {
            d.items.push(Item::Text(
                "This clique has single recursion: at most one recursive call on a path.".to_owned(),
            ));
            d.items.push(Item::Table(levels(&[s.base, s.recursive])));
            let depth = s.depth.round();
            let mut facts = vec![
                ("Average maximum depth".to_owned(), s.depth),
                ("Average cost of a recursive call".to_owned(), s.average_cost),
            ];
            // Interesting depths: the shallow ones, the middle, the deep ones.
            let mut depths = vec![0.0, 1.0, 2.0, (s.depth / 2.0).round(), depth - 2.0, depth - 1.0, depth];
            depths.retain(|&x| x >= 0.0);
            depths.sort_by(f64::total_cmp);
            depths.dedup();
            facts.extend(depths.into_iter().map(|x| (format!("Cost at depth {x}"), s.cost_at(x))));
            d.items.push(Item::Table(Table::facts(
                facts.iter().map(|(name, v)| (name.as_str(), Data::Float(*v))).collect(),
            )));
        }
        RecursionType::DivideAndConquer { base, recursive } => {
            d.items.push(Item::Text(
                "This clique divides and conquers: none or two recursive calls on a path.".to_owned(),
            ));
            d.items.push(Item::Table(levels(&[*base, *recursive])));
        }
        RecursionType::Other(all) => {
            d.items.push(Item::Text("This clique recurses in another way.".to_owned()));
            d.items.push(Item::Table(levels(all)));
        }
    }
    d.crumbs = ctx.crumbs(vec![
        ctx.link(Cmd::Clique(n), format!("clique {n}")),
        ctx.link(ctx.cmd.clone(), "recursion"),
    ]);
    d.controls = vec![ctx.general_controls()];
    d
}

fn levels(all: &[Level]) -> Table {
    let mut t = Table::new(
        Boxing::Always,
        [
            "Case",
            "Executions",
            "Non-recursive calls, cost for one",
            "Recursive calls, without what they call",
        ]
        .iter()
        .enumerate()
        .map(|(i, h)| {
            let class = if i == 0 { ColumnClass::Words } else { ColumnClass::Number };
            HeadGroup::single(Head::text(h, class))
        })
        .collect(),
    );
    for l in all {
        let case = match l.level {
            0 => "base case".to_owned(),
            1 => "one recursive call".to_owned(),
            n => format!("{n} recursive calls"),
        };
        #[expect(clippy::cast_possible_truncation, reason = "a sum of whole numbers")]
        let executions = l.count as i64;
        t.rows.push(Row::Cells(vec![
            Cell::One(Data::Text(case)),
            Cell::One(Data::Int(executions)),
            Cell::One(Data::Float(l.non_recursive_cost)),
            Cell::One(Data::Float(l.recursive_calls_cost)),
        ]));
    }
    t
}

fn key_words(key: &TypeKey) -> String {
    match key {
        TypeKey::NotRecursive => "Not recursive".to_owned(),
        TypeKey::Single => "Single recursion".to_owned(),
        TypeKey::DivideAndConquer => "Divide and conquer".to_owned(),
        TypeKey::Mutual(n) => format!("Mutual recursion of {n} contexts"),
        TypeKey::Other(levels) => {
            let levels: Vec<String> = levels.iter().map(ToString::to_string).collect();
            format!("Other recursion, with {} recursive calls", levels.join(", "))
        }
        TypeKey::Error(text) => format!("Error: {text}"),
        TypeKey::AnyError => "All errors".to_owned(),
    }
}

/// The meaning of a row's totals.
const NESTED: &str = "Totals are sums over the cliques of a row, each with all that it calls. A clique that lies below another \
     one of its row is counted in both, so that totals may be more than 100 %. Self counts everything once.";

pub(super) fn frequencies(ctx: &Ctx<'_>, r: &FrequencyReport) -> Display {
    let mut d = Display::new("Types of recursion");
    d.items.push(Item::Text(format!("{} cliques", format::count(r.cliques))));
    d.items.push(Item::Text(NESTED.to_owned()));
    let columns = PerfColumns::new(ctx.cmd, &ctx.prefs, true, ctx.scale());
    let mut head = vec![
        HeadGroup::single(ctx.name_head("Type of recursion")),
        HeadGroup::single(Head::text("Frequency", ColumnClass::Number)),
        HeadGroup::single(Head::text("%", ColumnClass::Number)),
    ];
    head.extend(columns.heads.iter().cloned());
    let mut t = Table::new(Boxing::ByPref, head);
    let mut types: Vec<&Frequency> = r.types.iter().collect();
    if let Order::Cost(order) = ctx.prefs.order {
        // Rows without a sum come last.
        let (mut with, without): (Vec<_>, Vec<_>) = types.into_iter().partition(|f| f.summary.is_some());
        with.sort_by(|a, b| {
            let key =
                |f: &Frequency| f.summary.as_ref().map_or((0.0, 0.0), |p| super::perf::cost_key(p, order));
            let (a, b) = (key(a), key(b));
            b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
        });
        with.extend(without);
        types = with;
    }
    let limit = usize::try_from(ctx.prefs.recursion_procs).unwrap_or(0);
    for f in types {
        t.rows.push(Row::Section(Data::Label(Label::bold(key_words(&f.key)))));
        let mut cells = vec![
            Cell::One(Data::text("all")),
            Cell::One(Data::count(f.count)),
            Cell::One(Data::Percent(f.share)),
        ];
        match &f.summary {
            Some(perf) => cells.extend(columns.cells(perf)),
            None => cells.resize(3 + columns.len(), Cell::Empty),
        }
        t.rows.push(Row::Summary(cells));
        let mut procs: Vec<&FrequencyProc> = f.procs.iter().collect();
        if let Order::Cost(order) = ctx.prefs.order {
            sort_by_cost(&mut procs, order, |p| &p.perf);
        }
        for p in procs.iter().take(limit) {
            let mut cells = vec![
                Cell::One(Data::Link(ctx.proc_link(&p.desc, None))),
                Cell::One(Data::count(p.count)),
                Cell::One(Data::Percent(p.share)),
            ];
            cells.extend(columns.cells(&p.perf));
            t.rows.push(Row::Cells(cells));
        }
        let more = procs.len().saturating_sub(limit) + f.procs_not_listed;
        if more > 0 {
            t.rows.push(Row::Note(vec![Data::Text(format!("{} more procedures", format::count(more)))]));
        }
        t.rows.push(Row::Separator);
    }
    d.items.push(Item::Table(t));
    d.crumbs = ctx.crumbs(vec![ctx.link(ctx.cmd.clone(), "Types of recursion")]);
    d.controls = ctx.controls_of_procedures();
    d
}
