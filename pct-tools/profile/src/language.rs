//! Languages: the one place for their names, and what a recording says of the frames of interpreted ones.

use crate::model::{Account, Loss, ObjectKind, Profile, Weight};

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
    /// `LazyCompile:*f file.js:1`, CPython `py::f:file.py`, HotSpot `Lpackage/Class;::method` or `int package.Class.method(..)`.
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

/// What a recording says of one interpreted language.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spoken {
    /// Which language.
    pub language: Language,
    /// Samples whose frames of the language are all there.
    pub whole: u64,
    /// Samples whose frames of the language are not, or not all, there, by cause.
    pub flawed: Vec<Loss>,
    /// Where the time of the language's threads went.
    pub spent: Spent,
}

/// Where time went, as seen from an interpreted language: each sample is in one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// In functions of the language itself: the innermost frame that is shown is one.
    pub inside: Weight,
    /// In native code that such a function called.
    pub native: Weight,
    /// Waiting for the global interpreter lock.
    pub lock: Weight,
    /// Collecting garbage.
    pub garbage: Weight,
    /// In samples without a frame of the language.
    pub outside: Weight,
}

impl Account {
    /// The row of a language, made if need be.
    pub fn spoken(&mut self, language: Language) -> &mut Spoken {
        let known = self.languages.iter().position(|row| row.language == language);
        let at = known.unwrap_or_else(|| {
            let (flawed, spent) = (Vec::new(), Spent::default());
            self.languages.push(Spoken { language, whole: 0, flawed, spent });
            self.languages.len() - 1
        });
        &mut self.languages[at]
    }
}

impl Profile {
    /// The language of a function.
    #[must_use]
    pub fn language(&self, function: crate::model::FunctionId) -> Language {
        let function = &self.functions[function];
        match self.objects[function.object].kind {
            ObjectKind::Module(language) => language,
            ObjectKind::Anonymous => Language::of_jit_name(&function.name),
            _ => Language::Native,
        }
    }
    /// Some function is of an interpreted language.
    #[must_use]
    pub fn has_languages(&self) -> bool {
        self.functions.ids().any(|function| self.language(function) != Language::Native)
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
