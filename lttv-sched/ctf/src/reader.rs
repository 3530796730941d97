//! A reading position in one stream.
//!
//! The reader is always at an event that was walked to its end, or past the last one. The walk finds id, time and
//! length. Fields are decoded into slots on request. One window of the current packet is in memory: the whole packet if
//! it is small, otherwise a part that moves with the events.
//!
//! Invariant: an event that was walked decodes without an error, because both are the same code.

use std::cell::RefCell;
use std::sync::Arc;

use crate::bits::index;
use crate::compiled::Compiled;
use crate::error::{Fault, ReadError};
use crate::exec::{Input, Nothing, State, Stop, run};
use crate::model::{FieldClass, Role, Scope};
use crate::packet::{StreamFile, WINDOW, error, head};
use crate::program::Program;
use crate::stream::Stream;
use crate::values::View;

/// What the readers of one trace share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) compiled: Compiled,
    pub(crate) files: Vec<StreamFile>,
    pub(crate) streams: Vec<Stream>,
}

/// Time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventTime {
    /// Nanoseconds from the clock's origin.
    Ns(i64),
    /// The stream has no clock.
    Untimed,
    /// The clock value does not fit 64 bits of nanoseconds.
    Overflow,
}

/// The event at which a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its time.
    pub time: EventTime,
    /// Index of its class in its stream class.
    pub class: u32,
}

/// The position of an event, for [`Reader::seek`]. Positions have the order of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Index of the packet in its stream.
    pub packet: u64,
    /// Bit of the packet at which the event starts.
    pub bit: u64,
    /// Clock value before it.
    pub clock: u64,
}

impl Position {
    /// Past the last event.
    pub const END: Position = Position { packet: u64::MAX, bit: u64::MAX, clock: u64::MAX };
}

/// The decoder's memory, and the slots of the scopes that were requested.
#[derive(Debug, Default)]
struct Decoded {
    state: State,
    /// Scopes that are up to date, one bit each.
    valid: u32,
    slots: [Vec<u64>; 6],
}

/// Bits of [`Decoded::valid`] that stay set within a packet.
const PACKET_SCOPES: u32 = 1 << Scope::PacketHeader as u32 | 1 << Scope::PacketContext as u32;

/// A reader of one stream.
pub struct Reader {
    of: Arc<Shared>,
    stream: usize,
    /// Index of the packet. The number of packets or more means past the end.
    packet: usize,
    /// Bytes of the window, and bytes from the packet's start to it.
    data: Vec<u8>,
    base: u64,
    /// Bits of the packet's content that are in the file.
    content: u64,
    /// CPU of the packet.
    cpu: Option<u64>,
    /// Bits of packet header and context, and the header alone.
    first: u64,
    header_bits: u64,
    /// Start of the event, of its four scopes and of the next event, in bits from the packet's start.
    start: u64,
    scopes: [u64; 4],
    end: u64,
    clock_before: u64,
    head: Option<Head>,
    decoded: RefCell<Decoded>,
    /// Bytes of packet header and context, kept while the window moves.
    packet_head: Vec<u8>,
    packets_opened: u64,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("stream", &self.stream)
            .field("at", &self.position())
            .finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn new(of: Arc<Shared>, stream: usize) -> Reader {
        let state = State::new(of.compiled.regs);
        Reader {
            of,
            stream,
            packet: usize::MAX,
            data: Vec::new(),
            base: 0,
            content: 0,
            cpu: None,
            first: 0,
            header_bits: 0,
            start: 0,
            scopes: [0; 4],
            end: 0,
            clock_before: 0,
            head: None,
            decoded: RefCell::new(Decoded { state, ..Decoded::default() }),
            packet_head: Vec::new(),
            packets_opened: 0,
        }
    }

    /// The event at which the reader is. None past the last one and before the first seek.
    #[inline]
    pub fn head(&self) -> Option<Head> {
        self.head
    }

    /// CPU of the current event: its own if the trace has it for each event, otherwise the stream's.
    pub fn event_cpu(&self) -> Option<u32> {
        if !self.says_cpu() {
            return self.cpu();
        }
        self.head?;
        u32::try_from(self.decoded.borrow().state.role(Role::Cpu)?).ok()
    }

    /// Whether events of this stream have their own CPU field.
    pub(crate) fn says_cpu(&self) -> bool {
        self.of.compiled.streams[self.of.streams[self.stream].class].event_cpu
    }

    /// CPU of the stream, if it has one.
    pub fn cpu(&self) -> Option<u32> {
        self.of.streams[self.stream].cpu
    }

