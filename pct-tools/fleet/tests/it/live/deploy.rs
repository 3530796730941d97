//! What people install: made by `deploy/package`, installed and removed in a folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn is_there(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    assert!(output.status.success(), "{command:?}: {} {}", text(&output.stdout), text(&output.stderr));
    output
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut pending) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path())
            } else {
                found.push(entry.path())
            }
        }
    }
    found.sort();
    found
}

#[test]
fn packages_install_run_and_leave_nothing() {
    // The program that people get; tests/run names it.
    let Some(pct) = std::env::var_os("PCT_BIN").map(PathBuf::from).filter(|path| path.is_file()) else {
        pct_kit::skip("PCT_BIN names no pct");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    // Debug information is most of the program that cargo made for tests.
    let fleet = dir.path().join("pct-fleet");
    if !Command::new("strip")
        .arg("-o")
        .arg(&fleet)
        .arg(env!("CARGO_BIN_EXE_pct-fleet"))
        .status()
        .is_ok_and(|s| s.success())
    {
        std::fs::copy(env!("CARGO_BIN_EXE_pct-fleet"), &fleet).unwrap();
    }
    let made = |out: &str| {
        let out = dir.path().join(out);
        let output = run(Command::new(root().join("deploy/package"))
            .arg(&out)
            .env("PCT_BIN", &pct)
            .env("PCT_FLEET_BIN", &fleet));
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(PathBuf::from).collect::<Vec<_>>()
    };
    let (first, second) = (made("a"), made("b"));
    for (a, b) in first.iter().zip(&second) {
        assert!(
            std::fs::read(a).unwrap() == std::fs::read(b).unwrap(),
            "{} differs from time to time",
            a.display()
        );
    }

    let unpacked = dir.path().join("unpacked");
    std::fs::create_dir(&unpacked).unwrap();
    run(Command::new("tar").arg("-C").arg(&unpacked).arg("-xzf").arg(&first[0]));
    let names: Vec<String> = files(&unpacked)
        .iter()
        .map(|path| path.strip_prefix(&unpacked).unwrap().display().to_string())
        .collect();
    for wanted in [
        "usr/bin/pct",
        "usr/bin/pct-fleet",
        "usr/lib/pct/libpct.so",
        "usr/lib/systemd/system/pct-ship@.service",
        "usr/share/man/man1/pct.1.gz",
        "usr/share/bash-completion/completions/pct",
        "usr/share/doc/pct/fleet.md",
    ] {
        assert!(names.iter().any(|name| name == wanted), "{wanted} is missing: {names:?}");
    }
    // `pct ship` finds the program beside it.
    let help = run(Command::new(unpacked.join("usr/bin/pct-fleet")).args(["ship", "--help"]));
    assert!(String::from_utf8_lossy(&help.stdout).contains("--spool"));
    let shipped = Command::new(unpacked.join("usr/bin/pct"))
        .args(["ship", "--to"])
        .arg(dir.path())
        .arg(dir.path().join("nothing"))
        .arg("--state")
        .arg(dir.path().join("state"))
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&shipped.stderr).contains("0 recordings"), "{shipped:?}");
    // The library that services preload is the one of this pct: a program that is sampled leaves a recording.
    let recordings = dir.path().join("recordings");
    std::fs::create_dir(&recordings).unwrap();
    run(Command::new("sh")
        .args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"])
        .env("LD_PRELOAD", unpacked.join("usr/lib/pct/libpct.so"))
        .env("PCT", format!("continuous,hz=997,service=loop,out={}", recordings.display())));
    assert_eq!(files(&recordings).len(), 1);

    let Some(package) = first.get(1) else {
        pct_kit::skip("dpkg-deb is not here");
        return;
    };
    let system = dir.path().join("system");
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
        std::fs::create_dir_all(system.join(folder)).unwrap();
    }
    std::fs::write(system.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |words: &[&str]| {
        let log = format!("--log={}", dir.path().join("dpkg.log").display());
        let root = format!("--root={}", system.display());
        let mut command = Command::new("dpkg");
        command.args([&log, &root, "--force-depends,not-root,script-chrootless"]).args(words);
        run(&mut command);
    };
    dpkg(&["-i", package.to_str().unwrap()]);
    let installed: Vec<String> = files(&system.join("usr"))
        .iter()
        .map(|path| path.strip_prefix(&system).unwrap().display().to_string())
        .collect();
    assert_eq!(installed, names, "the package has the files of the tarball");
    dpkg(&["-P", "pct"]);
    let left = if system.join("usr").exists() { files(&system.join("usr")) } else { Vec::new() };
    assert_eq!(left, Vec::<PathBuf>::new());
}

#[test]
fn unit_files_are_what_systemd_expects() {
    if !is_there("systemd-analyze") {
        pct_kit::skip("systemd-analyze is not here");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let units = root().join("deploy/systemd");
    for unit in ["pct-ship@.service", "pct-compact.service", "pct-compact.timer"] {
        // systemd looks for the program, which need not be installed where tests run.
        let text = std::fs::read_to_string(units.join(unit)).unwrap();
        let fleet = env!("CARGO_BIN_EXE_pct-fleet");
        std::fs::write(dir.path().join(unit), text.replace("/usr/bin/pct-fleet", fleet)).unwrap();
    }
    for unit in ["pct-ship@.service", "pct-compact.service", "pct-compact.timer"] {
        let output =
            run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(dir.path().join(unit)));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let of_ours: Vec<&str> = said.lines().filter(|line| line.contains("pct-")).collect();
        assert_eq!(of_ours, Vec::<&str>::new(), "{unit}");
    }
}
