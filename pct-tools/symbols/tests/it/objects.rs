//! Real objects, built with the machine's own compiler, then moved, stripped, split and replaced.
//! Each test needs gcc/g++ and binutils. Without them it says so and is skipped.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use pct_symbols::translator::Template;
use pct_symbols::{
    CodeAddr, DebugDirs, Image, ObjectId, ObjectInfo, ObjectKind, Options, Problem, Source, Symbolizer,
};

const PROGRAM: &str = r#"
#include <cstdio>
#include <cstdlib>
namespace shop {
static volatile int sink;
__attribute__((always_inline)) static inline int discount(int price) {
    sink = price * 3;                        /* line 7 */
    return price - sink / 7;
}
struct Till {
    int total;
    __attribute__((noinline)) int add(int price) {
        total += discount(price);            /* line 13 */
        return total;
    }
};
}
static __attribute__((noinline)) int hidden(int n) { return printf("%d\n", n); }
int main(int argc, char **argv) {
    shop::Till till{0};
    for (int i = 0; i < argc + 5; i++) till.add(atoi(argv[0]) + i);
    return hidden(till.total) < 0;
}
"#;

fn run(command: &mut Command) -> bool {
    match command.output() {
        Ok(out) if out.status.success() => true,
        Ok(out) => {
            eprintln!("{command:?}: {}", String::from_utf8_lossy(&out.stderr));
            false
        }
        Err(e) => {
            pct_kit::skip(&format!("{command:?}: {e}"));
            false
        }
    }
}

/// Compiles [`PROGRAM`]. None (and a line on stderr) if that is impossible.
fn build(dir: &Path, flags: &[&str]) -> Option<PathBuf> {
    let source = dir.join("shop.cc");
    std::fs::write(&source, PROGRAM).expect("a temporary directory is writable");
    let out = dir.join("shop");
    let mut command = Command::new("g++");
    command.args(["-g", "-O1", "-Wl,--build-id"]).args(flags).arg("-o").arg(&out).arg(&source);
    run(&mut command).then_some(out)
}

/// File offsets of a function's bytes, from nm of the unstripped program.
fn offsets(program: &Path, name: &str) -> Vec<u64> {
    let out = Command::new("nm").arg("-S").arg(program).output().expect("binutils are there if gcc is");
    let text = String::from_utf8_lossy(&out.stdout);
    let line =
        text.lines().find(|l| l.split_whitespace().nth(3).is_some_and(|n| n.contains(name))).expect(name);
    let mut words = line.split_whitespace().map(|w| u64::from_str_radix(w, 16));
    let (start, size) =
        (words.next().expect("start").expect("hex"), words.next().expect("size").expect("hex"));
    let image = Image::open(program).expect("just built");
    (start..start + size).map(|a| image.offset_of_address(a).expect("in the file")).collect()
}

fn quiet() -> Options {
    Options { debug_dirs: DebugDirs::none(), ..Options::default() }
}

fn names(symbols: &Symbolizer, object: ObjectId, offset: u64) -> Vec<String> {
    symbols
        .frames(object, CodeAddr::Pc(offset))
        .iter()
        .map(|f| symbols.text(f.function).to_string())
        .collect()
}

fn resolve_all(symbols: &mut Symbolizer, object: ObjectId, offsets: &[u64]) {
    symbols.resolve(offsets.iter().map(|o| (object, CodeAddr::Pc(*o))));
}

#[test]
fn inlined_calls_come_with_their_lines() {
    let dir = tempfile::tempdir().expect("temp");
    for flags in [&["-gdwarf-4"][..], &["-gdwarf-5"], &["-gdwarf-5", "-gz"], &["-no-pie"]] {
        let Some(program) = build(dir.path(), flags) else { return };
        let offsets = offsets(&program, "Till3add");
        let mut symbols = Symbolizer::new(quiet());
        let object = symbols.add(ObjectInfo::file(&program));
        resolve_all(&mut symbols, object, &offsets);
        let mut inlined = 0;
        for o in &offsets {
            let frames = symbols.frames(object, CodeAddr::Pc(*o));
            let last = frames.last().expect("every asked address has a frame");
            assert_eq!(symbols.text(last.function), "shop::Till::add(int)", "{flags:?}");
            assert!(symbols.text(last.file.expect("a file")).ends_with("/shop.cc"));
            assert!(!last.inlined && last.source == Source::Debug);
            if let [inner, outer] = frames {
                assert!(inner.inlined);
                assert!(symbols.text(inner.function).contains("discount"));
                assert_eq!(outer.line, 13);
                assert!((6..=9).contains(&inner.line), "{}", inner.line);
                inlined += 1;
            }
        }
        assert!(inlined > 0, "{flags:?}: no inlined frame");
        assert!(symbols.notes().is_empty(), "{:?}", symbols.notes());
    }
}

