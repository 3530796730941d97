//! Feedback files: read, written, reported, refused.

use std::fs;

use pct_deep::procrep::{AtomicGoal, AtomicKind, Detism, Var};
use pct_deep::{PredOrFunc, ProcLabel};
use pct_feedback::file::{self, Cause, parse, to_text};
use pct_feedback::model::{Candidates, Goal, GoalKind, ProcCandidates, Push, VarNames};
use pct_feedback::report::report;
use pct_feedback::{Candidate, Feedback, Metrics, Params};
use proptest::prelude::*;

fn atomic(kind: AtomicKind) -> GoalKind {
    GoalKind::Atomic(AtomicGoal { kind, file: String::new(), line: 7, bound: vec![Var(3)] })
}
fn goal(kind: GoalKind, cost: f64) -> Goal {
    Goal {
        kind,
        detism: Detism::Det,
        cost,
        above: cost > 2000.0,
        productions: Vec::new(),
        consumptions: Vec::new(),
    }
}
fn call(name: &str, args: &[u32]) -> GoalKind {
    let args = args.iter().copied().map(Var).collect();
    atomic(AtomicKind::Call { module: "shop".into(), name: name.into(), args })
}

/// The made-up example of the format's description, completed.
fn shop() -> Feedback {
    let mut names = VarNames::default();
    for (n, name) in [(1, "Order"), (2, "Item"), (3, "Sum"), (4, "Items"), (5, "Bills"), (6, "Kind")] {
        names.insert(Var(n), name);
    }
    let weigh = Goal {
        productions: vec![(Var(9), 7990.25), (Var(3), 7990.25)],
        ..goal(call("weigh", &[2, 3, 9]), 8000.5)
    };
    let all = Goal {
        consumptions: vec![(Var(9), 0.0), (Var(3), 3.5)],
        ..goal(call("bill_all", &[4, 3, 9, 5]), 12509.5)
    };
    let arm =
        |n| (vec![(if n == 0 { "no".to_owned() } else { "yes".to_owned() }, n)], goal(assign(7, 2), 0.0));
    let switch = goal(GoalKind::Switch { var: Var(6), can_fail: false, cases: vec![arm(0), arm(1)] }, 0.0);
    let candidate = Candidate {
        path: "e;".parse().unwrap(),
        push: None,
        dependent: Some(vec![Var(3), Var(9)]),
        before: vec![goal(
            atomic(AtomicKind::Deconstruct { var: Var(1), cons: "order".into(), args: vec![Var(2), Var(4)] }),
            0.0,
        )],
        before_cost: 0.0,
        conjuncts: vec![vec![weigh, goal(assign(12, 1), 0.0), switch], vec![all]],
        after: vec![goal(assign(30, 5), 0.0)],
        after_cost: 0.0,
        metrics: Metrics {
            calls: 1204,
            seq_time: 20510.0,
            par_time: 14000.0,
            spark: 100.0,
            barrier: 200.0,
            signals: 200.0,
            waits: 400.0,
            first_dead: 1500.5,
            future_dead: 0.0,
        },
    };
    let label = ProcLabel::Ordinary {
        kind: PredOrFunc::Pred,
        decl_module: "shop".to_owned(),
        def_module: "shop".to_owned(),
        name: "bill".to_owned(),
        arity: 3,
        mode: 0,
    };
    let proc = ProcCandidates { names, pushes: Vec::new(), candidates: vec![candidate] };
    let candidates = Candidates { params: Params::default(), procs: vec![(label, proc)] };
    Feedback { program: "./shop".to_owned(), candidates: Some(candidates) }
}
fn assign(target: u32, source: u32) -> GoalKind {
    atomic(AtomicKind::Assign { target: Var(target), source: Var(source) })
}

