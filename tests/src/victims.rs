//! The victims: small programs under `tests/victims`, built once into a cache folder with the command in their first
//! line (`build: cc -O2 ...`), and built anew when that command, their source or a header changes. [`Guest`]: a victim,
//! or another program, that runs while a test looks at it.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};

use pct_kit::harm::{HARM, harm};
use pct_kit::wait::{DEADLINE, wait_for, wait_until};

use crate::pct::binary;

/// Builds `tests/victims/SOURCE` if needed; the path of the program.
///
/// # Panics
/// When the compiler fails: a victim that does not build is a broken test suite.
pub fn victim(source: &str) -> PathBuf {
    let command = build_line(&folder().join(source));
    build(source, &command, stem(source))
        .unwrap_or_else(|e| panic!("victim {source} does not build with `{command}`:\n{e}"))
}

/// Builds `source` by another command (`musl-gcc -O2 -static`, say) under the name `name`; `Err` has the
/// compiler's words.
pub fn victim_with(source: &str, command: &str, name: &str) -> Result<PathBuf, String> {
    build(source, command, name)
}

/// Builds `source` by `go build FLAGS` under the name `name`, without C; `Err` has Go's words. Go keeps its library in
/// our cache.
pub fn go_victim(go: &Path, source: &str, flags: &[&str], name: &str) -> Result<PathBuf, String> {
    go_build(go, "0", source, flags, name)
}

/// As [`go_victim`], with C.
pub fn go_victim_with_c(go: &Path, source: &str, flags: &[&str], name: &str) -> Result<PathBuf, String> {
    go_build(go, "1", source, flags, name)
}

fn go_build(go: &Path, cgo: &str, source: &str, flags: &[&str], name: &str) -> Result<PathBuf, String> {
    let out = cache(&(go, cgo, flags, content(&folder().join(source)))).join(name);
    made_once(&out, |aside| {
        let mut build = Command::new(go);
        build.env("CGO_ENABLED", cgo).env("GO111MODULE", "off").env("GOCACHE", victims().join("go-cache"));
        build.arg("build").args(flags).arg("-o").arg(aside).arg(folder().join(source));
        succeeded(&mut build)
    })?;
    Ok(out)
}

fn folder() -> PathBuf {
    crate::root().join("tests/victims")
}

fn victims() -> PathBuf {
    crate::root().join("target/victims")
}

fn stem(source: &str) -> &str {
    source.split('.').next().unwrap_or(source)
}

fn content(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn build_line(path: &Path) -> String {
    let text = String::from_utf8_lossy(&content(path)).into_owned();
    let line = text.lines().next().unwrap_or_default();
    let (_, command) =
        line.split_once("build: ").unwrap_or_else(|| panic!("{}: no build line", path.display()));
    command.trim_end_matches("*/").trim().to_owned()
}

/// The folder for what is made of this. What is made of something else has another one, so nothing there is ever out of
/// date, and no program is replaced while somebody runs it.
fn cache(made_of: &impl Hash) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    made_of.hash(&mut hasher);
    victims().join(format!("{:016x}", hasher.finish()))
}

/// The texts of all headers, each of which a source may include.
fn headers() -> Vec<Vec<u8>> {
    let files = fs::read_dir(folder()).expect("tests/victims is there").flatten().map(|file| file.path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "h")).collect();
    files.sort();
    files.iter().map(|path| content(path)).collect()
}

fn build(source: &str, command: &str, name: &str) -> Result<PathBuf, String> {
    let path = folder().join(source);
    let out = cache(&(command, content(&path), headers())).join(name);
    made_once(&out, |aside| {
        let mut words = command.split_whitespace();
        let compiler = words.next().ok_or("empty build line")?;
        let (libs, flags): (Vec<&str>, Vec<&str>) = words.partition(|w| w.starts_with("-l"));
        let mut build = Command::new(compiler);
        build.args(flags);
        if compiler != "rustc" {
            build.arg("-I").arg(folder());
        }
        build.arg(&path).args(libs).arg("-o").arg(aside);
        succeeded(&mut build)
    })?;
    Ok(out)
}

/// Runs it; `Err` has what it said when it failed.
pub(crate) fn succeeded(command: &mut Command) -> Result<(), String> {
    let done =
        command.output().map_err(|e| format!("{}: {e}", Path::new(command.get_program()).display()))?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
}

