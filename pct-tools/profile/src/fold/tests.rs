//! Folding drawn as lines of text: which frames go, which stay, and that no sample is lost.

use super::*;
use crate::language::Language;
use crate::model::{Builder, Object, ObjectKind, OverTime, Process, SlotCell, Spent, Weight};
use crate::{By, CallTree, Split};
use proptest::prelude::*;

/// `Py_RunMain;py:main;loop;work 3`: native functions of the interpreter, `py:` ones of a module, `so:`
/// ones of a library; `in:` is inlined into the one before. `js:` ones are of a script.
fn profile(lines: &str) -> Profile {
    let mut b = Builder::new(true);
    let process = b.process(Process { name: "python3".into(), ..Process::default() });
    let thread = b.thread(process, 1, "python3");
    let mut object = |path: &str, kind| b.object(Object::new(path, kind));
    let image = object("/usr/bin/python3", ObjectKind::File);
    let library = object("/lib/libx.so", ObjectKind::File);
    let libc = object("/lib/libc.so.6", ObjectKind::File);
    let kernel = object("kernel", ObjectKind::Kernel);
    let unknown = if lines.contains("unknown:") { object("[unknown]", ObjectKind::Unknown) } else { kernel };
    let module = object("/srv/app.py", ObjectKind::Module(Language::Python));
    let in_json = lines.contains("json:");
    let standard = if in_json {
        object("/usr/lib/python3.11/json/__init__.py", ObjectKind::Module(Language::Python))
    } else {
        module
    };
    let has_scripts = lines.contains("js:");
    let script =
        if has_scripts { object("/srv/app.js", ObjectKind::Module(Language::JavaScript)) } else { module };
    let mut slots = Vec::new();
    for line in lines.lines() {
        let (stack, count) = line.trim().rsplit_once(' ').expect("a count");
        let samples: u64 = count.parse().expect("a number");
        let mut at = None;
        for name in stack.split(';') {
            let (object, name, inlined) = match name.split_once(':') {
                Some(("py", name)) => (module, name, false),
                Some(("json", name)) => (standard, name, false),
                Some(("js", name)) => (script, name, false),
                Some(("so", name)) => (library, name, false),
                Some(("libc", name)) => (libc, name, false),
                Some(("kernel", name)) => (kernel, name, false),
                Some(("unknown", name)) => (unknown, name, false),
                Some(("in", name)) => (image, name, true),
                _ => (image, name, false),
            };
            let name = if name == "loop" { "_PyEval_EvalFrameDefault" } else { name };
            let function = b.function(object, name);
            let frame = b.frame(Frame { function, file: None, line: 0, address: None, inlined });
            at = Some(b.stack(at, frame));
        }
        let weight = Weight { samples, user_ns: samples, system_ns: 0 };
        let stack = at.expect("a frame");
        b.add(thread, stack, weight);
        slots.push(SlotCell { slot: slots.len(), thread, stack, ns: samples });
    }
    b.profile_mut().over_time = Some(OverTime { begin_realtime_ns: 0, slot_ns: 1, cells: slots });
    b.finish()
}

fn drawn(profile: &Profile) -> Vec<String> {
    let mut lines: Vec<String> = profile
        .cells
        .iter()
        .map(|cell| {
            let mut names: Vec<&str> = profile
                .outwards(cell.stack)
                .map(|(_, f)| profile.functions[f.function].name.as_str())
                .collect();
            names.reverse();
            format!("{} {}", names.join(";"), cell.weight.samples)
        })
        .collect();
    lines.sort();
    lines
}

const STACKS: &str = "main;Py_RunMain;pymain_run_python.constprop.0;py:<module>;loop 1
    main;Py_RunMain;pymain_run_python.constprop.0;py:<module>;loop;in:_Py_DECREF 2
    main;Py_RunMain;py:<module>;loop;_PyFunction_Vectorcall;py:f;loop;list_sort_impl;[python3+0x10];_PyObject_Call;py:key;loop 3
    main;Py_RunMain;py:<module>;loop;_PyFunction_Vectorcall;py:f;loop;list_sort_impl 4
    main;Py_RunMain;py:<module>;loop;_PyFunction_Vectorcall 5
    main;Py_RunMain;py:<module>;loop;cfunction_call;so:deflate 6
    main;Py_RunMain;py:<module>;loop;take_gil;so:futex 7
    main;Py_RunMain;py:<module>;loop;PyObject_Malloc;gc_collect_main 8
    start;loop 9";

