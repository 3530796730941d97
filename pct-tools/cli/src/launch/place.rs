//! Where an attach puts its things: the folder of recordings and the library, each as we see it and as the
//! target sees it.
//!
//! The target opens both by itself, with its own rights and in its own file system. So a folder must be
//! reachable for its user (a server that dropped its rights cannot enter root's home), and where its file
//! system is another one than ours the library is copied into it.

use super::spare::move_recordings;
use crate::runlib;
use anyhow::{Context as _, Result, bail};
use pct_attach::facts::Target;
use pct_attach::tasks;
use pct_profile::load::status::STATUS;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A path in two views.
#[derive(Debug)]
pub struct PathPair {
    /// For us.
    pub ours: PathBuf,
    /// For the target.
    pub targets: PathBuf,
    /// The folder is in the target's file system, which goes with the target; recordings belong here at the end.
    home: Option<Home>,
}

/// Where recordings go at the end.
#[derive(Debug)]
struct Home {
    folder: PathBuf,
    /// It was asked for, so it may be there already.
    asked_for: bool,
    /// The folder in the target's file system, which this keeps when the target has ended.
    there: File,
    /// The folder that it lies in, which this keeps too.
    above: File,
}

/// A path to what is open.
fn by_descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// The process's user and group.
fn owner(pid: i32) -> Result<(u32, u32)> {
    let meta = fs::metadata(format!("/proc/{pid}")).context("the process is gone")?;
    Ok((meta.uid(), meta.gid()))
}

/// A user other than root can walk down to `path`. Groups other than the process's first, and ACLs, are not
/// looked at: they only make it better.
fn reachable(path: &Path, (uid, gid): (u32, u32)) -> bool {
    uid == 0
        || path.ancestors().skip(1).all(|part| {
            fs::metadata(part).is_ok_and(|meta| {
                let shift = match () {
                    () if meta.uid() == uid => 6,
                    () if meta.gid() == gid => 3,
                    () => 0,
                };
                meta.mode() >> shift & 1 != 0
            })
        })
}

impl PathPair {
    /// Makes the folder for recordings, private to the target's user. `out`: the one that was asked for,
    /// which may be there; without it a new one is made, so that each attach is a recording of its own.
    /// `inside`: the target itself writes there.
    ///
    /// # Errors
    /// When it cannot be made, or the target could not come there.
    pub fn folder(target: &Target, out: Option<&Path>, inside: bool) -> Result<PathPair> {
        let pid = target.facts.pid;
        let keep = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let name: String = target.facts.name.chars().map(keep).collect();
        let name = format!("pct-{name}-{pid}");
        let user = owner(pid)?;
        let here = std::path::absolute(out.unwrap_or(Path::new(&name)))?;
        let place = match (inside, target.facts.same_files, out) {
            (false, _, _) => PathPair { targets: here.clone(), ours: here.clone(), home: None },
            (true, true, _) if reachable(&here, user) => {
                PathPair { targets: here.clone(), ours: here.clone(), home: None }
            }
            (true, true, Some(_)) => {
                bail!(
                    "{}: the process (user {}) cannot come there; try --out /tmp/NAME",
                    here.display(),
                    user.0
                )
            }
            (true, true, None) => {
                let there = Path::new("/tmp").join(name);
                PathPair { targets: there.clone(), ours: there, home: None }
            }
            (true, false, _) => {
                let targets = Path::new("/tmp").join(name);
                let below = targets.strip_prefix("/").unwrap_or(&targets).to_owned();
                PathPair { ours: tasks::folder(pid).join("root").join(below), targets, home: None }
            }
        };
        let shown = place.ours.display().to_string();
        if place.targets.as_os_str().as_encoded_bytes().iter().any(|b| b",%".contains(b)) {
            bail!("{shown}: a path with a comma or percent sign cannot be used (name another by --out)");
        }
        let elsewhere = inside && !target.facts.same_files;
        let (mut place, new) = place.make(out.is_some() && !elsewhere)?;
        // the target's library appends its causes there; from outside it is we who do
        let owner = if inside { user } else { here_user() };
        if new {
            give_to(&place.ours, owner)?;
        } else {
            let meta = fs::symlink_metadata(&place.ours).with_context(|| shown.clone())?;
            if ![owner.0, here_user().0].contains(&meta.uid()) {
                bail!(
                    "{shown}: it belongs to user {}, who could read or change what is recorded there",
                    meta.uid()
                );
            }
        }
        let status = place.ours.join(STATUS);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        if options.open(&status).is_ok() {
            give_to(&status, owner)?;
        }
        if elsewhere {
            let open =
                |path: Option<&Path>| File::open(path.unwrap_or(Path::new("/"))).context(shown.clone());
            let (there, above) = (open(Some(&place.ours))?, open(place.ours.parent())?);
            place.home = Some(Home { folder: here, asked_for: out.is_some(), there, above });
        }
        Ok(place)
    }

