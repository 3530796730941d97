//! Files that cannot be read as a profile: what each seems to be, and what would help.

use super::problem::Problem;

/// Octets that some kinds of files begin with.
const MAGICS: &[(&[u8], &str)] = &[
    (b"\xfd7zXZ\0", "packed with xz: xz -d first"),
    (b"\x28\xb5\x2f\xfd", "packed with zstd: zstd -d first"),
    (b"\x04\x22\x4d\x18", "packed with lz4: lz4 -d first"),
    (b"LZIP", "packed with lzip: lzip -d first"),
    (b"\x1f\x9d", "packed with compress: uncompress first"),
    (b"PK\x03\x04", "a zip archive: unzip first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
    (b"\xff\xfe", "text in UTF-16: iconv -f UTF-16 -t UTF-8 first"),
    (b"\xfe\xff", "text in UTF-16: iconv -f UTF-16 -t UTF-8 first"),
    (
        b"PERFFILE",
        "perf.data of version 1, of perf before Linux 3.0: the text of that perf's script can be read",
    ),
    (b"\x7fELF", "a program or library, no profile"),
    (b"gmon", "gprof's gmon.out: gprof shows it"),
    (b"JAVA PROFILE 1.0.", "a heap dump or profile by the JVM's hprof"),
    (b"MOJ", "Austin's binary form: mojo2austin makes text of it that can be read"),
    (b"MMPD", "rustc's self-profile: crox makes trace events of it that can be read"),
    (b"go 1.", "an execution trace of Go: go tool trace shows it, and -pprof makes a profile of it"),
    (b"Nettrace", "a .NET trace: dotnet-trace convert --format Speedscope makes another form of it"),
    (b"SQLite format 3\0", "an SQLite database, no profile"),
    (b"\xc1\x1f\xfc\xc1", "a stream of a CTF trace: pct view --timeline takes the trace's folder"),
    (b"\xc1\xfc\x1f\xc1", "a stream of a CTF trace: pct view --timeline takes the trace's folder"),
    (b"\x89PNG", "a picture, no profile"),
    (b"%PDF", "a PDF, no profile"),
];

const SAMPLE_OF_MACOS: &str = "the report of macOS sample";

/// Words that tell which tool wrote a text: all of a row must be in its first part.
const TEXTS: &[(&[&str], &str)] = &[
    (&["desc:", "time_unit:"], "massif's file: ms_print shows it"),
    (&["heap profile:"], LEGACY),
    (&["--- heap"], LEGACY),
    (&["--- contention"], LEGACY),
    (&["--- mutex"], LEGACY),
    (&["goroutine profile:"], LEGACY),
    (&["threadcreate profile:"], LEGACY),
    (&["--- thread"], LEGACY),
    (&["Time and Allocation Profiling Report"], "GHC's .prof: its tree has no weights of single stacks"),
    (&["JOB ", "SAMPLE_UNIT"], "GHC's heap profile: hp2ps draws it"),
    (&["FUNCTION:NAME"], "DTrace's output: stackcollapse makes folded text of it"),
    (&["Analysis of sampling", "Process:"], SAMPLE_OF_MACOS),
    (&["Running Time", "Self (ms)"], "a copy out of macOS Instruments"),
    (&["Function / Call Stack,"], "VTune's table as CSV"),
    (&["BeginHeader", "EndHeader", "SampledProfile"], "xperf's events as text"),
    (&["JAVA PROFILE 1.0."], "the JVM's hprof text"),
    (&["% time", "usecs/call"], "the counts of strace -c"),
    (&["samples  %", "symbol name"], "opreport's table"),
    (&["shared-library,", "code-creation,"], "V8's log: node --prof-process makes a report of it"),
    (&["Flat profile:", "cumulative"], "gprof's report, not its samples"),
    (&["# Overhead"], "the table of perf report: perf script prints the samples"),
    (&["# Samples:"], "the table of perf report: perf script prints the samples"),
    (&["Performance counter stats for"], "the counts of perf stat, which has no samples"),
    (&["Showing nodes accounting"], "the table of go tool pprof: its .pb.gz file can be read"),
    (&["PeriodType:", "Samples:"], "the text of go tool pprof -raw: its .pb.gz file can be read"),
    (&["--- Execution profile ---"], "async-profiler's report: its collapsed output can be read"),
    (&["@[", "]: "], "the map of a bpftrace program: stackcollapse-bpftrace makes folded text of it"),
    (&["Call graph:", "Binary Images"], SAMPLE_OF_MACOS),
    (&["<svg"], "a picture (SVG), not the profile that it was drawn from"),
    (&["<!DOCTYPE html"], "a page (HTML), not a profile"),
    (&["<html"], "a page (HTML), not a profile"),
    (&["<?xml"], "XML"),
    (&["samples,cpu_seconds,share"], "a table by pct report --format csv: name the recording itself"),
];

const LEGACY: &str =
    "the text of an old pprof file: go tool pprof -proto FILE > new.pb.gz makes one that can be read";

/// What is wrong with a file whose first octets tell that it cannot be read as a profile.
pub(super) fn known_binary(bytes: &[u8]) -> Option<Problem> {
    let problem = |text: &str| Problem { place: "octet 0".into(), problem: text.into() };
    if bytes.is_empty() {
        return Some(problem("the file is empty"));
    }
    if bytes.get(257..262) == Some(b"ustar") {
        return Some(problem("a tar archive: unpack it first"));
    }
    // Its level is between the letters and the digits of pi.
    if bytes.starts_with(b"BZh") && bytes.get(4..10) == Some(b"1AY&SY") {
        return Some(problem("packed with bzip2: bzip2 -d first"));
    }
    if is_gperftools(bytes) {
        return Some(problem(
            "gperftools' CPU profile: pprof --proto PROGRAM FILE > new.pb.gz makes one that can be read",
        ));
    }
    if is_utf16(bytes) {
        return Some(problem("text in UTF-16: iconv -f UTF-16 -t UTF-8 first"));
    }
    // A function may be called `gmon`.
    let may_be_text = is_text(bytes);
    let is_word = |magic: &[u8]| may_be_text && magic.iter().all(|b| b.is_ascii_graphic() || *b == b' ');
    let found = MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic) && !is_word(magic));
    found.map(|(_, what)| problem(what))
}

