//! Which source files pages may show of a recording, and what vouches for the names in it.

use pct_formats::import::perf_data::folder::main_file;
use pct_native::reading::MAGIC;
use pct_profile::model::{FileId, FunctionId, ObjectKind};
use pct_profile::{Language, Profile};
use pct_reports::sources::{Folders, Sources};
use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Folders in which relative names of sources are looked for.
pub(super) fn beside(path: &Path) -> Vec<PathBuf> {
    let here = std::env::current_dir().into_iter();
    here.chain(path.parent().map(Path::to_owned)).collect()
}

/// The source files of a recording that pages may show.
pub(super) fn of_recording(path: &Path, profile: &Profile) -> Sources {
    let vouched = is_own(path) || is_of_perf(&head(path));
    let (of_debug_info, modules) = match vouched {
        true => (source_folders(profile), python_modules(profile)),
        false => (Vec::new(), HashSet::new()),
    };
    Sources::Below(Folders { beside: beside(path), of_debug_info, modules })
}

/// The sources of the profile's Python modules.
fn python_modules(profile: &Profile) -> HashSet<PathBuf> {
    let python = profile.objects.iter().filter(|o| o.kind == ObjectKind::Module(Language::Python));
    Folders::of_modules(python.map(|object| object.path.as_str()))
}

/// The folders that the debug information of the profile's objects names. Text formats name files too, but of those
/// nothing vouches for the name.
fn source_folders(profile: &Profile) -> Vec<PathBuf> {
    let of_object = |function: FunctionId| {
        let object = profile.functions[function].object;
        profile.objects[object].kind == ObjectKind::File
    };
    let frames = profile.frames.iter().filter(|f| of_object(f.function)).filter_map(|f| f.file);
    let declared = profile
        .functions
        .iter()
        .filter(|f| profile.objects[f.object].kind == ObjectKind::File)
        .filter_map(|f| f.declared.map(|(file, _)| file));
    let files: HashSet<FileId> = frames.chain(declared).collect();
    Folders::of_files(files.into_iter().map(|file| &*profile.files[file]))
}

/// The first octets of a file, or of perf's in a folder.
pub(super) fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    let path = main_file(path).unwrap_or_else(|| path.to_owned());
    let _ = std::fs::File::open(path).map(|f| f.take(MAGIC.len() as u64).read_to_end(&mut head));
    head
}

pub(super) fn is_of_perf(head: &[u8]) -> bool {
    head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP")
}

/// Whether a file, or what is in a folder, was recorded by pct.
pub(super) fn is_own(path: &Path) -> bool {
    main_file(path).is_none() || path.extension().is_some_and(|e| e == "pct")
}
