//! Can this program be sampled by preloading? Asked before it starts, so that the answer comes with its cause.
//!
//! Follows scripts to their interpreters as the kernel does. Never an obstacle to running: the program is started
//! anyway, unprofiled.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Why a program cannot be sampled by preloading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// No dynamic linker that would load a library.
    Static,
    /// A Go program without a C library: its runtime handles every signal, ours too, in a way that nobody can stand in front
    /// of, and dies of one that it does not know.
    Go,
    /// A 32-bit program; the library is 64-bit.
    Bits32,
    /// For another machine.
    Machine(u16),
    /// The kernel changes the user on exec, so the dynamic linker ignores LD_PRELOAD.
    Setuid,
    /// The same for the group.
    Setgid,
    /// The same for capabilities of the file.
    Capabilities,
    /// A debugger or emulator: it stops what it runs at each of our signals, or runs it on a processor of its own, where
    /// our library dies or is run at a hundredth of the speed.
    Controls,
    /// An empty file.
    Empty,
    /// Starts with something that is neither ELF nor `#!`.
    UnknownFormat,
}

/// What was found: the last file of the chain, and the obstacle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The executable that really runs (a script's interpreter).
    pub program: PathBuf,
    /// The script that led to it, if one did.
    pub script: Option<PathBuf>,
    /// Why it cannot be sampled, if so.
    pub obstacle: Option<Obstacle>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.program.display();
        if let Some(script) = &self.script {
            write!(f, "{} runs by {program}, which ", script.display())?;
        } else {
            write!(f, "{program} ")?;
        }
        let Some(obstacle) = &self.obstacle else { return write!(f, "can be profiled") };
        match obstacle {
            Obstacle::Static => write!(
                f,
                "is statically linked, so no library can be preloaded; pct attach works on it, or link it with libpct.a"
            ),
            Obstacle::Go => write!(
                f,
                "is a Go program without a C library, whose runtime takes every signal: it is sampled from outside, which \
                 takes --clock auto or wall, --mode log, and begins at the start"
            ),
            Obstacle::Bits32 => {
                write!(f, "is a 32-bit program; pct profiles 64-bit ones: use a 64-bit build")
            }
            Obstacle::Machine(number) => write!(
                f,
                "is for another machine (ELF machine {number}); run pct where the program runs natively"
            ),
            Obstacle::Setuid => write!(
                f,
                "changes its user on start (setuid), so libraries are not preloaded; as root, pct attach works"
            ),
            Obstacle::Setgid => write!(
                f,
                "changes its group on start (setgid), so libraries are not preloaded; as root, pct attach works"
            ),
            Obstacle::Capabilities => write!(
                f,
                "gets capabilities on start (setcap), so libraries are not preloaded; as root, pct attach works"
            ),
            Obstacle::Controls => write!(
                f,
                "controls each step of the program that it runs, so both run unprofiled; pct run the program itself, or pct \
                 attach to it"
            ),
            Obstacle::Empty => write!(f, "is an empty file: nothing would run"),
            Obstacle::UnknownFormat => write!(f, "is neither an ELF program nor a script with #!"),
        }
    }
}

/// Finds the file that the kernel would execute for this command word; `None` when there is none.
#[must_use]
pub fn find(command: &OsStr) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(command));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    std::env::split_paths(&path)
        .map(
            |dir| {
                if dir.as_os_str().is_empty() { PathBuf::from(".").join(command) } else { dir.join(command) }
            },
        )
        .find(|file| {
            file.is_file() && nix::unistd::access(file.as_path(), nix::unistd::AccessFlags::X_OK).is_ok()
        })
}

