//! The server process of one data file.

use super::message::{self, Ask, MAX, Reply, Status};
use super::names::{self, Names};
use super::pages::{Finished, Pages};
use super::print::cgi_text;
use super::settings::Settings;
use super::{mutex, wait};
use crate::answer::{After, Form, Request, Response};
use crate::http;
use crate::viewer::Viewer;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode;
use pct_deep::{Compensation, Contexts, Reading};
use pct_reports::query::{Cmd, Query};
use pct_text::complain;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, RawFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First argument of a server process. Only a client starts one: standard input must be the lock.
pub const FLAG: &str = "--become-server";

/// A longer record of an earlier server is replaced, in octets.
const MAX_RECORD: u64 = 64 * 1024;
/// How long an ending server waits for clients that hold the lock.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a server that was told to end reads requests that were already sent.
const LAST_LOOK: Duration = Duration::from_millis(1);

/// The arguments of a server process.
#[must_use]
pub fn arguments(names: &Names, file: &Path, settings: &Settings) -> Vec<OsString> {
    let idle = settings.idle.map_or(0, |d| d.as_millis().max(1));
    let rule = if settings.reading.rule == Compensation::Compat { "compat" } else { "exact" };
    let contexts = if settings.reading.contexts == Contexts::Canonical { "canonical" } else { "recorded" };
    let stay = if settings.detach { "detach" } else { "stay" };
    let query = settings.query.as_micros().max(1);
    vec![
        FLAG.into(),
        names.dir.clone().into(),
        file.into(),
        idle.to_string().into(),
        rule.into(),
        contexts.into(),
        query.to_string().into(),
        stay.into(),
    ]
}

