//! Bodies of a few goals whose counts can be computed on paper.

use super::*;
use crate::body::Node;
use pct_deep::GoalPath;
use pct_deep::procrep::{AtomicGoal, AtomicKind, Goal, GoalKind, Procedure, Var};
use proptest::prelude::*;

/// A body from its goals in preorder. What only the layout of a real procedure has is empty.
fn body(nodes: Vec<Node>) -> Body {
    let nothing = Goal { kind: GoalKind::Conj(Vec::new()), detism: Detism::Det };
    let procedure = Procedure {
        file: String::new(),
        vars: Vec::new(),
        vars_in_file: Vec::new(),
        head: Vec::new(),
        body: nothing,
        detism: Detism::Det,
    };
    Body { nodes, procedure }
}

fn node(kind: NodeKind, detism: Detism) -> Node {
    Node { kind, detism, path: GoalPath::ROOT, slot: None, after: None, arm: None }
}

/// A goal that is neither a call nor counted.
fn test_goal(detism: Detism) -> Node {
    let kind = AtomicKind::Test { first: Var(1), second: Var(2) };
    node(NodeKind::Atomic(AtomicGoal { kind, file: String::new(), line: 1, bound: Vec::new() }), detism)
}

fn call(slot: usize, detism: Detism) -> Node {
    let kind = AtomicKind::HigherOrder { closure: Var(1), args: Vec::new() };
    let atom = AtomicGoal { kind, file: String::new(), line: 1, bound: Vec::new() };
    Node { slot: Some(slot), ..node(NodeKind::Atomic(atom), detism) }
}

fn measured(calls: i64, exits: i64, sites: &[(i64, i64)], points: &[i64]) -> Measured {
    Measured { calls, exits, sites: sites.to_vec(), points: points.to_vec() }
}

fn counts(coverage: &Coverage) -> Vec<(i64, i64)> {
    (0..coverage.counts.len()).map(|goal| (coverage.before(goal), coverage.after(goal))).collect()
}

#[test]
fn what_leaves_a_conjunct_enters_the_next() {
    let body = body(vec![
        node(NodeKind::Conj(vec![1, 2, 3]), Detism::Semidet),
        call(0, Detism::Semidet),
        test_goal(Detism::Det),
        call(1, Detism::Det),
    ]);
    let coverage = infer(&body, &measured(10, 7, &[(10, 7), (7, 7)], &[]));
    assert_eq!(coverage.problems, []);
    assert_eq!(counts(&coverage), [(10, 7), (10, 7), (7, 7), (7, 7)]);
}

#[test]
fn a_call_site_that_disagrees_with_the_flow_is_reported() {
    let body = body(vec![
        node(NodeKind::Conj(vec![1, 2]), Detism::Det),
        test_goal(Detism::Det),
        call(0, Detism::Det),
    ]);
    let coverage = infer(&body, &measured(10, 10, &[(9, 10)], &[]));
    let problem = "10 before the call, but its call site has 9 calls";
    assert!(coverage.problems.contains(&Problem { goal: 2, text: problem.to_owned() }), "{coverage:?}");
}

#[test]
fn the_last_arm_of_a_switch_that_cannot_fail_is_entered_by_the_rest() {
    let arms = vec![1, 2];
    let mut first = test_goal(Detism::Det);
    first.arm = Some(0);
    let body = body(vec![
        node(NodeKind::Switch { can_fail: false, var: Var(1), arms }, Detism::Det),
        first,
        test_goal(Detism::Det),
    ]);
    let coverage = infer(&body, &measured(10, 10, &[], &[4]));
    assert_eq!(coverage.problems, []);
    assert_eq!(counts(&coverage), [(10, 10), (4, 4), (6, 6)]);
}

#[test]
fn an_arm_of_a_switch_that_can_fail_is_known_by_its_point_only() {
    let arms = vec![1, 2];
    let mut first = test_goal(Detism::Det);
    first.arm = Some(0);
    let body = body(vec![
        node(NodeKind::Switch { can_fail: true, var: Var(1), arms }, Detism::Semidet),
        first,
        test_goal(Detism::Det),
    ]);
    let coverage = infer(&body, &measured(10, 4, &[], &[4]));
    assert_eq!(coverage.counts[1], Count { before: Some(4), after: Some(4) });
    assert_eq!(coverage.counts[2].before, None);
    assert!(coverage.problems.contains(&Problem { goal: 2, text: "a count is unknown".to_owned() }));
}

#[test]
fn what_does_not_pass_a_condition_enters_the_else_branch() {
    let body = body(vec![
        node(NodeKind::IfThenElse { cond: 1, then: 2, other: 3 }, Detism::Det),
        call(0, Detism::Semidet),
        test_goal(Detism::Det),
        test_goal(Detism::Det),
    ]);
    let coverage = infer(&body, &measured(10, 10, &[(10, 3)], &[]));
    assert_eq!(coverage.problems, []);
    assert_eq!(counts(&coverage), [(10, 10), (10, 3), (3, 3), (7, 7)]);
}

