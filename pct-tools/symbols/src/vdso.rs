//! The kernel's vdso, read from this process: all processes under one kernel have the same.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::image::Image;

/// This process's vdso as an image. None: it has no vdso.
pub(crate) fn image() -> Option<Image> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|l| l.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let size = usize::try_from(end.checked_sub(start)?).ok().filter(|n| *n <= 1 << 20)?;
    let mut mem = std::fs::File::open("/proc/self/mem").ok()?;
    mem.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = vec![0; size];
    mem.read_exact(&mut bytes).ok()?;
    Image::from_bytes(Path::new("[vdso]"), bytes).ok()
}

#[cfg(test)]
mod tests {
    use crate::symtab::SymbolTable;

    #[test]
    fn the_vdso_has_its_clock_function() {
        let Some(image) = super::image() else {
            pct_kit::skip("this process has no vdso");
            return;
        };
        let table = SymbolTable::read(&image);
        assert!(table.len() > 1);
        let elf = image.elf().expect("parsed before");
        let names: Vec<String> = (0..image.data().len() as u64)
            .step_by(16)
            .filter_map(|offset| Some(table.find(&elf, image.address_of_offset(offset)?)?.name))
            .collect();
        assert!(names.iter().any(|n| n.contains("clock_gettime")), "{names:?}");
    }
}