    /// Makes the folder; whether it is new. One that may not be there already gets the next free number.
    fn make(self, may_exist: bool) -> Result<(PathPair, bool)> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        if let Some(above) = self.ours.parent().filter(|_| may_exist) {
            DirBuilder::new()
                .mode(0o700)
                .recursive(true)
                .create(above)
                .context(above.display().to_string())?;
        }
        let numbered = |path: &Path, number: u32| {
            let mut name = path.as_os_str().to_owned();
            if number > 1 {
                name.push(format!("-{number}"));
            }
            PathBuf::from(name)
        };
        for number in 1..=MOST_FOLDERS {
            let ours = numbered(&self.ours, number);
            match builder.create(&ours) {
                Ok(()) => {
                    return Ok((
                        PathPair { targets: numbered(&self.targets, number), ours, home: None },
                        true,
                    ));
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && may_exist && ours.is_dir() => {
                    return Ok((self, false));
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && !may_exist => {}
                Err(e) => return Err(e).context(ours.display().to_string()),
            }
        }
        bail!("{}: there are {MOST_FOLDERS} folders of that name", self.ours.display())
    }

    /// What the sampler in the target, or we from outside, had to say of why something could not be recorded.
    pub fn causes(&self) -> Vec<String> {
        pct_profile::load::status::causes(&self.now())
    }

    /// The folder by a path that stays right when the target has ended. It is not for people.
    pub fn now(&self) -> PathBuf {
        self.home.as_ref().map_or_else(|| self.ours.clone(), |home| by_descriptor(&home.there))
    }

    /// Where recordings go at the end, when they lie in the target's file system.
    pub fn home_folder(&self) -> Option<&Path> {
        self.home.as_ref().map(|home| home.folder.as_path())
    }

    /// Sampling has ended: recordings that lie in the target's file system come to where the caller asked for
    /// them, or to a new folder here. `ours` is the folder that they are in then.
    ///
    /// # Errors
    /// When they could not be moved: they are where they were, as long as the target runs.
    pub fn bring_home(&mut self) -> Result<()> {
        let Some(home) = self.home.take() else { return Ok(()) };
        let empty = PathPair { ours: home.folder.clone(), targets: home.folder, home: None };
        let (here, _) = empty.make(home.asked_for)?;
        let shown = here.ours.display().to_string();
        move_recordings(&by_descriptor(&home.there), &here.ours)
            .with_context(|| format!("moving recordings to {shown}"))?;
        let name = self.ours.file_name().unwrap_or_default();
        let _ = fs::remove_dir(by_descriptor(&home.above).join(name));
        *self = here;
        Ok(())
    }

    /// Takes the folder away if there is no recording in it.
    pub fn remove_if_empty(&self) {
        let others = |entry: fs::DirEntry| entry.file_name() != STATUS;
        if fs::read_dir(self.now()).is_ok_and(|mut entries| !entries.any(|e| e.is_ok_and(others))) {
            let _ = fs::remove_file(self.now().join(STATUS));
            let name = self.ours.file_name().unwrap_or_default();
            let above = self.home.as_ref().map(|home| by_descriptor(&home.above).join(name));
            let _ = fs::remove_dir(above.unwrap_or_else(|| self.ours.clone()));
        }
    }
}

/// Folders of one name that are tried.
const MOST_FOLDERS: u32 = 1000;

fn here_user() -> (u32, u32) {
    (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw())
}

/// Gives what we have just made to its user, whatever somebody may have put in its place meanwhile.
fn give_to(path: &Path, (uid, gid): (u32, u32)) -> Result<()> {
    if uid == here_user().0 {
        return Ok(());
    }
    let shown = || path.display().to_string();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path).with_context(shown)?;
    let meta = file.metadata().with_context(shown)?;
    if meta.uid() != here_user().0 {
        bail!("{}: somebody else has put something there", shown());
    }
    std::os::unix::fs::fchown(&file, Some(uid), Some(gid)).with_context(shown)
}

