//! The tables in which HotSpot publishes its own layout, read once.
//!
//! Four symbols lead to arrays of rows; how long a row is and where its parts are is published as well. Nothing of
//! that is believed: strides and offsets have bounds, and an array without end is left after [`MOST_ROWS`] rows.

use pct_elf::{Memory, Symbols};

/// Most rows of a table. JDK 17 has 2,040.
const MOST_ROWS: u32 = 16_384;
/// Longest row in octets.
const LONGEST_ROW: u64 = 256;
/// Longest name that is compared.
const NAME: usize = 48;

macro_rules! rows {
    ($(#[$doc:meta])* $name:ident: $($row:ident = $type:literal $field:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is named after its row")]
        pub enum $name { $($row,)* }

        impl $name {
            /// Type and field, or the name and nothing.
            const NAMES: &[(&str, &str)] = &[$(($type, $field),)*];
            /// How a refusal names it.
            const SPOKEN: &[&str] = &[$(concat!($type, "::", $field),)*];

            /// Its name for people: `Type::field`.
            #[must_use]
            pub fn name(self) -> &'static str {
                Self::SPOKEN.get(self as usize).copied().unwrap_or("?")
            }
        }
    };
}

rows! {
    /// A field of one of the virtual machine's types.
    Field:
    Heaps = "CodeCache" "_heaps",
    LowBound = "CodeCache" "_low_bound",
    HighBound = "CodeCache" "_high_bound",
    ListLength = "GrowableArrayBase" "_len",
    OldListLength = "GenericGrowableArray" "_len",
    ListData = "GrowableArray<int>" "_data",
    HeapMemory = "CodeHeap" "_memory",
    HeapSegments = "CodeHeap" "_segmap",
    HeapLogSegment = "CodeHeap" "_log2_segment_size",
    SpaceLow = "VirtualSpace" "_low",
    SpaceHigh = "VirtualSpace" "_high",
    BlockUsed = "HeapBlock::Header" "_used",
    BlobName = "CodeBlob" "_name",
    BlobFrameSize = "CodeBlob" "_frame_size",
    BlobFrameComplete = "CodeBlob" "_frame_complete_offset",
    BlobCodeBegin = "CodeBlob" "_code_begin",
    BlobCodeEnd = "CodeBlob" "_code_end",
    BlobCodeOffset = "CodeBlob" "_code_offset",
    BlobDataOffset = "CodeBlob" "_data_offset",
    BlobMutableData = "CodeBlob" "_mutable_data",
    BlobRelocationSize = "CodeBlob" "_relocation_size",
    CompiledMethod = "CompiledMethod" "_method",
    CompiledScopes = "CompiledMethod" "_scopes_data_begin",
    CompiledDeopt = "CompiledMethod" "_deopt_handler_begin",
    CompiledDeoptHandle = "CompiledMethod" "_deopt_mh_handler_begin",
    NmethodMethod = "nmethod" "_method",
    NmethodPcs = "nmethod" "_scopes_pcs_offset",
    NmethodDependencies = "nmethod" "_dependencies_offset",
    NmethodScopesOffset = "nmethod" "_scopes_data_offset",
    NmethodImmutable = "nmethod" "_immutable_data",
    NmethodMetadata = "nmethod" "_metadata_offset",
    NmethodDeoptOffset = "nmethod" "_deopt_handler_offset",
    NmethodDeoptHandleOffset = "nmethod" "_deopt_mh_handler_offset",
    NmethodOriginalPc = "nmethod" "_orig_pc_offset",
    MethodConst = "Method" "_constMethod",
    ConstPool = "ConstMethod" "_constants",
    ConstCodeSize = "ConstMethod" "_code_size",
    ConstName = "ConstMethod" "_name_index",
    ConstSignature = "ConstMethod" "_signature_index",
    ConstFlags = "ConstMethod" "_flags",
    ConstFlagsNew = "ConstMethod" "_flags._flags",
    PoolTags = "ConstantPool" "_tags",
    PoolHolder = "ConstantPool" "_pool_holder",
    PoolLength = "ConstantPool" "_length",
    PoolSource = "ConstantPool" "_source_file_name_index",
    OldSource = "InstanceKlass" "_source_file_name_index",
    TagsData = "Array<u1>" "_data",
    KlassName = "Klass" "_name",
    KlassPool = "InstanceKlass" "_constants",
    SymbolLength = "Symbol" "_length",
    SymbolBody = "Symbol" "_body",
    ThreadSavedPc = "JavaThread" "_saved_exception_pc",
    ThreadOs = "JavaThread" "_osthread",
    OldThreadOs = "Thread" "_osthread",
    OsThreadId = "OSThread" "_thread_id",
    AnchorSp = "JavaFrameAnchor" "_last_Java_sp",
    WrapperAnchor = "JavaCallWrapper" "_anchor",
    CallStubReturn = "StubRoutines" "_call_stub_return_address",
    ContinuationReturn = "ContinuationEntry" "_return_pc",
    InterpreterCode = "AbstractInterpreter" "_code",
    QueueBuffer = "StubQueue" "_stub_buffer",
    QueueEnd = "StubQueue" "_queue_end",
    CodeletSize = "InterpreterCodelet" "_size",
    CodeletDescription = "InterpreterCodelet" "_description",
    Version = "Abstract_VM_Version" "_vm_major_version",
}

