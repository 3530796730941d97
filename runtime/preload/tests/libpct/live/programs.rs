//! What the library does to real programs: they end as without it, and the files hold what they did.
//!
//! CPU seconds in the files are compared with the program's own account, within a tolerance that is made of the
//! clock's (a period per thread, 2 % of rate) and the machine's (other programs take the CPU, not CPU time).

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use pct_format::{Clock, File, Index, State};
use pct_kit::harm::{harm, unharmed};
use pct_kit::libraries;
use pct_kit::wait::wait_for;

use crate::run::{Run, about, account, victim};

const CLOCKS: [&str; 4] = ["auto", "perf", "thread", "itimer"];

#[test]
fn a_spinning_program_is_accounted_by_every_clock() {
    let Some(victim) = victim() else { return };
    for clock in CLOCKS {
        let a = Run::new(victim, &["spin", "0.5"], &format!("clock={clock}"), |_| ()).ok().only_file();
        about(a.user + a.system, 0.5);
        assert_eq!(a.state, Some(State::Closed));
        assert_eq!(a.argv[1..], ["spin", "0.5"]);
        assert_eq!(a.unresolved, 0, "{a:#?}");
        assert!(a.lost.is_empty(), "{a:#?}");
    }
}

#[test]
fn a_high_rate_is_delivered_by_synchronous_traps() {
    let Some(victim) = victim() else { return };
    let a = Run::new(victim, &["spin", "0.3"], "hz=8000", |_| ()).ok().only_file();
    about(a.user + a.system, 0.3);
    assert!(a.samples > 1000, "{a:#?}");
}

#[test]
fn threads_have_their_names_and_their_shares() {
    let Some(victim) = victim() else { return };
    for clock in ["auto", "thread"] {
        let a = Run::new(victim, &["threads"], &format!("clock={clock}"), |_| ()).ok().only_file();
        for n in 1..=4 {
            let name = format!("worker-{n}");
            // A thread that ended before the housekeeper read its new name has its first one: found by its share then.
            let own = a.threads.iter().find(|t| t.0 == name).map_or(0.1 * f64::from(n), |t| t.1);
            about(own, 0.1 * f64::from(n));
        }
        about(a.user + a.system, 1.0);
    }
}

#[test]
fn threads_that_libc_does_not_know_are_found() {
    let Some(victim) = victim() else { return };
    let a = Run::new(victim, &["clone"], "", |_| ()).ok().only_file();
    assert_eq!(a.threads.len(), 2, "{a:#?}");
    // Found at the housekeeper's first or second round, so part of it is missing.
    let least = a.threads.iter().map(|t| t.1).fold(f64::MAX, f64::min);
    assert!(least > 0.1 && least < 0.52, "{a:#?}");
}

#[test]
fn small_stacks_are_enough() {
    let Some(victim) = victim() else { return };
    let a = Run::new(victim, &["stacks"], "stack=auto", |_| ()).ok().only_file();
    about(a.user + a.system, 0.4);
}

#[test]
fn children_of_fork_have_files_of_their_own() {
    let Some(victim) = victim() else { return };
    let files = Run::new(victim, &["fork"], "", |_| ()).ok().files();
    let total: f64 = files.iter().map(|a| a.user + a.system).sum();
    assert!(files.len() >= 3, "{files:#?}");
    about(total, 0.45);
    let none = Run::new(victim, &["fork"], "follow=none", |_| ()).ok().files();
    assert!(none.len() <= 1, "{none:#?}");
}

#[test]
fn programs_executed_are_followed_even_with_an_empty_environment() {
    let Some(victim) = victim() else { return };
    for mode in ["exec", "execve"] {
        let files = Run::new(victim, &[mode], "", |_| ()).ok().files();
        assert_eq!(files.len(), 2, "{mode}: {files:#?}");
        let states: Vec<_> = files.iter().filter_map(|a| a.state).collect();
        assert!(states.contains(&State::Replaced) && states.contains(&State::Closed), "{states:?}");
        let first = files.iter().find(|a| a.argv[1] == mode).expect("the first image");
        about(first.user + first.system, if mode == "exec" { 0.1 } else { 0.15 });
        let second = files.iter().find(|a| a.argv[1] == "spin").expect("the second image");
        about(second.user + second.system, 0.2);
    }
}

