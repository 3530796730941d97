//! The format of jitdump files.
//!
//! A header (magic `JiTD`, version, size, machine, pad, pid, time stamp, flags), then records (kind u32, size
//! u32, time u64, body) in the writer's byte order. Read here: 0 code load (pid, tid u32; vma, code address,
//! size, index u64; name NUL, code), 1 code move (pid, tid u32; vma, old, new, size, index u64), 2 debug info
//! (code address, count u64, then address u64, line u32, discriminator u32, file NUL each), 3 close. Times
//! are those of CLOCK_MONOTONIC unless a flag says otherwise.

use super::function::{JitFunction, Written};
use std::collections::HashMap;

/// Flag of the header: the times are not of CLOCK_MONOTONIC.
const ARCH_TIMESTAMP: u64 = 1;

/// What a jitdump file holds.
#[derive(Default)]
pub(super) struct Contents {
    /// Functions in the order in which they were written. Times are of CLOCK_MONOTONIC.
    pub(super) functions: Vec<JitFunction>,
    /// Source files of the line records.
    pub(super) files: Vec<String>,
    /// Number of records that could not be understood.
    pub(super) bad: u64,
}

/// Parses a file. A damaged record ends the reading and is counted in `bad`.
///
/// # Errors
/// A text that says what is wrong with the header.
pub(super) fn parse(data: &[u8]) -> Result<Contents, String> {
    Dump::parse(data)
}

/// A jitdump file being read.
struct Dump<'a> {
    data: &'a [u8],
    big: bool,
}

impl<'a> Dump<'a> {
    /// All functions of a file.
    fn parse(data: &'a [u8]) -> Result<Contents, String> {
        let big = match data.get(..4) {
            Some(b"DTiJ") => false,
            Some(b"JiTD") => true,
            _ => return Err("no jitdump magic".into()),
        };
        let dump = Dump { data, big };
        let version = dump.u32(4).ok_or("ends in its header")?;
        if version != 1 {
            return Err(format!("jitdump version {version}, known is 1"));
        }
        let mut at = dump.u32(8).ok_or("ends in its header")? as usize;
        let flags = dump.u64(32).ok_or("ends in its header")?;
        if at < 40 {
            return Err(format!("header of {at} bytes, 40 are the least"));
        }
        let mut contents = Contents::default();
        let mut files: HashMap<String, u32> = HashMap::new();
        let mut loads: Vec<(u64, JitFunction)> = Vec::new();
        let mut latest: HashMap<u64, usize> = HashMap::new();
        let mut pending: HashMap<u64, Vec<(u64, u32, u32)>> = HashMap::new();
        while at < data.len() {
            let Some((kind, size)) = dump.u32(at).zip(dump.u32(at + 4)) else {
                contents.bad += 1;
                break;
            };
            let size = size as usize;
            let Some(body) = size.checked_sub(16).and_then(|_| data.get(at + 16..at.checked_add(size)?))
            else {
                contents.bad += 1;
                break;
            };
            let record = Dump { data: body, big };
            // With that flag times are counts of the processor's clock.
            let time = if flags & ARCH_TIMESTAMP == 0 { dump.u64(at + 8).unwrap_or(0) } else { 0 };
            let written = if time == 0 { Written::default() } else { Written { after: time - 1, by: time } };
            let ok = match kind {
                0 => record.load(written, &mut loads, &mut latest, &mut pending).is_some(),
                1 => record.code_move(written, &mut loads, &mut latest).is_some(),
                2 => record.debug_info(&mut contents.files, &mut files, &mut pending).is_some(),
                3 => break,
                _ => true,
            };
            if !ok {
                contents.bad += 1;
            }
            at += size;
        }
        contents.functions = loads.into_iter().map(|(_, f)| f).collect();
        Ok(contents)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let b = self.data.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.big { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) })
    }

    fn u64(&self, at: usize) -> Option<u64> {
        let b = self.data.get(at..at.checked_add(8)?)?.try_into().ok()?;
        Some(if self.big { u64::from_be_bytes(b) } else { u64::from_le_bytes(b) })
    }

    fn text(&self, at: usize) -> Option<(String, usize)> {
        let rest = self.data.get(at..)?;
        let end = memchr::memchr(0, rest)?;
        Some((String::from_utf8_lossy(&rest[..end]).into_owned(), at + end + 1))
    }

    fn load(
        &self,
        written: Written,
        loads: &mut Vec<(u64, JitFunction)>,
        latest: &mut HashMap<u64, usize>,
        pending: &mut HashMap<u64, Vec<(u64, u32, u32)>>,
    ) -> Option<()> {
        let (start, size, index) = (self.u64(16)?, self.u64(24)?, self.u64(32)?);
        let (name, _) = self.text(40)?;
        let end = start.checked_add(size).filter(|_| size > 0)?;
        let lines = pending.remove(&start).unwrap_or_default();
        latest.insert(index, loads.len());
        loads.push((index, JitFunction { start, end, name, lines, written }));
        Some(())
    }

    fn code_move(
        &self,
        written: Written,
        loads: &mut Vec<(u64, JitFunction)>,
        latest: &mut HashMap<u64, usize>,
    ) -> Option<()> {
        let (new, size, index) = (self.u64(24)?, self.u64(32)?, self.u64(40)?);
        let old = &loads.get(*latest.get(&index)?)?.1;
        let delta = new.wrapping_sub(old.start);
        let lines = old.lines.iter().map(|l| (l.0.wrapping_add(delta), l.1, l.2)).collect();
        let moved =
            JitFunction { start: new, end: new.checked_add(size)?, name: old.name.clone(), lines, written };
        if size == 0 {
            return None;
        }
        latest.insert(index, loads.len());
        loads.push((index, moved));
        Some(())
    }

    fn debug_info(
        &self,
        texts: &mut Vec<String>,
        files: &mut HashMap<String, u32>,
        pending: &mut HashMap<u64, Vec<(u64, u32, u32)>>,
    ) -> Option<()> {
        let (start, count) = (self.u64(0)?, self.u64(8)?);
        let mut at = 16;
        let mut lines = Vec::new();
        for _ in 0..count {
            let (address, line) = (self.u64(at)?, self.u32(at + 8)?);
            let (file, next) = self.text(at + 16)?;
            let number = *files.entry(file).or_insert_with_key(|f| {
                texts.push(f.clone());
                u32::try_from(texts.len() - 1).unwrap_or(u32::MAX)
            });
            lines.push((address, line, number));
            at = next;
        }
        lines.sort_by_key(|l| l.0);
        pending.insert(start, lines);
        Some(())
    }
}
