//! How much was recorded when, by the heads of packets alone. It is known as soon as a trace is open, so the page shows
//! where things happened before the first event is read.

use lttv_engine::source::Source;

/// A part of the time and how much there is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// First time, ns.
    pub from: i64,
    /// End.
    pub to: i64,
    /// How much: here bytes of packets, of which those of a packet are spread evenly over its time.
    pub amount: u64,
}

/// Cuts a span into `count` equal slots and shares the packets' bytes out to them. The bytes of a packet that reaches
/// into the span are all in some slot. Empty: no source has packets with times.
pub fn slots<'s>(
    sources: impl IntoIterator<Item = &'s dyn Source>,
    span: (i64, i64),
    count: usize,
) -> Vec<Slot> {
    let (from, to) = (i128::from(span.0), i128::from(span.1));
    let parts = count.max(1) as i128;
    let border = |k: i128| from + (to - from) * k / parts;
    let mut bytes = vec![0_u64; count.max(1)];
    let mut any = false;
    for source in sources {
        for packet in (0..source.tracefiles().len()).flat_map(|file| source.packets(file)) {
            let Some((begin, end)) = packet.begin.zip(packet.end) else { continue };
            let (begin, end) = (i128::from(begin.ns()), i128::from(end.ns()));
            if end < begin || end < from || begin >= to {
                continue;
            }
            any = true;
            // A packet is opened before its first event, so the first packet begins before the span. All of its events
            // are in the span.
            let begin = begin.max(from);
            // No file is larger; so the products below have room.
            let all = i128::from(packet.bytes.min(1 << 62));
            let before = |time: i128| match end - begin {
                0 if time > begin => all,
                0 => 0,
                length => all * (time.clamp(begin, end) - begin) / length,
            };
            let slot_of = |time: i128| ((time - from) * parts / (to - from)).clamp(0, parts - 1);
            // Borders are rounded down, so a time may lie one slot later than the division says.
            let (first, last) = (slot_of(begin), (slot_of(end) + 1).min(parts - 1));
            for k in first..=last {
                let until = if k == last { all } else { before(border(k + 1)) };
                let since = if k == first { 0 } else { before(border(k)) };
                if let Some(slot) = usize::try_from(k).ok().and_then(|k| bytes.get_mut(k)) {
                    *slot = slot.saturating_add(u64::try_from(until - since).unwrap_or(0));
                }
            }
        }
    }
    if !any {
        return Vec::new();
    }
    let time = |k: i128| i64::try_from(border(k)).unwrap_or(i64::MAX);
    let slots = (0_i128..).zip(bytes);
    slots.map(|(k, bytes)| Slot { from: time(k), to: time(k + 1), amount: bytes }).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use lttv_engine::describe::PacketInfo;
    use lttv_engine::identity::TraceIdentity;
    use lttv_engine::source::{Cursor, ReadError, TracefileInfo};
    use lttv_engine::synthetic::{SyntheticFile, SyntheticTrace};
    use lttv_engine::time::Time;

    use super::*;

    /// Packets: begin, end, bytes.
    struct Packets(Arc<SyntheticTrace>, Vec<(i64, i64, u64)>);

    impl Source for Packets {
        fn identity(&self) -> &TraceIdentity {
            self.0.identity()
        }
        fn tracefiles(&self) -> &[TracefileInfo] {
            self.0.tracefiles()
        }
        fn cursor(&self, tracefile: usize) -> Result<Box<dyn Cursor>, ReadError> {
            self.0.cursor(tracefile)
        }
        fn time_span(&self) -> Option<(Time, Time)> {
            self.0.time_span()
        }
        fn packets(&self, _: usize) -> Vec<PacketInfo> {
            let packet = |&(begin, end, bytes): &(i64, i64, u64)| PacketInfo {
                file: PathBuf::new(),
                at: 0,
                bytes,
                begin: Some(Time(begin)),
                end: Some(Time(end)),
                sequence: None,
                discarded: None,
            };
            self.1.iter().map(packet).collect()
        }
    }

    fn bytes(packets: &[(i64, i64, u64)], span: (i64, i64), count: usize) -> Vec<u64> {
        let file = SyntheticFile::new("stream", None, &["event"], Vec::new());
        let source = Packets(Arc::new(SyntheticTrace::new("packets", vec![file])), packets.to_vec());
        slots([&source as &dyn Source], span, count).iter().map(|slot| slot.amount).collect()
    }

    #[test]
    fn packets_are_spread_over_their_time_and_no_byte_is_lost() {
        assert_eq!(bytes(&[(0, 40, 100)], (0, 100), 5), [50, 50, 0, 0, 0]);
        assert_eq!(bytes(&[(99, 99, 7), (0, 0, 3)], (0, 100), 2), [3, 7]);
        assert!(bytes(&[], (0, 100), 5).is_empty());
        // Opened before the first event; over before it.
        assert_eq!(bytes(&[(-1000, 40, 100), (-9, -1, 5)], (0, 100), 5), [50, 50, 0, 0, 0]);
        let mut dice = pct_kit::Dice::new(1);
        for _ in 0..2000 {
            let any = |dice: &mut pct_kit::Dice, n| i64::try_from(dice.below(n)).expect("small");
            let width = 1 + any(&mut dice, 3000);
            let packets: Vec<(i64, i64, u64)> = (0..20)
                .map(|_| {
                    let begin = any(&mut dice, width.unsigned_abs());
                    (begin, begin + any(&mut dice, 1000), dice.below(1 << 20))
                })
                .collect();
            let sum: u64 = packets.iter().map(|packet| packet.2).sum();
            let count = 1 + dice.index(50);
            let got = bytes(&packets, (0, width), count);
            assert_eq!(got.iter().sum::<u64>(), sum, "{packets:?} {width} {count}");
            assert_eq!(got.len(), count);
        }
    }

    #[test]
    fn slots_at_the_ends_of_time_are_no_overflow() {
        let ends = [(i64::MIN, i64::MAX, u64::MAX), (i64::MAX - 1, i64::MAX, 9), (5, 4, 9)];
        assert_eq!(bytes(&ends, (i64::MIN, i64::MAX), 3).len(), 3);
    }
}