#[test]
fn the_report_is_laid_out_as_described() {
    let text = report(&shop());
    let wanted = "\
Feedback report for ./shop:

  Candidate parallel conjunctions:
    Desired parallelism:       8.000000
    Intermodule var use:       no
    Sparking cost:             100
    Sparking delay:            1000
    Barrier cost:              100
    Future signal cost:        100
    Future wait cost:          200
    Context wakeup delay:      1000
    Clique threshold:          2000
    Call site threshold:       2000
    Speedup threshold:         1.010000
    Dependent conjs:           yes, use overlap calculation
    BestParAlgorithm:          complete-branches(1000)
    # of par procs with conjs: 1
    # of par conjunctions:     1
    Parallel conjunctions:

    pred shop.bill/3-0

      Path: e;
      Dependent: on Sum, V_9
      NumCalls: 1,204
      SeqTime: 20,510.00
      ParTime: 14,000.00
      SparkCost: 100.00
      BarrierCost: 200.00
      SignalsCost: 200.00
      WaitsCost: 400.00
      ParOverheads total: 900.00
      Speedup: 1.4650
      Time saving: 6,510.00
      First conj dead time: 1,500.50
      Future dead time: 0.00
      Total dead time: 1,500.50

      Goals before:
        % conjunction: e;
        % Cost: 0.00

        % e;c1;
        % det
        % cost: 0.00 (not above threshold)
        Order => order(Item, Items)

      Parallel conjunction:
        (
          % conjunction: e;c2;c1;
          % Cost: 8,000.50

          % e;c2;c1;c1;
          % det
          % cost: 8,000.50 (above threshold)
          % Productions:
          %     V_9: 7,990.25
          %     Sum: 7,990.25
          shop.weigh(Item, Sum, V_9)
          ,
          % e;c2;c1;c2;
          % det
          % cost: 0.00 (not above threshold)
          V_12 := Order
          ,
          % e;c2;c1;c3;
          % det
          % cost: 0.00 (not above threshold)
          switch_can_not_fail_rep switch on Kind
          (
              % case no/0
              % e;c2;c1;c3;s1-na;
              % det
              % cost: 0.00 (not above threshold)
              V_7 := Item
            ;
              % case yes/1
              % e;c2;c1;c3;s2-na;
              % det
              % cost: 0.00 (not above threshold)
              V_7 := Item
          )
        &
          % e;c2;c2;
          % det
          % cost: 12,509.50 (above threshold)
          % Consumptions:
          %     V_9: 0.00
          %     Sum: 3.50
          shop.bill_all(Items, Sum, V_9, Bills)
        )

      Goals after:
        % e;c3;
        % det
        % cost: 0.00 (not above threshold)
        V_30 := Bills

";
    assert!(text == wanted, "{text}");
}

#[test]
fn files_come_back_as_they_were_written() {
    let mut shop = shop();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.feedback");
    file::write(&path, &shop).unwrap();
    let read = file::read(&path, Some("./shop")).unwrap();
    assert_eq!(read, shop);
    assert_eq!(to_text(&read), fs::read_to_string(&path).unwrap());
    assert_eq!(report(&read), report(&shop));

    let push =
        Push { path: "c1;".parse().unwrap(), lo: 2, hi: 3, targets: vec!["c1;s1-na;".parse().unwrap()] };
    let (_, proc) = &mut shop.candidates.as_mut().unwrap().procs[0];
    proc.pushes.push(push.clone());
    proc.candidates[0].push = Some(push);
    proc.candidates[0].dependent = None;
    assert_eq!(parse(&to_text(&shop), None).unwrap(), shop);
    let text = report(&shop);
    assert!(
        text.contains("\n\n      PushGoal: c1;, lo 2, hi 3\n        c1;s1-na;\n\n      Path: e;\n"),
        "{text}"
    );
    assert!(
        text.contains("      PushGoal: c1;, lo 2, hi 3\n                c1;s1-na;\n      Dependent: no\n"),
        "{text}"
    );
}

#[test]
fn a_file_without_candidates_says_so() {
    let empty = Feedback { program: "p".to_owned(), candidates: None };
    let text = to_text(&empty);
    assert_eq!(text, "Mercury Compiler Feedback\n19\np\n[].\n");
    assert_eq!(parse(&text, Some("p")).unwrap(), empty);
    assert_eq!(report(&empty), "Feedback report for p:\n\nno report available.\n");
}

#[test]
fn wrong_files_are_refused_in_the_tools_words() {
    let refuse = |text: &str| {
        let error = parse(text, Some("p")).unwrap_err();
        file::ReadError { file: "F".into(), cause: error }.to_string()
    };
    let head = "Mercury Compiler Feedback\n19\np\n";
    assert_eq!(refuse("Mercury Feedback\n19\np\n[]."), "F: Incorrect file format");
    assert_eq!(
        refuse("Mercury Compiler Feedback\n18\np\n[]."),
        "F: Incorrect file format version; expected 19"
    );
    assert_eq!(refuse(""), "F: Unexpected end of file");
    assert_eq!(refuse(head), "F: Unexpected end of file");
    assert_eq!(refuse(&format!("{head}[]")), "F: Unexpected end of file");
    assert_eq!(
        refuse("Mercury Compiler Feedback\n19\n q \n[]."),
        "F: The name of the program the feedback is for didn't match, is this the right feedback file?\n\
         Expected: 'p' Got: 'q'"
    );
    assert_eq!(refuse(&format!("{head}\n[f(,)].")), "F: Syntax error: unexpected `,' on line 5");
    assert_eq!(
        refuse(&format!("{head}[\nf(x)].")),
        "F: Expected fcw_candidate_parallel_conjunctions/1 on line 5"
    );
    let text = to_text(&shop()).replace("./shop", "p");
    let term = text.lines().last().unwrap();
    let twice = format!("{head}{}, {}", &term[..term.len() - 2], &term[1..]);
    assert_eq!(refuse(&twice), "F: File contains more than one candidate_parallel_conjunctions component");
    assert!(matches!(file::read("/nonexistent/x".as_ref(), None).unwrap_err().cause, Cause::Open(_)));
    parse(&format!("{text} anything"), Some("p")).unwrap();
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("[|]".to_owned()), "\\PC{0,8}", "[a-z \"\\\\\n\t]{0,6}"]
}
fn var() -> impl Strategy<Value = Var> {
    any::<u32>().prop_map(Var)
}
fn some_vars() -> impl Strategy<Value = Vec<Var>> {
    prop::collection::vec(var(), 0..4)
}
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..1e9_f64, any::<f64>().prop_filter("finite", |x| x.is_finite())]
}

