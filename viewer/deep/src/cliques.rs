//! Cliques: the strongly connected components of the call graph of contexts.
//!
//! Clique numbers are part of URLs, so their order is fixed: depth-first search over the PDs in ascending order,
//! successors ascending; a clique is numbered when its first-met PD is finished. So callees' cliques have smaller
//! numbers, and the root's has the largest. (The contract defines this by two searches: finishing order, then reversed
//! arcs. Its components in reverse have the order in which their first-met PDs finish, which is the order of one search
//! in the manner of Tarjan. The tests compare the two.)
//!
//! The search stores one number for each PD (Pearce, "A space-efficient algorithm for finding strongly connected
//! components", 2016). While a PD's clique is open, it is the number of the earliest met PD that it is known to reach.
//! Afterwards it is the PD's clique, counted down from the number of PDs. The numbers of open PDs are freed with their
//! cliques, so they stay below those of cliques.
//!
//! The search is iterative, because there are call paths of millions of contexts.

use crate::groups::{Few, Mostly1};
use crate::id::{CliqueId, CsdId, Id, IdVec, PdId};
use crate::model::DeepData;
use crate::small::small;

#[derive(Clone, Debug)]
pub(crate) struct Cliques {
    pub(crate) of: IdVec<PdId, CliqueId>,
    pub(crate) members: Mostly1<CliqueId, PdId>,
}

/// The CSD that enters each clique. If there are several (in handmade files), it is the last in ascending order of
/// callers, then in slot order. For a clique of one PD with one caller, as nearly all are, it is computed on request.
#[derive(Clone, Debug)]
pub(crate) struct Entries {
    /// For cliques of one PD with several callers, by the number of the list of callers.
    of_called: Vec<Option<CsdId>>,
    /// For cliques of several PDs, by the number of the list of members.
    of_several: Vec<Option<CsdId>>,
}

impl Entries {
    pub(crate) fn new(data: &DeepData, cliques: &Cliques, callers: &Mostly1<PdId, CsdId>) -> Self {
        let mut of_called = vec![None; callers.lists()];
        for (n, entry) in of_called.iter_mut().enumerate() {
            let list = callers.list(n);
            // All of them lead to the same PD.
            let clique = cliques.of[data.csd_callee(list[0])];
            if let Few::One(_) = cliques.members.few(clique) {
                *entry = last_from_outside(data, cliques, clique, list.iter().copied());
            }
        }
        let of_several = (0..cliques.members.lists())
            .map(|n| {
                let members = cliques.members.list(n);
                let leading = members.iter().flat_map(|&pd| callers.items_of(pd).iter().copied());
                last_from_outside(data, cliques, cliques.of[members[0]], leading)
            })
            .collect();
        Self { of_called, of_several }
    }
    /// The CSD that enters a clique, if one does.
    #[inline]
    pub(crate) fn entry_of_clique(
        &self,
        data: &DeepData,
        cliques: &Cliques,
        callers: &Mostly1<PdId, CsdId>,
        clique: CliqueId,
    ) -> Option<CsdId> {
        let pd = match cliques.members.few(clique) {
            Few::One(pd) => pd,
            Few::List(n) => return self.of_several[n],
            Few::None => return None,
        };
        match callers.few(pd) {
            Few::None => None,
            Few::One(csd) => (data.csd_caller(csd) != pd).then_some(csd),
            Few::List(n) => self.of_called[n],
        }
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        (self.of_called.capacity() + self.of_several.capacity()) * 4
    }
}

fn last_from_outside(
    data: &DeepData,
    cliques: &Cliques,
    clique: CliqueId,
    csds: impl Iterator<Item = CsdId>,
) -> Option<CsdId> {
    let mut last: Option<CsdId> = None;
    for csd in csds {
        let caller = data.csd_caller(csd);
        if cliques.of[caller] == clique {
            continue;
        }
        let later = match last {
            None => true,
            Some(other) if data.csd_caller(other) == caller => {
                data.edges(caller).iter().rfind(|&&c| c == csd || c == other) == Some(&csd)
            }
            Some(other) => caller > data.csd_caller(other),
        };
        if later {
            last = Some(csd);
        }
    }
    last
}

struct OpenContext {
    pd: u32,
    /// The number of this PD when it was met. The PD leads its clique if it still has that number at the end.
    met: u32,
    /// Index in the shared list of this PD's first successor, and of the next one.
    start: u32,
    next: u32,
}

pub(crate) fn find(data: &DeepData) -> Cliques {
    let n = data.pd_count();
    let mut search = Search {
        data,
        number: vec![0; n],
        open: Vec::new(),
        successors: Vec::new(),
        frames: Vec::new(),
        next: 1,
        next_clique: small(n),
    };
    for pd in 0..small(n) {
        if search.number[pd as usize] == 0 {
            search.run(pd);
        }
    }
    let Search { number, next_clique, open, successors, frames, .. } = search;
    drop((open, successors, frames));
    let cliques = n - next_clique as usize;
    let of = IdVec::from_vec(number.into_iter().map(|c| CliqueId::at(n - c as usize)).collect());
    let members = Mostly1::by(cliques, n, |pd: PdId| of[pd]);
    Cliques { of, members }
}

struct Search<'a> {
    data: &'a DeepData,
    number: Vec<u32>,
    /// PDs that do not lead their cliques and whose cliques are incomplete.
    open: Vec<u32>,
    successors: Vec<u32>,
    frames: Vec<OpenContext>,
    next: u32,
    next_clique: u32,
}

impl Search<'_> {
    #[inline]
    fn enter(&mut self, pd: u32) {
        let met = self.next;
        self.number[pd as usize] = met;
        self.next += 1;
        let data = self.data;
        let edges = data.edges(PdId::at(pd as usize));
        if edges.is_empty() {
            self.leave_lone(pd);
            return;
        }
        let start = self.successors.len();
        let callee = |&csd: &CsdId| small(data.csd_callee(csd).index());
        self.successors.extend(edges.iter().map(callee));
        let added = &mut self.successors[start..];
        if !added.is_sorted() {
            added.sort_unstable();
        }
        // There are fewer CSDs than 2^32.
        self.frames.push(OpenContext { pd, met, start: small(start), next: small(start) });
    }

    /// A PD without calls is a complete clique at once.
    #[inline]
    fn leave_lone(&mut self, pd: u32) {
        self.next -= 1;
        self.number[pd as usize] = self.next_clique;
        self.next_clique -= 1;
    }

    fn run(&mut self, start: u32) {
        self.enter(start);
        while let Some(frame) = self.frames.last_mut() {
            let pd = frame.pd as usize;
            if let Some(&callee) = self.successors.get(frame.next as usize) {
                let reached = self.number[callee as usize];
                if reached == 0 {
                    // It is visited again when it is finished, and has a number then.
                    self.enter(callee);
                } else {
                    frame.next += 1;
                    self.number[pd] = self.number[pd].min(reached);
                }
                continue;
            }
            let met = frame.met;
            self.successors.truncate(frame.start as usize);
            self.frames.pop();
            if self.number[pd] < met {
                self.open.push(small(pd));
                continue;
            }
            self.next -= 1;
            while let Some(&member) = self.open.last()
                && self.number[member as usize] >= met
            {
                self.number[member as usize] = self.next_clique;
                self.next -= 1;
                self.open.pop();
            }
            self.number[pd] = self.next_clique;
            self.next_clique -= 1;
        }
    }
}
