//! What other tools read from an export: each format is parsed again here by the shortest possible reader, and its
//! sums must be those of the stacks that were written.

use pct_formats::import::parse;
use pct_formats::{Format, export};
use pct_profile::Profile;
use pct_profile::model::{Builder, Object, ObjectKind, Process, Weight};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Thread, functions from the outermost inwards, samples.
type Row = (usize, Vec<usize>, u64);

/// Names as programs have them.
const FUNCTIONS: [&str; 5] = ["main", "std::vec<int, 4>::push_back(int&&)", "f 2", "λ", "<T as \"X\">::go"];
const THREADS: usize = 3;
pub(crate) const PERIOD_NS: u64 = 1_000_000;

pub(crate) fn rows() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec((0..THREADS, prop::collection::vec(0..FUNCTIONS.len(), 1..7), 1_u64..40), 1..25)
}

pub(crate) fn built(rows: &[Row]) -> Profile {
    let mut b = Builder::new(false);
    let object = b.object(Object::new("/bin/prog", ObjectKind::File));
    let process = b.process(Process { pid: 7, name: "prog".into(), hz: 1000, ..Process::default() });
    let threads: Vec<_> = (0..THREADS).map(|n| b.thread(process, 7, &format!("thread {n}"))).collect();
    for (thread, functions, samples) in rows {
        let mut stack = None;
        for function in functions {
            let function = b.function(object, FUNCTIONS[*function]);
            let frame = b.plain_frame(function);
            stack = Some(b.stack(stack, frame));
        }
        let weight = Weight { samples: *samples, user_ns: samples * PERIOD_NS, system_ns: 0 };
        b.add(threads[*thread], stack.expect("a function"), weight);
    }
    b.finish()
}

pub(crate) fn names(functions: &[usize]) -> Vec<String> {
    functions.iter().map(|function| FUNCTIONS[*function].to_owned()).collect()
}

fn sums<K: Ord>(parts: impl IntoIterator<Item = (K, u64)>) -> BTreeMap<K, u64> {
    let mut sums = BTreeMap::new();
    for (key, amount) in parts {
        *sums.entry(key).or_default() += amount;
    }
    sums
}

/// Samples by stack, from text of lines `a;b;c 12`.
fn of_folded(text: &str) -> BTreeMap<Vec<String>, u64> {
    sums(text.lines().map(|line| {
        let (stack, samples) = line.rsplit_once(' ').expect("a count");
        (stack.split(';').map(str::to_owned).collect(), samples.parse().expect("a number"))
    }))
}

/// Nanoseconds by thread and stack.
fn of_speedscope(bytes: &[u8]) -> BTreeMap<(String, Vec<String>), u64> {
    let file: serde_json::Value = serde_json::from_slice(bytes).expect("JSON");
    let frames = file["shared"]["frames"].as_array().expect("frames");
    let name = |frame: &serde_json::Value| {
        let index = usize::try_from(frame.as_u64().expect("an index")).expect("a small index");
        frames[index]["name"].as_str().expect("a name").to_owned()
    };
    sums(file["profiles"].as_array().expect("profiles").iter().flat_map(|profile| {
        let thread = profile["name"].as_str().expect("a thread").to_owned();
        let samples = profile["samples"].as_array().expect("samples");
        let weights = profile["weights"].as_array().expect("weights");
        assert_eq!(samples.len(), weights.len());
        let all: u64 = weights.iter().map(|weight| weight.as_u64().expect("a weight")).sum();
        assert_eq!(profile["endValue"].as_u64(), Some(all));
        samples.iter().zip(weights).map(move |(stack, weight)| {
            let stack = stack.as_array().expect("a stack").iter().map(name).collect();
            ((thread.clone(), stack), weight.as_u64().expect("a weight"))
        })
    }))
}

/// A callgrind file, in microseconds.
#[derive(Default)]
struct Callgrind {
    /// Cost of each function itself.
    own: BTreeMap<String, u64>,
    /// Cost of each function when called by another one.
    calls: BTreeMap<(String, String), u64>,
    summary: u64,
}

