//! Small profiles written out octet by octet, and finding the real ones.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::path::PathBuf;

/// Version 9, no coverage: a procedure with a closure call occurs twice in a path, once in a clique of two.
pub(crate) const TWO_OCCURRENCES: &str = "\
    4d 65 72 63 75 72 79 20 64 65 65 70 20 70 72 6f 66 69 6c 65 72 20 64 61 74 61 20 76 65 72 73 69 \
    6f 6e 20 39 0a 01 76 08 01 00 00 00 00 00 00 05 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 05 \
    00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 64 00 00 05 01 04 01 01 01 04 01 00 02 01 02 0a 01 \
    01 04 02 02 01 02 02 00 02 02 03 0a 01 01 04 03 03 02 00 03 00 04 02 03 04 0a 01 01 04 04 02 01 \
    02 05 00 02 05 03 0a 01 01 02 04 05 0a 01 01 04 05 02 01 02 00 03 01 00 0f 4d 65 72 63 75 72 79 \
    20 72 75 6e 74 69 6d 65 0f 4d 65 72 63 75 72 79 20 72 75 6e 74 69 6d 65 0f 4d 65 72 63 75 72 79 \
    20 72 75 6e 74 69 6d 65 00 00 0f 4d 65 72 63 75 72 79 20 72 75 6e 74 69 6d 65 00 01 01 01 01 01 \
    04 00 01 03 63 31 3b 03 02 00 01 6d 01 6d 01 73 01 00 03 6d 2e 6d 02 00 01 02 01 02 02 00 02 03 \
    63 32 3b 03 03 00 01 6d 01 6d 01 72 01 00 03 6d 2e 6d 03 00 02 03 04 01 03 00 02 00 00 03 03 63 \
    33 3b 01 04 00 02 00 00 04 03 63 34 3b \
";

/// Version 9, dynamic coverage: every kind of call site, long numbers, forms of names.
pub(crate) const EVERY_KIND: &str = "\
    4d 65 72 63 75 72 79 20 64 65 65 70 20 70 72 6f 66 69 6c 65 72 20 64 61 74 61 20 76 65 72 73 69 \
    6f 6e 20 39 0a 0b 2e 2f 73 79 6e 74 68 65 74 69 63 08 21 00 00 00 00 00 00 07 00 00 00 00 00 00 \
    00 06 00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 05 00 00 00 00 00 00 00 64 02 04 84 a4 44 01 \
    04 01 01 01 00 04 01 00 02 01 02 0a 01 01 04 02 02 04 01 82 2c 00 02 02 03 04 00 01 00 03 05 00 \
    02 02 03 83 7e 81 16 32 14 14 03 81 48 09 82 2c 04 03 03 01 01 82 2c 00 06 02 06 02 0a 04 04 02 \
    03 04 3a 84 a2 70 84 a2 70 05 0c 04 04 04 00 01 82 2c 02 04 05 0a 01 01 04 05 03 01 01 82 2c 00 \
    07 02 07 06 0e 03 01 04 04 06 02 04 01 82 2c 00 00 02 00 01 00 03 00 02 05 07 0a 02 02 04 07 05 \
    00 01 82 2c 03 01 00 0f 4d 65 72 63 75 72 79 20 72 75 6e 74 69 6d 65 0f 4d 65 72 63 75 72 79 20 \
    72 75 6e 74 69 6d 65 0f 4d 65 72 63 75 72 79 20 72 75 6e 74 69 6d 65 00 00 03 6d 2e 6d 0a 01 01 \
    01 00 01 01 04 03 78 2e 6d 01 00 03 02 00 01 6d 01 6d 04 6d 61 69 6e 02 00 03 6d 2e 6d 14 00 04 \
    02 03 04 05 01 08 73 31 2d 32 3b 63 31 3b 00 01 02 00 03 07 54 20 3d 20 69 6e 74 03 78 2e 6d 02 \
    03 63 31 3b 01 03 02 03 78 2e 6d 03 09 63 32 3b 73 31 2d 6e 61 3b 01 04 01 03 78 2e 6d 04 05 3f \
    3b 63 31 3b 01 05 03 03 78 2e 6d 05 0c 65 3b 64 33 3b 7e 3b 71 3b 71 21 3b 03 03 01 01 6d 01 6d \
    21 49 6e 74 72 6f 64 75 63 65 64 46 72 6f 6d 5f 5f 70 72 65 64 5f 5f 6d 61 69 6e 5f 5f 31 32 5f \
    5f 31 03 01 03 6d 2e 6d 1e 01 01 06 01 08 73 31 2d 32 3b 63 31 3b 00 01 06 00 02 07 54 20 3d 20 \
    69 6e 74 03 78 2e 6d 06 03 63 31 3b 03 04 02 01 74 01 6d 01 6d 09 5f 5f 55 6e 69 66 79 5f 5f 01 \
    00 03 6d 2e 6d 28 00 00 01 08 73 31 2d 32 3b 63 31 3b 00 03 05 00 01 6d 01 6e 20 54 79 70 65 53 \
    70 65 63 4f 66 5f 5f 70 72 65 64 5f 5f 71 5f 5f 5b 41 20 3d 20 69 6e 74 5d 5f 31 01 00 03 6d 2e \
    6d 32 01 00 01 08 73 31 2d 32 3b 63 31 3b 00 \
";

/// The octets of one of the texts above.
pub(crate) fn octets(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|h| u8::from_str_radix(h, 16).expect("two hex digits")).collect()
}

/// A file of the real sample; `None`, with a line on stderr, where the data is not at hand.
pub(crate) fn sample(name: &str) -> Option<PathBuf> {
    let data = std::env::var_os("PCT_TEST_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let file = data.join("deep/mandelbrot").join(name);
    if file.is_file() {
        return Some(file);
    }
    eprintln!("skipped: no {}", file.display());
    None
}
