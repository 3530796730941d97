//! The shipped `pct` binary, run as people run it, and what it reports, as rows.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The `pct` binary: `PCT_BIN` when set (tests/run sets it), else the release build, made or refreshed by cargo.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(given) = std::env::var_os("PCT_BIN") {
            return given.into();
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let done = Command::new(cargo)
            .args(["build", "-q", "--release", "-p", "pct"])
            .current_dir(crate::root())
            .status()
            .expect("cargo can be run");
        assert!(done.success(), "pct does not build");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(crate::root().join("target"), PathBuf::from);
        target.join("release/pct")
    })
}

/// libpct.so as `pct` carries it, for programs that are started by hand.
///
/// # Panics
/// When `pct lib` fails.
pub fn library() -> PathBuf {
    let out = Command::new(binary()).args(["lib", "--path"]).output().expect("pct can be run");
    assert!(out.status.success(), "pct lib failed: {}", String::from_utf8_lossy(&out.stderr));
    PathBuf::from(String::from_utf8_lossy(&out.stdout).trim_end())
}

/// What one `pct run` left behind.
pub struct Run {
    /// The command's (and pct's) exit status and streams.
    pub output: Output,
    /// The recording's folder; lives as long as this value.
    pub dir: PathBuf,
    keep: tempfile::TempDir,
}

impl Run {
    /// Checks that the program ended well. What it printed.
    ///
    /// # Panics
    /// With the word of [`pct_kit::harm`] when it did not.
    #[track_caller]
    pub fn unharmed(&self) -> String {
        pct_kit::harm::unharmed(&self.output)
    }

    /// What the program printed.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// What the program and pct said on stderr.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Rows of `pct report --format csv` with further options, those of samples.
    pub fn report(&self, options: &[&str]) -> Vec<Row> {
        report(&self.dir, options)
    }

    /// A scratch folder that goes away with this value.
    pub fn scratch(&self) -> &Path {
        self.keep.path()
    }
}

/// `pct run OPTIONS -- COMMAND` with its recording in a folder of its own.
pub fn run(options: &[&str], command: &[&str]) -> Run {
    let keep = tempfile::tempdir().expect("a temporary folder");
    let dir = keep.path().join("recording");
    let mut c = Command::new(binary());
    c.arg("run").arg("--out").arg(&dir).args(options).arg("--").args(command);
    c.current_dir(keep.path());
    Run { output: c.output().expect("pct can be run"), dir, keep }
}

/// The folded stacks of a recording, as `pct export` writes them.
///
/// # Panics
/// When it cannot.
pub fn folded(recording: &Path) -> String {
    let export = ["export", "--format", "folded", "-o", "-"];
    let out = Command::new(binary()).args(export).arg(recording).output().expect("pct can be run");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// One row of the csv report; merged columns are empty.
#[derive(Debug, Clone)]
pub struct Row {
    /// Samples, weighted (a sample that stands for several periods counts so often).
    pub samples: f64,
    /// CPU seconds, user and system.
    pub cpu_seconds: f64,
    /// Process id, 0 when merged.
    pub pid: u32,
    /// Thread id, 0 when merged.
    pub tid: u32,
    /// Process name, empty when merged.
    pub process: String,
    /// Object, empty when merged.
    pub object: String,
    /// Function, empty when merged.
    pub function: String,
}

/// The rows of `pct report --format csv OPTIONS PATH` that samples are behind.
///
/// # Panics
/// As [`whole_report`].
pub fn report(path: &Path, options: &[&str]) -> Vec<Row> {
    let mut rows = whole_report(path, options);
    rows.retain(|row| row.samples > 0.0);
    rows
}

/// All rows of `pct report --format csv OPTIONS PATH`, those for time that is in no sample too.
///
/// # Panics
/// When the report fails or its header is not the documented one.
pub fn whole_report(path: &Path, options: &[&str]) -> Vec<Row> {
    let out = Command::new(binary()).args(["report", "--format", "csv"]).args(options).arg(path).output();
    let out = out.expect("pct can be run");
    assert!(out.status.success(), "pct report failed: {}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).expect("csv is UTF-8");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("samples,cpu_seconds,share,pid,process,tid,object,function"));
    lines.map(|l| row(&fields(l))).collect()
}

fn row(f: &[String]) -> Row {
    assert_eq!(f.len(), 8, "a csv row has eight fields: {f:?}");
    Row {
        samples: f[0].parse().expect("samples"),
        cpu_seconds: f[1].parse().expect("seconds"),
        pid: f[3].parse().unwrap_or(0),
        process: f[4].clone(),
        tid: f[5].parse().unwrap_or(0),
        object: f[6].clone(),
        function: f[7].clone(),
    }
}

/// Splits one csv line (RFC 4180 quotes, no line breaks inside a field).
fn fields(line: &str) -> Vec<String> {
    let (mut out, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => out.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    out.push(field);
    out
}

/// CPU seconds that the rows give to `function`.
pub fn seconds_in(rows: &[Row], function: &str) -> f64 {
    rows.iter().filter(|r| r.function == function).map(|r| r.cpu_seconds).sum()
}

/// CPU seconds that the rows give to the kernel, whatever the system call.
pub fn seconds_in_kernel(rows: &[Row]) -> f64 {
    rows.iter().filter(|r| r.object == "kernel").map(|r| r.cpu_seconds).sum()
}

/// Samples that the rows give to `function`.
pub fn samples_in(rows: &[Row], function: &str) -> f64 {
    rows.iter().filter(|r| r.function == function).map(|r| r.samples).sum()
}

/// All samples of the rows.
pub fn samples(rows: &[Row]) -> f64 {
    rows.iter().map(|r| r.samples).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_keep_commas_and_quotes() {
        assert_eq!(fields(r#"1,"a ""b"", c",x"#), ["1", "a \"b\", c", "x"]);
    }
}
