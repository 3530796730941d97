//! Invariants of every profile, on the sample and on generated files of every shape; and the preprocessing compared
//! with its definitions.

use crate::common::sample;
use crate::naive;
use pct_deep::synthetic::{Params, Shape, generate};
use pct_deep::{
    Builder, Compensation, Counts, Coverage, CsdId, Css, CssId, CssKind, DeepData, Desc, Header, Own, PdId,
    PredOrFunc, ProcLabel, ProcStatic, Profile, PsId, SiteKind, Slot, Strings, Version, load, open,
    to_octets,
};
use proptest::prelude::*;

const RULES: [Compensation; 2] = [Compensation::Exact, Compensation::Compat];

/// The invariants of a profile of the real writer.
fn check_invariants(p: &Profile) {
    // Root: no CSD leads to it, and it reaches all. One CSD enters each clique except the root's, and children have
    // smaller numbers.
    assert!(p.pd_callers(p.root()).is_empty());
    let mut reached = vec![false; p.pd_count() + 1];
    let mut stack = vec![p.root()];
    while let Some(d) = stack.pop() {
        if std::mem::replace(&mut reached[d.number() as usize], true) {
            continue;
        }
        stack.extend(p.csds_of_pd(d).map(|c| p.csd_callee(c)));
    }
    assert!(reached[1..].iter().all(|&r| r), "a context is not reached");
    let mut entering = vec![0; p.clique_count() + 1];
    for c in p.csds() {
        let caller = p.csd_caller(c);
        assert!(p.csds_of_pd(caller).any(|x| x == c));
        assert_eq!(p.css_container(p.csd_css(c)), p.pd_ps(caller));
        if let Some(k) = p.csd_child_clique(c) {
            entering[k.number() as usize] += 1;
            assert_eq!(p.clique_entry(k), Some(c));
            assert!(k < p.pd_clique(caller));
        }
    }
    for k in p.cliques() {
        let expected = i32::from(k != p.root_clique());
        assert_eq!(entering[k.number() as usize], expected, "{k:?}");
    }
    assert_eq!(p.root_clique().number() as usize, p.clique_count());

    // Sums of own figures agree.
    let csd: Own = p.csds().map(|c| p.csd_own(c)).sum();
    assert_eq!(csd, p.pds().map(|d| p.pd_own(d)).sum());
    assert_eq!(csd, p.pss().map(|s| p.ps_own(s)).sum());
    assert_eq!(csd, p.csss().map(|s| p.css_own(s)).sum());
    assert_eq!(csd, p.modules().map(|m| p.module_figures(m).own).sum());
    assert_eq!(p.root_total(), csd.inherited());
    let root_ps = p.pd_ps(p.root());
    assert_eq!(p.ps_own(root_ps).total(&p.ps_desc(root_ps)), csd.inherited());
    assert_eq!(p.header().callseqs, csd.callseqs as u64 & 0xffff_ffff);
    assert!(p.header().user_quanta >= csd.quanta as u64);

    // A clique's total is the sum of all own figures in it and below.
    let mut below = vec![Desc::default(); p.clique_count() + 1];
    for k in p.cliques() {
        let own: Desc = p.clique_members(k).iter().map(|&d| p.pd_own(d).inherited()).sum();
        below[k.number() as usize] += own;
        let total = below[k.number() as usize];
        let figures = p.clique_figures(k);
        assert_eq!(figures.own.total(&figures.desc), total);
        if let Some(c) = p.clique_entry(k) {
            assert_eq!(p.csd_total(c), total);
            below[p.pd_clique(p.csd_caller(c)).number() as usize] += total;
        }
    }

    let not_negative = |d: Desc| d.as_array().iter().all(|&v| v >= 0);
    let at_most = |d: Desc, m: Desc| d.as_array().iter().zip(m.as_array()).all(|(&v, m)| v <= m);
    assert!(p.pds().all(|d| not_negative(p.pd_desc(d))));
    assert!(p.csds().all(|c| not_negative(p.csd_desc(c))));
    assert!(p.pss().all(|s| not_negative(p.ps_desc(s)) && p.ps_own(s).calls() >= 0));
    assert!(p.csss().all(|s| not_negative(p.css_own(s).total(&p.css_desc(s)))));
    if p.compensation() == Compensation::Exact {
        assert!(p.pss().all(|s| at_most(p.ps_own(s).total(&p.ps_desc(s)), p.root_total())));
    }
}

