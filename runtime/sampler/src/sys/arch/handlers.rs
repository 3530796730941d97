//! What signal handlers are made of.

/// What a signal handler does.
pub trait Handler {
    /// Bytes of stack that [`Self::handle`] must have.
    const ROOM: usize;

    /// Gets what the kernel passes to a handler.
    ///
    /// # Safety
    /// `info` and `context` are what the kernel passed to the running handler of `signal`.
    unsafe extern "C" fn handle(signal: i32, info: *const u8, context: *const u8);

    /// The same on a stack that was lent.
    ///
    /// # Safety
    /// As [`Self::handle`].
    unsafe extern "C" fn handle_apart(signal: i32, info: *const u8, context: *const u8);

    /// Lends a stack: its upper end, a multiple of 16. 0: none is free, and the signal is not handled.
    extern "C" fn lend() -> usize;

    /// Takes back the stack that ends at `top`. Nobody is on it any more.
    extern "C" fn give_back(top: usize);
}

/// Decides, in a handler, where it goes on.
pub trait Answer {
    /// Gets what the kernel passes to a handler; gives an address, or 0.
    ///
    /// # Safety
    /// `info` and `context` are what the kernel passed to the running handler of `signal`.
    unsafe extern "C" fn answer(signal: i32, info: *const u8, context: *const u8) -> usize;
}
