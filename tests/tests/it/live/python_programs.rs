//! Python functions in programs as people have them: numpy, asyncio, pytest, a pool of processes, a server of
//! gunicorn, C that calls Python back. Each version of Python that is installed; who may call whom is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use pct_format::record::LostCode;
use pct_kit::started::Killed;
use pct_tests::pct::{binary, run};
use pct_tests::python::{StackFrame, files, functions, stacks};
use pct_tests::pythons::{package, pythons};

/// A function of the program, who may call it, and whether native frames lie between.
struct Call {
    callee: &'static str,
    callers: &'static [&'static str],
    through_c: bool,
    /// Who makes it, if it is a coroutine: the call that makes one runs the first instructions of its frame.
    makers: &'static [&'static str],
}

const fn call(callee: &'static str, callers: &'static [&'static str]) -> Call {
    Call { callee, callers, through_c: false, makers: &[] }
}

const fn through_c(callee: &'static str, callers: &'static [&'static str]) -> Call {
    Call { callee, callers, through_c: true, makers: &[] }
}

const fn coroutine(
    callee: &'static str,
    callers: &'static [&'static str],
    makers: &'static [&'static str],
) -> Call {
    Call { callee, callers, through_c: true, makers }
}

/// What the stacks of a program are.
#[derive(Debug, Default)]
struct Seen {
    samples: u32,
    /// Samples by the functions of the program's own file in their stacks.
    with: BTreeMap<String, u32>,
    /// Stacks whose Python half is missing.
    torn: u32,
    impossible: BTreeSet<String>,
}

/// The stacks of the recordings in `dir`, of the program whose file is named `script`.
fn seen(dir: &Path, script: &str, calls: &[Call]) -> Seen {
    let mut seen = Seen::default();
    for stack in files(dir).iter().flat_map(|bytes| stacks(bytes)) {
        seen.samples += 1;
        seen.torn += u32::from(stack.contains(&StackFrame::Missing(LostCode::Torn)));
        let found = functions(&stack);
        let own: BTreeSet<&str> =
            found.iter().filter(|(f, _)| f.file.ends_with(script)).map(|(f, _)| f.simple()).collect();
        for name in own {
            *seen.with.entry(name.to_owned()).or_default() += 1;
        }
        for pair in found.windows(2) {
            let [(callee, _), (caller, native)] = *pair else { continue };
            let Some(call) = calls.iter().find(|call| call.callee == callee.simple()) else { continue };
            let is_called = call.callers.contains(&caller.simple()) && (native || !call.through_c);
            let right = is_called || call.makers.contains(&caller.simple());
            if callee.file.ends_with(script) && !right {
                let (name, line) = (&caller.name, caller.line);
                seen.impossible.insert(format!("{} from {name}:{line}, native {native}", callee.name));
            }
        }
    }
    seen
}

impl Seen {
    /// Each caller is one of those listed, no Python half is missing but by rare chance, and all of `met` were met: by
    /// the work that they do, tens of samples of each are to be expected.
    fn is_right(&self, python: &Path, met: &[&str]) {
        let python = python.display();
        println!("{python}: {self:?}");
        assert!(self.impossible.is_empty(), "{python}: {self:#?}");
        // As many as in the tests of callers.
        assert!(self.torn <= 5 + self.samples / 2000, "{python}: {self:?}");
        for name in met {
            assert!(self.with.get(*name).is_some_and(|count| *count > 0), "{python}: {name}: {self:?}");
        }
    }
}

/// A script in a folder of its own.
fn script(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a script");
    (folder, path)
}

/// Runs a script with every version, and looks at its stacks. `wants`: the package that it imports.
fn runs(test: &str, wants: Option<&str>, text: &str, calls: &[Call], met: &[&str]) {
    for python in pythons(test) {
        let text = match wants.map(|name| package(test, &python, name)) {
            Some(None) => continue,
            Some(Some(folder)) => format!("import sys; sys.path.insert(0, {folder:?})\n{text}"),
            None => text.to_owned(),
        };
        let (_keep, path) = script("program.py", &text);
        let command = [&python, &path].map(|path| path.to_str().expect("UTF-8"));
        let r = run(&["--hz", "2000"], &command);
        r.unharmed();
        seen(&r.dir, "program.py", calls).is_right(&python, met);
    }
}

#[test]
fn numpy_is_below_the_function_that_calls_it() {
    let text = "
import numpy, time
def multiply(a):
    return a @ a
def row(values):
    return sum([float(numpy.sort(values)[i]) for i in range(10)])
def apply(a):
    numpy.apply_along_axis(row, 1, a)
def arrange(a):
    numpy.sort(a, axis=None)
def work(a, end):
    while time.process_time() < end:
        multiply(a)
        apply(a)
        arrange(a)
work(numpy.random.rand(300, 300), time.process_time() + 0.6)
";
    let calls = [
        call("multiply", &["work"]),
        call("apply", &["work"]),
        call("arrange", &["work"]),
        call("row", &["apply_along_axis"]),
        call("work", &["<module>"]),
    ];
    let test = "numpy_is_below_the_function_that_calls_it";
    runs(test, Some("numpy"), text, &calls, &["multiply", "row", "apply", "arrange", "work"]);
}

