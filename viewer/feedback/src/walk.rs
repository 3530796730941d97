//! Walks a profile's cliques from the root down and collects the candidates of all contexts
//! (docs/feedback.md, section 4).

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

use pct_analysis::Bodies;
use pct_deep::{CliqueId, CsdId, PdId, ProcLabel, Profile, PsId};

use crate::candidates::{self, ContextFindings, Task};
use crate::context::Missing;
use crate::cost::Abort;
use crate::join::{Brief, merge_pushes};
use crate::message::{Level, Message, MessageSubject};
use crate::model::{Candidate, Candidates, Params, ProcCandidates, Push, VarNames};
use crate::world::World;

/// Why the analysis of a profile stopped, or skipped a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// The context under analysis, and the name of its procedure.
    pub context: Option<(PdId, String)>,
    /// What is wrong, in words.
    pub text: String,
}

/// The progress of the walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Cliques analysed.
    pub cliques: usize,
    /// Cliques that are worth analysing, but were not yet.
    pub waiting: usize,
    /// Candidates found.
    pub candidates: usize,
}

/// Receives the progress of the walk.
pub trait Observer {
    /// A message that must be shown at once.
    fn say(&mut self, message: Message);
    /// Called a few times a second.
    fn progress(&mut self, progress: Progress) {
        let _ = progress;
    }
    /// A context's figures contradict each other. Returns whether to go on without it.
    fn goes_on_without(&mut self, stopped: &Stopped) -> bool {
        let _ = stopped;
        false
    }
}

/// The candidates of a procedure, with the context of each.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcOutcome {
    /// The procedure.
    pub ps: PsId,
    /// Its label.
    pub label: ProcLabel<String>,
    /// Its candidates.
    pub found: ProcCandidates,
    /// The context of each candidate.
    pub contexts: Vec<PdId>,
}

/// The results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Results by ascending label.
    pub procs: Vec<ProcOutcome>,
    /// Messages in the order of the walk.
    pub messages: Vec<Message>,
    /// How much was analysed.
    pub progress: Progress,
}

impl Outcome {
    /// Converts it to the form of feedback files.
    pub fn into_candidates(self, params: Params) -> Candidates {
        Candidates { params, procs: self.procs.into_iter().map(|p| (p.label, p.found)).collect() }
    }
}

/// Size of the stack on which bodies and calls are followed. Only the used part of it takes memory.
const STACK: usize = 256 << 20;

/// Searches a whole profile for candidates. Messages above `verbosity` are dropped.
///
/// # Errors
/// The profile contradicts itself, and the observer does not go on without it.
pub fn analyse(
    bodies: &(dyn Bodies + Sync),
    params: &Params,
    verbosity: i64,
    observer: &mut (dyn Observer + Send),
) -> Result<Outcome, Stopped> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("feedback".to_owned()).stack_size(STACK);
        let spawned = builder.spawn_scoped(scope, || Walk::new(bodies, params, verbosity, observer).run());
        let joined = spawned.map_err(|e| Stopped { context: None, text: format!("no thread: {e}") })?.join();
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

type Pushes = HashMap<PsId, Vec<Push>>;

/// A clique whose children are being walked.
struct OpenClique {
    /// The children, in the order of the walk, with the next one last.
    children: Vec<(CliqueId, f64)>,
    own: Pushes,
    below: Pushes,
}

/// Candidates of one context.
struct Batch {
    ps: PsId,
    pd: PdId,
    names: VarNames,
    candidates: Vec<Candidate>,
}

struct Walk<'a> {
    world: World<'a>,
    profile: &'a Profile,
    params: &'a Params,
    verbosity: i64,
    observer: &'a mut (dyn Observer + Send),
    batches: Vec<Batch>,
    messages: Vec<Message>,
    progress: Progress,
    told: Instant,
}

impl<'a> Walk<'a> {
    fn new(
        bodies: &'a dyn Bodies,
        params: &'a Params,
        verbosity: i64,
        observer: &'a mut (dyn Observer + Send),
    ) -> Self {
        Self {
            world: World::new(bodies),
            profile: bodies.profile(),
            params,
            verbosity,
            observer,
            batches: Vec::new(),
            messages: Vec::new(),
            progress: Progress::default(),
            told: Instant::now(),
        }
    }

