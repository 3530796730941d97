//! Finds which system call a thread was in, from the machine code before the address to which it returned.
//!
//! A sample of system time has the address of the instruction after `syscall`. The kernel does not give the number of
//! the call there, but the code shows it: the last instruction before it that wrote to `eax` nearly always has the
//! number. Wrappers that receive the number (glibc's `syscall()`, Go's `Syscall6`) have it in a register when they are
//! entered. Then the code before the call of the wrapper shows it, and so on outwards.
//!
//! A wrong name is worse than none. So code is read from the start of the function, instruction by instruction, and a
//! register's value is forgotten wherever another path may join. A caller is asked only if its call leads to the very
//! function that needs the number; after a tail call in between it does not.
//!
//! x86-64 only.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use object::{Object as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget};

use crate::image::Image;
use crate::objects::{CodeAddr, ObjectId};

/// Longest function that is read, in bytes.
const MOST_BYTES: u64 = 256 << 10;
/// Most callers that are asked for a number.
pub(crate) const MOST_CALLERS: usize = 4;
/// The register that holds the number at `syscall`.
pub(crate) const RAX: u8 = 0;

/// The value of a register, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Unknown,
    /// This number.
    Number(u32),
    /// The value that this register (0 = rax, in the order of the instruction set) had when the function was entered.
    Entry(u8),
}

/// An address in an object at which a thread was in a system call, or called a function that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallSite {
    /// The object.
    pub object: ObjectId,
    /// The address at which it goes on: the instruction after `syscall`, or a return address.
    pub address: CodeAddr,
}

/// The name of a system call of x86-64 Linux.
#[must_use]
pub fn name(number: u32) -> Option<&'static str> {
    syscalls::x86_64::Sysno::new(usize::try_from(number).ok()?).map(|call| call.name())
}

/// What the code before an address shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    /// The register that the value belongs to (0 = rax).
    pub(crate) register: u8,
    pub(crate) value: Value,
}

/// Machine code from the start of a function up to an address in it.
pub(crate) struct Code<'a> {
    bytes: &'a [u8],
    /// Address of the first byte.
    start: u64,
    /// Address of the end.
    end: u64,
}

impl<'a> Code<'a> {
    pub(crate) fn before_offset(image: &'a Image, start: u64, offset: u64) -> Option<Self> {
        if image.elf()?.architecture() != object::Architecture::X86_64 {
            return None;
        }
        let length = offset.checked_sub(start).filter(|length| (1..=MOST_BYTES).contains(length))?;
        let (first, last) = (image.address_of_offset(start)?, image.address_of_offset(offset - 1)?);
        if last.checked_sub(first)? != length - 1 {
            return None;
        }
        let bytes = image.data().get(usize::try_from(start).ok()?..)?.get(..usize::try_from(length).ok()?)?;
        Some(Self { bytes, start: first, end: first.checked_add(length)? })
    }

    fn instructions(&self) -> Decoder<'a> {
        Decoder::with_ip(64, self.bytes, self.start, DecoderOptions::NONE)
    }

    /// The registers before the last instruction, and that instruction. `None`: no instruction ends where the code
    /// does.
    pub(crate) fn run(&self) -> Option<([Value; 16], Instruction)> {
        let mut joins: Vec<u64> = self
            .instructions()
            .iter()
            .filter(|i| {
                matches!(i.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
            })
            .map(|i| i.near_branch_target())
            .filter(|target| (self.start..self.end).contains(target))
            .collect();
        joins.sort_unstable();
        let mut registers: [Value; 16] =
            std::array::from_fn(|n| u8::try_from(n).map_or(Value::Unknown, Value::Entry));
        let mut info = InstructionInfoFactory::new();
        for instruction in self.instructions().iter() {
            if instruction.is_invalid() {
                return None;
            }
            if joins.binary_search(&instruction.ip()).is_ok() {
                registers = [Value::Unknown; 16];
            }
            if instruction.next_ip() == self.end {
                return Some((registers, instruction));
            }
            execute(&instruction, &mut registers, &mut info);
        }
        None
    }
}

/// The index of a general register among [`Value`]s.
fn place(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}

/// Applies an instruction's effect to the registers.
fn execute(instruction: &Instruction, registers: &mut [Value; 16], info: &mut InstructionInfoFactory) {
    match instruction.flow_control() {
        FlowControl::Next | FlowControl::ConditionalBranch => {}
        // A system call: the registers that it changes are among those that it uses.
        FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => {}
        // After a call registers may hold anything; after a jump or a return another path joins.
        _ => {
            *registers = [Value::Unknown; 16];
            return;
        }
    }
    let wide = |register: Register| register.is_gpr32() || register.is_gpr64();
    let known = match instruction.mnemonic() {
        Mnemonic::Mov if wide(instruction.op0_register()) => match instruction.op1_kind() {
            OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64 => {
                u32::try_from(instruction.immediate(1)).map_or(Value::Unknown, Value::Number)
            }
            OpKind::Register => place(instruction.op1_register()).map_or(Value::Unknown, |at| registers[at]),
            _ => Value::Unknown,
        },
        Mnemonic::Xor | Mnemonic::Sub
            if wide(instruction.op0_register())
                && instruction.op1_kind() == OpKind::Register
                && instruction.op0_register() == instruction.op1_register() =>
        {
            Value::Number(0)
        }
        _ => Value::Unknown,
    };
    let target = place(instruction.op0_register()).filter(|_| instruction.op0_kind() == OpKind::Register);
    for used in info.info(instruction).used_registers() {
        let writes = matches!(
            used.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        if let Some(at) = place(used.register()).filter(|_| writes) {
            registers[at] = if target == Some(at) { known } else { Value::Unknown };
        }
    }
    if instruction.mnemonic() == Mnemonic::Syscall {
        registers[0] = Value::Unknown;
    }
}

/// Whether an instruction calls the function with this name, or the one at file offset `start` of the image if the
/// function is in it.
pub(crate) fn leads_to(image: &Image, call: &Instruction, start: Option<u64>, name: &str) -> bool {
    let slot = match call.flow_control() {
        FlowControl::Call => {
            let target = call.near_branch_target();
            if start.is_some() && start == image.offset_of_address(target) {
                return true;
            }
            linkage_slot(image, target)
        }
        FlowControl::IndirectCall if call.is_ip_rel_memory_operand() => Some(call.ip_rel_memory_address()),
        _ => None,
    };
    slot.and_then(|slot| symbol_of_slot(image, slot)).is_some_and(|symbol| symbol == name)
}

/// The slot through which the entry of the procedure linkage table at this address jumps.
fn linkage_slot(image: &Image, address: u64) -> Option<u64> {
    let offset = usize::try_from(image.offset_of_address(address)?).ok()?;
    let bytes = image.data().get(offset..)?;
    let bytes = bytes.get(..16).unwrap_or(bytes);
    let jump = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE)
        .iter()
        .find(|instruction| instruction.mnemonic() != Mnemonic::Endbr64)?;
    let through = jump.flow_control() == FlowControl::IndirectBranch && jump.is_ip_rel_memory_operand();
    through.then(|| jump.ip_rel_memory_address())
}

