//! Stacks of running code, asynchronously interrupted: pct's, framehop's and glibc's `backtrace()`, all in the same
//! handler.
//!
//! A per-thread timer of CPU time interrupts functions of a small C++ library (`victims/calls.cc`, -O2
//! -fomit-frame-pointer). The handler walks three times and counts differences. `PCT_UNWIND_ROUNDS` makes it run
//! longer.

use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, Unwinder};
use object::{Object, ObjectSection, ObjectSegment};
use pct_unwind::walk::EXACT;
use pct_unwind::{Budget, Cache, Extent, Gregs, Live, Region, Registry, WalkEnd, walk};

const DEPTH: usize = 4096;

struct State {
    registry: Registry,
    cache: Cache,
    framehop: UnwinderX86_64<Vec<u8>, MustNotAllocateDuringUnwind>,
    framehop_cache: CacheX86_64<MustNotAllocateDuringUnwind>,
    extent: Extent,
    ours: [u64; DEPTH],
    theirs: [u64; DEPTH],
    glibc: [*mut c_void; DEPTH],
    tally: Tally,
    case: usize,
    /// `_Unwind_RaiseException`, `swapcontext`.
    deadly: [u64; 2],
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    signals: usize,
    frames: usize,
    whole: usize,
    like_framehop: usize,
    framehop_shorter: usize,
    like_backtrace: usize,
    spared_backtrace: usize,
    framehop_lost: usize,
    unlike: [usize; CASES.len()],
    not_whole: [usize; CASES.len()],
    last_end: Option<WalkEnd>,
}

const CASES: &[&CStr] = &[
    c"call_recursion",
    c"call_sort",
    c"call_print",
    c"call_frames",
    c"call_exception",
    c"call_virtual",
    c"call_memory",
    c"call_clock",
    c"call_deep",
    c"call_signals",
    c"call_coroutine",
];

struct Shared(UnsafeCell<Option<Box<State>>>);
// SAFETY: only the test's one thread and the handler on that thread touch it.
unsafe impl Sync for Shared {}
static SHARED: Shared = Shared(UnsafeCell::new(None));
static SIGNALS: AtomicUsize = AtomicUsize::new(0);
static TIMER: AtomicUsize = AtomicUsize::new(0);

/// Arms the timer for one signal, because the code must progress between two handlers, however long they take.
fn arm() {
    let n = SIGNALS.load(Relaxed) as i64;
    let once = libc::timespec { tv_sec: 0, tv_nsec: 40_000 + n * 7919 % 30_011 };
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the timer lives while it is armed.
    unsafe {
        libc::timer_settime(
            TIMER.load(Relaxed) as libc::timer_t,
            0,
            &libc::itimerspec { it_interval: never, it_value: once },
            std::ptr::null_mut(),
        )
    };
}

unsafe extern "C" {
    fn backtrace(array: *mut *mut c_void, size: c_int) -> c_int;
}

extern "C" fn on_timer(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    sample(context);
    arm();
}