    fn run(mut self) -> Result<Outcome, Stopped> {
        let mut frames = vec![self.clique(self.profile.root_clique(), 1.0)?];
        // Cliques may be nested as deep as the profile is large, so frames are in a list.
        let pushes = loop {
            let Some(top) = frames.last_mut() else { break Pushes::new() };
            if let Some((child, parallelism)) = top.children.pop() {
                self.progress.waiting = self.progress.waiting.saturating_sub(1);
                let frame = self.clique(child, parallelism)?;
                frames.push(frame);
                continue;
            }
            let Some(frame) = frames.pop() else { break Pushes::new() };
            let joined = join(frame.own, frame.below);
            match frames.last_mut() {
                Some(parent) => {
                    let known = std::mem::take(&mut parent.below);
                    parent.below = join(known, joined);
                }
                None => break joined,
            }
        };
        Ok(Outcome {
            procs: self.joined(pushes),
            messages: std::mem::take(&mut self.messages),
            progress: self.progress,
        })
    }

    fn keep(&mut self, message: Message) {
        if message.is_shown(self.verbosity) {
            self.messages.push(message);
        }
    }

    fn tell(&mut self) {
        if self.told.elapsed() >= Duration::from_millis(250) {
            self.told = Instant::now();
            self.observer.progress(self.progress);
        }
    }

    fn stopped(&self, pd: PdId, abort: &Abort) -> Stopped {
        let name = self.profile.qualified_name(self.profile.pd_ps(pd));
        Stopped { context: Some((pd, name)), text: abort.text().to_owned() }
    }

    /// Searches a clique's contexts (section 4.1), and decides which children to enter.
    fn clique(&mut self, clique: CliqueId, parallelism: f64) -> Result<OpenClique, Stopped> {
        let profile = self.profile;
        self.progress.cliques += 1;
        self.tell();
        let members = profile.clique_members(clique);
        let pds: Vec<PdId> = match profile.clique_entry(clique) {
            None => members.to_vec(),
            Some(entry) => {
                let first = profile.csd_callee(entry);
                std::iter::once(first).chain(members.iter().copied().filter(|&pd| pd != first)).collect()
            }
        };
        let mut own = Pushes::new();
        // Among a procedure's contexts the later ones come first.
        let mut briefs: HashMap<PsId, Vec<Brief>> = HashMap::new();
        for &pd in &pds {
            let ps = profile.pd_ps(pd);
            let found = match self.context(pd) {
                Ok(found) => found,
                Err(abort) => {
                    let stopped = self.stopped(pd, &abort);
                    if !self.observer.goes_on_without(&stopped) {
                        return Err(stopped);
                    }
                    continue;
                }
            };
            for message in found.messages {
                self.keep(message);
            }
            let Some(proc) = found.proc else { continue };
            let mut new: Vec<Brief> = proc.candidates.iter().map(Brief::from_candidate).collect();
            new.extend(briefs.remove(&ps).unwrap_or_default());
            briefs.insert(ps, new);
            self.progress.candidates += proc.candidates.len();
            self.batches.push(Batch { ps, pd, names: proc.names, candidates: proc.candidates });
            if !proc.pushes.is_empty() {
                own = join(own, Pushes::from([(ps, proc.pushes)]));
            }
        }
        let mut children = self.children(&pds, &briefs, parallelism)?;
        self.progress.waiting += children.len();
        children.reverse();
        Ok(OpenClique { children, own, below: Pushes::new() })
    }

    /// Searches a context (section 4.2).
    fn context(&mut self, pd: PdId) -> Result<ContextFindings, Abort> {
        let profile = self.profile;
        let clique = profile.pd_clique(pd);
        let label = profile.label(profile.pd_ps(pd)).map(|s| String::from_utf8_lossy(s).into_owned());
        let mut found = ContextFindings::default();
        let mut say = |level, place, text: String| found.messages.push(Message { level, place, text });
        let recursion = self.world.recursion(clique)?;
        // These have no bodies worth searching, but the message that the costs of their recursive calls are unknown
        // applies to them too.
        let runtime = ["Mercury runtime", "exception"].contains(&label.module().as_str());
        let context = if runtime { Err(Missing::Representation) } else { self.world.context(pd)? };
        let (recursive, unknown) = match &context {
            Ok(context) => match recursion.site_costs(context, recursion.interesting_depth())? {
                Ok(costs) => (costs, None),
                Err(why) => (vec![None; context.sites.len()], Some(why)),
            },
            Err(_) => (Vec::new(), recursion.unknown_costs()),
        };
        if let Some(why) = unknown {
            say(
                Level::Warning,
                MessageSubject::Clique(clique),
                format!("Cannot compute cost of recursive calls: {why}"),
            );
        }
        if runtime {
            return Ok(found);
        }
        let context = match context {
            Ok(context) => context,
            Err(Missing::Representation) => {
                let text = "Could not look up proc defn, perhaps this procedure is built-in";
                say(Level::Warning, MessageSubject::Proc(label), text.to_owned());
                return Ok(found);
            }
            Err(Missing::Coverage) => {
                say(Level::Error, MessageSubject::Proc(label), "Cannot lookup coverage points".to_owned());
                return Ok(found);
            }
        };
        let task = Task {
            world: &self.world,
            params: self.params,
            context,
            recursion: Rc::clone(&recursion),
            recursive,
            label,
        };
        let (observer, verbosity) = (&mut *self.observer, self.verbosity);
        let searched = candidates::search(&task, &mut |message| {
            if message.is_shown(verbosity) {
                observer.say(message);
            }
        })?;
        found.messages.extend(searched.messages);
        found.proc = searched.proc;
        Ok(found)
    }

