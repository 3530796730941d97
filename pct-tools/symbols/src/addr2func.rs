//! The program `addr2func`, as a function. It turns addresses into `function+offset` by means of a name list.
//!
//! If addresses are on the command line, it answers those. Otherwise it speaks the translator protocol: one address per
//! line on stdin, one answer per line on stdout, in order. Answers are written out whenever no more input is waiting,
//! so that a caller that asks for one address at a time gets its answer.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use pct_num::{Layout, num2str_into, str2num};

use crate::demangle::demangle;
use crate::names::{Form, Names, NamesError};

const HELP: &str = "\
addr2func: addresses to functions by a sorted name list

usage: addr2func [options] NAMES [ADDR...]

NAMES is the output of `nm -n` (lines `ADDRESS TYPE NAME`, sorted by address). It is searched where it lies:
nothing is loaded. ADDR is hexadecimal, with or without 0x; without ADDR, addresses are read from stdin, one a
line, and each gets one line of answer at once: `function+0xoffset`, or `??` for an address below the first name
or one that is not a number.

  -f, --functions   the function alone, without the offset
  -C, --demangle    C++ and Rust names as people wrote them
  -p, --padded      NAMES has lines of one length: search by record number
  -h, --help        this text
  -V, --version     the version

examples:
  nm -n ./prog > prog.names && addr2func prog.names 0x1149
  pct-print --just_pcs prog.pct | addr2func -C prog.names
";

/// The parsed command line.
struct Wanted {
    names: PathBuf,
    addresses: Vec<OsString>,
    offsets: bool,
    demangle: bool,
    form: Form,
}

/// Runs the program: `args` without the program's own name.
///
/// The exit code is 0 if all was well, 1 if the list could not be used or an address was not a number, 2 for wrong
/// usage. If the reader closes its end of `stdout`, that is success.
pub fn main_with(
    args: impl IntoIterator<Item = OsString>,
    stdin: impl Read,
    stdout: impl Write,
    mut stderr: impl Write,
) -> ExitCode {
    let mut out = BufWriter::new(stdout);
    let wanted = match parse(args) {
        Ok(Parsed::Run(wanted)) => wanted,
        Ok(Parsed::Show(text)) => {
            let shown = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            return ExitCode::from(u8::from(shown.is_err_and(|e| e.kind() != io::ErrorKind::BrokenPipe)));
        }
        Err(e) => {
            let _ = writeln!(stderr, "addr2func: {e}; addr2func --help tells more");
            return ExitCode::from(2);
        }
    };
    match answer(&wanted, stdin, &mut out, &mut stderr) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure::Write(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            let _ = out.flush();
            let _ = writeln!(stderr, "addr2func: {e}");
            ExitCode::FAILURE
        }
    }
}

enum Parsed {
    Run(Wanted),
    Show(String),
}

