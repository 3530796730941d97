//! Nanoseconds per frame: pct's walk, framehop and glibc's `backtrace()`, on the same stack in the same handler.
//!
//! `cargo bench -p pct-unwind --bench unwind`. A chain of distinct functions ends in a signal that the program sends
//! itself. The handler walks the interrupted stack again and again. *warm*: every rule is cached. *cold*: no rule is
//! cached (but the data is in the processor's caches). Rounds of the candidates are interleaved, and medians are
//! printed.
//!
//! Then the first look at an instruction that has no unwind data, in libraries that have such code: how many can be
//! followed to their return, and what that costs where nothing is known of the instructions behind it, and where the
//! rules of those that were looked at before are.
//!
//! Then a return to another stack, which is followed in each walk that comes there.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::time::Instant;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, Unwinder};
use object::{Object, ObjectSection, ObjectSegment};
use pct_unwind::emulate::{Kept, MOST, to_other_stack, to_return};
use pct_unwind::instructions::decode;
use pct_unwind::reader::Section;
use pct_unwind::rule::Rule;
use pct_unwind::set::Set;
use pct_unwind::stack::Memory;
use pct_unwind::table::scan;
use pct_unwind::{Budget, Cache, Extent, Gregs, Live, Region, Registry, WalkEnd, walk};

const ROUNDS: usize = 51;

