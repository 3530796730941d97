//! The path of this image's file, once it is open: in memory that a fork copies, so that the child can name its parent.
//!
//! Signal safety: loads and stores of memory; [`is_gone`] makes one system call.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::record::log::PATH_BYTES;
use crate::sys;
use crate::sys::text::Buf;

struct OwnPath(UnsafeCell<Buf<PATH_BYTES>>);

// SAFETY: written with the housekeeper's lock held, before IS_SET; read after it, by the only thread of a fork's child.
unsafe impl Sync for OwnPath {}

static OWN_PATH: OwnPath = OwnPath(UnsafeCell::new(Buf::new()));
static IS_SET: AtomicBool = AtomicBool::new(false);

/// Remembers the path of the file. Once per file, with the housekeeper's lock held.
pub(super) fn set(path: &[u8]) {
    if IS_SET.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: nobody reads it before it is said to be set.
    let own = unsafe { &mut *OWN_PATH.0.get() };
    own.clear();
    own.push(path);
    IS_SET.store(true, Ordering::Release);
}

/// The next file has another path.
pub(super) fn forget() {
    IS_SET.store(false, Ordering::Relaxed);
}

/// Whether the file was there under this path once and is not any more. True at most once for a file: it is told once.
/// Called with the housekeeper's lock held.
pub(super) fn is_gone() -> bool {
    if !IS_SET.load(Ordering::Acquire) {
        return false;
    }
    // SAFETY: it was set, and who sets it holds the lock that the caller holds.
    let own = unsafe { &*OWN_PATH.0.get() };
    let mut path = Buf::<PATH_BYTES>::new();
    path.push(own.bytes());
    let gone = path.with_nul().is_some_and(|path| sys::stat(path).err() == Some(sys::Errno::ENOENT));
    if gone {
        forget();
    }
    gone
}

/// In the child of a fork: the path of the parent's file, empty if it had no file. From then on
/// the child has no path.
pub(super) fn move_to_child(to: &mut Buf<PATH_BYTES>) {
    to.clear();
    if IS_SET.swap(false, Ordering::Acquire) {
        // SAFETY: it was set, and nobody else lives in this process.
        to.push(unsafe { &*OWN_PATH.0.get() }.bytes());
    }
}
