//! A chunk: a head, events, and among them the metadata and the constants.
//!
//! ```text
//! "FLR\0" | version 2+2 | size 8 | place of the last constants 8 | place of the metadata 8 | start, ns since 1970, 8
//!         | duration 8 | start, ticks, 8 | ticks a second 8 | 0 if it was ended 1 | 1 | features 2 | events
//! ```
//!
//! An event has its size and the id of its type in front; type 0 is the metadata and type 1 has constants. All is of
//! one chunk alone. There is no specification: what is here is what the recordings of JDK 17 and 25 have, and what the
//! JDK's `jfr print` says of them.

use super::fields::Fields;
use super::types::{Classes, Measure};
use super::values::{Value, Values};
use crate::import::problem::Problem;
use rustc_hash::FxHashMap;

const HEAD: usize = 68;
const METADATA: i64 = 0;
const CONSTANTS: i64 = 1;
/// Whole numbers have as many octets as they need.
const PACKED: i64 = 1;

/// An event: its type, and where its fields begin.
#[derive(Clone, Copy)]
pub(super) struct Event {
    pub(super) class: i64,
    pub(super) at: usize,
    end: usize,
}

pub(super) struct Chunk<'a> {
    bytes: &'a [u8],
    packed: bool,
    start_ns: i64,
    start_ticks: i64,
    ticks_per_second: i64,
    pub(super) classes: Classes,
    text: i64,
    pub(super) events: Vec<Event>,
    /// Where constants are, by type and key.
    constants: FxHashMap<(i64, i64), usize>,
    /// What could not be read.
    pub(super) notes: Vec<String>,
}

impl<'a> Chunk<'a> {
    /// Reads the chunk at the beginning of `bytes`, and returns what is behind it. `place`: where it is in the file.
    pub(super) fn read(bytes: &'a [u8], place: usize) -> Result<(Self, &'a [u8]), Problem> {
        let problem = |at: usize, problem: &str| Problem {
            place: format!("octet {}", place + at),
            problem: problem.into(),
        };
        let mut head = Fields::new(bytes, 4, false);
        let mut word =
            |octets| head.number(octets).ok_or_else(|| problem(bytes.len(), "a head is cut short"));
        let (major, _minor, size) = (word(2)?, word(2)?, word(8)?);
        let (_constants, metadata, start_ns, _duration) = (word(8)?, word(8)?, word(8)?, word(8)?);
        let (start_ticks, ticks_per_second) = (word(8)?, word(8)?);
        let (state, _, features) = (word(1)?, word(1)?, word(2)?);
        if !(1..=2).contains(&major) {
            return Err(problem(
                4,
                &format!("version {major} of Flight Recorder's files; 1 and 2 can be read"),
            ));
        }
        // A recording that was not ended has no size yet.
        let size = usize::try_from(size).ok().filter(|size| *size >= HEAD).unwrap_or(bytes.len());
        let mut notes = Vec::new();
        if state != 0 {
            notes.push("the recording was not ended: what the JVM had not written yet is missing".to_owned());
        }
        if size > bytes.len() {
            let missing = size - bytes.len();
            notes.push(format!(
                "octet {}: the file ends here, {missing} octets are missing",
                place + bytes.len()
            ));
        }
        let (bytes, behind) = bytes.split_at(size.min(bytes.len()));
        let packed = features & PACKED != 0;
        let mut events = Vec::new();
        let mut at = HEAD;
        while at < bytes.len() {
            let mut o = Fields::new(bytes, at, packed);
            let size = o.number(4).and_then(|size| usize::try_from(size).ok());
            let end =
                size.and_then(|size| at.checked_add(size)).filter(|end| *end > at && *end <= bytes.len());
            let (Some(end), Some(class)) = (end, o.long()) else {
                notes.push(format!("octet {}: no event; what is before it was read", place + at));
                break;
            };
            events.push(Event { class, at: o.at, end });
            at = end;
        }
        // The head names the last metadata, if the recording was ended.
        let ended = usize::try_from(metadata).ok();
        let of_metadata = events.iter().filter(|event| event.class == METADATA);
        let named =
            of_metadata.clone().find(|event| ended.is_some_and(|at| at < event.at && event.at <= at + 16));
        let described = named.or_else(|| of_metadata.clone().next_back());
        let classes =
            described.and_then(|event| Classes::read(Fields::new(&bytes[..event.end], event.at, packed)));
        let Some(classes) = classes else {
            let why = if state == 0 { "" } else { ": it was not ended" };
            return Err(problem(0, &format!("a chunk without a readable description of its events{why}")));
        };
        let text = classes.id_of("java.lang.String").unwrap_or(-1);
        let mut chunk = Chunk {
            bytes,
            packed,
            start_ns,
            start_ticks,
            ticks_per_second: ticks_per_second.max(1),
            classes,
            text,
            events,
            constants: FxHashMap::default(),
            notes,
        };
        chunk.index_constants(place);
        Ok((chunk, behind))
    }

