//! Archives: what a recording shows after the program and its sources are gone.

use pct_tests::pct::{binary, run};
use pct_tests::tool_or_skip;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "volatile unsigned long sink;
__attribute__((noinline)) void hot_one(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) {
        sink += i * i; // the line that costs
    }
}
int main(void) { hot_one(200000000); return 0; }
";

/// `pct ARGUMENTS` in a folder: stdout and stderr.
fn pct(folder: &Path, arguments: &[&str]) -> (String, String) {
    let out = Command::new(binary()).args(arguments).current_dir(folder).output().expect("pct can be run");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(out.status.success(), "{arguments:?}: {}", text(&out.stderr));
    (text(&out.stdout), text(&out.stderr))
}

#[test]
fn an_archive_with_code_is_annotated_after_program_and_source_are_gone() {
    let test = "an_archive_with_code_is_annotated_after_program_and_source_are_gone";
    let (Some(cc), Some(_)) = (tool_or_skip("cc", test), tool_or_skip("objdump", test)) else { return };
    let here = tempfile::tempdir().expect("a folder");
    let (source, program) = (here.path().join("hot.c"), here.path().join("hot"));
    std::fs::write(&source, SOURCE).expect("written");
    let built =
        Command::new(cc).args(["-g", "-O2", "-o"]).arg(&program).arg(&source).status().expect("cc runs");
    assert!(built.success());
    let r = run(&["--hz", "1000"], &[program.to_str().expect("UTF-8")]);
    let recording = r.dir.to_str().expect("UTF-8");
    let (before, _) = pct(here.path(), &["annotate", "hot_one", recording]);
    assert!(before.contains("the line that costs") && before.contains("hot_one in "), "{before}");
    pct(here.path(), &["archive", "--code", recording]);

    let there = tempfile::tempdir().expect("a folder");
    let moved = there.path().join("moved");
    std::fs::rename(&r.dir, &moved).expect("on one file system");
    std::fs::remove_file(&program).expect("removed");
    // Somebody has written something else meanwhile.
    std::fs::write(&source, SOURCE.replace("the line that costs", "another line")).expect("written");
    let moved = moved.to_str().expect("UTF-8");
    let (after, said) = pct(there.path(), &["annotate", "hot_one", moved]);
    assert_eq!(after, before, "{said}");
    assert!(!said.contains("no instructions") && !said.contains("changed after"), "{said}");
    std::fs::remove_file(&source).expect("removed");
    let (after, said) = pct(there.path(), &["annotate", "hot_one", moved]);
    assert_eq!(after, before, "{said}");
    // The page too, on stdout.
    let (page, _) = pct(there.path(), &["annotate", "hot_one", "--html", "-", moved]);
    assert!(page.contains("the line that costs") && page.starts_with("<!DOCTYPE"), "{page}");
    assert!(!there.path().join("-").exists());
    // A second archive there, without program and source, keeps what the first one copied.
    pct(there.path(), &["archive", "--code", moved]);
    let (after, said) = pct(there.path(), &["annotate", "hot_one", moved]);
    assert_eq!(after, before, "{said}");
}
