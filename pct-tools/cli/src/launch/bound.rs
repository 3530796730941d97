//! One bound for the recordings of a run: when they take more, those of processes that have ended go, the oldest first.
//!
//! A build makes thousands of processes, and each leaves a file. What is given up is named: a cause in the
//! folder's status file, and the CPU time of the process, so that the account still closes.

use pct_format::File as Recording;
use pct_profile::load::{self, status};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The bound of one folder.
#[derive(Debug)]
pub struct Bound {
    folder: PathBuf,
    /// Bytes on the disk.
    most: u64,
}

/// A recording in the folder.
struct Kept {
    path: PathBuf,
    bytes: u64,
    written: SystemTime,
}

impl Bound {
    /// At most so many bytes in `folder`.
    #[must_use]
    pub fn new(folder: &Path, most: u64) -> Bound {
        Bound { folder: folder.to_owned(), most }
    }

    /// Gives up what is too much; how many recordings that were. Those of living processes stay, whatever they take.
    pub fn enforce(&self) -> usize {
        let mut kept = self.kept();
        let mut sum: u64 = kept.iter().map(|file| file.bytes).sum();
        if sum <= self.most {
            return 0;
        }
        kept.sort_by_key(|file| file.written);
        // some room more, so that this is not done again at once
        let enough = self.most - self.most / 8;
        let mut given_up = 0;
        for file in kept {
            if sum <= enough {
                break;
            }
            if !load::is_running(&file.path) && self.give_up(&file.path) {
                sum = sum.saturating_sub(file.bytes);
                given_up += 1;
            }
        }
        given_up
    }

    fn kept(&self) -> Vec<Kept> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let recordings = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "pct"));
        recordings
            .filter_map(|entry| {
                let meta = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                let bytes = meta.blocks().saturating_mul(512);
                Some(Kept { path: entry.path(), bytes, written: meta.modified().ok()? })
            })
            .collect()
    }

    fn give_up(&self, path: &Path) -> bool {
        let mut head = Vec::new();
        let read = fs::File::open(path).and_then(|file| file.take(1 << 20).read_to_end(&mut head));
        let Some(header) = read.ok().and_then(|_| Recording::parse(&head).ok()).map(|file| file.header())
        else {
            // not a pct file, or not finished
            return false;
        };
        let (user, system) = header.cpu_ns().unwrap_or_default();
        let pid = header.pid();
        let used = user.saturating_add(system);
        if fs::remove_file(path).is_err() {
            return false;
        }
        let most = self.most >> 20;
        let cause = format!(
            "the recording of a process that had ended was given up: all together had reached {most} MB (--limit-run)"
        );
        let pid = i32::try_from(pid).unwrap_or(0);
        status::tell(&self.folder, pid, &cause);
        status::tell_used(&self.folder, pid, used);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_format::builder::Builder;
    use pct_format::header::State;
    use pct_format::layout::header as at;

    fn recording(folder: &Path, pid: u32, age_s: u64) -> PathBuf {
        let path = folder.join(format!("x-{pid}.pct"));
        let mut builder = Builder::new();
        builder.set_header_word(at::PID, u64::from(pid)).set_header_word(at::STATE, State::Closed as u64);
        fs::write(&path, builder.finish()).expect("written");
        let written = SystemTime::now() - std::time::Duration::from_secs(age_s);
        fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(written)).expect("set");
        path
    }

    #[test]
    fn the_oldest_of_the_ended_go_first_and_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(status::STATUS), "").expect("written");
        let old = recording(folder.path(), 1_000_001, 50);
        let new = recording(folder.path(), 1_000_002, 1);
        let each = fs::metadata(&new).expect("there").blocks() * 512;
        let foreign = folder.path().join("y-1.pct");
        fs::write(&foreign, vec![7; 4096]).expect("written");
        let all = each * 2 + fs::metadata(&foreign).expect("there").blocks() * 512;
        assert_eq!(Bound::new(folder.path(), all).enforce(), 0);
        assert_eq!(Bound::new(folder.path(), all - 1).enforce(), 1);
        assert!(!old.exists() && new.exists() && foreign.exists());
        let said = status::causes(folder.path());
        assert!(said.len() == 1 && said[0].contains("process 1000001"), "{said:?}");
        assert_eq!(status::unsampled_images(folder.path()).len(), 1);
    }
}
