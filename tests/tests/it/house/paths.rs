//! The files and folders that the map names.

use super::prose;
use std::path::Path;

/// Those that are not there. The map leaves out the folders above a crate's, `src` and endings: `profile/text/waits` is
/// `pct-tools/profile/src/text/waits.rs`.
pub(crate) fn gone<'p>(page: &'p str, root: &Path) -> Vec<&'p str> {
    let files = prose::files(root);
    let files: Vec<String> =
        files.iter().filter_map(|file| file.strip_prefix(root).ok()).map(short).collect();
    let is_there = |path: &&str| {
        let parts = short(Path::new(path));
        root.join(path).exists() || files.iter().any(|file| file.contains(&parts))
    };
    named(page).filter(|path| !is_there(path)).collect()
}

/// What stands between backticks in a line and reads as a path in the repository.
fn named(page: &str) -> impl Iterator<Item = &str> {
    let is_path = |text: &&str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-/".contains(c);
        text.contains('/') && !text.starts_with('/') && text.chars().all(plain)
    };
    page.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_path)
}

/// A path between slashes, without what the map leaves out.
fn short(path: &Path) -> String {
    let path = path.with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy()).filter(|part| *part != "src");
    parts.fold("/".to_owned(), |all, part| all + &part + "/")
}

#[test]
fn a_path_of_the_map_that_is_gone_is_found() {
    let page = "`house/paths`, `tests/src/lib`, `house/` and `tests/run` are there, but neither `it/paths`\n\
        nor `house/path` and `src/house/path`. `/proc/self`, `a b/c` and `of/NUMBER` are something else.";
    let root = super::crates::root();
    assert_eq!(gone(page, &root), ["it/paths", "house/path", "src/house/path"]);
}