/// Compares all figures of a profile with the definitions. Inclusive costs are defined for real profiles only, in which
/// every clique is entered once.
fn check_against_naive(data: &DeepData, rule: Compensation, real: bool) {
    let p = Profile::new(data.clone(), rule).unwrap();
    let n = naive::preprocess(data, rule);
    assert_eq!(p.clique_count(), n.cliques.len());
    for (k, members) in p.cliques().zip(&n.cliques) {
        assert_eq!(p.clique_members(k), members.as_slice());
        assert_eq!(p.clique_entry(k), n.entry.get(&(k.number() as usize)).copied());
    }
    let entry = |t: &naive::Table, ps: PsId| t.get(&ps).copied().unwrap_or_default();
    for d in p.pds() {
        assert_eq!(p.pd_own(d), n.pd_own[&d]);
        assert_eq!(p.pd_desc(d), n.pd_desc[&d]);
        for &other in p.clique_members(p.pd_clique(d)) {
            let ps = p.pd_ps(other);
            assert_eq!(p.pd_comp(d, ps), entry(&n.pd_comp[&d], ps), "{d:?} {ps:?}");
        }
    }
    for c in p.csds() {
        assert_eq!(p.csd_caller(c), n.csd_caller[&c]);
        assert_eq!(p.csd_css(c), n.csd_css[&c]);
        assert_eq!(p.csd_desc(c), n.csd_desc[&c]);
        assert_eq!(p.csd_comp(c), entry(&n.csd_comp[&c], p.pd_ps(p.csd_caller(c))));
    }
    for s in p.pss() {
        assert_eq!(p.is_zeroed(s), n.zeroed.contains(&s));
        assert_eq!(p.ps_own(s), n.ps_own.get(&s).copied().unwrap_or_default());
        assert_eq!(p.ps_desc(s), n.ps_desc.get(&s).copied().unwrap_or_default());
        let mut callers = p.calls_of(s);
        callers.sort_unstable();
        assert_eq!(callers, p.csds().filter(|&c| p.pd_ps(p.csd_callee(c)) == s).collect::<Vec<_>>());
        if rule == Compensation::Exact && real {
            assert_eq!(p.ps_own(s).total(&p.ps_desc(s)), naive::inclusive(data, &n, s), "{s:?}");
        }
    }
    for s in p.csss() {
        assert_eq!(p.css_own(s), n.css_own.get(&s).copied().unwrap_or_default());
        assert_eq!(p.css_desc(s), n.css_desc.get(&s).copied().unwrap_or_default());
        let mut csds: Vec<CsdId> = p.css_csds(s).collect();
        csds.sort_unstable();
        assert_eq!(csds, p.csds().filter(|c| n.csd_css[c] == s).collect::<Vec<_>>());
    }
}

#[test]
fn the_sample_keeps_the_invariants() {
    let Some(file) = sample("Deep.data") else { return };
    for rule in RULES {
        let p = open(&file, rule).unwrap();
        check_invariants(&p);
        check_against_naive(p.data(), rule, true);
    }
}

#[test]
fn generated_profiles_of_every_shape_keep_the_invariants() {
    let contexts = pct_kit::asked("PCT_TEST_CONTEXTS", 4000);
    for shape in Shape::ALL {
        for coverage in [Coverage::None, Coverage::Static, Coverage::Dynamic] {
            let params = Params { shape, coverage, contexts, procs: 60, ..Params::default() };
            let data = generate(&params).unwrap();
            assert!(data.pd_count() > contexts as usize / 4, "{shape:?}: {} contexts", data.pd_count());
            check_invariants(&Profile::new(data, Compensation::Exact).unwrap());
        }
    }
}

#[test]
fn shapes_are_what_they_say() {
    let make = |shape| {
        let params = Params { shape, contexts: 20_000, procs: 200, ..Params::default() };
        Profile::new(generate(&params).unwrap(), Compensation::Exact).unwrap()
    };
    let depth = |p: &Profile| {
        let mut deepest = 0;
        let mut depth = vec![0_u32; p.clique_count() + 1];
        for k in p.cliques().rev() {
            if let Some(c) = p.clique_entry(k) {
                depth[k.number() as usize] = depth[p.pd_clique(p.csd_caller(c)).number() as usize] + 1;
            }
            deepest = deepest.max(depth[k.number() as usize]);
        }
        deepest
    };
    let largest = |p: &Profile| p.cliques().map(|k| p.clique_members(k).len()).max().unwrap();
    assert!(depth(&make(Shape::Deep)) > 4000, "{}", depth(&make(Shape::Deep)));
    assert!(depth(&make(Shape::Mixed)) < 200, "{}", depth(&make(Shape::Mixed)));
    assert!(largest(&make(Shape::Recursive)) > 10, "{}", largest(&make(Shape::Recursive)));
    let closures = make(Shape::Closures);
    assert!(closures.csds().any(|c| !closures.csd_comp(c).is_zero()));
}

/// Any graph at all, including those that no run-time system writes: contexts may be unreachable or entered several
/// times, and the root may be called.
fn any_graph() -> impl Strategy<Value = DeepData> {
    let kind = prop_oneof![
        Just(SiteKind::Normal),
        Just(SiteKind::HigherOrder),
        Just(SiteKind::Method),
        Just(SiteKind::Special)
    ];
    let procs = prop::collection::vec(prop::collection::vec(kind, 0..4), 1..6);
    let edges = prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>(), 0..50_i64), 0..30);
    let pds = prop::collection::vec(any::<u32>(), 1..12);
    (procs, pds, edges).prop_map(|(procs, pds, edges)| build_graph(&procs, &pds, &edges))
}

