//! The contents of a trace's metadata: classes of clocks, streams, events and fields.
//!
//! TSDL (CTF 1.8) and JSON (CTF 2) are both converted to these types. Nothing after this module knows the language of a
//! trace, except through [`TraceClass::major`], which decides how locations without an origin are searched.
//!
//! Sizes and alignments of fields are in bits unless a name says bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Deepest nesting of field classes that is accepted.
pub const MAX_DEPTH: usize = 64;
/// Most field classes of one trace (a limit on the expansion of nested definitions).
pub const MAX_CLASSES: usize = 1 << 20;

/// Order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// How text is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// UTF-8, which includes ASCII.
    Utf8,
    /// UTF-16, little-endian code units.
    Utf16Le,
    /// UTF-16, big-endian code units.
    Utf16Be,
    /// UTF-32, little-endian.
    Utf32Le,
    /// UTF-32, big-endian.
    Utf32Be,
}

impl Encoding {
    /// Bytes of one code unit: 1, 2 or 4.
    pub fn unit(self) -> u64 {
        match self {
            Encoding::Utf8 => 1,
            Encoding::Utf16Le | Encoding::Utf16Be => 2,
            Encoding::Utf32Le | Encoding::Utf32Be => 4,
        }
    }
}

/// An inclusive range of integers. 128 bits hold both the signed and the unsigned 64-bit numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// Least value.
    pub lo: i128,
    /// Greatest value.
    pub hi: i128,
}

impl Range {
    /// Whether `v` lies in the range.
    pub fn contains(&self, v: i128) -> bool {
        self.lo <= v && v <= self.hi
    }
}

/// Labels of an enumeration (flags of a bit map): each name with its ranges, in the order of the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mappings(pub Vec<(String, Vec<Range>)>);

impl Mappings {
    /// Names of the ranges that contain `v`. Ranges may overlap.
    pub fn labels(&self, v: i128) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(_, r)| r.iter().any(|r| r.contains(v))).map(|(n, _)| n.as_str())
    }
}

/// What the value of an integer field means to the reader itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// 0xC1FC1FC1 at the start of a packet.
    PacketMagic,
    /// The trace's UUID (16 bytes) in a packet header.
    TraceUuid,
    /// Stream class of a packet.
    StreamClassId,
    /// The packet's stream among those of its class.
    StreamId,
    /// Length of a packet including padding, in bits.
    PacketTotal,
    /// Length of a packet without its padding, bits.
    PacketContent,
    /// Clock value at the start of a packet.
    PacketBegin,
    /// Clock value at the end of a packet.
    PacketEnd,
    /// Number of a packet in its stream.
    PacketSeq,
    /// Counter of discarded events, sampled at the end of a packet.
    Discarded,
    /// CPU whose buffer this was.
    Cpu,
    /// Class of an event.
    EventId,
    /// Updates the stream's clock. A value shorter than 64 bits replaces the low bits.
    Clock,
}

/// What the bits of a fixed-length field represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BitsKind {
    /// Unsigned integer.
    Unsigned,
    /// Two's complement integer.
    Signed,
    /// True if any bit is set.
    Bool,
    /// IEEE 754, 32 or 64 bits.
    Float,
    /// Plain bits; element 0 is the least significant.
    Array,
    /// Bits with named flags (in `mappings`).
    Map,
}

/// Preferred display base of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in the metadata")]
pub enum Base {
    Binary,
    Octal,
    Decimal,
    Hexadecimal,
}

/// A field of a fixed number of bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bits {
    /// Number of bits, 1 to 64.
    pub len: u32,
    /// Byte order.
    pub order: ByteOrder,
    /// Whether the bits are numbered against the byte order's convention (CTF 2 `bit-order`).
    pub reversed: bool,
    /// What the bits represent.
    pub kind: BitsKind,
    /// Preferred base.
    pub base: Base,
    /// Labels or flags.
    pub mappings: Option<Arc<Mappings>>,
    /// Whether it was declared as an enumeration, and so may be the tag of a TSDL variant.
    pub is_enum: bool,
    /// Whether it is a TSDL integer with `encoding`: an array of these is text.
    pub text: bool,
    /// Meaning for the reader.
    pub roles: Vec<Role>,
    /// Clock that the value updates: an index into [`TraceClass::clocks`].
    pub clock: Option<usize>,
}

/// A LEB128 integer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VarInt {
    /// Whether it is in two's complement.
    pub signed: bool,
    /// Preferred base.
    pub base: Base,
    /// Labels.
    pub mappings: Option<Arc<Mappings>>,
    /// Meaning for the reader.
    pub roles: Vec<Role>,
}

