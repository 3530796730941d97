//! What the functions of a profile are for: which belong to an interpreter, and which part they play in it.

use crate::language::Language;
use crate::library_names::is_object_of_standard_library;
use crate::model::{FunctionId, Id, Object, ObjectId, ObjectKind, Profile, StackId};
use rustc_hash::FxHashSet;

/// The part that a function of the interpreter plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Runs the language's functions: the function that it runs stands for it.
    Loop,
    /// Carries a call to a function.
    Carrier,
    /// Waits for the interpreter's lock.
    Lock,
    /// Collects garbage.
    Garbage,
    /// Compiles functions of the language.
    Compiler,
    /// Has no name (a stripped interpreter).
    Nameless,
    /// Does work.
    Work,
}

/// CPython's functions that run bytecode.
const LOOPS: &[&str] = &["_PyEval_EvalFrameDefault", "_PyEval_EvalFrame", "_TAIL_CALL_*"];

/// Functions of CPython and their roles; a `*` at the end stands for any rest. What a compiler appended behind a dot
/// (`.cold`, `.lto_priv.0`) does not count. The first line that fits decides.
const CPYTHON: &[(Role, &[&str])] = &[
    (Role::Loop, LOOPS),
    (Role::Lock, &["take_gil", "PyEval_RestoreThread", "_PyThreadState_Attach"]),
    (
        Role::Garbage,
        &[
            "gc_collect_main",
            "gc_collect_generations",
            "gc_collect_with_callback",
            "_PyGC_Collect*",
            // 3.8
            "collect",
            "collect_generations",
            "collect_with_callback",
        ],
    ),
    (
        Role::Carrier,
        &[
            "_PyEval_Vector",
            "_PyEval_EvalCode*",
            "PyEval_EvalCode*",
            "PyEval_EvalFrame*",
            "eval_frame_handle_pending",
            "_PyFunction_Vectorcall",
            "_PyFunction_FastCall*",
            "function_code_fastcall",
            "PyObject_Call*",
            "PyObject_Vectorcall*",
            "_PyObject_Call*",
            "_PyObject_FastCall*",
            "_PyObject_Vectorcall*",
            "_PyObject_MakeTpCall*",
            "_PyObject_FunctionFast*",
            "PyVectorcall_Call",
            "_PyVectorcall_Call",
            "PyCFunction_Call",
            "object_vacall",
            "call_function",
            "call_method*",
            "do_call_core",
            "fast_function",
            "method_vectorcall*",
            "method_call",
            "methoddescr_call",
            "cfunction_call*",
            "cfunction_vectorcall_*",
            "vectorcall_*",
            "_PyMethodDef_RawFastCall*",
            "slot_tp_*",
            "slot_nb_*",
            "slot_sq_*",
            "slot_mp_*",
            "slot_am_*",
            "wrap_*",
            "wrapperdescr_call",
            "wrapper_call",
            "property_descr_get",
            "type_call",
            "type_vectorcall",
            "partial_call*",
            "partial_vectorcall*",
            "gen_send_ex*",
            "gen_iternext",
            "gen_send",
            "_PyGen_Send*",
            "PyGen_am_send",
            "PyIter_Send",
            "gen_close*",
            "gen_throw",
            "_gen_throw",
            "async_gen_*",
            "coro_*",
            "object_isinstance",
            "builtin_exec*",
            "builtin_eval*",
            "builtin___import__*",
            "builtin___build_class__*",
            "PyImport_*",
            "import_name",
            "import_find_and_load",
            "exec_code_in_module",
            "run_mod",
            "run_eval_code_obj",
            "PyRun_*",
            "_PyRun_*",
            "pyrun_*",
            "pymain_*",
            "Py_RunMain",
            "Py_BytesMain",
            "Py_Main",
            "thread_run",
            "t_bootstrap",
            "pythread_wrapper",
            "context_run",
            "_PyContext_Run",
        ],
    ),
];

