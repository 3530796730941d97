//! What changed from one profile to another.

use super::ctx::{Ctx, counted};
use crate::display::table::{Boxing, ColumnClass, Head, Paging};
use crate::display::{
    Cell, Compared, Data, Display, HeadGroup, Item, Label, List, ListClass, Picture, PictureNode, Row, Table,
    format,
};
use crate::query::{Cmd, DiffScale, DiffWhat, Incl};
use crate::report::diff::{Change, DiffReport, DiffRow};
use pct_deep::measured::Measured;

pub(super) fn display(ctx: &Ctx<'_>, r: &DiffReport) -> Display {
    let mut d = Display::new(format!("What changed from {} to {}", r.base, name_of(ctx)));
    d.items.push(Item::Text(summary(r)));
    d.items.push(choices(ctx, r));
    let (pictures, table) = (pictures(ctx, r), listed(ctx, r));
    // A table that is seen at a glance is the answer; a long one would hide the pictures.
    let parts = if r.rows.len() <= MOST_AT_A_GLANCE { [table, pictures] } else { [pictures, table] };
    d.items.extend(parts.into_iter().flatten());
    d.crumbs = ctx.crumbs(vec![
        ctx.link(Cmd::Recordings, "Recordings"),
        ctx.link(ctx.cmd.clone(), format!("since {}", r.base)),
    ]);
    d.controls = vec![ctx.general_controls()];
    d
}

/// Rows of a table that stands above the pictures.
const MOST_AT_A_GLANCE: usize = 40;

fn pictures(ctx: &Ctx<'_>, r: &DiffReport) -> Vec<Item> {
    if r.tree.len() <= 1 {
        return Vec::new();
    }
    vec![
        Item::Heading("After".to_owned()),
        picture(ctx, r, false),
        Item::Heading("Before: what is outlined is gone".to_owned()),
        picture(ctx, r, true),
    ]
}

/// The table with its heading.
fn listed(ctx: &Ctx<'_>, r: &DiffReport) -> Vec<Item> {
    let heading = match r.what {
        DiffWhat::Owners => "Whose time it was".to_owned(),
        DiffWhat::Procs => format!("{}s", ctx.words().proc),
        DiffWhat::Cliques => "Call contexts".to_owned(),
    };
    let meaning = if r.chance_known {
        "Sure: how many standard deviations of the sampling error a change is away from none. In bold, from 3.3 on, it is more \
         than chance, even for one row of a thousand. Empty: no change."
    } else if r.measured.is_some() {
        "The number of samples is not known, so it is not known which changes may be chance."
    } else {
        "Call sequence numbers are counted, not sampled: each change is one."
    };
    let rows = match r.rows.is_empty() {
        true => Item::Text("Nothing to compare.".to_owned()),
        false => Item::Table(table(ctx, r)),
    };
    vec![Item::Heading(heading), Item::Text(meaning.to_owned()), rows]
}

fn name_of(ctx: &Ctx<'_>) -> String {
    match ctx.subject.name.as_str() {
        "" => ctx.subject.profile.program().into_owned(),
        name => name.to_owned(),
    }
}

/// Whether costs are nanoseconds.
fn is_time(r: &DiffReport) -> bool {
    r.measured.as_ref().is_some_and(Measured::is_time)
}

const CALLSEQS: &str = "call sequence numbers";

