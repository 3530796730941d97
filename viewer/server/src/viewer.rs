//! A loaded profile that answers queries.

use crate::answer::{After, Answers, Form, Request, Response};
use pct_deep::{DeepError, Reading};
use pct_reports::page;
use pct_reports::query::{Cmd, Query};
use pct_reports::render::html::{self, Notice, PageContext};
use pct_reports::render::text::TextOptions;
use pct_reports::report::ahead;
use pct_reports::subject::Subject;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

/// The longest idle time that `timeout/N` sets, in minutes: a week.
pub const MAX_TIMEOUT: i64 = 7 * 24 * 60;

/// A profile in memory. Many threads may ask it at once.
#[derive(Debug)]
pub struct Viewer {
    path: PathBuf,
    reading: Reading,
    loaded: RwLock<Loaded>,
    /// Makes the nonce of a page; `None`: pages have no nonce.
    nonce: Option<fn() -> String>,
}

#[derive(Debug)]
struct Loaded {
    subject: Arc<Subject>,
    /// The file's identity when it was read.
    stamp: Option<Stamp>,
}

/// Shows whether a file is still the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn read_file(path: &Path) -> Option<Stamp> {
        let meta = std::fs::metadata(path).ok()?;
        Some(Stamp { len: meta.len(), modified: meta.modified().ok() })
    }
}

impl Viewer {
    /// Reads a data file and the files beside it.
    ///
    /// # Errors
    /// The data file cannot be read.
    pub fn open(path: &Path, reading: impl Into<Reading>) -> Result<Viewer, DeepError> {
        let reading = reading.into();
        Ok(Viewer {
            path: path.to_owned(),
            reading,
            loaded: RwLock::new(Loaded::read(path, reading)?),
            nonce: None,
        })
    }

    /// The same viewer, with a nonce for each page that this function makes.
    #[must_use]
    pub fn with_nonce(self, nonce: fn() -> String) -> Viewer {
        Viewer { nonce: Some(nonce), ..self }
    }

    /// The data file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers a parsed query. The caller must have checked that it names this file.
    #[must_use]
    pub fn answer_query(&self, request: &Request<'_>, query: &Query) -> (Response, After) {
        let mut after = After::Serve;
        match query.cmd {
            Cmd::Quit => after = After::Quit,
            Cmd::Timeout(minutes) => match u32::try_from(minutes) {
                Ok(n) if minutes <= MAX_TIMEOUT => after = After::Timeout(n),
                _ => {
                    let text =
                        format!("The idle time must be 1 to {MAX_TIMEOUT} minutes, or 0 for no limit.");
                    return (self.message(request, query, &text), After::Serve);
                }
            },
            Cmd::Restart => {
                if let Err(e) = self.restart() {
                    return (Response::plain(200, &e.to_string()).in_form(request.form), After::Quit);
                }
            }
            _ => {}
        }
        (self.page(request, query), after)
    }

    /// Reads the data file again.
    ///
    /// # Errors
    /// The file cannot be read. The profile in memory stays.
    pub fn restart(&self) -> Result<(), DeepError> {
        let fresh = Loaded::read(&self.path, self.reading)?;
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    fn page(&self, request: &Request<'_>, query: &Query) -> Response {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let place = self.place(request, query, loaded.changed(&self.path));
        render(&loaded.subject, request, query, &place)
    }

    fn message(&self, request: &Request<'_>, query: &Query, text: &str) -> Response {
        let place = self.place(request, query, false);
        let mut response = match request.form {
            Form::Html => Response::page(Form::Html, html::message("This cannot be done", text, &place)),
            Form::Json | Form::Text => Response::plain(200, text).in_form(request.form),
        };
        response.nonce = place.nonce;
        response
    }

    fn place(&self, request: &Request<'_>, query: &Query, changed: bool) -> PageContext {
        PageContext {
            script: Some(request.script.to_owned()),
            file: query.file.clone(),
            nonce: self.nonce.map(|make| make()),
            notice: changed.then(|| Notice {
                text: "The data file has changed since it was read.".to_owned(),
                link: Some(("read it again".to_owned(), Cmd::Restart)),
            }),
            beside: None,
        }
    }
}

/// A page of a profile in the requested form.
#[must_use]
pub fn render(subject: &Subject, request: &Request<'_>, query: &Query, place: &PageContext) -> Response {
    let wanted = page::Request::from_query(query);
    match request.form {
        Form::Json => Response::page(Form::Json, page::json(subject, &wanted).body),
        Form::Text => {
            let options = TextOptions { commands: true, ..TextOptions::default() };
            Response::page(Form::Text, page::text(subject, &wanted, &options).body)
        }
        Form::Html => {
            let mut response = Response::page(Form::Html, page::html(subject, &wanted, place).body);
            response.nonce.clone_from(&place.nonce);
            response
        }
    }
}

impl Loaded {
    fn read(path: &Path, reading: Reading) -> Result<Loaded, DeepError> {
        // The stamp is read first, so that a file that changes while it is read counts as changed.
        let stamp = Stamp::read_file(path);
        let subject = Arc::new(Subject::open(path, reading)?);
        // It continues on its own thread.
        let _ = ahead::prepare(&subject);
        Ok(Loaded { subject, stamp })
    }

    fn changed(&self, path: &Path) -> bool {
        match (self.stamp, Stamp::read_file(path)) {
            (Some(then), Some(now)) => then != now,
            // A missing file does not deserve a notice on each page.
            _ => false,
        }
    }
}

impl Answers for Viewer {
    fn answer(&self, request: &Request<'_>) -> (Response, After) {
        match Query::parse(request.query) {
            Ok(query) => self.answer_query(request, &query),
            Err(e) => (Response::plain(400, &e.to_string()).in_form(request.form), After::Serve),
        }
    }
}