#[test]
fn a_stripped_program_finds_its_debug_file_by_link_and_by_build_id() {
    let dir = tempfile::tempdir().expect("temp");
    let Some(program) = build(dir.path(), &[]) else { return };
    let wanted = offsets(&program, "Till3add");
    let debug = dir.path().join("shop.debug");
    assert!(run(Command::new("objcopy").arg("--only-keep-debug").arg(&program).arg(&debug)));
    assert!(run(Command::new("strip").arg(&program)));

    // Found by the debug link beside it; once with and once without a build-id to compare.
    for drop_id in [false, true] {
        let linked = dir.path().join(format!("linked-{drop_id}"));
        let mut objcopy = Command::new("objcopy");
        if drop_id {
            objcopy.args(["--remove-section", ".note.gnu.build-id"]);
        }
        assert!(run(objcopy
            .arg(format!("--add-gnu-debuglink={}", debug.display()))
            .arg(&program)
            .arg(&linked)));
        let mut symbols = Symbolizer::new(quiet());
        let object = symbols.add(ObjectInfo::file(&linked));
        resolve_all(&mut symbols, object, &wanted);
        assert!(names(&symbols, object, wanted[0]).last().is_some_and(|n| n == "shop::Till::add(int)"));
        assert_eq!(symbols.frames(object, CodeAddr::Pc(wanted[0]))[0].source, Source::Debug);
    }

    // Found by build-id in a debug directory.
    let id = Image::open(&program).expect("opens").build_id().expect("linked with one").clone();
    let root = dir.path().join("debug-root");
    let text = id.to_string();
    let folder = root.join(".build-id").join(&text[..2]);
    std::fs::create_dir_all(&folder).expect("temp");
    std::fs::rename(&debug, folder.join(format!("{}.debug", &text[2..]))).expect("temp");
    let options =
        Options { debug_dirs: DebugDirs { roots: vec![root], caches: vec![] }, ..Options::default() };
    let mut symbols = Symbolizer::new(options.clone());
    let object = symbols.add(ObjectInfo::file(&program));
    resolve_all(&mut symbols, object, &wanted);
    assert_eq!(symbols.frames(object, CodeAddr::Pc(wanted[0])).last().map(|f| f.source), Some(Source::Debug));

    // The program is gone. The debug file answers alone, with the offset of the executable mapping.
    std::fs::remove_file(&program).expect("temp");
    let mut symbols = Symbolizer::new(options);
    let info = ObjectInfo {
        path: PathBuf::from(format!("{} (deleted)", program.display())),
        build_id: Some(id),
        map_offset: Some(wanted[0] & !4095),
        ..ObjectInfo::default()
    };
    let object = symbols.add(info);
    resolve_all(&mut symbols, object, &wanted);
    assert!(names(&symbols, object, wanted[0]).last().is_some_and(|n| n == "shop::Till::add(int)"));
    assert!(symbols.notes().iter().any(|n| matches!(n.problem, Problem::Missing { .. })));
}

#[test]
fn a_debug_file_of_another_build_is_refused_and_said() {
    let dir = tempfile::tempdir().expect("temp");
    let Some(program) = build(dir.path(), &[]) else { return };
    let wanted = offsets(&program, "Till3add");
    let debug = dir.path().join("shop.debug");
    assert!(run(Command::new("objcopy").arg("--only-keep-debug").arg(&program).arg(&debug)));
    let linked = dir.path().join("linked");
    assert!(run(Command::new("objcopy")
        .arg("--strip-all")
        .arg(format!("--add-gnu-debuglink={}", debug.display()))
        .arg(&program)
        .arg(&linked)));
    let other = tempfile::tempdir().expect("temp");
    let Some(program) = build(other.path(), &["-O2", "-DOTHER"]) else { return };
    assert!(run(Command::new("objcopy").arg("--only-keep-debug").arg(&program).arg(&debug)));
    let mut symbols = Symbolizer::new(quiet());
    let object = symbols.add(ObjectInfo::file(&linked));
    resolve_all(&mut symbols, object, &wanted[..1]);
    assert!(matches!(symbols.notes()[0].problem, Problem::DebugFileRefused { .. }), "{:?}", symbols.notes());
    assert_ne!(symbols.frames(object, CodeAddr::Pc(wanted[0]))[0].source, Source::Debug);
}

