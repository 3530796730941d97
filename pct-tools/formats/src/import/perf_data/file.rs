//! Reads the octets of a perf.data file as records in order of time.
//!
//! ```text
//!  header (104 octets, 16 in a stream) | attributes | data: records | features (build-ids, ...)
//! ```
//!
//! Sources of the format: the perf.data document of the Linux kernel's perf tool, and perf_event_open(2) for
//! the contents of records. Only little-endian files are read.
//!
//! Why no crate: the existing one reserves memory by numbers of the file without checking them, and its errors have
//! no position.
//!
//! Invariant: each octet is read with a check, and no memory is reserved by a number of the file that is larger
//! than the file.

use super::{compressed, kernel};
use crate::import::problem::Problem;
use std::collections::HashMap;

/// Octets with a read position. Each read is checked.
#[derive(Clone, Copy)]
pub(super) struct Octets<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Octets<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Octets<'a> {
        Octets { bytes, at: 0 }
    }
    fn from(bytes: &'a [u8], at: u64) -> Option<Octets<'a>> {
        let at = usize::try_from(at).ok().filter(|at| *at <= bytes.len())?;
        Some(Octets { bytes, at })
    }
    pub(super) fn take_octets(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..)?.get(..n)?;
        self.at += n;
        Some(taken)
    }
    pub(super) fn skip(&mut self, n: u64) -> Option<()> {
        self.take_octets(usize::try_from(n).ok()?).map(drop)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take_octets(N)?.try_into().ok()
    }
    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    /// The remaining octets up to the first NUL.
    pub(super) fn text(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        rest.split(|b| *b == 0).next().unwrap_or_default()
    }
}

/// Bits of an attribute's sample format.
pub(super) mod bit {
    pub(in super::super) const IP: u64 = 1;
    pub(in super::super) const TID: u64 = 1 << 1;
    pub(in super::super) const TIME: u64 = 1 << 2;
    pub(in super::super) const ADDR: u64 = 1 << 3;
    pub(in super::super) const READ: u64 = 1 << 4;
    pub(in super::super) const CALLCHAIN: u64 = 1 << 5;
    pub(in super::super) const ID: u64 = 1 << 6;
    pub(in super::super) const CPU: u64 = 1 << 7;
    pub(in super::super) const PERIOD: u64 = 1 << 8;
    pub(in super::super) const STREAM_ID: u64 = 1 << 9;
    pub(in super::super) const RAW: u64 = 1 << 10;
    pub(in super::super) const BRANCH_STACK: u64 = 1 << 11;
    pub(in super::super) const REGS_USER: u64 = 1 << 12;
    pub(in super::super) const STACK_USER: u64 = 1 << 13;
    pub(in super::super) const IDENTIFIER: u64 = 1 << 16;
}

/// Kinds of records.
pub(super) mod kind {
    pub(in super::super) const MMAP: u32 = 1;
    pub(in super::super) const LOST: u32 = 2;
    pub(in super::super) const COMM: u32 = 3;
    pub(in super::super) const FORK: u32 = 7;
    pub(in super::super) const SAMPLE: u32 = 9;
    pub(in super::super) const MMAP2: u32 = 10;
    pub(in super::super) const LOST_SAMPLES: u32 = 13;
    /// Records from here on are written by the tool, not the kernel.
    pub(super) const TOOL: u32 = 64;
    pub(super) const HEADER_ATTR: u32 = 64;
    /// In a stream; descriptions of tracepoints follow it.
    pub(super) const HEADER_TRACING_DATA: u32 = 66;
    pub(super) const HEADER_BUILD_ID: u32 = 67;
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

/// A recorded event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attr {
    /// Kind of event: 1 = software.
    pub(super) kind: u32,
    /// Which event of the kind.
    pub(super) config: u64,
    /// Units of the event between samples, or samples per second if `by_frequency`.
    pub(super) period: u64,
    pub(super) by_frequency: bool,
    /// Which fields a sample has ([`bit`]).
    pub(super) format: u64,
    read_format: u64,
    branch_format: u64,
    /// Which registers a sample has, as a bit set of the kernel's numbers.
    pub(super) registers: u64,
    /// Records other than samples end with the fields that identify their process and time.
    all_have_ids: bool,
    ids: Vec<u64>,
}

impl Attr {
    /// Whether its unit is nanoseconds of CPU time.
    pub(super) fn is_clock(&self) -> bool {
        self.kind == 1 && self.config <= 1
    }

