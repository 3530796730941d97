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
    /// Goals with at most this cost (call sequence numbers) were not worth a conjunct.
    pub call_site_threshold: i64,
    /// Calls with a lower cost were not analysed.
    pub clique_threshold: i64,
    /// Candidates, by descending total saving.
    pub candidates: Vec<CandidateRow>,
    /// How many more there are.
    pub not_listed: usize,
    /// Call sequence numbers of the whole sequential run.
    pub program_callseqs: i64,
    /// The procedure's candidates that save most, as text in full; empty for all procedures.
    pub text: String,
    /// Number of candidates that are not in the text.
    pub not_in_text: usize,
    /// Number of contexts analysed.
    pub cliques: usize,
    /// Why contexts were not analysed; at most ten reasons.
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
    /// The context in which it was found.
    pub pd: u32,
    /// The clique of the context.
    pub clique: u32,
    /// The position of the conjunction.
    pub goal_path: String,
    /// Parallel conjuncts.
    pub conjuncts: usize,
    /// Variables for which conjuncts wait.
    pub depends_on: Vec<String>,
    /// Whether goals must first be moved into branches.
    pub is_pushed: bool,
    /// Number of executions.
    pub calls: i64,
    /// Sequential time per call.
    pub sequential: f64,
    /// Parallel time per call.
    pub parallel: f64,
    /// Sequential over parallel time.
    pub speedup: f64,
    /// Saving of all calls: that of one times their number, but at most the context's cost.
    pub saving: f64,
    /// Whether calls of the conjunction are nested. Then the sum counts inner ones again in outer ones, and is an upper
    /// bound.
    pub saving_is_bound: bool,
    /// Costs of sparks, barriers, signals and waits, per call.
    pub overheads: f64,
    /// Time per call in which processors wait.
    pub dead_time: f64,
}

/// The result of analysing a program.
#[derive(Clone, Debug)]
pub struct Analysis {
    params: Params,
    outcome: Outcome,
    problems: Vec<String>,
}

/// Collects problems, and goes on.
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

/// Analyses the whole program with default parameters. Slow on large profiles: reports use [`kept`].
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

/// The analysis of the whole program.
#[derive(Default)]
struct Kept(OnceLock<Result<Arc<Analysis>, Failure>>);

/// The stored analysis. It is made once.
fn kept(subject: &Subject) -> Result<Arc<Analysis>, Failure> {
    subject.memos.value_of_type::<Kept>().0.get_or_init(|| analyse(subject).map(Arc::new)).clone()
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

/// Most candidates that are written out in full: a procedure may have one in each of thousands of contexts.
const MAX_TEXTS: usize = 20;

/// The text of the candidates that save most, and the number of the others.
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

/// The saving of all executions of a candidate.
fn saving(c: &Candidate) -> f64 {
    c.metrics.saving() * c.metrics.calls as f64
}

/// Whether executions with this total cost must be nested, because they do not fit side by side into the context.
fn is_nested(executions: f64, context: f64) -> bool {
    // These are averages of whole numbers, so their last digits may be wrong.
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
