//! A fast path for the most frequent nodes, of which profiles have millions: complete and ordered contexts and edges
//! are decoded directly into the tables. Anything else is left to [`mod@crate::read`], which reports errors.

use crate::builder::Builder;
use crate::cursor::{fast_num, skip_nums};
use crate::error::NodeRef;
use crate::id::{CsdId, Id, PdId, PsId};
use crate::model::Coverage;

/// A num of at most 9 octets, which is always below 2^63.
#[inline(always)]
fn num(part: &[u8], at: &mut usize) -> Option<u64> {
    let (value, len) = fast_num(part.get(*at..)?)?;
    *at += len;
    Some(value)
}

/// The index in a table of length `len` for a number in the file.
#[inline]
fn index(number: u64, len: usize) -> Option<usize> {
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    (at < len).then_some(at)
}

impl Builder {
    /// Adds the node at the beginning of `part` if it is a complete and ordered context or edge. Returns the node and
    /// its length in octets. `None`: nothing was added.
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
        let mask = num(part, &mut at)?;
        if mask & !0x1fe != 0 || csds[id].is_some() {
            return None;
        }
        let values = at;
        at += skip_nums(&part[at..], mask.count_ones())?;
        if !self.csd_own.set_record(id, mask, &part[values..at]) {
            return None;
        }
        csds[id] = Some(PdId::at(callee));
        Some((CsdId::at(id), at))
    }

    fn whole_pd(&mut self, part: &[u8]) -> Option<(PdId, usize)> {
        let mark = self.mark();
        let parsed = self.whole_pd_fields(part);
        let done = parsed.filter(|&(id, ps, counts, _)| self.pd_since(&mark, id, ps, counts).is_ok());
        if done.is_none() {
            self.roll_back(&mark);
        }
        done.map(|(id, _, _, len)| (id, len))
    }

    /// The context's id, procedure, number of coverage counts, and length in octets.
    #[inline]
    fn whole_pd_fields(&mut self, part: &[u8]) -> Option<(PdId, PsId, u32, usize)> {
        let csds = self.csd_callee.len();
        let mut at = 1;
        let id = index(num(part, &mut at)?, self.pd_ps.len())?;
        let ps = index(num(part, &mut at)?, self.ps_len())?;
        if self.pd_ps.as_slice()[id].is_some() {
            return None;
        }
        let sites = u32::try_from(num(part, &mut at)?).ok()?;
        let mut counts = 0;
        if self.header().coverage == Coverage::Dynamic {
            counts = u32::try_from(num(part, &mut at)?).ok()?;
            let len = skip_nums(&part[at..], counts)?;
            self.pd_counts.extend_from_slice(&part[at..at + len]);
            at += len;
        }
        for slot in 0..sites {
            let kind = *part.get(at)?;
            at += 1;
            if kind == 0 {
                let number = num(part, &mut at)?;
                if number != 0 {
                    self.edges.push(CsdId::at(index(number, csds)?));
                    self.edge_slots.push(slot);
                }
            } else {
                if kind > 4 {
                    return None;
                }
                while *part.get(at)? != 0 {
                    self.edges.push(CsdId::at(index(num(part, &mut at)?, csds)?));
                    self.edge_slots.push(slot);
                }
                at += 1;
            }
            self.slot_kinds.push(kind);
        }
        Some((PdId::at(id), PsId::at(ps), counts, at))
    }
}