    /// Class of the current event.
    pub fn class(&self) -> Option<&crate::model::EventClass> {
        let s = &self.of.compiled.class.streams[self.of.streams[self.stream].class];
        s.events.get(self.head?.class as usize)
    }

    /// Packets opened so far.
    pub fn packets_opened(&self) -> u64 {
        self.packets_opened
    }

    /// Current position.
    pub fn position(&self) -> Position {
        match self.head {
            Some(_) => Position { packet: self.packet as u64, bit: self.start, clock: self.clock_before },
            None => Position::END,
        }
    }

    /// Goes to the first event.
    ///
    /// # Errors
    /// The data there cannot be read.
    pub fn rewind(&mut self) -> Result<Option<Head>, ReadError> {
        self.open_and_settle(0)
    }

    /// Goes to the next event. Past the end it stays there.
    ///
    /// # Errors
    /// What follows cannot be read. The reader is then past the end.
    #[inline]
    pub fn advance(&mut self) -> Result<Option<Head>, ReadError> {
        match self.head {
            Some(_) => self.settle(self.end),
            None => Ok(None),
        }
    }

    /// Goes to the first event with a time of `t` (ns) or later. Events without a time come before all times.
    ///
    /// # Errors
    /// An unreadable part comes before that event. The reader is then past the end.
    pub fn seek_time(&mut self, t: i64) -> Result<Option<Head>, ReadError> {
        let s = &self.of.streams[self.stream];
        if t == i64::MIN {
            return self.rewind();
        }
        if self.of.compiled.streams[s.class].clock.is_none() {
            return Ok(self.finish());
        }
        let packet = s.packets.partition_point(|p| p.upto < t);
        let mut head = self.open_and_settle(packet)?;
        while let Some(Head { time: EventTime::Ns(ns), .. }) = head {
            if ns >= t {
                break;
            }
            head = self.settle(self.end)?;
        }
        Ok(head)
    }

    /// Goes back to a position of this stream.
    ///
    /// # Errors
    /// There is no such position, or the data there cannot be read. The reader is then past the end.
    pub fn seek(&mut self, p: Position) -> Result<Option<Head>, ReadError> {
        if p == Position::END {
            return Ok(self.finish());
        }
        let packet = usize::try_from(p.packet).unwrap_or(usize::MAX);
        if packet >= self.of.streams[self.stream].packets.len() {
            self.finish();
            return Err(self.misplaced(p));
        }
        if packet != self.packet || self.head.is_none() {
            self.open(packet)?;
        }
        if p.bit < self.first || p.bit >= self.content {
            self.finish();
            return Err(self.misplaced(p));
        }
        self.decoded.get_mut().state.clock = p.clock;
        if p.bit / 8 < self.base {
            self.refill(p.bit)?;
        }
        self.settle(p.bit)
    }

    fn misplaced(&self, p: Position) -> ReadError {
        let path = self.of.files.first().map(|f| f.path.clone()).unwrap_or_default();
        ReadError {
            path,
            packet: index(p.packet),
            packet_at: 0,
            at: p.bit / 8,
            fault: Fault::Io("no event of this stream is at this position".into()),
        }
    }

    fn finish(&mut self) -> Option<Head> {
        self.head = None;
        self.packet = usize::MAX;
        None
    }

    fn fail(&mut self, at: u64, fault: Fault) -> ReadError {
        let e = &self.of.streams[self.stream].packets[self.packet].extent;
        let error = error(&self.of.files[e.file as usize], e.number, e.at, e.at + at, fault);
        self.finish();
        error
    }

    /// Goes to the first event of a packet or later.
    /// Opens a packet to read its header and context. The reader is then at no event.
    ///
    /// # Errors
    /// The packet cannot be read.
    pub fn open_packet(&mut self, packet: usize) -> Result<(), ReadError> {
        if packet >= self.of.streams[self.stream].packets.len() {
            self.finish();
            return Ok(());
        }
        self.open(packet)
    }

    pub(crate) fn open_for_span(&mut self, packet: usize) -> Result<Option<Head>, ReadError> {
        self.open_and_settle(packet)
    }

    fn open_and_settle(&mut self, packet: usize) -> Result<Option<Head>, ReadError> {
        if packet >= self.of.streams[self.stream].packets.len() {
            return Ok(self.finish());
        }
        self.open(packet)?;
        self.settle(self.first)
    }

