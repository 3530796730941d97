//! The functions that are wrapped, as tables: what each does, and where the host's function is.
//!
//! [`super::entry`] fills the tables, because they hold the addresses of its machine code. What decides about a call
//! is handed them, so it needs no machine code.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicPtr, Ordering};

use pct_format::record::WaitKind;

use crate::host::definer;

/// What a function does with its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Takes a mutex, and waits for it.
    LockMutex,
    /// Takes a read-write lock to read, and waits for it.
    Read,
    /// Takes a read-write lock to write, and waits for it.
    Write,
    /// Takes it if it is free.
    Try(WaitKind),
    /// Releases a mutex.
    UnlockMutex,
    /// Releases a read-write lock.
    Unlock(WaitKind),
    /// Waits for a condition; the mutex is the second argument.
    AwaitCondition,
    /// Waits until somebody wakes it.
    Await(WaitKind),
    /// Wakes who waits.
    Wake(WaitKind),
    /// Wakes threads that wait for a condition, at most so many.
    Signal(u8),
    /// Waits for the others at a barrier, or releases them.
    AwaitOthers,
    /// Waits for the end of a thread.
    Join,
    /// The system call `futex`, which waits or wakes ([`super::futex`]).
    Futex,
}

/// A function that is wrapped.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) does: Does,
}

/// How many functions are wrapped.
pub(crate) const ROWS: usize = 28;

/// Address of a function, exchanged while the program runs.
pub(crate) type Code = AtomicPtr<()>;

/// All wrapped functions. A function has the same number in each table.
pub(crate) struct Wrapped {
    /// What each function is.
    pub(crate) rows: &'static [Row; ROWS],
    /// The host's functions; before they were found, code that finds them.
    pub(crate) hosts: &'static [Code; ROWS],
}

impl Wrapped {
    /// Address of the host's function.
    pub(crate) fn host(&self, which: usize) -> usize {
        self.hosts
            .get(which)
            .map_or(missing as *const () as usize, |host| host.load(Ordering::Relaxed) as usize)
    }

    /// Finds the host's function, and gives its address. Two threads at once find the same.
    pub(crate) fn find(&self, which: usize) -> usize {
        let found = self.rows.get(which).and_then(|row| definer(row.name.as_bytes(), true));
        let Some(found) = found else { return missing as *const () as usize };
        if let Some(host) = self.hosts.get(which) {
            host.store(found.address as *mut (), Ordering::Relaxed);
        }
        found.address
    }
}

/// What stands for a function that the host does not have: fails with ENOSYS.
#[unsafe(naked)]
unsafe extern "C" fn missing() {
    naked_asm!("mov eax, 38", "ret")
}
