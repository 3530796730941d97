//! Several profiles that answer under their names. This is what `pct view` serves.
//!
//! A query names its profile (the file part), or a part of it: a range of time, some threads ([`Part`]). The profile
//! or the part is loaded at the first request, and those used last are kept. A recording that is still being written is
//! shown as it was when it was read. The page says so, with a link that reads it again.
//!
//! A profile may have an additional page that another part answers (the timeline of a recording). Its address is
//! `of/NUMBER/tl`, and it is opened at the first request.

use crate::answer::{After, Answers, Form, Reply, Request, Response, SharedAnswers};
use crate::slots::Slots;
use crate::viewer::render;
use pct_deep::measured::Measured;
use pct_reports::display::format;
use pct_reports::pages::parts;
use pct_reports::query::{Cmd, Query, encode, print};
use pct_reports::render::html::{self, Beside, Notice, PageContext};
use pct_reports::report::{Failure, ahead};
use pct_reports::subject::{Shelf, ShelfEntry, Subject};
use std::fmt;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Instant;

pub use pct_reports::query::{Part, PartFilter};

/// Reads a profile. The error is in words.
pub type Load = Box<dyn Fn() -> Result<Subject, String> + Send + Sync>;

/// Reads a part of a profile. The error is in words.
pub type LoadPart = Box<dyn Fn(&Part) -> Result<Subject, String> + Send + Sync>;

/// A profile that can be read.
pub struct Book {
    /// What is known of it before it is read.
    pub entry: ShelfEntry,
    /// Reads it.
    pub load: Load,
    /// Reads a part of it; `None`: it has no parts.
    pub load_part: Option<LoadPart>,
    /// An additional page that another part answers.
    pub beside: Option<PageBeside>,
}

/// An additional page about the same recording that another part answers: its timeline.
pub struct PageBeside {
    /// The text of the link to it.
    pub label: String,
    /// Opens the page.
    pub open: OpenPage,
}

/// Opens an additional page, given the targets of its links back. The error is in words.
pub type OpenPage = Box<dyn Fn(&LinksBack) -> Result<SharedAnswers, String> + Send + Sync>;

/// Targets of the links of an additional page, relative to its own address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinksBack {
    /// The program that ran.
    pub program: String,
    /// The profile's first page.
    pub profile: String,
    /// The pages of the profile, each with its name: the first page, and the others if they are known.
    pub parts: Vec<(String, String)>,
    /// Whether such an address can be followed by a part of the recording ([`Part::in_address`]).
    pub takes_part: bool,
    /// The page that ends the server.
    pub quit: String,
}

struct Read {
    subject: Arc<Subject>,
    at: Instant,
}

struct Shelved {
    books: Vec<Book>,
    /// What was read, by name.
    read: Slots<Read>,
    /// What was read of parts, by name.
    parts: Slots<Read>,
    /// The open additional pages, by the names of their profiles.
    open: Slots<SharedAnswers>,
    /// Itself, which is given to the profiles that it reads.
    own: Weak<Shelved>,
}

/// Path from an additional page to the pages of profiles.
const UP: &str = "../../deep";
/// Most profiles kept in memory.
const KEPT: usize = 6;
/// Most parts of profiles kept in memory.
const KEPT_PARTS: usize = 4;
/// Most additional pages kept open.
const KEPT_OPEN: usize = 2;

impl fmt::Debug for Shelved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shelved({} books)", self.books.len())
    }
}

impl Shelved {
    /// The place of a profile, and which part of it a name means.
    fn find(&self, name: &str) -> Option<(usize, Part)> {
        let place = |name: &str| self.books.iter().position(|b| b.entry.name == name);
        if let Some(at) = place(name) {
            return Some((at, Part::default()));
        }
        let (name, part) = Part::split(name)?;
        place(name).filter(|at| self.books[*at].load_part.is_some()).map(|at| (at, part))
    }

