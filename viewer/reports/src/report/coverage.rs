//! A procedure's text with counts of how often each goal was entered and left.

use super::common::{ProcDesc, proc_desc, ps_of};
use crate::analysis::Bodies;
use crate::analysis::Failure;
use crate::analysis::coverage::{self, Measured};
use crate::subject::Subject;
use pct_deep::PsId;
use serde::Serialize;

/// Data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct CoverageReport {
    /// The procedure.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
    /// The context that the counts belong to; `None`: all contexts.
    pub pd: Option<u32>,
    /// The text.
    pub text: String,
    /// For each line of the text: the goal (an index into `goals`) whose counts or whose code it is.
    #[serde(skip)]
    pub lines: Vec<LineOf>,
    /// The goals, in preorder.
    pub goals: Vec<GoalCount>,
    /// Where counts do not add up.
    pub problems: Vec<String>,
}

/// What a line of the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOf {
    /// A comment, or code of no goal: brackets and commas between goals.
    Nothing,
    /// The comment with the counts of a goal.
    Counts(usize),
    /// Code of a goal.
    Code(usize),
}

/// Classifies the lines of a text by the comments in it, which have the order of `said`.
fn lines_of(text: &str, said: &[(usize, String)]) -> Vec<LineOf> {
    let mut next = said.iter();
    let mut awaited = next.next();
    let mut goal = None;
    text.lines()
        .map(|line| {
            let line = line.trim();
            if let Some(remark) = line.strip_prefix('%') {
                return match awaited {
                    // `% 1 - 1`, in conjunctions `% conjunction: 1 - 1`
                    Some((g, counts))
                        if remark.trim_start().trim_start_matches("conjunction: ") == counts =>
                    {
                        awaited = next.next();
                        goal = Some(*g);
                        LineOf::Counts(*g)
                    }
                    _ => LineOf::Nothing,
                };
            }
            match goal {
                Some(g) if line.bytes().any(|b| b.is_ascii_alphanumeric()) => LineOf::Code(g),
                _ => LineOf::Nothing,
            }
        })
        .collect()
}

/// Counts of a goal; `None` is unknown.
#[derive(Clone, Debug, Serialize)]
pub struct GoalCount {
    /// Position in the body.
    pub goal_path: String,
    /// Times it was entered.
    pub before: Option<i64>,
    /// Times it was left with success.
    pub after: Option<i64>,
}

/// The report over all contexts.
///
/// # Errors
/// There is no such procedure, no coverage data, or no body.
pub fn of_ps(subject: &Subject, number: i64) -> Result<CoverageReport, Failure> {
    let profile = &subject.profile;
    let ps = ps_of(profile, number)?;
    let measured = Measured::of_ps(profile, ps).ok_or_else(|| no_counts(subject, ps))?;
    create(subject, ps, None, &measured)
}

/// The report of one context.
///
/// # Errors
/// There is no such context, no coverage data, or no body.
pub fn of_pd(subject: &Subject, number: i64) -> Result<CoverageReport, Failure> {
    let profile = &subject.profile;
    let pd = profile.pd_id(number).ok_or_else(|| Failure::index("proc_dynamic", number))?;
    let ps = profile.pd_ps(pd);
    let measured = Measured::of_pd(profile, pd).ok_or_else(|| no_counts(subject, ps))?;
    create(subject, ps, Some(pd.number()), &measured)
}

fn no_counts(subject: &Subject, ps: PsId) -> Failure {
    let name = subject.profile.qualified_name(ps);
    Failure(match subject.profile.header().coverage {
        pct_deep::Coverage::None => {
            "There is no coverage information: the file has no coverage data.".to_owned()
        }
        pct_deep::Coverage::Static => {
            "There is no coverage information for single contexts: no coverage data of contexts.".to_owned()
        }
        pct_deep::Coverage::Dynamic => format!("There is no coverage information: {name} was never called."),
    })
}

fn create(
    subject: &Subject,
    ps: PsId,
    pd: Option<u32>,
    measured: &Measured,
) -> Result<CoverageReport, Failure> {
    let body = subject.body(ps)?;
    let coverage = coverage::infer(&body, measured);
    let show = |n: Option<i64>| n.map_or_else(|| "_".to_owned(), |n| n.to_string());
    let mut said: Vec<(usize, String)> = Vec::new();
    let text = subject.annotated(ps, &body, &mut |goal| {
        let c = coverage.counts.get(goal).copied().unwrap_or_default();
        let counts = format!("{} - {}", show(c.before), show(c.after));
        said.push((goal, counts.clone()));
        vec![counts]
    })?;
    Ok(CoverageReport {
        desc: proc_desc(&subject.profile, ps),
        pd,
        lines: lines_of(&text, &said),
        text,
        goals: body
            .nodes
            .iter()
            .zip(&coverage.counts)
            .map(|(node, c)| GoalCount { goal_path: node.path.to_string(), before: c.before, after: c.after })
            .collect(),
        problems: coverage.words(&body, 10),
    })
}
