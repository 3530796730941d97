//! Files as other tools write them: with their right sums, or refused in words that say what they are.

use pct_formats::import::parse;
use pct_formats::{Format, export};
use std::path::Path;

/// What an input must give: the total and a note's part (empty: any), or a part of the refusal.
#[derive(Clone, Copy, Debug)]
enum Want {
    /// `Profile::amount_in_words` of the total, number of samples, a part of a note.
    Sum(&'static str, u64, &'static str),
    Refused(&'static str),
}

fn check(name: &str, bytes: &[u8], want: Want) {
    let read = parse(bytes, Path::new(name));
    match (read, want) {
        (Ok(profile), Want::Sum(sum, samples, note)) => {
            let total = profile.total();
            assert_eq!(profile.amount_in_words(total.cpu_ns()), sum, "{name}");
            assert_eq!(total.samples, samples, "{name}");
            let notes = profile.account.notes.join("\n");
            assert!(notes.contains(note), "{name}: {notes:?}");
            for &(_, format) in Format::ALL {
                assert!(!export(&profile, &profile.cells, format).is_empty(), "{name}: {format:?}");
            }
        }
        (Err(why), Want::Refused(words)) => assert!(why.to_string().contains(words), "{name}: {why}"),
        (Ok(profile), want) => {
            let sum = profile.amount_in_words(profile.total().cpu_ns());
            panic!("{name}: {sum}, wanted {want:?}")
        }
        (Err(why), want) => panic!("{name}: {why}, wanted {want:?}"),
    }
}

#[test]
fn packed_files_are_unpacked_or_named() {
    let gzip = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut out, bytes).unwrap();
        out.finish().unwrap()
    };
    let text = b"main;a 3\nmain;b 4\n";
    let sum = |note| Want::Sum("0.007 CPU s", 7, note);
    let members = [gzip(&text[..9]), gzip(&text[9..])].concat();
    check("members", &members, sum(""));
    check("twice", &gzip(&gzip(text)), sum(""));
    check("zeros behind", &[gzip(text), vec![0; 512]].concat(), sum(""));
    check("octets behind", &[gzip(text), b"xyz".to_vec()].concat(), sum("3 octets behind"));
    check("cut", &gzip(text)[..20], Want::Refused("damaged gzip"));
    for (name, bytes, words) in [
        ("xz", &b"\xfd7zXZ\0\0\x04\xe6"[..], "xz -d first"),
        ("bzip2", b"BZh91AY&SY\x01\x02\x03", "bzip2 -d first"),
        ("zstd", b"\x28\xb5\x2f\xfd\x24\x10\x81\0", "zstd -d first"),
        ("UTF-16", b"\xff\xfem\0;\0a\0 \x003\0\n\0", "UTF-16"),
        ("UTF-16 without a mark", b"m\0;\0a\0 \x003\0\n\0", "UTF-16"),
        ("perf.data 1", b"PERFFILE\x68\0\0\0\0\0\0\0", "version 1"),
        ("nothing", b"", "empty"),
        ("other octets", b"\xff\x07\0\x01\x02\x03", "octet"),
    ] {
        check(name, bytes, Want::Refused(words));
    }
}

#[test]
fn a_text_is_known_by_its_form_as_a_whole() {
    for (name, text, words) in [
        ("callgrind", "# callgrind format\nevents: Ir\n\nfn=main\n16 400\n", "callgrind"),
        (
            "legacy pprof",
            "heap profile: 1: 10 [ 2: 20] @ heap/1024\n 1: 10 [1: 10] @ 0x1 0x2\n",
            "go tool pprof",
        ),
        ("Gecko", "{\"meta\": {\"interval\": 1},\n\"threads\": [], \"n\": 12\n}", "Gecko"),
        ("Chrome", "{\"traceEvents\": [\n{\"ph\": \"X\", \"ts\": 1\n", "Chrome"),
        ("GHC", "\tTime and Allocation Profiling Report  (Final)\n\n\tx +RTS\n main 12 3\n", "GHC"),
        ("a letter", "Dear Bob,\nplease send me 12\nYours, Ann\n", "line 1"),
        ("one line", "main;a 3\nmain;b 4\nand so on\n", "line 3"),
        ("a number", "main;a 3\n4\n", "line 2"),
        ("differences", "main;a 3\nmain;b -4\n", "pct diff"),
        ("two columns", "main;a 3 7\nmain;b 2 2\n", "pct diff"),
        ("huge", "a;b 9223372036854775807\na;c 9223372036854775807\n", "add up"),
    ] {
        check(name, text.as_bytes(), Want::Refused(words));
    }
    let sum = Want::Sum("0.014 CPU s", 14, "no unit");
    for text in [
        "main;b 10\nmain;c 4\n",
        "main;b\t10\nmain;c\t4\n",
        "\u{feff}main;b 10\r\nmain;c 4\r\n",
        "# a comment 3\n#0;b 10\n\nmain;a\u{1}b 4",
        "main;b 9.6\nmain;c 4\nmain 0.4\n",
    ] {
        let want = if text.contains('.') { Want::Sum("0.014 CPU s", 14, "no whole numbers") } else { sum };
        check(text, text.as_bytes(), want);
    }
}