struct State {
    registry: Registry,
    cache: Cache,
    framehop: [UnwinderX86_64<Vec<u8>, MustNotAllocateDuringUnwind>; 2],
    framehop_cache: CacheX86_64<MustNotAllocateDuringUnwind>,
    extent: Extent,
    out: [u64; 4096],
    glibc: [*mut c_void; 4096],
    rows: Vec<(&'static str, Vec<f64>)>,
    frames: usize,
    generation: u64,
}

struct Shared(UnsafeCell<Option<Box<State>>>);
// SAFETY: one thread.
unsafe impl Sync for Shared {}
static SHARED: Shared = Shared(UnsafeCell::new(None));

unsafe extern "C" {
    fn backtrace(array: *mut *mut c_void, size: c_int) -> c_int;
}

extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: one thread, which is in `raise`.
    let Some(s) = (unsafe { &mut *SHARED.0.get() }) else { return };
    // SAFETY: the kernel's context; gregs starts with these 17 registers.
    let gregs =
        unsafe { &*(&raw const (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs).cast::<Gregs>() };
    let pc = gregs.get(16);
    let budget = Budget { units: u32::MAX };
    let held = s.registry.hold(0).expect("modules");
    let set = *held.set();
    let extent = s.extent;
    // SAFETY: this thread's stack.
    let live = || unsafe { Live::new(extent, 4096) };
    let lo = gregs.get(7) - 128;
    let mut read = |at: u64| {
        if at < lo || at > extent.hi - 8 {
            return Err(());
        }
        // SAFETY: within this thread's stack, above its stack pointer.
        Ok(unsafe { *(at as *const u64) })
    };
    let mut note = |row: usize, n: usize, repeats: usize, start: Instant| {
        s.rows[row].1.push(start.elapsed().as_nanos() as f64 / (n * repeats) as f64);
    };
    for _ in 0..ROUNDS {
        let repeats = 20;
        let start = Instant::now();
        let mut n = 0;
        for _ in 0..repeats {
            let w = walk(&set, &s.cache, gregs, &mut live(), &mut s.out, budget);
            assert_eq!(w.end, WalkEnd::Whole);
            n = w.frames;
        }
        note(0, n, repeats, start);
        s.frames = n;

        let start = Instant::now();
        for _ in 0..repeats {
            let held = s.registry.hold(0).expect("modules");
            walk(held.set(), &s.cache, gregs, &mut live(), &mut s.out, budget);
        }
        note(1, n, repeats, start);

        let start = Instant::now();
        for _ in 0..repeats {
            s.generation += 1;
            let fresh = Set { entries: set.entries, generation: s.generation };
            walk(&fresh, &s.cache, gregs, &mut live(), &mut s.out, budget);
        }
        note(2, n, repeats, start);

        let hops =
            |unwinder: &UnwinderX86_64<_, _>, cache: &mut _, read: &mut dyn FnMut(u64) -> Result<u64, ()>| {
                let mut read = |at| read(at);
                let mut frames = unwinder.iter_frames(
                    pc,
                    UnwindRegsX86_64::new(pc, gregs.get(7), gregs.get(6)),
                    cache,
                    &mut read,
                );
                let mut n = 0;
                while let Ok(Some(f)) = frames.next() {
                    black_box(f);
                    n += 1;
                }
                n - 1
            };
        hops(&s.framehop[0], &mut s.framehop_cache, &mut read);
        let start = Instant::now();
        for _ in 0..repeats {
            assert_eq!(n, hops(&s.framehop[0], &mut s.framehop_cache, &mut read));
        }
        note(3, n, repeats, start);

        let start = Instant::now();
        for i in 0..repeats {
            // Two unwinders use one cache in turns, so neither finds its own entries in it.
            hops(&s.framehop[(i + 1) % 2], &mut s.framehop_cache, &mut read);
        }
        note(4, n, repeats, start);

        let start = Instant::now();
        for _ in 0..3 {
            // SAFETY: the array has the given length.
            black_box(unsafe { backtrace(s.glibc.as_mut_ptr(), 4096) });
        }
        note(5, n + 3, 3, start);
    }
}

macro_rules! chain {
    ($($name:ident -> $next:ident, $size:literal;)*) => { $(
        #[inline(never)]
        fn $name(x: u64) -> u64 {
            let mut room = [x; $size];
            black_box(&mut room);
            $next(x + room[x as usize % $size]) ^ black_box(room)[1]
        }
    )* };
}

chain! {
    f00 -> f01, 3; f01 -> f02, 9; f02 -> f03, 4; f03 -> f04, 17; f04 -> f05, 6; f05 -> f06, 2; f06 -> f07, 8; f07 -> f08, 5;
    f08 -> f09, 12; f09 -> f10, 3; f10 -> f11, 7; f11 -> f12, 33; f12 -> f13, 4; f13 -> f14, 6; f14 -> f15, 2; f15 -> f16, 10;
    f16 -> f17, 5; f17 -> f18, 3; f18 -> f19, 21; f19 -> f20, 4; f20 -> f21, 8; f21 -> f22, 2; f22 -> f23, 6; f23 -> leaf, 3;
}

#[inline(never)]
fn leaf(x: u64) -> u64 {
    // SAFETY: the handler is installed.
    unsafe { libc::raise(libc::SIGUSR1) };
    black_box(x)
}

#[inline(never)]
fn deeper(n: u64) -> u64 {
    if n == 0 { f00(black_box(0)) } else { deeper(n - 1) ^ black_box(n) }
}

fn maps() -> (Vec<Region>, Vec<(String, u64)>, Extent) {
    let here = 0u8;
    let sp = (&raw const here) as u64;
    let (mut regions, mut objects, mut extent) = (Vec::new(), Vec::new(), Extent::default());
    let mut bases = std::collections::HashMap::new();
    let mut below = 0;
    for line in std::fs::read_to_string("/proc/self/maps").expect("maps").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = words[0].split_once('-').expect("range");
        let (start, end) =
            (u64::from_str_radix(start, 16).expect("hex"), u64::from_str_radix(end, 16).expect("hex"));
        let path = words.get(5).unwrap_or(&"").to_string();
        if words[4] != "0" && words[2] == "00000000" && bases.insert(path.clone(), start).is_none() {
            objects.push((path.clone(), start));
        }
        if words[1].as_bytes()[2] == b'x' && path != "[vsyscall]" {
            regions.push(Region {
                start,
                end,
                base: bases.get(&path).copied().unwrap_or(0),
                identity: words[4].parse().expect("inode"),
            });
        }
        if (start..end).contains(&sp) {
            // The first thread's stack grows down to the mapping below it.
            let lo = if path == "[stack]" { below } else { start };
            extent = Extent { lo, hi: end, sure: start };
        }
        below = end;
    }
    (regions, objects, extent)
}

