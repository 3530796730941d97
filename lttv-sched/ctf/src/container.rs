//! The metadata file: plain TSDL, JSON text sequence, or either of them in packets.
//!
//! Packet header, packed, 37 bytes, in the byte order of its magic:
//!
//! ```text
//! u32 magic 0x75D11D57   u8[16] uuid   u32 checksum   u32 content size   u32 packet size (bits)
//! u8 compression   u8 encryption   u8 checksum scheme   u8 major   u8 minor
//! ```
//!
//! The text of a packet is its bytes 37 to content size / 8. A token may be cut by a packet's border, so
//! all texts are joined before anything is parsed.

use crate::model::ByteOrder;

const MAGIC: u32 = 0x75D1_1D57;
const HEADER: usize = 37;
/// Largest metadata file that is read, bytes.
pub const MAX_METADATA: u64 = 256 << 20;

/// The text in a metadata file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Text, joined.
    pub bytes: Vec<u8>,
    /// Whether it is a JSON text sequence (CTF 2) and not TSDL.
    pub json: bool,
    /// UUID in the packet headers, if the file has packets.
    pub uuid: Option<[u8; 16]>,
    /// Byte order of the packet headers.
    pub order: Option<ByteOrder>,
}

/// A damaged packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPacket {
    /// Number, from 0.
    pub packet: usize,
    /// Byte in the file.
    pub at: u64,
    /// Expected and found.
    pub what: String,
}

/// What a file is that can be no metadata.
#[must_use]
pub fn no_metadata(file: &[u8]) -> Option<&'static str> {
    match file.trim_ascii_start() {
        [] => Some("the file is empty"),
        [0x1f, 0x8b, ..] => Some("packed with gzip: gunzip it first"),
        [b'[' | b'{', ..] => {
            Some("JSON that is no text sequence: in CTF 2 an octet 0x1e is before each fragment")
        }
        _ => None,
    }
}

/// Extracts the text of a metadata file.
///
/// # Errors
/// A packet header that contradicts the file, itself or its predecessors (C-M2).
pub fn unpack(file: &[u8]) -> Result<Text, BadPacket> {
    let order = match file.get(..4).map(|b| <[u8; 4]>::try_from(b).expect("four bytes")) {
        Some(b) if u32::from_le_bytes(b) == MAGIC => ByteOrder::Little,
        Some(b) if u32::from_be_bytes(b) == MAGIC => ByteOrder::Big,
        _ => return Ok(plain(file, None)),
    };
    let mut text = Vec::new();
    let (mut at, mut packet, mut first): (usize, usize, Option<(&[u8], u8)>) = (0, 0, None);
    while at < file.len() {
        let bad = |what: String| BadPacket { packet, at: at as u64, what };
        let head = file
            .get(at..at + HEADER)
            .ok_or_else(|| bad(format!("{} bytes left, a packet header has {HEADER}", file.len() - at)))?;
        let u32_at = |i: usize| {
            let b = <[u8; 4]>::try_from(&head[i..i + 4]).expect("four bytes");
            match order {
                ByteOrder::Little => u32::from_le_bytes(b),
                ByteOrder::Big => u32::from_be_bytes(b),
            }
        };
        if u32_at(0) != MAGIC {
            return Err(bad(format!(
                "magic is {:#010x}, expected {MAGIC:#010x} in the byte order of the first packet",
                u32_at(0)
            )));
        }
        let (content, size) = (u32_at(24), u32_at(28));
        for (name, v) in [("compression", head[32]), ("encryption", head[33]), ("checksum scheme", head[34])]
        {
            if v != 0 {
                return Err(bad(format!("{name} {v} is not supported")));
            }
        }
        if !matches!((head[35], head[36]), (1, 8) | (2, 0)) {
            return Err(bad(format!("version {}.{}, expected 1.8 or 2.0", head[35], head[36])));
        }
        if size == 0 || size % 8 != 0 || content % 8 != 0 {
            return Err(bad(format!(
                "packet of {size} bits with {content} of content: expected multiples of 8 above 0"
            )));
        }
        let (content, size) = ((content / 8) as usize, (size / 8) as usize);
        if content < HEADER || content > size {
            return Err(bad(format!("content of {content} bytes: expected {HEADER} to {size}")));
        }
        if size > file.len() - at {
            return Err(bad(format!("packet of {size} bytes, the file has {} left", file.len() - at)));
        }
        match first {
            None => first = Some((&head[4..20], head[35])),
            Some(f) if f != (&head[4..20], head[35]) => {
                return Err(bad("UUID or version differs from the first packet's".into()));
            }
            Some(_) => {}
        }
        text.extend_from_slice(&file[at + HEADER..at + content]);
        at += size;
        packet += 1;
    }
    let mut t = plain(&text, first.map(|f| <[u8; 16]>::try_from(f.0).expect("sixteen bytes")));
    t.order = Some(order);
    Ok(t)
}

fn plain(bytes: &[u8], uuid: Option<[u8; 16]>) -> Text {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let json = bytes.first() == Some(&0x1E);
    Text { json, bytes: bytes.to_vec(), uuid, order: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(text: &[u8], pad: usize, big: bool) -> Vec<u8> {
        let n = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
        let mut p = Vec::new();
        p.extend(n(MAGIC));
        p.extend([7u8; 16]);
        p.extend(n(0));
        p.extend(n((37 + text.len() as u32) * 8));
        p.extend(n((37 + text.len() as u32 + pad as u32) * 8));
        p.extend([0, 0, 0, 1, 8]);
        p.extend(text);
        p.extend(std::iter::repeat_n(0, pad));
        p
    }

    #[test]
    fn a_token_cut_by_a_packet_border_is_joined() {
        for big in [false, true] {
            let mut f = packet(b"/* CTF 1.8 */ tra", 11, big);
            f.extend(packet(b"ce { };", 0, big));
            let t = unpack(&f).unwrap();
            assert_eq!(t.bytes, b"/* CTF 1.8 */ trace { };");
            assert_eq!((t.json, t.uuid), (false, Some([7; 16])));
        }
    }

    #[test]
    fn every_wrong_header_is_an_error_with_its_packet_and_byte() {
        let good = packet(b"x", 3, false);
        for (i, v) in [(24, 0), (24, 255), (28, 0), (28, 1), (28, 255), (32, 1), (33, 1), (34, 1), (35, 3)] {
            let mut f = good.clone();
            let mut second = good.clone();
            second[i] = v;
            f.extend(&second);
            let e = unpack(&f).expect_err(&format!("byte {i} = {v}"));
            assert_eq!((e.packet, e.at), (1, good.len() as u64), "byte {i} = {v}: {}", e.what);
        }
        let mut f = good.clone();
        let mut other = good.clone();
        other[5] = 9;
        f.extend(&other);
        assert!(unpack(&f).unwrap_err().what.contains("UUID"));
        assert!(unpack(&good[..20]).is_err());
    }

    #[test]
    fn byte_order_marks_and_unknown_starts_are_tolerated() {
        assert_eq!(unpack(b"\xEF\xBB\xBF/* CTF 1.8 */").unwrap().bytes, b"/* CTF 1.8 */");
        assert_eq!(unpack(b"trace {};").unwrap().bytes, b"trace {};");
        assert!(unpack(b"\x1E{}").unwrap().json);
        assert_eq!(unpack(b"").unwrap().bytes, b"");
    }
}
