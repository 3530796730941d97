//! Small builders for the tests of this folder.

/// An `.eh_frame` at `addr` with one CIE and an FDE (absolute start, length) for each pair. Returns the FDEs' offsets
/// too.
pub(crate) fn eh_frame(functions: &[(u64, u64)], addr: u64) -> (Vec<u8>, Vec<usize>) {
    let mut out = Vec::new();
    // CIE: version 1, "zR", code 1, data -8, RA 16, pcrel sdata4; CFA = rsp + 8, RA at CFA - 8.
    let cie = [0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0];
    out.extend_from_slice(&(cie.len() as u32).to_le_bytes());
    out.extend_from_slice(&cie);
    let mut at = Vec::new();
    for &(start, len) in functions {
        at.push(out.len());
        out.extend_from_slice(&20u32.to_le_bytes());
        out.extend_from_slice(&(out.len() as u32).to_le_bytes());
        let here = addr + out.len() as u64;
        out.extend_from_slice(&(start.wrapping_sub(here) as u32).to_le_bytes());
        out.extend_from_slice(&(len as u32).to_le_bytes());
        // No augmentation data; after one byte: rbp pushed.
        out.extend_from_slice(&[0, 0x41, 0x0e, 16, 0x86, 2, 0, 0]);
    }
    out.extend_from_slice(&[0; 4]);
    (out, at)
}

/// Octets of a program header.
pub(crate) const PHDR: usize = 56;
/// Where the unwind data of [`program`] begin.
pub(crate) const EH: usize = 0x2a44;

/// A static program that is mapped at `base`: headers, code at 0x1000, data at 0x2000 with `.eh_frame` at [`EH`].
pub(crate) fn program(fdes: &[(u64, u64)], base: u64) -> Vec<u8> {
    let mut image = vec![0u8; 0x1000];
    image[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    image[18] = 62;
    image[32] = 64;
    image[54] = PHDR as u8;
    image[56] = 3;
    for (n, (flags, start, len)) in
        [(4u32, 0u64, 0x1000u64), (5, 0x1000, 0x1000), (4, 0x2000, 0x2000)].iter().enumerate()
    {
        let at = 64 + n * PHDR;
        image[at..at + 4].copy_from_slice(&pct_elf::segment_kind::LOAD.to_le_bytes());
        image[at + 4..at + 8].copy_from_slice(&flags.to_le_bytes());
        image[at + 8..at + 16].copy_from_slice(&start.to_le_bytes());
        image[at + 16..at + 24].copy_from_slice(&(base + start).to_le_bytes());
        image[at + 40..at + 48].copy_from_slice(&len.to_le_bytes());
    }
    image.resize(0x4000, 0);
    // These octets look like a CIE but are not one: no FDE refers to them.
    for decoy in [0x2100, 0x2ff8] {
        image[decoy..decoy + 12].copy_from_slice(&[20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0]);
    }
    let (bytes, _) = eh_frame(fdes, base + EH as u64);
    image[EH..EH + bytes.len()].copy_from_slice(&bytes);
    image
}

/// Start of each object that is mapped in this process (its first mapping), from the maps file.
pub(crate) fn own_objects() -> Vec<u64> {
    regions()
        .iter()
        .map(|r| r.base)
        .filter(|&b| b != 0)
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// The executable regions of this process.
pub(crate) fn regions() -> Vec<super::Region> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let mut bases: std::collections::HashMap<String, u64> = std::collections::HashMap::new();
    let mut out = Vec::new();
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = words[0].split_once('-').expect("range");
        let (start, end) =
            (u64::from_str_radix(start, 16).expect("hex"), u64::from_str_radix(end, 16).expect("hex"));
        let path = words.get(5).unwrap_or(&"").to_string();
        if path == "[vdso]" || words[4] != "0" && u64::from_str_radix(words[2], 16) == Ok(0) {
            bases.insert(path.clone(), start);
        }
        if words[1].as_bytes()[2] == b'x' && path != "[vsyscall]" {
            let base = bases.get(&path).copied().unwrap_or(0);
            out.push(super::Region { start, end, base, identity: words[4].parse().expect("inode") });
        }
    }
    out
}
