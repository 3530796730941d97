//! Names that come later, from each kind of source, by build-id.

use crate::common::server::{Reply, Server};
use crate::common::{Scene, files, kills_itself, rows, run_until_killed};
use parquet::record::RowAccessor as _;
use pct_fleet::ask::ask;
use pct_fleet::gather::Tables;
use pct_fleet::http::{self, Encryption};
use pct_fleet::ids::{CodePlace, Kind, file_id, hex, stack_id};
use pct_fleet::questions::Which;
use pct_fleet::root;
use pct_fleet::symbolize::{Outcome, Sources, symbolize};
use pct_fleet::tables::{Build, Location, Sample, Stack};
use pct_symbols::{CodeAddr, Image, ObjectInfo, Symbolizer};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "
__attribute__((noinline)) int leaf_of_it(int n) { return n * 3; }
__attribute__((noinline)) int middle_of_it(int n) { return leaf_of_it(n) + 1; }
int main(int argc, char **argv) { return middle_of_it(argc); }
";
const NAMES: [&str; 3] = ["leaf_of_it", "middle_of_it", "main"];

/// A program, its debug file, and what the two are called.
struct Built {
    dir: PathBuf,
    build_id: Vec<u8>,
    /// Offsets in the file of [`NAMES`].
    offsets: [i64; 3],
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Compiles a program into `dir/program`. `None`, with a word, where there is no compiler.
fn build(dir: &Path, link: &str) -> Option<Built> {
    let is_there =
        |tool: &str| Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success());
    if !["gcc", "nm", "objcopy"].into_iter().all(is_there) {
        pct_kit::skip("no gcc, nm or objcopy");
        return None;
    }
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("shop.c"), SOURCE).unwrap();
    let program = dir.join("program");
    run(Command::new("gcc")
        .current_dir(dir)
        .args(["-g", "-O1", "-gz=none", link, "shop.c", "-o"])
        .arg(&program));
    let image = Image::open(&program).unwrap();
    let table = run(Command::new("nm").arg(&program));
    let offset = |name: &str| {
        let line = table.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
        let address = u64::from_str_radix(line.split_whitespace().next().unwrap(), 16).unwrap();
        i64::try_from(image.offset_of_address(address).unwrap()).unwrap()
    };
    let build_id = match image.build_id() {
        Some(id) => id.as_bytes().to_vec(),
        None => {
            let octets = std::fs::read(&program).unwrap();
            let ends = 4096.min(octets.len());
            file_id(&octets[..ends], &octets[octets.len() - ends..], octets.len() as u64)
        }
    };
    Some(Built { dir: dir.to_owned(), build_id, offsets: NAMES.map(offset) })
}

impl Built {
    fn program(&self) -> PathBuf {
        self.dir.join("program")
    }

    /// The program without symbols and debug information, in a folder of its own; and its debug file.
    fn split(&self) -> (PathBuf, PathBuf) {
        let (stripped, debug) = (self.dir.join("stripped/renamed"), self.dir.join("program.debug"));
        std::fs::create_dir_all(stripped.parent().unwrap()).unwrap();
        run(Command::new("objcopy").arg("--strip-all").arg(self.program()).arg(&stripped));
        run(Command::new("objcopy").arg("--only-keep-debug").arg(self.program()).arg(&debug));
        (stripped, debug)
    }

    /// A folder laid out as /usr/lib/debug.
    fn debug_dir(&self) -> PathBuf {
        let id = hex(&self.build_id);
        let folder = self.dir.join("debug/.build-id").join(&id[..2]);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(self.split().1, folder.join(format!("{}.debug", &id[2..]))).unwrap();
        self.dir.join("debug")
    }
}

/// Rows that hosts without symbols wrote: of the leaf a name without a name, of the others nothing. One more place
/// is of a build that nobody has.
fn write_tables(scene: &Scene, built: &Built) {
    let place = |addr: i64| CodePlace { build_id: built.build_id.clone(), addr, kind: Kind::Native };
    let lost = CodePlace { build_id: vec![7; 20], addr: 0x77, kind: Kind::Native };
    let [leaf, middle, main] = built.offsets.map(place);
    let frames = [vec![leaf.clone(), middle, main], vec![lost]];
    let stacks: Vec<Stack> = frames
        .into_iter()
        .map(|frames| Stack { stack_id: stack_id(&frames), frames, first_seen: 5 })
        .collect();
    let sample = |stack: &Stack| Sample {
        service: "shop".into(),
        version: "1".into(),
        stack_id: stack.stack_id,
        host: "host-a".into(),
        ts: i64::try_from(crate::common::BEGIN_NS / 1000).unwrap(),
        thread: String::new(),
        kind: "cpu".into(),
        env: String::new(),
        samples: 1,
        value: 1000,
        lost: 0,
    };
    let build = |build_id: &[u8], name: &str| Build {
        build_id: build_id.to_vec(),
        name: name.into(),
        arch: "x86_64".into(),
        size: 1,
        first_seen: 5,
        symbols: "none".into(),
    };
    let tables = Tables {
        samples: stacks.iter().map(sample).collect(),
        locations: vec![Location {
            build_id: built.build_id.clone(),
            addr: leaf.addr,
            depth: 0,
            function: format!("[program+{:#x}]", leaf.addr),
            object: "program".into(),
            file: String::new(),
            line: 0,
        }],
        builds: vec![build(&built.build_id, "program"), build(&[7; 20], "gone.so")],
        stacks,
        ..Tables::default()
    };
    root::write(&scene.root, &tables, &[]).unwrap();
}

