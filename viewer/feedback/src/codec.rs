//! Converts candidates to terms and back. Encoder and decoder of each type stand side by side.

mod goal;
mod words;

use pct_deep::{PredOrFunc, ProcLabel};

use crate::model::{
    BestAlgorithm, Candidate, Candidates, DependentConjuncts, Metrics, Params, ProcCandidates, Push, VarNames,
};
use crate::term::Term;
use goal::{goal, to_goal};
pub use words::IllTyped;
use words::{
    Decoded, YES_NO, args, atom, choice, compound, float, int, list, pair, parts, path, string, to_choice,
    to_float, to_int, to_list, to_pair, to_path, to_string, to_u32, to_var, var, wrong,
};

const COMPONENT: &str = "fcw_candidate_parallel_conjunctions";

/// The component as a term of the list that a file is.
pub fn component(candidates: &Candidates) -> Term {
    let procs = list(&candidates.procs, |(l, p)| pair(label(l), proc_candidates(p)));
    let info =
        compound("feedback_info_candidate_parallel_conjunctions", vec![params(&candidates.params), procs]);
    compound(COMPONENT, vec![info])
}

/// The inverse of [`component`].
///
/// # Errors
/// The first malformed part.
pub fn to_component(term: &Term) -> Decoded<Candidates> {
    let [info] = args(term, COMPONENT)?;
    let [p, procs] = args(info, "feedback_info_candidate_parallel_conjunctions")?;
    Ok(Candidates {
        params: to_params(p)?,
        procs: to_list(procs, |t| to_pair(t, to_label, to_proc_candidates))?,
    })
}

fn params(p: &Params) -> Term {
    compound(
        "candidate_par_conjunctions_params",
        vec![
            float(p.desired),
            choice(&p.intermodule, &YES_NO),
            int(p.sparking_cost),
            int(p.sparking_delay),
            int(p.barrier_cost),
            int(p.signal_cost),
            int(p.wait_cost),
            int(p.wakeup_delay),
            int(p.clique_threshold),
            int(p.call_site_threshold),
            float(p.speedup_threshold),
            match p.dependent {
                DependentConjuncts::No => atom("do_not_parallelise_dep_conjs"),
                DependentConjuncts::Naively => {
                    compound("parallelise_dep_conjs", vec![atom("estimate_speedup_naively")])
                }
                DependentConjuncts::ByOverlap => {
                    compound("parallelise_dep_conjs", vec![atom("estimate_speedup_by_overlap")])
                }
            },
            match p.best {
                BestAlgorithm::CompleteBranches(n) => compound("affbp_complete_branches", vec![int(n)]),
                BestAlgorithm::CompleteSize(n) => compound("affbp_complete_size", vec![int(n)]),
                BestAlgorithm::Complete => atom("affbp_complete"),
                BestAlgorithm::Greedy => atom("affbp_greedy"),
            },
        ],
    )
}

fn to_params(term: &Term) -> Decoded<Params> {
    let [desired, intermodule, s, d, b, g, w, k, clique, site, speedup, dependent, best] =
        args(term, "candidate_par_conjunctions_params")?;
    Ok(Params {
        desired: to_float(desired)?,
        intermodule: to_choice(intermodule, &YES_NO)?,
        sparking_cost: to_int(s)?,
        sparking_delay: to_int(d)?,
        barrier_cost: to_int(b)?,
        signal_cost: to_int(g)?,
        wait_cost: to_int(w)?,
        wakeup_delay: to_int(k)?,
        clique_threshold: to_int(clique)?,
        call_site_threshold: to_int(site)?,
        speedup_threshold: to_float(speedup)?,
        dependent: match parts(dependent, "an algorithm")? {
            ("do_not_parallelise_dep_conjs", []) => DependentConjuncts::No,
            ("parallelise_dep_conjs", [how]) => to_choice(
                how,
                &[
                    ("estimate_speedup_naively", DependentConjuncts::Naively),
                    ("estimate_speedup_by_overlap", DependentConjuncts::ByOverlap),
                ],
            )?,
            _ => return wrong(dependent, "do_not_parallelise_dep_conjs or parallelise_dep_conjs/1"),
        },
        best: match parts(best, "an algorithm")? {
            ("affbp_complete_branches", [n]) => BestAlgorithm::CompleteBranches(to_int(n)?),
            ("affbp_complete_size", [n]) => BestAlgorithm::CompleteSize(to_int(n)?),
            ("affbp_complete", []) => BestAlgorithm::Complete,
            ("affbp_greedy", []) => BestAlgorithm::Greedy,
            _ => return wrong(best, "an algorithm for finding the best parallelisation"),
        },
    })
}

