//! Functions of allocators, and others of the C library that programs are linked with, by their names: they work for
//! whoever calls them, in whatever object they lie.

use crate::library_names::{FunctionName, is_of_standard_library};

/// Functions that allocate for their caller, by their whole name without arguments.
const ALLOCATE: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    // jemalloc's, to which its `malloc` jumps.
    "malloc_default",
    "operator new",
    "operator new[]",
    "__cxa_allocate_exception",
    "strdup",
    "strndup",
    "__strdup",
    "__strndup",
    "xmalloc",
    "xrealloc",
    "xcalloc",
    "g_malloc",
    "g_malloc0",
    "g_realloc",
    "__rust_alloc",
    "__rust_alloc_zeroed",
    "__rust_realloc",
    "__rdl_alloc",
    "__rdl_realloc",
    "__rdl_alloc_zeroed",
    "exchange_malloc",
    // The crate pct-alloc.
    "tell_pct_of_block",
    "_PyMem_RawMalloc",
    "_PyMem_RawRealloc",
    "_PyMem_RawCalloc",
    "_PyObject_Malloc",
    "_PyObject_Realloc",
    "_PyObject_Calloc",
    "PyObject_Malloc",
    "PyObject_Realloc",
    "PyObject_Calloc",
    "PyMem_Malloc",
    "PyMem_Realloc",
    "PyMem_Calloc",
    "PyMem_RawMalloc",
    "PyMem_RawRealloc",
    "PyMem_RawCalloc",
];
/// Functions that take back what those gave, by their whole name without arguments.
const FREE: &[&str] = &[
    "free",
    "cfree",
    // jemalloc's, to which its `free` jumps.
    "free_default",
    "operator delete",
    "operator delete[]",
    "__cxa_free_exception",
    "g_free",
    "__rust_dealloc",
    "__rdl_dealloc",
    "PyObject_Free",
    "PyMem_Free",
    "PyMem_RawFree",
];
/// Names that begin so: the C library's own for its functions.
const OF_C_LIBRARY: &[&str] = &["__libc_", "__GI_"];
/// Its functions for memory and strings, as programs and as it itself call them: `__memmove_avx_unaligned`.
const MEMORY_AND_STRINGS: &[&str] = &[
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "memchr",
    "memrchr",
    "strlen",
    "strnlen",
    "strcmp",
    "strncmp",
    "strcpy",
    "strncpy",
    "stpcpy",
    "strcat",
    "strchr",
    "strchrnul",
    "strrchr",
    "strstr",
];

/// A name without arguments, version and what a compiler appended behind a dot (`.cold`, `.part.0`).
fn stem(name: &str) -> &str {
    let plain = FunctionName::parse(name).path;
    let plain = plain.split_once('@').map_or(plain, |(plain, _)| plain);
    plain.split_once('.').map_or(plain, |(stem, _)| stem)
}

/// Whether a function allocates for its caller, passes its caller's requests on, or is one of a standard library that
/// lies between.
pub(crate) fn is_allocator(name: &str) -> bool {
    let stem = stem(name);
    ALLOCATE.contains(&stem)
        || is_of_c_library(stem)
        || is_of_standard_library(name)
        || passes_requests_on(name)
}

/// How names of functions end that pass a request on to an allocator.
const CORES: &[&str] = &[
    "malloc", "calloc", "realloc", "zalloc", "palloc", "mallocz", "callocz", "memalign", "strdup", "strndup",
    "memdup",
];
/// What may stand behind that: how it is done, not for what.
const MANNERS: &[&str] = &[
    "_",
    "0",
    "1",
    "2",
    "4",
    "6",
    "8",
    "add",
    "alarm",
    "aligned",
    "array",
    "base",
    "checked",
    "debug",
    "default",
    "die",
    "ex",
    "f",
    "fail",
    "fallback",
    "finish",
    "flags",
    "huge",
    "impl",
    "internal",
    "large",
    "locked",
    "mul",
    "n",
    "nn",
    "no",
    "nofail",
    "or",
    "raw",
    "real",
    "safe",
    "size",
    "small",
    "try",
    "unchecked",
    "unlocked",
    "usable",
    "with",
    "wrapper",
    "x",
    "zero",
];
/// Others that allocate for whoever calls them, by their whole name: of PostgreSQL, GLib, nginx and GCC.
const POOLS: &[&str] = &[
    "AllocSetAlloc",
    "AllocSetRealloc",
    "MemoryContextAlloc",
    "MemoryContextAllocExtended",
    "MemoryContextAllocZero",
    "g_slice_alloc",
    "g_slice_alloc0",
    "ggc_internal_alloc",
    "ggc_internal_cleared_alloc",
    "ngx_alloc",
    "ngx_pnalloc",
];

