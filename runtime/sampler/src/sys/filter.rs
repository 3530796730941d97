//! Filters on system calls (seccomp): what a filter that the program is about to install will say to our calls.
//!
//! A filter is a small program of the classic BPF machine ([`super::bpf`]), which only jumps forward. It is run here
//! with the numbers of our calls, on all ways that it may take: what it reads beside the number (arguments, the place
//! of the call) is not known, and where it decides by that it is run on both ways.
//!
//! If the filter lets our calls pass, sampling goes on as before; some may also fail with an error. Otherwise our
//! handlers make one system call only, the return from the signal. If the filter refuses that call too,
//! each of our signals would end the program, so sampling must end before the filter is set.
//!
//! Signal safety: arithmetic and reads of the program's memory; [`of_program`] makes a system call for each page.

use super::bpf::{Instruction, each_end};
use super::{call, nr};

/// What a filter may say to a call, by all ways that it may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answers {
    /// It is made.
    made: bool,
    /// It fails with an error number.
    fails: bool,
    /// The process or the thread is killed, trapped, or somebody else is asked; or the call seems to be made. Or the
    /// filter is one that the kernel refuses, or has more ways than are looked at.
    ends: bool,
}

/// What a filter means for us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Handlers may return, whatever they are called with.
    pub handlers_return: bool,
    /// None of our calls ends the program, and none fails but those that may ([`MAY_FAIL`]).
    pub calls_are_safe: bool,
    /// A process may ask for its own number.
    pub pid_may_be_asked: bool,
    /// Clocks may be stopped.
    pub clocks_may_be_stopped: bool,
    /// None of the calls of a start ends a process: what forbids them gives an error.
    pub starts_are_safe: bool,
    /// Programs may be executed.
    pub lets_execute: bool,
}

/// Those of our calls that may fail, because they do so for other reasons too: there is a way without them, or the
/// report says what could not be done.
const MAY_FAIL: &[usize] = &[
    nr::CLONE,
    nr::FALLOCATE,
    nr::FCHMOD,
    nr::FCHMODAT,
    nr::GETDENTS64,
    nr::GET_ROBUST_LIST,
    nr::MKDIRAT,
    nr::NEWFSTATAT,
    nr::OPENAT,
    nr::PERF_EVENT_OPEN,
    nr::PERSONALITY,
    nr::PRLIMIT64,
    nr::READLINKAT,
    nr::UNLINKAT,
];

#[cfg(target_arch = "x86_64")]
const EXECVE: usize = 59;
#[cfg(target_arch = "aarch64")]
const EXECVE: usize = 221;
/// The kernel takes no longer ones.
const MOST_INSTRUCTIONS: usize = 4096;

/// What [`crate::process::threads::disarm_all`] calls.
const STOPS_CLOCKS: &[usize] = &[nr::MMAP, nr::MUNMAP, nr::SCHED_YIELD, nr::SETITIMER, nr::TIMER_DELETE];

/// The verdict on a filter.
#[must_use]
pub fn judge(filter: &[Instruction]) -> Verdict {
    let harmless = |number: &usize| {
        // (A filter may let a call pass by its arguments: ours are not all known, so two of each kind are tried.)
        [0, u32::MAX].into_iter().all(|arguments| !answers(filter, *number, Some(arguments)).ends)
    };
    let ours = || nr::ALL.iter().chain(pct_unwind::os::CALLS);
    let safe = |number: &usize| {
        let Answers { fails, ends, .. } = answers(filter, *number, None);
        !ends && (!fails || MAY_FAIL.contains(number))
    };
    let made = Answers { made: true, ..Answers::default() };
    Verdict {
        handlers_return: answers(filter, nr::RT_SIGRETURN, None) == made,
        calls_are_safe: ours().all(safe),
        pid_may_be_asked: answers(filter, nr::GETPID, None) == made,
        clocks_may_be_stopped: STOPS_CLOCKS.iter().all(|number| answers(filter, *number, None) == made),
        starts_are_safe: ours().all(harmless),
        lets_execute: harmless(&EXECVE),
    }
}

