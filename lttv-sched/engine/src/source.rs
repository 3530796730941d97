//! What the engine asks of a trace: its tracefiles, and a cursor on each.
//!
//! A [`Source`] is one open trace: a CTF directory, a profile's sample log, a synthetic trace for tests. It is shared and
//! read-only. A [`Cursor`] is one reading head on one tracefile; every context of the engine has cursors of its own, so that
//! no client moves the cursor of another. The engine never looks into a format: times, event ids and named fields are all.
//!
//! A source never changes while it is open. A file that is still being written is followed as a series of sources, each of
//! what had been written by then: a request bounded by times goes on when one takes the place of the other in a traceset.
//!
//! What a source owes:
//! - the order of events within a tracefile is fixed: the same for each cursor, and after each seek;
//! - [`Cursor::head`] is `Some` only when the whole event was checked to lie in the file, so that reading its fields cannot
//!   fail; what cannot be read ends the tracefile with one [`ReadError`], after the events before it were delivered;
//! - no clock, no thread, no blocking beyond reading files.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::describe::{ClockInfo, PacketInfo};
use crate::identity::TraceIdentity;
use crate::time::Time;

/// Index of an event class in [`TracefileInfo::classes`]. Unique within one channel name of one trace: all tracefiles with
/// the same [`TracefileInfo::channel`] use one table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId(pub u32);

impl EventId {
    /// As an index into the classes.
    #[inline]
    pub fn index(self) -> usize {
        // No table is as long as the greatest index where usize has fewer bits than u32.
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// What the merge needs to know of an event; nothing of it is decoded beyond this until a hook asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventHead {
    /// Time as recorded. May go back in damaged data: the engine then orders by the greatest time so far.
    pub ts: Time,
    /// Class of the event.
    pub id: EventId,
    /// CPU on which it happened, [`EventHead::NO_CPU`] when unknown.
    pub cpu: u32,
}

impl EventHead {
    /// Stands for an unknown CPU.
    pub const NO_CPU: u32 = u32::MAX;
}

/// Where a cursor stands, in the source's own terms (packet, bit offset, clock value...). Plain data: it can be copied, kept
/// in a file and compared. Lexicographic order of the four words must be the order of the events within the tracefile, and
/// two cursors on the same event must give equal values however they came there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CursorPos(pub [u64; 4]);

/// One kind of event of a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventClass {
    /// Name of the event, e.g. `sched_switch`.
    pub name: Arc<str>,
    /// The id that the format uses for it (0 when it has none).
    pub native_id: u64,
    /// Log level where the producer gives one.
    pub log_level: Option<i64>,
}

impl EventClass {
    /// A class with a name and nothing else.
    pub fn named(name: &str) -> EventClass {
        EventClass { name: name.into(), native_id: 0, log_level: None }
    }
}

/// One time-ordered sequence of events of a trace.
#[derive(Clone, Debug)]
pub struct TracefileInfo {
    /// Name of the channel; tracefiles of one channel (one for each CPU, say) share it.
    pub channel: Arc<str>,
    /// Name for people that tells this tracefile from others: usually the file name.
    pub name: Arc<str>,
    /// The CPU of all events of this tracefile, when there is one.
    pub cpu: Option<u32>,
    /// Event classes by [`EventId`].
    pub classes: Arc<[EventClass]>,
}

impl TracefileInfo {
    /// Name of an event class; `?` for an id outside the table.
    pub fn class_name(&self, id: EventId) -> &str {
        self.classes.get(id.index()).map_or("?", |class| &class.name)
    }
}

/// Events known to be lost, as a range of time in one tracefile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// Index of the tracefile in its trace.
    pub tracefile: usize,
    /// Begin of the range.
    pub from: Time,
    /// End of the range.
    pub to: Time,
    /// What was lost.
    pub kind: LossKind,
    /// How many; absent when the producer's counter does not tell.
    pub count: Option<u64>,
}

/// What a [`Loss`] counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossKind {
    /// Single events that the tracer had no room for.
    Events,
    /// Whole packets.
    Packets,
}

/// Why a tracefile could not be read further, or a warning of the source: which file, where, what was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError {
    /// File, when there is one.
    pub file: Option<PathBuf>,
    /// Byte offset in the file.
    pub at: Option<u64>,
    /// What was expected and what was found.
    pub what: String,
}

impl ReadError {
    /// An error without a place.
    pub fn new(what: impl Into<String>) -> ReadError {
        ReadError { file: None, at: None, what: what.into() }
    }