rows! {
    /// A type whose size is needed.
    Type:
    Block = "HeapBlock" "size",
    Pool = "ConstantPool" "size",
    Const = "ConstMethod" "size",
    Codelet = "InterpreterCodelet" "size",
}

rows! {
    /// A constant.
    Constant:
    CallWrapper = "frame" "entry_frame_call_wrapper_offset",
    SenderSp = "frame" "interpreter_frame_sender_sp_offset",
    Utf8 = "" "JVM_CONSTANT_Utf8",
}

/// What a table said of a field: its offset in its type, or the address of a static one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Offset or address.
    pub value: u64,
    /// It is a static field's address.
    pub is_static: bool,
    /// The field has two octets (`int16_t`, `u2`) and not four or eight.
    pub is_short: bool,
}

/// Everything that is needed of the tables.
#[derive(Debug)]
pub struct Tables {
    fields: [Option<Published>; Field::NAMES.len()],
    types: [Option<u64>; Type::NAMES.len()],
    constants: [Option<i32>; Constant::NAMES.len()],
}

/// The names are no rows of a table: something else has these symbols, or the loader is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTables(pub &'static str);

impl Tables {
    /// With nothing in it.
    #[must_use]
    pub const fn empty() -> Tables {
        Tables {
            fields: [None; Field::NAMES.len()],
            types: [None; Type::NAMES.len()],
            constants: [None; Constant::NAMES.len()],
        }
    }

    /// What is published of a field.
    #[must_use]
    pub fn field(&self, field: Field) -> Option<Published> {
        self.fields.get(field as usize).copied().flatten()
    }

    /// The size of a type in octets.
    #[must_use]
    pub fn size(&self, of: Type) -> Option<u64> {
        self.types.get(of as usize).copied().flatten()
    }

    /// A constant.
    #[must_use]
    pub fn constant(&self, constant: Constant) -> Option<i32> {
        self.constants.get(constant as usize).copied().flatten()
    }

    /// Sets or removes a field: for tests, and for who reads the tables otherwise.
    pub fn set_field(&mut self, field: Field, published: Option<Published>) {
        if let Some(place) = self.fields.get_mut(field as usize) {
            *place = published;
        }
    }

    /// Sets or removes a size.
    pub fn set_size(&mut self, of: Type, size: Option<u64>) {
        if let Some(place) = self.types.get_mut(of as usize) {
            *place = size;
        }
    }

    /// Sets or removes a constant.
    pub fn set_constant(&mut self, constant: Constant, value: Option<i32>) {
        if let Some(place) = self.constants.get_mut(constant as usize) {
            *place = value;
        }
    }

    /// Every field that is known of, for tests that remove one after the other.
    #[must_use]
    pub fn fields() -> usize {
        Field::NAMES.len()
    }

    /// Reads the tables of an image. `None`: it has none, and is no HotSpot.
    ///
    /// # Errors
    /// The symbol that does not lead to a table.
    pub fn read<M: Memory>(memory: &M, symbols: &Symbols) -> Option<Result<Tables, NoTables>> {
        symbols.find(memory, b"gHotSpotVMStructs")?;
        Some(Tables::empty().filled(memory, symbols))
    }

    fn filled<M: Memory>(mut self, memory: &M, symbols: &Symbols) -> Result<Tables, NoTables> {
        let word = |symbol: &'static str| {
            let at = symbols.find(memory, symbol.as_bytes()).ok_or(NoTables(symbol))?.address;
            memory.read_word(at).ok_or(NoTables(symbol))
        };
        let part =
            |symbol| word(symbol).and_then(|n| if n < LONGEST_ROW { Ok(n) } else { Err(NoTables(symbol)) });