fn build_graph(procs: &[Vec<SiteKind>], pds: &[u32], edges: &[(u32, u32, u32, i64)]) -> DeepData {
    let ps_of = |d: usize| pds[d] as usize % procs.len();
    // slots[pd][site] = edges in it
    let mut slots: Vec<Vec<Vec<CsdId>>> =
        (0..pds.len()).map(|d| vec![Vec::new(); procs[ps_of(d)].len()]).collect();
    let mut csds = Vec::new();
    for &(from, site, to, cost) in edges {
        let d = from as usize % pds.len();
        let sites = &procs[ps_of(d)];
        if sites.is_empty() {
            continue;
        }
        let k = site as usize % sites.len();
        if sites[k] == SiteKind::Normal && !slots[d][k].is_empty() {
            continue;
        }
        let csd = CsdId::new(csds.len() as u32 + 1).unwrap();
        csds.push((PdId::new(to % pds.len() as u32 + 1).unwrap(), cost));
        slots[d][k].push(csd);
    }
    let count = |n: usize| n as u32;
    let header = Header {
        version: 9,
        program: Strings::EMPTY,
        bytes_per_word: 8,
        canonical: true,
        coverage: Coverage::None,
        ticks_per_second: 100,
        instrument_quanta: 0,
        user_quanta: 0,
        callseqs: 0,
        root: PdId::new(1).unwrap(),
    };
    let counts = Counts {
        csd: count(csds.len()),
        css: procs.iter().map(|p| count(p.len())).sum(),
        pd: count(pds.len()),
        ps: count(procs.len()),
    };
    let mut b = Builder::new(header, Strings::default(), counts).unwrap();
    for (i, &(callee, cost)) in csds.iter().enumerate() {
        let own = Own { exits: 1, callseqs: cost, words: cost * 7 % 5, ..Own::default() };
        b.csd(CsdId::new(count(i) + 1).unwrap(), callee, &own).unwrap();
    }
    for (d, slots) in slots.iter().enumerate() {
        let ps = ps_of(d);
        let slots: Vec<Slot<'_>> = slots
            .iter()
            .zip(&procs[ps])
            .map(|(csds, &kind)| match kind {
                SiteKind::Normal => Slot::Normal(csds.first().copied()),
                kind => Slot::Multi { kind, csds },
            })
            .collect();
        b.pd(PdId::new(count(d) + 1).unwrap(), PsId::new(count(ps) + 1).unwrap(), &slots, &[]).unwrap();
    }
    let mut css = 0;
    let path = b.path(b"").unwrap();
    for (i, kinds) in procs.iter().enumerate() {
        let name = b.string(format!("p{i}").as_bytes()).unwrap();
        let mut sites = Vec::new();
        for &kind in kinds {
            css += 1;
            let id = CssId::new(css).unwrap();
            let kind = match kind {
                SiteKind::Normal => {
                    CssKind::Normal { callee: PsId::new(1).unwrap(), type_subst: Strings::EMPTY }
                }
                SiteKind::HigherOrder => CssKind::HigherOrder,
                SiteKind::Method => CssKind::Method,
                _ => CssKind::Special,
            };
            b.css(id, Css { kind, file: Strings::EMPTY, line: css, path }).unwrap();
            sites.push(id);
        }
        let label = ProcLabel::Ordinary {
            kind: PredOrFunc::Pred,
            decl_module: name,
            def_module: name,
            name,
            arity: 1,
            mode: 0,
        };
        let proc = ProcStatic { label, file: name, line: 1, in_interface: true };
        b.ps(PsId::new(count(i) + 1).unwrap(), proc, &sites, &[], &[]).unwrap();
    }
    b.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        pct_kit::asked("PROPTEST_CASES", 400)))]

    #[test]
    fn generated_profiles_are_preprocessed_by_the_definitions(
        seed in any::<u64>(),
        shape in prop::sample::select(Shape::ALL.to_vec()),
        contexts in 1..120_u32,
        procs in 1..12_u32,
    ) {
        let data = generate(&Params { seed, shape, contexts, procs, ..Params::default() }).unwrap();
        for rule in RULES {
            check_invariants(&Profile::new(data.clone(), rule).unwrap());
            check_against_naive(&data, rule, true);
        }
    }

    #[test]
    fn any_graph_is_preprocessed_by_the_definitions(data in any_graph()) {
        for rule in RULES {
            check_against_naive(&data, rule, false);
        }
        let again = load(&to_octets(&data, Version::V9).unwrap(), Compensation::Exact).unwrap();
        check_against_naive(again.data(), Compensation::Exact, false);
    }
}
