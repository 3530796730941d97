//! The library in programs that are hard to be a guest in: each says itself, by its status, whether all went
//! as without us.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use pct_format::{File, State};
use pct_kit::harm::{ended_with, unharmed};
use pct_kit::libraries;

use crate::run::{Account, Run, about, compiled, quiet};

/// The compiled programs; `None` without a C compiler.
fn hostile() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("hostile")).as_deref()
}

/// Status of a mode that this machine or user cannot have.
const NOT_HERE: i32 = 77;

fn run(mode: &str, options: &str) -> Option<Run> {
    let run = Run::new(hostile()?, &[mode], options, |_| ());
    match run.output.status.code() {
        Some(NOT_HERE) => {
            pct_kit::skip(&format!("{mode}: not possible here"));
            None
        }
        _ => Some(run.ok()),
    }
}

/// Sum of the samples' seconds over all files.
fn seen(files: &[Account]) -> f64 {
    files.iter().map(|a| a.user + a.system).sum()
}

#[test]
fn an_alternate_stack_that_is_too_small_for_us_is_no_harm() {
    for options in ["hz=2000,stack=auto", "clock=thread"] {
        if let Some(run) = run("altstack", options) {
            assert!(seen(&run.files()) > 0.1);
        }
    }
}

#[test]
fn threads_with_the_smallest_stack_execute_others() {
    run("small-stack", "");
}

#[test]
fn any_number_of_arguments_is_passed_on() {
    run("arguments", "");
}

#[test]
fn the_filter_of_a_vfork_child_is_not_its_parents() {
    let Some(run) = run("child-filter", "") else { return };
    let files = run.files();
    let parent = files.iter().find(|a| a.argv[1..] == ["child-filter"]).expect("the parent's file");
    // Under a filter neither the CPU times nor the last anchor could be written.
    let bytes = std::fs::read(&parent.path).expect("readable");
    let (user, system) = File::parse(&bytes).expect("whole").header().cpu_ns().expect("CPU times");
    assert!((user + system) as f64 / 1e9 > 0.55, "{user} + {system}");
    about(parent.user + parent.system, 0.6);
}

#[test]
fn a_filtered_program_forks_and_exits() {
    let Some(run) = run("filter-fork", "hz=1000") else { return };
    let a = run.only_file();
    about(a.user + a.system, 0.15);
    assert_eq!(a.state, Some(State::Closed));
}

#[test]
fn who_takes_all_signals_never_meets_ours() {
    for clock in ["perf", "thread"] {
        run("all-signals", &format!("clock={clock}"));
    }
}

#[test]
fn a_thread_is_cancelled_where_it_waits() {
    for clock in ["perf", "thread"] {
        run("cancelled", &format!("clock={clock},hz=1000"));
    }
}

#[test]
fn a_process_namespace_under_another_proc_is_seen_and_nobody_else_is_touched() {
    let Some(run) = run("namespace", "hz=1000") else { return };
    let files = run.files();
    let child = files.iter().find(|a| a.threads.len() == 2).expect("the child with two threads");
    let bytes = std::fs::read(&child.path).expect("readable");
    let file = File::parse(&bytes).expect("whole");
    assert_eq!(file.header().ns_pid(), 1);
    assert_ne!(file.header().pid(), 1, "the number outside is in the header too");
    // The raw thread is found by a round of the housekeeper; each second is there once.
    let all = child.user + child.system;
    assert!(all > 0.6 && all < 1.2, "{all} of 1.02 s");
}

#[test]
fn a_program_that_forbids_time_stamps_lives() {
    let Some(run) = run("no-time", "") else { return };
    assert!(run.status_lines().contains("time stamp counter"), "{}", run.status_lines());
}

#[test]
fn signals_taken_by_system_call_end_neither_the_sampling_nor_the_program() {
    for clock in ["perf", "thread", "sigtrap"] {
        let Some(run) = run("resets", &format!("hz=1000,clock={clock}")) else { return };
        assert_eq!(run.status_lines(), "");
        let a = run.only_file();
        about(a.user + a.system, 0.35);
    }
}

