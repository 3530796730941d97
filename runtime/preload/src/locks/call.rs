//! One call that needs more than a jump: whether it waits, and what is recorded of it.
//!
//! The machine code in [`super::entry`] puts the caller's registers into a [`Call`] on the stack and hands it over:
//! [`before`] the host's function, [`after`] it. A thread that is cancelled in between does not come back.

use pct_format::record::WaitKind;
use pct_sampler::record::time;
use pct_sampler::sys::arch::Regs;
use pct_sampler::waits::{self, Begun, Caller, watched};

use super::futex::{self, Operation};
use super::objects;
use super::wrapped::{Does, Wrapped};

/// What [`super::entry`]'s code keeps of a call on the stack. Its registers stand as the kernel's context has
/// them, so that the walker of stacks reads them there.
#[repr(C)]
pub(super) struct Call {
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip; then what the kernel's context has behind
    /// them, as zeros.
    registers: [u64; 24],
    /// Number of the function in the tables.
    which: u64,
    /// What [`after`] does: one of [`then`].
    then: u64,
    /// The wait; of [`then::TAKEN`] the blocked signals are in `named`.
    begun: Begun,
    /// A join: kernel's id of the other thread. An unlock: raw time before it.
    named: u64,
    unused: u64,
}

const _: () = assert!(size_of::<Call>() == 31 * 8, "entry's code makes room for it");

/// What there is to do after the host's function.
mod then {
    /// Nothing.
    pub(super) const NOTHING: u64 = 0;
    /// A wait is over.
    pub(super) const WAITED: u64 = 1;
    /// If it succeeded: an object was taken for which others wait.
    pub(super) const TAKEN: u64 = 2;
    /// If it succeeded: an object was released.
    pub(super) const RELEASED: u64 = 3;
}

mod register {
    pub(super) const RDI: usize = 8;
    pub(super) const RSI: usize = 9;
    pub(super) const RDX: usize = 12;
    pub(super) const RAX: usize = 13;
    pub(super) const RIP: usize = 16;
}

/// A robust lock whose owner has died was taken all the same.
const EOWNERDEAD: u32 = 130;
/// What the last thread at a barrier gets.
const SERIAL_THREAD: u32 = u32::MAX;

impl Call {
    fn which(&self) -> usize {
        self.which as usize
    }

    fn argument(&self, at: usize) -> u64 {
        self.registers.get(at).copied().unwrap_or(0)
    }

    fn object(&self) -> u64 {
        self.argument(register::RDI)
    }

    /// The address that the system call `futex` is about.
    fn futex(&self) -> u64 {
        self.argument(register::RSI)
    }

    fn mutex(&self) -> u64 {
        self.argument(register::RSI)
    }

    /// What the host's function returned: an int.
    fn result(&self) -> u32 {
        self.argument(register::RAX) as u32
    }

    fn took(&self) -> bool {
        matches!(self.result(), 0 | EOWNERDEAD)
    }

    fn caller(&self) -> Caller {
        let registers = (&raw const *self) as u64;
        let place = self.argument(register::RIP);
        // The walker takes the kernel's context, in which the registers stand 40 bytes behind the start.
        (Regs { pc: place, context: registers.wrapping_sub(40) }, place.wrapping_add(1))
    }

    fn does(&self, wrapped: &Wrapped) -> Option<Does> {
        wrapped.rows.get(self.which()).map(|row| row.does)
    }

    fn begin(&mut self, kind: WaitKind, object: u64, mutex: u64) {
        self.begun = waits::begin(kind, object, mutex, self.caller());
        self.then = then::WAITED;
    }

    /// Before the system call `futex`.
    fn before_futex(&mut self) {
        match futex::operation(self.argument(register::RDX)) {
            Operation::Waits => self.begin(WaitKind::Futex, self.futex(), 0),
            Operation::Wakes => {
                self.named = time::now();
                self.then = then::RELEASED;
            }
            Operation::Other => {}
        }
    }

    /// After it: it returns -1 and sets errno, or the number of threads that it woke.
    fn after_futex(&self) {
        let (object, result) = (self.futex(), self.argument(register::RAX).cast_signed());
        match self.then {
            then::WAITED => {
                let error = if result < 0 { u64::from(crate::waiting::errno().unsigned_abs()) } else { 0 };
                if error == futex::EAGAIN {
                    waits::did_not_wait(&self.begun, WaitKind::Futex, object);
                } else {
                    waits::end(&self.begun, WaitKind::Futex, (object, object), 0, error);
                }
            }
            then::RELEASED if result > 0 => {
                waits::released(WaitKind::Futex, object, self.named, self.caller());
            }
            then::RELEASED if result == 0 && waits::was_waited_for(object) => {
                waits::taken(WaitKind::Futex, object, waits::mask());
            }
            _ => {}
        }
    }