    /// The children to enter (section 4.3), each with the parallelism in which it is executed.
    fn children(
        &mut self,
        pds: &[PdId],
        briefs: &HashMap<PsId, Vec<Brief>>,
        parallelism: f64,
    ) -> Result<Vec<(CliqueId, f64)>, Stopped> {
        let profile = self.profile;
        let mut children = Vec::new();
        for &pd in pds {
            let ps = profile.pd_ps(pd);
            let found = briefs.get(&ps);
            for (slot, &css) in profile.slots(pd).zip(profile.sites(ps)) {
                let mut raised: Option<f64> = None;
                for csd in slot.csds() {
                    let Some(child) = profile.csd_child_clique(csd) else { continue };
                    // Only by its entry: in handmade files there may be several paths to a clique.
                    if profile.clique_entry(child) != Some(csd) {
                        continue;
                    }
                    match self.is_costly(csd) {
                        Ok(true) => {}
                        Ok(false) => continue,
                        Err(abort) => {
                            let stopped = self.stopped(pd, &abort);
                            if !self.observer.goes_on_without(&stopped) {
                                return Err(stopped);
                            }
                            continue;
                        }
                    }
                    let raised = *raised.get_or_insert_with(|| {
                        let path = profile.path(profile.css(css).path);
                        let briefs = found.into_iter().flatten();
                        briefs.fold(parallelism, |sum, brief| sum + brief.adds(&path))
                    });
                    if self.params.desired >= raised {
                        children.push((child, raised));
                    }
                }
            }
        }
        Ok(children)
    }

    fn is_costly(&self, csd: CsdId) -> Result<bool, Abort> {
        let calls = self.profile.csd_own(csd).calls();
        if calls == 0 {
            return Err(Abort::contradiction(format!("call site dynamic {csd} was never called")));
        }
        let total = self.profile.csd_total(csd).callseqs as f64;
        Ok(total / calls as f64 >= self.params.clique_threshold as f64)
    }

    /// Joins the candidates of each procedure (section 4.4): later contexts come first.
    fn joined(&mut self, mut pushes: Pushes) -> Vec<ProcOutcome> {
        let mut procs: BTreeMap<ProcLabel<String>, ProcOutcome> = BTreeMap::new();
        for batch in std::mem::take(&mut self.batches).into_iter().rev() {
            let label = self.profile.label(batch.ps).map(|s| String::from_utf8_lossy(s).into_owned());
            let proc = procs.entry(label.clone()).or_insert_with(|| ProcOutcome {
                ps: batch.ps,
                label,
                found: ProcCandidates { names: batch.names, pushes: Vec::new(), candidates: Vec::new() },
                contexts: Vec::new(),
            });
            if let Some(pushes) = pushes.remove(&batch.ps) {
                proc.found.pushes = pushes;
            }
            proc.contexts.extend(batch.candidates.iter().map(|_| batch.pd));
            proc.found.candidates.extend(batch.candidates);
        }
        procs.into_values().collect()
    }
}

/// Joins pushes. If a procedure is in both maps, its added ones come first, then its known ones, merged. The loop runs
/// over the smaller map, so deeply nested cliques cost no more than their own size.
fn join(known: Pushes, added: Pushes) -> Pushes {
    if known.len() < added.len() {
        let mut all = added;
        for (ps, known) in known {
            let joined = match all.get(&ps) {
                Some(added) => merge_pushes(&[added, &known]),
                None => known,
            };
            all.insert(ps, joined);
        }
        return all;
    }
    let mut all = known;
    for (ps, added) in added {
        let joined = match all.get(&ps) {
            Some(known) => merge_pushes(&[&added, known]),
            None => added,
        };
        all.insert(ps, joined);
    }
    all
}
