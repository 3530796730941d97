//! The map of the house holds: crates depend on each other only as ARCHITECTURE.md says, and inside a crate no modules
//! depend on each other in a circle.
//!
//! A circle means that none of its files can be read or tested without the others. Where circles are left, `CIRCLES`
//! names the files; the list may only become shorter.

mod arrows;
mod crates;

use std::collections::BTreeSet;

/// Files of circles that are left: folder of the crate, then files below its `src`.
const CIRCLES: &[(&str, &[&str])] = &[
    ("pct-tools/cli", &["commands/attach.rs", "commands/attach/silence.rs"]),
    // The wrappers' machine code calls what counts, and that finds the wrappers' targets.
    ("runtime/preload", &["malloc/entry.rs", "malloc/mod.rs", "malloc/python.rs", "malloc/start.rs"]),
    (
        "runtime/sampler",
        &[
            "code/callers.rs",
            "code/python.rs",
            "heap/level.rs",
            "heap/mod.rs",
            "process/births.rs",
            "process/boot.rs",
            "process/file.rs",
            "process/housekeeper.rs",
            "process/rotation.rs",
            "process/session.rs",
            "process/store.rs",
            "process/threads.rs",
            "record/codes.rs",
            "record/rings.rs",
            "signal/bus.rs",
            "signal/clock/inherited.rs",
            "signal/clock/itimer.rs",
            "signal/clock/mod.rs",
            "signal/clock/perf.rs",
            "signal/clock/period.rs",
            "signal/clock/thread_timer.rs",
            "signal/handler.rs",
            "signal/host.rs",
            "signal/masks.rs",
            "signal/numbers.rs",
            "signal/system_time.rs",
            "sys/aarch64.rs",
            "sys/files.rs",
            "sys/mod.rs",
            "sys/x86_64.rs",
        ],
    ),
];

/// Circles between folders (a folder counts as one thing with all that is in it) that are left.
const FOLDERS: &[(&str, &[&str])] = &[
    ("pct-tools/attach", &["entry.rs", "linger.rs", "ptrace/mod.rs", "stack.rs"]),
    ("runtime/preload", &["malloc/entry.rs", "malloc/python.rs", "malloc/start.rs"]),
    (
        "runtime/sampler",
        &[
            "code/mod.rs",
            "heap/mod.rs",
            "process/births.rs",
            "process/boot.rs",
            "process/file.rs",
            "process/housekeeper.rs",
            "process/mod.rs",
            "process/rotation.rs",
            "process/session.rs",
            "process/store.rs",
            "process/threads.rs",
            "record/mod.rs",
            "signal/bus.rs",
            "signal/handler.rs",
            "signal/host.rs",
            "signal/masks.rs",
            "signal/mod.rs",
            "signal/numbers.rs",
        ],
    ),
];

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
        judge("files", &krate, CIRCLES, &map.circles_of_files(), &mut complaints);
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
