//! Random recordings against a model of plain vectors: a reader returns what was written into a file, in order.

use pct_format::builder::Builder;
use pct_format::record::Frame;
use pct_format::{File, Index, Stack};
use proptest::prelude::*;

/// A sample: which thread, how much later than the one before, PC, weight, in the kernel, which stack.
type Taken = (usize, u64, u64, u64, bool, usize);

fn frame() -> impl Strategy<Value = Frame> {
    let address = 0x1000_u64..1 << 47;
    prop_oneof![address.clone().prop_map(Frame::Return), address.prop_map(Frame::Exact)]
}

fn samples(most: usize) -> impl Strategy<Value = Vec<Taken>> {
    let weight = prop_oneof![8 => 1_u64..255, 1 => 255_u64..258, 1 => 1_u64 << 40..1 << 41];
    prop::collection::vec(
        (0_usize..4, 0_u64..3, 0x1000_u64..1 << 47, weight, any::<bool>(), 0_usize..4),
        0..most,
    )
}

/// A sample as a reader returns it: raw time, PC, weight, in the kernel, frames.
type Read = (u64, u64, u64, bool, Vec<Frame>);

/// A file of these samples by four threads, and the samples of each thread.
fn written(taken: &[Taken], stacks: &[Vec<Frame>]) -> (Vec<u8>, Vec<Vec<Read>>) {
    let mut b = Builder::new();
    let threads: Vec<u32> =
        (0..4_u32).map(|n| b.thread(1, 100 + n, format!("thread {n}").as_bytes())).collect();
    let ids: Vec<u32> = stacks.iter().map(|frames| b.stack(frames)).collect();
    let mut expected = vec![Vec::new(); 4];
    let mut time = 10;
    for &(thread, later, pc, weight, system, stack) in taken {
        time += later;
        b.sample(threads[thread], time, pc, weight, system, ids[stack]);
        expected[thread].push((time, pc, weight, system, stacks[stack].clone()));
    }
    (b.finish(), expected)
}

fn read(index: &Index<'_>, serial: usize) -> Vec<Read> {
    let samples = index.samples(&index.threads[serial]);
    samples
        .map(|sample| {
            let frames = match sample.stack {
                Stack::None => Vec::new(),
                Stack::Id(id) => index.stacks.frames(id).collect(),
                Stack::Frames(_) => panic!("no frames were written into samples"),
            };
            (sample.time, sample.pc, sample.weight, sample.system, frames)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_thread_has_its_samples_in_order_across_segments(
        taken in samples(3000),
        stacks in prop::collection::vec(prop::collection::vec(frame(), 0..12), 4),
    ) {
        let (bytes, expected) = written(&taken, &stacks);
        let file = File::parse(&bytes).expect("a whole file");
        let index = Index::new(&file);
        prop_assert_eq!(index.torn_segments, 0);
        prop_assert_eq!(index.threads.len(), 4);
        for (serial, samples) in expected.iter().enumerate() {
            prop_assert_eq!(&index.threads[serial].name, &format!("thread {serial}"));
            prop_assert_eq!(&read(&index, serial), samples);
        }
        // All together by time; at equal times by thread, then in the order of sampling.
        let mut merged: Vec<(u64, usize, u64)> = Vec::new();
        for (serial, samples) in expected.iter().enumerate() {
            merged.extend(samples.iter().map(|sample| (sample.0, serial, sample.1)));
        }
        merged.sort_by_key(|(time, serial, _)| (*time, *serial));
        let found: Vec<_> =
            index.samples_by_time().map(|(serial, sample)| (sample.time, serial, sample.pc)).collect();
        prop_assert_eq!(found, merged);
    }

    #[test]
    fn a_file_cut_short_gives_the_first_samples_of_each_thread(
        taken in samples(2000),
        stacks in prop::collection::vec(prop::collection::vec(frame(), 0..12), 4),
        length in any::<prop::sample::Index>(),
    ) {
        let (bytes, expected) = written(&taken, &stacks);
        let cut = &bytes[..8192.max(length.index(bytes.len()))];
        let file = File::parse(cut).expect("its header is whole");
        let index = Index::new(&file);
        for (serial, samples) in expected.iter().enumerate().take(index.threads.len()) {
            let found = read(&index, serial);
            // Segments of a thread follow each other in the file, so only the end is missing. Stacks may be after the
            // cut.
            let plain = |sample: &Read| (sample.0, sample.1, sample.2, sample.3);
            let first: Vec<_> = samples.iter().take(found.len()).map(plain).collect();
            prop_assert_eq!(found.iter().map(plain).collect::<Vec<_>>(), first);
        }
    }

    #[test]
    fn a_place_in_code_is_of_the_region_that_lived_then_or_nearest_in_time(
        // Few pages and times, so that regions follow each other at one address without a gap.
        regions in prop::collection::vec((0_u64..4, 1_u64..3, 1_u64..12, prop::option::of(1_u64..6)), 1..16),
        questions in prop::collection::vec((0_u64..7, 1_u64..20), 1..40),
    ) {
        const PAGE: u64 = 0x1000;
        // Regions as (first page, last page, begin, end); those that would overlap one in space and time are left out.
        let mut lives: Vec<(u64, u64, u64, u64)> = Vec::new();
        for (page, pages, from, life) in regions {
            let (end, to) = (page + pages, life.map_or(u64::MAX, |life| from + life));
            let overlaps = |other: &(u64, u64, u64, u64)| {
                page < other.1 && other.0 < end && from < other.3 && other.2 < to
            };
            if !lives.iter().any(overlaps) {
                lives.push((page, end, from, to));
            }
        }
        let mut b = Builder::new();
        for (id, &(page, end, from, to)) in (1..).zip(&lives) {
            b.region(id, from, page * PAGE..end * PAGE, 0, 1, &[], format!("/lib/{id}").as_bytes());
            if to != u64::MAX {
                b.region_end(id, to);
            }
        }
        let bytes = b.finish();
        let file = File::parse(&bytes).expect("a whole file");
        let index = Index::new(&file);
        for (page, time) in questions {
            let distance = |life: &(u64, u64, u64, u64)| {
                if time < life.2 { life.2 - time } else { time.saturating_sub(life.3) }
            };
            let held = |life: &&(u64, u64, u64, u64)| life.0 <= page && page < life.1;
            let nearest = lives.iter().filter(held).map(distance).min();
            let found = index.region_at(page * PAGE + 17, time);
            let found = found.map(|region| {
                let (begin, end) = (region.facts.start / PAGE, region.facts.end / PAGE);
                distance(&(begin, end, region.from, region.to))
            });
            // Two may be equally near. One that exists then is preferred to one that has just ended.
            prop_assert_eq!(found, nearest, "page {} at {}: {:?}", page, time, lives);
            let living = lives.iter().find(|life| held(life) && life.2 <= time && time < life.3);
            if let Some(life) = living {
                let region = index.region_at(page * PAGE, time).expect("found before");
                prop_assert_eq!((region.from, region.to), (life.2, life.3));
            }
        }
    }
}
