//! One call that needs more than a jump: whether it is a sample, and what is recorded of it.
//!
//! The machine code in [`super::entry`] puts the caller's registers into a [`Call`] on the stack and hands it over:
//! [`decide`] before the host's function, [`finish`] after it.

use pct_format::heap::entry_flag;
use pct_sampler::heap::countdown::{self, Progress};
use pct_sampler::heap::{self, Moving, tags};
use pct_sampler::sys::arch::Regs;

use super::objects;
use super::wrapped::{Kind, Wrapped, no_memory};

/// What [`super::entry`]'s code keeps of a call on the stack. Its registers stand as the kernel's context has
/// them, so that the walker of stacks reads them there.
#[repr(C)]
pub(super) struct Call {
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip; then what the kernel's context has behind
    /// them, as zeros.
    registers: [u64; 24],
    /// Bytes that the countdown is lowered by. After [`decide`]: [`Progress::left`].
    counted: u64,
    /// Number of the function in the tables, or one of [`objects`]'; [`UNCOUNTED`] is set when the countdown
    /// was not lowered yet.
    which: u64,
    /// Not 0: [`finish`] wants to know the result. 1: nothing is sampled; else the sample's shift + 2.
    token: u64,
    /// The place of a block that is being reallocated, or [`NOT_MOVING`].
    moving_place: u64,
    /// [`Progress::draws`] after [`decide`].
    draws: u64,
}

/// See [`Call::moving_place`]. (A place has the number of an area in its upper half, and there are few.)
const NOT_MOVING: u64 = u64::MAX;

/// See [`Call::which`].
pub(super) const UNCOUNTED: u64 = 1 << 32;

const _: () = assert!(size_of::<Call>() == 29 * 8, "entry's code makes room for it");

mod register {
    pub(super) const RDI: usize = 8;
    pub(super) const RSI: usize = 9;
    pub(super) const RDX: usize = 12;
    pub(super) const RAX: usize = 13;
    pub(super) const RIP: usize = 16;
}

impl Call {
    fn which(&self) -> usize {
        (self.which & 0xffff_ffff) as usize
    }

    fn kind(&self, wrapped: &Wrapped) -> Kind {
        match self.which() {
            objects::MALLOC => Kind::ObjectSize,
            objects::CALLOC => Kind::ObjectProduct,
            objects::REALLOC => Kind::ObjectMoves,
            which => wrapped.rows.get(which).map_or(Kind::Frees, |row| row.kind),
        }
    }

    fn is_object(&self, wrapped: &Wrapped) -> bool {
        matches!(self.kind(wrapped), Kind::ObjectSize | Kind::ObjectProduct | Kind::ObjectMoves)
    }

    /// The block that is reallocated; `None` too where there is no block yet (`realloc(NULL, n)`).
    fn moved(&self, wrapped: &Wrapped) -> Option<u64> {
        let address = match self.kind(wrapped) {
            Kind::Moves => self.argument(register::RDI),
            Kind::ObjectMoves => self.argument(register::RSI),
            _ => 0,
        };
        (address != 0).then_some(address)
    }

    /// The host's function. One that is given a context finds its own in the register for it.
    fn host(&mut self, wrapped: &Wrapped) -> usize {
        if !self.is_object(wrapped) {
            return wrapped.host(self.which());
        }
        let Some((function, context)) = objects::before(self.which(), self.argument(register::RDI)) else {
            return no_memory as unsafe extern "C" fn() as usize;
        };
        if let Some(place) = self.registers.get_mut(register::RDI) {
            *place = context;
        }
        function
    }

    fn argument(&self, at: usize) -> u64 {
        self.registers.get(at).copied().unwrap_or(0)
    }

    /// Bytes requested.
    fn size(&self, wrapped: &Wrapped) -> u64 {
        let [rdi, rsi, rdx] = [register::RDI, register::RSI, register::RDX].map(|at| self.argument(at));
        match self.kind(wrapped) {
            Kind::SizeFirst => rdi,
            Kind::SizeSecond | Kind::Moves | Kind::ObjectSize => rsi,
            Kind::SizeThird | Kind::ObjectMoves => rdx,
            Kind::Product => rdi.wrapping_mul(rsi),
            Kind::ObjectProduct => rsi.wrapping_mul(rdx),
            Kind::Frees => 0,
        }
    }

    /// The block that came of it; `None`: it failed.
    fn block(&self, wrapped: &Wrapped) -> Option<u64> {
        let result = self.argument(register::RAX);
        let address = match self.kind(wrapped) {
            Kind::SizeThird if result & 0xffff_ffff == 0 => {
                // SAFETY: posix_memalign has just written there.
                unsafe { (self.argument(register::RDI) as *const u64).read() }
            }
            Kind::SizeThird => 0,
            _ => result,
        };
        (address != 0).then_some(address)
    }
}

/// Before the host's function: whether this request is a sample, and whether a sampled block is reallocated.
/// Gives the address of the host's function.
pub(super) fn decide(call: &mut Call, wrapped: &Wrapped) -> usize {
    let subtracted = call.which & UNCOUNTED == 0;
    call.token = match heap::due(call.counted, subtracted) {
        Some(shift) => u64::from(shift) + 2,
        None => 0,
    };
    call.moving_place = NOT_MOVING;
    let progress = countdown::progress();
    (call.counted, call.draws) = (progress.left, progress.draws);
    if let Some(address) = call.moved(wrapped)
        && tags::ALL.any(address)
        && let Some(moving) = heap::begin_move(address)
    {
        call.moving_place = moving.place;
        call.token = call.token.max(1);
    }
    call.host(wrapped)
}

/// After the host's function.
pub(super) fn finish(call: &Call, wrapped: &Wrapped) {
    let block = call.block(wrapped);
    if call.moving_place != NOT_MOVING {
        let moving = Moving { place: call.moving_place, address: call.moved(wrapped).unwrap_or(0) };
        // glibc frees the block when it is to have no bytes, and gives no other.
        heap::end_move(&moving, block.is_some() || call.size(wrapped) == 0);
    }
    // A request for an object that went on to malloc was counted there.
    if call.is_object(wrapped)
        && countdown::progress() != (Progress { left: call.counted, draws: call.draws })
    {
        return;
    }
    if let (Some(shift), Some(address)) = (call.token.checked_sub(2), block) {
        let registers = (&raw const *call) as u64;
        let place = call.argument(register::RIP);
        // The walker takes the kernel's context, in which the registers stand 40 bytes behind the start.
        let regs = Regs { pc: place, context: registers.wrapping_sub(40) };
        let flags = if call.is_object(wrapped) { entry_flag::OBJECT } else { 0 };
        heap::record(address, call.size(wrapped), shift as u32, flags, regs, place.wrapping_add(1));
    }
}

/// Before the host's function frees a block whose tag is set.
pub(super) extern "C" fn freed(address: u64) {
    if address != 0 {
        heap::free(address);
    }
}