/// The location of another field, as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// Scope in which the path starts. None: near the field itself.
    pub origin: Option<Scope>,
    /// Names from there; `None` is the parent structure (CTF 2).
    pub path: Vec<Option<String>>,
    /// Line of the metadata (0 if unknown), for messages.
    pub line: usize,
}

/// A number of elements or bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// The same in every record.
    Fixed(u64),
    /// The value of an earlier unsigned integer field.
    Field(Location),
}

/// A named member of a structure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Name for display and look-ups: in TSDL without one leading `_`.
    pub name: String,
    /// Name as the metadata has it.
    pub raw_name: String,
    /// Class.
    pub class: FieldClass,
}

/// One choice of a variant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VariantOption {
    /// Name, empty if it has none.
    pub name: String,
    /// Name as the metadata has it.
    pub raw_name: String,
    /// Selector values. None in TSDL, where the option's name is the selector's label.
    pub ranges: Option<Vec<Range>>,
    /// Class.
    pub class: FieldClass,
}

/// Shape of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// Fixed number of bits.
    Bits(Bits),
    /// LEB128.
    VarInt(VarInt),
    /// Text up to a zero code unit.
    String(Encoding),
    /// Text in this many bytes. What follows a zero code unit is garbage. In TSDL the length counts 8-bit elements,
    /// which is the same.
    Text(Length, Encoding),
    /// This many raw bytes.
    Blob(Length),
    /// Members in order.
    Struct(Vec<Member>),
    /// Elements of one class.
    Array(Length, Box<FieldClass>),
    /// One of several classes, chosen by an earlier field.
    Variant(Option<Location>, Vec<VariantOption>),
    /// Present or absent, depending on an earlier field: a boolean, or an integer with ranges.
    Optional(Location, Option<Vec<Range>>, Box<FieldClass>),
}

/// Class of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldClass {
    /// Alignment, a power of two: the greatest of its own and (for structures and arrays) those of its parts.
    pub align: u64,
    /// Number of classes in this tree, itself included.
    pub weight: usize,
    /// Levels of this tree, itself included.
    pub depth: usize,
    /// For arrays with a role: the trace UUID in a TSDL packet header, or a BLOB in CTF 2.
    pub role: Option<Role>,
    /// Shape.
    pub kind: FieldKind,
}

impl FieldClass {
    /// Adds the names of all members in it.
    pub fn add_names(&self, names: &mut BTreeSet<String>) {
        match &self.kind {
            FieldKind::Struct(members) => members.iter().for_each(|member| {
                if !names.contains(&member.name) {
                    names.insert(member.name.clone());
                }
                member.class.add_names(names);
            }),
            FieldKind::Array(_, element) | FieldKind::Optional(_, _, element) => element.add_names(names),
            FieldKind::Variant(_, options) => options.iter().for_each(|option| option.class.add_names(names)),
            _ => {}
        }
    }

    /// A class whose alignment, weight and depth are computed from its parts.
    pub fn new(own_align: u64, kind: FieldKind) -> FieldClass {
        let (mut align, mut weight, mut depth) = (own_align.max(1), 1usize, 0usize);
        let mut add = |c: &FieldClass, aligns: bool| {
            if aligns {
                align = align.max(c.align);
            }
            weight = weight.saturating_add(c.weight);
            depth = depth.max(c.depth);
        };
        match &kind {
            FieldKind::Struct(m) => m.iter().for_each(|m| add(&m.class, true)),
            FieldKind::Array(_, e) => add(e, true),
            FieldKind::Variant(_, o) => o.iter().for_each(|o| add(&o.class, false)),
            FieldKind::Optional(_, _, c) => add(c, false),
            _ => {}
        }
        FieldClass { align, weight, depth: depth + 1, role: None, kind }
    }

    /// The members, if it is a structure.
    pub fn members(&self) -> Option<&[Member]> {
        match &self.kind {
            FieldKind::Struct(m) => Some(m),
            _ => None,
        }
    }

    /// Least number of bits of a field of this class, without alignment.
    pub fn least_bits(&self) -> u64 {
        match &self.kind {
            FieldKind::Bits(b) => u64::from(b.len),
            FieldKind::VarInt(_) => 8,
            FieldKind::String(e) => 8 * e.unit(),
            FieldKind::Text(Length::Fixed(n), _) | FieldKind::Blob(Length::Fixed(n)) => n.saturating_mul(8),
            FieldKind::Text(..)
            | FieldKind::Blob(_)
            | FieldKind::Array(Length::Field(_), _)
            | FieldKind::Optional(..) => 0,
            FieldKind::Array(Length::Fixed(n), e) => n.saturating_mul(e.least_bits()),
            FieldKind::Struct(m) => m.iter().fold(0, |s, m| s.saturating_add(m.class.least_bits())),
            FieldKind::Variant(_, o) => o.iter().map(|o| o.class.least_bits()).min().unwrap_or(0),
        }
    }
}

