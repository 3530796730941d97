//! Candidates for parallel execution. Times and costs are call sequence counts.

use pct_deep::procrep::{AtomicGoal, Detism, Var};
use pct_deep::{GoalPath, ProcLabel};

/// How the time of dependent conjuncts is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependentConjuncts {
    /// Dependent conjuncts are not parallelised.
    No,
    /// They count as independent.
    Naively,
    /// According to the overlap of their executions.
    ByOverlap,
}

/// How the best partition is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BestAlgorithm {
    /// Only one path, always with the better choice.
    Greedy,
    /// All partitions.
    Complete,
    /// All partitions of conjunctions up to this size, else greedy.
    CompleteSize(i64),
    /// All partitions until this many were tried, then greedy.
    CompleteBranches(i64),
}

/// The parameters of the search for candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Desired parallelism.
    pub desired: f64,
    /// Whether variable use follows calls into other modules.
    pub intermodule: bool,
    /// Cost of creating a spark.
    pub sparking_cost: i64,
    /// Time until a spark runs.
    pub sparking_delay: i64,
    /// Cost of the barrier at a conjunct's end.
    pub barrier_cost: i64,
    /// Cost of signalling a future.
    pub signal_cost: i64,
    /// Cost of waiting for a future.
    pub wait_cost: i64,
    /// Time until a suspended context runs again.
    pub wakeup_delay: i64,
    /// Calls of cliques with a lower cost are not analysed.
    pub clique_threshold: i64,
    /// Goals with at most this cost are not worth a conjunct.
    pub call_site_threshold: i64,
    /// Candidates must be faster by more than this factor.
    pub speedup_threshold: f64,
    /// Dependent conjunctions.
    pub dependent: DependentConjuncts,
    /// The search.
    pub best: BestAlgorithm,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            desired: 8.0,
            intermodule: false,
            sparking_cost: 100,
            sparking_delay: 1000,
            barrier_cost: 100,
            signal_cost: 100,
            wait_cost: 200,
            wakeup_delay: 1000,
            clique_threshold: 2000,
            call_site_threshold: 2000,
            speedup_threshold: 1.01,
            dependent: DependentConjuncts::ByOverlap,
            best: BestAlgorithm::CompleteBranches(1000),
        }
    }
}

/// The contents of a feedback file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Feedback {
    /// The profiled program, as its profile names it.
    pub program: String,
    /// Candidates for parallel conjunctions, if the file has that component.
    pub candidates: Option<Candidates>,
}

/// Candidates for parallel conjunctions.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates {
    /// The parameters of the search.
    pub params: Params,
    /// By procedure, in the order of the file.
    pub procs: Vec<(ProcLabel<String>, ProcCandidates)>,
}

/// The candidates of a procedure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcCandidates {
    /// Names of its variables.
    pub names: VarNames,
    /// Goals that must first be moved into branches.
    pub pushes: Vec<Push>,
    /// The candidates.
    pub candidates: Vec<Candidate>,
}

/// Move conjuncts `lo` to `hi` of a conjunction next to goals deeper in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The conjunction.
    pub path: GoalPath,
    /// The first conjunct to move, from 1.
    pub lo: i64,
    /// The last.
    pub hi: i64,
    /// The target goals, relative to the conjunction.
    pub targets: Vec<GoalPath>,
}

/// A conjunction worth executing in parallel.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The conjunction.
    pub path: GoalPath,
    /// The push that makes it, if it needs one.
    pub push: Option<Push>,
    /// Variables for which conjuncts wait, ascending; empty: if they are independent.
    pub dependent: Option<Vec<Var>>,
    /// Goals before the parallel ones.
    pub before: Vec<Goal>,
    /// Their cost per call.
    pub before_cost: f64,
    /// The parallel conjuncts, each a sequence of goals.
    pub conjuncts: Vec<Vec<Goal>>,
    /// Goals after the parallel ones.
    pub after: Vec<Goal>,
    /// Their cost per call.
    pub after_cost: f64,
    /// The effect of executing it in parallel.
    pub metrics: Metrics,
}

/// The effect of executing a conjunction in parallel, per call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Calls of the conjunction.
    pub calls: i64,
    /// Time of sequential execution.
    pub seq_time: f64,
    /// Time of parallel execution.
    pub par_time: f64,
    /// Cost of sparks.
    pub spark: f64,
    /// Cost of barriers.
    pub barrier: f64,
    /// Cost of signals.
    pub signals: f64,
    /// Cost of waits.
    pub waits: f64,
    /// Time for which the first conjunct waits at its end.
    pub first_dead: f64,
    /// Time for which conjuncts wait for futures.
    pub future_dead: f64,
}

impl Metrics {
    /// Sparks, barriers, signals and waits (section 11.6).
    pub fn overheads(&self) -> f64 {
        self.spark + self.barrier + self.signals + self.waits
    }
    /// Sequential over parallel time.
    pub fn speedup(&self) -> f64 {
        self.seq_time / self.par_time
    }
    /// Sequential less parallel time.
    pub fn saving(&self) -> f64 {
        self.seq_time - self.par_time
    }
    /// All time spent waiting.
    pub fn dead(&self) -> f64 {
        self.first_dead + self.future_dead
    }
}

/// A goal with the facts about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// What it is.
    pub kind: GoalKind,
    /// How often it can succeed.
    pub detism: Detism,
    /// Cost per call.
    pub cost: f64,
    /// Whether that is above the call site threshold.
    pub above: bool,
    /// When it produces variables for which others wait.
    pub productions: Vec<(Var, f64)>,
    /// When it needs variables that others produce.
    pub consumptions: Vec<(Var, f64)>,
}

