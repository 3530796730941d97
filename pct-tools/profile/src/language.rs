//! Languages: the one place for their names.

/// The language that a function is written in, as far as a profile tells languages apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Language {
    /// Machine code, whatever it was compiled from.
    Native,
    /// Run by CPython.
    Python,
    /// Run by HotSpot.
    Java,
    /// Run by V8.
    JavaScript,
}

impl Language {
    /// As people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Python => "Python",
            Self::Java => "Java",
            Self::JavaScript => "JavaScript",
        }
    }

    /// The language of code that a runtime compiled, told by the form of the name in a perf map: V8 writes
    /// `LazyCompile:*f file.js:1`, CPython `py::f:file.py`, HotSpot `Lpackage/Class;::method` or `int
    /// package.Class.method(..)`.
    #[must_use]
    pub fn of_jit_name(name: &str) -> Self {
        const V8: [&str; 6] = ["LazyCompile:", "Function:", "JS:", "Script:", "Eval:", "RegExp:"];
        if V8.iter().any(|kind| name.starts_with(kind)) {
            Self::JavaScript
        } else if name.starts_with("py::") {
            Self::Python
        } else if name.starts_with('L') && name.contains(";::") {
            Self::Java
        } else {
            Self::Native
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Language;

    #[test]
    fn names_of_compiled_code_tell_their_language() {
        for (name, language) in [
            ("LazyCompile:*fib /srv/a.js:1", Language::JavaScript),
            ("Function:~anonymous node:events:1", Language::JavaScript),
            ("py::main:/srv/a.py", Language::Python),
            ("Ljava/lang/String;::hashCode", Language::Java),
            ("Builtin:ArrayMap", Language::Native),
            ("Interpreter", Language::Native),
        ] {
            assert_eq!(Language::of_jit_name(name), language, "{name}");
        }
    }
}