#[test]
fn a_rebuilt_program_is_said_and_gives_no_wrong_names() {
    let dir = tempfile::tempdir().expect("temp");
    let Some(program) = build(dir.path(), &[]) else { return };
    let wanted = offsets(&program, "Till3add");
    let id = Image::open(&program).expect("opens").build_id().expect("linked with one").clone();
    let Some(program) = build(dir.path(), &["-O2", "-DOTHER"]) else { return };
    let mut symbols = Symbolizer::new(quiet());
    let object = symbols.add(ObjectInfo {
        path: program.clone(),
        build_id: Some(id.clone()),
        ..ObjectInfo::default()
    });
    resolve_all(&mut symbols, object, &wanted[..1]);
    assert_eq!(names(&symbols, object, wanted[0]), [format!("[shop+{:#x}]", wanted[0])]);
    let note = symbols.notes()[0].to_string();
    assert!(note.contains(&id.to_string()) && note.contains("rebuilt"), "{note}");
}

#[test]
fn a_stripped_program_still_tells_functions_apart() {
    let dir = tempfile::tempdir().expect("temp");
    let Some(program) = build(dir.path(), &["-rdynamic"]) else { return };
    let add = offsets(&program, "Till3add");
    let hidden = offsets(&program, "hidden");
    assert!(run(Command::new("strip").arg(&program)));
    let mut symbols = Symbolizer::new(quiet());
    let object = symbols.add(ObjectInfo::file(&program));
    resolve_all(&mut symbols, object, &add);
    resolve_all(&mut symbols, object, &hidden);
    assert_eq!(names(&symbols, object, add[1]), ["shop::Till::add(int)"]);
    assert_eq!(symbols.frames(object, CodeAddr::Pc(add[1]))[0].source, Source::Dynamic);
    assert_eq!(symbols.offset_in_function(object, CodeAddr::Pc(add[3])), Some(3));
    // It is not exported. The unwind tables still give one name for the whole function.
    let first = names(&symbols, object, hidden[0]);
    assert!(hidden.iter().all(|o| names(&symbols, object, *o) == first), "{first:?}");
    assert_eq!(symbols.frames(object, CodeAddr::Pc(hidden[1]))[0].source, Source::Unwind);
}

#[test]
fn a_stripped_program_has_the_names_of_its_mini_debug_info() {
    let dir = tempfile::tempdir().expect("temp");
    let Some(program) = build(dir.path(), &["-rdynamic"]) else { return };
    let (add, hidden) = (offsets(&program, "Till3add"), offsets(&program, "hidden"));
    let mini = dir.path().join("mini");
    let symbols_only = ["-S", "--only-keep-debug"];
    let packed = dir.path().join("mini.xz");
    let made = run(Command::new("objcopy").args(symbols_only).arg(&program).arg(&mini))
        && run(Command::new("strip").arg("--strip-debug").arg(&mini))
        && run(Command::new("xz").arg("-k").arg(&mini))
        && run(Command::new("strip").arg(&program))
        && run(Command::new("objcopy")
            .arg(format!("--add-section=.gnu_debugdata={}", packed.display()))
            .arg(&program));
    if !made {
        return;
    }
    let mut symbols = Symbolizer::new(quiet());
    let object = symbols.add(ObjectInfo::file(&program));
    resolve_all(&mut symbols, object, &add);
    resolve_all(&mut symbols, object, &hidden);
    assert_eq!(names(&symbols, object, add[1]), ["shop::Till::add(int)"]);
    assert_eq!(names(&symbols, object, hidden[1]), ["hidden(int)"]);
    assert_eq!(symbols.frames(object, CodeAddr::Pc(hidden[1]))[0].source, Source::Symbol);
    assert_eq!(symbols.offset_in_function(object, CodeAddr::Pc(hidden[3])), Some(3));
}