fn name(scene: &Scene, sources: &Sources) -> Outcome {
    symbolize(&scene.root, sources, &mut |_| {}).unwrap()
}

/// Function, file and line of each row of `locations`, of the build.
fn locations(scene: &Scene, built: &Built) -> Vec<(i64, String, String, i32)> {
    let mut all: Vec<_> = rows(&scene.root, "locations")
        .iter()
        .filter(|row| row.get_bytes(0).unwrap().data() == built.build_id)
        .map(|row| {
            let text = |at: usize| row.get_string(at).unwrap().clone();
            (row.get_long(1).unwrap(), text(3), text(5), row.get_int(6).unwrap())
        })
        .collect();
    all.sort();
    all
}

/// The names that an answer has for the whole stack, outermost first.
fn stack_of(scene: &Scene) -> Vec<String> {
    let profile = ask(&scene.root, &Which::default(), &[]).profile;
    let mut found = Vec::new();
    for cell in &profile.cells {
        let names: Vec<String> = profile
            .outwards(cell.stack)
            .map(|(_, frame)| profile.functions[frame.function].name.clone())
            .collect();
        found.push(names.into_iter().rev().collect::<Vec<_>>().join(";"));
    }
    found.sort();
    found
}

/// What is expected of every source that has the program: all three functions with their lines.
fn assert_named(scene: &Scene, built: &Built, outcome: &Outcome) {
    assert_eq!((outcome.named, outcome.builds), (3, 1), "{outcome:?}");
    let gone: Vec<_> = outcome.nameless.iter().map(|b| (b.name.as_str(), b.places)).collect();
    assert_eq!(gone, [("gone.so", 1)], "{outcome:?}");
    let mut expected: Vec<_> = built
        .offsets
        .iter()
        .zip(NAMES)
        .zip(2..)
        .map(|((addr, name), line)| (*addr, name.to_owned(), "shop.c".to_owned(), line))
        .collect();
    expected.push((built.offsets[0], format!("[program+{:#x}]", built.offsets[0]), String::new(), 0));
    expected.sort();
    assert_eq!(locations(scene, built), expected);
    assert_eq!(stack_of(scene), ["[gone.so+0x77]", "main;middle_of_it;leaf_of_it"]);
    let symbols: Vec<String> = rows(&scene.root, "builds")
        .iter()
        .filter(|row| row.get_bytes(0).unwrap().data() == built.build_id)
        .map(|row| row.get_string(5).unwrap().clone())
        .collect();
    assert!(symbols.contains(&"dwarf".to_owned()), "{symbols:?}");
    // Again there is nothing to do.
    let before = files(&scene.root);
    assert_eq!(name(scene, &Sources::default()).named, 0);
    assert_eq!(files(&scene.root), before);
}

fn scene_with(link: &str) -> Option<(Scene, Built)> {
    let scene = Scene::new();
    let built = build(&scene.dir.path().join("built"), link)?;
    write_tables(&scene, &built);
    Some((scene, built))
}

#[test]
fn what_nobody_has_stays_as_file_and_offset_and_is_counted() {
    let Some((scene, built)) = scene_with("-Wl,--build-id=sha1") else { return };
    let outcome = name(&scene, &Sources::default());
    assert_eq!((outcome.named, outcome.builds), (0, 0), "{outcome:?}");
    let left: Vec<_> = outcome.nameless.iter().map(|b| (b.name.as_str(), b.places)).collect();
    assert_eq!(left, [("program", 3), ("gone.so", 1)]);
    // An engine's join finds each place.
    let expected = built.offsets.map(|addr| (addr, format!("[program+{addr:#x}]"), String::new(), 0));
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(locations(&scene, &built), expected);
    let before = files(&scene.root);
    name(&scene, &Sources::default());
    assert_eq!(files(&scene.root), before);
    // Who has it later names it.
    let outcome = name(&scene, &Sources { files: vec![built.program()], ..Sources::default() });
    assert_eq!(outcome.named, 3, "{outcome:?}");
    assert_eq!(stack_of(&scene), ["[gone.so+0x77]", "main;middle_of_it;leaf_of_it"]);
}

