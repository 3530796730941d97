//! Translators as co-processes: any program that reads addresses on stdin and answers each on stdout, in order.
//!
//! One process per object. Both pipes are non-blocking under one `poll`, so neither side can wait for the other for
//! ever, whatever the translator buffers: we write when it can take, read when it has given, and it may even hold
//! back everything until its input ends. Three rules tell where an answer ends ([`Answers`]):
//!
//! - `Fixed(n)`: each address gets `n` lines.
//! - `Sentinel`: some get more (`addr2line -i`). After each address goes a *sentinel*, an address that is in no
//!   section of the object; what the translator says of it is found out beforehand by a run of its own. An answer
//!   has at least one line and ends where the sentinel's answer comes.
//! - `Auto`: that beforehand run tells how many lines an unknown address gets; `addr2line` with `-i` gets sentinels.
//!
//! A translator that dies, hangs or miscounts is an error that says so; what it had answered until then is kept,
//! except where it answered *too much*: then nothing says which line belongs to which address, and wrong names are
//! worse than none.
//!
//! SIGPIPE has to be ignored, as it is in every Rust program that did not change it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use pct_num::{Layout, num2str_into};

use crate::image::BuildId;

/// A command line with places for the object: `addr2line -e %o -f -C`.
///
/// Words are split at blanks; `'...'`, `"..."` and `\` quote as in a shell, but no shell runs: whoever wants one writes
/// `sh -c '...'`. In each word `%o` stands for the object's path, `%b` for its build-id, `%%` for a percent sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    words: Vec<Vec<u8>>,
    answers: Answers,
    /// How long a translator may stay silent while an answer is due.
    patience: Duration,
}

/// How many lines answer an address. See the module's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answers {
    /// Found out by a run on an unknown address.
    #[default]
    Auto,
    /// So many lines each, at least 1.
    Fixed(usize),
    /// One line or more, told apart by a sentinel.
    Sentinel,
}

/// Why a template is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// No word in it.
    #[error("the translator's command line is empty")]
    Empty,
    /// A quote that does not end.
    #[error("the translator's command line has a {0} that does not end")]
    Unfinished(char),
    /// `%` before something else than `o`, `b` or `%`.
    #[error("the translator's command line has %{0}: known are %o (object), %b (build-id) and %%")]
    UnknownPlace(char),
}