    fn parse(bytes: &[u8]) -> Option<Attr> {
        let mut o = Octets::new(bytes);
        let kind = o.u32()?;
        o.u32()?;
        let (config, period, format, read_format, flags) = (o.u64()?, o.u64()?, o.u64()?, o.u64()?, o.u64()?);
        Some(Attr {
            kind,
            config,
            period,
            by_frequency: flags >> 10 & 1 == 1,
            format,
            read_format,
            branch_format: o.skip(24).and_then(|()| o.u64()).unwrap_or(0),
            registers: o.u64().unwrap_or(0),
            all_have_ids: flags >> 18 & 1 == 1,
            ids: Vec::new(),
        })
    }

    /// Length in octets of the fields at the end of records other than samples.
    fn trailer(&self) -> usize {
        let fields = [bit::TID, bit::TIME, bit::ID, bit::STREAM_ID, bit::CPU, bit::IDENTIFIER];
        if self.all_have_ids { 8 * fields.iter().filter(|f| self.format & **f != 0).count() } else { 0 }
    }
}

/// One record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    /// See [`kind`].
    pub(super) kind: u32,
    /// Flags of the record.
    pub(super) misc: u16,
    /// Nanoseconds of the recorder's clock; 0 = unknown.
    pub(super) time: u64,
    /// Index of the event in [`PerfData::attrs`].
    pub(super) attr: usize,
    /// The octets after the record's head.
    pub(super) body: &'a [u8],
}

/// The fields of a sample. Fields that were not recorded are 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample<'a> {
    pub(super) ip: u64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) period: u64,
    /// Little-endian words. Numbers close to 2^64 give the kind of the words after them.
    pub(super) chain: &'a [u8],
    /// The program's registers, little-endian words, those of [`Attr::registers`] in ascending order.
    pub(super) registers: &'a [u8],
    /// The program's stack, beginning at its stack pointer.
    pub(super) stack: &'a [u8],
}

/// A parsed file.
#[derive(Default)]
pub(super) struct PerfData<'a> {
    pub(super) attrs: Vec<Attr>,
    /// In order of time.
    pub(super) records: Vec<Record<'a>>,
    /// Build-ids by path, as the recorder wrote them at its end.
    pub(super) build_ids: HashMap<&'a [u8], &'a [u8]>,
    /// Name and kernel release of the machine that was recorded.
    pub(super) machine: Option<(&'a [u8], &'a [u8])>,
    /// Names of the events, in the order of [`Self::attrs`], where the recorder wrote them.
    pub(super) event_names: Vec<&'a [u8]>,
    /// What could not be read, with its position.
    pub(super) notes: Vec<String>,
    /// The contents of compressed records (`perf record -z`), in order.
    compressed: Vec<&'a [u8]>,
}

