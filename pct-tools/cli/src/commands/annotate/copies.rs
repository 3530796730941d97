//! Copies of machine code and of source files beside a recording, so that it can be annotated on another
//! machine, or after the program was rebuilt.
//!
//! `pct archive --code` makes them in the recording's folder: `code.json` has the instructions of each function
//! with samples as text, and below `sources/` each source file lies under its whole name. An object's code is
//! copied only if its build-id is the one that was sampled. Copies go before what lies under those names later.
//!
//! Invariant: nothing outside of the folder is read or written, whatever names a recording has.

use super::code::CodeOf;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

const CODE: &str = "code.json";
/// Folder of the source files.
pub(crate) const SOURCES: &str = "sources";

/// A larger file of code is damaged.
const MOST_CODE: u64 = 512 << 20;

/// An object by its path and its build-id, where it has one.
type Key = (String, Option<String>);

/// The copies beside recordings.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    code: HashMap<Key, Vec<CodeOf>>,
    /// Folders that hold source files.
    sources: Vec<PathBuf>,
    /// Copies of programs and libraries that went away while they were sampled.
    objects: Vec<PathBuf>,
    /// Why copies that are there could not be read.
    pub(crate) remarks: Vec<String>,
}

/// The folder of a recording: itself, or where the file lies.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !path.is_dir() => {
            if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            }
        }
        _ => path,
    }
}