#[test]
fn calls_through_the_plt_are_named_after_their_target() {
    let dir = tempfile::tempdir().expect("temp");
    for flags in [&[][..], &["-fcf-protection=full", "-Wl,-z,ibtplt"], &["-no-pie"], &["-Wl,-z,now"]] {
        let Some(program) = build(dir.path(), flags) else { continue };
        let text = Command::new("objdump")
            .args(["-d", "--no-show-raw-insn"])
            .arg(&program)
            .output()
            .expect("binutils");
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        let image = Image::open(&program).expect("just built");
        let stubs: Vec<(u64, String)> = text
            .lines()
            .filter_map(|l| {
                let (address, name) = l.strip_suffix(">:")?.split_once(" <")?;
                let address = u64::from_str_radix(address, 16).ok()?;
                name.ends_with("@plt")
                    .then(|| (image.offset_of_address(address).expect("in file"), name.to_string()))
            })
            .collect();
        assert!(!stubs.is_empty(), "{flags:?}");
        let mut symbols = Symbolizer::new(quiet());
        let object = symbols.add(ObjectInfo::file(&program));
        resolve_all(&mut symbols, object, &stubs.iter().map(|s| s.0).collect::<Vec<_>>());
        for (offset, name) in &stubs {
            assert_eq!(names(&symbols, object, *offset), std::slice::from_ref(name), "{flags:?}");
        }
    }
}

#[test]
fn missing_empty_and_foreign_files_are_notes_not_failures() {
    let dir = tempfile::tempdir().expect("temp");
    let empty = dir.path().join("empty");
    std::fs::write(&empty, b"").expect("temp");
    let text = dir.path().join("text");
    std::fs::write(&text, b"#!/bin/sh\n").expect("temp");
    let cut = dir.path().join("cut");
    let own = std::fs::read("/proc/self/exe").expect("this test is a program");
    std::fs::write(&cut, &own[..70]).expect("temp");
    let mut symbols = Symbolizer::new(quiet());
    let paths = [empty, text, cut, dir.path().join("nothing"), dir.path().to_path_buf(), PathBuf::new()];
    for path in paths {
        let object = symbols.add(ObjectInfo::file(&path));
        resolve_all(&mut symbols, object, &[0, 0x1234, u64::MAX]);
        assert_eq!(names(&symbols, object, 0x1234).len(), 1, "{}", path.display());
    }
    assert!(symbols.notes().len() >= 5, "{:?}", symbols.notes());
}

#[test]
fn jit_names_come_from_the_perf_map() {
    let dir = tempfile::tempdir().expect("temp");
    std::fs::write(dir.path().join("perf-77.map"), "7f0000001000 80 py::work:/a.py\n").expect("temp");
    let options = Options { jit_dirs: vec![dir.path().to_path_buf()], ..quiet() };
    let mut symbols = Symbolizer::new(options);
    let known = symbols.add(ObjectInfo {
        kind: ObjectKind::Jit { pid: 77 },
        path: "//anon".into(),
        ..Default::default()
    });
    let unknown = symbols.add(ObjectInfo {
        kind: ObjectKind::Jit { pid: 78 },
        path: "//anon".into(),
        ..Default::default()
    });
    resolve_all(&mut symbols, known, &[0x7f00_0000_1010, 0x10]);
    resolve_all(&mut symbols, unknown, &[0x10]);
    assert_eq!(names(&symbols, known, 0x7f00_0000_1010), ["py::work:/a.py"]);
    assert_eq!(symbols.frames(known, CodeAddr::Pc(0x10))[0].source, Source::Unknown);
    assert!(matches!(symbols.notes()[0].problem, Problem::NoJitMap { .. }));
}

#[test]
fn return_addresses_belong_to_the_call_before_them() {
    assert_eq!(CodeAddr::Return(0x1000).lookup(), 0xfff);
    assert_eq!(CodeAddr::Return(0).lookup(), 0);
    assert_eq!(CodeAddr::Pc(0x1000).lookup(), 0x1000);
}

