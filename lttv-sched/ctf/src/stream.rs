//! A stream: its packets in order, from one file or several, with their times and losses.

use std::path::Path;

use lttv_engine::source::LossKind;

use crate::bits::row;
use crate::cache::Cache;
use crate::compiled::Compiled;
use crate::error::{Diagnostic, Fault, ReadError};
use crate::exec::{Input, Nothing, State, Stop, run};
use crate::index;
use crate::packet::{Extent, Head, Packet, StreamFile, WINDOW, error, head, read_head};
use rustc_hash::FxHashMap;

/// A data stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Index of its class.
    pub(crate) class: usize,
    pub(crate) instance: Option<u64>,
    pub(crate) cpu: Option<u32>,
    pub(crate) packets: Vec<Packet>,
    /// Why the packet marked bad is bad.
    pub(crate) bad: Option<ReadError>,
    pub(crate) losses: Vec<StreamLoss>,
}

/// A loss between `from` and `to` (ns; none without a clock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLoss {
    /// Events or packets.
    pub kind: LossKind,
    /// Number lost; none: unknown.
    pub count: Option<u64>,
    /// End of the last packet before the loss.
    pub from: Option<i64>,
    /// Begin of the next packet (packets lost) or its end (events lost).
    pub to: Option<i64>,
}

/// The packets of one file.
struct Scanned {
    class: usize,
    instance: Option<u64>,
    cpu: Option<u64>,
    packets: Vec<Packet>,
    bad: Option<ReadError>,
}

/// Finds the streams of a trace's files.
pub(crate) fn streams(
    c: &Compiled,
    files: &[StreamFile],
    use_index: bool,
    cache: Option<&Cache>,
    diagnostics: &mut Vec<Diagnostic>,
) -> (Vec<Stream>, Vec<ReadError>) {
    let mut groups: Vec<Vec<Scanned>> = Vec::new();
    let mut known: FxHashMap<(usize, u64), usize> = FxHashMap::default();
    let mut lost_files = Vec::new();
    for i in 0..files.len() {
        match scan(c, files, i, use_index, cache, diagnostics) {
            Ok(s) => match s.instance.map(|n| (s.class, n)) {
                Some(key) => {
                    let g = *known.entry(key).or_insert_with(|| {
                        groups.push(Vec::new());
                        groups.len() - 1
                    });
                    groups[g].push(s);
                }
                None => groups.push(vec![s]),
            },
            Err(e) => lost_files.push(e),
        }
    }
    (groups.into_iter().map(|g| join(c, files, g)).collect(), lost_files)
}