    fn keep_subject(&self, i: usize, subject: Subject) {
        let read = self.placed(i, subject, &Part::default());
        let slot = self.read.slot(&self.books[i].entry.name);
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
    }

    /// A profile that was just read, as it is kept under its name.
    fn placed(&self, i: usize, mut subject: Subject, part: &Part) -> Read {
        let book = &self.books[i];
        subject.name = part.file(&book.entry.name);
        subject.whole = book.load_part.is_some().then(|| book.entry.name.clone());
        subject.shelf = self.own.upgrade().map(|s| s as Arc<dyn Shelf>);
        let subject = Arc::new(subject);
        // It continues on its own thread.
        let _ = ahead::prepare(&subject);
        Read { subject, at: Instant::now() }
    }

    /// The additional page of a profile, opened if necessary. None: it has none.
    fn beside(&self, i: usize) -> Option<Result<SharedAnswers, String>> {
        let book = self.books.get(i)?;
        let beside = book.beside.as_ref()?;
        let slot = self.open.slot(&book.entry.name);
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answers) = &*slot {
            return Some(Ok(Arc::clone(answers)));
        }
        // Other requests for this one wait here, so that it is opened once.
        let opened = (beside.open)(&self.links_back(i));
        *slot = opened.as_ref().ok().cloned();
        Some(opened)
    }

    fn links_back(&self, i: usize) -> LinksBack {
        let entry = &self.books[i].entry;
        let link = |cmd: &Cmd| format!("{UP}?{}", print(cmd, 1, None, &entry.name));
        // A profile is not read for the names of its parts, nor waited for.
        let known = self.read.known(&entry.name);
        let slot = known.as_ref().and_then(|slot| slot.try_lock().ok());
        let read = slot.as_ref().and_then(|slot| slot.as_ref());
        let parts = match read {
            Some(read) => parts(&read.subject).iter().map(|(name, cmd)| (name.clone(), link(cmd))).collect(),
            None => vec![("overview".to_owned(), link(&Cmd::Menu))],
        };
        let program = match read {
            Some(read) => read.subject.profile.program().into_owned(),
            None => entry.title.clone(),
        };
        let takes_part = self.books[i].load_part.is_some();
        LinksBack { program, profile: link(&Cmd::Menu), parts, takes_part, quit: link(&Cmd::Quit) }
    }

    /// A profile or a part of one, and when it was read. `again`: reads it now.
    fn get(&self, i: usize, part: &Part, again: bool) -> Result<(Arc<Subject>, Instant), String> {
        let book = &self.books[i];
        let slots = if part.is_whole() { &self.read } else { &self.parts };
        let slot = slots.slot(&part.file(&book.entry.name));
        // Other requests for this one wait here, so that it is read once.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = slot.as_ref().filter(|_| !again) {
            return Ok((Arc::clone(&read.subject), read.at));
        }
        let subject = match &book.load_part {
            Some(load) if !part.is_whole() => {
                let (whole, _) = self.get(i, &Part::default(), false)?;
                load(part)?.coloured_as(&whole)
            }
            _ => (book.load)()?,
        };
        let read = slot.insert(self.placed(i, subject, part));
        Ok((Arc::clone(&read.subject), read.at))
    }
}

/// The address of an additional page, with the same part of the profile.
fn address_beside(i: usize, subject: &Subject, part: &Part) -> String {
    let mut address = format!("of/{i}/tl");
    let Some(recorded) = &subject.recorded else { return address };
    let mut separator = '?';
    let mut add = |word: &str, text: &str| {
        address.push_str(&format!("{separator}{word}={}", encode(text, "")));
        separator = '&';
    };
    if let Some((from, to)) = part.range {
        let at = |ns: u64| recorded.start_realtime_ns.saturating_add(ns).to_string();
        add("a", &at(from));
        if to != u64::MAX {
            add("b", &at(to));
        }
    }
    for (filter, text) in part.filters().filter(|(filter, _)| *filter != PartFilter::Without) {
        add(filter.as_word(), text);
    }
    address
}

