//! Programs under the library: compiled, run, and what their recordings say in sum.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use pct_format::layout::header as at;
use pct_format::{Clock, File, Index, State};
use pct_kit::harm::{harm, unharmed};
use pct_kit::libraries;

/// The compiled victim; `None` without a C compiler.
pub(crate) fn victim() -> Option<&'static Path> {
    static VICTIM: OnceLock<Option<PathBuf>> = OnceLock::new();
    VICTIM.get_or_init(|| compiled("victim")).as_deref()
}

/// `NAME.c`, compiled; `None` without a C compiler.
pub(crate) fn compiled(name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/libpct/{name}.c"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libpct-{name}"));
    // Each test may be a process of its own: it builds aside and renames, so that nobody runs half a program.
    let aside = program.with_extension(std::process::id().to_string());
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-pthread", "-o"]).arg(&aside).arg(source).arg("-ldl");
    match cc.status() {
        Ok(status) if status.success() => {
            std::fs::rename(&aside, &program).expect("renamed");
            Some(program)
        }
        Ok(_) => panic!("{name}.c does not compile"),
        Err(e) => {
            pct_kit::skip(&format!("no C compiler ({e})"));
            None
        }
    }
}

/// A run under the library: what came out, and the files.
pub(crate) struct Run {
    pub(crate) output: Output,
    folder: tempfile::TempDir,
}

/// What a file says in sum.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) path: PathBuf,
    pub(crate) argv: Vec<String>,
    pub(crate) state: Option<State>,
    pub(crate) user: f64,
    pub(crate) system: f64,
    pub(crate) threads: Vec<(String, f64)>,
    /// User seconds in the program's own file (no library), in the order of `threads`.
    pub(crate) own_by_thread: Vec<f64>,
    /// Events that all threads inherit, and why there are none.
    pub(crate) inherited: (u64, u64),
    pub(crate) clock: Option<Clock>,
    pub(crate) marks: Vec<String>,
    /// Paths of the regions that samples fell into, and how many.
    pub(crate) regions: std::collections::BTreeMap<String, u64>,
    pub(crate) unresolved: u64,
    pub(crate) lost: Vec<(&'static str, u64)>,
    pub(crate) samples: u64,
    pub(crate) overwritten: u64,
    pub(crate) bytes: usize,
}

impl Run {
    pub(crate) fn new(
        program: &Path,
        arguments: &[&str],
        options: &str,
        set: impl FnOnce(&mut Command),
    ) -> Run {
        // It may be built now, which takes long.
        let library = libraries::plain();
        STOLEN_BEFORE.get_or_init(pct_kit::stolen_seconds);
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(program);
        command.args(arguments).env("LD_PRELOAD", library);
        command.env("PCT", format!("out={},{options}", folder.path().display()));
        std::fs::write(folder.path().join("pct.status"), b"").expect("written");
        set(&mut command);
        // Only a test that fails shows it: many of them run one program with options that differ.
        println!("{} {arguments:?} with PCT={options}", program.display());
        let output = command.output().expect("the program starts");
        Run { output, folder }
    }

    /// The same, of a program that ended with success and said nothing to stderr.
    pub(crate) fn ok(self) -> Run {
        quiet(&self.output);
        self
    }

    pub(crate) fn status_lines(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("pct.status")).expect("there")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn files(&self) -> Vec<Account> {
        files_in(self.folder.path())
    }

    pub(crate) fn only_file(&self) -> Account {
        let mut files = self.files();
        assert_eq!(files.len(), 1, "{files:#?}");
        files.remove(0)
    }
}

/// Checks that a program ended with success and that stderr, where it would say what it misses, is empty.
#[track_caller]
pub(crate) fn quiet(output: &Output) {
    unharmed(output);
    if !output.stderr.is_empty() {
        harm(&format!("it said: {}", String::from_utf8_lossy(&output.stderr)));
    }
}

/// What the recordings in a folder say.
pub(crate) fn files_in(folder: &Path) -> Vec<Account> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("there")
        .map(|e| e.expect("readable").path())
        .filter(|p| p.extension().is_some_and(|e| e == "pct"))
        .collect();
    paths.sort();
    paths.iter().map(|p| account(p)).collect()
}

/// What a recording says.
pub(crate) fn account(path: &Path) -> Account {
    let bytes = std::fs::read(path).expect("readable");
    let file = File::parse(&bytes).expect("a whole header");
    let header = file.header();
    let index = Index::new(&file);
    let period = header.period_ns() as f64 / 1e9;
    let mut a = Account {
        path: path.to_owned(),
        argv: header.argv().map(|a| String::from_utf8_lossy(a).into_owned()).collect(),
        state: Some(header.state()),
        marks: index.marks.iter().map(|m| m.name.clone()).collect(),
        lost: header.losses().map(|l| (l.cause.name(), l.weight)).collect(),
        bytes: bytes.len(),
        clock: header.clock_got(),
        inherited: (header.header_word(at::INHERITED_EVENTS), header.header_word(at::INHERITED_ERRNO)),
        ..Account::default()
    };
    for thread in &index.threads {
        let (mut all, mut own) = (0.0, 0.0);
        for s in index.samples(thread) {
            a.samples += 1;
            let seconds = s.weight as f64 * period;
            all += seconds;
            *if s.system { &mut a.system } else { &mut a.user } += seconds;
            match index.region_at(s.pc, s.time) {
                Some(r) => {
                    let name =
                        String::from_utf8_lossy(&r.facts.path).rsplit('/').next().unwrap_or("").to_owned();
                    if !s.system && header.argv().next().is_some_and(|p| p.ends_with(name.as_bytes())) {
                        own += seconds;
                    }
                    *a.regions.entry(name).or_default() += 1;
                }
                None => a.unresolved += 1,
            }
        }
        a.overwritten += thread.overwritten.0;
        a.threads.push((thread.name.clone(), all));
        a.own_by_thread.push(own);
    }
    a
}

/// Seconds that the machine's host had taken when this test ran its first program.
static STOLEN_BEFORE: OnceLock<f64> = OnceLock::new();

/// Within 15 % and 20 ms: a loaded machine's clocks are a little off, a wrong account is off by far more. A perf
/// clock also counts time that the host of a virtual machine took meanwhile, which the program's account leaves
/// out.
#[track_caller]
pub(crate) fn about(got: f64, expected: f64) {
    let stolen = STOLEN_BEFORE.get().map_or(0.0, |before| pct_kit::stolen_seconds() - before);
    let bound = 0.15 * expected + 0.02;
    assert!(
        (-bound..=bound + stolen).contains(&(got - expected)),
        "got {got:.3} s, expected about {expected:.3} s; {stolen:.2} s were taken by the machine's host"
    );
}
