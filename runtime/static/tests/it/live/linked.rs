//! libpct.a in real programs: dynamic, static, with pct.h, switched by calls and by the environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pct_format::{File, Index, State};
use pct_kit::harm::{harm, unharmed};
use pct_kit::libraries;

const PROGRAM: &str = r#"
#include <pct.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>
static void spin(double s) {
    struct timespec t;
    volatile double x = 0;
    double end = 0;
    do {
        for (int i = 0; i < 20000; i++) x += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        if (!end) end = t.tv_sec + t.tv_nsec * 1e-9 + s;
    } while (t.tv_sec + t.tv_nsec * 1e-9 < end);
}
int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "call")) {
        if (pct_stat() != 0) return 1;
        if (pct_on(argv[2])) return 2;
        spin(0.15);
        if (pct_mark("half") || pct_off() || pct_stat()) return 3;
        spin(0.2);
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "fork")) {
        pid_t p = fork();
        spin(0.15);
        if (p > 0) wait(NULL);
        return 0;
    }
    spin(0.2);
    return pct_stat() == 1 ? 0 : 4;
}
"#;

/// Compiles the program; `None` where the C compiler or a static libc is missing.
fn program(name: &str, flags: &[&str]) -> Option<PathBuf> {
    compiled(name, PROGRAM, flags)
}

fn compiled(name: &str, text: &str, flags: &[&str]) -> Option<PathBuf> {
    let folder = libraries::archive();
    let source = folder.join(format!("{name}.c"));
    std::fs::write(&source, text).expect("written");
    let program = folder.join(name);
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut cc = Command::new("cc");
    cc.args(flags).args(["-O1", "-o"]).arg(&program).arg(&source).arg("-I").arg(include);
    cc.arg("-L").arg(folder).arg("-lpct");
    match cc.status() {
        Ok(status) if status.success() => Some(program),
        Ok(status) if flags.is_empty() => panic!("the program does not compile: {status}"),
        other => {
            pct_kit::skip(&format!("no compiler or no static libc ({other:?})"));
            None
        }
    }
}

/// Checks that a program ended with success after these words, and that stderr is empty.
#[track_caller]
fn quiet(run: &Output, words: &str, name: &str) {
    if unharmed(run) != words || !run.stderr.is_empty() {
        harm(&format!("{name}: {run:?}"));
    }
}

/// CPU seconds and marks of the files in a folder.
fn read(folder: &Path) -> Vec<(f64, Vec<String>, State)> {
    let paths = std::fs::read_dir(folder).expect("there").map(|e| e.expect("readable").path());
    paths
        .map(|path| {
            let bytes = std::fs::read(path).expect("readable");
            let file = File::parse(&bytes).expect("a whole header");
            let index = Index::new(&file);
            let weight: u64 = index.samples_by_time().map(|(_, s)| s.weight).sum();
            assert!(index.samples_by_time().all(|(_, s)| index.region_at(s.pc, s.time).is_some()));
            let seconds = weight as f64 * file.header().period_ns() as f64 / 1e9;
            (seconds, index.marks.iter().map(|m| m.name.clone()).collect(), file.header().state())
        })
        .collect()
}

#[test]
fn linked_programs_are_sampled_by_call_and_by_environment() {
    for (name, flags) in [("dynamic", &[][..]), ("static", &["-static"]), ("static-pie", &["-static-pie"])] {
        let Some(program) = program(name, flags) else { continue };
        let folder = tempfile::tempdir().expect("a folder");
        let options = format!("out={}", folder.path().display());
        let run = Command::new(&program).args(["call", &options]).env_remove("PCT").output().expect("runs");
        quiet(&run, "", name);
        let files = read(folder.path());
        assert_eq!(files.len(), 1, "{name}");
        let (seconds, marks, state) = &files[0];
        assert!((seconds - 0.15).abs() < 0.05, "{name}: {seconds}");
        assert_eq!((marks, *state), (&vec!["half".to_owned()], State::Stopped), "{name}");

        let folder = tempfile::tempdir().expect("a folder");
        let options = format!("out={}", folder.path().display());
        let run = Command::new(&program).env("PCT", &options).output().expect("runs");
        quiet(&run, "", name);
        let files = read(folder.path());
        assert!((files[0].0 - 0.2).abs() < 0.06, "{name}: {}", files[0].0);
        assert_eq!(files[0].2, State::Closed);

        let folder = tempfile::tempdir().expect("a folder");
        let options = format!("out={}", folder.path().display());
        let run = Command::new(&program).arg("fork").env("PCT", &options).output().expect("runs");
        quiet(&run, "", name);
        assert_eq!(read(folder.path()).len(), 2, "{name}: parent and child");
    }
}