fn of_callgrind(text: &str) -> Callgrind {
    let mut read = Callgrind::default();
    let (mut function, mut callee, mut is_call) = (String::new(), String::new(), false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = name.to_owned();
        } else if let Some(name) = line.strip_prefix("cfn=") {
            callee = name.to_owned();
        } else if let Some(sum) = line.strip_prefix("summary: ") {
            read.summary = sum.parse().expect("a number");
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            let cost: u64 = line.split_once(' ').expect("line and cost").1.parse().expect("a number");
            if std::mem::take(&mut is_call) {
                *read.calls.entry((function.clone(), callee.clone())).or_default() += cost;
            } else {
                *read.own.entry(function.clone()).or_default() += cost;
            }
        }
    }
    read
}

proptest! {
    #[test]
    fn folded_text_has_each_stack_once_with_its_samples(rows in rows()) {
        let profile = built(&rows);
        let text = String::from_utf8(export(&profile, &profile.cells, Format::Folded)).expect("UTF-8");
        let expected = sums(rows.iter().map(|(_, functions, samples)| (names(functions), *samples)));
        prop_assert_eq!(text.lines().count(), expected.len());
        prop_assert_eq!(of_folded(&text), expected);
    }

    #[test]
    fn speedscope_has_the_time_of_each_stack_by_thread(rows in rows()) {
        let profile = built(&rows);
        let found = of_speedscope(&export(&profile, &profile.cells, Format::Speedscope));
        let by_stack = sums(found.iter().map(|((_, stack), ns)| (stack.clone(), *ns)));
        let expected =
            sums(rows.iter().map(|(_, functions, samples)| (names(functions), samples * PERIOD_NS)));
        prop_assert_eq!(by_stack, expected);
        for thread in 0..THREADS {
            let is_of = |name: &str| name.contains(&format!("thread {thread}"));
            let ns: u64 = found.iter().filter(|((name, _), _)| is_of(name)).map(|(_, ns)| ns).sum();
            let samples: u64 = rows.iter().filter(|row| row.0 == thread).map(|row| row.2).sum();
            prop_assert_eq!(ns, samples * PERIOD_NS);
        }
    }

    #[test]
    fn callgrind_has_own_costs_and_those_of_each_call(rows in rows()) {
        let profile = built(&rows);
        let text = String::from_utf8(export(&profile, &profile.cells, Format::Callgrind)).expect("UTF-8");
        let Callgrind { own, calls, summary } = of_callgrind(&text);
        let us = |samples: u64| samples * PERIOD_NS / 1000;
        let leaves = rows.iter().map(|(_, functions, samples)| {
            (names(functions).pop().expect("a function"), us(*samples))
        });
        prop_assert_eq!(own, sums(leaves));
        // In a recursion a sample counts once for each pair of functions.
        let pairs = rows.iter().flat_map(|(_, functions, samples)| {
            let names = names(functions);
            let pairs: BTreeSet<(String, String)> =
                names.iter().cloned().zip(names.iter().skip(1).cloned()).collect();
            pairs.into_iter().map(|pair| (pair, us(*samples))).collect::<Vec<_>>()
        });
        prop_assert_eq!(calls, sums(pairs));
        prop_assert_eq!(summary, rows.iter().map(|row| us(row.2)).sum::<u64>());
    }

    #[test]
    fn pprof_comes_back_with_every_stack(rows in rows()) {
        let profile = built(&rows);
        let again = parse(&export(&profile, &profile.cells, Format::Pprof), Path::new("again")).expect("a pprof file");
        let text = String::from_utf8(export(&again, &again.cells, Format::Folded)).expect("UTF-8");
        let expected = sums(rows.iter().map(|(_, functions, samples)| (names(functions), *samples)));
        prop_assert_eq!(of_folded(&text), expected);
        prop_assert_eq!(again.total().cpu_ns(), rows.iter().map(|row| row.2 * PERIOD_NS).sum::<u64>());
    }
}
