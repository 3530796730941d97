//! Processes of a run that cannot be sampled from inside are sampled from outside, which is said, and sampled once.

use pct_kit::harm::{ended_with, unharmed};
use pct_kit::wait::wait_until;
use pct_tests::pct::{Run, binary, report, run, seconds_in};
use pct_tests::victims::{Guest, children_of, go_victim_with_c, signal, truth, victim, victim_with};
use pct_tests::{skip, tool_or_skip};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a run says of a process that was taken over.
const SAID: &str = ": sampled from outside from there on (process ";

/// Each function of the program has the CPU time that the program counted itself, and next to nothing has no function.
fn assert_shares(r: &Run, functions: &[&str]) {
    let truth = truth(&unharmed(&r.output));
    let rows = r.report(&["--by", "function"]);
    for function in functions {
        let spent: f64 = truth.iter().filter(|(name, _)| name == function).map(|(_, seconds)| seconds).sum();
        let seen = seconds_in(&rows, function);
        // Samples from outside stand for the time since the one before: what is off is the part of a period at the
        // ends, and what is lost on a machine that is busy with other things.
        let bound = spent * 0.25 + 0.03;
        assert!(
            spent > 0.1 && (seen - spent).abs() < bound,
            "{function}: {seen:.3} s seen, {spent:.3} s spent\n{}",
            r.stderr()
        );
    }
}

/// The functions of takesall.c.
const FUNCTIONS: [&str; 3] = ["before", "after", "in_the_child"];

/// A program whose filter on system calls kills who returns from a signal handler.
fn with_filter() -> PathBuf {
    victim_with("takesall.c", "cc -O2 -DFILTER", "takesall-filter").expect("it builds")
}

#[test]
fn what_takes_all_signals_is_sampled_on_and_so_is_what_it_forks() {
    let victim = victim("takesall.c");
    let r = run(&["--hz", "997"], &[victim.to_str().expect("UTF-8")]);
    assert_shares(&r, &FUNCTIONS);
    let said = r.stderr();
    assert!(
        said.contains(&format!("the program took the sampling signal for itself and no other is free{SAID}")),
        "{said}"
    );
    assert!(!said.contains("sampling ends there"), "{said}");
}

/// A filter on system calls that kills who returns from a signal handler ends sampling from inside as well.
#[test]
fn what_may_not_return_from_a_handler_is_sampled_on() {
    let victim = with_filter();
    let r = run(&["--hz", "997"], &[victim.to_str().expect("UTF-8")]);
    assert_shares(&r, &FUNCTIONS);
    let said = r.stderr();
    let cause = "the program's filter on system calls forbids the return from a signal handler";
    assert!(said.contains(&format!("{cause}{SAID}")), "{said}");
    for over in ["sampling ends there", "sampling pauses", "what it executes from then on"] {
        assert!(!said.contains(over), "{over}: {said}");
    }
}

#[test]
fn a_program_that_loads_the_library_is_sampled_by_that_alone() {
    let victim = victim("takesall.c");
    let other = victim_with("shares.c", "cc -O2 -pthread", "shares-executed").expect("it builds");
    let words = [&victim, &other].map(|path| path.to_str().expect("UTF-8"));
    let r = run(&["--hz", "997"], &[words[0], words[1], "2", "0.5"]);
    let own = truth(&unharmed(&r.output));
    let functions: Vec<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
    assert!(functions.len() > 5, "{own:?}");
    // all of shares.c together: each of its own may have few samples
    let seen: f64 = functions.iter().map(|name| seconds_in(&r.report(&["--by", "function"]), name)).sum();
    let spent: f64 = own.iter().map(|(_, seconds)| seconds).sum();
    assert!((seen / spent - 1.0).abs() < 0.15, "{seen:.3} s seen, {spent:.3} s spent\n{}", r.stderr());
    assert_shares(&r, &FUNCTIONS);
}

/// However they are executed: by a path, by a name that is looked for, and by functions that make the child themselves.
#[test]
fn static_programs_that_a_dynamic_one_executes_are_sampled() {
    let test = "static_programs_that_a_dynamic_one_executes_are_sampled";
    let victim = match victim_with("takesall.c", "cc -O2 -static", "takesall-static") {
        Ok(victim) => victim,
        Err(why) => return skip(test, &why),
    };
    let folder = victim.parent().expect("a folder").display();
    let by_name = format!("PATH=/nowhere:{folder}:$PATH env takesall-static; exit $?");
    let mut ways = vec![
        vec!["sh".to_owned(), "-c".into(), format!("{}; exit $?", victim.display())],
        vec!["sh".to_owned(), "-c".into(), by_name],
    ];
    if let Some(python) = tool_or_skip("python3", test) {
        for (function, word) in
            [("posix_spawn", victim.display().to_string()), ("posix_spawnp", "takesall-static".into())]
        {
            let script = format!(
                "import os; os.environ['PATH'] = '{folder}'; pid = os.{function}('{word}', ['x'], os.environ); \
                 os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
            );
            ways.push(vec![python.display().to_string(), "-c".into(), script]);
        }
    }
    for way in ways {
        let words: Vec<&str> = way.iter().map(String::as_str).collect();
        let r = run(&["--hz", "997"], &words);
        assert_shares(&r, &FUNCTIONS);
        let said = r.stderr();
        let cause = "takesall-static is a static program, which no library can be preloaded into";
        assert!(said.contains(&format!("{cause}{SAID}")), "{words:?}: {said}");
        assert!(!said.contains("not sampled ("), "{words:?}: {said}");
    }
}

