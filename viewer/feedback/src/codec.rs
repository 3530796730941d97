//! Candidates as terms, and back. Encoder and decoder of each type stand side by side.

use pct_deep::procrep::{AtomicGoal, AtomicKind, Detism, Var};
use pct_deep::{GoalPath, PredOrFunc, ProcLabel};

use crate::model::{
    BestAlgorithm, Candidate, Candidates, DependentConjuncts, Goal, GoalKind, Metrics, Params,
    ProcCandidates, Push, VarNames,
};
use crate::term::{Term, TermKind};

/// A term that does not stand for what it should: what was expected, and the term's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IllTyped(pub String, pub u32);

type Decoded<T> = Result<T, IllTyped>;

const COMPONENT: &str = "fcw_candidate_parallel_conjunctions";

fn compound(name: &str, args: Vec<Term>) -> Term {
    TermKind::Compound(name.to_owned(), args).into()
}
fn atom(name: &str) -> Term {
    compound(name, Vec::new())
}
fn string(text: &str) -> Term {
    TermKind::Str(text.to_owned()).into()
}
fn int(n: i64) -> Term {
    TermKind::Int(n).into()
}
fn float(x: f64) -> Term {
    TermKind::Float(x).into()
}
fn var(v: Var) -> Term {
    int(i64::from(v.0))
}
fn pair(key: Term, value: Term) -> Term {
    TermKind::Pair(Box::new(key), Box::new(value)).into()
}
fn list<'a, T: 'a>(items: impl IntoIterator<Item = &'a T>, f: impl FnMut(&'a T) -> Term) -> Term {
    TermKind::List(items.into_iter().map(f).collect()).into()
}

fn wrong<T>(term: &Term, expected: &str) -> Decoded<T> {
    Err(IllTyped(format!("Expected {expected}"), term.line))
}
/// The name and arguments of a compound term.
fn parts<'a>(term: &'a Term, expected: &str) -> Decoded<(&'a str, &'a [Term])> {
    match &term.kind {
        TermKind::Compound(name, args) => Ok((name, args)),
        _ => wrong(term, expected),
    }
}
/// The arguments of a compound term of one name and arity.
fn args<'a, const N: usize>(term: &'a Term, name: &str) -> Decoded<&'a [Term; N]> {
    match parts(term, name)? {
        (found, args) if found == name => args.try_into().or_else(|_| wrong(term, &format!("{name}/{N}"))),
        _ => wrong(term, &format!("{name}/{N}")),
    }
}
fn to_string(term: &Term) -> Decoded<String> {
    match &term.kind {
        TermKind::Str(text) => Ok(text.clone()),
        _ => wrong(term, "a string"),
    }
}
fn to_int(term: &Term) -> Decoded<i64> {
    match term.kind {
        TermKind::Int(n) => Ok(n),
        _ => wrong(term, "an integer"),
    }
}
fn to_float(term: &Term) -> Decoded<f64> {
    match term.kind {
        TermKind::Float(x) => Ok(x),
        _ => wrong(term, "a float"),
    }
}
fn to_u32(term: &Term) -> Decoded<u32> {
    u32::try_from(to_int(term)?).or_else(|_| wrong(term, "a number of 32 bits"))
}
fn to_var(term: &Term) -> Decoded<Var> {
    to_u32(term).map(Var)
}
fn to_list<T>(term: &Term, f: impl FnMut(&Term) -> Decoded<T>) -> Decoded<Vec<T>> {
    match &term.kind {
        TermKind::List(items) => items.iter().map(f).collect(),
        _ => wrong(term, "a list"),
    }
}
fn to_pair<T, U>(
    term: &Term,
    f: impl Fn(&Term) -> Decoded<T>,
    g: impl Fn(&Term) -> Decoded<U>,
) -> Decoded<(T, U)> {
    match &term.kind {
        TermKind::Pair(key, value) => Ok((f(key)?, g(value)?)),
        _ => wrong(term, "a pair"),
    }
}
/// One of some constants.
fn to_choice<T: Copy>(term: &Term, choices: &[(&str, T)]) -> Decoded<T> {
    if let TermKind::Compound(name, args) = &term.kind
        && args.is_empty()
        && let Some((_, value)) = choices.iter().find(|(n, _)| n == name)
    {
        return Ok(*value);
    }
    let names: Vec<&str> = choices.iter().map(|(n, _)| *n).collect();
    wrong(term, &names.join(" or "))
}
fn choice<T: PartialEq>(value: &T, choices: &[(&str, T)]) -> Term {
    atom(choices.iter().find(|(_, v)| v == value).map_or("", |(n, _)| n))
}

const YES_NO: [(&str, bool); 2] = [("no", false), ("yes", true)];

fn path(path: &GoalPath) -> Term {
    string(&path.to_string())
}
fn to_path(term: &Term) -> Decoded<GoalPath> {
    to_string(term)?.parse().or_else(|_| wrong(term, "a goal path"))
}

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
/// The first part that is not as it should be.
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

