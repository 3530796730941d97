//! A program that sets its signals' actions by the instruction, behind the library: none of our signals ends it, and
//! few come to its handlers.

use std::path::{Path, PathBuf};
use std::process::Command;

use pct_format::Clock;
use pct_kit::harm::harm;

use crate::run::{Run, about, compiled};

const CLOCKS: [&str; 5] = ["auto", "perf", "sigtrap", "thread", "itimer"];
const ENDED: &str =
    "the program set the action of the sampling signal by a system call of its own: sampling ended there";

fn run(program: &Path, arguments: &[&str], options: &str) -> Run {
    let run = Run::new(program, arguments, options, |_| ());
    if !run.output.status.success() {
        harm(&format!("{arguments:?}, {options}: {:?}", run.output));
    }
    run.ok()
}

#[test]
fn a_program_that_resets_all_actions_lives_and_is_told_of() {
    let Some(program) = compiled("actions") else { return };
    for clock in CLOCKS {
        for how in ["default", "ignored"] {
            let run = run(&program, &[how], &format!("hz=1000,clock={clock}"));
            assert!(run.status_lines().contains(ENDED), "{clock}: {}", run.status_lines());
            let account = run.only_file();
            about(account.user + account.system, 0.1);
        }
    }
}

#[test]
fn a_program_that_handles_all_signals_by_itself_gets_few_of_ours() {
    let Some(program) = compiled("actions") else { return };
    for clock in CLOCKS {
        let run = run(&program, &["own"], &format!("hz=1000,clock={clock}"));
        let said = String::from_utf8_lossy(&run.output.stdout).into_owned();
        let came: u32 = said.strip_suffix(" came\n").and_then(|n| n.parse().ok()).expect("a number");
        // 16 ms of expiries, four times, and one of each timer; of a clock that goes on 600.
        assert!(came <= 70, "{clock}: {came} of our signals");
        assert!(run.status_lines().contains(ENDED), "{clock}: {}", run.status_lines());
    }
}

#[test]
fn a_signal_taken_by_an_instruction_moves_the_clock_when_it_is_seen() {
    let Some(program) = compiled("actions") else { return };
    // The tick has another number, and comes on.
    let run = run(&program, &["ignored", "16"], "clock=perf,hz=1000,signal=16");
    let account = run.only_file();
    // Four times a second it is looked whether the signals are still ours.
    assert!(account.user + account.system > 0.3, "{account:#?}");
    assert_eq!(run.status_lines(), "");
}

#[test]
fn the_timer_of_such_a_program_samples_all_of_its_time() {
    let Some(program) = compiled("actions") else { return };
    // Its timers expire once, and are started again by each tick. SIGWINCH is no clock's.
    for clock in ["thread", "perf"] {
        let account = run(&program, &["ignored", "28"], &format!("hz=200,clock={clock}")).only_file();
        about(account.user + account.system, 0.7);
    }
}

#[test]
fn a_trap_is_the_clock_where_nobody_can_reset_its_action() {
    let (Some(plain), Some(program)) = (compiled("late"), compiled("actions")) else { return };
    for options in ["hz=1000", "hz=1000,clock=sigtrap"] {
        let clock = run(&plain, &[], options).only_file().clock;
        if clock != Some(Clock::Sigtrap) {
            return pct_kit::skip("no traps by events here");
        }
        let run = run(&program, &["default", "28"], options);
        assert_eq!(run.only_file().clock, Some(Clock::Perf), "{options}");
        let says = run.status_lines().contains("so its clock is perf");
        assert_eq!(says, options.contains("sigtrap"), "{options}: {}", run.status_lines());
    }
}

#[test]
fn a_recording_whose_clock_is_another_does_not_claim_to_sample_the_kernel() {
    let Some(program) = compiled("actions") else { return };
    let run = run(&program, &["default", "28"], "hz=1000,clock=sigtrap,kernel=on");
    let bytes = std::fs::read(&run.only_file().path).expect("readable");
    let file = pct_format::File::parse(&bytes).expect("whole");
    assert_eq!(file.header().clock_got(), Some(Clock::Perf));
    assert_eq!(file.header().header_word(pct_format::layout::header::KERNEL_JOIN), 0);
}

#[test]
fn the_clock_changes_when_such_code_is_loaded() {
    let (Some(program), Some(library)) = (compiled("late"), library()) else { return };
    let library = library.to_string_lossy();
    for clock in CLOCKS {
        let run = run(&program, &[&library], &format!("hz=1000,clock={clock}"));
        assert!(run.status_lines().contains(ENDED), "{clock}: {}", run.status_lines());
        let account = run.only_file();
        assert!(matches!(account.clock, Some(Clock::Perf | Clock::Thread)), "{clock}: {account:#?}");
        about(account.user + account.system, 1.1);
    }
}

#[test]
fn what_was_found_about_an_object_is_kept_where_that_does_no_harm() {
    const BASH: &str = "/bin/bash";
    if !Path::new(BASH).exists() {
        return pct_kit::skip("no bash");
    }
    let home = tempfile::tempdir().expect("a folder");
    let answers = home.path().join("pct/objects");
    // How many answers there are after this command.
    let run = |command: &str| {
        let run = Run::new(Path::new(BASH), &["-c", command], "hz=100", |bash| {
            bash.env("XDG_CACHE_HOME", home.path());
        });
        if !run.output.status.success() {
            harm(&format!("{command}: {:?}", run.output));
        }
        let words = std::fs::read(&answers).ok()?;
        Some(words.as_chunks::<8>().0.iter().filter(|word| **word != [0; 8]).count())
    };
    assert_eq!(run(":"), None, "the library makes no file");
    std::fs::create_dir(home.path().join("pct")).expect("made");
    std::fs::write(&answers, [0; 4096]).expect("written");
    let first = run(":");
    assert!(first.is_some_and(|count| count > 0));
    assert_eq!(run(":"), first, "it is known");
    // The copy is another object. Under this limit the kernel would send a signal for what is written.
    let copy = home.path().join("bash");
    std::fs::copy(BASH, &copy).expect("copied");
    assert_eq!(run(&format!("ulimit -f 0; exec {} -c :", copy.display())), first);
    assert!(run(&format!("exec {} -c :", copy.display())) > first);
}

/// `actions.c` as a library; `None` without a C compiler.
fn library() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libpct/actions.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libactions.so");
    let aside = library.with_extension(std::process::id().to_string());
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-shared", "-fPIC", "-DLIBRARY", "-o"]).arg(&aside).arg(source);
    if !cc.status().is_ok_and(|status| status.success()) {
        pct_kit::skip("no C compiler");
        return None;
    }
    std::fs::rename(&aside, &library).expect("renamed");
    Some(library)
}
