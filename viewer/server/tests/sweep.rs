//! Every page of generated and real profiles, and every link on them. `PCT_SWEEP=all` covers every id of the real one
//! (a minute); by default it covers a sample.

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
        for coverage in [Coverage::None, Coverage::Static, Coverage::Dynamic] {
            let params =
                Params { seed: i as u64 + 7, shape, contexts: 200, procs: 20, coverage, ..Params::default() };
            let data = generate(&params).expect("generates");
            for rule in [Compensation::Exact, Compensation::Compat] {
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
        for data in [merged, canonical(run(1)).expect("is small")] {
            let subject = Subject::new(Profile::new(data, Compensation::Exact).expect("is well formed"));
            let options = SweepOptions { sample: Some(6), follow: false, only: None };
            assert_eq!(errors(&sweep(&subject, &options, &mut |_| {})), Vec::<String>::new(), "{shape:?}");
        }
    }
}

#[test]
fn every_page_of_the_real_profile_is_good() {
    let Some(file) = pct_kit::real("deep/mandelbrot/Deep.data") else { return };
    let subject = Subject::open(&file, Compensation::Exact).expect("opens");
    let all = std::env::var("PCT_SWEEP").is_ok_and(|v| v == "all");
    let options = SweepOptions { sample: if all { None } else { Some(25) }, follow: true, only: None };
    let result = sweep(&subject, &options, &mut |_| {});
    assert_eq!(errors(&result), Vec::<String>::new());
    assert!(result.links > 5000);
}
