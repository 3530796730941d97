//! Which frames of a mixed stack are shown: those of the interpreter that only carry calls are noise between the program's own.
//!
//! A recording holds, outwards of each native frame of the interpreter's loop, the frames of the language that this loop runs:
//!
//! ```text
//! <module>   <-- Py_RunMain ... _PyEval_EvalFrameDefault          mixed:  <module>
//!   parse    <-- _PyEval_EvalFrameDefault                                   parse
//!     list_sort_impl                                                          list_sort_impl
//!       key  <-- _PyObject_Call, _PyEval_EvalFrameDefault                       key
//! ```
//!
//! What always holds: no sample is lost or moved to another thread; the innermost frame of a sample stays, unless it is the
//! interpreter's loop itself, for which the function that it runs stands; samples without a frame of an interpreted language
//! are left as they are (but by [`Frames::Python`]).

use crate::language::Language;
use crate::model::{
    Cell, Frame, FrameId, Function, Id, IdVec, Object, ObjectId, ObjectKind, Profile, Spent, StackId,
    StackNode, ThreadId, Weight,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Which frames are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Frames {
    /// All that were recorded.
    All,
    /// Those of machine code.
    Native,
    /// Those of interpreted languages.
    Python,
    /// Both, without the interpreter's own that only carry calls.
    #[default]
    Mixed,
}

/// The part that a function of the interpreter plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Runs the language's functions: the function that it runs stands for it.
    Loop,
    /// Carries a call to a function.
    Carrier,
    /// Waits for the interpreter's lock.
    Lock,
    /// Collects garbage.
    Garbage,
    /// Has no name (a stripped interpreter).
    Nameless,
    /// Does work.
    Work,
}

/// Functions of CPython and their roles; a `*` at the end stands for any rest. What a compiler appended behind a dot
/// (`.cold`, `.lto_priv.0`) does not count. The first line that fits decides.
const CPYTHON: &[(Role, &[&str])] = &[
    (Role::Loop, &["_PyEval_EvalFrameDefault", "_PyEval_EvalFrame", "_TAIL_CALL_*"]),
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

/// The role of a function of the interpreter's image, by its name.
fn role(name: &str) -> Role {
    if name == "[no symbol]" || name.starts_with('[') && name.contains("+0x") {
        return Role::Nameless;
    }
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => stem.starts_with(start),
        None => stem == pattern,
    };
    CPYTHON
        .iter()
        .find(|(_, names)| names.iter().any(|name| fits(name)))
        .map_or(Role::Work, |(role, _)| *role)
}

/// What a stack's frame is for folding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
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
const SERVANTS: &[&str] =
    &["libc.so", "libc-", "libm.so", "libm-", "libpthread", "ld-linux", "ld-2", "ld-musl", "libc.musl"];

/// Whether an object is one that works for whoever calls it.
fn serves(object: &Object) -> bool {
    match object.kind {
        ObjectKind::Kernel => true,
        ObjectKind::File => SERVANTS.iter().any(|start| object.name().starts_with(start)),
        _ => object.path == "[vdso]",
    }
}

/// The roles of all functions of a profile; without an interpreter that was read nobody has any.
struct Roles {
    kinds: Vec<Kind>,
}

impl Roles {
    fn of(profile: &Profile) -> Self {
        let spoken = |object: ObjectId| is_spoken(profile, object);
        let images = interpreters(profile);
        let kinds = profile
            .functions
            .iter()
            .map(|f| match spoken(f.object) {
                true => Kind::Spoken,
                false if images.contains(&f.object) => Kind::Interpreter(role(&f.name)),
                false if serves(&profile.objects[f.object]) => Kind::Servant,
                false => Kind::Other,
            })
            .collect();
        Self { kinds }
    }

    fn kind(&self, profile: &Profile, stack: StackId) -> Kind {
        self.kinds[profile.frames[profile.stacks[stack].frame].function.index()]
    }

    fn any_spoken(&self) -> bool {
        self.kinds.contains(&Kind::Spoken)
    }
}

/// Whether an object stands for a module of an interpreted language.
pub(crate) fn is_spoken(profile: &Profile, object: ObjectId) -> bool {
    matches!(profile.objects[object].kind, ObjectKind::Module(_))
}

/// The images of interpreters: known by their loop, or if that has no name (stripped, or the file is gone) by its place.
pub(crate) fn interpreters(profile: &Profile) -> FxHashSet<ObjectId> {
    let spoken = |object: ObjectId| is_spoken(profile, object);
    let loops = profile.functions.iter().filter(|f| !spoken(f.object) && role(&f.name) == Role::Loop);
    let images: FxHashSet<ObjectId> = loops.map(|f| f.object).collect();
    if images.is_empty() { nameless_loops(profile, spoken) } else { images }
}

