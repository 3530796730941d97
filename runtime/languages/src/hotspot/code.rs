//! The few machine instructions that a walk must know: calls before return addresses, and how frames begin and end.

use pct_elf::Memory;

/// A call instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// To this address.
    Direct(u64),
    /// Through a register or memory.
    Indirect,
}

/// The call instruction that ends at an address. `None`: no call ends there.
#[must_use]
pub fn call_before<M: Memory>(memory: &M, pc: u64) -> Option<Call> {
    let [.., a7, a6, a5, a4, a3, a2, a1] = memory.bytes::<8>(pc.checked_sub(8)?)?;
    if a5 == 0xe8 {
        let distance = i32::from_le_bytes([a4, a3, a2, a1]);
        return Some(Call::Direct(pc.wrapping_add_signed(i64::from(distance))));
    }
    // ff /2: the middle three bits of the octet behind it are 2.
    let is_call = |modrm: u8| modrm & 0x38 == 0x10;
    let (mode, register) = (|modrm: u8| modrm >> 6, |modrm: u8| modrm & 7);
    let through_register =
        a2 == 0xff && is_call(a1) && (mode(a1) == 3 || mode(a1) == 0 && !matches!(register(a1), 4 | 5));
    let short = a3 == 0xff
        && is_call(a2)
        && (mode(a2) == 1 && register(a2) != 4 || mode(a2) == 0 && register(a2) == 4);
    let short_indexed = a4 == 0xff && is_call(a3) && mode(a3) == 1 && register(a3) == 4;
    let long = a6 == 0xff
        && is_call(a5)
        && (mode(a5) == 2 && register(a5) != 4 || mode(a5) == 0 && register(a5) == 5);
    let long_indexed = a7 == 0xff && is_call(a6) && mode(a6) == 2 && register(a6) == 4;
    (through_register || short || short_indexed || long || long_indexed).then_some(Call::Indirect)
}

/// Where the interrupted instruction stands in the life of its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The return address is at the stack pointer, and rbp is the caller's.
    Bare,
    /// rbp was pushed: the return address is behind it.
    Pushed,
    /// The frame has its size, but rbp is still to be stored in it.
    Unsaved,
    /// The frame is complete.
    Full,
}

/// Octets before and from an address.
struct Around<'a> {
    octets: &'a [u8; 2 * REACH],
}

const REACH: usize = 16;

impl Around<'_> {
    fn here(&self, pattern: &[u8]) -> bool {
        self.octets.get(REACH..).is_some_and(|rest| rest.starts_with(pattern))
    }

    fn behind(&self, skipped: usize, pattern: &[u8]) -> bool {
        self.octets.get(REACH + skipped..).is_some_and(|rest| rest.starts_with(pattern))
    }

    fn before(&self, distance: usize, pattern: &[u8]) -> bool {
        REACH
            .checked_sub(distance)
            .and_then(|at| self.octets.get(at..))
            .is_some_and(|rest| rest.starts_with(pattern))
    }
}

const SUB_SHORT: [u8; 3] = [0x48, 0x83, 0xec];
const SUB_LONG: [u8; 3] = [0x48, 0x81, 0xec];
const MOVE_FRAME: [[u8; 3]; 2] = [[0x48, 0x8b, 0xec], [0x48, 0x89, 0xe5]];
const SAVE_SHORT: [u8; 4] = [0x48, 0x89, 0x6c, 0x24];
const SAVE_LONG: [u8; 4] = [0x48, 0x89, 0xac, 0x24];

/// Octets of a method's beginning in which its frame is made.
const PROLOGUE: usize = 128;

/// The stage at `pc` in compiled code that begins at `begin` and whose frame is complete behind `complete` octets.
#[must_use]
pub fn stage<M: Memory>(memory: &M, pc: u64, begin: u64, complete: u64) -> Option<Stage> {
    let octets = memory.bytes::<{ 2 * REACH }>(pc.checked_sub(REACH as u64)?)?;
    let around = Around { octets: &octets };
    let offset = pc.checked_sub(begin)?;
    if offset < complete.min(PROLOGUE as u64)
        && let Some(stage) = prologue(memory, begin, offset, complete)
    {
        return Some(stage);
    }
    // A second beginning: code that is entered in the middle of a loop.
    let subs = |skipped| around.behind(skipped, &SUB_SHORT) || around.behind(skipped, &SUB_LONG);
    let moves = |skipped| MOVE_FRAME.iter().any(|code| around.behind(skipped, code));
    if around.here(&[0x55]) && (subs(1) || moves(1)) {
        return Some(Stage::Bare);
    }
    if around.before(1, &[0x55]) && (subs(0) || moves(0)) {
        return Some(Stage::Pushed);
    }
    let saves = |skipped| around.behind(skipped, &SAVE_SHORT) || around.behind(skipped, &SAVE_LONG);
    if around.here(&SUB_SHORT) && saves(4) || around.here(&SUB_LONG) && saves(7) {
        return Some(Stage::Bare);
    }
    if saves(0) && (around.before(4, &SUB_SHORT) || around.before(7, &SUB_LONG)) {
        return Some(Stage::Unsaved);
    }
    Some(ending(&around).unwrap_or(Stage::Full))
}

