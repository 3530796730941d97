//! The compressed records of `perf record -z`: zstd frames.
//!
//! The recorder flushes its stream at the end of each compressed record and never ends it. So the pieces are
//! one stream, a record may begin in one piece and end in the next, and the last frame lacks its end.
//!
//! Invariant: at most [`MOST`] octets are unpacked, whatever the stream promises.

use ruzstd::decoding::StreamingDecoder;
use std::io::{self, Read};

/// Most octets that are unpacked.
const MOST: u64 = 1 << 30;
/// An empty block that marks the end of its frame, and room for a checksum.
const END: &[u8] = &[1, 0, 0, 0, 0, 0, 0];

/// The unpacked octets of the pieces, and in words what is wrong with them.
pub(super) fn unpack(pieces: &[&[u8]]) -> (Vec<u8>, Option<String>) {
    let mut stream = pieces.concat();
    let mut out = Vec::new();
    if stream.is_empty() {
        return (out, None);
    }
    let packed = stream.len();
    stream.extend(END);
    let damage = frames(&stream, packed, &mut out)
        .err()
        .map(|why| format!("compressed records: damaged ({why}); {} octets were unpacked before", out.len()));
    (out, damage)
}

/// Unpacks frame after frame until the first `packed` octets are used up.
fn frames(stream: &[u8], packed: usize, out: &mut Vec<u8>) -> io::Result<()> {
    let mut rest = stream;
    while stream.len() - rest.len() < packed {
        let before = rest.len();
        let mut frame = StreamingDecoder::new(&mut rest).map_err(io::Error::other)?;
        let left = MOST.saturating_sub(out.len() as u64);
        if (&mut frame).take(left + 1).read_to_end(out)? as u64 > left {
            return Err(io::Error::other("more than a gigabyte"));
        }
        drop(frame);
        if rest.len() == before {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of raw blocks without its end: magic, a window of 1 KiB, blocks.
    fn frame(blocks: &[&[u8]]) -> Vec<u8> {
        let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0];
        for block in blocks {
            out.extend(&((block.len() as u32) << 3).to_le_bytes()[..3]);
            out.extend(*block);
        }
        out
    }

    #[test]
    fn a_stream_without_an_end_is_unpacked_whole() {
        let bytes = frame(&[b"first rec", b"ord and second"]);
        for cut in [6, 12, 20] {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(unpack(&[first, second]), (b"first record and second".to_vec(), None));
        }
        assert_eq!(unpack(&[]), (Vec::new(), None));
    }

    #[test]
    fn frames_that_end_follow_each_other() {
        let mut bytes = frame(&[b"one "]);
        bytes.extend([1, 0, 0]);
        bytes.extend(frame(&[b"two"]));
        assert_eq!(unpack(&[&bytes]), (b"one two".to_vec(), None));
    }

    #[test]
    fn damage_is_said_and_what_came_before_it_stays() {
        let mut bytes = frame(&[b"one "]);
        bytes.extend([1, 0, 0]);
        bytes.extend(b"no magic number");
        let (out, damage) = unpack(&[&bytes]);
        assert_eq!(out, b"one ");
        assert!(damage.is_some_and(|why| why.contains("damaged")));
        let whole = frame(&[b"first rec", b"ord and second"]);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            assert!(unpack(&[&bytes]).0.len() < 1 << 20);
            let _ = unpack(&[&whole[..at]]);
        }
    }
}