/// Makes `out` unless it is there. Of tests that run at the same time one makes it, and the others wait for that. It is
/// made aside and renamed, so that there is all of it or nothing.
pub(crate) fn made_once(out: &Path, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
    if out.exists() {
        return Ok(());
    }
    let name = out.file_name().expect("a name").to_string_lossy();
    let beside = |what: String| out.with_file_name(format!(".{name}.{what}"));
    fs::create_dir_all(out.parent().expect("a folder")).map_err(|e| e.to_string())?;
    let lock = fs::File::create(beside("lock".to_owned())).map_err(|e| e.to_string())?;
    lock.lock().map_err(|e| e.to_string())?;
    if out.exists() {
        return Ok(());
    }
    let aside = beside(std::process::id().to_string());
    make(&aside).and_then(|()| fs::rename(&aside, out).map_err(|e| e.to_string())).inspect_err(|_| {
        let _ = fs::remove_file(&aside).or_else(|_| fs::remove_dir_all(&aside));
    })
}

/// A program that runs while a test looks at it. When this value goes, because the test failed too, the program is
/// ended with all that it has started, and waited for.
pub struct Guest {
    child: Option<Child>,
    lines: Receiver<String>,
    complained: Arc<Mutex<String>>,
    complains: Option<std::thread::JoinHandle<()>>,
}

impl Guest {
    /// Starts it. Its standard error is the test's unless the command says otherwise.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Guest {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the guest can be started");
        let (to, lines) = channel();
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while stdout.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                let _ = to.send(String::from_utf8_lossy(&line).into_owned());
                line.clear();
            }
        });
        let complained = Arc::new(Mutex::new(String::new()));
        let complains = child.stderr.take().map(|from| {
            let all = Arc::clone(&complained);
            std::thread::spawn(move || collect(from, &all))
        });
        Guest { child: Some(child), lines, complained, complains }
    }

    /// Starts it and waits until it says a line that holds `word`.
    ///
    /// # Panics
    /// As [`Guest::start`] and [`Guest::hear`].
    pub fn started(command: &mut Command, word: &str) -> Guest {
        let mut guest = Guest::start(command);
        guest.hear(word);
        guest
    }

    /// The next line on its standard output; `None` when there are no more.
    ///
    /// # Panics
    /// After a minute.
    pub fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(DEADLINE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("waited a minute for a line; {}", self.complained()),
        }
    }

    /// The next line on its standard output that holds `word`.
    ///
    /// # Panics
    /// When there is none, or after a minute without a line.
    pub fn hear(&mut self, word: &str) -> String {
        let found = std::iter::from_fn(|| self.line()).find(|line| line.contains(word));
        found.unwrap_or_else(|| panic!("it ended before it said {word}: {}", self.complained()))
    }

    /// What it has said on its standard error so far, where that is a pipe.
    pub fn complained(&self) -> String {
        self.complained.lock().expect("nobody panics with it").clone()
    }

    /// Writes to its standard input.
    ///
    /// # Panics
    /// When it does not listen.
    pub fn tell(&mut self, words: &str) {
        let stdin = self.child.as_mut().and_then(|child| child.stdin.as_mut()).expect("a pipe");
        stdin.write_all(words.as_bytes()).expect("it listens");
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        let pid = self.child.as_ref().expect("it was not waited for").id();
        i32::try_from(pid).expect("a pid")
    }

    /// Its process id, as a word of a command.
    pub fn id(&self) -> String {
        self.pid().to_string()
    }

    /// Its exit status when it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().expect("it was not waited for").try_wait().expect("a child")
    }

    /// Ends it by SIGTERM and waits for it.
    ///
    /// # Panics
    /// As [`Guest::wait`].
    pub fn end(self) -> Output {
        signal(self.pid(), "TERM");
        self.wait()
    }

    /// Waits until it has ended: its status, and what it said that was not heard.
    ///
    /// # Panics
    /// After a minute without its end, or without the end of its output.
    pub fn wait(mut self) -> Output {
        let status = wait_for("the end of a guest", || self.ended());
        let stdout: String = std::iter::from_fn(|| self.line()).collect();
        if let Some(complains) = self.complains.take() {
            wait_until("the end of a guest's complaints", || complains.is_finished());
        }
        self.child = None;
        Output { status, stdout: stdout.into_bytes(), stderr: self.complained().into_bytes() }
    }

    /// `pct attach OPTIONS` in `folder`, until the guest has used so many seconds of CPU time; what pct said.
    ///
    /// # Panics
    /// When pct fails; as harm when the guest ends.
    pub fn attached(&self, folder: &Path, options: &[&str], seconds: f64) -> String {
        attached(self.pid(), folder, options, seconds)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if let Ok(Some(status)) = child.try_wait() {
            if status.signal().is_some() {
                eprintln!("{HARM} the guest was ended by {status} before the test failed");
            }
            return;
        }
        let all = descendants(child.id());
        let _ = child.kill();
        let _ = child.wait();
        end_all(&all);
    }
}

