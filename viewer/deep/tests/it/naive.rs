//! The definitions of preprocessing, implemented literally with maps and full tables: slow, and the reference for the
//! real code.

use std::collections::{BTreeMap, BTreeSet};

use pct_deep::{Compensation, CsdId, CssId, DeepData, Desc, Own, PdId, PsId};

pub(crate) type Table = BTreeMap<PsId, Desc>;

pub(crate) struct Naive {
    pub(crate) csd_caller: BTreeMap<CsdId, PdId>,
    pub(crate) csd_css: BTreeMap<CsdId, CssId>,
    /// Numbered from 1, members ascending.
    pub(crate) cliques: Vec<Vec<PdId>>,
    pub(crate) clique_of: BTreeMap<PdId, usize>,
    pub(crate) entry: BTreeMap<usize, CsdId>,
    pub(crate) zeroed: BTreeSet<PsId>,
    pub(crate) pd_own: BTreeMap<PdId, Own>,
    pub(crate) pd_desc: BTreeMap<PdId, Desc>,
    pub(crate) pd_comp: BTreeMap<PdId, Table>,
    pub(crate) csd_desc: BTreeMap<CsdId, Desc>,
    pub(crate) csd_comp: BTreeMap<CsdId, Table>,
    pub(crate) ps_own: BTreeMap<PsId, Own>,
    pub(crate) ps_desc: BTreeMap<PsId, Desc>,
    pub(crate) css_own: BTreeMap<CssId, Own>,
    pub(crate) css_desc: BTreeMap<CssId, Desc>,
}

fn add_tables(into: &mut Table, from: &Table) {
    for (&ps, &d) in from {
        *into.entry(ps).or_default() += d;
    }
}

/// Two searches: finishing order, then reversed arcs.
fn cliques(data: &DeepData) -> Vec<Vec<PdId>> {
    let successors: BTreeMap<PdId, BTreeSet<PdId>> =
        data.pds().map(|d| (d, data.csds_of_pd(d).map(|c| data.csd_callee(c)).collect())).collect();
    let mut reversed: BTreeMap<PdId, BTreeSet<PdId>> = BTreeMap::new();
    for (&d, callees) in &successors {
        for &callee in callees {
            reversed.entry(callee).or_default().insert(d);
        }
    }
    let mut finished = Vec::new();
    let mut met = BTreeSet::new();
    for start in data.pds() {
        if !met.insert(start) {
            continue;
        }
        let mut stack = vec![(start, successors[&start].iter())];
        while let Some((d, rest)) = stack.last_mut() {
            match rest.next() {
                Some(&callee) => {
                    if met.insert(callee) {
                        stack.push((callee, successors[&callee].iter()));
                    }
                }
                None => {
                    finished.push(*d);
                    stack.pop();
                }
            }
        }
    }
    let mut taken = BTreeSet::new();
    let mut components = Vec::new();
    for &start in finished.iter().rev() {
        if !taken.insert(start) {
            continue;
        }
        let mut component = BTreeSet::from([start]);
        let mut stack = vec![start];
        while let Some(d) = stack.pop() {
            for &caller in reversed.get(&d).into_iter().flatten() {
                if taken.insert(caller) {
                    component.insert(caller);
                    stack.push(caller);
                }
            }
        }
        components.push(component.into_iter().collect());
    }
    components.reverse();
    components
}