#[test]
fn system_time_is_seen_by_every_clock() {
    let Some(victim) = victim() else { return };
    for clock in ["perf", "thread"] {
        let a = Run::new(victim, &["system"], &format!("clock={clock}"), |_| ()).ok().only_file();
        about(a.user + a.system, 0.6);
        // A one-byte read spends more in the kernel than outside of it; exact shares are a bench's business.
        assert!(a.system > 0.25 * (a.user + a.system), "{clock}: {a:#?}");
    }
}

#[test]
fn a_program_that_handles_every_signal_gets_its_own_and_none_of_ours() {
    let Some(victim) = victim() else { return };
    for clock in ["perf", "thread"] {
        let run = Run::new(victim, &["handler"], &format!("clock={clock}"), |_| ()).ok();
        // None is left for us, and that is said.
        assert!(
            run.status_lines().contains("no other is free: sampling ends there"),
            "{}",
            run.status_lines()
        );
    }
}

#[test]
fn a_program_dies_of_our_signal_as_it_would_have() {
    let Some(victim) = victim() else { return };
    let run = Run::new(victim, &["die"], "clock=perf,signal=16", |_| ());
    if run.output.status.signal() != Some(libc::SIGSTKFLT) {
        harm(&format!("it was to die of its own signal: {:?}", run.output));
    }
    about(run.only_file().user, 0.1);
}

#[test]
fn the_kernels_own_signal_for_urgent_data_is_no_sample() {
    let Some(victim) = victim() else { return };
    for clock in ["perf", "sigtrap", "thread"] {
        let run = Run::new(victim, &["urgent"], &format!("clock={clock}"), |_| ());
        if run.output.status.code() == Some(77) {
            return pct_kit::skip("no loopback network");
        }
        let run = run.ok();
        let said = String::from_utf8_lossy(&run.output.stdout).into_owned();
        let account = run.only_file();
        about(account.user + account.system, said.trim().parse().expect("its CPU time"));
    }
}

#[test]
fn a_program_with_a_profiling_timer_keeps_it() {
    let Some(victim) = victim() else { return };
    for clock in ["auto", "thread"] {
        Run::new(victim, &["prof"], &format!("clock={clock}"), |_| ()).ok();
    }
}

#[test]
fn a_program_that_blocks_all_signals_runs_and_executes_others() {
    let Some(victim) = victim() else { return };
    for clock in ["perf", "thread"] {
        Run::new(victim, &["blocked"], &format!("clock={clock}"), |_| ()).ok();
    }
}

#[test]
fn threads_that_block_everything_are_sampled_and_get_no_signal() {
    let Some(victim) = victim() else { return };
    for clock in ["perf", "thread"] {
        let a = Run::new(victim, &["all-blocked"], &format!("clock={clock}"), |_| ()).ok().only_file();
        about(a.user + a.system, 1.2);
        assert!(a.lost.iter().all(|l| l.0 != "signal blocked by the program"), "{a:#?}");
        Run::new(victim, &["all-blocked", "sent"], &format!("clock={clock}"), |_| ()).ok();
    }
}

#[test]
fn a_thread_that_blocks_the_very_signals_is_lost_under_that_name() {
    let Some(victim) = victim() else { return };
    for clock in ["auto", "perf"] {
        let a = Run::new(victim, &["half-blocked"], &format!("clock={clock}"), |_| ()).ok().only_file();
        about(a.user + a.system, 0.6);
        let lost = a.lost.iter().find(|l| l.0 == "signal blocked by the program").map_or(0, |l| l.1);
        // What it used after the housekeeper's last visit is not known.
        assert!(lost > 100 && lost < 550, "{clock}: {a:#?}");
    }
}

/// What the victim says of two threads that switch: their waits in a second of CPU time, and the seconds that each
/// worked.
fn switches(run: &Run) -> (f64, [f64; 2]) {
    let said = String::from_utf8_lossy(&run.output.stdout);
    let mut numbers = said.split_whitespace().map(|word| word.parse::<f64>().expect("a number"));
    let mut next = || numbers.next().expect("three numbers");
    (next(), [next() / 1e9, next() / 1e9])
}

