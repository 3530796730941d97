//! What `pct view` does: shows one page of a profile on the terminal, or all of them in a browser.

use crate::answer::{After, Answers, Reply, Request, Response, SharedAnswers};
use crate::http::{self, Listening};
use crate::library::Library;
use pct_reports::query::{Cmd, print};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempPath;

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
    answers: SharedAnswers,
    first: String,
    invitation: Option<TempPath>,
}

/// The profiles, and the file that leads to them until the first request.
struct Opened {
    answers: SharedAnswers,
    invitation: Mutex<Option<TempPath>>,
}

impl Answers for Opened {
    fn answer(&self, request: &Request<'_>) -> (Response, After) {
        self.withdraw_invitation();
        self.answers.answer(request)
    }

    fn answer_path(&self, path: &str, query: &str) -> Option<Reply> {
        self.withdraw_invitation();
        self.answers.answer_path(path, query)
    }
}

impl Opened {
    /// A request proves that the address is known, so the file is no longer needed.
    fn withdraw_invitation(&self) {
        drop(self.invitation.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Served {
    /// Binds a port of 127.0.0.1 (0: any). The bare address leads to page `first` of the profile `name`.
    ///
    /// # Errors
    /// The port is taken.
    pub fn new(library: Library, first: &Cmd, name: &str, port: u16) -> Result<Served, ViewError> {
        let first = print(first, 1, None, name);
        Served::serve_answers(Arc::new(library.with_nonce(http::nonce)), &first, port)
    }

    /// The same for any source of answers. The bare address leads to its page `first`.
    ///
    /// # Errors
    /// The port is taken.
    pub fn serve_answers(answers: SharedAnswers, first: &str, port: u16) -> Result<Served, ViewError> {
        Ok(Served { listening: Listening::on(port)?, answers, first: first.to_owned(), invitation: None })
    }

    /// The address to open. It contains the token, so keep it to yourself.
    #[must_use]
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// Asks the desktop to show the first page, where there is a desktop; whether it does is its own affair.
    ///
    /// # Errors
    /// [`Served::invitation`]'s.
    pub fn open_browser(&mut self) -> io::Result<()> {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY") {
            return Ok(());
        }
        let mut command = Command::new("xdg-open");
        command.arg(self.invitation()?).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Ok(mut child) = command.spawn() {
            // Reaped when it ends, so that it does not stay as a zombie.
            std::thread::spawn(move || child.wait());
        }
        Ok(())
    }

    /// Creates a file that leads a browser to the address and that only its owner can read, because everybody can read
    /// a command line. It is removed at the first request, or at the end.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn invitation(&mut self) -> io::Result<PathBuf> {
        // Made with O_EXCL and mode 0600.
        let folder = std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|p| p.is_absolute() && p.is_dir())
            .unwrap_or_else(std::env::temp_dir);
        self.invitation_in(&folder)
    }

    fn invitation_in(&mut self, folder: &Path) -> io::Result<PathBuf> {
        let mut file = tempfile::Builder::new().prefix("pct-view-").suffix(".html").tempfile_in(folder)?;
        // Only hexadecimal digits, slashes, points and a colon, so nothing needs escaping.
        let url = self.url();
        writeln!(
            file,
            "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
             <meta http-equiv=\"refresh\" content=\"0;url={url}\"><title>pct</title>\
             <p><a href=\"{url}\">the profile</a></html>"
        )?;
        let path = file.into_temp_path();
        let name = path.to_path_buf();
        self.invitation = Some(path);
        Ok(name)
    }

    /// Answers until a page asks to quit.
    ///
    /// # Errors
    /// The system gives no means to wait for connections.
    pub fn run(self) -> io::Result<()> {
        let opened = Opened { answers: self.answers, invitation: Mutex::new(self.invitation) };
        self.listening.serve(Arc::new(opened), &self.first)
    }
}