/// The symbol whose address the loader writes into the slot.
fn symbol_of_slot(image: &Image, slot: u64) -> Option<String> {
    let elf = image.elf()?;
    let (_, relocation) = elf.dynamic_relocations()?.find(|(address, _)| *address == slot)?;
    let RelocationTarget::Symbol(symbol) = relocation.target() else { return None };
    let symbol = elf.dynamic_symbol_table()?.symbol_by_index(symbol).ok()?;
    symbol.name().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What rax holds at the end of the code.
    fn rax(bytes: &[u8]) -> Option<Value> {
        let end = 0x1000 + u64::try_from(bytes.len()).unwrap();
        Code { bytes, start: 0x1000, end }.run().map(|(registers, _)| registers[0])
    }

    #[test]
    fn the_last_write_to_eax_is_the_number() {
        // mov $1,%eax; mov $0,%eax; syscall
        assert_eq!(rax(&[0xb8, 1, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0x0f, 5]), Some(Value::Number(0)));
        // xor %eax,%eax; syscall
        assert_eq!(rax(&[0x31, 0xc0, 0x0f, 5]), Some(Value::Number(0)));
        // mov $0xca,%eax; mov %rsi,%rdi; syscall
        assert_eq!(rax(&[0xb8, 0xca, 0, 0, 0, 0x48, 0x89, 0xf7, 0x0f, 5]), Some(Value::Number(0xca)));
        // mov $1,%eax; mov (%rdi),%eax; syscall
        assert_eq!(rax(&[0xb8, 1, 0, 0, 0, 0x8b, 7, 0x0f, 5]), Some(Value::Unknown));
        // mov $1,%eax; mov $2,%al; syscall: a part of it
        assert_eq!(rax(&[0xb8, 1, 0, 0, 0, 0xb0, 2, 0x0f, 5]), Some(Value::Unknown));
        // mov $1,%eax; syscall; syscall: the first one's result
        assert_eq!(rax(&[0xb8, 1, 0, 0, 0, 0x0f, 5, 0x0f, 5]), Some(Value::Unknown));
        // mov $1,%eax; call +0; syscall
        assert_eq!(rax(&[0xb8, 1, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x0f, 5]), Some(Value::Unknown));
    }

    #[test]
    fn the_last_byte_of_an_immediate_is_no_system_call() {
        // mov $0x050f0000,%r8d: the bytes end like `syscall`, but no instruction of that kind ends there.
        let (_, last) =
            Code { bytes: &[0x41, 0xb8, 0, 0, 0x0f, 5], start: 0, end: 6 }.run().expect("an instruction");
        assert_ne!(last.mnemonic(), Mnemonic::Syscall);
        // The code ends within an instruction.
        assert_eq!(rax(&[0xb8, 1, 0, 0]), None);
    }

    #[test]
    fn another_path_into_the_code_leaves_the_number_unknown() {
        // test %edi,%edi; je +5 (to the syscall); mov $1,%eax; syscall
        assert_eq!(rax(&[0x85, 0xff, 0x74, 5, 0xb8, 1, 0, 0, 0, 0x0f, 5]), Some(Value::Unknown));
        // mov $1,%eax; jmp +0; syscall
        assert_eq!(rax(&[0xb8, 1, 0, 0, 0, 0xeb, 0, 0x0f, 5]), Some(Value::Unknown));
        // je over it: mov $1,%eax; test %edi,%edi; je +2; syscall
        assert_eq!(
            rax(&[0xb8, 1, 0, 0, 0, 0x85, 0xff, 0x74, 2, 0x0f, 5]),
            Some(Value::Number(1)),
            "a branch away changes nothing"
        );
    }

    #[test]
    fn a_number_may_come_from_the_caller() {
        // glibc's syscall(): mov %rdi,%rax; mov %rsi,%rdi; syscall
        assert_eq!(rax(&[0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x0f, 5]), Some(Value::Entry(7)));
        assert_eq!(rax(&[0x0f, 5]), Some(Value::Entry(0)));
    }

    #[test]
    fn numbers_have_names() {
        assert_eq!((name(0), name(202), name(39)), (Some("read"), Some("futex"), Some("getpid")));
        assert_eq!(name(9999), None);
    }
}
