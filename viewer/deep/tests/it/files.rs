//! Files: written and read back, cut at any octet, changed at any octet, wrong in each known way.

use std::fs;
use std::io::Write;

use crate::common::{EVERY_KIND, TWO_OCCURRENCES, octets, sample};
use pct_deep::synthetic::{Params, Shape, generate};
use pct_deep::{
    Compensation, Coverage, DeepData, ErrorCode, NodeRef, Version, WriteError, load, open, read, read_file,
    to_octets,
};
use proptest::prelude::*;

/// Checks that two profiles are equal.
fn assert_same(a: &DeepData, b: &DeepData) {
    let header = |d: &DeepData| {
        let h = d.header().clone();
        (
            h.bytes_per_word,
            h.canonical,
            h.coverage,
            h.ticks_per_second,
            h.instrument_quanta,
            h.user_quanta,
            h.callseqs,
            h.root,
        )
    };
    assert_eq!(header(a), header(b));
    assert_eq!(a.program(), b.program());
    assert_eq!(
        (a.csd_count(), a.css_count(), a.pd_count(), a.ps_count()),
        (b.csd_count(), b.css_count(), b.pd_count(), b.ps_count())
    );
    for c in a.csds() {
        assert_eq!((a.csd_callee(c), a.csd_own(c)), (b.csd_callee(c), b.csd_own(c)));
    }
    for d in a.pds() {
        assert_eq!(a.pd_ps(d), b.pd_ps(d));
        assert!(a.slots(d).eq(b.slots(d)));
        assert!(a.pd_coverage(d).eq(b.pd_coverage(d)));
    }
    let css = |d: &DeepData, id| {
        let css = d.css(id);
        let subst = match css.kind {
            pct_deep::CssKind::Normal { type_subst, .. } => d.text(type_subst).into_owned(),
            _ => String::new(),
        };
        (
            css.kind.kind(),
            css.kind.callee(),
            subst,
            d.text(css.file).into_owned(),
            css.line,
            d.path_text(css.path).into_owned(),
        )
    };
    for s in a.csss() {
        assert_eq!(css(a, s), css(b, s));
    }
    for p in a.pss() {
        assert_eq!(a.label(p), b.label(p));
        assert_eq!(
            (a.text(a.ps(p).file), a.ps(p).line, a.ps(p).in_interface),
            (b.text(b.ps(p).file), b.ps(p).line, b.ps(p).in_interface)
        );
        assert_eq!(a.sites(p), b.sites(p));
        let points = |d: &DeepData| -> Vec<_> {
            d.points(p).iter().map(|q| (d.path_text(q.path).into_owned(), q.kind)).collect()
        };
        assert_eq!(points(a), points(b));
        assert_eq!(a.ps_own_coverage(p), b.ps_own_coverage(p));
    }
}

#[test]
fn the_sample_is_written_as_it_was() {
    let Some(file) = sample("Deep.data") else { return };
    let original = fs::read(&file).unwrap();
    let data = read_file(&file).unwrap();
    let written = to_octets(&data, Version::V8).unwrap();
    assert_eq!(written.len(), original.len());
    // Contexts and edges come in the same order; the order of procedures is nowhere recorded.
    assert!(written[..4802] == original[..4802], "the dynamic part differs");
    assert_same(&data, &read(&written).unwrap());
    let nine = read(&to_octets(&data, Version::V9).unwrap()).unwrap();
    assert_eq!(nine.header().version, 9);
    assert_same(&data, &nine);
}

#[test]
fn small_files_are_written_octet_for_octet_or_say_the_same() {
    for hex in [TWO_OCCURRENCES, EVERY_KIND] {
        let file = octets(hex);
        let data = read(&file).unwrap();
        let written = to_octets(&data, Version::V9).unwrap();
        assert_same(&data, &read(&written).unwrap());
    }
    // This one has the run-time system's order, but padded numbers.
    let data = read(&octets(TWO_OCCURRENCES)).unwrap();
    assert_eq!(to_octets(&data, Version::V9).unwrap().len(), 301);
}

#[test]
fn version_8_refuses_call_sites_in_files_of_their_own() {
    let data = read(&octets(EVERY_KIND)).unwrap();
    assert!(matches!(to_octets(&data, Version::V8), Err(WriteError::SiteFile(css)) if css.number() == 1));
}