impl<'a> PerfData<'a> {
    /// Reads a file or a stored stream (`perf record -o -`).
    pub(super) fn parse(bytes: &'a [u8]) -> Result<PerfData<'a>, Problem> {
        let cut = |at: usize, what: &str| Problem {
            place: format!("octet {at}"),
            problem: format!("{what} is cut short or leads out of the file of {} octets", bytes.len()),
        };
        if bytes.starts_with(b"2ELIFREP") {
            return Err(Problem {
                place: "octet 0".into(),
                problem: "written on a big-endian machine: not read".into(),
            });
        }
        let mut o = Octets::from(bytes, 8).ok_or_else(|| cut(0, "the header"))?;
        let size = o.u64().ok_or_else(|| cut(8, "the header"))?;
        let mut data = PerfData::default();
        if size == 16 {
            data.read_records(bytes, 16, bytes.len());
        } else {
            let mut word = || o.u64().ok_or_else(|| cut(16, "the header"));
            let attr_size = word()?;
            let (attrs, attrs_size) = (word()?, word()?);
            let (start, data_size) = (word()?, word()?);
            data.read_attrs(bytes, attr_size, attrs, attrs_size)
                .ok_or_else(|| cut(24, "the list of events"))?;
            let start = usize::try_from(start).ok().filter(|s| *s <= bytes.len());
            let start = start.ok_or_else(|| cut(40, "the data"))?;
            // A recorder that was killed leaves the size at 0. Then everything up to the end is read.
            let wanted = if data_size == 0 { u64::MAX } else { data_size };
            let end = usize::try_from(wanted).ok().and_then(|n| start.checked_add(n)).unwrap_or(usize::MAX);
            if end > bytes.len() {
                data.notes.push(format!(
                    "octet {}: the data ends here, {} octets are missing (cut short, or the recorder was killed)",
                    bytes.len(),
                    if data_size == 0 { "unknown".into() } else { (end - bytes.len()).to_string() }
                ));
            }
            data.read_records(bytes, start, end.min(bytes.len()));
            let mut features = Octets::from(bytes, 72).ok_or_else(|| cut(72, "the header"))?;
            let features = features.u64().unwrap_or(0);
            if end <= bytes.len() {
                data.read_features(bytes, end, features);
            }
        }
        if data.attrs.is_empty() {
            return Err(Problem { place: "octet 24".into(), problem: "no event in it".into() });
        }
        data.records.sort_by_key(|r| r.time);
        Ok(data)
    }

    /// Adds the records of another file of the same recording. `name` says in notes which.
    pub(super) fn add_file(&mut self, name: &str, records: &'a [u8]) {
        let before = self.notes.len();
        self.read_records(records, 0, records.len());
        for note in &mut self.notes[before..] {
            *note = format!("{name}: {note}");
        }
    }

    /// Unpacks the compressed records of the file that was read last.
    pub(super) fn unpack(&mut self) -> Vec<u8> {
        let pieces = std::mem::take(&mut self.compressed);
        let (octets, damage) = compressed::unpack(&pieces);
        self.notes.extend(damage);
        octets
    }

    /// Adds the records that [`PerfData::unpack`] returned.
    pub(super) fn add_unpacked(&mut self, octets: &'a [u8]) {
        self.read_records(octets, 0, octets.len());
        self.records.sort_by_key(|r| r.time);
    }

    fn read_attrs(&mut self, bytes: &[u8], attr_size: u64, at: u64, size: u64) -> Option<()> {
        let each = usize::try_from(attr_size).ok().filter(|n| (64..=4096).contains(n))?;
        let mut list = Octets::from(bytes, at)?;
        let list = list.take_octets(usize::try_from(size).ok()?)?;
        for entry in list.chunks_exact(each) {
            let (attr, ids) = entry.split_at(each - 16);
            let mut attr = Attr::parse(attr)?;
            let mut place = Octets::new(ids);
            let (at, size) = (place.u64()?, place.u64()?);
            let mut ids = Octets::from(bytes, at)?;
            attr.ids = words(ids.take_octets(usize::try_from(size).ok()?)?).collect();
            self.attrs.push(attr);
        }
        Some(())
    }

    fn read_records(&mut self, bytes: &'a [u8], start: usize, end: usize) {
        let mut at = start;
        let mut skipped: HashMap<&str, u64> = HashMap::new();
        let mut by_id = self.by_id();
        while at + 8 <= end {
            let mut head = Octets { bytes, at };
            let (Some(kind), Some(misc), Some(size)) = (head.u32(), head.u16(), head.u16()) else { break };
            let size = usize::from(size);
            let Some(body) = bytes.get(at + 8..at + size).filter(|_| at + size <= end) else {
                self.notes.push(format!("octet {at}: a record of {size} octets; what is before it was read"));
                break;
            };
            match kind {
                kind::HEADER_ATTR => {
                    if self.stream_attr(body).is_none() {
                        self.notes.push(format!("octet {at}: an event that cannot be read"));
                    }
                    by_id = self.by_id();
                }
                kind::HEADER_TRACING_DATA => {
                    // Filled up to whole words.
                    let follows = Octets::new(body).u32().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                    at = at.saturating_add(follows.next_multiple_of(8)).min(end);
                }
                kind::HEADER_BUILD_ID => drop(self.build_id(misc, body)),
                kind::COMPRESSED => self.compressed.push(body),
                kind::COMPRESSED2 => {
                    let mut o = Octets::new(body);
                    let size = o.u64().and_then(|n| usize::try_from(n).ok());
                    self.compressed.extend(size.and_then(|n| o.take_octets(n)));
                }
                kind::AUXTRACE => {
                    *skipped.entry("records of hardware traces").or_default() += 1;
                    // The trace data follows the record and is not a record itself.
                    let follows = Octets::new(body).u64().and_then(|n| usize::try_from(n).ok());
                    at = at.saturating_add(follows.unwrap_or(0)).min(end);
                }
                _ if kind >= kind::TOOL => {}
                _ => {
                    let record = Record { kind, misc, time: 0, attr: 0, body };
                    match self.identified(record, &by_id) {
                        Some(record) => self.records.push(record),
                        None => *skipped.entry("records that are too short").or_default() += 1,
                    }
                }
            }
            at += size;
        }
        let mut skipped: Vec<_> = skipped.into_iter().collect();
        skipped.sort_unstable();
        for (what, n) in skipped {
            self.notes.push(format!("{n} {what} left out"));
        }
    }

    fn by_id(&self) -> HashMap<u64, usize> {
        self.attrs.iter().enumerate().flat_map(|(n, a)| a.ids.iter().map(move |id| (*id, n))).collect()
    }

    fn stream_attr(&mut self, body: &[u8]) -> Option<()> {
        let mut attr = Attr::parse(body)?;
        let size = Octets { bytes: body, at: 4 }.u32()?;
        attr.ids = words(body.get(size as usize..)?).collect();
        self.attrs.push(attr);
        Some(())
    }

    /// Finds out which event and time a record has.
    fn identified(&self, mut record: Record<'a>, by_id: &HashMap<u64, usize>) -> Option<Record<'a>> {
        let first = self.attrs.first()?;
        let sample = record.kind == kind::SAMPLE;
        // The position of the id must not depend on the event: it is at the outer end of the record, or all events are
        // alike.
        let id = if self.attrs.len() == 1 {
            None
        } else if first.format & bit::IDENTIFIER != 0 {
            let at = if sample { 0 } else { record.body.len().checked_sub(8)? };
            Octets { bytes: record.body, at }.u64()
        } else {
            sample.then(|| first.fields(record.body)).flatten().map(|(_, _, id)| id)
        };
        record.attr = id.and_then(|id| by_id.get(&id)).copied().unwrap_or(0);
        let attr = self.attrs.get(record.attr)?;
        if sample {
            record.time = attr.fields(record.body)?.1;
        } else if attr.all_have_ids && attr.format & bit::TIME != 0 {
            let mut trailer =
                Octets { bytes: record.body, at: record.body.len().checked_sub(attr.trailer())? };
            if attr.format & bit::TID != 0 {
                trailer.u64()?;
            }
            record.time = trailer.u64()?;
            record.body = record.body.get(..record.body.len() - attr.trailer())?;
        }
        Some(record)
    }

    fn read_features(&mut self, bytes: &'a [u8], at: usize, features: u64) {
        const BUILD_ID: u32 = 2;
        const HOST: u32 = 3;
        const RELEASE: u32 = 4;
        const EVENTS: u32 = 12;
        let section = |feature: u32| -> Option<&'a [u8]> {
            let number = (features & ((1 << feature) - 1)).count_ones() as usize;
            let mut place = Octets { bytes, at: at.saturating_add(16 * number) };
            let (at, size) = (place.u64()?, place.u64()?);
            Octets::from(bytes, at)?.take_octets(usize::try_from(size).ok()?)
        };
        let has = |feature: u32| features >> feature & 1 == 1;
        // a length, then the text with zeros up to it
        let text =
            |feature| section(feature).filter(|_| has(feature)).and_then(|s| s.get(4..)).map(until_nul);
        self.machine = text(HOST).zip(text(RELEASE));
        if let Some(list) = section(EVENTS).filter(|_| has(EVENTS)) {
            self.event_names = event_names(list).unwrap_or_default();
        }
        if !has(BUILD_ID) {
            return;
        }
        let Some(list) = section(BUILD_ID) else {
            self.notes.push(format!("octet {at}: the list of build-ids leads out of the file"));
            return;
        };
        let mut at = 0;
        while let Some(mut head) = Octets::from(list, at as u64) {
            let (Some(_), Some(misc), Some(size)) = (head.u32(), head.u16(), head.u16()) else { break };
            let Some(body) = list.get(at + 8..at + usize::from(size)) else { break };
            self.build_id(misc, body);
            at += usize::from(size);
        }
    }

    fn build_id(&mut self, misc: u16, body: &'a [u8]) -> Option<()> {
        let mut o = Octets::new(body);
        o.u32()?;
        let id = o.take_octets(24)?;
        let len = if misc >> 15 == 1 { usize::from(*id.get(20)?).min(20) } else { 20 };
        self.build_ids.insert(o.text(), id.get(..len)?);
        Some(())
    }

    /// The build-id of the kernel that was recorded.
    pub(super) fn kernel_build_id(&self) -> Option<&'a [u8]> {
        self.build_ids.iter().find(|(path, _)| kernel::is_kernel(path)).map(|(_, id)| *id)
    }