#[test]
fn binutils_addr2line_as_a_co_process_agrees_with_the_built_in_translator() {
    let dir = tempfile::tempdir().expect("temp");
    let Some(program) = build(dir.path(), &[]) else { return };
    let mut wanted = offsets(&program, "Till3add");
    wanted.extend(offsets(&program, "hidden"));
    let mut own = Symbolizer::new(quiet());
    let object = own.add(ObjectInfo::file(&program));
    resolve_all(&mut own, object, &wanted);
    for command in ["addr2line -e %o -f -C", "addr2line -e %o -f -C -i"] {
        let translator = Some(Template::parse(command).expect("good"));
        let mut other = Symbolizer::new(Options { translator, ..quiet() });
        let object = other.add(ObjectInfo::file(&program));
        resolve_all(&mut other, object, &wanted);
        assert!(other.notes().is_empty(), "{:?}", other.notes());
        for offset in &wanted {
            let a = own.frames(object, CodeAddr::Pc(*offset));
            let b = other.frames(object, CodeAddr::Pc(*offset));
            if command.ends_with("-i") {
                assert_eq!(a.len(), b.len(), "{offset:#x}");
            }
            assert_eq!(a[0].line, b[0].line, "{offset:#x}");
            assert_eq!(a[0].file.map(|f| own.text(f)), b[0].file.map(|f| other.text(f)));
        }
        assert_eq!(names(&other, object, wanted[0]).last(), names(&own, object, wanted[0]).last());
    }
    // Its failure is a note, and every address still has a frame.
    let translator = Some(Template::parse("false %o").expect("good"));
    let mut other = Symbolizer::new(Options { translator, ..quiet() });
    let object = other.add(ObjectInfo::file(&program));
    resolve_all(&mut other, object, &wanted);
    assert!(other.notes()[0].to_string().contains("translator"), "{:?}", other.notes());
    assert!(wanted.iter().all(|o| other.frames(object, CodeAddr::Pc(*o)).len() == 1));
}

#[test]
fn an_archive_gives_the_same_frames_when_the_program_is_gone_or_rebuilt() {
    let dir = tempfile::tempdir().expect("temp");
    let Some(program) = build(dir.path(), &[]) else { return };
    let wanted = offsets(&program, "Till3add");
    let id = Image::open(&program).expect("opens").build_id().cloned();
    let info = ObjectInfo { path: program.clone(), build_id: id, ..ObjectInfo::default() };
    let mut before = Symbolizer::new(quiet());
    let object = before.add(info.clone());
    resolve_all(&mut before, object, &wanted);
    before.write_archive(dir.path()).expect("writable");

    let shown = |symbols: &Symbolizer, object| -> Vec<String> {
        let frames = wanted.iter().flat_map(|o| symbols.frames(object, CodeAddr::Pc(*o)));
        frames
            .map(|f| {
                let file = f.file.map_or("?", |f| symbols.text(f));
                format!("{} {file} {} {} {:?}", symbols.text(f.function), f.line, f.inlined, f.source)
            })
            .collect()
    };
    let wanted_text = shown(&before, object);
    for rebuilt in [false, true] {
        std::fs::remove_file(&program).expect("there");
        if rebuilt {
            build(dir.path(), &["-O2"]);
        }
        let mut after = Symbolizer::new(quiet()).with_archive(dir.path()).expect("well-formed");
        assert!(after.has_archive());
        let object = after.add(info.clone());
        resolve_all(&mut after, object, &wanted);
        assert_eq!(shown(&after, object), wanted_text);
        assert!(after.notes().is_empty(), "{:?}", after.notes());
        assert_eq!(
            after.offset_in_function(object, CodeAddr::Pc(wanted[2])),
            before.offset_in_function(object, CodeAddr::Pc(wanted[2]))
        );
        // Archived again it is the same archive, whatever happened to the program.
        assert_eq!(after.to_archive().to_bytes(), before.to_archive().to_bytes());
        std::fs::write(&program, b"").expect("temp");
    }
}

