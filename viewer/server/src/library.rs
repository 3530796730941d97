//! Several profiles that answer under their names: what `pct view` serves.
//!
//! A query names its profile (the file part); the profile is loaded when it is first asked for, and the ones used last are
//! kept. A recording that is still being written is shown as of when it was read, and says so with a link that reads it again.

use crate::answer::{After, Answers, Form, Request, Response};
use crate::viewer::render;
use pct_reports::query::{Cmd, Query};
use pct_reports::render::html::{self, Notice, Place};
use pct_reports::report::{Failure, ahead};
use pct_reports::subject::{Shelf, ShelfEntry, Subject};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

/// Reads a profile; what is wrong, in words.
pub type Load = Box<dyn Fn() -> Result<Subject, String> + Send + Sync>;

/// A profile that can be read.
pub struct Book {
    /// What is known of it beforehand.
    pub entry: ShelfEntry,
    /// Reads it.
    pub load: Load,
}

struct Read {
    subject: Arc<Subject>,
    at: Instant,
    /// Larger: used later.
    used: u64,
}

struct Shelved {
    books: Vec<Book>,
    /// What was read, a place for each book.
    read: Vec<Mutex<Option<Read>>>,
    /// Counts uses.
    clock: Mutex<u64>,
    /// Itself, to be handed to the profiles that it reads.
    own: Weak<Shelved>,
}

/// Profiles kept in memory.
const KEPT: usize = 6;

impl fmt::Debug for Shelved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shelved({} books)", self.books.len())
    }
}

impl Shelved {
    fn find(&self, name: &str) -> Option<usize> {
        self.books.iter().position(|b| b.entry.name == name)
    }

    fn tick(&self) -> u64 {
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        *clock += 1;
        *clock
    }

    fn put(&self, i: usize, mut subject: Subject) -> Arc<Subject> {
        subject.name = self.books[i].entry.name.clone();
        subject.shelf = self.own.upgrade().map(|s| s as Arc<dyn Shelf>);
        let subject = Arc::new(subject);
        // Goes on by itself.
        let _ = ahead::prepare(&subject);
        let used = self.tick();
        *self.read[i].lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Read { subject: Arc::clone(&subject), at: Instant::now(), used });
        self.forget();
        subject
    }

    /// Lets go of those that were not used for longest. One that is being read is left alone.
    fn forget(&self) {
        let mut kept: Vec<(u64, usize)> = Vec::new();
        for (i, slot) in self.read.iter().enumerate() {
            if let Ok(slot) = slot.try_lock()
                && let Some(read) = &*slot
            {
                kept.push((read.used, i));
            }
        }
        kept.sort_unstable_by(|a, b| b.cmp(a));
        for (_, i) in kept.into_iter().skip(KEPT) {
            if let Ok(mut slot) = self.read[i].try_lock() {
                *slot = None;
            }
        }
    }

    /// The profile and when it was read; `again`: reads it now.
    fn get(&self, i: usize, again: bool) -> Result<(Arc<Subject>, Instant), String> {
        let mut slot = self.read[i].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = slot.as_mut().filter(|_| !again) {
            read.used = self.tick();
            return Ok((Arc::clone(&read.subject), read.at));
        }
        // Others who ask for this one wait for it here, so that it is read once.
        let mut subject = (self.books[i].load)()?;
        subject.name = self.books[i].entry.name.clone();
        subject.shelf = self.own.upgrade().map(|s| s as Arc<dyn Shelf>);
        let subject = Arc::new(subject);
        // Goes on by itself.
        let _ = ahead::prepare(&subject);
        let at = Instant::now();
        *slot = Some(Read { subject: Arc::clone(&subject), at, used: self.tick() });
        drop(slot);
        self.forget();
        Ok((subject, at))
    }
}

impl Shelf for Shelved {
    fn entries(&self) -> Vec<ShelfEntry> {
        let mut entries: Vec<ShelfEntry> = self.books.iter().map(|b| b.entry.clone()).collect();
        // What was read says more. One that is being read is not waited for.
        for (entry, slot) in entries.iter_mut().zip(&self.read) {
            if let Ok(slot) = slot.try_lock()
                && let Some(Read { subject, .. }) = &*slot
                && let Some(recorded) = &subject.recorded
            {
                if entry.cpu_seconds.is_none() {
                    entry.cpu_seconds = Some(subject.profile.root_total().quanta as f64 / 1e9);
                }
                entry.running = recorded.side.running > 0;
            }
        }
        entries
    }

    fn subject(&self, name: &str) -> Result<Arc<Subject>, Failure> {
        let i =
            self.find(name).ok_or_else(|| Failure(format!("There is no recording named {name} here.")))?;
        self.get(i, false).map(|(subject, _)| subject).map_err(Failure)
    }
}

/// Profiles that answer.
#[derive(Debug)]
pub struct Library {
    shelf: Arc<Shelved>,
    nonce: Option<fn() -> String>,
}

impl Library {
    /// A library of these.
    #[must_use]
    pub fn new(books: Vec<Book>) -> Library {
        let read = books.iter().map(|_| Mutex::new(None)).collect();
        let shelf = Arc::new_cyclic(|own| Shelved { books, read, clock: Mutex::new(0), own: own.clone() });
        Library { shelf, nonce: None }
    }

    /// The same with a nonce for each page, made by this function.
    #[must_use]
    pub fn with_nonce(self, nonce: fn() -> String) -> Library {
        Library { nonce: Some(nonce), ..self }
    }