const DETISMS: [(&str, Detism); 8] = [
    ("det_rep", Detism::Det),
    ("semidet_rep", Detism::Semidet),
    ("nondet_rep", Detism::Nondet),
    ("multidet_rep", Detism::Multi),
    ("cc_nondet_rep", Detism::CcNondet),
    ("cc_multidet_rep", Detism::CcMulti),
    ("erroneous_rep", Detism::Erroneous),
    ("failure_rep", Detism::Failure),
];
const ABOVE: [(&str, bool); 2] =
    [("cost_above_par_threshold", true), ("cost_not_above_par_threshold", false)];
const CUT: [(&str, bool); 2] = [("scope_is_cut", true), ("scope_is_no_cut", false)];
const CAN_FAIL: [(&str, bool); 2] = [("switch_can_fail_rep", true), ("switch_can_not_fail_rep", false)];

fn goal(g: &Goal) -> Term {
    let times = |times: &[(Var, f64)]| list(times, |(v, x)| pair(var(*v), float(*x)));
    let annotation = compound(
        "pard_goal_annotation",
        vec![float(g.cost), choice(&g.above, &ABOVE), times(&g.productions), times(&g.consumptions)],
    );
    compound("goal_rep", vec![expression(&g.kind), choice(&g.detism, &DETISMS), annotation])
}

fn to_goal(term: &Term) -> Decoded<Goal> {
    let [expr, detism, annotation] = args(term, "goal_rep")?;
    let [cost, above, productions, consumptions] = args(annotation, "pard_goal_annotation")?;
    let times = |t: &Term| to_list(t, |p| to_pair(p, to_var, to_float));
    Ok(Goal {
        kind: to_expression(expr)?,
        detism: to_choice(detism, &DETISMS)?,
        cost: to_float(cost)?,
        above: to_choice(above, &ABOVE)?,
        productions: times(productions)?,
        consumptions: times(consumptions)?,
    })
}

fn expression(kind: &GoalKind) -> Term {
    match kind {
        GoalKind::Conj(goals) => compound("conj_rep", vec![list(goals, goal)]),
        GoalKind::Disj(goals) => compound("disj_rep", vec![list(goals, goal)]),
        GoalKind::IfThenElse(goals) => compound("ite_rep", goals.iter().map(goal).collect()),
        GoalKind::Neg(inner) => compound("negation_rep", vec![goal(inner)]),
        GoalKind::Scope(inner, cut) => compound("scope_rep", vec![goal(inner), choice(cut, &CUT)]),
        GoalKind::Switch { var: v, can_fail, cases } => {
            let cons = |(name, arity): &(String, i64)| {
                compound("cons_id_arity_rep", vec![string(name), int(*arity)])
            };
            let case = |(functors, inner): &(Vec<(String, i64)>, Goal)| {
                let (main, others) = functors.split_first().expect("a case has a functor");
                compound("case_rep", vec![cons(main), list(others, cons), goal(inner)])
            };
            compound("switch_rep", vec![var(*v), choice(can_fail, &CAN_FAIL), list(cases, case)])
        }
        GoalKind::Atomic(a) => compound(
            "atomic_goal_rep",
            vec![string(&a.file), int(i64::from(a.line)), list(&a.bound, |v| var(*v)), atomic(&a.kind)],
        ),
    }
}

fn to_expression(term: &Term) -> Decoded<GoalKind> {
    let boxed = |t: &Term| to_goal(t).map(Box::new);
    Ok(match parts(term, "a goal")? {
        ("conj_rep", [goals]) => GoalKind::Conj(to_list(goals, to_goal)?),
        ("disj_rep", [goals]) => GoalKind::Disj(to_list(goals, to_goal)?),
        ("ite_rep", [c, t, e]) => GoalKind::IfThenElse(Box::new([to_goal(c)?, to_goal(t)?, to_goal(e)?])),
        ("negation_rep", [inner]) => GoalKind::Neg(boxed(inner)?),
        ("scope_rep", [inner, cut]) => GoalKind::Scope(boxed(inner)?, to_choice(cut, &CUT)?),
        ("switch_rep", [v, can_fail, cases]) => {
            let cons = |t: &Term| {
                let [name, arity] = args(t, "cons_id_arity_rep")?;
                Ok((to_string(name)?, to_int(arity)?))
            };
            let case = |t: &Term| {
                let [main, others, inner] = args(t, "case_rep")?;
                let mut functors = vec![cons(main)?];
                functors.extend(to_list(others, cons)?);
                Ok((functors, to_goal(inner)?))
            };
            GoalKind::Switch {
                var: to_var(v)?,
                can_fail: to_choice(can_fail, &CAN_FAIL)?,
                cases: to_list(cases, case)?,
            }
        }
        ("atomic_goal_rep", [file, line, bound, what]) => GoalKind::Atomic(AtomicGoal {
            file: to_string(file)?,
            line: i32::try_from(to_int(line)?).or_else(|_| wrong(line, "a line number"))?,
            bound: to_list(bound, to_var)?,
            kind: to_atomic(what)?,
        }),
        _ => return wrong(term, "a goal"),
    })
}