/// Functions of V8 and of node and their roles, as [`CPYTHON`]; a `*` may also stand within a name. V8's functions for
/// bytecodes run the language's functions.
const V8: &[(Role, &[&str])] = &[
    (
        Role::Loop,
        &["Builtins_*Handler", "Builtins_Interpreter*", "Builtins_BaselineO*", "Builtins_BaselineLeaveFrame"],
    ),
    (
        Role::Garbage,
        &[
            "v8::internal::Heap::*",
            "v8::internal::Scavenger*",
            "v8::internal::MarkCompact*",
            "v8::internal::MinorMark*",
            "v8::internal::MinorGC*",
            "v8::internal::Marking*",
            "v8::internal::ConcurrentMarking*",
            "v8::internal::IncrementalMarking*",
            "v8::internal::Sweeper*",
            "v8::internal::Evacuat*",
            "v8::internal::GCTracer*",
            "v8::internal::MainMarking*",
            "v8::internal::YoungGeneration*",
            "void v8::internal::Scavenger*",
            "void v8::internal::Heap::*",
            "void v8::internal::MarkCompact*",
            "cppgc::*",
        ],
    ),
    (
        Role::Compiler,
        &[
            "v8::internal::compiler::*",
            "v8::internal::Compiler::*",
            "v8::internal::OptimizedCompilationJob::*",
            "v8::internal::OptimizingCompileDispatcher::*",
            "v8::internal::UnoptimizedCompilationJob::*",
            "v8::internal::TurbofanCompilationJob::*",
            "v8::internal::maglev::*",
            "v8::internal::baseline::*",
            "v8::internal::parsing::*",
        ],
    ),
    (
        Role::Carrier,
        &[
            "Builtins_JSEntry*",
            "Builtins_JSConstruct*",
            "Builtins_JSRunMicrotasks*",
            "Builtins_JSBuiltinsConstruct*",
            "Builtins_CEntry_*",
            "Builtins_Call*",
            "Builtins_Construct*",
            "Builtins_HandleApiCall*",
            "Builtins_Adaptor*",
            "Builtins_ArgumentsAdaptor*",
            "Builtins_ReflectApply",
            "Builtins_ReflectConstruct",
            "Builtins_FunctionPrototypeApply",
            "Builtins_FunctionPrototypeCall",
            "Builtins_FastFunctionPrototypeBind",
            "Builtins_AsyncFunction*",
            "Builtins_AsyncGenerator*",
            "Builtins_Await*",
            "Builtins_GeneratorPrototype*",
            "Builtins_ResumeGenerator*",
            "Builtins_RunMicrotasks",
            "Builtins_Promise*Job",
            "Builtins_PromiseConstructor",
            "Builtins_CompileLazy",
            "v8::internal::Builtin_HandleApiCall*",
            "v8::internal::Builtins::InvokeApiFunction*",
            "v8::internal::*::HandleApiCallHelper*",
            "v8::internal::FunctionCallbackArguments::Call*",
            "v8::internal::(anonymous namespace)::Invoke*",
            "v8::internal::Execution::*",
            "v8::internal::MicrotaskQueue::*",
            "v8::Function::Call*",
            "v8::Function::NewInstance*",
            "v8::Script::Run*",
            "v8::Module::Evaluate*",
            "v8::internal::Module::*",
            "v8::internal::SourceTextModule::*",
            "v8::MicrotasksScope::*",
            "node::Start*",
            "node::LoadEnvironment*",
            "node::NodeMainInstance::*",
            "node::Realm::*",
            "node::PrincipalRealm::*",
            "node::builtins::BuiltinLoader::CompileAndCall*",
            "node::ExecuteBootstrapper*",
            "node::SpinEventLoop*",
            "node::InternalCallbackScope::*",
            "node::InternalMakeCallback*",
            "node::MakeCallback*",
            "node::AsyncWrap::MakeCallback*",
            "node::Environment::RunTimers*",
            "node::Environment::CheckImmediate*",
            "node::Environment::RunAndClearNativeImmediates*",
            "node::loader::ModuleWrap::*",
            "node::contextify::ContextifyScript::*",
            "node::worker::Worker::*",
            "uv_run",
            "uv__run_*",
            "uv__io_poll",
        ],
    ),
];

/// Whether a name fits a pattern, in which one `*` may stand for anything.
fn fits(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, "")) => name.starts_with(start),
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| match rest.strip_suffix('*') {
            Some(within) => name.contains(within.trim_start_matches('*')),
            None => name.ends_with(rest),
        }),
        None => name == pattern,
    }
}

