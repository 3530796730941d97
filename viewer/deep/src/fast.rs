//! The short cut for the nodes that profiles have by the million: contexts and edges that are
//! whole and in order are decoded straight into the tables. Anything odd is left untouched for
//! [`mod@crate::read`], which knows what to say about it.

use crate::builder::Builder;
use crate::error::NodeRef;
use crate::id::{CsdId, Id, PdId, PsId};
use crate::model::{Coverage, SLOT_BITS, SLOT_MAX, Span};

/// A num of at most 9 octets, which is always below 2^63.
#[inline]
fn num(part: &[u8], at: &mut usize) -> Option<u64> {
    let rest = part.get(*at..)?;
    match *rest {
        [a, ..] if a < 0x80 => {
            *at += 1;
            Some(u64::from(a))
        }
        [a, b, ..] if b < 0x80 => {
            *at += 2;
            Some(u64::from(a & 0x7f) << 7 | u64::from(b))
        }
        [a, b, c, ..] if c < 0x80 => {
            *at += 3;
            Some(u64::from(a & 0x7f) << 14 | u64::from(b & 0x7f) << 7 | u64::from(c))
        }
        _ => {
            let mut value = 0;
            for (i, &octet) in rest.iter().take(9).enumerate() {
                value = value << 7 | u64::from(octet & 0x7f);
                if octet & 0x80 == 0 {
                    *at += i + 1;
                    return Some(value);
                }
            }
            None
        }
    }
}

/// Passes a num of at most 9 octets.
#[inline]
fn skip(part: &[u8], at: &mut usize) -> Option<()> {
    let rest = part.get(*at..)?;
    let len = rest.iter().take(9).position(|&o| o & 0x80 == 0)?;
    *at += len + 1;
    Some(())
}

/// The position in a table of `len` that a number from the file stands for.
#[inline]
fn index(number: u64, len: usize) -> Option<usize> {
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    (at < len).then_some(at)
}

impl Builder {
    /// Takes in the node that `part` begins with, if it is a context or an edge, whole and in
    /// order. Which one it was, and how many octets; `None`: nothing was taken in.
    #[inline]
    pub(crate) fn whole_node(&mut self, part: &[u8]) -> Option<(NodeRef, usize)> {
        match part.first()? {
            2 => self.whole_csd(part).map(|(id, len)| (NodeRef::Csd(id), len)),
            4 => self.whole_pd(part).map(|(id, len)| (NodeRef::Pd(id), len)),
            _ => None,
        }
    }

    fn whole_csd(&mut self, part: &[u8]) -> Option<(CsdId, usize)> {
        let mut at = 1;
        let csds = self.csd_callee.as_mut_slice();
        let id = index(num(part, &mut at)?, csds.len())?;
        let callee = index(num(part, &mut at)?, self.pd_ps.len())?;
        let record = at;
        let mask = num(part, &mut at)?;
        if mask & !0x1fe != 0 || csds[id].is_some() {
            return None;
        }
        for _ in 0..mask.count_ones() {
            skip(part, &mut at)?;
        }
        // A padded mask would not be recognised as a zero record.
        if mask == 0 && at - record != 1 || !self.csd_own.set_record(id, &part[record..at]) {
            return None;
        }
        csds[id] = Some(PdId::at(callee));
        Some((CsdId::at(id), at))
    }

    fn whole_pd(&mut self, part: &[u8]) -> Option<(PdId, usize)> {
        let mark = self.mark();
        let done = self.whole_pd_fields(part);
        if done.is_none() {
            self.roll_back(&mark);
        }
        done
    }

    fn whole_pd_fields(&mut self, part: &[u8]) -> Option<(PdId, usize)> {
        let csds = self.csd_callee.len();
        let mut at = 1;
        let id = index(num(part, &mut at)?, self.pd_ps.len())?;
        let ps = index(num(part, &mut at)?, self.ps_len())?;
        if self.pd_ps.as_slice()[id].is_some() {
            return None;
        }
        let sites = u32::try_from(num(part, &mut at)?).ok()?;
        if self.header().coverage == Coverage::Dynamic {
            let counts = u32::try_from(num(part, &mut at)?).ok()?;
            let (first, start) = (at, u32::try_from(self.pd_counts.len()).ok()?);
            for _ in 0..counts {
                skip(part, &mut at)?;
            }
            self.pd_counts.extend_from_slice(&part[first..at]);
            self.pd_counts_start[id] = start;
            self.pd_counts_len[id] = counts;
        }
        let start = u32::try_from(self.slots.len()).ok()?;
        for _ in 0..sites {
            let kind = *part.get(at)?;
            at += 1;
            if kind == 0 {
                let csd = num(part, &mut at)?;
                if csd > csds as u64 {
                    return None;
                }
                self.slots.push(csd as u32);
                continue;
            }
            if kind > 4 {
                return None;
            }
            let mut low = 0;
            if *part.get(at)? != 0 {
                low = u32::try_from(self.multi.len() + 1).ok().filter(|&n| n <= SLOT_MAX)?;
                let length = self.multi.len();
                // Its length is not known yet; any id keeps the place.
                self.multi.push(CsdId::at(0));
                while *part.get(at)? != 0 {
                    let csd = index(num(part, &mut at)?, csds)?;
                    self.multi.push(CsdId::at(csd));
                }
                self.multi[length] = CsdId::at(self.multi.len() - length - 2);
            }
            at += 1;
            self.slots.push(low | u32::from(kind) << SLOT_BITS);
        }
        self.pd_slots.as_mut_slice()[id] = Span { start, len: sites };
        self.pd_ps.as_mut_slice()[id] = Some(PsId::at(ps));
        Some((PdId::at(id), at))
    }
}
