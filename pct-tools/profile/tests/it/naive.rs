//! Tables, trees and differences of random profiles against sums that are written down as the definitions say.

use pct_profile::diff::{Compare, Diff};
use pct_profile::flat::Order;
use pct_profile::model::{Builder, FunctionId, Object, ObjectKind, Process, Weight};
use pct_profile::tree::NodeId;
use pct_profile::{By, CallTree, Filter, Flat, Pattern, Profile, Split};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What was measured: a thread, functions from the outermost inwards, a number of samples.
type Row = (usize, Vec<usize>, u64);

const OBJECTS: [&str; 2] = ["/bin/one", "/lib/two"];
/// Threads: process, name. Two have the same name.
const THREADS: [(usize, &str); 4] = [(0, "main"), (0, "worker"), (1, "main2"), (1, "worker")];
const PROCESSES: [&str; 2] = ["shop", "cart"];

fn function_name(function: usize) -> String {
    format!("f{function}")
}

/// The first three functions are of one object, the others of the other.
fn object_of(function: usize) -> usize {
    function / 3
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((0..THREADS.len(), prop::collection::vec(0_usize..6, 1..8), 1_u64..50), 0..30)
}

fn built(rows: &[Row]) -> Profile {
    let mut b = Builder::new(false);
    let objects = OBJECTS.map(|path| b.object(Object::new(path, ObjectKind::File)));
    let processes: Vec<_> = (1..)
        .zip(PROCESSES)
        .map(|(pid, name)| b.process(Process { pid, name: name.into(), hz: 1000, ..Process::default() }))
        .collect();
    let threads: Vec<_> =
        (100..).zip(THREADS).map(|(tid, (process, name))| b.thread(processes[process], tid, name)).collect();
    for (thread, functions, samples) in rows {
        let mut stack = None;
        for &function in functions {
            let function = b.function(objects[object_of(function)], &function_name(function));
            let frame = b.plain_frame(function);
            stack = Some(b.stack(stack, frame));
        }
        let weight = Weight { samples: *samples, user_ns: samples * 1_000_000, system_ns: 0 };
        b.add(threads[*thread], stack.expect("a function"), weight);
    }
    b.finish()
}

/// Sums of samples by key.
type Sums<K> = BTreeMap<K, u64>;

fn sums<K: Ord>(parts: impl IntoIterator<Item = (K, u64)>) -> Sums<K> {
    let mut sums = Sums::new();
    for (key, samples) in parts {
        *sums.entry(key).or_default() += samples;
    }
    sums
}

/// The sum of each path of names that a tree has: (of its nodes' totals, of what was measured in the nodes themselves).
fn paths(profile: &Profile, tree: &CallTree) -> (Sums<Vec<String>>, Sums<Vec<String>>) {
    let path = |mut node: NodeId| {
        let mut names = vec![tree.nodes[node].label.name(profile)];
        while let Some(parent) = tree.nodes[node].parent {
            names.push(tree.nodes[parent].label.name(profile));
            node = parent;
        }
        names.reverse();
        names
    };
    let mut total = Sums::new();
    let mut own = Sums::new();
    tree.walk(|node, depth| {
        let names = path(node);
        assert_eq!(names.len(), depth + 1);
        assert!(
            total.insert(names.clone(), tree.nodes[node].total.samples).is_none(),
            "{names:?} is there twice"
        );
        own.insert(names, tree.nodes[node].own.samples);
        true
    });
    own.retain(|_, samples| *samples > 0);
    (total, own)
}

/// All beginnings of a path, the path itself included.
fn beginnings(path: &[String]) -> impl Iterator<Item = Vec<String>> + '_ {
    (1..=path.len()).map(|length| path[..length].to_vec())
}

fn names(functions: &[usize]) -> Vec<String> {
    functions.iter().copied().map(function_name).collect()
}

/// Functions that are on a stack, each once.
fn once(functions: &[usize]) -> Vec<usize> {
    let mut once = functions.to_vec();
    once.sort_unstable();
    once.dedup();
    once
}