pub(crate) fn preprocess(data: &DeepData, rule: Compensation) -> Naive {
    let mut n = Naive {
        csd_caller: BTreeMap::new(),
        csd_css: BTreeMap::new(),
        cliques: cliques(data),
        clique_of: BTreeMap::new(),
        entry: BTreeMap::new(),
        zeroed: BTreeSet::new(),
        pd_own: data.pds().map(|d| (d, Own::default())).collect(),
        pd_desc: BTreeMap::new(),
        pd_comp: BTreeMap::new(),
        csd_desc: data.csds().map(|c| (c, Desc::default())).collect(),
        csd_comp: data.csds().map(|c| (c, Table::new())).collect(),
        ps_own: BTreeMap::new(),
        ps_desc: BTreeMap::new(),
        css_own: BTreeMap::new(),
        css_desc: BTreeMap::new(),
    };
    let mut container = BTreeMap::new();
    for p in data.pss() {
        for &s in data.sites(p) {
            container.insert(s, p);
        }
    }
    for d in data.pds() {
        for (slot, &css) in data.slots(d).zip(data.sites(data.pd_ps(d))) {
            if slot.kind().is_zeroing() {
                n.zeroed.insert(data.pd_ps(d));
            }
            for c in slot.csds() {
                n.csd_caller.insert(c, d);
                n.csd_css.insert(c, css);
            }
        }
    }
    for (k, members) in n.cliques.iter().enumerate() {
        for &d in members {
            n.clique_of.insert(d, k + 1);
        }
    }
    for d in data.pds() {
        for c in data.csds_of_pd(d) {
            let k = n.clique_of[&data.csd_callee(c)];
            if k != n.clique_of[&d] {
                n.entry.insert(k, c);
            }
        }
    }
    for c in data.csds() {
        *n.pd_own.get_mut(&data.csd_callee(c)).unwrap() += data.csd_own(c);
    }
    for (k, members) in n.cliques.iter().enumerate() {
        let parent = n.entry.get(&(k + 1)).copied();
        let (mut sum, mut over) = (Table::new(), Table::new());
        for &d in members {
            let p = data.pd_ps(d);
            let (mut desc, mut comp) = (Desc::default(), Table::new());
            for c in data.csds_of_pd(d).filter(|&c| n.clique_of[&data.csd_callee(c)] != k + 1) {
                desc += data.csd_own(c).inherited() + n.csd_desc[&c];
                add_tables(&mut comp, &n.csd_comp[&c]);
            }
            let mut up = comp.clone();
            if rule == Compensation::Exact && n.zeroed.contains(&p) {
                up.remove(&p);
            }
            add_tables(&mut sum, &up);
            let total = n.pd_own[&d].total(&desc);
            if n.zeroed.contains(&p) {
                *over.entry(p).or_default() += total;
            }
            if let Some(c) = parent {
                *n.csd_desc.get_mut(&c).unwrap() += total;
            }
            n.pd_desc.insert(d, desc);
            n.pd_comp.insert(d, comp);
        }
        if let Some(c) = parent {
            *n.csd_desc.get_mut(&c).unwrap() -= data.csd_own(c).inherited();
            match rule {
                Compensation::Exact => add_tables(&mut sum, &over),
                Compensation::Compat => sum.extend(over),
            }
            n.csd_comp.insert(c, sum);
        }
    }
    let entry = |t: &Table, p: PsId| t.get(&p).copied().unwrap_or_default();
    for d in data.pds() {
        let p = data.pd_ps(d);
        *n.ps_own.entry(p).or_default() += n.pd_own[&d];
        *n.ps_desc.entry(p).or_default() += n.pd_desc[&d] - entry(&n.pd_comp[&d], p);
    }
    for c in data.csds() {
        let s = n.csd_css[&c];
        *n.css_own.entry(s).or_default() += data.csd_own(c);
        *n.css_desc.entry(s).or_default() += n.csd_desc[&c] - entry(&n.csd_comp[&c], container[&s]);
    }
    n
}

/// Inclusive cost of a procedure by its definition: the figures of all CSDs whose callee, or a
/// caller on the path of entering CSDs from the root to the callee's clique, belongs to it.
pub(crate) fn inclusive(data: &DeepData, n: &Naive, p: PsId) -> Desc {
    let mut sum = Desc::default();
    for c in data.csds() {
        let callee = data.csd_callee(c);
        let mut counts = data.pd_ps(callee) == p;
        let mut clique = n.clique_of[&callee];
        while let Some(entry) = n.entry.get(&clique) {
            let caller = n.csd_caller[entry];
            counts |= data.pd_ps(caller) == p;
            clique = n.clique_of[&caller];
        }
        if counts {
            sum += data.csd_own(c).inherited();
        }
    }
    sum
}
