//! python: what the frames of CPython add to a sample, 10, 23 and 100 of them deep; each version that pyenv
//! has built as a library.
//!
//! The same program with `python=on` and `python=off`: this program embeds the interpreter and calls itself
//! back from the bottom of a Python stack of 40 functions in turn, so both have the same native stack.
//! Nanoseconds by self-sent signals as in `handler`; on a machine with other work to do the least round says
//! more than the median. Beside them the library's instructions and system calls, counted by single steps: the same on
//! every machine, whatever else it does. With PCT_BENCH_ROUNDS=0 they are all that is measured.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;

use pct_kit::median;

use crate::{copy_of, milliseconds, myself, rounds, send, time_signals};

const DEPTHS: [usize; 3] = [10, 23, 100];

pub(crate) fn table(library: &Path) {
    println!(
        "python: what Python's frames add to a sample, median and least of the rounds, by self-sent signals"
    );
    println!(
        "  {:8} {:>7} {:>9} {:>13} {:>20} {:>13} {:>13}",
        "version", "frames", "added", "least round", "without Python", "instructions", "system calls"
    );
    for home in versions() {
        for depth in DEPTHS {
            let (mut added, mut without) = (Vec::new(), Vec::new());
            let timed = if pct_kit::asked("PCT_BENCH_ROUNDS", 1.0) > 0.0 { rounds(4) } else { 0 };
            for _ in 0..timed {
                // There and back: what drifts cancels.
                let [off, on, on_again, off_again] =
                    ["off", "on", "on", "off"].map(|python| nanoseconds(library, &home, depth, python));
                let (Some(off), Some(on), Some(on_again), Some(off_again)) = (off, on, on_again, off_again)
                else {
                    continue;
                };
                added.push((on + on_again - off - off_again) / 2.0);
                without.push((off + off_again) / 2.0);
            }
            let version = home.file_name().unwrap_or_default().to_string_lossy();
            let least = added.iter().copied().fold(f64::NAN, f64::min);
            let [(steps, calls), (steps_off, calls_off)] =
                ["on", "off"].map(|python| steps(library, &home, depth, python));
            println!(
                "  {version:8} {depth:>7} {:6.0} ns {least:10.0} ns {:17.0} ns {:13.0} {:13.0}",
                median(added),
                median(without),
                steps - steps_off,
                calls - calls_off
            );
        }
    }
}

/// Homes of the interpreters that were built as a library.
fn versions() -> Vec<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv")));
    let entries = root.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    let wanted = std::env::var("PCT_TEST_PYTHONS").unwrap_or_default();
    let mut homes: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|home| {
            minor(home).is_some_and(|minor| (8..=13).contains(&minor)) && library_of(home).exists()
        })
        .filter(|home| home.to_string_lossy().contains(&wanted))
        .collect();
    homes.sort_by_key(|home| minor(home));
    if homes.is_empty() {
        println!("  no version of pyenv here was built with --enable-shared");
    }
    homes
}

fn minor(home: &Path) -> Option<u8> {
    home.file_name()?.to_str()?.strip_prefix("3.")?.split('.').next()?.parse().ok()
}

fn library_of(home: &Path) -> PathBuf {
    home.join(format!("lib/libpython3.{}.so.1.0", minor(home).unwrap_or(0)))
}

fn command(library: &Path, folder: &Path, home: &Path, depth: usize, python: &str) -> Command {
    let mut command = myself("python");
    // 1 Hz: nearly all signals are the self-sent ones.
    let options = format!("out={},clock=perf,hz=1,limit=512K,stack=auto,python={python}", folder.display());
    command
        .env("LD_PRELOAD", copy_of(library, folder))
        .env("PCT", options)
        .env("PYTHONHOME", home)
        .env("PCT_BENCH_PYTHON", library_of(home))
        .env("PCT_BENCH_DEPTH", depth.to_string());
    command
}