/// Two threads that switch all the time, sampled by events that both inherit: neither's time is the other's,
/// and nothing is lost.
fn switching_threads_have_their_shares(arguments: &[&str], inherited_to_the_end: bool) {
    let Some(victim) = victim() else { return };
    let run = Run::new(victim, arguments, "", |_| ()).ok();
    let a = run.only_file();
    if a.inherited.1 != 0 {
        pct_kit::skip(&format!("this kernel refuses inherited events: error {}", a.inherited.1));
        return;
    }
    assert_eq!(a.inherited.0 > 0, inherited_to_the_end, "{a:#?}");
    about(a.user + a.system, 2.0);
    assert_eq!(a.threads.len(), 2, "{a:#?}");
    // Both make the same system calls, and on some machines those take most of the time; what the kernel does for a
    // switch is not the same for both. So only their own work is compared, with how long it took them: on some machines
    // a switch also slows down what comes after it.
    let share_of_less = |seconds: &[f64]| seconds[0].min(seconds[1]) / seconds.iter().sum::<f64>();
    let (own, (_, worked)) = (&a.own_by_thread, switches(&run));
    let (share, expected) = (share_of_less(own), share_of_less(&worked));
    let n = own.iter().sum::<f64>() * 997.0;
    assert!(n > 100.0, "{a:#?}");
    // A hundredth for the loop around the work.
    let bound = 4.0 * (expected * (1.0 - expected) / n).sqrt() + 0.01;
    assert!((share - expected).abs() < bound, "{share} of {n}, not {expected}: {a:#?}");
}

#[test]
fn threads_that_switch_have_their_shares() {
    switching_threads_have_their_shares(&["switching"], true);
}

/// In a program that works in bursts the one period of inherited events would be in step: threads that wait seldom
/// have events of their own. If they switch all the time later, those would slow them down.
#[test]
fn threads_change_their_clocks_with_how_often_they_wait() {
    let Some(victim) = victim() else { return };
    let a = Run::new(victim, &["threads"], "", |_| ()).ok().only_file();
    if a.inherited.1 != 0 || a.clock != Some(Clock::Sigtrap) {
        return pct_kit::skip(&format!("no inherited events here: error {}", a.inherited.1));
    }
    assert_eq!(a.inherited.0, 0, "{a:#?}");
    let run = Run::new(victim, &["switching-later"], "", |_| ()).ok();
    let a = run.only_file();
    // Where a switch is dear, there are fewer in a second of CPU time than the sampler's bound (`MANY_WAITS`).
    let (waits, _) = switches(&run);
    let many = 20_000.0;
    if waits > 1.25 * many {
        assert_eq!(a.clock, Some(Clock::Thread), "{waits} waits: {a:#?}");
    } else if waits < 0.8 * many {
        assert_eq!(a.clock, Some(Clock::Sigtrap), "{waits} waits: {a:#?}");
    }
    about(a.user + a.system, 1.6);
}

#[test]
fn an_exec_that_fails_leaves_all_threads_sampled() {
    switching_threads_have_their_shares(&["switching", "/nonexistent/program"], false);
}

#[test]
fn a_child_of_a_raw_clone_is_sampled_from_its_first_wrapped_call() {
    let Some(victim) = victim() else { return };
    let files = Run::new(victim, &["raw-fork"], "", |_| ()).ok().files();
    assert_eq!(files.len(), 2, "{files:#?}");
    about(files.iter().map(|a| a.user + a.system).sum(), 0.3);
}

#[test]
fn a_daemon_that_gives_everything_up_is_sampled_to_the_end() {
    let Some(victim) = victim() else { return };
    let run = Run::new(victim, &["daemon"], "", |_| ());
    unharmed(&run.output);
    let a = run.only_file();
    // 0.1 s before, and the loop under the filter.
    assert!(a.user > 0.2, "{a:#?}");
}

#[test]
fn libraries_that_come_and_go_are_named() {
    let Some(victim) = victim() else { return };
    let a = Run::new(victim, &["dlopen"], "", |_| ()).ok().only_file();
    let math = a.regions.get("libm.so.6").copied().unwrap_or(0);
    assert!(math * 2 > a.samples, "{a:#?}");
    assert_eq!(a.unresolved, 0, "{a:#?}");
}

