//! Which files are of one process: continuous sampling begins a new file now and then.

use pct_format::Header;
use pct_format::layout::{self, header as at};
use rustc_hash::FxHashMap;

/// What a file says about the process that wrote it.
#[derive(Clone, Debug)]
pub(super) struct Image {
    /// Boot, process id and start of the process, and its executable; `None`: the file does not say all of it.
    whose: Option<(Vec<u8>, u32, u64, Vec<u8>)>,
    /// Files of the same image before this one.
    before: u64,
    /// When the file was begun, ns since 1970.
    begun_ns: u64,
}

impl Image {
    pub(super) fn from_header(header: &Header<'_>) -> Image {
        let (boot, start) = (header.boot_id(), header.start_ticks());
        let said = boot != [0; 16] && start != 0 && header.pid() != 0;
        let exe = header.text(layout::Text::Exe).to_vec();
        Image {
            whose: said.then(|| (boot.to_vec(), header.pid(), start, exe)),
            before: header.header_word(at::ROTATIONS),
            begun_ns: header.first_anchor().realtime_ns,
        }
    }
}

/// For each file the number of the first one, in time, that is of the same image of a process: its own, or an
/// earlier one's. An image that was replaced by another one of the same program is not the same.
pub(super) fn firsts(files: &[Image]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|file| (files[*file].begun_ns, files[*file].before));
    let mut firsts: Vec<usize> = (0..files.len()).collect();
    let mut known = FxHashMap::default();
    for file in order {
        let Some(whose) = &files[file].whose else { continue };
        if files[file].before == 0 {
            known.insert(whose, file);
        } else {
            firsts[file] = *known.entry(whose).or_insert(file);
        }
    }
    firsts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(pid: u32, before: u64, begun_ns: u64) -> Image {
        Image { whose: (pid != 0).then(|| (vec![1], pid, 5, b"/bin/a".to_vec())), before, begun_ns }
    }

    #[test]
    fn files_of_an_image_are_joined_in_any_order() {
        let files = [file(7, 2, 30), file(7, 0, 10), file(8, 0, 11), file(7, 1, 20)];
        assert_eq!(firsts(&files), [1, 1, 2, 1]);
    }

    #[test]
    fn the_first_files_may_be_gone() {
        assert_eq!(firsts(&[file(7, 5, 30), file(7, 6, 40)]), [0, 0]);
    }

    #[test]
    fn an_image_that_was_executed_again_is_another_one() {
        assert_eq!(firsts(&[file(7, 0, 10), file(7, 1, 20), file(7, 0, 30), file(7, 1, 40)]), [0, 0, 2, 2]);
    }

    #[test]
    fn what_does_not_say_whose_it_is_stands_alone() {
        assert_eq!(firsts(&[file(0, 0, 10), file(0, 1, 20)]), [0, 1]);
    }
}
