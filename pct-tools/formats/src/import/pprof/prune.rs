//! `drop_frames` and `keep_frames`: the file's author says which functions are of no interest to a reader.
//!
//! As `go tool pprof` does it: a function whose whole name matches `drop_frames`, and not `keep_frames`, is left out
//! with all that it called. Frames that no other frame called stay, so that no stack becomes empty.

use super::tables::{Location, Tables};
use pct_profile::Pattern;
use std::collections::HashMap;

/// How much of each location is left out; a location that is not here stays whole.
#[derive(Default)]
pub(super) struct Prune {
    /// Lines to be left out, counted from the innermost; all of them: the location itself.
    cuts: HashMap<u64, usize>,
    /// Why a pattern was not applied.
    pub(super) refused: Vec<String>,
}

impl Prune {
    pub(super) fn from_tables(tables: &Tables<'_>) -> Self {
        let mut prune = Self::default();
        let drop = prune.pattern("drop_frames", tables.text(tables.drop_frames));
        let keep = prune.pattern("keep_frames", tables.text(tables.keep_frames));
        let Some(drop) = drop else { return prune };
        let is_dropped = |name: &str| {
            let name = without_arguments(name);
            !name.is_empty() && drop.matches(name) && !keep.as_ref().is_some_and(|keep| keep.matches(name))
        };
        for (id, location) in &tables.locations {
            let outermost = location.lines.iter().rposition(|line| {
                tables
                    .functions
                    .get(&line.function)
                    .is_some_and(|function| is_dropped(&tables.name(function)))
            });
            if let Some(at) = outermost {
                prune.cuts.insert(*id, at + 1);
            }
        }
        prune
    }

    fn pattern(&mut self, field: &str, text: &str) -> Option<Pattern> {
        if text.is_empty() {
            return None;
        }
        let pattern = Pattern::parse(&format!("^(?:{text})$"));
        if let Err(why) = &pattern {
            self.refused.push(format!("{field} of the file was not applied: {why}"));
        }
        pattern.ok()
    }

    /// What is left of a stack, innermost location first: the locations, and how many of the innermost one's lines
    /// are left out.
    pub(super) fn cut<'s>(&self, stack: &'s [u64], locations: &HashMap<u64, Location>) -> (&'s [u64], usize) {
        let mut caller_seen = false;
        for (at, id) in stack.iter().enumerate().rev() {
            match self.cuts.get(id) {
                None => caller_seen = true,
                Some(&lines) if caller_seen => {
                    let is_whole = locations.get(id).is_some_and(|location| location.lines.len() <= lines);
                    return if is_whole { (&stack[at + 1..], 0) } else { (&stack[at..], lines) };
                }
                Some(_) => {}
            }
        }
        (stack, 0)
    }
}

/// A C++ function's name without its arguments, as patterns are written for; `operator()` and anonymous namespaces
/// are part of the name.
fn without_arguments(name: &str) -> &str {
    let name = name.trim_start_matches('.');
    let mut from = 0;
    while let Some(at) = name[from..].find('(').map(|at| at + from) {
        let rest = &name[at..];
        let reserved = if rest.starts_with("(anonymous namespace)") {
            "(anonymous namespace)".len()
        } else if rest.starts_with("()") && name[..at].ends_with("operator") {
            "()".len()
        } else {
            return name[..at].trim_end();
        };
        from = at + reserved;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::without_arguments;

    #[test]
    fn patterns_see_names_without_arguments() {
        assert_eq!(without_arguments("operator new(unsigned long)"), "operator new");
        assert_eq!(without_arguments("F::operator()(int) const"), "F::operator()");
        assert_eq!(without_arguments("(anonymous namespace)::f(int)"), "(anonymous namespace)::f");
        assert_eq!(without_arguments("runtime.goexit"), "runtime.goexit");
    }
}
