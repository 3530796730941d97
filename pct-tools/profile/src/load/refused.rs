//! What the kernel refused the sampler, in words: such a call loses no sample, but names, callers or threads.

use pct_format::Recorder;
use pct_format::header::Refusal;
use pct_format::layout::Wanted;

/// What the sampler could not find out about the program, and what that costs.
pub(super) fn in_words(refusal: Refusal, recorder: Recorder) -> String {
    let (what, costs) = match refusal.wanted {
        Wanted::Mappings => (
            "the list of its mappings",
            "code that was not known by then has no names, and its callers are missing",
        ),
        Wanted::Objects => (
            "its memory",
            "programs and libraries that were new then have no build-id, and no frames of Python",
        ),
        Wanted::Threads => (
            "the list of its threads",
            "threads that pct did not see begin were only sampled from the next look on",
        ),
        Wanted::Memory if recorder == Recorder::Counts => {
            ("memory for the sampler", "counters were not kept")
        }
        Wanted::Memory => ("memory for the sampler", "stacks have one frame"),
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
        let said = |wanted, times, errno| in_words(Refusal { wanted, times, errno }, Recorder::Log);
        let maps = said(Wanted::Mappings, 3, 24);
        assert!(maps.contains("the list of its mappings 3 times (Too many open files"), "{maps}");
        assert!(said(Wanted::Threads, 1, 13).contains("the list of its threads once (Permission denied"));
        let all: std::collections::HashSet<_> = Wanted::ALL.map(|wanted| said(wanted, 2, 12)).into();
        assert_eq!(all.len(), Wanted::COUNT);
        let memory = Refusal { wanted: Wanted::Memory, times: 1, errno: 12 };
        assert!(in_words(memory, Recorder::Log).ends_with(": stacks have one frame"));
        assert!(in_words(memory, Recorder::Counts).ends_with(": counters were not kept"));
    }
}