#[test]
fn the_functions_of_pct_h_switch_and_mark() {
    let Some(victim) = victim() else { return };
    let a = Run::new(victim, &["mark"], "on=manual", |_| ()).ok().only_file();
    assert_eq!(a.marks, ["half time"]);
    about(a.user + a.system, 0.2);
}

#[test]
fn sleeping_calls_are_not_cut_short() {
    let Some(victim) = victim() else { return };
    for clock in ["auto", "thread"] {
        Run::new(victim, &["sleep"], &format!("clock={clock}"), |_| ()).ok();
    }
}

const MUSL: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <time.h>
static void *work(void *p) {
    struct timespec t;
    volatile double x = 0;
    double end = 0;
    do {
        for (int i = 0; i < 20000; i++) x += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        if (!end) end = t.tv_sec + t.tv_nsec * 1e-9 + 0.15;
    } while (t.tv_sec + t.tv_nsec * 1e-9 < end);
    return p;
}
int main(int argc, char **argv) {
    pthread_t t;
    if (pthread_create(&t, 0, work, 0)) return 1;
    work(0);
    pthread_join(t, 0);
    return argc != 3;
}
"#;

#[test]
fn programs_of_another_libc_are_sampled_and_unharmed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("musl.c"), folder.path().join("musl"));
    std::fs::write(&source, MUSL).expect("written");
    match Command::new("musl-gcc").args(["-O1", "-o"]).arg(&program).arg(&source).status() {
        Ok(status) => assert!(status.success()),
        Err(e) => return pct_kit::skip(&format!("no musl-gcc ({e})")),
    }
    let a = Run::new(&program, &["one", "two"], "stack=auto", |_| ()).ok().only_file();
    about(a.user + a.system, 0.3);
    assert_eq!(a.argv[1..], ["one", "two"]);
    assert_eq!(a.threads.len(), 2, "{a:#?}");
}

#[test]
fn counts_add_up_to_the_time() {
    let Some(victim) = victim() else { return };
    let run = Run::new(victim, &["spin", "0.5"], "mode=counts", |_| ()).ok();
    let path = run.only_file().path;
    let bytes = std::fs::read(path).expect("readable");
    let file = File::parse(&bytes).expect("a whole header");
    let word = |at| file.header().header_word(at);
    use pct_format::layout::header as at;
    let counted: u64 = file.counters().flat_map(|a| a.nonzero()).map(|(_, n)| n).sum();
    let all = counted + word(at::UNKNOWN) + word(at::COUNTED_SYSTEM);
    about(all as f64 * file.header().period_ns() as f64 / 1e9, 0.5);
    assert!(word(at::UNKNOWN) * 50 <= all, "{} of {all} unknown", word(at::UNKNOWN));
}

#[test]
fn a_small_limit_wraps_and_counts_what_it_overwrites() {
    let Some(victim) = victim() else { return };
    let a = Run::new(victim, &["spin", "1.0"], "hz=5000,limit=64K", |_| ()).ok().only_file();
    assert!(a.bytes <= 64 << 10, "{a:#?}");
    let lost = a.lost.iter().find(|l| l.0 == "overwritten by wrap").expect("a loss").1;
    // The thread's newest segment knows of those before it.
    assert!(a.overwritten > 0 && a.overwritten <= lost, "{a:#?}");
    about((a.samples + lost) as f64 / 5000.0, 1.0);
}

