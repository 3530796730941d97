//! Can this program be sampled by preloading? Asked before it starts, so that the answer comes with its cause.
//!
//! Follows scripts to their interpreters as the kernel does. Never an obstacle to running: the program is started
//! anyway, unprofiled.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use object::read::ReadCache;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{LittleEndian, elf};
use pct_attach::limits::{self, MOST_CODE};
use pct_attach::rights::{self, Gain};
use pct_attach::script;
use pct_elf::Unloadable;

/// Why a program cannot be sampled by preloading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// No dynamic linker will load the library: it is static, 32-bit or for another machine.
    Unloadable(Unloadable),
    /// A Go program, with or without a C library: its runtime handles every signal, ours too, in a way that nobody can
    /// stand in front of, and dies of one that it does not know.
    Go,
    /// A static program whose code may limit its own system calls, so that the sampler inside it would be its end
    /// ([`pct_attach::limits`]).
    LimitsItself,
    /// The kernel gives it other rights on exec, so the dynamic linker ignores LD_PRELOAD.
    GainsRights(Gain),
    /// A debugger or emulator: it stops what it runs at each of our signals, or runs it on a processor of its
    /// own, where our library dies or is run at a hundredth of the speed.
    Controls,
    /// An empty file.
    Empty,
    /// Starts with something that is neither ELF nor `#!`.
    UnknownFormat,
}

impl Obstacle {
    /// What such a program is, in a few words.
    #[must_use]
    pub fn short(&self) -> &'static str {
        match self {
            Obstacle::Unloadable(Unloadable::Static) => "a static program",
            Obstacle::Unloadable(Unloadable::Bits32) => "a 32-bit program",
            Obstacle::Unloadable(Unloadable::Machine(_)) => "a program for another machine",
            Obstacle::Go => "a Go program",
            Obstacle::LimitsItself => "a static program that can set a filter on system calls",
            Obstacle::GainsRights(_) => "a program that changes its rights at its start",
            Obstacle::Controls => "a debugger or emulator",
            Obstacle::Empty | Obstacle::UnknownFormat => "no ELF program",
        }
    }
}

/// What was found: the last file of the chain, and the obstacle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundProgram {
    /// The executable that really runs (a script's interpreter).
    pub program: PathBuf,
    /// The script that led to it, if one did.
    pub script: Option<PathBuf>,
    /// Why it cannot be sampled, if so.
    pub obstacle: Option<Obstacle>,
}

impl FoundProgram {
    /// Whether nothing of its own time can be sampled by `pct run`, whatever way it takes.
    #[must_use]
    pub fn cannot_be_sampled(&self) -> bool {
        match &self.obstacle {
            None | Some(Obstacle::Go | Obstacle::LimitsItself | Obstacle::Unloadable(Unloadable::Static)) => {
                false
            }
            Some(
                Obstacle::Unloadable(_)
                | Obstacle::GainsRights(_)
                | Obstacle::Controls
                | Obstacle::Empty
                | Obstacle::UnknownFormat,
            ) => true,
        }
    }
}