/// The library where the target can load it; removed at the end unless it is [`Library::keep`]t.
#[derive(Debug)]
pub struct Library {
    /// The path for the target.
    pub path: PathBuf,
    copy: Option<PathBuf>,
}

impl Library {
    /// Every place that is worth trying, the best first: ours, or copies in the target's file system.
    ///
    /// # Errors
    /// When this pct carries no library, or there is no place for it at all.
    pub fn places(target: &Target) -> Result<Vec<Library>> {
        let pid = target.facts.pid;
        if target.facts.same_files {
            return Ok(vec![Library { path: runlib::path()?, copy: None }]);
        }
        if runlib::LIBRARY.is_empty() {
            runlib::path()?; // says so
        }
        let of = tasks::folder(pid);
        let root = of.join("root");
        let cwd = fs::read_link(of.join("cwd")).ok();
        let folders = cwd.into_iter().chain(["/tmp", "/dev/shm", "/var/tmp"].map(PathBuf::from));
        let copies: Vec<Library> = folders.filter_map(|folder| copy_to(&root, &folder).ok()).collect();
        if copies.is_empty() {
            bail!("no folder of the process's file system takes a copy of libpct.so; --method 4 needs none");
        }
        Ok(copies)
    }

    /// Leaves the copy where it is: programs that the target executes load it.
    pub fn keep(mut self) {
        self.copy = None;
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if let Some(copy) = &self.copy {
            let _ = fs::remove_file(copy);
        }
    }
}

fn copy_to(root: &Path, folder: &Path) -> Result<Library> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let name = format!(".libpct-{}-{:x}.so", std::process::id(), now.as_nanos() & 0xffff_ffff_ffff);
    let path = folder.join(&name);
    let ours = root.join(path.strip_prefix("/").unwrap_or(&path));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_NOFOLLOW)
        .mode(0o700)
        .open(&ours)?;
    let library = Library { path, copy: Some(ours) };
    file.write_all(runlib::LIBRARY)?;
    file.set_permissions(fs::Permissions::from_mode(0o755))?;
    Ok(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_below_a_private_one_is_not_reachable_for_others() {
        let top = tempfile::tempdir().expect("a folder");
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o700)).expect("set");
        let inner = top.path().join("a/b");
        fs::create_dir_all(&inner).expect("made");
        let meta = fs::metadata(top.path()).expect("there");
        assert!(reachable(&inner, (0, 0)));
        assert!(meta.uid() == 0 || reachable(&inner, (meta.uid(), meta.gid())));
        assert!(!reachable(&inner, (meta.uid() + 77, meta.gid() + 77)));
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o711)).expect("set");
        assert!(reachable(Path::new("/tmp/x"), (65534, 65534)));
    }
}
