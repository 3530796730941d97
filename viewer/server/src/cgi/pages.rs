//! Pages in the making: each on a thread of its own, several at a time, so that a slow page makes nobody else wait.
//!
//! The server passes requests to [`Pages::begin`], waits on [`Pages::bell`] among its other descriptors, and collects
//! finished pages with [`Pages::finished`]. A thread cannot be stopped. If a page takes longer than its limit, its
//! reader is told so and its thread works on, so that stored results serve the next reader. Until it ends it counts as
//! a page in the making, which bounds the cost of slow pages.

use super::message::Ask;
use crate::answer::{After, Response};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most pages in the making, late ones included.
pub(super) const AT_ONCE: usize = 8;
/// Stack size of a thread that makes a page.
const STACK: usize = 8 << 20;

/// The server's pages.
pub(super) struct Pages {
    making: Vec<Making>,
    /// Threads whose reader was told to come back later.
    late: Vec<JoinHandle<()>>,
    /// Time limit for one page.
    limit: Duration,
    numbers: u64,
    sender: Sender<Done>,
    receiver: Receiver<Done>,
    bell: PipeReader,
    ring: Arc<PipeWriter>,
}

struct Making {
    number: u64,
    ask: Ask,
    since: Instant,
    thread: JoinHandle<()>,
}

struct Done {
    number: u64,
    answer: Answer,
}

type Answer = (Response, After);

/// The result of a request.
pub(super) struct Finished {
    /// The request.
    pub(super) ask: Ask,
    /// What to answer.
    pub(super) response: Response,
    /// What the server does after that.
    pub(super) after: After,
    /// The page is not finished yet; the answer says so.
    pub(super) is_late: bool,
}

impl Pages {
    pub(super) fn new(limit: Duration) -> io::Result<Pages> {
        let (sender, receiver) = mpsc::channel();
        let (bell, ring) = io::pipe()?;
        Ok(Pages {
            making: Vec::new(),
            late: Vec::new(),
            limit,
            numbers: 0,
            sender,
            receiver,
            bell,
            ring: Arc::new(ring),
        })
    }

    /// Readable when a page is done.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Whether no reader waits for a page.
    pub(super) fn is_empty(&self) -> bool {
        self.making.is_empty()
    }

    /// Whether one more request is accepted. It is even if all threads make late pages: its reader is told so at once.
    pub(super) fn has_room(&self) -> bool {
        self.making.is_empty() || self.making.len() + self.late.len() < AT_ONCE
    }

    /// When the next page becomes late.
    pub(super) fn next_late(&self) -> Option<Instant> {
        self.making.iter().map(|m| m.since + self.limit).min()
    }

    /// Starts to make a page. `Some`: there is an answer already.
    pub(super) fn begin(
        &mut self,
        ask: Ask,
        make: impl FnOnce(&Ask) -> Answer + Send + 'static,
    ) -> Option<Finished> {
        self.late.retain(|thread| !thread.is_finished());
        let now = |ask, (response, after)| Some(Finished { ask, response, after, is_late: false });
        if self.late.len() >= AT_ONCE {
            let text = "The server is busy with pages that take long. Try again in a while.";
            return now(ask, (Response::plain(503, text), After::Serve));
        }
        self.numbers += 1;
        let number = self.numbers;
        let (sender, ring, asked) = (self.sender.clone(), Arc::clone(&self.ring), ask.clone());
        let work = move || {
            // A panic that the pages themselves do not catch must not leave a reader without an answer.
            let answer = catch_unwind(AssertUnwindSafe(|| make(&asked)));
            let answer = answer.unwrap_or_else(|_| cannot());
            let _ = sender.send(Done { number, answer });
            let _ = (&*ring).write(&[1]);
        };
        match std::thread::Builder::new().stack_size(STACK).spawn(work) {
            Ok(thread) => {
                self.making.push(Making { number, ask, since: Instant::now(), thread });
                None
            }
            Err(e) => {
                let text = format!("There is no thread to make the page with: {e}. Try again in a while.");
                now(ask, (Response::plain(503, &text), After::Serve))
            }
        }
    }

