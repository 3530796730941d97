//! Displays: the contents of a page in words, tables and links, without any tags.
//!
//! Each report's module in [`crate::pages`] makes a [`Display`]; [`crate::render`] makes HTML or terminal text of it.
//! A display has what is shown, not where it comes from: selecting, ordering, naming and paging are done.
//!
//! Invariant of a [`Table`]: the number of columns is the sum over the header's groups, and each row spans all of them
//! ([`Table::check`]; the builders in [`table`] cannot make another).

mod data;
pub mod format;
pub mod table;

pub use data::{Cell, Data, Label, Link, LinkClass, MemUnit};
pub use table::{ColumnClass, Head, HeadGroup, Row, Table};

use crate::query::{Cmd, Incl, Prefs};

/// A whole page.
#[derive(Clone, Debug)]
pub struct Display {
    /// Headline, also in the window's title.
    pub title: Option<String>,
    /// The program that the page is about, and its totals.
    pub banner: Option<Banner>,
    /// The range of time and the filters that the whole page is limited to.
    pub chips: Vec<Chip>,
    /// The path to this page, outermost first.
    pub crumbs: Vec<Link>,
    /// The content.
    pub items: Vec<Item>,
    /// The parts of the profile that every page links to. The one that this page belongs to is no link.
    pub sections: Vec<Item>,
    /// The other views of the page's subject. The view that this page is is no link.
    pub tabs: Vec<Item>,
    /// Controls that change how the page looks.
    pub controls: Vec<Item>,
    /// What the words of the page mean.
    pub help: Vec<(&'static str, &'static str)>,
    /// The page itself, for links to its other forms.
    pub this: Option<This>,
}

/// What identifies a page.
#[derive(Clone, Debug)]
pub struct This {
    /// Command.
    pub cmd: Cmd,
    /// Page of a long table.
    pub page: u32,
    /// Current preferences.
    pub prefs: Prefs,
    /// The page by name instead of number, if possible. Such a link survives a new run.
    pub permalink: Option<Cmd>,
}

/// The program and its totals.
#[derive(Clone, Debug)]
pub struct Banner {
    /// The program's name as it was called.
    pub program: String,
    /// Totals in words.
    pub facts: Vec<String>,
}

/// What limits a page: a range of time or a filter.
#[derive(Clone, Debug)]
pub struct Chip {
    /// In words.
    pub text: String,
    /// The same page without this limit; `None`: it was typed where the server was started.
    pub without: Option<Link>,
}

/// A part of a page.
#[derive(Clone, Debug)]
pub enum Item {
    /// A headline within the page.
    Heading(String),
    /// A sentence.
    Text(String),
    /// A warning: something is not as it should be.
    Warning(String),
    /// The current choice. It looks like its alternatives, but is no link.
    Current(String),
    /// Room between paragraphs.
    Break,
    /// A link by itself.
    Link(Link),
    /// A list.
    List(List),
    /// A table.
    Table(Table),
    /// Text whose lines stay as they are.
    Verbatim(String),
    /// A program's text with counts.
    Listing(Listing),
    /// A tree as a picture.
    Picture(Picture),
    /// What was spent when, as a picture.
    TimePicture(Box<TimePicture>),
    /// Columns of items, side by side if there is room.
    Columns(Vec<Vec<Item>>),
    /// An item for developers only.
    Developer(Box<Item>),
}

/// A program's text with counts beside its lines.
#[derive(Clone, Debug)]
pub struct Listing {
    /// What the counts are.
    pub heads: &'static [&'static str],
    /// The lines.
    pub lines: Vec<ListingLine>,
    /// The same as plain text, with the counts among the lines.
    pub plain: String,
}

/// A line of a [`Listing`].
#[derive(Clone, Debug)]
pub struct ListingLine {
    /// One count per head; empty if the line has none.
    pub counts: Vec<String>,
    /// How often it ran compared with the others; `None`: it is not executable.
    pub heat: Option<Heat>,
    /// Its text.
    pub text: String,
}

/// How often something ran, compared with the most frequent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heat {
    /// Not once.
    Never,
    /// Less than a hundredth as often as the one that ran most.
    Seldom,
    /// In between.
    Usual,
    /// At least half as often as the one that ran most.
    Hot,
}

impl Heat {
    /// All values, the coldest first.
    pub const ALL: [Heat; 4] = [Heat::Never, Heat::Seldom, Heat::Usual, Heat::Hot];

    /// The heat of `count` executions, if the most frequent one has `most`.
    #[must_use]
    pub fn from_counts(count: i64, most: i64) -> Heat {
        match count {
            ..=0 => Heat::Never,
            n if n.saturating_mul(2) >= most => Heat::Hot,
            n if n.saturating_mul(100) < most => Heat::Seldom,
            _ => Heat::Usual,
        }
    }

    /// Its class in the style sheet.
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            Heat::Never => "never",
            Heat::Seldom => "seldom",
            Heat::Usual => "usual",
            Heat::Hot => "hot",
        }
    }

    /// Its meaning, for legends.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Heat::Never => "never",
            Heat::Seldom => "seldom: below 1 % of the most often executed",
            Heat::Usual => "in between",
            Heat::Hot => "hot: at least half as often as the most often executed",
        }
    }
}

/// How a list is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListClass {
    /// A line for each.
    Plain,
    /// A line for each, with bullets.
    Bullets,
    /// Side by side, the title too.
    Horizontal,
    /// Side by side below the title.
    HorizontalExceptTitle,
}

