//! What names keep of the files that they came from: base names, no folders.
//!
//! Folders tell who works where (`/home/NAME/...`), and the tables are read by many. Names of functions of
//! scripts and of code made at run time may hold whole paths: `LazyCompile:~parse
//! /home/NAME/shop/index.js:12`.

/// The name of an object, by its path: the base name. A map of names that a process wrote
/// (`/tmp/perf-4711.map`) has the process's id in its name, so it is called `[jit]`, as code without a map
/// is.
#[must_use]
pub fn object(path: &str) -> String {
    let base = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path);
    let is_map = base.starts_with("perf-") && base.ends_with(".map");
    if is_map { "[jit]".to_owned() } else { base.to_owned() }
}

/// A function's name in which each absolute path is its last part.
///
/// `net/http.Serve` (Go) and `operator/` (C++) are no paths: a path begins where no word goes on.
#[must_use]
pub fn function(name: &str) -> String {
    if !name.contains('/') {
        return name.to_owned();
    }
    let mut kept = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(slash) = rest.find('/') {
        let (before, from) = rest.split_at(slash);
        kept.push_str(before);
        let in_word = kept.chars().next_back().is_some_and(|c| c.is_alphanumeric() || "_.-)>]".contains(c));
        let end = from.find(|c: char| c.is_whitespace() || "()[]<>\"',;".contains(c)).unwrap_or(from.len());
        let (path, after) = from.split_at(end);
        let base = path.rsplit('/').next().unwrap_or_default();
        kept.push_str(if in_word || base.is_empty() { path } else { base });
        rest = after;
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_keep_no_folder() {
        for (name, kept) in [
            ("LazyCompile:~parse /home/u/shop/index.js:12", "LazyCompile:~parse index.js:12"),
            ("eval file:///home/u/x.mjs:1:2", "eval file:x.mjs:1:2"),
            ("run (/home/u/a.py) </home/u/b.py>", "run (a.py) <b.py>"),
            ("/home/u/c.lua:7", "c.lua:7"),
            ("net/http.(*conn).serve", "net/http.(*conn).serve"),
            ("github.com/u/shop/cart.Add[...]", "github.com/u/shop/cart.Add[...]"),
            ("Big operator/(Big, Big)", "Big operator/(Big, Big)"),
            ("Big& Big::operator/=(Big)", "Big& Big::operator/=(Big)"),
            ("Ratio<8 / 2>", "Ratio<8 / 2>"),
            ("plain", "plain"),
        ] {
            assert_eq!(function(name), kept);
        }
    }

    #[test]
    fn objects_keep_their_base_name_and_no_process() {
        assert_eq!(object("/home/u/lib/libx.so"), "libx.so");
        assert_eq!(object("/home/u/shop/__init__.py"), "__init__.py");
        assert_eq!(object("/tmp/perf-4711.map"), "[jit]");
        assert_eq!(object("[vdso]"), "[vdso]");
    }
}
