//! Rows within rows: what each thread spent in each function, and on each of its lines, or any other list of levels in
//! the order in which they were asked for.

use crate::fold::{Owners, Whose, add_own_work};
use crate::model::{Cell, FrameId, Profile, StackId, Weight};
use crate::tree::{Amount as _, By, Label, Labels, Parts, Split};
use rustc_hash::FxHashMap;

/// What the rows of a level stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Processes or threads.
    Part(Split),
    /// Functions: those that samples are given to.
    Function(Whose),
    /// Lines, addresses, objects or causes. Lines and addresses are those of the function of the level before, if one
    /// of the levels is of functions; else of the code that ran.
    Place(By),
}

/// A row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NestedRow {
    /// The place of the row that it is within; `None`: it is of the first level.
    pub parent: Option<usize>,
    /// Its level, from 0.
    pub level: usize,
    /// What it is about.
    pub label: Label,
    /// What was measured in it; it is the sum of the rows within it.
    pub own: Weight,
}

/// The rows, each before those within it, siblings by weight.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Nested {
    /// The rows.
    pub rows: Vec<NestedRow>,
    /// The sum of the rows of the first level.
    pub total: Weight,
    /// How many levels there are.
    pub levels: usize,
}

impl Nested {
    /// Counts the cells. Adds to the profile the stacks that stand for what runtimes do for themselves, if rows are
    /// owners.
    #[must_use]
    pub fn count_levels(profile: &mut Profile, cells: &[Cell], levels: &[Level]) -> Nested {
        let has_owners =
            levels.iter().any(|level| matches!(level, Level::Function(Whose::Owner | Whose::Library)));
        if !has_owners {
            return Nested::count_paths(profile, cells, levels, None);
        }
        add_own_work(profile, cells);
        let owners = Owners::from_profile(profile);
        let cells = owners.with_own_work(profile, cells);
        Nested::count_paths(profile, &cells, levels, Some(&owners))
    }

    fn count_paths(profile: &Profile, cells: &[Cell], levels: &[Level], owners: Option<&Owners>) -> Nested {
        let readers: Vec<Reader> = levels.iter().map(|level| Reader::new(profile, *level)).collect();
        let mut nodes: Vec<NestedRow> = Vec::new();
        let mut known: FxHashMap<(Option<usize>, Label), usize> = FxHashMap::default();
        let mut total = Weight::ZERO;
        for cell in cells.iter().filter(|cell| !cell.weight.is_zero()) {
            total += cell.weight;
            let (mut parent, mut stack) = (None, cell.stack);
            for (level, reader) in readers.iter().enumerate() {
                let label = reader.label(profile, cell, &mut stack, owners);
                let at = *known.entry((parent, label)).or_insert_with(|| {
                    nodes.push(NestedRow { parent, level, label, own: Weight::ZERO });
                    nodes.len() - 1
                });
                nodes[at].own += cell.weight;
                parent = Some(at);
            }
        }
        Nested { rows: in_order(profile, &nodes), total, levels: levels.len() }
    }

    /// The rows of the last level, which together are everything.
    pub fn innermost(&self) -> impl Iterator<Item = &NestedRow> {
        self.rows.iter().filter(|row| row.level + 1 == self.levels)
    }

    /// A list of the `most` heaviest rows. Behind the rows within a row stands the sum of those that are left out.
    #[must_use]
    pub fn lines(&self, most: usize) -> Vec<Line> {
        let shown = self.heaviest(most);
        // By the row that they are within; the last is the sum of the first level.
        let mut rest = vec![(0, Weight::ZERO); self.rows.len() + 1];
        for (row, is_shown) in self.rows.iter().zip(&shown) {
            if !is_shown && row.parent.is_none_or(|parent| shown[parent]) {
                let sum = &mut rest[row.parent.unwrap_or(self.rows.len())];
                *sum = (sum.0 + 1, sum.1 + row.own);
            }
        }
        let rest_within = |at: usize, level: usize| {
            let (rows, own) = rest[at];
            (rows > 0).then_some(Line::Rest { level, rows, own })
        };
        let mut lines = Vec::new();
        // The rows that the next one may be within, the innermost last.
        let mut open: Vec<usize> = Vec::new();
        for (at, row) in self.rows.iter().enumerate().filter(|(at, _)| shown[*at]) {
            while let Some(ended) = open.pop_if(|open| self.rows[*open].level >= row.level) {
                lines.extend(rest_within(ended, self.rows[ended].level + 1));
            }
            open.push(at);
            lines.push(Line::Row(at));
        }
        while let Some(ended) = open.pop() {
            lines.extend(rest_within(ended, self.rows[ended].level + 1));
        }
        lines.extend(rest_within(self.rows.len(), 0));
        lines
    }

