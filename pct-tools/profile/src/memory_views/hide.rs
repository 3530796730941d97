//! Frames of allocators at the inner end of a stack: everybody's stack ends in malloc, and what people look
//! for is who called it.
//!
//! What standard libraries do between the allocator and the program's own function is hidden too, their public faces
//! included: whoever calls `push_back` or `format!` looks for that line.
//!
//! Programs wrap malloc by functions of their own (`zmalloc`, `xstrdup`). Those whose names say that they only pass
//! requests on are hidden too, and what the reader names.
//!
//! Only names say so, of functions and of objects. A frame that stands between two of the program's own functions
//! stays: hiding begins at the innermost frame and ends at the first one that is no allocator's. The outermost frame
//! always stays.
//!
//! An interpreter allocates for the functions that it runs: below a frame of Python its own functions are
//! hidden too, so that a site is the line of Python, or the function of an extension module.

use crate::allocator_names::is_allocator;
use crate::fold::{interpreters, is_spoken};
use crate::library_names::is_object_of_standard_library;
use crate::model::{Id as _, Profile, SAMPLER, StackId};
use crate::select::Pattern;

/// What a function is for hiding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It allocates for its caller.
    Allocator,
    /// It is one of an interpreted language.
    Spoken,
    /// It is the interpreter's.
    Interpreter,
    /// Another one.
    Work,
}

