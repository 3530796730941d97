//! The recursion of one clique; the frequency of each type of recursion.

use super::common::{CliqueDesc, MAX_ROWS, Perf, ProcDesc, Rates, clique_desc, proc_desc};
use crate::analysis::Failure;
use crate::analysis::recursion::{RecursionType, classify};
use crate::analysis::{Bodies, Body};
use crate::subject::Subject;
use pct_deep::figures::{Desc, Own};
use pct_deep::{CliqueId, PdId, Profile, PsId};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Data of a clique's recursion page.
#[derive(Clone, Debug, Serialize)]
pub struct CliqueRecursionReport {
    /// The clique.
    pub clique: CliqueDesc,
    /// Its type of recursion.
    #[serde(rename = "type")]
    pub kind: RecursionType,
    /// Contexts in it.
    pub contexts: usize,
}

/// Data of the page of frequencies.
#[derive(Clone, Debug, Serialize)]
pub struct FrequencyReport {
    /// Cliques in all.
    pub cliques: usize,
    /// Each type that occurs, and each reason why a type is unknown.
    pub types: Vec<Frequency>,
}

/// A type of recursion, without its figures. The order is that of the page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TypeKey {
    /// Not recursive.
    NotRecursive,
    /// At most one recursive call.
    Single,
    /// No or two recursive calls.
    DivideAndConquer,
    /// Through this many contexts.
    Mutual(usize),
    /// With these numbers of recursive calls.
    Other(Vec<u32>),
    /// Unknown, for this reason.
    Error(String),
    /// Unknown, for any reason.
    AnyError,
}

/// How often a type occurs.
#[derive(Clone, Debug, Serialize)]
pub struct Frequency {
    /// The type.
    #[serde(rename = "type")]
    pub key: TypeKey,
    /// Number of cliques with it.
    pub count: usize,
    /// Share of all cliques.
    pub share: f64,
    /// Sum over the contexts that enter them; `None` if none has one.
    pub summary: Option<Perf>,
    /// The procedures that enter them, the most frequent first.
    pub procs: Vec<FrequencyProc>,
    /// Procedures beyond those listed.
    pub procs_not_listed: usize,
}

/// A procedure that enters cliques of a type.
#[derive(Clone, Debug, Serialize)]
pub struct FrequencyProc {
    /// The procedure.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
    /// Cliques that it enters.
    pub count: usize,
    /// Share of all cliques.
    pub share: f64,
    /// Sum over the contexts that enter them.
    pub perf: Perf,
}

/// The report on a clique.
///
/// # Errors
/// There is no such clique, no body for it, or it is the root's clique.
pub fn of_clique(subject: &Subject, number: i64) -> Result<CliqueRecursionReport, Failure> {
    let profile = &subject.profile;
    let clique = profile
        .clique_id(number)
        .ok_or_else(|| Failure(format!("There is no clique {number}: invalid clique index.")))?;
    if profile.clique_entry(clique).is_none() {
        return Err(Failure("This clique does not have an entry procedure.".to_owned()));
    }
    subject.procrep()?;
    Ok(CliqueRecursionReport {
        clique: clique_desc(profile, clique, None),
        kind: classify(subject, clique),
        contexts: profile.clique_members(clique).len(),
    })
}

#[derive(Default)]
struct Sum {
    count: usize,
    any: bool,
    own: Own,
    desc: Desc,
    procs: HashMap<PsId, (usize, Own, Desc)>,
}

/// A procedure and its body, if it has one.
type KnownProc = (PsId, Result<Arc<Body>, Failure>);

/// Bodies for one thread, which mostly asks for the same one again.
struct LastBody<'a> {
    subject: &'a Subject,
    last: RefCell<Option<KnownProc>>,
}

impl Bodies for LastBody<'_> {
    fn profile(&self) -> &Profile {
        &self.subject.profile
    }

    fn body(&self, ps: PsId) -> Result<Arc<Body>, Failure> {
        let mut last = self.last.borrow_mut();
        match &*last {
            Some((of, body)) if *of == ps => body.clone(),
            _ => last.insert((ps, self.subject.body(ps))).1.clone(),
        }
    }
}

type Sums = BTreeMap<TypeKey, Sum>;

impl Sum {
    fn add(&mut self, more: Sum) {
        self.count += more.count;
        self.any |= more.any;
        self.own += more.own;
        self.desc += more.desc;
        for (ps, (count, own, desc)) in more.procs {
            let proc = self.procs.entry(ps).or_default();
            proc.0 += count;
            proc.1 += own;
            proc.2 += desc;
        }
    }
}

/// Contexts that a thread processes in one go.
const TOGETHER: usize = 4096;

