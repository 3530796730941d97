//! Compares unwinding from a copy of registers and stack with glibc's own backtrace, in a program that makes both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use pct_kit::Dice;
use pct_symbols::unwind::UnwindData;
use pct_symbols::{DebugDirs, ObjectId, ObjectInfo, Options, Symbolizer};
use pct_unwind::cfi::reg;
use pct_unwind::full::{Failed, Regs, StepOut};
use pct_unwind::stack::Memory;

/// Recursion, a frame of unknown size, a call from libc (qsort), a signal's frame.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#include <alloca.h>

static char copy[65536];
static volatile int size = 100;

__attribute__((noinline)) static void dump(void) {
    ucontext_t uc;
    void *trace[200];
    getcontext(&uc);
    // as much of it as there is: with a small environment the stack ends before
    int memory = open("/proc/self/mem", O_RDONLY);
    int length = pread(memory, copy, 16384, uc.uc_mcontext.gregs[REG_RSP]);
    int n = backtrace(trace, 200);
    static const int order[17] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
        REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP };
    for (int i = 0; i < 17; i++)
        printf("register %d %llx\n", i, (unsigned long long)uc.uc_mcontext.gregs[order[i]]);
    printf("stack ");
    for (int i = 0; i < length; i++)
        printf("%02x", (unsigned char)copy[i]);
    printf("\n");
    for (int i = 1; i < n; i++)
        printf("trace %llx\n", (unsigned long long)trace[i]);
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        printf("map %s", line);
    fflush(stdout);
    _Exit(0);
}
static void handler(int s) { (void)s; dump(); }
static int compare(const void *a, const void *b) {
    raise(SIGUSR1);
    return *(const int *)a - *(const int *)b;
}
__attribute__((noinline)) static int sorted(int n) {
    volatile int *v = alloca(n * sizeof *v);
    for (int i = 0; i < n; i++) v[i] = n - i;
    qsort((void *)v, n, sizeof *v, compare);
    return v[0];
}
__attribute__((noinline)) static int deep(int n, int a, int b, int c, int d, int e, int f, int g) {
    if (n == 0) return sorted(size);
    return deep(n - 1, b, c, d, e, f, g, a) + g;
}
int main(void) {
    // backtrace loads its library at the first call
    void *first[1];
    backtrace(first, 1);
    signal(SIGUSR1, handler);
    return deep(5, 1, 2, 3, 4, 5, 6, 7);
}
"#;

#[derive(Default)]
struct Said {
    registers: [Option<u64>; reg::COLUMNS],
    stack: Vec<u8>,
    trace: Vec<u64>,
    /// Start, end, offset, path.
    maps: Vec<(u64, u64, u64, PathBuf)>,
}

fn said(output: &str) -> Said {
    let hex = |t: &str| u64::from_str_radix(t, 16).expect("a number");
    let mut out = Said::default();
    for line in output.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["register", n, value] => {
                out.registers[n.parse::<usize>().expect("a number")] = Some(hex(value));
            }
            ["stack", bytes] => {
                let byte = |i: usize| u8::from_str_radix(&bytes[i..i + 2], 16).expect("a byte");
                out.stack = (0..bytes.len()).step_by(2).map(byte).collect();
            }
            ["trace", address] => out.trace.push(hex(address)),
            ["map", range, _, offset, _, _, path] if path.starts_with('/') => {
                let (start, end) = range.split_once('-').expect("a range");
                out.maps.push((hex(start), hex(end), hex(offset), path.into()));
            }
            _ => {}
        }
    }
    out
}

/// A copy of a stack from `sp` on.
struct StackCopy<'a> {
    sp: u64,
    bytes: &'a [u8],
}

impl Memory for StackCopy<'_> {
    fn peek(&self, addr: u64) -> Option<u64> {
        let at = usize::try_from(addr.checked_sub(self.sp)?).ok()?;
        Some(u64::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?))
    }
}