#[test]
fn coroutines_are_called_by_those_that_await_them() {
    let text = "
import asyncio, time
def spin(n):
    return sum([i * i for i in range(n)])
async def leaf(n):
    spin(n)
    await asyncio.sleep(0)
    spin(n)
async def numbers(n):
    for i in range(n):
        await leaf(2000)
        yield i
async def work(n):
    async for i in numbers(n):
        spin(500)
async def main():
    end = time.process_time() + 0.6
    while time.process_time() < end:
        await asyncio.gather(*[work(5) for _ in range(10)])
asyncio.run(main())
";
    // A task's step is a function of C, or of Python in none of these versions; it is called by a handle.
    let calls = [
        call("spin", &["leaf", "work"]),
        call("leaf", &["numbers"]),
        call("numbers", &["work"]),
        coroutine("work", &["_run", "main"], &["<listcomp>", "main"]),
        coroutine("main", &["_run", "run"], &["<module>"]),
    ];
    let test = "coroutines_are_called_by_those_that_await_them";
    runs(test, None, text, &calls, &["spin", "leaf", "numbers", "work"]);
}

#[test]
fn what_c_calls_back_is_below_the_function_that_called_c() {
    let text = "
import ctypes, time
libc = ctypes.CDLL(None)
KIND = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
def sign(a, b):
    return (a > b) - (a < b)
def compare(a, b):
    return sign(a[0], b[0])
def arrange(n):
    numbers = (ctypes.c_int * n)(*[(i * 7919) % n for i in range(n)])
    libc.qsort(numbers, n, 4, KIND(compare))
end = time.process_time() + 0.6
while time.process_time() < end:
    arrange(2000)
";
    let calls =
        [call("sign", &["compare"]), through_c("compare", &["arrange"]), call("arrange", &["<module>"])];
    let test = "what_c_calls_back_is_below_the_function_that_called_c";
    runs(test, None, text, &calls, &["sign", "compare", "arrange"]);
}

#[test]
fn the_processes_of_a_pool_have_their_functions_however_they_begin() {
    let text = "
import concurrent.futures, multiprocessing
def spin(n):
    return sum([i * i for i in range(n)])
def job(n):
    return [spin(n) for _ in range(10)]
if __name__ == '__main__':
    for way in ('fork', 'spawn', 'forkserver'):
        context = multiprocessing.get_context(way)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            assert len(list(pool.map(job, [20000] * 10))) == 10
";
    let calls = [
        call("spin", &["job", "<listcomp>"]),
        call("job", &["_process_chunk", "<listcomp>", "_process_worker"]),
    ];
    let test = "the_processes_of_a_pool_have_their_functions_however_they_begin";
    runs(test, None, text, &calls, &["spin", "job"]);
}

#[test]
fn pytest_calls_tests_and_fixtures() {
    let text = "
import pytest
def spin(n):
    return sum([i * i for i in range(n)])
@pytest.fixture
def thing():
    spin(30000)
    yield 3
    spin(30000)
@pytest.mark.parametrize('n', range(20))
def test_numbers(n, thing):
    assert spin(60000) >= 0
class TestThings:
    def test_method(self, thing):
        with pytest.raises(ZeroDivisionError):
            spin(60000)
            1 / 0
if __name__ == '__main__':
    sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', __file__]))
";
    let calls = [
        call("spin", &["thing", "test_numbers", "test_method"]),
        call("test_numbers", &["pytest_pyfunc_call"]),
        call("test_method", &["pytest_pyfunc_call"]),
    ];
    runs("pytest_calls_tests_and_fixtures", Some("pytest"), text, &calls, &["spin", "test_numbers", "thing"]);
}

#[test]
fn a_server_of_gunicorn_shows_its_requests() {
    let test = "a_server_of_gunicorn_shows_its_requests";
    let text = "
import os
def spin(n):
    return sum([i * i for i in range(n)])
def handle():
    return spin(60000)
def application(environment, start):
    handle()
    start('200 OK', [('Content-Type', 'text/plain')])
    return [b'pid %d' % os.getppid()]
";
    let calls = [
        call("spin", &["handle"]),
        call("handle", &["application"]),
        call("application", &["handle_request"]),
    ];
    for python in pythons(test) {
        let Some(package) = package(test, &python, "gunicorn") else { continue };
        let (keep, _) = script("served.py", text);
        let recording = keep.path().join("recording");
        let socket = keep.path().join("socket");
        let mut pct = Command::new(binary());
        pct.args(["run", "--no-report", "--hz", "2000", "--out"]).arg(&recording).arg("--").arg(&python);
        pct.args(["-m", "gunicorn", "-w", "2", "-k", "gthread", "--threads", "2", "--bind"]);
        pct.arg(format!("unix:{}", socket.display())).arg("served:application");
        pct.env("PYTHONPATH", package).current_dir(keep.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Killed(pct.spawn().expect("pct"));
        let mut master = String::new();
        for _ in 0..60 {
            let mut answer = String::new();
            let mut stream = loop {
                match UnixStream::connect(&socket) {
                    Ok(stream) => break stream,
                    Err(_) => assert!(server.0.try_wait().expect("a status").is_none(), "it ended"),
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("a request");
            stream.read_to_string(&mut answer).expect("an answer");
            master = answer.rsplit("pid ").next().unwrap_or_default().to_owned();
        }
        let killed = Command::new("kill").args(["-TERM", &master]).status().expect("kill");
        assert!(killed.success() && server.0.wait().expect("its end").success(), "{}", python.display());
        seen(&recording, "served.py", &calls).is_right(&python, &["spin", "handle", "application"]);
    }
}
