//! Renders a display as one HTML page. It makes no further request, is complete without script, and better with it.
//!
//! It knows no profiles: from outside it only gets what addresses are made of ([`PageContext`]). Every text goes
//! through maud's escaping. Addresses are percent-encoded by [`crate::query::print`] and begin with `?`, so they are
//! valid for any host, port and scheme.

use crate::display::{Data, Display, Heat, Item, Label, Link, LinkClass, List, ListClass, Listing, format};
use crate::query::{self, Cmd, Colour, Developer, Prefs};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use pct_text::visible;
use std::borrow::Cow;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Sets the reader's theme before anything is drawn, so that the page does not flash.
const THEME: &str =
    r#"try{var t=localStorage.getItem("pct-theme");if(t)document.documentElement.dataset.theme=t}catch(e){}"#;

/// The address at which the page is served.
#[derive(Clone, Debug, Default)]
pub struct PageContext {
    /// Path of the program that answers, for links to other forms of a page (`SCRIPT/json?...`). `None`: there are no
    /// other forms.
    pub script: Option<String>,
    /// The data file, as queries name it.
    pub file: String,
    /// Nonce of the content security policy, for the page's own script and style.
    pub nonce: Option<String>,
    /// A notice at the top of the page.
    pub notice: Option<Notice>,
    /// A page about the same profile that another part of the server answers. Its link is beside the parts of the
    /// profile.
    pub beside: Option<Beside>,
}

/// A link to a page that another part of the server answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// The link's text.
    pub label: String,
    /// The link's target, relative to the address of a page.
    pub address: String,
}

/// A notice at the top of a page ("the file has changed since it was read").
#[derive(Clone, Debug, Default)]
pub struct Notice {
    /// The text.
    pub text: String,
    /// A link to a remedy.
    pub link: Option<(String, Cmd)>,
}

/// The whole page.
#[must_use]
pub fn page(display: &Display, place: &PageContext) -> String {
    let (prefs, developer) = match &display.this {
        Some(this) => (Some(this.prefs), this.prefs.developer == Developer::On),
        None => (None, false),
    };
    let r = Renderer { place, prefs, developer };
    let program = display.banner.as_ref().map(|banner| &banner.program);
    let title = match display.title.as_ref().or(program) {
        Some(t) => format!("{} - {} - pct", visible(t), place.file),
        None => format!("{} - pct", place.file),
    };
    let body_class = match prefs.map(|p| p.colour) {
        Some(Colour::None) => "plain",
        _ => "shades",
    };
    let nonce = place.nonce.as_deref();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (pct_icicle::page_head(&title, STYLE, nonce, &html! {
                meta name="robots" content="noindex, nofollow";
                script nonce=[nonce] { (PreEscaped(THEME)) }
            }))
            body class=(body_class) {
                a.skip href="#content" { "skip to the content" }
                (r.top(display))
                @if let Some(notice) = &place.notice {
                    p.warning role="status" {
                        (notice.text)
                        @if let Some((label, cmd)) = &notice.link { " " a href=(r.href(cmd, 1, r.prefs.as_ref())) { (label) } }
                    }
                }
                (r.chips(display))
                main #content {
                    @if let Some(title) = &display.title { h1 { (with_breaks(title)) } }
                    (r.tabs("tabs", "views of this", &display.tabs, None))
                    (r.options(display))
                    @for item in &display.items { (r.item(item)) }
                    @if display.title.is_none() && display.items.is_empty() { p { "There is nothing to show." } }
                }
                (r.foot(display))
                script nonce=[nonce] { (PreEscaped(SCRIPT)) }
            }
        }
    };
    // Done in one place for all texts and attributes: the renderer's own markup, styles and scripts contain no hidden
    // character.
    match pct_text::visible_lines(&page.0) {
        Cow::Borrowed(_) => page.into_string(),
        Cow::Owned(page) => page,
    }
}

/// A page that says what happened and links back: for errors before there is a profile.
#[must_use]
pub fn message(heading: &str, text: &str, place: &PageContext) -> String {
    let mut display = Display::new(heading);
    display.items.push(Item::Text(text.to_owned()));
    page(&display, place)
}

