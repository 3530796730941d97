//! What the kernel refused the sampler, in words: such a call loses no sample, but names, callers or threads.

use pct_format::header::Refusal;
use pct_format::layout::Wanted;

/// What the sampler could not find out about the program, and what that costs.
pub(super) fn in_words(refusal: Refusal) -> String {
    let (what, costs) = match refusal.wanted {
        Wanted::Mappings => (
            "the list of its mappings",
            "code that was not known by then has no names, and its callers are missing",
        ),
        Wanted::Objects => (
            "its memory",
            "programs and libraries that were new then have no build-id, and no frames of Python",
        ),
        Wanted::Threads => {
            ("the list of its threads", "threads that were new then may not have been sampled")
        }
        Wanted::Memory => ("memory for the sampler", "stacks have one frame, or counters were not kept"),
    };
    let times = if refusal.times == 1 { "once".to_owned() } else { format!("{} times", refusal.times) };
    let why = std::io::Error::from_raw_os_error(refusal.errno);
    format!("the kernel refused {what} {times} ({why}): {costs}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_says_how_often_why_and_what_it_costs() {
        let said = |wanted, times, errno| in_words(Refusal { wanted, times, errno });
        let maps = said(Wanted::Mappings, 3, 24);
        assert!(maps.contains("the list of its mappings 3 times (Too many open files"), "{maps}");
        assert!(said(Wanted::Threads, 1, 13).contains("the list of its threads once (Permission denied"));
        let all: std::collections::HashSet<_> = Wanted::ALL.map(|wanted| said(wanted, 2, 12)).into();
        assert_eq!(all.len(), Wanted::COUNT);
    }
}
