//! What commands do with what lies beside a recording: links, unfinished files, programs that were rebuilt.

use crate::support::pct;
use pct_format::builder::Builder;
use pct_format::layout::Text;

const MS: u64 = 1_000_000;

/// A recording of 50 samples in a file's code, with a build-id that the file does not have.
fn recording(program: &str) -> Vec<u8> {
    let mut b = Builder::new();
    b.argv(&[b"prog"]).text(Text::Exe, program.as_bytes());
    b.region(1, 1, 0x40_0000..0x40_8000, 0, 11, b"\x12\x34\x56\x78", program.as_bytes());
    let thread = b.thread(1, 1000, b"prog");
    for n in 0..50 {
        b.sample(thread, (n + 1) * MS, 0x40_3000, 1, false, 0);
    }
    b.finish()
}

fn run_folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let run = dir.path().join("pct-prog-1000");
    std::fs::create_dir(&run).expect("made");
    std::fs::write(run.join("prog-1000.pct"), recording("/nonexistent/prog")).expect("written");
    dir
}

#[test]
fn a_link_in_a_recordings_folder_is_replaced_not_followed() {
    let dir = run_folder();
    let (victim, run) = (dir.path().join("victim"), dir.path().join("pct-prog-1000"));
    for (words, name) in [
        (&["flame", "pct-prog-1000"][..], "flame.svg"),
        (&["export", "--format", "folded", "pct-prog-1000"], "profile.folded"),
    ] {
        std::fs::write(&victim, "precious").expect("written");
        std::os::unix::fs::symlink(&victim, run.join(name)).expect("linked");
        let out = pct(dir.path(), words);
        assert_eq!(out.status.code(), Some(0), "{out:?}");
        assert_eq!(std::fs::read_to_string(&victim).expect("still there"), "precious", "{words:?}");
        let made = std::fs::symlink_metadata(run.join(name)).expect("made");
        assert!(made.is_file() && made.len() > 0, "{words:?}");
    }
    let left: Vec<_> =
        std::fs::read_dir(&run).expect("listed").map(|e| e.expect("entry").file_name()).collect();
    assert_eq!(left.len(), 3, "no temporary file is left: {left:?}");
}

#[test]
fn an_unfinished_file_beside_a_whole_one_is_a_note() {
    let dir = run_folder();
    std::fs::write(dir.path().join("pct-prog-1000/prog-1001.pct"), vec![0; 65536]).expect("written");
    std::fs::write(dir.path().join("pct-prog-1000/prog-1002.pct"), "").expect("written");
    for words in [
        &["report", "pct-prog-1000"][..],
        &["flame", "pct-prog-1000"],
        &["export", "--format", "folded", "pct-prog-1000"],
    ] {
        let out = pct(dir.path(), words);
        assert_eq!(out.status.code(), Some(0), "{words:?}: {out:?}");
    }
    let said = String::from_utf8(pct(dir.path(), &["report", "pct-prog-1000"]).stdout).expect("text");
    assert!(said.contains("prog-1001.pct: the file's header was never finished"), "{said}");
    assert!(said.contains("prog-1002.pct: not a .pct file: it is empty"), "{said}");
}

#[test]
fn annotate_refuses_a_file_that_was_rebuilt() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = env!("CARGO_BIN_EXE_pct-print");
    std::fs::write(dir.path().join("p.pct"), recording(program)).expect("written");
    let out = pct(dir.path(), &["annotate", "--asm", r"\+0x", "p.pct"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        said.contains("no instructions") && said.contains("that of the sampled file was 12345678"),
        "{out:?}"
    );
    assert!(!String::from_utf8_lossy(&out.stdout).contains("in /"), "nothing is disassembled: {out:?}");
}