#[test]
fn answers_that_cannot_change_are_kept_for_the_next_run() {
    let dir = tempfile::tempdir().expect("temp");
    let Some(program) = build(dir.path(), &[]) else { return };
    let wanted = offsets(&program, "Till3add");
    let id = Image::open(&program).expect("opens").build_id().cloned();
    if id.is_none() {
        pct_kit::skip("the linker gives no build-ids");
        return;
    }
    let folder = dir.path().join("cache/symbols");
    let ask = |info: ObjectInfo, wanted: &[u64]| {
        let cache = Some(pct_symbols::Cache { dir: folder.clone(), least_bytes: 1 });
        let mut symbols = Symbolizer::new(Options { cache, ..quiet() });
        let object = symbols.add(info);
        resolve_all(&mut symbols, object, wanted);
        let shown = wanted.iter().flat_map(|o| {
            let frames = symbols.frames(object, CodeAddr::Pc(*o)).iter();
            frames.map(|f| {
                format!("{} {:?} {}", symbols.text(f.function), f.file.map(|f| symbols.text(f)), f.line)
            })
        });
        shown.collect::<Vec<_>>()
    };
    let known = ObjectInfo { path: program.clone(), build_id: id.clone(), ..ObjectInfo::default() };
    let unproved = ObjectInfo { build_id: None, ..known.clone() };
    ask(unproved.clone(), &wanted);
    assert!(!folder.exists(), "what has no build-id may change");
    let (half, all) = (ask(known.clone(), &wanted[..2]), ask(known.clone(), &wanted));
    assert_eq!(half, all[..half.len()]);
    let files = std::fs::read_dir(&folder).expect("made").count();
    assert_eq!(files, 1);
    // The object is gone, but the answers remain. Another object with the same path has its own answers.
    std::fs::remove_file(&program).expect("there");
    assert_eq!(ask(known.clone(), &wanted), all);
    let other = ObjectInfo { build_id: pct_symbols::BuildId::parse("00112233445566778899"), ..known.clone() };
    assert_ne!(ask(other, &wanted), all);
    // A damaged cache is ignored.
    for entry in std::fs::read_dir(&folder).expect("made") {
        std::fs::write(entry.expect("entry").path(), b"pct-symbols 1\nS x\nE 0\n").expect("writes");
    }
    assert_ne!(ask(known, &wanted), all);
}

#[test]
fn a_directory_without_an_archive_is_no_error_and_a_damaged_one_is() {
    let dir = tempfile::tempdir().expect("temp");
    assert!(!Symbolizer::new(quiet()).with_archive(dir.path()).expect("none is fine").has_archive());
    std::fs::write(dir.path().join(pct_symbols::archive::FILE_NAME), b"pct-symbols 1\nS ab").expect("temp");
    let e = Symbolizer::new(quiet()).with_archive(dir.path()).expect_err("cut off").to_string();
    assert!(e.contains("damaged"), "{e}");
}

#[test]
fn names_that_dwz_moved_to_another_file_are_found_there() {
    let (dir, other) = (tempfile::tempdir().expect("temp"), tempfile::tempdir().expect("temp"));
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let Some(program) = build(dir.path(), &[version]) else { return };
        // dwz moves what several files have in common.
        let Some(second) = build(other.path(), &[version, "-O2"]) else { return };
        let third = dir.path().join("third");
        std::fs::copy(&second, &third).expect("temp");
        let mut wanted = offsets(&program, "Till3add");
        wanted.extend(offsets(&program, "main"));
        let shown = |program: &Path| -> Vec<String> {
            let mut symbols = Symbolizer::new(quiet());
            let object = symbols.add(ObjectInfo::file(program));
            resolve_all(&mut symbols, object, &wanted);
            assert!(symbols.notes().is_empty(), "{:?}", symbols.notes());
            let frames = wanted.iter().flat_map(|o| symbols.frames(object, CodeAddr::Pc(*o)).to_vec());
            frames.map(|f| format!("{} {} {:?}", symbols.text(f.function), f.line, f.source)).collect()
        };
        let before = shown(&program);
        let common = dir.path().join("common.debug");
        let _ = std::fs::remove_file(&common);
        if !run(Command::new("dwz").arg("-m").arg(&common).arg(&program).arg(&second).arg(&third)) {
            return;
        }
        if !common.exists() {
            pct_kit::skip("dwz found nothing in common");
            return;
        }
        assert_eq!(shown(&program), before, "{version}");
        // Without the common file the program still answers with the rest.
        std::fs::remove_file(&common).expect("there");
        let mut symbols = Symbolizer::new(quiet());
        let object = symbols.add(ObjectInfo::file(&program));
        resolve_all(&mut symbols, object, &wanted);
        assert!(names(&symbols, object, wanted[0]).last().is_some_and(|n| n.contains("add")));
        assert!(
            symbols.notes().iter().any(|n| n.to_string().contains("common.debug")),
            "{:?}",
            symbols.notes()
        );
    }
}

