//! A display as one HTML page: no request but the page itself, whole without script, better with it.
//!
//! Knows nothing of profiles: of the outside it takes only what addresses are made of ([`Place`]). Every text goes
//! through maud's escaping; addresses are percent-encoded by [`crate::query::print`] and begin with `?`, so they hold
//! whatever host, port and scheme the reader came by.

use crate::display::table::{Boxing, ColumnClass, Paging, Sorted};
use crate::display::{
    Cell, Compared, Data, Display, HeadGroup, Item, Label, Link, LinkClass, List, ListClass, Picture, Row,
    Table, format,
};
use crate::query::{self, Boxes, Cmd, Colour, Developer, Incl, Prefs};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::borrow::Cow;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The theme that the reader has chosen, before anything is drawn: a page must not flash.
const THEME: &str =
    r#"try{var t=localStorage.getItem("pct-theme");if(t)document.documentElement.dataset.theme=t}catch(e){}"#;

/// Where the page is served.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Path of the program that answers, for the links to other forms of a page (`SCRIPT/json?...`); `None`: there
    /// are no such forms.
    pub script: Option<String>,
    /// The data file, as queries name it.
    pub file: String,
    /// Nonce of the content security policy, for the page's own script and style.
    pub nonce: Option<String>,
    /// A remark on top of the page.
    pub notice: Option<Notice>,
}

/// A remark on top of a page ("the file has changed since it was read").
#[derive(Clone, Debug, Default)]
pub struct Notice {
    /// What it says.
    pub text: String,
    /// What can be done about it.
    pub link: Option<(String, Cmd)>,
}

/// The whole page.
#[must_use]
pub fn page(display: &Display, place: &Place) -> String {
    let (prefs, developer) = match &display.this {
        Some(this) => (Some(this.prefs), this.prefs.developer == Developer::On),
        None => (None, false),
    };
    let r = Renderer { place, prefs, developer };
    let title = match &display.title {
        Some(t) => format!("{t} - {} - pct", place.file),
        None => format!("{} - pct", place.file),
    };
    let body_class = match prefs.map(|p| p.colour) {
        Some(Colour::None) => "plain",
        _ => "shades",
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex, nofollow";
                link rel="icon" href="data:,";
                title { (title) }
                style nonce=[place.nonce.as_deref()] { (PreEscaped(STYLE)) }
                script nonce=[place.nonce.as_deref()] { (PreEscaped(THEME)) }
            }
            body class=(body_class) {
                a.skip href="#content" { "skip to the content" }
                (r.top(display))
                @if let Some(notice) = &place.notice {
                    p.warning role="status" {
                        (notice.text)
                        @if let Some((label, cmd)) = &notice.link { " " a href=(r.href(cmd, 1, r.prefs.as_ref())) { (label) } }
                    }
                }
                main #content {
                    @if let Some(title) = &display.title { h1 { (with_breaks(title)) } }
                    @for item in &display.items { (r.item(item)) }
                    @if display.title.is_none() && display.items.is_empty() { p { "There is nothing to show." } }
                }
                (r.foot(display))
                script nonce=[place.nonce.as_deref()] { (PreEscaped(SCRIPT)) }
            }
        }
    };
    // In one place for all texts and attributes: markup, styles and scripts of ours hold no hidden character.
    match pct_text::visible_lines(&page.0) {
        Cow::Borrowed(_) => page.into_string(),
        Cow::Owned(page) => page,
    }
}

/// A page that says what happened and leads back: for errors that come before there is a profile.
#[must_use]
pub fn message(heading: &str, text: &str, place: &Place) -> String {
    let mut display = Display::new(heading);
    display.items.push(Item::Text(text.to_owned()));
    page(&display, place)
}

/// A page that asks whether a command that changes the server is meant; its button sends the command by POST.
#[must_use]
pub fn confirm(question: &str, cmd: &Cmd, place: &Place) -> String {
    let body = message(question, "", place);
    let action = format!("?{}", query::print(cmd, 1, None, &place.file));
    let button = html! {
        form method="post" action=(action) { button type="submit" { "Yes" } }
    };
    // The text of the message is empty: its paragraph is where the button goes.
    body.replacen("<p></p>", &button.into_string(), 1)
}

