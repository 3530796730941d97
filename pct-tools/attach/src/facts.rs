//! Reads a target without stopping it. The start time is read first, so that a pid that was reused meanwhile is
//! noticed after the seize.

use crate::choose::{Class, Facts, Libc, Link};
use crate::gadgets::{self, Gadgets};
use crate::image::{Image, PctNote};
use crate::limits;
use crate::loading::Loading;
use crate::memory::{Memory, ProcessMemory};
use crate::tasks;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why a target could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FactsError {
    /// No such process.
    #[error("no process {0}")]
    NoSuchProcess(i32),
    /// A file in `/proc` could not be read.
    #[error("process {pid}: cannot read {what}: {source}")]
    Unreadable {
        /// The target's process id.
        pid: i32,
        /// The file.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// What was read of a target: the plain facts for the choice, and what the executor needs beyond them.
#[derive(Debug)]
pub struct Target {
    /// What the choice depends on.
    pub facts: Facts,
    /// Start time in clock ticks since boot (`/proc/PID/stat` field 22): the process's identity.
    pub start_time: u64,
    /// The pid as the target's innermost pid namespace numbers it.
    pub own_pid: i32,
    /// The executable's path according to the kernel. The file may be gone.
    pub exe: Option<PathBuf>,
    /// Its memory map.
    pub maps: Vec<MemoryMap>,
    /// The sampler's entry points, if the sampler is mapped.
    pub note: Option<PctNote>,
    /// Address of `dlopen` in the C library in use, and the flags that it needs besides RTLD_NOW.
    pub dlopen: Option<(u64, u64)>,
    /// Instructions for a self-restoring call.
    pub gadgets: Gadgets,
    /// Where pct can write the gadgets if the target has none: behind the end of some code.
    pub padding: Option<u64>,
    /// The loader's `struct r_debug`.
    pub r_debug: Option<u64>,
    /// The address of `argc` on the initial stack.
    pub start_stack: u64,
    /// The address of the initial environment vector, when argc could be read.
    pub initial_envp: Option<u64>,
    /// The program's own image.
    pub program: Option<Image>,
    /// Images with a name, in maps order: (path, image).
    pub images: Vec<(PathBuf, Image)>,
}

/// The signals that the sampler tries for its tick: SIGURG, and the real-time signals 40 to 61.
const CLOCK_SIGNALS: u64 = ((1 << 22) - 1) << 39 | 1 << (libc::SIGURG - 1);

/// Whether running threads that block the signal of the sampler's clock (SIGURG) used at least a quarter of the
/// CPU time of all living threads. (Many programs have a thread that blocks all signals and waits for them; it uses
/// next to no CPU time.) libc too blocks all signals for a moment, for example when it makes a process. So all of
/// several readings must agree. Of very many threads only the first are read.
fn working_threads_block(process: &Process) -> bool {
    const MOST_THREADS: usize = 1024;
    const LOOKS: u32 = 6;
    const APART: std::time::Duration = std::time::Duration::from_millis(2);
    let signal = 1u64 << (libc::SIGURG - 1);
    (0..LOOKS).all(|look| {
        if look > 0 {
            std::thread::sleep(APART);
        }
        let (mut all, mut blocking) = (0u64, 0u64);
        for task in process.tasks().into_iter().flatten().flatten().take(MOST_THREADS) {
            let (Ok(stat), Ok(status)) = (task.stat(), task.status()) else { continue };
            let used = stat.utime.saturating_add(stat.stime);
            all = all.saturating_add(used);
            if stat.state == 'R' && status.sigblk & signal != 0 {
                blocking = blocking.saturating_add(used);
            }
        }
        blocking > 0 && blocking >= all / 4
    })
}

/// The current start time of `pid`. If it differs from an earlier one, the number belongs to another process now.
/// `None`: the process has ended, though its parent may not have heard of it yet.
pub fn start_time(pid: i32) -> Option<u64> {
    let stat = tasks::read_text(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may contain spaces and brackets. The state (field 3) and the other fields follow it.
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    let start = fields.nth(19)?.parse().ok()?;
    // The first thread may have ended while others run on.
    (!tasks::has_ended(&tasks::folder(pid))).then_some(start)
}

fn status_word(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':')).map(|v| v.trim().to_owned())
}

/// Reads everything about `pid`. It stops nothing and changes nothing.
///
/// # Errors
/// When there is no such process, or `/proc` cannot be read at all. Missing rights are a fact and not an error.
pub fn read(pid: i32) -> Result<Target, FactsError> {
    /// Most attempts, so that pct does not follow a program that executes others in a row for ever.
    const TRIES: usize = 4;
    let mut target = read_once(pid)?;
    for _ in 1..TRIES {
        // While the kernel executes a program, it sets the start of the stack last. Facts read before and after that
        // would belong to two programs.
        let now = stack_start(pid).ok_or(FactsError::NoSuchProcess(pid))?;
        if now == target.start_stack {
            break;
        }
        target = read_once(pid)?;
    }
    Ok(target)
}

/// Start of the main thread's stack according to /proc/PID/stat; 0 if pct may not know it.
fn stack_start(pid: i32) -> Option<u64> {
    Some(Process::new(pid).ok()?.stat().ok()?.startstack)
}

fn read_once(pid: i32) -> Result<Target, FactsError> {
    let unreadable = |what| move |source: io::Error| FactsError::Unreadable { pid, what, source };
    let process = Process::new(pid).map_err(|_| FactsError::NoSuchProcess(pid))?;
    let stat = process.stat().map_err(|_| FactsError::NoSuchProcess(pid))?;
    let folder = tasks::folder(pid);
    let status = fs::read_to_string(folder.join("status")).map_err(unreadable("status"))?;
    let word = |key: &str| status_word(&status, key);
    let number = |key: &str| word(key).and_then(|w| w.split_whitespace().next()?.parse::<i32>().ok());
    let exe_file = fs::File::open(folder.join("exe"));
    let memory = ProcessMemory::open(pid, false).ok();
    let program = memory.as_ref().and_then(|memory| Image::program_of(pid, memory));
    // Before the map is read: the map then shows everything that the loader has finished.
    let loading = memory.as_ref().and_then(|memory| Loading::find_out(pid, program.as_ref(), memory));
    let maps: Vec<MemoryMap> = tasks::maps(pid).map(|m| m.0).unwrap_or_default();
    let may_trace = memory.is_some() && !maps.is_empty();
    let class = class_of(exe_file);
    let state = word("State").and_then(|w| w.chars().next()).unwrap_or(stat.state);
    // Last: what was read before is of a process that lived.
    let has_ended = tasks::has_ended(&folder);
    let caught = word("SigCgt").and_then(|w| u64::from_str_radix(&w, 16).ok()).unwrap_or(0);

    let mut target = Target {
        facts: Facts {
            pid,
            name: stat.comm.clone(),
            state: if has_ended { 'X' } else { state },
            threads: usize::try_from(stat.num_threads).unwrap_or(0),
            tracer: number("TracerPid").unwrap_or(0),
            same_user: same_user(&status),
            may_trace,
            capable: capable(),
            yama: yama(),
            descendant: descendant(pid),
            is_self: pid == std::process::id().cast_signed(),
            class,
            link: Link::Static,
            loading,
            go: false,
            seccomp: number("Seccomp").and_then(|n| u8::try_from(n).ok()).unwrap_or(0),
            shadow_stack: word("x86_Thread_features").is_some_and(|f| f.contains("shstk")),
            library_mapped: false,
            library_linked: false,
            has_dlopen: false,
            has_gadgets: false,
            may_limit_itself: false,
            same_files: same_files(pid),
            has_proc: has_proc(&process),
            sigprof_caught: caught & (1 << (libc::SIGPROF - 1)) != 0,
            sigsys_caught: caught & (1 << (libc::SIGSYS - 1)) != 0,
            signals_taken: caught & CLOCK_SIGNALS == CLOCK_SIGNALS,
            signals_blocked: working_threads_block(&process),
            shell: is_shell(pid),
        },
        start_time: stat.starttime,
        own_pid: word("NSpid").and_then(|w| w.split_whitespace().last()?.parse().ok()).unwrap_or(pid),
        exe: fs::read_link(folder.join("exe")).ok(),
        maps,
        note: None,
        dlopen: None,
        gadgets: Gadgets::default(),
        padding: None,
        r_debug: None,
        start_stack: stat.startstack,
        initial_envp: None,
        program,
        images: Vec::new(),
    };
    if let Some(memory) = &memory {
        target.read_memory(memory);
    }
    Ok(target)
}

impl Target {
    fn read_memory(&mut self, memory: &ProcessMemory) {
        if self.start_stack != 0
            && let Ok(argc) = memory.read_word(self.start_stack)
            && argc < 1 << 24
        {
            self.initial_envp = Some(self.start_stack + 8 * (argc + 2));
        }
        self.read_images(memory);
        self.read_link(memory);
        self.find_gadgets(memory);
        self.find_limits(memory);
    }

    /// Reads the images of the map: one for each file whose first mapping starts with an ELF header.
    fn read_images(&mut self, memory: &ProcessMemory) {
        let mut seen: Vec<(i32, i32, u64)> = Vec::new();
        let maps = std::mem::take(&mut self.maps);
        for map in &maps {
            let path = match &map.pathname {
                MMapPath::Path(p) => p.clone(),
                MMapPath::Vdso => PathBuf::from("[vdso]"),
                // an injected sampler has no file
                MMapPath::Anonymous if map.perms.contains(MMPermissions::READ) => {
                    self.look_for_blob(memory, map.address.0);
                    continue;
                }
                _ => continue,
            };
            let id = (map.dev.0, map.dev.1, map.inode);
            if map.offset != 0 || (map.inode != 0 && seen.contains(&id)) {
                continue;
            }
            if let Ok(image) = Image::at_header(memory, map.address.0) {
                seen.push(id);
                self.images.push((path, image));
            }
        }
        self.maps = maps;
        let program_bias = self.program.as_ref().map(|p| p.bias);
        for (path, image) in &self.images {
            if let Some(note) = image.pct_note(memory) {
                let own = Some(image.bias) == program_bias
                    && path.as_path() == self.exe.as_deref().unwrap_or(Path::new(""));
                let whole = own || image.is_mapped(&self.maps) && image.is_relocated(memory);
                if !whole {
                    continue; // it is being loaded this very moment
                }
                self.note = Some(note);
                if own {
                    self.facts.library_linked = true;
                } else {
                    self.facts.library_mapped = true;
                }
            }
        }
    }

    /// Finds a sampler that method 4 left: an image with the note, in memory that belongs to no file.
    fn look_for_blob(&mut self, memory: &ProcessMemory, start: u64) {
        let is_elf = memory.half(start).is_ok_and(|word| word.to_ne_bytes() == *b"\x7fELF");
        if !is_elf || self.note.is_some() {
            return;
        }
        let image = Image::at_header(memory, start).ok().filter(|image| image.is_relocated(memory));
        let note = image.and_then(|image| image.pct_note(memory));
        self.facts.library_mapped |= note.is_some();
        self.note = note;
    }

    /// Finds out whether the program is static or dynamic, which C library it uses, and that library's dlopen.
    fn read_link(&mut self, memory: &ProcessMemory) {
        let interpreter = self.program.as_ref().and_then(|p| p.interpreter(memory));
        let libc_of = |name: &[u8]| {
            let has = |w: &[u8]| memchr::memmem::find(name, w).is_some();
            match () {
                () if has(b"ld-musl") => Libc::Musl,
                () if has(b"ld-linux") => Libc::Glibc,
                () => Libc::Other,
            }
        };
        let libc_image = self.images.iter().find(|(_, i)| {
            i.soname(memory).is_some_and(|s| s.starts_with(b"libc.so") || s.starts_with(b"libc.musl"))
        });
        self.facts.link = match (&interpreter, libc_image) {
            (Some(path), _) => Link::Dynamic(libc_of(path)),
            // started as `ld.so prog`: no interpreter, and dynamic all the same
            (None, Some((path, _))) => {
                let musl = path.to_string_lossy().contains("musl");
                Link::Dynamic(if musl { Libc::Musl } else { Libc::Glibc })
            }
            (None, None) if self.program.as_ref().is_some_and(Image::has_dynamic) => Link::StaticPie,
            (None, None) => Link::Static,
        };
        let images = self.program.iter().chain(self.images.iter().map(|(_, image)| image));
        self.r_debug = images.into_iter().find_map(Image::debug);
        if !matches!(self.facts.link, Link::Dynamic(_)) {
            return; // a static program may contain a dlopen; it is never called
        }
        let by_name = |symbol: &str| self.images.iter().find_map(|(_, i)| i.symbol(memory, symbol));
        // __libc_dlopen_mode wants its own flag (glibc before 2.34)
        self.dlopen = by_name("dlopen")
            .map(|a| (a, 0))
            .or_else(|| by_name("__libc_dlopen_mode").map(|a| (a, 0x8000_0000)));
        self.facts.has_dlopen = self.dlopen.is_some();
        let lacks_libc = libc_image.is_none() && !self.facts.has_dlopen;
        let program = self.program.as_ref();
        if lacks_libc && program.is_some_and(Image::needs_library) {
            self.facts.loading = self.facts.loading.or(Some(Loading::NoLibc));
        }
    }

    fn find_gadgets(&mut self, memory: &ProcessMemory) {
        /// Octets of each text that are searched for gadgets. Those at its start are as good as later ones.
        const PART: u64 = 8 << 20;
        for map in self.maps.iter().filter(|m| m.perms.contains(MMPermissions::EXECUTE)) {
            if self.gadgets.complete() {
                break;
            }
            if !stays(&map.pathname) {
                continue;
            }
            let len = (map.address.1 - map.address.0).min(PART);
            if let Ok(text) = memory.bytes(map.address.0, len, PART) {
                self.gadgets.search(&text, map.address.0);
                self.facts.go |=
                    memchr::memmem::find(&text[..text.len().min(4096)], b"Go build ID: ").is_some();
            }
        }
        let images = self.program.iter().chain(self.images.iter().map(|(_, image)| image));
        let room = images.flat_map(Image::padding).find(|(_, room)| *room >= gadgets::ROOM);
        // at the very end of the page, as far from the code as possible
        self.padding = room.map(|(at, room)| at + room - gadgets::ROOM);
        self.facts.has_gadgets = self.gadgets.complete() || self.padding.is_some();
    }

    fn find_limits(&mut self, memory: &ProcessMemory) {
        if matches!(self.facts.link, Link::Dynamic(_)) || self.facts.library_linked {
            return;
        }
        let is_code = |map: &&MemoryMap| {
            map.perms.contains(MMPermissions::EXECUTE) && matches!(map.pathname, MMapPath::Path(_))
        };
        self.facts.may_limit_itself = self.maps.iter().filter(is_code).any(|map| {
            let octets = (map.address.1 - map.address.0).min(limits::MOST_CODE);
            memory.bytes(map.address.0, octets, octets).is_ok_and(|text| limits::may_be_set(&text))
        });
    }
}

/// Whether code that is mapped from this path stays while the target lives. Code without a file does not: a compiler
/// wrote it at run time, or it is the scratch of a killed controller, which its thread unmaps when it runs next.
fn stays(path: &MMapPath) -> bool {
    match path {
        MMapPath::Path(path) => !path.starts_with("/memfd:"),
        MMapPath::Vdso => true,
        _ => false,
    }
}

/// Whether the program is a shell. Shells keep the variables that they were started with and those that scripts
/// export in tables of their own.
fn is_shell(pid: i32) -> bool {
    const SHELLS: &[&str] = &[
        "sh", "dash", "bash", "zsh", "ksh", "mksh", "lksh", "fish", "busybox", "ash", "tcsh", "csh", "yash",
        "rbash",
    ];
    let exe = fs::read_link(tasks::folder(pid).join("exe")).unwrap_or_default();
    let name = exe.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
    SHELLS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
}

fn class_of(exe: io::Result<fs::File>) -> Class {
    use std::os::unix::fs::FileExt;
    let file = match exe {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Class::Hidden,
        Err(_) => return Class::None,
    };
    let mut head = [0u8; 20];
    if file.read_exact_at(&mut head, 0).is_err() || head[..4] != *b"\x7fELF" {
        return Class::Foreign;
    }
    const EM_X86_64: u16 = 62;
    match (head[4], u16::from_le_bytes([head[18], head[19]])) {
        (2, EM_X86_64) => Class::X86_64,
        (1, _) => Class::Bits32,
        _ => Class::Foreign,
    }
}

fn same_user(status: &str) -> bool {
    let ours = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = |text: &str, key: &str| -> Vec<String> {
        let line = status_word(text, key).unwrap_or_default();
        line.split_whitespace().take(3).map(str::to_owned).collect()
    };
    ["Uid", "Gid"].iter().all(|key| {
        let own = ids(&ours, key).get(1).cloned().unwrap_or_default();
        ids(status, key).iter().all(|id| *id == own)
    })
}

/// Whether pct has CAP_SYS_PTRACE (bit 19) in its effective set.
#[must_use]
pub fn capable() -> bool {
    let ours = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status_word(&ours, "CapEff")
        .and_then(|w| u64::from_str_radix(&w, 16).ok())
        .is_some_and(|c| c & (1 << 19) != 0)
}

/// Yama's `ptrace_scope`: 1, only ancestors may trace, and whom the process names. `None`: the kernel has no Yama.
#[must_use]
pub fn yama() -> Option<u8> {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?.trim().parse().ok()
}

fn descendant(pid: i32) -> bool {
    let ours = std::process::id().cast_signed();
    let mut at = pid;
    for _ in 0..1000 {
        match Process::new(at).and_then(|p| p.stat()) {
            Ok(s) if s.ppid == ours => return true,
            Ok(s) if s.ppid > 1 => at = s.ppid,
            _ => return false,
        }
    }
    false
}

fn same_files(pid: i32) -> bool {
    let folder = tasks::folder(pid);
    let same = |what: &str| {
        let a = fs::metadata(folder.join(what));
        let b = fs::metadata(format!("/proc/self/{what}"));
        matches!((a, b), (Ok(a), Ok(b)) if (a.dev(), a.ino()) == (b.dev(), b.ino()))
    };
    same("ns/mnt") && same("root")
}

/// Whether the process sees a /proc, which need not be pct's: the last mount at that path has the type proc.
/// If the mounts cannot be read, the answer is yes.
fn has_proc(process: &Process) -> bool {
    let Ok(mounts) = process.mountinfo() else { return true };
    let mut at_proc = mounts.into_iter().filter(|mount| mount.mount_point == Path::new("/proc"));
    at_proc.next_back().is_some_and(|mount| mount.fs_type == "proc")
}

#[cfg(test)]
mod live {
    use super::*;
    use crate::choose::{Refusal, Wish, choose};
    use pct_kit::wait::{wait_for, wait_until};
    use std::process::{Command, Stdio};

    #[test]
    fn a_sleeping_child_is_seen_as_it_is() {
        let mut child = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id() as i32;
        // until exec has happened the child is still a copy of this process
        wait_until("sleep to be executed", || {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|p| !p.to_string_lossy().contains("attach"))
        });
        // the loader may still be at work
        let t = wait_for("sleep to be loaded", || {
            Some(read(pid).unwrap()).filter(|t| t.facts.has_dlopen && t.initial_envp.is_some())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(t.facts.class, Class::X86_64);
        assert!(matches!(t.facts.link, Link::Dynamic(_)));
        assert!(t.facts.may_trace && t.facts.same_user && t.facts.descendant && t.facts.same_files);
        assert!(t.gadgets.complete());
        assert!(t.note.is_none());
        assert!(t.initial_envp.is_some());
    }

    #[test]
    fn shells_are_known_by_their_programs() {
        let shell = |program: &str| {
            let mut child =
                Command::new(program).arg("-c").arg("read x").stdin(Stdio::piped()).spawn().unwrap();
            let pid = child.id() as i32;
            wait_until("the shell to run", || {
                fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == program)
            });
            let is = is_shell(pid);
            drop(child.stdin.take());
            child.wait().unwrap();
            is
        };
        assert!(shell("sh"));
        assert!(!is_shell(std::process::id() as i32));
    }

    #[test]
    fn no_such_process_is_an_error_and_we_are_refused() {
        assert!(matches!(read(i32::MAX - 1), Err(FactsError::NoSuchProcess(_))));
        let me = read(std::process::id() as i32).unwrap();
        assert_eq!(choose(&me.facts, &Wish::default()).unwrap_err(), Refusal::Oneself(me.facts.pid));
    }
}
