//! Contour files: they say which modules are below the line at which caller pages stop.
//!
//! `X.contour` beside `X.data`; each line is two words, `all MODULE` (every procedure of the module is below the
//! line) or `internal MODULE` (those not in its interface). Any other line makes the file malformed. Modules that the
//! profile does not have are a warning; if there are no others, an error.

use std::collections::HashMap;

/// How much of a module is excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    All,
    /// What is not in its interface.
    Internal,
}

/// Modules below the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusion {
    modules: HashMap<String, Extent>,
}

impl Exclusion {
    /// Whether a procedure of `module` is below the line.
    #[must_use]
    pub fn excludes(&self, module: &str, in_interface: bool) -> bool {
        match self.modules.get(module) {
            Some(Extent::All) => true,
            Some(Extent::Internal) => !in_interface,
            None => false,
        }
    }
}

/// The state of a profile's contour file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContourState {
    /// There is none.
    #[default]
    None,
    /// It cannot be used; the message says why.
    Unreadable(String),
    /// It can be used.
    Readable {
        /// What it excludes.
        exclusion: Exclusion,
        /// Modules it names that do not exist.
        warning: Option<String>,
    },
}

const UNKNOWN: &str = "These modules either do not exist or have no deep profiled procedures.";

/// Parses the text of the contour file `file`. `known` says whether the profile has a module.
#[must_use]
pub fn parse(file: &str, text: &str, known: impl Fn(&str) -> bool) -> ContourState {
    let mut modules = HashMap::new();
    let mut unknown: Vec<&str> = Vec::new();
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n').filter(|_| !text.is_empty()) {
        let mut words = line.split_whitespace();
        let (extent, module) = match (words.next(), words.next(), words.next()) {
            (Some("all"), Some(module), None) => (Extent::All, module),
            (Some("internal"), Some(module), None) => (Extent::Internal, module),
            _ => {
                return ContourState::Unreadable(format!(
                    "file {file} contains badly formatted line: {line}"
                ));
            }
        };
        if known(module) {
            modules.insert(module.to_owned(), extent);
        } else {
            unknown.insert(0, module);
        }
    }
    if unknown.is_empty() {
        return ContourState::Readable { exclusion: Exclusion { modules }, warning: None };
    }
    if modules.is_empty() {
        return ContourState::Unreadable(format!(
            "Error: file {file} contains only unrecognized module names. {UNKNOWN}"
        ));
    }
    let warning =
        format!("Warning: {file} contains unrecognized module names: {}. {UNKNOWN}", unknown.join(", "));
    ContourState::Readable { exclusion: Exclusion { modules }, warning: Some(warning) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> ContourState {
        parse("x.contour", text, |m| m == "list" || m == "map")
    }

    #[test]
    fn both_extents_are_understood() {
        let ContourState::Readable { exclusion, warning } = read("all list\ninternal map\n") else {
            panic!("readable")
        };
        assert_eq!(warning, None);
        assert!(exclusion.excludes("list", true));
        assert!(exclusion.excludes("map", false));
        assert!(!exclusion.excludes("map", true));
        assert!(!exclusion.excludes("set", false));
    }

    #[test]
    fn any_other_line_is_malformed_also_an_empty_one() {
        for bad in ["all list\n\nall map\n", "some list\n", "all\n", "all list x\n", "\n"] {
            assert!(
                matches!(read(bad), ContourState::Unreadable(m) if m.contains("badly formatted line")),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn unknown_modules_are_a_warning_or_if_all_are_an_error() {
        let ContourState::Readable { warning: Some(w), .. } = read("all a\nall list\nall b\n") else {
            panic!("warns")
        };
        assert!(w.starts_with("Warning: x.contour contains unrecognized module names: b, a."), "{w}");
        assert!(matches!(read("all a\n"), ContourState::Unreadable(m) if m.contains("only unrecognized")));
        assert!(matches!(read(""), ContourState::Readable { warning: None, .. }));
    }

    proptest! {
        #[test]
        fn any_text_is_a_state(text in any::<String>()) {
            let _ = read(&text);
        }
    }
}