proptest! {
    #[test]
    fn tables_are_the_sums_of_leaves_and_of_functions_on_the_stack(rows in rows()) {
        let profile = built(&rows);
        let all: u64 = rows.iter().map(|(_, _, samples)| samples).sum();
        let table = |by, split| Flat::count_cells(&profile, &profile.cells, by, split, Order::Total);

        let by_function = table(Some(By::Function), Split::Merged);
        let name = |row: &pct_profile::flat::Row| row.label.expect("a function").name(&profile);
        let total = sums(by_function.rows.iter().map(|row| (name(row), row.total.samples)));
        let own = sums(by_function.rows.iter().map(|row| (name(row), row.own.samples)));
        let naive_total = sums(rows.iter().flat_map(|(_, functions, samples)| {
            once(functions).into_iter().map(|function| (function_name(function), *samples))
        }));
        let naive_own = naive_total.keys().map(|name| {
            let here = |row: &&Row| row.1.last().is_some_and(|leaf| function_name(*leaf) == *name);
            (name.clone(), rows.iter().filter(here).map(|row| row.2).sum())
        });
        prop_assert_eq!(&total, &naive_total);
        prop_assert_eq!(own, sums(naive_own));
        prop_assert_eq!(by_function.total.samples, all);
        prop_assert_eq!(by_function.total.user_ns, all * 1_000_000);

        let by_object = table(Some(By::Object), Split::ThreadName);
        let key = |row: &pct_profile::flat::Row| {
            (row.part.map(|part| part.name(&profile)), row.label.map(|label| label.name(&profile)))
        };
        let total = sums(by_object.rows.iter().map(|row| (key(row), row.total.samples)));
        let naive = sums(rows.iter().flat_map(|(thread, functions, samples)| {
            let objects = once(&functions.iter().map(|function| object_of(*function)).collect::<Vec<_>>());
            objects.into_iter().map(move |object| {
                let object = OBJECTS[object].rsplit('/').next().map(str::to_owned);
                ((THREADS[*thread].1.to_owned(), object), *samples)
            })
        }));
        // A part is written with more than its name; the names that it begins with tell the parts apart.
        prop_assert_eq!(total.values().sum::<u64>(), naive.values().sum::<u64>());
        for ((thread, object), samples) in &naive {
            let found: Vec<u64> = total
                .iter()
                .filter(|((part, label), _)| {
                    let part = part.as_deref().unwrap_or_default();
                    let is_part = part == thread.as_str() || part.starts_with(&format!("{thread} "));
                    is_part && label.as_ref() == object.as_ref()
                })
                .map(|(_, samples)| *samples)
                .collect();
            prop_assert_eq!(&found, &[*samples], "{} {:?} in {:?}", thread, object, total);
        }
    }

    #[test]
    fn a_tree_has_each_path_with_the_sum_of_what_goes_through_it(rows in rows()) {
        let profile = built(&rows);
        let tree = CallTree::top_down(&profile, &profile.cells, By::Function, Split::Merged);
        let (total, own) = paths(&profile, &tree);
        let through = |path: fn(&[usize]) -> Vec<String>| {
            sums(rows.iter().flat_map(move |(_, functions, samples)| {
                let path = path(functions);
                beginnings(&path).map(|part| (part, *samples)).collect::<Vec<_>>()
            }))
        };
        prop_assert_eq!(total, through(names));
        prop_assert_eq!(own, sums(rows.iter().map(|(_, functions, samples)| (names(functions), *samples))));

        let outwards: fn(&[usize]) -> Vec<String> = |functions| {
            let mut names = names(functions);
            names.reverse();
            names
        };
        let tree = CallTree::bottom_up(&profile, &profile.cells, By::Function, Split::Merged);
        prop_assert_eq!(paths(&profile, &tree).0, through(outwards));

        // A run of frames of one object is one node.
        let objects: fn(&[usize]) -> Vec<String> = |functions| {
            let mut objects: Vec<usize> = functions.iter().map(|function| object_of(*function)).collect();
            objects.dedup();
            objects.iter().filter_map(|object| OBJECTS[*object].rsplit('/').next().map(str::to_owned)).collect()
        };
        let tree = CallTree::top_down(&profile, &profile.cells, By::Object, Split::Merged);
        prop_assert_eq!(paths(&profile, &tree).0, through(objects));
    }

    #[test]
    fn callers_and_callees_begin_at_the_outermost_call(rows in rows(), wanted in 0_usize..6) {
        let profile = built(&rows);
        let is_wanted = |id: FunctionId| profile.functions[id].name == function_name(wanted);
        let at = |functions: &[usize]| functions.iter().position(|function| *function == wanted);
        let naive = |part: fn(&[usize], usize) -> Vec<usize>| {
            sums(rows.iter().flat_map(move |(_, functions, samples)| {
                let path = at(functions).map(|at| names(&part(functions, at))).unwrap_or_default();
                beginnings(&path).map(|part| (part, *samples)).collect::<Vec<_>>()
            }))
        };
        let callees = CallTree::callees(&profile, &profile.cells, is_wanted, By::Function);
        prop_assert_eq!(paths(&profile, &callees).0, naive(|functions, at| functions[at..].to_vec()));

        let callers = CallTree::callers(&profile, &profile.cells, is_wanted, By::Function);
        let (total, own) = paths(&profile, &callers);
        let outwards: fn(&[usize], usize) -> Vec<usize> =
            |functions, at| functions[..=at].iter().rev().copied().collect();
        prop_assert_eq!(total, naive(outwards));
        let leaves = rows.iter().filter(|(_, functions, _)| functions.last() == Some(&wanted));
        prop_assert_eq!(own, sums(leaves.map(|row| (names(&[wanted]), row.2))));
    }

    #[test]
    fn filters_keep_the_stacks_that_they_name(rows in rows(), function in 0_usize..6, thread in 0_usize..4) {
        let profile = built(&rows);
        let kept = |filter: &Filter| filter.cells(&profile).iter().map(|cell| cell.weight.samples).sum::<u64>();
        let naive = |keep: &dyn Fn(&Row) -> bool| {
            rows.iter().filter(|row| keep(row)).map(|row| row.2).sum::<u64>()
        };
        let pattern = |text: &str| Some(Pattern::parse(text).expect("a pattern"));
        let on_stack = |row: &Row| row.1.contains(&function);
        let named = pattern(&format!("^{}$", function_name(function)));
        prop_assert_eq!(kept(&Filter { focus: named.clone(), ..Filter::default() }), naive(&on_stack));
        prop_assert_eq!(kept(&Filter { ignore: named, ..Filter::default() }), naive(&|row| !on_stack(row)));
        let of_object = |row: &Row| row.1.last().is_some_and(|leaf| object_of(*leaf) == object_of(function));
        let object = pattern(OBJECTS[object_of(function)]);
        prop_assert_eq!(kept(&Filter { object, ..Filter::default() }), naive(&of_object));
        let name = THREADS[thread].1;
        let filter = Filter { thread: pattern(&format!("^{name}$")), ..Filter::default() };
        prop_assert_eq!(kept(&filter), naive(&|row| THREADS[row.0].1 == name));
        let process = THREADS[thread].0;
        let filter = Filter { process: pattern(PROCESSES[process]), ..Filter::default() };
        prop_assert_eq!(kept(&filter), naive(&|row| THREADS[row.0].0 == process));
    }

    #[test]
    fn a_difference_has_a_row_for_each_function_of_either_side(
        before in rows(),
        after in rows(),
        with_callees in any::<bool>(),
    ) {
        let order = if with_callees { Order::Total } else { Order::Own };
        let table = |rows: &[Row]| {
            let profile = built(rows);
            let flat = Flat::count_cells(&profile, &profile.cells, Some(By::Function), Split::Merged, order);
            (profile, flat)
        };
        let (old, new) = (table(&before), table(&after));
        let diff = Diff::compare((&old.0, &old.1), (&new.0, &new.1), Compare::Seconds);
        // With what it calls, a function counts once a stack, however often it is there.
        let counted = |rows: &[Row]| {
            sums(rows.iter().flat_map(|(_, functions, samples)| {
                let mut functions = functions.clone();
                if with_callees {
                    functions.sort_unstable();
                    functions.dedup();
                } else {
                    functions.drain(..functions.len() - 1);
                }
                functions.into_iter().map(|function| (function_name(function), *samples))
            }))
        };
        let (was, is) = (counted(&before), counted(&after));
        let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (name, samples) in was {
            expected.entry(name).or_default().0 = samples;
        }
        for (name, samples) in is {
            expected.entry(name).or_default().1 = samples;
        }
        let found: BTreeMap<String, (u64, u64)> =
            diff.rows.iter().map(|row| (row.name.clone(), (row.before.samples, row.after.samples))).collect();
        prop_assert_eq!(diff.rows.len(), found.len());
        prop_assert_eq!(found, expected);
        // The other way round all changes have the other sign.
        let back = Diff::compare((&new.0, &new.1), (&old.0, &old.1), Compare::Seconds);
        let changes = |diff: &Diff, sign: i64| -> BTreeMap<String, i64> {
            diff.rows.iter().map(|row| (row.name.clone(), sign * row.change_ns())).collect()
        };
        prop_assert_eq!(changes(&diff, 1), changes(&back, -1));
    }
}