/// The kinds of goals.
#[derive(Clone, Debug, PartialEq)]
pub enum GoalKind {
    /// One after the other.
    Conj(Vec<Goal>),
    /// Alternatives.
    Disj(Vec<Goal>),
    /// Condition, then, else.
    IfThenElse(Box<[Goal; 3]>),
    /// Negation.
    Neg(Box<Goal>),
    /// A scope, with or without a cut.
    Scope(Box<Goal>, bool),
    /// Alternatives by the functor of a variable.
    Switch {
        /// The variable.
        var: Var,
        /// Whether it fails for functors that have no case.
        can_fail: bool,
        /// Functors with their arities (at least one), and the goal for them.
        cases: Vec<(Vec<(String, i64)>, Goal)>,
    },
    /// A goal without goals inside.
    Atomic(AtomicGoal),
}

/// Names of variables: the 2-3-4 tree of the file, with its shape preserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VarNames {
    /// No names.
    #[default]
    Empty,
    /// A node with one to three names and one more child.
    Node(Vec<(i64, String)>, Vec<VarNames>),
}

impl VarNames {
    /// The name of a variable.
    pub fn get(&self, var: Var) -> Option<&str> {
        let mut tree = self;
        while let Self::Node(names, children) = tree {
            match names.binary_search_by_key(&i64::from(var.0), |(k, _)| *k) {
                Ok(at) => return Some(&names[at].1),
                Err(at) => tree = children.get(at)?,
            }
        }
        None
    }
    /// The displayed name of a variable: its own, or `V_number`.
    pub fn show(&self, var: Var) -> String {
        self.get(var).map_or_else(|| format!("V_{}", var.0), str::to_owned)
    }
    /// Adds a name, or replaces it: top-down, splitting full nodes on the way.
    pub fn insert(&mut self, var: Var, name: &str) {
        let key = i64::from(var.0);
        match self {
            Self::Empty => *self = Self::leaf(vec![(key, name.to_owned())]),
            Self::Node(names, _) => {
                if names.len() == 3 && names.iter().all(|(k, _)| *k != key) {
                    let (left, middle, right) = self.split();
                    *self = Self::Node(vec![middle], vec![left, right]);
                }
                self.insert_below(key, name);
            }
        }
    }
    fn leaf(names: Vec<(i64, String)>) -> Self {
        let children = vec![Self::Empty; names.len() + 1];
        Self::Node(names, children)
    }
    /// Splits a full node.
    fn split(&mut self) -> (Self, (i64, String), Self) {
        let Self::Node(mut names, mut children) = std::mem::take(self) else {
            unreachable!("only full nodes are split")
        };
        let (right_names, right_children) = (names.split_off(2), children.split_off(2));
        let middle = names.pop().expect("a full node has three names");
        (Self::Node(names, children), middle, Self::Node(right_names, right_children))
    }
    /// Adds to a node that is not full.
    fn insert_below(&mut self, key: i64, name: &str) {
        let mut tree = self;
        loop {
            let Self::Node(names, children) = tree else { return };
            let mut at = match names.binary_search_by_key(&key, |(k, _)| *k) {
                Ok(at) => {
                    name.clone_into(&mut names[at].1);
                    return;
                }
                Err(at) => at,
            };
            if let Self::Node(inner, _) = &children[at]
                && inner.len() == 3
                && inner.iter().all(|(k, _)| *k != key)
            {
                let (left, middle, right) = children[at].split();
                at += usize::from(key > middle.0);
                let place = at - usize::from(key > middle.0);
                names.insert(place, middle);
                children[place] = left;
                children.insert(place + 1, right);
            }
            if children[at] == Self::Empty {
                names.insert(at, (key, name.to_owned()));
                children.insert(at, Self::Empty);
                return;
            }
            tree = &mut children[at];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(tree: &VarNames, low: i64, high: i64) -> usize {
        let VarNames::Node(names, children) = tree else { return 0 };
        assert!((1..=3).contains(&names.len()) && children.len() == names.len() + 1);
        let keys: Vec<i64> = names.iter().map(|(k, _)| *k).collect();
        assert!(keys.windows(2).all(|w| w[0] < w[1]));
        assert!(keys.iter().all(|&k| low <= k && k <= high));
        let mut depths = Vec::new();
        for (i, child) in children.iter().enumerate() {
            let from = if i == 0 { low } else { keys[i - 1] + 1 };
            let to = keys.get(i).map_or(high, |k| k - 1);
            depths.push(check(child, from, to));
        }
        assert!(depths.windows(2).all(|w| w[0] == w[1]), "leaves are equally deep");
        depths[0] + 1
    }

    #[test]
    fn full_nodes_are_split_on_the_way_down() {
        let mut tree = VarNames::default();
        for n in 1..=4 {
            tree.insert(Var(n), &format!("X{n}"));
        }
        let VarNames::Node(names, children) = &tree else { panic!("not empty") };
        assert_eq!(names[0].0, 2);
        assert_eq!(children.len(), 2);
        assert_eq!(children[1], VarNames::leaf(vec![(3, "X3".into()), (4, "X4".into())]));
        assert_eq!(tree.show(Var(4)), "X4");
        assert_eq!(tree.show(Var(9)), "V_9");
    }

    proptest! {
        #[test]
        fn names_inserted_in_any_order_are_found(keys in prop::collection::vec(0..200_u32, 0..150)) {
            let mut tree = VarNames::default();
            let mut naive = std::collections::BTreeMap::new();
            for (i, &key) in keys.iter().enumerate() {
                tree.insert(Var(key), &format!("N{i}"));
                naive.insert(key, format!("N{i}"));
                check(&tree, i64::MIN, i64::MAX);
            }
            for key in 0..200 {
                prop_assert_eq!(tree.get(Var(key)), naive.get(&key).map(String::as_str));
            }
        }
    }
}