    /// Of an object that is free although others wait for it: they have been woken and do not run yet.
    fn note_taking(&mut self) {
        if watched::ALL.any(self.object()) {
            self.named = waits::mask();
            self.then = then::TAKEN;
        }
    }
}

/// Before the host's function: whether the thread is about to wait. Gives the address of the host's function.
pub(super) fn before(call: &mut Call, wrapped: &Wrapped) -> usize {
    call.then = then::NOTHING;
    let host = wrapped.host(call.which());
    let Some(does) = call.does(wrapped).filter(|_| waits::are_recorded()) else { return host };
    let object = call.object();
    match does {
        Does::LockMutex if !objects::mutex_is_taken(object) => call.note_taking(),
        Does::LockMutex if objects::locks_again(object, waits::own_tid()) => {}
        Does::LockMutex => call.begin(WaitKind::Mutex, object, 0),
        Does::Read if !objects::readers_wait(object) => call.note_taking(),
        Does::Read => call.begin(WaitKind::ReadLock, object, 0),
        Does::Write if !objects::writers_wait(object) => call.note_taking(),
        Does::Write => call.begin(WaitKind::WriteLock, object, 0),
        Does::Try(_) => call.note_taking(),
        Does::UnlockMutex if objects::stays_taken(object) => {}
        Does::UnlockMutex | Does::Unlock(_) | Does::Wake(_) | Does::Signal(_) => {
            if let Does::Signal(most) = does {
                waits::wakes(object, most);
            }
            call.named = time::now();
            call.then = then::RELEASED;
        }
        Does::AwaitCondition => {
            let mutex = call.mutex();
            if watched::ALL.any(mutex) {
                waits::released(WaitKind::Mutex, mutex, time::now(), call.caller());
            }
            call.begin(WaitKind::Condition, object, mutex);
        }
        Does::Await(kind) => call.begin(kind, object, 0),
        Does::AwaitOthers => call.begin(WaitKind::Barrier, object, 0),
        Does::Join => {
            call.named = u64::from(waits::tid_of_block(object));
            call.begin(WaitKind::Join, object, 0);
        }
        Does::Futex => call.before_futex(),
    }
    host
}

/// After the host's function.
pub(super) fn after(call: &Call, wrapped: &Wrapped) {
    let Some(does) = call.does(wrapped) else { return };
    let (object, result) = (call.object(), call.result());
    let end = |kind, named, mutex| waits::end(&call.begun, kind, (object, named), mutex, u64::from(result));
    match (does, call.then) {
        (Does::LockMutex, then::WAITED) => end(WaitKind::Mutex, object, 0),
        (Does::Read, then::WAITED) => end(WaitKind::ReadLock, object, 0),
        (Does::Write, then::WAITED) => end(WaitKind::WriteLock, object, 0),
        (Does::Await(kind), then::WAITED) => end(kind, object, 0),
        (Does::AwaitCondition, then::WAITED) => {
            let mutex = call.mutex();
            end(WaitKind::Condition, object, mutex);
            if watched::ALL.any(mutex) {
                waits::taken(WaitKind::Mutex, mutex, waits::mask_of(&call.begun));
            }
            waits::relocked(object);
        }
        (Does::AwaitOthers, then::WAITED) if result == SERIAL_THREAD => {
            waits::end_as_release(&call.begun, WaitKind::Barrier, object);
        }
        (Does::AwaitOthers, then::WAITED) => end(WaitKind::Barrier, object, 0),
        (Does::Futex, _) => call.after_futex(),
        (Does::Join, then::WAITED) => {
            // A thread that has just been made may have said who it is only later.
            let tid = if call.named == 0 { u64::from(waits::tid_of_block(object)) } else { call.named };
            end(WaitKind::Join, tid, 0);
        }
        (Does::LockMutex, then::TAKEN) if call.took() => waits::taken(WaitKind::Mutex, object, call.named),
        (Does::Read, then::TAKEN) if call.took() => waits::taken(WaitKind::ReadLock, object, call.named),
        (Does::Write, then::TAKEN) if call.took() => waits::taken(WaitKind::WriteLock, object, call.named),
        (Does::Try(kind), then::TAKEN) if call.took() => waits::taken(kind, object, call.named),
        (Does::UnlockMutex, then::RELEASED) if result == 0 => {
            waits::released(WaitKind::Mutex, object, call.named, call.caller());
        }
        (Does::Signal(_), then::RELEASED) if result == 0 => {
            waits::released(WaitKind::Condition, object, call.named, call.caller());
        }
        (Does::Unlock(kind) | Does::Wake(kind), then::RELEASED) if result == 0 => {
            waits::released(kind, object, call.named, call.caller());
        }
        _ => {}
    }
}
