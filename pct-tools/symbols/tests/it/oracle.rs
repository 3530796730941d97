//! Compares the built-in translator with the `addr2line` crate's own lookup, also on damaged files of two kinds.

use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection};
use pct_kit::Dice;
use pct_symbols::{CodeAddr, DebugDirs, Image, ObjectInfo, Options, Source, Symbolizer, demangle};

const C_PLUS_PLUS: &str = r#"
#include <algorithm>
#include <map>
#include <string>
#include <vector>
template <class T> struct Pile {
    std::vector<T> items;
    void put(T t) { items.push_back(t); std::sort(items.begin(), items.end()); }
    T top() const { return items.empty() ? T() : items.back(); }
};
namespace { int helper(int n) { struct Local { static int twice(int n) { return n * 2; } }; return Local::twice(n) + 1; } }
int main(int argc, char **argv) {
    Pile<std::string> words;
    Pile<int> numbers;
    std::map<std::string, int> seen;
    for (int i = 0; i < argc; i++) {
        words.put(argv[i]);
        numbers.put(helper(i));
        seen[argv[i]] += std::count_if(words.items.begin(), words.items.end(), [&](const std::string &w) { return w.size() > (size_t)i; });
    }
    return numbers.top() + (int)seen.size() + (int)words.top().size();
}
"#;

fn compile(dir: &Path, flags: &[&str]) -> Option<PathBuf> {
    let source = dir.join("pile.cc");
    std::fs::write(&source, C_PLUS_PLUS).expect("a temporary directory is writable");
    let out = dir.join(format!("pile{}", flags.concat()));
    let run = Command::new("g++").args(["-g"]).args(flags).arg("-o").arg(&out).arg(&source).output();
    match run {
        Ok(run) if run.status.success() => Some(out),
        Ok(run) => {
            pct_kit::skip(&format!("g++ {flags:?}: {}", String::from_utf8_lossy(&run.stderr)));
            None
        }
        Err(e) => {
            pct_kit::skip(&format!("g++: {e}"));
            None
        }
    }
}

fn options(threads: usize) -> Options {
    Options { debug_dirs: DebugDirs::none(), threads, ..Options::default() }
}

/// Every `step`-th address of `.text`.
fn addresses(program: &Path, step: usize) -> Vec<u64> {
    let data = std::fs::read(program).expect("just built");
    let elf = object::File::parse(&*data).expect("ELF");
    let text = elf.section_by_name(".text").expect("code");
    (text.address()..text.address() + text.size()).step_by(step).collect()
}

type Shown = Vec<(String, Option<String>, u32, u32)>;

fn ours(program: &Path, addresses: &[u64], threads: usize) -> Vec<(Shown, Source)> {
    let image = Image::open(program).expect("just built");
    let mut symbols = Symbolizer::new(options(threads));
    let object = symbols.add(ObjectInfo::file(program));
    let offset = |a: &u64| CodeAddr::Pc(image.offset_of_address(*a).expect("in .text"));
    symbols.resolve(addresses.iter().map(|a| (object, offset(a))));
    addresses
        .iter()
        .map(|a| {
            let frames = symbols.frames(object, offset(a));
            let shown = frames
                .iter()
                .map(|f| {
                    let file = f.file.map(|f| symbols.text(f).to_string());
                    (symbols.text(f.function).to_string(), file, f.line, f.column)
                })
                .collect();
            (shown, frames.last().expect("at least one").source)
        })
        .collect()
}

fn theirs(program: &Path, addresses: &[u64]) -> Vec<Shown> {
    let loader = addr2line::Loader::new(program).expect("debug information");
    addresses
        .iter()
        .map(|a| {
            let mut frames = loader.find_frames(*a).expect("good debug information");
            let mut out = Vec::new();
            while let Ok(Some(frame)) = frames.next() {
                let name =
                    frame.function.as_ref().and_then(|f| Some(demangle(&f.raw_name().ok()?).into_owned()));
                let (file, line, column) = frame.location.map_or((None, 0, 0), |l| {
                    (l.file.map(str::to_string), l.line.unwrap_or(0), l.column.unwrap_or(0))
                });
                out.push((name.unwrap_or_default(), file, line, column));
            }
            out
        })
        .collect()
}