/// Who asks decides what the C library and the kernel work for.
const SERVED: &str = "main;py:f;loop;float_pow;libc:pow 1
    main;py:f;loop;os_read;libc:read;kernel:[system] 2
    main;py:f;loop;cfunction_call;so:dgemm;libc:memcpy 4
    main;py:f;loop;so:array_add;PyFloat_FromDouble;libc:malloc 8
    main;py:f;loop;[python3+0x7];libc:__pthread_cond_timedwait;libc:futex;kernel:[system] 16
    main;py:f;loop;lock_acquire;libc:sem_clockwait;kernel:[system] 32
    main;py:f;loop;so:wait_for_worker;libc:pthread_cond_wait;kernel:[system] 64
    main;py:f;loop;[python3+0x7] 128";

#[test]
fn carriers_go_and_the_innermost_frame_stays() {
    assert_eq!(
        drawn(&fold(profile(STACKS), Frames::Mixed)),
        [
            "main;<module> 3",
            "main;<module>;PyObject_Malloc;gc_collect_main 8",
            "main;<module>;_PyFunction_Vectorcall 5",
            "main;<module>;deflate 6",
            "main;<module>;f;list_sort_impl 4",
            "main;<module>;f;list_sort_impl;key 3",
            "main;<module>;take_gil;futex 7",
            "start;_PyEval_EvalFrameDefault 9",
        ]
    );
}

const OF_V8: &str = "main;node::Start(int);js:main;Builtins_AddHandler 1
    main;node::Start(int);js:main;Builtins_LdaHandler;v8::internal::LoadIC::Load() 2
    main;node::Start(int);js:main;Builtins_CEntry_Return1;v8::internal::Builtin_HandleApiCall;node::fs::Read;libc:read 4
    main;node::Start(int);js:main;Builtins_ArrayMap;Builtins_Call_ReceiverIsAny;js:each 8
    main;js:main;Builtins_CEntry_Return1;v8::internal::Heap::CollectGarbage(int);libc:memcpy 16
    main;js:main;Builtins_CEntry_Return1;v8::internal::FutexEmulation::Wait();libc:pthread_cond_wait 256
    main;node::Start(int);so:inflate 32
    start_thread;v8::internal::compiler::GraphReducer::ReduceTop() 64
    start_thread;v8::internal::Sweeper::Sweep();libc:madvise 128";

#[test]
fn v8_runs_and_carries_functions_of_javascript() {
    let mut profile = profile(OF_V8);
    assert_eq!(
        drawn(&fold(profile.clone(), Frames::Mixed)),
        [
            "main;main 1",
            "main;main;Builtins_ArrayMap;each 8",
            "main;main;node::fs::Read;read 4",
            "main;main;v8::internal::FutexEmulation::Wait();pthread_cond_wait 256",
            "main;main;v8::internal::Heap::CollectGarbage(int);memcpy 16",
            "main;main;v8::internal::LoadIC::Load() 2",
            "main;node::Start(int);inflate 32",
            "start_thread;v8::internal::Sweeper::Sweep();madvise 128",
            "start_thread;v8::internal::compiler::GraphReducer::ReduceTop() 64",
        ]
    );
    account_of_languages(&mut profile);
    let spent = profile.account.languages[0].spent;
    let own = [spent.garbage, spent.compiling].map(|w| w.samples);
    let samples = [spent.inside, spent.native, spent.lock, spent.outside].map(|w| w.samples);
    assert_eq!((samples, own), ([1 + 2 + 8 + 256, 4, 0, 32], [16 + 128, 64]));
}

#[test]
fn a_loop_without_a_name_is_known_by_its_place() {
    let lines = "[python3+0x9];py:<module>;[python3+0x1];[python3+0x2];py:f;[python3+0x1] 1
        [python3+0x9];py:<module>;[python3+0x1];so:deflate 2
        [python3+0x9];py:<module>;[python3+0x1];[python3+0x3] 4";
    assert_eq!(
        drawn(&fold(profile(lines), Frames::Mixed)),
        [
            "[python3+0x9];<module>;[python3+0x3] 4",
            "[python3+0x9];<module>;deflate 2",
            "[python3+0x9];<module>;f 1",
        ]
    );
    // Without native stacks a library's code stands there.
    let lines = "py:<module>;so:deflate 2";
    assert_eq!(drawn(&fold(profile(lines), Frames::Mixed)), drawn(&profile(lines)));
}