/// A pool that is cut out of one large block, so its first block has the address of malloc's. Two functions
/// take blocks from it; one gives them back. The truth is printed: bytes kept, bytes in all.
const POOL: &str = r#"
#include <pct.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *pool;
static size_t used;
static size_t bytes, kept;
static void *take(size_t size) {
    char *block = pool + used;
    used += size;
    bytes += size;
    pct_alloc(block, size);
    return block;
}
__attribute__((noinline)) void keeps(void) {
    for (int i = 0; i < 30000; i++) { memset(take(1000), 1, 1000); kept += 1000; }
}
__attribute__((noinline)) void gives_back(void) {
    for (int i = 0; i < 30000; i++) { void *block = take(1000); pct_free(block); }
}
int main(void) {
    pool = malloc(64000000);
    if (!pool) return 1;
    int before = pct_heap_mark("before");
    keeps();
    int between = pct_heap_mark("kept");
    gives_back();
    pct_free(NULL);
    pct_alloc(NULL, 10);
    pct_free(&pool);
    int after = pct_heap_mark("given back");
    printf("%zu %zu %d\n", kept, bytes, before | between | after);
    fflush(stdout);
    return 0;
}
"#;

#[test]
fn blocks_that_a_program_tells_of_are_estimated_and_marked() {
    for (name, flags) in [("pool", &[][..]), ("pool-static", &["-static"]), ("pool-pie", &["-static-pie"])] {
        let Some(program) = compiled(name, POOL, flags) else { continue };
        let folder = tempfile::tempdir().expect("a folder");
        let options = format!("out={},alloc=8192", folder.path().display());
        let run = Command::new(&program).env("PCT", &options).output().expect("runs");
        quiet(&run, "30000000 60000000 0\n", name);
        let path = std::fs::read_dir(folder.path())
            .expect("there")
            .next()
            .expect("a file")
            .expect("readable")
            .path();
        let bytes = std::fs::read(path).expect("readable");
        let file = File::parse(&bytes).expect("a whole header");
        let index = Index::new(&file);
        let mut stacks = std::collections::BTreeSet::new();
        let mut all = 0.0;
        for sum in file.heap_sums().flat_map(|sums| sums.sums()).map(|sum| sum.expect("whole")) {
            // The pool itself came from malloc, which nobody wraps here.
            assert!(index.stacks.node(sum.stack).is_some(), "{name}: {sum:?}");
            stacks.insert(sum.stack);
            all += sum.bytes.0;
        }
        let live: f64 = file
            .heap_tables()
            .flat_map(|table| table.entries())
            .map(|entry| entry.expect("whole"))
            .filter(|entry| entry.state == pct_format::EntryState::Live)
            .map(|entry| {
                let interval = f64::from(8192 << entry.shift);
                entry.size as f64 / (1.0 - (-(entry.size as f64) / interval).exp())
            })
            .sum();
        // Standard deviation: the square root of interval times bytes, doubled twice at most by the rate of samples.
        let noise = |bytes: f64| 5.0 * (4.0 * 8192.0 * bytes).sqrt();
        assert!((all - 60e6).abs() < noise(60e6), "{name}: {all}");
        assert!((live - 30e6).abs() < noise(30e6), "{name}: {live}");
        assert!(stacks.len() >= 2, "{name}: {stacks:?}");
        let marks: Vec<(String, u64)> = file
            .segments()
            .flat_map(|segment| segment.records())
            .filter_map(|record| match record {
                pct_format::record::Record::HeapMark { name, live, .. } => Some((name.to_text(), live)),
                _ => None,
            })
            .collect();
        let names: Vec<&str> = marks.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["before", "kept", "given back"], "{name}");
        assert_eq!(marks[0].1, 0, "{name}");
        assert!(
            (marks[1].1 as f64 - live).abs() < 0.01 * live && marks[1].1 == marks[2].1,
            "{name}: {marks:?} {live}"
        );
    }
}

#[test]
fn telling_of_blocks_does_nothing_where_allocations_are_not_sampled() {
    let Some(program) = compiled("pool-off", POOL, &[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    for options in [String::new(), format!("out={},hz=100", folder.path().display())] {
        let mut command = Command::new(&program);
        command.env_remove("PCT");
        if !options.is_empty() {
            command.env("PCT", options);
        }
        let run = command.output().expect("runs");
        quiet(&run, "30000000 60000000 -1\n", "off");
    }
}
