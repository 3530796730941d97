//! A CTF trace of one stream: two octets with the length of the metadata, the metadata, the stream. Whatever
//! they are, what can be read is read and shown, reading ends, and a place that was reached by walking is
//! reached by seeking too.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use lttv_ctf::{Options, open, text};

fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = PathBuf::from("/dev/shm");
        let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let folder = base.join(format!("pct-fuzz-ctf-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    })
}

fuzz_target!(|octets: &[u8]| {
    let Some((len, rest)) = octets.split_first_chunk::<2>() else { return };
    let (metadata, stream) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
    std::fs::write(folder().join("metadata"), metadata).expect("written");
    std::fs::write(folder().join("s"), stream).expect("written");
    let Ok(trace) = open(folder(), &Options::default()) else { return };
    for number in 0..trace.stream_count() {
        let mut reader = trace.reader(number);
        let mut next = reader.rewind();
        let (mut line, mut middle) = (String::new(), None);
        for n in 0..2000 {
            let Ok(Some(head)) = next else { break };
            line.clear();
            text::line(&mut line, trace.class(), &reader);
            if n == 3 {
                middle = Some((reader.position(), head.time, line.clone()));
            }
            next = reader.advance();
        }
        if let Some((position, time, shown)) = middle {
            let found = reader.seek(position).expect("walked there").expect("an event");
            assert!(found.time == time);
            line.clear();
            text::line(&mut line, trace.class(), &reader);
            assert_eq!(line, shown);
        }
    }
});
