//! Calls over time: what a stack chart shows of a thread.
//!
//! The time is cut into columns. A column has one stack: from the outside inwards the call with most time, as long as
//! the calls that go on have at least as much time as the stacks that end there. Calls that columns side by side have
//! in common, callers included, are one call.

use crate::model::{FrameId, FunctionId, Profile, StackId};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// A time for which a stack stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackSpan {
    /// First time, ns.
    pub from_ns: i64,
    /// End, ns; this time is not in it.
    pub to_ns: i64,
    /// The stack.
    pub stack: StackId,
}

/// A call, as far as it is seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallSpan {
    /// The call that made it, by its place in the list: always a smaller one.
    pub parent: Option<usize>,
    /// What was called.
    pub function: FunctionId,
    /// Begin of its first column, ns.
    pub from_ns: i64,
    /// End of its last column, ns.
    pub to_ns: i64,
}

/// The calls of a range of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallsOverTime {
    /// Callers stand before those that they call, and calls with one caller in order of time.
    pub calls: Vec<CallSpan>,
    /// Columns of the range.
    pub columns: usize,
    /// Those of them in which there is a stack.
    pub filled: usize,
    /// Those of them in which there is more than one.
    pub mixed: usize,
    /// Those of them whose stack has more levels than were wanted.
    pub cut: usize,
}

/// How a range of time is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns {
    /// First time, ns.
    pub from_ns: i64,
    /// End, ns.
    pub to_ns: i64,
    /// Most columns. A range has one for each ns at most.
    pub count: usize,
    /// Most levels of a stack.
    pub levels: usize,
    /// Most calls. If there would be more, each two columns become one.
    pub calls: usize,
}

impl Columns {
    fn width(self) -> u64 {
        if self.to_ns > self.from_ns { self.to_ns.abs_diff(self.from_ns) } else { 0 }
    }

    fn len(self) -> usize {
        self.count.min(usize::try_from(self.width()).unwrap_or(usize::MAX))
    }

