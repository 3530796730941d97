//! A profile with all that the analysis found out about it, each thing once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;

use pct_analysis::Bodies;
use pct_deep::{CliqueId, CsdId, StrId};

use crate::context::Contexts;
use crate::cost::Abort;
use crate::recursion::{self, Recursion};
use crate::variables::Use;

/// Times of uses in calls that enter a clique: by call, argument, use, and the module that may not be left.
pub(crate) type UseTimes = HashMap<(CsdId, usize, Use, Option<StrId>), Result<f64, String>>;

/// A profile with all that was found out about it. It is its [`Contexts`] too.
pub struct World<'a> {
    contexts: Contexts<'a>,
    recursions: RefCell<HashMap<CliqueId, Rc<Recursion>>>,
    pub(crate) use_times: RefCell<UseTimes>,
    /// Goals that are being scanned at the moment, one inside the other, over all calls followed.
    pub(crate) scanning: Cell<u32>,
}

impl<'a> Deref for World<'a> {
    type Target = Contexts<'a>;

    fn deref(&self) -> &Contexts<'a> {
        &self.contexts
    }
}

impl<'a> World<'a> {
    /// A profile of which nothing is known yet.
    pub fn new(bodies: &'a dyn Bodies) -> Self {
        Self {
            contexts: Contexts::new(bodies),
            recursions: RefCell::default(),
            use_times: RefCell::default(),
            scanning: Cell::new(0),
        }
    }

    /// How a clique recurses.
    ///
    /// # Errors
    /// The profile contradicts itself.
    pub fn recursion(&self, clique: CliqueId) -> Result<Rc<Recursion>, Abort> {
        if let Some(known) = self.recursions.borrow().get(&clique) {
            return Ok(Rc::clone(known));
        }
        let recursion = Rc::new(recursion::classify(&self.contexts, clique)?);
        self.recursions.borrow_mut().insert(clique, Rc::clone(&recursion));
        Ok(recursion)
    }
}
