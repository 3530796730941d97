//! Merging of runs, and canonical contexts: laws on generated files, sums against naive ones, refusals.

use pct_deep::merge::{canonical, merge};
use pct_deep::synthetic::{Params, Shape, generate};
use pct_deep::{
    Builder, Compensation, Counts, Coverage, CsdId, Css, CssId, CssKind, DeepData, Header, MergeError, Own,
    PdId, PredOrFunc, ProcLabel, ProcStatic, Profile, PsId, Slot, Strings, to_octets,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn octets(data: &DeepData) -> Vec<u8> {
    let version = pct_deep::Version::from_number(data.header().version).expect("a known version");
    to_octets(data, version).expect("encodes")
}

/// The cost of each procedure, call site, coverage point and the program, by names: every merge must keep these.
fn sums(parts: &[DeepData]) -> BTreeMap<String, Vec<i64>> {
    let mut out: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let mut add = |key: String, figures: &[i64]| {
        let sum = out.entry(key).or_insert_with(|| vec![0; figures.len()]);
        sum.iter_mut().zip(figures).for_each(|(s, f)| *s += f);
    };
    for data in parts {
        let h = data.header();
        add("program".into(), &[h.instrument_quanta, h.user_quanta, h.callseqs].map(u64::cast_signed));
        for csd in data.csds() {
            let own = data.csd_own(csd).as_array();
            let (caller, callee) = (data.pd_ps(data.csd_caller(csd)), data.pd_ps(data.csd_callee(csd)));
            let css = data.csd_css(csd);
            let slot = data.sites(caller).iter().position(|&c| c == css).expect("a site of its procedure");
            add(data.raw_name(callee), &own);
            add(format!("{} at {slot} of {}", data.raw_name(callee), data.raw_name(caller)), &own);
        }
        for pd in data.pds() {
            let counts: Vec<i64> = data.pd_coverage(pd).map(u64::cast_signed).collect();
            add(format!("coverage of {}", data.raw_name(data.pd_ps(pd))), &counts);
        }
        for ps in data.pss() {
            let counts = data.ps_own_coverage(ps).unwrap_or_default().iter().map(|&n| n.cast_signed());
            add(format!("coverage with {}", data.raw_name(ps)), &counts.collect::<Vec<_>>());
        }
    }
    out
}

/// Procedures and contexts along paths from the root, up to a depth: they identify contexts without numbers.
fn paths(data: &DeepData, most: usize) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut layer = vec![(data.root(), String::new())];
    for _ in 0..4 {
        let mut next = Vec::new();
        for (pd, path) in layer {
            for (k, slot) in data.slots(pd).enumerate() {
                for csd in slot.csds() {
                    let callee = data.csd_callee(csd);
                    next.push((callee, format!("{path}/{k} {}", data.raw_name(data.pd_ps(callee)))));
                }
            }
        }
        next.truncate(most);
        out.extend(next.iter().map(|(_, path)| path.clone()));
        layer = next;
    }
    out
}

fn has_duplicates(p: &Profile) -> bool {
    p.cliques().any(|k| {
        let mut pss: Vec<PsId> = p.clique_members(k).iter().map(|&pd| p.pd_ps(pd)).collect();
        pss.sort_unstable();
        pss.windows(2).any(|w| w[0] == w[1])
    })
}

/// The same profile with other numbers for procedures and call sites, as another run would assign them.
fn renumbered(data: &DeepData) -> DeepData {
    let (pss, csss) = (data.ps_count() as u32, data.css_count() as u32);
    let ps_of = |ps: PsId| PsId::new(pss + 1 - ps.number()).unwrap();
    let css_of = |css: CssId| CssId::new(csss + 1 - css.number()).unwrap();
    let counts = Counts { csd: data.csd_count() as u32, css: csss, pd: data.pd_count() as u32, ps: pss };
    let mut b = Builder::new(data.header().clone(), data.strings().clone(), counts).unwrap();
    for css in data.csss() {
        let mut site = data.css(css).clone();
        if let CssKind::Normal { callee, .. } = &mut site.kind {
            *callee = ps_of(*callee);
        }
        b.css(css_of(css), site).unwrap();
    }
    for ps in data.pss() {
        let proc = data.ps(ps);
        let statics = ProcStatic {
            label: proc.label.clone(),
            file: proc.file,
            line: proc.line,
            in_interface: proc.in_interface,
        };
        let sites: Vec<CssId> = data.sites(ps).iter().map(|&c| css_of(c)).collect();
        let points: Vec<_> = data.points(ps).iter().map(|p| (p.path, p.kind)).collect();
        let own = data.ps_own_coverage(ps).unwrap_or_default();
        b.ps(ps_of(ps), statics, &sites, &points, own).unwrap();
    }
    for pd in data.pds() {
        let slots: Vec<Slot<'_>> = data.slots(pd).collect();
        let counts: Vec<u64> = data.pd_coverage(pd).collect();
        b.pd(pd, ps_of(data.pd_ps(pd)), &slots, &counts).unwrap();
    }
    for csd in data.csds() {
        b.csd(csd, data.csd_callee(csd), &data.csd_own(csd)).unwrap();
    }
    b.finish().unwrap()
}

