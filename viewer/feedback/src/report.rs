//! Feedback as text for people, in the original tools' layout.

use std::fmt::Write;

use pct_deep::{GoalPath, GoalStep, PredOrFunc, ProcLabel};

use crate::model::{
    BestAlgorithm, Candidate, Candidates, DependentConjuncts, Feedback, Goal, GoalKind, ProcCandidates, Push,
    VarNames,
};

/// The report on a feedback file.
pub fn report(feedback: &Feedback) -> String {
    let mut out = format!("Feedback report for {}:\n\n", feedback.program);
    match &feedback.candidates {
        None => out.push_str("no report available.\n"),
        Some(candidates) => frame(&mut out, candidates),
    }
    out
}

/// Groups of three digits before the point, counted from its end; a minus sign counts as a digit.
fn commas(text: &str) -> String {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    pct_num::grouped(whole) + rest
}
fn f2(x: f64) -> String {
    commas(&format!("{x:.2}"))
}
fn f4(x: f64) -> String {
    commas(&format!("{x:.4}"))
}

fn frame(out: &mut String, candidates: &Candidates) {
    let p = &candidates.params;
    let dependent = match p.dependent {
        DependentConjuncts::No => "no",
        DependentConjuncts::ByOverlap => "yes, use overlap calculation",
        DependentConjuncts::Naively => "yes, pretend they're independent",
    };
    let best = match p.best {
        BestAlgorithm::Greedy => "greedy".to_owned(),
        BestAlgorithm::Complete => "complete".to_owned(),
        BestAlgorithm::CompleteBranches(n) => format!("complete-branches({n})"),
        BestAlgorithm::CompleteSize(n) => format!("complete-size({n})"),
    };
    let conjunctions: usize = candidates.procs.iter().map(|(_, p)| p.candidates.len()).sum();
    let rows = [
        ("Desired parallelism:", format!("{:.6}", p.desired)),
        ("Intermodule var use:", if p.intermodule { "yes" } else { "no" }.to_owned()),
        ("Sparking cost:", p.sparking_cost.to_string()),
        ("Sparking delay:", p.sparking_delay.to_string()),
        ("Barrier cost:", p.barrier_cost.to_string()),
        ("Future signal cost:", p.signal_cost.to_string()),
        ("Future wait cost:", p.wait_cost.to_string()),
        ("Context wakeup delay:", p.wakeup_delay.to_string()),
        ("Clique threshold:", p.clique_threshold.to_string()),
        ("Call site threshold:", p.call_site_threshold.to_string()),
        ("Speedup threshold:", format!("{:.6}", p.speedup_threshold)),
        ("Dependent conjs:", dependent.to_owned()),
        ("BestParAlgorithm:", best),
        ("# of par procs with conjs:", candidates.procs.len().to_string()),
        ("# of par conjunctions:", conjunctions.to_string()),
    ];
    out.push_str("  Candidate parallel conjunctions:\n");
    for (name, value) in rows {
        let _ = writeln!(out, "    {name:<26} {value}");
    }
    out.push_str("    Parallel conjunctions:\n\n");
    for (label, proc) in &candidates.procs {
        procedure(out, label, proc);
    }
}

/// A procedure's name in the report.
pub(crate) fn label_name(label: &ProcLabel<String>) -> String {
    match label {
        ProcLabel::Ordinary { kind, decl_module, name, arity, mode, .. } => {
            let kind = if *kind == PredOrFunc::Pred { "pred" } else { "func" };
            format!("{kind} {decl_module}.{name}/{arity}-{mode}")
        }
        ProcLabel::Special { type_name, type_module, pred_name, arity, mode, .. } => {
            format!("{pred_name} for {type_module}.{type_name}/{arity}-{mode}")
        }
    }
}

/// The part of the report about one procedure.
pub fn of_procedure(label: &ProcLabel<String>, proc: &ProcCandidates) -> String {
    let mut out = String::new();
    procedure(&mut out, label, proc);
    out
}

