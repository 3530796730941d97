//! How a thread that blocks SIGBUS stores to the file.
//!
//! The kernel kills a process whose store faults while the fault's signal is blocked. A thread may block SIGBUS by a
//! system call of its own, in its handler of SIGBUS, or in any handler whose mask names it. So whatever stores to
//! the file there opens SIGBUS first and blocks it again afterwards ([`StoresMayFault`]).
//!
//! Signal safety: loads; system calls.

use crate::signal::front::BUS;
use crate::sys::{self, Mask, SIGBUS, SignalSet};

/// While this lives, a store to the file may fault in the calling thread: SIGBUS is open.
#[derive(Debug)]
#[must_use]
pub(crate) struct StoresMayFault {
    blocks_again: bool,
}

impl StoresMayFault {
    /// Asks the kernel whether the thread blocks SIGBUS (one system call), and opens it then. `may_call`: no filter
    /// forbids system calls.
    pub(crate) fn in_thread(may_call: bool) -> Self {
        if may_call && BUS.stands() {
            Self::under_mask(sys::sigmask(Mask::Block, 0))
        } else {
            Self { blocks_again: false }
        }
    }

    /// The same where the thread's mask is known: no system call unless it names SIGBUS.
    #[inline]
    pub(crate) fn under_mask(mask: SignalSet) -> Self {
        let bus = sys::signal_bit(SIGBUS);
        Self { blocks_again: mask & bus != 0 && BUS.stands() && open() }
    }
}

impl Drop for StoresMayFault {
    #[inline]
    fn drop(&mut self) {
        if self.blocks_again {
            sys::sigmask(Mask::Block, sys::signal_bit(SIGBUS));
        }
    }
}

/// Opens SIGBUS, which the calling thread blocks. One that somebody sent and that waits stays blocked: it is to come
/// when the program lets it through, and not in the middle of pct's work. True: it is open.
#[cold]
pub(super) fn open() -> bool {
    let bus = sys::signal_bit(SIGBUS);
    let is_free = sys::pending() & bus == 0;
    if is_free {
        sys::sigmask(Mask::Unblock, bus);
    }
    is_free
}
