//! The function of a frame, and what the file is told of it.

use super::layout::Layout;
use super::object::{object, small, typed};
use super::scope::Scope;
use super::text::Text;
use crate::ThreadMemory;

/// How far below the frame pointer the context lies.
const CONTEXT: u64 = 8;
/// The same of the function.
const FUNCTION: u64 = 16;
const MIX: u64 = 0xd6e8_feb8_6659_fd93;

fn mix(sum: u64, word: u64) -> u64 {
    let x = (sum ^ word).wrapping_mul(MIX);
    x ^ x >> 32
}

/// A JavaScript function that has a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its `SharedFunctionInfo`.
    shared: u64,
    /// Its script.
    script: u64,
    script_id: u32,
}

impl Function {
    /// The function of the frame with this frame pointer, on the own stack. `None`: it has none, or one of V8's own.
    /// `is_sure`: that this is a frame of V8 is certain; otherwise it is asked whether what it leads to is mapped.
    #[inline]
    #[must_use]
    pub fn of_frame<M: ThreadMemory>(
        memory: &M,
        layout: &Layout,
        frame: u64,
        is_sure: bool,
    ) -> Option<Function> {
        // A frame of V8's own has a number there.
        object(memory.read_word(frame.checked_sub(CONTEXT)?)?)?;
        let word = memory.read_word(frame.checked_sub(FUNCTION)?)?;
        if !is_sure && !memory.look_again(object(word)?) {
            return None;
        }
        Function::new(memory, layout, word)
    }

    /// The function that a reference leads to.
    fn new<M: ThreadMemory>(memory: &M, layout: &Layout, word: u64) -> Option<Function> {
        let (function, kind) = typed(memory, layout, word)?;
        if !layout.is_function(kind) {
            return None;
        }
        let (shared, kind) = typed(memory, layout, memory.read_word(function + layout.function_shared)?)?;
        if kind != layout.shared_type {
            return None;
        }
        let (script, kind) = typed(memory, layout, memory.read_word(shared + layout.shared_script)?)?;
        if kind != layout.script_type {
            return None;
        }
        let script_id = small(memory.read_word(script + layout.script_id)?)?;
        Some(Function { shared, script, script_id })
    }

    /// A number that stands for the function while its objects stay where they are. `None`: it cannot be read.
    ///
    /// The address of its description is not enough: another function may be there later. Its number in its script and
    /// that script's number are, within one isolate. Another isolate, of a thread that began later, has the same
    /// numbers again, so the length of the source belongs to it.
    #[inline]
    #[must_use]
    pub fn identity<M: ThreadMemory>(&self, memory: &M, layout: &Layout) -> Option<u64> {
        let counts = memory.read_word(self.shared + layout.shared_counts)?;
        let number = memory.read_word(self.shared + layout.shared_flags)?;
        let source = self.source(memory, layout).map_or(0, |source| source.length);
        let script = u64::from(self.script_id) << 32 | u64::from(source);
        Some(mix(mix(mix(mix(MIX ^ 3, self.shared), script), counts), number))
    }

    /// Its name, and where it begins and ends in its source.
    #[must_use]
    pub fn scope<M: ThreadMemory>(&self, memory: &M, layout: &Layout) -> Option<Scope> {
        let word = memory.read_word(self.shared + layout.shared_name)?;
        Scope::from_word(memory, layout, word)
    }

    /// The number of its script.
    #[must_use]
    pub const fn script(&self) -> u32 {
        self.script_id
    }

    /// The text of its script.
    #[must_use]
    pub fn source<M: ThreadMemory>(&self, memory: &M, layout: &Layout) -> Option<Text> {
        Text::new(memory, layout, memory.read_word(self.script + layout.script_source)?)
    }

    /// The name of its script: a path, an address, or something like `node:fs`.
    #[must_use]
    pub fn file<M: ThreadMemory>(&self, memory: &M, layout: &Layout) -> Option<Text> {
        Text::new(memory, layout, memory.read_word(self.script + layout.script_name)?)
    }
}