fn sample(context: *mut c_void) {
    // SAFETY: the handler runs on the test's thread, which does not touch the state while the timer is armed.
    let Some(state) = (unsafe { &mut *SHARED.0.get() }) else { return };
    SIGNALS.fetch_add(1, Relaxed);
    // SAFETY: the kernel passes a `ucontext_t`; gregs starts with the 17 registers that `Gregs` is.
    let gregs =
        unsafe { &*(&raw const (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs).cast::<Gregs>() };
    // SAFETY: the extent is this thread's stack, and this is the thread.
    let mut memory = unsafe { Live::new(state.extent, 4096) };
    let Some(held) = state.registry.hold(0) else { return };
    let walked =
        walk(held.set(), &state.cache, gregs, &mut memory, &mut state.ours, Budget { units: 1 << 20 });
    drop(held);
    let ours = &state.ours[..walked.frames];
    let pc = gregs.get(16);
    let tally = &mut state.tally;
    tally.signals += 1;
    tally.frames += ours.len();
    if walked.end == WalkEnd::Whole {
        tally.whole += 1;
    } else {
        tally.not_whole[state.case] += 1;
        tally.last_end = Some(walked.end);
    }

    let mut read = |at: u64| {
        if at & 7 == 0 && pct_unwind::os::readable(at) {
            // SAFETY: the kernel just said that it can be read, and it is aligned.
            Ok(unsafe { *(at as *const u64) })
        } else {
            Err(())
        }
    };
    let mut frames = state.framehop.iter_frames(
        pc,
        UnwindRegsX86_64::new(pc, gregs.get(7), gregs.get(6)),
        &mut state.framehop_cache,
        &mut read,
    );
    let mut n = 0;
    let _ = frames.next();
    while let Ok(Some(frame)) = frames.next() {
        if n < DEPTH {
            state.theirs[n] = frame.address();
            n += 1;
        }
    }
    let theirs = &state.theirs[..n];
    let same = ours == theirs;
    tally.like_framehop += usize::from(same);
    // If framehop does not know a register it stops early. As far as it gets, it must agree.
    tally.framehop_shorter += usize::from(!same && n < ours.len() && ours.starts_with(theirs));
    // It does not cross signal frames, and continues past the base of a coroutine's stack.
    tally.framehop_lost += usize::from(!same && state.case >= CASES.len() - 2);

    // backtrace() crashes if the last instructions of these functions were interrupted, which change the stack pointer,
    // and in the epilogue of realigned frames at -O0. If pct's walk ends in a cut, backtrace() is not called.
    if walked.end != WalkEnd::Whole || state.deadly.iter().any(|&f| pc.wrapping_sub(f) < 0x600) {
        tally.spared_backtrace += 1;
        return;
    }
    // SAFETY: the array has the given length. A call before the timer was armed has loaded libgcc.
    let n = unsafe { backtrace(state.glibc.as_mut_ptr(), DEPTH as c_int) } as usize;
    let glibc = &state.glibc[..n];
    let start = glibc.iter().position(|&p| p as u64 == pc).map_or(n, |i| i + 1);
    let equal = |(a, b): (&u64, &*mut c_void)| *a & !EXACT == *b as u64;
    let like = n - start == ours.len() && ours.iter().zip(&glibc[start..]).all(equal);
    tally.like_backtrace += usize::from(like);
    tally.unlike[state.case] += usize::from(!like);
    if !like && tally.unlike[state.case] == 1 && std::env::var_os("PCT_UNWIND_SHOW").is_some() {
        eprintln!(
            "{:?} pc {pc:#x} end {:?}\n ours {ours:x?}\n glibc {:x?}\n theirs {:x?}",
            CASES[state.case],
            walked.end,
            &glibc[start..],
            theirs
        );
    }
}

fn regions() -> (Vec<Region>, Vec<(String, u64)>) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut bases = std::collections::HashMap::new();
    let (mut out, mut objects) = (Vec::new(), Vec::new());
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = words[0].split_once('-').unwrap();
        let (start, end) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        let path = words.get(5).unwrap_or(&"").to_string();
        if (path == "[vdso]" || words[4] != "0" && u64::from_str_radix(words[2], 16) == Ok(0))
            && bases.insert(path.clone(), start).is_none()
        {
            objects.push((path.clone(), start));
        }
        if words[1].as_bytes()[2] == b'x' && path != "[vsyscall]" {
            out.push(Region {
                start,
                end,
                base: bases.get(&path).copied().unwrap_or(0),
                identity: words[4].parse().unwrap(),
            });
        }
    }
    (out, objects)
}

fn framehop_of(objects: &[(String, u64)]) -> UnwinderX86_64<Vec<u8>, MustNotAllocateDuringUnwind> {
    let mut unwinder = UnwinderX86_64::new();
    for (path, base) in objects {
        let bytes = if path == "[vdso]" {
            // SAFETY: the vdso is two pages at least and is never unmapped.
            unsafe { std::slice::from_raw_parts(*base as *const u8, 8192) }.to_vec()
        } else {
            std::fs::read(path).unwrap()
        };
        let Ok(file) = object::File::parse(&*bytes) else { continue };
        let lo = file.segments().map(|s| s.address()).min().unwrap() & !4095;
        let hi = file.segments().map(|s| s.address() + s.size()).max().unwrap();
        let section = |name: &str| {
            file.section_by_name(name)
                .and_then(|s| Some((s.address()..s.address() + s.size(), s.data().ok()?.to_vec())))
        };
        let (Some(eh), Some(hdr)) = (section(".eh_frame"), section(".eh_frame_hdr")) else { continue };
        let text = section(".text");
        unwinder.add_module(Module::new(
            path.clone(),
            *base..*base + (hi - lo),
            *base,
            ExplicitModuleSectionInfo {
                base_svma: lo,
                text_svma: text.as_ref().map(|t| t.0.clone()),
                text: text.map(|t| t.1),
                eh_frame_svma: Some(eh.0),
                eh_frame: Some(eh.1),
                eh_frame_hdr_svma: Some(hdr.0),
                eh_frame_hdr: Some(hdr.1),
                ..Default::default()
            },
        ));
    }
    unwinder
}