/// Looks at an executable file. `None` when it cannot be read (it may still be executable).
#[must_use]
pub fn inspect(file: &Path) -> Option<Found> {
    let mut program = file.to_owned();
    let mut script = None;
    let controls = file.file_name().and_then(OsStr::to_str).is_some_and(controls_programs);
    // The kernel follows at most 5 levels of #!.
    for _ in 0..5 {
        let head = head_of(&program)?;
        if let Some(next) = interpreter(&head) {
            script.get_or_insert_with(|| program.clone());
            program = next;
            continue;
        }
        let obstacle = if controls { Some(Obstacle::Controls) } else { obstacle(&program, &head) };
        return Some(Found { program, script, obstacle });
    }
    None
}

/// Debuggers, recorders and emulators of user programs, by the names that distributions give them. strace and ltrace are not
/// among them, because they pass signals on.
fn controls_programs(name: &str) -> bool {
    const NAMES: &[&str] = &["gdb", "gdb-multiarch", "lldb", "lldb-server", "gdbserver", "rr", "valgrind"];
    let versioned =
        |name: &str| name.starts_with("lldb-") && name[5..].starts_with(|c: char| c.is_ascii_digit());
    let emulator = name
        .strip_prefix("qemu-")
        .is_some_and(|cpu| !cpu.starts_with("system") && !["img", "io", "nbd", "ga"].contains(&cpu));
    NAMES.contains(&name) || versioned(name) || emulator || name == "box64"
}

/// Enough for the ELF header and the program headers of every linker's output.
const HEAD: u64 = 16 << 10;

fn head_of(file: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let opened = File::open(file).ok()?;
    if !opened.metadata().ok()?.is_file() {
        return None;
    }
    opened.take(HEAD).read_to_end(&mut head).ok()?;
    Some(head)
}

fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let words: Vec<&[u8]> =
        line.split(|&b| b == b' ' || b == b'\t').filter(|word| !word.is_empty()).collect();
    let first = PathBuf::from(OsString::from_vec(words.first()?.to_vec()));
    // `#!/usr/bin/env python3`: env is gone in a moment, the program behind it is what runs.
    if first.file_name() == Some(OsStr::new("env"))
        && let Some(word) = words.iter().skip(1).find(|word| !word.starts_with(b"-") && !word.contains(&b'='))
        && let Some(found) = find(OsStr::from_bytes(word))
    {
        return Some(found);
    }
    Some(first)
}

/// The first interpreter of a script that does not exist: then the kernel says that the *script* does not.
#[must_use]
pub fn missing_interpreter(file: &Path) -> Option<PathBuf> {
    let mut program = file.to_owned();
    for _ in 0..5 {
        let line = head_of(&program)?;
        let line = line.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
        let word = line.split(|&b| b == b' ' || b == b'\t').find(|word| !word.is_empty())?;
        program = PathBuf::from(OsString::from_vec(word.to_vec()));
        if !program.exists() {
            return Some(program);
        }
    }
    None
}

fn obstacle(file: &Path, head: &[u8]) -> Option<Obstacle> {
    if head.is_empty() {
        return Some(Obstacle::Empty);
    }
    if !head.starts_with(b"\x7fELF") {
        return Some(Obstacle::UnknownFormat);
    }
    if let Some(found) = rights_gained(file) {
        return Some(found);
    }
    match elf_obstacle(head) {
        None | Some(Obstacle::Static) if is_go(head) && !needs_libraries(file, head) => Some(Obstacle::Go),
        found => found,
    }
}

/// A program header: offset and size in the file.
struct Segment {
    kind: u32,
    offset: u64,
    size: u64,
}

/// The program headers, as far as the head of the file has them.
fn segments(head: &[u8]) -> impl Iterator<Item = Segment> {
    let bytes = |at: usize, len: usize| head.get(at..at.checked_add(len)?);
    let half = move |at: usize| Some(u16::from_le_bytes(bytes(at, 2)?.try_into().ok()?));
    let word = move |at: usize| Some(u32::from_le_bytes(bytes(at, 4)?.try_into().ok()?));
    let long = move |at: usize| Some(u64::from_le_bytes(bytes(at, 8)?.try_into().ok()?));
    let table = long(32).and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX);
    let (size, count) = (half(54).unwrap_or(0), half(56).unwrap_or(0));
    (0..usize::from(count)).map_while(move |index| {
        let at = usize::from(size).checked_mul(index)?.checked_add(table)?;
        let field = |offset: usize| long(at.checked_add(offset)?);
        Some(Segment { kind: word(at)?, offset: field(8)?, size: field(32)? })
    })
}