#[test]
fn a_file_on_disk_reads_like_its_octets() {
    // Larger than the reader's window, and some single nodes are too.
    let params = Params { shape: Shape::Wide, contexts: 60_000, procs: 300, ..Params::default() };
    let data = generate(&params).unwrap();
    let whole = to_octets(&data, Version::V9).unwrap();
    assert!(whole.len() > 3 << 20, "{}", whole.len());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    fs::write(&path, &whole).unwrap();
    assert_same(&data, &read_file(&path).unwrap());
    let cut = whole.len() - 2_000_000;
    fs::write(&path, &whole[..cut]).unwrap();
    let (a, b) = (read_file(&path).unwrap_err(), read(&whole[..cut]).unwrap_err());
    assert_eq!((a.code, a.offset), (b.code, b.offset));
    assert_eq!(a.file.as_deref(), Some(path.as_path()));
    assert_eq!(a.offset, Some(cut as u64));
}

#[test]
fn a_node_larger_than_the_window_is_read() {
    let params = Params { contexts: 10, procs: 3, coverage: Coverage::None, ..Params::default() };
    let data = generate(&params).unwrap();
    let mut whole = to_octets(&data, Version::V9).unwrap();
    // A long program name moves everything: the header must be complete first.
    let name_at = whole.iter().position(|&b| b == b'\n').unwrap() + 1;
    let old = whole[name_at] as usize;
    let name = vec![b'n'; 5 << 20];
    let mut long = Vec::new();
    for shift in [21, 14, 7] {
        long.push((name.len() >> shift) as u8 & 0x7f | 0x80);
    }
    long.push(name.len() as u8 & 0x7f);
    long.extend_from_slice(&name);
    whole.splice(name_at..name_at + 1 + old, long);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    fs::write(&path, &whole).unwrap();
    let read = read_file(&path).unwrap();
    assert_eq!(read.program().len(), 5 << 20);
    assert_eq!(read.pd_count(), data.pd_count());
}

#[test]
fn files_that_cannot_be_opened_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let missing = open(&dir.path().join("none.data"), Compensation::Exact).unwrap_err();
    assert_eq!(missing.code, ErrorCode::CannotOpen);
    assert!(missing.to_string().contains("none.data"), "{missing}");
    let folder = open(dir.path(), Compensation::Exact).unwrap_err();
    assert_eq!(folder.code, ErrorCode::CannotOpen);
}

#[test]
fn a_file_cut_at_any_octet_is_an_error() {
    for hex in [TWO_OCCURRENCES, EVERY_KIND] {
        let whole = octets(hex);
        for len in 0..whole.len() {
            let error = load(&whole[..len], Compensation::Exact).unwrap_err();
            let expected = [ErrorCode::Truncated, ErrorCode::BadCount, ErrorCode::MissingNodes];
            assert!(expected.contains(&error.code), "{len}: {error}");
            assert!(error.offset.is_some(), "{len}: {error}");
        }
        load(&whole, Compensation::Exact).unwrap();
    }
}

#[test]
fn octets_changed_anywhere_never_panic() {
    for hex in [TWO_OCCURRENCES, EVERY_KIND] {
        let whole = octets(hex);
        let (mut good, mut bad) = (0, 0);
        for at in 0..whole.len() {
            let few = [
                0,
                1,
                2,
                3,
                4,
                5,
                9,
                0x3b,
                0x7f,
                0x80,
                0x81,
                0xc0,
                0xff,
                whole[at] ^ 1,
                whole[at].wrapping_add(1),
            ];
            for value in few {
                let mut changed = whole.clone();
                changed[at] = value;
                for rule in [Compensation::Exact, Compensation::Compat] {
                    match load(&changed, rule) {
                        Ok(p) => {
                            good += 1;
                            let _ =
                                (p.root_total(), p.pss().map(|s| p.qualified_name(s)).collect::<Vec<_>>());
                        }
                        Err(error) => {
                            bad += 1;
                            let has_place = error.offset.is_some() || error.code == ErrorCode::Overflow;
                            assert!(has_place, "octet {at} = {value}: {error}");
                        }
                    }
                }
            }
        }
        assert!(good > 2000 && bad > 2000, "{good} accepted, {bad} refused");
    }
}

