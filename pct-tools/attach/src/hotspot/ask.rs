//! One question to a JVM over its attach socket.

use super::process::{has_dispatcher, open_file, within};
use crate::facts;
use crate::ptrace::sys;
use crate::tasks;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The JVM's command, with the three arguments that the protocol demands.
const COMMAND: &[u8] = b"1\0jcmd\0Compiler.perfmap\0\0\0";
/// Largest map that is read, in octets.
const MOST_OCTETS: u64 = 256 << 20;
/// Longest answer that is read, in octets. The map itself is in its file.
const LONGEST_ANSWER: usize = 64 << 10;
/// How often pct checks whether the JVM listens and whether the caller wants to stop.
const POLL: Duration = Duration::from_millis(5);

/// Why a JVM did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// It has ended, or its number belongs to another process now.
    #[error("it has ended")]
    Gone,
    /// It is stopped by a signal, so it cannot answer.
    #[error("it is stopped")]
    Stopped,
    /// Something else is where a file has to be.
    #[error("{path}: {why}")]
    File {
        /// The path in the JVM's root folder.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It did not answer within the given time, or the caller no longer wants an answer.
    #[error("it did not answer in time")]
    NoAnswer,
    /// The socket failed.
    #[error("its socket: {0}")]
    Socket(#[from] io::Error),
    /// It answered with an error.
    #[error("it answered: {0}")]
    Answer(String),
}

/// A JVM that can be asked for names.
#[derive(Debug)]
pub struct Jvm {
    pid: i32,
    start_time: u64,
    /// Its process id in its own namespace. File names contain it.
    own_pid: u32,
    /// Its effective user and group.
    owner: (u32, u32),
    /// Its root folder, held open so that its files can be read after it has ended.
    root: File,
    /// The file that makes it listen, while that file must exist.
    trigger: Option<TriggerFile>,
    /// Whether there was a map before the first question. Such a map is never removed.
    had_map: Option<bool>,
    /// The state of the map's file after the last answer.
    last_map: Option<Metadata>,
}

impl Jvm {
    /// A JVM that was examined: its process id and start time, its own process id, user and group, and root folder.
    pub(super) fn new((pid, start_time): (i32, u64), own_pid: u32, owner: (u32, u32), root: File) -> Jvm {
        Jvm { pid, start_time, own_pid, owner, root, trigger: None, had_map: None, last_map: None }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Asks for the names of all compiled code that the JVM still has, and returns the text of the perf map that it
    /// writes. Gives up when `patience` is over or `stop` returns true.
    ///
    /// # Errors
    /// See [`AskError`]. The question may be repeated.
    pub fn perf_map(&mut self, patience: Duration, stop: &dyn Fn() -> bool) -> Result<Vec<u8>, AskError> {
        let map = within(&self.root, &self.map_path());
        let existing = match fs::symlink_metadata(&map) {
            Ok(meta) if meta.is_file() && (meta.uid() == self.owner.0 || meta.uid() == 0) => true,
            // the JVM opens it by name for writing, and follows links
            Ok(_) => return Err(self.misplaced("not a file of the JVM's user, so it must not be written")),
            Err(why) if why.kind() == io::ErrorKind::NotFound => false,
            Err(why) => return Err(self.misplaced(&why.to_string())),
        };
        let until = Instant::now() + patience;
        let waits = || Instant::now() < until && !stop();
        let stream = self.connect(&waits)?;
        self.had_map.get_or_insert(existing);
        let answer = exchange(stream, COMMAND, &waits)?;
        let (code, text) = answer.split_once('\n').unwrap_or((&answer, ""));
        if code.trim() != "0" {
            let line = text.lines().next().unwrap_or(code);
            return Err(AskError::Answer(line.chars().take(200).collect()));
        }
        let unreadable = |why: io::Error| self.misplaced(&why.to_string());
        let mut file = open_file(&map, self.owner.0, MOST_OCTETS).map_err(unreadable)?;
        let mut octets = Vec::new();
        file.read_to_end(&mut octets).map_err(unreadable)?;
        self.last_map = Some(file.metadata().map_err(unreadable)?);
        Ok(octets)
    }

    /// Removes the map that the JVM wrote for pct. A map that existed before, or that somebody has written since,
    /// stays.
    pub fn remove_map(&self) {
        let path = within(&self.root, &self.map_path());
        let (Some(false), Some(last)) = (self.had_map, &self.last_map) else { return };
        let identity =
            |meta: &Metadata| (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
        if fs::symlink_metadata(&path).is_ok_and(|now| identity(&now) == identity(last)) {
            let _ = fs::remove_file(path);
        }
    }

    fn map_path(&self) -> PathBuf {
        PathBuf::from(format!("/tmp/perf-{}.map", self.own_pid))
    }

    fn misplaced(&self, why: &str) -> AskError {
        AskError::File { path: self.map_path(), why: why.to_owned() }
    }

    /// Connects, and makes the JVM listen if it does not yet.
    fn connect(&mut self, waits: &dyn Fn() -> bool) -> Result<UnixStream, AskError> {
        let path = PathBuf::from(format!("/tmp/.java_pid{}", self.own_pid));
        let socket = within(&self.root, &path);
        loop {
            self.check_alive()?;
            match self.try_connect(&socket, &path)? {
                Some(stream) => {
                    // it listens, so it has seen the file
                    self.trigger.take().into_iter().for_each(TriggerFile::remove);
                    return Ok(stream);
                }
                None if self.trigger.is_none() => self.make_it_listen()?,
                None if waits() => std::thread::sleep(POLL),
                None => return Err(AskError::NoAnswer),
            }
        }
    }

    /// Connects once. `None`: nobody listens there.
    fn try_connect(&self, socket: &Path, shown: &Path) -> Result<Option<UnixStream>, AskError> {
        let Ok(meta) = fs::symlink_metadata(socket) else { return Ok(None) };
        if !meta.file_type().is_socket() || (meta.uid() != self.owner.0 && meta.uid() != 0) {
            let why = "not a socket of the JVM's user".to_owned();
            return Err(AskError::File { path: shown.to_owned(), why });
        }
        match UnixStream::connect(socket) {
            Ok(stream) => Ok(Some(stream)),
            // an earlier process of this number left the socket, or the JVM has not called listen yet
            Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(AskError::Socket(why)),
        }
    }

    /// Checks that this is still the process that was examined, and that it can answer.
    fn check_alive(&self) -> Result<(), AskError> {
        if facts::start_time(self.pid) != Some(self.start_time) {
            return Err(AskError::Gone);
        }
        let status = tasks::read_text(tasks::folder(self.pid).join("status")).map_err(|_| AskError::Gone)?;
        let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default();
        // Not 't': a tracer, which may be pct itself, stops it for a moment.
        if state.trim_start().starts_with('T') { Err(AskError::Stopped) } else { Ok(()) }
    }

    /// Creates the file that a JVM looks for at SIGQUIT, and sends that signal.
    fn make_it_listen(&mut self) -> Result<(), AskError> {
        let path = PathBuf::from(format!("/tmp/.attach_pid{}", self.own_pid));
        let failed = |why: io::Error| AskError::File { path: path.clone(), why: why.to_string() };
        // from here on the process id cannot pass to another process
        let process = sys::ProcessHandle::open(self.pid).map_err(|_| AskError::Gone)?;
        if facts::start_time(self.pid) != Some(self.start_time) || !has_dispatcher(self.pid) {
            return Err(AskError::Gone);
        }
        let trigger = TriggerFile::create(within(&self.root, &path), self.owner).map_err(failed)?;
        match process.send(libc::SIGQUIT) {
            Ok(()) => self.trigger = Some(trigger),
            Err(_) => {
                trigger.remove();
                return Err(AskError::Gone);
            }
        }
        Ok(())
    }
}

impl Drop for Jvm {
    /// A JVM that has not yet handled SIGQUIT needs the file. Without it, the JVM would print its threads.
    fn drop(&mut self) {
        if let Some(trigger) =
            self.trigger.take().filter(|_| self.check_alive().is_err_and(|why| why.is_end()))
        {
            trigger.remove();
        }
    }
}

impl AskError {
    /// Whether the JVM is gone, so that asking again is useless.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, AskError::Gone)
    }
}

/// The empty file that tells a JVM that SIGQUIT comes from a tool that wants to attach.
#[derive(Debug)]
struct TriggerFile(PathBuf);

impl TriggerFile {
    /// Creates a new file. The JVM demands that the file belongs to the JVM's own user.
    fn create(path: PathBuf, (user, group): (u32, u32)) -> io::Result<TriggerFile> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let trigger = TriggerFile(path);
        let given = file.metadata().and_then(|meta| {
            if meta.uid() == user { Ok(()) } else { fchown(&file, Some(user), Some(group)) }
        });
        match given {
            Ok(()) => Ok(trigger),
            Err(why) => {
                trigger.remove();
                Err(why)
            }
        }
    }

    fn remove(self) {
        let _ = fs::remove_file(self.0);
    }
}

/// Writes a command and reads the answer to its end.
fn exchange(mut stream: UnixStream, command: &[u8], waits: &dyn Fn() -> bool) -> Result<String, AskError> {
    stream.set_nonblocking(true)?;
    let mut unsent = command;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let moved = match unsent {
            [] => stream.read(&mut buffer),
            rest => stream.write(rest),
        };
        match moved {
            Ok(0) if unsent.is_empty() => return Ok(String::from_utf8_lossy(&answer).into_owned()),
            Ok(n) if unsent.is_empty() => {
                answer.extend_from_slice(&buffer[..n]);
                if answer.len() > LONGEST_ANSWER {
                    return Ok(String::from_utf8_lossy(&answer).into_owned());
                }
            }
            Ok(n) => unsent = &unsent[n..],
            Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                if !waits() {
                    return Err(AskError::NoAnswer);
                }
                std::thread::sleep(POLL);
            }
            Err(why) => return Err(AskError::Socket(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// The outcome of asking a JVM that behaves like `server`, with at most `looks` checks.
    fn asked(looks: u32, server: impl FnOnce(UnixStream) + Send + 'static) -> Result<String, AskError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || server(listener.accept().unwrap().0));
        let left = std::cell::Cell::new(looks);
        let waits = || left.replace(left.get().saturating_sub(1)) > 0;
        exchange(UnixStream::connect(&path).unwrap(), COMMAND, &waits)
    }

    #[test]
    fn the_command_has_three_arguments_and_the_answer_ends_with_the_stream() {
        let answer = asked(u32::MAX, |mut stream| {
            let mut command = [0; COMMAND.len()];
            stream.read_exact(&mut command).unwrap();
            let words = command.iter().filter(|octet| **octet == 0).count();
            stream.write_all(format!("0\n{words} words").as_bytes()).unwrap();
        });
        assert_eq!(answer.unwrap(), "0\n5 words");
    }

    #[test]
    fn an_answer_without_an_end_is_cut() {
        let endless = asked(u32::MAX, |mut stream| while stream.write_all(&[b'x'; 8192]).is_ok() {});
        assert!(endless.unwrap().len() < 2 * LONGEST_ANSWER);
    }

    #[test]
    fn a_server_that_never_answers_is_left() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let silent = asked(3, move |stream| {
            let _ = stopped.recv();
            drop(stream);
        });
        drop(stop);
        assert!(matches!(silent, Err(AskError::NoAnswer)), "{silent:?}");
    }
}
