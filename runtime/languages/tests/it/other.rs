//! Another process's memory, its interpreter, and the interpreters that are installed.

use std::io::IoSliceMut;
use std::path::PathBuf;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use pct_elf::{Image, Memory, Symbols};
use pct_languages::ThreadMemory;
use pct_languages::cpython::{Interpreter, ThreadData, code};

/// The memory of a process.
pub(crate) struct Other(pub(crate) Pid);

impl ThreadMemory for Other {}

impl Memory for Other {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let (Ok(base), len) = (usize::try_from(at), into.len()) else { return false };
        process_vm_readv(self.0, &mut [IoSliceMut::new(into)], &[RemoteIoVec { base, len }]) == Ok(len)
    }
}

/// The interpreter and the C library among the mapped images.
pub(crate) fn find(memory: &Other) -> (Interpreter, ThreadData) {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", memory.0)).expect("maps");
    let (mut interpreter, mut data) = (None, None);
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [range, _, "00000000", _, _, path] = fields[..] else { continue };
        let base = u64::from_str_radix(range.split('-').next().expect("a range"), 16).expect("an address");
        let Some(image) = Image::at_base(memory, base) else { continue };
        let Some(dynamic) = image.dynamic(memory) else { continue };
        let Some(symbols) = Symbols::new(memory, dynamic, image.bias) else { continue };
        if let Some(found) = Interpreter::find(memory, (&image, &symbols), path.as_bytes()) {
            interpreter = Some(found.unwrap_or_else(|why| panic!("{path}: {why:?}")));
        }
        data = data.or_else(|| ThreadData::find(memory, &symbols));
    }
    (interpreter.expect("an interpreter"), data.expect("glibc"))
}

/// A text of an object.
pub(crate) fn text(memory: &Other, text: code::Text) -> String {
    let width = usize::from(text.width);
    let mut octets = vec![0; usize::try_from(text.length).expect("small") * width];
    assert!(memory.copy(text.at, &mut octets));
    octets
        .chunks(width)
        .map(|c| {
            let mut number = [0; 4];
            number[..width].copy_from_slice(c);
            char::from_u32(u32::from_le_bytes(number)).expect("a character")
        })
        .collect()
}

/// The interpreters that are installed here and whose frames can be read; of them those whose path holds what
/// `PCT_TEST_PYTHONS` says.
pub(crate) fn pythons() -> Vec<PathBuf> {
    let mut pythons = Vec::new();
    let versions = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv"));
    for root in versions.into_iter().chain(home) {
        for version in std::fs::read_dir(root.join("versions")).into_iter().flatten().flatten() {
            let name = version.file_name().to_string_lossy().into_owned();
            let minor = name.strip_prefix("3.").and_then(|rest| rest.split('.').next()?.parse().ok());
            if minor.is_some_and(|minor: u8| pct_languages::cpython::Layout::for_minor(minor).is_some()) {
                pythons.push(version.path().join("bin/python3"));
            }
        }
    }
    pythons.extend(["/usr/bin/python3"].map(PathBuf::from));
    pythons.retain(|python| python.exists());
    pythons.sort();
    pythons.dedup();
    let wanted = std::env::var("PCT_TEST_PYTHONS").unwrap_or_default();
    pythons.retain(|python| python.to_string_lossy().contains(&wanted));
    if pythons.is_empty() {
        pct_kit::skip("no python3 is installed");
    }
    pythons
}
