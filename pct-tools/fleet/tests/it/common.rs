//! A folder of recordings, a root and a shipper's state; and what is in a root.

pub(crate) mod server;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Row;
use pct_fleet::ship::{Config, Limits, Outcome, Target, pass};
use pct_format::Anchor;
use pct_format::builder::Builder;
use pct_format::layout::{Text, header as at};
use pct_format::record::Frame;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const MS: u64 = 1_000_000;
/// 2026-11-20T14:03:20Z.
pub(crate) const BEGIN_NS: u64 = 1_795_183_400_000_000_000;
/// Time between the begins of two recordings: some minutes, so that their rows are of several.
pub(crate) const APART_NS: u64 = 150_000 * MS;

/// Where all lies.
pub(crate) struct Scene {
    pub(crate) dir: Folder,
    pub(crate) recordings: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) limits: Limits,
    /// Which boot of which machine records: no two have the same recordings.
    pub(crate) boot: u64,
}

/// A folder, one's own or another's.
pub(crate) enum Folder {
    Own(tempfile::TempDir),
    Other(PathBuf),
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Own(dir) => dir.path(),
            Self::Other(path) => path,
        }
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        let scene = Self::of(Folder::Own(tempfile::tempdir().unwrap()));
        std::fs::create_dir(&scene.recordings).unwrap();
        std::fs::create_dir(&scene.root).unwrap();
        scene
    }

    /// A scene that somebody else made.
    pub(crate) fn at(folder: &Path) -> Self {
        Self::of(Folder::Other(folder.to_owned()))
    }

    /// The same root, seen from a host with recordings of its own.
    pub(crate) fn on(&self, host: &str) -> Self {
        let recordings = self.dir.path().join(host);
        std::fs::create_dir_all(&recordings).unwrap();
        let boot = host.bytes().fold(1, |boot, octet| boot * 31 + u64::from(octet));
        let dir = Folder::Other(self.dir.path().to_owned());
        Self {
            state: recordings.join("ship"),
            dir,
            recordings,
            root: self.root.clone(),
            limits: self.limits,
            boot,
        }
    }

    fn of(dir: Folder) -> Self {
        let (recordings, root) = (dir.path().join("recordings"), dir.path().join("root"));
        Self {
            state: recordings.join("ship"),
            dir,
            recordings,
            root,
            limits: Limits::default(),
            boot: 0x1234_5678,
        }
    }

    pub(crate) fn path(&self, number: u64) -> PathBuf {
        self.recordings.join(format!("shop-4711-{number}.pct"))
    }

    pub(crate) fn now_ns(&self) -> u64 {
        BEGIN_NS + 100 * APART_NS
    }

    /// Writes the recording with this number of a process, and gives its CPU nanoseconds. With `kinds`, its
    /// functions have other weights. A password is on its command line, and its files are in somebody's home.
    pub(crate) fn recording(&self, service: &str, number: u64, kinds: u64) -> i64 {
        let mut b = Builder::new();
        b.argv(&[b"./shop", b"--password=hunter2-secret"]).text(Text::Exe, b"/home/secret-user/bin/shop");
        b.text(
            Text::Options,
            format!("continuous,service={service},version=1.{kinds},out=/home/secret-user/x").as_bytes(),
        );
        b.text(Text::Cwd, b"/home/secret-user/work").text(Text::Host, b"host-of-the-file");
        let begin = BEGIN_NS + number * APART_NS;
        b.anchors(
            Anchor { raw: 0, monotonic_ns: 0, realtime_ns: begin },
            Anchor { raw: APART_NS - MS, monotonic_ns: APART_NS - MS, realtime_ns: begin + APART_NS - MS },
        );
        b.set_header_word(at::STACK_MODE, 4)
            .set_header_word(at::PID, 3_777_111)
            .set_header_word(at::START_TICKS, 99)
            .set_header_word(at::ROTATIONS, number);
        b.set_header_word(at::BOOT_ID, self.boot).set_header_word(at::PERIOD_NS, MS);
        let build_id = b"\x12\x34\x56\x78\x9a\xbc\xde\xf0";
        b.region(1, 1, 0x40_0000..0x40_8000, 0, 11, build_id, b"/home/secret-user/bin/shop");
        b.region(2, 1, 0x7f00_0000_0000..0x7f00_0001_0000, 0x1000, 12, b"", b"/home/secret-user/lib/libx.so");
        let first = b.thread(1, 3_777_111, b"shop");
        let second = b.thread(5, 3_777_112, b"worker-17");
        let hot = b.stack(&[Frame::Return(0x40_1100), Frame::Return(0x40_1010)]);
        let other = b.stack(&[Frame::Return(0x40_2100)]);
        let mut samples = 0;
        for n in 0..60 * kinds {
            b.sample(first, (n + 1) * 100 * MS, 0x40_1234, 1, false, hot);
            samples += 1;
        }
        b.sample(first, 95_000 * MS, 0x7f00_0000_0200, 5, true, hot);
        samples += 5;
        for n in 0..20 {
            b.sample(second, (n + 1) * 100 * MS, 0x40_2200, 1, false, other);
            samples += 1;
        }
        let used = samples * MS;
        // A nanosecond before the first recording (zero would mean that it is not known), then what the
        // others used.
        let before: u64 = 1 + (0..number).map(|earlier| self.used_by(earlier)).sum::<u64>();
        b.set_header_word(at::BEFORE_NS, before)
            .set_header_word(at::OFF_NS, before)
            .set_header_word(at::USER_NS, used);
        std::fs::write(self.path(number), b.finish()).unwrap();
        std::fs::write(self.recordings.join(format!("{number}.used")), used.to_string()).unwrap();
        i64::try_from(used).unwrap()
    }

    /// What a recording's process used, though the recording may be gone.
    fn used_by(&self, number: u64) -> u64 {
        let noted = std::fs::read_to_string(self.recordings.join(format!("{number}.used")));
        noted.map_or(0, |text| text.parse().unwrap())
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            from: vec![self.recordings.clone()],
            to: Target::Root(self.root.clone()),
            state: self.state.clone(),
            host: "host-a".into(),
            env: "test".into(),
            without_threads: false,
            limits: self.limits,
            symbol_cache: None,
        }
    }

    pub(crate) fn ship(&self) -> Outcome {
        pass(&self.config(), self.now_ns(), &mut |_| {}).unwrap()
    }
}

