//! What a test that does not come to its end waits for: each process below it, and where its threads are.
//!
//! The runner ends a test after five minutes (`.config/nextest.toml`) and says nothing but that. What waited for whom
//! is gone then, and a fault that shows once in thousands of runs is not found by trying again.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{read, read_dir, read_to_string};
use std::time::Duration;

/// After this time a test is told to stand still: some seconds before the runner ends it.
const LONG: Duration = Duration::from_secs(285);

/// Says on stderr what the processes below this one wait for, when they are there after [`LONG`].
pub fn watch() {
    std::thread::spawn(|| {
        std::thread::sleep(LONG);
        let waiting = below(std::process::id());
        eprintln!("the test has not ended after {} s; its processes:\n{waiting}", LONG.as_secs());
    });
}

/// Some lines for each process below `root`: its command line, and for each thread its name, its state, who traces it,
/// the system call that it is in with its arguments, and, where we may see it, its stack in the kernel.
#[must_use]
pub fn below(root: u32) -> String {
    let mut text = String::new();
    let mut seen = BTreeSet::new();
    let mut next = children(root);
    while let Some(pid) = next.pop() {
        if !seen.insert(pid) {
            continue;
        }
        next.extend(children(pid));
        let line = String::from_utf8_lossy(&read(format!("/proc/{pid}/cmdline")).unwrap_or_default())
            .replace('\0', " ");
        let _ = writeln!(text, "{pid}: {}", line.trim_end());
        for tid in numbers_in(&format!("/proc/{pid}/task")) {
            let _ = writeln!(text, "    {}", thread(pid, tid));
        }
    }
    text
}

fn thread(pid: u32, tid: u32) -> String {
    let file = |name: &str| read_to_string(format!("/proc/{pid}/task/{tid}/{name}")).unwrap_or_default();
    let status = file("status");
    let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("?").trim();
    let stack: Vec<String> = file("stack").lines().map(|line| line.replace("[<0>] ", "")).collect();
    format!(
        "{tid} {}: {}, traced by {}, system call {}; {}",
        field("Name:"),
        field("State:"),
        field("TracerPid:"),
        file("syscall").trim(),
        stack.join(" < ")
    )
}

/// The processes that the threads of a process have made.
fn children(pid: u32) -> Vec<u32> {
    let task = format!("/proc/{pid}/task");
    let lists = numbers_in(&task).into_iter().map(|tid| read_to_string(format!("{task}/{tid}/children")));
    let lists: Vec<String> = lists.map(Result::unwrap_or_default).collect();
    lists.iter().flat_map(|list| list.split_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
}

fn numbers_in(folder: &str) -> Vec<u32> {
    let entries = read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod live {
    use super::below;
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    #[test]
    fn each_process_below_is_named_with_what_it_waits_for() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo; wait"]).stdout(Stdio::piped());
        let mut shell = command.spawn().expect("there is a shell");
        shell.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("it begins");
        let sleeps = "sleep: S (sleeping), traced by 0, system call ";
        let text = pct_kit::wait::wait_for("both to wait", || {
            let text = below(std::process::id());
            (text.contains(sleeps) && text.contains("sh: S (sleeping)")).then_some(text)
        });
        let line = text.lines().find_map(|line| line.split(sleeps).nth(1)).expect("it was there");
        let number: u32 = line.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
        assert!(number > 0, "{text}");
        let pid = text.lines().find_map(|line| line.strip_suffix(": sleep 1000")).expect("its command line");
        Command::new("kill").arg(pid).status().expect("kill can be run");
        shell.wait().expect("a child");
    }
}
