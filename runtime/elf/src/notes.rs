//! Notes, which linkers and programs store in an image. Each has its owner's name.

/// One note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// Its owner's name, with the NUL at the end.
    pub owner: &'a [u8],
    /// Its type, a number that the owner defines.
    pub kind: u32,
    /// Its contents.
    pub desc: &'a [u8],
    /// Offset of `desc` in the bytes of all notes.
    pub desc_at: usize,
}

/// The notes in a segment's bytes, up to the first incomplete one.
#[derive(Clone, Debug)]
pub struct Notes<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Type of the note with the build-id, whose owner is "GNU".
const NT_GNU_BUILD_ID: u32 = 3;

impl<'a> Notes<'a> {
    /// The notes in `bytes`, which begin with one.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Notes { bytes, at: 0 }
    }

    /// The GNU build-id.
    #[must_use]
    pub fn build_id(mut self) -> Option<&'a [u8]> {
        self.find(|note| note.kind == NT_GNU_BUILD_ID && note.owner == b"GNU\0").map(|note| note.desc)
    }
}

impl<'a> Iterator for Notes<'a> {
    type Item = Note<'a>;

    fn next(&mut self) -> Option<Note<'a>> {
        let half = |at: usize| Some(u32::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?));
        let owner_bytes = usize::try_from(half(self.at)?).ok()?;
        let desc_bytes = usize::try_from(half(self.at.checked_add(4)?)?).ok()?;
        let kind = half(self.at.checked_add(8)?)?;
        let owner_at = self.at.checked_add(12)?;
        let desc_at = owner_at.checked_add(owner_bytes.checked_next_multiple_of(4)?)?;
        let owner = self.bytes.get(owner_at..owner_at.checked_add(owner_bytes)?)?;
        let desc = self.bytes.get(desc_at..desc_at.checked_add(desc_bytes)?)?;
        self.at = desc_at.checked_add(desc_bytes.checked_next_multiple_of(4)?)?;
        Some(Note { owner, kind, desc, desc_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_behind_another_note_is_found() {
        let mut notes = [0u8; 64];
        // A note of 4 bytes by "GNU", type 1, then the build-id.
        notes[0] = 4;
        notes[4] = 4;
        notes[8] = 1;
        notes[12..16].copy_from_slice(b"GNU\0");
        notes[20] = 4;
        notes[24] = 3;
        notes[28] = 3;
        notes[32..36].copy_from_slice(b"GNU\0");
        notes[36..39].copy_from_slice(&[7, 8, 9]);
        assert_eq!(Notes::new(&notes).build_id(), Some(&[7, 8, 9][..]));
        assert_eq!(Notes::new(&notes).nth(1).map(|note| note.desc_at), Some(36));
        assert_eq!(Notes::new(&notes[..30]).build_id(), None);
        notes[33] = b'O';
        assert_eq!(Notes::new(&notes).build_id(), None, "of another owner");
    }

    #[test]
    fn lengths_beyond_the_end_end_the_walk() {
        for at in [0, 4] {
            let mut note = [0u8; 16];
            note[at..at + 4].fill(0xff);
            assert_eq!(Notes::new(&note).next(), None);
        }
    }
}
