//! CPython 3.8 to 3.13 on 64-bit Linux.
//!
//! ```text
//! find      an image that defines _PyRuntime and PyCode_Type   -> Interpreter (its layout checked, not believed)
//! thread    thread control block -> thread-specific data       -> the thread's state
//! chain     state -> frames, innermost first                   -> code object and offset, each checked before use
//! code      code object -> identity, name, file, line table
//! lines     line table and offset -> line
//! ```
//!
//! In reading order: [`layout`], [`find`], [`chain`], [`code`], [`lines`].

pub mod chain;
pub mod code;
pub mod find;
pub mod layout;
pub mod lines;

pub use chain::{Owner, PythonFrame, Standing, Torn, walk};
pub use code::{Identity, Text};
pub use find::{Interpreter, Refused, ThreadData, greenlet_code};
pub use layout::Layout;
