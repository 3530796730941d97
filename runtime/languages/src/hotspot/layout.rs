//! Where a HotSpot keeps what, made of its [`Tables`] and checked.
//!
//! Layouts are chosen by the fields that are there, not by the version. What must be there and is not, or has a value
//! that cannot be, is named ([`Refused`]) and Java frames stay off. Two things go by the version alone: the form of
//! compressed numbers, and that before 11 nothing is read.

use super::tables::{Constant, Field, Published, Tables, Type};

/// Why a HotSpot is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It does not publish this.
    Missing(&'static str),
    /// What it publishes of this cannot be.
    Odd(&'static str),
    /// A version that was not tried.
    Version(u32),
    /// It is not up yet. It is worth another look.
    NotReady,
}

/// Largest offset in a structure.
const LARGEST: u64 = 1 << 14;

/// Where the code of a blob lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeRange {
    /// Two addresses are stored.
    Addresses(u64, u64),
    /// Two offsets (four octets) from the blob.
    Offsets(u64, u64),
}

/// Where the debugging data of compiled code lies. All are offsets of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugData {
    /// Beside the code.
    Own {
        /// Four octets: offset of the first PcDesc, and of what follows the last.
        pcs: (u64, u64),
        /// Address of the scopes.
        scopes: u64,
        /// Four octets: offset of the metadata.
        metadata: u64,
    },
    /// In memory of its own (24 on).
    Apart {
        /// Address of what never changes.
        immutable: u64,
        /// Four octets: offset of the first PcDesc there, and of the scopes, which follow the last.
        pcs: (u64, u64),
        /// Address of what may change.
        mutable: u64,
        /// Four octets: octets of relocations, behind which the metadata lies.
        relocations: u64,
    },
}

/// Where the deoptimisation handlers lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deopt {
    /// Two addresses.
    Addresses(u64, u64),
    /// Two offsets (four octets) from the blob.
    Offsets(u64, u64),
}

/// Where the name of the source file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An index in the constant pool.
    Pool(u64),
    /// An index in the class.
    Class(u64),
    /// It is not published.
    Nowhere,
}

/// The layout. Plain data. Each number is the offset of a field in its structure, unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named after the structure and the field")]
pub struct Layout {
    pub version: u32,
    /// Compressed numbers have no octet 0 (20 on).
    pub biased: bool,
    /// Address of the pointer to the list of heaps.
    pub heaps: u64,
    /// Addresses of the bounds of the code cache.
    pub bounds: (u64, u64),
    pub list_length: u64,
    pub list_data: u64,
    pub heap_memory: u64,
    pub heap_segments: u64,
    pub heap_log_segment: u64,
    pub space_low: u64,
    pub space_high: u64,
    pub block_used: u64,
    /// Octets.
    pub block_size: u64,
    pub blob_name: u64,
    pub blob_frame_size: u64,
    pub blob_frame_complete: u64,
    /// `blob_frame_complete` has two octets.
    pub frame_complete_is_short: bool,
    pub code: CodeRange,
    pub compiled_method: u64,
    pub debug: DebugData,
    pub deopt: Deopt,
    pub original_pc: u64,
    pub method_const: u64,
    pub const_pool: u64,
    pub const_code_size: u64,
    pub const_name: u64,
    pub const_signature: u64,
    pub const_flags: u64,
    /// Octets of a ConstMethod: the bytecodes follow.
    pub const_size: u64,
    pub pool_tags: u64,
    pub pool_holder: u64,
    pub pool_length: u64,
    /// Octets of a ConstantPool: the entries follow.
    pub pool_size: u64,
    pub source: Source,
    pub tags_data: u64,
    pub klass_name: u64,
    pub klass_pool: u64,
    pub symbol_length: u64,
    pub symbol_body: u64,
    /// Offset of the pc at which a fault or a safepoint met a thread.
    pub thread_saved_pc: u64,
    pub thread_os: u64,
    pub os_thread_id: u64,
    pub anchor_sp: u64,
    pub wrapper_anchor: u64,
    /// Address of the pointer.
    pub call_stub_return: u64,
    /// Address of a pointer into the code of `Continuation.enterSpecial`, which enters virtual threads; `None`: it has
    /// no virtual threads.
    pub continuation_return: Option<u64>,
    /// Address of the pointer to the interpreter's queue.
    pub interpreter_code: u64,
    pub queue_buffer: u64,
    pub queue_end: u64,
    pub codelet_size: u64,
    pub codelet_description: u64,
    /// Octets of a codelet's head.
    pub codelet_head: u64,
    /// Octets from rbp, negative: the call wrapper in the call stub's frame.
    pub entry_wrapper: i64,
}

