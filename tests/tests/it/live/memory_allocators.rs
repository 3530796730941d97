//! Programs whose allocator cannot be seen: one line says who serves their memory, by what that is known, and what
//! would help.

use std::path::Path;
use std::process::Command;

use pct_tests::pct::{Run, binary, run};
use pct_tests::victims::{victim, victim_with};
use pct_tests::{root, skip, tool_or_skip};

fn run_alloc(program: &Path) -> Run {
    // `heaps` churns so many blocks, some tenth of a second: the report finds the program by its samples.
    run(&["--alloc=64K", "--no-report"], &[program.to_str().expect("a path"), "10000000"])
}

/// The lines of pct about `--alloc`.
fn lines(run: &Run) -> Vec<String> {
    run.stderr().lines().filter(|line| line.contains("--alloc")).map(str::to_owned).collect()
}

/// What `pct report --alloc` says, on either stream.
fn report(run: &Run) -> String {
    let out = Command::new(binary()).args(["report", "--alloc"]).arg(&run.dir).output().expect("runs");
    String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
}

#[test]
fn a_static_program_says_whose_malloc_it_has() {
    let test = "a_static_program_says_whose_malloc_it_has";
    // Whether its symbols are there or not. musl's malloc has no message.
    for (name, command, server, sign) in [
        ("static-heaps", "cc -O2 -static", "glibc's malloc", "symbol "),
        ("stripped-heaps", "cc -O2 -static -s", "glibc's malloc", "its message "),
        ("musl-heaps", "musl-gcc -O2 -static", "musl's malloc", "symbol "),
        ("static-pie-heaps", "cc -O2 -static-pie", "glibc's malloc", "symbol "),
    ] {
        let program = match victim_with("heaps.c", command, name) {
            Ok(program) => program,
            Err(why) => {
                skip(test, &format!("{command}: {why}"));
                continue;
            }
        };
        let r = run_alloc(&program);
        r.unharmed();
        let said = lines(&r);
        assert_eq!(said.len(), 1, "{name}: {}", r.stderr());
        for word in ["is static", server, sign, "pct_alloc"] {
            assert!(said[0].contains(word), "{name}: no {word:?} in {said:?}");
        }
        let report = report(&r);
        assert!(report.contains("not sampled") && report.contains(server), "{name}: {report}");
    }
}

#[test]
fn a_go_program_has_gos_heap() {
    let test = "a_go_program_has_gos_heap";
    if tool_or_skip("go", test).is_none() {
        return;
    }
    let kept = tempfile::tempdir().expect("a folder");
    for (name, flags) in [("plain", "-ldflags="), ("stripped", "-ldflags=-s")] {
        let program = kept.path().join(name);
        let mut build = Command::new("go");
        build.args(["build", flags, "-o"]).arg(&program).arg(root().join("tests/victims/gospin.go"));
        build.env("CGO_ENABLED", "0").env("GO111MODULE", "off");
        let built =
            build.env("GOCACHE", root().join("target/victims/go-cache")).output().expect("go can be run");
        assert!(built.status.success(), "{built:?}");
        let r = run_alloc(&program);
        let said = lines(&r);
        assert_eq!(said.len(), 1, "{}", r.stderr());
        for word in ["Go's heap", "note of Go's linker", "net/http/pprof"] {
            assert!(said[0].contains(word), "no {word:?} in {said:?}");
        }
    }
}

#[test]
fn an_allocator_under_another_name_is_told_with_what_is_seen_beside_it() {
    let r = run_alloc(&victim("hidden.c"));
    r.unharmed();
    let said = lines(&r);
    assert_eq!(said.len(), 1, "{}", r.stderr());
    for word in ["has jemalloc inside", "symbol _rjem_malloc", "pct-alloc", "MALLOC_CONF"] {
        assert!(said[0].contains(word), "no {word:?} in {said:?}");
    }
    // 4 MiB of the C library's malloc are seen, and the report repeats the line. The loader and the C library ask for
    // some 6 kB beside them: a sample of those, which counts for 64 KiB, was in 5 of 60 runs.
    let report = report(&r);
    let live = report.strip_prefix("live ").and_then(|rest| rest.split_once(" MB ")).expect(&report).0;
    let live: f64 = live.parse().expect("a number");
    assert!((4.19..4.19 + 6.0 * 0.0656).contains(&live), "{report}");
    assert!(report.contains("has jemalloc inside"), "{report}");
}

#[test]
fn an_allocator_that_is_linked_in_is_named_by_the_report() {
    let test = "an_allocator_that_is_linked_in_is_named_by_the_report";
    let Ok(program) = victim_with("hidden.c", "g++ -O2 -l:libtcmalloc_minimal.a", "tcmalloc-inside") else {
        skip(test, "no static tcmalloc");
        return;
    };
    let r = run_alloc(&program);
    r.unharmed();
    let report = report(&r);
    assert!(report.contains("has tcmalloc inside"), "{report}\n{}", r.stderr());
}

#[test]
fn of_programs_whose_malloc_is_in_a_library_nothing_is_said() {
    let jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    let program = victim("heaps.c");
    let r = run_alloc(&program);
    assert!(lines(&r).is_empty(), "{}", r.stderr());
    let Ok(program) = victim_with("heaps.c", &format!("cc -O2 -l:{}", "libjemalloc.so.2"), "heaps-jemalloc")
    else {
        skip("of_programs_whose_malloc_is_in_a_library_nothing_is_said", &format!("no {jemalloc}"));
        return;
    };
    let r = run_alloc(&program);
    assert!(lines(&r).is_empty(), "{}", r.stderr());
}