struct Renderer<'a> {
    place: &'a Place,
    prefs: Option<Prefs>,
    developer: bool,
}

impl Renderer<'_> {
    fn href(&self, cmd: &Cmd, page: u32, prefs: Option<&Prefs>) -> String {
        format!("?{}", query::print(cmd, page, prefs, &self.place.file))
    }

    fn top(&self, display: &Display) -> Markup {
        let menu = self.href(&Cmd::Menu, 1, self.prefs.as_ref());
        html! {
            header.top {
                a.brand href=(menu) title="menu" { "pct" }
                @if let Some(banner) = &display.banner {
                    span.program title=(self.place.file) { (banner.program) }
                    span.facts { @for fact in &banner.facts { span { (fact) } } }
                }
                @if let Some(this) = &display.this {
                    form.search role="search" method="get" action="" {
                        input #search type="search" name="s" maxlength="200" autocomplete="off"
                            aria-label="Search names and file:line"
                            placeholder="search names, file:line"
                            value=[match &this.cmd { Cmd::Search(text) => Some(text), _ => None }];
                        input type="hidden" name="p" value=(this.prefs);
                        input type="hidden" name="f" value=(self.place.file);
                    }
                }
            }
            @if !display.crumbs.is_empty() {
                nav.crumbs aria-label="path" {
                    @for (i, link) in display.crumbs.iter().enumerate() {
                        @if i > 0 { span.sep { "\u{203a}" } }
                        @if i + 2 == display.crumbs.len() {
                            a #up href=(self.href(&link.cmd, link.page, link.prefs.as_ref())) { (link.label.text) }
                        } @else if i + 1 == display.crumbs.len() {
                            span aria-current="page" { (link.label.text) }
                        } @else {
                            a href=(self.href(&link.cmd, link.page, link.prefs.as_ref())) { (link.label.text) }
                        }
                    }
                }
            }
            @if display.controls.iter().any(|i| i.seen_by(self.developer).is_some()) {
                details.options {
                    summary { "display options" }
                    div.controls { @for item in &display.controls { (self.item(item)) } }
                }
            }
        }
    }

    fn foot(&self, display: &Display) -> Markup {
        let Some(this) = &display.this else { return html! {} };
        let query = query::print(&this.cmd, this.page, Some(&this.prefs), &self.place.file);
        html! {
            footer {
                @if let Some(script) = &self.place.script {
                    @if !this.cmd.is_control() {
                        a href={ (script) "/json?" (query) } { "json" }
                        a href={ (script) "/text?" (query) } { "text" }
                    }
                }
                @if let Some(cmd) = &this.permalink {
                    a href=(self.href(cmd, 1, Some(&this.prefs))) title="the same page after a new run, by name" { "permalink by name" }
                }
                details.help {
                    summary { "help on the columns" }
                    dl {
                        @for (word, meaning) in HELP { dt { (word) } dd { (meaning) } }
                    }
                }
            }
        }
    }

    fn item(&self, item: &Item) -> Markup {
        let Some(item) = item.seen_by(self.developer) else { return html! {} };
        match item {
            Item::Heading(text) => html! { h2 { (with_breaks(text)) } },
            Item::Text(text) => html! { p { (text) } },
            Item::Warning(text) => html! { p.warning role="alert" { (text) } },
            Item::Current(text) => html! { b.current aria-current="true" { (text) } },
            Item::Break => html! { p.gap {} },
            Item::Link(link) => html! { p { (self.link(link)) } },
            Item::List(list) => self.list(list),
            Item::Table(table) => self.table(table),
            Item::Verbatim(text) => html! { pre tabindex="0" { (text) } },
            Item::Picture(picture) => self.picture(picture),
            Item::Columns(items) => html! { div.columns { @for i in items { (self.item(i)) } } },
            Item::Developer(inner) => self.item(inner),
        }
    }

    fn list(&self, list: &List) -> Markup {
        let items = || list.items.iter().filter(|i| i.seen_by(self.developer).is_some());
        let title = || html! { @if let Some(t) = &list.title { span.title { (t) } " " } };
        match list.class {
            ListClass::Bullets => html! {
                div.list { (title()) ul { @for i in items() { li { (self.inline(i)) } } } }
            },
            ListClass::Plain => html! {
                div.list { (title()) @for i in items() { div { (self.inline(i)) } } }
            },
            ListClass::Horizontal => html! {
                div.list.row { (title()) @for i in items() { (self.inline(i)) " " } }
            },
            ListClass::HorizontalExceptTitle => html! {
                div.list { (title()) div.row { @for i in items() { (self.inline(i)) " " } } }
            },
        }
    }

    /// An item of a list: links and texts without a paragraph of their own.
    fn inline(&self, item: &Item) -> Markup {
        match item.seen_by(self.developer) {
            Some(Item::Link(link)) => self.link(link),
            Some(Item::Text(text)) => html! { (text) },
            Some(other) => self.item(other),
            None => html! {},
        }
    }

    fn link(&self, link: &Link) -> Markup {
        let href = match &link.file {
            Some(file) => format!("?{}", query::print(&link.cmd, link.page, link.prefs.as_ref(), file)),
            None => self.href(&link.cmd, link.page, link.prefs.as_ref()),
        };
        let rel = link.cmd.is_control().then_some("nofollow");
        html! {
            @if matches!(link.cmd, Cmd::Source(..)) {
                a.src href=(href) title=[link.hint.as_deref()] { (label(&link.label)) }
            } @else if link.class == LinkClass::Control {
                a.control href=(href) rel=[rel] title=[link.hint.as_deref()] { (label(&link.label)) }
            } @else {
                a href=(href) rel=[rel] title=[link.hint.as_deref()] { (label(&link.label)) }
            }
        }
    }

    fn datum(&self, data: &Data) -> Markup {
        match data {
            Data::Link(link) => self.link(link),
            Data::Text(text) | Data::Hinted(text, _) => with_breaks(text),
            Data::Label(l) => label(l),
            Data::Code(text) => html! { code { (text) } },
            number => html! { (format::data(number)) },
        }
    }

    fn table(&self, table: &Table) -> Markup {
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
                "rows " (format::int(paging.first as i64)) " to " (format::int(paging.last as i64))
                " of " (format::int(paging.total as i64)) " "
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
            if class == ColumnClass::Words {
                c.push_str("l ");
            }
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
                    Cell::Empty => { td {} }
                    Cell::One(data) => {
                        @let words = match classes.get(column) {
                            Some(class) => *class == ColumnClass::Words,
                            None => !data.is_number(),
                        };
                        td class=[cell_class(words, data)] title=[format::raw(data)] { (self.datum(data)) }
                    }
                    Cell::Span(data, n) => { td class=[cell_class(true, data)] colspan=(n) { (self.datum(data)) } }
                }
                @let () = column += match cell { Cell::Span(_, n) => *n, Cell::One(_) | Cell::Empty => 1 };
            }
        }
    }

    fn picture(&self, picture: &Picture) -> Markup {
        let Some(root) = picture.nodes.first() else { return html! {} };
        let mut tree = pct_icicle::Tree::new(&root.name);
        let mut ids = vec![tree.root()];
        let mut own: Vec<u64> = picture.nodes.iter().map(|n| n.total).collect();
        let mut before: Vec<u64> = picture.nodes.iter().map(|n| n.before).collect();
        for (i, node) in picture.nodes.iter().enumerate().skip(1) {
            let parent = node.parent.min(i - 1);
            own[parent] = own[parent].saturating_sub(node.total);
            before[parent] = before[parent].saturating_sub(node.before);
            let id = tree.push(ids[parent], &node.name);
            ids.push(id);
        }
        for (i, node) in picture.nodes.iter().enumerate() {
            tree.add(ids[i], own[i]);
            if picture.compares.is_some() {
                tree.add_base(ids[i], before[i]);
            }
            if let Some(group) = &node.group {
                tree.set_group(ids[i], group);
            }
            if let Some(cmd) = &node.link {
                tree.set_link(ids[i], &self.href(cmd, 1, self.prefs.as_ref()));
            }
        }
        if let Some(here) = picture.here.and_then(|i| ids.get(i)) {
            tree.mark(*here);
        }
        let options = pct_icicle::Options {
            unit: picture.unit.to_owned(),
            direction: pct_icicle::Direction::Icicle,
            order: pct_icicle::Order::Weight,
            click: if picture.zooms { pct_icicle::Click::Zoom } else { pct_icicle::Click::Link },
            row: if picture.large { 18 } else { 17 },
            min_width: if picture.large { 0.3 } else { 1.0 },
            frame: picture.large,
            nonce: self.place.nonce.clone(),
            max_depth: picture.levels,
            weight: if picture.seconds { seconds_of } else { pct_icicle::Options::default().weight },
            diff: picture.compares.map(|c| match c.incl {
                Incl::Own => pct_icicle::DiffBy::Own,
                Incl::Total => pct_icicle::DiffBy::Total,
            }),
            drawn: match picture.compares {
                Some(Compared { draws_older: true, .. }) => pct_icicle::Drawn::Before,
                _ => pct_icicle::Drawn::After,
            },
            normalize: false,
            ..pct_icicle::Options::default()
        };
        html! {
            figure.picture {
                (PreEscaped(pct_icicle::svg(&tree, &options)))
                @if !options.frame {
                    ul.legend {
                        @for key in pct_icicle::legend(&tree, &options) {
                            li {
                                svg.key width="12" height="12" aria-hidden="true" {
                                    rect width="12" height="12" fill=(key.colour) {}
                                }
                                " " (key.label)
                            }
                        }
                    }
                }
                figcaption { (picture.caption) }
            }
        }
    }
}

