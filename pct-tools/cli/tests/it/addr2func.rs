//! `addr2func` as a process: the translator protocol, and as a translator of the symbolizer.

use std::io::Write;
use std::process::{Command, Stdio};

use pct_symbols::translator::Template;

/// A list of `count` functions, 32 bytes apart.
fn list(dir: &std::path::Path, count: u64) -> std::path::PathBuf {
    let path = dir.join("names");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).expect("temp"));
    for i in 0..count {
        writeln!(file, "{:016x} T function_{i}", 0x1000 + i * 32).expect("temp");
    }
    path
}

#[test]
fn it_is_a_translator() {
    let dir = tempfile::tempdir().expect("temp");
    let names = list(dir.path(), 20_000);
    let template = format!("{} -f '{}'", env!("CARGO_BIN_EXE_addr2func"), names.display());
    let template = Template::parse(&template).expect("a good command line");
    let addresses: Vec<u64> = (0..50_000).map(|i| 0x1000 + i * 12).collect();
    let translation = template.translate(dir.path(), None, &addresses);
    assert!(translation.error.is_none(), "{:?}", translation.error);
    for (address, answer) in addresses.iter().zip(&translation.answers) {
        let wanted = format!("function_{}", (address - 0x1000) / 32);
        assert_eq!(answer.as_deref(), Some(&[wanted][..]), "{address:#x}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let dir = tempfile::tempdir().expect("temp");
    let names = list(dir.path(), 10);
    let mut child = Command::new(env!("CARGO_BIN_EXE_addr2func"))
        .arg(&names)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("our own program");
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().expect("piped");
    let _ = stdin.write_all("1000\n".repeat(100_000).as_bytes());
    drop(stdin);
    let out = child.wait_with_output().expect("it ends");
    assert!(out.status.success(), "{:?}: {}", out.status, String::from_utf8_lossy(&out.stderr));
}