    /// Reads the head of a packet and as much of it as the window holds.
    fn open(&mut self, packet: usize) -> Result<(), ReadError> {
        let shared = self.of.clone();
        let s = &shared.streams[self.stream];
        self.packet = packet;
        self.head = None;
        let p = &s.packets[packet];
        if p.bad {
            self.finish();
            return Err(s.bad.clone().expect("a bad packet has its error"));
        }
        let (f, e) = (&shared.files[p.extent.file as usize], p.extent);
        let mut want = e.there.min(WINDOW);
        let bits = e.there.saturating_mul(8);
        let h = loop {
            if let Err(fault) = f.read(e.at, want, &mut self.data) {
                return Err(self.fail(0, fault));
            }
            match head(&shared.compiled, &self.data, bits, &mut self.decoded.get_mut().state) {
                Ok(h) => break h,
                Err(Stop::Short) if want < e.there => want = want.saturating_mul(4).min(e.there),
                Err(Stop::Short) => return Err(self.fail(0, Fault::PastContent)),
                Err(Stop::Fault(fault)) => return Err(self.fail(0, *fault)),
            }
        };
        self.packets_opened += 1;
        let size = e.size.saturating_mul(8);
        let content = h.content.unwrap_or(size);
        if h.stream != s.class {
            return Err(self.fail(0, Fault::StreamClass(shared.compiled.class.streams[h.stream].id)));
        }
        if content > size {
            return Err(self.fail(0, Fault::ContentSize { content, packet: size }));
        }
        if content < h.bits {
            return Err(self.fail(0, Fault::ShortContent { content, used: h.bits }));
        }
        self.base = 0;
        self.content = content.min(bits);
        self.cpu = h.cpu;
        self.first = h.bits;
        self.header_bits = h.header_bits;
        self.packet_head.clear();
        self.packet_head.extend_from_slice(&self.data[..index(h.bits.div_ceil(8))]);
        self.decoded.get_mut().valid = 0;
        Ok(())
    }

    /// Moves the window so that it starts at bit `x`, or makes it longer if it already does.
    fn refill(&mut self, x: u64) -> Result<(), ReadError> {
        let e = self.of.streams[self.stream].packets[self.packet].extent;
        let base = x / 8;
        let want = if base == self.base { (self.data.len() as u64).saturating_mul(2) } else { WINDOW };
        self.base = base;
        let read = self.of.files[e.file as usize].read(e.at + base, want.min(e.there - base), &mut self.data);
        read.map_err(|fault| self.fail(base, fault))
    }

    /// Moves to the event at bit `x`, or to the first one of a later packet if this one's content ends there.
    #[inline]
    fn settle(&mut self, mut x: u64) -> Result<Option<Head>, ReadError> {
        loop {
            while x >= self.content {
                if self.packet + 1 >= self.of.streams[self.stream].packets.len() {
                    return Ok(self.finish());
                }
                self.open(self.packet + 1)?;
                x = self.first;
            }
            self.start = x;
            self.clock_before = self.decoded.get_mut().state.clock;
            match self.walk(x) {
                Ok(head) => {
                    self.head = Some(head);
                    return Ok(self.head);
                }
                Err(Stop::Short) => {
                    self.decoded.get_mut().state.clock = self.clock_before;
                    self.refill(x)?;
                }
                Err(Stop::Fault(fault)) => {
                    let e = self.of.streams[self.stream].packets[self.packet].extent;
                    // In a packet that was cut, complete events are delivered; then the error follows.
                    if e.there < e.size && matches!(*fault, Fault::PastContent | Fault::SequenceLength { .. })
                    {
                        x = self.content;
                    } else {
                        return Err(self.fail(x / 8, *fault));
                    }
                }
            }
        }
    }

    /// Finds id, time and end of the event at bit `x`.
    #[inline]
    fn walk(&mut self, x: u64) -> Result<Head, Stop> {
        let stream = self.of.streams[self.stream].class;
        let class = &self.of.compiled.streams[stream];
        let decoded = self.decoded.get_mut();
        decoded.valid &= PACKET_SCOPES;
        let st = &mut decoded.state;
        let base = self.base * 8;
        let content = self.content - base;
        let inp = Input { data: &self.data, base, limit: (self.data.len() as u64 * 8).min(content), content };
        st.start_record();
        if class.event_cpu {
            st.set_role(Role::Cpu, self.cpu);
        }
        let start = x - base;
        let common = run(&class.event_header, &inp, start, st, &mut Nothing)?;
        let id = class.event(st.id).ok_or(Fault::EventClass(st.id))?;
        let event = self.of.compiled.event(stream, id as usize);
        let specific = run(&class.common, &inp, common, st, &mut Nothing)?;
        let payload = run(&event.specific, &inp, specific, st, &mut Nothing)?;
        let end = run(&event.payload, &inp, payload, st, &mut Nothing)?;
        if end == start {
            return Err(Fault::EmptyEvent.into());
        }
        self.scopes = [start + base, common + base, specific + base, payload + base];
        self.end = end + base;
        let time = match &class.clock {
            Some(c) => c.ns(st.clock).map_or(EventTime::Overflow, EventTime::Ns),
            None => EventTime::Untimed,
        };
        Ok(Head { time, class: id })
    }

