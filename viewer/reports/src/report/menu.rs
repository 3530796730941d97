//! The first page: the profile's main figures.

use super::overview::{self, OverviewReport};
use crate::subject::Subject;
use serde::Serialize;

/// Data of the menu.
#[derive(Clone, Debug, Serialize)]
pub struct MenuReport {
    /// argv\[0\] of the profiled program.
    pub program: String,
    /// Clock ticks per second; 0: unknown.
    pub ticks_per_second: u64,
    /// Ticks in the program.
    pub user_quanta: u64,
    /// Ticks in the profiling code.
    pub instrumentation_quanta: u64,
    /// All ticks as seconds; 0 if the rate is unknown.
    pub total_seconds: f64,
    /// Calls counted by the program, modulo 2^32.
    pub callseqs: u64,
    /// Call site dynamics.
    pub csds: usize,
    /// Call site statics.
    pub csss: usize,
    /// Procedure dynamics.
    pub pds: usize,
    /// Procedure statics.
    pub pss: usize,
    /// Cliques.
    pub cliques: usize,
    /// Modules.
    pub modules: usize,
    /// What is unusual about the file.
    pub warnings: Vec<String>,
    /// For a recording of a native program: its threads, and the account.
    pub recording: Option<OverviewReport>,
    /// Other profiles at hand.
    pub others: usize,
}

/// The report.
#[must_use]
pub fn create(subject: &Subject) -> MenuReport {
    let profile = &subject.profile;
    let header = profile.header();
    let quanta = header.user_quanta.saturating_add(header.instrument_quanta);
    let mut warnings: Vec<String> = profile.warnings().iter().take(20).map(ToString::to_string).collect();
    if profile.warnings().len() > 20 {
        warnings.push(format!("{} more warnings about the file", profile.warnings().len() - 20));
    }
    warnings.extend(subject.warnings());
    MenuReport {
        program: profile.program().into_owned(),
        ticks_per_second: header.ticks_per_second,
        user_quanta: header.user_quanta,
        instrumentation_quanta: header.instrument_quanta,
        total_seconds: if header.ticks_per_second == 0 {
            0.0
        } else {
            quanta as f64 / header.ticks_per_second as f64
        },
        callseqs: header.callseqs,
        csds: profile.csd_count(),
        csss: profile.css_count(),
        pds: profile.pd_count(),
        pss: profile.ps_count(),
        cliques: profile.clique_count(),
        modules: profile.modules().len(),
        warnings,
        recording: subject.recorded.as_ref().map(overview::create),
        others: subject.shelf.as_ref().map_or(0, |s| s.entries().len().saturating_sub(1)),
    }
}