impl Kind {
    /// Whether a frame directly below one of a language is the loop that runs it. The loop's cold part may have no name.
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
struct Walked {
    kind: Kind,
    /// The innermost frame of a language on it, itself included.
    spoken: Option<StackId>,
    /// It is the interpreter's loop that runs that frame, or code that was inlined into this loop.
    runs_it: bool,
}

fn walk(profile: &Profile, roles: &Roles) -> Vec<Walked> {
    let mut walked: Vec<Walked> = Vec::with_capacity(profile.stacks.len());
    for (id, node) in profile.stacks.enumerate() {
        let kind = roles.kind(profile, id);
        let above = node.parent.map(|parent| &walked[parent.index()]);
        let spoken = if kind == Kind::Spoken { Some(id) } else { above.and_then(|above| above.spoken) };
        let runs_it = above.is_some_and(|above| match above.kind {
            Kind::Spoken => kind.is_loop(),
            _ => kind != Kind::Spoken && above.runs_it && profile.frames[node.frame].inlined,
        });
        walked.push(Walked { kind, spoken, runs_it });
    }
    walked
}

/// Writes down where the time of each language's threads went. For a profile whose frames are all there.
///
/// The interpreter's own functions are the language at work: its arithmetic, its dictionaries, its memory. What they
/// ask of the C library and the kernel is theirs too. C that the language called is what lies in other objects:
/// extension modules, and all that these call.
pub fn account_of_languages(profile: &mut Profile) {
    let roles = Roles::of(profile);
    if !roles.any_spoken() {
        return;
    }
    let walked = walk(profile, &roles);
    let mut spent: FxHashMap<Language, (Spent, bool)> = FxHashMap::default();
    let mut outside = Weight::ZERO;
    for cell in &profile.cells {
        let Some(spoken) = walked[cell.stack.index()].spoken else {
            outside += cell.weight;
            continue;
        };
        let (spent, nameless) = spent.entry(profile.language(profile.leaf(spoken))).or_default();
        let place = match activity(profile, &walked, cell.stack, spoken) {
            Activity::Language => &mut spent.inside,
            Activity::Nameless => {
                *nameless = true;
                &mut spent.inside
            }
            Activity::Foreign => &mut spent.native,
            Activity::Lock => &mut spent.lock,
            Activity::Garbage => &mut spent.garbage,
        };
        *place += cell.weight;
    }
    let mut spent: Vec<(Language, (Spent, bool))> = spent.into_iter().collect();
    spent.sort_by_key(|(language, _)| *language);
    for (at, (language, (mut spent, nameless))) in spent.into_iter().enumerate() {
        // No language is nearer to it than another.
        spent.outside = if at == 0 { outside } else { Weight::ZERO };
        let row = profile.account.spoken(language);
        row.spent = spent;
        row.nameless = nameless;
    }
}

/// What a thread was doing for a function of a language.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Activity {
    /// Running it.
    Language,
    /// The same, in a function of the interpreter that has no name: it could be the collector's.
    Nameless,
    /// Running C that it called.
    Foreign,
    /// Waiting for the interpreter's lock.
    Lock,
    /// Collecting garbage.
    Garbage,
}

/// What the frames within `spoken` of a sample that ends in `leaf` were doing.
fn activity(profile: &Profile, walked: &[Walked], leaf: StackId, spoken: StackId) -> Activity {
    let mut activity = Activity::Language;
    let mut waits = false;
    let mut at = leaf;
    while at != spoken {
        let seen = &walked[at.index()];
        match seen.kind {
            Kind::Interpreter(Role::Lock) => return Activity::Lock,
            // CPython waits by a condition variable for nothing else: its other locks are semaphores.
            Kind::Interpreter(_) if waits => return Activity::Lock,
            Kind::Interpreter(Role::Garbage) => return Activity::Garbage,
            Kind::Interpreter(Role::Nameless) if !seen.runs_it && activity == Activity::Language => {
                activity = Activity::Nameless;
            }
            Kind::Other => activity = Activity::Foreign,
            _ => {}
        }
        waits = match seen.kind {
            Kind::Servant => waits || waits_for_condition(&profile.functions[profile.leaf(at)].name),
            _ => false,
        };
        let Some(parent) = profile.stacks[at].parent else { break };
        at = parent;
    }
    activity
}

