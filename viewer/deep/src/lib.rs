//! Deep profiles: the cost of each procedure in each of its call contexts.
//!
//! A deep profile is a graph with four kinds of nodes. A *procedure static* ([`PsId`]) and its *call site statics*
//! ([`CssId`]) represent the program's text. A *procedure dynamic* ([`PdId`]) is a procedure in one call context. A
//! *call site dynamic* ([`CsdId`]) is the edge from one context, through one of its call sites, to another. Only edges
//! have measurements.
//!
//! Reading order:
//!
//! - [`model`]: the data as in the file; [`builder`] makes it and checks it node by node
//! - [`figures`], [`label`], [`goal_path`], [`strings`], [`id`]: the parts of the data
//! - [`profile`]: the links and costs that follow from the data, for reports; `cliques` and `propagate` are its two
//!   algorithms
//! - [`mod@read`]: the file format and its reader
//! - [`procrep`]: procedure bodies, from the file beside the profile
//! - [`measured`]: what the costs of a recording are amounts of
//! - [`native`]: the file beside the profile of a native program
//! - [`mod@write`]: the writer; [`synthetic`]: made-up profiles for tests and benches
//! - [`mod@merge`]: merges several runs into one profile, and contexts of a recursion into one for each procedure
//! - [`error`]: the errors of a file
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
pub mod measured;
pub mod merge;
pub mod model;
pub mod native;
pub mod over_time;
pub mod procrep;
pub mod profile;
mod propagate;
pub mod read;
mod small;
pub mod strings;
pub mod synthetic;
pub mod waited;
pub mod write;

pub use builder::{Builder, Counts, ProcStatic};
pub use error::{DeepError, ErrorCode, NodeRef, Warning};
pub use figures::{Desc, Own};
pub use goal_path::{GoalPath, GoalStep};
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