/// Parses the options by hand, since there are few.
fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Parsed, String> {
    let (mut offsets, mut demangle, mut form) = (true, false, Form::Lines);
    let mut words: Vec<OsString> = Vec::new();
    let mut options = true;
    for arg in args {
        let text = arg.to_str().unwrap_or("");
        if !options || !text.starts_with('-') || text == "-" {
            words.push(arg);
            continue;
        }
        match text {
            "--" => options = false,
            "--functions" => offsets = false,
            "--demangle" => demangle = true,
            "--padded" => form = Form::Padded,
            "--help" => return Ok(Parsed::Show(HELP.into())),
            "--version" => {
                return Ok(Parsed::Show(concat!("addr2func ", env!("CARGO_PKG_VERSION"), "\n").into()));
            }
            long if long.starts_with("--") => return Err(format!("unknown option {long}")),
            short => {
                for letter in short[1..].chars() {
                    match letter {
                        'f' => offsets = false,
                        'C' => demangle = true,
                        'p' => form = Form::Padded,
                        'h' => return Ok(Parsed::Show(HELP.into())),
                        'V' => return parse(["--version".into()]),
                        other => return Err(format!("unknown option -{other}")),
                    }
                }
            }
        }
    }
    if words.is_empty() {
        return Err("a name list is missing".into());
    }
    let addresses = words.split_off(1);
    Ok(Parsed::Run(Wanted { names: words.remove(0).into(), addresses, offsets, demangle, form }))
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Names(#[from] NamesError),
    #[error("stdin: {0}")]
    Read(io::Error),
    #[error("stdout: {0}")]
    Write(io::Error),
}

/// Answers all addresses. Returns false if one of them was not a number.
fn answer(
    wanted: &Wanted,
    stdin: impl Read,
    out: &mut impl Write,
    stderr: &mut impl Write,
) -> Result<bool, Failure> {
    let names = Names::open(&wanted.names, wanted.form)?;
    let mut good = true;
    let mut line = Vec::new();
    let mut one = |text: &[u8], out: &mut dyn Write| -> Result<(), Failure> {
        line.clear();
        let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")).unwrap_or(text);
        let hit = match str2num::<16>(digits) {
            Ok(address) => names.find(address)?,
            Err(e) => {
                good = false;
                let shown = String::from_utf8_lossy(&text[..text.len().min(60)]);
                let _ = writeln!(stderr, "addr2func: {shown:?} is not an address: {e}");
                None
            }
        };
        match hit {
            None => line.extend_from_slice(b"??"),
            Some(hit) => {
                if wanted.demangle {
                    line.extend_from_slice(demangle(&String::from_utf8_lossy(hit.name)).as_bytes());
                } else {
                    line.extend_from_slice(hit.name);
                }
                if wanted.offsets {
                    line.extend_from_slice(b"+0x");
                    num2str_into::<16>(hit.offset, Layout::BARE, &mut line);
                }
            }
        }
        line.push(b'\n');
        out.write_all(&line).map_err(Failure::Write)
    };
    if !wanted.addresses.is_empty() {
        for address in &wanted.addresses {
            one(address.as_encoded_bytes(), out)?;
        }
    } else {
        let mut input = BufReader::with_capacity(64 * 1024, stdin);
        let mut text = Vec::new();
        loop {
            if memchr::memchr(b'\n', input.buffer()).is_none() {
                out.flush().map_err(Failure::Write)?;
            }
            text.clear();
            if input.read_until(b'\n', &mut text).map_err(Failure::Read)? == 0 {
                break;
            }
            one(text.trim_ascii(), out)?;
        }
    }
    out.flush().map_err(Failure::Write)?;
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str], names: &str, input: &str) -> (String, String, ExitCode) {
        let file = tempfile::NamedTempFile::new().expect("temp");
        std::fs::write(file.path(), names).expect("temp");
        let path = file.path().to_str().expect("a temporary path is text").to_string();
        let args = args.iter().map(|a| OsString::from(if *a == "NAMES" { path.as_str() } else { a }));
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = main_with(args, input.as_bytes(), &mut out, &mut err);
        (String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&err).into_owned(), code)
    }

    const LIST: &str = "0000000000001000 T _Z3addii\n0000000000001010 T main\n";

    #[test]
    fn each_line_of_input_gets_one_line_of_answer() {
        let (out, err, code) = run(&["NAMES"], LIST, "1004\n0x1010\n\n  fff \nzz\n1011");
        assert_eq!(out, "_Z3addii+0x4\nmain+0x0\n??\n??\n??\nmain+0x1\n");
        assert!(err.contains("\"zz\"") && err.lines().count() == 2, "{err}");
        assert_eq!(code, ExitCode::FAILURE);
    }

    #[test]
    fn options_change_the_text() {
        assert_eq!(run(&["-fC", "NAMES", "0x1001"], LIST, "").0, "add(int, int)\n");
        assert_eq!(
            run(&["NAMES", "--demangle", "1001", "1012"], LIST, "").0,
            "add(int, int)+0x1\nmain+0x2\n"
        );
        assert!(run(&["--help"], LIST, "").0.contains("usage"));
        assert_eq!(run(&["-x", "NAMES"], LIST, "").2, ExitCode::from(2));
        assert_eq!(run(&[], LIST, "").2, ExitCode::from(2));
        assert_eq!(run(&["/nonexistent/names", "1"], LIST, "").2, ExitCode::FAILURE);
        assert!(run(&["NAMES", "1"], "", "").1.contains("no line"));
    }

    /// Gives one line at a time and records what had been answered when the next one was read.
    struct Asking<'a> {
        lines: Vec<&'static [u8]>,
        answered: &'a std::cell::RefCell<Vec<u8>>,
        seen: &'a std::cell::RefCell<Vec<usize>>,
    }

    impl Read for Asking<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.seen.borrow_mut().push(self.answered.borrow().iter().filter(|b| **b == b'\n').count());
            if self.lines.is_empty() {
                return Ok(0);
            }
            let line = self.lines.remove(0);
            buffer[..line.len()].copy_from_slice(line);
            Ok(line.len())
        }
    }

    struct Answered<'a>(&'a std::cell::RefCell<Vec<u8>>);

    impl Write for Answered<'_> {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(data);
            Ok(data.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_is_written_before_the_next_question_is_awaited() {
        let file = tempfile::NamedTempFile::new().expect("temp");
        std::fs::write(file.path(), LIST).expect("temp");
        let (answered, seen) = Default::default();
        let asking =
            Asking { lines: vec![b"1000\n", b"10", b"10\n1011\n"], answered: &answered, seen: &seen };
        let code =
            main_with([file.path().as_os_str().to_os_string()], asking, Answered(&answered), io::sink());
        assert_eq!(code, ExitCode::SUCCESS);
        assert_eq!(*seen.borrow(), [0, 1, 1, 3]);
    }
}