/// Where the copy of a source file lies in the folder of sources: its whole name, without what would lead out of there.
fn place_of(name: &str) -> Option<PathBuf> {
    let mut place = PathBuf::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => place.push(part),
            Component::ParentDir => drop(place.pop()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    (!place.as_os_str().is_empty()).then_some(place)
}

impl Copies {
    /// What lies beside these recordings.
    pub(crate) fn beside(paths: &[PathBuf]) -> Copies {
        let mut copies = Copies::default();
        for path in paths {
            let folder = folder_of(path);
            let sources = folder.join(SOURCES);
            if sources.is_dir() && !copies.sources.contains(&sources) {
                copies.sources.push(sources);
            }
            copies.objects.extend(pct_profile::load::copies::all_of(folder));
            let code = folder.join(CODE);
            match read(&code) {
                Ok(objects) => copies.code.extend(objects),
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(why) => copies.remarks.push(format!("{}: {why}", code.display())),
            }
        }
        copies
    }

    /// Copies that may be of the program or library of this path.
    pub(super) fn objects(&self, path: &Path) -> Vec<PathBuf> {
        pct_profile::load::copies::named(&self.objects, path).map(Path::to_owned).collect()
    }

    /// The functions of an object that were copied.
    pub(super) fn code(&self, path: &str, build_id: Option<&str>) -> &[CodeOf] {
        let key = (path.to_owned(), build_id.map(ToOwned::to_owned));
        self.code.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The copy of a source file.
    pub(super) fn source(&self, name: &str) -> Option<File> {
        let place = place_of(name)?;
        self.sources.iter().find_map(|folder| {
            let (folder, file) = (folder.canonicalize().ok()?, folder.join(&place).canonicalize().ok()?);
            // No link leads out of the folder.
            (file.starts_with(folder) && file.is_file()).then(|| File::open(file).ok()).flatten()
        })
    }
}

fn read(path: &Path) -> io::Result<HashMap<Key, Vec<CodeOf>>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > MOST_CODE {
        return Err(io::Error::other("no file of copied code"));
    }
    let mut text = Vec::new();
    file.take(MOST_CODE).read_to_end(&mut text)?;
    let value: Value =
        serde_json::from_slice(&text).map_err(|why| io::Error::other(format!("damaged: {why}")))?;
    let objects =
        parse(&value).ok_or_else(|| io::Error::other("damaged: a member is missing or of another kind"))?;
    Ok(objects.into_iter().collect())
}

fn parse(value: &Value) -> Option<Vec<(Key, Vec<CodeOf>)>> {
    let instruction = |pair: &Value| Some((pair.get(0)?.as_u64()?, pair.get(1)?.as_str()?.to_owned()));
    let function = |value: &Value| {
        Some(CodeOf {
            name: value.get("name")?.as_str()?.to_owned(),
            offset: value.get("offset")?.as_u64()?,
            instructions: value
                .get("instructions")?
                .as_array()?
                .iter()
                .map(instruction)
                .collect::<Option<_>>()?,
        })
    };
    let object = |value: &Value| {
        let functions = value.get("functions")?.as_array()?;
        let build_id = match value.get("build_id")? {
            Value::Null => None,
            id => Some(id.as_str()?.to_owned()),
        };
        let key = (value.get("path")?.as_str()?.to_owned(), build_id);
        Some((key, functions.iter().map(function).collect::<Option<_>>()?))
    };
    value.get("objects")?.as_array()?.iter().map(object).collect()
}

/// Writes the code of objects (path, build-id, functions) into a recording's folder, over an older copy.
///
/// # Errors
/// What the file system says.
pub(super) fn write_code(folder: &Path, objects: &[(String, Option<String>, Vec<CodeOf>)]) -> Result<()> {
    let function =
        |code: &CodeOf| json!({"name": code.name, "offset": code.offset, "instructions": code.instructions});
    let object = |(path, build_id, functions): &(String, Option<String>, Vec<CodeOf>)| {
        let functions: Vec<Value> = functions.iter().map(function).collect();
        json!({"path": path, "build_id": build_id, "functions": functions})
    };
    let objects: Vec<Value> = objects.iter().map(object).collect();
    let text = json!({"version": 1, "objects": objects}).to_string();
    replace(&folder.join(CODE), text.as_bytes())
}

/// Copies a source file into a recording's folder.
///
/// # Errors
/// What the file system says; a name that leads nowhere.
pub(super) fn write_source(folder: &Path, name: &str, mut from: File) -> Result<()> {
    let place = place_of(name).with_context(|| format!("{name:?}: no name of a file"))?;
    let sources = folder.join(SOURCES);
    let to = sources.join(place);
    let above = to.parent().unwrap_or(&sources);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(above)
        .with_context(|| above.display().to_string())?;
    // Somebody may have put a link there that leads elsewhere.
    if !above.canonicalize()?.starts_with(sources.canonicalize()?) {
        anyhow::bail!("{}: lies elsewhere", above.display());
    }
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    replace(&to, &bytes)
}

/// Writes a new file, for its owner alone, and renames it over an older one.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(&new).with_context(|| path.display().to_string())?;
    let written = file.write_all(bytes).and_then(|()| fs::rename(&new, path));
    written.inspect_err(|_| drop(fs::remove_file(&new))).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code() -> CodeOf {
        CodeOf {
            name: "odd \"name\u{1}".into(),
            offset: 7,
            instructions: vec![(0x1000, "call 2000 <x>".into()), (u64::MAX, "ret".into())],
        }
    }

    #[test]
    fn what_is_written_is_read_by_path_and_build_id() {
        let folder = tempfile::tempdir().expect("a folder");
        let objects =
            [("/bin/a".to_owned(), Some("00ff".to_owned()), vec![code()]), ("/b".to_owned(), None, vec![])];
        write_code(folder.path(), &objects).expect("written");
        write_code(folder.path(), &objects).expect("written again");
        let copies = Copies::beside(&[folder.path().to_owned()]);
        assert_eq!(copies.code("/bin/a", Some("00ff")), [code()]);
        assert!(copies.code("/bin/a", Some("00fe")).is_empty() && copies.code("/bin/a", None).is_empty());
        assert!(copies.remarks.is_empty(), "{:?}", copies.remarks);
    }

    #[test]
    fn damaged_copies_are_a_remark() {
        let folder = tempfile::tempdir().expect("a folder");
        for bad in [
            "",
            "{}",
            "[[]]",
            "{\"objects\":[{}]}",
            "{\"objects\":[{\"path\":1,\"build_id\":null,\"functions\":[]}]}",
        ] {
            fs::write(folder.path().join(CODE), bad).expect("written");
            let copies = Copies::beside(&[folder.path().to_owned()]);
            assert!(copies.remarks.iter().any(|remark| remark.contains("damaged")), "{bad}: {copies:?}");
        }
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let top = tempfile::tempdir().expect("a folder");
        let folder = top.path().join("run");
        fs::create_dir(&folder).expect("made");
        fs::write(top.path().join("from.c"), "int x;\n").expect("written");
        let from = || File::open(top.path().join("from.c")).expect("there");
        for name in ["/a/b.c", "../../../../up.c", "rel/../c.c"] {
            write_source(&folder, name, from()).expect(name);
            let copies = Copies::beside(std::slice::from_ref(&folder));
            assert!(copies.source(name).is_some(), "{name}");
        }
        assert!(folder.join("sources/a/b.c").is_file() && folder.join("sources/up.c").is_file());
        assert!(write_source(&folder, "/..", from()).is_err());
        assert_eq!(fs::read_dir(top.path()).expect("listed").count(), 2);
        // Links that somebody put there lead nowhere.
        std::os::unix::fs::symlink(top.path(), folder.join("sources/out")).expect("linked");
        let copies = Copies::beside(&[folder.join("x.pct")]);
        assert!(copies.source("/out/from.c").is_none());
        assert!(write_source(&folder, "/out/new.c", from()).is_err());
        assert!(!top.path().join("new.c").exists());
    }
}