fn compare(program: &Path, step: usize) {
    let addresses = addresses(program, step);
    let (mine, reference) = (ours(program, &addresses, 1), theirs(program, &addresses));
    assert_eq!(mine, ours(program, &addresses, 3), "threads change nothing");
    let mut equal = 0;
    for ((address, (mine, source)), reference) in addresses.iter().zip(&mine).zip(&reference) {
        if reference.iter().any(|f| f.0.is_empty()) || reference.is_empty() {
            // Only pct falls back on symbol tables.
            assert_ne!(*source, Source::Debug, "{address:#x}: {mine:?} / {reference:?}");
            continue;
        }
        // A row of line 0 has no column in `addr2line` and one in pct. Nobody shows it.
        let plain = |f: &Shown| -> Shown {
            f.iter().map(|(n, p, l, c)| (n.clone(), p.clone(), *l, if *l == 0 { 0 } else { *c })).collect()
        };
        let (mut mine, reference) = (plain(mine), plain(reference));
        for (mine, reference) in mine.iter_mut().zip(&reference) {
            // `addr2line` stops at the plain name if entries have no linker name; scopes.rs checks what pct adds.
            let base = reference.0.split('<').next().unwrap_or_default();
            if !base.contains("::") && mine.0.contains(base) {
                mine.0.clone_from(&reference.0);
            }
        }
        assert_eq!(mine, reference, "{address:#x} of {}", program.display());
        equal += 1;
    }
    assert!(equal > addresses.len() / 3, "{equal} of {}", addresses.len());
}

#[test]
fn lookups_of_c_plus_plus_agree_with_the_oracle() {
    let dir = tempfile::tempdir().expect("temp");
    for flags in [
        &["-gdwarf-5", "-O2"][..],
        &["-gdwarf-4", "-O2"],
        &["-gdwarf-4", "-O1", "-ffunction-sections", "-Wl,--gc-sections"],
        &["-gdwarf-5", "-O2", "-gz"],
        &["-gdwarf-5", "-O2", "-gsplit-dwarf"],
        &["-gdwarf-4", "-O2", "-fdebug-types-section"],
        &["-gdwarf-3", "-O2"],
    ] {
        if let Some(program) = compile(dir.path(), flags) {
            compare(&program, 7);
        }
    }
}

#[test]
fn lookups_of_rust_agree_with_the_oracle() {
    // This very program: many units, aranges, functions from other crates.
    compare(Path::new("/proc/self/exe"), 97);
}

#[test]
fn damaged_files_never_panic() {
    let rounds: usize = pct_kit::asked("PCT_MUTATIONS", 60);
    let dir = tempfile::tempdir().expect("temp");
    let mut dice = Dice::new(11);
    for flags in [&["-gdwarf-5", "-O2"][..], &["-gdwarf-4", "-O2"], &["-gdwarf-5", "-gz", "-O1"]] {
        let Some(program) = compile(dir.path(), flags) else { return };
        let good = std::fs::read(&program).expect("just built");
        let all = addresses(&program, 80);
        let image = Image::open(&program).expect("just built");
        let offsets: Vec<u64> = all.iter().filter_map(|a| image.offset_of_address(*a)).collect();
        // Offsets worth damaging: headers, and each section that a lookup reads.
        let mut places: Vec<(usize, usize)> = vec![(0, 1000)];
        {
            let elf = object::File::parse(&*good).expect("ELF");
            for section in elf.sections() {
                let name = section.name().unwrap_or("");
                let read = name.starts_with(".debug_")
                    || matches!(
                        name,
                        ".symtab" | ".dynsym" | ".strtab" | ".dynstr" | ".eh_frame" | ".eh_frame_hdr"
                    )
                    || name.starts_with(".rela")
                    || name.starts_with(".note");
                if let (true, Some((start, size))) = (read, section.file_range()) {
                    places.push((start as usize, size as usize));
                }
            }
            let headers = good.len().saturating_sub(64 * 50);
            places.push((headers, good.len() - headers));
        }
        let broken = dir.path().join("broken");
        for round in 0..rounds {
            let mut data = good.clone();
            for _ in 0..1 + dice.below(8) {
                let (start, size) = places[dice.index(places.len())];
                let at = (start + dice.index(size)).min(data.len() - 1);
                data[at] = match dice.below(5) {
                    0 => 0xff,
                    1 => 0,
                    2 => 0x80,
                    3 => data[at] ^ 1 << dice.below(8),
                    _ => dice.below(256) as u8,
                };
            }
            if round % 17 == 0 {
                data.truncate(dice.index(data.len()));
            }
            // A new file each time: the one before may still be mapped.
            let _ = std::fs::remove_file(&broken);
            std::fs::write(&broken, &data).expect("temp");
            let mut symbols = Symbolizer::new(options(1));
            let object = symbols.add(ObjectInfo::file(&broken));
            symbols.resolve(offsets.iter().map(|o| (object, CodeAddr::Pc(*o))));
            assert!(offsets.iter().all(|o| !symbols.frames(object, CodeAddr::Pc(*o)).is_empty()));
        }
    }
}
