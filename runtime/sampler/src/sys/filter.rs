//! Filters on system calls (seccomp): what a filter that the program is about to install will say to our calls.
//!
//! Under a filter our handlers make one system call only, the return from the signal. If the filter refuses
//! that call, each of our signals would end the program, so sampling must end before the filter is set. A
//! filter is a small program of the classic BPF machine,
//! which only jumps forward. It is run here with the numbers of our calls.
//!
//! Signal safety: arithmetic and reads of the program's memory; [`of_program`] makes a system call for each page.

use super::{call, nr};

/// One instruction, as the kernel has it (`struct sock_filter`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    operand: u32,
}

/// What a filter says to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It is made.
    Made,
    /// It fails with an error number.
    Fails,
    /// The process or the thread is killed, trapped, or somebody else is asked.
    Ends,
    /// That depends on its arguments or on the place of the call, or the kernel will not take the filter.
    Unknown,
}

/// What a filter means for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Handlers may return, whatever they are called with.
    pub handlers_return: bool,
    /// None of the calls of a start ends a process: what forbids them gives an error.
    pub starts_are_safe: bool,
    /// Programs may be executed.
    pub lets_execute: bool,
}

/// Fields of `struct seccomp_data`, in words of 32 bits.
const NUMBER_AT: u32 = 0;
const MACHINE_AT: u32 = 4;
const DATA_BYTES: u32 = 64;
#[cfg(target_arch = "x86_64")]
const MACHINE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const MACHINE: u32 = 0xc000_00b7;
#[cfg(target_arch = "x86_64")]
const EXECVE: usize = 59;
#[cfg(target_arch = "aarch64")]
const EXECVE: usize = 221;
/// The kernel takes no longer ones.
const MOST_INSTRUCTIONS: usize = 4096;

/// The verdict on a filter.
#[must_use]
pub fn judge(filter: &[Instruction]) -> Verdict {
    let harmless = |number: &usize| {
        // (A filter may let a call pass by its arguments: ours are not all known, so two of each kind are tried.)
        [0, u32::MAX].into_iter().all(|arguments| answer(filter, *number, Some(arguments)) != Answer::Ends)
    };
    Verdict {
        handlers_return: answer(filter, nr::RT_SIGRETURN, None) == Answer::Made,
        starts_are_safe: nr::ALL.iter().all(harmless),
        lets_execute: harmless(&EXECVE),
    }
}

/// Runs a filter for a call. `arguments`: each word of the arguments and of the place; `None`: a filter that looks is
/// not to be known.
fn answer(filter: &[Instruction], number: usize, arguments: Option<u32>) -> Answer {
    const ACTION: u32 = 0xffff_0000;
    let Some(said) = run(filter, number as u32, arguments) else { return Answer::Unknown };
    match said & ACTION {
        // SECCOMP_RET_ALLOW, _LOG
        0x7fff_0000 | 0x7ffc_0000 => Answer::Made,
        // SECCOMP_RET_ERRNO, and _TRACE where nobody traces
        0x0005_0000 | 0x7ff0_0000 => Answer::Fails,
        _ => Answer::Ends,
    }
}

/// What the filter returns. `None`: it looks at what is not known, or is one that the kernel refuses.
fn run(filter: &[Instruction], number: u32, arguments: Option<u32>) -> Option<u32> {
    let (mut a, mut x) = (0u32, 0u32);
    let mut memory = [0u32; 16];
    let mut at = 0usize;
    // Jumps go forward only, so no instruction is met twice.
    loop {
        let Instruction { code, if_true, if_false, operand: k } = *filter.get(at)?;
        at += 1;
        // BPF_SRC: the operand, or the register X.
        let source = if code & 0x08 == 0 { k } else { x };
        match code {
            // BPF_LD | BPF_W | BPF_ABS
            0x20 => {
                a = match k {
                    NUMBER_AT => number,
                    MACHINE_AT => MACHINE,
                    k if k < DATA_BYTES && k.is_multiple_of(4) => arguments?,
                    _ => return None,
                }
            }
            // BPF_LD, BPF_LDX with BPF_IMM, BPF_LEN, BPF_MEM
            0x00 => a = k,
            0x01 => x = k,
            0x80 => a = DATA_BYTES,
            0x81 => x = DATA_BYTES,
            0x60 => a = *memory.get(k as usize)?,
            0x61 => x = *memory.get(k as usize)?,
            // BPF_ST, BPF_STX
            0x02 => *memory.get_mut(k as usize)? = a,
            0x03 => *memory.get_mut(k as usize)? = x,
            // BPF_ALU
            0x04 | 0x0c => a = a.wrapping_add(source),
            0x14 | 0x1c => a = a.wrapping_sub(source),
            0x24 | 0x2c => a = a.wrapping_mul(source),
            // A division by zero ends the filter with 0: kill.
            0x34 | 0x3c => match a.checked_div(source) {
                Some(quotient) => a = quotient,
                None => return Some(0),
            },
            0x44 | 0x4c => a |= source,
            0x54 | 0x5c => a &= source,
            0x64 | 0x6c => a = a.wrapping_shl(source),
            0x74 | 0x7c => a = a.wrapping_shr(source),
            0x84 => a = a.wrapping_neg(),
            0xa4 | 0xac => a ^= source,
            // BPF_JMP: always, if equal, greater, greater or equal, with a common bit
            0x05 => at += k as usize,
            0x15 | 0x1d => at += usize::from(if a == source { if_true } else { if_false }),
            0x25 | 0x2d => at += usize::from(if a > source { if_true } else { if_false }),
            0x35 | 0x3d => at += usize::from(if a >= source { if_true } else { if_false }),
            0x45 | 0x4d => at += usize::from(if a & source != 0 { if_true } else { if_false }),
            // BPF_RET of the operand, of A
            0x06 => return Some(k),
            0x16 => return Some(a),
            // BPF_MISC: X = A, A = X
            0x07 => x = a,
            0x87 => a = x,
            _ => return None,
        }
    }
}

