//! Images in our own memory: symbols by DT_GNU_HASH or DT_HASH, build-ids, the auxiliary vector.
//!
//! The images are those that the loader or the kernel mapped, so their headers are trusted as far as the loader trusted
//! them; still every number is bounded, so that a broken table ends the search and not the host.
//!
//! Signal safety: loads only.

/// A word of this process's memory.
///
/// # Safety
/// `at` is readable.
unsafe fn read<T: Copy>(at: u64) -> T {
    // SAFETY: by the caller's promise.
    unsafe { (at as *const T).read_unaligned() }
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_NOTE: u32 = 4;
/// The program's own headers.
pub const PT_PHDR: u32 = 6;

/// A program header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Phdr {
    /// Type.
    pub kind: u32,
    /// Flags.
    pub flags: u32,
    /// Offset in the file.
    pub offset: u64,
    /// Address before relocation.
    pub vaddr: u64,
    /// Unused.
    pub paddr: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// Bytes in memory.
    pub mem_size: u64,
    /// Alignment.
    pub align: u64,
}

/// Program headers in memory.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// What to add to addresses of the file.
    pub bias: u64,
    headers: u64,
    count: u64,
}

impl Image {
    /// From program headers in memory; the bias comes from PT_PHDR, or else (static-pie programs have none) from the segment
    /// that starts the file, in whose first page the headers are.
    ///
    /// # Safety
    /// `headers` are `count` program headers of an image that stays mapped.
    #[must_use]
    pub unsafe fn from_headers(headers: u64, count: u64) -> Image {
        let mut image = Image { bias: 0, headers, count: count.min(1000) };
        if let Some(own) = image.phdrs().find(|p| p.kind == PT_PHDR) {
            image.bias = headers.wrapping_sub(own.vaddr);
        } else if let Some(first) = image.phdrs().find(|p| p.kind == PT_LOAD && p.offset == 0) {
            image.bias = (headers & !0xfff).wrapping_sub(first.vaddr & !0xfff);
        }
        image
    }

    /// From an ELF header in memory (the vdso, or the first page of a mapped object).
    ///
    /// # Safety
    /// `base` is the start of a readable mapping that begins at file offset 0, at least `bytes` long and at least a page.
    #[must_use]
    pub unsafe fn from_base(base: u64, bytes: u64) -> Option<Image> {
        // SAFETY: by the caller's promise.
        let ident: [u8; 16] = unsafe { read(base) };
        if ident.get(..6) != Some(b"\x7fELF\x02\x01") {
            return None;
        }
        // SAFETY: the header has 64 bytes.
        let (offset, size, count): (u64, u16, u16) =
            unsafe { (read(base + 32), read(base + 54), read(base + 56)) };
        let table = u64::from(count) * u64::from(size);
        if usize::from(size) != size_of::<Phdr>() || offset.checked_add(table)? > bytes {
            return None;
        }
        let mut image = Image { bias: base, headers: base + offset, count: u64::from(count) };
        let first = image.phdrs().find(|p| p.kind == PT_LOAD)?;
        image.bias = base.wrapping_sub(first.vaddr.wrapping_sub(first.offset));
        Some(image)
    }

    /// The headers.
    pub fn phdrs(&self) -> impl Iterator<Item = Phdr> + use<> {
        let at = self.headers;
        (0..self.count).map(move |i| {
            // SAFETY: by the promise of the constructors.
            unsafe { read::<Phdr>(at + i * size_of::<Phdr>() as u64) }
        })
    }

    /// Address of the dynamic section.
    #[must_use]
    pub fn dynamic(&self) -> Option<u64> {
        self.phdrs().find(|p| p.kind == PT_DYNAMIC).map(|p| self.bias.wrapping_add(p.vaddr))
    }
}

/// The build-id of the object whose first page is mapped at `base`, into `to`; the length is given, 0 = none.
///
/// Memory is read through `read_at` (address, buffer, whether all of it was read): the object may be unmapped at any
/// instant by another thread, and that must be an error here, not a fault. Everything read is hostile.
pub fn build_id(base: u64, mut read_at: impl FnMut(u64, &mut [u8]) -> bool, to: &mut [u8; 32]) -> usize {
    let mut page = [0u8; 64 + 56 * 20];
    if !read_at(base, &mut page) || !page.starts_with(b"\x7fELF\x02\x01") {
        return 0;
    }
    let half = |at: usize| page.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes);
    let word = |at: usize| page.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    let headers = word(32) as usize;
    if half(54) != 56 || headers > page.len() {
        return 0;
    }
    let mut notes = [0u8; 512];
    let mut first = None;
    for i in 0..usize::from(half(56)).min(64) {
        let at = headers + 56 * i;
        let kind = word(at) as u32;
        if kind == PT_LOAD && first.is_none() {
            first = Some(word(at + 16).wrapping_sub(word(at + 8)));
        }
        if kind != PT_NOTE {
            continue;
        }
        let bias = base.wrapping_sub(first.unwrap_or(0));
        let len = (word(at + 40) as usize).min(notes.len());
        let Some(notes) = notes.get_mut(..len) else { continue };
        if !read_at(bias.wrapping_add(word(at + 16)), notes) {
            continue;
        }
        let found = find_build_id(notes, to);
        if found != 0 {
            return found;
        }
    }
    0
}

