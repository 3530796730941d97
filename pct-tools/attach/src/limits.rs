//! Whether a static program's code may limit its own system calls: set a filter (seccomp), have them turned into
//! signals, or forbid itself to read the time stamp counter, which the sampler does.
//!
//! Inside a dynamic program the sampler redirects the calls by which that is done. A static program has no table of
//! such calls, and the next handler after the setting would be its end. So nothing is injected into one that may make
//! it: its text has the number of the system call `seccomp` ahead of the instruction or as an argument, or one of the
//! options of `prctl` beside the number of `prctl` or beside a call of the function that has this number. A program
//! that computes these numbers is not known.
//!
//! `examples/limits` judges files. Of 48 static programs (36 of them in Go, valgrind's tools, busybox) none looks so.
//! One of them has the number of `seccomp` without the instruction, as lengths and line numbers.

use memchr::memmem;

/// `mov $317, %eax`: the number of seccomp, for the instruction.
const SECCOMP: &[u8] = &[0xb8, 0x3d, 1, 0, 0];
/// `mov $317, %edi`: the same as an argument of the function `syscall`.
const SECCOMP_ARGUMENT: &[u8] = &[0xbf, 0x3d, 1, 0, 0];
/// `mov $157, %eax`: the number of prctl.
const PRCTL: &[u8] = &[0xb8, 0x9d, 0, 0, 0];
/// `syscall`
const INSTRUCTION: &[u8] = &[0x0f, 0x05];

/// PR_SET_SECCOMP, PR_SET_TSC, PR_SET_SYSCALL_USER_DISPATCH.
const OPTIONS: [u8; 3] = [22, 26, 59];
/// Octets between a call and the instruction that sets its number or its first argument.
const NEAR: usize = 48;
/// Octets of a function up to the number, and from there to the instruction.
const HEAD: u64 = 96;
const TAIL: usize = 24;

/// Octets of a program's code that are worth searching. (Go's compiler has 9 MB.)
pub const MOST_CODE: u64 = 128 << 20;

/// Whether code may make such a setting. `text` is the program's whole code, at most [`MOST_CODE`] of it.
pub fn may_be_set(text: &[u8]) -> bool {
    let enters =
        |at: usize, within| memmem::find(&text[at..text.len().min(at + within)], INSTRUCTION).is_some();
    if memmem::find(text, SECCOMP_ARGUMENT).is_some()
        || memmem::find_iter(text, SECCOMP).any(|at| enters(at, NEAR))
    {
        return true;
    }
    let numbers: Vec<usize> = memmem::find_iter(text, PRCTL).collect();
    let around = |at: usize| &text[at.saturating_sub(NEAR)..text.len().min(at + NEAR)];
    let is_beside = |at: &usize| options().any(|option| memmem::find(around(*at), &option).is_some());
    if numbers.iter().any(is_beside) {
        return true;
    }
    let functions: Vec<u64> = numbers.iter().filter(|at| enters(**at, TAIL)).map(|at| *at as u64).collect();
    let is_function = |target: u64| {
        functions.iter().any(|number| number.checked_sub(target).is_some_and(|head| head < HEAD))
    };
    !functions.is_empty()
        && options().any(|option| {
            memmem::find_iter(text, &option).any(|at| targets(text, at, at + NEAR).any(is_function))
        })
}

/// The instructions that set an option: `mov` to %edi (C) or %ebx (Go), and `push` and `pop` to %rdi (for size).
fn options() -> impl Iterator<Item = Vec<u8>> {
    OPTIONS.into_iter().flat_map(|option| {
        [vec![0xbf, option, 0, 0, 0], vec![0xbb, option, 0, 0, 0], vec![0x6a, option, 0x5f]]
    })
}

/// Where the octets `from..to` call or jump to, as offsets, if instructions begin anywhere.
fn targets(text: &[u8], from: usize, to: usize) -> impl Iterator<Item = u64> {
    let octets = text[from..text.len().min(to)].windows(5).zip(from as u64..);
    octets.filter_map(|(octets, at)| {
        let way = octets.strip_prefix(&[0xe8]).or_else(|| octets.strip_prefix(&[0xe9]))?;
        let way = i32::from_le_bytes(way.try_into().ok()?);
        (at + 5).checked_add_signed(i64::from(way))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 64 octets of nothing, a function `prctl` of this number, and a caller that sets %edi to `option`.
    fn program(number: u8, option: u8) -> Vec<u8> {
        let mut text = vec![0x90; 64];
        text.extend([0xf3, 0x0f, 0x1e, 0xfa, 0xb8, number, 0, 0, 0, 0x0f, 0x05, 0xc3]);
        text.extend([0x90; 200]);
        text.extend([0xbf, option, 0, 0, 0, 0x31, 0xc0, 0xe8]);
        let way = 64 - i32::try_from(text.len() + 4).unwrap();
        text.extend(way.to_le_bytes());
        text.extend([0xc3; 3]);
        text
    }

    #[test]
    fn a_call_of_prctl_with_such_an_option_is_seen_and_no_other() {
        for option in OPTIONS {
            assert!(may_be_set(&program(157, option)), "{option}");
            assert!(!may_be_set(&program(158, option)), "{option} of another call");
        }
        // PR_SET_NAME.
        assert!(!may_be_set(&program(157, 15)));
        // Another function's argument.
        let mut text = program(157, 22);
        let at = text.len() - 4;
        text[at - 1] ^= 1;
        assert!(!may_be_set(&text));
    }

    #[test]
    fn the_numbers_are_seen_beside_the_instruction() {
        for setter in [&[0xbf, 22, 0, 0, 0][..], &[0xbb, 59, 0, 0, 0], &[0x6a, 26, 0x5f]] {
            let text = [&[0x90; 9][..], setter, PRCTL, INSTRUCTION].concat();
            assert!(may_be_set(&text), "{setter:x?}");
            let far = [&[0x90; 9][..], setter, &[0x90; 99], PRCTL, INSTRUCTION].concat();
            assert!(!may_be_set(&far), "{setter:x?}");
        }
        assert!(may_be_set(&[&[0x90; 9], SECCOMP_ARGUMENT].concat()));
        assert!(may_be_set(&[&[0x90; 9], SECCOMP, &[0x90; 30], INSTRUCTION].concat()));
        assert!(!may_be_set(&[&[0x90; 9], SECCOMP, &[0x90; 99], INSTRUCTION].concat()), "another 317");
        assert!(!may_be_set(&[]));
    }

    proptest! {
        #[test]
        fn any_octets_are_searched(text: Vec<u8>) {
            let _ = may_be_set(&[&text[..], PRCTL, INSTRUCTION, &[0x90; 60], &[0xbf, 22, 0, 0, 0, 0xe8], &text].concat());
        }
    }
}
