//! The victims: small programs under `tests/victims`, built once into a cache folder with the command in
//! their first line (`build: cc -O2 ...`), and rebuilt when a source there changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Builds `tests/victims/SOURCE` if needed; the path of the program.
///
/// # Panics
/// When the compiler fails: a victim that does not build is a broken test suite.
pub fn victim(source: &str) -> PathBuf {
    let command = build_line(&folder().join(source));
    build(source, &command, stem(source))
        .unwrap_or_else(|e| panic!("victim {source} does not build with `{command}`:\n{e}"))
}

/// Builds `source` by another command (`musl-gcc -O2 -static`, say) under the name `name`; `Err` has the
/// compiler's words.
pub fn victim_with(source: &str, command: &str, name: &str) -> Result<PathBuf, String> {
    build(source, command, name)
}

fn folder() -> PathBuf {
    crate::root().join("tests/victims")
}

fn stem(source: &str) -> &str {
    source.split('.').next().unwrap_or(source)
}

fn build_line(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let line = text.lines().next().unwrap_or_default();
    let (_, command) =
        line.split_once("build: ").unwrap_or_else(|| panic!("{}: no build line", path.display()));
    command.trim_end_matches("*/").trim().to_owned()
}

fn newest_source() -> SystemTime {
    let times = fs::read_dir(folder()).expect("tests/victims is there").flatten();
    times.filter_map(|f| f.metadata().ok()?.modified().ok()).max().unwrap_or(SystemTime::UNIX_EPOCH)
}

fn build(source: &str, command: &str, name: &str) -> Result<PathBuf, String> {
    let cache = crate::root().join("target/victims");
    fs::create_dir_all(&cache).map_err(|e| e.to_string())?;
    let out = cache.join(name);
    let built = fs::metadata(&out).and_then(|m| m.modified());
    if built.is_ok_and(|t| t > newest_source()) {
        return Ok(out);
    }
    // Tests run in parallel: each builds aside and renames, so nobody ever runs half a program. There is no other dot
    // in the name: rustc names its own files by what is before the last one.
    let aside = cache.join(format!(".{name}-{}-{:?}", std::process::id(), std::thread::current().id()));
    let mut words = command.split_whitespace();
    let compiler = words.next().ok_or("empty build line")?;
    let (libs, flags): (Vec<&str>, Vec<&str>) = words.partition(|w| w.starts_with("-l"));
    let mut done = Command::new(compiler);
    done.args(flags);
    if compiler != "rustc" {
        done.arg("-I").arg(folder());
    }
    let done = done
        .arg(folder().join(source))
        .args(libs)
        .arg("-o")
        .arg(&aside)
        .output()
        .map_err(|e| format!("{compiler}: {e}"))?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    fs::rename(&aside, &out).map_err(|e| e.to_string())?;
    Ok(out)
}

/// The lines `WORD NAME VALUE` of a victim's output whose first word is `kind`: `truth`, `thread`.
pub fn values(stdout: &str, kind: &str) -> Vec<(String, f64)> {
    stdout
        .lines()
        .filter_map(|l| {
            let mut w = l.split_whitespace();
            (w.next() == Some(kind)).then(|| Some((w.next()?.to_owned(), w.next()?.parse().ok()?)))?
        })
        .collect()
}

/// The truth of a victim's output, summed by function.
pub fn truth(stdout: &str) -> Vec<(String, f64)> {
    let mut sums: Vec<(String, f64)> = Vec::new();
    for (name, value) in values(stdout, "truth") {
        match sums.iter_mut().find(|(n, _)| *n == name) {
            Some((_, s)) => *s += value,
            None => sums.push((name, value)),
        }
    }
    assert!(!sums.is_empty(), "the victim printed no truth:\n{stdout}");
    sums
}
