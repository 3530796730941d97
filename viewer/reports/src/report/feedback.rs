//! What is worth executing in parallel: candidates of the whole program, or of one procedure with their text.

use super::common::{MAX_ROWS, ProcDesc, proc_desc, ps_of};
use crate::analysis::Failure;
use crate::subject::Subject;
use pct_feedback::message::{Level, Message};
use pct_feedback::walk::{Observer, Outcome, ProcOutcome, Stopped, analyse as walk};
use pct_feedback::{Candidate, Params, ProcCandidates, VarNames, report};
use serde::Serialize;
use std::sync::{Arc, OnceLock};

/// Data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct FeedbackReport {
    /// The procedure; `None`: all.
    #[serde(rename = "proc")]
    pub desc: Option<ProcDesc>,
    /// Goals up to this cost (call sequence numbers) were not worth a conjunct.
    pub call_site_threshold: i64,
    /// Calls below this cost were not looked into.
    pub clique_threshold: i64,
    /// Candidates, by descending total saving.
    pub candidates: Vec<CandidateRow>,
    /// How many more there are.
    pub not_listed: usize,
    /// The whole run one after the other, in call sequence numbers.
    pub program_callseqs: i64,
    /// Candidates of the procedure in full, as text: those that save most; empty for all.
    pub text: String,
    /// How many are not in the text.
    pub not_in_text: usize,
    /// Contexts looked at.
    pub cliques: usize,
    /// What kept contexts from being looked at; at most ten.
    pub problems: Vec<String>,
    /// How many more problems there are.
    pub more_problems: usize,
}

/// A candidate.
#[derive(Clone, Debug, Serialize)]
pub struct CandidateRow {
    /// Its procedure.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
    /// The context that it was found in.
    pub pd: u32,
    /// The clique of the context.
    pub clique: u32,
    /// Where the conjunction is.
    pub goal_path: String,
    /// Parallel conjuncts.
    pub conjuncts: usize,
    /// Variables that conjuncts wait for.
    pub depends_on: Vec<String>,
    /// Whether goals have to be moved into branches first.
    pub is_pushed: bool,
    /// Times that it is executed.
    pub calls: i64,
    /// Time one after the other, per call.
    pub sequential: f64,
    /// Time in parallel, per call.
    pub parallel: f64,
    /// Sequential over parallel time.
    pub speedup: f64,
    /// What all calls together save: the saving of one times their number, but no more than the context costs.
    pub saving: f64,
    /// Calls of the conjunction lie within one another, so that the sum counts inner ones in outer ones again: it
    /// is an upper bound.
    pub saving_is_bound: bool,
    /// Costs of sparks, barriers, signals and waits, per call.
    pub overheads: f64,
    /// Time that processors wait, per call.
    pub dead_time: f64,
}

/// What the analysis of a program gave.
#[derive(Clone, Debug)]
pub struct Analysis {
    params: Params,
    outcome: Outcome,
    problems: Vec<String>,
}

/// Collects what goes wrong, and goes on.
#[derive(Default)]
struct Collector {
    problems: Vec<String>,
}

impl Observer for Collector {
    fn say(&mut self, _: Message) {}
    fn goes_on_without(&mut self, stopped: &Stopped) -> bool {
        self.problems.push(match &stopped.context {
            Some((pd, name)) => format!("{name} in context {pd} was left out: {}", stopped.text),
            None => stopped.text.clone(),
        });
        true
    }
}

/// Looks through the whole program with default parameters. Slow on large profiles: reports ask [`kept`].
///
/// # Errors
/// There is no program representation, or it is broken.
pub fn analyse(subject: &Subject) -> Result<Analysis, Failure> {
    subject.procrep()?;
    let params = Params::default();
    let mut collector = Collector::default();
    let outcome = walk(subject, &params, Level::Error as i64, &mut collector).map_err(|s| Failure(s.text))?;
    collector.problems.extend(outcome.messages.iter().map(|m| m.text.clone()));
    collector.problems.dedup();
    Ok(Analysis { params, outcome, problems: collector.problems })
}

/// The walk over the whole program.
#[derive(Default)]
struct Kept(OnceLock<Result<Arc<Analysis>, Failure>>);

