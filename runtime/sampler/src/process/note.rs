//! The note by which controllers find our code in any process, stripped or static: owner `PCT`, type 1.
//!
//! Its descriptor is the ABI version, 1, and three 64-bit offsets, each relative to its own word, of functions like
//! `pct_on(const char *)`, `pct_off(void)`, `pct_stat(void)`.

/// Puts the note into the object. Arguments: paths of three `extern "C"` functions that are not exported (a
/// reference to a preemptible symbol would be a text relocation).
#[macro_export]
macro_rules! note {
    ($on:path, $off:path, $stat:path) => {
        core::arch::global_asm!(
            ".pushsection .note.pct,\"a\",@note",
            ".balign 4",
            ".long 4",
            ".long 32",
            ".long 1",
            ".asciz \"PCT\"",
            ".quad 1",
            ".quad {on} - .",
            ".quad {off} - .",
            ".quad {stat} - .",
            ".popsection",
            on = sym $on,
            off = sym $off,
            stat = sym $stat,
        );
    };
}