    /// Which rows a list of at most `most` has: the heaviest, with those that they are within.
    fn heaviest(&self, most: usize) -> Vec<bool> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        // A row is as heavy as what is within it at least, and stands before it.
        order.sort_by_key(|at| (std::cmp::Reverse(self.rows[*at].own.heaviness()), *at));
        let mut is_shown = vec![false; self.rows.len()];
        order.into_iter().take(most).for_each(|at| is_shown[at] = true);
        is_shown
    }
}

/// A line of a list that has not all rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// The row at this place.
    Row(usize),
    /// What a list leaves out of the rows within one, or of the first level: how many, and their sum.
    Rest {
        /// Their level.
        level: usize,
        /// How many.
        rows: u64,
        /// Their sum.
        own: Weight,
    },
}

/// The rows as a walk from the heaviest of the first level finds them.
fn in_order(profile: &Profile, nodes: &[NestedRow]) -> Vec<NestedRow> {
    let mut within: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut first = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        match node.parent {
            Some(parent) => within[parent].push(at),
            None => first.push(at),
        }
    }
    let sort = |list: &mut Vec<usize>| {
        list.sort_by(|a, b| {
            let (a, b) = (&nodes[*a], &nodes[*b]);
            let by_weight = b.own.heaviness().cmp(&a.own.heaviness());
            by_weight.then_with(|| a.label.cmp_names(b.label, profile)).then(a.label.cmp(&b.label))
        });
    };
    sort(&mut first);
    within.iter_mut().for_each(sort);
    let mut rows = Vec::with_capacity(nodes.len());
    let mut pending: Vec<(usize, Option<usize>)> = first.into_iter().rev().map(|at| (at, None)).collect();
    while let Some((at, parent)) = pending.pop() {
        let place = rows.len();
        rows.push(NestedRow { parent, ..nodes[at] });
        pending.extend(within[at].iter().rev().map(|child| (*child, Some(place))));
    }
    rows
}

/// Finds the label of a cell on one level.
enum Reader {
    Part(Parts),
    Function(Whose),
    /// Labels of frames, and whether they are about the function of the level before.
    Frame(Labels, bool),
}

impl Reader {
    fn new(profile: &Profile, level: Level) -> Self {
        match level {
            Level::Part(split) => Self::Part(Parts::new(profile, split)),
            Level::Function(whose) => Self::Function(whose),
            Level::Place(by) => {
                Self::Frame(Labels::from_profile(profile, by), matches!(by, By::Line | By::Pc))
            }
        }
    }