/// The six scopes of fields, in decoding order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "named as in the metadata")]
pub enum Scope {
    PacketHeader,
    PacketContext,
    EventHeader,
    CommonContext,
    SpecificContext,
    Payload,
}

impl Scope {
    /// Name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Scope::PacketHeader => "packet header",
            Scope::PacketContext => "packet context",
            Scope::EventHeader => "event header",
            Scope::CommonContext => "stream event context",
            Scope::SpecificContext => "event context",
            Scope::Payload => "event fields",
        }
    }
}

/// A value of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the metadata")]
pub enum EnvValue {
    Int(i128),
    Text(String),
}

impl EnvValue {
    /// The number, if it fits 64 bits without a sign.
    pub(crate) fn unsigned(&self) -> Option<u64> {
        match self {
            EnvValue::Int(v) => u64::try_from(*v).ok(),
            EnvValue::Text(_) => None,
        }
    }
}

/// The origin of a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// 1970-01-01T00:00:00Z.
    UnixEpoch,
    /// An instant that only clocks with the same key share.
    Other(String),
    /// Unknown: the clock is comparable with no other.
    Unknown,
}

/// Class of a clock.
#[derive(Clone, Debug)]
pub struct ClockClass {
    /// Key by which streams and fields refer to it.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// UUID or uid.
    pub uid: Option<String>,
    /// Text for people.
    pub description: String,
    /// Cycles a second, not 0.
    pub freq: u64,
    /// Uncertainty, cycles.
    pub precision: u64,
    /// Seconds from the origin at cycle 0.
    pub offset_s: i64,
    /// Cycles to add to that.
    pub offset: i128,
    /// Origin.
    pub origin: Origin,
}

/// Class of an event.
#[derive(Clone, Debug)]
pub struct EventClass {
    /// Id in its stream class.
    pub id: u64,
    /// Name, empty if it has none.
    pub name: String,
    /// Log level, if one was given.
    pub loglevel: Option<i64>,
    /// `model.emf.uri`.
    pub uri: Option<String>,
    /// Context of this event class. Event classes with equal contexts share one; payloads likewise.
    pub context: Option<Arc<FieldClass>>,
    /// Payload.
    pub fields: Option<Arc<FieldClass>>,
}

/// Class of a data stream.
#[derive(Clone, Debug)]
pub struct StreamClass {
    /// Id.
    pub id: u64,
    /// Name, empty if it has none.
    pub name: String,
    /// Default clock: an index into [`TraceClass::clocks`].
    pub clock: Option<usize>,
    /// Packet context.
    pub packet_context: Option<FieldClass>,
    /// Event header.
    pub event_header: Option<FieldClass>,
    /// Context of all its events.
    pub event_context: Option<FieldClass>,
    /// Classes of its events.
    pub events: Vec<EventClass>,
}

/// All contents of the metadata.
#[derive(Clone, Debug)]
pub struct TraceClass {
    /// 1 for TSDL, 2 for JSON.
    pub major: u32,
    /// UUID.
    pub uuid: Option<[u8; 16]>,
    /// CTF 2: namespace, name and uid joined; the identity of a trace without UUID.
    pub uid: Option<String>,
    /// Environment, in the order of the metadata.
    pub env: Vec<(String, EnvValue)>,
    /// Clocks.
    pub clocks: Vec<ClockClass>,
    /// Packet header.
    pub packet_header: Option<FieldClass>,
    /// Streams.
    pub streams: Vec<StreamClass>,
    /// What was skipped, or accepted although it is doubtful.
    pub warnings: Vec<String>,
}

impl TraceClass {
    /// A value of the environment.
    pub fn env(&self, key: &str) -> Option<&EnvValue> {
        self.env.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// A text of the environment.
    pub fn env_text(&self, key: &str) -> Option<&str> {
        match self.env(key) {
            Some(EnvValue::Text(s)) => Some(s),
            _ => None,
        }
    }

    /// An integer of the environment.
    pub fn env_int(&self, key: &str) -> Option<i128> {
        match self.env(key) {
            Some(EnvValue::Int(v)) => Some(*v),
            _ => None,
        }
    }
}
