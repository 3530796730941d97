//! From a frame to its caller, by an object's call frame information (`.eh_frame`).
//!
//! For recordings that hold copies of registers and stack and leave unwinding to their readers. x86-64 only: elsewhere there is
//! no step. Registers have DWARF's numbers; 7 is the stack pointer, 16 the return address, which is where execution is.
//!
//! The rules of an address are found once (`.eh_frame_hdr` by bisection), kept, and interpreted for each frame. Nothing in a file
//! makes it panic or loop: expressions have a budget, a step that does not move the stack pointer up is none.

use std::fmt;

use gimli::{
    CfaRule, EhFrame, EhFrameHdr, EndianSlice, Evaluation, EvaluationResult, Expression, LittleEndian,
    RegisterRule, UnwindContext, UnwindExpression, Value,
};
use object::Object;

use crate::image::Image;
use crate::quickhash::QuickMap;

/// DWARF's number of the stack pointer.
pub const STACK_POINTER: usize = 7;
/// DWARF's number of the return address.
pub const RETURN_ADDRESS: usize = 16;
/// Those that a function keeps for its caller: rbx, rbp, r12 to r15.
const KEPT: [usize; 6] = [3, 6, 12, 13, 14, 15];
/// Steps of one expression.
const BUDGET: u32 = 1000;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The registers of a frame, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers(pub [Option<u64>; 17]);

impl Registers {
    /// Where execution is: of a caller, behind its call.
    pub fn pc(&self) -> Option<u64> {
        self.0[RETURN_ADDRESS]
    }
    /// The stack pointer.
    pub fn sp(&self) -> Option<u64> {
        self.0[STACK_POINTER]
    }
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The registers are the caller's. It was interrupted by a signal (or the frame was made so): the address is that of its next
    /// instruction, not one behind a call.
    Interrupted,
    /// The registers are the caller's.
    Caller,
    /// There is no caller: the frame says so itself.
    Outermost,
    /// The object says nothing of this address.
    NoData,
    /// What the rules ask for is not in the memory at hand.
    NoMemory,
}

#[derive(Debug, Clone)]
enum Cfa {
    Offset(usize, i64),
    Expression(Vec<u8>),
}

#[derive(Debug, Clone)]
enum Rule {
    Unknown,
    Same,
    At(i64),
    Is(i64),
    Register(usize),
    AtExpression(Vec<u8>),
    IsExpression(Vec<u8>),
    Constant(u64),
}

/// The rules of an address.
#[derive(Debug, Clone)]
struct Rules {
    cfa: Cfa,
    registers: Vec<(usize, Rule)>,
    signal: bool,
}

/// An object's call frame information; see the module's text.
pub struct CallFrames {
    image: Image,
    frame_at: u64,
    header_at: u64,
    text_at: u64,
    known: QuickMap<u64, Option<Rules>>,
}

impl fmt::Debug for CallFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallFrames").field("path", &self.image.path()).finish_non_exhaustive()
    }
}

impl CallFrames {
    /// That of an image; `None` if there is none, or the machine is another one.
    pub fn of(image: Image) -> Option<CallFrames> {
        let (frame_at, header_at, text_at);
        {
            let elf = image.elf()?;
            if elf.architecture() != object::Architecture::X86_64 {
                return None;
            }
            (frame_at, _) = image.section_range(".eh_frame")?;
            (header_at, _) = image.section_range(".eh_frame_hdr")?;
            text_at = image.section_range(".text").map_or(0, |s| s.0);
        }
        Some(CallFrames { image, frame_at, header_at, text_at, known: QuickMap::default() })
    }

    /// From the frame at `offset` of the object's file (as for [`CodeAddr`](crate::CodeAddr): of a caller, an address inside its
    /// call) to its caller. `read` gives eight octets of the process's memory. What is not [`Step::Caller`] or
    /// [`Step::Interrupted`] leaves the registers as they are.
    pub fn step(
        &mut self,
        offset: u64,
        registers: &mut Registers,
        read: &dyn Fn(u64) -> Option<u64>,
    ) -> Step {
        let Some(address) = self.image.address_of_offset(offset) else { return Step::NoData };
        if !self.known.contains_key(&address) {
            let rules = self.find(address);
            self.known.insert(address, rules);
        }
        let Some(Some(rules)) = self.known.get(&address) else { return Step::NoData };
        let caller = match rules.apply(registers, read) {
            Ok(Some(caller)) => caller,
            Ok(None) => return Step::Outermost,
            Err(Missing) => return Step::NoMemory,
        };
        *registers = caller;
        if rules.signal { Step::Interrupted } else { Step::Caller }
    }

