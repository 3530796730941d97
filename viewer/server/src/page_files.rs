//! Pages as files, for `mdprof_test --test-dir`: `DIR/KIND_BBBB/KIND_NNNNNN.html`, with a thousand pages in a folder,
//! gzipped by default.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Pages in one folder.
const BUNCH: u64 = 1000;

/// Writes pages as files.
#[derive(Debug)]
pub struct PageFiles {
    dir: PathBuf,
    compress: bool,
    count: BTreeMap<String, u64>,
}

impl PageFiles {
    /// Writes below this folder, which is created with the first page.
    #[must_use]
    pub fn below(dir: PathBuf, compress: bool) -> PageFiles {
        PageFiles { dir, compress, count: BTreeMap::new() }
    }

    /// Writes the next page of a kind.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn store(&mut self, kind: &str, page: &str) -> io::Result<()> {
        let count = self.count.entry(kind.to_owned()).or_default();
        let folder = self.dir.join(format!("{kind}_{:04}", *count / BUNCH));
        *count += 1;
        std::fs::create_dir_all(&folder)?;
        let name = format!("{kind}_{:06}.html", *count);
        if !self.compress {
            return std::fs::write(folder.join(name), page);
        }
        let file = std::fs::File::create(folder.join(format!("{name}.gz")))?;
        let mut out = GzEncoder::new(file, Compression::fast());
        out.write_all(page.as_bytes())?;
        out.finish().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_pages_to_a_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut files = PageFiles::below(dir.path().join("t"), false);
        for i in 0..1001 {
            files.store("proc", &i.to_string()).expect("writes");
        }
        files.store("clique", "x").expect("writes");
        let read = |name: &str| std::fs::read_to_string(dir.path().join("t").join(name)).ok();
        assert_eq!(read("proc_0000/proc_001000.html").as_deref(), Some("999"));
        assert_eq!(read("proc_0001/proc_001001.html").as_deref(), Some("1000"));
        assert_eq!(read("clique_0000/clique_000001.html").as_deref(), Some("x"));
        let mut packed = PageFiles::below(dir.path().join("z"), true);
        packed.store("menu", "<html>").expect("writes");
        let octets = std::fs::read(dir.path().join("z/menu_0000/menu_000001.html.gz")).expect("is there");
        let mut text = String::new();
        io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&octets[..]), &mut text).expect("unpacks");
        assert_eq!(text, "<html>");
    }
}
