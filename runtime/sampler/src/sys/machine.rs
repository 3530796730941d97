//! Where the process runs: this start of which machine, in which container.

use super::{O_RDONLY, c, fstat, open, read_file, with_descriptor};

/// The boot id's 16 bytes.
#[must_use]
pub fn boot_id() -> [u64; 2] {
    let mut text = [0u8; 64];
    let Ok(text) = read_file(c(c"/proc/sys/kernel/random/boot_id"), &mut text) else {
        return [0; 2];
    };
    let mut words = [0u64; 2];
    let digits = text.iter().filter_map(|b| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    });
    for (i, digit) in digits.take(32).enumerate() {
        let byte = i / 2;
        let shift = 8 * (byte % 8) + if i % 2 == 0 { 4 } else { 0 };
        if let Some(word) = words.get_mut(byte / 8) {
            *word |= u64::from(digit) << shift;
        }
    }
    words
}

/// Inode of the PID namespace that the process runs in; 0 where /proc does not tell. Two system calls and a close.
#[must_use]
pub fn pid_namespace() -> u64 {
    let file = || open(c(c"/proc/self/ns/pid"), O_RDONLY, 0);
    with_descriptor(|| fstat(&file()?)).map_or(0, |(id, _)| id.inode)
}
