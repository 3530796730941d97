//! Where a V8 keeps what, as its `v8dbg_` symbols say: 32-bit variables, meant for debuggers.
//!
//! A symbol's name ends with the type of its field as the source spells it, and the spelling changes. So a field has
//! several names.

use pct_elf::{Memory, Symbols};

/// A symbol that every V8 with debugging symbols defines.
pub const MARK: &[u8] = b"v8dbg_class_JSFunction__shared__SharedFunctionInfo";

/// Most octets from the beginning of an object to a field.
const FARTHEST: u32 = 1024;
/// Numbers of types behind the first one of functions that are functions too, where the last is not published.
const FUNCTION_TYPES: u16 = 20;

/// Offsets of fields from the beginning of their object, and numbers of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Version of V8: major number, then 16 bits of the minor one.
    pub version: u32,
    /// `Map::instance_type`, two octets.
    pub map_type: u64,
    /// `JSFunction::shared`.
    pub function_shared: u64,
    /// `SharedFunctionInfo::name_or_scope_info`.
    pub shared_name: u64,
    /// `SharedFunctionInfo::script`.
    pub shared_script: u64,
    /// `SharedFunctionInfo::length` and the counts behind it.
    pub shared_counts: u64,
    /// `SharedFunctionInfo::flags`; the four octets behind them are the function's number in its script.
    pub shared_flags: u64,
    /// `Script::source`.
    pub script_source: u64,
    /// `Script::name`.
    pub script_name: u64,
    /// The script's number.
    pub script_id: u64,
    /// `String::length`, four octets.
    pub string_length: u64,
    /// The characters of a flat string, one octet each.
    pub octets: u64,
    /// The characters of a flat string, two octets each.
    pub wide: u64,
    /// The two halves of a string that was put together.
    pub cons: (u64, u64),
    /// A part of another string: that string, and where the part begins.
    pub sliced: (u64, u64),
    /// The string that stands for another one.
    pub thin: u64,
    /// Address of the characters of a string that lies outside of the heap.
    pub external: u64,
    /// Words of a `ScopeInfo` before the names of its variables.
    pub scope_head: u64,
    /// Types of functions, from the first to the last.
    pub functions: (u16, u16),
    /// Type of `SharedFunctionInfo`.
    pub shared_type: u16,
    /// Type of `ScopeInfo`.
    pub scope_type: u16,
    /// Type of `Script`.
    pub script_type: u16,
}

/// Why functions of a V8 cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It does not publish this.
    Missing(&'static str),
    /// It publishes something for this that this reader does not expect.
    Odd(&'static str),
    /// It is not up yet.
    NotReady,
}

impl Refused {
    /// What is missing or odd.
    #[must_use]
    pub const fn detail(self) -> &'static str {
        match self {
            Refused::Missing(name) | Refused::Odd(name) => name,
            Refused::NotReady => "",
        }
    }
}