    /// An error at a byte of a file.
    pub fn at(file: impl Into<PathBuf>, at: u64, what: impl Into<String>) -> ReadError {
        ReadError { file: Some(file.into()), at: Some(at), what: what.into() }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(at) = self.at {
            write!(f, "byte {at}: ")?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for ReadError {}

/// The part of an event in which a field stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// The fields that the instrumented program or kernel gave.
    Payload,
    /// Context of this kind of event.
    EventContext,
    /// Context of all events of the stream (process, thread, counters).
    StreamContext,
    /// Header of the event.
    EventHeader,
    /// Context of the packet in which the event lies.
    PacketContext,
    /// Header of that packet.
    PacketHeader,
}

impl Scope {
    /// The scopes in which a name is looked up when none is given, first to last.
    pub const SEARCH: [Scope; 4] =
        [Scope::Payload, Scope::EventContext, Scope::StreamContext, Scope::PacketContext];
}

/// Value of a field that is not a structure or an array.
#[derive(Clone, PartialEq, Debug)]
pub enum Value<'a> {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// A floating-point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Text; borrowed when the bytes in the file are valid UTF-8.
    Text(Cow<'a, str>),
    /// Bytes without a known meaning.
    Bytes(Cow<'a, [u8]>),
    /// An integer with the labels that its type gives to its value (none when it is outside every range).
    Enum {
        /// The number itself.
        value: i128,
        /// The first of its labels.
        label: Option<&'a str>,
    },
}

impl Value<'_> {
    /// The number as `i64`: integers and enumerations in range, truth values as 0 and 1; else absent.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Unsigned(n) => i64::try_from(*n).ok(),
            Value::Signed(n) => Some(*n),
            Value::Bool(b) => Some(i64::from(*b)),
            Value::Enum { value, .. } => i64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The number as `u64`: integers and enumerations that are not negative, truth values; else absent.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Unsigned(n) => Some(*n),
            Value::Signed(n) => u64::try_from(*n).ok(),
            Value::Bool(b) => Some(u64::from(*b)),
            Value::Enum { value, .. } => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The number as `f64`, rounded where it must be.
    #[expect(clippy::cast_precision_loss, reason = "said in the doc")]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Float(x) => Some(*x),
            Value::Unsigned(n) => Some(*n as f64),
            Value::Signed(n) => Some(*n as f64),
            Value::Enum { value, .. } => Some(*value as f64),
            Value::Bool(b) => Some(f64::from(u8::from(*b))),
            _ => None,
        }
    }

    /// The text, or the label of an enumeration.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::Enum { label, .. } => *label,
            _ => None,
        }
    }

    /// The same value, owning its bytes and without the label of an enumeration.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Unsigned(n) => Value::Unsigned(n),
            Value::Signed(n) => Value::Signed(n),
            Value::Float(x) => Value::Float(x),
            Value::Bool(b) => Value::Bool(b),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Value::Enum { value, .. } => Value::Enum { value, label: None },
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unsigned(n) => n.fmt(f),
            Value::Signed(n) => n.fmt(f),
            Value::Float(x) => x.fmt(f),
            Value::Bool(b) => b.fmt(f),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Value::Enum { value, label: Some(label) } => write!(f, "{label:?} : {value}"),
            Value::Enum { value, label: None } => write!(f, "<unknown> : {value}"),
        }
    }
}

/// A field that has parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compound {
    /// Named members.
    Struct,
    /// Elements without names, this many.
    Array(usize),
}

/// Sees the fields of an event in order. Elements of arrays have an empty name.
pub trait FieldVisitor {
    /// A field with a value.
    fn value(&mut self, name: &str, value: Value<'_>);
    /// A structure or array begins; its parts follow, then [`FieldVisitor::end`].
    fn begin(&mut self, name: &str, compound: Compound);
    /// The structure or array begun last is complete.
    fn end(&mut self);
}

/// Which events [`Cursor::pass`] may step over.
#[derive(Clone, Copy, Debug)]
pub struct Quiet<'a> {
    /// By event id: somebody wants to see these events.
    pub wanted: &'a [bool],
    /// Whether somebody wants events whose ids are not in `wanted`.
    pub others_wanted: bool,
    /// No event later than this is stepped over, but for the first.
    pub upto: Time,
    /// So many events at most, at least 1.
    pub most: u64,
}

impl Quiet<'_> {
    /// Whether an event may be stepped over when so much was already.
    #[inline]
    fn covers(&self, head: &EventHead, passed: &Passed) -> bool {
        let wanted = self.wanted.get(head.id.index()).copied().unwrap_or(self.others_wanted);
        !wanted && head.ts >= passed.last && head.ts <= self.upto && passed.count < self.most
    }
}

/// What [`Cursor::pass`] stepped over so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// Events.
    pub count: u64,
    /// Time of the last of them in the order; before the first, the time from which the order goes on.
    pub last: Time,
}

/// A reading head on one tracefile. Made by [`Source::cursor`], unpositioned: the first call is a seek.
///
/// Errors end the tracefile: after one, `head` is `None` until the next seek, which meets the error again at the same place.
pub trait Cursor: Send {
    /// The event that the cursor stands on; `None` past the last one.
    fn head(&self) -> Option<EventHead>;

    /// Steps to the next event and gives the new head. Past the end it stays there.
    ///
    /// # Errors
    /// What follows cannot be read; the cursor is past the end then.
    fn advance(&mut self) -> Result<Option<EventHead>, ReadError>;