/// What the versions that were tried have in common and do not publish (x86-64): octets from rbp.
pub const INTERPRETED_METHOD: i64 = -24;
/// The same: the current bytecode.
pub const INTERPRETED_BYTECODE: i64 = -64;
/// The same: the stack pointer of the caller, also published.
pub const INTERPRETED_SENDER: i64 = -8;

struct Reading<'t>(&'t Tables);

impl Reading<'_> {
    fn published(&self, field: Field) -> Result<Published, Refused> {
        self.0.field(field).ok_or(Refused::Missing(field.name()))
    }

    fn offset(&self, field: Field) -> Result<u64, Refused> {
        let Published { value, is_static, .. } = self.published(field)?;
        if is_static || value >= LARGEST { Err(Refused::Odd(field.name())) } else { Ok(value) }
    }

    fn either(&self, field: Field, old: Field) -> Result<u64, Refused> {
        match self.offset(field) {
            Err(Refused::Missing(name)) => self.offset(old).map_err(|_| Refused::Missing(name)),
            answer => answer,
        }
    }

    fn address(&self, field: Field) -> Result<u64, Refused> {
        let Published { value, is_static, .. } = self.published(field)?;
        let odd = !is_static || value < 4096 || value >> 47 != 0;
        if odd { Err(Refused::Odd(field.name())) } else { Ok(value) }
    }

    fn size(&self, of: Type, within: core::ops::RangeInclusive<u64>) -> Result<u64, Refused> {
        let size = self.0.size(of).ok_or(Refused::Missing(of.name()))?;
        if within.contains(&size) { Ok(size) } else { Err(Refused::Odd(of.name())) }
    }

    fn must_be(&self, constant: Constant, value: i32) -> Result<(), Refused> {
        match self.0.constant(constant) {
            None => Err(Refused::Missing(constant.name())),
            Some(is) if is == value => Ok(()),
            Some(_) => Err(Refused::Odd(constant.name())),
        }
    }

    fn has(&self, field: Field) -> bool {
        self.0.field(field).is_some()
    }

    fn debug(&self) -> Result<DebugData, Refused> {
        if self.has(Field::NmethodImmutable) {
            return Ok(DebugData::Apart {
                immutable: self.offset(Field::NmethodImmutable)?,
                pcs: (self.offset(Field::NmethodPcs)?, self.offset(Field::NmethodScopesOffset)?),
                mutable: self.offset(Field::BlobMutableData)?,
                relocations: self.offset(Field::BlobRelocationSize)?,
            });
        }
        Ok(DebugData::Own {
            pcs: (self.offset(Field::NmethodPcs)?, self.offset(Field::NmethodDependencies)?),
            scopes: self.offset(Field::CompiledScopes)?,
            metadata: self.offset(Field::NmethodMetadata)?,
        })
    }
}

