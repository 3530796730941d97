//! Ids that are the same on every host: of stacks, and of code that has no build-id.
//!
//! A stack's id is made of build-ids and places in files, so neither address space layout nor the order of
//! samples matters, and no host needs to ask another.

use blake2::{Blake2b512, Digest as _};

/// Octets of a stack's id.
pub const STACK_ID: usize = 16;
/// Reserved: no stack. Rows with it carry what was lost.
pub const NO_STACK: [u8; STACK_ID] = [0; STACK_ID];
/// Octets of a recording's id in footers.
const SEGMENT_ID: usize = 12;
/// In front of what is hashed, so that ids of another scheme never meet these.
const TAG: &[u8] = b"pct stack 1";
/// Octets of a file that are hashed at either end, if it has no build-id.
pub const ENDS: usize = 4096;

/// What the id of a file without a build-id begins with.
pub const NO_BUILD_ID: &[u8] = b"htl:";

/// A place in code, as all hosts name it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct CodePlace {
    /// The build: a build-id of 8 to 32 octets; `htl:` and a hash for files without one; a hash of the name
    /// for code that has only a name.
    pub build_id: Vec<u8>,
    /// Offset in the file; for code that has only a name, its line, 0 if unknown.
    pub addr: i64,
    /// Whether the build is a file or a name.
    pub kind: Kind,
}

/// What a build-id stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Kind {
    /// A file of machine code.
    Native,
    /// A function of a script or of code made at run time, or a word like `[system]`.
    Name,
}

impl Kind {
    /// The word in the tables.
    #[must_use]
    pub fn as_word(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Name => "name",
        }
    }
}

/// The id of a stack: the first 16 octets of BLAKE2b-512 over a tag and, from the innermost frame outwards,
/// the length of the build-id (32 bits), the build-id, and the address (64 bits), little-endian.
#[must_use]
pub fn stack_id(frames: &[CodePlace]) -> [u8; STACK_ID] {
    let mut hash = Blake2b512::new();
    hash.update(TAG);
    for frame in frames {
        hash.update(u32::try_from(frame.build_id.len()).unwrap_or(u32::MAX).to_le_bytes());
        hash.update(&frame.build_id);
        hash.update(frame.addr.to_le_bytes());
    }
    first(hash)
}

/// The id of code that has only a name.
#[must_use]
pub fn name_id(function: &str, file: &str) -> Vec<u8> {
    let mut hash = Blake2b512::new();
    hash.update(b"pct name 1");
    hash.update(function);
    hash.update([0]);
    hash.update(file);
    first::<STACK_ID>(hash).to_vec()
}

/// The id of a file without a build-id: of its first and last [`ENDS`] octets and its length.
#[must_use]
pub fn file_id(head: &[u8], tail: &[u8], len: u64) -> Vec<u8> {
    let mut hash = Blake2b512::new();
    hash.update(head);
    hash.update(tail);
    hash.update(len.to_le_bytes());
    [NO_BUILD_ID, &first::<STACK_ID>(hash)].concat()
}

/// What a recording is called in the footers of the files that have its rows. It is made of the boot's random
/// id and of the process, so it is another one for each recording and tells nothing of either.
#[must_use]
pub fn segment_id(boot_id: &[u8; 16], pid: u32, start_ticks: u64, begun_ns: u64, number: u64) -> String {
    let mut hash = Blake2b512::new();
    hash.update(b"pct segment 1");
    hash.update(boot_id);
    hash.update(pid.to_le_bytes());
    for word in [start_ticks, begun_ns, number] {
        hash.update(word.to_le_bytes());
    }
    hex(&first::<SEGMENT_ID>(hash))
}

/// What the shipper's own notes call a process image; in no table.
#[must_use]
pub fn image_id(boot_id: &[u8; 16], pid: u32, start_ticks: u64, exe: &[u8]) -> String {
    let mut hash = Blake2b512::new();
    hash.update(b"pct image 1");
    hash.update(boot_id);
    hash.update(pid.to_le_bytes());
    hash.update(start_ticks.to_le_bytes());
    hash.update(exe);
    hex(&first::<SEGMENT_ID>(hash))
}

/// Octets as hexadecimal digits.
#[must_use]
pub fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn first<const N: usize>(hash: Blake2b512) -> [u8; N] {
    let digest = hash.finalize();
    std::array::from_fn(|at| digest.get(at).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_agree_with_another_implementation() {
        // Python: hashlib.blake2b(b"pct stack 1" + struct.pack("<I", 2) + b"\x12\x34" + struct.pack("<q",
        // 0x1234)).digest()[:16]
        let frame = CodePlace { build_id: vec![0x12, 0x34], addr: 0x1234, kind: Kind::Native };
        assert_eq!(hex(&stack_id(&[frame])), ONE_FRAME);
        assert_eq!(hex(&stack_id(&[])), EMPTY);
    }

    const ONE_FRAME: &str = "5169b57fc3e674259f35aae6ee5c83da";
    const EMPTY: &str = "1c3df9f4a9e1431e19089379aebe08c1";

    #[test]
    fn order_address_and_build_make_another_stack() {
        let place = |build: u8, addr| CodePlace { build_id: vec![build; 8], addr, kind: Kind::Native };
        let ids = [
            stack_id(&[place(1, 2), place(3, 4)]),
            stack_id(&[place(3, 4), place(1, 2)]),
            stack_id(&[place(1, 2)]),
            stack_id(&[place(1, 3)]),
            stack_id(&[place(2, 2)]),
        ];
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }
}
