//! The facts about one procedure in one context: its body, coverage and call sites, joined (docs/feedback.md, sections
//! 3 and 6).

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use pct_analysis::coverage::{self, Coverage, Measured};
use pct_analysis::{Bodies, Body};
use pct_deep::{CliqueId, CsdId, PdId, Profile, SiteKind};

use crate::cost::Abort;

/// The calls of a context's call site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// Whether a callee is in the caller's clique.
    pub recursive: bool,
    /// Calls.
    pub calls: i64,
    /// Own and inherited call sequence counts of all its calls.
    pub total: f64,
    /// Whether the callee is unknown before the call: special, higher order and method calls.
    pub higher_order: bool,
    /// Its edges, in the file's order.
    pub csds: Vec<CsdId>,
}

impl Site {
    /// The cost of a call; 0 if there is none.
    pub fn per_call(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.total / self.calls as f64 }
    }
}

/// The call sites of a context, by slot.
pub fn sites(profile: &Profile, pd: PdId) -> Vec<Site> {
    profile
        .slots(pd)
        .map(|slot| {
            let mut site = Site {
                higher_order: matches!(
                    slot.kind(),
                    SiteKind::Special | SiteKind::HigherOrder | SiteKind::Method
                ),
                csds: slot.csds().collect(),
                ..Site::default()
            };
            let mut total = 0_i64;
            for &csd in &site.csds {
                site.recursive |= profile.csd_child_clique(csd).is_none();
                site.calls = site.calls.saturating_add(profile.csd_own(csd).calls());
                total = total.saturating_add(profile.csd_total(csd).callseqs);
            }
            site.total = total as f64;
            site
        })
        .collect()
}

/// A context, ready for analysis.
#[derive(Debug)]
pub struct Context {
    /// The context.
    pub pd: PdId,
    /// Its clique.
    pub clique: CliqueId,
    /// The body of its procedure.
    pub body: Arc<Body>,
    /// How often each goal was entered and left. It has no contradictions.
    pub coverage: Coverage,
    /// Its call sites, by slot.
    pub sites: Vec<Site>,
}

impl Context {
    /// The call site of a goal, if it is a call that has one.
    pub fn site(&self, goal: usize) -> Option<&Site> {
        self.sites.get(self.body.nodes[goal].slot?)
    }
    /// How often a goal was entered.
    pub fn before(&self, goal: usize) -> i64 {
        self.coverage.before(goal)
    }
    /// How often a goal was left with success.
    pub fn after(&self, goal: usize) -> i64 {
        self.coverage.after(goal)
    }
    /// The fraction of a goal's entries that succeeded.
    pub fn success(&self, goal: usize) -> f64 {
        self.after(goal) as f64 / self.before(goal) as f64
    }
    /// The fraction of a goal's entries that did not succeed.
    pub fn failure(&self, goal: usize) -> f64 {
        (self.before(goal) - self.after(goal)) as f64 / self.before(goal) as f64
    }
}

/// What a context lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There are no counts of contexts.
    Coverage,
    /// The program representation does not have it.
    Representation,
}

/// Most contexts that are stored.
const CONTEXTS: usize = 4096;

/// The contexts of a profile, each made once.
pub struct Contexts<'a> {
    /// Source of bodies.
    pub bodies: &'a dyn Bodies,
    /// The profile.
    pub profile: &'a Profile,
    ready: RefCell<HashMap<PdId, Rc<Context>>>,
}

impl<'a> Contexts<'a> {
    /// Makes no context yet.
    pub fn new(bodies: &'a dyn Bodies) -> Self {
        Self { bodies, profile: bodies.profile(), ready: RefCell::default() }
    }

    /// A context.
    ///
    /// # Errors
    /// Its counts contradict each other. The inner error: there is no body, or there are no counts.
    pub fn context(&self, pd: PdId) -> Result<Result<Rc<Context>, Missing>, Abort> {
        if let Some(context) = self.ready.borrow().get(&pd) {
            return Ok(Ok(Rc::clone(context)));
        }
        let profile = self.profile;
        let Ok(body) = self.bodies.body(profile.pd_ps(pd)) else {
            return Ok(Err(Missing::Representation));
        };
        let Some(measured) = Measured::of_pd(profile, pd) else { return Ok(Err(Missing::Coverage)) };
        let coverage = coverage::infer(&body, &measured);
        if let Some(problem) = coverage.words(&body, 1).into_iter().next() {
            return Err(Abort::contradiction(problem));
        }
        let clique = profile.pd_clique(pd);
        let context = Rc::new(Context { pd, clique, body, coverage, sites: sites(profile, pd) });
        let mut known = self.ready.borrow_mut();
        if known.len() >= CONTEXTS {
            known.clear();
        }
        known.insert(pd, Rc::clone(&context));
        Ok(Ok(context))
    }
}