/// Whether it has the note that Go's linker writes (name `Go`, type 4: the build id).
fn is_go(head: &[u8]) -> bool {
    const PT_NOTE: u32 = 4;
    const NOTE: [u8; 8] = [4, 0, 0, 0, b'G', b'o', 0, 0];
    segments(head).filter(|s| s.kind == PT_NOTE).any(|s| {
        let notes = usize::try_from(s.offset)
            .ok()
            .and_then(|from| head.get(from..)?.get(..usize::try_from(s.size).ok()?.min(head.len() - from)));
        // Each note is name size, description size, type, name.
        notes.is_some_and(|notes| notes.windows(8).any(|w| w == NOTE))
    })
}

/// Whether its dynamic section names libraries. A C library that a static program has inside does not help: nothing can be put
/// in front of it.
fn needs_libraries(file: &Path, head: &[u8]) -> bool {
    const PT_DYNAMIC: u32 = 2;
    const DT_NEEDED: u64 = 1;
    segments(head).filter(|s| s.kind == PT_DYNAMIC).any(|s| {
        let mut table = Vec::new();
        let read = File::open(file).and_then(|mut opened| {
            opened.seek(SeekFrom::Start(s.offset))?;
            opened.take(s.size.min(HEAD)).read_to_end(&mut table)
        });
        let tag = |entry: &[u8; 16]| entry.first_chunk::<8>().map(|tag| u64::from_le_bytes(*tag));
        read.is_ok() && table.as_chunks::<16>().0.iter().any(|entry| tag(entry) == Some(DT_NEEDED))
    })
}

fn rights_gained(file: &Path) -> Option<Obstacle> {
    let meta = fs::metadata(file).ok()?;
    if meta.mode() & 0o4000 != 0 && meta.uid() != nix::unistd::getuid().as_raw() {
        return Some(Obstacle::Setuid);
    }
    if meta.mode() & 0o2010 == 0o2010 && meta.gid() != nix::unistd::getgid().as_raw() {
        return Some(Obstacle::Setgid);
    }
    if !nix::unistd::getuid().is_root() && has_capabilities(file) {
        return Some(Obstacle::Capabilities);
    }
    None
}

fn has_capabilities(file: &Path) -> bool {
    crate::launch::spawn::has_xattr(file, c"security.capability")
}

