//! Why the kernel's own functions were not sampled although that was asked for (`pct run --kernel on`), and what would
//! help.

use pct_format::layout::{Text, header as at};
use pct_format::{Clock, Header, Recorder, StackMode};

const EPERM: u64 = 1;
const EACCES: u64 = 13;
const ENOSYS: u64 = 38;
const EOPNOTSUPP: u64 = 95;

/// What a recording says: `None` if the kernel was sampled, or nobody asked for it.
#[must_use]
pub fn note(header: &Header<'_>) -> Option<String> {
    if header.header_word(at::KERNEL_JOIN) != 0 && header.header_word(at::KERNEL_ERRNO) == 0 {
        return None;
    }
    let options = header.text(Text::Options);
    if !options.split(|byte| *byte == b',').any(|option| option == b"kernel=on") {
        return None;
    }
    let why = reason(header)?;
    Some(format!(
        "--kernel on: the kernel's functions are not sampled, only the names of system calls: {why}"
    ))
}

/// Why a recording that was asked for the kernel's functions has none, and what would help; `None` if it does not say.
#[must_use]
pub fn reason(header: &Header<'_>) -> Option<String> {
    let clock = header.clock_got().unwrap_or(Clock::Auto);
    Some(match header.header_word(at::KERNEL_ERRNO) {
        EACCES => "the kernel permits it to users with perf_event_paranoid 1 or less. For this boot: sysctl \
                   kernel.perf_event_paranoid=1; or give the program CAP_PERFMON"
            .into(),
        // The same call without the kernel was permitted: what was refused is the memory for its records.
        EPERM if clock == Clock::Sigtrap => {
            "its records need more locked memory than this user may have (ulimit -l, kernel.perf_event_mlock_kb)".into()
        }
        EPERM => "perf_event_open is not permitted here".into(),
        ENOSYS => "Linux 6.11 or later on x86-64 is needed".into(),
        EOPNOTSUPP => "the program makes system calls by instructions of its own, which it could cut short".into(),
        0 if header.recorder() == Recorder::Counts => "counters have no stacks (--mode log has)".into(),
        0 if header.stack_mode() == StackMode::None => "stacks are off (--stack none)".into(),
        0 if clock != Clock::Sigtrap => {
            format!("that needs the clock sigtrap, and the clock is {}", clock.name())
        }
        0 => return None,
        errno => std::io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0)).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_format::File;
    use pct_format::builder::Builder;

    fn noted(words: &[(usize, u64)], options: &[u8]) -> Option<String> {
        let mut recording = Builder::new();
        recording.text(Text::Options, options);
        recording.set_header_word(at::CLOCK_GOT, Clock::Sigtrap as u64);
        recording.set_header_word(at::STACK_MODE, StackMode::Auto as u64);
        for (word, value) in words {
            recording.set_header_word(*word, *value);
        }
        note(&File::parse(&recording.finish()).expect("whole").header())
    }

    #[test]
    fn each_refusal_is_told_with_its_cure_if_the_kernel_was_asked_for() {
        const ASKED: &[u8] = b"hz=100,kernel=on,out=/x/";
        let refused = |errno| noted(&[(at::KERNEL_ERRNO, errno)], ASKED).expect("told");
        assert!(refused(EACCES).contains("kernel.perf_event_paranoid=1"), "{}", refused(EACCES));
        assert!(refused(EPERM).contains("ulimit -l"));
        assert!(refused(ENOSYS).contains("6.11"));
        assert!(refused(EOPNOTSUPP).contains("instructions of its own"));
        assert!(refused(24).contains("Too many open files"));
        let perf = noted(&[(at::CLOCK_GOT, Clock::Perf as u64)], ASKED).expect("told");
        assert!(perf.ends_with("that needs the clock sigtrap, and the clock is perf"), "{perf}");
        let flat = noted(&[(at::STACK_MODE, StackMode::None as u64)], ASKED).expect("told");
        assert!(flat.ends_with("stacks are off (--stack none)"), "{flat}");
        let closed = [(at::CLOCK_GOT, Clock::Thread as u64), (at::KERNEL_ERRNO, EPERM)];
        assert!(noted(&closed, ASKED).expect("told").ends_with("perf_event_open is not permitted here"));
        assert_eq!(noted(&[(at::KERNEL_JOIN, 1)], ASKED), None);
        assert_eq!(noted(&[(at::KERNEL_ERRNO, EACCES)], b"hz=100,out=/kernel=on/"), None);
    }
}
