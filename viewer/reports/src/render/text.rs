//! A display as text for a terminal or a file.
//!
//! Tables are aligned. Each row that leads to a page ends with that page's command, ready to be typed. If the width is
//! limited, names are cut in the middle, but numbers never.

use crate::display::table::ColumnClass;
use crate::display::{Cell, Data, Display, Item, List, ListClass, Listing, Picture, Row, Table, format};
use crate::query::{Cmd, Developer};

/// How text is laid out.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextOptions {
    /// Columns of the terminal; `None`: as wide as necessary.
    pub width: Option<usize>,
    /// Whether rows end with the command of the page they lead to.
    pub commands: bool,
    /// Whether the closing line (other pages, rows not shown) is left out.
    pub quiet: bool,
}

/// The page as text.
#[must_use]
pub fn page(display: &Display, options: &TextOptions) -> String {
    let developer = display.this.as_ref().is_some_and(|t| t.prefs.developer == Developer::On);
    let mut out = String::new();
    if let Some(banner) = &display.banner {
        line(&mut out, &format!("{}: {}", clean(&banner.program), banner.facts.join(", ")));
        if !display.chips.is_empty() {
            let chips: Vec<String> = display.chips.iter().map(|chip| clean(&chip.text)).collect();
            line(&mut out, &format!("only {}", chips.join(", ")));
        }
    }
    if let Some(title) = &display.title {
        line(&mut out, &clean(title));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    for item in &display.items {
        write_item(&mut out, item, developer, options);
    }
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

/// Removes hidden characters: a name must not control the terminal.
fn clean(text: &str) -> String {
    pct_text::visible(text).into_owned()
}

fn write_item(out: &mut String, item: &Item, developer: bool, options: &TextOptions) {
    let Some(item) = item.seen_by(developer) else { return };
    match item {
        Item::Heading(text) | Item::Text(text) => {
            line(out, &clean(text));
            out.push('\n');
        }
        Item::Warning(text) => {
            // Some texts come from the original viewer and already say that they are warnings.
            let text = text.strip_prefix("Warning: ").unwrap_or(text);
            line(out, &format!("warning: {}", clean(text)));
            out.push('\n');
        }
        Item::Break | Item::Current(_) => {}
        Item::Link(link) => line(out, &format!("{}  {}", clean(&link.label.text), link.cmd)),
        Item::List(list) => write_list(out, list, developer, options),
        Item::Table(table) => {
            write_table(out, table, developer, options);
            out.push('\n');
        }
        Item::Verbatim(text) | Item::Listing(Listing { plain: text, .. }) => {
            for l in text.lines() {
                line(out, &clean(l));
            }
            out.push('\n');
        }
        Item::Picture(picture) => write_picture(out, picture, options),
        Item::TimePicture(picture) => {
            line(out, &clean(&picture.words));
            out.push('\n');
        }
        Item::Columns(columns) => {
            columns.iter().flatten().for_each(|i| write_item(out, i, developer, options));
        }
        Item::Developer(inner) => write_item(out, inner, developer, options),
    }
}

fn write_list(out: &mut String, list: &List, developer: bool, options: &TextOptions) {
    if let Some(title) = &list.title {
        line(out, &clean(title));
    }
    let shown: Vec<&Item> = list.items.iter().filter_map(|i| i.seen_by(developer)).collect();
    match list.class {
        ListClass::Horizontal | ListClass::HorizontalExceptTitle => {
            let words: Vec<String> = shown
                .iter()
                .map(|i| match i {
                    Item::Link(l) => format!("{} ({})", clean(&l.label.text), l.cmd),
                    Item::Text(t) => clean(t),
                    _ => String::new(),
                })
                .filter(|s| !s.is_empty())
                .collect();
            line(out, &format!("  {}", words.join("  ")));
        }
        ListClass::Plain | ListClass::Bullets => {
            let links: Vec<_> =
                shown.iter().filter_map(|i| if let Item::Link(l) = i { Some(l) } else { None }).collect();
            let width = links.iter().map(|l| l.label.text.chars().count()).max().unwrap_or(0);
            for i in &shown {
                match i {
                    Item::Link(l) => {
                        let label = clean(&l.label.text);
                        let pad = width - label.chars().count().min(width);
                        line(out, &format!("  {label}{}  {}", " ".repeat(pad), l.cmd));
                    }
                    Item::Text(t) => line(out, &format!("  {}", clean(t))),
                    other => write_item(out, other, developer, options),
                }
            }
        }
    }
    out.push('\n');
}

/// A laid-out cell: its text, the number of its columns, and whether it is aligned left.
struct Piece {
    text: String,
    span: usize,
    left: bool,
}

enum Line {
    Pieces(Vec<Piece>, Option<String>),
    Rule,
    Blank,
    Full(String),
}

fn write_table(out: &mut String, table: &Table, developer: bool, options: &TextOptions) {
    let classes = table.classes();
    let mut lines = Vec::new();
    if let Some(groups) = &table.head {
        if groups.iter().any(|g| g.title.is_some()) {
            let pieces = groups
                .iter()
                .map(|g| Piece {
                    text: g.title.clone().unwrap_or_default(),
                    span: g.heads.len(),
                    left: false,
                })
                .collect();
            lines.push(Line::Pieces(pieces, None));
        }
        let heads = groups
            .iter()
            .flat_map(|g| &g.heads)
            .map(|h| Piece { text: format::data(&h.data), span: 1, left: h.class.is_words() })
            .collect();
        lines.push(Line::Pieces(heads, None));
        lines.push(Line::Rule);
    }
    for row in &table.rows {
        push_row(&mut lines, row, developer, &classes, options);
    }

    let mut widths = widths(&lines, table.columns);
    fit(&mut widths, &classes, &lines, options);

    let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
    for l in &lines {
        match l {
            Line::Blank => out.push('\n'),
            Line::Rule => line(out, &"-".repeat(total)),
            Line::Full(text) => line(out, text),
            Line::Pieces(pieces, command) => {
                let mut text = laid_out(pieces, &widths);
                if let Some(command) = command {
                    text.push_str("  ");
                    text.push_str(command);
                }
                line(out, &text);
            }
        }
    }
    if let Some(p) = &table.paging
        && !options.quiet
    {
        line(
            out,
            &format!(
                "rows {} to {} of {}; page {} of {} (add @{} to the command)",
                p.first,
                p.last,
                p.total,
                p.page,
                p.pages,
                p.page % p.pages + 1
            ),
        );
    }
}

/// The necessary widths of columns.
fn widths(lines: &[Line], columns: usize) -> Vec<usize> {
    let mut widths = vec![0usize; columns];
    for l in lines {
        if let Line::Pieces(pieces, _) = l {
            let mut column = 0;
            for p in pieces {
                if p.span == 1 && column < widths.len() {
                    widths[column] = widths[column].max(p.text.chars().count());
                }
                column += p.span;
            }
        }
    }
    // If a cell that spans several columns does not fit, one of them is widened.
    for l in lines {
        if let Line::Pieces(pieces, _) = l {
            let mut column = 0;
            for p in pieces.iter() {
                if p.span > 1 && column + p.span <= widths.len() {
                    let have: usize =
                        widths[column..column + p.span].iter().sum::<usize>() + 2 * (p.span - 1);
                    let want = p.text.chars().count();
                    if want > have {
                        let widen = if p.left { column + p.span - 1 } else { column };
                        widths[widen] += want - have;
                    }
                }
                column += p.span;
            }
        }
    }
    widths
}

/// Joins pieces side by side. Words that are too long for their columns are cut.
fn laid_out(pieces: &[Piece], widths: &[usize]) -> String {
    let mut text = String::new();
    let mut column = 0;
    for p in pieces {
        if column > 0 {
            text.push_str("  ");
        }
        let end = (column + p.span).min(widths.len());
        let room = widths[column.min(end)..end].iter().sum::<usize>() + 2 * (p.span - 1);
        let shown = if p.left { pct_icicle::text::cut(&p.text, room.max(3)) } else { p.text.clone() };
        let pad = " ".repeat(room.saturating_sub(shown.chars().count()));
        if p.left {
            text.push_str(&shown);
            text.push_str(&pad);
        } else {
            text.push_str(&pad);
            text.push_str(&shown);
        }
        column += p.span;
    }
    text
}

/// Narrows the columns of words, widest first, until the table fits the terminal.
fn fit(widths: &mut [usize], classes: &[ColumnClass], lines: &[Line], options: &TextOptions) {
    let Some(limit) = options.width else { return };
    let command = lines
        .iter()
        .filter_map(|l| if let Line::Pieces(_, Some(c)) = l { Some(c.len() + 2) } else { None })
        .max()
        .unwrap_or(0);
    let mut total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1) + command;
    while total > limit {
        let widest = (0..widths.len())
            .filter(|&i| classes.get(i).is_some_and(|c| c.is_words()) && widths[i] > 12)
            .max_by_key(|&i| widths[i]);
        let Some(i) = widest else { return };
        let take = (total - limit).min(widths[i] - 12).min((widths[i] / 4).max(1));
        widths[i] -= take;
        total -= take;
    }
}

fn push_row(
    lines: &mut Vec<Line>,
    row: &Row,
    developer: bool,
    classes: &[ColumnClass],
    options: &TextOptions,
) {
    match row {
        Row::Cells(cells) | Row::Summary(cells) | Row::Part(cells) => {
            let mut pieces = Vec::new();
            let mut command = None;
            let mut column = 0;
            for cell in cells {
                let (text, span, left) = match cell {
                    Cell::Empty => (String::new(), 1, false),
                    Cell::One(data) => {
                        let left = match classes.get(column) {
                            Some(class) => class.is_words(),
                            None => !data.is_number(),
                        };
                        (clean(&format::data(data)), 1, left)
                    }
                    Cell::Span(data, n) => (clean(&format::data(data)), *n, true),
                };
                let is_part = matches!(row, Row::Part(_)) && classes.get(column) == Some(&ColumnClass::Name);
                let text = if is_part { format!("  {text}") } else { text };
                if let Cell::One(Data::Link(link)) | Cell::Span(Data::Link(link), _) = cell
                    && options.commands
                    && (command.is_none() || !matches!(link.cmd, Cmd::Source(..) | Cmd::Module(_)))
                {
                    command = Some(link.cmd.to_string());
                }
                pieces.push(Piece { text, span, left });
                column += span;
            }
            lines.push(Line::Pieces(pieces, command));
        }
        Row::Separator => {
            if !matches!(lines.last(), Some(Line::Blank | Line::Rule)) {
                lines.push(Line::Blank);
            }
        }
        Row::Section(data) => {
            if !matches!(lines.last(), Some(Line::Blank | Line::Rule)) {
                lines.push(Line::Blank);
            }
            lines.push(Line::Full(clean(&format::data(data))));
        }
        Row::Note(parts) => {
            let words: Vec<String> = parts
                .iter()
                .filter(|d| !matches!(d, Data::Link(_)))
                .map(|d| clean(&format::data(d)))
                .collect();
            lines.push(Line::Full(words.join(" ")));
        }
        Row::Developer(inner) => {
            if developer {
                push_row(lines, inner, developer, classes, options);
            }
        }
    }
}

/// The heavy branches of a picture as an indented tree.
fn write_picture(out: &mut String, picture: &Picture, options: &TextOptions) {
    if !picture.large {
        return;
    }
    line(out, &clean(&picture.caption));
    let older = picture.compares.is_some_and(|c| c.draws_older);
    let weight = |n: &crate::display::PictureNode| if older { n.before } else { n.total };
    let whole = picture.nodes.first().map_or(1, weight).max(1);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); picture.nodes.len()];
    for (i, node) in picture.nodes.iter().enumerate().skip(1) {
        if let Some(c) = children.get_mut(node.parent) {
            c.push(i);
        }
    }
    let mut stack = vec![(0usize, 0usize)];
    let mut shown = 0;
    while let Some((i, depth)) = stack.pop() {
        let Some(node) = picture.nodes.get(i) else { continue };
        let share = weight(node) as f64 / whole as f64;
        if share < 0.005 || shown >= 400 {
            continue;
        }
        shown += 1;
        let room = options.width.map_or(usize::MAX, |w| w.saturating_sub(22 + 2 * depth.min(40)).max(12));
        let name = pct_icicle::text::cut(&clean(&node.name), room);
        let command = match &node.link {
            Some(cmd) if options.commands => format!("  {cmd}"),
            _ => String::new(),
        };
        line(out, &format!("{:>7}%  {}{name}{command}", format::percent(share), "  ".repeat(depth)));
        let mut below = children[i].clone();
        below.sort_by_key(|&c| weight(&picture.nodes[c]));
        stack.extend(below.into_iter().map(|c| (c, depth + 1)));
    }
    if shown < picture.nodes.len() && !options.quiet {
        line(
            out,
            &format!(
                "{} smaller branches not shown (below 0.5%)",
                format::count(picture.nodes.len() - shown)
            ),
        );
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::table::{Boxing, Head};
    use crate::display::{HeadGroup, Link};
    use crate::query::{Cmd, Prefs};

    fn sample() -> Display {
        let prefs = Prefs::default_for(true);
        let mut t = Table::new(
            Boxing::Always,
            vec![
                HeadGroup::single(Head::text("Procedure", ColumnClass::Words)),
                HeadGroup {
                    title: Some("Calls".into()),
                    heads: vec![
                        Head::text("Self", ColumnClass::Number),
                        Head::text("%", ColumnClass::Number),
                    ],
                    coloured: true,
                },
            ],
        );
        let link = Link::new(Cmd::Proc(62), &prefs, "math.a_rather_long_name_of_a_procedure/2+1-0");
        t.rows = vec![
            Row::Cells(vec![
                Cell::One(link.into()),
                Cell::One(Data::Int(1_000_000)),
                Cell::One(Data::Percent(0.5)),
            ]),
            Row::Section(Data::text("more")),
            Row::Cells(vec![Cell::Span(Data::text("both"), 2), Cell::Empty]),
        ];
        let mut d = Display::new("Top\u{1b}[2J");
        d.items = vec![Item::Table(t)];
        d
    }

    #[test]
    fn tables_are_aligned_and_rows_end_with_their_command() {
        let text = page(&sample(), &TextOptions { commands: true, ..TextOptions::default() });
        let expected = "\
Top\\u{1b}[2J

                                                         Calls
Procedure                                          Self      %
--------------------------------------------------------------
math.a_rather_long_name_of_a_procedure/2+1-0  1,000,000  50.00  proc/62

more
both
";
        assert_eq!(text, expected);
    }

    #[test]
    fn names_are_cut_to_the_width_and_numbers_are_not() {
        let text = page(&sample(), &TextOptions { width: Some(40), commands: true, quiet: false });
        assert!(text.lines().all(|l| l.chars().count() <= 40), "{text}");
        assert!(text.contains("1,000,000  50.00  proc/62"), "{text}");
    }

    #[test]
    fn no_name_steers_the_terminal() {
        assert!(!page(&sample(), &TextOptions::default()).contains('\u{1b}'));
    }
}
