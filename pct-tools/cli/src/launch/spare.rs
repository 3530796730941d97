//! A second place for recordings, for processes that cannot come to the run's folder: `pct run` by root of a
//! program that becomes another user (setpriv, runuser, a server that drops its rights) while the folder is
//! root's.
//!
//! It is a folder in which everybody may make files and nobody may list them, with an unguessable name,
//! inside one that nobody else may list either. At the end its recordings move to where the caller asked for
//! them.

use pct_profile::load::status::STATUS;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown,
};
use std::path::{Path, PathBuf};

/// The place. It goes with [`Spare::collect`].
#[derive(Debug)]
pub struct Spare {
    outer: PathBuf,
    /// Where processes write.
    pub folder: PathBuf,
    /// Says that we live, to whoever looks for places that were left behind.
    _lives: Option<File>,
}

impl Spare {
    /// Makes one, if this process can start others that may not write where it does. `None`: none is needed,
    /// or there is no room for it.
    #[must_use]
    pub fn make() -> Option<Spare> {
        if !nix::unistd::geteuid().is_root() {
            return None;
        }
        ["/var/tmp", "/tmp", "/dev/shm"].iter().find_map(|place| Self::make_in(Path::new(place)).ok())
    }

    fn make_in(place: &Path) -> io::Result<Spare> {
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random)?;
        let outer = place.join(format!("{PREFIX}{}-{:02x}{:02x}", std::process::id(), random[0], random[1]));
        remove_stale(place);
        DirBuilder::new().mode(0o700).create(&outer)?;
        let lives = File::open(&outer).ok().filter(|folder| folder.try_lock().is_ok());
        let folder = outer.join(random.map(|byte| format!("{byte:02x}")).concat());
        let spare = Spare { folder, outer, _lives: lives };
        let made = spare.fill();
        if made.is_err() {
            let _ = fs::remove_dir_all(&spare.outer);
        }
        made.map(|()| spare)
    }

    /// Modes are set once the names are there: the umask has no say in them.
    fn fill(&self) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(&self.folder)?;
        let status = self.folder.join(STATUS);
        OpenOptions::new().write(true).create_new(true).open(&status)?;
        fs::set_permissions(&status, Permissions::from_mode(0o622))?;
        fs::set_permissions(&self.folder, Permissions::from_mode(0o1733))?;
        fs::set_permissions(&self.outer, Permissions::from_mode(0o711))
    }

    /// Moves what was written there to `folder` and removes the place.
    ///
    /// # Errors
    /// When a recording could not be moved: then the place stays, and is named.
    pub fn collect(self, folder: &Path) -> io::Result<()> {
        let moved = move_recordings(&self.folder, folder);
        match moved {
            Ok(()) => fs::remove_dir_all(&self.outer),
            Err(why) => Err(io::Error::new(
                why.kind(),
                format!("{}: recordings could not be moved from here: {why}", self.folder.display()),
            )),
        }
    }

    /// Removes the place with all that is in it.
    pub fn discard(self) {
        let _ = fs::remove_dir_all(&self.outer);
    }
}

/// Moves recordings and causes from one folder to another, where they are the caller's. What else is there,
/// and links, stay.
///
/// # Errors
/// When one could not be moved.
pub(super) fn move_recordings(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (file, name) = (entry.path(), entry.file_name());
        if !entry.file_type()?.is_file() {
            continue;
        }
        if name == STATUS {
            let mut all = OpenOptions::new().append(true).create(true).mode(0o600).open(to.join(STATUS))?;
            io::copy(&mut open(&file)?, &mut all)?;
            let _ = fs::remove_file(&file);
        } else if file.extension().is_some_and(|extension| extension == "pct") {
            move_to(&file, &free_name(to, Path::new(&name)))?;
        }
    }
    Ok(())
}

const PREFIX: &str = "pct-run-";

