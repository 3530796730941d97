//! What `pct view` does: one page of a profile on the terminal, or all of them in a browser.

use crate::http::{self, Listening};
use crate::library::Library;
use pct_reports::query::{Cmd, print};
use std::io;

/// Why there is nothing to view.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// There is no server.
    #[error("web server: {0}")]
    Server(#[from] io::Error),
}

/// Profiles ready to be served.
pub struct Served {
    listening: Listening,
    library: Library,
    first: String,
}

impl Served {
    /// Takes a port of 127.0.0.1 (0: any). The bare address leads to page `first` of the profile `name`.
    ///
    /// # Errors
    /// The port is taken.
    pub fn new(library: Library, first: &Cmd, name: &str, port: u16) -> Result<Served, ViewError> {
        let first = print(first, 1, None, name);
        Ok(Served { listening: Listening::on(port)?, library: library.with_nonce(http::nonce), first })
    }

    /// The address to open: it holds the token, keep it to yourself.
    #[must_use]
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// Answers until a page asks to quit.
    pub fn run(&self) {
        self.listening.serve(&self.library, &self.first);
    }
}
