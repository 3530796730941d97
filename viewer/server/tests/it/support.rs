//! A data file, a private directory, and requests as a web server makes them.

use pct_deep::synthetic::{Params, generate};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mdprof_cgi");

/// Writes a generated data file.
pub(crate) fn write_profile(path: &Path, seed: u64, contexts: u32) {
    let params = Params { seed, contexts, procs: 20, ..Params::default() };
    let data = generate(&params).expect("generates");
    let octets = pct_deep::to_octets(&data, params.version).expect("encodes");
    std::fs::write(path, octets).expect("writes");
}

pub(crate) struct House {
    pub(crate) root: tempfile::TempDir,
    pub(crate) env: Vec<(String, String)>,
}

impl House {
    pub(crate) fn new() -> House {
        House::with(300)
    }

    pub(crate) fn with(contexts: u32) -> House {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::DirBuilder::new().mode(0o700).create(root.path().join("run")).expect("made");
        let house = House {
            env: vec![("MDPROF_WAIT".into(), "60".into()), ("MDPROF_POST".into(), "0".into())],
            root,
        };
        write_profile(&house.data(), 1, contexts);
        house
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> House {
        self.env.push((name.into(), value.into()));
        self
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.root.path().canonicalize().expect("exists").join("Deep.data")
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("run/mdprof")
    }

    /// The names in the private directory.
    pub(crate) fn names(&self) -> Vec<String> {
        names_in(&self.dir())
    }

    pub(crate) fn file(&self, prefix: &str) -> Option<PathBuf> {
        self.names().into_iter().find(|n| n.starts_with(prefix)).map(|n| self.dir().join(n))
    }

    pub(crate) fn start(&self, cmd: &str) -> Child {
        self.start_raw(&format!("{cmd}&&{}", self.data().display()))
    }

    pub(crate) fn start_raw(&self, query: &str) -> Child {
        Command::new(PROGRAM)
            .env_clear()
            .env("QUERY_STRING", query)
            .env("SCRIPT_NAME", "/cgi-bin/mdprof_cgi")
            .env("XDG_RUNTIME_DIR", self.root.path().join("run"))
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts")
    }

    pub(crate) fn ask(&self, cmd: &str) -> String {
        text(self.start(cmd).wait_with_output().expect("ends"))
    }

    /// The good page that `ask` must return.
    pub(crate) fn page(&self, cmd: &str) -> String {
        let page = self.ask(cmd);
        assert!(is_page(&page), "{cmd}: {page}\n{:?}\n{}", self.names(), self.record());
        page
    }

    pub(crate) fn record(&self) -> String {
        self.file("mdprof_startup_err")
            .map(|p| std::fs::read_to_string(p).unwrap_or_default())
            .unwrap_or_default()
    }

    pub(crate) fn loads(&self) -> usize {
        loads(&self.record())
    }

    /// A server of this house, whether it serves or still loads.
    pub(crate) fn any_server(&self) -> Option<u32> {
        let dir = self.dir();
        std::fs::read_dir("/proc").ok()?.flatten().find_map(|e| {
            let pid = e.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(e.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            (line.contains("--become-server") && line.contains(&*dir.to_string_lossy())).then_some(pid)
        })
    }

    pub(crate) fn server(&self) -> Option<u32> {
        living_server(&self.record(), &self.dir())
    }
}

impl Drop for House {
    fn drop(&mut self) {
        pct_kit::started::end_all(self.root.path(), None);
    }
}

pub(crate) fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .map(|d| d.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    names.sort();
    names
}

pub(crate) fn loads(record: &str) -> usize {
    record.lines().filter(|l| l.contains(": load ")).count()
}

/// The server that wrote a record last, if it still runs and belongs to this test.
pub(crate) fn living_server(record: &str, dir: &Path) -> Option<u32> {
    let pid: u32 = record.lines().rfind(|l| l.contains(": load "))?.split(':').next()?.parse().ok()?;
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).into_owned();
    (line.contains("--become-server") && line.contains(&*dir.to_string_lossy())).then_some(pid)
}

pub(crate) fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status();
}

pub(crate) fn text(output: Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks one complete page: status, headers, and as many octets as they announce.
pub(crate) fn is_page(answer: &str) -> bool {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return false };
    head.starts_with("Status: 200") && head.contains(&format!("Content-Length: {}", body.len()))
}