fn params() -> impl Strategy<Value = Params> {
    let coverage = prop_oneof![Just(Coverage::None), Just(Coverage::Static), Just(Coverage::Dynamic)];
    (any::<u64>(), 0_usize..5, 1_u32..300, 1_u32..40, coverage).prop_map(
        |(seed, shape, contexts, procs, coverage)| Params {
            seed,
            shape: Shape::ALL[shape],
            contexts,
            procs,
            coverage,
            ..Params::default()
        },
    )
}

fn run(params: &Params, run: u64) -> DeepData {
    generate(&Params { run, contexts: params.contexts + run as u32 * 7, ..params.clone() }).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        pct_kit::asked("PROPTEST_CASES", if pct_kit::long() { 256 } else { 80 })))]

    #[test]
    fn merging_keeps_sums_and_does_not_mind_order_or_grouping(params in params()) {
        let parts = [run(&params, 0), run(&params, 1), run(&params, 2)];
        let [a, b, c] = &parts;
        let all = merge(&parts).unwrap();
        prop_assert_eq!(sums(&parts), sums(std::slice::from_ref(&all)));
        let expected = octets(&all);
        for other in [[c, a, b], [b, c, a], [c, b, a]] {
            prop_assert_eq!(&octets(&merge(&other.map(Clone::clone)).unwrap()), &expected);
        }
        let left = merge(&[merge(&[a.clone(), b.clone()]).unwrap(), c.clone()]).unwrap();
        let right = merge(&[a.clone(), merge(&[b.clone(), c.clone()]).unwrap()]).unwrap();
        prop_assert_eq!(&octets(&left), &expected);
        prop_assert_eq!(&octets(&right), &expected);
        // Other runs assign other numbers.
        prop_assert_eq!(&octets(&merge(&[renumbered(a), b.clone(), renumbered(c)]).unwrap()), &expected);
        // The merged file has exactly the paths of the runs.
        let of_parts: BTreeSet<String> = parts.iter().flat_map(|p| paths(p, usize::MAX)).collect();
        prop_assert!(of_parts.is_subset(&paths(&all, usize::MAX)));
        // It is a valid file, with one context of a procedure in a clique.
        prop_assert!(all.header().canonical);
        let read = pct_deep::load(&expected, Compensation::Exact).unwrap();
        prop_assert!(!has_duplicates(&read));
        prop_assert_eq!(read.root_total(), {
            let own: Own = parts.iter().flat_map(|p| p.csds().map(|c| p.csd_own(c))).sum();
            own.inherited()
        });
    }

    #[test]
    fn one_canonical_profile_is_its_own_merge_and_canonical_twice_is_once(params in params()) {
        let data = run(&params, 0);
        let once = canonical(data.clone()).unwrap();
        prop_assert_eq!(sums(std::slice::from_ref(&data)), sums(std::slice::from_ref(&once)));
        prop_assert!(!has_duplicates(&Profile::new(once.clone(), Compensation::Exact).unwrap()));
        prop_assert_eq!(octets(&canonical(once.clone()).unwrap()), octets(&once));
        let before = Profile::new(data.clone(), Compensation::Exact).unwrap();
        if !has_duplicates(&before) {
            prop_assert_eq!(octets(&once), octets(&data));
        }
        let merged = merge(&[data]).unwrap();
        prop_assert_eq!(merged.pd_count(), once.pd_count());
    }

    #[test]
    fn other_programs_are_refused_with_a_difference(params in params()) {
        let a = run(&params, 0);
        let b = run(&Params { seed: params.seed ^ 1, procs: params.procs + 1, ..params.clone() }, 0);
        let refused = merge(&[a.clone(), a, b]);
        let told = matches!(&refused, Err(MergeError::OtherProgram { part: 2, what }) if !what.is_empty());
        prop_assert!(told, "{:?}", refused.map(|_| ()));
    }
}