/// Runs an ignored test of this program as a child, with a scene's folder, until it kills itself at a step
/// (`kills_itself`).
pub(crate) fn run_until_killed(test: &str, scene: &Scene, dies_at: u64) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--test-threads=1"])
        .env("PCT_TEST_FOLDER", scene.dir.path())
        .env("PCT_TEST_DIES_AT", dies_at.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert_eq!(child.status.signal(), Some(9), "step {dies_at}: {said}");
}

/// The child's side: does `work` in the scene that its parent made, and kills itself at the step that it named. Does
/// nothing if there is no such parent.
pub(crate) fn kills_itself(work: impl FnOnce(&Scene, &mut dyn FnMut(&str))) {
    let Some(folder) = std::env::var_os("PCT_TEST_FOLDER") else { return };
    let dies_at: u64 = std::env::var("PCT_TEST_DIES_AT").unwrap().parse().unwrap();
    let mut steps = 0;
    work(&Scene::at(Path::new(&folder)), &mut |_| {
        steps += 1;
        if steps == dies_at {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
    });
}

/// All rows of a table.
pub(crate) fn rows(root: &Path, table: &str) -> Vec<Row> {
    let mut all = Vec::new();
    for path in files(root).into_iter().filter(|path| path.strip_prefix(root).unwrap().starts_with(table)) {
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        all.extend(reader.get_row_iter(None).unwrap().map(Result::unwrap));
    }
    all
}

/// All files below a root.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() { pending.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found.sort();
    found
}