        let rows = Rows {
            memory,
            first: word("gHotSpotVMStructs")?,
            stride: part("gHotSpotVMStructEntryArrayStride")?,
            name: part("gHotSpotVMStructEntryTypeNameOffset")?,
            symbol: "gHotSpotVMStructs",
        };
        let (field, kind) =
            (part("gHotSpotVMStructEntryFieldNameOffset")?, part("gHotSpotVMStructEntryTypeStringOffset")?);
        let is_static = part("gHotSpotVMStructEntryIsStaticOffset")?;
        let (offset, address) =
            (part("gHotSpotVMStructEntryOffsetOffset")?, part("gHotSpotVMStructEntryAddressOffset")?);
        // Rows of a type follow each other and share the text of its name.
        let mut last = (0, false);
        rows.each(|row, name| {
            if last.0 != name {
                last = (name, is_one_of(memory, name, Field::NAMES.iter().map(|(of, _)| *of)));
            }
            if !last.1 {
                return Some(());
            }
            let at = memory.read_word(row + field)?;
            let mut text = [0; NAME];
            let text = read_text(memory, at, &mut text);
            for (place, (_, wanted)) in
                self.fields.iter_mut().zip(Field::NAMES).filter(|(_, (of, wanted))| {
                    wanted.as_bytes() == text && memory.text_is(name, of.as_bytes())
                })
            {
                let _ = wanted;
                let is_static = memory.half(row + is_static)? != 0;
                let value = memory.read_word(row + if is_static { address } else { offset })?;
                let kind = memory.read_word(row + kind)?;
                let is_short = is_one_of(memory, kind, ["int16_t", "u2", "uint16_t"].into_iter());
                *place = Some(Published { value, is_static, is_short });
            }
            Some(())
        })?;

        let rows = Rows {
            memory,
            first: word("gHotSpotVMTypes")?,
            stride: part("gHotSpotVMTypeEntryArrayStride")?,
            name: part("gHotSpotVMTypeEntryTypeNameOffset")?,
            symbol: "gHotSpotVMTypes",
        };
        let size = part("gHotSpotVMTypeEntrySizeOffset")?;
        rows.each(|row, name| {
            let mut text = [0; NAME];
            let text = read_text(memory, name, &mut text);
            for (place, _) in
                self.types.iter_mut().zip(Type::NAMES).filter(|(_, (wanted, _))| wanted.as_bytes() == text)
            {
                *place = Some(memory.read_word(row + size)?);
            }
            Some(())
        })?;

        let rows = Rows {
            memory,
            first: word("gHotSpotVMIntConstants")?,
            stride: part("gHotSpotVMIntConstantEntryArrayStride")?,
            name: part("gHotSpotVMIntConstantEntryNameOffset")?,
            symbol: "gHotSpotVMIntConstants",
        };
        let value = part("gHotSpotVMIntConstantEntryValueOffset")?;
        rows.each(|row, name| {
            let mut text = [0; NAME];
            let text = read_text(memory, name, &mut text);
            for (place, _) in self
                .constants
                .iter_mut()
                .zip(Constant::NAMES)
                .filter(|(_, (of, name))| is_joined(text, of, name))
            {
                *place = Some(memory.half(row + value)?.cast_signed());
            }
            Some(())
        })?;
        Ok(self)
    }
}

/// Is the text `of::name`, or `name` where there is no `of`?
fn is_joined(text: &[u8], of: &str, name: &str) -> bool {
    if of.is_empty() {
        return text == name.as_bytes();
    }
    text.strip_prefix(of.as_bytes()).and_then(|rest| rest.strip_prefix(b"::")) == Some(name.as_bytes())
}

fn is_one_of<'n, M: Memory>(memory: &M, at: u64, names: impl Iterator<Item = &'n str>) -> bool {
    let mut text = [0; NAME];
    let text = read_text(memory, at, &mut text);
    let mut names = names;
    names.any(|name| name.as_bytes() == text)
}

/// The text at an address up to its NUL; empty if it is longer than the buffer or cannot be read.
fn read_text<'b, M: Memory>(memory: &M, at: u64, buffer: &'b mut [u8; NAME]) -> &'b [u8] {
    for length in 0..buffer.len() {
        let Some(octet) = at.checked_add(length as u64).and_then(|at| memory.bytes::<1>(at)) else {
            return &[];
        };
        let [octet] = octet;
        if octet == 0 {
            return buffer.get(..length).unwrap_or(&[]);
        }
        if let Some(place) = buffer.get_mut(length) {
            *place = octet;
        }
    }
    &[]
}

struct Rows<'m, M> {
    memory: &'m M,
    first: u64,
    stride: u64,
    name: u64,
    symbol: &'static str,
}

impl<M: Memory> Rows<'_, M> {
    /// Calls `read` with each row and the address of its name.
    fn each(&self, mut read: impl FnMut(u64, u64) -> Option<()>) -> Result<(), NoTables> {
        let broken = NoTables(self.symbol);
        if self.first == 0 || self.stride == 0 || self.first >> 47 != 0 {
            return Err(broken);
        }
        let mut row = self.first;
        for _ in 0..MOST_ROWS {
            let name = self.memory.read_word(row + self.name).ok_or(broken)?;
            if name == 0 {
                return Ok(());
            }
            read(row, name).ok_or(broken)?;
            row += self.stride;
        }
        Err(broken)
    }
}