/// What went wrong with a translator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranslatorError {
    /// It could not be started.
    #[error("{program}: cannot be started: {source}")]
    Start {
        /// Its name.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The template asks for a build-id that the object does not have.
    #[error("%b in its command line, but the object has no build-id")]
    NoBuildId,
    /// It ended before all addresses were answered.
    #[error("{program}: ended ({status}) after {answered} of {asked} addresses{}", said(.stderr))]
    TooFew {
        /// Its name.
        program: String,
        /// How it ended.
        status: String,
        /// Whole answers.
        answered: usize,
        /// Addresses in all.
        asked: usize,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// It gave more lines than there were addresses for.
    #[error(
        "{program}: answered more than it was asked ({lines} lines for {asked} addresses); nothing of it is used"
    )]
    TooMany {
        /// Its name.
        program: String,
        /// Lines that came.
        lines: usize,
        /// Addresses that it had been given.
        asked: usize,
    },
    /// It was silent for too long.
    #[error("{program}: silent for {seconds} s after {answered} of {asked} addresses; stopped{}", said(.stderr))]
    Silent {
        /// Its name.
        program: String,
        /// How long.
        seconds: u64,
        /// Whole answers.
        answered: usize,
        /// Addresses in all.
        asked: usize,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// A line without end.
    #[error("{program}: a line of more than {MAX_LINE} bytes; stopped")]
    LongLine {
        /// Its name.
        program: String,
    },
    /// A pipe failed.
    #[error("{program}: {source}")]
    Pipe {
        /// Its name.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

fn said(stderr: &str) -> String {
    match stderr.trim().lines().last() {
        Some(line) => format!("; it said: {line}"),
        None => String::new(),
    }
}

/// Longer lines are not believed.
const MAX_LINE: usize = 1 << 20;
/// So much of the end of its stderr is kept.
const STDERR_TAIL: usize = 4096;

/// What a translator gave: an answer (its lines) per address, None where there is none, and why it stopped early.
#[derive(Debug)]
pub struct Translation {
    /// In the order of the addresses.
    pub answers: Vec<Option<Vec<String>>>,
    /// The error, if there was one.
    pub error: Option<TranslatorError>,
}

impl Template {
    /// Splits and checks a command line.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        let words = split(text)?;
        if words.is_empty() {
            return Err(TemplateError::Empty);
        }
        for word in &words {
            let mut bytes = word.iter();
            while let Some(b) = bytes.next() {
                if *b == b'%' {
                    match bytes.next() {
                        Some(b'o' | b'b' | b'%') => {}
                        other => {
                            return Err(TemplateError::UnknownPlace(char::from(*other.unwrap_or(&b' '))));
                        }
                    }
                }
            }
        }
        Ok(Template { words, answers: Answers::Auto, patience: Duration::from_secs(30) })
    }

    /// Says how many lines answer an address.
    pub fn with_answers(mut self, answers: Answers) -> Template {
        self.answers = answers;
        self
    }

    /// How long it may stay silent while answers are due (30 s).
    pub fn with_patience(mut self, patience: Duration) -> Template {
        self.patience = patience;
        self
    }

    /// The program's name, for messages.
    pub fn program(&self) -> String {
        String::from_utf8_lossy(&self.words[0]).into_owned()
    }

    /// The command line for an object.
    ///
    /// # Errors
    /// [`TranslatorError::NoBuildId`].
    pub fn command_line(
        &self,
        object: &Path,
        build_id: Option<&BuildId>,
    ) -> Result<Vec<OsString>, TranslatorError> {
        let mut line = Vec::new();
        for word in &self.words {
            let mut out = Vec::new();
            let mut bytes = word.iter();
            while let Some(b) = bytes.next() {
                match (b, if *b == b'%' { bytes.next() } else { None }) {
                    (b'%', Some(b'o')) => out.extend_from_slice(object.as_os_str().as_bytes()),
                    (b'%', Some(b'b')) => {
                        let id = build_id.ok_or(TranslatorError::NoBuildId)?;
                        out.extend_from_slice(id.to_string().as_bytes());
                    }
                    (b'%', _) => out.push(b'%'),
                    (other, _) => out.push(*other),
                }
            }
            line.push(OsString::from_vec(out));
        }
        Ok(line)
    }

    /// Whether the command is an addr2line that unrolls inlined calls.
    fn unrolls_inlines(&self) -> bool {
        let program = Path::new(OsStr::from_bytes(&self.words[0])).file_name().map(OsStr::as_bytes);
        let is_addr2line = program.is_some_and(|n| memchr::memmem::find(n, b"addr2line").is_some());
        is_addr2line
            && self.words[1..].iter().any(|w| match w.as_slice() {
                [b'-', b'-', long @ ..] => long.starts_with(b"inline"),
                [b'-', short @ ..] => short.iter().take_while(|c| !b"ejb".contains(c)).any(|c| *c == b'i'),
                _ => false,
            })
    }

    /// Translates addresses of one object; each is sent as `0x` + hexadecimal on a line.
    pub fn translate(&self, object: &Path, build_id: Option<&BuildId>, addresses: &[u64]) -> Translation {
        let mut answers: Vec<Option<Vec<String>>> = Vec::new();
        answers.resize_with(addresses.len(), || None);
        if addresses.is_empty() {
            return Translation { answers, error: None };
        }
        let error = self.run(object, build_id, addresses, &mut answers).err();
        Translation { answers, error }
    }

    fn run(
        &self,
        object: &Path,
        build_id: Option<&BuildId>,
        addresses: &[u64],
        answers: &mut [Option<Vec<String>>],
    ) -> Result<(), TranslatorError> {
        let line = self.command_line(object, build_id)?;
        let sentinel = if addresses.contains(&0) { u64::MAX } else { 0 };
        let end = match self.answers {
            Answers::Fixed(n) => End::After(n.max(1)),
            Answers::Sentinel | Answers::Auto => {
                let unknown = self.unknown_answer(&line, sentinel)?;
                if self.answers == Answers::Auto && !self.unrolls_inlines() {
                    End::After(unknown.len())
                } else {
                    End::Sentinel(unknown)
                }
            }
        };
        let mut input = Vec::with_capacity(addresses.len() * 20);
        for address in addresses {
            push_address(*address, &mut input);
            if matches!(end, End::Sentinel(_)) {
                push_address(sentinel, &mut input);
            }
        }
        let mut collect = Collect { end, answers, next: 0, open: VecDeque::new(), lines: 0 };
        let outcome = self.converse(&line, &input, |text| collect.line(text))?;
        let (answered, asked) = (collect.next, addresses.len());
        if collect.surplus() {
            let lines = collect.lines;
            collect.answers.iter_mut().for_each(|a| *a = None);
            return Err(TranslatorError::TooMany { program: self.program(), lines, asked });
        }
        if answered == asked {
            return Ok(());
        }
        let (program, stderr) = (self.program(), outcome.stderr);
        Err(match outcome.ended {
            Some(status) => {
                TranslatorError::TooFew { program, status: status.to_string(), answered, asked, stderr }
            }
            None => {
                TranslatorError::Silent { program, seconds: self.patience.as_secs(), answered, asked, stderr }
            }
        })
    }

    /// What the translator says of an address that is in no section.
    fn unknown_answer(&self, line: &[OsString], sentinel: u64) -> Result<Vec<String>, TranslatorError> {
        let mut input = Vec::new();
        push_address(sentinel, &mut input);
        let mut lines = Vec::new();
        let outcome = self.converse(line, &input, |text| {
            lines.push(text);
            lines.len() <= 1000
        })?;
        if lines.is_empty() || lines.len() > 1000 {
            let status = outcome.ended.map_or_else(|| "silent".to_string(), |s| s.to_string());
            let (program, stderr) = (self.program(), outcome.stderr);
            return Err(TranslatorError::TooFew { program, status, answered: 0, asked: 1, stderr });
        }
        Ok(lines)
    }

    /// Starts the program, feeds it, and hands each line of its answer to `take`, until it ends, is silent for too
    /// long, or `take` says that it has enough (false).
    fn converse(
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
            let ready = {
                let open = [
                    (stdin.as_ref().map(AsFd::as_fd), PollFlags::POLLOUT),
                    (stdout.as_ref().map(AsFd::as_fd), PollFlags::POLLIN),
                    (stderr.as_ref().map(AsFd::as_fd), PollFlags::POLLIN),
                ];
                let (mut polled, mut which) = (Vec::with_capacity(3), Vec::with_capacity(3));
                for (i, (fd, what)) in open.into_iter().enumerate() {
                    if let Some(fd) = fd {
                        polled.push(PollFd::new(fd, what));
                        which.push(i);
                    }
                }
                let left = deadline.saturating_duration_since(Instant::now());
                let timeout =
                    PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
                match poll(&mut polled, timeout) {
                    Ok(0) if Instant::now() >= deadline => {
                        return Ok(Outcome { ended: None, stderr: text_of(&tail) });
                    }
                    Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                    Err(e) => return Err(pipe(e.into())),
                }
                let mut ready = [false; 3];
                for (i, polled) in which.into_iter().zip(&polled) {
                    ready[i] = polled.revents().is_some_and(|r| !r.is_empty());
                }
                ready
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

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.words.iter().enumerate() {
            let blank = if i > 0 { " " } else { "" };
            write!(f, "{blank}{}", String::from_utf8_lossy(word))?;
        }
        Ok(())
    }
}

fn would_block(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn unblock(fd: &impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(fd.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

fn push_address(address: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0x");
    num2str_into::<16>(address, Layout::BARE, out);
    out.push(b'\n');
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
struct Outcome {
    ended: Option<ExitStatus>,
    stderr: String,
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

/// Where an answer ends.
enum End {
    After(usize),
    Sentinel(Vec<String>),
}

/// Puts lines together to answers.
struct Collect<'a> {
    end: End,
    answers: &'a mut [Option<Vec<String>>],
    /// The address whose answer is being collected.
    next: usize,
    open: VecDeque<String>,
    lines: usize,
}

impl Collect<'_> {
    /// Takes a line; false: too many have come.
    fn line(&mut self, text: String) -> bool {
        self.lines += 1;
        self.open.push_back(text);
        if self.next == self.answers.len() {
            return false;
        }
        match &self.end {
            End::After(n) => {
                if self.open.len() == *n {
                    self.answers[self.next] = Some(self.open.drain(..).collect());
                    self.next += 1;
                }
            }
            End::Sentinel(end) => {
                let answer = self.open.len().saturating_sub(end.len());
                if answer > 0 && self.open.iter().skip(answer).eq(end.iter()) {
                    self.open.truncate(answer);
                    self.answers[self.next] = Some(self.open.drain(..).collect());
                    self.next += 1;
                }
            }
        }
        true
    }

    /// Whether lines came that belong to no address.
    fn surplus(&self) -> bool {
        self.next == self.answers.len() && !self.open.is_empty()
    }
}

/// Splits a command line at blanks, with quotes.
fn split(text: &str) -> Result<Vec<Vec<u8>>, TemplateError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' | '"' => {
                let inside = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        None => return Err(TemplateError::Unfinished(c)),
                        Some(end) if end == c => break,
                        Some('\\') if c == '"' => match chars.next() {
                            None => return Err(TemplateError::Unfinished('\\')),
                            Some(next @ ('"' | '\\')) => inside.push(next),
                            Some(next) => inside.extend(['\\', next]),
                        },
                        Some(other) => inside.push(other),
                    }
                }
            }
            '\\' => match chars.next() {
                None => return Err(TemplateError::Unfinished('\\')),
                Some(next) => word.get_or_insert_default().push(next),
            },
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words.into_iter().map(String::into_bytes).collect())
}

