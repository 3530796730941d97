//! Names of the kernel's functions in a perf.data file.
//!
//! The recorder writes the addresses of the kernel and its modules (mappings of process -1) and the kernel's
//! build-id, but no names. Those come from this machine's `/proc/kallsyms` if the same kernel runs here, or else
//! from the copy that `perf record` keeps in `~/.debug`. At each boot the kernel has other addresses (KASLR). The
//! recorder wrote the address of `_text`, so names are shifted by the difference.
//!
//! A wrong name is worse than none. If the file lacks the kernel's build-id (some versions of `perf record -z` do
//! not write it), the names are used only for a recording of this machine, with the same release and `_text` at the
//! same address. And a module's functions are named only at the addresses that it had during the recording.

use pct_symbols::kallsyms::{self, Kallsyms};
use pct_symbols::{BuildId, CodeAddr};
use std::path::PathBuf;

/// The kernel itself, as an object.
pub(super) const KERNEL: &str = "[kernel]";
/// The kernel's name in mappings and build-ids of recorders.
const RECORDED_AS: &[u8] = b"[kernel.kallsyms]";

/// The addresses of the kernel's code, and their names.
#[derive(Default)]
pub(super) struct Kernel {
    modules: Vec<Module>,
    /// A symbol and its address during the recording.
    reference: Option<(String, u64)>,
    symbols: Option<Kallsyms>,
    /// What to add (wrapping) to an address of the file to get one of `symbols`.
    shift: u64,
}

#[derive(Debug)]
struct Module {
    start: u64,
    end: u64,
    name: String,
}

impl Kernel {
    /// Adds a mapping of the kernel: `[kernel.kallsyms]_text`, `[ext4]` or the path of a module's file.
    pub(super) fn map(&mut self, start: u64, len: u64, offset: u64, path: &[u8]) {
        let path = String::from_utf8_lossy(path);
        if let Some(symbol) = path.strip_prefix("[kernel.kallsyms]") {
            if !symbol.is_empty() {
                self.reference.get_or_insert((symbol.to_owned(), offset));
            }
        } else if let Some(name) = module_of(&path) {
            self.modules.push(Module { start, end: start.saturating_add(len), name });
        }
    }

    /// Finds the names. `build_id`: the recorded one of the kernel; `machine`: name and kernel release of the recorded
    /// machine.
    ///
    /// # Errors
    /// Why the kernel's functions have no names, in words.
    pub(super) fn learn(
        &mut self,
        build_id: Option<&[u8]>,
        machine: Option<(&[u8], &[u8])>,
    ) -> Result<(), String> {
        let Some(build_id) = build_id.and_then(BuildId::new) else {
            let symbols =
                Kallsyms::read("/proc/kallsyms".as_ref()).map_err(|why| format!("/proc/kallsyms: {why}"))?;
            let in_place =
                self.reference.as_ref().is_some_and(|(name, at)| symbols.address_of(name) == Some(*at));
            if !in_place
                || machine.is_none()
                || machine != this_machine().as_ref().map(|(a, b)| (&a[..], &b[..]))
            {
                return Err("the file has no build-id of the kernel, and another one runs here".into());
            }
            self.symbols = Some(symbols);
            return Ok(());
        };
        let (symbols, from) = match kallsyms::running_build_id() {
            Some(here) if here == build_id => {
                (Kallsyms::read("/proc/kallsyms".as_ref()), "/proc/kallsyms".into())
            }
            _ => {
                let kept = kept_by_recorder(&build_id).filter(|path| path.exists());
                let kept = kept.ok_or("another kernel runs here, and ~/.debug has no copy of its symbols")?;
                (Kallsyms::read(&kept), kept)
            }
        };
        let symbols = symbols.map_err(|why| format!("{}: {why}", from.display()))?;
        if let Some((symbol, recorded)) = &self.reference
            && let Some(here) = symbols.address_of(symbol)
        {
            self.shift = here.wrapping_sub(*recorded);
        }
        self.symbols = Some(symbols);
        Ok(())
    }

    /// Whether there are names.
    pub(super) fn is_known(&self) -> bool {
        self.symbols.is_some()
    }