#[test]
fn bad_options_are_one_line_and_the_program_runs() {
    let Some(victim) = victim() else { return };
    for (options, word) in [
        ("foo=1", "unknown option \"foo\""),
        ("hz=0", "option hz"),
        ("hz=1000000", "option hz"),
        ("mode=x", "option mode"),
        ("clock=sundial", "option clock"),
        ("clock=wall", "needs a controller"),
        ("stack=maybe", "option stack"),
        ("depth=0", "option depth"),
        ("limit=1", "option limit"),
        ("follow=me", "option follow"),
        ("signal=9", "option signal"),
        ("on=demand", "option on"),
        ("toggle=99", "option toggle"),
        ("shift=99", "option shift"),
    ] {
        let run = Run::new(victim, &["spin", "0.01"], options, |_| ());
        unharmed(&run.output);
        let said = String::from_utf8_lossy(&run.output.stderr).into_owned();
        // What is wrong with the text is for who wrote it. Why sampling cannot begin is for who runs the program.
        let is_text = options != "clock=wall";
        let said = if is_text { said } else { said + &run.status_lines() };
        assert!(said.starts_with("pct: ") == is_text && said.contains(word), "{options}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(run.files().is_empty());
    }
}

#[test]
fn without_options_the_library_does_nothing() {
    let Some(victim) = victim() else { return };
    for mode in ["threads", "fork", "handler", "dlopen", "prof"] {
        let run = Run::new(victim, &[mode], "", |c| {
            c.env_remove("PCT");
        });
        assert!(run.ok().files().is_empty());
    }
}

#[test]
fn programs_that_are_not_included_are_left_alone() {
    let Some(victim) = victim() else { return };
    assert!(Run::new(victim, &["spin", "0.05"], "exclude=libpct-vict*", |_| ()).ok().files().is_empty());
    assert!(Run::new(victim, &["spin", "0.05"], "include=other", |_| ()).ok().files().is_empty());
    assert_eq!(Run::new(victim, &["spin", "0.05"], "include=other:libpct*", |_| ()).ok().files().len(), 1);
}

#[test]
fn a_folder_that_cannot_be_written_is_reported_and_the_program_runs() {
    let Some(victim) = victim() else { return };
    let run = Run::new(victim, &["spin", "0.1"], "out=/proc/nowhere", |_| ()).ok();
    assert!(run.files().is_empty());
    // With the status file in the folder that is meant, the cause is there: a name in the way makes the file fail.
    let run = Run::new(victim, &["spin", "0.1"], "", |c| {
        // SAFETY: setrlimit is async-signal-safe.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(c, || {
                let none = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
                libc::setrlimit(libc::RLIMIT_FSIZE, &raw const none);
                Ok(())
            });
        }
    })
    .ok();
    assert!(run.files().is_empty());
    assert!(run.status_lines().contains("EFBIG"), "{}", run.status_lines());
}

#[test]
fn a_file_size_limit_makes_the_log_wrap() {
    let Some(victim) = victim() else { return };
    let a = Run::new(victim, &["spin", "1.0"], "hz=5000", |c| {
        // SAFETY: setrlimit is async-signal-safe.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(c, || {
                let some = libc::rlimit { rlim_cur: 80 << 10, rlim_max: 80 << 10 };
                libc::setrlimit(libc::RLIMIT_FSIZE, &raw const some);
                Ok(())
            });
        }
    })
    .ok()
    .only_file();
    assert!(a.bytes <= 80 << 10 && a.overwritten > 0, "{a:#?}");
    about((a.samples + a.overwritten) as f64 / 5000.0, 1.0);
}

#[test]
fn few_descriptors_are_enough() {
    let Some(victim) = victim() else { return };
    let a = Run::new(victim, &["threads"], "", |c| {
        // SAFETY: setrlimit is async-signal-safe.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(c, || {
                let few = libc::rlimit { rlim_cur: 16, rlim_max: 16 };
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const few);
                Ok(())
            });
        }
    })
    .ok()
    .only_file();
    about(a.user + a.system, 1.0);
}

#[test]
fn a_killed_process_leaves_its_samples() {
    let Some(victim) = victim() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(victim)
        .args(["spin", "100"])
        .env("LD_PRELOAD", libraries::plain())
        .env("PCT", format!("out={}", folder.path().display()))
        .spawn()
        .expect("starts");
    // Killed when the file has some samples, whenever that is.
    let path = wait_for("some samples", || {
        if let Some(status) = child.try_wait().expect("waits") {
            harm(&format!("it ended by itself with {status}"));
        }
        let mut entries = std::fs::read_dir(folder.path()).expect("there").filter_map(Result::ok);
        let path = entries.next()?.path();
        let bytes = std::fs::read(&path).ok()?;
        let file = File::parse(&bytes).ok()?;
        (Index::new(&file).samples_by_time().count() > 50).then_some(path)
    });
    child.kill().expect("killed");
    let status = child.wait().expect("waited");
    if status.signal() != Some(libc::SIGKILL) {
        harm(&format!("it was to be killed and ended with {status}"));
    }
    let a = account(&path);
    assert_eq!(a.state, Some(State::Armed));
    assert!(a.samples > 50 && a.unresolved == 0, "{a:#?}");
}
