//! The top list and the modules of made-up programs, compared with sums over all calls that the test computes itself.

use std::collections::BTreeMap;

use pct_deep::figures::Desc;
use pct_deep::synthetic::{Params, Shape, generate};
use pct_deep::{Compensation, Profile, PsId};
use pct_reports::query::{Cost, Incl, Limit, Scope};
use pct_reports::report::modules;
use pct_reports::report::top_procs::{self, TopProcsReport};

fn profiles() -> impl Iterator<Item = Profile> {
    Shape::ALL.iter().map(|&shape| {
        let params = Params { shape, contexts: 400, procs: 30, ..Params::default() };
        Profile::new(generate(&params).expect("generates"), Compensation::Exact).expect("well formed")
    })
}

/// Own costs of each procedure except the root: the sums over the calls of it.
fn own_costs(profile: &Profile) -> BTreeMap<PsId, Desc> {
    let root = profile.pd_ps(profile.root());
    let mut sums = BTreeMap::new();
    for csd in profile.csds() {
        let ps = profile.pd_ps(profile.csd_callee(csd));
        if ps != root {
            *sums.entry(ps).or_insert_with(Desc::default) += profile.csd_own(csd).inherited();
        }
    }
    sums
}

fn cost_of(sum: &Desc, cost: Cost) -> i64 {
    match cost {
        Cost::Time => sum.quanta,
        Cost::Callseqs => sum.callseqs,
        Cost::Allocs => sum.allocs,
        Cost::Words => sum.words,
        Cost::Calls | Cost::Redos => unreachable!("not asked for"),
    }
}

const COSTS: [Cost; 4] = [Cost::Time, Cost::Callseqs, Cost::Allocs, Cost::Words];

fn top(profile: &Profile, limit: Limit, cost: Cost) -> TopProcsReport {
    top_procs::create(profile, limit, cost, Incl::Own, Scope::Overall).expect("a top list")
}

fn listed(report: &TopProcsReport, cost: Cost) -> Vec<(u32, i64)> {
    let own = |row: &top_procs::TopProc| match cost {
        Cost::Time => row.perf.own.ticks,
        Cost::Callseqs => row.perf.own.callseqs,
        Cost::Allocs => row.perf.own.allocs,
        _ => row.perf.own.words,
    };
    report.procs.iter().map(|row| (row.desc.ps, own(row))).collect()
}

#[test]
fn the_top_list_has_every_procedure_that_cost_something_the_most_expensive_first() {
    for profile in profiles() {
        let sums = own_costs(&profile);
        for cost in COSTS {
            let report = top(&profile, Limit::Ranks(1, 1000), cost);
            let rows = listed(&report, cost);
            assert!(rows.is_sorted_by(|a, b| a.1 >= b.1), "{rows:?}");
            let mut expected: Vec<(u32, i64)> = sums
                .iter()
                .map(|(ps, sum)| (ps.number(), cost_of(sum, cost)))
                .filter(|(_, n)| *n > 0)
                .collect();
            let mut found = rows.clone();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected);
            assert_eq!(report.with_cost, expected.len());
            // The ranks from the third to the fifth are those rows of the whole list.
            let some = listed(&top(&profile, Limit::Ranks(3, 5), cost), cost);
            assert_eq!(some, rows.get(2..rows.len().min(5)).unwrap_or(&[]));
        }
    }
}

#[test]
fn a_limit_in_percent_lists_what_is_above_it_and_nothing_else() {
    let mut left_out = 0;
    for profile in profiles() {
        let whole = profile.root_total();
        let sums = own_costs(&profile);
        for cost in COSTS {
            for percent in [0.5, 2.0, 5.0] {
                // In whole numbers: 200 * cost > 2 * percent * whole.
                let bound = (2.0 * percent) as i64 * cost_of(&whole, cost);
                let above = |sum: &Desc| 200 * cost_of(sum, cost) > bound && cost_of(sum, cost) > 0;
                let expected: Vec<u32> =
                    sums.iter().filter(|(_, sum)| above(sum)).map(|(ps, _)| ps.number()).collect();
                let report = top(&profile, Limit::Percent(percent), cost);
                let mut found: Vec<u32> = report.procs.iter().map(|row| row.desc.ps).collect();
                found.sort_unstable();
                assert_eq!(found, expected, "{percent} %");
                left_out += sums.len() - expected.len();
            }
        }
    }
    assert!(left_out > 100, "{left_out}");
}

#[test]
fn shares_of_all_procedures_and_of_all_modules_add_up_to_the_program() {
    for profile in profiles() {
        let whole = profile.root_total();
        let report = top(&profile, Limit::Ranks(1, 1000), Cost::Callseqs);
        let callseqs: i64 = report.procs.iter().map(|row| row.perf.own.callseqs).sum();
        assert_eq!(callseqs, whole.callseqs);
        let share: f64 = report.procs.iter().map(|row| row.perf.own.callseqs_share).sum();
        assert!((share - 1.0).abs() < 1e-9, "{share}");
        let per_call = |row: &top_procs::TopProc| row.perf.own.callseqs_per_call * row.perf.calls as f64;
        for row in &report.procs {
            let back = if row.perf.calls == 0 { 0.0 } else { row.perf.own.callseqs as f64 };
            assert!((per_call(row) - back).abs() < 1e-6 * back.max(1.0), "{}", row.desc.name);
        }
        let modules = modules::create_all(&profile).modules;
        let by_module: i64 = modules.iter().map(|row| row.perf.own.callseqs).sum();
        assert_eq!(by_module, whole.callseqs);
    }
}