fn summary(r: &DiffReport) -> String {
    let w = &r.whole;
    let of = |n: i64| {
        if is_time(r) { format!("{} s", format::float(n as f64 / 1e9, 3)) } else { format::int(n) }
    };
    let measure = match &r.measured {
        Some(measured) if measured.is_time() => measured.name().to_owned(),
        Some(measured) => measured.heading(),
        None => "Call sequence numbers".to_owned(),
    };
    let percent = if w.before == 0 { 0.0 } else { w.change() as f64 / w.before as f64 * 100.0 };
    let mut out = format!(
        "{measure}: {} before, {} after ({}{}%).",
        of(w.before),
        of(w.after),
        if percent > 0.0 { "+" } else { "" },
        format::float(percent, 1)
    );
    if r.chance_known {
        out.push_str(match w.clear {
            true => " That is more than chance.",
            false => " That may be chance.",
        });
    }
    if r.scale == DiffScale::Shares {
        out.push_str(&format!(
            " Below, everything after is multiplied by {} so that the two are as long.",
            format::float(r.factor, 4)
        ));
    }
    let what = match r.what {
        DiffWhat::Owners | DiffWhat::Procs => ["row", "rows"],
        DiffWhat::Cliques => ["call context", "call contexts"],
    };
    if r.chance_known {
        let (changed, first) = match r.clear {
            0 => (format!("No {}", what[0]), ""),
            n => (counted(n, what[0], what[1]), "; what did comes first"),
        };
        out.push_str(&format!(
            " {changed} changed by more than chance (3.3 standard deviations of the sampling error){first}."
        ));
    }
    out
}

fn choices(ctx: &Ctx<'_>, r: &DiffReport) -> Item {
    let to = |what: DiffWhat, incl: Incl, scale: DiffScale, label: &str| {
        if (what, incl, scale) == (r.what, r.incl, r.scale) {
            return Item::Current(label.to_owned());
        }
        let cmd = Cmd::Diff { base: r.base.clone(), what, incl, scale };
        Item::Link(crate::display::Link::control(cmd, &ctx.prefs, label))
    };
    let line = |title: &str, items: Vec<Item>| {
        Item::List(List { class: ListClass::Horizontal, title: Some(format!("{title}:")), items })
    };
    let words = ctx.words();
    let kinds = DiffWhat::ALL.iter().filter(|w| r.owners_known || **w != DiffWhat::Owners);
    let what = |w: DiffWhat| if w == DiffWhat::Procs { words.procs } else { w.label() };
    Item::List(List {
        class: ListClass::Plain,
        title: None,
        items: vec![
            line("compare", kinds.map(|&w| to(w, r.incl, r.scale, what(w))).collect()),
            line(
                "colour and order by change of",
                Incl::ALL.iter().map(|&i| to(r.what, i, r.scale, i.label())).collect(),
            ),
            line("costs", DiffScale::ALL.iter().map(|&s| to(r.what, r.incl, s, s.label())).collect()),
        ],
    })
}

/// The tree of call contexts with the widths of one of the two profiles.
fn picture(ctx: &Ctx<'_>, r: &DiffReport, draws_older: bool) -> Item {
    let when = if draws_older { "before" } else { "after" };
    let colour = match r.incl {
        Incl::Own => "of the context itself",
        Incl::Total => "of the same",
    };
    Item::Picture(Picture {
        caption: format!(
            "width: cost {when}, with descendants; colour: change {colour}; outlined: only {when}; click to go there"
        ),
        unit: r.measured.as_ref().map_or_else(|| CALLSEQS.to_owned(), Measured::unit),
        seconds: is_time(r),
        compares: Some(Compared { incl: r.incl, draws_older }),
        zooms: false,
        levels: 24,
        nodes: r
            .tree
            .iter()
            .enumerate()
            .map(|(at, n)| PictureNode {
                parent: n.parent,
                name: match at {
                    0 if draws_older => r.base_program.clone(),
                    _ => super::tree::shown_name(ctx, &n.name),
                },
                total: n.after,
                before: n.before,
                group: None,
                link: n.clique.map(|c| Cmd::Clique(i64::from(c))),
            })
            .collect(),
        groups: None,
        palette: None,
        here: None,
        large: false,
    })
}

