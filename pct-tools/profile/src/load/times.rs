//! What recordings say of CPU time, and what the kernel counted of a tree of processes that was attached to.
//!
//! Nobody waits for the end of such a tree, so nobody has the kernel's sum. It follows from what each process
//! said last: what it used itself while it was sampled, and what the kernel counted for it of children that
//! it waited for (with theirs).
//!
//! ```text
//! sum(process) = own + max(children by the kernel, sum of the sampled children that may be among them)
//! tree         = sum(root) + sums of processes that spoke after their parent's last word
//!                          + sums of processes whose parent left no recording - what may be counted twice so
//! ```
//!
//! The second summand of the first line is the larger one: the kernel's figure has static children too, and
//! is old where a process was killed. A process that spoke after its parent's last word cannot be in the
//! parent's figure.
//!
//! Invariant: no time is counted twice, so the tree's sum is never more than what was used.

use super::alive;
use super::status::UnsampledImage;
use pct_format::layout::header as at;
use pct_format::{Header, OffFor};
use std::collections::BTreeMap;

/// User and system CPU time, nanoseconds.
pub(super) type Times = (u64, u64);

/// What a recording says of the CPU time of one process image, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ImageTimes {
    /// Process id.
    pub(super) pid: u32,
    /// Process id as the process sees itself, and its parent's as it saw that; 0 = not known.
    pub(super) own_pid: u32,
    pub(super) parent: u32,
    /// Used while it was sampled.
    pub(super) used: Times,
    /// Used by the process when it was first sampled, images before an exec included; `None` = not known.
    pub(super) before_ns: Option<u64>,
    /// Used while it was switched off later.
    pub(super) off_ns: u64,
    /// Used by the children that it waited for while it was sampled.
    pub(super) children: Times,
    /// When it said so, since 1970.
    pub(super) last_word_ns: u64,
    /// It ran before it was sampled, or was forked by such a process.
    pub(super) attached: bool,
    /// A controller outside of the process wrote the recording.
    pub(super) from_outside: bool,
    /// Why it was sampled no more from some time on.
    pub(super) off_for: Option<OffFor>,
}

impl ImageTimes {
    pub(super) fn from_header(header: &Header<'_>) -> Self {
        let before = header.header_word(at::BEFORE_NS);
        let small = |word| u32::try_from(header.header_word(word)).unwrap_or(0);
        Self {
            pid: header.pid(),
            own_pid: small(at::NS_PID),
            parent: small(at::PPID),
            used: header.cpu_ns().unwrap_or_default(),
            before_ns: Some(before).filter(|&ns| ns != 0),
            off_ns: header.header_word(at::OFF_NS).saturating_sub(before),
            children: (header.header_word(at::CHILDREN_USER_NS), header.header_word(at::CHILDREN_SYSTEM_NS)),
            last_word_ns: header.latest_anchor().map_or(0, |anchor| anchor.realtime_ns),
            attached: header.header_word(at::CONTROLLER) != 0,
            from_outside: alive::is_from_outside(header),
            off_for: header.off_for(),
        }
    }

    /// User and system time together that it used while it was sampled.
    pub(super) fn used_ns(&self) -> u64 {
        sum(self.used)
    }
}

fn sum((user, system): Times) -> u64 {
    user.saturating_add(system)
}