#[test]
fn a_symbol_without_a_size_does_not_name_the_functions_behind_it() {
    let dir = tempfile::tempdir().expect("temp");
    let (assembly, source, program) =
        (dir.path().join("first.S"), dir.path().join("main.c"), dir.path().join("unsized"));
    std::fs::write(&assembly, ".text\n.globl open_ended\nopen_ended:\n nop\n nop\n ret\n").expect("temp");
    std::fs::write(
        &source,
        "void open_ended(void);\n__attribute__((noinline)) static int hidden(int n) { return n * 3 + 1; }\n\
         int main(int n, char **v) { open_ended(); return hidden(n); }\n",
    )
    .expect("temp");
    let mut compile = Command::new("gcc");
    compile.args(["-O1", "-rdynamic", "-o"]).arg(&program).arg(&assembly).arg(&source);
    if !run(&mut compile) {
        return;
    }
    let (asm, hidden) = (open_ended_code(&program), offsets(&program, "hidden")[0]);
    assert!(run(Command::new("strip").arg(&program)));
    let mut symbols = Symbolizer::new(quiet());
    let object = symbols.add(ObjectInfo::file(&program));
    symbols.resolve([asm, hidden].map(|o| (object, CodeAddr::Pc(o))));
    assert_eq!(names(&symbols, object, asm), ["open_ended"]);
    assert_eq!(names(&symbols, object, hidden), [format!("[unsized+{hidden:#x}]")]);
}

/// File offset of the symbol `open_ended`, which has no size.
fn open_ended_code(program: &Path) -> u64 {
    let out = Command::new("nm").arg(program).output().expect("binutils are there if gcc is");
    let text = String::from_utf8_lossy(&out.stdout);
    let line = text.lines().find(|l| l.ends_with(" open_ended")).expect("it is a symbol");
    let address = u64::from_str_radix(line.split(' ').next().expect("an address"), 16).expect("hex");
    Image::open(program).expect("just built").offset_of_address(address).expect("in the file")
}

const GO: &str = r#"package main

import "crypto/sha256"

//go:noinline
func hash(n int) byte {
	var s [32]byte
	b := make([]byte, 4096)
	for i := 0; i < n; i++ {
		s = sha256.Sum256(b)
	}
	return s[0]
}

func main() { println(hash(3)) }
"#;

#[test]
fn stripped_go_programs_have_the_names_of_the_unstripped_ones() {
    let dir = tempfile::tempdir().expect("temp");
    std::fs::write(dir.path().join("hash.go"), GO).expect("temp");
    for mode in ["exe", "pie"] {
        let build = |name: &str, flags: &str| {
            let mut go = Command::new("go");
            go.args(["build", "-buildmode", mode, "-ldflags", flags, "-o", name, "hash.go"])
                .current_dir(&dir);
            go.env("GOCACHE", dir.path().join("cache")).env("GOFLAGS", "-mod=mod");
            run(&mut go).then(|| dir.path().join(name))
        };
        let (Some(whole), Some(bare)) = (build("whole", ""), build("bare", "-s -w")) else { return };
        assert!(std::fs::read(&bare).expect("built").len() < std::fs::read(&whole).expect("built").len());
        for function in ["main.hash", "main.main", "crypto/sha256.block", "runtime.memmove"] {
            let mut names = BTreeSet::new();
            for (program, offsets) in
                [(&whole, offsets(&whole, function)), (&bare, offsets_in(&whole, &bare, function))]
            {
                let mut symbols = Symbolizer::new(quiet());
                let object = symbols.add(ObjectInfo::file(program));
                resolve_all(&mut symbols, object, &offsets[..1]);
                let frames = symbols.frames(object, CodeAddr::Pc(offsets[0]));
                names.insert(symbols.text(frames.last().expect("a frame").function).to_owned());
            }
            assert_eq!(names.len(), 1, "{mode}: {names:?}");
            assert!(names.iter().all(|n| n.starts_with(function)), "{mode}: {names:?}");
        }
    }
}

/// File offsets of a function in a stripped program. nm knows the function in the whole one, with the same addresses.
fn offsets_in(whole: &Path, bare: &Path, function: &str) -> Vec<u64> {
    let (from, to) = (Image::open(whole).expect("built"), Image::open(bare).expect("built"));
    let addresses = offsets(whole, function).into_iter().filter_map(|o| from.address_of_offset(o));
    addresses.filter_map(|a| to.offset_of_address(a)).collect()
}
