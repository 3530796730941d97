//! Python inside of other programs: libpython that a program loads when it runs already, whatever the loader is about
//! when pct looks first.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pct_format::record::{InterpreterState, LostCode};
use pct_format::{File, Index};
use pct_kit::libraries;
use pct_kit::started::Killed;
use pct_tests::pct::{binary, run};
use pct_tests::python::{StackFrame, files, functions, stacks};
use pct_tests::pythons::pythons;
use pct_tests::victims::{victim, victim_with};

/// Works for half a second in functions that are known, and prints the process's CPU time.
const SCRIPT: &str = "
import time
def work_in_host(end):
    while time.process_time() < end:
        sum(i * i for i in range(1000))
def called_by_host():
    work_in_host(time.process_time() + 0.5)
called_by_host()
print(time.process_time())
";

/// An interpreter's library.
struct Library {
    /// Where it and its kin lie.
    folder: String,
    /// What `-l` takes.
    name: String,
    /// What `PYTHONHOME` takes.
    home: String,
}

/// The libraries of the interpreters that are installed here, as far as they have one.
fn libraries(test: &str) -> Vec<(PathBuf, Library)> {
    let ask = "import sys, sysconfig as s; g = s.get_config_var; \
               print(g('LIBDIR'), 'python' + g('LDVERSION'), sys.base_prefix, g('Py_ENABLE_SHARED'), sep='\\n')";
    let library = |python: &Path| {
        let output = Command::new(python).args(["-c", ask]).output().expect("python");
        let text = String::from_utf8(output.stdout).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        let [folder, name, home, "1"] = lines[..] else { return None };
        Some(Library { folder: folder.to_owned(), name: name.to_owned(), home: home.to_owned() })
    };
    let found: Vec<_> =
        pythons(test).into_iter().filter_map(|python| Some((library(&python)?, python))).collect();
    if found.is_empty() {
        pct_tests::skip(test, "no interpreter here has a shared library");
    }
    found.into_iter().map(|(library, python)| (python, library)).collect()
}

/// A library that needs these, in this order.
fn that_needs(needed: &[&str], folders: &[&str], name: &str) -> PathBuf {
    let mut command = "cc -shared -fPIC -Wl,--no-as-needed".to_owned();
    for folder in folders {
        command += &format!(" -L{folder} -Wl,-rpath,{folder}");
    }
    for library in needed {
        command += &format!(" -l{library}");
    }
    victim_with("plugin.c", &command, name).unwrap_or_else(|e| panic!("{command}: {e}"))
}

/// Its allocator of objects cannot be replaced before it is initialised: the program is told so, and goes on.
#[test]
fn memory_of_a_python_that_is_loaded_late_is_said_to_be_missing() {
    for (_, library) in libraries("memory_of_a_python_that_is_loaded_late_is_said_to_be_missing") {
        let loaded = that_needs(&[&library.name], &[&library.folder], &format!("alloc_{}.so", library.name));
        let keep = tempfile::tempdir().expect("a folder");
        let script = keep.path().join("script.py");
        std::fs::write(&script, SCRIPT).expect("a script");
        let program = victim("pyhost.c");
        let [program, loaded, script] =
            [&program, &loaded, &script].map(|path| path.to_str().expect("UTF-8"));
        let r = run(&["--alloc=64K"], &[program, loaded, &library.home, script, "1"]);
        r.unharmed();
        assert!(r.stderr().contains("Python's allocator could not be wrapped"), "{}", r.stderr());
    }
}

/// Runs the program with CPython inside by these options: it must be read, and `work_in_host` be seen where it
/// runs. The program's own words say how much that is.
fn is_seen(options: &[&str], (python, library): &(PathBuf, Library), loaded: &Path, rounds: &str) {
    let host = victim("pyhost.c");
    let keep = tempfile::tempdir().expect("a folder");
    let script = keep.path().join("script.py");
    std::fs::write(&script, SCRIPT).expect("a script");
    let [host, loaded, script] = [&host, loaded, &script].map(|path| path.to_str().expect("UTF-8"));
    let r = run(options, &[host, loaded, &library.home, script, rounds]);
    r.unharmed();
    let seconds: Vec<f64> = r.stdout().lines().map(|line| line.parse().expect("seconds")).collect();
    let share = 0.5 * seconds.len() as f64 / seconds.last().expect("a round");
    shows_work(python, &r.dir, share);
}

