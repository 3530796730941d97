//! What could run in parallel: a table of candidates, and for a procedure their text.

use super::ctx::Ctx;
use crate::display::table::{Boxing, Column, ColumnClass, Head, PAGE_ROWS, Paging};
use crate::display::{Cell, Data, Display, HeadGroup, Item, Row, Table, format};
use crate::query::Cmd;
use crate::report::feedback::{CandidateRow, FeedbackReport};

pub(super) fn display(ctx: &Ctx<'_>, r: &FeedbackReport) -> Display {
    let mut d = Display::new(match &r.desc {
        Some(desc) => format!("What could run in parallel in {}", desc.qualified_name),
        None => "What could run in parallel".to_owned(),
    });
    d.items.extend(r.problems.iter().map(|p| Item::Warning(p.clone())));
    if r.more_problems > 0 {
        d.items.push(Item::Warning(format!("and {} more", format::count(r.more_problems))));
    }
    if r.candidates.is_empty() {
        d.items.push(Item::Text(match &r.desc {
            Some(_) => "No conjunction of this procedure is worth executing in parallel.".to_owned(),
            None => "No conjunction of the program is worth executing in parallel.".to_owned(),
        }));
    } else {
        d.items.push(Item::Text(
            "Conjunctions whose parallel execution would pay, by an estimate from the costs of their goals and the times \
             at which they produce and need variables. A procedure has one for each context that pays."
                .to_owned(),
        ));
        d.items.push(Item::Table(table(ctx, r)));
        if r.candidates.iter().any(|c| c.saving_is_bound) {
            d.items.push(Item::Text(NESTED.to_owned()));
        }
    }
    if r.not_listed > 0 {
        d.items.push(Item::Text(format!("{} more are not listed.", format::count(r.not_listed))));
    }
    d.items.push(Item::Text(format!(
        "{} cliques were looked at: those whose calls cost at least {} on average; goals that cost up to {} were not \
         worth a conjunct. Costs and times are call sequence numbers.",
        format::count(r.cliques),
        format::int(r.clique_threshold),
        format::int(r.call_site_threshold)
    )));
    if !r.text.is_empty() {
        d.items.push(Item::Heading("The candidates".to_owned()));
        d.items.push(Item::Verbatim(r.text.clone()));
        if r.not_in_text > 0 {
            d.items.push(Item::Text(format!(
                "{} more, which save less, are not written out.",
                format::count(r.not_in_text)
            )));
        }
    }
    match &r.desc {
        Some(desc) => {
            d.crumbs = ctx.crumbs(vec![
                ctx.link(Cmd::Module(desc.module.clone()), &*desc.module),
                ctx.link(Cmd::Proc(i64::from(desc.ps)), &*desc.name),
                ctx.link(ctx.cmd.clone(), "in parallel"),
            ]);
            d.items.push(Item::Link(ctx.link(Cmd::Feedback(None), "the whole program")));
        }
        None => d.crumbs = ctx.crumbs(vec![ctx.link(ctx.cmd.clone(), "in parallel")]),
    }
    d.controls.push(ctx.general_controls());
    d
}

/// The meaning of `\u{2264}` in the table.
const NESTED: &str = "\u{2264}: an upper bound. The conjunction is part of a recursion, so its executions lie within one \
     another and the sum counts the inner ones again in each outer one. The speed-up is that of one execution, whose \
     inner ones run as they do now; so much is saved only with a processor for each level of the recursion.";

fn table(ctx: &Ctx<'_>, r: &FeedbackReport) -> Table {
    let columns = columns(ctx, r);
    let heads = columns.iter().map(|c| HeadGroup::single(c.head.clone())).collect();
    let mut t = Table::new(Boxing::Always, heads);
    let paging = Paging::new(ctx.cmd, &ctx.prefs, ctx.page, r.candidates.len());
    for row in &r.candidates[Paging::range(paging.as_ref(), r.candidates.len())] {
        t.rows.push(Row::Cells(columns.iter().map(|c| (c.cell)(row)).collect()));
    }
    t.flat = r.candidates.len() <= PAGE_ROWS;
    t.paging = paging;
    t
}

fn columns<'a>(ctx: &'a Ctx<'_>, r: &'a FeedbackReport) -> Vec<Column<'a, CandidateRow>> {
    let words = |head: &str| Head::text(head, ColumnClass::Words);
    let number = |head: &str| Head::text(head, ColumnClass::Number);
    let one = |data: Data| Cell::One(data);
    let mut out: Vec<Column<'a, CandidateRow>> = Vec::new();
    if r.desc.is_none() {
        out.push(Column::new(words("Procedure"), move |c: &CandidateRow| {
            one(Data::Link(ctx.link(Cmd::Feedback(Some(i64::from(c.desc.ps))), &*c.desc.qualified_name)))
        }));
    }
    out.push(Column::new(words("Goal"), move |c: &CandidateRow| {
        let goal = if c.goal_path.is_empty() { "the body" } else { c.goal_path.as_str() };
        one(Data::text(if c.is_pushed { format!("{goal} (after a push)") } else { goal.to_owned() }))
    }));
    out.push(Column::new(words("Context"), move |c: &CandidateRow| {
        one(Data::Link(ctx.link(Cmd::Clique(i64::from(c.clique)), format!("clique {}", c.clique))))
    }));
    out.push(Column::new(number("Conjuncts"), move |c: &CandidateRow| one(Data::count(c.conjuncts))));
    let help = "Variables that one conjunct produces and another waits for.";
    out.push(Column::new(words("Dependent on").help(help), move |c: &CandidateRow| {
        one(Data::text(if c.depends_on.is_empty() { "-".to_owned() } else { c.depends_on.join(", ") }))
    }));
    out.push(Column::new(number("Calls"), move |c: &CandidateRow| one(Data::Int(c.calls))));
    out.push(Column::new(
        number("Sequential").help("Time of one execution now."),
        move |c: &CandidateRow| one(Data::Float(c.sequential)),
    ));
    out.push(Column::new(
        number("Parallel").help("Time of one execution in parallel."),
        move |c: &CandidateRow| one(Data::Float(c.parallel)),
    ));
    out.push(Column::new(
        number("Speed-up").help("Sequential over parallel time."),
        move |c: &CandidateRow| one(Data::Float(c.speedup)),
    ));
    let help = "Extra work for sparks, barriers, signals and waits, for one execution.";
    out.push(Column::new(number("Overheads").help(help), move |c: &CandidateRow| {
        one(Data::Float(c.overheads))
    }));
    let help = "Time that all executions together save, as if no other candidate was executed in parallel.";
    out.push(Column::new(number("Saved").help(help), move |c: &CandidateRow| {
        one(Data::Float(c.saving).bound(c.saving_is_bound))
    }));
    let whole = r.program_callseqs as f64;
    let help = "That as a share of the program's call sequence numbers.";
    out.push(Column::new(number("% of the program").help(help), move |c: &CandidateRow| {
        let share = if whole > 0.0 { c.saving / whole } else { 0.0 };
        one(Data::Percent(share).bound(c.saving_is_bound))
    }));
    out
}
