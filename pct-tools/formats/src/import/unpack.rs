//! Unpacks gzip: any number of members, and files that were packed more than once.

use super::problem::Problem;
use std::borrow::Cow;
use std::io::Read as _;

/// Most octets that are unpacked: a gzip of a few octets may promise any size.
const MOST: u64 = 1 << 30;
/// How often a file may have been packed.
const MOST_OFTEN: usize = 4;

const GZIP: &[u8] = &[0x1f, 0x8b];

/// What was in a file.
pub(super) struct Unpacked<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    /// How many octets behind the packed ones are not packed. Zeros are not counted: tapes and disks are padded.
    pub(super) left_out: usize,
}

/// The unpacked octets; those of a file that is not packed as they are.
pub(super) fn gzip(bytes: &[u8]) -> Result<Unpacked<'_>, Problem> {
    let mut unpacked = Unpacked { bytes: Cow::Borrowed(bytes), left_out: 0 };
    for _ in 0..MOST_OFTEN {
        if !unpacked.bytes.starts_with(GZIP) {
            break;
        }
        let (out, left_out) = members(&unpacked.bytes)?;
        unpacked.left_out = unpacked.left_out.saturating_add(left_out);
        unpacked.bytes = Cow::Owned(out);
    }
    if unpacked.bytes.starts_with(b"\x89PCT") && matches!(unpacked.bytes, Cow::Owned(_)) {
        return Err(problem("a .pct file inside; unpack it first (gunzip)"));
    }
    Ok(unpacked)
}

/// What all members hold, one after another, and how many octets are left behind them.
fn members(bytes: &[u8]) -> Result<(Vec<u8>, usize), Problem> {
    let (mut out, mut rest) = (Vec::new(), bytes);
    while rest.starts_with(GZIP) {
        let mut member = flate2::bufread::GzDecoder::new(rest);
        let room = (MOST + 1).saturating_sub(out.len() as u64);
        member.by_ref().take(room).read_to_end(&mut out).map_err(|why| {
            let at = bytes.len() - member.get_ref().len();
            Problem { place: format!("octet {at}"), problem: format!("damaged gzip: {why}") }
        })?;
        if out.len() as u64 > MOST {
            return Err(problem("more than 1 GiB when unpacked"));
        }
        rest = member.into_inner();
    }
    let left_out = if rest.iter().all(|b| *b == 0) { 0 } else { rest.len() };
    Ok((out, left_out))
}

fn problem(text: &str) -> Problem {
    Problem { place: "gzip".into(), problem: text.into() }
}