impl fmt::Display for FoundProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.program.display();
        if let Some(script) = &self.script {
            write!(f, "{} runs by {program}, which ", script.display())?;
        } else {
            write!(f, "{program} ")?;
        }
        let Some(obstacle) = &self.obstacle else { return write!(f, "can be profiled") };
        match obstacle {
            Obstacle::Unloadable(Unloadable::Static) => write!(
                f,
                "is statically linked, so no library can be preloaded; pct attach works on it, or link it with libpct.a"
            ),
            Obstacle::Go => write!(
                f,
                "is a Go program, whose runtime takes every signal: it is sampled from outside, which takes --clock auto or \
                 wall, --mode log, and begins at the start"
            ),
            Obstacle::LimitsItself => write!(
                f,
                "is statically linked and can set a filter on system calls, which would kill it with the sampler inside: it \
                 is sampled from outside, which takes --clock auto or wall, --mode log, and begins at the start"
            ),
            Obstacle::Unloadable(Unloadable::Bits32) => {
                write!(f, "is a 32-bit program; pct profiles 64-bit ones: use a 64-bit build")
            }
            Obstacle::Unloadable(Unloadable::Machine(number)) => write!(
                f,
                "is for another machine (ELF machine {number}); run pct where the program runs natively"
            ),
            Obstacle::GainsRights(gain) => {
                write!(f, "{}, so libraries are not preloaded; as root, pct attach works", gain.verb())
            }
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

/// Looks at an executable file. `None` when it cannot be read (it may still be executable), unless it gains rights.
#[must_use]
pub fn inspect(file: &Path) -> Option<FoundProgram> {
    let mut program = file.to_owned();
    let mut script = None;
    let controls = file.file_name().and_then(OsStr::to_str).is_some_and(controls_programs);
    for _ in 0..script::MOST {
        let Some(head) = script::head_of(&program, HEAD) else {
            let obstacle = Obstacle::GainsRights(rights::gained_by(&program)?);
            return Some(FoundProgram { program, script, obstacle: Some(obstacle) });
        };
        if let Some(next) = interpreter(&head) {
            script.get_or_insert_with(|| program.clone());
            program = next;
            continue;
        }
        if controls {
            // The name is what tells: a script of that name starts the debugger.
            return Some(FoundProgram {
                program: file.to_owned(),
                script: None,
                obstacle: Some(Obstacle::Controls),
            });
        }
        let obstacle = obstacle(&program, &head);
        return Some(FoundProgram { program, script, obstacle });
    }
    None
}

/// Debuggers, recorders and emulators of user programs, by the names that distributions give them. strace and
/// ltrace are not among them, because they pass signals on.
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

/// The program that runs a script which begins with `head`.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let first = script::interpreter(head)?;
    // `#!/usr/bin/env python3`: env is gone in a moment, the program behind it is what runs.
    if first.file_name() == Some(OsStr::new("env"))
        && let Some(words) = script::words(head)
        && let Some(word) = words.iter().skip(1).find(|word| !word.starts_with(b"-") && !word.contains(&b'='))
        && let Some(found) = find(OsStr::from_bytes(word))
    {
        return Some(found);
    }
    Some(first.to_owned())
}

