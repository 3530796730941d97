//! Where V8's own machine code lies: the interpreter, and the functions of the language's library.
//!
//! It is one piece, called the embedded blob, which no unwind data describe. V8 exports two functions that load its
//! address and its size from variables; the variables have no names. So the variables are found by the one load that
//! such a function consists of.

use pct_elf::{Memory, Symbols};

/// Largest piece. V8 13 has 3 MB.
const LARGEST: u32 = 64 << 20;

/// Address and octets of V8's own machine code. `None`: it is not known, or V8 is not up yet.
#[must_use]
pub fn find<M: Memory>(memory: &M, symbols: &Symbols) -> Option<(u64, u64)> {
    let function = |name: &[u8]| symbols.find(memory, name).map(|symbol| symbol.address);
    let code = function(b"_ZN2v88internal7Isolate23CurrentEmbeddedBlobCodeEv")?;
    let size = function(b"_ZN2v88internal7Isolate27CurrentEmbeddedBlobCodeSizeEv")?;
    let start = memory.read_word(loaded(memory, code, &[0x48, 0x8b, 0x05])?)?;
    let octets = memory.half(loaded(memory, size, &[0x8b, 0x05])?)?;
    let is_there = start != 0 && octets > 0 && octets <= LARGEST && start >> 47 == 0;
    is_there.then_some((start, u64::from(octets)))
}

/// Address of the variable that a function loads: `load` is the instruction, of which the next four octets are the
/// distance from its end; a return follows.
fn loaded<M: Memory>(memory: &M, function: u64, load: &[u8]) -> Option<u64> {
    const FRAME: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];
    const BRANCH_TARGET: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let mut at = function;
    for prefix in [BRANCH_TARGET, FRAME] {
        if memory.bytes::<4>(at)? == prefix {
            at = at.checked_add(4)?;
        }
    }
    let mut found = [0; 4];
    let found = found.get_mut(..load.len())?;
    if !memory.copy(at, found) || found != load {
        return None;
    }
    let distance_at = at.checked_add(load.len() as u64)?;
    let distance = memory.half(distance_at)?.cast_signed();
    let next = distance_at.checked_add(4)?;
    // Perhaps behind the end of the frame.
    let [first, second] = memory.bytes::<2>(next)?;
    let returns = first == 0xc3 || first == 0x5d && second == 0xc3;
    if returns { next.checked_add_signed(i64::from(distance)) } else { None }
}