fn framehop_of(objects: &[(String, u64)]) -> UnwinderX86_64<Vec<u8>, MustNotAllocateDuringUnwind> {
    let mut unwinder = UnwinderX86_64::new();
    for (path, base) in objects {
        // A mapped file may be gone, or may not be an object.
        let Ok(bytes) = std::fs::read(path) else { continue };
        let Ok(file) = object::File::parse(&*bytes) else { continue };
        let lo = file.segments().map(|s| s.address()).min().expect("segments") & !4095;
        let hi = file.segments().map(|s| s.address() + s.size()).max().expect("segments");
        let section = |name: &str| {
            file.section_by_name(name)
                .and_then(|s| Some((s.address()..s.address() + s.size(), s.data().ok()?.to_vec())))
        };
        let (Some(eh), Some(hdr)) = (section(".eh_frame"), section(".eh_frame_hdr")) else { continue };
        let info = ExplicitModuleSectionInfo {
            base_svma: lo,
            eh_frame_svma: Some(eh.0),
            eh_frame: Some(eh.1),
            eh_frame_hdr_svma: Some(hdr.0),
            eh_frame_hdr: Some(hdr.1),
            ..Default::default()
        };
        unwinder.add_module(Module::new(path.clone(), *base..*base + (hi - lo), *base, info));
    }
    unwinder
}

/// The code of an object, copied as that of a process is: by the kernel.
struct Code<'c> {
    at: u64,
    bytes: &'c [u8],
}

impl Memory for Code<'_> {
    fn peek(&self, _: u64) -> Option<u64> {
        None
    }

    fn code_bytes(&mut self, addr: u64, into: &mut [u8]) -> bool {
        let from = (addr - self.at) as usize;
        let code = self.bytes.get(from..from + into.len());
        code.is_some_and(|code| pct_unwind::os::copy(code.as_ptr().expose_provenance() as u64, into))
    }
}

/// Prints what a first look costs in the code of `path` that has no unwind data.
fn first_looks(path: &str) -> Option<()> {
    const LOOKS: usize = 5000;
    let file = std::fs::read(path).ok()?;
    let file = object::File::parse(&*file).ok()?;
    let eh = file.section_by_name(".eh_frame")?;
    let eh = Section { bytes: eh.data().ok()?, addr: eh.address() };
    let text = file.section_by_name(".text")?;
    let mut code = Code { at: text.address(), bytes: text.data().ok()? };
    let mut functions = Vec::new();
    scan(&eh, |_, fde| functions.push((fde.begin, fde.begin + fde.len)));
    functions.push((code.at + code.bytes.len() as u64, u64::MAX));
    functions.sort_unstable();
    let mut end = code.at;
    let mut all = Vec::new();
    for (begin, next) in functions {
        let mut at = end;
        while at < begin {
            all.push((at, (end, begin)));
            let Some(found) = decode(&code.bytes[(at - code.at) as usize..]) else { break };
            at += found.length as u64;
        }
        end = end.max(next);
    }
    let cache = Cache::new();
    let mut times = [Vec::new(), Vec::new()];
    let mut followed = 0;
    // In an order like that of chance, each once.
    for n in 0..LOOKS.min(all.len()) {
        let (at, range) = all[n * 7919 % all.len()];
        let mut look = |known: &dyn Fn(u64) -> Rule| {
            let start = Instant::now();
            let rule = to_return(&mut code, at, range, &mut MOST.clone(), known)
                .returned()
                .and_then(|returned| returned.rule());
            (rule, start.elapsed().as_nanos() as f64 / 1000.0)
        };
        let (rule, alone) = look(&|_| Rule::EMPTY);
        let (_, among) = look(&|at| cache.get(1, at));
        times[0].push(alone);
        times[1].push(among);
        if let Some(rule) = rule {
            cache.remember(1, at, rule);
            followed += 1;
        }
    }
    let looks = times[0].len();
    let name = path.rsplit('/').next().unwrap_or(path);
    print!("{name:<28}{:>12}{:>9.1} %", all.len(), 100.0 * f64::from(followed) / looks as f64);
    for mut times in times {
        times.sort_by(f64::total_cmp);
        for part in [0.5, 0.99, 1.0] {
            print!("{:>8.1}", times[((looks as f64 * part) as usize).min(looks - 1)]);
        }
    }
    println!();
    Some(())
}

/// This process, all of it read by the kernel.
struct ByKernel;

impl Memory for ByKernel {
    fn peek(&self, _: u64) -> Option<u64> {
        None
    }

    fn far(&mut self, addr: u64) -> Option<u64> {
        let mut word = [0; 8];
        pct_unwind::os::copy(addr, &mut word).then(|| u64::from_ne_bytes(word))
    }