fn find_build_id(notes: &[u8], to: &mut [u8; 32]) -> usize {
    let half = |at: usize| {
        notes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes) as usize
    };
    let mut at = 0;
    while at + 12 <= notes.len() {
        let (name, desc, kind) = (half(at), half(at + 4), half(at + 8));
        let desc_at = at + 12 + (name & 0xffff).next_multiple_of(4);
        if kind == 3 && notes.get(at + 12..at + 16) == Some(b"GNU\0") {
            let len = desc.min(32);
            let Some(id) = notes.get(desc_at..desc_at + len) else { return 0 };
            for (to, from) in to.iter_mut().zip(id) {
                *to = *from;
            }
            return len;
        }
        at = desc_at + (desc & 0xffff).next_multiple_of(4);
    }
    0
}

/// The tables of a dynamic section that symbols are found with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Symbols {
    bias: u64,
    strings: u64,
    string_bytes: u64,
    table: u64,
    gnu_hash: u64,
    hash: u64,
    versions: u64,
    /// DT_DEBUG: address of r_debug (the main program's only).
    pub debug: u64,
}

impl Symbols {
    /// Reads a dynamic section. Pointers below the bias are offsets (musl and the vdso leave them so).
    ///
    /// # Safety
    /// `dynamic` is the dynamic section of a mapped image with this bias.
    #[must_use]
    pub unsafe fn new(dynamic: u64, bias: u64) -> Symbols {
        let mut s = Symbols { bias, ..Default::default() };
        for i in 0..512u64 {
            // SAFETY: the section ends with DT_NULL.
            let [tag, value]: [u64; 2] = unsafe { read(dynamic + 16 * i) };
            let address = if value < bias { value.wrapping_add(bias) } else { value };
            match tag {
                0 => break,
                4 => s.hash = address,
                5 => s.strings = address,
                6 => s.table = address,
                10 => s.string_bytes = value,
                21 => s.debug = value,
                0x6fff_fef5 => s.gnu_hash = address,
                0x6fff_fff0 => s.versions = address,
                _ => {}
            }
        }
        s
    }

    /// Address of the defined, default-version function or variable `name`. IFUNCs are not functions.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<u64> {
        if self.table == 0 || self.strings == 0 {
            return None;
        }
        if self.gnu_hash != 0 { self.by_gnu_hash(name) } else { self.by_hash(name) }
    }

    fn by_gnu_hash(&self, name: &[u8]) -> Option<u64> {
        let hash = name.iter().fold(5381u32, |h, b| h.wrapping_mul(33).wrapping_add(u32::from(*b)));
        // SAFETY: the table is as the loader uses it.
        let [buckets, first, bloom, shift]: [u32; 4] = unsafe { read(self.gnu_hash) };
        let filter_at = self.gnu_hash + 16 + 8 * u64::from((hash / 64).checked_rem(bloom)?);
        // SAFETY: one of the filter's words.
        let filter: u64 = unsafe { read(filter_at) };
        if filter >> (hash % 64) & filter >> ((hash >> (shift & 31)) % 64) & 1 == 0 {
            return None;
        }
        let bucket_at = self.gnu_hash + 16 + 8 * u64::from(bloom);
        let chain_at = bucket_at + 4 * u64::from(buckets);
        let bucket = u64::from(hash.checked_rem(buckets)?);
        // SAFETY: one of the buckets.
        let mut index: u32 = unsafe { read(bucket_at + 4 * bucket) };
        if index < first {
            return None;
        }
        loop {
            // SAFETY: chains end with an odd word.
            let word: u32 = unsafe { read(chain_at + 4 * u64::from(index - first)) };
            if word | 1 == hash | 1
                && let Some(found) = self.symbol(index, name)
            {
                return Some(found);
            }
            if word & 1 != 0 {
                return None;
            }
            index = index.checked_add(1)?;
        }
    }

    fn by_hash(&self, name: &[u8]) -> Option<u64> {
        if self.hash == 0 {
            return None;
        }
        // SAFETY: the table is as the loader uses it.
        let [_, count]: [u32; 2] = unsafe { read(self.hash) };
        (1..count.min(1 << 20)).find_map(|i| self.symbol(i, name))
    }

    fn symbol(&self, index: u32, name: &[u8]) -> Option<u64> {
        let at = self.table + 24 * u64::from(index);
        // SAFETY: an index that the hash table gave.
        let (name_at, info, section): (u32, u8, u16) = unsafe { (read(at), read(at + 4), read(at + 6)) };
        // SAFETY: as above.
        let value: u64 = unsafe { read(at + 8) };
        let wanted = info & 15 <= 2;
        if section == 0 || value == 0 || !wanted || u64::from(name_at) >= self.string_bytes {
            return None;
        }
        if self.versions != 0 {
            // SAFETY: one half-word per symbol.
            let version: u16 = unsafe { read(self.versions + 2 * u64::from(index)) };
            if version & 0x8000 != 0 {
                return None;
            }
        }
        let text = self.strings + u64::from(name_at);
        for (i, byte) in name.iter().enumerate() {
            // SAFETY: strings end with NUL, at which this stops.
            if unsafe { read::<u8>(text + i as u64) } != *byte {
                return None;
            }
        }
        // SAFETY: all bytes before were not NUL.
        if unsafe { read::<u8>(text + name.len() as u64) } != 0 {
            return None;
        }
        Some(self.bias.wrapping_add(value))
    }
}

