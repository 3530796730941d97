//! The map of the house holds: crates depend on each other only as ARCHITECTURE.md says, and inside a crate no modules
//! depend on each other in a circle. What it names is there. Lines of prose are narrow enough to be read, and casts are
//! few.
//!
//! A circle means that none of its files can be read or tested without the others. No circle of files is allowed. Where
//! circles of folders are left, `FOLDERS` names them; the list may only become shorter.

mod arrows;
mod casts;
mod crates;
mod names;
mod paths;
mod prose;

use std::collections::{BTreeMap, BTreeSet};

/// Circles between folders that are left: the folder of the crate, then the modules. (A folder counts as one thing with
/// all that is in it, so a circle of folders can be there although no files depend on each other in a circle.)
const FOLDERS: &[(&str, &[&str])] = &[(
    "runtime/sampler",
    &["code/mod.rs", "heap/mod.rs", "process/mod.rs", "record/mod.rs", "signal/mod.rs"],
)];

/// Compares the circles that were found in one crate with its entry in `list`.
fn judge(
    what: &str,
    folder: &str,
    list: &[(&str, &[&str])],
    found: &[arrows::Circle],
    complaints: &mut Vec<String>,
) {
    let listed: BTreeSet<&str> = list
        .iter()
        .filter(|(name, _)| *name == folder)
        .flat_map(|(_, files)| files.iter().copied())
        .collect();
    let met: BTreeSet<&str> =
        found.iter().flat_map(|circle| circle.members.iter().map(String::as_str)).collect();
    for circle in found {
        if circle.members.iter().any(|member| !listed.contains(member.as_str())) {
            complaints.push(format!(
                "{folder}: a circle of {what}: {}\n{}",
                circle.members.join(", "),
                circle.arrows
            ));
        }
    }
    for gone in listed.difference(&met) {
        complaints.push(format!("{folder}: {gone} is in no circle of {what} any more: take it off the list"));
    }
}

#[test]
fn modules_do_not_depend_on_each_other_in_circles() {
    let mut complaints = Vec::new();
    for krate in crates::workspace() {
        let krate = krate.folder;
        let map = arrows::Map::read(&crates::root().join(&krate).join("src"));
        judge("files", &krate, &[], &map.circles_of_files(), &mut complaints);
        judge("folders", &krate, FOLDERS, &map.circles_of_folders(), &mut complaints);
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn crates_depend_on_each_other_as_the_map_says() {
    let allowed = crates::arrows_of_the_map();
    let mut complaints = Vec::new();
    for krate in crates::workspace() {
        for used in &krate.uses {
            if !allowed.get(&krate.short).is_some_and(|below| below.contains(used)) {
                complaints.push(format!("{} uses {used}: no such arrow in ARCHITECTURE.md", krate.short));
            }
            let viewer = krate.folder.starts_with("viewer/");
            assert!(
                !(viewer && matches!(used.as_str(), "profile" | "symbols" | "format")),
                "{} uses {used}",
                krate.short
            );
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_map_is_narrow_enough_to_be_read_in_a_terminal() {
    let page = std::fs::read_to_string(crates::root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let wide: Vec<&str> = page.lines().filter(|line| line.chars().count() > 110).collect();
    assert!(wide.is_empty(), "more than 110 columns:\n{}", wide.join("\n"));
}

#[test]
fn what_the_map_names_is_there() {
    let page = std::fs::read_to_string(crates::root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let gone = paths::gone(&page, &crates::root());
    assert!(gone.is_empty(), "ARCHITECTURE.md names what is not there: {}", gone.join(", "));
}

#[test]
fn lines_of_prose_are_at_most_120_columns_wide() {
    let wide = prose::wide_lines(&crates::root());
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

/// Casts in a thousand lines of code, at most.
const MOST_CASTS: usize = 8;

#[test]
fn casts_are_few() {
    let fence = crates::root().join("pct-tools/attach/src/ptrace");
    let mut all = casts::Count::default();
    let mut by_crate = Vec::new();
    for krate in crates::workspace().iter().filter(|krate| !krate.folder.starts_with("runtime/")) {
        let mut count = casts::Count::default();
        for file in prose::files(&crates::root().join(&krate.folder).join("src")) {
            let of_tests = file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
            if file.extension().is_some_and(|ending| ending == "rs") && !of_tests && !file.starts_with(&fence)
            {
                count.file(&file);
            }
        }
        all.casts += count.casts;
        all.lines += count.lines;
        by_crate.push(format!("{}: {} in {} lines", krate.folder, count.casts, count.lines));
    }
    assert!(all.lines > 50_000, "only {} lines were read", all.lines);
    let most = all.lines * MOST_CASTS / 1000;
    assert!(all.casts <= most, "{} casts, at most {most}:\n{}", all.casts, by_crate.join("\n"));
}

#[test]
fn names_can_be_searched_for() {
    let mut functions = Vec::new();
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for krate in crates::workspace() {
        for file in prose::files(&crates::root().join(&krate.folder).join("src")) {
            let of_tests = file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
            if file.extension().is_none_or(|ending| ending != "rs") || of_tests {
                continue;
            }
            let names = names::vague_names(&file);
            let place =
                |(line, name): (usize, String)| (name.clone(), format!("{}:{line}: {name}", file.display()));
            functions.extend(names.functions.into_iter().map(place).map(|(_, place)| place));
            for (name, place) in names.types.into_iter().map(place) {
                types.entry(name).or_default().push(place);
            }
        }
    }
    assert!(functions.is_empty(), "name these after what they give or do:\n{}", functions.join("\n"));
    let shared: Vec<String> = types.into_values().filter(|places| places.len() > 1).flatten().collect();
    assert!(shared.is_empty(), "one word names several types:\n{}", shared.join("\n"));
}
