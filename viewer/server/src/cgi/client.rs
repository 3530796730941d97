//! Handles a request: from what the web server passed to the answer.

use super::message::{self, Ask, MAX, Reply, Status};
use super::mutex;
use super::names::{self, Names};
use super::print::printed;
use super::serve;
use super::settings::Settings;
use super::wait::{left, ready};
use crate::answer::{Form, Request, Response};
use crate::viewer::Viewer;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::stat::Mode;
use pct_reports::query::{Cmd, Query};
use pct_text::complain;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A request that is not parsed yet.
#[derive(Clone, Debug)]
pub struct Asked {
    /// As in `QUERY_STRING`.
    pub query: String,
    /// The form.
    pub form: Form,
    /// The script's path, for links.
    pub script: String,
}

/// Most servers that may die under one request before it gives up. A page that kills its server would do so each time.
const LOSSES: u32 = 8;

/// Answers a request on standard output. `head`: only the headers are printed.
///
/// # Errors
/// What to print instead. Its status is 200 if that is what was requested.
pub fn answer(asked: &Asked, settings: &Settings, head: bool) -> Result<ExitCode, Response> {
    let deadline = Instant::now() + settings.wait;
    let (query, literal) = parsed(&asked.query)?;
    let file = checked(&query.file, settings)?;
    if !settings.server {
        return alone(asked, &query, &file, settings, head);
    }
    let dir = names::private_dir().map_err(|e| unavailable(&e))?;
    let names = Names::new(dir, &file);
    let mut ours: Option<Child> = None;
    let mut want = Want::new(&names).map_err(|e| failed(&names.dir, &e))?;
    let mut used = false;
    let mut fresh = false;
    let mut losses = 0;
    let mut last = String::from("it was killed");
    while losses < LOSSES {
        let Some(lock) = mutex::lock(&names, deadline).map_err(|e| failed(&names.mutex(), &e))? else {
            return Err(unavailable(
                "The profile is still being loaded, or its server is busy. Try again in a while.",
            ));
        };
        let Some(mut pipe) =
            names::open_living(&names.to_server()).map_err(|e| unavailable(&e.to_string()))?
        else {
            if query.cmd == Cmd::Quit {
                names.remove_leftovers();
                return Err(Response::plain(
                    200,
                    "There is no server for this file; nothing had to be shut down.",
                ));
            }
            match start(&names, &file, settings, lock, deadline, &mut ours)? {
                Started::Ready => fresh = true,
                Started::Lost => {
                    losses += 1;
                    last = "it ended while it loaded the profile".into();
                }
            }
            continue;
        };
        // A pipe that a dead server had opened always says that its writer is gone. It serves for one request only.
        if std::mem::replace(&mut used, true) || !want.is_whole() {
            want = Want::new(&names).map_err(|e| failed(&names.dir, &e))?;
        }
        let ask = Ask {
            want: want.name.clone(),
            file: file.to_string_lossy().into_owned(),
            form: message::suffix(asked.form).to_owned(),
            script: asked.script.clone(),
            query: asked.query.clone(),
            literal,
            fresh,
        };
        let line = message::line(&ask)
            .ok_or_else(|| Response::plain(414, &format!("The request is longer than {MAX} octets.")))?;
        match send(&mut pipe, &line, deadline) {
            Sent::Yes => {}
            Sent::Lost => {
                losses += 1;
                continue;
            }
            Sent::TooLate => {
                return Err(unavailable("The server of this profile is busy. Try again in a while."));
            }
        }
        // From here on the want file keeps the server alive. Others may send.
        drop(lock);
        match want.wait(&pipe, deadline) {
            Waited::Reply(Reply::File(name)) => {
                match deliver(&names, &name, head, settings.debug.then_some(asked)) {
                    Ok(code) => {
                        if let Some(mut server) = ours.filter(|_| !settings.detach) {
                            drop(want);
                            let _ = server.wait();
                        }
                        return Ok(code);
                    }
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {
                        losses += 1;
                        last = "its answer was gone".into();
                    }
                    Err(e) => return Err(failed(&names.dir, &e)),
                }
            }
            Waited::Reply(Reply::Sorry(why)) => return Err(unavailable(&why)),
            Waited::Lost => {
                losses += 1;
                last = "it ended while it made the page".into();
            }
            Waited::TooLate => {
                return Err(unavailable(
                    "The server did not answer in time. It may still be making the page: try again in a while.",
                ));
            }
        }
    }
    Err(unavailable(&format!("The server of this profile was lost {losses} times in a row: {last}.")))
}

fn unavailable(why: &str) -> Response {
    Response::plain(503, why)
}