    fn line(&mut self, addr: u64) -> Option<[u64; 8]> {
        let mut bytes = [0; 64];
        pct_unwind::os::copy(addr, &mut bytes)
            .then(|| std::array::from_fn(|i| u64::from_ne_bytes(bytes.as_chunks().0[i])))
    }

    fn code_bytes(&mut self, addr: u64, into: &mut [u8]) -> bool {
        pct_unwind::os::copy(addr, into)
    }
}

/// Prints what a return to another stack costs: the kernel copies lines with three words, and a piece of code.
fn other_stack() {
    // mov rdi, [rsp + 0x30]; mov rsi, [rdi + 8]; sub rsi, [rsp + 0x28]; mov rsp, rsi; mov [rsp + 0x18], eax; ret
    let mut code =
        b"\x48\x8b\x7c\x24\x30\x48\x8b\x77\x08\x48\x2b\x74\x24\x28\x48\x89\xf4\x89\x44\x24\x18\xc3".to_vec();
    code.resize(256, 0xcc);
    let at = |of: &[u64], word: usize| (of.as_ptr().expose_provenance() + 8 * word) as u64;
    let mut other = [0; 8];
    other[4] = 0x4321;
    let structure = [0, at(&other, 8)];
    let mut stack = [0; 8];
    (stack[5], stack[6]) = (32, at(&structure, 0));
    let mut registers = [None; 16];
    registers[4] = Some(at(&stack, 0));
    let start = code.as_ptr().expose_provenance() as u64;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..1000 {
            let range = (start, start + 256);
            let mut kept = Kept::default();
            let found = to_other_stack(&mut ByKernel, start, range, registers, &mut kept, &mut MOST.clone());
            assert_eq!(found.map(|to| to.sp), Some(at(&other, 4)));
        }
        times.push(began.elapsed().as_nanos() as f64 / 1e6);
    }
    println!("\na return to another stack: {:.2} microseconds", pct_kit::median(times));
    black_box((&other, &structure, &stack));
}

fn main() {
    let (regions, objects, extent) = maps();
    let start = Instant::now();
    let registry = Registry::new();
    let refreshed = registry.refresh(regions.iter().copied());
    let first = start.elapsed();
    let start = Instant::now();
    registry.refresh(regions.iter().copied());
    println!("{refreshed:?} in {first:?}; again, nothing new: {:?}", start.elapsed());
    let names = [
        "pct walk, warm",
        "pct walk with hold, warm",
        "pct walk, cold",
        "framehop, warm",
        "framehop, cold",
        "backtrace()",
    ];
    let state = State {
        registry,
        cache: Cache::new(),
        framehop: [framehop_of(&objects), framehop_of(&objects)],
        framehop_cache: CacheX86_64::new_in(),
        extent,
        out: [0; 4096],
        glibc: [std::ptr::null_mut(); 4096],
        rows: Vec::new(),
        frames: 0,
        generation: 1 << 32,
    };
    // SAFETY: one thread; the handler runs in `raise` only.
    unsafe {
        let mut warm = [std::ptr::null_mut(); 8];
        backtrace(warm.as_mut_ptr(), 8);
        *SHARED.0.get() = Some(Box::new(state));
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
    println!("{:<28}{:>10}{:>12}{:>12}", "", "frames", "ns/frame", "ns/stack");
    for depth in [0, 70, 1000] {
        // SAFETY: between signals.
        unsafe {
            (*SHARED.0.get()).as_mut().expect("set").rows = names.iter().map(|&n| (n, Vec::new())).collect()
        };
        black_box(deeper(depth));
        // SAFETY: between signals.
        let state = unsafe { (*SHARED.0.get()).as_mut().expect("set") };
        for (name, times) in &mut state.rows {
            let median = pct_kit::median(std::mem::take(times));
            println!("{name:<28}{:>10}{median:>12.1}{:>12.0}", state.frames, median * state.frames as f64);
        }
    }
    println!(
        "\nfirst looks at code without unwind data, microseconds: median, 99 of 100, most; and among rules"
    );
    for path in [
        "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so",
        "/usr/lib/x86_64-linux-gnu/libx264.so.164",
        "/usr/lib/x86_64-linux-gnu/libx265.so.199",
        "/usr/lib/x86_64-linux-gnu/libdav1d.so.6",
        "/usr/lib/x86_64-linux-gnu/libavcodec.so.59",
    ] {
        if first_looks(path).is_none() {
            println!("{path} is not here");
        }
    }
    other_stack();
}
