//! LTTng's index files: `index/<stream file>.idx`.
//!
//! ```text
//! big-endian: u32 magic 0xC1F1DCC1   u32 major (1)   u32 minor   u32 entry length (bytes)
//! entry: u64 offset (bytes)  packet size  content size (bits)  begin  end  events discarded  stream class id
//!        from 1.1: u64 stream instance id  packet sequence number
//! ```
//!
//! An index is a hint: if it does not fit its stream file in every respect, it is not used.

const MAGIC: u32 = 0xC1F1_DCC1;
const HEADER: usize = 16;

/// A packet's entry in the index. Times are raw clock values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Byte in the stream file.
    pub offset: u64,
    /// Packet size, bits.
    pub packet_size: u64,
    /// Content size, bits.
    pub content_size: u64,
    /// Clock at its begin.
    pub begin: u64,
    /// Clock at its end.
    pub end: u64,
    /// Counter of discarded events.
    pub discarded: u64,
    /// Stream class.
    pub stream_id: u64,
    /// Stream instance and packet number (1.1).
    pub more: Option<(u64, u64)>,
}

/// Parses the index of a stream file of `file_len` bytes.
///
/// # Errors
/// What does not fit.
pub fn parse(bytes: &[u8], file_len: u64) -> Result<Vec<Entry>, String> {
    let word = |at: usize| {
        bytes
            .get(at..at + 4)
            .map(|b| u32::from_be_bytes(b.try_into().expect("four bytes")))
            .ok_or("shorter than its header".to_string())
    };
    if word(0)? != MAGIC {
        return Err(format!("magic is {:#010x}, expected {MAGIC:#010x}", word(0)?));
    }
    if word(4)? != 1 {
        return Err(format!("major version {}, expected 1", word(4)?));
    }
    let len = word(12)? as usize;
    if len < 56 {
        return Err(format!("entries of {len} bytes, expected 56 or more"));
    }
    let body = &bytes[HEADER..];
    if !body.len().is_multiple_of(len) {
        return Err(format!("{} bytes of entries of {len}: the last one is cut", body.len()));
    }
    let mut out = Vec::with_capacity(body.len() / len);
    let mut at = 0u64;
    for (i, e) in body.chunks_exact(len).enumerate() {
        let n = |k: usize| u64::from_be_bytes(e[8 * k..8 * k + 8].try_into().expect("eight bytes"));
        let entry = Entry {
            offset: n(0),
            packet_size: n(1),
            content_size: n(2),
            begin: n(3),
            end: n(4),
            discarded: n(5),
            stream_id: n(6),
            more: (len >= 72).then(|| (n(7), n(8))),
        };
        if entry.offset != at {
            return Err(format!("entry {i} is at byte {}, expected {at}", entry.offset));
        }
        if entry.packet_size == 0
            || !entry.packet_size.is_multiple_of(8)
            || entry.content_size > entry.packet_size
        {
            return Err(format!(
                "entry {i}: packet of {} bits with {} of content",
                entry.packet_size, entry.content_size
            ));
        }
        if entry.end < entry.begin && entry.end != 0 {
            return Err(format!("entry {i} ends before it begins"));
        }
        at = at.checked_add(entry.packet_size / 8).ok_or_else(|| format!("entry {i}: size"))?;
        out.push(entry);
    }
    if at != file_len {
        return Err(format!("packets of {at} bytes in all, the stream file has {file_len}"));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn index(entries: &[[u64; 9]]) -> Vec<u8> {
        let mut b: Vec<u8> = [MAGIC, 1, 1, 72].iter().flat_map(|w| w.to_be_bytes()).collect();
        b.extend(entries.iter().flatten().flat_map(|w| w.to_be_bytes()));
        b
    }

    #[test]
    fn every_contradiction_is_found() {
        let good = [[0, 800, 700, 5, 9, 0, 1, 2, 3], [100, 80, 80, 9, 0, 0, 1, 2, 4]];
        assert_eq!(parse(&index(&good), 110).unwrap().len(), 2);
        assert!(parse(&index(&good), 111).is_err());
        for (i, k, v) in
            [(0, 0, 1), (1, 0, 99), (0, 1, 801), (0, 1, 0), (0, 2, 801), (0, 4, 4), (1, 1, u64::MAX - 7)]
        {
            let mut bad = good;
            bad[i][k] = v;
            assert!(parse(&index(&bad), 110).is_err(), "entry {i} word {k} = {v}");
        }
        let b = index(&good);
        assert!(parse(&b[..b.len() - 1], 110).is_err() && parse(&b[..10], 110).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..300), len in any::<u64>()) {
            let _ = parse(&bytes, len);
            let mut b = index(&[]);
            b.extend(bytes);
            let _ = parse(&b, len);
        }
    }
}