fn failed(path: &Path, e: &io::Error) -> Response {
    unavailable(&format!("{}: {e}", path.display()))
}

/// The query, and whether it names its file undecoded.
fn parsed(text: &str) -> Result<(Query, bool), Response> {
    let mut query = Query::parse(text).map_err(|e| Response::plain(400, &e.to_string()))?;
    let raw = Query::raw_file(text);
    let literal = raw != query.file && Path::new(raw).is_file();
    if literal {
        query.file = raw.to_owned();
    }
    if let Some(name) = query.file.strip_suffix(".localhost") {
        query.file = name.to_owned();
    }
    Ok((query, literal))
}

/// The data file by its canonical name, if it may be shown. A refusal does not say whether the file exists.
fn checked(name: &str, settings: &Settings) -> Result<PathBuf, Response> {
    if !name.ends_with(".data") {
        return Err(Response::plain(
            400,
            &format!(
                "{name}\n\nThe name of a data file must end in `.data`: the names of its companions are made from it."
            ),
        ));
    }
    let outside =
        || Response::plain(403, &format!("{name}: is not in a directory whose profiles are shown here"));
    let found = Path::new(name).canonicalize();
    if let Some(roots) = &settings.roots
        && !found.as_ref().is_ok_and(|f| roots.iter().any(|r| f.starts_with(r)))
    {
        return Err(outside());
    }
    // All refusals are the same, so that nobody learns which files exist.
    let refused = |why: String| {
        let why = if settings.tells { why } else { "there is no deep profile that can be shown".to_owned() };
        Response::plain(404, &format!("{name}: {why}"))
    };
    let not_found = |e: io::Error| refused(e.to_string());
    let found = found.map_err(not_found)?;
    // The type is checked before the file is opened, because opening a device may have effects.
    if !std::fs::symlink_metadata(&found).map_err(not_found)?.is_file() {
        return Err(refused("is not a regular file".to_owned()));
    }
    let mut first = Vec::new();
    names::open_nofollow(&found, false)
        .and_then(|f| f.take(HEADER.len() as u64).read_to_end(&mut first))
        .map_err(not_found)?;
    if first != HEADER {
        return Err(refused("is not a deep profile: its first line is another one".to_owned()));
    }
    Ok(found)
}

/// How each data file begins (`pct_deep::read`).
const HEADER: &[u8] = b"Mercury deep profiler data version ";

fn alone(
    asked: &Asked,
    query: &Query,
    file: &Path,
    settings: &Settings,
    head: bool,
) -> Result<ExitCode, Response> {
    let viewer = Viewer::open(file, settings.reading).map_err(|e| unavailable(&e.to_string()))?;
    let viewer = viewer.with_nonce(crate::http::nonce);
    let request = Request { form: asked.form, query: &asked.query, script: &asked.script };
    let (response, _) = viewer.answer_query(&request, query);
    let _ = printed(&response, head);
    Ok(ExitCode::SUCCESS)
}

enum Started {
    Ready,
    Lost,
}

/// Starts a server, which takes over the lock, and waits until it serves.
fn start(
    names: &Names,
    file: &Path,
    settings: &Settings,
    lock: File,
    deadline: Instant,
    ours: &mut Option<Child>,
) -> Result<Started, Response> {
    let stale = names.to_server();
    if let Err(e) = std::fs::remove_file(&stale)
        && e.kind() != io::ErrorKind::NotFound
    {
        return Err(failed(&stale, &e));
    }
    let program = std::env::current_exe().map_err(|e| unavailable(&format!("mdprof_cgi: {e}")))?;
    let (mut status, writer) = io::pipe().map_err(|e| unavailable(&format!("pipe: {e}")))?;
    let mut command = Command::new(program);
    command
        .args(serve::arguments(names, file, settings))
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(lock))
        .stdout(writer)
        .stderr(Stdio::null());
    *ours = Some(command.spawn().map_err(|e| unavailable(&format!("a server cannot be started: {e}")))?);
    // Closes pct's copies of the lock and of the writing end.
    drop(command);
    let mut text = Vec::new();
    loop {
        if !ready(&status, PollFlags::POLLIN, deadline).map_err(|e| unavailable(&e.to_string()))? {
            return Err(unavailable("The profile is being loaded. Try again in a while."));
        }
        let mut chunk = [0; MAX];
        match status.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => text.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(unavailable(&e.to_string())),
        }
        if text.ends_with(b"\n") {
            break;
        }
    }
    match message::parse(&text) {
        Some(Status::Ready) => Ok(Started::Ready),
        Some(Status::Failed(why)) => Err(unavailable(&why)),
        None => Ok(Started::Lost),
    }
}