#[test]
fn views_of_one_kind_lose_no_sample() {
    let python = fold(profile(STACKS), Frames::Python);
    assert_eq!(drawn(&python), ["<module> 29", "<module>;f 4", "<module>;f;key 3", "[not shown] 9"]);
    let native = fold(profile(STACKS), Frames::Native);
    assert!(!drawn(&native).iter().any(|line| line.contains("<module>")));
    assert_eq!(native.total().samples, 45);
    assert_eq!(drawn(&fold(profile(STACKS), Frames::All)), drawn(&profile(STACKS)));
}

#[test]
fn without_a_language_nothing_is_folded() {
    let lines = "main;Py_RunMain;loop;_PyFunction_Vectorcall;loop 1";
    assert_eq!(drawn(&fold(profile(lines), Frames::Mixed)), drawn(&profile(lines)));
    let mut p = profile(lines);
    account_of_languages(&mut p);
    assert!(p.account.languages.is_empty());
}

fn spent(lines: &str) -> ([u64; 5], bool) {
    let mut p = profile(lines);
    account_of_languages(&mut p);
    let row = &p.account.languages[0];
    let Spent { inside, native, lock, garbage, compiling, outside } = row.spent;
    assert_eq!(compiling.samples, 0, "no function of CPython compiles apart from the others");
    ([inside, native, lock, garbage, outside].map(|w| w.samples), row.nameless)
}

#[test]
fn time_is_told_apart_by_what_was_called() {
    // The interpreter sorts and calls: that is the language at work.
    assert_eq!(spent(STACKS), ([15, 6, 7, 8, 9], false));
    assert_eq!(spent(SERVED), ([1 + 2 + 32 + 128, 4 + 8 + 64, 16, 0, 0], true));
}

proptest! {
    /// Whatever the stacks and the view: the sum stays, callers come first, and what is shown is a part
    /// of what was there.
    #[test]
    fn folding_keeps_every_sample(stacks in proptest::collection::vec(
        (proptest::collection::vec(0_usize..8, 1..12), 1_u64..9), 1..30)) {
        const NAMES: [&str; 8] =
            ["py:f", "py:g", "loop", "_PyObject_Call", "work", "so:x", "in:y", "[python3+0x4]"];
        let lines: Vec<String> = stacks.iter().map(|(names, n)| {
            let names: Vec<&str> = names.iter().map(|at| NAMES[*at]).collect();
            format!("main;{} {n}", names.join(";"))
        }).collect();
        for frames in [Frames::All, Frames::Native, Frames::Python, Frames::Mixed] {
            let before = profile(&lines.join("\n"));
            let whole = before.total();
            let after = fold(before, frames);
            prop_assert_eq!(after.total(), whole);
            for (id, node) in after.stacks.enumerate() {
                prop_assert!(node.parent.is_none_or(|parent| parent < id));
            }
            let tree = CallTree::top_down(&after, &after.cells, By::Function, Split::Merged);
            prop_assert_eq!(tree.total, whole);
            // What was spent when is in the same stacks.
            let mut when: FxHashMap<StackId, u64> = FxHashMap::default();
            for cell in &after.over_time.as_ref().unwrap().cells {
                *when.entry(cell.stack).or_default() += cell.ns;
            }
            let spent = after.cells.iter().map(|cell| (cell.stack, cell.weight.user_ns));
            prop_assert_eq!(when, spent.collect::<FxHashMap<_, _>>());
        }
    }
}

/// Each sample as `owner > callee count`.
fn owned(lines: &str) -> Vec<String> {
    let mut p = profile(lines);
    let cells = p.cells.clone();
    add_own_work(&mut p, &cells);
    let owners = Owners::from_profile(&p);
    let cells = owners.with_own_work(&p, &cells);
    let name = |stack: StackId| p.functions[p.leaf(stack)].name.clone();
    let line = |cell: &Cell| {
        let given = owners.of_stack(cell.stack);
        let callee = given.callee.map(|callee| format!(" > {}", name(callee))).unwrap_or_default();
        format!("{}{callee} {}", name(given.owner), cell.weight.samples)
    };
    cells.iter().map(line).collect()
}

#[test]
fn what_only_leads_to_a_lock_works_for_whoever_takes_it() {
    let lines = "main;take_job;so:uv_mutex_lock;libc:pthread_mutex_lock 1
        main;take_job;std::mutex::lock;libc:pthread_mutex_lock 2
        main;my_mutex_lock;libc:pthread_mutex_lock 3";
    assert_eq!(
        owned(lines),
        [
            "take_job > uv_mutex_lock 1",
            "take_job > std::mutex::lock 2",
            "my_mutex_lock > pthread_mutex_lock 3"
        ]
    );
}