    /// The fields of a sample record. `None` when it is too short.
    pub(super) fn sample(&self, record: &Record<'a>) -> Option<Sample<'a>> {
        self.attrs.get(record.attr)?.fields(record.body).map(|(sample, _, _)| sample)
    }
}

impl Attr {
    /// A sample, its time, its id.
    fn fields<'a>(&self, body: &'a [u8]) -> Option<(Sample<'a>, u64, u64)> {
        let mut o = Octets::new(body);
        let mut s = Sample::default();
        let has = |b: u64| self.format & b != 0;
        let mut id = 0;
        if has(bit::IDENTIFIER) {
            id = o.u64()?;
        }
        if has(bit::IP) {
            s.ip = o.u64()?;
        }
        if has(bit::TID) {
            (s.pid, s.tid) = (o.u32()?, o.u32()?);
        }
        let time = if has(bit::TIME) { o.u64()? } else { 0 };
        if has(bit::ADDR) {
            o.u64()?;
        }
        if has(bit::ID) {
            id = o.u64()?;
        }
        for skipped in [bit::STREAM_ID, bit::CPU] {
            if has(skipped) {
                o.u64()?;
            }
        }
        if has(bit::PERIOD) {
            s.period = o.u64()?;
        }
        if has(bit::READ) {
            self.skip_values(&mut o)?;
        }
        if has(bit::CALLCHAIN) {
            let n = usize::try_from(o.u64()?).ok()?;
            s.chain = o.take_octets(n.checked_mul(8)?)?;
        }
        if has(bit::REGS_USER) || has(bit::STACK_USER) {
            // If these are cut off, the sample merely lacks its copies.
            let _ = self.copies(&mut o, &mut s);
        }
        Some((s, time, id))
    }