    /// The label; `stack` ends in the function of the level before and, after a level of functions, in this one.
    fn label(&self, profile: &Profile, cell: &Cell, stack: &mut StackId, owners: Option<&Owners>) -> Label {
        let owned = owners.map(|owners| owners.of_stack(cell.stack));
        match self {
            Self::Part(parts) => parts.label(profile, cell),
            Self::Function(whose) => {
                *stack = match (whose, owned) {
                    (Whose::Owner, Some(owned)) => owned.owner,
                    (Whose::Library, Some(owned)) => owned.callee.unwrap_or(owned.owner),
                    (Whose::Leaf, _) | (_, None) => cell.stack,
                };
                match whose {
                    Whose::Library => Owners::callee_label(profile, *stack),
                    Whose::Leaf | Whose::Owner => Label::Function(profile.leaf(*stack)),
                }
            }
            Self::Frame(labels, of_function) => {
                let stack = if *of_function { *stack } else { cell.stack };
                let frame: FrameId = profile.stacks[stack].frame;
                labels.of_frame(frame)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::folded;
    use crate::model::{Builder, Object, ObjectKind, Process};

    fn counted(text: &str, levels: &[Level]) -> (Profile, Nested) {
        let mut profile = folded(text);
        let cells = profile.cells.clone();
        let nested = Nested::count_levels(&mut profile, &cells, levels);
        (profile, nested)
    }

    /// Rows in words, indented by their level.
    fn lines(profile: &Profile, nested: &Nested) -> Vec<String> {
        let line = |row: &NestedRow| {
            format!("{}{} {}", " ".repeat(row.level), row.label.name(profile), row.own.samples)
        };
        nested.rows.iter().map(line).collect()
    }

    #[test]
    fn each_level_is_within_the_one_before_and_sums_are_exact() {
        let (p, nested) = counted(
            "main;parse;read 3\nmain;parse 4\nmain;write;read 2\nmain 1",
            &[Level::Place(By::Object), Level::Function(Whose::Leaf)],
        );
        let got = lines(&p, &nested);
        assert_eq!(got[1..], [" read 5", " parse 4", " main 1"]);
        assert!(got[0].ends_with(" 10"), "{got:?}");
        for (at, row) in nested.rows.iter().enumerate() {
            let within: Weight = nested.rows.iter().filter(|r| r.parent == Some(at)).map(|r| r.own).sum();
            assert!(row.level + 1 == nested.levels || within == row.own, "{got:?}");
        }
        assert_eq!(nested.total.samples, 10);
    }

    #[test]
    fn lines_after_owners_are_those_of_the_owner() {
        let mut b = Builder::new(false);
        let prog = b.object(Object::new("/opt/prog", ObjectKind::File));
        let libc = b.object(Object::new("/usr/lib/libc.so.6", ObjectKind::File));
        let handle = b.function(prog, "handle");
        let copy = b.function(libc, "memcpy");
        let (own, inner) = (b.plain_frame(handle), b.plain_frame(copy));
        let above = b.stack(None, own);
        let stack = b.stack(Some(above), inner);
        let process = b.process(Process::default());
        let thread = b.thread(process, 1, "");
        let mut profile = b.finish();
        let cells = [Cell { thread, stack, weight: Weight { samples: 1, user_ns: 5, system_ns: 0 } }];
        let mut place = |whose| {
            let levels = [Level::Function(whose), Level::Place(By::Line)];
            let nested = Nested::count_levels(&mut profile, &cells, &levels);
            nested.rows.iter().map(|row| row.label.function(&profile)).collect::<Vec<_>>()
        };
        assert_eq!(place(Whose::Owner), [Some(handle), Some(handle)]);
        assert_eq!(place(Whose::Leaf), [Some(copy), Some(copy)]);
    }

    #[test]
    fn the_order_of_the_levels_is_that_of_the_list() {
        let both = [Level::Function(Whose::Leaf), Level::Part(Split::Process)];
        let (p, nested) = counted("main;f 3\nmain;g 4", &both);
        assert_eq!(nested.rows.iter().map(|row| row.level).collect::<Vec<_>>(), [0, 1, 0, 1]);
        assert_eq!(lines(&p, &nested)[0], "g 4");
        let (_, nested) = counted("main;f 3\nmain;g 4", &[both[1], both[0]]);
        assert_eq!(nested.rows.iter().map(|row| row.level).collect::<Vec<_>>(), [0, 1, 1]);
    }

    #[test]
    fn what_is_shown_is_the_heaviest_and_never_without_what_it_is_within() {
        let levels = [Level::Place(By::Object), Level::Function(Whose::Leaf), Level::Place(By::Pc)];
        let (_, nested) = counted("a;f 5\na;g 5\nb;f 1\nb;h 3", &levels);
        for most in 0..=nested.rows.len() {
            let shown = nested.heaviest(most);
            assert_eq!(shown.iter().filter(|is_shown| **is_shown).count(), most);
            for (row, is_shown) in nested.rows.iter().zip(&shown) {
                assert!(!is_shown || row.parent.is_none_or(|parent| shown[parent]), "{most}");
            }
            // Each level of the list is the whole of what it is within.
            let of_level = |wanted: usize| -> u64 {
                let samples = |line: &Line| match line {
                    Line::Row(at) if nested.rows[*at].level == wanted => nested.rows[*at].own.samples,
                    Line::Rest { level, own, .. } if *level <= wanted => own.samples,
                    _ => 0,
                };
                nested.lines(most).iter().map(samples).sum()
            };
            assert_eq!([of_level(0), of_level(1), of_level(2)], [14, 14, 14], "{most}");
        }
    }
}
