//! A profile with everything that the analysis has computed about it, each value once.

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

/// Times of uses in calls that enter a clique: by call, argument, use, and the module within which calls are followed.
pub(crate) type UseTimes = HashMap<(CsdId, usize, Use, Option<StrId>), Result<f64, String>>;

/// A profile with everything computed about it. It also serves as [`Contexts`].
pub struct World<'a> {
    contexts: Contexts<'a>,
    recursions: RefCell<HashMap<CliqueId, Rc<Recursion>>>,
    pub(crate) use_times: RefCell<UseTimes>,
    /// Goals that are being scanned now, nested, over all calls that are followed.
    pub(crate) scanning: Cell<u32>,
}

impl<'a> Deref for World<'a> {
    type Target = Contexts<'a>;

    fn deref(&self) -> &Contexts<'a> {
        &self.contexts
    }
}

impl<'a> World<'a> {
    /// A profile about which nothing is computed yet.
    pub fn new(bodies: &'a dyn Bodies) -> Self {
        Self {
            contexts: Contexts::new(bodies),
            recursions: RefCell::default(),
            use_times: RefCell::default(),
            scanning: Cell::new(0),
        }
    }

    /// The type of a clique's recursion.
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
