//! Pages of a made-up program of many contexts with known recursion.

use pct_deep::{Compensation, ProcRep, Profile};
use pct_feedback::synthetic::bushy;
use pct_reports::page::{Request, report};
use pct_reports::query::{Cmd, Contour, Group, PrefsIndication};
use pct_reports::report::recursion::TypeKey;
use pct_reports::report::{Report, callers};
use pct_reports::subject::{RepState, Subject};

fn subject(contexts: usize) -> Subject {
    let program = bushy(contexts);
    let mut subject = Subject::new(Profile::new(program.data().unwrap(), Compensation::Exact).unwrap());
    subject.rep = RepState::Good(Box::new(ProcRep::new(program.rep()).unwrap()));
    subject
}

#[test]
fn reports_that_are_kept_say_what_they_would_say_anew() {
    let subject = subject(60_000);
    let profile = &subject.profile;
    let ps = profile.pss().max_by_key(|&ps| profile.ps_pds(ps).len()).unwrap();
    assert!(profile.ps_pds(ps).len() > 40_000);
    let n = i64::from(ps.number());
    for &group in Group::ALL {
        for (bunch, size) in [(1, 20), (2, 10), (1, 20), (7, 100)] {
            let contour = Contour::Ignore;
            let cmd = Cmd::ProcCallers { ps: n, group, bunch, size, contour };
            let request = Request { cmd, page: 1, prefs: PrefsIndication::Default };
            let asked = callers::Asked { number: n, group, bunch, size, contour };
            let anew = callers::create(profile, &subject.contour, asked);
            let anew = serde_json::to_value(Report::Callers(anew)).unwrap();
            assert_eq!(serde_json::to_value(report(&subject, &request)).unwrap(), anew);
        }
    }
    let request = Request::parse(&format!("proc/{n}")).unwrap();
    let first = serde_json::to_value(report(&subject, &request)).unwrap();
    assert_eq!(serde_json::to_value(report(&subject, &request)).unwrap(), first);
}

#[test]
fn every_clique_is_counted_once_under_its_type() {
    let subject = subject(20_000);
    let Report::Frequencies(Ok(found)) = report(&subject, &Request::parse("recursion_type_freq").unwrap())
    else {
        panic!("there are bodies");
    };
    let profile = &subject.profile;
    assert_eq!(found.cliques, profile.clique_count());
    let count = |key: &TypeKey| found.types.iter().find(|t| t.key == *key).map_or(0, |t| t.count);
    // By layer: once, twice, not at all, through another. No callee calls main.
    let contexts = |name: &str| {
        let ps =
            profile.pss().find(|&ps| profile.unqualified_name(ps).starts_with(&format!("{name}/"))).unwrap();
        profile.ps_pds(ps).len()
    };
    assert_eq!(count(&TypeKey::Single), contexts("layer0") + contexts("layer4"));
    assert_eq!(count(&TypeKey::DivideAndConquer), contexts("layer1") + contexts("layer5"));
    assert_eq!(count(&TypeKey::NotRecursive), contexts("layer2") + 1);
    assert_eq!(count(&TypeKey::Mutual(2)), contexts("layer3"));
    // The root's clique has no entry.
    assert_eq!(count(&TypeKey::AnyError), 1);
    assert!(contexts("layer0") > 5000, "{}", contexts("layer0"));
}