/// The first interpreter of a script that does not exist: then the kernel says that the *script* does not.
#[must_use]
pub fn missing_interpreter(file: &Path) -> Option<PathBuf> {
    let mut program = file.to_owned();
    for _ in 0..script::MOST {
        program = script::interpreter(&script::head_of(&program, HEAD)?)?.to_owned();
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
    if let Some(gain) = rights::gained_by(file) {
        return Some(Obstacle::GainsRights(gain));
    }
    match Unloadable::reason(&head) {
        None | Some(Unloadable::Static) if is_go_program(file, head) => Some(Obstacle::Go),
        Some(Unloadable::Static) if may_limit_itself(file, head) => Some(Obstacle::LimitsItself),
        reason => reason.map(Obstacle::Unloadable),
    }
}

/// Whether the code in a static program's file may limit its system calls. `head` is the beginning of `file`.
fn may_limit_itself(file: &Path, head: &[u8]) -> bool {
    program_headers(head).is_some_and(|segments| {
        loaded_segments(file, segments, Contents::Code).any(|text| limits::may_be_set(&text))
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    Code,
    Data,
}

/// The octets of the segments that a program's file has of one kind, [`MOST_CODE`] of each at most. Those that the file
/// does not hold are left out.
fn loaded_segments(file: &Path, segments: &[Segment], contents: Contents) -> impl Iterator<Item = Vec<u8>> {
    let file = File::open(file).ok();
    let is_wanted = move |segment: &&Segment| {
        let is_code = segment.p_flags(LittleEndian).contains(elf::PF_X);
        segment.p_type(LittleEndian) == elf::PT_LOAD && is_code == (contents == Contents::Code)
    };
    segments.iter().filter(is_wanted).filter_map(move |segment| {
        let octets = segment.p_filesz(LittleEndian).min(MOST_CODE);
        let mut bytes = vec![0; usize::try_from(octets).ok()?];
        file.as_ref()?.read_exact_at(&mut bytes, segment.p_offset(LittleEndian)).ok()?;
        Some(bytes)
    })
}

/// Whether it is a Go program: not one that has Go code only as a library, where Go's runtime leaves the signals to the
/// program. `head` is the beginning of `file`, with the notes.
fn is_go_program(file: &Path, head: &[u8]) -> bool {
    program_headers(head).is_some_and(|segments| {
        segments.iter().any(|segment| has_go_note(segment, head))
            && !(needs_libraries(file, segments) && has_go_as_library(file, segments))
    })
}

/// Go's entry to itself as a library, in the table of names that also stripped programs have. Other programs are linked
/// without it.
const GO_AS_LIBRARY: &[u8] =
    if cfg!(target_arch = "aarch64") { b"\0_rt0_arm64_linux_lib\0" } else { b"\0_rt0_amd64_linux_lib\0" };

/// Whether its data hold that name.
fn has_go_as_library(file: &Path, segments: &[Segment]) -> bool {
    loaded_segments(file, segments, Contents::Data)
        .any(|data| memchr::memmem::find(&data, GO_AS_LIBRARY).is_some())
}

type Segment = elf::ProgramHeader64<LittleEndian>;

/// The program headers, if the head of the file has them all.
fn program_headers(head: &[u8]) -> Option<&[Segment]> {
    let header = elf::FileHeader64::<LittleEndian>::parse(head).ok()?;
    header.program_headers(LittleEndian, head).ok()
}

/// Whether this segment has the note that Go's linker writes.
fn has_go_note(segment: &Segment, head: &[u8]) -> bool {
    const BUILD_ID: elf::NoteType = elf::NoteType(4);
    let Ok(Some(notes)) = segment.notes(LittleEndian, head) else { return false };
    let mut notes = notes.map_while(Result::ok);
    notes.any(|note| note.name() == b"Go" && note.n_type(LittleEndian) == BUILD_ID)
}

/// Whether the dynamic section names libraries.
fn needs_libraries(file: &Path, segments: &[Segment]) -> bool {
    let Ok(file) = File::open(file) else { return false };
    let file = ReadCache::new(file);
    let dynamic = segments.iter().find_map(|segment| segment.dynamic(LittleEndian, &file).ok()?);
    dynamic.is_some_and(|entries| entries.iter().any(|entry| entry.d_tag(LittleEndian) == elf::DT_NEEDED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The first octets of a program with two program headers: the first is for notes, which follow.
    fn with_notes(notes: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0_u8; 64 + 2 * 56];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        bytes[18] = 62;
        bytes[32] = 64;
        bytes[52] = 64;
        bytes[54] = 56;
        bytes[56] = 2;
        bytes[64] = 4;
        bytes[64 + 56] = 1;
        let at = bytes.len() as u64;
        bytes[64 + 8..64 + 16].copy_from_slice(&at.to_le_bytes());
        bytes[64 + 32..64 + 40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        bytes.extend_from_slice(notes);
        bytes
    }

    fn is_go(head: &[u8]) -> bool {
        program_headers(head)
            .is_some_and(|segments| segments.iter().any(|segment| has_go_note(segment, head)))
    }

    #[test]
    fn a_go_program_is_told_by_its_note() {
        let gnu = [4, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0, b'i', b'd', b'0', b'1'];
        let go = [4, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, b'G', b'o', 0, 0, b'i', b'd', b'0', b'1'];
        assert!(!is_go(&with_notes(&gnu)));
        let mut bytes = with_notes(&[gnu, go].concat());
        assert!(is_go(&bytes));
        for n in 0..bytes.len() {
            assert!(!is_go(&bytes[..n]), "cut to {n}");
        }
        bytes[64 + 8..64 + 16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(!is_go(&bytes));
    }

    #[test]
    fn go_as_a_library_is_told_by_a_name_in_the_data() {
        const FROM: usize = 1000;
        const LENGTH: usize = 4000;
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("program");
        let has = |at: Option<usize>, flags: u32, length: u64| {
            let mut bytes = with_notes(&[]);
            bytes.resize(FROM + LENGTH + 1000, b'x');
            if let Some(at) = at {
                bytes[at..at + GO_AS_LIBRARY.len()].copy_from_slice(GO_AS_LIBRARY);
            }
            let load = 64 + 56;
            bytes[load + 4..load + 8].copy_from_slice(&flags.to_le_bytes());
            bytes[load + 8..load + 16].copy_from_slice(&1000_u64.to_le_bytes());
            bytes[load + 32..load + 40].copy_from_slice(&length.to_le_bytes());
            fs::write(&path, &bytes).expect("written");
            has_go_as_library(&path, program_headers(&bytes).expect("headers"))
        };
        let last = FROM + LENGTH - GO_AS_LIBRARY.len();
        assert!(!has(None, 4, 4000));
        assert!(has(Some(FROM), 4, 4000) && has(Some(last), 4, 4000));
        assert!(!has(Some(FROM), 5, 4000), "among code");
        assert!(!has(Some(last + 1), 4, 4000), "behind the segment");
        assert!(!has(Some(FROM), 4, u64::MAX), "a segment that the file does not hold");
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
        let found = inspect(&wrapper).expect("readable");
        assert_eq!(found.obstacle, Some(Obstacle::Controls));
        let named = format!("{} controls each step", wrapper.display());
        assert!(found.to_string().starts_with(&named), "{found}");
    }

    #[test]
    fn this_program_can_be_profiled() {
        let found = inspect(&std::env::current_exe().expect("known")).expect("readable");
        assert_eq!(found.obstacle, None);
    }
}
