//! What a batch has of one minute.

use serde::{Deserialize, Serialize};

/// CPU nanoseconds of a service in one minute, those lost before among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sum {
    pub(super) service: String,
    pub(super) version: String,
    pub(super) host: String,
    pub(super) env: String,
    pub(super) kind: String,
    pub(super) ts: i64,
    pub(super) ns: i64,
}