    /// Steps over the current event and over those after it that `quiet` covers, as long as times do not go back; gives the
    /// head that it stands on then. There is no reason to write this anew for a source: the steps are those of its own
    /// [`Cursor::advance`], without a dynamic call for each.
    ///
    /// # Errors
    /// As for [`Cursor::advance`]. `passed` has what came before.
    fn pass(&mut self, quiet: &Quiet<'_>, passed: &mut Passed) -> Result<Option<EventHead>, ReadError> {
        let mut time = passed.last;
        loop {
            // Kept up to date at each step: should reading fail in the middle, what was done counts.
            *passed = Passed { count: passed.count + 1, last: time };
            match self.advance()? {
                Some(head) if quiet.covers(&head, passed) => time = head.ts,
                head => return Ok(head),
            }
        }
    }

    /// Goes to the first event, in file order, whose recorded time is `>= t` (`Time::MIN`: the very first event). Where times
    /// go back in the file, "first" still means file order. Cost: packets before it are not decoded.
    ///
    /// # Errors
    /// An unreadable place comes before that event; the cursor is past the end then.
    fn seek_time(&mut self, t: Time) -> Result<Option<EventHead>, ReadError>;

    /// Goes back to where [`Cursor::pos`] was taken, on any cursor of the same tracefile.
    ///
    /// # Errors
    /// The position cannot be of this tracefile, or what is there cannot be read; the cursor is past the end then.
    fn seek(&mut self, pos: CursorPos) -> Result<Option<EventHead>, ReadError>;

    /// Where the cursor stands. Past the end: a position greater than those of all events.
    fn pos(&self) -> CursorPos;

    /// A field of the current event by name, in the first scope of [`Scope::SEARCH`] that has it. Structures and arrays have
    /// no value; their members are reached by a dotted name (`ctx.pid`), elements by their index (`ips.0`), where the source
    /// supports it.
    fn field(&self, name: &str) -> Option<Value<'_>> {
        Scope::SEARCH.iter().find_map(|scope| self.field_in(*scope, name))
    }

    /// A field of the current event by name, in one scope.
    fn field_in(&self, scope: Scope, name: &str) -> Option<Value<'_>>;

    /// Shows all fields of one scope of the current event, in order.
    fn visit(&self, scope: Scope, visitor: &mut dyn FieldVisitor);

    /// Appends one scope of the current event as text in the way that is usual for the format (number bases, labels of
    /// enumerations); nothing when the event has no such scope. None, and nothing appended: the format has no such way, its
    /// fields are shown by [`Cursor::visit`].
    fn text(&self, _scope: Scope, _out: &mut String) -> Option<()> {
        None
    }

    /// How many packets this cursor has opened so far, for tests of the cost of seeks. 0 where there are no packets.
    fn packets_decoded(&self) -> u64 {
        0
    }
}

/// An open trace.
pub trait Source: Send + Sync {
    /// What makes it the same trace as another path to it.
    fn identity(&self) -> &TraceIdentity;

    /// Its tracefiles. The order is part of the merge order and must be the same each time the trace is opened.
    fn tracefiles(&self) -> &[TracefileInfo];

    /// A new cursor on a tracefile, not yet positioned. `tracefile` is an index of [`Source::tracefiles`].
    ///
    /// # Errors
    /// The file cannot be opened.
    fn cursor(&self, tracefile: usize) -> Result<Box<dyn Cursor>, ReadError>;

    /// Least start and greatest end of the tracefiles; absent when there is no timed event.
    fn time_span(&self) -> Option<(Time, Time)>;

    /// What is known to be lost, without reading events.
    fn losses(&self) -> Vec<Loss> {
        Vec::new()
    }

    /// Warnings met when the trace was opened.
    fn warnings(&self) -> Vec<ReadError> {
        Vec::new()
    }

    /// Bytes that differ whenever the content of the trace does, for files in which something computed from it is kept
    /// ([`crate::engine::Engine::export_states`]). None when that cannot be told.
    fn content_key(&self) -> Option<Vec<u8>> {
        None
    }

    /// Properties of the trace by name (environment of the tracer, host name...), for people to look at.
    fn properties(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Its clocks, for people to look at.
    fn clocks(&self) -> Vec<ClockInfo> {
        Vec::new()
    }

    /// The packets of a tracefile in their order, for people to look at; none where there are no packets.
    fn packets(&self, _tracefile: usize) -> Vec<PacketInfo> {
        Vec::new()
    }

    /// Shows the fields of the context of a packet, an index of [`Source::packets`].
    ///
    /// # Errors
    /// What is there cannot be read.
    fn visit_packet(
        &self,
        _tracefile: usize,
        _packet: usize,
        _visitor: &mut dyn FieldVisitor,
    ) -> Result<(), ReadError> {
        Ok(())
    }

    /// Names of all fields that its events may have, members of structures among them, so that a question about a field that
    /// no event has can be refused. None when that cannot be told.
    fn field_names(&self) -> Option<BTreeSet<String>> {
        None
    }
}
