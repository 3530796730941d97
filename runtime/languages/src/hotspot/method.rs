//! What a method says of itself: identity, names, file, line table.
//!
//! Addresses are used again after a class was unloaded, so identity is a number over four of them: the method, its
//! constant part, its name and the name of its class.

use pct_elf::Memory;

use super::find::Jvm;
use super::layout::{Layout, Source};
use crate::ThreadMemory;

/// A number that stands for a method while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(pub u64);

/// A method, followed to its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// Its address.
    pub at: u64,
    /// Its constant part.
    pub constant: u64,
    /// The constants of its class.
    pub pool: u64,
    /// Its class.
    pub holder: u64,
    /// Symbol of its name.
    pub name: u64,
    /// Symbol of its class's name.
    pub class: u64,
    name_index: u16,
}

/// The tag of a text in a constant pool.
const UTF8: u8 = 1;

const MIX: u64 = 0xd6e8_feb8_6659_fd93;

fn mix(sum: u64, word: u64) -> u64 {
    let x = (sum ^ word).wrapping_mul(MIX);
    x ^ x >> 32
}

/// An address that can be one of a structure.
pub(super) fn plausible(address: u64) -> bool {
    address >= 4096 && address & 7 == 0 && address >> 47 == 0
}

fn structure<M: Memory>(memory: &M, at: u64) -> Option<u64> {
    memory.read_word(at).filter(|address| plausible(*address))
}

impl Method {
    /// The method at an address. Only [`Method::is_method`] says whether it is one.
    #[must_use]
    pub fn at<M: Memory>(memory: &M, layout: &Layout, at: u64) -> Option<Method> {
        if !plausible(at) {
            return None;
        }
        let constant = structure(memory, at + layout.method_const)?;
        let pool = structure(memory, constant + layout.const_pool)?;
        let name_index = memory.quarter(constant + layout.const_name)?;
        let name = entry(memory, layout, pool, name_index)?;
        let holder = structure(memory, pool + layout.pool_holder)?;
        let class = structure(memory, holder + layout.klass_name)?;
        Some(Method { at, constant, pool, holder, name, class, name_index })
    }

    /// Checks all that a method must be: asked once for each.
    #[must_use]
    pub fn is_method<M: Memory>(&self, memory: &M, layout: &Layout) -> bool {
        let checked = || {
            let length = memory.half(self.pool + layout.pool_length)?;
            let tags = structure(memory, self.pool + layout.pool_tags)?;
            let [tag] = memory.bytes(tags + layout.tags_data + u64::from(self.name_index))?;
            let of_class = structure(memory, self.holder + layout.klass_pool)?;
            // A class that was redefined has other constants now.
            let belongs =
                of_class == self.pool || memory.read_word(of_class + layout.pool_holder) == Some(self.holder);
            Some(self.name_index > 0 && u32::from(self.name_index) < length && tag == UTF8 && belongs)
        };
        checked() == Some(true)
    }

