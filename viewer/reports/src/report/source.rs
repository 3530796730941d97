//! A source file with the time of its lines.
//!
//! Time in a line itself is known only for available recordings. Time in a line's callees comes from the call sites.

use crate::analysis::Failure;
use crate::subject::Subject;
use pct_deep::{PsId, figures::Desc};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Read as _;

/// Data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct SourceReport {
    /// The name in the profile.
    pub file: String,
    /// The path of the file.
    pub path: String,
    /// The requested line.
    pub line: i64,
    /// Number of lines in the file.
    pub all: usize,
    /// Whether time in the lines themselves is known.
    pub has_own: bool,
    /// The lines shown, in order.
    pub lines: Vec<SourceLine>,
    /// Whether the file is newer than the data, so that lines may have moved.
    pub newer: bool,
}

/// A line.
#[derive(Clone, Debug, Serialize)]
pub struct SourceLine {
    /// From 1.
    pub number: usize,
    /// Its text.
    pub text: String,
    /// Time in it, in ticks.
    pub own: i64,
    /// Share of the program.
    pub own_share: f64,
    /// Time in its callees, in ticks (call sequence numbers if calls are known).
    pub below: i64,
    /// Share of the program.
    pub below_share: f64,
    /// The procedure that begins here.
    pub ps: Option<u32>,
}

/// Lines on one page.
pub const LINES: usize = 400;
/// Longest file that is shown, in octets.
const MOST: u64 = 16 << 20;

/// The report.
///
/// # Errors
/// The file may not be shown, does not exist, or is not text.
pub fn create(subject: &Subject, file: &str, line: i64) -> Result<SourceReport, Failure> {
    let Some(path) = subject.source(file) else {
        return Err(Failure(format!("The source file {file} is not at hand.")));
    };
    let mut octets = Vec::new();
    subject
        .sources
        .open(&path)
        .and_then(|f| f.take(MOST).read_to_end(&mut octets))
        .map_err(|e| Failure(format!("{}: {e}", path.display())))?;
    if octets.contains(&0) {
        return Err(Failure(format!("{} is no text.", path.display())));
    }
    let text = String::from_utf8_lossy(&octets);
    let texts: Vec<&str> = text.lines().collect();
    let profile = &subject.profile;
    let mut below: BTreeMap<u32, i64> = BTreeMap::new();
    let mut own: BTreeMap<u32, i64> = BTreeMap::new();
    for css in profile.csss().filter(|&css| profile.css_file(css) == file) {
        let f = profile.css_figures(css);
        *below.entry(profile.css(css).line).or_default() += profile.main_cost(&f.own.total(&f.desc));
    }
    let lines = subject.recorded.as_ref().map(|r| (r.has_lines, &r.lines));
    for cost in lines.iter().flat_map(|l| l.1).filter(|l| l.file == file) {
        *own.entry(cost.line).or_default() += i64::try_from(cost.ns).unwrap_or(i64::MAX);
    }
    let starts: BTreeMap<u32, PsId> = profile
        .pss()
        .filter(|&ps| profile.text(profile.ps(ps).file) == file && profile.ps(ps).line > 0)
        .map(|ps| (profile.ps(ps).line, ps))
        .collect();
    let whole: Desc = profile.root_total();
    let share = |part: i64| match profile.main_cost(&whole) {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    };
    // The page begins some lines before the requested one.
    let at = usize::try_from(line).unwrap_or(1).clamp(1, texts.len().max(1));
    let from = if texts.len() <= LINES { 0 } else { at.saturating_sub(LINES / 4).min(texts.len() - LINES) };
    let shown = texts.iter().enumerate().skip(from).take(LINES).map(|(i, text)| {
        let number = u32::try_from(i + 1).unwrap_or(u32::MAX);
        let (own, below) = (own.get(&number).copied().unwrap_or(0), below.get(&number).copied().unwrap_or(0));
        SourceLine {
            number: i + 1,
            text: (*text).to_owned(),
            own,
            own_share: share(own),
            below,
            below_share: share(below),
            ps: starts.get(&number).map(|ps| ps.number()),
        }
    });
    let modified = |p: &std::path::Path| std::fs::metadata(p).and_then(|m| m.modified()).ok();
    let newer = match (modified(&path), modified(&subject.path)) {
        (Some(source), Some(data)) => source > data,
        _ => false,
    };
    Ok(SourceReport {
        file: file.to_owned(),
        path: path.display().to_string(),
        line,
        all: texts.len(),
        has_own: lines.is_some_and(|l| l.0),
        lines: shown.collect(),
        newer,
    })
}