fn procedure(out: &mut String, label: &ProcLabel<String>, proc: &ProcCandidates) {
    let _ = writeln!(out, "    {}", label_name(label));
    for push in &proc.pushes {
        out.push('\n');
        push_goal(out, push, 8);
    }
    out.push('\n');
    for candidate in &proc.candidates {
        Writer { out, names: &proc.names }.candidate(candidate);
    }
}

fn push_goal(out: &mut String, push: &Push, indent: usize) {
    let _ = writeln!(out, "      PushGoal: {}, lo {}, hi {}", push.path, push.lo, push.hi);
    for target in &push.targets {
        let _ = writeln!(out, "{:indent$}{target}", "");
    }
}

struct Writer<'a> {
    out: &'a mut String,
    names: &'a VarNames,
}

impl Writer<'_> {
    fn line(&mut self, level: usize, text: &str) {
        let _ = writeln!(self.out, "{:width$}{text}", "", width = level * 2);
    }

    fn candidate(&mut self, c: &Candidate) {
        let _ = writeln!(self.out, "      Path: {}", c.path);
        if let Some(push) = &c.push {
            push_goal(self.out, push, 16);
        }
        let dependent = match &c.dependent {
            None => "no".to_owned(),
            Some(vars) => {
                let mut names: Vec<String> = vars.iter().map(|v| self.names.show(*v)).collect();
                names.sort_unstable();
                names.dedup();
                format!("on {}", names.join(", "))
            }
        };
        let m = &c.metrics;
        let rows = [
            ("Dependent", dependent),
            ("NumCalls", commas(&m.calls.to_string())),
            ("SeqTime", f2(m.seq_time)),
            ("ParTime", f2(m.par_time)),
            ("SparkCost", f2(m.spark)),
            ("BarrierCost", f2(m.barrier)),
            ("SignalsCost", f2(m.signals)),
            ("WaitsCost", f2(m.waits)),
            ("ParOverheads total", f2(m.overheads())),
            ("Speedup", f4(m.speedup())),
            ("Time saving", f2(m.saving())),
            ("First conj dead time", f2(m.first_dead)),
            ("Future dead time", f2(m.future_dead)),
            ("Total dead time", f2(m.dead())),
        ];
        for (name, value) in rows {
            let _ = writeln!(self.out, "      {name}: {value}");
        }
        self.out.push_str("\n      Goals before:\n");
        self.sequence(&c.before, 4, &c.path, c.before_cost, 1);
        self.out.push_str("\n      Parallel conjunction:\n        (\n");
        // Paths belong to the conjunction after the transformation.
        let parallel = c.path.with(GoalStep::Conj(number(c.before.len())));
        for (j, goals) in c.conjuncts.iter().enumerate() {
            if j > 0 {
                self.line(4, "&");
            }
            let path = parallel.with(GoalStep::Conj(number(j)));
            match goals.as_slice() {
                [goal] => self.goal(goal, 5, &path),
                goals => self.sequence(goals, 5, &path, goals.iter().map(|g| g.cost).sum(), 1),
            }
        }
        self.out.push_str("        )\n\n      Goals after:\n");
        self.sequence(&c.after, 4, &c.path, c.after_cost, number(c.before.len()) + 1);
        self.out.push('\n');
    }

    fn sequence(&mut self, goals: &[Goal], level: usize, path: &GoalPath, cost: f64, first: i64) {
        if first == 1 {
            self.line(level, &format!("% conjunction: {path}"));
            self.line(level, &format!("% Cost: {}", f2(cost)));
            self.out.push('\n');
        }
        for (i, goal) in goals.iter().enumerate() {
            if i > 0 {
                self.line(level, ",");
            }
            self.goal(goal, level, &path.with(GoalStep::Conj(first - 1 + number(i))));
        }
    }

    fn goal(&mut self, goal: &Goal, level: usize, path: &GoalPath) {
        let is_conj = matches!(goal.kind, GoalKind::Conj(_));
        let prefix = if is_conj { "% conjunction: " } else { "% " };
        let place = if path.0.is_empty() { "root goal".to_owned() } else { path.to_string() };
        self.line(level, &format!("{prefix}{place}"));
        self.line(level, &format!("{prefix}{}", goal.detism));
        let above = if goal.above { "above threshold" } else { "not above threshold" };
        self.line(level, &format!("{prefix}cost: {} ({above})", f2(goal.cost)));
        for (title, times) in [("Productions", &goal.productions), ("Consumptions", &goal.consumptions)] {
            if times.is_empty() {
                continue;
            }
            self.line(level, &format!("{prefix}{title}:"));
            for (v, time) in times {
                let name = self.names.show(*v);
                self.line(level, &format!("{prefix}    {name}: {}", f2(*time)));
            }
        }
        if is_conj {
            self.out.push('\n');
        }
        self.body(&goal.kind, level, path);
    }

    fn body(&mut self, kind: &GoalKind, level: usize, path: &GoalPath) {
        match kind {
            GoalKind::Conj(goals) if goals.is_empty() => self.line(level, "true"),
            GoalKind::Conj(goals) => {
                for (i, goal) in goals.iter().enumerate() {
                    if i > 0 {
                        self.line(level, ",");
                    }
                    self.goal(goal, level, &path.with(GoalStep::Conj(number(i))));
                }
            }
            GoalKind::Disj(goals) => {
                self.line(level, "(");
                for (i, goal) in goals.iter().enumerate() {
                    if i > 0 {
                        self.line(level, ";");
                    }
                    self.goal(goal, level + 1, &path.with(GoalStep::Disj(number(i))));
                }
                self.line(level, ")");
            }
            GoalKind::Switch { var, can_fail, cases } => {
                let kind = if *can_fail { "switch_can_fail_rep" } else { "switch_can_not_fail_rep" };
                let name = self.names.show(*var);
                self.line(level, &format!("{kind} switch on {name}"));
                self.line(level, "(");
                for (i, (functors, goal)) in cases.iter().enumerate() {
                    if i > 0 {
                        self.line(level + 1, ";");
                    }
                    for (cons, arity) in functors {
                        self.line(level + 2, &format!("% case {cons}/{arity}"));
                    }
                    self.goal(
                        goal,
                        level + 2,
                        &path.with(GoalStep::Switch { arm: number(i), functors: None }),
                    );
                }
                self.line(level, ")");
            }
            GoalKind::IfThenElse(goals) => {
                let parts = [("(", GoalStep::Cond), ("->", GoalStep::Then), (";", GoalStep::Else)];
                for ((open, step), goal) in parts.into_iter().zip(goals.iter()) {
                    self.line(level, open);
                    self.goal(goal, level + 1, &path.with(step));
                }
                self.line(level, ")");
            }
            GoalKind::Neg(inner) => {
                self.line(level, "not (");
                self.goal(inner, level + 1, &path.with(GoalStep::Neg));
                self.line(level, ")");
            }
            GoalKind::Scope(inner, cut) => {
                self.line(level, if *cut { "scope cut (" } else { "scope (" });
                self.goal(inner, level + 1, &path.with(GoalStep::Scope { cut: *cut }));
                self.line(level, ")");
            }
            GoalKind::Atomic(goal) => {
                let text = goal.kind.text(|v| self.names.show(v));
                self.line(level, &text);
            }
        }
    }
}

/// The number, from 1, for an index from 0.
fn number(index: usize) -> i64 {
    i64::try_from(index + 1).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas_and_a_minus_counts_as_a_digit() {
        assert_eq!(f2(20510.0), "20,510.00");
        assert_eq!(f2(-123.0), "-,123.00");
        assert_eq!(f2(-12.0), "-12.00");
        assert_eq!(f4(1.25), "1.2500");
        assert_eq!(commas("1204"), "1,204");
        assert_eq!(commas("999"), "999");
    }
}