/// A list of items.
#[derive(Clone, Debug)]
pub struct List {
    /// Layout.
    pub class: ListClass,
    /// Title.
    pub title: Option<String>,
    /// Members.
    pub items: Vec<Item>,
}

/// A tree to draw: the picture of cliques.
#[derive(Clone, Debug)]
pub struct Picture {
    /// What it shows.
    pub caption: String,
    /// What weights count.
    pub unit: String,
    /// Weights are nanoseconds, shown as seconds.
    pub seconds: bool,
    /// Each node also has its weight in another profile, and colours show the difference.
    pub compares: Option<Compared>,
    /// Whether a click zooms instead of following the link.
    pub zooms: bool,
    /// Most levels that are drawn.
    pub levels: u32,
    /// The nodes. A parent comes before its children. The first is the root.
    pub nodes: Vec<PictureNode>,
    /// The weight of each group in the whole profile, of which the picture may show a part.
    pub groups: Option<pct_icicle::GroupWeights>,
    /// The colours of the groups, if it shows no differences.
    pub palette: Option<pct_icicle::Palette>,
    /// The node of this page.
    pub here: Option<usize>,
    /// Whether the picture is a page of its own and has its controls.
    pub large: bool,
}

/// What was spent when: areas along an axis of time.
#[derive(Clone, Debug)]
pub struct TimePicture {
    /// What it shows.
    pub caption: String,
    /// The same in numbers, in one line.
    pub words: String,
    /// The areas. Their slices have no links yet.
    pub areas: pct_icicle::Areas,
    /// Where each slice leads; empty: nowhere.
    pub links: Vec<Link>,
    /// Where any other range leads, for a script.
    pub dragged: Option<Dragged>,
}

/// A link to a range of time that the reader chooses with the mouse.
#[derive(Clone, Debug)]
pub struct Dragged {
    /// The times at the left and the right end of the picture, in seconds since the start of the recording.
    pub ends: (f64, f64),
    /// A link with a range that is replaced, and that range as it stands in the link.
    pub link: (Link, &'static str),
}

/// How a picture compares two profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The cost whose change is shown by colour: self, or with descendants like the widths.
    pub incl: Incl,
    /// Whether the widths are those of the older profile.
    pub draws_older: bool,
}

/// A node of a [`Picture`].
#[derive(Clone, Debug)]
pub struct PictureNode {
    /// Index of the parent; for the root its own index.
    pub parent: usize,
    /// Name.
    pub name: String,
    /// Weight of the whole subtree. The node's own weight is what the children do not have.
    pub total: u64,
    /// The same in the profile compared with.
    pub before: u64,
    /// The object or module that it belongs to. Nodes of one group have one colour.
    pub group: Option<String>,
    /// The target of a click.
    pub link: Option<Cmd>,
}

impl Display {
    /// A page of these items.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Display {
        Display {
            title: Some(title.into()),
            banner: None,
            chips: Vec::new(),
            crumbs: Vec::new(),
            items: Vec::new(),
            sections: Vec::new(),
            tabs: Vec::new(),
            controls: Vec::new(),
            help: Vec::new(),
            this: None,
        }
    }

    /// Every link of the page, for checkers.
    #[must_use]
    pub fn links(&self) -> Vec<&Link> {
        let chips = self.chips.iter().filter_map(|chip| chip.without.as_ref());
        let mut out: Vec<&Link> = self.crumbs.iter().chain(chips).collect();
        for item in self.sections.iter().chain(&self.tabs).chain(&self.items).chain(&self.controls) {
            item.links(&mut out);
        }
        out
    }
}

impl Item {
    fn links<'a>(&'a self, out: &mut Vec<&'a Link>) {
        match self {
            Item::Link(link) => out.push(link),
            Item::List(List { items, .. }) => items.iter().for_each(|i| i.links(out)),
            Item::Columns(columns) => columns.iter().flatten().for_each(|i| i.links(out)),
            Item::Table(table) => table.links(out),
            Item::Developer(item) => item.links(out),
            Item::Heading(_)
            | Item::Text(_)
            | Item::Warning(_)
            | Item::Current(_)
            | Item::Break
            | Item::Verbatim(_)
            | Item::Listing(_)
            | Item::Picture(_)
            | Item::TimePicture(_) => {}
        }
    }

    /// The item as a developer, or another reader, sees it. `None`: it is hidden. If all members of a list are hidden,
    /// so is its title.
    #[must_use]
    pub fn seen_by(&self, developer: bool) -> Option<&Item> {
        match self {
            Item::Developer(item) => {
                if developer {
                    item.seen_by(true)
                } else {
                    None
                }
            }
            Item::List(list) if !developer && list.items.iter().all(|i| i.seen_by(false).is_none()) => None,
            other => Some(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_developer_items_vanishes_with_its_title() {
        let hidden = Item::Developer(Box::new(Item::Text("x".into())));
        let list = Item::List(List {
            class: ListClass::Plain,
            title: Some("t".into()),
            items: vec![hidden.clone()],
        });
        assert!(list.seen_by(false).is_none());
        assert!(list.seen_by(true).is_some());
        assert!(matches!(hidden.seen_by(true), Some(Item::Text(_))));
        let empty = Item::List(List { class: ListClass::Plain, title: Some("t".into()), items: vec![] });
        assert!(empty.seen_by(false).is_none());
    }
}