/// The stage at the end of a method. `None`: it is not the end.
fn ending(around: &Around<'_>) -> Option<Stage> {
    // pop rbp
    if around.here(&[0x5d]) {
        return Some(Stage::Pushed);
    }
    // ret
    if around.here(&[0xc3]) || around.here(&[0xc2]) {
        return Some(Stage::Bare);
    }
    // cmp rsp, [r15 + n]: asked before returning, since 17.
    if around.here(&[0x49, 0x3b, 0xa7]) || around.here(&[0x49, 0x3b, 0x67]) {
        return Some(Stage::Bare);
    }
    // ja behind it
    let after_poll = around.before(7, &[0x49, 0x3b, 0xa7]) || around.before(4, &[0x49, 0x3b, 0x67]);
    if around.here(&[0x0f, 0x87]) && after_poll {
        return Some(Stage::Bare);
    }
    // mov r10, [r15 + n]; test [r10], eax; ret: the same before 17.
    let tests = |skipped| around.behind(skipped, &[0x41, 0x85, 0x02, 0xc3]);
    if around.here(&[0x4d, 0x8b, 0x97]) && tests(7)
        || around.here(&[0x4d, 0x8b, 0x57]) && tests(4)
        || tests(0)
    {
        return Some(Stage::Bare);
    }
    None
}

/// The stage in the first octets of a method. `None`: the frame is complete, or nothing says how it is made.
fn prologue<M: Memory>(memory: &M, begin: u64, offset: u64, complete: u64) -> Option<Stage> {
    let mut octets = [0; PROLOGUE];
    let length = usize::try_from(complete).ok()?.min(PROLOGUE);
    let octets = octets.get_mut(..length)?;
    if !memory.copy(begin, octets) {
        return None;
    }
    let offset = usize::try_from(offset).ok()?;
    let rest = |at: usize| octets.get(at..).unwrap_or(&[]);
    for at in 0..length {
        let pushes = rest(at).first() == Some(&0x55);
        let frame = rest(at + 1);
        let makes = frame.starts_with(&SUB_SHORT)
            || frame.starts_with(&SUB_LONG)
            || MOVE_FRAME.iter().any(|code| frame.starts_with(code));
        if pushes && makes {
            return match offset.checked_sub(at) {
                None | Some(0) => Some(Stage::Bare),
                Some(1) => Some(Stage::Pushed),
                Some(_) => None,
            };
        }
        let sub = match rest(at) {
            code if code.starts_with(&SUB_SHORT) => 4,
            code if code.starts_with(&SUB_LONG) => 7,
            _ => continue,
        };
        if rest(at + sub).starts_with(&SAVE_SHORT) || rest(at + sub).starts_with(&SAVE_LONG) {
            return match offset.checked_sub(at) {
                None | Some(0) => Some(Stage::Bare),
                Some(passed) if passed == sub => Some(Stage::Unsaved),
                Some(_) => None,
            };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_elf::BytesAt;

    fn call(octets: [u8; 8]) -> Option<Call> {
        call_before(&BytesAt { at: 0x1000, bytes: &octets }, 0x1008)
    }

    #[test]
    fn calls_of_each_form_are_known_and_nothing_else_is() {
        assert_eq!(call([0x90, 0x90, 0x90, 0xe8, 0x10, 0, 0, 0]), Some(Call::Direct(0x1018)));
        assert_eq!(call([0x90, 0x90, 0x90, 0xe8, 0xf0, 0xff, 0xff, 0xff]), Some(Call::Direct(0xff8)));
        for indirect in [
            [0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0],
            [0x90, 0x90, 0x90, 0x90, 0x90, 0x41, 0xff, 0xd2],
            [0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0x50, 0x08],
            [0x90, 0x90, 0xff, 0x90, 0x10, 0, 0, 0],
            [0x90, 0x90, 0xff, 0x15, 0x10, 0, 0, 0],
        ] {
            assert_eq!(call(indirect), Some(Call::Indirect), "{indirect:x?}");
        }
        for other in [[0x90; 8], [0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xe0]] {
            assert_eq!(call(other), None, "{other:x?}");
        }
    }

    /// mov [rsp-0x14000], eax; push rbp; sub rsp, 16; body (nop x 40); add rsp, 16; pop rbp; poll; ja; ret
    const METHOD: &[u8] = &[
        0x89, 0x84, 0x24, 0, 0xc0, 0xfe, 0xff, 0x55, 0x48, 0x83, 0xec, 0x10, 0x90, 0x90, 0x90, 0x90, 0x90,
        0x90, 0x90, 0x90, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0x49, 0x3b, 0xa7, 0x40, 0x3, 0, 0, 0x0f, 0x87, 1, 0,
        0, 0, 0xc3,
    ];

    fn stages(code: &[u8], complete: u64, at: &[u64]) -> [Option<Stage>; 8] {
        let mut bytes = [0x90; 128];
        bytes[32..32 + code.len()].copy_from_slice(code);
        let memory = BytesAt { at: 0x1000, bytes: &bytes };
        core::array::from_fn(|i| at.get(i).and_then(|at| stage(&memory, 0x1020 + at, 0x1020, complete)))
    }

    #[test]
    fn the_life_of_a_frame_is_told_by_its_instructions() {
        use Stage::{Bare, Full, Pushed};
        let known = stages(METHOD, 12, &[0, 7, 8, 12, 20, 24, 25, 32]);
        assert_eq!(known, [Bare, Bare, Pushed, Full, Full, Pushed, Bare, Bare].map(Some));
        assert_eq!(stages(METHOD, 12, &[38])[0], Some(Bare));
        // An entry in the middle: nothing is known of it but the code itself.
        assert_eq!(stages(METHOD, 0, &[7, 8])[..2], [Some(Bare), Some(Pushed)]);
    }

    #[test]
    fn a_frame_made_without_a_push_has_a_stage_of_its_own() {
        // sub rsp, 24; mov [rsp + 16], rbp
        let code = [0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x6c, 0x24, 0x10, 0x90];
        assert_eq!(stages(&code, 9, &[0, 4, 9])[..3], [Stage::Bare, Stage::Unsaved, Stage::Full].map(Some));
        assert_eq!(stages(&code, 0, &[0, 4, 9])[..3], [Stage::Bare, Stage::Unsaved, Stage::Full].map(Some));
    }
}
