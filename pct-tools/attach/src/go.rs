//! Unwind data of Go programs, built from the function table that they contain ([`pct_unwind::go`]).

use crate::memory::{Memory, Readable};
use pct_unwind::go::{self, PcLineTable};
use pct_unwind::locate::each_segment;
use pct_unwind::table::FdeRef;

/// Longest table that is read, in octets.
const MOST: usize = 256 << 20;
/// Head of the note that Go's linker writes at the beginning of each program: type 4, named "Go".
const NOTE: [u8; 8] = [4, 0, 0, 0, b'G', b'o', 0, 0];
/// Number of octets that are compared to tell two tables apart.
const SPOT: usize = 64;

/// Octets that tell one table from another, and their distance from the object's first octet.
pub(crate) type Spot = (u64, Vec<u8>);

/// Adds the unwind data of the Go code in the object whose first page is mapped at `base` to the object's other
/// unwind data: to `eh`, which lies at `eh_addr`, and to `index`. `None`: it has no Go code that pct can read.
pub(crate) fn add(
    memory: &impl Memory,
    base: u64,
    eh_addr: u64,
    eh: &mut Vec<u8>,
    index: &mut Vec<FdeRef>,
) -> Option<Spot> {
    let first = memory.bytes(base, 4096, 4096).ok()?;
    memchr::memmem::find(&first, &NOTE)?;
    let mut segments = Vec::new();
    each_segment(&Readable(memory), base, |segment| segments.push(segment));
    let code: Vec<_> = segments.iter().filter(|s| s.executable).map(|s| s.start..s.end).collect();
    let text = code.iter().map(|c| c.start).min()?;
    for segment in segments.iter().filter(|s| !s.executable) {
        let len = usize::try_from(segment.end - segment.start).ok().filter(|n| *n <= MOST)?;
        let Ok(octets) = memory.bytes(segment.start, len as u64, MOST as u64) else { continue };
        let mut from = 0;
        while let Some(at) = go::find(&octets, from) {
            from = at + 16;
            let Some(table) = PcLineTable::parse(&octets[at..], text) else { continue };
            let begins_in_code = |f: go::Function<'_>| code.iter().any(|c| c.contains(&f.begin));
            if !table.functions().next().is_some_and(begins_in_code) {
                continue;
            }
            eh.resize(eh.len().next_multiple_of(4), 0);
            let code = |at: u64, into: &mut [u8]| memory.read(at, into).is_ok();
            go::eh_frame(&table, eh_addr.wrapping_add(eh.len() as u64), code, |piece, function| {
                let fde = u32::try_from(eh.len());
                if let (Some(begin), Ok(fde)) = (function, fde)
                    && let Ok(pc) = u32::try_from(begin.wrapping_sub(base))
                {
                    index.push(FdeRef { pc, fde });
                }
                eh.extend(piece);
            });
            index.sort_by_key(|entry| entry.pc);
            let spot = octets[at..].iter().take(SPOT).copied().collect();
            return Some((segment.start - base + at as u64, spot));
        }
    }
    None
}

#[cfg(test)]
mod live {
    use super::*;
    use crate::memory::ProcessMemory;
    use pct_unwind::cfi::Fde;
    use pct_unwind::reader::Section;
    use std::process::{Command, Stdio};

    const WAITS: &str = "package main\nimport (\"crypto/sha256\"; \"os\")\nfunc main() { println(sha256.Sum256(nil)[0]); \
                         os.Stdin.Read(make([]byte, 1)) }\n";

    #[test]
    fn every_function_of_a_stripped_go_program_has_a_rule() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("waits.go"), WAITS).expect("written");
        for mode in ["exe", "pie"] {
            let mut go = Command::new("go");
            go.args(["build", "-buildmode", mode, "-ldflags", "-s -w", "-o", "waits", "waits.go"]);
            let built = go.current_dir(&dir).env("GOCACHE", dir.path().join("cache")).status();
            if !built.is_ok_and(|status| status.success()) {
                pct_kit::skip("go builds nothing here");
                return;
            }
            let mut child = Command::new(dir.path().join("waits"))
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("just built");
            // once it prints, its own code runs
            let mut first = [0; 1];
            std::io::Read::read_exact(child.stderr.as_mut().expect("piped"), &mut first).expect("a number");
            let pid = i32::try_from(child.id()).expect("a process id");
            let memory = ProcessMemory::open(pid, false).expect("ours");
            let maps = procfs::process::Process::new(pid).and_then(|p| p.maps()).expect("lives");
            let base = maps.0.iter().find(|m| m.inode != 0).expect("the program").address.0;
            let (mut eh, mut index) = (Vec::new(), Vec::new());
            let spot = add(&memory, base, base, &mut eh, &mut index);
            child.kill().and_then(|()| child.wait()).expect("ours");
            assert!(spot.is_some() && index.len() > 500, "{mode}: {} functions", index.len());
            let section = Section { bytes: &eh, addr: base };
            for entry in &index {
                let fde = Fde::parse(&section, entry.fde as usize).expect("well formed");
                assert_eq!(fde.begin, base + u64::from(entry.pc), "{mode}");
                assert!(fde.row(fde.begin).is_some() && fde.len > 0, "{mode}");
            }
        }
    }
}
