//! The contents of a cell: numbers with their units, text with its emphasis, links.

use crate::query::{Cmd, Prefs};

/// Text with its emphasis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The text.
    pub text: String,
    /// Bold.
    pub bold: bool,
    /// Italic.
    pub italic: bool,
    /// Underlined.
    pub underline: bool,
}

impl Label {
    /// Plain text.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Label {
        Label { text: text.into(), ..Label::default() }
    }

    /// Bold text.
    #[must_use]
    pub fn bold(text: impl Into<String>) -> Label {
        Label { text: text.into(), bold: true, ..Label::default() }
    }
}

/// The appearance of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkClass {
    /// Text that leads somewhere.
    Plain,
    /// A choice: the same page in another form, or another page about the same subject.
    Control,
}

/// A link to another page of the same profile.
#[derive(Clone, Debug)]
pub struct Link {
    /// What the linked page is about.
    pub cmd: Cmd,
    /// Page of a long table.
    pub page: u32,
    /// Preferences that the link carries; `None`: the default.
    pub prefs: Option<Prefs>,
    /// What it says.
    pub label: Label,
    /// What it looks like.
    pub class: LinkClass,
    /// An explanation, shown when pointed at.
    pub hint: Option<String>,
    /// The name of another profile, if the link leads there.
    pub file: Option<String>,
}

impl Link {
    /// A plain link.
    #[must_use]
    pub fn new(cmd: Cmd, prefs: &Prefs, label: impl Into<String>) -> Link {
        Link {
            cmd,
            page: 1,
            prefs: Some(*prefs),
            label: Label::plain(label),
            class: LinkClass::Plain,
            hint: None,
            file: None,
        }
    }

    /// The same link into another profile.
    #[must_use]
    pub fn into_file(mut self, file: impl Into<String>) -> Link {
        self.file = Some(file.into());
        self
    }

    /// A control.
    #[must_use]
    pub fn control(cmd: Cmd, prefs: &Prefs, label: impl Into<String>) -> Link {
        Link { class: LinkClass::Control, ..Link::new(cmd, prefs, label) }
    }

    /// The same link with bold text.
    #[must_use]
    pub fn bold(mut self) -> Link {
        self.label.bold = true;
        self
    }

    /// The same link with an explanation shown when pointed at.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Link {
        self.hint = Some(hint.into());
        self
    }
}

/// The unit of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemUnit {
    /// Machine words.
    Words,
    /// Octets.
    Bytes,
}

/// One datum of a table.
#[derive(Clone, Debug)]
pub enum Data {
    /// Two decimals.
    Float(f64),
    /// Whole.
    Int(i64),
    /// A link.
    Link(Link),
    /// Words or bytes, 0 or 2 decimals.
    Memory(f64, MemUnit, u8),
    /// A share, 0 to 1 (more if recursion counts twice).
    Percent(f64),
    /// Text.
    Text(String),
    /// Text with emphasis.
    Label(Label),
    /// Seconds, in the unit that fits.
    Time(f64),
    /// Seconds with three decimals, so that a column of them is easy to compare.
    Seconds(f64),
    /// A whole amount of what the recording measures, if that is no time.
    Amount(f64),
    /// A difference in seconds, with its sign.
    Change(f64),
    /// A difference of counts, with its sign.
    IntChange(i64),
    /// Text, and its full form, shown when pointed at.
    Hinted(String, String),
    /// A line of a program's text. Its blanks are kept.
    Code(String),
    /// A number that is known only as an upper bound.
    AtMost(Box<Data>),
}

impl Data {
    /// Text.
    #[must_use]
    pub fn text(s: impl Into<String>) -> Data {
        Data::Text(s.into())
    }

    /// A number of things.
    #[must_use]
    pub fn count(n: usize) -> Data {
        Data::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// The number, marked if it is only a bound.
    #[must_use]
    pub fn bound(self, is_bound: bool) -> Data {
        if is_bound { Data::AtMost(Box::new(self)) } else { self }
    }

    /// Whether it is a number equal to zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        match self {
            Data::Float(x)
            | Data::Memory(x, ..)
            | Data::Percent(x)
            | Data::Time(x)
            | Data::Seconds(x)
            | Data::Amount(x)
            | Data::Change(x) => *x == 0.0,
            Data::Int(n) | Data::IntChange(n) => *n == 0,
            Data::AtMost(inner) => inner.is_zero(),
            Data::Link(_) | Data::Text(_) | Data::Label(_) | Data::Code(_) | Data::Hinted(..) => false,
        }
    }

    /// Whether it is a number. Numbers are aligned right.
    #[must_use]
    pub fn is_number(&self) -> bool {
        !matches!(self, Data::Link(_) | Data::Text(_) | Data::Label(_) | Data::Code(_) | Data::Hinted(..))
    }
}

impl From<Link> for Data {
    fn from(link: Link) -> Data {
        Data::Link(link)
    }
}

/// One cell of a row.
#[derive(Clone, Debug)]
pub enum Cell {
    /// One column.
    One(Data),
    /// Several columns.
    Span(Data, usize),
    /// One column, nothing in it.
    Empty,
}

impl Cell {
    /// The number of columns that it fills.
    #[must_use]
    pub fn columns(&self) -> usize {
        match self {
            Cell::Span(_, n) => *n,
            Cell::One(_) | Cell::Empty => 1,
        }
    }
}
