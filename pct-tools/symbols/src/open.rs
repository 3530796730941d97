//! Finds and opens the files that can answer for an object: its own file if that is the one that was sampled, or a
//! copy, or its debug file; the running kernel's vdso; the maps of JITs.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::difference::Difference;
use crate::identity;
use crate::image::Image;
use crate::jit::JitMap;
use crate::kallsyms::Kallsyms;
use crate::objects::{ObjectInfo, ObjectKind, Problem, shown_path};
use crate::options::Options;
use crate::symtab::SymbolTable;
use crate::{debugfile, vdso};

/// An object that is open for lookups.
#[derive(Debug)]
pub(crate) enum Opened {
    Elf(Box<ElfObject>),
    Jit(JitMap),
    Kernel(Kallsyms),
    Nothing,
}

/// An ELF object with the files that belong to it.
#[derive(Debug)]
pub(crate) struct ElfObject {
    /// The object itself. None if only its debug file was found.
    pub(crate) image: Option<Image>,
    pub(crate) debug: Option<Image>,
    pub(crate) sup: Option<Image>,
    pub(crate) symbols: OnceLock<SymbolTable>,
    pub(crate) debug_symbols: OnceLock<SymbolTable>,
}

/// Finds and opens the files that can answer for an object.
pub(crate) fn open(info: &ObjectInfo, options: &Options, problems: &mut Vec<Problem>) -> Opened {
    let elf = |image: Option<Image>, debug: Option<Image>, sup: Option<Image>| {
        let (symbols, debug_symbols) = Default::default();
        Opened::Elf(Box::new(ElfObject { image, debug, sup, symbols, debug_symbols }))
    };
    match info.kind {
        ObjectKind::Opaque => return Opened::Nothing,
        ObjectKind::Kernel => {
            return match Kallsyms::of_boot(&info.path) {
                Ok(symbols) => Opened::Kernel(symbols),
                Err(why) => {
                    problems.push(Problem::Missing { reason: format!("/proc/kallsyms: {why}") });
                    Opened::Nothing
                }
            };
        }
        ObjectKind::Jit { pid } => return open_jit(info, pid, options, problems),
        ObjectKind::Vdso => {
            let Some(image) = vdso::image() else {
                problems.push(Problem::Missing { reason: "this process has no vdso".into() });
                return Opened::Nothing;
            };
            if let (Some(wanted), found) = (&info.build_id, image.build_id())
                && found != Some(wanted)
            {
                let difference = Difference::BuildId { sampled: wanted.clone(), found: found.cloned() };
                problems.push(Problem::Replaced { file: PathBuf::from("this kernel's vdso"), difference });
                return Opened::Nothing;
            }
            return elf(Some(image), None, None);
        }
        ObjectKind::File => {}
    }
    let image = open_file(info, problems);
    let mut refused = Vec::new();
    let debug = match &image {
        Some(image) if image.has_debug_info() => None,
        Some(image) => debugfile::find(image, &options.debug_dirs, &mut refused),
        None => {
            let id = info.build_id.as_ref();
            id.and_then(|id| debugfile::by_build_id(id, &options.debug_dirs, &mut refused))
        }
    };
    problems.extend(refused.drain(..).map(|(file, reason)| Problem::DebugFileRefused { file, reason }));
    if image.is_none() && debug.is_none() {
        return Opened::Nothing;
    }
    let sup = debug
        .as_ref()
        .or(image.as_ref())
        .and_then(|i| debugfile::supplementary(i, &options.debug_dirs, &mut refused));
    problems.extend(refused.drain(..).map(|(file, reason)| Problem::DebugFileRefused { file, reason }));
    // A file found by build-id alone may be a whole object and not a debug file. Then it is the image.
    match (image, debug) {
        (None, Some(found)) if found.segments().iter().any(|s| s.executable && s.file_size > 0) => {
            elf(Some(found), None, sup)
        }
        (image, debug) => elf(image, debug, sup),
    }
}

/// The file that has an object's code: its own, or a copy.
///
/// # Errors
/// What stands in the way, as a sentence for people.
pub fn image_of(info: &ObjectInfo) -> Result<Image, String> {
    let mut problems = Vec::new();
    open_file(info, &mut problems).ok_or_else(|| match problems.into_iter().next() {
        Some(Problem::Replaced { difference, .. }) => {
            format!("it was replaced or rebuilt since it was sampled ({difference})")
        }
        Some(Problem::Missing { reason }) => reason,
        _ => "it is gone".into(),
    })
}

/// The image of an object's own code, if its file is the one that was sampled.
pub(crate) fn code_of(info: &ObjectInfo) -> Option<Image> {
    match info.kind {
        ObjectKind::File => open_file(info, &mut Vec::new()),
        ObjectKind::Vdso => {
            vdso::image().filter(|i| info.build_id.is_none() || info.build_id.as_ref() == i.build_id())
        }
        ObjectKind::Jit { .. } | ObjectKind::Kernel | ObjectKind::Opaque => None,
    }
}

/// The object's own file, if nothing shows that it is another one than was sampled; or a copy that is proved to be it.
fn open_file(info: &ObjectInfo, problems: &mut Vec<Problem>) -> Option<Image> {
    let path = shown_path(&info.path);
    let mut said = Vec::new();
    for (i, candidate) in std::iter::once(&path).chain(&info.also_try).enumerate() {
        let image = match Image::open(candidate) {
            Ok(image) => image,
            Err(e) => {
                if i == 0 {
                    said.push(Problem::Missing { reason: e.to_string() });
                }
                continue;
            }
        };
        if let Some(difference) = identity::difference(info, &image) {
            if i == 0 {
                said.push(Problem::Replaced { file: candidate.clone(), difference });
            }
            continue;
        }
        if i > 0 && !identity::is_proved(info) {
            continue;
        }
        return Some(image);
    }
    problems.append(&mut said);
    None
}

fn open_jit(info: &ObjectInfo, pid: u32, options: &Options, problems: &mut Vec<Problem>) -> Opened {
    // The recording's files belong to its own process. A folder shared by all may hold a file of another process with
    // the same number.
    let own = std::iter::once(shown_path(&info.path))
        .filter(|path| path.extension().is_some_and(|e| e == "dump"))
        .chain(info.also_try.iter().cloned())
        .map(|path| (path, None));
    let shared = options.jit_dirs.iter().map(|d| (d.join(format!("perf-{pid}.map")), info.since_realtime_ns));
    let mut last = None;
    for (path, since) in own.chain(shared) {
        match JitMap::open(&path, None, since) {
            Ok(map) => return Opened::Jit(map.by_realtime(info.realtime_minus_monotonic_ns)),
            Err(e) => last = Some((path, e)),
        }
    }
    if let Some((file, e)) = last {
        let program = info.program.clone();
        problems.push(Problem::NoJitMap { file, reason: e.to_string(), program });
    }
    Opened::Nothing
}