impl Layout {
    /// Of what a HotSpot of this version publishes.
    ///
    /// # Errors
    /// What is missing or odd, by name.
    pub fn new(tables: &Tables, version: u32) -> Result<Layout, Refused> {
        if !(11..=25).contains(&version) {
            return Err(Refused::Version(version));
        }
        let t = Reading(tables);
        t.must_be(Constant::CallWrapper, -6)?;
        t.must_be(Constant::SenderSp, -1)?;
        t.must_be(Constant::Utf8, 1)?;
        let code = if t.has(Field::BlobCodeOffset) {
            CodeRange::Offsets(t.offset(Field::BlobCodeOffset)?, t.offset(Field::BlobDataOffset)?)
        } else {
            CodeRange::Addresses(t.offset(Field::BlobCodeBegin)?, t.offset(Field::BlobCodeEnd)?)
        };
        let deopt = if t.has(Field::NmethodDeoptOffset) {
            Deopt::Offsets(t.offset(Field::NmethodDeoptOffset)?, t.offset(Field::NmethodDeoptHandleOffset)?)
        } else {
            Deopt::Addresses(t.offset(Field::CompiledDeopt)?, t.offset(Field::CompiledDeoptHandle)?)
        };
        let source = if t.has(Field::PoolSource) {
            Source::Pool(t.offset(Field::PoolSource)?)
        } else if t.has(Field::OldSource) {
            Source::Class(t.offset(Field::OldSource)?)
        } else {
            Source::Nowhere
        };
        let frame_complete = t.published(Field::BlobFrameComplete)?;
        Ok(Layout {
            version,
            biased: version >= 20,
            heaps: t.address(Field::Heaps)?,
            bounds: (t.address(Field::LowBound)?, t.address(Field::HighBound)?),
            list_length: t.either(Field::ListLength, Field::OldListLength)?,
            list_data: t.offset(Field::ListData)?,
            heap_memory: t.offset(Field::HeapMemory)?,
            heap_segments: t.offset(Field::HeapSegments)?,
            heap_log_segment: t.offset(Field::HeapLogSegment)?,
            space_low: t.offset(Field::SpaceLow)?,
            space_high: t.offset(Field::SpaceHigh)?,
            block_used: t.offset(Field::BlockUsed)?,
            block_size: t.size(Type::Block, 8..=16)?,
            blob_name: t.offset(Field::BlobName)?,
            blob_frame_size: t.offset(Field::BlobFrameSize)?,
            blob_frame_complete: t.offset(Field::BlobFrameComplete)?,
            frame_complete_is_short: frame_complete.is_short,
            code,
            compiled_method: t.either(Field::CompiledMethod, Field::NmethodMethod)?,
            debug: t.debug()?,
            deopt,
            original_pc: t.offset(Field::NmethodOriginalPc)?,
            method_const: t.offset(Field::MethodConst)?,
            const_pool: t.offset(Field::ConstPool)?,
            const_code_size: t.offset(Field::ConstCodeSize)?,
            const_name: t.offset(Field::ConstName)?,
            const_signature: t.offset(Field::ConstSignature)?,
            const_flags: t.either(Field::ConstFlags, Field::ConstFlagsNew)?,
            const_size: t.size(Type::Const, 32..=256)?,
            pool_tags: t.offset(Field::PoolTags)?,
            pool_holder: t.offset(Field::PoolHolder)?,
            pool_length: t.offset(Field::PoolLength)?,
            pool_size: t.size(Type::Pool, 32..=256)?,
            source,
            tags_data: t.offset(Field::TagsData)?,
            klass_name: t.offset(Field::KlassName)?,
            klass_pool: t.offset(Field::KlassPool)?,
            symbol_length: t.offset(Field::SymbolLength)?,
            symbol_body: t.offset(Field::SymbolBody)?,
            thread_saved_pc: t.offset(Field::ThreadSavedPc)?,
            thread_os: t.either(Field::ThreadOs, Field::OldThreadOs)?,
            os_thread_id: t.offset(Field::OsThreadId)?,
            anchor_sp: t.offset(Field::AnchorSp)?,
            wrapper_anchor: t.offset(Field::WrapperAnchor)?,
            call_stub_return: t.address(Field::CallStubReturn)?,
            continuation_return: if t.has(Field::ContinuationReturn) {
                Some(t.address(Field::ContinuationReturn)?)
            } else {
                None
            },
            interpreter_code: t.address(Field::InterpreterCode)?,
            queue_buffer: t.offset(Field::QueueBuffer)?,
            queue_end: t.offset(Field::QueueEnd)?,
            codelet_size: t.offset(Field::CodeletSize)?,
            codelet_description: t.offset(Field::CodeletDescription)?,
            codelet_head: t.size(Type::Codelet, 16..=64)?,
            entry_wrapper: -48,
        })
    }
}