const KINDS: [(&str, PredOrFunc); 2] =
    [("pf_predicate", PredOrFunc::Pred), ("pf_function", PredOrFunc::Func)];

fn label(label: &ProcLabel<String>) -> Term {
    match label {
        ProcLabel::Ordinary { kind, decl_module, def_module, name, arity, mode } => compound(
            "str_ordinary_proc_label",
            vec![
                choice(kind, &KINDS),
                string(decl_module),
                string(def_module),
                string(name),
                int(i64::from(*arity)),
                int(i64::from(*mode)),
            ],
        ),
        ProcLabel::Special { type_name, type_module, def_module, pred_name, arity, mode } => compound(
            "str_special_proc_label",
            vec![
                string(type_name),
                string(type_module),
                string(def_module),
                string(pred_name),
                int(i64::from(*arity)),
                int(i64::from(*mode)),
            ],
        ),
    }
}

fn to_label(term: &Term) -> Decoded<ProcLabel<String>> {
    Ok(match parts(term, "a procedure label")? {
        ("str_ordinary_proc_label", [kind, decl, def, name, arity, mode]) => ProcLabel::Ordinary {
            kind: to_choice(kind, &KINDS)?,
            decl_module: to_string(decl)?,
            def_module: to_string(def)?,
            name: to_string(name)?,
            arity: to_u32(arity)?,
            mode: to_u32(mode)?,
        },
        ("str_special_proc_label", [name, module, def, pred, arity, mode]) => ProcLabel::Special {
            type_name: to_string(name)?,
            type_module: to_string(module)?,
            def_module: to_string(def)?,
            pred_name: to_string(pred)?,
            arity: to_u32(arity)?,
            mode: to_u32(mode)?,
        },
        _ => return wrong(term, "a procedure label"),
    })
}

fn proc_candidates(p: &ProcCandidates) -> Term {
    compound(
        "candidate_par_conjunctions_proc",
        vec![var_names(&p.names), list(&p.pushes, push), list(&p.candidates, candidate)],
    )
}

fn to_proc_candidates(term: &Term) -> Decoded<ProcCandidates> {
    let [names, pushes, candidates] = args(term, "candidate_par_conjunctions_proc")?;
    Ok(ProcCandidates {
        names: to_var_names(names)?,
        pushes: to_list(pushes, to_push)?,
        candidates: to_list(candidates, to_candidate)?,
    })
}

const NODES: [&str; 3] = ["two", "three", "four"];

fn var_names(tree: &VarNames) -> Term {
    match tree {
        VarNames::Empty => atom("empty"),
        VarNames::Node(names, children) => {
            let names = names.iter().flat_map(|(k, n)| [int(*k), string(n)]);
            let name = NODES[children.len().saturating_sub(2).min(2)];
            compound(name, names.chain(children.iter().map(var_names)).collect())
        }
    }
}

