//! Packets of a stream file: their positions, headers and contexts.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::compiled::Compiled;
use crate::error::{Fault, PACKET_MAGIC, ReadError};
use crate::exec::{Input, Nothing, State, Stop, run};
use crate::model::Role;

/// Bytes of a packet that are in memory at a time, unless one event is longer.
pub(crate) const WINDOW: u64 = 256 << 10;
/// Bytes read first if only the head of a packet is needed.
const HEAD: u64 = 512;

/// A file with packets. Its length is that at opening. It is read by position, so a file that shrinks meanwhile causes
/// an error and never a memory fault.
#[derive(Debug)]
pub(crate) struct StreamFile {
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    handle: Mutex<Option<Arc<File>>>,
    /// Whether the file stays open between reads. It does not if a trace has very many files.
    keep: bool,
}

impl StreamFile {
    pub(crate) fn new(path: PathBuf, len: u64, keep: bool) -> StreamFile {
        StreamFile { path, len, handle: Mutex::new(None), keep }
    }

    fn file(&self) -> std::io::Result<Arc<File>> {
        let mut h = self.handle.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(f) = &*h {
            return Ok(f.clone());
        }
        let f = Arc::new(File::open(&self.path)?);
        if self.keep {
            *h = Some(f.clone());
        }
        Ok(f)
    }

    /// The file's current metadata.
    pub(crate) fn metadata(&self) -> std::io::Result<std::fs::Metadata> {
        self.file()?.metadata()
    }

    /// Fills `buf` with `n` bytes from `at`. The range must be within the file's length at opening.
    pub(crate) fn read(&self, at: u64, n: u64, buf: &mut Vec<u8>) -> Result<(), Fault> {
        debug_assert!(at + n <= self.len);
        let n = usize::try_from(n).map_err(|e| Fault::Io(e.to_string()))?;
        if buf.len() < n {
            buf.resize(n, 0);
        }
        buf.truncate(n);
        let io = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => Fault::Shrunk { expected: self.len },
            _ => Fault::Io(e.to_string()),
        };
        self.file().and_then(|f| f.read_exact_at(buf, at)).map_err(io)
    }
}

/// The position of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) file: u32,
    /// Number in its file.
    pub(crate) number: u32,
    /// First byte.
    pub(crate) at: u64,
    /// Bytes that the packet has.
    pub(crate) size: u64,
    /// Bytes of it that are in the file: fewer if the file was cut.
    pub(crate) there: u64,
}

/// A packet in the order of its stream.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) extent: Extent,
    pub(crate) begin: Option<u64>,
    pub(crate) end: Option<u64>,
    pub(crate) seq: Option<u64>,
    pub(crate) discarded: Option<u64>,
    /// No event of this packet or an earlier one is later than this (ns). It is a running maximum, for binary search.
    pub(crate) upto: i64,
    /// The stream ends here. [`Stream::bad`] says what was found instead of a packet.
    pub(crate) bad: bool,
}

/// The values in the header and context of a packet.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// Index of the stream class.
    pub(crate) stream: usize,
    pub(crate) instance: Option<u64>,
    /// Packet size as written, bits.
    pub(crate) total: Option<u64>,
    /// Content size as written, bits.
    pub(crate) content: Option<u64>,
    pub(crate) begin: Option<u64>,
    pub(crate) end: Option<u64>,
    pub(crate) seq: Option<u64>,
    pub(crate) discarded: Option<u64>,
    pub(crate) cpu: Option<u64>,
    /// Bits that header and context took.
    pub(crate) bits: u64,
    /// Bits that the header took.
    pub(crate) header_bits: u64,
    /// The UUID of the packet, if it differs from the metadata's.
    pub(crate) foreign: Option<String>,
}

