//! python: what the frames of CPython add to a sample, 10, 23 and 100 of them deep; each version that pyenv has built as a library.
//!
//! The same program with `python=on` and `python=off`: this program embeds the interpreter and calls itself back from the bottom
//! of a Python stack of 40 functions in turn, so both have the same native stack. Nanoseconds by self-sent signals as in `handler`;
//! on a machine with other work to do the least round says more than the median.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;

use pct_kit::median;

use crate::{copy_of, myself, rounds, time_signals};

const DEPTHS: [usize; 3] = [10, 23, 100];
pub(crate) fn table(library: &Path) {
    println!(
        "python: what Python's frames add to a sample, median and least of the rounds, by self-sent signals"
    );
    println!(
        "  {:8} {:>7} {:>9} {:>13} {:>20}",
        "version", "frames", "added", "least round", "without Python"
    );
    for home in versions() {
        for depth in DEPTHS {
            let (mut added, mut without) = (Vec::new(), Vec::new());
            for _ in 0..rounds(4) {
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
            println!(
                "  {version:8} {depth:>7} {:6.0} ns {least:10.0} ns {:17.0} ns",
                median(added),
                median(without)
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

/// At the bottom of the Python stack.
extern "C" fn bottom() {
    println!("{:.1}", time_signals().0);
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