fn atomic(kind: &AtomicKind) -> Term {
    let vars = |vars: &[Var]| list(vars, |v| var(*v));
    let maybe = |vars: &[Option<Var>]| {
        list(vars, |v| v.map_or_else(|| atom("no"), |v| compound("yes", vec![var(v)])))
    };
    match kind {
        AtomicKind::Construct { var: v, cons, args } => {
            compound("unify_construct_rep", vec![var(*v), string(cons), vars(args)])
        }
        AtomicKind::Deconstruct { var: v, cons, args } => {
            compound("unify_deconstruct_rep", vec![var(*v), string(cons), vars(args)])
        }
        AtomicKind::PartialConstruct { var: v, cons, args } => {
            compound("partial_construct_rep", vec![var(*v), string(cons), maybe(args)])
        }
        AtomicKind::PartialDeconstruct { var: v, cons, args } => {
            compound("partial_deconstruct_rep", vec![var(*v), string(cons), maybe(args)])
        }
        AtomicKind::Assign { target, source } => {
            compound("unify_assign_rep", vec![var(*target), var(*source)])
        }
        AtomicKind::Cast { output, input } => compound("cast_rep", vec![var(*output), var(*input)]),
        AtomicKind::Test { first, second } => {
            compound("unify_simple_test_rep", vec![var(*first), var(*second)])
        }
        AtomicKind::Foreign { args } => compound("pragma_foreign_code_rep", vec![vars(args)]),
        AtomicKind::HigherOrder { closure, args } => {
            compound("higher_order_call_rep", vec![var(*closure), vars(args)])
        }
        AtomicKind::Method { typeclass_info, method, args } => {
            compound("method_call_rep", vec![var(*typeclass_info), int(i64::from(*method)), vars(args)])
        }
        AtomicKind::Call { module, name, args } => {
            compound("plain_call_rep", vec![string(module), string(name), vars(args)])
        }
        AtomicKind::Builtin { module, name, args } => {
            compound("builtin_call_rep", vec![string(module), string(name), vars(args)])
        }
        AtomicKind::Event { name, args } => compound("event_call_rep", vec![string(name), vars(args)]),
    }
}

fn to_atomic(term: &Term) -> Decoded<AtomicKind> {
    let vars = |t: &Term| to_list(t, to_var);
    let maybe = |t: &Term| {
        to_list(t, |v| match parts(v, "no or yes/1")? {
            ("no", []) => Ok(None),
            ("yes", [v]) => to_var(v).map(Some),
            _ => wrong(v, "no or yes/1"),
        })
    };
    Ok(match parts(term, "an atomic goal")? {
        ("unify_construct_rep", [v, cons, a]) => {
            AtomicKind::Construct { var: to_var(v)?, cons: to_string(cons)?, args: vars(a)? }
        }
        ("unify_deconstruct_rep", [v, cons, a]) => {
            AtomicKind::Deconstruct { var: to_var(v)?, cons: to_string(cons)?, args: vars(a)? }
        }
        ("partial_construct_rep", [v, cons, a]) => {
            AtomicKind::PartialConstruct { var: to_var(v)?, cons: to_string(cons)?, args: maybe(a)? }
        }
        ("partial_deconstruct_rep", [v, cons, a]) => {
            AtomicKind::PartialDeconstruct { var: to_var(v)?, cons: to_string(cons)?, args: maybe(a)? }
        }
        ("unify_assign_rep", [t, s]) => AtomicKind::Assign { target: to_var(t)?, source: to_var(s)? },
        ("cast_rep", [t, s]) => AtomicKind::Cast { output: to_var(t)?, input: to_var(s)? },
        ("unify_simple_test_rep", [a, b]) => AtomicKind::Test { first: to_var(a)?, second: to_var(b)? },
        ("pragma_foreign_code_rep", [a]) => AtomicKind::Foreign { args: vars(a)? },
        ("higher_order_call_rep", [v, a]) => AtomicKind::HigherOrder { closure: to_var(v)?, args: vars(a)? },
        ("method_call_rep", [v, n, a]) => AtomicKind::Method {
            typeclass_info: to_var(v)?,
            method: u16::try_from(to_int(n)?).or_else(|_| wrong(n, "a method number"))?,
            args: vars(a)?,
        },
        ("plain_call_rep", [m, n, a]) => {
            AtomicKind::Call { module: to_string(m)?, name: to_string(n)?, args: vars(a)? }
        }
        ("builtin_call_rep", [m, n, a]) => {
            AtomicKind::Builtin { module: to_string(m)?, name: to_string(n)?, args: vars(a)? }
        }
        ("event_call_rep", [n, a]) => AtomicKind::Event { name: to_string(n)?, args: vars(a)? },
        _ => return wrong(term, "an atomic goal"),
    })
}