/// For each stack the one to show instead: itself without the allocators' frames at its inner end, and without those of
/// functions that match `more`.
#[must_use]
pub fn callers_of_allocators(profile: &Profile, more: Option<&Pattern>) -> Vec<StackId> {
    let images = interpreters(profile);
    let functions = profile.functions.iter();
    let of_library: Vec<bool> =
        profile.objects.iter().map(|object| is_object_of_standard_library(object.name())).collect();
    // (The sampler is a frame where a wrapped function calls another one.)
    let roles: Vec<Role> = functions
        .map(|function| match function.name.as_str() {
            SAMPLER => Role::Allocator,
            name if more.is_some_and(|more| more.matches(name)) => Role::Allocator,
            // A function of Python may be called malloc.
            _ if is_spoken(profile, function.object) => Role::Spoken,
            name if of_library[function.object.index()] || is_allocator(name) => Role::Allocator,
            _ if images.contains(&function.object) => Role::Interpreter,
            _ => Role::Work,
        })
        .collect();
    let mut shown: Vec<StackId> = Vec::with_capacity(profile.stacks.len());
    let mut below_spoken: Vec<bool> = Vec::with_capacity(profile.stacks.len());
    for (id, node) in profile.stacks.enumerate() {
        let role = roles[profile.frames[node.frame].function.index()];
        let below = node.parent.is_some_and(|parent| below_spoken[parent.index()]);
        below_spoken.push(below || role == Role::Spoken);
        let hide = role == Role::Allocator || role == Role::Interpreter && below;
        // Callers come first: that of the parent is known.
        shown.push(match node.parent {
            Some(parent) if hide => shown[parent.index()],
            _ => id,
        });
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::Language;
    use crate::model::tests::folded;
    use crate::model::{Builder, Object, ObjectKind};

    #[test]
    fn allocators_are_told_by_name() {
        for name in [
            "malloc",
            "calloc.part.0",
            "__rustc::__rust_alloc",
            "operator new(unsigned long)",
            "operator new[](unsigned long, std::nothrow_t const&)",
            "std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>(int const&)",
            "std::vector<int, std::allocator<int> >::push_back(int&&)",
            "__cxa_allocate_exception",
            "void std::vector<int>::_M_realloc_append<int>(int&&)",
            "std::__new_allocator<int>::allocate(unsigned long, void const*)",
            "alloc::raw_vec::RawVec<T,A>::grow_one",
            "alloc::vec::Vec<T,A>::with_capacity_in",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "<pct_alloc::Pct<A> as core::alloc::global::GlobalAlloc>::alloc",
            "alloc::alloc::exchange_malloc",
            "__GI___libc_malloc",
            "malloc@plt",
        ] {
            assert!(is_allocator(name), "{name}");
        }
        for name in ["main", "my_malloc_user", "Cache::insert(int)", "mallocate", "Session::malloc_all"] {
            assert!(!is_allocator(name), "{name}");
        }
    }

    #[test]
    fn a_site_is_the_caller_of_functions_that_pass_requests_on() {
        let p = folded(
            "main;set;sdsnew;zmalloc_usable;malloc 1\nmain;zmalloc 1\nmain;set;zmalloc;grow;malloc 1\nzmalloc;malloc 1",
        );
        let sites = |more: Option<&str>| -> Vec<&str> {
            let more = more.map(|text| Pattern::parse(text).expect("a pattern"));
            let shown = callers_of_allocators(&p, more.as_ref());
            let site =
                |cell: &crate::model::Cell| p.functions[p.leaf(shown[cell.stack.index()])].name.as_str();
            p.cells.iter().map(site).collect()
        };
        // Hiding ends at the first function that does work of its own, and the outermost frame stays.
        assert_eq!(sites(None), ["sdsnew", "main", "grow", "zmalloc"]);
        assert_eq!(sites(Some("^sds|^grow$")), ["set", "main", "set", "zmalloc"]);
    }

    #[test]
    fn an_interpreter_allocates_for_what_it_runs() {
        let mut b = Builder::new(false);
        let mut object = |path: &str, kind| b.object(Object::new(path, kind));
        let image = object("/usr/bin/python3", ObjectKind::File);
        let module = object("/srv/load.py", ObjectKind::Module(Language::Python));
        let extension = object("/srv/resize.so", ObjectKind::File);
        let mut leaf = |stack: &str| {
            let mut at = None;
            for name in stack.split(' ') {
                let object = match name {
                    "load" => module,
                    "resize" => extension,
                    _ => image,
                };
                let function = b.function(object, name);
                let frame = b.plain_frame(function);
                at = Some(b.stack(at, frame));
            }
            at.expect("a frame")
        };
        let leaves = [
            "Py_Main _PyEval_EvalFrameDefault",
            "Py_Main load list_resize [pct's sampler]",
            "Py_Main load resize PyList_New PyObject_Malloc",
            "Py_Main load PyList_New",
        ]
        .map(&mut leaf);
        let p = b.finish();
        let shown = callers_of_allocators(&p, None);
        let names = leaves.map(|leaf| p.functions[p.leaf(shown[leaf.index()])].name.as_str());
        assert_eq!(names, ["_PyEval_EvalFrameDefault", "load", "resize", "load"]);
    }

    #[test]
    fn what_libstdcxx_does_for_its_caller_is_hidden_whatever_its_name() {
        let mut b = Builder::new(false);
        let program = b.object(Object::new("/srv/prog", ObjectKind::File));
        let library = b.object(Object::new("/usr/lib/libstdc++.so.6.0.30", ObjectKind::File));
        let module = b.object(Object::new("/srv/load.py", ObjectKind::Module(Language::Python)));
        let mut leaf = |stack: &[(_, &str)]| {
            let mut at = None;
            for (object, name) in stack {
                let function = b.function(*object, name);
                let frame = b.plain_frame(function);
                at = Some(b.stack(at, frame));
            }
            at.expect("a frame")
        };
        let leaves = [
            leaf(&[
                (program, "main"),
                (program, "print_numbers()"),
                (program, "std::ostream& std::ostream::_M_insert<long>(long)"),
                (library, "[libstdc++.so.6.0.30+0x123200]"),
                (library, "operator new(unsigned long)"),
            ]),
            // What the library calls back is the program's.
            leaf(&[
                (library, "execute_native_thread_routine"),
                (program, "work()"),
                (program, "std::map<int, int>::operator[](int const&)"),
            ]),
            leaf(&[(module, "load"), (module, "malloc")]),
        ];
        let p = b.finish();
        let shown = callers_of_allocators(&p, None);
        let names = leaves.map(|leaf| p.functions[p.leaf(shown[leaf.index()])].name.as_str());
        assert_eq!(names, ["print_numbers()", "work()", "malloc"]);
    }

    #[test]
    fn only_the_inner_end_is_hidden() {
        let p = folded("main;work;operator new(unsigned long);malloc 1\nmalloc;hook;calloc 1\nmalloc 1");
        let shown = callers_of_allocators(&p, None);
        let names: Vec<&str> =
            p.cells.iter().map(|cell| p.functions[p.leaf(shown[cell.stack.index()])].name.as_str()).collect();
        // An allocator at the outer end stays: something must be shown.
        assert_eq!(names, ["work", "hook", "malloc"]);
    }
}