/// Removes places that a pct left behind that was killed: ours, of a process that is not there any more, not
/// held by its lock, and without a recording. (A process of another namespace has the lock, whatever its
/// number is here.)
fn remove_stale(place: &Path) {
    let us = nix::unistd::geteuid().as_raw();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<i32>().ok());
        let Some(pid) = pid.filter(|pid| *pid > 0) else { continue };
        let ours = entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == us);
        let dead =
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None) == Err(nix::errno::Errno::ESRCH);
        if ours && dead && File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok()) {
            remove_if_empty(&entry.path());
        }
    }
}

/// Removes a place in which nothing was written.
fn remove_if_empty(outer: &Path) {
    let list = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let is_dir = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    let inner = list(outer);
    let is_empty_status = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name == STATUS)
            && path.symlink_metadata().is_ok_and(|meta| meta.is_file() && meta.len() == 0)
    };
    if inner.iter().all(|folder| is_dir(folder) && list(folder).iter().all(is_empty_status)) {
        for folder in inner {
            let _ = fs::remove_file(folder.join(STATUS));
            let _ = fs::remove_dir(folder);
        }
        let _ = fs::remove_dir(outer);
    }
}

fn open(file: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(file)
}

/// A recording of that name may be there already: process ids come again.
fn free_name(folder: &Path, name: &Path) -> PathBuf {
    let stem = name.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let names = (2..).map(|n| folder.join(format!("{stem}-{n}.pct")));
    std::iter::once(folder.join(name))
        .chain(names)
        .find(|path| path.symlink_metadata().is_err())
        .unwrap_or_default()
}

/// A move where that is one (a process that still runs goes on writing), else a copy. The caller owns it then.
fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(why) if why.kind() == io::ErrorKind::CrossesDevices => {
            let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
            io::copy(&mut open(from)?, &mut copy)?;
            copy.flush()?;
            fs::remove_file(from)
        }
        done => {
            done?;
            let (user, group) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
            lchown(to, Some(user), Some(group))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_killed_runs_go_if_nothing_is_in_them() {
        let top = tempfile::tempdir().expect("a folder");
        // no process has this number
        let dead = |name: &str| top.path().join(format!("{PREFIX}{}-{name}", i32::MAX));
        let ours = top.path().join(format!("{PREFIX}{}-0000", std::process::id()));
        for place in [dead("empty"), dead("full"), dead("held"), ours.clone()] {
            fs::create_dir_all(place.join("inner")).expect("made");
            fs::write(place.join("inner").join(STATUS), "").expect("written");
        }
        fs::write(dead("full").join("inner/x-7.pct"), "first").expect("written");
        let held = File::open(dead("held")).expect("there");
        held.try_lock().expect("free");
        std::os::unix::fs::symlink("/", dead("link")).expect("made");
        remove_stale(top.path());
        assert!(!dead("empty").exists() && dead("full").exists() && dead("held").exists() && ours.exists());
        assert!(dead("link").symlink_metadata().is_ok());
    }

    #[test]
    fn recordings_move_and_the_place_goes() {
        let top = tempfile::tempdir().expect("a folder");
        let folder = top.path().join("run");
        fs::create_dir(&folder).expect("made");
        fs::write(folder.join(STATUS), "1 a\n").expect("written");
        fs::write(folder.join("x-7.pct"), "first").expect("written");
        let spare = Spare::make_in(top.path()).expect("made");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
        assert_eq!((mode(&spare.outer), mode(&spare.folder)), (0o711, 0o1733));
        fs::write(spare.folder.join(STATUS), "2 b\n").expect("written");
        fs::write(spare.folder.join("x-7.pct"), "second").expect("written");
        fs::write(spare.folder.join("other"), "").expect("written");
        std::os::unix::fs::symlink("/etc/passwd", spare.folder.join("l.pct")).expect("made");
        let outer = spare.outer.clone();
        spare.collect(&folder).expect("moved");
        assert!(!outer.exists());
        assert_eq!(fs::read_to_string(folder.join(STATUS)).expect("read"), "1 a\n2 b\n");
        assert_eq!(fs::read_to_string(folder.join("x-7-2.pct")).expect("read"), "second");
        assert_eq!(fs::read_dir(&folder).expect("read").count(), 3);
    }
}
