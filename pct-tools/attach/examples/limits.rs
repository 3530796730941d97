//! Says of each executable file whether its code may limit its own system calls, as an attach judges it, and how much
//! code it has: `cargo run --release -p pct-attach --example limits -- FILE...`
#![allow(clippy::print_stdout, reason = "what it is for")]

use object::elf::PF_X;
use object::{Object, ObjectSegment, SegmentFlags};
use pct_attach::limits::{MOST_CODE, may_be_set};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let file = object::File::parse(&*bytes)?;
        let is_code = |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & PF_X.0 != 0);
        let code = file.segments().filter(|segment| is_code(segment.flags()));
        let code: Vec<&[u8]> = code.map(|segment| segment.data()).collect::<Result<_, _>>()?;
        let most = usize::try_from(MOST_CODE)?;
        let may = code.iter().any(|text| may_be_set(&text[..text.len().min(most)]));
        let octets: usize = code.iter().map(|text| text.len()).sum();
        println!("{:<4} {:>11} octets of code  {path}", if may { "may" } else { "no" }, octets);
    }
    Ok(())
}