#[test]
fn a_condition_with_many_solutions_says_nothing_of_the_else_branch() {
    let mut other = test_goal(Detism::Det);
    other.arm = Some(0);
    let body = body(vec![
        node(NodeKind::IfThenElse { cond: 1, then: 2, other: 3 }, Detism::Nondet),
        call(0, Detism::Nondet),
        test_goal(Detism::Det),
        other,
    ]);
    let coverage = infer(&body, &measured(10, 26, &[(10, 25)], &[1]));
    assert_eq!(coverage.problems, []);
    assert_eq!(counts(&coverage), [(10, 26), (10, 25), (25, 25), (1, 1)]);
}

#[test]
fn what_was_never_entered_was_never_left() {
    let body = body(vec![node(NodeKind::Conj(vec![1]), Detism::Semidet), test_goal(Detism::Semidet)]);
    let coverage = infer(&body, &measured(0, 0, &[], &[]));
    assert_eq!(coverage.problems, []);
    assert_eq!(counts(&coverage), [(0, 0), (0, 0)]);
}

#[test]
fn a_point_that_disagrees_with_the_flow_is_believed_and_reported() {
    let mut last = test_goal(Detism::Det);
    last.after = Some(0);
    let body = body(vec![node(NodeKind::Conj(vec![1]), Detism::Det), last]);
    let coverage = infer(&body, &measured(10, 8, &[], &[8]));
    assert_eq!(coverage.after(1), 8);
    let problem = "10 after it, but its coverage point counted 8";
    assert_eq!(coverage.problems, [Problem { goal: 1, text: problem.to_owned() }]);
}

#[test]
fn more_exits_than_a_determinism_allows_are_reported() {
    let body = body(vec![call(0, Detism::Semidet)]);
    let coverage = infer(&body, &measured(3, 5, &[(3, 5)], &[]));
    let problem = "it is semidet, but was left 5 times and entered 3 times";
    assert_eq!(coverage.problems, [Problem { goal: 0, text: problem.to_owned() }]);
    assert_eq!(coverage.words(&body, 1), [format!("Counts do not add up at the body: {problem}")]);
    assert_eq!(coverage.words(&body, 0), ["and 1 more places where counts do not add up"]);
}

/// A goal for making a body. If it may fail, it has a coverage point after it, as in the compiler's output.
#[derive(Clone, Debug)]
enum Shape {
    /// Neither a call nor counted. The flag: whether it may fail.
    Test(bool),
    /// A call. The flag: whether it may fail.
    Call(bool),
    Conj(Vec<Shape>),
    Disj(Vec<Shape>),
    /// Whether functors without an arm fail, and the arms.
    Switch(bool, Vec<Shape>),
    IfThenElse(Box<[Shape; 3]>),
    Neg(Box<Shape>),
    Scope(bool, Box<Shape>),
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![any::<bool>().prop_map(Shape::Test), any::<bool>().prop_map(Shape::Call)];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let several = prop::collection::vec(inner.clone(), 1..4);
        let inside = inner.clone().prop_map(Box::new);
        prop_oneof![
            several.clone().prop_map(Shape::Conj),
            several.clone().prop_map(Shape::Disj),
            (any::<bool>(), several).prop_map(|(can_fail, arms)| Shape::Switch(can_fail, arms)),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(cond, then, other)| Shape::IfThenElse(Box::new([cond, then, other]))),
            inside.clone().prop_map(Shape::Neg),
            (any::<bool>(), inside).prop_map(|(cut, inner)| Shape::Scope(cut, inner)),
        ]
    })
}

/// A body, and the counts of its runs.
#[derive(Default)]
struct Simulated {
    nodes: Vec<Node>,
    points: usize,
    slots: usize,
    /// How often each goal was entered, and left with success.
    counts: Vec<(i64, i64)>,
    /// State of the random choices.
    dice: u64,
}

impl Simulated {
    fn new_point(&mut self) -> Option<usize> {
        self.points += 1;
        Some(self.points - 1)
    }