#[test]
fn a_recording_that_is_cut_loses_what_was_there_and_harms_nobody() {
    let Some(program) = hostile() else { return };
    let cases = [
        ("clock=perf,stack=none", 0),
        ("clock=perf", 16384),
        ("clock=thread", 16384),
        ("clock=sigtrap,mode=counts", 16384),
    ];
    for (options, kept) in cases {
        let run = Run::new(program, &["cut", &kept.to_string()], &format!("{options},hz=4000"), |_| ()).ok();
        assert!(run.status_lines().contains("its file was cut"), "{options}, {kept}: {}", run.status_lines());
        if kept > 0 {
            let mut files = run.files();
            files.retain(|a| a.lost.iter().any(|l| l.0 == "file cut while it was written"));
            assert_eq!(files.len(), 1, "{options}: the parent's file names the loss");
        }
    }
}

#[test]
fn a_recording_that_is_removed_is_told() {
    for options in ["hz=1000", "hz=1000,mode=counts"] {
        let Some(run) = run("removed", options) else { return };
        let told = run.status_lines();
        assert!(told.contains("its file was removed or renamed"), "{options}: {told:?}");
        assert_eq!(told.lines().count(), 1, "{options}: {told:?}");
    }
}

#[test]
fn who_has_no_address_space_for_a_file_says_so() {
    let Some(run) = run("no-space", "hz=1000") else { return };
    let told = run.status_lines();
    let cause = "its file could not be made; the last attempt failed with ENOMEM";
    // The process and its child.
    assert_eq!(told.matches(cause).count(), 2, "{told:?}");
}

#[test]
fn faults_of_the_programs_own_are_its_own() {
    run("bus", "hz=4000");
}

#[test]
fn jumps_out_of_handlers_leave_nothing_locked() {
    let Some(run) = run("jumps", "hz=1000,limit=4M") else { return };
    let a = run.only_file();
    assert_eq!(a.state, Some(State::Closed));
    assert!(a.lost.iter().all(|l| l.0 != "handler busy"), "{a:#?}");
    assert!(a.user > 0.35, "{a:#?}");
}

#[test]
fn a_start_with_another_place_makes_a_file_there() {
    let Some(program) = hostile() else { return };
    let (a, b) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let places = [a.path(), b.path()].map(|p| p.to_str().expect("text").to_owned());
    Run::new(program, &["places", &places[0], &places[1]], "on=manual", |_| ()).ok();
    let seconds = |place: &Path| seen(&crate::run::files_in(place));
    about(seconds(a.path()), 0.4);
    about(seconds(b.path()), 0.2);
}

#[test]
fn a_thread_that_is_borrowed_to_switch_sampling_is_given_back_without_a_signal() {
    let Some(program) = hostile() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("text");
    Run::new(program, &["borrowed", folder], "on=manual", |_| ()).ok();
}

#[test]
fn a_program_without_a_free_descriptor_is_sampled_when_it_has_one() {
    let Some(run) = run("descriptors", "hz=1000") else { return };
    let a = run.only_file();
    // Without a descriptor the perf event cannot be replaced by one of the right period, so the thread goes
    // by its timer; its samples wait for the file.
    about(a.user + a.system, 0.6);
}

#[test]
fn children_by_fork_are_sampled_from_their_first_millisecond() {
    let Some(run) = run("children", "hz=1000") else { return };
    let files = run.files();
    let (user, system) = files.iter().fold((0.0, 0.0), |(u, s), a| (u + a.user, s + a.system));
    // 100 children of 10 ms, nearly all in user mode: about 1,000 samples.
    assert!(user > 0.8 && system < 0.4, "{user} s user, {system} s system in {} files", files.len());
}

