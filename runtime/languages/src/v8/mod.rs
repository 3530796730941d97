//! V8 10 to 13 (node 18 to 24) on 64-bit x86 Linux: the JavaScript functions of frames.
//!
//! ```text
//! layout    an image that defines v8dbg_ symbols       -> Layout, or the name of what is missing
//! builtins  the same image, when V8 is up              -> where V8's own machine code lies
//! object    a word of the heap                         -> a small integer, or an object and its type
//! function  a frame                                    -> the function that runs there, and its identity
//! scope     a function's ScopeInfo                     -> its name, and where it begins and ends in its source
//! text      a string of JavaScript                     -> its octets in UTF-8, its lines
//! find      an image that is mapped                    -> its layout, where its machine code lies and lies again
//! weave     native callers                             -> the same with functions in their places
//! facts     a function                                 -> what a recording is told of it
//! ```
//!
//! V8 keeps a chain of frame pointers, so that native walks go through its frames. What they do not know is which
//! function runs in one: the two words below the frame pointer say it. Each link from there to the function's name is
//! checked against the type that V8 gives the object there. Frames of functions that the compiler inlined are not on
//! the stack: their time is that of the function around them.
//!
//! Objects move, but only while their thread stands in the garbage collector. An object that has moved already has the
//! address of its copy in its first word.

pub mod builtins;
pub mod facts;
pub mod find;
pub mod function;
pub mod layout;
mod object;
pub mod scope;
pub mod text;
pub mod weave;

pub use function::Function;
pub use layout::{Layout, Refused};
pub use weave::Weaver;