enum Sent {
    Yes,
    Lost,
    TooLate,
}

fn send(pipe: &mut File, line: &[u8], deadline: Instant) -> Sent {
    loop {
        match pipe.write(line) {
            Ok(n) if n == line.len() => return Sent::Yes,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                match ready(pipe, PollFlags::POLLOUT, deadline) {
                    Ok(true) => {
                        // There is room, but perhaps not yet for a whole line.
                        std::thread::sleep(Duration::from_millis(1));
                        if Instant::now() >= deadline {
                            return Sent::TooLate;
                        }
                    }
                    Ok(false) => return Sent::TooLate,
                    Err(_) => return Sent::Lost,
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return Sent::Lost,
        }
    }
}

/// The pipe for the answer. It lives as long as its client.
struct Want {
    name: String,
    path: PathBuf,
    file: File,
}

enum Waited {
    Reply(Reply),
    Lost,
    TooLate,
}

impl Want {
    fn new(names: &Names) -> io::Result<Want> {
        let name = format!("{}{}.{}", names::WANT, std::process::id(), crate::http::random_hex()?);
        let path = names.dir.join(&name);
        nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        match names::open_nofollow(&path, false) {
            Ok(file) => Ok(Want { name, path, file }),
            Err(e) => {
                let _ = std::fs::remove_file(&path);
                Err(e)
            }
        }
    }

    /// Whether its file still exists.
    fn is_whole(&self) -> bool {
        mutex::is_at(&self.file, &self.path)
    }

    /// Waits for the answer, the death of the server, or the deadline.
    fn wait(&mut self, server: &File, deadline: Instant) -> Waited {
        let mut text = Vec::new();
        loop {
            let mut fds = [
                PollFd::new(self.file.as_fd(), PollFlags::POLLIN),
                PollFd::new(server.as_fd(), PollFlags::empty()),
            ];
            let lost = match poll(&mut fds, left(deadline)) {
                Ok(0) if Instant::now() >= deadline => return Waited::TooLate,
                Ok(0) | Err(nix::errno::Errno::EINTR) => continue,
                Ok(_) => {
                    fds[1].revents().is_none_or(|r| !r.is_empty())
                        || fds[0].revents().is_none_or(|r| !r.contains(PollFlags::POLLIN))
                }
                Err(_) => return Waited::Lost,
            };
            // An answer that came before the server ended is valid.
            let mut chunk = [0; MAX];
            match self.file.read(&mut chunk) {
                Ok(0) => {}
                Ok(n) => {
                    text.extend_from_slice(&chunk[..n]);
                    if text.ends_with(b"\n") {
                        return message::parse(&text).map_or(Waited::Lost, Waited::Reply);
                    }
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => return Waited::Lost,
            }
            if lost {
                return Waited::Lost;
            }
        }
    }
}

impl Drop for Want {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Prints a response file and removes it.
fn deliver(names: &Names, name: &str, head: bool, keep: Option<&Asked>) -> io::Result<ExitCode> {
    if !names.is_response(name.as_bytes()) {
        return Err(io::Error::other("the server named a file that is no answer"));
    }
    let path = names.dir.join(name);
    let mut file = names::open_nofollow(&path, false)?;
    if let Some(asked) = keep {
        keep_for_debugging(names, &asked.query, &mut file)?;
    }
    std::fs::remove_file(&path)?;
    let mut out = io::stdout().lock();
    // If the web server is gone, nobody wants the answer.
    let _ = if head { head_only(&mut file, &mut out) } else { io::copy(&mut file, &mut out).map(|_| ()) };
    let _ = out.flush();
    Ok(ExitCode::SUCCESS)
}

/// Stores the last request and answer beside the pipes. The directory is private.
fn keep_for_debugging(names: &Names, query: &str, answer: &mut File) -> io::Result<()> {
    for (name, text) in [("request", Some(query)), ("answer", None)] {
        let path = names.dir.join(format!("mdprof_debug_{name}"));
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = names::create_new(&path)?;
        match text {
            Some(text) => writeln!(file, "{text}")?,
            None => drop(io::copy(answer, &mut file)?),
        }
        complain!("mdprof_cgi: the last {name} is in {}", path.display());
    }
    answer.seek(io::SeekFrom::Start(0)).map(drop)
}

fn head_only(file: &mut File, out: &mut impl io::Write) -> io::Result<()> {
    let mut text = Vec::new();
    file.take(16 * 1024).read_to_end(&mut text)?;
    let end = text.windows(4).position(|w| w == b"\r\n\r\n").map_or(text.len(), |i| i + 4);
    out.write_all(&text[..end])
}
