//! Recursion pages of a made-up program whose recursion is known.

use pct_deep::{Compensation, ProcRep, Profile};
use pct_feedback::synthetic::bushy;
use pct_reports::page::{Request, report};
use pct_reports::report::Report;
use pct_reports::report::recursion::TypeKey;
use pct_reports::subject::{RepState, Subject};

#[test]
fn every_clique_is_counted_once_under_its_type() {
    let program = bushy(20_000);
    let profile = Profile::new(program.data().unwrap(), Compensation::Exact).unwrap();
    let mut subject = Subject::new(profile);
    subject.rep = RepState::Good(Box::new(ProcRep::new(program.rep()).unwrap()));
    let Report::Frequencies(Ok(found)) = report(&subject, &Request::parse("recursion_type_freq").unwrap())
    else {
        panic!("there are bodies");
    };
    let profile = &subject.profile;
    assert_eq!(found.cliques, profile.clique_count());
    let count = |key: &TypeKey| found.types.iter().find(|t| t.key == *key).map_or(0, |t| t.count);
    // By layer: once, twice, not at all, through another. Main calls nobody that calls it.
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
