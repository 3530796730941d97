//! Figures of many calls at once, for pages about procedures with hundreds of thousands of contexts and callers.
//!
//! The calls of a procedure are scattered over tables of hundreds of megabytes, so nearly every access waits for
//! memory. If calls are handled one by one, each access of a call needs the one before. So each step is done for many
//! calls before the next step, and the accesses of one step wait at the same time.

use std::collections::HashMap;

use crate::figures::{Desc, Own};
use crate::groups::Few;
use crate::id::{CliqueId, CsdId, Id, PdId, PsId};
use crate::profile::{Figures, Profile};

/// Number of calls handled together: their data stays in the nearest caches.
const TOGETHER: usize = 512;

impl Profile {
    /// The CSDs that lead to a procedure, ordered by the context that they lead to.
    pub fn calls_of(&self, ps: PsId) -> Vec<CsdId> {
        let pds = self.ps_pds(ps);
        let mut csds = Vec::with_capacity(pds.len());
        for &pd in pds {
            csds.extend_from_slice(self.pd_callers(pd));
        }
        csds
    }

    /// [`csd_own`](crate::DeepData::csd_own) of each CSD.
    pub fn csd_owns(&self, csds: &[CsdId]) -> Vec<Own> {
        let mut out = Vec::with_capacity(csds.len());
        for some in csds.chunks(TOGETHER) {
            self.data().csd_own.get_all(some.iter().map(|c| c.index()), &mut out);
        }
        out
    }

    /// [`Profile::csd_desc`] of each CSD.
    pub fn csd_descs(&self, csds: &[CsdId]) -> Vec<Desc> {
        let mut out = Vec::with_capacity(csds.len());
        for some in csds.chunks(TOGETHER) {
            let lone = self.lone_callees(some);
            out.extend(some.iter().zip(lone).map(|(&csd, lone)| match lone {
                Some(callee) => self.pd_desc(callee),
                None => self.csd_desc(csd),
            }));
        }
        out
    }

    /// [`Profile::csd_comp`] of each CSD.
    pub fn csd_comps(&self, csds: &[CsdId]) -> Vec<Desc> {
        csds.iter().map(|&csd| self.csd_comp(csd)).collect()
    }

    /// [`Profile::call_cost`] of each: their costs as calls of procedure `ps`, to which they lead.
    pub fn call_costs(&self, csds: &[CsdId], ps: PsId) -> Vec<Option<Figures>> {
        // The compensation in large cliques, by clique.
        let mut known: HashMap<CliqueId, Desc> = HashMap::new();
        let mut out = Vec::with_capacity(csds.len());
        for some in csds.chunks(TOGETHER) {
            let callees: Vec<PdId> = some.iter().map(|&csd| self.csd_callee(csd)).collect();
            let callers: Vec<PdId> = some.iter().map(|&csd| self.csd_caller(csd)).collect();
            let owns = self.csd_owns(some);
            let descs = self.csd_descs(some);
            for i in 0..some.len() {
                let (callee, mut desc) = (callees[i], descs[i]);
                if callee == callers[i] {
                    out.push(None);
                    continue;
                }
                // Only procedures with closure or method calls are in any table.
                if self.is_zeroed(ps) {
                    let clique = self.pd_clique(callee);
                    let members = self.clique_members(clique);
                    let comp = || members.iter().map(|&pd| self.pd_comp(pd, ps)).sum::<Desc>();
                    desc -=
                        if members.len() < 4 { comp() } else { *known.entry(clique).or_insert_with(comp) };
                }
                out.push(Some(Figures { own: owns[i], desc }));
            }
        }
        out
    }

    /// The callee of each CSD that is the only caller of a context which is a clique of its own. The CSD inherits
    /// exactly what that context has below it.
    fn lone_callees(&self, csds: &[CsdId]) -> Vec<Option<PdId>> {
        let callees: Vec<PdId> = csds.iter().map(|&csd| self.csd_callee(csd)).collect();
        let cliques: Vec<CliqueId> = callees.iter().map(|&pd| self.pd_clique(pd)).collect();
        let only: Vec<bool> =
            csds.iter().zip(&callees).map(|(&csd, &pd)| self.few_callers(pd) == Few::One(csd)).collect();
        let mut lone = Vec::with_capacity(csds.len());
        for ((&csd, &callee), (&clique, only)) in csds.iter().zip(&callees).zip(cliques.iter().zip(only)) {
            let is = only && self.clique_members(clique).len() == 1 && self.csd_caller(csd) != callee;
            lone.push(is.then_some(callee));
        }
        lone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Params, Shape, generate};
    use crate::{Compensation, DeepData};
    use proptest::prelude::*;

    fn profile(data: DeepData) -> Profile {
        Profile::new(data, Compensation::Exact).expect("generated figures are small")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn many_at_once_are_the_same_as_one_by_one(
            seed in any::<u64>(),
            shape in prop::sample::select(Shape::ALL.to_vec()),
            contexts in 1..2000_u32,
        ) {
            let p = profile(generate(&Params { seed, shape, contexts, procs: 15, ..Params::default() }).unwrap());
            for ps in p.pss() {
                let csds = p.calls_of(ps);
                prop_assert_eq!(p.csd_owns(&csds), csds.iter().map(|&c| p.csd_own(c)).collect::<Vec<_>>());
                prop_assert_eq!(p.csd_descs(&csds), csds.iter().map(|&c| p.csd_desc(c)).collect::<Vec<_>>());
                prop_assert_eq!(p.csd_comps(&csds), csds.iter().map(|&c| p.csd_comp(c)).collect::<Vec<_>>());
                let one_by_one: Vec<_> = csds.iter().map(|&c| p.call_cost(c, ps)).collect();
                prop_assert_eq!(p.call_costs(&csds, ps), one_by_one);
            }
        }
    }
}