/// Whether a function of the C library waits for a condition variable: `pthread_cond_timedwait`, `__pthread_cond_wait`.
fn waits_for_condition(name: &str) -> bool {
    name.contains("pthread_cond_") && name.contains("wait")
}

/// The profile with these frames only. Nothing changes in a recording without frames of an interpreted language.
#[must_use]
pub fn fold(mut profile: Profile, frames: Frames) -> Profile {
    let roles = Roles::of(&profile);
    if frames == Frames::All || !roles.any_spoken() {
        return profile;
    }
    let walked = walk(&profile, &roles);
    let mut folding =
        Folding { stacks: IdVec::new(), known: FxHashMap::default(), nothing: FxHashMap::default() };
    let new = folding.fold(&mut profile, &walked, frames);
    folding.take_over(&mut profile, &new);
    profile
}

/// The new stacks, which are built beside the old ones.
struct Folding {
    stacks: IdVec<StackId, StackNode>,
    known: FxHashMap<StackNode, StackId>,
    /// By object: the frame that stands for a sample of which no frame is shown.
    nothing: FxHashMap<ObjectId, FrameId>,
}

/// What an old stack is among the new ones.
#[derive(Clone, Copy)]
struct Folded {
    /// For samples that end in it.
    leaf: StackId,
    /// For stacks that go on from it inwards with more native code.
    on: Option<StackId>,
    /// For stacks that go on from it to a frame of a language: without the interpreter's nameless functions.
    between: Option<StackId>,
    /// With nothing left out: for samples without a frame of a language.
    whole: Option<StackId>,
}

impl Folding {
    fn stack(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        let node = StackNode { parent, frame };
        *self.known.entry(node).or_insert_with(|| self.stacks.push(node))
    }

    /// The new stack of each old one.
    fn fold(&mut self, profile: &mut Profile, walked: &[Walked], frames: Frames) -> Vec<StackId> {
        let mut folded: Vec<Folded> = Vec::with_capacity(walked.len());
        for (id, seen) in profile.stacks.ids().zip(walked) {
            let node = profile.stacks[id];
            let above = node.parent.map(|parent| folded[parent.index()]);
            let next = match frames {
                Frames::Mixed | Frames::All => self.mixed(above, node.frame, seen),
                Frames::Native | Frames::Python => {
                    let wanted = (seen.kind == Kind::Spoken) == (frames == Frames::Python);
                    self.one_kind(profile, above, node.frame, wanted)
                }
            };
            folded.push(next);
        }
        folded.into_iter().map(|f| f.leaf).collect()
    }

    fn mixed(&mut self, above: Option<Folded>, frame: FrameId, seen: &Walked) -> Folded {
        let (on, between) = (above.and_then(|a| a.on), above.and_then(|a| a.between));
        let whole = Some(self.stack(above.and_then(|a| a.whole), frame));
        if seen.kind == Kind::Spoken {
            let shown = self.stack(between, frame);
            return Folded { leaf: shown, on: Some(shown), between: Some(shown), whole };
        }
        let carries = matches!(seen.kind, Kind::Interpreter(Role::Carrier | Role::Loop)) || seen.runs_it;
        let nameless = seen.kind == Kind::Interpreter(Role::Nameless) && seen.spoken.is_some();
        let leaf = match (on, whole) {
            (_, Some(whole)) if seen.spoken.is_none() => whole,
            (Some(shown), _) if seen.runs_it => shown,
            _ => self.stack(on, frame),
        };
        let on = if carries { on } else { Some(self.stack(on, frame)) };
        let between = if carries || nameless { between } else { Some(self.stack(between, frame)) };
        Folded { leaf, on, between, whole }
    }

    /// For views of one kind of frames, of which this one is one (`wanted`) or not.
    fn one_kind(
        &mut self,
        profile: &mut Profile,
        above: Option<Folded>,
        frame: FrameId,
        wanted: bool,
    ) -> Folded {
        let on = above.and_then(|a| a.on);
        let on = if wanted { Some(self.stack(on, frame)) } else { on };
        let leaf = match on {
            Some(shown) => shown,
            None => {
                let frame = self.nothing(profile, frame);
                self.stack(None, frame)
            }
        };
        Folded { leaf, on, between: on, whole: None }
    }

    /// The frame that stands for a sample that ends in `frame` and has no frame that is shown.
    fn nothing(&mut self, profile: &mut Profile, frame: FrameId) -> FrameId {
        let object = profile.functions[profile.frames[frame].function].object;
        *self.nothing.entry(object).or_insert_with(|| {
            let function =
                profile.functions.push(Function { name: "[not shown]".to_owned(), object, declared: None });
            profile.frames.push(Frame { function, file: None, line: 0, address: None, inlined: false })
        })
    }

