//! Tables as HTML.

use super::html::{LONG, Renderer};
use super::html_width;
use crate::display::table::{Boxing, ColumnClass, Paging, Sorted};
use crate::display::{Cell, Data, HeadGroup, Label, Link, Row, Table, format};
use crate::query::Boxes;
use maud::{Markup, html};

impl Renderer<'_> {
    pub(super) fn table(&self, table: &Table) -> Markup {
        let boxed = match table.boxing {
            Boxing::Never => false,
            Boxing::Always => true,
            Boxing::ByPref => self.prefs.is_none_or(|p| p.boxes == Boxes::Box),
        };
        let class = match (table.head.is_some(), boxed) {
            (false, _) => "facts",
            (true, true) => "data boxed",
            (true, false) => "data",
        };
        let classes = table.classes();
        html! {
            @if let Some(text) = html_width::left_out(table) { p.narrow { (text) } }
            @if let Some((classes, text)) = html_width::note(table) { p class=(classes) { (text) } }
            table class=(class) data-flat[table.flat] {
                @if let Some(groups) = &table.head { (self.head(groups)) }
                tbody { @for row in &table.rows { (self.row(row, table.columns, &classes)) } }
            }
            @if let Some(paging) = &table.paging { (self.paging(paging)) }
        }
    }

    fn paging(&self, paging: &Paging) -> Markup {
        html! {
            p.paging {
                "rows " (format::count(paging.first)) " to " (format::count(paging.last))
                " of " (format::count(paging.total)) " "
                @for link in &paging.links { (self.link(link)) " " }
            }
        }
    }

    fn head(&self, groups: &[HeadGroup]) -> Markup {
        let two = groups.iter().any(|g| g.title.is_some());
        let mut coloured = 0;
        let shades: Vec<bool> = groups
            .iter()
            .map(|g| {
                coloured += usize::from(g.coloured);
                g.coloured && coloured % 2 == 1
            })
            .collect();
        let cell_class = |shade: bool, class: ColumnClass, first: bool| {
            let mut c = String::new();
            if class.is_words() {
                c.push_str("l ");
            }
            c.push_str(column_class(class));
            if shade {
                c.push_str("shade ");
            }
            if first {
                c.push('g');
            }
            c
        };
        html! {
            @for (group, shade) in groups.iter().zip(&shades) {
                colgroup span=(group.heads.len()) class=(if *shade { "shade" } else { "" }) {}
            }
            thead {
                tr {
                    @for (group, shade) in groups.iter().zip(&shades) {
                        @if let Some(title) = &group.title {
                            th.group.shade[*shade].g colspan=(group.heads.len()) scope="colgroup" { (title) }
                        } @else {
                            @for head in &group.heads {
                                th rowspan=[two.then_some("2")] scope="col" class=(cell_class(*shade, head.class, false))
                                    title=[head.help] aria-sort=[head.sorted.map(sort_word)] { (self.datum(&head.data)) }
                            }
                        }
                    }
                }
                @if two {
                    tr.second {
                        @for (group, shade) in groups.iter().zip(&shades) {
                            @if group.title.is_some() {
                                @for (i, head) in group.heads.iter().enumerate() {
                                    th scope="col" class=(cell_class(*shade, head.class, i == 0)) title=[head.help]
                                        aria-sort=[head.sorted.map(sort_word)] {
                                        (self.datum(&head.data))
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn row(&self, row: &Row, columns: usize, classes: &[ColumnClass]) -> Markup {
        match row {
            Row::Cells(cells) => html! { tr { (self.cells(cells, classes)) } },
            Row::Summary(cells) => html! { tr.sum { (self.cells(cells, classes)) } },
            Row::Part(cells) => html! { tr.part { (self.cells(cells, classes)) } },
            Row::Separator => html! { tr.sep { td colspan=(columns) {} } },
            Row::Section(data) => html! {
                tr.section { th colspan=(columns) scope="rowgroup" { (self.datum(data)) } }
            },
            Row::Note(parts) => html! {
                tr.note { td colspan=(columns) { @for p in parts { (self.datum(p)) " " } } }
            },
            Row::Developer(inner) if self.developer => self.row(inner, columns, classes),
            Row::Developer(_) => html! {},
        }
    }

    fn cells(&self, cells: &[Cell], classes: &[ColumnClass]) -> Markup {
        let mut column = 0;
        html! {
            @for cell in cells {
                @match cell {
                    Cell::Empty => { td class=[classed(classes.get(column).copied(), None)] {} }
                    Cell::One(data) => {
                        @let class = classes.get(column).copied();
                        @let words = class.map_or(!data.is_number(), ColumnClass::is_words);
                        td class=[classed(class, cell_class(words, data))] title=[format::raw(data)] { (self.datum(data)) }
                    }
                    Cell::Span(data, n) => {
                        // A name that is in the columns of place and name of other rows.
                        @let has_name = classes.iter().skip(column).take(*n).any(|c| *c == ColumnClass::Name);
                        @let class = has_name.then_some(ColumnClass::Name);
                        td class=[classed(class, cell_class(true, data))] colspan=(n) { (self.datum(data)) }
                    }
                }
                @let () = column += cell.columns();
            }
        }
    }
}

/// The value of `aria-sort`. The style sheet turns it into a mark.
fn sort_word(sorted: Sorted) -> &'static str {
    match sorted {
        Sorted::Descending => "descending",
        Sorted::Ascending => "ascending",
    }
}

/// The classes of a cell: its column's and its own.
fn classed(column: Option<ColumnClass>, own: Option<&str>) -> Option<String> {
    let class = format!("{}{}", column.map_or("", column_class), own.unwrap_or_default());
    Some(class.trim_end().to_owned()).filter(|c| !c.is_empty())
}

/// The style sheet's class for a column, followed by a blank.
fn column_class(class: ColumnClass) -> &'static str {
    match class {
        ColumnClass::Name => "nm ",
        ColumnClass::Place | ColumnClass::Rank => "pl ",
        ColumnClass::Words | ColumnClass::Number => "",
    }
}

/// Alignment and heat of a cell.
fn cell_class(words: bool, data: &Data) -> Option<&'static str> {
    match data {
        Data::AtMost(inner) => cell_class(words, inner),
        data if data.is_number() && !format::data(data).bytes().any(|b| (b'1'..=b'9').contains(&b)) => {
            Some("z")
        }
        Data::Percent(share) => Some(pct_icicle::heat_class(*share)).filter(|c| !c.is_empty()),
        // Long names may take several lines; source positions and short names stay on one.
        Data::Link(Link { label: Label { text, .. }, .. })
        | Data::Text(text)
        | Data::Label(Label { text, .. })
            if words && text.len() > LONG =>
        {
            Some("w")
        }
        _ if words => Some("l"),
        _ => None,
    }
}