/// An answer of the addr2line kind, taken apart: pairs of function and `file:line`, innermost first. None for
/// answers of another shape.
pub fn addr2line_frames(lines: &[String]) -> Option<Vec<(&str, Option<&str>, u32)>> {
    if lines.is_empty() || !lines.len().is_multiple_of(2) {
        return None;
    }
    lines
        .chunks_exact(2)
        .map(|pair| {
            let place = pair[1].split(" (discriminator ").next().unwrap_or("");
            let (file, line) = place.rsplit_once(':')?;
            let line = if line == "?" { 0 } else { line.parse().ok()? };
            Some((pair[0].as_str(), (file != "??" && !file.is_empty()).then_some(file), line))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_split_as_a_shell_would_and_filled_in() {
        let template = Template::parse(r#"tool -e %o 'two words' "a\"b" x\ y %b %%"#).expect("good");
        let id = BuildId::parse("abcd");
        let line = template.command_line(Path::new("/a b/c"), id.as_ref()).expect("has an id");
        assert_eq!(line, ["tool", "-e", "/a b/c", "two words", "a\"b", "x y", "abcd", "%"]);
        assert!(matches!(template.command_line(Path::new("x"), None), Err(TranslatorError::NoBuildId)));
        assert_eq!(Template::parse("  "), Err(TemplateError::Empty));
        assert_eq!(Template::parse("a 'b"), Err(TemplateError::Unfinished('\'')));
        assert_eq!(Template::parse("a %x"), Err(TemplateError::UnknownPlace('x')));
        assert_eq!(Template::parse("a %"), Err(TemplateError::UnknownPlace(' ')));
    }

    fn shell(script: &str, addresses: &[u64], answers: Answers) -> Translation {
        let template = Template::parse(&format!("sh -c '{script}'"))
            .expect("good")
            .with_answers(answers)
            .with_patience(Duration::from_millis(500));
        template.translate(Path::new("/dev/null"), None, addresses)
    }

    fn answered(t: &Translation) -> usize {
        t.answers.iter().flatten().count()
    }

    #[test]
    fn answers_keep_the_order_of_the_addresses() {
        let t = shell("while read a; do echo got $a; done", &[1, 0x20, 3], Answers::Auto);
        assert!(t.error.is_none(), "{:?}", t.error);
        let lines: Vec<&str> = t.answers.iter().flatten().map(|a| a[0].as_str()).collect();
        assert_eq!(lines, ["got 0x1", "got 0x20", "got 0x3"]);
    }

    #[test]
    fn nobody_waits_for_ever_whatever_the_translator_buffers() {
        // More than any pipe holds, on both sides: one that answers at once with long lines, and one that reads
        // everything before it says a word.
        let many: Vec<u64> = (1..100_000).collect();
        for program in ["cat", "sed s/$/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx/", "tac"] {
            let template = Template::parse(program).expect("good").with_answers(Answers::Fixed(1));
            let t = template.translate(Path::new("/dev/null"), None, &many);
            assert!(t.error.is_none(), "{program}: {:?}", t.error);
            assert_eq!(answered(&t), many.len());
        }
    }

    #[test]
    fn sentinels_part_answers_of_any_number_of_lines() {
        // An address n gets n lines, 0 gets one that says unknown; 4 is unknown too.
        let script = r#"while read a; do case $a in 0x0|0x4) echo "??"; echo "??:0";; *) i=$(($a)); while [ $i -gt 0 ]; do echo f$i; echo a.c:$i; i=$((i-1)); done;; esac; done"#;
        let t = shell(script, &[3, 1, 4, 2], Answers::Sentinel);
        assert!(t.error.is_none(), "{:?}", t.error);
        let counts: Vec<usize> = t.answers.iter().flatten().map(Vec::len).collect();
        assert_eq!(counts, [6, 2, 2, 4]);
        let first = t.answers[0].as_ref().expect("answered");
        let frames = addr2line_frames(first).expect("pairs");
        assert_eq!(frames[0], ("f3", Some("a.c"), 3));
        assert_eq!(addr2line_frames(t.answers[2].as_ref().expect("answered")), Some(vec![("??", None, 0)]));
    }

    #[test]
    fn one_that_dies_leaves_what_it_answered() {
        let t = shell(
            "read a; echo one; read a; echo two; echo broken >&2; exit 3",
            &[1, 2, 3, 4],
            Answers::Fixed(1),
        );
        assert_eq!(answered(&t), 2);
        let text = t.error.expect("it died").to_string();
        assert!(text.contains("after 2 of 4") && text.contains("broken") && text.contains('3'), "{text}");
    }

    #[test]
    fn one_that_hangs_is_stopped() {
        let t = shell("read a; echo one; exec sleep 1000", &[1, 2], Answers::Fixed(1));
        assert_eq!(answered(&t), 1);
        assert!(
            matches!(t.error, Some(TranslatorError::Silent { answered: 1, asked: 2, .. })),
            "{:?}",
            t.error
        );
    }

    #[test]
    fn one_that_answers_too_much_is_not_believed() {
        let t = shell("echo banner; while read a; do echo $a; done", &[1, 2], Answers::Fixed(1));
        assert_eq!(answered(&t), 0);
        assert!(matches!(t.error, Some(TranslatorError::TooMany { .. })), "{:?}", t.error);
    }

    #[test]
    fn one_that_is_not_there_is_said() {
        let template = Template::parse("/nonexistent/translator %o").expect("good");
        let t = template.translate(Path::new("/x"), None, &[1]);
        assert!(matches!(t.error, Some(TranslatorError::Start { .. })));
        assert_eq!(t.answers, [None]);
    }

    #[test]
    fn inlining_addr2lines_are_known_by_their_options() {
        for (text, wanted) in [
            ("addr2line -e %o -f -C", false),
            ("addr2line -e %o -fiC", true),
            ("/usr/bin/x86_64-linux-gnu-addr2line --inlines -e %o", true),
            ("addr2line -e i", false),
            ("llvm-addr2line -i -e %o", true),
            ("other -i", false),
        ] {
            assert_eq!(Template::parse(text).expect("good").unrolls_inlines(), wanted, "{text}");
        }
    }
}
