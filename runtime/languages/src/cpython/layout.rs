//! Where CPython keeps what we read: offsets in bytes, by minor version.
//!
//! They were compiled out of each version's own headers for builds without Py_DEBUG and Py_TRACE_REFS, and hold for all
//! releases of a minor version. [`super::find`] checks those that the interpreter publishes itself.

use crate::fields::Fields;

/// How the innermost frame is found from a thread's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstFrame {
    /// 3.8 to 3.10: `frame`, a PyFrameObject.
    Object {
        /// Offset in the thread's state.
        at: u64,
    },
    /// 3.11, 3.12: `cframe`, on the C stack, holds the current frame.
    ByCFrame {
        /// Offset in the thread's state.
        at: u64,
        /// Offset of the current frame in the CFrame.
        current: u64,
        /// Offset of the CFrame of the next outer bytecode loop.
        previous: u64,
    },
    /// 3.13: `current_frame`.
    Current {
        /// Offset in the thread's state.
        at: u64,
    },
}

/// How a frame says which instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// A 32-bit number of bytes from the code's start (3.8, 3.9) or of two-byte units (3.10).
    Index {
        /// Offset in the frame.
        at: u64,
        /// Bytes in a unit.
        scale: i64,
    },
    /// A pointer into the code.
    Pointer {
        /// Offset in the frame.
        at: u64,
    },
}

/// How many words a function's frames take on the thread's frame stack, from 3.11 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSize {
    /// 3.11: so many words for each frame, and two 32-bit numbers of the code: its variables, and its stack.
    Sum {
        /// Words of each frame before its variables.
        head: u64,
        /// Offset of the number of variables in the code.
        variables: u64,
        /// Offset of the largest number of values on its stack.
        stack: u64,
    },
    /// 3.12 and later: a 32-bit number of the code.
    Words {
        /// Offset in the code.
        at: u64,
    },
}

/// How frames tell which of them a call of the bytecode loop began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// 3.8 to 3.10: each frame has a call of its own.
    Each,
    /// 3.11: a flag in the outermost frame of a call.
    Flag {
        /// Offset in the frame.
        at: u64,
    },
    /// 3.12 and later: a frame that belongs to the C stack lies outside of each call's frames.
    Boundary,
}

/// Form of a code object's line table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineTable {
    /// 3.8, 3.9: `co_lnotab`.
    Lnotab,
    /// 3.10: `co_linetable` of pairs.
    Pairs,
    /// 3.11 and later: `co_linetable` of locations.
    Locations,
}

/// One minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The minor version: 8 for 3.8.
    pub minor: u8,
    /// `_PyRuntime`: the newest interpreter; the main one is named in the next word.
    pub interpreters: u64,
    /// `_PyRuntime`: {is initialised, key} of the thread-specific state.
    pub tss_key: u64,
    /// `_PyRuntime`: the state of the thread that holds the GIL, up to 3.11.
    pub current_state: Option<u64>,
    /// `_PyRuntime`: the state of the thread that ends the interpreter.
    pub finalizing: u64,
    /// Interpreter: the next one.
    pub next_interpreter: u64,
    /// Interpreter: its first thread's state.
    pub first_state: u64,
    /// Thread state: the next one of the interpreter.
    pub next_state: u64,
    /// Thread state: its interpreter.
    pub interpreter_of_state: u64,
    /// Thread state: `pthread_self` of its thread.
    pub thread_id: u64,
    /// Thread state: innermost frame.
    pub first: FirstFrame,
    /// Thread state: current chunk of the frame stack and its top, from 3.11 on.
    pub datastack: Option<(u64, u64)>,
    /// Code: how large its frames are, where frames lie on a stack of their own.
    pub frame_size: Option<FrameSize>,
    /// Frame: code object.
    pub code: u64,
    /// Frame: the next outer frame.
    pub previous: u64,
    /// Frame: instruction.
    pub instruction: Instruction,
    /// Frame: who owns it, from 3.11 on.
    pub owner: Option<u64>,
    /// Which frames began a call of the bytecode loop.
    pub entries: Entries,
    /// Code: file name.
    pub filename: u64,
    /// Code: name, with the class where the version has it (`co_qualname`, 3.11).
    pub name: u64,
    /// Code: line table.
    pub line_table: u64,
    /// Code: first line.
    pub first_line: u64,
    /// Code: a number that no two living code objects share, from 3.12 on; 0 in an object = none.
    pub version: Option<u64>,
    /// Code: bytecode, inside the object from 3.11 on.
    pub bytecode: u64,
    /// Text object: data of ASCII text, and of other text.
    pub text_data: (u64, u64),
    /// Form of the line table.
    pub lines: LineTable,
    /// What a walk reads; made of the above.
    pub read: Read,
}

/// Words that are read together, of each frame and each code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Frame: code, next outer frame, instruction, and the word with [`Read::owner_shift`] and [`Read::flag_shift`].
    pub frame: Fields<4>,
    /// How far the owner's octet is shifted in the frame's last word.
    pub owner_shift: u32,
    /// How far the octet of [`Entries::Flag`] is.
    pub flag_shift: u32,
    /// Code: its type, and two numbers of which [`FrameSize`] is made, in the lower halves.
    pub code: Fields<3>,
    /// Code with a version: that in the lower half, and the first line with what stands behind it.
    pub versioned: Fields<2>,
    /// Other code: file name, name, line table, and the first line in the lower half.
    pub names: Fields<4>,
}

