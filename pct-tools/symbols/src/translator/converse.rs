//! The conversation with a translator: both pipes non-blocking under one `poll`.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::answers::{MAX_LINE, TranslatorError};
use super::template::Template;

/// How much of the end of its stderr is kept, in bytes.
const STDERR_TAIL: usize = 4096;

impl Template {
    /// Starts the program, feeds it, and hands each line of its answer to `take`, until it ends, is silent for too
    /// long, or `take` returns false because it needs no more.
    pub(super) fn converse(
        &self,
        line: &[OsString],
        input: &[u8],
        take: impl FnMut(String) -> bool,
    ) -> Result<Outcome, TranslatorError> {
        let program = || self.program();
        let pipe = |source: io::Error| TranslatorError::Pipe { program: program(), source };
        let child = Command::new(&line[0])
            .args(&line[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| TranslatorError::Start { program: program(), source })?;
        let mut talk = Conversation::new(child, input, take).map_err(pipe)?;
        let mut deadline = Instant::now() + self.patience;
        while talk.stdout.is_some() && !talk.is_enough {
            let Some(ready) = ready(talk.pipes(), deadline).map_err(|e| pipe(e.into()))? else {
                return Ok(talk.cut_off());
            };
            let has_written = ready[0] && talk.write_input().map_err(pipe)?;
            let has_read = ready[1] && talk.read_answer(&program)?;
            if ready[2] {
                talk.read_stderr();
            }
            if has_written || has_read {
                deadline = Instant::now() + self.patience;
            }
        }
        if talk.is_enough { Ok(talk.cut_off()) } else { talk.end(deadline).map_err(pipe) }
    }
}

/// A running program, and the state of its three pipes. A pipe is `None` once it is closed.
struct Conversation<'a, F> {
    child: Guard,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// Input that the program has yet to read.
    input: &'a [u8],
    /// Receives each line. Returns false when it needs no more.
    take: F,
    is_enough: bool,
    lines: Lines,
    /// The end of the stderr output.
    tail: Vec<u8>,
    buffer: Vec<u8>,
}