fn to_var_names(term: &Term) -> Decoded<VarNames> {
    let (name, args) = parts(term, "a tree of names")?;
    if name == "empty" && args.is_empty() {
        return Ok(VarNames::Empty);
    }
    let Some(names) =
        NODES.iter().position(|n| *n == name).map(|i| i + 1).filter(|n| args.len() == 3 * n + 1)
    else {
        return wrong(term, "a tree of names");
    };
    let pairs: Vec<(i64, String)> = args[..2 * names]
        .chunks(2)
        .map(|p| Ok((to_int(&p[0])?, to_string(&p[1])?)))
        .collect::<Decoded<_>>()?;
    if !pairs.windows(2).all(|p| p[0].0 < p[1].0) {
        return wrong(term, "a tree in ascending order");
    }
    let children = args[2 * names..].iter().map(to_var_names).collect::<Decoded<_>>()?;
    Ok(VarNames::Node(pairs, children))
}

fn push(p: &Push) -> Term {
    compound("push_goal", vec![path(&p.path), int(p.lo), int(p.hi), list(&p.targets, path)])
}

fn to_push(term: &Term) -> Decoded<Push> {
    let [at, lo, hi, targets] = args(term, "push_goal")?;
    Ok(Push { path: to_path(at)?, lo: to_int(lo)?, hi: to_int(hi)?, targets: to_list(targets, to_path)? })
}

fn candidate(c: &Candidate) -> Term {
    compound(
        "candidate_par_conjunction",
        vec![
            path(&c.path),
            c.push.as_ref().map_or_else(|| atom("no"), |p| compound("yes", vec![push(p)])),
            int(1),
            match &c.dependent {
                None => atom("conjuncts_are_independent"),
                Some(vars) => {
                    let vars = compound("sol", vec![list(vars, |v| var(*v))]);
                    compound("conjuncts_are_dependent", vec![vars])
                }
            },
            list(&c.before, goal),
            float(c.before_cost),
            list(&c.conjuncts, |goals| compound("seq_conj", vec![list(goals, goal)])),
            list(&c.after, goal),
            float(c.after_cost),
            metrics(&c.metrics),
        ],
    )
}

fn to_candidate(term: &Term) -> Decoded<Candidate> {
    let [at, pushed, _one, dependent, before, before_cost, conjuncts, after, after_cost, m] =
        args(term, "candidate_par_conjunction")?;
    Ok(Candidate {
        path: to_path(at)?,
        push: match parts(pushed, "no or yes/1")? {
            ("no", []) => None,
            ("yes", [p]) => Some(to_push(p)?),
            _ => return wrong(pushed, "no or yes/1"),
        },
        dependent: match parts(dependent, "a dependence")? {
            ("conjuncts_are_independent", []) => None,
            ("conjuncts_are_dependent", [vars]) => {
                let [vars] = args(vars, "sol")?;
                Some(to_list(vars, to_var)?)
            }
            _ => return wrong(dependent, "conjuncts_are_independent or conjuncts_are_dependent/1"),
        },
        before: to_list(before, to_goal)?,
        before_cost: to_float(before_cost)?,
        conjuncts: to_list(conjuncts, |t| {
            let [goals] = args(t, "seq_conj")?;
            to_list(goals, to_goal)
        })?,
        after: to_list(after, to_goal)?,
        after_cost: to_float(after_cost)?,
        metrics: to_metrics(m)?,
    })
}

fn metrics(m: &Metrics) -> Term {
    let floats =
        [m.seq_time, m.par_time, m.spark, m.barrier, m.signals, m.waits, m.first_dead, m.future_dead];
    compound("parallel_exec_metrics", std::iter::once(int(m.calls)).chain(floats.map(float)).collect())
}

fn to_metrics(term: &Term) -> Decoded<Metrics> {
    let [calls, seq, par, spark, barrier, signals, waits, first, future] =
        args(term, "parallel_exec_metrics")?;
    Ok(Metrics {
        calls: to_int(calls)?,
        seq_time: to_float(seq)?,
        par_time: to_float(par)?,
        spark: to_float(spark)?,
        barrier: to_float(barrier)?,
        signals: to_float(signals)?,
        waits: to_float(waits)?,
        first_dead: to_float(first)?,
        future_dead: to_float(future)?,
    })
}
