//! C++ functions without their own linker name (lambdas, templates instantiated with them, anonymous namespaces) keep
//! what distinguishes them. Needs g++ and nm; without them the test says so and is skipped.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use pct_symbols::{CodeAddr, DebugDirs, Image, ObjectInfo, Options, Symbolizer};

const PROGRAM: &str = r#"
volatile unsigned long sink;
template <class F> __attribute__((noinline)) void repeat(F f) { for (int i = 0; i < sink; i++) f(i); }
namespace {
struct Hidden {
    template <class T> __attribute__((noinline)) void go(T n) { for (T i = 0; i < n; i++) sink += i; }
};
}
namespace shop {
static inline void near(unsigned long n) { sink *= n; }
static __attribute__((noinline)) void part(unsigned long n) {
    near(n);
    repeat([](unsigned long n) { sink -= n * 5; });
}
}
int main(int argc, char **) {
    auto first = [](unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * 3; };
    auto second = [](unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * 5; };
    first(argc);
    second(argc);
    repeat([](unsigned long n) { sink += n * 7; });
    repeat([](unsigned long n) { sink += n * 11; });
    Hidden hidden;
    hidden.go<int>(argc);
    hidden.go<long>(argc);
    shop::part(argc);
}
"#;

/// Compiles [`PROGRAM`].
fn build(dir: &Path, flags: &[&str]) -> Option<PathBuf> {
    let (source, program) = (dir.join("scopes.cc"), dir.join("scopes"));
    std::fs::write(&source, PROGRAM).expect("a temporary directory is writable");
    let run =
        Command::new("g++").args(["-g", "-O2"]).args(flags).arg("-o").arg(&program).arg(&source).output();
    match run {
        Ok(run) if run.status.success() => Some(program),
        other => {
            eprintln!("skipped: g++: {other:?}");
            None
        }
    }
}

/// The names of all frames over a program's code: those that are not inlined, and those that are.
fn names(program: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let image = Image::open(program).expect("just built");
    let out = Command::new("nm").args(["-S", "--defined-only"]).arg(program).output().expect("binutils");
    let mut offsets = Vec::new();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [start, size, "t" | "T" | "W", _] = words[..] {
            let (start, size) = (u64::from_str_radix(start, 16), u64::from_str_radix(size, 16));
            let (start, size) = (start.expect("hex"), size.expect("hex"));
            offsets.extend((start..start + size).filter_map(|a| image.offset_of_address(a)));
        }
    }
    let mut symbols = Symbolizer::new(Options { debug_dirs: DebugDirs::none(), ..Options::default() });
    let object = symbols.add(ObjectInfo::file(program));
    symbols.resolve(offsets.iter().map(|o| (object, CodeAddr::Pc(*o))));
    let (mut physical, mut inlined) = (BTreeSet::new(), BTreeSet::new());
    for offset in offsets {
        for frame in symbols.frames(object, CodeAddr::Pc(offset)) {
            let set = if frame.inlined { &mut inlined } else { &mut physical };
            set.insert(symbols.text(frame.function).to_owned());
        }
    }
    (physical, inlined)
}

#[test]
fn functions_with_code_are_named_by_their_symbols() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(program) = build(dir.path(), &[]) else { return };
    let (physical, _) = names(&program);
    for name in [
        "main",
        "void (anonymous namespace)::Hidden::go<int>(int)",
        "void (anonymous namespace)::Hidden::go<long>(long)",
        "shop::part(unsigned long)",
    ] {
        assert!(physical.contains(name), "{name} in {physical:#?}");
    }
    let repeats: Vec<&String> = physical.iter().filter(|n| n.contains("repeat<")).collect();
    assert_eq!(repeats.len(), 3, "one for each lambda: {physical:#?}");
}

#[test]
fn inlined_calls_have_their_scope() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(program) = build(dir.path(), &[]) else { return };
    let (_, inlined) = names(&program);
    let lambdas: Vec<&str> = inlined.iter().filter_map(|n| n.strip_suffix("::operator()")).collect();
    assert_eq!(lambdas.iter().filter(|n| n.starts_with("main::{lambda:")).count(), 4, "{inlined:#?}");
    assert_eq!(lambdas.iter().filter(|n| n.starts_with("shop::part::{lambda:")).count(), 1, "{inlined:#?}");
    assert!(inlined.contains("shop::near"), "{inlined:#?}");
}

#[test]
fn without_their_symbols_functions_have_their_scope() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(program) = build(dir.path(), &[]) else { return };
    let (before, _) = names(&program);
    // The debug information stays; the symbols of the namespace are removed.
    let bare = dir.path().join("bare");
    let mut strip = Command::new("objcopy");
    strip.args(["--wildcard", "--strip-symbol=_ZN4shop*"]).arg(&program).arg(&bare);
    let strip = strip.output().expect("binutils");
    assert!(strip.status.success(), "{}", String::from_utf8_lossy(&strip.stderr));
    assert!(before.contains("shop::part(unsigned long)"));
    let image = Image::open(&program).expect("just built");
    let out = Command::new("nm").arg(&program).output().expect("binutils");
    let out = String::from_utf8_lossy(&out.stdout);
    let line = out.lines().find(|l| l.contains("part") && !l.contains("repeat")).expect("part has a symbol");
    let start = u64::from_str_radix(line.split_whitespace().next().expect("an address"), 16).expect("hex");
    let offset = image.offset_of_address(start).expect("in the file");
    let mut symbols = Symbolizer::new(Options { debug_dirs: DebugDirs::none(), ..Options::default() });
    let object = symbols.add(ObjectInfo::file(&bare));
    symbols.resolve([(object, CodeAddr::Pc(offset))]);
    let last = symbols.frames(object, CodeAddr::Pc(offset)).last().expect("a frame");
    assert_eq!(symbols.text(last.function), "shop::part");
}
