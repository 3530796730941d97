//! Decides which text files pages may show: sources that the profile names, below known folders.
//!
//! A profile is a file, and its author chose the names in it. A page that shows "the source" for any such name would
//! show any of the reader's files. So a file is shown only if, after all links, it is below a folder of which something
//! else than that name says that it holds sources.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Component, Path, PathBuf};

/// Which text files pages may show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sources {
    /// None: the person who asks does not own the files.
    #[default]
    Hidden,
    /// Those that the profile names and that are below one of these folders.
    Below(Folders),
}

/// Folders with sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    /// Folders for relative names: the working folder, and the data file's.
    pub beside: Vec<PathBuf>,
    /// Folders that the debug information of the recording's objects names.
    pub of_debug_info: Vec<PathBuf>,
    /// Single files: Python modules that ran. Only their suffix vouches for them, so other files beside them are not
    /// shown.
    pub modules: HashSet<PathBuf>,
}

impl Sources {
    /// The path of a file, if it exists and may be shown.
    #[must_use]
    pub fn find(&self, file: &str) -> Option<PathBuf> {
        let Sources::Below(folders) = self else { return None };
        let path = Path::new(file);
        let tries = if path.is_absolute() {
            vec![path.to_owned()]
        } else {
            folders.beside.iter().map(|folder| folder.join(path)).collect()
        };
        tries.into_iter().find_map(|path| {
            let real = path.canonicalize().ok()?;
            (real.is_file() && folders.hold(&real)).then_some(real)
        })
    }

    /// Opens a file that [`Sources::find`] has found. The path of the open file counts, so a link that was put there
    /// meanwhile has no effect.
    ///
    /// # Errors
    /// It cannot be opened, or may not be shown.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let file = File::open(path)?;
        let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        match self {
            Sources::Below(folders) if folders.hold(&real) => Ok(file),
            _ => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, "lies outside the folders with sources"))
            }
        }
    }
}

impl Folders {
    /// The folders of files that debug information names. Relative names give none.
    pub fn of_files<'a>(files: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
        let mut seen = HashSet::new();
        let mut out = Vec::new();
        for folder in files.filter_map(|f| plain(Path::new(f)).parent().map(Path::to_owned)) {
            if folder.is_absolute() && folder.parent().is_some() && seen.insert(folder.clone()) {
                out.push(folder);
            }
        }
        out
    }

    /// The files that a recording names as Python modules and that, after all links, have the suffix of a Python
    /// source.
    pub fn of_modules<'a>(files: impl Iterator<Item = &'a str>) -> HashSet<PathBuf> {
        files.filter_map(|file| Path::new(file).canonicalize().ok()).filter(|real| is_module(real)).collect()
    }

    /// Whether a path without links is below one of the folders. A hidden file in them (`.ssh`) is no source.
    fn hold(&self, real: &Path) -> bool {
        if is_module(real) && self.modules.contains(real) {
            return true;
        }
        let all = self.beside.iter().chain(&self.of_debug_info);
        let is_plain = |part: Component<'_>| !part.as_os_str().as_encoded_bytes().starts_with(b".");
        all.filter_map(|folder| folder.canonicalize().ok())
            .filter_map(|folder| real.strip_prefix(folder).ok())
            .any(|below| below.components().all(is_plain))
    }
}

fn is_module(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix == "py")
}

/// A path without `.` and `..`, which compilers leave in (`/build/../src/a.c`).
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_files_below_the_folders_are_found_and_no_link_leads_out() {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        for folder in ["src/deep", "data/.ssh", "secret"] {
            std::fs::create_dir_all(at.join(folder)).unwrap();
        }
        for file in ["src/a.c", "src/deep/b.c", "secret/key", "data/m.m", "data/.ssh/key"] {
            std::fs::write(at.join(file), "x").unwrap();
        }
        symlink(at.join("secret/key"), at.join("src/link.c")).unwrap();
        symlink(at.join("secret"), at.join("src/folder")).unwrap();
        symlink("deep/b.c", at.join("src/inside.c")).unwrap();
        let name = |file: &str| at.join(file).to_string_lossy().into_owned();
        let named = [name("src/deep/../a.c"), name("data/../src/link.c")];
        let sources = Sources::Below(Folders {
            beside: vec![at.join("data")],
            of_debug_info: Folders::of_files(named.iter().map(String::as_str)),
            ..Folders::default()
        });
        for file in ["src/a.c", "src/deep/b.c", "src/inside.c", "data/m.m", "secret/../src/a.c"] {
            let found = sources.find(&name(file)).unwrap_or_else(|| panic!("{file}"));
            assert!(sources.open(&found).is_ok(), "{file}");
        }
        assert!(sources.find("m.m").is_some());
        for file in [
            "secret/key",
            "src/link.c",
            "src/folder/key",
            "src/../secret/key",
            "src",
            "src/none.c",
            "data/.ssh/key",
        ] {
            assert_eq!(sources.find(&name(file)), None, "{file}");
        }
        assert_eq!(sources.find("../secret/key"), None);
        assert_eq!(Sources::Hidden.find(&name("src/a.c")), None);
        // A file that became a link after it was found.
        let found = sources.find(&name("src/a.c")).unwrap();
        std::fs::remove_file(&found).unwrap();
        symlink(at.join("secret/key"), &found).unwrap();
        assert_eq!(sources.open(&found).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn of_python_modules_only_the_files_themselves_are_shown() {
        let root = tempfile::tempdir().unwrap();
        let name = |file: &str| root.path().join(file).to_string_lossy().into_owned();
        for file in ["a.py", "b.py", "key"] {
            std::fs::write(name(file), "x").unwrap();
        }
        symlink(name("key"), name("link.py")).unwrap();
        let named = [name("a.py"), name("key"), name("link.py"), name("none.py")];
        let modules = Folders::of_modules(named.iter().map(String::as_str));
        let sources = Sources::Below(Folders { modules, ..Folders::default() });
        let found = sources.find(&name("a.py")).expect("named, and a module by its suffix");
        assert!(sources.open(&found).is_ok());
        for file in ["b.py", "key", "link.py", "none.py"] {
            assert_eq!(sources.find(&name(file)), None, "{file}");
        }
    }

    #[test]
    fn the_root_is_no_folder_with_sources() {
        assert_eq!(Folders::of_files(["/x.c", "/..//y.c", "rel/z.c"].into_iter()), Vec::<PathBuf>::new());
    }
}