/// The server process, with the arguments after [`FLAG`]. Standard input is the lock; standard output takes one status
/// line.
pub fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut next = || args.next().unwrap_or_default();
    let (dir, file, idle, rule) = (PathBuf::from(next()), PathBuf::from(next()), next(), next());
    let (contexts, query, stay) = (next(), next(), next());
    let number = |s: &OsString| -> u64 { s.to_str().and_then(|s| s.parse().ok()).unwrap_or(0) };
    let idle_ms = number(&idle);
    let limit = Duration::from_micros(number(&query).max(1));
    let reading = Reading {
        rule: if rule == "compat" { Compensation::Compat } else { Compensation::Exact },
        contexts: if contexts == "canonical" { Contexts::Canonical } else { Contexts::Recorded },
    };
    let names = Names::new(dir, &file);
    let idle = (idle_ms > 0).then(|| Duration::from_millis(idle_ms));
    match run(&names, &file, idle, reading, limit, stay == "stay") {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            complain!("mdprof_cgi: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    names: &Names,
    file: &Path,
    idle: Option<Duration>,
    reading: Reading,
    limit: Duration,
    stay: bool,
) -> io::Result<()> {
    let lock = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    if !mutex::is_at(&lock, &names.mutex()) {
        return Err(io::Error::other("a server is started by a request"));
    }
    detach(&[std::os::fd::AsRawFd::as_raw_fd(&lock)], stay);
    // From here on these signals wait until the server reads them: a server that is told to end removes its files.
    // Threads inherit this.
    let mut asked_to_end = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        asked_to_end.add(signal);
    }
    asked_to_end.thread_block()?;
    let signals = SignalFd::with_flags(&asked_to_end, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let mut record = Record::open(names);
    let began = Instant::now();
    let prepared =
        Viewer::open(file, reading).map_err(|e| io::Error::other(e.to_string())).and_then(|viewer| {
            record.say(&format!("load {:?} of {}", began.elapsed(), file.display()));
            // This process holds the lock and there was no server, so these are left from one that is gone.
            names.remove_responses();
            names::sweep_wants(&names.dir);
            let pages = Pages::new(limit)?;
            let pipe = make_pipe(names)
                .map_err(|e| io::Error::other(format!("{}: {e}", names.to_server().display())))?;
            Ok((viewer.with_nonce(http::nonce), pages, pipe))
        });
    let (viewer, pages, pipe) = match prepared {
        Ok(both) => both,
        Err(e) => {
            record.say(&format!("failed: {e}"));
            tell(&Status::Failed(message::cut(&e.to_string())));
            let _ = std::fs::remove_file(names.mutex());
            return Err(e);
        }
    };
    let mut server = Server {
        names: names.clone(),
        file: file.to_string_lossy().into_owned(),
        viewer: Arc::new(viewer),
        pipe,
        signals,
        stopped: false,
        idle,
        limit,
        pages,
        pending: Vec::new(),
        sent: VecDeque::new(),
        number: 0,
        record,
    };
    // The client that started this server may still hold the lock. This releases it for both.
    lock.unlock()?;
    drop(lock);
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    tell(&Status::Ready);
    nix::unistd::dup2_stdout(&null)?;
    drop(null);
    server.serve();
    Ok(())
}

/// Detaches from the web server: a session of its own (unless `stay`), and none of its descriptors.
fn detach(keep: &[RawFd], stay: bool) {
    if !stay {
        let _ = nix::unistd::setsid();
    }
    let inherited: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
        .map(|d| d.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect())
        .unwrap_or_default();
    for fd in inherited {
        if fd > 2 && !keep.contains(&fd) {
            // The listing's own descriptor is closed already, which does no harm.
            let _ = nix::unistd::close(fd);
        }
    }
}

/// Writes one line to the client that started the server. It may be gone.
fn tell(status: &Status) {
    if let Some(line) = message::line(status) {
        let mut out = io::stdout().lock();
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

/// Creates the pipe of requests and opens it so that it always has a reader and never ends.
fn make_pipe(names: &Names) -> io::Result<File> {
    let path = names.to_server();
    nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(&path);
    if opened.is_err() {
        let _ = std::fs::remove_file(&path);
    }
    opened
}

/// A server's log about its life, for people who search for the cause of a problem. Its size is bounded: requests are
/// not recorded.
struct Record(Option<File>);

impl Record {
    fn open(names: &Names) -> Record {
        let path = names.record();
        if std::fs::symlink_metadata(&path).is_ok_and(|m| !m.is_file() || m.len() > MAX_RECORD) {
            let _ = std::fs::remove_file(&path);
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(&path)
            .ok();
        if let Some(file) = &file {
            let _ = nix::unistd::dup2_stderr(file);
        }
        Record(file)
    }

    fn say(&mut self, text: &str) {
        if let Some(file) = &mut self.0 {
            // A full disk must not stop a server.
            let _ = writeln!(file, "{}: {text}", std::process::id());
        }
    }
}

struct Server {
    names: Names,
    file: String,
    viewer: Arc<Viewer>,
    pipe: File,
    /// Signals that ask the server to end.
    signals: SignalFd,
    /// Such a signal has come.
    stopped: bool,
    idle: Option<Duration>,
    /// Time limit for one page.
    limit: Duration,
    /// Pages in the making.
    pages: Pages,
    /// Octets of requests that were not served yet.
    pending: Vec<u8>,
    /// Responses that were sent and still exist, with their client's want file.
    sent: VecDeque<(PathBuf, PathBuf)>,
    number: u64,
    record: Record,
}

fn response(viewer: &Viewer, file: &str, ask: &Ask) -> (Response, After) {
    if ask.file != file {
        return (Response::plain(503, "this server has another file"), After::Serve);
    }
    let Some(form) = Form::of_path(&ask.form) else {
        return (Response::plain(404, "there is no such form of a page"), After::Serve);
    };
    let mut query = match Query::parse(&ask.query) {
        Ok(query) => query,
        Err(e) => return (Response::plain(400, &e.to_string()), After::Serve),
    };
    if ask.literal {
        query.file = Query::raw_file(&ask.query).to_owned();
    }
    if ask.fresh && query.cmd == Cmd::Restart {
        query.cmd = Cmd::Menu;
    }
    let request = Request { form, query: &ask.query, script: &ask.script };
    viewer.answer_query(&request, &query)
}

impl Server {
    fn serve(&mut self) {
        let mut idle_since = Instant::now();
        loop {
            // The time that answers take does not count as idle.
            let until = self.idle.filter(|_| self.pages.is_empty()).map(|idle| idle_since + idle);
            let line = self.next_line(until);
            let is_busy = line.is_some() || !self.pages.is_empty();
            let began = line.map_or(After::Serve, |line| self.begin(&line));
            let finished = self.finish_pages();
            if self.stopped || began == After::Quit || finished == After::Quit {
                return self.quit();
            }
            if is_busy {
                idle_since = Instant::now();
            } else if until.is_some_and(|until| Instant::now() >= until) {
                if self.end_if_idle() {
                    return;
                }
                idle_since = Instant::now();
            }
        }
    }

    /// The next request. `None`: there is something else to do: a page is finished or late, a signal came, or it is
    /// `until`.
    fn next_line(&mut self, until: Option<Instant>) -> Option<Vec<u8>> {
        loop {
            let has_room = self.pages.has_room();
            if let Some(end) = self.pending.iter().position(|&b| b == b'\n').filter(|_| has_room) {
                return Some(self.pending.drain(..=end).collect());
            }
            if self.pending.len() > MAX && has_room {
                // No client sends such a long line.
                self.pending.clear();
            }
            let now = Instant::now();
            let mut next = now + Duration::from_secs(60);
            next = until.into_iter().chain(self.pages.next_late()).fold(next, Instant::min);
            if self.stopped {
                next = next.min(now + LAST_LOOK);
            }
            let requests = if has_room { PollFlags::POLLIN } else { PollFlags::empty() };
            let mut fds = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.pages.bell(), PollFlags::POLLIN),
                PollFd::new(self.pipe.as_fd(), requests),
            ];
            let polled = poll(&mut fds, if next <= now { 0u8.into() } else { wait::left(next) });
            let ready = fds.map(|fd| fd.revents().is_some_and(|r| r.contains(PollFlags::POLLIN)));
            if ready[0] && matches!(self.signals.read_signal(), Ok(Some(_))) {
                self.stopped = true;
            }
            if ready[1] {
                self.pages.hear();
            }
            let mut chunk = [0; 16 * 1024];
            if ready[2]
                && let Ok(n) = self.pipe.read(&mut chunk)
            {
                self.pending.extend_from_slice(&chunk[..n]);
                continue;
            }
            if polled == Ok(0) {
                self.forget_sent();
            }
            return None;
        }
    }

    /// Starts to make the page of a request. Whatever is wrong with the request, the server goes on.
    fn begin(&mut self, line: &[u8]) -> After {
        self.forget_sent();
        let Some(ask) = message::parse::<Ask>(line).filter(|a| names::is_want(&a.want)) else {
            self.record.say("a line that is not a valid message was ignored");
            return After::Serve;
        };
        let (viewer, file) = (Arc::clone(&self.viewer), self.file.clone());
        match self.pages.begin(ask, move |ask| response(&viewer, &file, ask)) {
            Some(finished) => self.finish(finished),
            None => After::Serve,
        }
    }

    /// Answers requests whose pages are finished. [`After::Quit`]: one of them ends the server.
    fn finish_pages(&mut self) -> After {
        let mut all = After::Serve;
        for finished in self.pages.finished() {
            if self.finish(finished) == After::Quit {
                all = After::Quit;
            }
        }
        all
    }

    fn finish(&mut self, finished: Finished) -> After {
        let form = Form::of_path(&finished.ask.form).unwrap_or_default();
        let is_page = finished.response.status == 200;
        let response = if is_page { finished.response } else { finished.response.in_form(form) };
        if finished.is_late {
            let query = message::cut(&finished.ask.query);
            self.record.say(&format!("a page takes longer than {:?}: {query}", self.limit));
        }
        let reply = match self.store(&cgi_text(&response)) {
            Ok((name, path)) => {
                self.sent.push_back((path, self.names.dir.join(&finished.ask.want)));
                Reply::File(name)
            }
            Err(e) => Reply::Sorry(message::cut(&format!("the answer cannot be written: {e}"))),
        };
        self.deliver(&finished.ask, &reply);
        match finished.after {
            After::Timeout(0) => self.idle = None,
            After::Timeout(minutes) => self.idle = Some(Duration::from_secs(u64::from(minutes) * 60)),
            After::Serve | After::Quit => {}
        }
        finished.after
    }

    /// Sends a reply to its client. If the client is gone, it needs no reply, but its command was carried out.
    fn deliver(&mut self, ask: &Ask, reply: &Reply) {
        let want = self.names.dir.join(&ask.want);
        let is_delivered = match (names::open_living(&want), message::line(reply)) {
            (Ok(Some(mut pipe)), Some(line)) => pipe.write(&line).is_ok_and(|n| n == line.len()),
            _ => false,
        };
        if is_delivered {
            return;
        }
        if let Reply::File(_) = reply
            && let Some((path, _)) = self.sent.pop_back()
        {
            let _ = std::fs::remove_file(path);
        }
        if matches!(names::open_living(&want), Ok(None)) {
            let _ = std::fs::remove_file(&want);
        }
    }

    fn store(&mut self, text: &[u8]) -> io::Result<(String, PathBuf)> {
        loop {
            self.number += 1;
            let path = self.names.response(self.number);
            let mut file = match names::create_new(&path) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            };
            if let Err(e) = file.write_all(text) {
                let _ = std::fs::remove_file(&path);
                return Err(e);
            }
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if !self.names.is_response(name.as_bytes()) {
                let _ = std::fs::remove_file(&path);
                return Err(io::Error::other("the data file's name is not UTF-8"));
            }
            return Ok((name, path));
        }
    }

    /// Forgets responses that were fetched, and removes those whose client is gone.
    fn forget_sent(&mut self) {
        self.sent.retain(|(response, want)| {
            if std::fs::symlink_metadata(response).is_err() {
                return false;
            }
            if matches!(names::open_living(want), Ok(None)) {
                let _ = std::fs::remove_file(response);
                let _ = std::fs::remove_file(want);
                return false;
            }
            true
        });
    }

    /// Ends if nobody needs the server. A client that is about to ask holds the lock.
    fn end_if_idle(&mut self) -> bool {
        let lock = match mutex::try_lock(&self.names) {
            Ok(Some(lock)) => lock,
            Ok(None) => return false,
            // The directory is gone or full, so nobody can ask.
            Err(_) => return !self.names.dir.exists(),
        };
        if self.has_request() || !self.sent.is_empty() {
            return false;
        }
        self.clean(lock, "idle");
        true
    }

    fn has_request(&mut self) -> bool {
        let line = self.next_line(Some(Instant::now()));
        if let Some(line) = &line {
            self.pending.splice(..0, line.iter().copied());
        }
        line.is_some()
    }

    /// Answers clients that have already sent requests, then ends.
    fn quit(&mut self) {
        let until = Instant::now() + FAREWELL;
        let mut lock = None;
        loop {
            lock = lock.or_else(|| mutex::try_lock(&self.names).unwrap_or_default());
            // A client that holds the lock may wait for room in the pipe, and readers wait for their pages.
            let has_reasons = lock.is_none() || !self.pages.is_empty();
            let look = Instant::now() + if has_reasons { LAST_LOOK } else { Duration::ZERO };
            while let Some(line) = self.next_line(Some(look)) {
                self.begin(&line);
            }
            self.finish_pages();
            let is_late = Instant::now() >= until;
            if is_late {
                for ask in self.pages.abandon() {
                    self.deliver(&ask, &Reply::Sorry("The server was told to end.".to_owned()));
                }
            }
            // After the deadline, clients that are just sending lose their server, notice it, and start another.
            if is_late || lock.is_some() && self.pages.is_empty() {
                return match lock {
                    Some(lock) => self.clean(lock, "quit"),
                    None => {
                        self.remove_pipe();
                    }
                };
            }
        }
    }

    fn remove_pipe(&self) -> bool {
        let path = self.names.to_server();
        // Another server's pipe may be there if somebody cleaned up by hand.
        mutex::is_at(&self.pipe, &path) && std::fs::remove_file(path).is_ok()
    }

    /// Removes all files of this server, the locked file last.
    fn clean(&mut self, lock: File, why: &str) {
        self.forget_sent();
        self.record.say(why);
        names::sweep_wants(&self.names.dir);
        if self.remove_pipe() {
            let _ = std::fs::remove_file(self.names.record());
            let _ = std::fs::remove_file(self.names.mutex());
        }
        drop(lock);
    }
}