impl Shelf for Shelved {
    fn entries(&self) -> Vec<ShelfEntry> {
        let mut entries: Vec<ShelfEntry> = self.books.iter().map(|b| b.entry.clone()).collect();
        // A profile that was read has more information. One that is being read is not waited for.
        for entry in &mut entries {
            let Some(slot) = self.read.known(&entry.name) else { continue };
            if let Ok(slot) = slot.try_lock()
                && let Some(Read { subject, .. }) = &*slot
                && let Some(recorded) = &subject.recorded
            {
                let (measured, quanta) = (&recorded.side.measured, subject.profile.header().user_quanta);
                if *measured != Measured::Cpu {
                    entry.amount = Some(format::amount(measured, quanta));
                } else if entry.cpu_seconds.is_none() {
                    entry.cpu_seconds = Some(measured.scaled(quanta));
                }
                entry.running = recorded.side.running > 0;
            }
        }
        entries
    }

    fn subject(&self, name: &str) -> Result<Arc<Subject>, Failure> {
        let (i, part) =
            self.find(name).ok_or_else(|| Failure(format!("There is no recording named {name} here.")))?;
        self.get(i, &part, false).map(|(subject, _)| subject).map_err(Failure)
    }
}

/// Profiles that answer.
#[derive(Debug)]
pub struct Library {
    shelf: Arc<Shelved>,
    nonce: Option<fn() -> String>,
}

impl Library {
    /// A library of these books.
    #[must_use]
    pub fn new(books: Vec<Book>) -> Library {
        let shelf = Arc::new_cyclic(|own| Shelved {
            books,
            read: Slots::new(KEPT),
            parts: Slots::new(KEPT_PARTS),
            open: Slots::new(KEPT_OPEN),
            own: own.clone(),
        });
        Library { shelf, nonce: None }
    }

    /// The same library, with a nonce for each page that this function makes.
    #[must_use]
    pub fn with_nonce(self, nonce: fn() -> String) -> Library {
        Library { nonce: Some(nonce), ..self }
    }

