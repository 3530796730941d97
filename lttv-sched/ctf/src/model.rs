//! What a trace's metadata says: classes of clocks, streams, events and fields.
//!
//! TSDL (CTF 1.8) and JSON (CTF 2) are both lowered to these types; nothing behind this module knows
//! which of the two a trace was written in, except through [`TraceClass::major`], which decides how
//! locations without an origin are searched.
//!
//! Sizes and alignments of fields are in bits unless a name says bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Deepest nesting of field classes that is accepted.
pub const MAX_DEPTH: usize = 64;
/// Most field classes that one trace may instantiate (a cap on what nested definitions unfold to).
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
    /// UTF-8, or ASCII, which is part of it.
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
    /// Names of the ranges that hold `v`; ranges may overlap.
    pub fn labels(&self, v: i128) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(_, r)| r.iter().any(|r| r.contains(v))).map(|(n, _)| n.as_str())
    }
}

/// What the value of an integer field means for the reader itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// 0xC1FC1FC1 at the start of a packet.
    PacketMagic,
    /// The trace's UUID (16 bytes) in a packet header.
    TraceUuid,
    /// Which stream class a packet belongs to.
    StreamClassId,
    /// Which stream of its class a packet belongs to.
    StreamId,
    /// Whole length of a packet, bits.
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
    /// Which class an event is of.
    EventId,
    /// Updates the stream's clock; a value shorter than 64 bits replaces the low bits.
    Clock,
}

/// What the bits of a fixed-length field are.
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

/// How a number is preferably shown.
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
    /// The bits are numbered against the byte order's custom (CTF 2 `bit-order`).
    pub reversed: bool,
    /// What they mean.
    pub kind: BitsKind,
    /// Preferred base.
    pub base: Base,
    /// Labels or flags.
    pub mappings: Option<Arc<Mappings>>,
    /// Declared as an enumeration: may be the tag of a TSDL variant.
    pub is_enum: bool,
    /// A TSDL integer with `encoding`: an array of these is text.
    pub text: bool,
    /// Meaning for the reader.
    pub roles: Vec<Role>,
    /// Clock that the value updates: an index into [`TraceClass::clocks`].
    pub clock: Option<usize>,
}

/// A LEB128 integer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VarInt {
    /// Two's complement?
    pub signed: bool,
    /// Preferred base.
    pub base: Base,
    /// Labels.
    pub mappings: Option<Arc<Mappings>>,
    /// Meaning for the reader.
    pub roles: Vec<Role>,
}

/// Where another field is found, as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// Scope in which the path starts; none: near the field itself.
    pub origin: Option<Scope>,
    /// Names from there; `None` is the parent structure (CTF 2).
    pub path: Vec<Option<String>>,
    /// Line of the metadata (0 if not known), for messages.
    pub line: usize,
}

/// A number of elements or bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// The same in every record.
    Fixed(u64),
    /// Held by an earlier unsigned integer field.
    Field(Location),
}

/// A named member of a structure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Name shown and looked up: TSDL's without its one leading `_`.
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
    /// Selector values; none in TSDL, where the selector's label is the name.
    pub ranges: Option<Vec<Range>>,
    /// Class.
    pub class: FieldClass,
}

/// Shape of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Fixed number of bits.
    Bits(Bits),
    /// LEB128.
    VarInt(VarInt),
    /// Text up to a zero code unit.
    String(Encoding),
    /// Text in so many bytes; what follows a zero code unit is garbage. In TSDL the length counts 8-bit elements, which is the same.
    Text(Length, Encoding),
    /// So many raw bytes.
    Blob(Length),
    /// Members in order.
    Struct(Vec<Member>),
    /// Elements of one class.
    Array(Length, Box<FieldClass>),
    /// One of several classes, chosen by an earlier field.
    Variant(Option<Location>, Vec<VariantOption>),
    /// There or not, chosen by an earlier field: boolean, or an integer with ranges.
    Optional(Location, Option<Vec<Range>>, Box<FieldClass>),
}

/// Class of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldClass {
    /// Alignment, a power of two: the greatest of its own and (structures, arrays) of its parts.
    pub align: u64,
    /// Number of classes in this tree, itself included.
    pub weight: usize,
    /// Levels of this tree, itself included.
    pub depth: usize,
    /// For arrays with a role: the trace UUID in a TSDL packet header, or a BLOB in CTF 2.
    pub role: Option<Role>,
    /// Shape.
    pub kind: Kind,
}

impl FieldClass {
    /// Adds the names of all members in it.
    pub fn add_names(&self, names: &mut BTreeSet<String>) {
        match &self.kind {
            Kind::Struct(members) => members.iter().for_each(|member| {
                if !names.contains(&member.name) {
                    names.insert(member.name.clone());
                }
                member.class.add_names(names);
            }),
            Kind::Array(_, element) | Kind::Optional(_, _, element) => element.add_names(names),
            Kind::Variant(_, options) => options.iter().for_each(|option| option.class.add_names(names)),
            _ => {}
        }
    }

    /// A class with its alignment, weight and depth worked out from its parts.
    pub fn new(own_align: u64, kind: Kind) -> FieldClass {
        let (mut align, mut weight, mut depth) = (own_align.max(1), 1usize, 0usize);
        let mut add = |c: &FieldClass, aligns: bool| {
            if aligns {
                align = align.max(c.align);
            }
            weight = weight.saturating_add(c.weight);
            depth = depth.max(c.depth);
        };
        match &kind {
            Kind::Struct(m) => m.iter().for_each(|m| add(&m.class, true)),
            Kind::Array(_, e) => add(e, true),
            Kind::Variant(_, o) => o.iter().for_each(|o| add(&o.class, false)),
            Kind::Optional(_, _, c) => add(c, false),
            _ => {}
        }
        FieldClass { align, weight, depth: depth + 1, role: None, kind }
    }

    /// The members, if it is a structure.
    pub fn members(&self) -> Option<&[Member]> {
        match &self.kind {
            Kind::Struct(m) => Some(m),
            _ => None,
        }
    }

    /// Least number of bits that a field of this class takes, alignment not counted.
    pub fn least_bits(&self) -> u64 {
        match &self.kind {
            Kind::Bits(b) => u64::from(b.len),
            Kind::VarInt(_) => 8,
            Kind::String(e) => 8 * e.unit(),
            Kind::Text(Length::Fixed(n), _) | Kind::Blob(Length::Fixed(n)) => n.saturating_mul(8),
            Kind::Text(..) | Kind::Blob(_) | Kind::Array(Length::Field(_), _) | Kind::Optional(..) => 0,
            Kind::Array(Length::Fixed(n), e) => n.saturating_mul(e.least_bits()),
            Kind::Struct(m) => m.iter().fold(0, |s, m| s.saturating_add(m.class.least_bits())),
            Kind::Variant(_, o) => o.iter().map(|o| o.class.least_bits()).min().unwrap_or(0),
        }
    }
}

/// The six places where fields stand, in decoding order.
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
    /// The number, if it is one of 64 bits without a sign.
    pub(crate) fn unsigned(&self) -> Option<u64> {
        match self {
            EnvValue::Int(v) => u64::try_from(*v).ok(),
            EnvValue::Text(_) => None,
        }
    }
}

/// Where a clock counts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// 1970-01-01T00:00:00Z.
    UnixEpoch,
    /// Some instant that only clocks with the same key share.
    Other(String),
    /// Not known: comparable with no other clock.
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
    /// Cycles more.
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
    /// Context of this event alone. Event classes of one shape share it, here and for the payload.
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

/// All that the metadata says.
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
    /// What was skipped or accepted with a doubt.
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
