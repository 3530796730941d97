//! The width of prose: Markdown and comments are read in terminals and side by side in reviews.
//!
//! Not measured: tables, blocks of code, sketches in fences, and words that cannot be broken (addresses).

use std::path::{Path, PathBuf};

/// Columns of a line of prose at the most.
const WIDEST: usize = 120;

/// Lines of prose that are too wide: file, number of the line, columns.
pub(crate) fn wide_lines(root: &Path) -> Vec<String> {
    let mut wide = Vec::new();
    for file in files(root) {
        let markdown = file.extension().is_some_and(|ending| ending == "md");
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut fenced = false;
        for (number, line) in text.lines().enumerate() {
            let prose = if markdown { Some(line) } else { comment(line) };
            let Some(prose) = prose else {
                fenced = false;
                continue;
            };
            if prose.trim_start().starts_with("```") {
                fenced = !fenced;
                continue;
            }
            let table = prose.trim_start().starts_with('|');
            let sketch = fenced || markdown && prose.starts_with("    ");
            let columns = line.chars().count();
            if columns > WIDEST && !table && !sketch && prose.trim().contains(' ') {
                wide.push(format!("{}:{}: {columns} columns", file.display(), number + 1));
            }
        }
    }
    wide
}

/// What a line says if it is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['!', '/']).unwrap_or(text))
}

/// All Markdown and Rust files below a folder, without what is built.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry of a folder").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || name == "target" || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            found.append(&mut files(&path));
        } else if path.extension().is_some_and(|ending| ending == "md" || ending == "rs") {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_prose_is_found_and_wide_tables_and_sketches_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let wide = "word ".repeat(30);
        let page = format!("{wide}\n| {wide} |\n\n    {wide}\n```\n{wide}\n```\n{}\n", "x".repeat(200));
        std::fs::write(folder.path().join("page.md"), page).expect("written");
        let code = format!("//! {wide}\n//! | {wide} |\nlet x = \"{wide}\";\n    // {wide}\n");
        std::fs::write(folder.path().join("code.rs"), code).expect("written");
        std::fs::create_dir(folder.path().join("target")).expect("made");
        std::fs::write(folder.path().join("target/built.md"), &wide).expect("written");
        let mut lines = wide_lines(folder.path());
        lines.sort();
        let places: Vec<String> = lines
            .iter()
            .map(|line| line.rsplit('/').next().unwrap_or(line).rsplit_once(": ").expect("columns").0.into())
            .collect();
        assert_eq!(places, ["code.rs:1", "code.rs:4", "page.md:1"]);
    }
}
