//! The memory that is mapped in the target for calls.

/// The scratch mapping in the target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scratch {
    /// Start: the code page.
    pub(super) start: u64,
    /// Where the frame's ucontext is.
    pub(super) ucontext: u64,
}

pub(super) const CODE: u64 = 4096;
/// Room for the frame and, below it, for handlers.
pub(super) const FRAMES: u64 = 256 << 10;
/// The frame lies at this end of it: extended state is 11 KiB at most.
pub(super) const FRAME: u64 = FRAMES - (32 << 10);
/// Room for strings and results.
pub(super) const DATA: u64 = 64 << 10;
/// The stack of called functions: dlopen wants much.
pub(super) const STACK: u64 = 512 << 10;
pub(super) const WHOLE: u64 = CODE + FRAMES + DATA + STACK;

impl Scratch {
    /// Where the called function's result is stored.
    pub(super) fn result(self) -> u64 {
        self.start + CODE + FRAMES
    }
}