#[test]
fn a_renamed_program_is_found_by_its_build_id() {
    let Some((scene, built)) = scene_with("-Wl,--build-id=sha1") else { return };
    let deep = built.dir.join("a/b");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::rename(built.program(), deep.join("other-name")).unwrap();
    // Another program has the name.
    std::fs::copy("/bin/true", built.dir.join("a/program")).unwrap();
    let outcome = name(&scene, &Sources { files: vec![built.dir.join("a")], ..Sources::default() });
    assert_named(&scene, &built, &outcome);
}

#[test]
fn a_program_without_a_build_id_is_found_by_the_hash_of_its_ends() {
    let Some((scene, built)) = scene_with("-Wl,--build-id=none") else { return };
    assert!(built.build_id.starts_with(b"htl:"));
    let outcome = name(&scene, &Sources { files: vec![built.dir.clone()], ..Sources::default() });
    assert_named(&scene, &built, &outcome);
}

#[test]
fn a_stripped_program_has_its_names_from_a_debug_directory() {
    let Some((scene, built)) = scene_with("-Wl,--build-id=sha1") else { return };
    let (stripped, _) = built.split();
    let stripped = stripped.parent().unwrap().to_owned();
    let outcome = name(&scene, &Sources { files: vec![stripped.clone()], ..Sources::default() });
    assert_eq!(outcome.named, 0, "{outcome:?}");
    let sources =
        Sources { files: vec![stripped], debug_dirs: vec![built.debug_dir()], ..Sources::default() };
    let outcome = name(&scene, &sources);
    assert_eq!(outcome.named, 3, "{outcome:?}");
    assert_eq!(stack_of(&scene), ["[gone.so+0x77]", "main;middle_of_it;leaf_of_it"]);
}

#[test]
fn names_come_from_an_archive() {
    let Some((scene, built)) = scene_with("-Wl,--build-id=sha1") else { return };
    let mut symbols = Symbolizer::default();
    let id = pct_symbols::BuildId::new(&built.build_id);
    let object = symbols.add(ObjectInfo { build_id: id, ..ObjectInfo::file(built.program()) });
    symbols.resolve(built.offsets.map(|offset| (object, CodeAddr::Pc(offset.cast_unsigned()))));
    let archive = built.dir.join("archive");
    std::fs::create_dir(&archive).unwrap();
    symbols.write_archive(&archive).unwrap();
    let outcome = name(&scene, &Sources { archives: vec![built.dir.clone()], ..Sources::default() });
    assert!(outcome.named == 0 && outcome.problems[0].contains("symbols.pctsym"), "{outcome:?}");
    std::fs::remove_file(built.program()).unwrap();
    let outcome = name(&scene, &Sources { archives: vec![archive], ..Sources::default() });
    assert_eq!(outcome.named, 3, "{outcome:?}");
    assert_eq!(stack_of(&scene), ["[gone.so+0x77]", "main;middle_of_it;leaf_of_it"]);
}

/// A debuginfod server that has a program and its debug file.
fn debuginfod(built: &Built) -> Server {
    let (stripped, debug) = built.split();
    let (stripped, debug) = (std::fs::read(stripped).unwrap(), std::fs::read(debug).unwrap());
    let id = hex(&built.build_id);
    Server::start(move |request| {
        let path = request.path.as_str();
        if path == format!("/buildid/{id}/debuginfo") {
            Reply::Answer(200, debug.clone())
        } else if path == format!("/buildid/{id}/executable") {
            Reply::Answer(200, stripped.clone())
        } else {
            Reply::Answer(404, b"not found".to_vec())
        }
    })
}

fn from_server(url: &str) -> Sources {
    let server = http::Server::parse(url, Encryption::Waived).unwrap();
    Sources { debuginfod: Some(server), ..Sources::default() }
}