fn listed(list: &[(Role, &[&str])], name: &str) -> Option<Role> {
    list.iter()
        .find(|(_, patterns)| patterns.iter().any(|pattern| fits(name, pattern)))
        .map(|(role, _)| *role)
}

/// Whether a function has a place for a name: `[libz.so.1+0x5d80]`.
pub(super) fn is_nameless(name: &str) -> bool {
    name == "[no symbol]" || name.starts_with('[') && name.contains("+0x")
}

/// The role of a function of CPython's image, by its name.
fn role(name: &str) -> Role {
    if is_nameless(name) {
        return Role::Nameless;
    }
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    listed(CPYTHON, stem).unwrap_or(Role::Work)
}

/// Whether a function is CPython's loop. It is asked of every function of a profile, so it looks at nothing else.
fn is_loop_of_cpython(name: &str) -> bool {
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    LOOPS.iter().any(|pattern| fits(stem, pattern))
}

/// The class of a function of an image that has V8 in it: also of programs that V8 is a part of.
fn class_beside_v8(name: &str) -> FrameClass {
    match listed(V8, name) {
        Some(role) => FrameClass::Interpreter(role),
        None if name.starts_with("Builtins_") || name.contains("v8::") => FrameClass::Interpreter(Role::Work),
        None => FrameClass::Other,
    }
}

/// What a stack's frame is for folding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FrameClass {
    /// A function of an interpreted language.
    Spoken,
    /// A function of the interpreter.
    Interpreter(Role),
    /// The C library, the loader or the kernel: whoever calls it has it work for him.
    Servant,
    /// Another function: of an extension module, or of a library that one uses.
    Other,
}

/// Objects that any code uses for itself, by the start of their file's name.
const SERVANTS: &[&str] = &[
    "libc.so",
    "libc-",
    "libm.so",
    "libm-",
    "libmvec",
    "libpthread",
    "ld-linux",
    "ld-2",
    "ld-musl",
    "libc.musl",
    "libgcc_s",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
];

/// Functions that only programs in Go have: one of them is on most stacks of such a program, also where another
/// profiler left out the outermost ones.
const MARKS_OF_GO: &[&str] = &[
    "runtime.goexit",
    "runtime.goexit.abi0",
    "runtime.mstart",
    "runtime.mstart.abi0",
    "runtime.mcall",
    "runtime.rt0_go.abi0",
    "runtime.gcBgMarkWorker",
    "runtime.systemstack.abi0",
    "runtime.main",
    "runtime.mallocgc",
    "runtime.chanrecv1",
    "runtime.chansend1",
    "runtime.selectgo",
    "main.main",
];
/// Go's own threads of garbage collection begin with these.
const COLLECTORS_OF_GO: &[&str] = &["runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge"];

/// The class of a function of a program in Go.
fn class_in_go(name: &str) -> FrameClass {
    match COLLECTORS_OF_GO.iter().any(|start| name.starts_with(start)) {
        true => FrameClass::Interpreter(Role::Garbage),
        false => FrameClass::Other,
    }
}

/// The programs in Go.
pub(super) fn programs_in_go(profile: &Profile) -> FxHashSet<ObjectId> {
    let marks = profile.functions.iter().filter(|f| {
        // No other language writes the methods of a type so.
        MARKS_OF_GO.contains(&f.name.as_str()) || f.name.contains(".(*")
    });
    marks.map(|f| f.object).collect()
}

/// Whether an object is one that works for whoever calls it.
fn serves(object: &Object) -> bool {
    match object.kind {
        ObjectKind::Kernel => true,
        ObjectKind::File => {
            let name = object.name();
            SERVANTS.iter().any(|start| name.starts_with(start)) || is_object_of_standard_library(name)
        }
        _ => object.path == "[vdso]",
    }
}

/// The roles of all functions of a profile; without an interpreter that was read nobody has any.
#[derive(Debug)]
pub(super) struct Roles {
    kinds: Vec<FrameClass>,
}