/// Classifies every clique. They are independent, so threads share the work. It is divided by procedure, so that a body
/// is laid out once, however many contexts there are.
fn classify_all(subject: &Subject) -> Sums {
    let profile = &subject.profile;
    let parts: Vec<&[PdId]> = profile.pss().flat_map(|ps| profile.ps_pds(ps).chunks(TOGETHER)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let bodies = LastBody { subject, last: RefCell::new(None) };
        let mut sums = Sums::new();
        while let Some(pds) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            for &pd in *pds {
                let clique = profile.pd_clique(pd);
                // Each clique is counted with the context that enters it.
                if profile.clique_entry_pd(clique) != pd {
                    continue;
                }
                for key in keys(&classify(&bodies, clique)) {
                    add(subject, clique, sums.entry(key).or_default());
                }
            }
        }
        sums
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(parts.len()).clamp(1, 8);
    let mut sums = Sums::new();
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        sums = work();
        for other in others {
            // If a thread panics, the page panics too, as if this thread had.
            let found = other.join().unwrap_or_else(|what| std::panic::resume_unwind(what));
            for (key, sum) in found {
                sums.entry(key).or_default().add(sum);
            }
        }
    });
    sums
}

/// The stored report on all cliques.
#[derive(Default)]
struct Kept(OnceLock<Result<Arc<FrequencyReport>, Failure>>);

/// The frequency of each type of recursion. It is computed once.
///
/// # Errors
/// As [`frequencies`].
pub fn frequencies_kept(subject: &Subject) -> Result<Arc<FrequencyReport>, Failure> {
    subject.memos.value_of_type::<Kept>().0.get_or_init(|| frequencies(subject).map(Arc::new)).clone()
}

/// The report on all cliques. Slow on large profiles: see [`frequencies_kept`].
///
/// # Errors
/// There is no program representation, or it is broken.
pub fn frequencies(subject: &Subject) -> Result<FrequencyReport, Failure> {
    subject.procrep()?;
    let profile = &subject.profile;
    let sums = classify_all(subject);
    let all = profile.clique_count();
    let share = |n: usize| if all == 0 { 0.0 } else { n as f64 / all as f64 };
    let rates = Rates::from_profile(profile);
    let types = sums
        .into_iter()
        .map(|(key, sum)| {
            let mut procs: Vec<(PsId, (usize, Own, Desc))> = sum.procs.into_iter().collect();
            procs.sort_unstable_by_key(|(ps, (count, ..))| (std::cmp::Reverse(*count), *ps));
            let procs_not_listed = procs.len().saturating_sub(MAX_ROWS);
            procs.truncate(MAX_ROWS);
            Frequency {
                key,
                count: sum.count,
                share: share(sum.count),
                summary: sum.any.then(|| rates.row(&sum.own, &sum.desc)),
                procs: procs
                    .into_iter()
                    .map(|(ps, (count, own, desc))| FrequencyProc {
                        desc: proc_desc(profile, ps),
                        count,
                        share: share(count),
                        perf: rates.row(&own, &desc),
                    })
                    .collect(),
                procs_not_listed,
            }
        })
        .collect();
    Ok(FrequencyReport { cliques: all, types })
}

fn add(subject: &Subject, clique: CliqueId, sum: &mut Sum) {
    let profile = &subject.profile;
    sum.count += 1;
    // A clique without an entry is counted, but has no cost to add.
    let Some(entry) = profile.clique_entry(clique) else { return };
    let pd = profile.csd_callee(entry);
    let (own, desc) = (profile.pd_own(pd), profile.pd_desc(pd));
    sum.any = true;
    sum.own += own;
    sum.desc += desc;
    let proc = sum.procs.entry(profile.pd_ps(pd)).or_default();
    proc.0 += 1;
    proc.1 += own;
    proc.2 += desc;
}

fn keys(kind: &RecursionType) -> Vec<TypeKey> {
    match kind {
        RecursionType::NotRecursive => vec![TypeKey::NotRecursive],
        RecursionType::Single(_) => vec![TypeKey::Single],
        RecursionType::DivideAndConquer { .. } => vec![TypeKey::DivideAndConquer],
        RecursionType::Mutual(n) => vec![TypeKey::Mutual(*n)],
        RecursionType::Other(levels) => vec![TypeKey::Other(levels.iter().map(|l| l.level).collect())],
        RecursionType::Errors(texts) => {
            let mut keys: Vec<TypeKey> = texts.iter().cloned().map(TypeKey::Error).collect();
            keys.dedup();
            keys.push(TypeKey::AnyError);
            keys
        }
    }
}
