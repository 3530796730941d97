//! Whether a file is the one that was sampled: by its build-id; without one by its size, the time of its last change
//! and a hash of its first page; in recordings without these by device and inode.

use crate::difference::Difference;
use crate::image::Image;
use crate::objects::ObjectInfo;

/// In what `image` differs from the object that was sampled. `None`: nothing shows that it is another one.
pub(crate) fn difference(info: &ObjectInfo, image: &Image) -> Option<Difference> {
    if let Some(sampled) = &info.build_id {
        let found = image.build_id();
        return (found != Some(sampled))
            .then(|| Difference::BuildId { sampled: sampled.clone(), found: found.cloned() });
    }
    let (sampled, found) = (info.version, image.version());
    if sampled.is_unknown() {
        let other =
            info.dev_ino.zip(image.dev_ino()).is_some_and(|(sampled, found)| !is_same(sampled, found));
        return other.then_some(Difference::Inode);
    }
    let differ = |sampled: u64, found: u64| sampled != 0 && sampled != found;
    if differ(sampled.bytes, found.bytes) {
        return Some(Difference::Size { sampled: sampled.bytes, found: found.bytes });
    }
    if differ(sampled.first_page, found.first_page) {
        return Some(Difference::FirstPage);
    }
    differ(sampled.changed_ns, found.changed_ns)
        .then_some(Difference::Changed { later: found.changed_ns > sampled.changed_ns })
}

/// Whether something proves that a file elsewhere, to which the object's path does not lead, is the sampled one, given
/// that there is no [`difference`].
pub(crate) fn is_proved(info: &ObjectInfo) -> bool {
    info.build_id.is_some() || info.version.first_page != 0 || info.dev_ino.is_some()
}

/// Whether two pairs of device and inode name the same file. Unnamed devices (major 0: btrfs, overlayfs) have one
/// number in mappings and another one for stat(2).
fn is_same(sampled: (u64, u64), found: (u64, u64)) -> bool {
    sampled.1 == found.1 && (sampled.0 == found.0 || found.0 >> 32 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_elf::FileVersion;
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    /// What recordings say of the file at a path.
    fn facts(path: &Path) -> ObjectInfo {
        let image = Image::open(path).expect("an image");
        ObjectInfo { version: image.version(), dev_ino: image.dev_ino(), ..ObjectInfo::file(path) }
    }

    fn judged(info: &ObjectInfo) -> Option<String> {
        difference(info, &Image::open(&info.path).expect("an image")).map(|d| d.to_string())
    }

    #[test]
    fn each_fact_alone_tells_another_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a");
        let mut octets = fs::read("/proc/self/exe").expect("this test");
        let at = SystemTime::now() - Duration::from_secs(100);
        let set = |time| File::options().write(true).open(&path).and_then(|f| f.set_modified(time));
        fs::write(&path, &octets).and_then(|()| set(at)).expect("written");
        let info = facts(&path);
        assert_eq!(judged(&info), None);

        // A copy that keeps the time is the same, whatever its inode.
        let copy = dir.path().join("b");
        fs::copy(&path, &copy).and_then(|_| fs::rename(&copy, &path)).and_then(|()| set(at)).expect("copied");
        assert_eq!(judged(&info), None);
        let only_inode = ObjectInfo { version: FileVersion::default(), ..info.clone() };
        assert_eq!(judged(&only_inode).as_deref(), Some("device or inode are not those of the sampled file"));

        set(at + Duration::from_nanos(4_000_000)).expect("set");
        assert_eq!(judged(&info).as_deref(), Some("it was changed after the sampled file"));
        set(at - Duration::from_secs(1)).expect("set");
        assert_eq!(judged(&info).as_deref(), Some("it was changed before the sampled file"));
        octets[3000] ^= 1;
        fs::write(&path, &octets).and_then(|()| set(at)).expect("written");
        assert_eq!(judged(&info).as_deref(), Some("its first page is not that of the sampled file"));
        octets.push(0);
        fs::write(&path, &octets).expect("written");
        assert_eq!(
            judged(&info).as_deref(),
            Some(&*format!("it has {} bytes, the sampled file had {}", octets.len(), octets.len() - 1))
        );

        // What is not known tells nothing.
        let hash_only = FileVersion { bytes: 0, changed_ns: 0, ..facts(&path).version };
        assert_eq!(judged(&ObjectInfo { version: hash_only, ..info }), None);
        assert_eq!(judged(&ObjectInfo::file(&path)), None);
    }

    #[test]
    fn unnamed_devices_are_known_by_their_inodes() {
        assert!(is_same((8 << 32 | 1, 5), (8 << 32 | 1, 5)));
        assert!(!is_same((8 << 32 | 1, 5), (8 << 32 | 2, 5)));
        assert!(is_same((0x1e, 5), (0x1f, 5)));
        assert!(!is_same((0x1e, 5), (0x1e, 6)));
    }
}
