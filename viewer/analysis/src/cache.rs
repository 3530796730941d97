//! Stores bodies that are laid out: a profile has many contexts of few procedures, and to lay out a body costs much
//! more than to use it.

use crate::{Body, Failure};
use pct_deep::{ProcRep, Profile, PsId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most bodies that are stored. To go through all procedures, process all contexts of one before the next.
const BODIES: usize = 4096;

/// The bodies of a profile's procedures, each laid out at its first use. A limited number is stored. For one profile
/// and one representation only.
#[derive(Debug, Default)]
pub struct BodyCache {
    bodies: Mutex<HashMap<PsId, Arc<Body>>>,
}

impl BodyCache {
    /// The body of a procedure.
    ///
    /// # Errors
    /// The representation does not have it, or its part of the representation is broken.
    pub fn body(&self, profile: &Profile, rep: &ProcRep, ps: PsId) -> Result<Arc<Body>, Failure> {
        if let Some(body) = self.bodies.lock().unwrap_or_else(PoisonError::into_inner).get(&ps) {
            return Ok(Arc::clone(body));
        }
        let proc =
            rep.find(&profile.label(ps)).ok_or_else(|| Failure::no_body(&profile.qualified_name(ps)))?;
        let procedure = rep
            .procedure(proc)
            .map_err(|e| Failure(format!("Error reading procedure representation information file: {e}")))?;
        let body = Arc::new(Body::new(profile, ps, procedure));
        let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        if bodies.len() >= BODIES {
            bodies.clear();
        }
        bodies.insert(ps, Arc::clone(&body));
        Ok(body)
    }
}
