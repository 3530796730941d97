//! Makes slow reports ahead of the first page that needs them.

use super::callers::{self, Asked};
use super::{proc, tree};
use crate::query::{Contour, Group};
use crate::subject::Subject;
use pct_deep::PsId;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// Reports on a procedure with more contexts than this are made ahead.
const VERY_LARGE: usize = 100_000;

/// Most procedures whose reports are made ahead.
const PROCS: usize = 8;

/// Computes what would make the first page of its kind slow, in a thread of its own. Pages do not wait for it. `None`:
/// the system has no thread to give; then everything is computed on request.
pub fn prepare(subject: &Arc<Subject>) -> Option<JoinHandle<()>> {
    let subject = Arc::clone(subject);
    let work = move || {
        tree::prepare(&subject);
        prepare_procs(&subject);
    };
    Builder::new().name("prepare".to_owned()).spawn(work).ok()
}

/// Makes the reports on the procedures with most contexts, if those have very many.
fn prepare_procs(subject: &Subject) {
    let profile = &subject.profile;
    let contexts = |ps: PsId| profile.ps_pds(ps).len();
    let mut large: Vec<PsId> = profile.pss().filter(|&ps| contexts(ps) > VERY_LARGE).collect();
    large.sort_by_key(|&ps| std::cmp::Reverse(contexts(ps)));
    for ps in large.into_iter().take(PROCS) {
        let _ = proc::kept(subject, ps);
        for &group in Group::ALL {
            let (number, contour) = (i64::from(ps.number()), Contour::Ignore);
            let _ = callers::create_kept(subject, Asked { number, group, bunch: 1, size: 20, contour });
        }
    }
}
