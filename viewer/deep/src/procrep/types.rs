//! The contents of a program representation's modules besides procedures: strings and types.

use crate::label::ProcLabel;

/// A type declared for order-independent state update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OisuType {
    /// The type's name.
    pub name: String,
    /// Procedures that make a value of it.
    pub creators: Vec<ProcLabel<String>>,
    /// Procedures that change it.
    pub mutators: Vec<ProcLabel<String>>,
    /// Procedures that end it.
    pub destructors: Vec<ProcLabel<String>>,
}

/// An entry of a module's type table. Numbers refer to earlier entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A type constructor with its arguments.
    Defined {
        /// The qualified name.
        name: String,
        /// The arguments.
        args: Vec<u32>,
    },
    /// A type of the language, such as `int`.
    Builtin(&'static str),
    /// A tuple.
    Tuple(Vec<u32>),
    /// A predicate type.
    Pred(Vec<u32>),
    /// A function type.
    Func {
        /// The arguments.
        args: Vec<u32>,
        /// The result.
        result: u32,
    },
    /// A type variable.
    Var(u64),
}

/// A module's string table.
pub(crate) struct StringTable<'a>(pub(super) &'a [u8]);

impl StringTable<'_> {
    /// The text of a name code; see the table in the source.
    ///
    /// Even: half of it is the start of a string, which ends before the next 00. Odd: bits 1-5 select a made-up name,
    /// bits 6-15 are a small number, bits 16-31 an offset.
    pub(crate) fn text(&self, code: u32) -> Option<String> {
        if code & 1 == 0 {
            return self.at(code / 2);
        }
        let (kind, n, offset) = (code >> 1 & 0x1f, code >> 6 & 0x3ff, code >> 16);
        Some(match kind {
            0 => {
                let name = self.at(offset)?;
                if n > 0 {
                    format!("STATE_VARIABLE_{name}_{}", n - 1)
                } else {
                    format!("STATE_VARIABLE_{name}")
                }
            }
            1 => format!("TypeCtorInfo_{n}"),
            2 => format!("TypeInfo_{n}"),
            3 => format!("BaseTypeClassInfo_for_{}", self.at(offset)?),
            4 => format!("TypeClassInfo_for_{}", self.at(offset)?),
            5 => format!("PolyConst{n}"),
            _ => return None,
        })
    }
    fn at(&self, offset: u32) -> Option<String> {
        let rest = self.0.get(offset as usize..)?;
        let end = memchr::memchr(0, rest)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    }
}
