//! libpct.a in real programs: dynamic, static, with pct.h, switched by calls and by the environment.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use pct_format::{File, Index, State};

fn archive() -> &'static Path {
    static ARCHIVE: OnceLock<PathBuf> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libpct-archive");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo
            .args(["build", "-q", "-p", "pct-static", "--lib", "--profile", "preload", "--target-dir"])
            .arg(&target);
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
            cargo.env_remove(name);
        }
        assert!(cargo.status().expect("cargo runs").success(), "libpct.a does not build");
        let folder = target.join("linked");
        std::fs::create_dir_all(&folder).expect("made");
        std::fs::copy(target.join("preload/libpct_static.a"), folder.join("libpct.a")).expect("copied");
        folder
    })
}

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
    let folder = archive();
    let source = folder.join(format!("{name}.c"));
    std::fs::write(&source, PROGRAM).expect("written");
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
        assert!(run.status.success() && run.stderr.is_empty(), "{name}: {run:?}");
        let files = read(folder.path());
        assert_eq!(files.len(), 1, "{name}");
        let (seconds, marks, state) = &files[0];
        assert!((seconds - 0.15).abs() < 0.05, "{name}: {seconds}");
        assert_eq!((marks, *state), (&vec!["half".to_owned()], State::Stopped), "{name}");

        let folder = tempfile::tempdir().expect("a folder");
        let options = format!("out={}", folder.path().display());
        let run = Command::new(&program).env("PCT", &options).output().expect("runs");
        assert!(run.status.success() && run.stderr.is_empty(), "{name}: {run:?}");
        let files = read(folder.path());
        assert!((files[0].0 - 0.2).abs() < 0.06, "{name}: {}", files[0].0);
        assert_eq!(files[0].2, State::Closed);

        let folder = tempfile::tempdir().expect("a folder");
        let options = format!("out={}", folder.path().display());
        let run = Command::new(&program).arg("fork").env("PCT", &options).output().expect("runs");
        assert!(run.status.success(), "{name}: {run:?}");
        assert_eq!(read(folder.path()).len(), 2, "{name}: parent and child");
    }
}