/// Of layouts that are not complete.
const NOTHING: Read = Read {
    frame: Fields::new([0; 4]),
    owner_shift: 0,
    flag_shift: 0,
    code: Fields::new([0; 3]),
    versioned: Fields::new([0; 2]),
    names: Fields::new([0; 4]),
};

const V8: Layout = Layout {
    minor: 8,
    interpreters: 32,
    tss_key: 1392,
    current_state: Some(1368),
    finalizing: 16,
    next_interpreter: 0,
    first_state: 8,
    next_state: 8,
    interpreter_of_state: 16,
    thread_id: 176,
    first: FirstFrame::Object { at: 24 },
    datastack: None,
    frame_size: None,
    code: 32,
    previous: 24,
    instruction: Instruction::Index { at: 104, scale: 1 },
    owner: None,
    entries: Entries::Each,
    filename: 104,
    name: 112,
    line_table: 120,
    first_line: 40,
    version: None,
    bytecode: 48,
    text_data: (48, 72),
    lines: LineTable::Lnotab,
    read: NOTHING,
};

const V9: Layout = Layout { minor: 9, tss_key: 584, current_state: Some(568), ..V8 };

const V10: Layout =
    Layout { minor: 10, instruction: Instruction::Index { at: 96, scale: 2 }, lines: LineTable::Pairs, ..V9 };

const V11: Layout = Layout {
    minor: 11,
    interpreters: 40,
    tss_key: 592,
    current_state: Some(576),
    finalizing: 24,
    first_state: 16,
    thread_id: 152,
    first: FirstFrame::ByCFrame { at: 56, current: 8, previous: 16 },
    datastack: Some((296, 304)),
    frame_size: Some(FrameSize::Sum { head: 9, variables: 76, stack: 68 }),
    previous: 48,
    instruction: Instruction::Pointer { at: 56 },
    owner: Some(69),
    entries: Entries::Flag { at: 68 },
    filename: 112,
    name: 128,
    line_table: 136,
    first_line: 72,
    bytecode: 184,
    lines: LineTable::Locations,
    ..V10
};

const V12: Layout = Layout {
    minor: 12,
    tss_key: 1544,
    current_state: None,
    first_state: 72,
    thread_id: 136,
    first: FirstFrame::ByCFrame { at: 56, current: 0, previous: 8 },
    datastack: Some((232, 240)),
    frame_size: Some(FrameSize::Words { at: 76 }),
    code: 0,
    previous: 8,
    owner: Some(70),
    entries: Entries::Boundary,
    first_line: 68,
    version: Some(92),
    bytecode: 192,
    text_data: (40, 56),
    ..V11
};

const V13: Layout = Layout {
    minor: 13,
    interpreters: 632,
    tss_key: 2160,
    finalizing: 608,
    next_interpreter: 7264,
    first_state: 7344,
    thread_id: 152,
    first: FirstFrame::Current { at: 72 },
    bytecode: 200,
    ..V12
};

/// All versions that were tried.
pub const LAYOUTS: [Layout; 6] =
    [V8.complete(), V9.complete(), V10.complete(), V11.complete(), V12.complete(), V13.complete()];

/// Offset of the type in any object.
pub(super) const TYPE_OF_OBJECT: u64 = 8;

impl Layout {
    const fn complete(self) -> Layout {
        let (Instruction::Index { at: instruction, .. } | Instruction::Pointer { at: instruction }) =
            self.instruction;
        let owner = match self.owner {
            Some(at) => at,
            None => self.previous,
        };
        let word = owner & !7;
        let flag = match self.entries {
            Entries::Flag { at } => at,
            Entries::Each | Entries::Boundary => word,
        };
        let (one, other) = match self.frame_size {
            Some(FrameSize::Sum { variables, stack, .. }) => (variables, stack),
            Some(FrameSize::Words { at }) => (at, at),
            None => (TYPE_OF_OBJECT, TYPE_OF_OBJECT),
        };
        let version = match self.version {
            Some(at) => at,
            None => self.first_line,
        };
        let read = Read {
            frame: Fields::new([self.code, self.previous, instruction, word]),
            owner_shift: 8 * (owner - word) as u32,
            flag_shift: 8 * (flag - word) as u32,
            code: Fields::new([TYPE_OF_OBJECT, one, other]),
            versioned: Fields::new([version, self.first_line]),
            names: Fields::new([self.filename, self.name, self.line_table, self.first_line]),
        };
        Layout { read, ..self }
    }

    /// The layout of version 3.`minor`.
    #[must_use]
    pub fn for_minor(minor: u8) -> Option<&'static Layout> {
        LAYOUTS.iter().find(|layout| layout.minor == minor)
    }

    /// Offset in the bytecode of the code object at `code`, in bytes, of what a frame says of its instruction; `None`:
    /// before the first one.
    #[inline(always)]
    #[must_use]
    pub fn offset(&self, code: u64, instruction: u64) -> Option<u32> {
        let bytes = match self.instruction {
            Instruction::Index { scale, .. } => i64::from(instruction as u32 as i32) * scale,
            Instruction::Pointer { .. } => {
                instruction.wrapping_sub(code.wrapping_add(self.bytecode)).cast_signed()
            }
        };
        u32::try_from(bytes).ok()
    }
}

/// Can `address` be that of an object, a frame or a thread's state? Then no offset of a layout added to it overflows.
pub(super) const fn plausible(address: u64) -> bool {
    address & 7 == 0 && address > 4096 && address >> 47 == 0
}