    /// Begin of a column, or the end of the last one.
    fn begin(self, column: usize) -> i64 {
        let part = u128::from(self.width()) * column as u128 / (self.len().max(1) as u128);
        self.from_ns.saturating_add_unsigned(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// The column of a time of the range.
    fn holding(self, ns: i64) -> usize {
        let after =
            u128::from(ns.abs_diff(self.from_ns)) * self.len() as u128 / u128::from(self.width().max(1));
        let near = usize::try_from(after).unwrap_or(usize::MAX);
        // Begins are rounded down, so a time may be in the next column already.
        if self.begin(near + 1) <= ns { near + 1 } else { near }
    }
}

/// The calls of these stacks, in any order, over a range of time.
pub fn calls_over_time(
    profile: &Profile,
    columns: Columns,
    spans: impl IntoIterator<Item = StackSpan>,
) -> CallsOverTime {
    let mut paths = Paths::default();
    let mut times: Vec<FxHashMap<PathId, u64>> = vec![FxHashMap::default(); columns.len()];
    for span in spans {
        let (from, to) = (span.from_ns.max(columns.from_ns), span.to_ns.min(columns.to_ns));
        if from >= to {
            continue;
        }
        let path = paths.of_stack(profile, span.stack);
        for (column, time) in times.iter_mut().enumerate().skip(columns.holding(from)) {
            let (begin, end) = (columns.begin(column), columns.begin(column + 1));
            if begin >= to {
                break;
            }
            *time.entry(path).or_default() += end.min(to).abs_diff(begin.max(from));
        }
    }
    let mut width = 1;
    loop {
        let begin = |column: usize| columns.begin((column * width).min(columns.len()));
        match paths.calls(&times, columns, begin) {
            Some(found) => return found,
            None => times = joined(times),
        }
        width *= 2;
    }
}

/// Each two columns as one.
fn joined(times: Vec<FxHashMap<PathId, u64>>) -> Vec<FxHashMap<PathId, u64>> {
    let mut out: Vec<FxHashMap<PathId, u64>> = Vec::with_capacity(times.len().div_ceil(2));
    for (column, time) in times.into_iter().enumerate() {
        match out.last_mut().filter(|_| column % 2 == 1) {
            Some(last) => time.into_iter().for_each(|(path, ns)| *last.entry(path).or_default() += ns),
            None => out.push(time),
        }
    }
    out
}

/// A path of functions from the outermost one: its place in [`Paths`].
type PathId = u32;

/// Stacks as paths of functions: those that differ in lines or addresses alone are one.
#[derive(Default)]
struct Paths {
    /// The path without its last function, which has a smaller number, and that function.
    nodes: Vec<(Option<PathId>, FunctionId)>,
    known: FxHashMap<(Option<PathId>, FunctionId), PathId>,
    of_stack: FxHashMap<StackId, PathId>,
}

impl Paths {
    /// The path of a stack.
    fn of_stack(&mut self, profile: &Profile, stack: StackId) -> PathId {
        let mut frames: Vec<(StackId, FrameId)> = Vec::new();
        let (mut at, mut next) = (None, Some(stack));
        while let Some(id) = next {
            if let Some(known) = self.of_stack.get(&id) {
                at = Some(*known);
                break;
            }
            let node = profile.stacks[id];
            frames.push((id, node.frame));
            next = node.parent;
        }
        let mut path = at.unwrap_or_default();
        for (id, frame) in frames.into_iter().rev() {
            let step = (at, profile.frames[frame].function);
            path = *self.known.entry(step).or_insert_with(|| {
                self.nodes.push(step);
                PathId::try_from(self.nodes.len() - 1).expect("fewer paths than stacks")
            });
            self.of_stack.insert(id, path);
            at = Some(path);
        }
        path
    }

    /// A path's beginnings, the shortest first; itself is the last.
    fn steps(&self, path: PathId) -> Vec<PathId> {
        let parent = |path: &PathId| self.nodes[*path as usize].0;
        let mut out: Vec<PathId> = std::iter::successors(Some(path), parent).collect();
        out.reverse();
        out
    }

    /// The path that has most of a time, each of its beginnings with its number, and whether it has all of it. Of a
    /// longer path there is one level more than is wanted.
    fn heaviest(&self, time: &FxHashMap<PathId, u64>, levels: usize) -> (Vec<PathId>, bool) {
        let mut inside: Vec<(Vec<PathId>, u64)> =
            time.iter().map(|(path, ns)| (self.steps(*path), *ns)).collect();
        let whole: u64 = time.values().sum();
        let mut out: Vec<PathId> = Vec::new();
        let mut totals: FxHashMap<PathId, u64> = FxHashMap::default();
        loop {
            let (depth, mut own) = (out.len(), 0);
            totals.clear();
            for (steps, ns) in &inside {
                match steps.get(depth) {
                    Some(next) => *totals.entry(*next).or_default() += ns,
                    None => own += ns,
                }
            }
            // Of equal ones that which was seen first.
            let best = totals.iter().max_by_key(|(path, ns)| (**ns, Reverse(**path)));
            let Some((&next, _)) = best.filter(|(_, ns)| **ns >= own && depth <= levels) else {
                // Of a path that is cut, what goes on below the cut is not seen.
                let seen = if depth > levels { inside.iter().map(|(_, ns)| ns).sum() } else { own };
                return (out, seen == whole);
            };
            inside.retain(|(steps, _)| steps.get(depth) == Some(&next));
            out.push(next);
        }
    }

    /// The calls of columns, each with the time of its paths; `begin` gives the begin of each, and the end of the last
    /// one. `None`: they are too many.
    fn calls(
        &self,
        times: &[FxHashMap<PathId, u64>],
        wanted: Columns,
        begin: impl Fn(usize) -> i64,
    ) -> Option<CallsOverTime> {
        let mut out = CallsOverTime { columns: times.len(), ..CallsOverTime::default() };
        // Calls that go on in the column before, from the outside inwards, each with its place in the list.
        let mut open: Vec<(PathId, usize)> = Vec::new();
        for (column, time) in times.iter().enumerate() {
            let (path, is_all) = self.heaviest(time, wanted.levels);
            out.filled += usize::from(!path.is_empty());
            out.mixed += usize::from(!is_all);
            out.cut += usize::from(path.len() > wanted.levels);
            let path = &path[..path.len().min(wanted.levels)];
            let same = open.iter().zip(path).take_while(|(open, path)| open.0 == **path).count();
            open.truncate(same);
            for &node in &path[same..] {
                let parent = open.last().map(|(_, place)| *place);
                let function = self.nodes[node as usize].1;
                out.calls.push(CallSpan { parent, function, from_ns: begin(column), to_ns: 0 });
                open.push((node, out.calls.len() - 1));
            }
            for (_, place) in &open {
                out.calls[*place].to_ns = begin(column + 1);
            }
            if out.calls.len() > wanted.calls && times.len() > 1 {
                return None;
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::folded;
    use proptest::prelude::*;

    /// What is drawn: the function, from and to, with its callers before it.
    fn drawn(profile: &Profile, found: &CallsOverTime) -> Vec<String> {
        let name = |call: &CallSpan| profile.functions[call.function].name.clone();
        let path = |mut call: CallSpan| {
            let mut out = name(&call);
            while let Some(parent) = call.parent {
                call = found.calls[parent];
                out = format!("{};{out}", name(&call));
            }
            out
        };
        found.calls.iter().map(|call| format!("{} {}-{}", path(*call), call.from_ns, call.to_ns)).collect()
    }

    /// The stacks of these lines, in their order.
    fn stacks(profile: &Profile, lines: &[&str]) -> Vec<StackId> {
        let name = |id| {
            let mut names: Vec<&str> =
                profile.outwards(id).map(|(_, frame)| &*profile.functions[frame.function].name).collect();
            names.reverse();
            names.join(";")
        };
        let found = |line: &&str| profile.stacks.ids().find(|id| name(*id) == **line).expect("a stack");
        lines.iter().map(found).collect()
    }

    fn span((from_ns, to_ns): (i64, i64), stack: StackId) -> StackSpan {
        StackSpan { from_ns, to_ns, stack }
    }

    fn columns(from_ns: i64, to_ns: i64, count: usize) -> Columns {
        Columns { from_ns, to_ns, count, levels: 100, calls: 1000 }
    }

    #[test]
    fn calls_last_as_long_as_their_stacks_have_them() {
        let p = folded("main;a;x 1\nmain;a;y 1\nmain 1\nmain;b 1");
        let s = stacks(&p, &["main;a;x", "main;a;y", "main", "main;b"]);
        let spans = [(0, 20), (20, 30), (30, 50), (60, 90), (90, 100)];
        let spans = spans.into_iter().zip([s[0], s[1], s[2], s[3], s[0]]).map(|(at, stack)| span(at, stack));
        let found = calls_over_time(&p, columns(0, 100, 10), spans);
        let calls = [
            "main 0-50",
            "main;a 0-30",
            "main;a;x 0-20",
            "main;a;y 20-30", // from the first to the pause
            "main 60-100",
            "main;b 60-90",
            "main;a 90-100",
            "main;a;x 90-100",
        ];
        assert_eq!(drawn(&p, &found), calls);
        assert_eq!((found.columns, found.filled, found.mixed, found.cut), (10, 9, 0, 0));
    }

    #[test]
    fn a_column_shows_the_call_with_most_time_and_says_that_there_are_others() {
        let p = folded("main;a;x 1\nmain;a;y 1\nmain;b 1\nother 1");
        let s = stacks(&p, &["main;a;x", "main;a;y", "main;b", "other"]);
        // In the first ten `a` has most time by both its callees together, though `b` has more than each of them.
        let spans = [((0, 3), s[0]), ((3, 5), s[1]), ((5, 9), s[2]), ((9, 10), s[3]), ((10, 20), s[2])];
        let found = calls_over_time(&p, columns(0, 20, 2), spans.map(|(at, stack)| span(at, stack)));
        assert_eq!(drawn(&p, &found), ["main 0-20", "main;a 0-10", "main;a;x 0-10", "main;b 10-20"]);
        assert_eq!((found.columns, found.mixed), (2, 1));
    }

    #[test]
    fn whatever_the_range_nothing_breaks() {
        let p = folded("main;a 1");
        let stack = stacks(&p, &["main;a"])[0];
        for (from, to) in [(0, 0), (5, 1), (i64::MIN, i64::MAX), (i64::MAX - 1, i64::MAX), (0, 3)] {
            let found = calls_over_time(&p, columns(from, to, 7), [span((i64::MIN, i64::MAX), stack)]);
            let all: Vec<(i64, i64)> = found.calls.iter().map(|call| (call.from_ns, call.to_ns)).collect();
            assert_eq!(all, if from < to { vec![(from, to); 2] } else { vec![] }, "{from} {to}");
        }
        let cut = Columns { levels: 1, ..columns(0, 10, 2) };
        let found = calls_over_time(&p, cut, [span((0, 10), stack)]);
        assert_eq!((drawn(&p, &found), found.cut, found.mixed), (vec!["main 0-10".to_owned()], 2, 0));
    }

    proptest! {
        /// Each column has what a slow look at each of its nanoseconds says.
        #[test]
        fn columns_are_those_of_a_naive_look(
            lines in proptest::collection::vec(proptest::collection::vec(0_u8..3, 1..5), 1..6),
            spans in proptest::collection::vec((0_usize..6, 0_i64..40, 0_i64..15), 0..12),
            (from, width, count, most) in (-3_i64..30, 1_i64..25, 1_usize..9, prop_oneof![Just(1000_usize), 1_usize..12]),
        ) {
            let names: Vec<String> = lines.iter().map(|line| {
                line.iter().map(|f| format!("f{f}")).collect::<Vec<_>>().join(";")
            }).collect();
            let p = folded(&names.iter().map(|name| format!("{name} 1\n")).collect::<String>());
            let ids = stacks(&p, &names.iter().map(|name| &**name).collect::<Vec<_>>());
            let spans: Vec<(usize, i64, i64)> =
                spans.into_iter().map(|(n, at, length)| (n % ids.len(), at, at + length)).collect();
            let columns = Columns { calls: most, ..columns(from, from + width, count) };
            let found = calls_over_time(&p, columns, spans.iter().map(|(n, a, b)| span((*a, *b), ids[*n])));
            let mut seen: Vec<Vec<String>> = Vec::new();
            prop_assert!(found.calls.len() <= most || found.columns == 1);
            // How many of the columns that were wanted are one.
            let mut joined = 1;
            while columns.len().div_ceil(joined) > found.columns {
                joined *= 2;
            }
            prop_assert!(columns.len().div_ceil(joined) == found.columns && (joined == 1 || most < 1000));
            for column in 0..found.columns {
                let begin = |column: usize| columns.begin((column * joined).min(columns.len()));
                let time = begin(column)..begin(column + 1);
                prop_assert!(!time.is_empty());
                prop_assert!(time.clone().all(|ns| columns.holding(ns) / joined == column));
                // Once for each ns and each span that has it.
                let here: Vec<&Vec<u8>> = time.clone().flat_map(|ns| {
                    spans.iter().filter(move |(_, a, b)| (*a..*b).contains(&ns)).map(|(n, ..)| &lines[*n])
                }).collect();
                let calls = found.calls.iter().filter(|call| call.from_ns < time.end && call.to_ns > time.start);
                let path: Vec<u8> = calls.map(|call| {
                    assert!(call.from_ns <= time.start && call.to_ns >= time.end);
                    p.functions[call.function].name.as_bytes()[1] - b'0'
                }).collect();
                // Each step has the most of those that have the same callers, and as much as ends before it.
                for at in 0..path.len() {
                    let below = here.iter().filter(|line| line.len() > at && line[..at] == path[..at]);
                    let counts: Vec<usize> = (0..3).map(|f| below.clone().filter(|line| line[at] == f).count()).collect();
                    prop_assert_eq!(counts[usize::from(path[at])], counts.iter().copied().max().unwrap_or(0));
                    prop_assert!(counts[usize::from(path[at])] >= here.iter().filter(|line| ***line == path[..at]).count());
                }
                let ends = here.iter().filter(|line| ***line == path[..]).count();
                let longer = here.iter().filter(|line| line.len() > path.len() && line[..path.len()] == path[..]);
                prop_assert!((0..3).all(|f| longer.clone().filter(|line| line[path.len()] == f).count() < ends) || here.is_empty());
                prop_assert_eq!(path.is_empty(), here.is_empty());
                seen.push(path.iter().map(|f| format!("f{f}")).collect());
            }
            // Calls that go on are one.
            for call in &found.calls {
                let parent = call.parent.map(|parent| found.calls[parent]);
                prop_assert!(parent.is_none_or(|above| above.from_ns <= call.from_ns && above.to_ns >= call.to_ns));
            }
            let changes = |column: usize| {
                let before = column.checked_sub(1).map_or(&[][..], |before| &seen[before][..]);
                let same = before.iter().zip(&seen[column]).take_while(|(a, b)| a == b).count();
                seen[column].len() - same
            };
            prop_assert_eq!(found.calls.len(), (0..seen.len()).map(changes).sum::<usize>());
        }
    }
}