    /// The object and the function of an address, if there are names.
    pub(super) fn frame(&self, address: CodeAddr) -> Option<(String, Option<&str>)> {
        let symbols = self.symbols.as_ref()?;
        let at = address.lookup();
        let module = self.modules.iter().find(|module| (module.start..module.end).contains(&at));
        // A module with another shift than the kernel's is not at its recorded addresses.
        let found = symbols.find(at.wrapping_add(self.shift));
        let found = found.filter(|found| found.module == module.map(|module| module.name.as_str()));
        let found = found.filter(|_| module.is_none() || self.shift == 0);
        let object = module.map_or_else(|| KERNEL.to_owned(), |module| format!("[{}]", module.name));
        Some((object, found.map(|found| found.name)))
    }
}

/// Name and kernel release of this machine.
fn this_machine() -> Option<(Vec<u8>, Vec<u8>)> {
    let read = |what| {
        std::fs::read(format!("/proc/sys/kernel/{what}")).ok().map(|text| text.trim_ascii_end().to_vec())
    };
    read("hostname").zip(read("osrelease"))
}

/// Whether this path in a recorder's list stands for the kernel.
pub(super) fn is_kernel(path: &[u8]) -> bool {
    path == RECORDED_AS
}

/// The module of a name or path: `ext4` for `[ext4]` or `/lib/modules/6.1/kernel/fs/ext4/ext4.ko.xz`. A dash in
/// a file's name is an underscore in the kernel.
fn module_of(path: &str) -> Option<String> {
    if let Some(name) = path.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return Some(name.to_owned())
            .filter(|name| !name.starts_with("kernel") && !name.starts_with("guest"));
    }
    let file = path.rsplit('/').next()?;
    let (name, _) = file.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

fn kept_by_recorder(build_id: &BuildId) -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    Some(home.join(".debug").join("[kernel.kallsyms]").join(build_id.to_string()).join("kallsyms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_another_start_of_the_kernel_are_shifted_and_modules_must_lie_where_they_lay() {
        let text = "ffffffff81000000 T _text\nffffffff81000100 t vfs_read\nffffffff81000200 t vfs_write\n\
                    ffffffffc0000000 t ext4_create\t[ext4]\nffffffffc0000100 t ext4_open\t[ext4]\n";
        let named = |recorded: u64| {
            let mut kernel = Kernel::default();
            kernel.map(recorded, 0x1000, recorded, b"[kernel.kallsyms]_text");
            kernel.map(0xffff_ffff_c000_0000, 0x100, 0, b"/lib/modules/6.1/kernel/ext4.ko.xz");
            kernel.symbols = Some(Kallsyms::parse(text.into()).expect("symbols"));
            let here =
                kernel.symbols.as_ref().and_then(|symbols| symbols.address_of("_text")).expect("it has one");
            kernel.shift = here.wrapping_sub(recorded);
            kernel
        };
        let same = named(0xffff_ffff_8100_0000);
        assert_eq!(same.frame(CodeAddr::Pc(0xffff_ffff_8100_0110)), Some((KERNEL.into(), Some("vfs_read"))));
        assert_eq!(
            same.frame(CodeAddr::Return(0xffff_ffff_8100_0200)),
            Some((KERNEL.into(), Some("vfs_read")))
        );
        assert_eq!(
            same.frame(CodeAddr::Pc(0xffff_ffff_c000_0010)),
            Some(("[ext4]".into(), Some("ext4_create")))
        );
        assert_eq!(
            same.frame(CodeAddr::Pc(0xffff_ffff_c000_0110)),
            Some((KERNEL.into(), None)),
            "no module there then"
        );
        let moved = named(0xffff_ffff_9a00_0000);
        assert_eq!(moved.frame(CodeAddr::Pc(0xffff_ffff_9a00_0110)), Some((KERNEL.into(), Some("vfs_read"))));
        assert_eq!(moved.frame(CodeAddr::Pc(0xffff_ffff_c000_0010)), Some(("[ext4]".into(), None)));
        assert_eq!(Kernel::default().frame(CodeAddr::Pc(1)), None);
    }

    #[test]
    fn modules_have_names_of_files_or_in_brackets() {
        assert_eq!(module_of("[ext4]").as_deref(), Some("ext4"));
        assert_eq!(
            module_of("/lib/modules/6.1/kernel/drivers/net/virtio-net.ko.zst").as_deref(),
            Some("virtio_net")
        );
        assert_eq!(module_of("/usr/bin/true"), None);
    }
}