    /// Its identity.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity(mix(mix(mix(mix(MIX ^ 2, self.at), self.constant), self.name), self.class))
    }

    /// The bytecode index of an address in its bytecodes. `None`: it is not among them.
    #[must_use]
    pub fn bci<M: Memory>(memory: &M, layout: &Layout, constant: u64, bytecode: u64) -> Option<u32> {
        let offset = bytecode.checked_sub(constant.checked_add(layout.const_size)?)?;
        let size = memory.quarter(constant + layout.const_code_size)?;
        if offset < u64::from(size) { u32::try_from(offset).ok() } else { None }
    }

    /// Writes its name, `package.Class.method`; how many octets, and whether it was cut.
    pub fn write_name<M: Memory>(
        &self,
        memory: &M,
        layout: &Layout,
        out: &mut [u8],
    ) -> Option<(usize, bool)> {
        let (class, cut) = symbol(memory, layout, self.class, out)?;
        let mut end = class;
        // Each generated class has a number behind its name: they are one for who reads sums.
        let mut hidden = false;
        for i in 0..class {
            let octet = out.get_mut(i)?;
            match *octet {
                b'+' => hidden = true,
                b'/' if !hidden => *octet = b'.',
                _ => {}
            }
            if hidden {
                end = i;
                break;
            }
        }
        *out.get_mut(end)? = b'.';
        let (name, name_cut) = symbol(memory, layout, self.name, out.get_mut(end + 1..)?)?;
        Some((end + 1 + name, cut || name_cut))
    }

    /// Writes its source file, `package/File.java`; nothing if the class does not say it.
    pub fn write_file<M: Memory>(
        &self,
        memory: &M,
        layout: &Layout,
        out: &mut [u8],
    ) -> Option<(usize, bool)> {
        let index = match layout.source {
            Source::Pool(at) => memory.quarter(self.pool + at)?,
            Source::Class(at) => memory.quarter(self.holder + at)?,
            Source::Nowhere => 0,
        };
        if index == 0 {
            return Some((0, false));
        }
        let file = entry(memory, layout, self.pool, index)?;
        let (class, _) = symbol(memory, layout, self.class, out)?;
        let folder = out.get(..class)?.iter().rposition(|octet| *octet == b'/').map_or(0, |slash| slash + 1);
        let (name, cut) = symbol(memory, layout, file, out.get_mut(folder..)?)?;
        Some((folder + name, cut))
    }

    /// Where its line table begins. `None`: it has none.
    #[must_use]
    pub fn line_table<M: Memory>(&self, memory: &M, layout: &Layout) -> Option<u64> {
        let [flags] = memory.bytes(self.constant + layout.const_flags)?;
        let size = memory.quarter(self.constant + layout.const_code_size)?;
        (flags & 1 != 0).then_some(self.constant + layout.const_size + u64::from(size))
    }
}

/// Entry of a constant pool: a symbol.
fn entry<M: Memory>(memory: &M, layout: &Layout, pool: u64, index: u16) -> Option<u64> {
    structure(memory, pool + layout.pool_size + 8 * u64::from(index))
}

/// Copies a symbol; how many octets, and whether it was cut.
fn symbol<M: Memory>(memory: &M, layout: &Layout, at: u64, out: &mut [u8]) -> Option<(usize, bool)> {
    let length = usize::from(memory.quarter(at + layout.symbol_length)?);
    let copied = length.min(out.len());
    let out = out.get_mut(..copied)?;
    memory.copy(at + layout.symbol_body, out).then_some((copied, copied < length))
}

/// A method that only a register or a slot of a frame names, which may be anything: every page is asked for anew.
pub(super) fn unproved<M: ThreadMemory>(memory: &M, jvm: &Jvm, at: u64) -> Option<Method> {
    let layout = &jvm.layout;
    if !plausible(at) || !memory.look_again(at + layout.method_const) {
        return None;
    }
    let constant = structure(memory, at + layout.method_const)?;
    if !memory.look_again(constant + layout.const_pool) || !memory.look_again(constant + layout.const_name) {
        return None;
    }
    let pool = structure(memory, constant + layout.const_pool)?;
    let index = memory.quarter(constant + layout.const_name)?;
    let entry = pool + layout.pool_size + 8 * u64::from(index);
    if !memory.look_again(pool + layout.pool_holder) || !memory.look_again(entry) {
        return None;
    }
    let holder = structure(memory, pool + layout.pool_holder)?;
    if !memory.look_again(holder + layout.klass_name) || !memory.look_again(holder + layout.klass_pool) {
        return None;
    }
    let tags = structure(memory, pool + layout.pool_tags)?;
    if !memory.look_again(tags + layout.tags_data + u64::from(index)) {
        return None;
    }
    Method::at(memory, layout, at).filter(|method| method.is_method(memory, layout))
}