    /// Pages that are finished, then those that have become late. Never waits.
    pub(super) fn finished(&mut self) -> Vec<Finished> {
        let mut out = Vec::new();
        while let Ok(done) = self.receiver.try_recv() {
            // The reader of a late page is gone.
            let Some(at) = self.making.iter().position(|m| m.number == done.number) else { continue };
            let making = self.making.swap_remove(at);
            let (response, after) = done.answer;
            out.push(Finished { ask: making.ask, response, after, is_late: false });
        }
        let now = Instant::now();
        let (late, making): (Vec<Making>, Vec<Making>) =
            self.making.drain(..).partition(|m| now.saturating_duration_since(m.since) >= self.limit);
        self.making = making;
        for m in late {
            self.late.push(m.thread);
            let text = "This page takes long. It is still being worked on: ask again in a while.";
            let response = Response::plain(503, text);
            out.push(Finished { ask: m.ask, response, after: After::Serve, is_late: true });
        }
        out
    }

    /// Reads the bell. Only when it is readable.
    pub(super) fn hear(&mut self) {
        let mut rung = [0; 64];
        let _ = self.bell.read(&mut rung);
    }

    /// The requests whose pages nobody will wait for.
    pub(super) fn abandon(&mut self) -> Vec<Ask> {
        self.making.drain(..).map(|m| m.ask).collect()
    }
}

fn cannot() -> Answer {
    (Response::plain(503, "The page could not be made."), After::Serve)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(query: &str) -> Ask {
        Ask {
            want: "mdprof_want1.a".into(),
            file: "/a.data".into(),
            form: String::new(),
            script: "/x".into(),
            query: query.into(),
            literal: false,
            fresh: false,
        }
    }

    fn page(text: &str) -> Answer {
        (Response::plain(200, text), After::Serve)
    }

    /// The next finished pages, after the bell.
    fn next(pages: &mut Pages) -> Vec<(String, u16)> {
        loop {
            pages.hear();
            let done = pages.finished();
            if !done.is_empty() {
                return done.into_iter().map(|f| (f.ask.query, f.response.status)).collect();
            }
        }
    }

    #[test]
    fn a_page_that_takes_long_holds_up_no_other() {
        let mut pages = Pages::new(Duration::from_secs(3600)).expect("a pipe");
        let (go, gate) = mpsc::channel::<()>();
        assert!(
            pages
                .begin(ask("slow"), move |_| {
                    let _ = gate.recv();
                    page("slow")
                })
                .is_none()
        );
        for quick in ["a", "b", "c"] {
            assert!(pages.begin(ask(quick), |_| page("quick")).is_none());
            assert_eq!(next(&mut pages), [(quick.to_owned(), 200)]);
        }
        assert!(!pages.is_empty());
        go.send(()).expect("it waits");
        assert_eq!(next(&mut pages), [("slow".to_owned(), 200)]);
        assert!(pages.is_empty());
    }

    #[test]
    fn there_is_a_bound_and_late_pages_count() {
        let mut pages = Pages::new(Duration::ZERO).expect("a pipe");
        let mut gates = Vec::new();
        for i in 0..AT_ONCE {
            assert!(pages.has_room(), "{i}");
            let (go, gate) = mpsc::channel::<()>();
            gates.push(go);
            assert!(
                pages
                    .begin(ask("slow"), move |_| {
                        let _ = gate.recv();
                        page("x")
                    })
                    .is_none()
            );
        }
        // All threads are busy, so there is no room. Then all pages are late, and a new reader is told so at once.
        assert!(!pages.has_room());
        let late = pages.finished();
        assert_eq!(late.iter().filter(|f| f.is_late && f.response.status == 503).count(), AT_ONCE);
        assert!(pages.has_room() && pages.is_empty());
        let busy = pages.begin(ask("one more"), |_| page("x")).expect("an answer");
        assert!(busy.response.body.contains("busy"), "{}", busy.response.body);
        // When they end there is room again. Nobody is answered twice.
        drop(gates);
        for thread in pages.late.drain(..) {
            thread.join().expect("ends");
        }
        assert!(pages.finished().is_empty());
        assert!(pages.begin(ask("one more"), |_| page("x")).is_none());
    }

    #[test]
    fn a_page_that_panics_is_an_answer() {
        let mut pages = Pages::new(Duration::from_secs(3600)).expect("a pipe");
        assert!(pages.begin(ask("bad"), |_| panic!("on purpose")).is_none());
        assert_eq!(next(&mut pages), [("bad".to_owned(), 503)]);
        assert!(pages.begin(ask("left"), |_| page("x")).is_none());
        assert_eq!(pages.abandon().len(), 1);
        assert!(pages.is_empty());
    }
}
