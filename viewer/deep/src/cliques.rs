//! Cliques: the strongly connected components of the call graph of contexts.
//!
//! Clique numbers stand in URLs, so their order is fixed: depth-first search over the PDs in
//! ascending order, successors ascending; a clique is numbered when its first-met PD is finished.
//! So callees' cliques have smaller numbers and the root's has the largest. (The contract states
//! this as two searches, finishing order then reversed arcs; its components, taken backwards, come
//! in the order in which their first-met PDs finish, which is the order that Tarjan's single
//! search yields. The tests hold one against the other.)
//!
//! Iterative: call paths of millions of contexts occur.

use crate::groups::Groups;
use crate::id::{CliqueId, Id, IdVec, PdId};
use crate::model::DeepData;

#[derive(Clone, Debug)]
pub(crate) struct Cliques {
    pub(crate) of: IdVec<PdId, CliqueId>,
    pub(crate) members: Groups<CliqueId, PdId>,
}

struct Frame {
    pd: u32,
    /// Where this PD's successors begin and which is next, in the shared list.
    start: u32,
    next: u32,
}

pub(crate) fn find(data: &DeepData) -> Cliques {
    let n = data.pd_count();
    let mut search = Search {
        data,
        met: vec![0; n],
        low: vec![0; n],
        clique: vec![None; n],
        open: Vec::new(),
        successors: Vec::new(),
        frames: Vec::new(),
        last_met: 0,
        last_clique: 0,
    };
    for pd in 0..n as u32 {
        if search.met[pd as usize] == 0 {
            search.run(pd);
        }
    }
    let Search { clique, last_clique, met, low, .. } = search;
    drop((met, low));
    let of: IdVec<PdId, CliqueId> =
        IdVec::from_vec(clique.into_iter().map(|k| k.expect("the search gave every PD a clique")).collect());
    let members = Groups::by(last_clique, n, |pd: PdId| of[pd]);
    Cliques { of, members }
}

struct Search<'a> {
    data: &'a DeepData,
    /// When each PD was met, from 1; 0: not yet.
    met: Vec<u32>,
    /// The earliest met PD of its clique that it is known to reach.
    low: Vec<u32>,
    clique: Vec<Option<CliqueId>>,
    /// PDs met whose clique is not complete.
    open: Vec<u32>,
    successors: Vec<u32>,
    frames: Vec<Frame>,
    last_met: u32,
    last_clique: usize,
}

impl Search<'_> {
    fn enter(&mut self, pd: u32) {
        self.last_met += 1;
        self.met[pd as usize] = self.last_met;
        self.low[pd as usize] = self.last_met;
        self.open.push(pd);
        let start = self.successors.len();
        let data = self.data;
        let successors = &mut self.successors;
        data.each_csd(PdId::at(pd as usize), |_, csd| successors.push(data.csd_callee(csd).index() as u32));
        if successors.len() > start + 1 {
            successors[start..].sort_unstable();
        }
        // There are fewer CSDs than 2^32.
        self.frames.push(Frame { pd, start: start as u32, next: start as u32 });
    }

    fn run(&mut self, start: u32) {
        self.enter(start);
        while let Some(frame) = self.frames.last_mut() {
            let pd = frame.pd as usize;
            if let Some(&callee) = self.successors.get(frame.next as usize) {
                frame.next += 1;
                let callee_at = callee as usize;
                if self.met[callee_at] == 0 {
                    self.enter(callee);
                } else if self.clique[callee_at].is_none() {
                    self.low[pd] = self.low[pd].min(self.met[callee_at]);
                }
                continue;
            }
            self.successors.truncate(frame.start as usize);
            self.frames.pop();
            if let Some(below) = self.frames.last() {
                let below = below.pd as usize;
                self.low[below] = self.low[below].min(self.low[pd]);
            }
            if self.low[pd] == self.met[pd] {
                let clique = CliqueId::at(self.last_clique);
                self.last_clique += 1;
                while let Some(member) = self.open.pop() {
                    self.clique[member as usize] = Some(clique);
                    if member as usize == pd {
                        break;
                    }
                }
            }
        }
    }
}