/// The file with an occurrence of some octets replaced.
fn changed(whole: &[u8], find: &[u8], replace: &[u8]) -> Vec<u8> {
    let at = whole.windows(find.len()).position(|w| w == find).expect("the octets to change are there");
    [&whole[..at], replace, &whole[at + find.len()..]].concat()
}

#[test]
fn each_fault_has_its_code_place_and_words() {
    let two = octets(TWO_OCCURRENCES);
    let every = octets(EVERY_KIND);
    let check = |file: &[u8], code: ErrorCode, offset: Option<u64>, words: &str| {
        let error = load(file, Compensation::Exact).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        if offset.is_some() {
            assert_eq!(error.offset, offset, "{error}");
        }
        assert!(error.message.contains(words), "{error}");
        error
    };
    let t = |find: &[u8], replace: &[u8]| changed(&two, find, replace);
    let e = |find: &[u8], replace: &[u8]| changed(&every, find, replace);
    let bad_version = ErrorCode::BadVersion;
    let not_deep = ErrorCode::NotDeepFile;

    check(&t(b"Mercury deep", b"mercury deep"), not_deep, Some(0), "not a deep profiling data file");
    check(&t(b"version 9\n", b"version 9\r\n"), not_deep, Some(0), "not a deep");
    check(&t(b"version 9\n", b"version \n"), not_deep, Some(0), "not a deep");
    check(&t(b"version 9\n", b"version 7\n"), bad_version, Some(35), "version number mismatch");
    check(&t(b"version 9\n", b"version -9\n"), bad_version, Some(35), "version number mismatch");
    // Ten digits are read.
    check(&t(b"version 9\n", b"version 99999999999999999999\n"), bad_version, Some(35), "");
    load(&t(b"version 9\n", b"version +9\n"), Compensation::Exact).unwrap();
    load(&t(b"version 9\n", b"version 0000000009"), Compensation::Exact).unwrap();

    let flags = ErrorCode::BadFlags;
    for bad in [[8, 2], [8, 4], [8, 0x31], [8, 0x41]] {
        let words = format!("flags are 0x{:x}", u16::from_le_bytes(bad));
        check(&t(b"\x01v\x08\x01", &[&[1, b'v'], &bad[..]].concat()), flags, Some(39), &words);
    }
    let counts = [5_u8, 0, 0, 0, 0, 0, 0, 0, 4];
    check(&t(&counts, &[5, 0, 0, 0, 0, 0, 0, 0x80, 4]), ErrorCode::BadCount, Some(47), "csd");
    check(&t(&counts, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 4]), ErrorCode::BadCount, Some(47), "do not fit");
    check(&t(&counts, &[6, 0, 0, 0, 0, 0, 0, 0, 4]), ErrorCode::MissingNodes, Some(301), "csd 6");
    let error = check(&t(&counts, &[4, 0, 0, 0, 0, 0, 0, 0, 4]), ErrorCode::BadId, None, "csd 5");
    assert_eq!(error.offset, Some(129));
    check(&t(&[0x64, 0, 0, 5, 1], &[0x64, 0, 0, 5, 6]), ErrorCode::BadId, Some(83), "root pd 6");
    check(&t(&[0x64, 0, 0, 5, 1], &[0x64, 0, 0, 5, 0]), ErrorCode::BadId, Some(83), "root pd 0");

    // The first PD's tag and contents.
    let pd1 = [4, 1, 1, 1, 4, 1, 0];
    check(&t(&pd1, &[9, 1, 1, 1, 4, 1, 0]), ErrorCode::BadToken, Some(84), "unexpected token 9");
    check(&t(&pd1, &[4, 0, 1, 1, 4, 1, 0]), ErrorCode::BadId, Some(85), "pd 0");
    check(&t(&pd1, &[4, 1, 9, 1, 4, 1, 0]), ErrorCode::BadId, Some(86), "ps 9");
    check(
        &t(&pd1, &[4, 1, 1, 1, 5, 1, 0]),
        ErrorCode::BadCallSiteKind,
        Some(88),
        "unexpected call_site_kind 5",
    );
    check(&t(&pd1, &[4, 1, 1, 1, 4, 9, 0]), ErrorCode::BadId, Some(89), "csd 9");
    let error = check(&t(&pd1, &[4, 1, 1, 1, 3, 1, 0]), ErrorCode::SiteMismatch, Some(84), "kind 3");
    assert_eq!(error.node, Some(NodeRef::Pd(pct_deep::PdId::new(1).unwrap())));
    check(&t(&pd1, &[4, 1, 1, 0]), ErrorCode::SiteMismatch, Some(84), "0 call site slots");
    check(&t(&pd1, &[4, 1, 1, 0xff, 0x7f, 4, 1, 0]), ErrorCode::Truncated, None, "unexpected end of file");
    check(&t(&pd1, &[4, 1, 1, 1, 4, 1, 2, 0]), ErrorCode::SharedCsd, None, "in a slot of pd");
    let error = check(&t(&pd1, &[4, 1, 1, 1, 4, 0]), ErrorCode::OrphanCsd, Some(90), "");
    assert_eq!(error.node.unwrap().to_string(), "csd 1");
    // A padded zero in a list does not end it and refers to nothing.
    load(&t(&pd1, &[4, 1, 1, 1, 4, 0x80, 0, 1, 0]), Compensation::Exact).unwrap();

    // The first CSD.
    let csd1 = [2, 1, 2, 0x0a, 1, 1];
    check(&t(&csd1, &[2, 1, 9, 0x0a, 1, 1]), ErrorCode::BadId, Some(93), "pd 9");
    check(&t(&csd1, &[2, 1, 2, 0x0b, 1, 1, 1]), ErrorCode::BadMask, Some(94), "0xb");
    check(&t(&csd1, &[2, 1, 2, 0x84, 0, 1]), ErrorCode::BadMask, Some(94), "0x200");
    check(&t(&csd1, &[&csd1[..], &csd1[..]].concat()), ErrorCode::DuplicateNode, Some(97), "twice");
    let long = |value: &[u8]| [&[2, 1, 2, 0x0a][..], value, &[1]].concat();
    check(&t(&csd1, &long(&[0x80; 11])), ErrorCode::NumberTooLong, Some(95), "");
    check(
        &t(&csd1, &long(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f])),
        ErrorCode::NumberTooLarge,
        Some(95),
        "",
    );
    // 2^62 fits. Twice that, in two CSDs that lead to one procedure, does not.
    let large = [0xc0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0];
    let once = t(&csd1, &long(&large));
    load(&once, Compensation::Exact).unwrap();
    let twice = changed(&once, &[2, 3, 4, 0x0a, 1, 1], &[&[2, 3, 4, 0x0a][..], &large, &[1]].concat());
    check(&twice, ErrorCode::Overflow, None, "63 bits");

    // Procedures and call sites.
    let ps2 = b"\x03\x02\x00\x01m\x01m\x01s";
    check(
        &t(ps2, b"\x03\x02\x03\x01m\x01m\x01s"),
        ErrorCode::BadProclabelKind,
        None,
        "unexpected proclabel_kind 3",
    );
    check(&t(ps2, b"\x03\x02\x00\x01m\x01m\x01\x00"), ErrorCode::BadString, None, "NUL");
    check(&t(ps2, b"\x03\x02\x00\x7fm\x01m\x01s"), ErrorCode::Truncated, None, "");
    check(&t(b"c1;", b"x1;"), ErrorCode::BadGoalPath, None, "x1");
    let sites = [3, 0, 2, 3, 4];
    check(&t(&sites, &[3, 0, 2, 3, 3]), ErrorCode::SharedCss, None, "ps 3 and by ps 3");
    check(&t(&sites, &[3, 0, 2, 3, 9]), ErrorCode::BadId, None, "css 9");
    check(&t(&[1, 2, 2, 0, 2, 3, b'c', b'2', b';'], &[]), ErrorCode::MissingNodes, None, "css 2");
    // One more call site, which no procedure lists.
    let mut more = [&two[..], &[1, 5, 1, 0, 1, 0]].concat();
    more[55] = 5;
    check(&more, ErrorCode::OrphanCss, Some(301), "");
    check(&[&two[..], &[0, 7]].concat(), ErrorCode::TrailingData, Some(302), "1 octets");
    load(&[&two[..], &[0]].concat(), Compensation::Exact).unwrap();

    // Coverage.
    let point = b"\x08s1-2;c1;\x00";
    check(&e(point, b"\x08s1-2;c1;\x02"), ErrorCode::BadCoverageType, None, "type 2");
    check(
        &e(&[4, 2, 2, 4, 1, 0x82, 0x2c], &[4, 2, 2, 4, 0]),
        ErrorCode::CoverageMismatch,
        None,
        "0 coverage counts",
    );

    let warned =
        load(&t(b"\x01s\x01\x00\x03m.m", b"\x12IntroducedFrom__x1\x01\x00\x03m.m"), Compensation::Exact)
            .unwrap();
    assert_eq!(warned.warnings().len(), 1);
    assert_eq!(warned.warnings()[0].code, "bad_proc_name");
    let ps2 = warned.ps_id(2).unwrap();
    assert_eq!(warned.qualified_name(ps2), warned.raw_name(ps2));
}

