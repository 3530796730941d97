//! The errors of a trace, with their positions.

use std::path::PathBuf;

/// Why a trace does not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file system returned an error.
    #[error("{path}: {error}", path = .path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// No `metadata` file in the directory or below.
    #[error("{path}: no CTF trace here: no file `metadata` in it or below", path = .path.display())]
    NoTrace {
        /// Directory searched.
        path: PathBuf,
    },
    /// The packets around the metadata text are damaged.
    #[error("{path}: metadata packet {packet} at byte {at}: {what}", path = .path.display())]
    Container {
        /// Metadata file.
        path: PathBuf,
        /// Number of the packet, from 0.
        packet: usize,
        /// Byte in the file.
        at: u64,
        /// Expected and found.
        what: String,
    },
    /// The metadata text is wrong.
    #[error("{path}: line {line}: {what}", path = .path.display())]
    Metadata {
        /// Metadata file.
        path: PathBuf,
        /// Line of the text, from 1; for a JSON record its first line.
        line: usize,
        /// Expected and found.
        what: String,
    },
    /// A stream file is damaged from its start (strict mode only).
    #[error("{0}")]
    Stream(ReadError),
}

/// An error in the metadata text. The caller adds the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct MetaError {
    /// Line, from 1.
    pub line: usize,
    /// Expected and found.
    pub what: String,
}

impl MetaError {
    pub(crate) fn new(line: usize, what: impl Into<String>) -> MetaError {
        MetaError { line, what: what.into() }
    }
}

/// Position and reason at which the reading of a stream ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: packet {packet} at byte {packet_at}, byte {at}: {fault}", path = .path.display())]
pub struct ReadError {
    /// Stream file.
    pub path: PathBuf,
    /// Number of the packet in its file, from 0.
    pub packet: usize,
    /// Byte of the file where the packet starts.
    pub packet_at: u64,
    /// Byte of the file at which the fault is.
    pub at: u64,
    /// What was wrong.
    pub fault: Fault,
}

/// The first word of a packet, in the byte order that the metadata says.
pub const PACKET_MAGIC: u32 = 0xC1FC_1FC1;

/// What was wrong with the bytes of a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each says itself what it is")]
pub enum Fault {
    #[error("packet magic is {0:#x}, expected 0xc1fc1fc1")]
    Magic(u64),
    #[error("the packet has the other byte order than the metadata says (its magic is {0:#x})")]
    OtherByteOrder(u64),
    #[error("packet belongs to trace {found}, expected {expected}")]
    Uuid { found: String, expected: String },
    #[error("unknown stream class {0}")]
    StreamClass(u64),
    #[error("unknown event class {0}")]
    EventClass(u64),
    #[error("packet size {0} bits: expected a multiple of 8 above 0")]
    PacketSize(u64),
    #[error("content of {content} bits in a packet of {packet} bits")]
    ContentSize { content: u64, packet: u64 },
    #[error("content of {content} bits, header and context alone take {used}")]
    ShortContent { content: u64, used: u64 },
    #[error("truncated: the packet has {expected} bytes, the file {found} of them")]
    Truncated { expected: u64, found: u64 },
    #[error("field passes the end of the packet's content")]
    PastContent,
    #[error("fields of different byte order share a byte")]
    ByteOrder,
    #[error("{len} elements of at least {least} bits, {left} bits are left in the packet")]
    SequenceLength { len: u64, least: u64, left: u64 },
    #[error("more than {0} fields in one event")]
    TooManyFields(u64),
    #[error("event takes no bits")]
    EmptyEvent,
    #[error("variant: no option for selector value {0}")]
    NoOption(i128),
    #[error("length or selector was not decoded in this record")]
    NotDecoded,
    #[error("variable-length integer passes 64 bits")]
    VarInt,
    #[error("{0}")]
    Io(String),
    #[error("the file was {expected} bytes long when the trace was opened, it has fewer now")]
    Shrunk { expected: u64 },
}

/// A problem that did not stop the reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// File concerned.
    pub path: PathBuf,
    /// The message.
    pub what: String,
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}