    /// Calls `f` with the fields of one scope of the event (or its packet). None if the event has no such scope.
    pub fn with<R>(&self, scope: Scope, f: impl for<'s> FnOnce(View<'s, '_>) -> R) -> Option<R> {
        let (class, _) = self.scope(scope)?;
        self.decode(scope)?;
        let decoded = self.decoded.borrow();
        let data = match scope {
            Scope::PacketHeader | Scope::PacketContext => &self.packet_head,
            _ => &self.data,
        };
        Some(f(View::new(class, &decoded.slots[scope as usize], data)))
    }

    /// Like [`Reader::with`], for results that borrow texts from the reader.
    pub fn with_data<'d, R>(&'d self, scope: Scope, f: impl for<'s> FnOnce(View<'s, 'd>) -> R) -> Option<R> {
        let (class, _) = self.scope(scope)?;
        self.decode(scope)?;
        let decoded = self.decoded.borrow();
        let data: &'d [u8] = match scope {
            Scope::PacketHeader | Scope::PacketContext => &self.packet_head,
            _ => &self.data,
        };
        Some(f(View::new(class, &decoded.slots[scope as usize], data)))
    }

    /// Decodes all scopes of the event now, as a reader that shows every field would.
    pub fn decode_all(&self) {
        for scope in [Scope::CommonContext, Scope::SpecificContext, Scope::Payload] {
            self.decode(scope);
        }
    }

    fn scope(&self, scope: Scope) -> Option<(&FieldClass, &Program)> {
        let stream = &self.of.streams[self.stream];
        let i = stream.class;
        let (model, code) = (&self.of.compiled.class, &self.of.compiled);
        let (s, p) = (&model.streams[i], &code.streams[i]);
        // A packet has its context even without an event.
        let e = match (self.head, scope) {
            (Some(head), _) => head.class as usize,
            (None, Scope::PacketHeader | Scope::PacketContext) if self.packet < stream.packets.len() => 0,
            _ => return None,
        };
        let (class, program) = match scope {
            Scope::PacketHeader => (model.packet_header.as_ref(), &code.header),
            Scope::PacketContext => (s.packet_context.as_ref(), &p.packet_context),
            Scope::EventHeader => (s.event_header.as_ref(), &p.event_header),
            Scope::CommonContext => (s.event_context.as_ref(), &p.common),
            Scope::SpecificContext => (s.events[e].context.as_deref(), &code.event(i, e).specific),
            Scope::Payload => (s.events[e].fields.as_deref(), &code.event(i, e).payload),
        };
        class.map(|class| (class, program))
    }

    fn decode(&self, scope: Scope) -> Option<()> {
        let (_, program) = self.scope(scope)?;
        let mut guard = self.decoded.borrow_mut();
        let d = &mut *guard;
        if d.valid & 1 << scope as u32 != 0 {
            return Some(());
        }
        let (data, base, x, content) = match scope {
            Scope::PacketHeader => (&self.packet_head, 0, 0, self.first),
            Scope::PacketContext => (&self.packet_head, 0, self.header_bits, self.first),
            Scope::EventHeader => (&self.data, self.base * 8, self.scopes[0], self.content),
            Scope::CommonContext => (&self.data, self.base * 8, self.scopes[1], self.content),
            Scope::SpecificContext => (&self.data, self.base * 8, self.scopes[2], self.content),
            Scope::Payload => (&self.data, self.base * 8, self.scopes[3], self.content),
        };
        let content = content - base;
        let inp = Input { data, base, limit: (data.len() as u64 * 8).min(content), content };
        let slots = &mut d.slots[scope as usize];
        slots.clear();
        // Decoding advances the clock again. It must end where the walk left it.
        let (clock, id) = (d.state.clock, d.state.id);
        d.state.start_record();
        let done = run(program, &inp, x - base, &mut d.state, slots);
        (d.state.clock, d.state.id) = (clock, id);
        debug_assert!(done.is_ok(), "an event that was walked decodes: {done:?}");
        done.ok()?;
        d.valid |= 1 << scope as u32;
        Some(())
    }
}