fn elf_obstacle(head: &[u8]) -> Option<Obstacle> {
    const EM_NATIVE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    const PT_INTERP: u32 = 3;
    const ELFCLASS64: u8 = 2;
    let half = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    if *head.get(4)? != ELFCLASS64 {
        return Some(Obstacle::Bits32);
    }
    let machine = half(18)?;
    if machine != EM_NATIVE {
        return Some(Obstacle::Machine(machine));
    }
    let table = usize::try_from(long(32)?).ok()?;
    let (size, count) = (usize::from(half(54)?), usize::from(half(56)?));
    for index in 0..count {
        // A table beyond what was read: undecided, so no obstacle is claimed.
        let at = size.checked_mul(index)?.checked_add(table)?;
        if at > head.len() {
            return None;
        }
        if word(at)? == PT_INTERP {
            return None;
        }
    }
    Some(Obstacle::Static)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u16, class: u8, segments: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0_u8; 64];
        bytes[..4].copy_from_slice(b"\x7fELF");
        bytes[4] = class;
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&u16::try_from(segments.len()).expect("few").to_le_bytes());
        for kind in segments {
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.extend_from_slice(&[0; 52]);
        }
        bytes
    }

    #[test]
    fn elf_headers_tell_static_dynamic_and_foreign() {
        assert_eq!(elf_obstacle(&elf(62, 2, &[6, 3, 1])), None);
        assert_eq!(elf_obstacle(&elf(62, 2, &[1, 1])), Some(Obstacle::Static));
        assert_eq!(elf_obstacle(&elf(3, 1, &[1, 3])), Some(Obstacle::Bits32));
        assert_eq!(elf_obstacle(&elf(40, 2, &[1, 3])), Some(Obstacle::Machine(40)));
    }

    #[test]
    fn cut_or_hostile_headers_claim_nothing() {
        let whole = elf(62, 2, &[6, 1, 3]);
        for n in 0..whole.len() {
            let _ = elf_obstacle(&whole[..n]);
        }
        let mut far = whole.clone();
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(elf_obstacle(&far), None);
    }

    #[test]
    fn a_go_program_is_told_by_its_note() {
        let mut bytes = elf(62, 2, &[4, 1]);
        let note = [4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, b'G', b'o', 0, 0, b'i', b'd', b'0', b'1'];
        let at = bytes.len() as u64;
        bytes[64 + 8..64 + 16].copy_from_slice(&at.to_le_bytes());
        bytes[64 + 32..64 + 40].copy_from_slice(&(note.len() as u64).to_le_bytes());
        assert!(!is_go(&bytes));
        bytes.extend_from_slice(&note);
        assert!(is_go(&bytes));
        for n in 0..bytes.len() {
            let _ = is_go(&bytes[..n]);
        }
        bytes[64 + 8..64 + 16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(!is_go(&bytes));
    }

    #[test]
    fn scripts_lead_to_their_interpreters() {
        let dir = tempfile::tempdir().expect("a folder");
        let script = dir.path().join("job");
        fs::write(&script, "#! /bin/sh -e\necho\n").expect("written");
        let found = inspect(&script).expect("readable");
        assert_eq!(found.program, Path::new("/bin/sh"));
        assert_eq!(found.script.as_deref(), Some(script.as_path()));
        fs::write(&script, "#!/usr/bin/env -S A=1 sh -e\n").expect("written");
        assert!(inspect(&script).expect("readable").program.ends_with("sh"));
        assert_eq!(missing_interpreter(&script), None);
        fs::write(&script, "#!/nonexistent/perl -w\n").expect("written");
        assert_eq!(missing_interpreter(&script).as_deref(), Some(Path::new("/nonexistent/perl")));
        assert_eq!(missing_interpreter(Path::new("/nonexistent/perl")), None);
        // A script that names itself.
        fs::write(&script, format!("#!{}\n", script.display())).expect("written");
        assert_eq!(inspect(&script), None);
        fs::write(&script, "").expect("written");
        assert_eq!(inspect(&script).expect("readable").obstacle, Some(Obstacle::Empty));
        fs::write(&script, "echo hello\n").expect("written");
        assert_eq!(inspect(&script).expect("readable").obstacle, Some(Obstacle::UnknownFormat));
    }

    #[test]
    fn debuggers_and_emulators_are_told_by_their_names() {
        for name in ["gdb", "lldb-14", "rr", "valgrind", "qemu-x86_64", "qemu-aarch64-static"] {
            assert!(controls_programs(name), "{name}");
        }
        for name in ["strace", "qemu-img", "qemu-system-x86_64", "lldb-", "gdbus", "sh"] {
            assert!(!controls_programs(name), "{name}");
        }
        let dir = tempfile::tempdir().expect("a folder");
        let wrapper = dir.path().join("valgrind");
        fs::write(&wrapper, "#!/bin/sh\n").expect("written");
        assert_eq!(inspect(&wrapper).expect("readable").obstacle, Some(Obstacle::Controls));
    }

    #[test]
    fn this_program_can_be_profiled() {
        let found = inspect(&std::env::current_exe().expect("known")).expect("readable");
        assert_eq!(found.obstacle, None);
    }
}
