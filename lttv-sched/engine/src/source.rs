//! What a trace provides to the engine: its tracefiles, and a cursor on each.
//!
//! A [`Source`] is one open trace: a CTF directory, a profile's sample log, a synthetic trace for tests. It
//! is shared and read-only. A [`Cursor`] is one reading position in one tracefile. Every context of the engine
//! has cursors of its own, so no client moves the cursor of another. The engine knows no format, only times, event ids
//! and named fields.
//!
//! A source never changes while it is open. A file that is still being written is followed as a series of
//! sources, each with what had been written by then. When one replaces the other in a traceset, a request bounded by
//! times goes on.
//!
//! What a source must guarantee:
//! - the order of events within a tracefile is fixed: the same for each cursor, and after each seek;
//! - [`Cursor::head`] is `Some` only if the whole event was checked to be in the file, so that reading its
//!   fields cannot fail. An unreadable part ends the tracefile with one [`ReadError`], after the events before it were
//!   delivered;
//! - no clock, no thread, no blocking beyond reading files.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::describe::{ClockInfo, PacketInfo};
use crate::identity::TraceIdentity;
use crate::time::Time;

/// Index of an event class in [`TracefileInfo::classes`]. Unique within one channel name of one trace: all
/// tracefiles with the same [`TracefileInfo::channel`] use one table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventId(pub u32);

impl EventId {
    /// As an index into the classes.
    #[inline]
    pub fn index(self) -> usize {
        // If usize has fewer bits than u32, no table is as long as the greatest index.
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// What the merge needs of an event. Nothing else is decoded until a hook asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventHead {
    /// Time as recorded. May go back in damaged data. The engine then orders by the greatest time so far.
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

/// The position of a cursor, in the source's own terms (packet, bit offset, clock value...). Plain data: it can
/// be copied, stored in a file and compared. The lexicographic order of the four words must be the order of the
/// events within the tracefile, and two cursors at the same event must give equal values, however they got there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CursorPos(pub [u64; 4]);

/// One kind of event of a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventClass {
    /// Name of the event, e.g. `sched_switch`.
    pub name: Arc<str>,
    /// The format's own id for it (0 if it has none).
    pub native_id: u64,
    /// Log level, if the producer gives one.
    pub log_level: Option<i64>,
}

impl EventClass {
    /// A class that has only a name.
    pub fn named(name: &str) -> EventClass {
        EventClass { name: name.into(), native_id: 0, log_level: None }
    }
}

/// One time-ordered sequence of events of a trace.
#[derive(Clone, Debug)]
pub struct TracefileInfo {
    /// Name of the channel; tracefiles of one channel (one for each CPU, say) share it.
    pub channel: Arc<str>,
    /// Name for people that distinguishes this tracefile from others: usually the file name.
    pub name: Arc<str>,
    /// The CPU of all events of this tracefile, if they share one.
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
    /// Number of lost events or packets; absent if the producer's counter does not give it.
    pub count: Option<u64>,
}

/// What a [`Loss`] counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossKind {
    /// Single events for which the tracer had no room.
    Events,
    /// Whole packets.
    Packets,
}

/// Why a tracefile could not be read further, or a warning of the source: which file, at which byte, what was wrong.
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
    /// An error without a position.
    pub fn new(what: impl Into<String>) -> ReadError {
        ReadError { file: None, at: None, what: what.into() }
    }

    /// An error at a byte of a file.
    pub fn at(file: impl Into<PathBuf>, at: u64, what: impl Into<String>) -> ReadError {
        ReadError { file: Some(file.into()), at: Some(at), what: what.into() }
    }

    /// The answer of [`Source::cursor`] to an index that is not below `count`, the number of tracefiles.
    pub fn no_tracefile(index: usize, count: usize) -> ReadError {
        ReadError::new(format!("no tracefile {index}, there are {count}"))
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

/// The part of an event that contains a field.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// The fields that the instrumented program or kernel wrote.
    Payload,
    /// Context of this kind of event.
    EventContext,
    /// Context of all events of the stream (process, thread, counters).
    StreamContext,
    /// Header of the event.
    EventHeader,
    /// Context of the event's packet.
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
    /// An integer with the labels that its type assigns to its value (none if it is outside all ranges).
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

/// Receives the fields of an event in order. Elements of arrays have an empty name.
pub trait FieldVisitor {
    /// A field with a value.
    fn value(&mut self, name: &str, value: Value<'_>);
    /// A structure or array begins. Its parts follow, then [`FieldVisitor::end`].
    fn begin(&mut self, name: &str, compound: Compound);
    /// The structure or array begun last is complete.
    fn end(&mut self);
}

/// Which events [`Cursor::pass`] may step over.
#[derive(Clone, Copy, Debug)]
pub struct Quiet<'a> {
    /// By event id: whether somebody wants these events.
    pub wanted: &'a [bool],
    /// Whether somebody wants events whose ids are not in `wanted`.
    pub others_wanted: bool,
    /// No event later than this is stepped over, except the first.
    pub upto: Time,
    /// At most this many events, at least 1.
    pub most: u64,
}

impl Quiet<'_> {
    /// Whether an event may be stepped over, after those in `passed`.
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
    /// Time of the last of them in the order. Before the first one: the time from which the order continues.
    pub last: Time,
}

/// A reading position in one tracefile. [`Source::cursor`] makes it without a position: the first call is a seek.
///
/// Errors end the tracefile: after one, `head` is `None` until the next seek, which meets the error again at
/// the same position.
pub trait Cursor: Send {
    /// The event at the cursor; `None` past the last one.
    fn head(&self) -> Option<EventHead>;

