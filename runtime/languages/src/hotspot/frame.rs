//! Frames of Java methods, and who receives them.

/// A frame of a Java method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JavaFrame {
    /// Address of the method.
    pub method: u64,
    /// Bytecode index; `None`: unknown, or a native method.
    pub bci: Option<u32>,
}

/// Receives frames, innermost first.
pub trait JavaFrames {
    /// Receives the next frame. False: it wants no more.
    fn push(&mut self, frame: JavaFrame) -> bool;

    /// The callers of the last frame are not on the stack but in the heap. False: it wants no more.
    fn push_heap(&mut self) -> bool;
}