/// `run` calls `step`, `step` calls itself through a closure, the inner one calls `run`.
fn smallest() -> DeepData {
    let mut strings = Strings::default();
    let name = strings.intern(b"m").unwrap();
    let header = Header {
        version: 9,
        program: name,
        bytes_per_word: 8,
        canonical: false,
        coverage: Coverage::None,
        ticks_per_second: 100,
        instrument_quanta: 0,
        user_quanta: 7,
        callseqs: 4,
        root: PdId::new(1).unwrap(),
    };
    let counts = Counts { csd: 4, css: 4, pd: 4, ps: 3 };
    let mut b = Builder::new(header, strings, counts).unwrap();
    let ps = |n| PsId::new(n).unwrap();
    let pd = |n| PdId::new(n).unwrap();
    let css = |n| CssId::new(n).unwrap();
    let csd = |n| CsdId::new(n).unwrap();
    let sites: [&[CssId]; 3] = [&[css(1)], &[css(2)], &[css(3), css(4)]];
    for (i, text) in ["root", "run", "step"].iter().enumerate() {
        let text = b.string(text.as_bytes()).unwrap();
        let label = ProcLabel::Ordinary {
            kind: PredOrFunc::Pred,
            decl_module: name,
            def_module: name,
            name: text,
            arity: 0,
            mode: 0,
        };
        let proc = ProcStatic { label, file: name, line: 1, in_interface: true };
        b.ps(ps(i as u32 + 1), proc, sites[i], &[], &[]).unwrap();
    }
    let path = b.path(b"").unwrap();
    let normal = |callee| CssKind::Normal { callee, type_subst: Strings::EMPTY };
    let kinds = [CssKind::Callback, normal(ps(3)), CssKind::HigherOrder, normal(ps(2))];
    for (i, kind) in kinds.into_iter().enumerate() {
        b.css(css(i as u32 + 1), Css { kind, file: Strings::EMPTY, line: 1, path }).unwrap();
    }
    let by_closure = [csd(3)];
    let multi = |csds| Slot::Multi { kind: pct_deep::SiteKind::HigherOrder, csds };
    let callback = Slot::Multi { kind: pct_deep::SiteKind::Callback, csds: &[csd(1)] };
    b.pd(pd(1), ps(1), &[callback], &[]).unwrap();
    b.pd(pd(2), ps(2), &[Slot::Normal(Some(csd(2)))], &[]).unwrap();
    b.pd(pd(3), ps(3), &[multi(&by_closure), Slot::Normal(None)], &[]).unwrap();
    b.pd(pd(4), ps(3), &[multi(&[]), Slot::Normal(Some(csd(4)))], &[]).unwrap();
    for (n, callee, quanta) in [(1, 2, 1), (2, 3, 2), (3, 4, 3), (4, 2, 1)] {
        let own = Own { exits: 1, callseqs: 1, quanta, ..Own::default() };
        b.csd(csd(n), pd(callee), &own).unwrap();
    }
    b.finish().unwrap()
}

#[test]
fn the_smallest_example_becomes_a_clique_of_two() {
    let data = smallest();
    let before = Profile::new(data.clone(), Compensation::Exact).unwrap();
    assert!(has_duplicates(&before));
    let after = Profile::new(canonical(data).unwrap(), Compensation::Exact).unwrap();
    assert_eq!((before.pd_count(), after.pd_count()), (4, 3));
    assert!(!has_duplicates(&after) && after.header().canonical);
    let step = after.pds().find(|&pd| after.raw_name(after.pd_ps(pd)).contains("step")).unwrap();
    assert_eq!(after.pd_own(step).quanta, 5, "step and the inner step");
    let callees: Vec<String> =
        after.csds_of_pd(step).map(|c| after.raw_name(after.pd_ps(after.csd_callee(c)))).collect();
    assert_eq!(callees.len(), 2);
    assert!(callees[0].contains("step") && callees[1].contains("run"), "{callees:?}");
}

#[test]
fn merging_nothing_and_sums_beyond_63_bits_are_refused() {
    assert_eq!(merge(&[]).unwrap_err(), MergeError::Nothing);
    let mut octets = to_octets(&smallest(), pct_deep::Version::V9).unwrap();
    // The last edge's ticks, 1, become 2^62: two of them are too many.
    let data = smallest();
    let at = octets.windows(7).rposition(|w| w[0] == 2 && w[1] == 4 && w[2] == 2).expect("the edge");
    let mask = octets[at + 3..].iter().position(|&b| b & 0x80 == 0).unwrap() + at + 4;
    assert_eq!(octets[mask..mask + 3], [1, 1, 1], "exits, ticks, calls");
    let mut large = vec![0x80; 9];
    large[0] = 0xc0;
    large[8] = 0;
    octets.splice(mask + 1..mask + 2, large);
    let huge = pct_deep::read(&octets).unwrap();
    assert_eq!(huge.csd_count(), data.csd_count());
    let refused = merge(&[huge.clone(), huge]);
    assert!(
        matches!(&refused, Err(MergeError::Deep(e)) if e.code == pct_deep::ErrorCode::Overflow),
        "{refused:?}"
    );
}
