//! Writes perf.data files, for tests of what reads them.

const IP: u64 = 1;
const TID: u64 = 2;
const TIME: u64 = 4;
const CALLCHAIN: u64 = 32;
const PERIOD: u64 = 256;
/// What samples have here: address, ids, time, call chain, period.
pub const FORMAT: u64 = IP | TID | TIME | CALLCHAIN | PERIOD;
/// In a call chain: what follows is of the program.
pub const USER: u64 = (-512i64).cast_unsigned();
/// In a call chain: what follows is of the kernel.
pub const KERNEL: u64 = (-128i64).cast_unsigned();

/// Words, lowest octet first.
#[must_use]
pub fn words(list: &[u64]) -> Vec<u8> {
    list.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Two halves of a word, the lower first.
#[must_use]
pub fn pair(a: u32, b: u32) -> u64 {
    u64::from(a) | u64::from(b) << 32
}

fn text(t: &str) -> Vec<u8> {
    let mut out = t.as_bytes().to_vec();
    out.resize((t.len() / 8 + 1) * 8, 0);
    out
}

/// A record of this kind with these flags.
#[must_use]
pub fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend(misc.to_le_bytes());
    out.extend((body.len() as u16 + 8).to_le_bytes());
    out.extend(body);
    out
}

/// perf_event_attr of the cpu-clock event at 1000 Hz.
#[must_use]
pub fn attr(format: u64) -> Vec<u8> {
    words(&[pair(1, 64), 0, 1000, format, 0, 1 << 10 | 1 << 18, 0, 0])
}

/// The fields at the end of records other than samples.
fn trailer(tid: u32, time: u64) -> Vec<u8> {
    words(&[pair(tid, tid), time])
}

/// A process maps code.
#[must_use]
pub fn mmap2(pid: u32, start: u64, len: u64, path: &str, time: u64) -> Vec<u8> {
    let mut body = words(&[pair(pid, pid), start, len, 0, 0, 0, 0, pair(5, 2)]);
    body.extend(text(path));
    body.extend(trailer(pid, time));
    record(10, 2, &body)
}

/// A process has a name.
#[must_use]
pub fn comm(pid: u32, name: &str, exec: bool, time: u64) -> Vec<u8> {
    let mut body = words(&[pair(pid, pid)]);
    body.extend(text(name));
    body.extend(trailer(pid, time));
    record(3, if exec { 1 << 13 } else { 0 }, &body)
}

/// A sample, whose time is in ns; `chain` has the innermost address first.
#[must_use]
pub fn sample(pid: u32, time: u64, kernel: bool, period: u64, chain: &[u64]) -> Vec<u8> {
    let ip = *chain.iter().find(|w| **w < KERNEL).unwrap_or(&0);
    let mut body = words(&[ip, pair(pid, pid), time, period, chain.len() as u64]);
    body.extend(words(chain));
    record(9, if kernel { 1 } else { 2 }, &body)
}

/// Records of a process with two samples, 3 ms of CPU time; 7 were lost.
#[must_use]
pub fn data() -> Vec<u8> {
    let lost = [words(&[1, 7]), trailer(5, 40)].concat();
    [
        comm(5, "shell", false, 10),
        mmap2(5, 0x10000, 0x1000, "/no/such/program", 11),
        sample(5, 30, false, 1_000_000, &[USER, 0x10010, 0x10101]),
        // It was written earlier but happened later: in another processor's buffer.
        sample(5, 60, true, 2_000_000, &[KERNEL, 0xffff_ffff_8100_0000, USER, 0x20010, 0x20101]),
        comm(5, "worker", true, 50),
        mmap2(5, 0x20000, 0x1000, "/no/such/other", 51),
        record(2, 0, &lost),
    ]
    .concat()
}

/// A file of the cpu-clock event with these records.
#[must_use]
pub fn file(data: &[u8]) -> Vec<u8> {
    file_of(&attr(FORMAT), data)
}

/// A file of one event, described by `attr`.
#[must_use]
pub fn file_of(attr: &[u8], data: &[u8]) -> Vec<u8> {
    let attrs_at = 104u64;
    let entry = (attr.len() + 16) as u64;
    let data_at = attrs_at + entry;
    let mut out = b"PERFILE2".to_vec();
    out.extend(words(&[104, entry, attrs_at, entry, data_at, data.len() as u64, 0, 0, 0, 0, 0, 0]));
    out.extend(attr);
    out.extend(words(&[0, 0]));
    out.extend(data);
    out
}
