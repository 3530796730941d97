//! What `pct view` does with a deep profile: one page on the terminal, or all of them in a browser.

use crate::http::{self, Listening};
use crate::viewer::Viewer;
use pct_deep::Compensation;
use pct_reports::page::{self, Page, Request};
use pct_reports::query::{Cmd, print};
use pct_reports::render::text::TextOptions;
use pct_reports::subject::Subject;
use std::io;
use std::path::Path;

/// Why there is nothing to view.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The data file cannot be read; the text names it.
    #[error("{0}")]
    Data(#[from] pct_deep::DeepError),
    /// What was typed is no query.
    #[error("{0}")]
    Query(String),
    /// There is no server.
    #[error("web server: {0}")]
    Server(#[from] io::Error),
}

/// One page as text.
///
/// # Errors
/// The file cannot be read, or the query is none. A page that cannot be made is a page with its `failure` set.
pub fn text(path: &Path, query: &str, rule: Compensation, options: &TextOptions) -> Result<Page, ViewError> {
    let request = Request::parse(query).map_err(ViewError::Query)?;
    Ok(page::text(&Subject::open(path, rule)?, &request, options))
}

/// One page's data as JSON.
///
/// # Errors
/// As [`text`].
pub fn json(path: &Path, query: &str, rule: Compensation) -> Result<Page, ViewError> {
    let request = Request::parse(query).map_err(ViewError::Query)?;
    Ok(page::json(&Subject::open(path, rule)?, &request))
}

/// A profile ready to be served.
pub struct Served {
    listening: Listening,
    viewer: Viewer,
    first: String,
}

impl Served {
    /// Reads the profile and takes a port of 127.0.0.1 (0: any).
    ///
    /// # Errors
    /// The file cannot be read, or the port is taken.
    pub fn open(path: &Path, rule: Compensation, port: u16) -> Result<Served, ViewError> {
        Self::of(Viewer::open(path, rule)?, port)
    }

    /// Serves a viewer that there is already.
    ///
    /// # Errors
    /// The port is taken.
    pub fn of(viewer: Viewer, port: u16) -> Result<Served, ViewError> {
        let first = print(&Cmd::Menu, 1, None, &viewer.path().to_string_lossy());
        Ok(Served { listening: Listening::on(port)?, viewer: viewer.with_nonce(http::nonce), first })
    }

    /// The address to open: it holds the token, keep it to yourself.
    #[must_use]
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// Answers until a page asks to quit.
    pub fn run(&self) {
        self.listening.serve(&self.viewer, &self.first);
    }
}
