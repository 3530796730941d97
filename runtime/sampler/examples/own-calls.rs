//! Lists which objects may change signals' actions by system calls of their own, as the sampler judges them:
//! `cargo run --release -p pct-sampler --example own-calls -- FILE...`. The second column is the time of the search.
//! The last line counts the objects, and those that have the bytes of the instruction anywhere in their code.

use std::time::{Duration, Instant};

use pct_elf::{Image, Memory, Segment, segment_flag, segment_kind};
use pct_sampler::code::call_sites::each_call_in;
use pct_sampler::code::object_bytes::Bytes;
use pct_sampler::code::system_calls::is_of_c_library;

/// The instruction.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// An object's file, by the addresses that its linker gave.
struct Mapped<'f> {
    file: &'f [u8],
    segments: Vec<Segment>,
}

impl Memory for Mapped<'_> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let within = |s: &&Segment| at.wrapping_sub(s.address) < s.file_bytes;
        let segment = self.segments.iter().find(within);
        segment.is_some_and(|s| self.file.copy(s.offset + (at - s.address), into))
    }
}

fn main() {
    let paths: Vec<_> = std::env::args_os().skip(1).collect();
    let (mut objects, mut found, mut with_bytes) = (0, 0, 0);
    let (mut all_code, mut all_took) = (0, Duration::ZERO);
    for path in &paths {
        let Ok(file) = std::fs::read(path) else { continue };
        let Some(image) = Image::of_file(&file.as_slice()) else { continue };
        let segments: Vec<_> =
            image.segments(&file.as_slice()).filter(|s| s.kind == segment_kind::LOAD).collect();
        let Some(first) = segments.first().filter(|_| image.machine == 62) else { continue };
        let memory = Mapped { file: &file, segments: segments.clone() };
        let Some(image) = Image::at_base(&memory, first.address) else { continue };
        objects += 1;
        let began = Instant::now();
        let mut places = Vec::new();
        each_call_in(Bytes(&|at, into| memory.copy(at, into)), &image, |place| places.push(place));
        let took = began.elapsed();
        let code = segments.iter().filter(|s| s.flags & segment_flag::EXECUTE != 0).filter_map(|s| {
            let from = usize::try_from(s.offset).ok()?;
            file.get(from..from.checked_add(usize::try_from(s.file_bytes).ok()?)?)
        });
        with_bytes += u32::from(code.clone().any(|code| code.windows(2).any(|two| two == SYSCALL)));
        all_code += code.map(<[u8]>::len).sum::<usize>();
        all_took += took;
        if !places.is_empty() {
            found += 1;
            let name = path.to_string_lossy();
            let library = if is_of_c_library(name.as_bytes()) { ", of the C library" } else { "" };
            let first = places.iter().take(4).fold(String::new(), |text, place| format!("{text} {place:#x}"));
            println!("{name}  {took:.1?}  {} places:{first}{library}", places.len());
        }
    }
    println!(
        "{found} of {objects} objects may; {with_bytes} have the bytes; {:.0} MB of code were searched in {all_took:.1?}",
        all_code as f64 / 1e6
    );
}