fn nanoseconds(library: &Path, home: &Path, depth: usize, python: &str) -> Option<f64> {
    let folder = tempfile::tempdir().expect("a folder");
    let output = command(library, folder.path(), home, depth, python).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let number = said.split_whitespace().next().and_then(|word| word.parse().ok());
    if number.is_none() {
        println!("  {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    number
}

/// The library's instructions and system calls for the first signal of a stack that is known.
fn steps(library: &Path, home: &Path, depth: usize, python: &str) -> (f64, f64) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = command(library, folder.path(), home, depth, python);
    let mut child = command.env("PCT_BENCH_COUNTED", "1").spawn().expect("it runs");
    let pid = child.id().cast_signed();
    // SAFETY: requests about a child of our own that has asked to be traced; they write into `regs` alone.
    let counted = unsafe {
        let mut status = 0;
        let mut library = 0..0;
        let (mut steps, mut calls, mut signals) = (0.0, 0.0, 0);
        loop {
            if libc::waitpid(pid, &raw mut status, 0) != pid || !libc::WIFSTOPPED(status) {
                break;
            }
            let signal = match libc::WSTOPSIG(status) {
                libc::SIGTRAP => 0,
                libc::SIGSTOP => {
                    library = code_of(pid, "libpct.so");
                    0
                }
                signal => {
                    signals += 1;
                    signal
                }
            };
            let mut regs: libc::user_regs_struct = std::mem::zeroed();
            libc::ptrace(libc::PTRACE_GETREGS, pid, 0, &raw mut regs);
            if library.contains(&regs.rip) && signals == 1 {
                steps += 1.0;
                let code = libc::ptrace(libc::PTRACE_PEEKTEXT, pid, regs.rip, 0);
                // The instruction `syscall`.
                calls += if code & 0xffff == 0x050f { 1.0 } else { 0.0 };
            }
            // Until it is warm it runs; signals of that time are its own.
            let request = if library.is_empty() { libc::PTRACE_CONT } else { libc::PTRACE_SINGLESTEP };
            libc::ptrace(request, pid, 0, signal);
        }
        (steps, calls)
    };
    // What it was is known by `waitpid`.
    let _ = child.wait();
    counted
}

/// Where the code of an object lies in a process.
fn code_of(pid: i32, name: &str) -> std::ops::Range<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let line = maps.lines().find(|line| line.ends_with(name) && line.contains(" r-xp "));
    let (first, end) = line.and_then(|line| line.split(' ').next()?.split_once('-')).unwrap_or(("0", "0"));
    let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
    number(first)..number(end)
}

/// At the bottom of the Python stack.
extern "C" fn bottom() {
    if std::env::var_os("PCT_BENCH_COUNTED").is_none() {
        println!("{:.1}", time_signals().0);
        return;
    }
    // All from one place: the stack that is counted is known then.
    let end = milliseconds() + 800;
    let mut is_counted = false;
    while !is_counted {
        is_counted = milliseconds() > end;
        if is_counted {
            // SAFETY: this process asks to be traced, and stops.
            unsafe {
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                libc::raise(libc::SIGSTOP);
            }
        }
        send(libc::SIGURG);
    }
    // SAFETY: it ends.
    unsafe { libc::_exit(0) }
}

/// The program: embeds the interpreter and goes down.
pub(crate) fn inside() {
    let depth = pct_kit::asked("PCT_BENCH_DEPTH", 10usize);
    let path = std::env::var("PCT_BENCH_PYTHON").expect("the library's path");
    // The module and the last function are frames too.
    let script = format!(
        "import ctypes\n\
         bottom = ctypes.CFUNCTYPE(None)({:#x})\n\
         functions = []\n\
         for i in range(40):\n\
         \x20   exec(f'def f{{i}}(n):\\n    return functions[(n - 1) % 40](n - 1) if n else bottom()\\n')\n\
         \x20   functions.append(globals()[f'f{{i}}'])\n\
         functions[{depth} % 40]({depth} - 2)\n",
        bottom as *const () as usize
    );
    let path = CString::new(path).expect("no NUL");
    let script = CString::new(script).expect("no NUL");
    // SAFETY: these functions of CPython's interface have these types in every version.
    unsafe {
        let python = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        assert!(!python.is_null(), "{path:?} cannot be loaded");
        let initialize = libc::dlsym(python, c"Py_Initialize".as_ptr());
        let run = libc::dlsym(python, c"PyRun_SimpleString".as_ptr());
        assert!(!initialize.is_null() && !run.is_null());
        let initialize: extern "C" fn() = std::mem::transmute(initialize);
        let run: extern "C" fn(*const libc::c_char) -> libc::c_int = std::mem::transmute(run);
        initialize();
        assert_eq!(run(script.as_ptr()), 0);
    }
}