    /// Names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shelf.books.iter().map(|b| b.entry.name.as_str())
    }

    /// Hands over a profile that was read already. Nothing happens if there is no such name.
    pub fn put(&self, name: &str, subject: Subject) {
        if let Some(i) = self.shelf.find(name) {
            self.shelf.put(i, subject);
        }
    }

    /// The profile of a name, read if need be.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn subject(&self, name: &str) -> Result<Arc<Subject>, Failure> {
        self.shelf.subject(name)
    }

    fn message(&self, request: &Request<'_>, query: &Query, status: u16, text: &str) -> Response {
        let place = Place {
            script: Some(request.script.to_owned()),
            file: query.file.clone(),
            nonce: self.nonce.map(|make| make()),
            notice: None,
        };
        let mut response = match request.form {
            Form::Html => Response::page(Form::Html, html::message("This cannot be shown", text, &place)),
            Form::Json | Form::Text => Response::plain(status, text).in_form(request.form),
        };
        response.status = status;
        response.nonce = place.nonce;
        response
    }
}

impl Answers for Library {
    fn answer(&self, request: &Request<'_>) -> (Response, After) {
        let query = match Query::parse(request.query) {
            Ok(query) => query,
            Err(e) => return (Response::plain(400, &e.to_string()).in_form(request.form), After::Serve),
        };
        let Some(i) = self.shelf.find(&query.file) else {
            let text = format!("There is no recording named {} here.", query.file);
            return (self.message(request, &query, 404, &text), After::Serve);
        };
        let (subject, at) = match self.shelf.get(i, query.cmd == Cmd::Restart) {
            Ok(both) => both,
            Err(e) => return (self.message(request, &query, 200, &e), After::Serve),
        };
        let running = subject.recorded.as_ref().is_some_and(|r| r.side.running > 0);
        let place = Place {
            script: Some(request.script.to_owned()),
            file: query.file.clone(),
            nonce: self.nonce.map(|make| make()),
            notice: running.then(|| Notice {
                text: format!(
                    "The program is still running; this is what was recorded up to {} s ago.",
                    at.elapsed().as_secs()
                ),
                link: Some(("read it again".to_owned(), Cmd::Restart)),
            }),
        };
        let after = if query.cmd == Cmd::Quit { After::Quit } else { After::Serve };
        (render(&subject, request, &query, &place), after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_deep::synthetic::{Params, generate};
    use pct_deep::{Compensation, Profile};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn book(name: &str, loads: Arc<AtomicUsize>, seed: u64) -> Book {
        let entry = ShelfEntry { name: name.to_owned(), ..ShelfEntry::default() };
        let load = move || {
            loads.fetch_add(1, Ordering::SeqCst);
            let params = Params { seed, contexts: 60, procs: 9, ..Params::default() };
            let data = generate(&params).map_err(|e| e.to_string())?;
            Profile::new(data, Compensation::Exact).map(Subject::new).map_err(|e| e.to_string())
        };
        Book { entry, load: Box::new(load) }
    }

    fn ask(library: &Library, query: &str) -> Response {
        library.answer(&Request { form: Form::Html, query, script: "/x" }).0
    }

    #[test]
    fn a_profile_is_read_when_it_is_asked_for_and_once() {
        let loads = Arc::new(AtomicUsize::new(0));
        let library = Library::new((0..3).map(|i| book(&format!("r{i}"), Arc::clone(&loads), i)).collect());
        assert_eq!(loads.load(Ordering::SeqCst), 0);
        for _ in 0..3 {
            assert!(ask(&library, "proc/2&&r1").body.contains("Procedure"));
        }
        assert_eq!(loads.load(Ordering::SeqCst), 1);
        ask(&library, "restart&&r1");
        assert_eq!(loads.load(Ordering::SeqCst), 2);
        let list = ask(&library, "recordings&&r1").body;
        for name in ["r0", "r1", "r2"] {
            assert!(list.contains(name), "{list}");
        }
        assert_eq!(loads.load(Ordering::SeqCst), 2, "a list reads nothing");
        assert_eq!(ask(&library, "menu&&/etc/passwd").status, 404);
    }

    #[test]
    fn two_profiles_are_compared_by_name() {
        let loads = Arc::new(AtomicUsize::new(0));
        let library = Library::new((0..2).map(|i| book(&format!("r{i}"), Arc::clone(&loads), i)).collect());
        for query in ["diff/r0/procs/self/absolute&&r1", "diff/r0/cliques/both/shares&&r1"] {
            let page = ask(&library, query).body;
            assert!(page.contains("What changed from r0 to r1"), "{page}");
        }
        assert!(
            ask(&library, "diff/nothing/procs/self/absolute&&r1").body.contains("no recording named nothing")
        );
        // A profile does not differ from itself.
        assert!(!ask(&library, "diff/r1/procs/self/absolute&&r1").body.contains(">+"));
    }

    #[test]
    fn only_so_many_are_kept() {
        let loads = Arc::new(AtomicUsize::new(0));
        let library = Library::new((0..9).map(|i| book(&format!("r{i}"), Arc::clone(&loads), i)).collect());
        for i in 0..9 {
            ask(&library, &format!("menu&&r{i}"));
        }
        let kept = library.shelf.read.iter().filter(|r| r.lock().unwrap().is_some()).count();
        assert_eq!(kept, KEPT);
    }
}