#[test]
fn go_programs_with_c_that_a_script_starts_are_sampled() {
    let test = "go_programs_with_c_that_a_script_starts_are_sampled";
    let Some(go) = tool_or_skip("go", test) else { return };
    let built =
        go_victim_with_c(&go, "gocalls.go", &["-buildmode=exe"], "gocalls-by-script").expect("it builds");
    let r = run(&["--hz", "997"], &["sh", "-c", &format!("{}; exit $?", built.display())]);
    unharmed(&r.output);
    let rows = r.report(&["--by", "function"]);
    let all: f64 = rows.iter().map(|row| row.cpu_seconds).sum();
    let busy = seconds_in(&rows, "main.goLeaf") + seconds_in(&rows, "leaf");
    assert!(busy > 0.6 * all, "{busy:.3} of {all:.3} s\n{}", r.stderr());
    assert!(r.stderr().contains(SAID), "{}", r.stderr());
}

/// Where the kernel lets only ancestors trace (Yama), a process names its tracer before it tells that it cannot be
/// sampled from inside. Kernels without Yama refuse the call; that it is made is seen from outside.
#[test]
fn processes_name_their_tracer_before_they_are_taken_over() {
    let test = "processes_name_their_tracer_before_they_are_taken_over";
    let Some(strace) = tool_or_skip("strace", test) else { return };
    let mut programs = vec![victim("takesall.c"), with_filter()];
    match victim_with("takesall.c", "cc -O2 -static", "takesall-static") {
        Ok(built) => programs.push(built),
        Err(why) => skip(test, &why),
    }
    let here = tempfile::tempdir().expect("a folder");
    let log = here.path().join("log");
    for program in programs {
        let traced = format!(
            "export PCT=tracer=4242,$PCT; exec {} -f -qq -e trace=prctl,write -o {} sh -c '{}; exit $?'",
            strace.display(),
            log.display(),
            program.display()
        );
        unharmed(&run(&[], &["sh", "-c", &traced]).output);
        let calls = std::fs::read_to_string(&log).expect("strace's log");
        let names = calls.find("prctl(PR_SET_PTRACER, 4242)");
        // strace shows the beginning of what is written
        let said =
            ["the program took", "the program's filter", "takesall-static is"].map(|words| calls.find(words));
        let tells = said.into_iter().flatten().min();
        assert!(names.is_some() && names < tells, "{}:\n{calls}", program.display());
    }
}

/// Where an option needs the sampler inside, nothing is sampled from outside, and that is said as ever.
#[test]
fn options_that_need_the_sampler_inside_are_kept_to() {
    let victim = victim("takesall.c");
    let r = run(&["--clock", "thread"], &[victim.to_str().expect("UTF-8")]);
    unharmed(&r.output);
    let said = r.stderr();
    assert!(said.contains("sampling ends there") && !said.contains(SAID), "{said}");
}

/// The program goes on without its controller, and its status is its own.
#[test]
fn a_killed_controller_is_said_and_ends_nothing_else() {
    let victim = victim("takesall.c");
    let here = tempfile::tempdir().expect("a folder");
    let out = here.path().join("recording");
    let mut command = Command::new(binary());
    command.args(["run", "-o"]).arg(&out).arg("--").arg(victim).arg("/bin/true").stderr(Stdio::piped());
    let guest = Guest::start(&mut command);
    let told = || std::fs::read_to_string(out.join("pct.status")).unwrap_or_default();
    wait_until("the program to be taken over", || told().contains("\toutside\n"));
    let name = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let controller =
        children_of(guest.pid().unsigned_abs()).into_iter().find(|pid| name(*pid) == "pct-controller\n");
    signal(controller.expect("it works"), "KILL");
    let ended = guest.wait();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    ended_with(ended.status, 0, &said);
    assert!(said.contains("did not come to its end (ended by SIGKILL)"), "{said}");
    // what it had until then is there
    assert!(seconds_in(&report(&out, &["--by", "function"]), "before") > 0.2, "{said}");
}
