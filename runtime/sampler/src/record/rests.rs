//! The room on the disk that a finished file does not need.
//!
//! A file of continuous sampling is mostly room: each thread has a block of its own, and little comes into
//! it. What lies behind the records of a block reads as zeros, whether the disk holds it or not. (Its last
//! word does not: that repeats its generation.)
//!
//! Signal safety: system calls; half a kilobyte of stack.

use core::sync::atomic::AtomicU64;

use crate::record::log::{BLOCK_WORDS, Log};
use crate::sys;
use pct_unwind::os;

/// Words of a page.
const PAGE_WORDS: usize = 512;

/// Gives the pages back that no record has come into. A file system that cannot do it keeps all. Nobody
/// writes to the file any more.
///
/// The kernel copies what is looked at, since somebody may have cut the file.
pub(crate) fn free(log: &Log) {
    let blocks = (0..).map_while(|block| log.words(block * BLOCK_WORDS, BLOCK_WORDS));
    for block in blocks {
        for page in block.chunks(PAGE_WORDS).filter(|page| reads_as_zeros(page)) {
            // SAFETY: a whole page of our own mapping, which nobody writes to any more; it is zeros before and after.
            let freed =
                unsafe { sys::madvise(page.as_ptr().cast_mut().cast(), size_of_val(page), sys::MADV_REMOVE) };
            if freed.is_err() {
                return;
            }
        }
    }
}

/// Whether the kernel can read all of it, and finds zeros.
fn reads_as_zeros(words: &[AtomicU64]) -> bool {
    let mut copy = [0u8; 512];
    words.chunks(copy.len() / size_of::<u64>()).all(|chunk| {
        let address = chunk.as_ptr().expose_provenance() as u64;
        let Some(into) = copy.get_mut(..size_of_val(chunk)) else { return false };
        os::copy(address, into) && into.iter().all(|byte| *byte == 0)
    })
}