    fn index_constants(&mut self, place: usize) {
        let mut constants = FxHashMap::default();
        let mut notes = Vec::new();
        for event in self.events.iter().filter(|event| event.class == CONSTANTS) {
            if self.constants_of(event, &mut constants).is_none() {
                notes.push(format!("octet {}: constants that cannot be read", place + event.at));
            }
        }
        self.constants = constants;
        self.notes.extend(notes);
    }

    fn constants_of(&self, event: &Event, constants: &mut FxHashMap<(i64, i64), usize>) -> Option<()> {
        let mut o = self.fields(event);
        // Start, duration, where those before it are, and of which kind they are.
        for _ in 0..3 {
            o.long()?;
        }
        o.octet()?;
        for _ in 0..o.count()? {
            let class = o.long()?;
            for _ in 0..o.count()? {
                let key = o.long()?;
                let at = o.at;
                self.values().next(&mut o, class, 0)?;
                constants.entry((class, key)).or_insert(at);
            }
        }
        Some(())
    }

    /// The contents of an event.
    fn fields(&self, event: &Event) -> Fields<'a> {
        Fields::new(&self.bytes[..event.end], event.at, self.packed)
    }

    pub(super) fn values(&self) -> Values<'_> {
        Values { classes: &self.classes, text: self.text }
    }

    /// What stands in a field of an event; a constant as its key.
    pub(super) fn key(&self, event: &Event, field: &str) -> Option<Value> {
        self.values().field(self.fields(event), event.class, field).map(|(value, _)| value)
    }

    /// What stands in a field of an event, and in what it is measured.
    pub(super) fn measured(&self, event: &Event, field: &str) -> Option<f64> {
        let (Value::Number(number), field) = self.values().field(self.fields(event), event.class, field)?
        else {
            return None;
        };
        let number = number as f64;
        Some(match field.measure {
            Some(Measure::Ticks) => number * 1e9 / self.ticks_per_second as f64,
            Some(Measure::Microseconds) => number * 1e3,
            Some(Measure::Milliseconds) => number * 1e6,
            Some(Measure::Seconds) => number * 1e9,
            Some(Measure::Nanoseconds | Measure::Bytes) | None => number,
        })
    }

    /// Nanoseconds since 1970 of a time in ticks.
    pub(super) fn time_ns(&self, ticks: i64) -> i128 {
        let since = (i128::from(ticks) - i128::from(self.start_ticks)) * 1_000_000_000;
        i128::from(self.start_ns) + since / i128::from(self.ticks_per_second)
    }

    /// A field of a value; where it is a constant, that.
    pub(super) fn inside(&self, value: &Value, field: &str) -> Option<Value> {
        let (class, at) = self.place(value)?;
        let (found, _) = self.values().field(Fields::new(self.bytes, at, self.packed), class, field)?;
        Some(found)
    }

    /// Type and place of a value that has fields.
    fn place(&self, value: &Value) -> Option<(i64, usize)> {
        match *value {
            Value::Constant { class, key } => Some((class, *self.constants.get(&(class, key))?)),
            Value::Inside { class, at } => Some((class, at)),
            _ => None,
        }
    }

    /// The text that a value is or has: the only field of a symbol, or a constant of texts.
    pub(super) fn text(&self, value: &Value) -> Option<String> {
        let mut value = value.clone();
        for _ in 0..4 {
            value = match value {
                Value::Text(text) => return Some(text),
                Value::Constant { class, .. } if class == self.text => {
                    let (class, at) = self.place(&value)?;
                    self.values().next(&mut Fields::new(self.bytes, at, self.packed), class, 0)?
                }
                Value::Constant { .. } | Value::Inside { .. } => {
                    self.inside(&value, "string").or_else(|| self.inside(&value, "description"))?
                }
                _ => return None,
            };
        }
        None
    }

    /// The elements of an array.
    pub(super) fn elements(&self, array: &Value) -> Vec<Value> {
        let Value::Array { class, is_constant, count, at } = *array else { return Vec::new() };
        let mut o = Fields::new(self.bytes, at, self.packed);
        (0..count).map_while(|_| self.values().next_element(&mut o, class, is_constant, 0)).collect()
    }
}