#[test]
fn absurd_counts_take_no_memory() {
    // Each count alone, as large as the file seems to allow and beyond, is refused for its size.
    let whole = octets(TWO_OCCURRENCES);
    for field in 0..4 {
        for count in [1_u64 << 20, 1 << 31, 1 << 40, i64::MAX as u64] {
            let mut file = whole.clone();
            file[47 + 8 * field..][..8].copy_from_slice(&count.to_le_bytes());
            assert_eq!(load(&file, Compensation::Exact).unwrap_err().code, ErrorCode::BadCount);
        }
    }
}

#[test]
fn names_that_are_not_utf_8_survive() {
    let file = changed(&octets(TWO_OCCURRENCES), b"\x01m\x01m\x01s", b"\x01m\x01m\x01\xff");
    let data = read(&file).unwrap();
    assert_eq!(data.qualified_name(data.ps_id(2).unwrap()), "m.\u{fffd}/1-0");
    let written = to_octets(&data, Version::V9).unwrap();
    assert!(written.contains(&0xff));
    assert_same(&data, &read(&written).unwrap());
}

#[test]
fn a_file_that_grows_or_shrinks_while_read_is_an_error_at_worst() {
    let data = generate(&Params { contexts: 100, ..Params::default() }).unwrap();
    let whole = to_octets(&data, Version::V9).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.data");
    let mut file = fs::File::create(&path).unwrap();
    for part in whole.chunks(97) {
        file.write_all(part).unwrap();
        let _ = open(&path, Compensation::Exact);
    }
    open(&path, Compensation::Exact).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        pct_kit::asked("PROPTEST_CASES", 150)))]

    #[test]
    fn what_is_written_reads_the_same(
        seed in any::<u64>(),
        shape in prop::sample::select(Shape::ALL.to_vec()),
        coverage in prop::sample::select(vec![Coverage::None, Coverage::Static, Coverage::Dynamic]),
        version in prop::sample::select(vec![Version::V8, Version::V9]),
        contexts in 1..200_u32,
    ) {
        let data = generate(&Params { seed, run: 0, shape, coverage, version, contexts, procs: 20 }).unwrap();
        let octets = to_octets(&data, version).unwrap();
        let again = read(&octets).unwrap();
        assert_same(&data, &again);
        prop_assert_eq!(to_octets(&again, version).unwrap(), octets);
    }

    #[test]
    fn files_changed_in_several_places_never_panic(
        seed in 0..20_u64,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let data = generate(&Params { seed, contexts: 40, procs: 8, ..Params::default() }).unwrap();
        let mut octets = to_octets(&data, Version::V9).unwrap();
        for (at, value) in changes {
            let at = at.index(octets.len());
            octets[at] = value;
        }
        if let Some(cut) = cut {
            octets.truncate(cut.index(octets.len()));
        }
        if let Ok(p) = load(&octets, Compensation::Compat) {
            let _ = (p.root_total(), p.modules().len(), p.csss().map(|s| p.css_csds(s).count()).sum::<usize>());
        }
    }

    #[test]
    fn any_octets_at_all_never_panic(rest in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&rest);
        let _ = read(&[b"Mercury deep profiler data version 9\n".as_slice(), &rest].concat());
    }
}