/// A field for people, and the symbols that may stand for it.
type Names = (&'static str, &'static [&'static str]);

const MAP_TYPE: Names = ("Map::instance_type", &["v8dbg_class_Map__instance_type__uint16_t"]);
const FUNCTION_SHARED: Names =
    ("JSFunction::shared", &["v8dbg_class_JSFunction__shared__SharedFunctionInfo"]);
const SHARED_NAME: Names = (
    "SharedFunctionInfo::name_or_scope_info",
    &[
        "v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object",
        "v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
        "v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
    ],
);
const SHARED_SCRIPT: Names = (
    "SharedFunctionInfo::script",
    &[
        "v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject",
        "v8dbg_class_SharedFunctionInfo__script__Tagged_HeapObject_",
        "v8dbg_class_SharedFunctionInfo__script__HeapObject",
    ],
);
const SHARED_COUNTS: Names =
    ("SharedFunctionInfo::length", &["v8dbg_class_SharedFunctionInfo__length__uint16_t"]);
const SHARED_FLAGS: Names = ("SharedFunctionInfo::flags", &["v8dbg_class_SharedFunctionInfo__flags__int"]);
const SCRIPT_SOURCE: Names =
    ("Script::source", &["v8dbg_class_Script__source__Object", "v8dbg_class_Script__source__Tagged_Object_"]);
const SCRIPT_NAME: Names =
    ("Script::name", &["v8dbg_class_Script__name__Object", "v8dbg_class_Script__name__Tagged_Object_"]);
const SCRIPT_LINES: Names = (
    "Script::line_ends",
    &["v8dbg_class_Script__line_ends__Object", "v8dbg_class_Script__line_ends__Tagged_Object_"],
);
const SCRIPT_CALLER: Names = ("Script::eval_from_position", &["v8dbg_class_Script__eval_from_position__SMI"]);
const STRING_LENGTH: Names = ("String::length", &["v8dbg_class_String__length__int32_t"]);
const OCTETS: Names = ("SeqOneByteString::chars", &["v8dbg_class_SeqOneByteString__chars__char"]);
const WIDE: Names = ("SeqTwoByteString::chars", &["v8dbg_class_SeqTwoByteString__chars__char"]);
const CONS_FIRST: Names = (
    "ConsString::first",
    &["v8dbg_class_ConsString__first__String", "v8dbg_class_ConsString__first__Tagged_String_"],
);
const CONS_SECOND: Names = (
    "ConsString::second",
    &["v8dbg_class_ConsString__second__String", "v8dbg_class_ConsString__second__Tagged_String_"],
);
const SLICED_PARENT: Names = (
    "SlicedString::parent",
    &["v8dbg_class_SlicedString__parent__String", "v8dbg_class_SlicedString__parent__Tagged_String_"],
);
const SLICED_OFFSET: Names = ("SlicedString::offset", &["v8dbg_class_SlicedString__offset__SMI"]);
const THIN: Names = (
    "ThinString::actual",
    &["v8dbg_class_ThinString__actual__String", "v8dbg_class_ThinString__actual__Tagged_String_"],
);
const EXTERNAL: Names = (
    "ExternalString::resource",
    &["v8dbg_class_ExternalString__resource__Object", "v8dbg_class_ExternalString__resource__Tagged_Object_"],
);
const SCOPE_COUNT: Names = ("ScopeInfo::context_local_count", &["v8dbg_scopeinfo_idx_ncontextlocals"]);
const SCOPE_HEAD: Names = ("ScopeInfo::first_vars", &["v8dbg_scopeinfo_idx_first_vars"]);
const FUNCTION_TYPE: Names =
    ("JSFunction's type", &["v8dbg_FirstJSFunctionType", "v8dbg_type_JSFunction__JS_FUNCTION_TYPE"]);
const LAST_FUNCTION_TYPE: Names = ("JSFunction's last type", &["v8dbg_LastJSFunctionType"]);
const SHARED_TYPE: Names =
    ("SharedFunctionInfo's type", &["v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"]);
const SCOPE_TYPE: Names = ("ScopeInfo's type", &["v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE"]);
const SCRIPT_TYPE: Names = ("Script's type", &["v8dbg_type_Script__SCRIPT_TYPE"]);
const MAJOR: Names = ("Version::major_", &["_ZN2v88internal7Version6major_E"]);
const MINOR: Names = ("Version::minor_", &["_ZN2v88internal7Version6minor_E"]);

/// Numbers that are the same in each V8 that this reader knows.
const FIXED: [(Names, u32); 12] = [
    // Without compressed pointers a small integer is the upper half of a word.
    (("SmiShiftSize", &["v8dbg_SmiShiftSize"]), 31),
    (("SmiTagMask", &["v8dbg_SmiTagMask"]), 1),
    (("HeapObjectTag", &["v8dbg_HeapObjectTag"]), 1),
    (("StringRepresentationMask", &["v8dbg_StringRepresentationMask"]), 7),
    (("StringEncodingMask", &["v8dbg_StringEncodingMask"]), 8),
    (("OneByteStringTag", &["v8dbg_OneByteStringTag"]), 8),
    (("ConsStringTag", &["v8dbg_ConsStringTag"]), 1),
    (("ExternalStringTag", &["v8dbg_ExternalStringTag"]), 2),
    (("SlicedStringTag", &["v8dbg_SlicedStringTag"]), 3),
    (("ThinStringTag", &["v8dbg_ThinStringTag"]), 5),
    (("context in a frame", &["v8dbg_off_fp_context"]), 8_u32.wrapping_neg()),
    (("function in a frame", &["v8dbg_off_fp_function"]), 16_u32.wrapping_neg()),
];

impl Layout {
    /// The layout that an image publishes. `None`: it publishes none, and is no V8 with debugging symbols.
    ///
    /// # Errors
    /// Something is missing, or is not as this reader knows it.
    pub fn read<M: Memory>(memory: &M, symbols: &Symbols) -> Option<Result<Layout, Refused>> {
        symbols.find(memory, MARK)?;
        Some(Published { memory, symbols }.layout())
    }

    /// Whether a type is one of functions.
    #[must_use]
    pub const fn is_function(&self, kind: u16) -> bool {
        kind >= self.functions.0 && kind <= self.functions.1
    }
}

struct Published<'a, M> {
    memory: &'a M,
    symbols: &'a Symbols,
}

impl<M: Memory> Published<'_, M> {
    fn number(&self, (name, symbols): Names) -> Result<u32, Refused> {
        let found = symbols.iter().find_map(|symbol| self.symbols.find(self.memory, symbol.as_bytes()));
        let at = found.ok_or(Refused::Missing(name))?.address;
        self.memory.half(at).ok_or(Refused::Missing(name))
    }

    fn offset(&self, names: Names) -> Result<u64, Refused> {
        match self.number(names)? {
            offset if offset > 0 && offset < FARTHEST => Ok(u64::from(offset)),
            _ => Err(Refused::Odd(names.0)),
        }
    }

    /// The offset of a word that holds a reference.
    fn reference(&self, names: Names) -> Result<u64, Refused> {
        self.offset(names).and_then(|at| if at & 7 == 0 { Ok(at) } else { Err(Refused::Odd(names.0)) })
    }

    fn kind(&self, names: Names) -> Result<u16, Refused> {
        u16::try_from(self.number(names)?).map_err(|_| Refused::Odd(names.0))
    }

    fn layout(&self) -> Result<Layout, Refused> {
        let (major, minor) = (self.number(MAJOR)?, self.number(MINOR)?);
        // They are set when the image is loaded.
        if major == 0 || major > 999 || minor > 999 {
            return Err(Refused::Odd(MAJOR.0));
        }
        for (names, expected) in FIXED {
            if self.number(names)? != expected {
                return Err(Refused::Odd(names.0));
            }
        }
        let (lines, caller) = (self.reference(SCRIPT_LINES)?, self.reference(SCRIPT_CALLER)?);
        // The number lies between what is published: line ends, number, caller, position in the caller.
        if caller != lines + 24 {
            return Err(Refused::Odd(SCRIPT_CALLER.0));
        }
        let scope_head = u64::from(self.number(SCOPE_HEAD)?);
        if self.number(SCOPE_COUNT)? != 2 || !(3..=8).contains(&scope_head) {
            return Err(Refused::Odd(SCOPE_HEAD.0));
        }
        let first = self.kind(FUNCTION_TYPE)?;
        let last = match self.kind(LAST_FUNCTION_TYPE) {
            Ok(last) if last >= first && last - first < 64 => last,
            Ok(_) => return Err(Refused::Odd(LAST_FUNCTION_TYPE.0)),
            Err(_) => first.saturating_add(FUNCTION_TYPES),
        };
        Ok(Layout {
            version: major << 16 | minor,
            map_type: self.offset(MAP_TYPE)?,
            function_shared: self.reference(FUNCTION_SHARED)?,
            shared_name: self.reference(SHARED_NAME)?,
            shared_script: self.reference(SHARED_SCRIPT)?,
            shared_counts: self.reference(SHARED_COUNTS)?,
            shared_flags: self.reference(SHARED_FLAGS)?,
            script_source: self.reference(SCRIPT_SOURCE)?,
            script_name: self.reference(SCRIPT_NAME)?,
            script_id: lines + 8,
            string_length: self.offset(STRING_LENGTH)?,
            octets: self.offset(OCTETS)?,
            wide: self.offset(WIDE)?,
            cons: (self.reference(CONS_FIRST)?, self.reference(CONS_SECOND)?),
            sliced: (self.reference(SLICED_PARENT)?, self.reference(SLICED_OFFSET)?),
            thin: self.reference(THIN)?,
            external: self.reference(EXTERNAL)? + 8,
            scope_head,
            functions: (first, last),
            shared_type: self.kind(SHARED_TYPE)?,
            scope_type: self.kind(SCOPE_TYPE)?,
            script_type: self.kind(SCRIPT_TYPE)?,
        })
    }
}
