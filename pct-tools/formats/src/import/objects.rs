//! What kind of code a path in another recorder's file stands for.

use pct_profile::model::ObjectKind;

/// By its path, or its name in brackets, as perf and pprof writers have them.
pub(super) fn kind_of(path: &str) -> ObjectKind {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_image = ["vmlinux", "vmlinuz"].iter().any(|image| {
        let version = name.strip_prefix(image);
        version.is_some_and(|version| version.is_empty() || version.starts_with(['-', '.']))
    });
    match path {
        "" | "[unknown]" => ObjectKind::Unknown,
        "kernel" => ObjectKind::Kernel,
        _ if is_image || is_module(name) => ObjectKind::Kernel,
        _ if path.starts_with("[kernel") || path.starts_with("[guest.kernel") => ObjectKind::Kernel,
        _ if path.starts_with('[') || path.starts_with("//anon") => ObjectKind::Anonymous,
        _ => ObjectKind::File,
    }
}

/// `ext4.ko`, packed or not.
fn is_module(name: &str) -> bool {
    let unpacked = [".xz", ".gz", ".zst"].iter().find_map(|suffix| name.strip_suffix(suffix));
    unpacked.unwrap_or(name).ends_with(".ko")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_known_by_all_names_that_recorders_give_it() {
        for path in [
            "[kernel.kallsyms]",
            "[kernel.kallsyms]_text",
            "[guest.kernel.kallsyms]",
            "kernel",
            "/usr/lib/debug/boot/vmlinux-5.4",
            "/boot/vmlinux",
            "/lib/modules/6.1/kernel/ext4.ko.xz",
            "/lib/modules/6.1/kernel/ext4.ko",
        ] {
            assert_eq!(kind_of(path), ObjectKind::Kernel, "{path}");
        }
        for path in ["/usr/bin/vmlinuxer", "/home/a.ko.txt", "/bin/kernel"] {
            assert_eq!(kind_of(path), ObjectKind::File, "{path}");
        }
        for path in ["[vdso]", "[heap]", "//anon", "[jit]"] {
            assert_eq!(kind_of(path), ObjectKind::Anonymous, "{path}");
        }
        assert_eq!(kind_of("[unknown]"), ObjectKind::Unknown);
    }
}
