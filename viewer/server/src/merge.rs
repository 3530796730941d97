//! `mdprof_merge`: deep profiles of several runs of a program as one data file.
//!
//! [`mod@pct_deep::merge`] says what is summed and when two contexts are one.

use crate::program::Program;
use pct_deep::merge::{MergeError, merge};
use pct_deep::{DeepData, DeepError, Version, WriteError};
use pct_text::complain;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const PROGRAM: Program = Program {
    name: "mdprof_merge",
    usage: "\
usage: mdprof_merge -o ALL.data A.data B.data...

Writes the sum of deep profiles of one program: every figure is the sum of the runs', contexts are those
of all runs together, and a clique has one context for each procedure.

options:
  -o, --output FILE   the file to write
  -h, --help          print this
  -V, --version       print the version

ALL.procrep and ALL.contour are read beside ALL.data: those of any of the runs will do.

example: mdprof_merge -o ALL.data monday/Deep.data tuesday/Deep.data && pct view ALL.data",
};

/// Why there is no merged file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeFilesError {
    /// A profile cannot be read, or the sums cannot be held.
    #[error(transparent)]
    Deep(#[from] DeepError),
    /// A profile is of another program than the first one.
    #[error("{}: not of the program of {}: {what}", file.display(), first.display())]
    OtherProgram {
        /// The profile.
        file: PathBuf,
        /// The first one.
        first: PathBuf,
        /// The first difference.
        what: String,
    },
    /// A profile is a native program's. Such a file has only the functions of its own run, and a merge would lose what
    /// the files beside it have.
    #[error("{}: was made of a recording; `pct deep RECORDING... -o ALL.data` makes one of several recordings", .0.display())]
    Native(PathBuf),
    /// The merge failed for another reason.
    #[error(transparent)]
    Merge(MergeError),
    /// The file cannot be written.
    #[error("{}: {error}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Merges files into one, which is written completely or not at all.
///
/// # Errors
/// A file cannot be read, the files are not of one program, or the result cannot be written.
pub fn merge_files(files: &[PathBuf], out: &Path) -> Result<(), MergeFilesError> {
    let mut parts: Vec<DeepData> = Vec::with_capacity(files.len());
    for file in files {
        if file.with_extension("native").exists() {
            return Err(MergeFilesError::Native(file.clone()));
        }
        parts.push(pct_deep::read_file(file)?);
    }
    let all = merge(&parts).map_err(|e| match e {
        MergeError::OtherProgram { part, what } => {
            MergeFilesError::OtherProgram { file: files[part].clone(), first: files[0].clone(), what }
        }
        MergeError::Deep(e) => MergeFilesError::Deep(e),
        e => MergeFilesError::Merge(e),
    })?;
    drop(parts);
    store(&all, out).map_err(|error| MergeFilesError::Write { file: out.to_owned(), error })
}

fn store(data: &DeepData, out: &Path) -> io::Result<()> {
    let version = Version::from_number(data.header().version).unwrap_or(Version::V9);
    // Written beside its final path with mode 0600, and renamed when complete.
    let folder = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = BufWriter::new(tempfile::NamedTempFile::new_in(folder)?);
    pct_deep::write(data, version, &mut file).map_err(|e| match e {
        WriteError::Io(e) => e,
        e => io::Error::other(e.to_string()),
    })?;
    file.flush()?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.persist(out)?;
    Ok(())
}

/// The whole program.
pub fn main() -> ExitCode {
    PROGRAM.run(run)
}

fn run(mut parser: lexopt::Parser) -> Result<ExitCode, lexopt::Error> {
    use lexopt::prelude::*;
    let (mut out, mut files) = (None, Vec::new());
    while let Some(arg) = parser.next()? {
        match arg {
            Short('h') | Long("help") => return Ok(PROGRAM.help()),
            Short('V') | Long("version") => return Ok(PROGRAM.version()),
            Short('o') | Long("output") => out = Some(PathBuf::from(parser.value()?)),
            Value(file) => files.push(PathBuf::from(file)),
            _ => return Err(arg.unexpected()),
        }
    }
    let out = out.ok_or("-o FILE is wanted")?;
    if files.is_empty() {
        return Err("at least one data file is wanted".into());
    }
    Ok(match merge_files(&files, &out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            complain!("mdprof_merge: {e}");
            ExitCode::FAILURE
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_deep::synthetic::{Params, generate};

    fn file(dir: &Path, name: &str, params: &Params) -> PathBuf {
        let path = dir.join(name);
        std::fs::write(&path, pct_deep::to_octets(&generate(params).unwrap(), Version::V9).unwrap()).unwrap();
        path
    }

    #[test]
    fn a_merged_file_has_the_sums_and_whatever_fails_leaves_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let run = |run| Params { run, contexts: 80, procs: 12, ..Params::default() };
        let (a, b) = (file(dir.path(), "A.data", &run(1)), file(dir.path(), "B.data", &run(2)));
        let all = dir.path().join("ALL.data");
        merge_files(&[a.clone(), b.clone()], &all).unwrap();
        let ticks = |path: &Path| pct_deep::read_file(path).unwrap().header().callseqs;
        assert_eq!(ticks(&all), ticks(&a) + ticks(&b));
        let before = std::fs::read(&all).unwrap();
        let other = file(dir.path(), "C.data", &Params { procs: 13, ..run(1) });
        let refused = merge_files(&[a.clone(), other.clone()], &all).unwrap_err().to_string();
        assert!(refused.contains("C.data") && refused.contains("not of the program of"), "{refused}");
        std::fs::write(dir.path().join("B.native"), "native 1\n").unwrap();
        assert!(matches!(merge_files(&[a.clone(), b], &all), Err(MergeFilesError::Native(_))));
        assert!(merge_files(&[a.clone(), dir.path().join("none.data")], &all).is_err());
        assert!(merge_files(&[a], &dir.path().join("none/ALL.data")).is_err());
        assert_eq!(std::fs::read(&all).unwrap(), before);
    }
}
