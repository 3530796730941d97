//! Objects of a profiled program: whatever an ELF file and its debug information hold, every address gets an
//! answer, in time that the file's length bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_symbols::{CodeAddr, DebugDirs, ObjectInfo, Options, Symbolizer};
use std::path::PathBuf;
use std::sync::LazyLock;

static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("pct-fuzz-symbols-{}", std::process::id())));

fuzz_target!(|octets: &[u8]| {
    // A new file each time: the one before may still be mapped.
    let _ = std::fs::remove_file(&*FILE);
    if std::fs::write(&*FILE, octets).is_err() {
        return;
    }
    let mut symbols = Symbolizer::new(Options { debug_dirs: DebugDirs::none(), threads: 1, cache: None, ..Options::default() });
    let object = symbols.add(ObjectInfo::file(&*FILE));
    let length = octets.len() as u64;
    let asked: Vec<u64> = (0..24).map(|n| length * n / 24).chain([0x1000, 0x1139, u64::MAX]).collect();
    symbols.resolve(asked.iter().map(|offset| (object, CodeAddr::Pc(*offset))));
    assert!(asked.iter().all(|offset| !symbols.frames(object, CodeAddr::Pc(*offset)).is_empty()));
});