fn collect(mut from: impl Read, all: &Mutex<String>) {
    let mut some = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut some) {
        all.lock().expect("nobody panics with it").push_str(&String::from_utf8_lossy(&some[..n]));
    }
}

/// [`Guest::attached`] of a process that somebody else has started.
///
/// # Panics
/// As [`Guest::attached`].
pub fn attached(pid: i32, folder: &Path, options: &[&str], seconds: f64) -> String {
    let mut command = Command::new(binary());
    command.arg("attach").args(options).arg(pid.to_string()).current_dir(folder).stderr(Stdio::piped());
    let mut attach = Guest::start(&mut command);
    let is_outside = wait_for("pct attach to begin", || {
        let outside = attach.complained().contains("Ctrl-C ends it");
        (outside || attach.ended().is_some()).then_some(outside)
    });
    if is_outside {
        works(pid, seconds);
        signal(attach.pid(), "INT");
    }
    let done = attach.wait();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    if !is_outside {
        works(pid, seconds);
        let off = Command::new(binary()).args(["off", &pid.to_string()]).output().expect("pct can be run");
        assert!(off.status.success(), "{}", String::from_utf8_lossy(&off.stderr));
    }
    said
}

/// Sends a process the signal of this name.
///
/// # Panics
/// When `kill` cannot be run.
pub fn signal(pid: i32, name: &str) {
    Command::new("kill").args(["-s", name, &pid.to_string()]).status().expect("kill can be run");
}

/// The fields of `/proc/PID/stat` after the name: the first is the state.
fn stat(pid: i32) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().map(str::to_owned).collect()
}

/// Whether a process has ended, though perhaps nobody has waited for it.
pub fn is_gone(pid: i32) -> bool {
    stat(pid).first().is_none_or(|state| state == "Z" || state == "X")
}

/// CPU seconds that a process has used, in hundredths.
///
/// # Panics
/// As harm when it has ended.
pub fn cpu_seconds(pid: i32) -> f64 {
    let stat = stat(pid);
    if is_gone(pid) || stat.len() < 13 {
        harm(&format!("process {pid} has ended"));
    }
    stat[11..13].iter().map(|ticks| ticks.parse::<f64>().expect("ticks") / 100.0).sum()
}

/// Waits until a process has used so many seconds of CPU time from now on.
///
/// # Panics
/// As harm when it ends; after a minute.
pub fn works(pid: i32, seconds: f64) {
    let from = cpu_seconds(pid);
    wait_until("a process to work", || cpu_seconds(pid) >= from + seconds);
}

/// The children of a process.
pub fn children_of(pid: u32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn descendants(pid: u32) -> Vec<i32> {
    let children = children_of(pid);
    let below = children.iter().flat_map(|child| descendants(child.unsigned_abs())).collect::<Vec<_>>();
    children.into_iter().chain(below).collect()
}

fn end_all(pids: &[i32]) {
    for pid in pids.iter().filter(|pid| !is_gone(**pid)) {
        signal(*pid, "KILL");
    }
    let start = std::time::Instant::now();
    while !pids.iter().all(|pid| is_gone(*pid)) && start.elapsed() < DEADLINE {
        std::thread::yield_now();
    }
}

/// What a process has started. It may outlive the process, and is ended when a test fails that has this.
pub struct Left(Vec<i32>);

impl Left {
    /// What the process has started by now.
    pub fn by(pid: i32) -> Left {
        Left(descendants(pid.unsigned_abs()))
    }

    /// Waits until all of it has ended.
    ///
    /// # Panics
    /// After a minute.
    pub fn wait(&self) {
        wait_until("orphans to end", || self.0.iter().all(|pid| is_gone(*pid)));
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        // Where the test has passed they have ended, and their numbers may be those of others.
        if std::thread::panicking() {
            end_all(&self.0);
        }
    }
}

/// The lines `WORD NAME VALUE` of a victim's output whose first word is `kind`: `truth`, `thread`.
pub fn values(stdout: &str, kind: &str) -> Vec<(String, f64)> {
    stdout
        .lines()
        .filter_map(|l| {
            let mut w = l.split_whitespace();
            (w.next() == Some(kind)).then(|| Some((w.next()?.to_owned(), w.next()?.parse().ok()?)))?
        })
        .collect()
}

/// The truth of a victim's output, summed by function.
pub fn truth(stdout: &str) -> Vec<(String, f64)> {
    let mut sums: Vec<(String, f64)> = Vec::new();
    for (name, value) in values(stdout, "truth") {
        match sums.iter_mut().find(|(n, _)| *n == name) {
            Some((_, s)) => *s += value,
            None => sums.push((name, value)),
        }
    }
    assert!(!sums.is_empty(), "the victim printed no truth:\n{stdout}");
    sums
}