/// Decodes header and context from the start of a packet. `content`: most bits that they may have.
pub(crate) fn head(c: &Compiled, data: &[u8], content: u64, st: &mut State) -> Result<Head, Stop> {
    let inp = Input { data, base: 0, limit: (data.len() as u64 * 8).min(content), content };
    st.roles = Default::default();
    st.uuid_at = None;
    st.clock = 0;
    st.start_record();
    let header_bits = run(&c.header, &inp, 0, st, &mut Nothing)?;
    if let Some(m) = st.role(Role::PacketMagic)
        && m != u64::from(PACKET_MAGIC)
    {
        let swapped = m == u64::from(PACKET_MAGIC.swap_bytes());
        return Err(if swapped { Fault::OtherByteOrder(m) } else { Fault::Magic(m) }.into());
    }
    let mut foreign = None;
    if let (Some(at), Some(want)) = (st.uuid_at, c.class.uuid) {
        let at = (at / 8) as usize;
        let found = data.get(at..at + 16).unwrap_or(&[]);
        if found != want {
            if c.strict {
                return Err(Fault::Uuid { found: hex(found), expected: hex(&want) }.into());
            }
            foreign = Some(hex(found));
        }
    }
    let stream = c.stream(st.role(Role::StreamClassId)).map_err(Fault::StreamClass)?;
    let bits = run(&c.streams[stream].packet_context, &inp, header_bits, st, &mut Nothing)?;
    let (total, content) = (st.role(Role::PacketTotal), st.role(Role::PacketContent));
    match (st.role(Role::PacketBegin), st.role(Role::PacketEnd)) {
        (Some(begin), _) => st.clock = begin,
        // Events without a time are at the only time that their packet tells. Those with the low bits of one are
        // within as many cycles before it.
        (None, Some(end)) if st.clock == 0 => match c.streams[stream].time_len {
            None => st.clock = end,
            Some(len) if len < 64 => st.clock = end.saturating_sub(crate::bits::mask(len)),
            Some(_) => {}
        },
        _ => {}
    }
    Ok(Head {
        stream,
        instance: st.role(Role::StreamId),
        total: total.or(content),
        content: content.or(total),
        begin: st.role(Role::PacketBegin),
        end: st.role(Role::PacketEnd),
        seq: st.role(Role::PacketSeq),
        discarded: st.role(Role::Discarded),
        cpu: st.role(Role::Cpu),
        bits,
        header_bits,
        foreign,
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Reads the head of the packet at byte `at`, with as many bytes as needed.
pub(crate) fn read_head(
    c: &Compiled,
    f: &StreamFile,
    number: u32,
    at: u64,
    st: &mut State,
    buf: &mut Vec<u8>,
) -> Result<(Head, u64), ReadError> {
    let there = f.len - at;
    let fault = |fault| error(f, number, at, at, fault);
    let mut want = HEAD.min(there);
    let h = loop {
        f.read(at, want, buf).map_err(fault)?;
        match head(c, buf, there.saturating_mul(8), st) {
            Ok(h) => break h,
            Err(Stop::Short) if want < there => want = want.saturating_mul(4).min(there),
            Err(Stop::Short) => return Err(fault(Fault::PastContent)),
            Err(Stop::Fault(e)) => return Err(fault(*e)),
        }
    };
    let size = match (h.total, h.content) {
        (Some(t), Some(content)) => {
            if t == 0 || t % 8 != 0 {
                return Err(fault(Fault::PacketSize(t)));
            }
            if content > t {
                return Err(fault(Fault::ContentSize { content, packet: t }));
            }
            if content < h.bits {
                return Err(fault(Fault::ShortContent { content, used: h.bits }));
            }
            t / 8
        }
        // Neither size is given: the file is one packet.
        _ => there,
    };
    Ok((h, size))
}

/// An error of a stream file.
pub(crate) fn error(f: &StreamFile, number: u32, packet_at: u64, at: u64, fault: Fault) -> ReadError {
    ReadError { path: f.path.clone(), packet: number as usize, packet_at, at, fault }
}