#[test]
fn a_function_of_a_language_owns_all_that_lies_within_it() {
    let lines = "main;py:pack;loop;cfunction_call;so:zlib_compress;so:deflate;libc:memcpy 1
        main;py:match;loop;sre_match 2
        main;py:f;loop 3
        main;py:f;loop;in:_Py_DECREF 4
        main;py:f;loop;list_sort_impl;_PyObject_Call;py:key;loop;float_pow;libc:pow 5
        main;py:f;loop;libc:read;kernel:[read] 6
        main;py:f;loop;[python3+0x7];libc:malloc 7
        main;py:f;loop;[python3+0x7] 8
        main;Py_Initialize;so:deflate 9
        main;py:parse;loop;json:loads;loop;so:scan 10
        main;py:parse;loop;list_sort_impl;json:key;loop 11
        main;json:main;loop;json:loads;loop;so:scan 12
        main;json:main;loop;py:hook;loop 13";
    let given = [
        "pack > zlib_compress 1",
        "match > sre_match 2",
        "f 3",
        "f 4",
        "key > float_pow 5",
        "f > read 6",
        "f > malloc 7",
        "f > [python3+0x7] 8",
        "deflate 9",
        "parse > loads 10",
        "parse > list_sort_impl 11",
        "loads > scan 12",
        "hook 13",
    ];
    assert_eq!(owned(lines), given);
}

#[test]
fn native_functions_own_what_the_c_library_and_the_standard_library_do_for_them() {
    let lines = "main;handle;std::string::append(char const*);libc:memcpy 1
        main;handle;memcpy@plt 2
        main;handle;core::fmt::write;<mine::Item as core::fmt::Display>::fmt;libc:malloc 3
        main;send;libc:write;kernel:[write] 4
        main;so:deflate;so:[libx.so+0x10];libc:memset 5
        main;so:deflate;so:[libx.so+0x10];so:[libx.so+0x20] 6
        main;so:[libx.so+0x10] 7
        so:[libx.so+0x10];so:[libx.so+0x20] 8
        libc:clone;libc:start_thread 9
        libc:clone;libc:start_thread;work;libc:cond_wait;kernel:[futex] 10
        kernel:[system] 11
        unknown:<cut>;libc:memcpy 12
        unknown:<cut>;handle;libc:memcpy 13
        main;handle;unknown:[unknown] 14
        main;handle;malloc;tcache_fill;arena_slab_alloc 15
        main;handle;so:operator delete(void*);so:tcache_bin_flush_small 16
        main;handle;__memmove_avx_unaligned_erms 17";
    let given = [
        "handle > std::string::append(char const*) 1",
        "handle > memcpy@plt 2",
        "<mine::Item as core::fmt::Display>::fmt > malloc 3",
        "send > write 4",
        "deflate > memset 5",
        "deflate > [libx.so+0x10] 6",
        "[libx.so+0x10] 7",
        "[libx.so+0x20] 8",
        "start_thread 9",
        "work > cond_wait 10",
        "[system] 11",
        "memcpy 12",
        "handle > memcpy 13",
        "handle > [unknown] 14",
        "handle > malloc 15",
        "handle > operator delete(void*) 16",
        "handle > __memmove_avx_unaligned_erms 17",
    ];
    assert_eq!(owned(lines), given);
}

#[test]
fn what_a_runtime_does_for_itself_has_rows_of_its_own() {
    let go = "runtime.goexit;main.build;runtime.growslice;runtime.mallocgc 1
        runtime.goexit;main.order.func1;cmpbody 2
        runtime.goexit;runtime.gcBgMarkWorker;runtime.scanobject 3
        runtime.goexit;main.build;runtime.gcAssistAlloc 4";
    let given = [
        "main.build > runtime.growslice 1",
        "main.order.func1 > cmpbody 2",
        "[garbage collector] 3",
        "main.build > runtime.gcAssistAlloc 4",
    ];
    assert_eq!(owned(go), given);
    // Other profilers leave out the outermost functions.
    let cut = "main.serve;main.critical;sync.(*Mutex).Unlock 1
        main.serve;main.take;runtime.chanrecv1 2";
    assert_eq!(owned(cut), ["main.critical > sync.(*Mutex).Unlock 1", "main.take > runtime.chanrecv1 2"]);
    // Without Go's marks the name says nothing.
    assert_eq!(owned("main;runtime.part 1"), ["runtime.part 1"]);
    let v8 = "main;js:f;Builtins_StringPrototypeRepeat 1
        main;js:f;v8::internal::Heap::CollectGarbage 2
        main;v8::internal::ScavengerCollector::Run;libc:memcpy 4
        main;v8::internal::compiler::Pipeline::Run 8";
    let given = [
        "f > Builtins_StringPrototypeRepeat 1",
        "f > v8::internal::Heap::CollectGarbage 2",
        "[garbage collector] 4",
        "[compiling] 8",
    ];
    assert_eq!(owned(v8), given);
}