fn any_atom() -> impl Strategy<Value = AtomicKind> {
    let maybe = || prop::collection::vec(prop::option::of(var()), 0..4);
    prop_oneof![
        (var(), name(), some_vars()).prop_map(|(var, cons, args)| AtomicKind::Construct { var, cons, args }),
        (var(), name(), some_vars()).prop_map(|(var, cons, args)| AtomicKind::Deconstruct {
            var,
            cons,
            args
        }),
        (var(), name(), maybe()).prop_map(|(var, cons, args)| AtomicKind::PartialConstruct {
            var,
            cons,
            args
        }),
        (var(), name(), maybe()).prop_map(|(var, cons, args)| AtomicKind::PartialDeconstruct {
            var,
            cons,
            args
        }),
        (var(), var()).prop_map(|(target, source)| AtomicKind::Assign { target, source }),
        (var(), var()).prop_map(|(output, input)| AtomicKind::Cast { output, input }),
        (var(), var()).prop_map(|(first, second)| AtomicKind::Test { first, second }),
        some_vars().prop_map(|args| AtomicKind::Foreign { args }),
        (var(), some_vars()).prop_map(|(closure, args)| AtomicKind::HigherOrder { closure, args }),
        (var(), any::<u16>(), some_vars()).prop_map(|(typeclass_info, method, args)| AtomicKind::Method {
            typeclass_info,
            method,
            args
        }),
        (name(), name(), some_vars()).prop_map(|(module, name, args)| AtomicKind::Call {
            module,
            name,
            args
        }),
        (name(), name(), some_vars()).prop_map(|(module, name, args)| AtomicKind::Builtin {
            module,
            name,
            args
        }),
        (name(), some_vars()).prop_map(|(name, args)| AtomicKind::Event { name, args }),
    ]
}

/// Goals of all kinds, some levels deep.
fn any_goal() -> impl Strategy<Value = Goal> {
    let annotate = |kind: BoxedStrategy<GoalKind>| {
        let times = || prop::collection::vec((var(), number()), 0..3);
        let detism = prop::sample::select(vec![
            Detism::Det,
            Detism::Semidet,
            Detism::Nondet,
            Detism::Multi,
            Detism::CcNondet,
            Detism::CcMulti,
            Detism::Erroneous,
            Detism::Failure,
        ]);
        (kind, detism, number(), any::<bool>(), times(), times()).prop_map(
            |(kind, detism, cost, above, productions, consumptions)| Goal {
                kind,
                detism,
                cost,
                above,
                productions,
                consumptions,
            },
        )
    };
    let atom = (any_atom(), name(), any::<i32>(), some_vars())
        .prop_map(|(kind, file, line, bound)| GoalKind::Atomic(AtomicGoal { kind, file, line, bound }));
    annotate(atom.boxed()).prop_recursive(3, 20, 4, move |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..4);
        let functors = prop::collection::vec((name(), 0..9_i64), 1..3);
        let kind = prop_oneof![
            list().prop_map(GoalKind::Conj),
            list().prop_map(GoalKind::Disj),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| GoalKind::IfThenElse(Box::new([a, b, c]))),
            inner.clone().prop_map(|g| GoalKind::Neg(Box::new(g))),
            (inner.clone(), any::<bool>()).prop_map(|(g, cut)| GoalKind::Scope(Box::new(g), cut)),
            (var(), any::<bool>(), prop::collection::vec((functors, inner.clone()), 0..3))
                .prop_map(|(var, can_fail, cases)| GoalKind::Switch { var, can_fail, cases }),
        ];
        annotate(kind.boxed())
    })
}

proptest! {
    #[test]
    fn goals_of_every_kind_come_back_as_they_were_written(goals in prop::collection::vec(any_goal(), 1..4)) {
        let mut shop = shop();
        let (_, proc) = &mut shop.candidates.as_mut().unwrap().procs[0];
        proc.candidates[0].before.clone_from(&goals);
        proc.candidates[0].conjuncts.push(goals.clone());
        proc.candidates[0].after = goals;
        let text = to_text(&shop);
        let read = parse(&text, None).unwrap();
        prop_assert_eq!(&read, &shop);
        prop_assert_eq!(to_text(&read), text);
        prop_assert_eq!(report(&read), report(&shop));
    }

    #[test]
    fn a_damaged_file_never_panics(at in any::<prop::sample::Index>(), to in any::<char>(), cut in any::<bool>()) {
        let text = to_text(&shop());
        let at = at.index(text.len());
        if let (Some(before), Some(after)) = (text.get(..at), text.get(at + 1..)) {
            let after = if cut { "" } else { after };
            if let Ok(feedback) = parse(&format!("{before}{to}{after}"), None) {
                let _ = report(&feedback);
            }
        }
    }
}