#[test]
fn little_of_a_limited_address_space_is_ours() {
    run("space", "limit=256M");
}

#[test]
fn a_child_made_while_sampling_is_switched_can_switch_too() {
    run("switches", "hz=1000,stack=none");
}

#[test]
fn no_descriptor_of_ours_is_ever_seen() {
    for options in ["hz=2000", "clock=thread", "mode=counts"] {
        run("counts-descriptors", options);
    }
}

#[test]
fn breakpoints_of_the_programs_own_do_what_they_did() {
    for clock in ["sigtrap", "perf"] {
        run("traps", &format!("clock={clock},hz=5000"));
    }
}

#[test]
fn who_gets_no_sample_leaves_no_file() {
    let Some(run) = run("nothing", "hz=1") else { return };
    assert!(run.files().is_empty());
    // It says in the run's folder that it was there: process, tab, nanoseconds.
    let said = run.status_lines();
    assert!(said.lines().count() == 1 && said.contains('\t'), "{said}");
}

#[test]
fn a_program_that_is_called_through_a_link_names_its_file_so() {
    let Some(program) = hostile() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("called-so");
    std::os::unix::fs::symlink(program, &link).expect("linked");
    let path = Run::new(&link, &["spin"], "hz=500", |_| ()).ok().only_file().path;
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(name.starts_with("called-so-"), "{name}");
}

#[test]
fn the_header_says_who_and_how() {
    let Some(run) = run("spin", "hz=500") else { return };
    let path = run.only_file().path;
    use std::os::unix::fs::MetadataExt;
    // Nobody truncates it by mistake while it is mapped.
    assert_eq!(std::fs::metadata(&path).expect("there").mode() & 0o777, 0o400);
    let bytes = std::fs::read(&path).expect("readable");
    let file = File::parse(&bytes).expect("whole");
    let header = file.header();
    use pct_format::layout::{Text, header as at};
    let text = |which| String::from_utf8_lossy(header.text(which)).into_owned();
    assert!(text(Text::Exe).ends_with("libpct-hostile"), "{}", text(Text::Exe));
    assert!(!text(Text::Host).is_empty() && !text(Text::Writer).is_empty() && !text(Text::Cwd).is_empty());
    assert!(text(Text::Options).ends_with("hz=500"));
    assert!(!header.build_id().is_empty(), "the program's build-id");
    assert!(header.ns_pid() > 1 && header.ppid() == std::process::id());
    for word in [at::START_TICKS, at::BOOT_ID, at::HZ, at::FIRST_ANCHOR, at::FIRST_ANCHOR + 2, at::SIGNAL] {
        assert_ne!(header.header_word(word), 0, "word {word}");
    }
    assert_eq!((header.header_word(at::RATE_ASKED), header.header_word(at::PERIOD_NS)), (500_000, 2_000_000));
    assert!(header.header_word(at::CLOCK_ASKED) != 0 && header.header_word(at::CLOCK_GOT) != 0);
    // SAFETY: no arguments.
    assert_eq!(header.header_word(at::UID), u64::from(unsafe { libc::getuid() }));
}

