//! When a call first uses each of its arguments.

use super::common::{ProcDesc, SiteDesc, proc_desc, site_desc};
use crate::analysis::Bodies;
use crate::analysis::Failure;
use crate::analysis::var_use::{UseType, call_cost, first_use};
use crate::subject::Subject;
use serde::Serialize;

/// Data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct VarUseReport {
    /// The call.
    pub csd: u32,
    /// The call site.
    pub site: SiteDesc,
    /// The procedure called.
    pub callee: ProcDesc,
    /// Call sequence numbers of an average call; of a recursive one, an estimate.
    pub cost: f64,
    /// Call sequence numbers of the whole program: no call costs more.
    pub program_callseqs: i64,
    /// Its arguments.
    pub args: Vec<ArgUse>,
}

/// An argument of the call.
#[derive(Clone, Debug, Serialize)]
pub struct ArgUse {
    /// Its name in the callee.
    pub name: String,
    /// Read, or given a value.
    pub use_type: UseType,
    /// Estimated call sequence numbers until its first use. This may be more than the call costs.
    pub until: f64,
    /// Call sequence numbers of the whole procedure; for a recursive one, of one level.
    pub procedure_cost: f64,
}

/// The first use of an argument, limited to what is possible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstUse {
    /// Call sequence numbers until then.
    pub until: f64,
    /// That as a share of the call.
    pub share: f64,
    /// The estimate is beyond the end of the call, so both are upper bounds.
    pub is_bound: bool,
}

impl VarUseReport {
    /// The highest possible cost of an average call.
    #[must_use]
    pub fn possible_cost(&self) -> f64 {
        self.cost.min(self.program_callseqs as f64)
    }

    /// The first use of an argument, within the call.
    #[must_use]
    pub fn first_use(&self, arg: &ArgUse) -> FirstUse {
        // One is measured or estimated for this call. The other is computed from the callee's body, for one level of a
        // recursion.
        let whole = self.cost.max(arg.procedure_cost).min(self.program_callseqs as f64);
        if arg.until > whole {
            return FirstUse { until: whole, share: 1.0, is_bound: true };
        }
        let share = if whole == 0.0 { 0.0 } else { arg.until / whole };
        FirstUse { until: arg.until, share, is_bound: false }
    }
}

/// The report.
///
/// # Errors
/// There is no such call, no body of the callee, or an argument whose use is unknown.
pub fn create(subject: &Subject, number: i64) -> Result<VarUseReport, Failure> {
    let profile = &subject.profile;
    let csd = profile.csd_id(number).ok_or_else(|| Failure::index("call_site_dynamic", number))?;
    let ps = profile.pd_ps(profile.csd_callee(csd));
    let body = subject.body(ps)?;
    let cost = call_cost(subject, csd)?;
    let args = body
        .procedure
        .head
        .iter()
        .enumerate()
        .map(|(i, head)| {
            let use_type = UseType::from_mode(head);
            let found = first_use(subject, csd, i, use_type)?;
            Ok(ArgUse {
                name: body.procedure.var_name(head.var).into_owned(),
                use_type,
                until: found.until,
                procedure_cost: found.whole,
            })
        })
        .collect::<Result<_, Failure>>()?;
    Ok(VarUseReport {
        csd: csd.number(),
        site: site_desc(profile, profile.csd_css(csd)),
        callee: proc_desc(profile, ps),
        cost,
        program_callseqs: profile.root_total().callseqs,
        args,
    })
}