/// The parts of the auxiliary vector that matter here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Auxv {
    /// AT_PHDR: the program's headers.
    pub headers: u64,
    /// AT_PHNUM.
    pub header_count: u64,
    /// AT_SYSINFO_EHDR: the vdso, 0 = none.
    pub vdso: u64,
    /// AT_HWCAP2.
    pub hwcap2: u64,
    /// AT_SECURE: set-uid and the like.
    pub secure: bool,
    /// AT_MINSIGSTKSZ: bytes of the kernel's signal frame at most, 0 = not known.
    pub signal_frame: u64,
}

impl Auxv {
    /// Reads /proc/self/auxv.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read() -> crate::sys::Result<Auxv> {
        let mut buffer = [0u8; 1024];
        let bytes = crate::sys::read_file(crate::sys::c(c"/proc/self/auxv"), &mut buffer)?;
        let mut auxv = Auxv::default();
        for pair in bytes.as_chunks::<16>().0 {
            let word = |half: &[u8]| half.first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
            auxv.take(word(pair), word(pair.get(8..).unwrap_or(&[])));
        }
        Ok(auxv)
    }

    /// Reads it where the kernel put it: behind the environment vector.
    ///
    /// # Safety
    /// `environ` is the environment vector that the kernel made, with its NULL in place.
    #[must_use]
    pub unsafe fn behind(environ: u64) -> Auxv {
        let mut at = environ;
        // SAFETY: the vector ends with NULL; the auxiliary vector follows and ends with AT_NULL.
        while unsafe { read::<u64>(at) } != 0 {
            at += 8;
        }
        let mut auxv = Auxv::default();
        for i in 0..64u64 {
            // SAFETY: as above.
            let [tag, value]: [u64; 2] = unsafe { read(at + 8 + 16 * i) };
            if tag == 0 {
                break;
            }
            auxv.take(tag, value);
        }
        auxv
    }

    fn take(&mut self, tag: u64, value: u64) {
        match tag {
            3 => self.headers = value,
            5 => self.header_count = value,
            23 => self.secure = value != 0,
            26 => self.hwcap2 = value,
            33 => self.vdso = value,
            51 => self.signal_frame = value,
            _ => {}
        }
    }
}

/// Walks the loader's list of objects: `each` gets (bias, name's address, dynamic section), until it gives `false`.
///
/// # Safety
/// `debug` is the main program's r_debug, or 0; nobody may be changing the list (a constructor runs under the loader).
pub unsafe fn each_object(debug: u64, mut each: impl FnMut(u64, u64, u64) -> bool) {
    if debug == 0 {
        return;
    }
    // SAFETY: r_debug: version, then the first link_map.
    let mut map: u64 = unsafe { read(debug + 8) };
    for _ in 0..4096 {
        if map == 0 {
            return;
        }
        // SAFETY: link_map: bias, name, dynamic section, next.
        let [bias, name, dynamic, next]: [u64; 4] = unsafe { read(map) };
        if !each(bias, name, dynamic) {
            return;
        }
        map = next;
    }
}
