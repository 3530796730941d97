//! HotSpot 11 to 25 on 64-bit x86 Linux: Java frames, interpreted, compiled and inlined.
//!
//! ```text
//! tables    an image that defines gHotSpotVMStructs     -> the offsets that it publishes, by name
//! layout    offsets                                     -> Layout, or the name of what is missing
//! find      a layout and a virtual machine that is up   -> Jvm: heaps, codelets of the interpreter
//! heap      address in the code cache                   -> Blob: what that code is
//! compiled  blob and return address                     -> methods and bytecode indices, the inlined ones first
//! method    method                                      -> identity, names, file, line table
//! lines     line table and bytecode index               -> line
//! leaf      registers of the interrupted thread         -> its innermost frame
//! walk      return address, stack pointer, rbp          -> callers, up to where native code called Java
//! mixed     registers and native walks                  -> the whole stack, native and Java
//! facts     method                                      -> what a recording is told of it
//! ```
//!
//! Two things always hold. A link is shown only if it is proved ([`walk`]): old return addresses lie all over a stack,
//! and a guess would name a caller that never called. And every load goes through the given memory, which knows what is
//! mapped: HotSpot takes a fault of this thread for its own.
//!
//! In reading order: [`tables`], [`layout`], [`find`], [`heap`], [`code`], [`method`], [`compiled`], [`lines`],
//! [`walk`], [`leaf`], [`mod@mixed`], [`facts`].

pub mod code;
pub mod compiled;
pub mod facts;
pub mod find;
pub mod frame;
pub mod heap;
pub mod layout;
pub mod leaf;
pub mod lines;
pub mod method;
pub mod mixed;
pub mod tables;
pub mod walk;

/// Whether an object with this path may be a Java virtual machine, by its name.
#[must_use]
pub fn may_be_jvm(path: &[u8]) -> bool {
    path.ends_with(b"/libjvm.so")
}

pub use find::Jvm;
pub use frame::{JavaFrame, JavaFrames};
pub use layout::Refused;
pub use leaf::Registers;
pub use method::{Identity, Method};
pub use mixed::{JavaCodes, NativeWalks, StackWords};
pub use walk::{JavaEnd, Spot, Walker};