    fn find(&self, address: u64) -> Option<Rules> {
        let mut eh_frame = EhFrame::new(self.image.section(".eh_frame"), LittleEndian);
        eh_frame.set_address_size(8);
        let bases = gimli::BaseAddresses::default()
            .set_eh_frame(self.frame_at)
            .set_eh_frame_hdr(self.header_at)
            .set_text(self.text_at);
        let header =
            EhFrameHdr::new(self.image.section(".eh_frame_hdr"), LittleEndian).parse(&bases, 8).ok()?;
        let fde = crate::symtab::fde_at(&header, &eh_frame, &bases, address)?;
        let mut context = UnwindContext::new();
        let row = fde.unwind_info_for_address(&eh_frame, &bases, &mut context, address).ok()?;
        let bytes = |e: &UnwindExpression<usize>| Some(e.get(&eh_frame).ok()?.0.slice().to_vec());
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Cfa::Offset(usize::from(register.0), *offset),
            CfaRule::Expression(e) => Cfa::Expression(bytes(e)?),
        };
        let mut registers = Vec::new();
        for (register, rule) in row.registers() {
            let number = usize::from(register.0);
            if number > RETURN_ADDRESS {
                continue;
            }
            let rule = match rule {
                RegisterRule::SameValue => Rule::Same,
                RegisterRule::Offset(n) => Rule::At(*n),
                RegisterRule::ValOffset(n) => Rule::Is(*n),
                RegisterRule::Register(r) => Rule::Register(usize::from(r.0)),
                RegisterRule::Expression(e) => Rule::AtExpression(bytes(e)?),
                RegisterRule::ValExpression(e) => Rule::IsExpression(bytes(e)?),
                RegisterRule::Constant(n) => Rule::Constant(*n),
                _ => Rule::Unknown,
            };
            registers.push((number, rule));
        }
        Some(Rules { cfa, registers, signal: fde.is_signal_trampoline() })
    }
}

/// Something is not in the memory at hand, or not known.
struct Missing;

impl Rules {
    /// The caller's registers; `None`: there is no caller.
    fn apply(
        &self,
        frame: &Registers,
        read: &dyn Fn(u64) -> Option<u64>,
    ) -> Result<Option<Registers>, Missing> {
        let get = |number: usize| frame.0.get(number).copied().flatten();
        let cfa = match &self.cfa {
            Cfa::Offset(register, offset) => get(*register).ok_or(Missing)?.wrapping_add_signed(*offset),
            Cfa::Expression(bytes) => evaluate(bytes, None, frame, read).ok_or(Missing)?,
        };
        let mut caller = Registers::default();
        for number in KEPT {
            caller.0[number] = frame.0[number];
        }
        caller.0[STACK_POINTER] = Some(cfa);
        let mut returns = true;
        for (number, rule) in &self.registers {
            let value = match rule {
                Rule::Unknown => None,
                Rule::Same => get(*number),
                Rule::At(offset) => read(cfa.wrapping_add_signed(*offset)),
                Rule::Is(offset) => Some(cfa.wrapping_add_signed(*offset)),
                Rule::Register(other) => get(*other),
                Rule::AtExpression(bytes) => evaluate(bytes, Some(cfa), frame, read).and_then(read),
                Rule::IsExpression(bytes) => evaluate(bytes, Some(cfa), frame, read),
                Rule::Constant(n) => Some(*n),
            };
            if *number == RETURN_ADDRESS {
                returns = !matches!(rule, Rule::Unknown);
                if returns && value.is_none() {
                    return Err(Missing);
                }
            }
            caller.0[*number] = value;
        }
        if !returns || caller.pc().is_none_or(|pc| pc == 0) {
            return Ok(None);
        }
        // The stack of a caller lies higher; only a signal's frame may lead to another stack.
        if !self.signal && caller.sp().zip(frame.sp()).is_none_or(|(caller, callee)| caller <= callee) {
            return Err(Missing);
        }
        Ok(Some(caller))
    }
}

/// A DWARF expression's value.
fn evaluate(
    bytes: &[u8],
    initial: Option<u64>,
    frame: &Registers,
    read: &dyn Fn(u64) -> Option<u64>,
) -> Option<u64> {
    let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
    let mut evaluation: Evaluation<Slice<'_>> =
        Expression(EndianSlice::new(bytes, LittleEndian)).evaluation(encoding);
    evaluation.set_max_iterations(BUDGET);
    if let Some(value) = initial {
        evaluation.set_initial_value(value);
    }
    let mut result = evaluation.evaluate().ok()?;
    for _ in 0..BUDGET {
        result = match result {
            EvaluationResult::Complete => {
                return match evaluation.as_result().first()?.location {
                    gimli::Location::Address { address } => Some(address),
                    _ => None,
                };
            }
            EvaluationResult::RequiresMemory { address, size, .. } => {
                let word = read(address)?;
                let word = if size < 8 { word & ((1 << (8 * u32::from(size))) - 1) } else { word };
                evaluation.resume_with_memory(Value::Generic(word)).ok()?
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = frame.0.get(usize::from(register.0)).copied().flatten()?;
                evaluation.resume_with_register(Value::Generic(value)).ok()?
            }
            _ => return None,
        };
    }
    None
}