/// The header of gperftools: words 0, 3, 0, the period, 0, of 8 or 4 octets, in either order. The third is 1 in those
/// of Java programs.
fn is_gperftools(bytes: &[u8]) -> bool {
    let starts = |width: usize, swapped: bool| {
        let word = |at: usize| bytes.get(at * width..(at + 1) * width);
        let is = |at: usize, value: u8| {
            word(at).is_some_and(|word| {
                let (low, high) =
                    if swapped { (word[width - 1], &word[..width - 1]) } else { (word[0], &word[1..]) };
                low == value && high.iter().all(|b| *b == 0)
            })
        };
        is(0, 0) && is(1, 3) && (is(2, 0) || is(2, 1)) && !is(3, 0) && is(4, 0)
    };
    [8, 4].into_iter().any(|width| starts(width, false) || starts(width, true))
}

/// ASCII letters with a zero beside each, also without a byte order mark.
fn is_utf16(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(64) & !1];
    let is_letter = |b: u8| b == b'\n' || b == b'\r' || b == b'\t' || (0x20..0x7f).contains(&b);
    let pairs = || head.chunks_exact(2);
    head.len() >= 8
        && (pairs().all(|pair| is_letter(pair[0]) && pair[1] == 0)
            || pairs().all(|pair| pair[0] == 0 && is_letter(pair[1])))
}

/// Text has no NUL and few control characters. A whole pprof file has a NUL: its first string is empty.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(4096)];
    let is_control = |b: &&u8| **b < 0x20 && !matches!(**b, b'\n' | b'\t' | b'\r' | 0x1b);
    let most = bytes.len().min(1 << 20);
    !bytes[..most].contains(&0) && head.iter().filter(is_control).count() <= head.len() / 16
}

/// A text's problem, with what the text seems to be.
pub(super) fn named(text: &str, problem: Problem) -> Problem {
    let mut end = text.len().min(1 << 16);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = &text[..end];
    let found = TEXTS.iter().find(|(words, _)| words.iter().all(|word| head.contains(word)));
    let what = match found {
        Some((_, what)) => *what,
        None if head.trim_start().starts_with(['{', '[']) && head.contains(['"', ':']) => {
            "JSON of a form that is not known"
        }
        None => return problem,
    };
    Problem { problem: format!("{}; it seems to be {what}", problem.problem), ..problem }
}

/// Why octets that are no text are no pprof file either.
pub(super) fn not_pprof(bytes: &[u8], why: String) -> Problem {
    let fields = crate::protobuf::Fields::new(bytes);
    let mut whole = fields.clone();
    let count = whole.by_ref().count();
    if count > 0 && whole.broken.is_none() {
        return Problem {
            place: "the whole file".into(),
            problem: format!("protobuf, but not pprof: {why}"),
        };
    }
    let at = whole.broken.unwrap_or(0);
    Problem {
        place: format!("octet {at}"),
        problem: format!("neither text nor a whole pprof or perf.data file ({why})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_that_are_no_profile_are_named() {
        let named = |bytes: &[u8]| known_binary(bytes).map(|problem| problem.problem).unwrap_or_default();
        for (bytes, words) in [
            (&b"\xfd7zXZ\0\0\x04"[..], "xz -d"),
            (b"BZh91AY&SY", "bzip2 -d"),
            (b"\x28\xb5\x2f\xfd\x24", "zstd -d"),
            (b"\xff\xfem\0a\0", "iconv"),
            (b"m\0a\0i\0n\0;\0a\0 \x001\0", "UTF-16"),
            (b"PERFFILE\x68\0", "version 1"),
            (b"", "empty"),
            (b"MOJ\x01\x01austin\x003.4.1\0", "mojo2austin"),
            (b"MMPD\x09\0\0\0", "crox"),
            (b"JAVA PROFILE 1.0.2\0\0\0\0\x08", "hprof"),
            (b"go 1.19 trace\0\0\0", "go tool trace"),
            (b"\0\0\0\0\x03\0\0\0\x01\0\0\0\x10\x27\0\0\0\0\0\0", "gperftools"),
            (b"\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\x27\x10\0\0\0\0", "gperftools"),
            (
                b"\0\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\x27\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
                "gperftools",
            ),
        ] {
            assert!(named(bytes).contains(words), "{bytes:?}: {}", named(bytes));
        }
        for bytes in
            [&b"PERFILE2"[..], b"\x0a\x04\x08\x01\x10\x02\x32\0", b"main;a 3\n", b"go 1.5\n", b"MOJ 7\n"]
        {
            assert_eq!(named(bytes), "", "{bytes:?}");
        }
    }
}