    /// Adds goals in preorder. Returns the number of the first.
    fn add(&mut self, shape: &Shape) -> usize {
        let goal = self.nodes.len();
        self.nodes.push(test_goal(Detism::Semidet));
        let detism = |may_fail: &bool| if *may_fail { Detism::Semidet } else { Detism::Det };
        self.nodes[goal] = match shape {
            Shape::Test(may_fail) => {
                Node { after: if *may_fail { self.new_point() } else { None }, ..test_goal(detism(may_fail)) }
            }
            Shape::Call(may_fail) => {
                self.slots += 1;
                call(self.slots - 1, detism(may_fail))
            }
            Shape::Conj(parts) => {
                let parts = parts.iter().map(|part| self.add(part)).collect();
                node(NodeKind::Conj(parts), Detism::Semidet)
            }
            Shape::Disj(parts) => {
                let parts: Vec<usize> = parts.iter().map(|part| self.add(part)).collect();
                // The first one is entered as often as the disjunction.
                for part in &parts[1..] {
                    self.nodes[*part].arm = self.new_point();
                }
                node(NodeKind::Disj(parts), Detism::Semidet)
            }
            Shape::Switch(can_fail, arms) => {
                let arms: Vec<usize> = arms.iter().map(|arm| self.add(arm)).collect();
                // The last arm of a switch that cannot fail gets the remaining entries.
                let counted = if *can_fail { arms.len() } else { arms.len() - 1 };
                for arm in &arms[..counted] {
                    self.nodes[*arm].arm = self.new_point();
                }
                node(NodeKind::Switch { can_fail: *can_fail, var: Var(1), arms }, Detism::Semidet)
            }
            Shape::IfThenElse(parts) => {
                let [cond, then, other] = [&parts[0], &parts[1], &parts[2]].map(|part| self.add(part));
                node(NodeKind::IfThenElse { cond, then, other }, Detism::Semidet)
            }
            Shape::Neg(inner) => {
                let inner = self.add(inner);
                Node { after: self.new_point(), ..node(NodeKind::Neg(inner), Detism::Semidet) }
            }
            Shape::Scope(cut, inner) => {
                let inner = self.add(inner);
                let after = if *cut { self.new_point() } else { None };
                Node { after, ..node(NodeKind::Scope { cut: *cut, inner }, Detism::Semidet) }
            }
        };
        goal
    }

    fn choice(&mut self, of: usize) -> usize {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.dice >> 33).unwrap_or(0) % of
    }

    /// Executes a goal. Returns whether it succeeds.
    fn execute(&mut self, goal: usize) -> bool {
        self.counts[goal].0 += 1;
        let success = match self.nodes[goal].kind.clone() {
            NodeKind::Atomic(_) => self.nodes[goal].detism == Detism::Det || self.choice(2) == 0,
            NodeKind::Conj(parts) => parts.into_iter().all(|part| self.execute(part)),
            NodeKind::Disj(parts) => parts.into_iter().any(|part| self.execute(part)),
            NodeKind::Switch { can_fail, arms, .. } => {
                let chosen = self.choice(arms.len() + usize::from(can_fail));
                arms.get(chosen).is_some_and(|arm| self.execute(*arm))
            }
            NodeKind::IfThenElse { cond, then, other } => {
                let branch = if self.execute(cond) { then } else { other };
                self.execute(branch)
            }
            NodeKind::Neg(inner) => !self.execute(inner),
            NodeKind::Scope { inner, .. } => self.execute(inner),
        };
        self.counts[goal].1 += i64::from(success);
        success
    }

    /// The values of the compiled code's counters.
    fn measured(&self) -> Measured {
        let mut measured =
            measured(self.counts[0].0, self.counts[0].1, &vec![(0, 0); self.slots], &vec![0; self.points]);
        for (node, &(before, after)) in self.nodes.iter().zip(&self.counts) {
            if let Some(slot) = node.slot {
                measured.sites[slot] = (before, after);
            }
            if let Some(point) = node.after {
                measured.points[point] = after;
            }
            if let Some(point) = node.arm {
                measured.points[point] = before;
            }
        }
        measured
    }
}

proptest! {
    #[test]
    fn counts_are_those_of_the_runs_that_were_counted(shape in any_shape(), runs in 0..40, dice: u64) {
        let mut simulated = Simulated { dice, ..Simulated::default() };
        simulated.add(&shape);
        simulated.counts = vec![(0, 0); simulated.nodes.len()];
        for _ in 0..runs {
            simulated.execute(0);
        }
        let measured = simulated.measured();
        let expected = simulated.counts;
        let coverage = infer(&body(simulated.nodes), &measured);
        prop_assert_eq!(&coverage.problems, &[]);
        prop_assert_eq!(counts(&coverage), expected);
    }

    #[test]
    fn a_counter_that_is_wrong_is_never_a_panic(shape in any_shape(), runs in 0..40, dice: u64, by: i64, which: usize) {
        let mut simulated = Simulated { dice, ..Simulated::default() };
        simulated.add(&shape);
        simulated.counts = vec![(0, 0); simulated.nodes.len()];
        for _ in 0..runs {
            simulated.execute(0);
        }
        let mut wrong = simulated.measured();
        match wrong.points.len() {
            0 => wrong.calls = by,
            many => wrong.points[which % many] = by,
        }
        let nodes = simulated.nodes.len();
        let coverage = infer(&body(simulated.nodes), &wrong);
        prop_assert_eq!(coverage.counts.len(), nodes);
    }
}