/// Refuses `perf_event_open` to this process and what it executes, as containers do.
fn without_perf(command: &mut Command) {
    let number = libc::SYS_perf_event_open as u32;
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let mut filter = [
        step(load, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    // SAFETY: prctl with a filter that lives through the call; async-signal-safe.
    unsafe {
        std::os::unix::process::CommandExt::pre_exec(command, move || {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
            let done = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0;
            if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
}

#[test]
fn without_perf_events_the_threads_timer_is_taken() {
    let Some(program) = hostile() else { return };
    let run = Run::new(program, &["spin"], "", without_perf).ok();
    let a = run.only_file();
    let bytes = std::fs::read(&a.path).expect("readable");
    let file = File::parse(&bytes).expect("whole");
    use pct_format::layout::header as at;
    assert_eq!(file.header().header_word(at::CLOCK_GOT), pct_format::Clock::Thread as u64);
    assert_eq!(file.header().header_word(at::CLOCK_ERRNO), libc::EPERM as u64);
    about(a.user + a.system, 0.4);
    // Asked for by name it is refused with the cause.
    let refused = Run::new(program, &["spin"], "clock=perf", without_perf);
    quiet(&refused.output);
    assert!(refused.files().is_empty());
    let told = refused.status_lines();
    assert!(told.lines().count() == 1 && told.contains("perf_event_paranoid"), "{told}");
    // Where nobody reads that file, stderr is the place.
    let alone = Run::new(program, &["spin"], "clock=perf,out=/nonexistent", without_perf);
    unharmed(&alone.output);
    let said = String::from_utf8_lossy(&alone.output.stderr).into_owned();
    assert!(said.lines().count() == 1 && said.contains("perf_event_paranoid"), "{said}");
}

#[test]
fn a_timer_beyond_a_users_limit_is_refused_with_that_cause() {
    let Some(program) = hostile() else { return };
    let no_timers = |command: &mut Command| {
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: setrlimit of a live local; async-signal-safe.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(command, move || {
                match libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const limit) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
    };
    let refused = Run::new(program, &["spin"], "clock=thread", no_timers);
    quiet(&refused.output);
    let told = refused.status_lines();
    assert!(told.contains("clock=thread does not work here") && told.contains("(ulimit -i: 0)"), "{told}");
}

/// The live file is anybody's to write who has the rights: the program must survive it.
#[test]
fn scribbling_on_the_live_file_harms_the_recording_alone() {
    use std::os::unix::fs::{FileExt, PermissionsExt};
    let Some(program) = hostile() else { return };
    for mode in ["log", "counts"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(program)
            .arg("spin")
            .env("LD_PRELOAD", libraries::plain())
            .env("PCT", format!("out={},hz=5000,limit=256K,mode={mode}", folder.path().display()))
            .spawn()
            .expect("starts");
        let mut state = 7u64;
        let status = loop {
            if let Some(status) = child.try_wait().expect("waits") {
                break status;
            }
            for entry in std::fs::read_dir(folder.path()).expect("there").flatten() {
                let opened = std::fs::set_permissions(entry.path(), PermissionsExt::from_mode(0o600))
                    .and_then(|()| std::fs::OpenOptions::new().write(true).open(entry.path()));
                let Ok(file) = opened else { continue };
                let len = file.metadata().map_or(0, |m| m.len()).max(16);
                for _ in 0..200 {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let at = if state & 1 == 0 { state >> 20 & 0x3fff } else { (state >> 20) % (len - 8) };
                    // Inside what is there: the file is never made longer or shorter.
                    let _ = file.write_at(&state.to_le_bytes(), at.min(len - 8));
                }
            }
            std::thread::yield_now();
        };
        ended_with(status, 0, mode);
    }
}

const GO: &str = "package main\nfunc main() { x := 0.0; for i := 0; i < 300000000; i++ { x += 1 }; if x != 3e8 { panic(x) } }\n";

#[test]
fn a_program_without_a_c_library_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("main.go"), folder.path().join("busy"));
    std::fs::write(&source, GO).expect("written");
    let mut go = Command::new("go");
    go.args(["build", "-buildmode=pie", "-o"]).arg(&program).arg(&source).env("CGO_ENABLED", "0");
    // Go builds its own library first; it is kept for the next time.
    go.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache")).env("GO111MODULE", "off");
    match go.output() {
        Ok(built) if built.status.success() => {}
        Ok(built) => return pct_kit::skip(&format!("{}", String::from_utf8_lossy(&built.stderr))),
        Err(e) => return pct_kit::skip(&format!("no go ({e})")),
    }
    let run = Run::new(&program, &[], "", |_| ()).ok();
    assert!(run.files().is_empty());
    assert!(run.status_lines().contains("no C library"), "{}", run.status_lines());
}
