//! What a process costs that begins and ends without a sample: most that a shell makes do.
//!
//! Counted, not timed: what the kernel is asked for, and the pages that are touched for the first time (1 to 5 us each,
//! with what it takes to give them back).

use std::path::Path;
use std::process::Command;

use pct_kit::harm::unharmed;
use pct_kit::libraries;

use crate::run::compiled;

/// Objects of a program that has many.
const OBJECTS: usize = 200;
/// Most bytes that we read for each of them: pages of its tables, a look at the list of mappings for all of them.
/// (Measured: 15,100. It was 42,500 while the list was read up to each object.)
const READ_FOR_EACH: f64 = 24e3;
/// Functions of each: 84 KB of unwind data.
const FUNCTIONS: usize = 3000;
/// Most page faults that each may cost. (Measured: 2.7. It was 26 while unwind data were copied before a walk needed
/// them.)
const FAULTS_FOR_EACH: f64 = 6.0;
/// A program that does nothing.
const PROGRAM: &str = "/bin/true";
/// Processes over which faults are averaged: how many a library takes depends on where it is mapped.
const PROCESSES: usize = 100;
/// Most faults of a process that are ours, on average. (Measured: 13.5 to 14.5. They were 20 while code that each
/// start runs lay all over the library, and each start touched four pages of the session.)
const FAULTS: f64 = 17.0;
/// Processes of which the one with the fewest system calls is taken.
const TRACED: usize = 10;
/// Most system calls of a process that are ours. (Measured: 43, of which the loader makes 7.)
const CALLS: usize = 44;

/// What a process is given to be sampled; its folder is one as `pct run` makes it. At this rate none has a
/// sample, which would take many faults and calls more.
fn variables(folder: &Path) -> [(&'static str, String); 2] {
    std::fs::write(folder.join("pct.status"), "").expect("a file");
    let options = format!("hz=1,out={}/", folder.display());
    [("LD_PRELOAD", libraries::plain().display().to_string()), ("PCT", options)]
}

/// Minor faults of all children that were waited for.
fn faults_of_children() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("our own");
    let fields = stat.rsplit_once(')').expect("a name").1;
    fields.split_whitespace().nth(8).and_then(|field| field.parse().ok()).expect("proc(5): cminflt")
}

fn faults_of_each(variables: &[(&str, String)]) -> f64 {
    let before = faults_of_children();
    for _ in 0..PROCESSES {
        let mut command = Command::new(PROGRAM);
        unharmed(&command.envs(variables.iter().cloned()).output().expect("it can be run"));
    }
    (faults_of_children() - before) as f64 / PROCESSES as f64
}

#[test]
fn a_short_process_touches_few_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let variables = variables(folder.path());
    let bare = faults_of_each(&[]);
    let with = faults_of_each(&variables);
    assert!(bare > 20.0 && with - bare < FAULTS, "{bare} bare, {with} with the library");
    let told = std::fs::read_to_string(folder.path().join("pct.status")).expect("it is there");
    assert!(told.lines().count() > PROCESSES / 2, "most were sampled, and had no sample: {told}");
}

#[test]
fn a_short_process_asks_the_kernel_for_little() {
    let folder = tempfile::tempdir().expect("a folder");
    let variables = variables(folder.path());
    let file = folder.path().join("calls");
    let once = |variables: &[(&str, String)]| -> Result<usize, String> {
        let mut strace = Command::new("strace");
        strace.arg("-o").arg(&file);
        for (name, value) in variables {
            strace.args(["-E", &format!("{name}={value}")]);
        }
        let output = strace.arg(PROGRAM).output().map_err(|why| format!("no strace ({why})"))?;
        if String::from_utf8_lossy(&output.stderr).contains("Operation not permitted") {
            return Err("strace may not trace here".to_owned());
        }
        unharmed(&output);
        Ok(std::fs::read_to_string(&file).expect("strace writes").lines().count())
    };
    // The least of some: a process that runs at a tick of the kernel's has a round of the housekeeper's.
    let calls = |variables: &[(&str, String)]| {
        (0..TRACED).try_fold(usize::MAX, |least, _| once(variables).map(|calls| calls.min(least)))
    };
    let (bare, with) = match (calls(&[]), calls(&variables)) {
        (Ok(bare), Ok(with)) => (bare, with),
        (Err(why), _) | (_, Err(why)) => return pct_kit::skip(&why),
    };
    let ours = with.saturating_sub(bare);
    assert!(ours > 10 && ours <= CALLS, "{bare} bare, {with} with the library");
}

#[test]
fn of_each_of_many_objects_little_is_read() {
    let Some(program) = compiled("hostile") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("one.s");
    let object = folder.path().join("one.so");
    let function = ".cfi_startproc\nret\n.cfi_endproc\n";
    std::fs::write(&source, format!(".section .note.GNU-stack\n.text\n{}", function.repeat(FUNCTIONS)))
        .expect("a file");
    let cc =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&object).arg(&source).status().expect("cc");
    assert!(cc.success(), "an object");
    for i in 1..OBJECTS {
        std::fs::copy(&object, folder.path().join(format!("{i}.so"))).expect("a copy");
    }
    let out = tempfile::tempdir().expect("a folder");
    // Bytes read, and page faults.
    let cost = |variables: &[(&str, String)]| -> [f64; 2] {
        let mut command = Command::new(&program);
        command.arg("objects").arg(folder.path()).envs(variables.iter().cloned());
        let output = command.output().expect("it can be run");
        unharmed(&output);
        let said = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        numbers.try_into().unwrap_or_else(|_| panic!("two numbers: {said}"))
    };
    let [library, (name, _)] = variables(out.path());
    let bare = cost(&[]);
    let with = cost(&[library, (name, format!("hz=997,out={}/", out.path().display()))]);
    let [read, faults] = [0, 1].map(|which| (with[which] - bare[which]) / OBJECTS as f64);
    let figures = format!("bare {bare:?} bytes and faults, with the library {with:?}");
    assert!(read > 500.0 && read < READ_FOR_EACH, "{figures}");
    assert!(faults < FAULTS_FOR_EACH, "{figures}");
}
