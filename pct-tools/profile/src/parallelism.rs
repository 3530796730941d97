//! How many threads ran beside each function: its CPU time by their number.
//!
//! A function that runs alone while the others wait costs the user all of its time. [`Latency`] has the figures; here
//! they are summed by function.

use crate::ids::FunctionId;
use crate::latency::Latency;
use crate::model::Profile;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A function and who ran beside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionRow {
    /// The function.
    pub function: FunctionId,
    /// Its latency, in nanoseconds.
    pub latency_ns: u64,
    /// Nanoseconds of its CPU time, by the number of threads that ran then, itself counted.
    pub cpu_by_threads: BTreeMap<u32, u64>,
}

impl FunctionRow {
    /// Nanoseconds of CPU time.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_by_threads.values().sum()
    }
}

/// A row for each function with samples, the highest latency first.
#[must_use]
pub fn by_function(profile: &Profile, latency: &Latency) -> Vec<FunctionRow> {
    let mut rows: FxHashMap<FunctionId, FunctionRow> = FxHashMap::default();
    let empty = |function| FunctionRow { function, latency_ns: 0, cpu_by_threads: BTreeMap::new() };
    for cell in &latency.cells {
        let function = profile.leaf(cell.stack);
        rows.entry(function).or_insert_with(|| empty(function)).latency_ns += cell.weight.cpu_ns();
    }
    for (stack, classes) in &latency.cpu_by_parallelism {
        let function = profile.leaf(*stack);
        let row = rows.entry(function).or_insert_with(|| empty(function));
        for (threads, ns) in classes {
            *row.cpu_by_threads.entry(*threads).or_default() += ns;
        }
    }
    let mut rows: Vec<_> = rows.into_values().filter(|row| row.cpu_ns() > 0).collect();
    rows.sort_by_key(|row| (Reverse(row.latency_ns), row.function));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::folded;

    #[test]
    fn stacks_of_a_function_are_one_row() {
        let p = folded("main;a 3\nmain;b;a 2\nmain;b 4");
        let leaf = |cell: usize| p.functions[p.leaf(p.cells[cell].stack)].name.clone();
        let classes = (0..3).map(|cell| (p.cells[cell].stack, BTreeMap::from([(1, 10), (2, 5)])));
        let latency =
            Latency { cells: p.cells.clone(), cpu_by_parallelism: classes.collect(), ..Latency::default() };
        let rows = by_function(&p, &latency);
        assert_eq!(rows.len(), 2, "{rows:?}");
        let of_a = (0..3).filter(|cell| leaf(*cell) == "a").count();
        assert_eq!(of_a, 2);
        for row in rows {
            let stacks = if p.functions[row.function].name == "a" { 2 } else { 1 };
            assert_eq!(row.cpu_by_threads, BTreeMap::from([(1, 10 * stacks), (2, 5 * stacks)]));
            assert_eq!(row.cpu_ns(), 15 * stacks);
        }
    }
}