fn scan(
    c: &Compiled,
    files: &[StreamFile],
    i: usize,
    use_index: bool,
    cache: Option<&Cache>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Scanned, ReadError> {
    let f = &files[i];
    let (mut st, mut buf) = (State::new(c.regs), Vec::new());
    let (first, size) = read_head(c, f, 0, 0, &mut st, &mut buf)?;
    let mut s = Scanned {
        class: first.stream,
        instance: first.instance,
        cpu: first.cpu,
        packets: Vec::new(),
        bad: None,
    };
    let mut foreign = first.foreign.is_some();
    diagnostics.extend(told_foreign(f, &first, 0));
    let id = c.class.streams[s.class].id;
    if use_index && let Some(entries) = entries(f, &first, size, c.streams[s.class].has_seq, &id, diagnostics)
    {
        s.packets = entries.into_iter().enumerate().map(|(n, e)| from_entry(i, n, &e, &first)).collect();
        return Ok(s);
    }
    if let Some(packets) = cache.and_then(|cache| cache.load(f, row(i), id)) {
        s.packets = packets;
        return Ok(s);
    }
    let (mut at, mut number, mut next) = (0, 0u32, Some((first, size)));
    while at < f.len {
        let found = match next.take() {
            Some(n) => Ok(n),
            None => read_head(c, f, number, at, &mut st, &mut buf),
        };
        let (h, size) = match found {
            Ok((h, size)) if h.stream == s.class => (h, size),
            Ok((h, _)) => {
                s.bad = Some(error(f, number, at, at, Fault::StreamClass(c.class.streams[h.stream].id)));
                break;
            }
            Err(e) => {
                s.bad = Some(e);
                break;
            }
        };
        if !foreign && h.foreign.is_some() {
            foreign = true;
            diagnostics.extend(told_foreign(f, &h, number));
        }
        let there = size.min(f.len - at);
        let extent = Extent { file: row(i), number, at, size, there };
        s.packets.push(Packet {
            extent,
            begin: h.begin,
            end: h.end,
            seq: h.seq,
            discarded: h.discarded,
            upto: 0,
            bad: false,
        });
        at += there;
        number = number.saturating_add(1);
        if there < size {
            s.bad = Some(error(
                f,
                number - 1,
                extent.at,
                f.len,
                Fault::Truncated { expected: size, found: there },
            ));
        }
    }
    if let (Some(cache), None) = (cache, &s.bad) {
        cache.store(f, id, &s.packets);
    }
    Ok(s)
}

/// The diagnostic for a packet that belongs to another trace than the metadata.
fn told_foreign(f: &StreamFile, head: &Head, number: u32) -> Option<Diagnostic> {
    let uuid = head.foreign.as_ref()?;
    let what = format!(
        "packet {number} belongs to trace {uuid}, another than the metadata's; read all the same, as are others like it"
    );
    Some(Diagnostic { path: f.path.clone(), what })
}

/// The entries of a file's index, if there is one and it fits.
fn entries(
    f: &StreamFile,
    first: &Head,
    size: u64,
    wants_seq: bool,
    class_id: &u64,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<index::Entry>> {
    let dir = f.path.parent()?;
    let mut name = f.path.file_name()?.to_os_string();
    name.push(".idx");
    let path = dir.join("index").join(name);
    let bytes = read_small(&path)?;
    let mut why = |what: String| {
        diagnostics.push(Diagnostic { path: path.clone(), what: format!("index not used: {what}") });
        None::<Vec<index::Entry>>
    };
    let entries = match index::parse(&bytes, f.len) {
        Ok(e) => e,
        Err(e) => return why(e),
    };
    let head = entries.first()?;
    if first.total.is_some_and(|_| head.packet_size != size.saturating_mul(8))
        || first.content.is_some_and(|n| head.content_size != n)
    {
        return why("its first entry differs from the first packet's sizes".into());
    }
    if entries.iter().any(|e| e.stream_id != *class_id) {
        return why(format!("an entry of another stream class than {class_id}"));
    }
    if first.begin.is_some_and(|b| b != head.begin) {
        return why("its first entry differs from the first packet's begin".into());
    }
    // An index of version 1.0 has no packet numbers: lost packets show only in the headers.
    (head.more.is_some() || !wants_seq).then_some(entries)
}

fn read_small(path: &Path) -> Option<Vec<u8>> {
    let meta = path.metadata().ok().filter(|m| m.is_file() && m.len() <= 1 << 30)?;
    let bytes = std::fs::read(path).ok()?;
    (bytes.len() as u64 <= meta.len().max(1 << 20)).then_some(bytes)
}

fn from_entry(file: usize, n: usize, e: &index::Entry, first: &Head) -> Packet {
    let size = e.packet_size / 8;
    let extent = Extent {
        file: row(file),
        number: u32::try_from(n).unwrap_or(u32::MAX),
        at: e.offset,
        size,
        there: size,
    };
    Packet {
        extent,
        begin: first.begin.map(|_| e.begin),
        end: first.end.map(|_| e.end),
        seq: first.seq.and(e.more.map(|m| m.1)),
        discarded: first.discarded.map(|_| e.discarded),
        upto: 0,
        bad: false,
    }
}

/// Joins the files of one stream.
fn join(c: &Compiled, files: &[StreamFile], group: Vec<Scanned>) -> Stream {
    let class = group[0].class;
    let instance = group[0].instance;
    let cpu = group.iter().find_map(|s| s.cpu).and_then(|v| u32::try_from(v).ok());
    let several = group.len() > 1;
    if !several {
        let Scanned { mut packets, bad, .. } = group.into_iter().next().expect("a group has a file");
        if let (Some(_), Some(last)) = (&bad, packets.last()) {
            packets.push(bad_after(last));
        }
        return finished(c, files, Stream { class, instance, cpu, packets, bad, losses: Vec::new() });
    }
    let (mut all, mut bad): (Vec<(u64, Packet)>, Option<ReadError>) = (Vec::new(), None);
    for s in group {
        // Packets of one file keep its order, whatever they or an index say: empty ones may begin at 0.
        let mut begin = 0;
        for p in s.packets {
            begin = begin.max(p.begin.unwrap_or(0));
            all.push((begin, p));
        }
        if let Some(e) = s.bad {
            // A packet that is only cut is still read. What follows it cannot be found.
            if let Some((b, last)) = all.last().cloned() {
                all.push((b, bad_after(&last)));
            }
            bad.get_or_insert(e);
        }
    }
    // Sorting is stable: packets of one file and equal times keep their order.
    all.sort_by_key(|(begin, p)| (*begin, if p.bad { u64::MAX } else { p.seq.unwrap_or(0) }));
    let mut packets: Vec<Packet> = Vec::with_capacity(all.len());
    for (_, p) in all {
        // Archived chunks of one session may hold a packet twice.
        let twin = packets.last().is_some_and(|o| {
            !p.bad
                && !o.bad
                && o.extent.file != p.extent.file
                && (o.begin, o.seq) == (p.begin, p.seq)
                && (p.begin.is_some() || p.seq.is_some())
        });
        if !twin {
            let stop = p.bad;
            packets.push(p);
            if stop {
                break;
            }
        }
    }
    finished(c, files, Stream { class, instance, cpu, packets, bad, losses: Vec::new() })
}

/// Marks the end of a stream, because what follows cannot be found.
fn bad_after(last: &Packet) -> Packet {
    Packet { bad: true, discarded: None, seq: None, begin: None, end: None, ..*last }
}

fn finished(c: &Compiled, files: &[StreamFile], mut s: Stream) -> Stream {
    s.losses = losses(c, &s);
    bound(c, files, &mut s);
    s
}

/// Sets [`Packet::upto`].
fn bound(c: &Compiled, files: &[StreamFile], s: &mut Stream) {
    let Some(clock) = &c.streams[s.class].clock else { return };
    let ns = |v: u64| clock.ns(v);
    // Without begin times the first event of each packet must be read.
    let untimed = s.packets.iter().any(|p| p.begin.is_none() && !p.bad);
    let begins: Vec<Option<i64>> = if untimed {
        first_times(c, files, s)
    } else {
        s.packets.iter().map(|p| p.begin.filter(|b| *b > 0).and_then(ns)).collect()
    };
    let mut greatest = i64::MIN;
    let mut next_begin = vec![None; s.packets.len()];
    let mut next = None;
    for i in (0..s.packets.len()).rev() {
        next_begin[i] = next;
        next = begins[i].or(next);
    }
    let last = s.packets.len().saturating_sub(1);
    for (i, p) in s.packets.iter_mut().enumerate() {
        // For LTTng an end of 0 means unknown, and some tracers wrote events later than the end. The begin of the next
        // packet corrects both. For the last packet nothing is certain.
        let end = p.end.filter(|e| *e > 0 && p.begin.is_none_or(|b| *e >= b)).and_then(ns);
        let upto = match next_begin[i] {
            Some(b) => end.map_or(b, |e| e.max(b)),
            None => i64::MAX,
        };
        greatest = greatest.max(if i == last { i64::MAX } else { upto });
        p.upto = greatest;
    }
}

/// Time of the first event of each packet.
fn first_times(c: &Compiled, files: &[StreamFile], s: &Stream) -> Vec<Option<i64>> {
    let (mut st, mut buf) = (State::new(c.regs), Vec::new());
    s.packets
        .iter()
        .map(|p| if p.bad { None } else { first_time(c, files, s.class, p, &mut st, &mut buf) })
        .collect()
}

fn first_time(
    c: &Compiled,
    files: &[StreamFile],
    class: usize,
    p: &Packet,
    st: &mut State,
    buf: &mut Vec<u8>,
) -> Option<i64> {
    let (stream, class) = (class, &c.streams[class]);
    let mut want = p.extent.there.min(4096);
    loop {
        files[p.extent.file as usize].read(p.extent.at, want, buf).ok()?;
        let end = p.extent.there.saturating_mul(8);
        let found = head(c, buf, end, st).and_then(|h| {
            let content = h.content.unwrap_or(end).min(end);
            let inp = Input { data: buf, base: 0, limit: (buf.len() as u64 * 8).min(content), content };
            run(&class.event_header, &inp, h.bits, st, &mut Nothing)
        });
        match found {
            Ok(_) if class.event(st.id).is_some_and(|e| c.event(stream, e as usize).late_clock) => {
                return None;
            }
            Ok(_) => return class.clock.as_ref()?.ns(st.clock),
            Err(Stop::Short) if want < p.extent.there.min(WINDOW) => {
                want = want.saturating_mul(8).min(p.extent.there)
            }
            Err(_) => return None,
        }
    }
}

/// Lost events and packets, from the packets' counters and numbers.
fn losses(c: &Compiled, s: &Stream) -> Vec<StreamLoss> {
    let class = &c.streams[s.class];
    let ns = |v: Option<u64>| v.and_then(|v| class.clock.as_ref().and_then(|k| k.ns(v)));
    let mut out = Vec::new();
    let mut prev: Option<&Packet> = None;
    // The counter before it went back, until the packet after that was checked.
    let mut before_reset: Option<u64> = None;
    for p in s.packets.iter().filter(|p| !p.bad) {
        let from = prev.and_then(|o| ns(o.end));
        if let (Some(old), Some(new)) = (prev.and_then(|o| o.seq), p.seq)
            && new > old
            && new - old > 1
        {
            out.push(StreamLoss {
                kind: LossKind::Packets,
                count: Some(new - old - 1),
                from,
                to: ns(p.begin),
            });
        }
        if let Some(now) = p.discarded {
            let old = prev.and_then(|o| o.discarded);
            // LTTng writes single packets with a counter of 0. If the count then continues from its old value, there
            // was no reset, and what was counted before is not counted again.
            let old = before_reset.take().filter(|high| now >= *high).or(old);
            let count = match old {
                // The first packet's counter may have started before the recording.
                None if now > 0 => Some(None),
                None => None,
                Some(old) if now > old => Some(Some(now - old)),
                Some(old) if now == old => None,
                // A narrow counter wraps. A 64-bit counter that goes back was reset.
                Some(old) if class.discarded_len < 64 => {
                    Some(Some((now + (1 << class.discarded_len)).wrapping_sub(old)))
                }
                Some(old) => {
                    before_reset = Some(old);
                    Some(None)
                }
            };
            if let Some(count) = count {
                out.push(StreamLoss {
                    kind: LossKind::Events,
                    count,
                    from: from.or(ns(p.begin)),
                    to: ns(p.end),
                });
            }
        }
        prev = Some(p);
    }
    out
}
