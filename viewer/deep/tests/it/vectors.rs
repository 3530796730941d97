//! Files with known figures: two small handwritten ones, and a real one.

use crate::common::{EVERY_KIND, TWO_OCCURRENCES, octets, sample};
use pct_deep::{Compensation, CssKind, Desc, Own, Profile, PsId, SiteKind, Slot, load, open};

fn ps(p: &Profile, n: i64) -> PsId {
    p.ps_id(n).unwrap()
}
fn callseqs(d: Desc) -> i64 {
    assert_eq!((d.quanta, d.allocs, d.words), (0, 0, 0));
    d.callseqs
}
fn desc(quanta: i64, callseqs: i64, allocs: i64, words: i64) -> Desc {
    Desc { quanta, callseqs, allocs, words }
}
/// calls exits fails redos excps quanta callseqs allocs words
fn nine(own: Own) -> [i64; 9] {
    let a = own.as_array();
    [own.calls(), a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]]
}

#[test]
fn two_occurrences_by_both_rules() {
    let file = octets(TWO_OCCURRENCES);
    for (rule, s_desc, css2_desc, csd2_comp) in
        [(Compensation::Exact, 2, 1, 2), (Compensation::Compat, 3, 2, 1)]
    {
        let p = load(&file, rule).unwrap();
        let pd = |n| p.pd_id(n).unwrap();
        let csd = |n| p.csd_id(n).unwrap();
        let own: Vec<i64> = (1..=5).map(|n| p.pd_own(pd(n)).callseqs).collect();
        assert_eq!(own, [0, 1, 2, 1, 1]);
        assert_eq!((1..=5).map(|n| callseqs(p.pd_desc(pd(n)))).collect::<Vec<_>>(), [5, 4, 1, 0, 0]);
        assert_eq!((1..=5).map(|n| p.csd_own(csd(n)).exits).collect::<Vec<_>>(), [1; 5]);
        assert_eq!((1..=5).map(|n| callseqs(p.csd_desc(csd(n)))).collect::<Vec<_>>(), [4, 3, 0, 0, 0]);
        // s itself makes csd 2, so its entry for s is stored.
        assert_eq!(callseqs(p.csd_comp(csd(2))), csd2_comp);
        assert_eq!(callseqs(p.pd_comp(pd(2), ps(&p, 2))), csd2_comp);
        assert_eq!(callseqs(p.pd_comp(pd(3), ps(&p, 2))), 1);

        assert_eq!(p.ps_own(ps(&p, 2)).callseqs, 3);
        assert_eq!(callseqs(p.ps_desc(ps(&p, 2))), s_desc);
        assert_eq!(p.ps_own(ps(&p, 3)).callseqs, 2);
        assert_eq!(callseqs(p.ps_desc(ps(&p, 3))), 1);
        let css: Vec<(i64, i64)> =
            p.csss().map(|s| (p.css_own(s).callseqs, callseqs(p.css_desc(s)))).collect();
        assert_eq!(css, [(1, 4), (2, css2_desc), (1, 0), (1, 0)]);

        let cliques: Vec<(Vec<u32>, Option<u32>)> = p
            .cliques()
            .map(|k| {
                (
                    p.clique_members(k).iter().map(|d| d.number()).collect(),
                    p.clique_entry(k).map(|c| c.number()),
                )
            })
            .collect();
        assert_eq!(cliques, [(vec![5], Some(4)), (vec![3, 4], Some(2)), (vec![2], Some(1)), (vec![1], None)]);
        assert_eq!(p.pss().map(|s| p.is_zeroed(s)).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(p.qualified_name(ps(&p, 2)), "m.s/1-0");
    }
}

#[test]
fn every_kind_of_site_and_name() {
    let p = load(&octets(EVERY_KIND), Compensation::Exact).unwrap();
    assert_eq!(p.program(), "./synthetic");
    let names: Vec<String> = p.pss().skip(1).map(|s| p.qualified_name(s)).collect();
    assert_eq!(names, ["m.main/2-0", "m.main lambda line 12/3+1", "Unify for m.t/1", "m.q/1-0 [A = int]"]);
    let own: Vec<[i64; 9]> = p.pss().skip(1).map(|s| nine(p.ps_own(s))).collect();
    assert_eq!(
        own,
        [
            [9, 8, 1, 0, 0, 0, 9, 0, 0],
            [201, 151, 50, 20, 20, 3, 201, 9, 300],
            [70000, 70000, 0, 0, 0, 0, 70000, 5, 12],
            [2, 2, 0, 0, 0, 0, 2, 0, 0],
        ]
    );
    let descs: Vec<Desc> = p.pss().skip(1).map(|s| p.ps_desc(s)).collect();
    assert_eq!(descs, [desc(0, 70003, 5, 12), desc(0, 4, 0, 0), desc(0, 0, 0, 0), desc(0, 0, 0, 0)]);
    let coverage: Vec<Option<Vec<i64>>> = p.pss().map(|s| p.ps_coverage(s).map(<[i64]>::to_vec)).collect();
    assert_eq!(coverage, [Some(vec![]), Some(vec![600]), Some(vec![600]), Some(vec![300]), Some(vec![300])]);
    let point = p.points(ps(&p, 2))[0];
    assert_eq!(p.path(point.path).to_string(), "s1-na;c1;");
    assert_eq!(p.path_text(point.path), "s1-2;c1;");
    assert_eq!(point.kind, pct_deep::PointKind::After);

    let cliques: Vec<(Vec<u32>, Option<u32>)> = p
        .cliques()
        .map(|k| {
            (p.clique_members(k).iter().map(|d| d.number()).collect(), p.clique_entry(k).map(|c| c.number()))
        })
        .collect();
    assert_eq!(
        cliques,
        [
            (vec![4], Some(3)),
            (vec![6], Some(7)),
            (vec![5], Some(4)),
            (vec![7], Some(5)),
            (vec![2, 3], Some(1)),
            (vec![1], None)
        ]
    );
    let pd = |n| p.pd_id(n).unwrap();
    assert_eq!(p.pd_own(pd(2)).callseqs, 5);
    assert_eq!(p.pd_desc(pd(2)).callseqs, 70007);
    assert_eq!(p.csd_desc(p.csd_id(1).unwrap()), desc(3, 70211, 14, 312));
    assert_eq!(p.pd_comp(pd(2), ps(&p, 2)), desc(0, 4, 0, 0));
    assert_eq!(p.csd_comp(p.csd_id(4).unwrap()), desc(0, 4, 0, 0));

    let css = |n| p.css_id(n).unwrap();
    assert_eq!(p.css_own(css(3)).calls(), 70001);
    let calls: Vec<(u32, u32)> =
        p.css_csds(css(3)).map(|c| (p.pd_ps(p.csd_callee(c)).number(), c.number())).collect();
    assert_eq!(calls, [(4, 3), (3, 4)]);
    assert_eq!(p.css_csds(css(6)).map(|c| c.number()).collect::<Vec<_>>(), [6, 7]);
    assert_eq!(nine(p.css_own(css(6))), [8, 7, 1, 0, 0, 0, 8, 0, 0]);
    assert!(p.css_desc(css(6)).is_zero());
    let m = p.module_id("m").unwrap();
    assert_eq!((p.module_figures(m).own.callseqs, p.module_figures(m).desc.callseqs), (70212, 70007));
    let runtime = p.module_id("Mercury runtime").unwrap();
    assert_eq!((p.module_figures(runtime).own.callseqs, p.module_figures(runtime).desc.callseqs), (0, 70212));
}

#[test]
fn the_sample_has_the_known_figures() {
    let Some(file) = sample("Deep.data") else { return };
    let p = open(&file, Compensation::Exact).unwrap();
    let h = p.header();
    assert_eq!((h.version, p.program().as_ref(), h.bytes_per_word), (8, "./mandelbrot", 8));
    assert_eq!((p.csd_count(), p.css_count(), p.pd_count(), p.ps_count()), (211, 21992, 185, 8584));
    assert_eq!(
        (h.ticks_per_second, h.instrument_quanta, h.user_quanta, h.callseqs),
        (100, 46, 110, 202_594_363)
    );
    assert!(p.warnings().is_empty(), "{:?}", p.warnings());
    let pd3: Vec<Vec<u32>> =
        p.slots(p.pd_id(3).unwrap()).map(|s| s.csds().map(|c| c.number()).collect()).collect();
    assert_eq!(pd3.len(), 18);
    assert_eq!(pd3[..6], [vec![6], vec![7], vec![], vec![], vec![8], vec![9]]);
    assert_eq!(p.pd_coverage(p.pd_id(3).unwrap()).collect::<Vec<_>>(), [0, 1, 0, 0, 0, 0, 1, 1, 0]);
    assert_eq!(nine(p.csd_own(p.csd_id(22).unwrap())), [1, 4, 1, 4, 0, 0, 1, 4, 8]);
    let css = p.css(p.css_id(2).unwrap());
    assert_eq!((css.line, p.path_text(css.path).as_ref()), (25, "c1;"));
    assert_eq!(css.kind.callee(), Some(ps(&p, 4)));
    assert_eq!(p.qualified_name(ps(&p, 110)), "Unify for mandelbrot.colour/0");
    let mut kinds = [0; 5];
    for s in p.csss() {
        kinds[usize::from(p.css(s).kind.kind().number())] += 1;
    }
    assert_eq!(kinds, [18487, 438, 2258, 687, 122]);
    assert!(matches!(p.css(p.css_id(151).unwrap()).kind, CssKind::Special));
    let mut slots = [0; 5];
    for d in p.pds() {
        for s in p.slots(d) {
            slots[usize::from(s.kind().number())] += 1;
        }
    }
    assert_eq!(slots, [459, 87, 12, 0, 7]);
    let root: Vec<Slot<'_>> = p.slots(p.root()).collect();
    assert_eq!(root.len(), 1);
    assert_eq!(root[0].kind(), SiteKind::Callback);
    assert_eq!(root[0].csds().count(), 5);
    assert_eq!(p.pss().filter(|&s| !p.ps_pds(s).is_empty()).count(), 99);
    let zeroed: Vec<u32> = p.pss().filter(|&s| p.is_zeroed(s)).map(|s| s.number()).collect();
    assert_eq!(zeroed, [8, 10, 25, 29, 43, 57, 66, 83, 88]);
    assert_eq!(p.pss().map(|s| p.points(s).len()).sum::<usize>(), 20172);
    assert_eq!(p.modules().len(), 116);
    assert_eq!(p.clique_count(), 185);
    let members =
        |n| p.clique_members(p.clique_id(n).unwrap()).iter().map(|d| d.number()).collect::<Vec<_>>();
    let entry = |n| p.clique_entry(p.clique_id(n).unwrap()).map(|c| c.number());
    assert_eq!((members(1), entry(1)), (vec![2], Some(1)));
    assert_eq!((members(167), entry(167)), (vec![3], Some(2)));
    assert_eq!((members(184), entry(184)), (vec![171], Some(5)));
    assert_eq!((members(185), entry(185)), (vec![1], None));
    let sum: Own = p.csds().map(|c| p.csd_own(c)).sum();
    assert_eq!(nine(sum), [202_594_394, 202_594_389, 13, 8, 0, 110, 202_594_363, 140_837, 221_479]);

    let mut ranked: Vec<PsId> = p.pss().skip(1).collect();
    ranked.sort_by_key(|&s| std::cmp::Reverse(p.ps_own(s).callseqs));
    let rows: Vec<(u32, String, i64, i64, i64)> = ranked[..5]
        .iter()
        .map(|&s| {
            let (own, total) = (p.ps_own(s), p.ps_own(s).total(&p.ps_desc(s)));
            (s.number(), p.qualified_name(s), own.callseqs, own.quanta, total.callseqs)
        })
        .collect();
    let row = |n, name: &str, own, quanta, total| (n, name.to_owned(), own, quanta, total);
    assert_eq!(
        rows,
        [
            row(62, "math.sqrt/2+1-0", 100_996_502, 58, 100_996_502),
            row(61, "mandelbrot.escape/7-0", 100_976_685, 52, 201_933_309),
            row(54, "float.float/2+1-0", 159_514, 0, 159_514),
            row(86, "io.write_byte/4-0", 120_015, 0, 120_015),
            row(88, "cord.foldl_node_pred/4-2", 79_999, 0, 239_999),
        ]
    );
    let total = |n| p.ps_own(ps(&p, n)).total(&p.ps_desc(ps(&p, n)));
    assert_eq!(total(3), desc(110, 202_594_348, 140_833, 221_456));
    assert_eq!(total(53).callseqs, 202_594_187);
    assert_eq!(total(57).callseqs, 202_353_073);
    let my_map = p.sites(ps(&p, 57))[0];
    assert_eq!(p.path(p.css(my_map).path).to_string(), "s2-na;c2;");
    assert_eq!(p.css_own(my_map).calls(), 200);
    assert_eq!(p.css_own(my_map).total(&p.css_desc(my_map)).callseqs, 202_352_872);

    let module = |n| {
        let m = p.module_id(n).unwrap();
        let f = p.module_figures(m);
        (p.module_procs(m).len(), f.own.callseqs, f.desc.callseqs)
    };
    assert_eq!(module("mandelbrot"), (28, 101_117_726, 1_113_702_758));
    assert_eq!(module("math"), (37, 100_996_502, 0));
    assert_eq!(module("float"), (36, 239_272, 0));
    assert_eq!(module("cord"), (87, 120_401, 399_999));
    assert_eq!(module("io"), (453, 120_027, 36));
    assert_eq!(module("list"), (478, 237, 427));
    assert_eq!(module("string"), (431, 74, 378));
}
