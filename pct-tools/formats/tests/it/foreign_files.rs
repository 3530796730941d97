//! A table over a folder of files of other tools, with their right answers. Its README has them too.

use crate::foreign::Want::{self, Refused, Sum};
use crate::foreign::check;
use pct_formats::import::parse;
use proptest::prelude::*;

/// File, what is chosen of it, and what it must give.
const FILES: &[(&str, Option<&str>, Want)] = &[
    ("big63.folded", None, Refused("add up")),
    ("bom.folded", None, Sum("14 samples", 14, "")),
    ("crlf.folded", None, Sum("14 samples", 14, "")),
    ("ctrl.folded", None, Sum("7 samples", 7, "")),
    ("default_wall.pb.gz", None, Sum("6.00 s of wall", 2, "cpu (nanoseconds)")),
    ("default_wall.pb.gz", Some("cpu"), Sum("0.020 CPU s", 2, "wall (nanoseconds)")),
    ("drop.pb.gz", None, Sum("0.040 CPU s", 4, "")),
    ("empties.folded", None, Sum("10 samples", 10, "[no stack]")),
    ("empty.folded", None, Refused("empty")),
    ("fewvals.pb.gz", None, Sum("0.010 CPU s", 1, "")),
    ("frac.folded", None, Sum("1,013 samples", 1013, "no whole number")),
    ("hash.folded", None, Sum("14 samples", 14, "")),
    ("heap.pb.gz", None, Sum("1,050 bytes of alloc_space", 0, "inuse_space (bytes)")),
    ("heap.pb.gz", Some("inuse_space"), Sum("50 bytes of inuse_space", 0, "alloc_space (bytes)")),
    ("heap.pb.gz", Some("inuse_objects"), Sum("1 inuse_objects", 0, "")),
    ("hybrid.data", None, Sum("180,000,000 of pmu4/cycles/ (count)", 60, "also in the file")),
    ("hybrid_atom_first.data", None, Sum("291,000,000 of pmu4/cycles/ (count)", 97, "also in the file")),
    ("labels.pb.gz", None, Sum("0.050 CPU s", 5, "")),
    ("latin1.folded", None, Sum("14 samples", 14, "no UTF-8")),
    ("many_cols.folded", None, Refused("pct diff")),
    ("max.folded", None, Refused("add up")),
    ("multi.pb.gz", None, Sum("0.040 CPU s", 4, "")),
    ("names.folded", None, Sum("20 samples", 20, "")),
    ("neg.folded", None, Refused("pct diff")),
    ("neg.pb.gz", None, Refused("pct diff")),
    ("nonl.folded", None, Sum("3 samples", 3, "")),
    ("nostack.pb.gz", None, Sum("0.040 CPU s", 4, "1 sample without a stack")),
    ("odd.pb.gz", None, Sum("0.15 CPU s", 15, "")),
    ("onlynl.folded", None, Refused("no sample")),
    ("period_only.pb.gz", None, Sum("400 samples", 400, "")),
    ("ps.txt.bz2", None, Refused("bzip2 -d first")),
    ("ps.txt.gz", None, Sum("0.002 CPU s", 2, "")),
    ("ps.txt.xz", None, Refused("xz -d first")),
    ("ps.txt.zst", None, Refused("zstd -d first")),
    ("ps_bigperiod.txt", None, Refused("64 bits")),
    ("ps_comm_kw.txt", None, Sum("0.003 CPU s", 3, "")),
    ("ps_crlf.txt", None, Sum("0.002 CPU s", 2, "")),
    ("ps_cycles_freq.txt", None, Sum("1,000,000 cycles", 1, "")),
    ("ps_deleted.txt", None, Sum("0.002 CPU s", 2, "")),
    ("ps_empty_comm.txt", None, Sum("0.001 CPU s", 1, "")),
    ("ps_guest.txt", None, Sum("0.005 CPU s", 5, "")),
    ("ps_inlined.txt", None, Sum("0.001 CPU s", 1, "")),
    ("ps_minus1.txt", None, Sum("0.003 CPU s", 3, "")),
    ("ps_multiline_comm.txt", None, Sum("0.001 CPU s", 1, "1 such line left out")),
    ("ps_nogap.txt", None, Sum("0.002 CPU s", 2, "")),
    ("ps_nonutf8.txt", None, Sum("0.001 CPU s", 1, "no UTF-8")),
    ("ps_paren.txt", None, Sum("0.001 CPU s", 1, "")),
    ("ps_samepid.txt", None, Sum("0.003 CPU s", 3, "")),
    ("ps_sched.txt", None, Sum("1 sample of sched:sched_switch", 1, "")),
    ("ps_semicolon.txt", None, Sum("0.001 CPU s", 1, "")),
    ("ps_tab.txt", None, Sum("0.001 CPU s", 1, "")),
    ("ps_tmux.txt", None, Sum("0.003 CPU s", 3, "")),
    ("ps_tracepoints.txt", None, Sum("10 samples of syscalls:sys_enter_sched_getaffinity", 10, "")),
    ("ps_twoevents.txt", None, Sum("0.001 CPU s", 1, "page-faults:u (2 samples)")),
    ("ps_twoevents.txt", Some("page-faults"), Sum("2 page-faults:u", 2, "cpu-clock:u (1 sample)")),
    ("tab.folded", None, Sum("14 samples", 14, "")),
    ("trail.pb.gz", None, Sum("0.040 CPU s", 4, "")),
    ("twice.pb.gz", None, Sum("0.040 CPU s", 4, "")),
    ("types9.pb.gz", None, Sum("0.010 s of wall", 0, "t0 (count)")),
    ("types9.pb.gz", Some("t7"), Sum("7 of t7 (count)", 0, "wall (nanoseconds)")),
    ("unit_bytes.pb.gz", None, Sum("16,384 bytes of cpu", 4, "")),
    ("unit_count.pb.gz", None, Sum("4 of cpu (count)", 4, "")),
    ("unit_microseconds.pb.gz", None, Sum("0.040 CPU s", 4, "")),
    ("unit_milliseconds.pb.gz", None, Sum("0.040 CPU s", 4, "")),
    ("unit_nanoseconds.pb.gz", None, Sum("0.040 CPU s", 4, "")),
    ("unit_none.pb.gz", None, Sum("20 of cpu (no unit given)", 4, "")),
    ("unit_ns.pb.gz", None, Sum("0.040 CPU s", 4, "")),
    ("unit_seconds.pb.gz", None, Sum("4.00 CPU s", 4, "")),
];

#[test]
fn each_file_gives_its_right_sum_or_is_refused_in_words() {
    let Some(folder) = pct_kit::real("foreign") else { return };
    for (name, sample_type, want) in FILES {
        let bytes = std::fs::read(folder.join(name)).unwrap_or_else(|why| panic!("{name}: {why}"));
        check(name, &bytes, *sample_type, *want);
    }
}

proptest! {
    #[test]
    fn damaged_files_are_read_or_refused(
        file in 0..FILES.len(),
        flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6),
        cut in 0usize..60,
    ) {
        let beside = || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
        let folder = std::env::var_os("PCT_TEST_DATA").map_or_else(beside, Into::into).join("foreign");
        // Where it is absent the test above says so.
        let mut bytes = std::fs::read(folder.join(FILES[file].0)).unwrap_or_default();
        for (at, byte) in flips {
            if let Some(at) = at.checked_rem(bytes.len()) {
                bytes[at] = byte;
            }
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        let _ = parse(&bytes, std::path::Path::new("x"));
    }
}
