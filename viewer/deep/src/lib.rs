//! Deep profiles: what each procedure costs in each of its call contexts.
//!
//! A deep profile is a graph. Nodes are of four kinds: a *procedure static* ([`PsId`]) and its
//! *call site statics* ([`CssId`]) stand for the program's text; a *procedure dynamic* ([`PdId`])
//! is a procedure in one call context, and a *call site dynamic* ([`CsdId`]) is the edge from one
//! context, through one of its call sites, to another. Only edges carry measurements.
//!
//! Reading order:
//!
//! - [`model`]: the data as the file has it; [`builder`] makes it, checking node by node
//! - [`figures`], [`label`], [`goal_path`], [`strings`], [`id`]: what the data is made of
//! - [`profile`]: the links and costs that follow from the data, all that reports ask for;
//!   `cliques` and `propagate` are its two algorithms
//! - [`mod@read`]: the file format and its reader
//! - [`procrep`]: procedure bodies, from the file beside the profile
//! - [`native`]: what stands beside the profile of a native program
//! - [`mod@write`]: the writer; [`synthetic`]: profiles made up for tests and benches
//! - [`mod@merge`]: several runs as one profile, recursions with one context for each procedure
//! - [`error`]: what can be wrong with a file
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod builder;
mod calls;
mod cliques;
mod cursor;
pub mod error;
mod fast;
pub mod figures;
pub mod goal_path;
mod groups;
pub mod id;
pub mod label;
pub mod merge;
pub mod model;
pub mod native;
pub mod procrep;
pub mod profile;
mod propagate;
pub mod read;
mod small;
pub mod strings;
pub mod synthetic;
pub mod write;

pub use builder::{Builder, Counts, ProcStatic};
pub use error::{DeepError, ErrorCode, NodeRef, Warning};
pub use figures::{Desc, Own};
pub use goal_path::{GoalPath, Step};
pub use id::{CliqueId, CsdId, CssId, Id, IdVec, ModuleId, PdId, PsId, RepModuleId, RepProcId};
pub use label::{BadName, PredOrFunc, ProcLabel};
pub use merge::{Contexts, MergeError};
pub use model::{
    Coverage, CoveragePoint, Css, CssKind, DeepData, Header, PathId, PointKind, Ps, SiteKind, Slot, Slots,
};
pub use procrep::ProcRep;
pub use profile::{Figures, Profile};
pub use propagate::Compensation;
pub use read::{Reading, load, open, read, read_file};
pub use strings::{StrId, Strings};
pub use write::{Version, WriteError, to_octets, write};
