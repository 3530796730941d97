//! Finds out whether a program is still being loaded: by the kernel, or by its dynamic loader.
//!
//! Between exec and the program's first own instruction the C library is not mapped, or not relocated. Its
//! `dlopen` cannot be called then, so a controller waits for the end of the loading. The loader tells debuggers
//! about its progress in `struct r_debug`, which can be read without stopping the program.

use crate::image::Image;
use crate::memory::Memory;
use crate::tasks;
use std::fmt;

/// What must still happen before the program's own code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// The kernel is executing the program: its headers cannot be read yet.
    Executing,
    /// The dynamic loader has not started its list of objects.
    Starting,
    /// The loader maps or relocates objects.
    Linking,
    /// The program needs libraries, and none of them is a C library so far.
    NoLibc,
}

impl fmt::Display for Loading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loading::Executing => "the kernel is still executing it",
            Loading::Starting => "its dynamic loader has only just started",
            Loading::Linking => "its dynamic loader is still at work",
            Loading::NoLibc => "its C library is not mapped yet",
        })
    }
}

impl Loading {
    /// The loader's own state. `None`: it has finished, or there is no loader.
    ///
    /// Call it before the map is read. If the loader has finished by then, the map shows all libraries.
    pub(crate) fn find_out(pid: i32, program: Option<&Image>, memory: &impl Memory) -> Option<Loading> {
        let Some(program) = program.filter(|p| p.ranges().next().is_some()) else {
            return Some(Loading::Executing);
        };
        let has_loader = program.interpreter(memory).is_some();
        let is_loader = !has_loader && is_loader(program, memory);
        if !has_loader && !is_loader {
            return None;
        }
        let list = if is_loader { list_of_any(pid, memory) } else { program.debug() };
        match list {
            Some(list) => is_linking(list, memory).then_some(Loading::Linking),
            None => (is_loader || program.has_debug()).then_some(Loading::Starting),
        }
    }
}

/// Whether the program is the dynamic loader, started as `ld.so PROGRAM`. musl's is also its C library.
fn is_loader(program: &Image, memory: &impl Memory) -> bool {
    const NAMES: &[&[u8]] = &[b"ld-", b"ld.so", b"libc."];
    program.soname(memory).is_some_and(|soname| NAMES.iter().any(|name| soname.starts_with(name)))
}

/// The address of the loader's `struct r_debug`, from any object that names it.
fn list_of_any(pid: i32, memory: &impl Memory) -> Option<u64> {
    let maps = tasks::maps(pid).ok()?;
    let starts = maps.0.iter().filter(|map| map.offset == 0 && map.inode != 0).map(|map| map.address.0);
    starts.filter_map(|start| Image::at_header(memory, start).ok()).find_map(|image| image.debug())
}

/// Whether the loader is working on objects: in its `struct r_debug` at `list`, `r_state` is not RT_CONSISTENT.
/// musl fills the structure only at the end; until then even `r_version` is 0.
pub(crate) fn is_linking(list: u64, memory: &impl Memory) -> bool {
    const R_STATE: u64 = 24;
    let half = |at| memory.half(at).ok();
    half(list) == Some(0) || half(list.wrapping_add(R_STATE)).is_some_and(|state| state != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::FakeMemory;

    #[test]
    fn a_list_of_objects_is_final_when_its_state_says_so() {
        let list = 0x7000;
        let of = |version: u8, state: u8| {
            let mut octets = vec![0; 40];
            (octets[0], octets[24]) = (version, state);
            is_linking(list, &FakeMemory { areas: vec![(list, octets)] })
        };
        assert!(of(0, 0), "musl has not filled it yet");
        assert!(of(1, 1), "RT_ADD");
        assert!(!of(1, 0));
    }

    #[test]
    fn a_program_without_readable_headers_is_being_executed() {
        let image = Image::default();
        assert_eq!(Loading::find_out(0, Some(&image), &FakeMemory::default()), Some(Loading::Executing));
        assert_eq!(Loading::find_out(0, None, &FakeMemory::default()), Some(Loading::Executing));
    }
}
