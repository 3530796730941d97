//! Plants each fault of `tests/faults.md` in the sources, runs its test and expects the test to fail.
//!
//!     cargo run -p lttv-engine --example faults [-- ID...]
//!
//! Each of the two texts may have several lines. White space in the old text matches any white space, so that
//! formatting does not matter. The sources are restored after each fault, also after an error. Only a kill in between
//! leaves a fault in them (`git diff` shows it).

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

struct Fault {
    id: String,
    title: String,
    file: PathBuf,
    package: String,
    test: String,
    old: String,
    new: String,
}

fn parse(text: &str, root: &Path) -> Vec<Fault> {
    let mut faults = Vec::new();
    for section in text.split("\n## ").skip(1) {
        let mut lines = section.lines();
        let heading = lines.next().unwrap_or("");
        let place: Vec<&str> = lines.next().unwrap_or("").split(' ').collect();
        let text: Vec<&str> = lines.collect();
        let starting = |mark: &str| {
            text.iter().filter_map(|line| line.strip_prefix(mark)).collect::<Vec<_>>().join("\n")
        };
        let (old, new) = (starting("- "), starting("+ "));
        let (id, title) = heading.split_once(' ').unwrap_or((heading, ""));
        assert_eq!(place.len(), 3, "{heading}: the second line is FILE CRATE TEST");
        faults.push(Fault {
            id: id.into(),
            title: title.into(),
            file: root.join(place[0]),
            package: place[1].into(),
            test: place[2].into(),
            old,
            new,
        });
    }
    faults
}

/// Begin and end of the only occurrence of the words of `old`, with any white space between them.
fn find(text: &str, old: &str) -> Result<(usize, usize), String> {
    let words: Vec<&str> = old.split_whitespace().collect();
    let first = words.first().ok_or("no old text")?;
    let mut found = Vec::new();
    for (at, _) in text.match_indices(first) {
        let mut end = at;
        let fits = words.iter().all(|word| {
            let gap = text[end..].len() - text[end..].trim_start().len();
            let fits = text[end + gap..].starts_with(word);
            end += gap + word.len();
            fits
        });
        if fits {
            found.push((at, end));
        }
    }
    match found[..] {
        [place] => Ok(place),
        _ => Err(format!("the old text occurs {} times", found.len())),
    }
}

/// Restores the file when dropped.
struct Restore<'a>(&'a Path, String);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(self.0, &self.1) {
            eprintln!("{} could not be put back: {error}", self.0.display());
        }
    }
}

fn try_fault(fault: &Fault) -> Result<String, String> {
    let text = std::fs::read_to_string(&fault.file).map_err(|error| error.to_string())?;
    let (begin, end) = find(&text, &fault.old)?;
    let changed = format!("{}{}{}", &text[..begin], fault.new, &text[end..]);
    let _restore = Restore(&fault.file, text);
    std::fs::write(&fault.file, changed).map_err(|error| error.to_string())?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output =
        cargo.args(["test", "-q", "-p", &fault.package, &fault.test]).env("RUST_BACKTRACE", "0").output();
    let output = output.map_err(|error| error.to_string())?;
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if said.contains("could not compile") {
        let error = said.lines().find(|line| line.starts_with("error")).unwrap_or("");
        return Err(format!("it does not compile: {error}"));
    }
    if output.status.success() || !said.contains("test result: FAILED") {
        return Err("the test does not fail".into());
    }
    Ok(fault.test.clone())
}

fn main() -> ExitCode {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = here.join("tests/faults.md");
    let text = std::fs::read_to_string(&list).expect("the list of faults is beside the tests");
    let root = here.parent().expect("the crate is in a room");
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut bad = 0;
    for fault in parse(&text, root) {
        if !wanted.is_empty() && !wanted.contains(&fault.id) {
            continue;
        }
        match try_fault(&fault) {
            Ok(test) => println!("{:<5} found by {test}", fault.id),
            Err(why) => {
                bad += 1;
                println!("{:<5} NOT SHOWN ({}): {why}", fault.id, fault.title);
            }
        }
    }
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