impl<'a, F: FnMut(String) -> bool> Conversation<'a, F> {
    fn new(child: Child, input: &'a [u8], take: F) -> io::Result<Self> {
        let mut child = Guard(child);
        let (stdin, stdout, stderr) = (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
        if let (Some(i), Some(o), Some(e)) = (&stdin, &stdout, &stderr) {
            unblock(i).and_then(|()| unblock(o)).and_then(|()| unblock(e))?;
        }
        let (lines, tail, buffer) = (Lines::default(), Vec::new(), vec![0; 64 * 1024]);
        Ok(Self { child, stdin, stdout, stderr, input, take, is_enough: false, lines, tail, buffer })
    }

    /// The open pipes, and the event that each is polled for.
    fn pipes(&self) -> [(Option<BorrowedFd<'_>>, PollFlags); 3] {
        [
            (self.stdin.as_ref().map(AsFd::as_fd), PollFlags::POLLOUT),
            (self.stdout.as_ref().map(AsFd::as_fd), PollFlags::POLLIN),
            (self.stderr.as_ref().map(AsFd::as_fd), PollFlags::POLLIN),
        ]
    }

    /// Writes as much as the pipe accepts now. Returns whether it accepted anything.
    fn write_input(&mut self) -> io::Result<bool> {
        let Some(pipe) = &mut self.stdin else { return Ok(false) };
        let mut progress = false;
        match pipe.write(self.input) {
            Ok(n) => {
                self.input = &self.input[n..];
                progress = n > 0;
            }
            Err(e) if would_block(&e) => {}
            // It wants no more input. Its output still counts.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => self.stdin = None,
            Err(e) => return Err(e),
        }
        if self.input.is_empty() {
            self.stdin = None;
        }
        Ok(progress)
    }

    /// Reads the available part of the answer. Returns whether there was any.
    fn read_answer(&mut self, program: &impl Fn() -> String) -> Result<bool, TranslatorError> {
        let Some(pipe) = &mut self.stdout else { return Ok(false) };
        match pipe.read(&mut self.buffer) {
            Ok(0) => {
                self.stdout = None;
                if let Some(last) = self.lines.rest() {
                    (self.take)(last);
                }
                Ok(false)
            }
            Ok(n) => {
                let (take, is_enough) = (&mut self.take, &mut self.is_enough);
                let good = self.lines.push(&self.buffer[..n], |text| {
                    *is_enough |= !take(text);
                    !*is_enough
                });
                if good { Ok(true) } else { Err(TranslatorError::LongLine { program: program() }) }
            }
            Err(e) if would_block(&e) => Ok(false),
            Err(source) => Err(TranslatorError::Pipe { program: program(), source }),
        }
    }

    /// Reads the available part of stderr.
    fn read_stderr(&mut self) {
        let Some(pipe) = &mut self.stderr else { return };
        match pipe.read(&mut self.buffer) {
            Ok(n @ 1..) => keep_tail(&mut self.tail, &self.buffer[..n]),
            Err(e) if would_block(&e) => {}
            Ok(0) | Err(_) => self.stderr = None,
        }
    }

    /// The outcome if pct does not wait for the program.
    fn cut_off(self) -> Outcome {
        Outcome { ended: None, stderr: text_of(&self.tail) }
    }

    /// For a program that has closed its stdout, so has ended or is about to. Waits for it, and reads the rest of its
    /// stderr.
    fn end(mut self, deadline: Instant) -> io::Result<Outcome> {
        drop(self.stdin.take());
        let ended = self.child.end(deadline)?;
        if let Some(pipe) = &mut self.stderr {
            while let Ok(n @ 1..) = pipe.read(&mut self.buffer) {
                keep_tail(&mut self.tail, &self.buffer[..n]);
            }
        }
        Ok(Outcome { ended, stderr: text_of(&self.tail) })
    }
}

/// Polls the open pipes. Returns which are ready (none after a signal); `None` when the deadline has passed.
fn ready(
    pipes: [(Option<BorrowedFd<'_>>, PollFlags); 3],
    deadline: Instant,
) -> Result<Option<[bool; 3]>, Errno> {
    let (mut polled, mut which) = (Vec::with_capacity(3), Vec::with_capacity(3));
    for (i, (fd, what)) in pipes.into_iter().enumerate() {
        if let Some(fd) = fd {
            polled.push(PollFd::new(fd, what));
            which.push(i);
        }
    }
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
    match poll(&mut polled, timeout) {
        Ok(0) if Instant::now() >= deadline => return Ok(None),
        Ok(_) | Err(Errno::EINTR) => {}
        Err(e) => return Err(e),
    }
    let mut ready = [false; 3];
    for (i, polled) in which.into_iter().zip(&polled) {
        ready[i] = polled.revents().is_some_and(|r| !r.is_empty());
    }
    Ok(Some(ready))
}

fn would_block(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn unblock(fd: &impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(fd.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

fn keep_tail(tail: &mut Vec<u8>, more: &[u8]) {
    tail.extend_from_slice(more);
    if tail.len() > STDERR_TAIL {
        tail.drain(..tail.len() - STDERR_TAIL);
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How a conversation ended: with the program's status, or cut off by pct (None).
pub(super) struct Outcome {
    pub(super) ended: Option<ExitStatus>,
    pub(super) stderr: String,
}

/// Kills and reaps its child in all cases.
struct Guard(Child);

impl Guard {
    /// Waits until the deadline for the child, which has closed its stdout. None: it had to be killed.
    fn end(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        let mut nap = Duration::from_micros(50);
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(20));
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Cuts a stream of bytes into lines.
#[derive(Default)]
struct Lines {
    half: Vec<u8>,
}

impl Lines {
    /// Hands on each complete line while `take` wants more. Returns false if a line has grown too long.
    fn push(&mut self, mut data: &[u8], mut take: impl FnMut(String) -> bool) -> bool {
        while let Some(end) = memchr::memchr(b'\n', data) {
            let line = if self.half.is_empty() {
                text_of(&data[..end])
            } else {
                self.half.extend_from_slice(&data[..end]);
                text_of(&std::mem::take(&mut self.half))
            };
            data = &data[end + 1..];
            if !take(line) {
                return true;
            }
        }
        self.half.extend_from_slice(data);
        self.half.len() <= MAX_LINE
    }

    /// The bytes behind the last newline.
    fn rest(&mut self) -> Option<String> {
        (!self.half.is_empty()).then(|| text_of(&std::mem::take(&mut self.half)))
    }
}
