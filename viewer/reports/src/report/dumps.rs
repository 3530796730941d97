//! Raw dumps: what the file contains about one node, for people who work on the profiler.

use super::clique::kind_word;
use super::common::{Perf, ProcDesc, Rates, SiteDesc, proc_desc, ps_of, site_desc};
use crate::analysis::Failure;
use pct_deep::figures::Desc;
use pct_deep::{Coverage, CssKind, PointKind, Profile, PsId, Slot};
use serde::Serialize;

/// A procedure static.
#[derive(Clone, Debug, Serialize)]
pub struct DumpPs {
    /// The procedure.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
    /// Its raw name.
    pub raw_name: String,
    /// Whether it is in its module's interface.
    pub in_interface: bool,
    /// Number of call sites.
    pub sites: usize,
    /// Number of coverage points.
    pub coverage_points: usize,
}

/// A procedure dynamic.
#[derive(Clone, Debug, Serialize)]
pub struct DumpPd {
    /// The context.
    pub pd: u32,
    /// Its procedure.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
    /// Its procedure's raw name.
    pub raw_name: String,
    /// Its clique.
    pub clique: u32,
    /// Its slots.
    pub slots: Vec<DumpSlot>,
    /// Its counts of coverage points, if it has any.
    pub coverage: Vec<DumpPoint>,
    /// Whether the file has counts for contexts.
    pub has_coverage: bool,
}

/// A slot of a procedure dynamic.
#[derive(Clone, Debug, Serialize)]
pub struct DumpSlot {
    /// The call site.
    pub css: u32,
    /// normal, special, higher_order, method or callback.
    pub kind: &'static str,
    /// Whether it hides its procedure from recursion checks. Only multi slots can.
    pub zeroed: bool,
    /// Call site dynamics, at most 1,000.
    pub csds: Vec<u32>,
    /// Number of call site dynamics.
    pub count: usize,
}

/// A coverage point with its count.
#[derive(Clone, Debug, Serialize)]
pub struct DumpPoint {
    /// Its position.
    pub goal_path: String,
    /// `after` or `branch_arm`.
    pub kind: &'static str,
    /// Its count.
    pub count: u64,
}

/// A call site static.
#[derive(Clone, Debug, Serialize)]
pub struct DumpCss {
    /// The call site.
    pub site: SiteDesc,
    /// normal, special, higher_order, method or callback.
    pub kind: &'static str,
    /// Type specialisation of a normal call.
    pub type_subst: String,
}

/// A call site dynamic.
#[derive(Clone, Debug, Serialize)]
pub struct DumpCsd {
    /// The edge.
    pub csd: u32,
    /// The calling context.
    pub caller: u32,
    /// Its procedure.
    pub caller_proc: ProcDesc,
    /// The called context.
    pub callee: u32,
    /// Its procedure.
    pub callee_proc: ProcDesc,
    /// The call site.
    pub site: SiteDesc,
    /// Own costs. Those of descendants are not in the file.
    pub perf: Perf,
}

/// A clique.
#[derive(Clone, Debug, Serialize)]
pub struct DumpClique {
    /// Its number.
    pub clique: u32,
    /// The edge that enters it; none for the root's clique.
    pub entry: Option<u32>,
    /// Contexts in it, at most 1,000.
    pub members: Vec<DumpMember>,
    /// Number of contexts in it.
    pub count: usize,
}

/// A context of a clique.
#[derive(Clone, Debug, Serialize)]
pub struct DumpMember {
    /// The context.
    pub pd: u32,
    /// Its procedure.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
}

/// Most members of a long list that are dumped.
const LISTED: usize = 1000;

/// The dump of a procedure static.
///
/// # Errors
/// There is no such number.
pub fn ps(profile: &Profile, number: i64) -> Result<DumpPs, Failure> {
    let ps: PsId = ps_of(profile, number)?;
    Ok(DumpPs {
        desc: proc_desc(profile, ps),
        raw_name: profile.raw_name(ps),
        in_interface: profile.ps(ps).in_interface,
        sites: profile.sites(ps).len(),
        coverage_points: profile.points(ps).len(),
    })
}

/// The dump of a procedure dynamic.
///
/// # Errors
/// There is no such number.
pub fn pd(profile: &Profile, number: i64) -> Result<DumpPd, Failure> {
    let pd = profile.pd_id(number).ok_or_else(|| Failure::index("proc_dynamic", number))?;
    let ps = profile.pd_ps(pd);
    let slots = profile
        .sites(ps)
        .iter()
        .zip(profile.slots(pd))
        .map(|(css, slot)| DumpSlot {
            css: css.number(),
            kind: kind_word(slot.kind()),
            zeroed: matches!(slot, Slot::Multi { kind, .. } if kind.is_zeroing()),
            csds: slot.csds().take(LISTED).map(pct_deep::CsdId::number).collect(),
            count: slot.csds().count(),
        })
        .collect();
    let coverage = profile
        .points(ps)
        .iter()
        .zip(profile.pd_coverage(pd))
        .map(|(point, count)| DumpPoint {
            goal_path: profile.path(point.path).to_string(),
            kind: match point.kind {
                PointKind::After => "after",
                PointKind::BranchArm => "branch_arm",
            },
            count,
        })
        .collect();
    Ok(DumpPd {
        pd: pd.number(),
        desc: proc_desc(profile, ps),
        raw_name: profile.raw_name(ps),
        clique: profile.pd_clique(pd).number(),
        slots,
        coverage,
        has_coverage: profile.header().coverage == Coverage::Dynamic,
    })
}

/// The dump of a call site static.
///
/// # Errors
/// There is no such number.
pub fn css(profile: &Profile, number: i64) -> Result<DumpCss, Failure> {
    let css = profile.css_id(number).ok_or_else(|| Failure::index("call_site_static", number))?;
    let kind = profile.css(css).kind;
    Ok(DumpCss {
        site: site_desc(profile, css),
        kind: kind_word(kind.kind()),
        type_subst: match kind {
            CssKind::Normal { type_subst, .. } => profile.text(type_subst).into_owned(),
            _ => String::new(),
        },
    })
}

/// The dump of a call site dynamic.
///
/// # Errors
/// There is no such number.
pub fn csd(profile: &Profile, number: i64) -> Result<DumpCsd, Failure> {
    let csd = profile.csd_id(number).ok_or_else(|| Failure::index("call_site_dynamic", number))?;
    let (caller, callee) = (profile.csd_caller(csd), profile.csd_callee(csd));
    Ok(DumpCsd {
        csd: csd.number(),
        caller: caller.number(),
        caller_proc: proc_desc(profile, profile.pd_ps(caller)),
        callee: callee.number(),
        callee_proc: proc_desc(profile, profile.pd_ps(callee)),
        site: site_desc(profile, profile.csd_css(csd)),
        perf: Rates::from_profile(profile).row(&profile.csd_own(csd), &Desc::default()),
    })
}

/// The dump of a clique.
///
/// # Errors
/// There is no such number.
pub fn clique(profile: &Profile, number: i64) -> Result<DumpClique, Failure> {
    let clique = profile
        .clique_id(number)
        .ok_or_else(|| Failure(format!("invalid clique: there is no clique {number}.")))?;
    let members = profile.clique_members(clique);
    Ok(DumpClique {
        clique: clique.number(),
        entry: profile.clique_entry(clique).map(pct_deep::CsdId::number),
        members: members
            .iter()
            .take(LISTED)
            .map(|&pd| DumpMember { pd: pd.number(), desc: proc_desc(profile, profile.pd_ps(pd)) })
            .collect(),
        count: members.len(),
    })
}
