//! What HotSpot says about itself in its shared file of counters, `/tmp/hsperfdata_USER/PID`.
//!
//! jps and jcmd read the same file. It begins with 32 octets: the magic number, the byte order, the version of
//! the layout, and where the entries are. Each entry has a name and a value; only texts are read here.
//! <https://github.com/openjdk/jdk17u/blob/master/src/hotspot/share/runtime/perfMemory.hpp>

/// The entries of the file that pct needs. `None`: the file does not have the entry, or not yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PerfData {
    /// Whether the JVM answers tools that attach. The JVM writes this when it has started.
    pub attachable: Option<bool>,
    /// The JVM's version, for example `17.0.15+6-Debian-1deb12u1`.
    pub version: Option<String>,
}

/// Most entries that are read. A JVM has some 200.
const MOST_ENTRIES: u32 = 10_000;

impl PerfData {
    /// Reads the file's octets. `None`: this is another kind of file, or it is damaged.
    pub(super) fn parse(octets: &[u8]) -> Option<PerfData> {
        // The magic number is always big-endian. The other numbers are in the machine's order: 1 is little-endian.
        if octets.get(..6)? != [0xca, 0xfe, 0xc0, 0xc0, 1, 2] {
            return None;
        }
        let mut data = PerfData::default();
        let mut at = u32_at(octets, 24)?;
        for _ in 0..u32_at(octets, 28)?.min(MOST_ENTRIES) {
            let entry = octets.get(usize::try_from(at).ok()?..)?;
            let length = u32_at(entry, 0)?;
            let entry = entry.get(..usize::try_from(length).ok()?)?;
            match name_of(entry)? {
                b"sun.rt.jvmCapabilities" => {
                    data.attachable = text_of(entry)?.first().map(|first| *first == b'1');
                }
                b"java.property.java.vm.version" => {
                    data.version = Some(String::from_utf8_lossy(text_of(entry)?).into_owned());
                }
                _ => {}
            }
            at = at.checked_add(length.max(1))?;
        }
        Some(data)
    }

    /// The first number of the version: 17 of `17.0.15+6`.
    pub(super) fn feature_release(&self) -> Option<u32> {
        let version = self.version.as_deref()?;
        version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }
}

fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}

/// The octets before the first zero octet.
fn until_zero(octets: &[u8]) -> &[u8] {
    octets.split(|octet| *octet == 0).next().unwrap_or_default()
}

fn name_of(entry: &[u8]) -> Option<&[u8]> {
    entry.get(usize::try_from(u32_at(entry, 4)?).ok()?..).map(until_zero)
}

/// The value of an entry that is a text (a vector of octets).
fn text_of(entry: &[u8]) -> Option<&[u8]> {
    let is_octets = *entry.get(12)? == b'B';
    let from = usize::try_from(u32_at(entry, 16)?).ok()?;
    let length = usize::try_from(u32_at(entry, 8)?).ok().filter(|_| is_octets)?;
    entry.get(from..from.checked_add(length)?).map(until_zero)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Makes a file with these texts.
    pub(in crate::hotspot) fn file(texts: &[(&str, &str)]) -> Vec<u8> {
        let mut octets = vec![0xca, 0xfe, 0xc0, 0xc0, 1, 2, 0, 1];
        octets.resize(24, 0);
        octets.extend(32_u32.to_le_bytes());
        octets.extend(u32::try_from(texts.len()).unwrap().to_le_bytes());
        for (name, text) in texts {
            let (name_end, text_end) = (20 + name.len() + 1, 20 + name.len() + 1 + text.len() + 1);
            for word in [text_end, 20, text.len() + 1] {
                octets.extend(u32::try_from(word).unwrap().to_le_bytes());
            }
            octets.extend([b'B', 0, 0, 0]);
            octets.extend(u32::try_from(name_end).unwrap().to_le_bytes());
            octets.extend(name.bytes().chain([0]).chain(text.bytes()).chain([0]));
        }
        octets
    }

    #[test]
    fn a_started_jvm_says_its_version_and_whether_it_can_be_attached_to() {
        let whole = file(&[
            ("sun.rt.other", "x"),
            ("java.property.java.vm.version", "17.0.15+6-Debian"),
            ("sun.rt.jvmCapabilities", "1100"),
        ]);
        let data = PerfData::parse(&whole).unwrap();
        assert_eq!((data.attachable, data.feature_release()), (Some(true), Some(17)));
        let closed = PerfData::parse(&file(&[("sun.rt.jvmCapabilities", "0100")])).unwrap();
        assert_eq!((closed.attachable, closed.feature_release()), (Some(false), None));
        assert_eq!(PerfData::parse(&file(&[])), Some(PerfData::default()));
        // a file that ends within an entry is damaged
        assert_eq!(PerfData::parse(&whole[..whole.len() - 3]), None);
        assert_eq!(PerfData::parse(b""), None);
    }

    proptest! {
        #[test]
        fn damaged_files_are_read_to_an_end(at in 0..140_usize, octet: u8, cut in 0..150_usize) {
            let mut octets = file(&[("java.property.java.vm.version", "17"), ("sun.rt.jvmCapabilities", "11")]);
            let end = octets.len() - 1;
            octets[at.min(end)] = octet;
            octets.truncate(cut.max(7));
            let _ = PerfData::parse(&octets);
        }
    }
}
