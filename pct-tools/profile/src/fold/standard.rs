//! Which functions belong to the standard library of their language: they work for whoever calls them.
//!
//! Packages of others (`site-packages`, `node_modules`, Go modules) do not: a program chose them, and its time in them
//! is worth rows of their own.

use crate::allocator_names::{allocates_or_frees, is_linked_c_library};
use crate::language::Language;
use crate::library_names::is_of_standard_library;
use crate::model::{Function, Object, ObjectKind};

/// Whether a function belongs to a standard library. `of_go`: its object is a program in Go.
pub(super) fn is_standard(function: &Function, object: &Object, of_go: bool) -> bool {
    match object.kind {
        ObjectKind::Module(Language::Python) => is_python_module(&object.path),
        ObjectKind::Module(Language::Java) => is_java_class(&function.name),
        ObjectKind::Module(Language::JavaScript) => object.path.starts_with("node:"),
        ObjectKind::File if of_go => is_go_function(&function.name),
        // (A stub of the linker stands for what it calls.)
        ObjectKind::File => {
            let name = function.name.as_str();
            name.ends_with("@plt")
                || allocates_or_frees(name)
                || is_linked_c_library(name)
                || is_of_standard_library(name)
        }
        _ => false,
    }
}

/// Files below `lib/python3.11/`, in `python311.zip`, or frozen into the interpreter.
fn is_python_module(path: &str) -> bool {
    if path.starts_with("<frozen ") {
        return true;
    }
    let mut parts = path.split('/');
    let mut before = "";
    let is_of_version = |name: &str, rest: fn(&str) -> bool| {
        name.strip_prefix("python").is_some_and(|version| version.starts_with(['2', '3']) && rest(version))
    };
    let found = parts.find(|part| {
        let is_library = is_of_version(part, |version| version.contains('.'))
            && (before == "lib" || before == "lib64" || part.ends_with(".zip"));
        before = part;
        is_library
    });
    found.is_some() && parts.next().is_some_and(|next| next != "site-packages" && next != "dist-packages")
}

fn is_java_class(name: &str) -> bool {
    const PACKAGES: [&str; 7] = ["java.", "javax.", "jdk.", "sun.", "com.sun.", "kotlin.", "scala."];
    PACKAGES.iter().any(|package| name.starts_with(package))
}

/// The first parts of the import paths of Go's standard library.
const GO: &[&str] = &[
    "bufio",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "structs",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
    "unsafe",
    "vendor",
    "weak",
];
/// Functions of Go's runtime in assembly that have no package.
const GO_WITHOUT_PACKAGE: &[&str] = &[
    "memeqbody",
    "cmpbody",
    "aeshashbody",
    "indexbody",
    "indexbytebody",
    "countbody",
    "gogo",
    "gcWriteBarrier",
];

/// `encoding/json.Marshal`, `runtime.mallocgc`, `cmpbody`; not `main.f` nor `example.com/a/log.Print`.
fn is_go_function(name: &str) -> bool {
    let first = name.split(['/', '.']).next().unwrap_or(name);
    GO_WITHOUT_PACKAGE.contains(&name) || first.len() < name.len() && GO.contains(&first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_modules_of_the_standard_library_are_told_by_their_place() {
        for path in [
            "/usr/lib/python3.11/json/decoder.py",
            "/root/.pyenv/versions/3.8.18/lib/python3.8/re.py",
            "/usr/lib64/python3.12/threading.py",
            "/opt/python3.11.zip/json/decoder.py",
            "<frozen importlib._bootstrap>",
        ] {
            assert!(is_python_module(path), "{path}");
        }
        for path in [
            "/srv/app.py",
            "app.py",
            "<string>",
            "",
            "/usr/lib/python3/dist-packages/yaml/__init__.py",
            "/usr/lib/python3.11/site-packages/flask/app.py",
            "/home/me/python3.11/app.py",
            "/usr/lib/python3.11",
        ] {
            assert!(!is_python_module(path), "{path}");
        }
    }

    #[test]
    fn packages_of_go_are_told_by_the_start_of_their_path() {
        for name in [
            "encoding/json.Marshal",
            "runtime.mallocgc",
            "sort.insertionSort_func",
            "cmpbody",
            "internal/runtime/syscall.Syscall6",
            "crypto/sha256.block",
        ] {
            assert!(is_go_function(name), "{name}");
        }
        for name in
            ["main.main", "example.com/a/log.Print", "github.com/x/y.(*T).Do", "mine/sort.f", "sort", ""]
        {
            assert!(!is_go_function(name), "{name}");
        }
    }

    #[test]
    fn classes_of_java_are_told_by_their_package() {
        assert!(is_java_class("java.util.HashMap.merge"));
        assert!(is_java_class("jdk.internal.misc.Unsafe.park"));
        assert!(!is_java_class("javassist.ClassPool.get"));
        assert!(!is_java_class("A.java.f"));
    }
}