/// The verdict on the filter at `program` (`struct sock_fprog`), which the caller is about to hand to the kernel.
/// `None`: the kernel will refuse it, since there is no filter that could be read.
#[must_use]
pub fn of_program(program: usize) -> Option<Verdict> {
    if !is_readable(program, 16) {
        return None;
    }
    // SAFETY: readable, as the kernel has just said; whoever passes it on keeps it there meanwhile.
    let [length, at] = unsafe { (program as *const [usize; 2]).read_unaligned() };
    let length = length & 0xffff;
    let bytes = length * size_of::<Instruction>();
    if !(1..=MOST_INSTRUCTIONS).contains(&length) || !is_readable(at, bytes) {
        return None;
    }
    if !at.is_multiple_of(align_of::<Instruction>()) {
        return Some(Verdict { handlers_return: false, starts_are_safe: false, lets_execute: true });
    }
    // SAFETY: as above; any bits are an instruction, and the address is a multiple of its alignment.
    Some(judge(unsafe { core::slice::from_raw_parts(at as *const Instruction, length) }))
}

/// Whether the kernel can read all of this memory. It reads a signal set before it looks at what is to be done with it.
fn is_readable(at: usize, bytes: usize) -> bool {
    const NO_SUCH_WAY: usize = 99;
    const EINVAL: isize = 22;
    const PAGE: usize = 4096;
    let Some(last) = at.checked_add(bytes).and_then(|end| end.checked_sub(8)).filter(|last| *last >= at)
    else {
        return false;
    };
    let pages = (at & !(PAGE - 1)..=last).step_by(PAGE).map(|page| page.max(at));
    pages.chain([last]).all(|word| {
        // SAFETY: the kernel reads 8 bytes if they are there, and changes nothing for want of a way.
        let result = unsafe { call(nr::RT_SIGPROCMASK, [NO_SUCH_WAY, word, 0, 8, 0, 0]) };
        result == -EINVAL
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0001;
    const KILL: u32 = 0x8000_0000;

    fn load(at: u32) -> Instruction {
        Instruction { code: 0x20, operand: at, ..Instruction::default() }
    }

    fn returns(what: u32) -> Instruction {
        Instruction { code: 0x06, operand: what, ..Instruction::default() }
    }

    fn jump(code: u16, operand: u32, if_true: u8, if_false: u8) -> Instruction {
        Instruction { code, if_true, if_false, operand }
    }

    /// Allows these calls, and answers `other` to the rest.
    fn only(calls: &[usize], other: u32) -> Vec<Instruction> {
        let mut filter = vec![load(NUMBER_AT)];
        for number in calls {
            filter.extend([jump(0x15, *number as u32, 0, 1), returns(ALLOW)]);
        }
        filter.push(returns(other));
        filter
    }

    #[test]
    fn a_filter_without_the_return_from_handlers_is_told() {
        assert!(!judge(&only(&[nr::WRITE], KILL)).handlers_return);
        assert!(judge(&only(&[nr::WRITE, nr::RT_SIGRETURN], KILL)).handlers_return);
        // An error leaves the handler without a way back, too.
        assert!(!judge(&only(&[nr::WRITE], ERRNO)).handlers_return);
        assert!(judge(&[returns(ALLOW)]).handlers_return);
    }

    #[test]
    fn starts_are_safe_where_what_is_forbidden_only_fails() {
        assert!(judge(&only(&[nr::RT_SIGRETURN], ERRNO)).starts_are_safe);
        assert!(!judge(&only(&[nr::RT_SIGRETURN], KILL)).starts_are_safe);
        let mut all = nr::ALL.to_vec();
        assert!(judge(&only(&all, KILL)).starts_are_safe);
        all.retain(|n| *n != nr::PERF_EVENT_OPEN);
        assert!(!judge(&only(&all, KILL)).starts_are_safe);
    }

    #[test]
    fn another_machine_is_not_ours() {
        // if (arch != OTHER) return KILL;
        let filter = [load(MACHINE_AT), jump(0x15, 0x4000_0003, 1, 0), returns(KILL), returns(ALLOW)];
        assert!(!judge(&filter).handlers_return && !judge(&filter).lets_execute);
        let filter = [load(MACHINE_AT), jump(0x15, MACHINE, 1, 0), returns(KILL), returns(ALLOW)];
        let all = Verdict { handlers_return: true, starts_are_safe: true, lets_execute: true };
        assert_eq!(judge(&filter), all);
    }

    #[test]
    fn who_looks_at_arguments_is_not_known() {
        let filter = [load(16), jump(0x15, 7, 0, 1), returns(KILL), returns(ALLOW)];
        assert!(!judge(&filter).handlers_return);
        assert!(judge(&filter).starts_are_safe);
        let refuses_zero = [load(16), jump(0x15, 0, 0, 1), returns(KILL), returns(ALLOW)];
        assert!(!judge(&refuses_zero).starts_are_safe);
    }

    #[test]
    fn arithmetic_is_that_of_the_machine() {
        // A = ((number + 5) & 0xff) << 1, by way of X and a word of memory; returned as an answer
        let filter = [
            load(NUMBER_AT),
            jump(0x04, 5, 0, 0),
            jump(0x54, 0xff, 0, 0),
            jump(0x02, 3, 0, 0),
            jump(0x61, 3, 0, 0),
            jump(0x87, 0, 0, 0),
            jump(0x64, 1, 0, 0),
            jump(0x16, 0, 0, 0),
        ];
        assert_eq!(run(&filter, 300, None), Some((305 & 0xff) << 1));
        assert_eq!(run(&[jump(0x01, 0, 0, 0), jump(0x3c, 0, 0, 0)], 1, None), Some(0));
    }

    #[test]
    fn bad_programs_end() {
        assert_eq!(run(&[], 1, Some(0)), None);
        assert_eq!(run(&[jump(0x05, u32::MAX, 0, 0), returns(ALLOW)], 1, Some(0)), None);
        assert_eq!(run(&[load(2)], 1, Some(0)), None);
        assert_eq!(run(&[load(64)], 1, Some(0)), None);
        assert_eq!(run(&[jump(0x60, 16, 0, 0)], 1, Some(0)), None);
        assert_eq!(run(&[jump(0xffff, 0, 0, 0)], 1, Some(0)), None);
        let mut dice = 88_172_645_463_325_252u64;
        for _ in 0..20_000 {
            let filter: Vec<Instruction> = (0..8)
                .map(|_| {
                    dice ^= dice << 13;
                    dice ^= dice >> 7;
                    dice ^= dice << 17;
                    jump((dice & 0xbf) as u16, (dice >> 32) as u32 & 0x3f, (dice >> 8) as u8 & 7, 1)
                })
                .collect();
            let _ = judge(&filter);
        }
    }

    #[test]
    fn filters_are_read_from_where_the_program_has_them() {
        let filter = only(&[nr::WRITE], KILL);
        let program = [filter.len(), filter.as_ptr() as usize];
        assert_eq!(of_program(program.as_ptr() as usize), Some(judge(&filter)));
        assert_eq!(of_program(0), None);
        assert_eq!(of_program(8), None);
        assert_eq!(of_program(usize::MAX - 3), None);
        assert_eq!(of_program([filter.len(), 16].as_ptr() as usize), None);
        assert_eq!(of_program([0, filter.as_ptr() as usize].as_ptr() as usize), None);
        assert_eq!(of_program([4097, filter.as_ptr() as usize].as_ptr() as usize), None);
    }

    #[test]
    fn memory_is_readable_up_to_its_end() {
        let at = super::super::reserve(8192).expect("addresses") as usize;
        assert!(!is_readable(at, 16));
        // SAFETY: the first page of what was reserved.
        unsafe { super::super::map_memory_over(at as *mut u8, 4096) }.expect("a page");
        assert!(is_readable(at, 4096));
        assert!(is_readable(at + 4080, 16));
        assert!(!is_readable(at + 4081, 16));
        assert!(!is_readable(at, 4097));
        // SAFETY: nobody uses it any more.
        unsafe { super::super::unmap(at as *mut u8, 8192) };
    }
}