fn add(a: Times, b: Times) -> Times {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

/// The one with the larger sum.
pub(super) fn larger(a: Times, b: Times) -> Times {
    if sum(b) > sum(a) { b } else { a }
}

/// A process of the tree: the sums of its images.
#[derive(Default)]
struct Member {
    parent: u32,
    used: Times,
    children: Times,
    last_word_ns: u64,
    attached: bool,
    /// Sums of sampled processes that may be among those that it waited for.
    sampled_children: Times,
}

/// What the kernel counted of the processes that were attached to and of what these made. `None`: nobody was
/// attached to. `without_sample`: what processes said that left no recording.
pub(super) fn of_attached(files: &[ImageTimes], without_sample: &[UnsampledImage]) -> Option<Times> {
    if !files.iter().any(|file| file.attached) {
        return None;
    }
    let own = files.iter().fold((0, 0), |all, file| add(all, file.used));
    let silent = without_sample.iter().fold(0_u64, |all, image| all.saturating_add(image.used_ns));
    let told = add(own, (silent, 0));
    if files.iter().all(|file| file.from_outside) {
        // The controller saw each process from its birth to its end.
        return Some(told);
    }
    Some(larger(of_tree(files), told))
}

fn of_tree(files: &[ImageTimes]) -> Times {
    let mut members: BTreeMap<u32, Member> = BTreeMap::new();
    for file in files {
        let member = members.entry(file.own_pid).or_default();
        member.parent = file.parent;
        member.used = add(member.used, file.used);
        member.children = add(member.children, file.children);
        member.last_word_ns = member.last_word_ns.max(file.last_word_ns);
        member.attached |= file.attached;
    }
    let mut order: Vec<(u64, u32)> = members.iter().map(|(pid, m)| (m.last_word_ns, *pid)).collect();
    order.sort_unstable();
    let is_root = |m: &Member| m.attached && !members.contains_key(&m.parent);
    let root = members.iter().find(|(_, member)| is_root(member)).map(|(pid, _)| *pid);
    let mut tree = (0, 0);
    // What parents counted of children without a recording, and when the last of them spoke.
    let (mut unrecorded, mut counted_until_ns) = (0_u64, 0);
    // Recorded processes whose parent left no recording: their sums, and when they spoke.
    let mut adopted: Vec<(u64, u64)> = Vec::new();
    for at in order {
        let Some(member) = members.get(&at.1) else { continue };
        let extra = sum(member.children).saturating_sub(sum(member.sampled_children));
        if extra > 0 {
            unrecorded = unrecorded.saturating_add(extra);
            counted_until_ns = at.0;
        }
        let all = add(member.used, larger(member.sampled_children, member.children));
        let parent = member.parent;
        match members.get_mut(&parent) {
            Some(known) if (known.last_word_ns, parent) > at => {
                known.sampled_children = add(known.sampled_children, all);
                continue;
            }
            None if root != Some(at.1) => adopted.push((sum(all), at.0)),
            _ => {}
        }
        tree = add(tree, all);
    }
    // Somebody further up may have counted those.
    let counted = adopted.iter().filter(|(_, spoke_ns)| *spoke_ns < counted_until_ns);
    let twice = counted.fold(0_u64, |all, (ns, _)| all.saturating_add(*ns)).min(unrecorded);
    let of_user = twice.min(tree.0);
    (tree.0 - of_user, tree.1.saturating_sub(twice - of_user))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn process(pid: u32, parent: u32, used: u64, children: u64, last_word_ns: u64) -> ImageTimes {
        ImageTimes {
            pid,
            own_pid: pid,
            parent,
            used: (used, 0),
            children: (children, 0),
            last_word_ns,
            attached: pid == 1,
            ..ImageTimes::default()
        }
    }

    #[test]
    fn children_that_left_no_recording_are_in_the_kernels_figure_of_their_parent() {
        // 1 has waited for 2, which says 30, and for a static child of 50
        let files = [process(1, 0, 10, 80, 9), process(2, 1, 30, 0, 5)];
        assert_eq!(of_attached(&files, &[]), Some((90, 0)));
        // the parent of 3 left no recording: it is in the figure of 1 all the same
        let files = [process(1, 0, 10, 80, 9), process(2, 1, 30, 0, 5), process(3, 7, 40, 0, 6)];
        assert_eq!(of_attached(&files, &[]), Some((90, 0)));
    }

    #[test]
    fn what_outlives_its_parent_is_counted_by_nobody_else() {
        let files = [process(1, 0, 10, 50, 9), process(2, 1, 30, 0, 20), process(3, 2, 5, 0, 21)];
        assert_eq!(of_attached(&files, &[]), Some((95, 0)));
    }

    #[test]
    fn the_last_word_of_a_killed_parent_may_be_older_than_its_children() {
        let files = [process(1, 0, 10, 0, 9), process(2, 1, 30, 0, 5), process(3, 1, 30, 0, 6)];
        assert_eq!(of_attached(&files, &[]), Some((70, 0)));
    }

    #[test]
    fn a_controller_outside_has_seen_every_process() {
        let outside = |pid, used| ImageTimes { from_outside: true, ..process(pid, 1, used, 0, 1) };
        let silent = UnsampledImage { pid: 9, used_ns: 4, all_ns: None, name: String::new() };
        let files = [ImageTimes { attached: true, ..outside(1, 10) }, outside(2, 20)];
        assert_eq!(of_attached(&files, &[silent]), Some((34, 0)));
        assert_eq!(of_attached(&[process(2, 1, 30, 0, 20)], &[]), None, "nobody attached");
    }

    /// A tree of processes as the kernel counts it: each may leave a recording or not, wait for its children or not.
    fn simulated(choices: &[(usize, u64, bool, bool)]) -> (Vec<ImageTimes>, u64) {
        let count = choices.len();
        let parent = |i: usize| choices[i].0 % i.max(1);
        let mut children = vec![0; count];
        let mut last_word = vec![0; count];
        // The later a process was made the earlier it ends; one that its parent does not wait for ends after all.
        for i in (0..count).rev() {
            let (_, used, _, waited) = choices[i];
            last_word[i] = if waited || i == 0 { 1000 - i as u64 } else { 2000 - i as u64 };
            if i > 0 && waited && last_word[i] < last_word_of(choices, parent(i)) {
                children[parent(i)] += used + children[i];
            }
        }
        let all = choices.iter().map(|choice| choice.1).sum();
        let file = |i: usize| {
            let parent = if i == 0 { 5000 } else { parent(i) as u32 + 1 };
            process(i as u32 + 1, parent, choices[i].1, children[i], last_word[i])
        };
        ((0..count).filter(|i| *i == 0 || choices[*i].2).map(file).collect(), all)
    }

    fn last_word_of(choices: &[(usize, u64, bool, bool)], i: usize) -> u64 {
        if choices[i].3 || i == 0 { 1000 - i as u64 } else { 2000 - i as u64 }
    }

    proptest! {
        #[test]
        fn no_time_is_counted_twice(
            choices in proptest::collection::vec((any::<usize>(), 0_u64..100, any::<bool>(), any::<bool>()), 1..40),
        ) {
            let (files, all) = simulated(&choices);
            let tree = sum(of_attached(&files, &[]).expect("attached"));
            prop_assert!(tree <= all, "{} of {}", tree, all);
            prop_assert!(tree >= files.iter().map(ImageTimes::used_ns).sum::<u64>());
            if choices.iter().all(|choice| choice.3) {
                prop_assert_eq!(tree, all, "all were waited for: the account closes");
            }
        }

        #[test]
        fn any_figures_give_a_sum(
            files in proptest::collection::vec((0_u32..5, 0_u32..5, any::<u64>(), any::<u64>(), 0_u64..5), 0..8),
        ) {
            let files: Vec<_> = files.into_iter().map(|(a, b, c, d, e)| process(a, b, c, d, e)).collect();
            of_attached(&files, &[]);
        }
    }
}