/// The return addresses that unwinding finds, and what ended it. `None`: it reached the outermost frame.
fn unwound(said: &Said, stack: &[u8]) -> (Vec<u64>, Option<Failed>) {
    let mut symbols = Symbolizer::new(Options { debug_dirs: DebugDirs::none(), ..Options::default() });
    let mut objects: BTreeMap<ObjectId, Option<UnwindData>> = BTreeMap::new();
    let mut registers = Regs::from_columns(said.registers);
    let sp = registers.get(reg::RSP).expect("was said");
    let mut memory = StackCopy { sp, bytes: stack };
    let (mut found, mut back) = (Vec::new(), 0);
    loop {
        let pc = registers.get(reg::RA).expect("a step leaves one") - back;
        let Some(map) = said.maps.iter().find(|m| (m.0..m.1).contains(&pc)) else {
            return (found, Some(Failed::NoData));
        };
        let object = symbols.add(ObjectInfo::file(&map.3));
        let data = objects.entry(object).or_insert_with(|| symbols.unwind_data(object));
        let Some(data) = data else { return (found, Some(Failed::NoData)) };
        let look_up = data.address_of_offset(pc - map.0 + map.2).expect("it is mapped");
        (registers, back) = match registers.step(data.table(), look_up, &mut memory) {
            Ok(StepOut::Caller(caller)) => (caller, 1),
            Ok(StepOut::Interrupted(caller)) => (caller, 0),
            Ok(StepOut::Outermost) => return (found, None),
            Err(failed) => return (found, Some(failed)),
        };
        found.push(registers.get(reg::RA).expect("a step leaves one"));
    }
}

fn run(dir: &Path, flags: &[&str]) -> Option<Said> {
    let (source, program) = (dir.join("p.c"), dir.join(format!("p{}", flags.concat())));
    std::fs::write(&source, PROGRAM).expect("a temporary directory is writable");
    let made = Command::new("gcc").args(flags).arg("-o").arg(&program).arg(&source).output();
    if !made.is_ok_and(|m| m.status.success()) {
        pct_kit::skip(&format!("gcc {flags:?}"));
        return None;
    }
    let out = Command::new(&program).output().expect("just made");
    assert!(out.status.success(), "{flags:?}: {}", out.status);
    Some(said(&String::from_utf8_lossy(&out.stdout)))
}

const FLAGS: [&[&str]; 3] = [&["-O0"], &["-O2", "-fomit-frame-pointer"], &["-O2", "-fno-omit-frame-pointer"]];

#[test]
fn copies_of_the_stack_unwind_as_the_program_itself_does() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let dir = tempfile::tempdir().expect("temp");
    for flags in FLAGS {
        let Some(said) = run(dir.path(), flags) else { return };
        assert!(said.trace.len() > 10, "{}", said.trace.len());
        let (found, end) = unwound(&said, &said.stack);
        assert_eq!((found, end), (said.trace.clone(), None), "{flags:?}");
        // A copy that is too short gives the frames that it contains.
        let mut lengths = std::collections::BTreeSet::new();
        for cut in (0..said.stack.len()).step_by(256) {
            let (found, end) = unwound(&said, &said.stack[..cut]);
            assert!(said.trace.starts_with(&found), "{flags:?}, {cut}");
            let cut_off = matches!(end, Some(Failed::Memory | Failed::Lost));
            assert!(cut_off || found.len() == said.trace.len(), "{flags:?}, {cut}: {end:?}");
            lengths.insert(found.len());
        }
        assert!(lengths.len() > 2, "{lengths:?}");
    }
}

#[test]
fn damaged_stacks_end_somewhere() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let dir = tempfile::tempdir().expect("temp");
    let Some(said) = run(dir.path(), FLAGS[1]) else { return };
    let mut dice = Dice::new(7);
    for _ in 0..100 {
        let mut stack = said.stack.clone();
        for _ in 0..8 {
            stack[dice.index(3000)] = dice.roll() as u8;
        }
        let (found, _) = unwound(&said, &stack);
        assert!(found.len() < 3000);
    }
}