impl Roles {
    pub(super) fn from_profile(profile: &Profile) -> Self {
        let spoken = |object: ObjectId| is_spoken(profile, object);
        let images = interpreters(profile);
        let with_v8 = images_with_v8(profile);
        let of_go = programs_in_go(profile);
        let kinds = profile
            .functions
            .iter()
            .map(|f| match spoken(f.object) {
                true => FrameClass::Spoken,
                false if with_v8.contains(&f.object) => class_beside_v8(&f.name),
                false if images.contains(&f.object) => FrameClass::Interpreter(role(&f.name)),
                false if of_go.contains(&f.object) => class_in_go(&f.name),
                false if serves(&profile.objects[f.object]) => FrameClass::Servant,
                false => FrameClass::Other,
            })
            .collect();
        Self { kinds }
    }

    fn kind(&self, profile: &Profile, stack: StackId) -> FrameClass {
        self.class(profile.leaf(stack))
    }

    pub(super) fn class(&self, function: FunctionId) -> FrameClass {
        self.kinds[function.index()]
    }

    pub(super) fn any_spoken(&self) -> bool {
        self.kinds.contains(&FrameClass::Spoken)
    }
}

/// Whether an object stands for a module of an interpreted language.
pub(crate) fn is_spoken(profile: &Profile, object: ObjectId) -> bool {
    matches!(profile.objects[object].kind, ObjectKind::Module(_))
}

/// The images of interpreters: known by their loop, or if that has no name (stripped, or the file is gone) by
/// its place.
pub(crate) fn interpreters(profile: &Profile) -> FxHashSet<ObjectId> {
    let spoken = |object: ObjectId| is_spoken(profile, object);
    let loops = profile.functions.iter().filter(|f| !spoken(f.object) && is_loop_of_cpython(&f.name));
    let images: FxHashSet<ObjectId> = loops.map(|f| f.object).collect();
    let images = if images.is_empty() { nameless_loops(profile, spoken) } else { images };
    &images - &images_with_v8(profile)
}

/// The images that have V8 in them, where JavaScript runs: known by the names of V8's own functions.
pub(super) fn images_with_v8(profile: &Profile) -> FxHashSet<ObjectId> {
    let speaks = profile.objects.iter().any(|o| o.kind == ObjectKind::Module(Language::JavaScript));
    let own = profile.functions.iter().filter(|f| speaks && f.name.starts_with("Builtins_"));
    own.map(|f| f.object).collect()
}

impl FrameClass {
    /// Whether a frame directly below one of a language is the loop that runs it. The loop's cold part may
    /// have no name.
    fn is_loop(self) -> bool {
        matches!(self, Self::Interpreter(Role::Loop | Role::Nameless))
    }
}

/// Objects of nameless functions that stand where a loop does: directly below a frame of a language.
fn nameless_loops(profile: &Profile, spoken: impl Fn(ObjectId) -> bool) -> FxHashSet<ObjectId> {
    let function = |stack: StackId| &profile.functions[profile.leaf(stack)];
    let stacks = profile.stacks.enumerate();
    stacks
        .filter(|(_, node)| node.parent.is_some_and(|parent| spoken(function(parent).object)))
        .map(|(id, _)| function(id))
        .filter(|f| !spoken(f.object) && role(&f.name) == Role::Nameless)
        .map(|f| f.object)
        .collect()
}

/// What is known of each stack of a profile, callers first.
pub(super) struct Walked {
    pub(super) kind: FrameClass,
    /// The innermost frame of a language on it, itself included.
    pub(super) spoken: Option<StackId>,
    /// It is the interpreter's loop that runs that frame, or code that was inlined into this loop.
    pub(super) runs_it: bool,
}

pub(super) fn walk(profile: &Profile, roles: &Roles) -> Vec<Walked> {
    let mut walked: Vec<Walked> = Vec::with_capacity(profile.stacks.len());
    for (id, node) in profile.stacks.enumerate() {
        let kind = roles.kind(profile, id);
        let above = node.parent.map(|parent| &walked[parent.index()]);
        let spoken = if kind == FrameClass::Spoken { Some(id) } else { above.and_then(|above| above.spoken) };
        let runs_it = above.is_some_and(|above| match above.kind {
            FrameClass::Spoken => kind.is_loop(),
            _ => kind != FrameClass::Spoken && above.runs_it && profile.frames[node.frame].inlined,
        });
        walked.push(Walked { kind, spoken, runs_it });
    }
    walked
}
