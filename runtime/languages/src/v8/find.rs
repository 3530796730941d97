//! A V8 that is up: its layout, and where its own machine code is mapped.

use pct_elf::{Image, Memory, Symbols};

use super::builtins;
use super::layout::{Layout, MARK, Refused};

/// Whether an object with these symbols is a V8 whose functions may be read.
#[must_use]
pub fn is_v8<M: Memory>(memory: &M, symbols: &Symbols) -> bool {
    symbols.find(memory, MARK).is_some()
}

/// The layout of the V8 whose image is mapped at `base`, and address and octets of its own machine code.
///
/// # Errors
/// It is not up yet, or something is missing or odd.
#[cold]
#[inline(never)]
pub fn find<M: Memory>(memory: &M, base: u64) -> Result<(Layout, (u64, u64)), Refused> {
    let image = Image::at_base(memory, base).ok_or(Refused::NotReady)?;
    let symbols = image.symbols(memory).ok_or(Refused::NotReady)?;
    let is_relocated = image.is_relocated(memory);
    let layout = Layout::read(memory, &symbols).ok_or(Refused::NotReady)?;
    let layout = layout.map_err(|refused| if is_relocated { refused } else { Refused::NotReady })?;
    let builtins = builtins::find(memory, &symbols).ok_or(Refused::NotReady)?;
    Ok((layout, builtins))
}

/// A part of a file that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPart {
    /// Its first address.
    pub start: u64,
    /// The one behind its last.
    pub end: u64,
    /// Where it begins in the file, in octets.
    pub offset: u64,
    /// The file's device and inode; inode 0: it is of no file.
    pub file: (u64, u64),
}

/// Where V8's own machine code, from its first address to the one behind its last, is mapped once more: elsewhere from
/// the same part of the same file. V8 does that to have it near the code that it makes. `None`: none of these parts
/// has it.
pub fn copies<'p>(
    (first, last): (u64, u64),
    parts: impl Iterator<Item = MappedPart> + Clone + 'p,
) -> Option<impl Iterator<Item = (u64, u64)> + 'p> {
    let own = parts.clone().find(|part| part.start <= first && first < part.end)?;
    let (first, last) = (first - own.start + own.offset, last - own.start + own.offset);
    let same = move |part: &MappedPart| part.file == own.file && own.file.1 != 0 && part.start != own.start;
    Some(parts.filter(same).filter_map(move |part| {
        let mapped = part.offset..part.offset + (part.end - part.start);
        let (from, to) = (mapped.start.max(first), mapped.end.min(last));
        (from < to).then(|| (part.start + (from - part.offset), part.start + (to - part.offset)))
    }))
}

/// What of a region, from its first address to the one behind its last, is V8's own machine code, which lies there
/// (`code`, in the same form). That code keeps frame pointers, and walks need not follow what it does. Nothing of it:
/// the region's end, twice.
pub fn part_with_frame_pointers(
    (start, end): (u64, u64),
    code: impl Iterator<Item = (u64, u64)>,
) -> (u64, u64) {
    let mut parts = code.map(|(first, last)| (first.max(start), last.min(end)));
    parts.find(|(first, last)| first < last).unwrap_or((end, end))
}
