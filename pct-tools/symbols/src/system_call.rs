//! Which system call a thread was in, by the machine code before the place where it came back.
//!
//! A sample of system time names the instruction after `syscall`. The kernel does not tell the number of the call there, but
//! the code does: the last instruction that wrote to `eax` before it nearly always holds the number. Wrappers that are told
//! the number (glibc's `syscall()`, Go's `Syscall6`) have it in a register when they are entered; then the code before the
//! call of the wrapper says it, and so on outwards.
//!
//! A wrong name is worse than none, so code is read from the start of the function, instruction by instruction, and a
//! register's value is forgotten wherever another path may come in. A caller is asked only if its call leads to the very
//! function that wants to know: with a tail call in between it does not.
//!
//! x86-64 only.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};
use object::{Object as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget};

use crate::image::Image;
use crate::objects::{CodeAddr, ObjectId};

/// Functions longer than this are not read.
const MOST_BYTES: u64 = 256 << 10;
/// How many callers are asked for a number.
pub(crate) const MOST_CALLERS: usize = 4;
/// The register that has the number at `syscall`.
pub(crate) const RAX: u8 = 0;

/// What is known of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Unknown,
    /// This number.
    Number(u32),
    /// What this register (0 = rax, in the order of the instruction set) held when the function was entered.
    Entry(u8),
}

/// Code of an object where a thread was in a system call, or called something that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallSite {
    /// The object.
    pub object: ObjectId,
    /// Where it went on: the instruction after `syscall`, or a return address.
    pub address: CodeAddr,
}

/// The name of a system call of x86-64 Linux.
#[must_use]
pub fn name(number: u32) -> Option<&'static str> {
    syscalls::x86_64::Sysno::new(usize::try_from(number).ok()?).map(|call| call.name())
}

/// What the code before an address says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    /// Of this register (0 = rax).
    pub(crate) register: u8,
    pub(crate) value: Value,
}

/// Machine code from the start of a function up to a place in it.
pub(crate) struct Code<'a> {
    bytes: &'a [u8],
    /// Address of the first byte.
    start: u64,
    /// The code ends here.
    end: u64,
}

impl<'a> Code<'a> {
    pub(crate) fn of(image: &'a Image, start: u64, offset: u64) -> Option<Self> {
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

    /// What the registers hold before the last instruction, and that one. `None` if no instruction ends where the code does.
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

/// The place of a general register among [`Value`]s.
fn place(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}

/// What an instruction leaves in the registers.
fn execute(instruction: &Instruction, registers: &mut [Value; 16], info: &mut InstructionInfoFactory) {
    match instruction.flow_control() {
        FlowControl::Next | FlowControl::ConditionalBranch => {}
        // A system call: what it changes is among the registers that it uses.
        FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => {}
        // Behind a call registers may hold anything; behind a jump or a return another path comes in.
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

/// Whether an instruction calls the function of this name, which starts at this offset of the image's file if it lies there.
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

/// The slot through which an entry of the procedure linkage table at this address jumps.
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

/// The symbol whose address the loader writes there.
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