    /// Gives the profile the new stacks, those that samples end in or pass through.
    fn take_over(self, profile: &mut Profile, new: &[StackId]) {
        let ends = || {
            let cells = profile.cells.iter().map(|cell| cell.stack);
            cells.chain(profile.timeline.iter().map(|sample| sample.stack)).chain(profile.memory.stacks())
        };
        let mut used = vec![false; self.stacks.len()];
        for stack in ends() {
            used[new[stack.index()].index()] = true;
        }
        for (id, node) in self.stacks.enumerate().rev() {
            if let Some(parent) = node.parent.filter(|_| used[id.index()]) {
                used[parent.index()] = true;
            }
        }
        let mut stacks = IdVec::new();
        let mut kept: Vec<Option<StackId>> = Vec::with_capacity(used.len());
        for (id, node) in self.stacks.enumerate() {
            let parent = node.parent.and_then(|parent| kept[parent.index()]);
            kept.push(used[id.index()].then(|| stacks.push(StackNode { parent, frame: node.frame })));
        }
        let of = |old: StackId| kept[new[old.index()].index()].expect("where samples end is used");
        for sample in &mut profile.timeline {
            sample.stack = of(sample.stack);
        }
        for stack in profile.memory.stacks_mut() {
            *stack = of(*stack);
        }
        let mut sums: FxHashMap<(ThreadId, StackId), usize> = FxHashMap::default();
        let mut cells: Vec<Cell> = Vec::with_capacity(profile.cells.len());
        for cell in &profile.cells {
            let cell = Cell { stack: of(cell.stack), ..*cell };
            let at = *sums.entry((cell.thread, cell.stack)).or_insert(cells.len());
            match cells.get_mut(at) {
                Some(known) => known.weight += cell.weight,
                None => cells.push(cell),
            }
        }
        profile.cells = cells;
        profile.stacks = stacks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Builder, Object, Process};
    use crate::{By, CallTree, Split};
    use proptest::prelude::*;

    /// `Py_RunMain;py:main;loop;work 3`: native functions of the interpreter, `py:` ones of a module, `so:` ones of a library;
    /// `in:` is inlined into the one before.
    fn profile(lines: &str) -> Profile {
        let mut b = Builder::new(true);
        let process = b.process(Process { name: "python3".into(), ..Process::default() });
        let thread = b.thread(process, 1, "python3");
        let mut object = |path: &str, kind| b.object(Object { path: path.into(), build_id: None, kind });
        let image = object("/usr/bin/python3", ObjectKind::File);
        let library = object("/lib/libx.so", ObjectKind::File);
        let libc = object("/lib/libc.so.6", ObjectKind::File);
        let kernel = object("kernel", ObjectKind::Kernel);
        let module = object("/srv/app.py", ObjectKind::Module(Language::Python));
        for line in lines.lines() {
            let (stack, count) = line.trim().rsplit_once(' ').expect("a count");
            let samples: u64 = count.parse().expect("a number");
            let mut at = None;
            for name in stack.split(';') {
                let (object, name, inlined) = match name.split_once(':') {
                    Some(("py", name)) => (module, name, false),
                    Some(("so", name)) => (library, name, false),
                    Some(("libc", name)) => (libc, name, false),
                    Some(("kernel", name)) => (kernel, name, false),
                    Some(("in", name)) => (image, name, true),
                    _ => (image, name, false),
                };
                let name = if name == "loop" { "_PyEval_EvalFrameDefault" } else { name };
                let function = b.function(object, name);
                let frame = b.frame(Frame { function, file: None, line: 0, address: None, inlined });
                at = Some(b.stack(at, frame));
            }
            let weight = Weight { samples, user_ns: samples, system_ns: 0 };
            b.add(thread, at.expect("a frame"), weight);
        }
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
        let Spent { inside, native, lock, garbage, outside } = row.spent;
        ([inside, native, lock, garbage, outside].map(|w| w.samples), row.nameless)
    }

    #[test]
    fn time_is_told_apart_by_what_was_called() {
        // The interpreter sorts and calls: that is the language at work.
        assert_eq!(spent(STACKS), ([15, 6, 7, 8, 9], false));
        assert_eq!(spent(SERVED), ([1 + 2 + 32 + 128, 4 + 8 + 64, 16, 0, 0], true));
    }

    proptest! {
        /// Whatever the stacks and the view: the sum stays, callers come first, and what is shown is a part of what was there.
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
            }
        }
    }
}
