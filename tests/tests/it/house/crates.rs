//! The crates of the workspace, what each uses, and the map in ARCHITECTURE.md that says what it may use.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

/// A crate of the workspace.
pub(crate) struct Krate {
    /// Its folder below the root, such as `viewer/deep`.
    pub(crate) folder: String,
    /// Its name on the map, such as `deep`.
    pub(crate) short: String,
    /// Short names of the crates of the workspace that it uses outside its tests.
    pub(crate) uses: Vec<String>,
}

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is below the root").to_owned()
}

/// The name that the map has for a package: `pct-deep` is `deep`.
fn short(package: &str) -> String {
    package.strip_prefix("pct-").or_else(|| package.strip_prefix("lttv-")).unwrap_or(package).to_owned()
}

/// All crates but the tests' own.
pub(crate) fn workspace() -> Vec<Krate> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a string").to_owned();
    let packages = metadata["packages"].as_array().expect("packages");
    let mut crates = Vec::new();
    for package in packages {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let folder = manifest.parent().expect("a manifest is in a folder");
        let folder =
            folder.strip_prefix(root()).expect("crates are below the root").to_string_lossy().into_owned();
        if folder.starts_with("tests") {
            continue;
        }
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        let uses = dependencies
            .iter()
            .filter(|dependency| !dependency["path"].is_null() && dependency["kind"].is_null())
            .map(|dependency| short(&text(&dependency["name"])))
            .collect();
        crates.push(Krate { folder, short: short(&text(&package["name"])), uses });
    }
    assert!(crates.len() > 20, "the workspace has more than {} crates", crates.len());
    crates
}

/// What each crate may use, by the lines `x <- y` ("y uses x") of ARCHITECTURE.md, with what follows from them.
pub(crate) fn arrows_of_the_map() -> BTreeMap<String, BTreeSet<String>> {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let mut below: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let lines = page.lines().filter(|line| line.starts_with("    ") && line.contains(" <- "));
    for chain in lines.flat_map(|line| line.split(';')).filter(|chain| chain.contains("<-")) {
        let floors: Vec<Vec<String>> = chain
            .split("<-")
            .map(|floor| floor.split(',').map(|name| name.trim().to_owned()).collect())
            .collect();
        for pair in floors.windows(2) {
            for upper in &pair[1] {
                below.entry(upper.clone()).or_default().extend(pair[0].iter().cloned());
            }
        }
    }
    assert!(below.len() > 15, "the map of ARCHITECTURE.md was not found");
    // "num, text: any crate that writes numbers or names for people"
    for krate in workspace() {
        below.entry(krate.short).or_default().extend(["num".to_owned(), "text".to_owned()]);
    }
    loop {
        let mut grown = below.clone();
        for lower in grown.values_mut() {
            for name in lower.clone() {
                lower.extend(below.get(&name).into_iter().flatten().cloned());
            }
        }
        if grown == below {
            return below;
        }
        below = grown;
    }
}
