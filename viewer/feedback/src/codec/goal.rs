//! Goals as terms, and back.

use pct_deep::procrep::{AtomicGoal, AtomicKind, Detism, Var};

use super::words::{
    Decoded, args, atom, choice, compound, float, int, list, pair, parts, string, to_choice, to_float,
    to_int, to_list, to_pair, to_string, to_var, var, wrong,
};
use crate::model::{Goal, GoalKind};
use crate::term::Term;

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

pub(super) fn goal(g: &Goal) -> Term {
    let times = |times: &[(Var, f64)]| list(times, |(v, x)| pair(var(*v), float(*x)));
    let annotation = compound(
        "pard_goal_annotation",
        vec![float(g.cost), choice(&g.above, &ABOVE), times(&g.productions), times(&g.consumptions)],
    );
    compound("goal_rep", vec![expression(&g.kind), choice(&g.detism, &DETISMS), annotation])
}

pub(super) fn to_goal(term: &Term) -> Decoded<Goal> {
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
