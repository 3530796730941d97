//! Where a thread was interrupted.

/// Registers of the interrupted thread that sampling and stack walking need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regs {
    /// Program counter.
    pub pc: u64,
    /// Address of the kernel's context, which lives until the handler returns; 0 = none.
    pub context: u64,
}

/// Whether this instruction stands before `pc`, as the kernel reads it.
pub(super) fn stands_before<const N: usize>(pc: u64, instruction: [u8; N]) -> bool {
    let mut found = [0; N];
    pct_unwind::os::copy(pc.wrapping_sub(N as u64), &mut found) && found == instruction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_found_where_code_may_be_read_and_nowhere_else() {
        let code = [0x90u8, 0x0f, 0x05, 0x90];
        let at = code.as_ptr().expose_provenance() as u64;
        assert!(stands_before(at + 3, [0x0f, 0x05]));
        assert!(!stands_before(at + 4, [0x0f, 0x05]));
        assert!(!stands_before(1, [0x0f, 0x05]) && !stands_before(4096, [0x0f, 0x05]));
    }
}