fn extent_here() -> Extent {
    let here = 0u8;
    let sp = (&raw const here) as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    for line in maps.lines() {
        let (start, end) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
        let (lo, hi) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        if (lo..hi).contains(&sp) {
            return Extent { lo, hi, sure: hi };
        }
    }
    Extent::default()
}

/// Builds `victims/calls.cc` with `flags` and loads it; `None` without a compiler.
fn victim(name: &str, flags: &[&str]) -> Option<Vec<extern "C" fn()>> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/victims/calls.cc");
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("lib{name}-{}.so", std::process::id()));
    let built = std::process::Command::new("g++")
        .args(["-shared", "-fPIC", "-pthread", "-g0"])
        .args(flags)
        .arg("-o")
        .arg(&out)
        .arg(source)
        .status();
    if !built.is_ok_and(|s| s.success()) {
        pct_kit::skip("g++ is not here or failed");
        return None;
    }
    let path = CString::new(out.to_str().unwrap()).unwrap();
    // SAFETY: the test's own library; its functions take and return nothing.
    let functions = unsafe {
        let lib = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!lib.is_null());
        CASES
            .iter()
            .map(|n| std::mem::transmute::<*mut c_void, extern "C" fn()>(libc::dlsym(lib, n.as_ptr())))
            .collect()
    };
    Some(functions)
}

fn run(functions: &[extern "C" fn()], signals_wanted: usize) -> Tally {
    let (regions, objects) = regions();
    let state = Box::new(State {
        registry: Registry::new(),
        cache: Cache::new(),
        framehop: framehop_of(&objects),
        framehop_cache: CacheX86_64::new_in(),
        extent: extent_here(),
        ours: [0; DEPTH],
        theirs: [0; DEPTH],
        glibc: [std::ptr::null_mut(); DEPTH],
        tally: Tally::default(),
        case: 0,
        // SAFETY: look-ups by name.
        deadly: [c"_Unwind_RaiseException", c"swapcontext"]
            .map(|name| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as u64),
    });
    assert!(state.registry.refresh(regions.into_iter()).changed);
    let mut tally = Tally::default();
    // SAFETY: plain libc calls; the state is set before the timer is armed and removed after it is gone.
    unsafe {
        let mut first = [std::ptr::null_mut(); 8];
        backtrace(first.as_mut_ptr(), 8);
        *SHARED.0.get() = Some(state);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_timer as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer = std::mem::zeroed();
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
        TIMER.store(timer as usize, Relaxed);
        for (case, f) in functions.iter().enumerate() {
            if let Some(state) = &mut *SHARED.0.get() {
                state.case = case;
            }
            let until = SIGNALS.load(Relaxed) + signals_wanted;
            arm();
            while SIGNALS.load(Relaxed) < until {
                f();
            }
            libc::timer_settime(timer, 0, &std::mem::zeroed(), std::ptr::null_mut());
        }
        libc::timer_delete(timer);
        if let Some(state) = (*SHARED.0.get()).take() {
            tally = state.tally;
        }
    }
    tally
}

#[test]
fn stacks_of_interrupted_code_are_those_of_framehop_and_backtrace() {
    let rounds = pct_kit::asked("PCT_UNWIND_ROUNDS", 120);
    for (name, flags) in [
        ("omit", &["-O2", "-fomit-frame-pointer"][..]),
        ("avx", &["-O3", "-fomit-frame-pointer", "-mavx2"][..]),
        ("plain", &["-O0"][..]),
    ] {
        let Some(functions) = victim(name, flags) else { return };
        let tally = run(&functions, rounds);
        eprintln!("{name}: {tally:?}");
        let most = tally.signals / 1000;
        assert!(tally.signals >= rounds * CASES.len());
        let judged = tally.signals - tally.spared_backtrace;
        assert!(judged * 10 > tally.signals * 9 && judged - tally.like_backtrace <= most, "{tally:?}");
        let framehop_judges = tally.signals - tally.framehop_shorter.max(tally.framehop_lost);
        assert!(framehop_judges * 10 > tally.signals * 7);
        assert!(tally.signals - tally.like_framehop - tally.framehop_lost <= most, "{tally:?}");
        assert!(tally.signals - tally.whole <= tally.signals / 200, "{tally:?}");
    }
}
