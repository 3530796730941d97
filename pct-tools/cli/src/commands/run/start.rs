//! What the program is started with, and why it could not be.

use super::args::{Args, Java, Kernel};
use crate::face::Face;
use crate::launch::check::{self, FoundProgram};
use crate::launch::spare::Spare;
use crate::launch::{NOT_EXECUTABLE, NOT_FOUND};
use nix::errno::Errno;
use pct_symbols::allocator::{self, Linkage};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// The value of PCT for the program.
#[must_use]
pub(super) fn options(args: &Args, folder: &Path, spare: Option<&Spare>) -> OsString {
    fn name(value: impl clap::ValueEnum) -> String {
        value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
    let given = [
        ("mode", args.mode.map(name)),
        ("hz", args.hz.map(|n| n.to_string())),
        ("clock", args.clock.map(name)),
        ("stack", args.stack.map(name)),
        ("depth", args.depth.map(|n| n.to_string())),
        ("limit", args.limit.map(|n| n.to_string())),
        ("signal", args.signal.map(|n| n.to_string())),
        ("shift", args.shift.map(|n| n.to_string())),
        ("kernel", (args.kernel == Kernel::On).then(|| "on".to_owned())),
        ("python", args.python.map(name)),
        ("java", (!Java::shows_frames(args.java)).then(|| "off".to_owned())),
        ("javascript", args.javascript.map(name)),
        ("alloc", args.alloc.map(|n| n.to_string())),
        ("wait", args.wait.then(|| "on".to_owned())),
        ("alloc-seed", args.alloc_seed.map(|n| n.to_string())),
        ("follow", args.follow.map(name)),
        ("include", args.include.clone()),
        ("exclude", args.exclude.clone()),
        ("on", args.on.map(name)),
        ("toggle", args.toggle.map(|n| n.to_string())),
        ("rotate", args.rotate.clone()),
        ("keep", args.keep.map(|n| n.to_string())),
        ("service", args.service.clone()),
        ("version", args.release.clone()),
    ];
    let mut all = OsString::new();
    if args.continuous {
        all.push("continuous,");
    }
    for (key, value) in given.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        all.push(format!("{key}={value},"));
    }
    if let Some(spare) = spare {
        all.push("spare=");
        all.push(&spare.folder);
        all.push(",");
    }
    all.push("out=");
    // With a slash behind it: a folder, also if it is called `x.pct`.
    all.push(folder.join(""));
    all
}

/// The program's environment: pct's own, with the library in front of what else is preloaded. `tracer` is who has to be
/// let trace ([`super::held::tracer`]).
pub(super) fn environment(
    args: &Args,
    library: Option<&Path>,
    folder: Option<&Path>,
    spare: Option<&Spare>,
    tracer: Option<u32>,
) -> Vec<(OsString, OsString)> {
    let (Some(library), Some(folder)) = (library, folder) else { return std::env::vars_os().collect() };
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|value| !value.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let mut given = OsString::new();
    if let Some(tracer) = tracer {
        given.push(format!("tracer={tracer},"));
    }
    given.push(options(args, folder, spare));
    std::env::vars_os()
        .filter(|(name, _)| name != "LD_PRELOAD" && name != "PCT" && name != ASAN_OPTIONS)
        .chain([("LD_PRELOAD".into(), preload), ("PCT".into(), given)])
        .chain([(ASAN_OPTIONS.into(), beside_asan(std::env::var_os(ASAN_OPTIONS)))])
        .collect()
}

const ASAN_OPTIONS: &str = "ASAN_OPTIONS";

/// What a program built with a shared AddressSanitizer needs: it ends at once when another library is loaded before the
/// sanitizer's, unless it is told not to look. (Ours takes none of its functions away: each leads on to the
/// next library's.)
fn beside_asan(given: Option<OsString>) -> OsString {
    let mut all = given.filter(|given| !given.is_empty()).map_or(OsString::new(), |mut given| {
        given.push(":");
        given
    });
    all.push("verify_asan_link_order=0");
    all
}

/// `--alloc`: says so if the program carries an allocator that cannot be seen, and what would help. A malloc that the
/// program exports is told by the sampler in the process, also of programs that this one executes. Returns whether it
/// said something.
pub(super) fn say_who_serves_memory(found: Option<&FoundProgram>, face: &Face) -> bool {
    let Some(program) = found.map(|found| &found.program) else { return false };
    let inside = allocator::inside(program).filter(|inside| inside.linkage != Linkage::Exported);
    if let Some(inside) = &inside {
        face.warn(format_args!("--alloc: {} {inside}", program.display()));
    }
    inside.is_some()
}

/// Says why the program could not be executed; the status that env(1) would end with.
pub(super) fn not_executed(args: &Args, found: Option<&FoundProgram>, errno: Errno, face: &Face) -> ExitCode {
    let obstacle = found.filter(|found| found.obstacle.is_some());
    let command = args.command[0].to_string_lossy();
    let interpreter = check::find(&args.command[0]).and_then(|file| check::missing_interpreter(&file));
    match obstacle {
        _ if errno == Errno::ENOENT && interpreter.is_some() => face.warn(format_args!(
            "{command}: its interpreter {} is not there",
            interpreter.unwrap_or_default().display()
        )),
        Some(found) => face.warn(format_args!("{command}: {}: {found}", errno.desc())),
        None => face.warn(format_args!("{command}: {}", errno.desc())),
    }
    ExitCode::from(if errno == Errno::ENOENT { NOT_FOUND } else { NOT_EXECUTABLE })
}

#[cfg(test)]
mod tests {
    use super::super::args::tests::args;
    use super::*;

    #[test]
    fn flags_become_the_options_of_the_library() {
        let args = args(&["--hz", "100", "--limit", "2M", "--clock", "itimer-real", "--", "true", "--hz"]);
        assert_eq!(args.command, ["true", "--hz"]);
        let pct = options(&args, Path::new("/tmp/x"), None);
        assert_eq!(pct, "hz=100,clock=itimer-real,limit=2097152,out=/tmp/x/");
    }

    #[test]
    fn continuous_flags_become_options_of_the_library() {
        let args =
            args(&["--continuous", "--rotate", "1h", "--service", "shop", "--release", "1.2", "--", "true"]);
        let pct = options(&args, Path::new("/tmp/x"), None);
        assert_eq!(pct, "continuous,rotate=3600000ms,service=shop,version=1.2,out=/tmp/x/");
    }
}