#[test]
fn a_debuginfod_server_is_asked_once_for_each_file_and_nothing_of_it_stays() {
    let Some((scene, built)) = scene_with("-Wl,--build-id=sha1") else { return };
    let server = debuginfod(&built);
    let outcome = name(&scene, &from_server(&server.url));
    let mut asked: Vec<_> =
        server.requests().into_iter().map(|r| format!("{} {}", r.method, r.path)).collect();
    asked.sort();
    let (id, gone) = (hex(&built.build_id), hex(&[7; 20]));
    let kinds = ["debuginfo", "executable"];
    let mut expected: Vec<_> = [&id, &gone]
        .into_iter()
        .flat_map(|id| kinds.map(|kind| format!("GET /buildid/{id}/{kind}")))
        .collect();
    expected.sort();
    assert_eq!(asked, expected);
    assert_named(&scene, &built, &outcome);
    let left: Vec<_> =
        std::fs::read_dir(scene.root.join(".pct-work")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
}

#[test]
fn a_server_that_lies_or_fails_or_is_away_names_nothing_and_is_named() {
    let Some((scene, _)) = scene_with("-Wl,--build-id=sha1") else { return };
    // Another program than the one that was asked for.
    let liar = Server::start(|_| Reply::Answer(200, std::fs::read("/bin/true").unwrap()));
    let outcome = name(&scene, &from_server(&liar.url));
    assert_eq!(outcome.named, 0, "{outcome:?}");
    assert!(outcome.notes.iter().any(|note| note.contains("build-id")), "{outcome:?}");
    let failing = Server::start(|_| Reply::Answer(500, Vec::new()));
    let outcome = name(&scene, &from_server(&failing.url));
    assert!(outcome.named == 0 && outcome.problems.len() == 4, "{outcome:?}");
    let silent = Server::start(|_| Reply::HangUp);
    let outcome = name(&scene, &from_server(&silent.url));
    assert!(outcome.named == 0 && !outcome.problems.is_empty(), "{outcome:?}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = name(&scene, &from_server(&format!("http://{nobody}")));
    assert!(outcome.named == 0 && outcome.problems.len() == 1, "{outcome:?}");
}

#[test]
fn the_same_root_and_sources_give_the_same_files() {
    let Some((scene, built)) = scene_with("-Wl,--build-id=sha1") else { return };
    let other = Scene::new();
    write_tables(&other, &built);
    let sources = Sources { files: vec![built.dir.clone()], ..Sources::default() };
    let contents = |scene: &Scene| -> Vec<_> {
        name(scene, &sources);
        let relative = |path: &Path| path.strip_prefix(&scene.root).unwrap().to_owned();
        files(&scene.root).into_iter().map(|path| (relative(&path), std::fs::read(&path).unwrap())).collect()
    };
    let first = contents(&scene);
    assert!(first.iter().any(|(path, _)| path.to_str().unwrap().contains("part-symbols-")));
    assert_eq!(contents(&other), first);
}

#[test]
fn damaged_tables_are_named_and_the_others_are_used() {
    let Some((scene, built)) = scene_with("-Wl,--build-id=sha1") else { return };
    for table in ["locations", "builds", "stacks/date=2026-11-20"] {
        std::fs::write(scene.root.join(table).join("part-bad.parquet"), b"PAR1 is not enough").unwrap();
    }
    let outcome = name(&scene, &Sources { files: vec![built.dir.clone()], ..Sources::default() });
    assert_eq!((outcome.named, outcome.problems.len()), (3, 3), "{outcome:?}");
}

/// What a child does in `killed_at_every_step_of_naming`.
#[test]
#[ignore = "a part of killed_at_every_step_of_naming"]
fn names_until_it_is_killed() {
    kills_itself(|scene, step| {
        let url = std::fs::read_to_string(scene.dir.path().join("url")).unwrap();
        symbolize(&scene.root, &from_server(&url), step).unwrap();
    });
}

#[test]
fn killed_at_every_step_of_naming() {
    let Some((whole, built)) = scene_with("-Wl,--build-id=sha1") else { return };
    let server = debuginfod(&built);
    let mut steps = 0;
    symbolize(&whole.root, &from_server(&server.url), &mut |_| steps += 1).unwrap();
    assert!(steps > 6, "{steps} steps");
    for dies_at in 1..=steps {
        let scene = Scene::new();
        write_tables(&scene, &built);
        std::fs::write(scene.dir.path().join("url"), &server.url).unwrap();
        run_until_killed("live::symbolize::names_until_it_is_killed", &scene, dies_at);
        name(&scene, &from_server(&server.url));
        assert_eq!(stack_of(&scene), stack_of(&whole), "killed at step {dies_at}");
        assert_eq!(locations(&scene, &built), locations(&whole, &built), "killed at step {dies_at}");
        let left = std::fs::read_dir(scene.root.join(".pct-work")).unwrap().count();
        assert_eq!(left, 1, "only the lock is left; killed at step {dies_at}");
        let unfinished =
            files(&scene.root).into_iter().filter(|path| path.to_str().unwrap().contains("/.part"));
        assert_eq!(unfinished.count(), 0, "killed at step {dies_at}");
    }
}