    /// Steps to the next event and returns the new head. Past the end it stays there.
    ///
    /// # Errors
    /// What follows cannot be read. The cursor is then past the end.
    fn advance(&mut self) -> Result<Option<EventHead>, ReadError>;

    /// Steps over the current event and over those after it that `quiet` covers, while times do not go back.
    /// Returns the head after that. A source need not write its own version: the steps are those of its own
    /// [`Cursor::advance`], without a dynamic call for each.
    ///
    /// # Errors
    /// Those of [`Cursor::advance`]. `passed` has what came before.
    fn pass(&mut self, quiet: &Quiet<'_>, passed: &mut Passed) -> Result<Option<EventHead>, ReadError> {
        let mut time = passed.last;
        loop {
            // Updated at each step: if reading fails in the middle, the steps before count.
            *passed = Passed { count: passed.count + 1, last: time };
            match self.advance()? {
                Some(head) if quiet.covers(&head, passed) => time = head.ts,
                head => return Ok(head),
            }
        }
    }

    /// Goes to the first event, in file order, whose recorded time is `>= t` (`Time::MIN`: the very first
    /// event). If times go back in the file, "first" still means file order. Packets before it are not decoded.
    ///
    /// # Errors
    /// An unreadable part comes before that event. The cursor is then past the end.
    fn seek_time(&mut self, t: Time) -> Result<Option<EventHead>, ReadError>;

    /// Goes back to a position from [`Cursor::pos`] of any cursor on the same tracefile.
    ///
    /// # Errors
    /// The position cannot be of this tracefile, or the data there cannot be read. The cursor is then past the end.
    fn seek(&mut self, pos: CursorPos) -> Result<Option<EventHead>, ReadError>;

    /// The cursor's position. Past the end: a position greater than those of all events.
    fn pos(&self) -> CursorPos;

    /// A field of the current event by name, in the first scope of [`Scope::SEARCH`] that has it. Structures
    /// and arrays have no value. If the source supports it, their members are reached by a dotted name (`ctx.pid`) and
    /// elements by their index (`ips.0`).
    fn field(&self, name: &str) -> Option<Value<'_>> {
        Scope::SEARCH.iter().find_map(|scope| self.field_in(*scope, name))
    }

    /// A field of the current event by name, in one scope.
    fn field_in(&self, scope: Scope, name: &str) -> Option<Value<'_>>;

    /// Shows all fields of one scope of the current event, in order.
    fn visit(&self, scope: Scope, visitor: &mut dyn FieldVisitor);

    /// Appends one scope of the current event as text in the usual form of the format (number bases, labels of
    /// enumerations); nothing if the event has no such scope. None, and nothing appended: the format has no such form,
    /// and [`Cursor::visit`] shows its fields.
    fn text(&self, _scope: Scope, _out: &mut String) -> Option<()> {
        None
    }

    /// Number of packets that this cursor has opened so far, for tests of the cost of seeks. 0 without packets.
    fn packets_decoded(&self) -> u64 {
        0
    }
}

/// An open trace.
pub trait Source: Send + Sync {
    /// Its identity, by which another path to the same trace is recognised.
    fn identity(&self) -> &TraceIdentity;

    /// Its tracefiles. Their order is part of the merge order and must be the same each time the trace is opened.
    fn tracefiles(&self) -> &[TracefileInfo];

    /// A new cursor on a tracefile, without a position. `tracefile` is an index of [`Source::tracefiles`].
    ///
    /// # Errors
    /// The file cannot be opened.
    fn cursor(&self, tracefile: usize) -> Result<Box<dyn Cursor>, ReadError>;

    /// Least start and greatest end of the tracefiles; absent when there is no timed event.
    fn time_span(&self) -> Option<(Time, Time)>;

    /// Known losses. No events are read for this.
    fn losses(&self) -> Vec<Loss> {
        Vec::new()
    }

    /// Warnings met when the trace was opened.
    fn warnings(&self) -> Vec<ReadError> {
        Vec::new()
    }

    /// Bytes that differ whenever the content of the trace differs, for files that store something computed from it
    /// ([`crate::engine::Engine::export_states`]). None if the source cannot tell.
    fn content_key(&self) -> Option<Vec<u8>> {
        None
    }

    /// Properties of the trace by name (environment of the tracer, host name...), for people.
    fn properties(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Its clocks, for people.
    fn clocks(&self) -> Vec<ClockInfo> {
        Vec::new()
    }

    /// The packets of a tracefile in their order, for people; none if there are no packets.
    fn packets(&self, _tracefile: usize) -> Vec<PacketInfo> {
        Vec::new()
    }

    /// Approximate number of bytes of events, as far as it is known without reading them. It only decides how
    /// traces share room. 0: unknown.
    fn event_bytes(&self) -> u64 {
        let packets = (0..self.tracefiles().len()).flat_map(|file| self.packets(file));
        packets.fold(0, |sum, packet| sum.saturating_add(packet.bytes))
    }

    /// Shows the fields of the context of a packet, an index of [`Source::packets`].
    ///
    /// # Errors
    /// The data there cannot be read.
    fn visit_packet(
        &self,
        _tracefile: usize,
        _packet: usize,
        _visitor: &mut dyn FieldVisitor,
    ) -> Result<(), ReadError> {
        Ok(())
    }

    /// Names of all fields that its events may have, members of structures included, so that a question
    /// about a field that no event has can be refused. None if the source cannot tell.
    fn field_names(&self) -> Option<BTreeSet<String>> {
        None
    }
}
