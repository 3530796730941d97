//! Where functions are declared, in test programs whose source marks each function's line with its name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection};
use pct_symbols::{CodeAddr, DebugDirs, Image, ObjectInfo, Options, Symbolizer};

const HEADER: &str = r#"
struct Shape {
    int sides;
    int area(int n);
    int twice(int n) { return area(n) * 2; } // is Shape::twice
    virtual int name();
};
static inline int inlined(int n) { // is inlined
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += i * n ^ sum;
    return sum;
}
"#;

const MAIN: &str = r#"
#include "shape.h"
#define NOINLINE __attribute__((noinline))

int Shape::area(int n) { // is Shape::area
    return inlined(n) + sides;
}
int Shape::name() { // is Shape::name
    return twice(sides);
}
namespace {
NOINLINE int hidden( // is (anonymous namespace)::hidden
    int n)
{
    return inlined(n + 1);
}
}
template <class T> NOINLINE T largest(T a, T b) { // is largest
    return a > b ? a : b;
}
int main(int argc, char **argv) { // is main
    Shape shape;
    shape.sides = argc;
    auto lambda = [&](int n) { return hidden(n) + argc; };
    int n = largest(lambda(argc), shape.name());
    n += largest((long)n, (long)shape.twice(n)) != 0;
    return n & 1;
}
"#;

/// The names and lines that the sources mark, by function without its parameters.
fn marked(dir: &Path) -> BTreeMap<String, (PathBuf, u32)> {
    let mut out = BTreeMap::new();
    for (name, text) in [("shape.h", HEADER), ("main.cc", MAIN)] {
        for (i, line) in text.lines().enumerate() {
            if let Some((_, function)) = line.split_once("// is ") {
                out.insert(function.to_owned(), (dir.join(name), i as u32 + 1));
            }
        }
    }
    out
}

fn compile(dir: &Path, flags: &[&str]) -> Option<PathBuf> {
    std::fs::write(dir.join("shape.h"), HEADER).expect("a temporary directory is writable");
    std::fs::write(dir.join("main.cc"), MAIN).expect("a temporary directory is writable");
    let out = dir.join(format!("shape{}", flags.concat()));
    let run = Command::new("g++").args(flags).arg("-o").arg(&out).arg(dir.join("main.cc")).output();
    match run {
        Ok(run) if run.status.success() => Some(out),
        _ => {
            pct_kit::skip(&format!("g++ {flags:?}"));
            None
        }
    }
}

/// All declarations that lookups of a program's code give, by function without parameters, inlined or not.
fn told(symbols: &mut Symbolizer, program: &Path) -> BTreeMap<String, BTreeSet<Option<(PathBuf, u32)>>> {
    let image = Image::open(program).expect("just built");
    let data = std::fs::read(program).expect("just built");
    let elf = object::File::parse(&*data).expect("ELF");
    let object = symbols.add(ObjectInfo::file(program));
    let mut out: BTreeMap<String, BTreeSet<Option<(PathBuf, u32)>>> = BTreeMap::new();
    for name in [".text", ".text.startup", ".text.unlikely"] {
        let Some(text) = elf.section_by_name(name) else { continue };
        let offsets: Vec<u64> = (text.address()..text.address() + text.size())
            .filter_map(|a| image.offset_of_address(a))
            .collect();
        symbols.resolve(offsets.iter().map(|o| (object, CodeAddr::Pc(*o))));
        for offset in offsets {
            for frame in symbols.frames(object, CodeAddr::Pc(offset)) {
                let name = symbols.text(frame.function);
                let name = name.strip_prefix("int ").or(name.strip_prefix("long ")).unwrap_or(name);
                let name = name.replace("(anonymous namespace)", "{anon}");
                let name =
                    name.split(['(', '<']).next().unwrap_or("").replace("{anon}", "(anonymous namespace)");
                let place = frame.declared.map(|d| (PathBuf::from(symbols.text(d.file)), d.line));
                out.entry(name).or_default().insert(place);
            }
        }
    }
    out
}

fn new() -> Symbolizer {
    Symbolizer::new(Options { debug_dirs: DebugDirs::none(), ..Options::default() })
}

fn check(program: &Path, dir: &Path) {
    let told = told(&mut new(), program);
    for (function, place) in marked(dir) {
        let Some(places) = told.get(&function) else { continue };
        assert_eq!(places, &BTreeSet::from([Some(place)]), "{function} of {}", program.display());
    }
    for function in ["main", "Shape::area", "largest"] {
        assert!(told.contains_key(function), "{function}: {told:?}");
    }
}