/// The word of `aria-sort`; the style sheet makes the mark of it.
fn sort_word(sorted: Sorted) -> &'static str {
    match sorted {
        Sorted::Descending => "descending",
        Sorted::Ascending => "ascending",
    }
}

/// Nanoseconds as seconds.
fn seconds_of(ns: u64) -> String {
    format::float(ns as f64 / 1e9, 3)
}

fn label(label: &Label) -> Markup {
    let mut text = with_breaks(&label.text);
    if label.bold {
        text = html! { b { (text) } };
    }
    if label.italic {
        text = html! { i { (text) } };
    }
    if label.underline {
        text = html! { u { (text) } };
    }
    text
}

/// Names of more octets than this may take several lines.
const LONG: usize = 48;

/// Escaped text that, if it is long, may be broken after `.`, `_`, `/` and `:`.
fn with_breaks(text: &str) -> Markup {
    // Short texts stay on one line: breaks in them cost octets and never help.
    let long = text.len() > LONG;
    let mut out = String::with_capacity(text.len() + 16);
    let mut run = 0;
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
        run += 1;
        if long && matches!(c, '.' | '_' | '/' | ':') && run > 8 {
            out.push_str("<wbr>");
            run = 0;
        }
    }
    PreEscaped(out)
}

/// Alignment and heat of a cell.
fn cell_class(words: bool, data: &Data) -> Option<&'static str> {
    const HEAT: [&str; 10] = ["", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9"];
    match data {
        Data::AtMost(inner) => cell_class(words, inner),
        Data::Percent(share) => {
            // Square root: one percent is visible, a hundred is full.
            let level = (share.clamp(0.0, 1.0).sqrt() * 9.0 + 0.2) as usize;
            Some(HEAT[level.min(9)]).filter(|c| !c.is_empty())
        }
        // Long names may take several lines; places and short names stay on one.
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

/// What the words of the pages mean.
pub const HELP: &[(&str, &str)] = &[
    ("Calls", "how often it was called: exits + fails + exceptions - redos"),
    ("Exits, Fails", "returns with success, and failures"),
    ("Redos", "re-entries by backtracking, to find another solution"),
    ("Excps", "exits by exception"),
    ("Self", "what happened in the procedure itself"),
    ("Total", "self and everything called from there"),
    ("Clock ticks", "samples of the clock that fell there; few ticks mean little"),
    ("Call sequence numbers", "call events: a measure of time that is the same in every run"),
    ("Memory", "words or bytes allocated, whether or not they were freed later"),
    ("/call", "the number to its left, divided by calls"),
    ("Clique", "procedures that call each other, in one calling context"),
    (
        "Higher order and method calls",
        "may lead back to their own procedure in a new context; inner costs are then counted once only (compensated)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::table::Head;
    use crate::display::{Banner, This};

    fn hostile() -> String {
        "<script>alert('x')</script>&\"\u{1b}[2J\u{202e}txt".to_owned()
    }

    #[test]
    fn no_text_anywhere_becomes_markup() {
        let prefs = Prefs::default_for(true);
        let bad = hostile;
        let link = Link::new(Cmd::Module(bad()), &prefs, bad()).hint(bad());
        let head = HeadGroup {
            title: Some(bad()),
            heads: vec![Head::text(&bad(), ColumnClass::Words)],
            coloured: true,
        };
        let mut table = Table::new(Boxing::Always, vec![head]);
        table.rows = vec![
            Row::Cells(vec![Cell::One(Data::Text(bad()))]),
            Row::Cells(vec![Cell::One(Data::Link(link.clone()))]),
            Row::Section(Data::Label(Label::bold(bad()))),
            Row::Note(vec![Data::Text(bad())]),
        ];
        let mut d = Display::new(bad());
        d.crumbs = vec![link.clone(), link.clone(), link.clone()];
        d.banner = Some(Banner { program: bad(), facts: vec![bad()] });
        d.this =
            Some(This { cmd: Cmd::Search(bad()), page: 1, prefs, permalink: Some(Cmd::ProcNamed(bad())) });
        d.items = vec![
            Item::Heading(bad()),
            Item::Text(bad()),
            Item::Warning(bad()),
            Item::Verbatim(bad()),
            Item::Link(link.clone()),
            Item::List(List {
                class: ListClass::Bullets,
                title: Some(bad()),
                items: vec![Item::Text(bad())],
            }),
            Item::Table(table),
            Item::Picture(Picture {
                caption: bad(),
                unit: "calls",
                seconds: false,
                compares: Some(Compared { incl: Incl::Total, draws_older: false }),
                levels: 9,
                zooms: true,
                nodes: vec![crate::display::PictureNode {
                    parent: 0,
                    name: bad(),
                    total: 1,
                    before: 1,
                    group: Some(bad()),
                    link: None,
                }],
                here: Some(0),
                large: true,
            }),
        ];
        d.controls = d.items.clone();
        let place = Place {
            script: Some("/cgi-bin/mdprof_cgi".into()),
            file: bad(),
            nonce: Some("n0nce".into()),
            notice: Some(Notice { text: bad(), link: Some((bad(), Cmd::Restart)) }),
        };
        let page = page(&d, &place);
        assert!(!page.contains("<script>alert"), "{page}");
        assert_eq!(page.find(|c| pct_text::is_hidden(c) && !matches!(c, '\n' | '\t')), None, "{page}");
        // Every script that is there is ours.
        assert_eq!(page.matches("<script").count(), page.matches("<script nonce=\"n0nce\">").count());
    }

    #[test]
    fn a_page_asks_for_nothing_else() {
        let page = page(&Display::new("x"), &Place { file: "f.data".into(), ..Place::default() });
        for word in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.replace("http://www.w3.org", "").contains(word), "{word}");
        }
    }

    #[test]
    fn an_empty_page_says_so() {
        let mut d = Display::new("x");
        d.title = None;
        assert!(page(&d, &Place::default()).contains("nothing to show"));
    }

    #[test]
    fn shades_alternate_over_coloured_groups_only() {
        let g = |coloured| HeadGroup {
            title: Some("t".into()),
            heads: vec![Head::text("h", ColumnClass::Number)],
            coloured,
        };
        let mut d = Display::new("x");
        d.items = vec![Item::Table(Table::new(Boxing::Always, vec![g(false), g(true), g(true), g(true)]))];
        let page = page(&d, &Place::default());
        let groups: Vec<&str> = page
            .match_indices("<colgroup")
            .map(|(i, _)| &page[i..i + page[i..].find('>').unwrap()])
            .collect();
        let shaded: Vec<bool> = groups.iter().map(|g| g.contains("\"shade\"")).collect();
        assert_eq!(shaded, [false, true, false, true]);
    }
}
