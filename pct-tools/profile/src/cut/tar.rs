//! Heads of a tar archive (POSIX ustar), as much as files in one folder need.

const BLOCK: usize = 512;
/// Most octets of a file's name, and of its folder's.
const MOST_NAME: usize = 100;
const MOST_FOLDER: usize = 155;

/// Zeros behind a file of so many octets.
pub(super) fn filling(bytes: u64) -> usize {
    let over = usize::try_from(bytes % BLOCK as u64).unwrap_or(0);
    (BLOCK - over) % BLOCK
}

/// What stands behind the last file.
pub(super) fn end() -> Vec<u8> {
    vec![0; 2 * BLOCK]
}

/// The head of a file. None: a name is longer than the format allows.
pub(super) fn head(folder: &str, name: &str, bytes: u64) -> Option<Vec<u8>> {
    if name.len() > MOST_NAME || folder.len() > MOST_FOLDER {
        return None;
    }
    let mut head = vec![0; BLOCK];
    let mut put = |at: usize, octets: &[u8]| head[at..at + octets.len()].copy_from_slice(octets);
    put(0, name.as_bytes());
    put(100, b"0000600\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    if bytes < 1 << 33 {
        put(124, format!("{bytes:011o}\0").as_bytes());
    } else {
        // Larger than eleven octal digits can say: the number itself, marked by the highest bit.
        put(124, &[0x80, 0, 0, 0]);
        put(128, &bytes.to_be_bytes());
    }
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    put(345, folder.as_bytes());
    let sum: u32 = head.iter().map(|octet| u32::from(*octet)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Some(head)
}
