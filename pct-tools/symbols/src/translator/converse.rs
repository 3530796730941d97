//! The conversation with a translator: both pipes non-blocking under one `poll`.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::answers::{MAX_LINE, TranslatorError};
use super::template::Template;

/// So much of the end of its stderr is kept.
const STDERR_TAIL: usize = 4096;

impl Template {
    /// Starts the program, feeds it, and hands each line of its answer to `take`, until it ends, is silent for too
    /// long, or `take` says that it has enough (false).
    pub(super) fn converse(
        &self,
        line: &[OsString],
        input: &[u8],
        mut take: impl FnMut(String) -> bool,
    ) -> Result<Outcome, TranslatorError> {
        let program = || self.program();
        let pipe = |source: io::Error| TranslatorError::Pipe { program: program(), source };
        let mut child = Guard(
            Command::new(&line[0])
                .args(&line[1..])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|source| TranslatorError::Start { program: program(), source })?,
        );
        let mut stdin = child.0.stdin.take();
        let mut stdout = child.0.stdout.take();
        let mut stderr = child.0.stderr.take();
        if let (Some(i), Some(o), Some(e)) = (&stdin, &stdout, &stderr) {
            unblock(i).and_then(|()| unblock(o)).and_then(|()| unblock(e)).map_err(pipe)?;
        }
        let mut written = 0;
        let mut lines = Lines::default();
        let mut tail = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        let mut deadline = Instant::now() + self.patience;
        let mut enough = false;
        while stdout.is_some() && !enough {
            let open = [
                (stdin.as_ref().map(AsFd::as_fd), PollFlags::POLLOUT),
                (stdout.as_ref().map(AsFd::as_fd), PollFlags::POLLIN),
                (stderr.as_ref().map(AsFd::as_fd), PollFlags::POLLIN),
            ];
            let Some(ready) = ready(open, deadline).map_err(|e| pipe(e.into()))? else {
                return Ok(Outcome { ended: None, stderr: text_of(&tail) });
            };
            let mut progress = false;
            if ready[0]
                && let Some(pipe_in) = &mut stdin
            {
                match pipe_in.write(&input[written..]) {
                    Ok(n) => {
                        written += n;
                        progress = n > 0;
                    }
                    Err(e) if would_block(&e) => {}
                    // It does not want to hear more; what it has to say still counts.
                    Err(e) if e.kind() == io::ErrorKind::BrokenPipe => stdin = None,
                    Err(e) => return Err(pipe(e)),
                }
                if written == input.len() {
                    stdin = None;
                }
            }
            if ready[1]
                && let Some(pipe_out) = &mut stdout
            {
                match pipe_out.read(&mut buffer) {
                    Ok(0) => {
                        stdout = None;
                        if let Some(last) = lines.rest() {
                            take(last);
                        }
                    }
                    Ok(n) => {
                        progress = true;
                        let good = lines.push(&buffer[..n], |text| {
                            enough |= !take(text);
                            !enough
                        });
                        if !good {
                            return Err(TranslatorError::LongLine { program: program() });
                        }
                    }
                    Err(e) if would_block(&e) => {}
                    Err(e) => return Err(pipe(e)),
                }
            }
            if ready[2]
                && let Some(pipe_err) = &mut stderr
            {
                match pipe_err.read(&mut buffer) {
                    Ok(0) => stderr = None,
                    Ok(n) => keep_tail(&mut tail, &buffer[..n]),
                    Err(e) if would_block(&e) => {}
                    Err(_) => stderr = None,
                }
            }
            if progress {
                deadline = Instant::now() + self.patience;
            }
        }
        if enough {
            return Ok(Outcome { ended: None, stderr: text_of(&tail) });
        }
        // Its stdout is closed: it has ended or is about to. Take what is left on stderr, then its status.
        drop(stdin);
        let status = child.end(deadline).map_err(pipe)?;
        if let Some(mut pipe_err) = stderr {
            while let Ok(n) = pipe_err.read(&mut buffer) {
                if n == 0 {
                    break;
                }
                keep_tail(&mut tail, &buffer[..n]);
            }
        }
        Ok(Outcome { ended: status, stderr: text_of(&tail) })
    }
}

/// Which of the pipes that are open have something to do, none after a signal; `None` when the deadline has passed.
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

/// How a conversation ended: with the program's status, or cut off by us (None).
pub(super) struct Outcome {
    pub(super) ended: Option<ExitStatus>,
    pub(super) stderr: String,
}

/// Ends and reaps its child whatever happens.
struct Guard(Child);

impl Guard {
    /// Waits for the child, which has closed its stdout, no longer than the deadline; None: it had to be killed.
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
    /// Hands on each whole line while `take` wants more; false if a line has grown too long.
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

    /// What stood behind the last newline.
    fn rest(&mut self) -> Option<String> {
        (!self.half.is_empty()).then(|| text_of(&std::mem::take(&mut self.half)))
    }
}