    /// Names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shelf.books.iter().map(|b| b.entry.name.as_str())
    }

    /// Stores a profile that was read already. Nothing happens if there is no such name.
    pub fn hand_over(&self, name: &str, subject: Subject) {
        if let Some((i, _)) = self.shelf.find(name).filter(|(_, part)| part.is_whole()) {
            self.shelf.keep_subject(i, subject);
        }
    }

    /// The profile with a name. It is read if necessary.
    ///
    /// # Errors
    /// There is no such profile, or it cannot be read.
    pub fn subject(&self, name: &str) -> Result<Arc<Subject>, Failure> {
        self.shelf.subject(name)
    }

    /// Why a profile, or a part of it, cannot be read. `query` names the profile.
    fn unreadable(&self, request: &Request<'_>, query: &Query, part: &Part, why: &str) -> Response {
        let limits: Vec<String> = part.in_words().into_iter().map(|(words, _)| words).collect();
        if limits.is_empty() {
            return self.message(request, query, 200, why);
        }
        let text = format!("Only {}.", limits.join(", "));
        match request.form {
            Form::Html => {
                let back = Some(("show all of the recording".to_owned(), Cmd::Menu));
                self.message_with(Some(Notice { text, link: back }), request, query, 200, why)
            }
            Form::Json | Form::Text => self.message(request, query, 200, &format!("{text} {why}")),
        }
    }

    fn message(&self, request: &Request<'_>, query: &Query, status: u16, text: &str) -> Response {
        self.message_with(None, request, query, status, text)
    }

    fn message_with(
        &self,
        notice: Option<Notice>,
        request: &Request<'_>,
        query: &Query,
        status: u16,
        text: &str,
    ) -> Response {
        let place = PageContext {
            script: Some(request.script.to_owned()),
            file: query.file.clone(),
            nonce: self.nonce.map(|make| make()),
            notice,
            beside: None,
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
        let Some((i, part)) = self.shelf.find(&query.file) else {
            let text = format!("There is no recording named {} here.", query.file);
            return (self.message(request, &query, 404, &text), After::Serve);
        };
        let (subject, at) = match self.shelf.get(i, &part, query.cmd == Cmd::Restart) {
            Ok(both) => both,
            Err(e) => {
                let whole = Query { file: self.shelf.books[i].entry.name.clone(), ..query };
                return (self.unreadable(request, &whole, &part, &e), After::Serve);
            }
        };
        let running = subject.recorded.as_ref().is_some_and(|r| r.side.running > 0);
        let place = PageContext {
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
            beside: self.shelf.books[i].beside.as_ref().map(|beside| Beside {
                label: beside.label.clone(),
                address: address_beside(i, &subject, &part),
            }),
        };
        let after = if query.cmd == Cmd::Quit { After::Quit } else { After::Serve };
        (render(&subject, request, &query, &place), after)
    }

    fn answer_path(&self, path: &str, query: &str) -> Option<Reply> {
        let (number, _) = path.strip_prefix("/of/")?.split_once('/')?;
        let rest = &path["/of/".len() + number.len()..];
        let i: usize = number.parse().ok()?;
        match self.shelf.beside(i)? {
            Ok(answers) => answers.answer_path(rest, query),
            Err(why) => {
                let query = Query {
                    cmd: Cmd::Menu,
                    page: 1,
                    prefs: None,
                    file: self.shelf.books[i].entry.name.clone(),
                };
                let request = Request { form: Form::Html, query: "", script: UP };
                let response = self.message(&request, &query, 200, &why);
                // Links of a page begin with `?`, but the address of this page is below the profile's.
                let body = response.body.replace("href=\"?", &format!("href=\"{UP}?"));
                Some(Reply::Whole(Response { body, ..response }))
            }
        }
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
        Book { entry, load: Box::new(load), load_part: None, beside: None }
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
    fn parts_are_read_when_they_are_asked_for_and_a_few_are_kept() {
        let loads = Arc::new(AtomicUsize::new(0));
        let parts = Arc::new(AtomicUsize::new(0));
        let with_parts = |name: &str| {
            let parts = Arc::clone(&parts);
            let load_part = move |part: &Part| {
                parts.fetch_add(1, Ordering::SeqCst);
                if part.range == Some((0, 1_000_000_000)) {
                    return Err("nothing was sampled".to_owned());
                }
                let data = generate(&Params { seed: 7, contexts: 60, procs: 9, ..Params::default() });
                let profile = Profile::new(data.map_err(|e| e.to_string())?, Compensation::Exact);
                let mut subject = Subject::new(profile.map_err(|e| e.to_string())?);
                subject.part = part.clone();
                Ok(subject)
            };
            Book { load_part: Some(Box::new(load_part)), ..book(name, Arc::clone(&loads), 1) }
        };
        let books = vec![with_parts("r"), with_parts("r!1..2"), book("whole", Arc::clone(&loads), 2)];
        let library = Library::new(books);
        let page = ask(&library, "menu&&r!1.5..2").body;
        assert!(page.contains("1.5 s to 2 s") && page.contains("&amp;r!1.5..2\""), "{page}");
        ask(&library, "root/no&&r!1.5..2");
        assert_eq!(
            (loads.load(Ordering::SeqCst), parts.load(Ordering::SeqCst)),
            (1, 1),
            "its colours are the whole's"
        );
        // A profile of that name goes before a part.
        ask(&library, "menu&&r!1..2");
        assert_eq!((loads.load(Ordering::SeqCst), parts.load(Ordering::SeqCst)), (2, 1));
        // The one used longest ago is read again.
        (2..2 + KEPT_PARTS).for_each(|at| drop(ask(&library, &format!("menu&&r!{at}.."))));
        ask(&library, "menu&&r!1.5..2");
        assert_eq!(parts.load(Ordering::SeqCst), 2 + KEPT_PARTS);
        // Nothing is made of what is no part, or of a profile without parts.
        assert_eq!(ask(&library, "menu&&r!2..1").status, 404);
        assert_eq!(ask(&library, "menu&&whole!1..2").status, 404);
        // What cannot be shown leads back to the whole.
        let page = ask(&library, "menu&&r!0..1").body;
        assert!(page.contains("Only up to 1 s.") && page.contains("nothing was sampled"), "{page}");
        assert!(page.contains("href=\"?menu&amp;&amp;r\""), "{page}");
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
        // A profile compared with itself has no differences.
        assert!(!ask(&library, "diff/r1/procs/self/absolute&&r1").body.contains(">+"));
    }

    struct Beside(LinksBack);

    impl Answers for Beside {
        fn answer(&self, _: &Request<'_>) -> (Response, After) {
            unreachable!("pages of profiles are the library's own")
        }

        fn answer_path(&self, path: &str, query: &str) -> Option<Reply> {
            let text = format!("{path} {query} {} {}", self.0.profile, self.0.quit);
            (path == "/tl").then(|| Reply::Whole(Response::page(Form::Html, text)))
        }
    }

    #[test]
    fn pages_beside_profiles_are_opened_when_they_are_asked_for() {
        let (loads, opens) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut books: Vec<Book> = (0..5).map(|i| book(&format!("r/{i}"), Arc::clone(&loads), i)).collect();
        for book in &mut books[..4] {
            let opens = Arc::clone(&opens);
            let open = move |links: &LinksBack| {
                opens.fetch_add(1, Ordering::SeqCst);
                if links.profile.ends_with("r/3") {
                    return Err("it has <no> times".to_owned());
                }
                Ok(Arc::new(Beside(links.clone())) as SharedAnswers)
            };
            book.beside = Some(PageBeside { label: "timeline".into(), open: Box::new(open) });
        }
        let library = Library::new(books);
        let link = |query| ask(&library, query).body.contains("<a href=\"of/1/tl\">timeline</a>");
        assert!(link("menu&&r/1") && !link("menu&&r/2") && !link("menu&&r/4"));
        assert_eq!(opens.load(Ordering::SeqCst), 0, "a link opens nothing");
        let get = |path: &str| match library.answer_path(path, "from=1") {
            Some(Reply::Whole(response)) => Some(response.body),
            _ => None,
        };
        for _ in 0..2 {
            let expected = "/tl from=1 ../../deep?menu&&r/1 ../../deep?quit&&r/1";
            assert_eq!(get("/of/1/tl").as_deref(), Some(expected));
        }
        assert_eq!(opens.load(Ordering::SeqCst), 1);
        for path in ["/of/1/x", "/of/4/tl", "/of/5/tl", "/of/-1/tl", "/of/1", "/tl", "/of//tl"] {
            assert_eq!(get(path), None, "{path}");
        }
        let failed = get("/of/3/tl").expect("a page");
        assert!(
            failed.contains("it has &lt;no&gt; times") && failed.contains("href=\"../../deep?menu"),
            "{failed}"
        );
        // Only this many stay open. A page that was closed is opened again.
        for i in [0, 2, 1] {
            assert!(get(&format!("/of/{i}/tl")).is_some());
        }
        assert_eq!(opens.load(Ordering::SeqCst), 5);
    }

    #[test]
    fn only_so_many_are_kept() {
        let loads = Arc::new(AtomicUsize::new(0));
        let library = Library::new((0..9).map(|i| book(&format!("r{i}"), Arc::clone(&loads), i)).collect());
        for i in 0..9 {
            ask(&library, &format!("menu&&r{i}"));
        }
        let is_kept = |i: usize| {
            let slot = library.shelf.read.known(&format!("r{i}"));
            slot.is_some_and(|slot| slot.lock().unwrap().is_some())
        };
        let kept: Vec<usize> = (0..9).filter(|i| is_kept(*i)).collect();
        assert_eq!(kept, (9 - KEPT..9).collect::<Vec<_>>(), "those used last");
    }
}