#[test]
fn the_rows_of_a_runtimes_own_work_are_added_once() {
    let mut p = profile("main;js:f;Builtins_Map 1\nmain;v8::internal::ScavengerCollector::Run 2");
    let cells = p.cells.clone();
    add_own_work(&mut p, &cells);
    let rows = (p.functions.len(), p.frames.len(), p.stacks.len());
    add_own_work(&mut p, &cells);
    assert_eq!(rows, (p.functions.len(), p.frames.len(), p.stacks.len()));
}

#[test]
fn threads_without_names_of_their_own_are_told_by_where_they_begin() {
    let mut b = Builder::new(true);
    let process = b.process(Process { name: "prog".into(), pid: 7, ..Process::default() });
    let image = b.object(Object::new("/bin/prog", ObjectKind::File));
    let libc = b.object(Object::new("/lib/libc.so.6", ObjectKind::File));
    let go = b.object(Object::new("/bin/in_go", ObjectKind::File));
    let mut names = Vec::new();
    for (tid, name, stack, begins) in [
        (7, "prog", ["_start", "main"], None),
        (8, "prog", ["start_thread", "work"], Some("work")),
        (9, "prog", ["start_thread", "listen"], Some("listen")),
        (10, "logger", ["start_thread", "log"], None),
        (11, "prog", ["start_thread", "memcpy"], None),
        (12, "prog", ["runtime.goexit", "main.work"], None),
    ] {
        let thread = b.thread(process, tid, name);
        let mut at = None;
        for function in stack {
            let object = match function {
                "start_thread" | "memcpy" => libc,
                "runtime.goexit" | "main.work" => go,
                _ => image,
            };
            let function = b.function(object, function);
            let frame = b.plain_frame(function);
            at = Some(b.stack(at, frame));
        }
        b.add(thread, at.expect("a stack"), Weight { samples: 1, user_ns: 1, system_ns: 0 });
        names.push(begins);
    }
    let p = b.finish();
    let found = beginnings(&p, &p.cells);
    let found: Vec<Option<&str>> =
        found.iter().map(|f| f.map(|function| p.functions[function].name.as_str())).collect();
    assert_eq!(found, names);
}

proptest! {
    /// Each sample has one owner, which lies on its stack, and a callee within it.
    #[test]
    fn owners_lie_on_the_stack_and_sums_are_kept(stacks in proptest::collection::vec(
        (proptest::collection::vec(0_usize..11, 1..9), 1_u64..9), 1..40)) {
        const NAMES: [&str; 11] = ["main", "loop", "py:f", "py:g", "json:loads", "so:deflate", "so:[libx.so+0x1]", "libc:read",
            "kernel:[read]", "std::sort(int)", "[python3+0x1]"];
        let lines: Vec<String> = stacks.iter().map(|(names, n)| {
            format!("{} {n}", names.iter().map(|at| NAMES[*at]).collect::<Vec<_>>().join(";"))
        }).collect();
        let mut p = profile(&lines.join("\n"));
        let cells = p.cells.clone();
        let owners = Owners::from_profile(&p);
        for cell in &cells {
            let given = owners.of_stack(cell.stack);
            let on_stack: Vec<StackId> = p.outwards(cell.stack).map(|(id, _)| id).collect();
            let owner = on_stack.iter().position(|id| *id == given.owner);
            prop_assert!(owner.is_some());
            if let Some(callee) = given.callee {
                prop_assert!(on_stack.iter().position(|id| *id == callee) < owner);
            }
        }
        let whole: u64 = stacks.iter().map(|(_, n)| n).sum();
        for whose in [Whose::Owner, Whose::Library] {
            let flat = crate::Flat::count_owners(&mut p, &cells, whose, Split::Merged, crate::flat::Order::Own);
            prop_assert_eq!(flat.total.samples, whole);
            for (row, callees) in flat.rows.iter().zip(&flat.callees) {
                let called: u64 = callees.iter().map(|(_, weight)| weight.samples).sum();
                prop_assert!(called <= row.own.samples && row.own.samples <= row.total.samples);
            }
        }
    }
}
