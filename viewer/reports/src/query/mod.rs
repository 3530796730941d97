//! Queries: the text after the `?` of a page's address.
//!
//! ```text
//! query = file  |  cmd "&" file  |  cmd "&" prefs "&" file
//! cmd   = keyword { "/" argument } [ "@" page ]
//! prefs = twelve fields separated by "/", sub-parts by "-"
//! ```
//!
//! Bookmarks of fifteen years have such texts, so the grammar is followed exactly: an unknown command is the menu, and
//! unknown preferences are the default, as a whole. pct adds the page number (for tables of more than a page),
//! percent-encoding of names, and the form of the search box, `s=TEXT&p=PREFS&f=FILE`.
//!
//! Invariant: printing and parsing are inverses for every part (property tests below).

mod cmd;
mod part;
mod prefs;
mod words;

pub use cmd::{Cmd, Limit};
pub use part::{Part, PartFilter};
pub use prefs::{CostOrder, Fields, Order, Prefs, PrefsIndication, Unrecognised};
pub use words::{
    AllocFields, Boxes, CallseqFields, Colour, Contour, Cost, Developer, DiffScale, DiffWhat, Group,
    Inactive, Incl, MemFields, PortFields, Qualify, Scope, Summarise, TimeFields, TimeFormat, WaitsOf,
    decode, encode,
};

use std::fmt;

/// A parsed query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// What the page is about.
    pub cmd: Cmd,
    /// Which page of a long table, from 1.
    pub page: u32,
    /// How it is shown; `None`: the default.
    pub prefs: Option<Prefs>,
    /// The data file's name, decoded. Never empty.
    pub file: String,
}

/// Why a text is not a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad URL: a file name was expected")]
pub struct BadQuery;

impl Query {
    /// Reads a query.
    ///
    /// # Errors
    /// The text has no file name or more than three parts.
    pub fn parse(text: &str) -> Result<Query, BadQuery> {
        let pieces: Vec<&str> = text.split('&').collect();
        let (cmd, prefs, file) = match pieces[..] {
            [file] => ("menu", "", file),
            [cmd, file] => (cmd, "", file),
            [cmd, prefs, file] => {
                if let Some(query) = Self::from_form(cmd, prefs, file) {
                    return query.file_present();
                }
                (cmd, prefs, file)
            }
            _ => return Err(BadQuery),
        };
        let (cmd, page) = parse_cmd(cmd);
        Query { cmd, page, prefs: prefs.parse().ok(), file: decode(file) }.file_present()
    }

    /// Parses what the search box sends: `s=TEXT&p=PREFS&f=FILE`, form encoded.
    fn from_form(search: &str, prefs: &str, file: &str) -> Option<Query> {
        let (search, prefs, file) =
            (search.strip_prefix("s=")?, prefs.strip_prefix("p=")?, file.strip_prefix("f=")?);
        let plain = |s: &str| decode(&s.replace('+', " "));
        Some(Query {
            cmd: Cmd::Search(plain(search).trim().to_owned()),
            page: 1,
            prefs: plain(prefs).parse().ok(),
            file: plain(file),
        })
    }

    fn file_present(self) -> Result<Query, BadQuery> {
        if self.file.is_empty() { Err(BadQuery) } else { Ok(self) }
    }

    /// The undecoded file part of a query. A file with exactly this name has precedence over the decoded name.
    #[must_use]
    pub fn raw_file(text: &str) -> &str {
        text.rsplit('&').next().unwrap_or(text)
    }
}

/// Parses a command and its page. An unknown command is the menu.
#[must_use]
pub fn parse_cmd(text: &str) -> (Cmd, u32) {
    let (cmd, page) = match text.rsplit_once('@') {
        Some((cmd, page)) => match page.parse::<u32>() {
            Ok(page) if page >= 1 && page.to_string().len() == text.len() - cmd.len() - 1 => (cmd, page),
            _ => (text, 1),
        },
        None => (text, 1),
    };
    match cmd.parse() {
        Ok(cmd) => (cmd, page),
        Err(Unrecognised) => (Cmd::Menu, 1),
    }
}

/// A command with its page: what [`parse_cmd`] reads.
#[must_use]
pub fn print_cmd(cmd: &Cmd, page: u32) -> String {
    if page > 1 { format!("{cmd}@{page}") } else { cmd.to_string() }
}

/// Prints a query with these parts, for links.
#[must_use]
pub fn print(cmd: &Cmd, page: u32, prefs: Option<&Prefs>, file: &str) -> String {
    let mut out = print_cmd(cmd, page);
    out.push('&');
    if let Some(prefs) = prefs {
        out.push_str(&prefs.to_string());
    }
    out.push('&');
    out.push_str(&encode(file, "/"));
    out
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(&self.cmd, self.page, self.prefs.as_ref(), &self.file))
    }
}

#[cfg(test)]
mod tests;

/// Every combination of choices, for tests.
#[cfg(test)]
pub(crate) mod words_all {
    use super::*;

    pub(crate) fn fields() -> Vec<Fields> {
        let mut out = Vec::new();
        for &port in PortFields::ALL {
            for &time in TimeFields::ALL {
                for &callseqs in CallseqFields::ALL {
                    for &allocs in AllocFields::ALL {
                        for &memory in MemFields::ALL {
                            out.push(Fields { port, time, callseqs, allocs, memory });
                        }
                    }
                }
            }
        }
        out
    }
}