/// Whether a program's function passes requests on to an allocator, by its name: `zmalloc`, `sqlite3DbMallocRawNN`,
/// `CRYPTO_zalloc`, `node::UncheckedMalloc<char>`. What it allocates is its caller's.
fn passes_requests_on(name: &str) -> bool {
    let stem = stem(name);
    let own = stem.split('<').next().unwrap_or(stem);
    let own = own.rsplit("::").next().unwrap_or(own);
    if POOLS.contains(&own) {
        return true;
    }
    let lower = own.to_ascii_lowercase();
    let mut rest = lower.as_str();
    loop {
        if CORES.iter().any(|core| rest.ends_with(core)) {
            return true;
        }
        match MANNERS.iter().find_map(|manner| rest.strip_suffix(manner)) {
            Some(shorter) => rest = shorter,
            None => return false,
        }
    }
}

/// Whether all that a function calls is work of the allocator too.
pub(crate) fn allocates_or_frees(name: &str) -> bool {
    // Newer Rust compilers write that before them.
    let stem = stem(name);
    let stem = stem.strip_prefix("__rustc::").unwrap_or(stem);
    ALLOCATE.contains(&stem) || FREE.contains(&stem)
}

fn is_of_c_library(stem: &str) -> bool {
    OF_C_LIBRARY.iter().any(|prefix| stem.starts_with(prefix))
}

/// Whether a function of a program is one of the C library by its name: of a program that is statically linked.
pub(crate) fn is_linked_c_library(name: &str) -> bool {
    let is_variant = |own: &str| {
        MEMORY_AND_STRINGS.iter().any(|name| own.strip_prefix(name).is_some_and(|rest| rest.starts_with('_')))
    };
    let stem = stem(name);
    is_of_c_library(stem)
        || MEMORY_AND_STRINGS.contains(&stem)
        || stem.strip_prefix("__").is_some_and(is_variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_pass_requests_on_are_told_by_their_names() {
        for name in [
            "zmalloc",
            "ztrymalloc_usable_internal",
            "zrealloc_usable",
            "sqlite3DbMallocRawNN",
            "sqlite3_malloc64",
            "sqlite3DbStrDup",
            "mallocWithAlarm",
            "CRYPTO_zalloc",
            "xstrdup",
            "do_xmalloc",
            "rb_xmalloc_mul_add",
            "objspace_xmalloc0",
            "Perl_safesysrealloc",
            "_safe_emalloc",
            "palloc0",
            "MemoryContextAlloc",
            "av_mallocz_array",
            "ngx_pcalloc",
            "node::UncheckedMalloc<char>(unsigned long)",
            "xmalloc.part.0",
        ] {
            assert!(passes_requests_on(name), "{name}");
        }
        for name in [
            "main",
            "my_malloc_user",
            "mallocate",
            "Session::malloc_all(int)",
            "alloc_session",
            "page_alloc",
            "Arena::alloc",
            "",
            "_",
            "n",
            "std::vector<malloc>::push_back",
        ] {
            assert!(!passes_requests_on(name), "{name}");
        }
    }

    #[test]
    fn functions_of_allocators_are_told_by_their_names() {
        for name in [
            "malloc",
            "free",
            "operator delete(void*)",
            "operator new[](unsigned long)",
            "calloc.part.0",
            "__rustc::__rdl_realloc",
            "__rust_dealloc",
        ] {
            assert!(allocates_or_frees(name), "{name}");
        }
        for name in ["main", "my_malloc", "__libc_start_main", "std::vector<int>::push_back(int&&)"] {
            assert!(!allocates_or_frees(name), "{name}");
        }
    }

    #[test]
    fn the_c_library_of_a_static_program_is_told_by_its_names() {
        for name in ["memcpy", "__memmove_avx_unaligned_erms", "__strlen_evex", "__libc_write", "strcmp"] {
            assert!(is_linked_c_library(name), "{name}");
        }
        for name in ["memcpy_to_device", "__memory", "main", "strcmp_names", "__stripe"] {
            assert!(!is_linked_c_library(name), "{name}");
        }
    }
}