/// What is worth executing in parallel; worked out once.
fn kept(subject: &Subject) -> Result<Arc<Analysis>, Failure> {
    subject.memos.of::<Kept>().0.get_or_init(|| analyse(subject).map(Arc::new)).clone()
}

/// The report on procedure `number`, or on all.
///
/// # Errors
/// There is no such procedure, no program representation, or it is broken.
pub fn create(subject: &Subject, number: Option<i64>) -> Result<FeedbackReport, Failure> {
    let profile = &subject.profile;
    let ps = number.map(|n| ps_of(profile, n)).transpose()?;
    let analysis = kept(subject)?;
    let procs: Vec<&ProcOutcome> =
        analysis.outcome.procs.iter().filter(|p| ps.is_none_or(|ps| p.ps == ps)).collect();
    let mut candidates: Vec<CandidateRow> = procs.iter().flat_map(|p| rows(subject, p)).collect();
    candidates.sort_by(|a, b| b.saving.total_cmp(&a.saving));
    let not_listed = candidates.len().saturating_sub(MAX_ROWS);
    candidates.truncate(MAX_ROWS);
    let (text, not_in_text) = match (ps, procs.as_slice()) {
        (Some(_), [proc, ..]) => text(proc),
        _ => (String::new(), 0),
    };
    Ok(FeedbackReport {
        desc: ps.map(|ps| proc_desc(profile, ps)),
        call_site_threshold: analysis.params.call_site_threshold,
        clique_threshold: analysis.params.clique_threshold,
        candidates,
        not_listed,
        program_callseqs: profile.root_total().callseqs,
        text,
        not_in_text,
        cliques: analysis.outcome.progress.cliques,
        problems: analysis.problems.iter().take(10).cloned().collect(),
        more_problems: analysis.problems.len().saturating_sub(10),
    })
}

/// Candidates that are written out in full: a procedure may have one in each of thousands of contexts.
const MAX_TEXTS: usize = 20;

/// The text of the candidates that save most, and how many others there are.
fn text(proc: &ProcOutcome) -> (String, usize) {
    let mut best: Vec<&Candidate> = proc.found.candidates.iter().collect();
    best.sort_by(|a, b| saving(b).total_cmp(&saving(a)));
    let more = best.len().saturating_sub(MAX_TEXTS);
    let shown = ProcCandidates {
        names: proc.found.names.clone(),
        pushes: proc.found.pushes.clone(),
        candidates: best.into_iter().take(MAX_TEXTS).cloned().collect(),
    };
    (report::of_procedure(&proc.label, &shown), more)
}

/// What all executions of a candidate save.
fn saving(c: &Candidate) -> f64 {
    c.metrics.saving() * c.metrics.calls as f64
}

/// Whether executions that cost so much together lie within one another: there is not room for all of them side by
/// side.
fn is_nested(executions: f64, context: f64) -> bool {
    // Averages of whole numbers: they may be off by their last digits.
    executions > context * 1.000_001
}

fn rows(subject: &Subject, proc: &ProcOutcome) -> Vec<CandidateRow> {
    let profile = &subject.profile;
    proc.found
        .candidates
        .iter()
        .zip(&proc.contexts)
        .map(|(c, &pd)| {
            let m = &c.metrics;
            let context = profile.pd_total(pd).callseqs as f64;
            CandidateRow {
                desc: proc_desc(profile, proc.ps),
                pd: pd.number(),
                clique: profile.pd_clique(pd).number(),
                goal_path: c.path.to_string(),
                conjuncts: c.conjuncts.len(),
                depends_on: depends_on(c, &proc.found.names),
                is_pushed: c.push.is_some(),
                calls: m.calls,
                sequential: m.seq_time,
                parallel: m.par_time,
                speedup: m.speedup(),
                saving: saving(c).min(context),
                saving_is_bound: is_nested(m.seq_time * m.calls as f64, context),
                overheads: m.overheads(),
                dead_time: m.dead(),
            }
        })
        .collect()
}

fn depends_on(c: &Candidate, names: &VarNames) -> Vec<String> {
    let mut out: Vec<String> = c.dependent.iter().flatten().map(|v| names.show(*v)).collect();
    out.sort();
    out.dedup();
    out
}