#[test]
fn functions_are_declared_where_the_source_says() {
    let dir = tempfile::tempdir().expect("temp");
    for flags in [
        &["-gdwarf-5", "-O2"][..],
        &["-gdwarf-5", "-O0"],
        &["-gdwarf-4", "-O2"],
        &["-gdwarf-3", "-O1"],
        &["-gdwarf-5", "-O2", "-flto"],
        &["-gdwarf-4", "-O2", "-fdebug-types-section"],
    ] {
        if let Some(program) = compile(dir.path(), flags) {
            check(&program, dir.path());
        }
    }
}

#[test]
fn declarations_moved_by_dwz_are_found() {
    let dir = tempfile::tempdir().expect("temp");
    for flags in [&["-gdwarf-4", "-O2", "-flto"][..], &["-gdwarf-5", "-O2"]] {
        let Some(program) = compile(dir.path(), flags) else { return };
        match Command::new("dwz").arg(&program).output() {
            Ok(run) if run.status.success() => check(&program, dir.path()),
            _ => return pct_kit::skip("dwz"),
        }
    }
}

#[test]
fn where_entries_tell_nothing_it_is_the_line_of_the_first_instruction() {
    let dir = tempfile::tempdir().expect("temp");
    if let Some(program) = compile(dir.path(), &["-gdwarf-5", "-O1", "-gsplit-dwarf"]) {
        let told = told(&mut new(), &program);
        let main = marked(dir.path())["main"].clone();
        assert!(told["main"].contains(&Some(main)), "{told:?}");
    }
    let source = dir.path().join("lines.rs");
    let text = "use std::hint::black_box;\n\nfn leaf(n: u64) -> u64 {\n    n * 3\n}\n\npub fn main() {\n    black_box(leaf(black_box(2)));\n}\n";
    std::fs::write(&source, text).expect("temp");
    let program = dir.path().join("lines");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let run = Command::new(rustc)
        .args(["-C", "debuginfo=line-tables-only", "-o"])
        .arg(&program)
        .arg(&source)
        .output();
    if !run.is_ok_and(|r| r.status.success()) {
        return pct_kit::skip("rustc");
    }
    let told = told(&mut new(), &program);
    assert_eq!(told["lines::leaf"], BTreeSet::from([Some((source.clone(), 3))]));
    assert_eq!(told["lines::main"], BTreeSet::from([Some((source, 7))]));
}

#[test]
fn without_debug_information_nothing_is_said() {
    let dir = tempfile::tempdir().expect("temp");
    let Some(program) = compile(dir.path(), &["-O1"]) else { return };
    assert_eq!(told(&mut new(), &program)["main"], BTreeSet::from([None]));
}

#[test]
fn an_archive_keeps_declarations() {
    let dir = tempfile::tempdir().expect("temp");
    let Some(program) = compile(dir.path(), &["-g", "-O2"]) else { return };
    let mut first = new();
    let before = told(&mut first, &program);
    let offsets = first.to_archive();
    offsets.write(dir.path()).expect("written");
    std::fs::rename(&program, dir.path().join("copy")).expect("moved");
    let mut second = new().with_archive(dir.path()).expect("reads");
    // The code is read from the copy. The names are asked under the name of the program, which is gone.
    let image = Image::open(&dir.path().join("copy")).expect("there");
    let object = second.add(ObjectInfo { build_id: image.build_id().cloned(), ..ObjectInfo::file(&program) });
    let mut same = 0;
    let own = first.add(ObjectInfo::file(&program));
    for offset in 0..std::fs::metadata(dir.path().join("copy")).expect("there").len() {
        let at = CodeAddr::Pc(offset);
        let frames = first.frames(own, at).to_vec();
        if frames.is_empty() {
            continue;
        }
        second.resolve([(object, at)]);
        for (a, b) in frames.iter().zip(second.frames(object, at)) {
            let place = |s: &Symbolizer, f: &pct_symbols::ResolvedFrame| {
                f.declared.map(|d| (s.text(d.file).to_owned(), d.line))
            };
            assert_eq!(place(&first, a), place(&second, b));
            same += usize::from(a.declared.is_some());
        }
    }
    assert!(same > 20 && before.len() > 3, "{same}");
}
