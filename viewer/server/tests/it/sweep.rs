//! Pages of generated and real profiles, links on them. By default a part of the pages: `PCT_TEST_LONG=1` takes every
//! shape with every coverage and rule, and `PCT_SWEEP=all` looks at every id of the real profile (a minute).

use pct_deep::merge::{canonical, merge};
use pct_deep::synthetic::{Params, Shape, generate};
use pct_deep::{Compensation, Coverage, Profile};
use pct_reports::subject::Subject;
use pct_server::sweep::{SweepOptions, SweepResult, sweep};

fn errors(result: &SweepResult) -> Vec<String> {
    result.errors.iter().take(10).map(|(q, e)| format!("{q}: {e}")).collect()
}

#[test]
fn every_page_of_generated_profiles_of_every_shape_is_good() {
    for (i, &shape) in Shape::ALL.iter().enumerate() {
        for (c, coverage) in [Coverage::None, Coverage::Static, Coverage::Dynamic].into_iter().enumerate() {
            // Each coverage with some shape, each rule with some of both.
            if !pct_kit::long() && c != i % 3 {
                continue;
            }
            let params =
                Params { seed: i as u64 + 7, shape, contexts: 200, procs: 20, coverage, ..Params::default() };
            let data = generate(&params).expect("generates");
            for (r, rule) in [Compensation::Exact, Compensation::Compat].into_iter().enumerate() {
                if !pct_kit::long() && r != i % 2 {
                    continue;
                }
                let profile = Profile::new(data.clone(), rule).expect("is well formed");
                let subject = Subject::new(profile);
                let options = SweepOptions { sample: Some(6), follow: false, only: None };
                let result = sweep(&subject, &options, &mut |_| {});
                assert_eq!(errors(&result), Vec::<String>::new(), "{shape:?} {coverage:?}");
                assert!(result.pages.len() >= 24, "{:?}", result.pages.keys());
            }
        }
    }
}

#[test]
fn every_page_of_merged_and_of_canonical_profiles_is_good() {
    for (i, &shape) in Shape::ALL.iter().enumerate() {
        let run = |run| {
            let params =
                Params { seed: i as u64 + 3, run, shape, contexts: 150, procs: 15, ..Params::default() };
            generate(&params).expect("generates")
        };
        let merged = merge(&[run(1), run(2), run(3)]).expect("of one program");
        for (d, data) in [merged, canonical(run(1)).expect("is small")].into_iter().enumerate() {
            if !pct_kit::long() && d != i % 2 {
                continue;
            }
            let subject = Subject::new(Profile::new(data, Compensation::Exact).expect("is well formed"));
            let sample = if pct_kit::long() { 6 } else { 3 };
            let options = SweepOptions { sample: Some(sample), follow: false, only: None };
            assert_eq!(errors(&sweep(&subject, &options, &mut |_| {})), Vec::<String>::new(), "{shape:?}");
        }
    }
}

#[test]
fn every_page_of_the_real_profile_is_good() {
    let Some(file) = pct_kit::real("deep/mandelbrot/Deep.data") else { return };
    let subject = Subject::open(&file, Compensation::Exact).expect("opens");
    let all = std::env::var("PCT_SWEEP").is_ok_and(|v| v == "all");
    let sample = if pct_kit::long() { 25 } else { 3 };
    let options = SweepOptions { sample: (!all).then_some(sample), follow: true, only: None };
    let result = sweep(&subject, &options, &mut |_| {});
    assert_eq!(errors(&result), Vec::<String>::new());
    assert!(result.links > 200 * sample as u64, "{} links", result.links);
}