/// Runs a filter for a call. `arguments`: each word of the arguments and of the place; `None`: not known.
fn answers(filter: &[Instruction], number: usize, arguments: Option<u32>) -> Answers {
    const ACTION: u32 = 0xffff_0000;
    /// The call is not made and seems to have been: nobody expects that.
    const NO_ERROR: u32 = 0x0005_0000;
    let mut answers = Answers::default();
    let all_known = each_end(filter, number as u32, arguments, |said| match said & ACTION {
        // SECCOMP_RET_ALLOW, _LOG
        0x7fff_0000 | 0x7ffc_0000 => answers.made = true,
        // SECCOMP_RET_ERRNO, and _TRACE where nobody traces
        0x0005_0000 | 0x7ff0_0000 if said != NO_ERROR => answers.fails = true,
        _ => answers.ends = true,
    });
    Answers { ends: answers.ends || !all_known, ..answers }
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
        return Some(Verdict { lets_execute: true, ..Verdict::default() });
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
    use crate::sys::bpf::testing::{jump, load, returns};
    use crate::sys::bpf::{MACHINE, MACHINE_AT, MOST_OTHERS, NUMBER_AT};

    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0001;
    const KILL: u32 = 0x8000_0000;

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

    /// The numbers of all our calls but these.
    fn without(forbidden: &[usize]) -> Vec<usize> {
        let ours = nr::ALL.iter().chain(pct_unwind::os::CALLS).copied();
        ours.filter(|number| !forbidden.contains(number)).collect()
    }

    #[test]
    fn calls_are_safe_where_nothing_of_ours_ends_the_program_and_only_what_may_fail_does() {
        assert!(judge(&[returns(ALLOW)]).calls_are_safe);
        for number in without(&[]) {
            assert!(!judge(&only(&without(&[number]), KILL)).calls_are_safe, "{number}");
            let may_fail = MAY_FAIL.contains(&number);
            assert_eq!(judge(&only(&without(&[number]), ERRNO)).calls_are_safe, may_fail, "{number}");
        }
        assert!(judge(&only(&without(MAY_FAIL), ERRNO)).calls_are_safe);
        assert!(!judge(&only(&without(&[nr::GETPID]), ERRNO)).pid_may_be_asked);
        assert!(judge(&only(&[nr::GETPID], KILL)).pid_may_be_asked);
        assert!(judge(&only(STOPS_CLOCKS, KILL)).clocks_may_be_stopped);
        for number in STOPS_CLOCKS {
            assert!(!judge(&only(&without(&[*number]), KILL)).clocks_may_be_stopped, "{number}");
        }
        let seems_made = judge(&only(&without(&[nr::OPENAT]), ERRNO & 0xffff_0000));
        assert!(!seems_made.calls_are_safe && !seems_made.starts_are_safe);
    }

    #[test]
    fn a_filter_that_decides_by_arguments_is_run_on_both_ways() {
        // A call with two arguments of some value gets one answer, all others get `other`.
        let by_arguments = |number: usize, answer: u32, other: u32| {
            let (first, second) = (16, 24);
            vec![
                load(NUMBER_AT),
                jump(0x15, number as u32, 0, 5),
                load(first),
                jump(0x45, 0x1000_0000, 0, 3),
                load(second),
                jump(0x15, 7, 0, 1),
                returns(answer),
                returns(other),
            ]
        };
        let safe = |filter: &[Instruction]| judge(filter).calls_are_safe;
        assert!(!safe(&by_arguments(nr::CLONE, KILL, ALLOW)));
        assert!(safe(&by_arguments(nr::CLONE, ERRNO, ALLOW)), "it may fail");
        assert!(!safe(&by_arguments(nr::MMAP, ERRNO, ALLOW)));
        assert!(safe(&by_arguments(EXECVE, KILL, ALLOW)), "the sampler does not make it");
        assert!(!judge(&by_arguments(nr::RT_SIGRETURN, ERRNO, ALLOW)).handlers_return);
        assert!(judge(&by_arguments(nr::CLONE, KILL, ALLOW)).handlers_return);
        // As many ways as a filter has arguments, and more than are looked at.
        let ways = |count: usize| {
            let mut filter = vec![load(16)];
            filter.extend((0..count).map(|k| jump(0x15, k as u32, (count - k) as u8, 0)));
            filter.extend([returns(ALLOW), returns(ALLOW)]);
            filter
        };
        assert!(safe(&ways(MOST_OTHERS - 1)));
        assert!(safe(&ways(200)), "each way ends before the next begins");
        let mut doubling: Vec<_> = (0..40).flat_map(|_| [load(16), jump(0x15, 1, 0, 0)]).collect();
        doubling.push(returns(ALLOW));
        assert!(!safe(&doubling), "too many ways");
    }

    #[test]
    fn starts_are_safe_where_what_is_forbidden_only_fails() {
        assert!(judge(&only(&[nr::RT_SIGRETURN], ERRNO)).starts_are_safe);
        assert!(!judge(&only(&[nr::RT_SIGRETURN], KILL)).starts_are_safe);
        assert!(judge(&only(&without(&[]), KILL)).starts_are_safe);
        for number in without(&[]) {
            assert!(!judge(&only(&without(&[number]), KILL)).starts_are_safe, "{number}");
        }
    }

    #[test]
    fn another_machine_is_not_ours() {
        // if (arch != OTHER) return KILL;
        let filter = [load(MACHINE_AT), jump(0x15, 0x4000_0003, 1, 0), returns(KILL), returns(ALLOW)];
        assert!(!judge(&filter).handlers_return && !judge(&filter).lets_execute);
        let filter = [load(MACHINE_AT), jump(0x15, MACHINE, 1, 0), returns(KILL), returns(ALLOW)];
        let all = Verdict {
            handlers_return: true,
            calls_are_safe: true,
            pid_may_be_asked: true,
            clocks_may_be_stopped: true,
            starts_are_safe: true,
            lets_execute: true,
        };
        assert_eq!(judge(&filter), all);
    }

    #[test]
    fn who_looks_at_arguments_is_not_known() {
        let filter = [load(16), jump(0x15, 7, 0, 1), returns(KILL), returns(ALLOW)];
        assert!(!judge(&filter).handlers_return && !judge(&filter).calls_are_safe);
        assert!(judge(&filter).starts_are_safe);
        let refuses_zero = [load(16), jump(0x15, 0, 0, 1), returns(KILL), returns(ALLOW)];
        assert!(!judge(&refuses_zero).starts_are_safe);
    }

    #[test]
    fn any_program_has_a_verdict() {
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