    /// Reads the program's registers and stack.
    fn copies<'a>(&self, o: &mut Octets<'a>, s: &mut Sample<'a>) -> Option<()> {
        let has = |b: u64| self.format & b != 0;
        if has(bit::RAW) {
            let n = o.u32()?;
            o.skip(u64::from(n))?;
        }
        if has(bit::BRANCH_STACK) {
            let n = o.u64()?;
            let head = if self.branch_format >> 17 & 1 == 1 { 8 } else { 0 };
            o.skip(n.checked_mul(24)?.checked_add(head)?)?;
        }
        // 0: a thread of the kernel; 2: 64 bits
        if has(bit::REGS_USER) && o.u64()? != 0 {
            s.registers = o.take_octets(8 * self.registers.count_ones() as usize)?;
        }
        if has(bit::STACK_USER) {
            let n = usize::try_from(o.u64()?).ok()?;
            let copy = o.take_octets(n)?;
            let used = if n > 0 { usize::try_from(o.u64()?).ok()? } else { 0 };
            s.stack = copy.get(..used.min(n))?;
        }
        Some(())
    }

    fn skip_values(&self, o: &mut Octets<'_>) -> Option<()> {
        let has = |n: u64| self.read_format >> n & 1;
        let times = has(0) + has(1);
        let each = 1 + has(2) + has(4);
        if has(3) == 1 {
            let n = o.u64()?;
            o.skip(n.checked_mul(each)?.checked_add(times)?.checked_mul(8)?)
        } else {
            o.skip(8 * (each + times))
        }
    }
}

/// The names in the list of events: for each its attribute, the number of its ids, its name with zeros, its ids.
/// `None` if the list is damaged: names would then be given to wrong events.
fn event_names(list: &[u8]) -> Option<Vec<&[u8]>> {
    let mut o = Octets::new(list);
    let (events, attr_size) = (o.u32()?, o.u32()?);
    let mut names = Vec::new();
    for _ in 0..events {
        o.skip(u64::from(attr_size))?;
        let ids = o.u32()?;
        let length = usize::try_from(o.u32()?).ok()?;
        names.push(until_nul(o.take_octets(length)?));
        o.skip(u64::from(ids).checked_mul(8)?)?;
    }
    Some(names)
}

fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|octet| *octet == 0).next().unwrap_or_default()
}

/// The little-endian words of some octets.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).filter_map(|w| w.try_into().ok().map(u64::from_le_bytes))
}