/// The recording in `dir` has `work_in_host` in its stacks, whose share of the samples is the rest of what `share` of
/// them is when the interpreter was not found yet.
fn shows_work(python: &Path, dir: &Path, share: f64) {
    let (mut all, mut seen, mut torn) = (0_u32, 0_u32, 0_u32);
    for bytes in files(dir) {
        let file = File::parse(&bytes).expect("a file");
        let states: Vec<u64> = Index::new(&file).interpreters.iter().map(|found| found.state).collect();
        assert_eq!(states, [InterpreterState::Read as u64], "{}", python.display());
        for stack in stacks(&bytes) {
            all += 1;
            let names: Vec<&str> = functions(&stack).iter().map(|(f, _)| f.simple()).collect();
            torn += u32::from(stack.contains(&StackFrame::Missing(LostCode::Torn)));
            if let Some(at) = names.iter().position(|name| *name == "work_in_host") {
                assert_eq!(
                    names[at..],
                    ["work_in_host", "called_by_host", "<module>"],
                    "{}",
                    python.display()
                );
                seen += 1;
            }
        }
    }
    println!("{}: {seen} of {all} samples, {torn} torn, truth {share:.3}", python.display());
    // A quarter of a second of CPU time may pass until pct looks again, of which the interpreter's start is a part.
    let expected = f64::from(all) * share;
    assert!(f64::from(seen) > expected / 3.0, "{}: {seen} of {all}, not {expected}", python.display());
    assert!(torn <= 5 + all / 2000, "{}: {torn} torn of {all}", python.display());
}

#[test]
fn a_library_that_is_loaded_late_is_read_also_when_its_interpreter_begins_anew() {
    for found in &libraries("a_library_that_is_loaded_late_is_read_also_when_its_interpreter_begins_anew") {
        let library = &found.1;
        let loaded = that_needs(&[&library.name], &[&library.folder], &format!("late_{}.so", library.name));
        is_seen(&[], found, &loaded, "2");
    }
}

#[test]
fn a_library_that_is_seen_before_it_is_relocated_is_read_afterwards() {
    let slow = victim_with("slowload.c", "cc -O1 -shared -fPIC", "libslowload.so").expect("a library");
    let folder = slow.parent().and_then(Path::to_str).expect("UTF-8");
    let all = libraries("a_library_that_is_seen_before_it_is_relocated_is_read_afterwards");
    let load = |found: &(PathBuf, Library), needed: [&str; 2], name: &str| {
        that_needs(&needed, &[folder, &found.1.folder], &format!("{name}_{}.so", found.1.name))
    };
    for found in &all {
        // glibc relocates what comes last first.
        let loaded = load(found, [&found.1.name, "slowload"], "slow");
        is_seen(&[], found, &loaded, "1");
    }
    if let Some(found) = all.last() {
        is_seen(&["--clock", "wall"], found, &load(found, [&found.1.name, "slowload"], "slow"), "1");
        is_seen(&[], found, &load(found, ["slowload", &found.1.name], "slow_other"), "1");
    }
}

/// The program with CPython inside that has the sampler inside too.
fn linked_host() -> PathBuf {
    let command = format!("cc -O1 -g -L{} -Wl,--undefined=pct_on -lpct", libraries::archive().display());
    victim_with("pyhost.c", &command, "linked_pyhost").unwrap_or_else(|e| panic!("{command}: {e}"))
}

#[test]
fn a_program_that_links_the_sampler_shows_its_python() {
    let host = linked_host();
    for (python, library) in &libraries("a_program_that_links_the_sampler_shows_its_python") {
        let keep = tempfile::tempdir().expect("a folder");
        let (script, recording) = (keep.path().join("script.py"), keep.path().join("recording"));
        std::fs::write(&script, SCRIPT).expect("a script");
        let file = Path::new(&library.folder).join(format!("lib{}.so", library.name));
        let mut command = Command::new(&host);
        command.args([&file, Path::new(&library.home), &script]).arg("1");
        let output =
            command.env("PCT", format!("out={},hz=2000", recording.display())).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty(), "{}: {output:?}", python.display());
        let seconds: f64 = said.trim().parse().expect("seconds");
        shows_work(python, &recording, 0.5 / seconds);
    }
}

#[test]
fn a_program_that_links_the_sampler_is_attached_to_and_shows_its_python() {
    let host = linked_host();
    let text = format!("print('ready', flush=True)\n{}", SCRIPT.replace("0.5", "1e9"));
    for (python, library) in
        &libraries("a_program_that_links_the_sampler_is_attached_to_and_shows_its_python")
    {
        let keep = tempfile::tempdir().expect("a folder");
        let (script, recording) = (keep.path().join("script.py"), keep.path().join("recording"));
        std::fs::write(&script, &text).expect("a script");
        let file = Path::new(&library.folder).join(format!("lib{}.so", library.name));
        let mut command = Command::new(&host);
        command.args([&file, Path::new(&library.home), &script]).stdout(Stdio::piped());
        let mut host = Killed(command.spawn().expect("it runs"));
        let mut line = String::new();
        BufReader::new(host.0.stdout.take().expect("its output")).read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n", "{}", python.display());
        let mut pct = Command::new(binary());
        pct.args(["attach", "--method", "3", "--hz", "2000", "--for", "1", "--out"]).arg(&recording);
        let output = pct.arg(host.0.id().to_string()).output().expect("pct");
        assert!(output.status.success(), "{}: {}", python.display(), String::from_utf8_lossy(&output.stderr));
        shows_work(python, &recording, 1.0);
    }
}
