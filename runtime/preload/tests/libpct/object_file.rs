//! What is in the library: nothing that a host could trip over.

use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind, elf};

use std::path::Path;

use pct_kit::libraries;

/// All libraries, one after the other.
fn with_objects(check: impl Fn(&ElfFile64<'_, Endianness>, &[u8])) {
    with_object(libraries::plain(), &check);
    with_object(libraries::alloc(), &check);
    with_object(libraries::waits(), &check);
}

fn with_object(library: &Path, check: impl FnOnce(&ElfFile64<'_, Endianness>, &[u8])) {
    let bytes = std::fs::read(library).expect("readable");
    let file = ElfFile64::<Endianness>::parse(&bytes[..]).expect("an ELF object");
    check(&file, &bytes);
}

fn exports(library: &Path) -> Vec<String> {
    let mut names = Vec::new();
    with_object(library, |file, _| {
        names = file.dynamic_symbols().map(|s| s.name().unwrap_or("?").to_owned()).collect();
    });
    names.sort();
    names
}

#[test]
fn it_needs_no_other_library_and_no_thread_local_storage() {
    with_objects(|file, bytes| {
        let endian = file.endian();
        let header = file.elf_header();
        // each one costs every process that is profiled some microseconds: see build.rs
        let loaded = header.program_headers(endian, bytes).expect("program headers").iter();
        assert_eq!(loaded.filter(|s| s.p_type(endian) == elf::PT_LOAD).count(), 2, "mappings");
        for segment in header.program_headers(endian, bytes).expect("program headers") {
            assert_ne!(segment.p_type(endian), elf::PT_TLS, "PT_TLS");
            assert_ne!(segment.p_type(endian), elf::PT_INTERP, "PT_INTERP");
            let flags = segment.p_flags(endian);
            assert_ne!(flags & (elf::PF_W | elf::PF_X), elf::PF_W | elf::PF_X, "writable and executable");
            if let Some(dynamic) = segment.dynamic(endian, bytes).expect("dynamic section") {
                for entry in dynamic {
                    let tag = entry.d_tag(endian);
                    assert_ne!(tag, elf::DT_NEEDED, "DT_NEEDED");
                    assert_ne!(tag, elf::DT_TEXTREL, "DT_TEXTREL");
                }
            }
        }
        let undefined: Vec<_> = file
            .dynamic_symbols()
            .filter(|s| s.is_undefined())
            .map(|s| s.name().unwrap_or("?").to_owned())
            .collect();
        assert!(undefined.is_empty(), "undefined: {undefined:?}");
    });
}

#[test]
fn it_exports_what_the_shell_lists_and_nothing_else() {
    const EXPORTS: &[&str] = &[
        "_Exit",
        "_Fork",
        "__ppoll_chk",
        "__sysv_signal",
        "_exit",
        "alarm",
        "bsd_signal",
        "chroot",
        "clone",
        "daemon",
        "dlclose",
        "dlmopen",
        "dlopen",
        "epoll_pwait",
        "epoll_pwait2",
        "execl",
        "execle",
        "execlp",
        "execv",
        "execve",
        "execveat",
        "execvp",
        "execvpe",
        "fexecve",
        "fork",
        "forkpty",
        "pct_after_fork",
        "pct_mark",
        "pct_off",
        "pct_on",
        "pct_stat",
        "posix_spawn",
        "posix_spawnp",
        "ppoll",
        "prctl",
        "pselect",
        "pthread_create",
        "pthread_sigmask",
        "seccomp",
        "seccomp_load",
        "seteuid",
        "setgid",
        "setitimer",
        "setns",
        "setresuid",
        "setreuid",
        "setuid",
        "sigaction",
        "sigaltstack",
        "signal",
        "signalfd",
        "sigprocmask",
        "sigset",
        "sigsuspend",
        "sigtimedwait",
        "sigwait",
        "sigwaitinfo",
        "syscall",
        "timer_create",
        "unshare",
    ];
    assert_eq!(exports(libraries::plain()), EXPORTS);
    let mut more: Vec<_> = EXPORTS.iter().chain(ALLOCATES).copied().collect();
    more.sort_unstable();
    if cfg!(target_arch = "x86_64") {
        assert_eq!(exports(libraries::alloc()), more);
        let mut more: Vec<_> = EXPORTS.iter().chain(WAITS).copied().collect();
        more.sort_unstable();
        assert_eq!(exports(libraries::waits()), more);
    }
}

/// What libpct-waits.so exports beside.
const WAITS: &[&str] = &[
    "pthread_barrier_wait",
    "pthread_clockjoin_np",
    "pthread_cond_broadcast",
    "pthread_cond_clockwait",
    "pthread_cond_signal",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_join",
    "pthread_mutex_clocklock",
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_mutex_trylock",
    "pthread_mutex_unlock",
    "pthread_rwlock_clockrdlock",
    "pthread_rwlock_clockwrlock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_timedrdlock",
    "pthread_rwlock_timedwrlock",
    "pthread_rwlock_tryrdlock",
    "pthread_rwlock_trywrlock",
    "pthread_rwlock_unlock",
    "pthread_rwlock_wrlock",
    "pthread_timedjoin_np",
    "sem_clockwait",
    "sem_post",
    "sem_timedwait",
    "sem_wait",
];

/// What libpct-alloc.so exports beside.
const ALLOCATES: &[&str] = &[
    "_ZdaPv",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdaPvSt11align_val_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvm",
    "_ZdaPvmSt11align_val_t",
    "_ZdlPv",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdlPvm",
    "_ZdlPvmSt11align_val_t",
    "_Znam",
    "_ZnamRKSt9nothrow_t",
    "_ZnamSt11align_val_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_Znwm",
    "_ZnwmRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "aligned_alloc",
    "calloc",
    "cfree",
    "free",
    "free_aligned_sized",
    "free_sized",
    "malloc",
    "memalign",
    "pct_alloc",
    "pct_free",
    "pct_heap_mark",
    "posix_memalign",
    "pvalloc",
    "realloc",
    "reallocarray",
    "valloc",
];

#[test]
fn nothing_in_it_can_panic_or_allocate() {
    with_objects(|file, _| {
        let mut functions = 0;
        for symbol in file.symbols() {
            let name = symbol.name().unwrap_or("?");
            // (What is exported for the host under this name is no use of it.)
            let name = if ALLOCATES.contains(&name) { "wrapped" } else { name };
            functions += usize::from(symbol.kind() == SymbolKind::Text);
            for word in ["panic", "unwrap_failed", "expect_failed", "rust_begin_unwind", "__rust_alloc"] {
                assert!(!name.contains(word), "{name} is left in the library");
            }
        }
        assert!(functions > 50, "the check saw {functions} functions only: no symbols?");
    });
}

#[test]
fn the_note_leads_to_the_three_functions() {
    with_objects(|file, bytes| {
        let endian = file.endian();
        let mut found = None;
        for segment in file.elf_header().program_headers(endian, bytes).expect("program headers") {
            let Some(mut notes) = segment.notes(endian, bytes).expect("notes") else { continue };
            while let Some(note) = notes.next().expect("a whole note") {
                if note.name() == b"PCT" && note.n_type(endian) == elf::NoteType(1) {
                    // The descriptor's place: the loader maps the first segment at offset = address.
                    let at = note.desc().as_ptr() as u64 - bytes.as_ptr() as u64;
                    found = Some((at, note.desc().to_vec()));
                }
            }
        }
        let (at, desc) = found.expect("a PCT note");
        let words: Vec<u64> = desc.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
        assert_eq!((words.len(), words[0]), (4, 1));
        let text: Vec<_> = file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.size() > 0).collect();
        for (i, offset) in words.iter().enumerate().skip(1) {
            let target = (at + 8 * i as u64).wrapping_add(*offset);
            assert!(text.iter().any(|s| s.address() == target), "word {i} leads to {target:#x}: no function");
        }
    });
}

/// A host's unwinder (exceptions, the end of a cancelled thread) finds code by halving the table of functions. lld
/// sorts it right only where all code lies behind it, and that is for layout.ld to keep.
#[test]
fn the_table_of_functions_is_sorted() {
    with_objects(|file, _| {
        let header = file.section_by_name(".eh_frame_hdr").and_then(|section| section.data().ok());
        let (head, table) = header.and_then(|bytes| bytes.split_at_checked(12)).expect("a table");
        // DW_EH_PE_datarel | DW_EH_PE_sdata4: pairs of distances from the header.
        assert_eq!(head[..4], [1, 0x1b, 0x03, 0x3b], "{head:?}");
        let (words, _) = table.as_chunks::<4>();
        let starts: Vec<i32> = words.iter().step_by(2).map(|word| i32::from_le_bytes(*word)).collect();
        assert_eq!(starts.len() as u32, u32::from_le_bytes(head[8..].try_into().expect("four octets")));
        assert!(starts.len() > 300 && starts.is_sorted(), "{starts:?}");
    });
}

/// What layout.ld puts together is found by name: a name that changed would leave it where it lies, in pages that each
/// start has to touch, and nothing else would tell.
#[test]
fn whatever_is_placed_by_name_is_there() {
    let layout =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("layout.ld")).expect("there");
    let layout = layout.split_once("*/").expect("a comment at the head").1;
    let patterns: Vec<&str> = layout
        .split(|c: char| c.is_whitespace() || "(){}".contains(c))
        .filter_map(|word| [".text.*", ".data.*", ".bss.*"].iter().find_map(|head| word.strip_prefix(head)))
        .map(|pattern| pattern.trim_end_matches('*'))
        .collect();
    assert!(patterns.len() > 15, "{patterns:?}");
    with_object(libraries::plain(), |file, _| {
        let names: Vec<&str> = file.symbols().filter_map(|symbol| symbol.name().ok()).collect();
        for pattern in patterns {
            let part = pattern.trim_end_matches("[1E]");
            let is_there = |name: &&str| match name.split_once(part) {
                Some((_, rest)) => part == pattern || rest.starts_with(['1', 'E']),
                None => false,
            };
            assert!(names.iter().any(is_there), "{pattern} finds nothing");
        }
    });
}