fn table(ctx: &Ctx<'_>, r: &DiffReport) -> Table {
    let number = |text: &str| Head::text(text, ColumnClass::Number);
    let group = |title: &str| HeadGroup {
        title: Some(title.to_owned()),
        heads: COLUMNS
            .iter()
            .filter(|c| r.chance_known || c.always)
            .map(|c| number(c.head).help(c.help))
            .collect(),
        coloured: true,
    };
    let mut head = vec![
        HeadGroup::single(Head::text(ctx.words().proc, ColumnClass::Words)),
        HeadGroup::single(Head::text(ctx.words().module, ColumnClass::Words)),
    ];
    if r.what == DiffWhat::Cliques {
        head.push(HeadGroup::single(Head::text("Called from", ColumnClass::Words)));
    }
    let unit = r.measured.as_ref().map_or_else(|| CALLSEQS.to_owned(), Measured::heading);
    let mut groups = vec![("self", Incl::Own), ("self and descendants", Incl::Total)];
    if r.incl == Incl::Total {
        groups.reverse();
    }
    head.extend(groups.iter().map(|(title, _)| group(&format!("{unit}, {title}"))));
    let mut t = Table::new(Boxing::ByPref, head);
    t.paging = Paging::new(ctx.cmd, &ctx.prefs, ctx.page, r.rows.len());
    let shown = Paging::range(t.paging.as_ref(), r.rows.len());
    let is_last = shown.end == r.rows.len();
    t.flat = t.paging.is_none() && r.not_listed == 0;
    for row in &r.rows[shown] {
        let mut cells = vec![Cell::One(subject_of(ctx, row)), Cell::One(Data::Text(row.module.clone()))];
        if r.what == DiffWhat::Cliques {
            let way: Vec<String> = row.way.iter().map(|n| super::tree::shown_name(ctx, n)).collect();
            cells.push(Cell::One(Data::Text(way.join(" < "))));
        }
        for (_, incl) in &groups {
            let change = if *incl == Incl::Own { &row.own } else { &row.total };
            cells.extend(cells_of(r, change));
        }
        t.rows.push(Row::Cells(cells));
    }
    if is_last && r.not_listed > 0 {
        t.rows.push(Row::Note(vec![Data::text(format!(
            "{} more that changed less.",
            format::count(r.not_listed)
        ))]));
    }
    t
}

fn subject_of(ctx: &Ctx<'_>, row: &DiffRow) -> Data {
    let name = super::tree::shown_name(ctx, &row.name);
    let cmd = match (row.ps, row.clique) {
        (Some(ps), _) => Cmd::Proc(i64::from(ps)),
        (_, Some(clique)) => Cmd::Clique(i64::from(clique)),
        // Only the older profile has it.
        (None, None) if name == row.name => return Data::Text(name),
        (None, None) => return Data::Hinted(name, row.name.clone()),
    };
    let link = ctx.link(cmd, name);
    Data::Link(if link.label.text == row.name { link } else { link.hint(&*row.name) })
}

/// A column of each cost.
struct ChangeColumn {
    head: &'static str,
    help: &'static str,
    /// Shown also if costs are counted and not sampled.
    always: bool,
    cell: fn(&DiffReport, &Change) -> Cell,
}

const COLUMNS: &[ChangeColumn] = &[
    ChangeColumn {
        head: "Before",
        help: "cost in the older profile",
        always: true,
        cell: |r, c| amount(r, c.before),
    },
    ChangeColumn {
        head: "After",
        help: "cost in the newer profile",
        always: true,
        cell: |r, c| amount(r, c.after),
    },
    ChangeColumn {
        head: "Change",
        help: "after minus before",
        always: true,
        cell: |r, c| match c.change() {
            0 => Cell::Empty,
            n if is_time(r) => Cell::One(Data::Change(n as f64 / 1e9)),
            n => Cell::One(Data::IntChange(n)),
        },
    },
    ChangeColumn {
        head: "Sure",
        help: "standard deviations of the sampling error; in bold when it is more than chance",
        always: false,
        cell: |_, c| {
            if c.z == 0.0 {
                return Cell::Empty;
            }
            let text = format::float(c.z.abs(), 1);
            Cell::One(Data::Label(Label { text, bold: c.clear, ..Label::default() }))
        },
    },
];

fn amount(r: &DiffReport, n: i64) -> Cell {
    match n {
        0 => Cell::Empty,
        n if is_time(r) => Cell::One(Data::Seconds(n as f64 / 1e9)),
        n => Cell::One(Data::Int(n)),
    }
}

fn cells_of<'a>(r: &'a DiffReport, change: &'a Change) -> impl Iterator<Item = Cell> + 'a {
    COLUMNS.iter().filter(|c| r.chance_known || c.always).map(|c| (c.cell)(r, change))
}
