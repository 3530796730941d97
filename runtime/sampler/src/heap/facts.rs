//! Who serves the program's allocations, as the shell that wraps them said.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use pct_format::heap::AllocServer;

static SERVER: AtomicU32 = AtomicU32::new(0);
static SERVER_PATH: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
static SOURCES: AtomicU64 = AtomicU64::new(0);

/// Who serves malloc, and what is wrapped.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Who.
    pub server: AllocServer,
    /// Path of the object.
    pub path: &'static [u8],
    /// [`pct_format::heap::source`].
    pub sources: u64,
}

/// Remembers it. Before sampling starts.
pub(super) fn set(facts: &Facts) {
    SERVER.store(facts.server as u32, Ordering::Relaxed);
    let [start, length] = &SERVER_PATH;
    start.store(facts.path.as_ptr() as usize, Ordering::Relaxed);
    length.store(facts.path.len(), Ordering::Relaxed);
    SOURCES.store(facts.sources, Ordering::Relaxed);
}

/// What was said at [`super::install`].
#[must_use]
pub fn facts() -> Facts {
    let [start, length] = [0, 1].map(|i: usize| SERVER_PATH.get(i).map_or(0, |w| w.load(Ordering::Relaxed)));
    let path: &'static [u8] = if start == 0 {
        &[]
    } else {
        // SAFETY: `set` took them from a slice that lives for good.
        unsafe { core::slice::from_raw_parts(start as *const u8, length) }
    };
    let server = AllocServer::from_number(u64::from(SERVER.load(Ordering::Relaxed)));
    Facts { server: server.unwrap_or(AllocServer::NotKnown), path, sources: SOURCES.load(Ordering::Relaxed) }
}