/// A page that asks the reader to confirm a command that changes the server. Its button sends the command by POST.
#[must_use]
pub fn confirm(question: &str, cmd: &Cmd, place: &PageContext) -> String {
    let body = message(question, "", place);
    let action = format!("?{}", query::print(cmd, 1, None, &place.file));
    let button = html! {
        form method="post" action=(action) { button type="submit" { "Yes" } }
    };
    // The message has an empty text; its paragraph is replaced by the button.
    body.replacen("<p></p>", &button.into_string(), 1)
}

/// What a page is rendered with.
pub(super) struct Renderer<'a> {
    pub(super) place: &'a PageContext,
    pub(super) prefs: Option<Prefs>,
    pub(super) developer: bool,
}

impl Renderer<'_> {
    pub(super) fn href(&self, cmd: &Cmd, page: u32, prefs: Option<&Prefs>) -> String {
        format!("?{}", query::print(cmd, page, prefs, &self.place.file))
    }

    fn top(&self, display: &Display) -> Markup {
        let menu = self.href(&Cmd::Menu, 1, self.prefs.as_ref());
        let is_headline = display.title.is_none();
        html! {
            header.top {
                a.brand href=(menu) title="menu" { "pct" }
                @if let Some(banner) = &display.banner {
                    span.program role=[is_headline.then_some("heading")] aria-level=[is_headline.then_some("1")]
                        title={ (visible(&banner.program)) " (" (visible(&self.place.file)) ")" } { (visible(&banner.program)) }
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
            (self.tabs("sections", "the program", &display.sections, self.place.beside.as_ref()))
            @if !display.crumbs.is_empty() {
                nav.crumbs aria-label="path" {
                    @for (i, link) in display.crumbs.iter().enumerate() {
                        @if i > 0 { span.sep { "\u{203a}" } }
                        @if i + 2 == display.crumbs.len() {
                            a #up href=(self.href(&link.cmd, link.page, link.prefs.as_ref())) { (visible(&link.label.text)) }
                        } @else if i + 1 == display.crumbs.len() {
                            span aria-current="page" { (visible(&link.label.text)) }
                        } @else {
                            a href=(self.href(&link.cmd, link.page, link.prefs.as_ref())) { (visible(&link.label.text)) }
                        }
                    }
                }
            }
        }
    }

    /// Links side by side, with the current one marked. The link to another part's page comes last.
    fn tabs(&self, class: &str, name: &str, items: &[Item], beside: Option<&Beside>) -> Markup {
        let shown: Vec<&Item> = items.iter().filter_map(|i| i.seen_by(self.developer)).collect();
        html! {
            @if shown.len() > 1 {
                nav class=(class) aria-label=(name) {
                    @for item in shown {
                        @match item {
                            Item::Link(link) => {
                                a href=(self.address(link)) title=[link.hint.as_deref()] { (link.label.text) }
                            }
                            Item::Current(text) => { span aria-current="page" { (text) } }
                            other => { (self.inline(other)) }
                        }
                    }
                    @if let Some(beside) = beside { a href=(beside.address) { (beside.label) } }
                }
            }
        }
    }

    /// What the page is limited to. Each limit can be lifted.
    fn chips(&self, display: &Display) -> Markup {
        html! {
            @if !display.chips.is_empty() {
                div.chips role="group" aria-label="the page is limited to" {
                    "only "
                    @for chip in &display.chips {
                        span.chip {
                            (visible(&chip.text))
                            @if let Some(link) = &chip.without {
                                " " a href=(self.address(link)) title="without this limit" aria-label={ "without " (visible(&chip.text)) } { "\u{d7}" }
                            }
                        }
                        " "
                    }
                }
            }
        }
    }

    /// The settings, closed until the reader opens them.
    fn options(&self, display: &Display) -> Markup {
        html! {
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
                        @for (word, meaning) in &display.help { dt { (word) } dd { (meaning) } }
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
            Item::Listing(listing) => self.listing(listing),
            Item::Picture(picture) => self.picture(picture),
            Item::TimePicture(picture) => self.time_picture(picture),
            Item::Columns(columns) => html! {
                div.columns { @for column in columns { div.column { @for i in column { (self.item(i)) } } } }
            },
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

    /// An item of a list: links and texts are not in paragraphs of their own.
    fn inline(&self, item: &Item) -> Markup {
        match item.seen_by(self.developer) {
            Some(Item::Link(link)) => self.link(link),
            Some(Item::Text(text)) => html! { (text) },
            Some(other) => self.item(other),
            None => html! {},
        }
    }

    /// A program's text with its counts beside it.
    fn listing(&self, listing: &Listing) -> Markup {
        html! {
            table.listing {
                thead { tr { @for head in listing.heads { th scope="col" { (head) } } th.l scope="col" { "text" } } }
                tbody {
                    @for line in &listing.lines {
                        tr class=[line.heat.map(Heat::class)] {
                            @for count in &line.counts { td { (count) } }
                            td.l { code { (line.text) } }
                        }
                    }
                }
            }
            ul.legend { @for heat in Heat::ALL { li { span class={ "key " (heat.class()) } {} " " (heat.meaning()) } } }
        }
    }

    pub(super) fn address(&self, link: &Link) -> String {
        match &link.file {
            Some(file) => format!("?{}", query::print(&link.cmd, link.page, link.prefs.as_ref(), file)),
            None => self.href(&link.cmd, link.page, link.prefs.as_ref()),
        }
    }

    pub(super) fn link(&self, link: &Link) -> Markup {
        let href = self.address(link);
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

    pub(super) fn datum(&self, data: &Data) -> Markup {
        match data {
            Data::Link(link) => self.link(link),
            Data::Text(text) | Data::Hinted(text, _) => with_breaks(text),
            Data::Label(l) => label(l),
            Data::Code(text) => html! { code { (text) } },
            number => html! { (format::data(number)) },
        }
    }
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

/// Names with more octets than this may take several lines.
pub(super) const LONG: usize = 48;

/// Names with more characters than this may not fit into the column of names in a narrow window.
const NARROW: usize = 14;

/// Escaped text that may be broken between the words of a name, if it is long enough: after `.`, `_` and `:`, and after
/// `/` unless a number follows (`sqrt/2`).
///
/// Browsers also break after `-`, which would move the last digit of `sqrt/2+1-0` to a line of its own. So what follows
/// the last break stays together if it is short.
fn with_breaks(text: &str) -> Markup {
    // In a name, line ends are hidden characters too; the pass over the whole page must keep them.
    let text = &*pct_text::visible(text);
    let at_least = if text.len() > LONG { 8 } else { 3 };
    let mut breaks = Vec::new();
    if text.len() > NARROW {
        let mut chars = text.char_indices().peekable();
        let mut run = 0;
        while let Some((at, c)) = chars.next() {
            run += 1;
            let next = chars.peek().map(|(_, next)| *next);
            let is_break = match c {
                '.' | '_' | ':' => next.is_some_and(|next| next != c),
                '/' => next.is_some_and(|next| !next.is_ascii_digit()),
                _ => false,
            };
            if is_break && run > at_least {
                breaks.push(at + c.len_utf8());
                run = 0;
            }
        }
    }
    let last = breaks.last().copied().unwrap_or(0);
    let tail = &text[last..];
    let together = tail.contains('-') && tail.len() <= NARROW && text.len() > NARROW;
    html! {
        @for (from, to) in std::iter::once(0).chain(breaks.iter().copied()).zip(breaks.iter().copied()) {
            (text[from..to]) wbr;
        }
        @if together { span.k { (tail) } } @else { (tail) }
    }
}

/// The meaning of the words on a Mercury program's pages.
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

/// What CPU seconds are, on the pages of a recording of them.
pub const CPU_SECONDS_HELP: (&str, &str) =
    ("CPU seconds", "time on a processor, by samples; a function with few samples is known only roughly");
/// What wall seconds are, on the pages of a recording of them.
pub const WALL_SECONDS_HELP: (&str, &str) = (
    "wall seconds",
    "time of threads, running and waiting, by samples; one with few samples is known only roughly",
);

/// The meaning of the other words on a recording's pages.
pub const NATIVE_HELP: &[(&str, &str)] = &[
    ("Self", "the function itself; in the table of the first page also what worked for it"),
    ("Total", "it and everything called from there; recursion counts once"),
    ("%", "the number to its left as a share of the whole recording"),
    ("Calls", "how often it was called, where that is known"),
    ("Object", "the program or library that a function belongs to"),
    ("[object+0x1234]", "code without a name: its place in the object"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display::table::{Boxing, ColumnClass, Head};
    use crate::display::{
        Banner, Cell, Compared, HeadGroup, ListingLine, Picture, PictureNode, Row, Table, This,
    };
    use crate::query::Incl;

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
            Item::Listing(Listing {
                heads: &["n"],
                lines: vec![ListingLine { counts: vec![bad()], heat: Some(Heat::Hot), text: bad() }],
                plain: bad(),
            }),
            Item::Link(link.clone()),
            Item::List(List {
                class: ListClass::Bullets,
                title: Some(bad()),
                items: vec![Item::Text(bad())],
            }),
            Item::Table(table),
            Item::Picture(Picture {
                caption: bad(),
                unit: "calls".to_owned(),
                seconds: false,
                compares: Some(Compared { incl: Incl::Total, draws_older: false }),
                levels: 9,
                zooms: true,
                nodes: vec![PictureNode {
                    parent: 0,
                    name: bad(),
                    total: 1,
                    before: 1,
                    group: Some(bad()),
                    link: None,
                }],
                groups: None,
                palette: None,
                here: Some(0),
                large: true,
            }),
        ];
        d.controls = d.items.clone();
        d.tabs = d.items.clone();
        d.sections = d.items.clone();
        let place = PageContext {
            script: Some("/cgi-bin/mdprof_cgi".into()),
            file: bad(),
            nonce: Some("n0nce".into()),
            notice: Some(Notice { text: bad(), link: Some((bad(), Cmd::Restart)) }),
            beside: Some(Beside { label: bad(), address: bad() }),
        };
        let page = page(&d, &place);
        assert!(!page.contains("<script>alert"), "{page}");
        assert_eq!(page.find(|c| pct_text::is_hidden(c) && !matches!(c, '\n' | '\t')), None, "{page}");
        // All scripts on the page are pct's.
        assert_eq!(page.matches("<script").count(), page.matches("<script nonce=\"n0nce\">").count());
    }

    #[test]
    fn a_page_asks_for_nothing_else() {
        let page = page(&Display::new("x"), &PageContext { file: "f.data".into(), ..PageContext::default() });
        for word in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.replace("http://www.w3.org", "").contains(word), "{word}");
        }
    }

    #[test]
    fn names_are_broken_between_their_words() {
        for (name, broken) in [
            ("math.sqrt/2+1-0", "math.<wbr><span class=\"k\">sqrt/2+1-0</span>"),
            ("sqrt/2+1-0", "sqrt/2+1-0"),
            ("mandelbrot.my_map/3-0", "mandelbrot.<wbr><span class=\"k\">my_map/3-0</span>"),
            ("a::very::long::path", "a::very::<wbr>long::<wbr>path"),
            ("/usr/lib/libsomething.so", "/usr/<wbr>lib/<wbr>libsomething.<wbr>so"),
            ("main with a <long> name", "main with a &lt;long&gt; name"),
            ("d\u{e9}j\u{e0}_vu_encore_une_fois", "d\u{e9}j\u{e0}_<wbr>vu_encore_<wbr>une_<wbr>fois"),
        ] {
            assert_eq!(with_breaks(name).0, broken);
        }
    }

    #[test]
    fn an_empty_page_says_so() {
        let mut d = Display::new("x");
        d.title = None;
        assert!(page(&d, &PageContext::default()).contains("nothing to show"));
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
        let page = page(&d, &PageContext::default());
        let groups: Vec<&str> = page
            .match_indices("<colgroup")
            .map(|(i, _)| &page[i..i + page[i..].find('>').unwrap()])
            .collect();
        let shaded: Vec<bool> = groups.iter().map(|g| g.contains("\"shade\"")).collect();
        assert_eq!(shaded, [false, true, false, true]);
    }
}
