//! The errors of a deep profile: a code, a position, and a text.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::id::{CsdId, CssId, PdId, PsId};

/// A node of a profile, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeRef {
    /// A call site dynamic.
    Csd(CsdId),
    /// A procedure dynamic.
    Pd(PdId),
    /// A call site static.
    Css(CssId),
    /// A procedure static.
    Ps(PsId),
}

impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Csd(id) => write!(f, "csd {id}"),
            Self::Pd(id) => write!(f, "pd {id}"),
            Self::Css(id) => write!(f, "css {id}"),
            Self::Ps(id) => write!(f, "ps {id}"),
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal;)*) => {
        /// The kind of an error; its text form is stable and meant for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode { $($(#[$doc])* $name,)* }
        impl ErrorCode {
            /// The stable text form.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

codes! {
    /// The file cannot be opened or read.
    CannotOpen "cannot_open";
    /// The data ends too early, or a length is beyond the end.
    Truncated "truncated";
    /// The first line is not that of a deep profile.
    NotDeepFile "not_deep_file";
    /// An unknown version.
    BadVersion "bad_version";
    /// Header flags with an invalid field.
    BadFlags "bad_flags";
    /// An unknown node tag.
    BadToken "bad_token";
    /// An unknown kind of call site.
    BadCallSiteKind "bad_call_site_kind";
    /// An unknown kind of procedure label.
    BadProclabelKind "bad_proclabel_kind";
    /// Counts in the header that are too large for the file.
    BadCount "bad_count";
    /// An id that is 0 or beyond its table.
    BadId "bad_id";
    /// A node defined twice.
    DuplicateNode "duplicate_node";
    /// Nodes never defined.
    MissingNodes "missing_nodes";
    /// A CSD in two slots.
    SharedCsd "shared_csd";
    /// A CSS in two procedures.
    SharedCss "shared_css";
    /// A CSD in no slot.
    OrphanCsd "orphan_csd";
    /// A CSS in no procedure.
    OrphanCss "orphan_css";
    /// Slots of a PD that contradict its procedure's call sites.
    SiteMismatch "site_mismatch";
    /// Coverage counts that contradict the procedure's coverage points.
    CoverageMismatch "coverage_mismatch";
    /// A string with a NUL octet.
    BadString "bad_string";
    /// A goal path that does not parse.
    BadGoalPath "bad_goal_path";
    /// A coverage point of an unknown type.
    BadCoverageType "bad_coverage_type";
    /// A sum of measurements beyond 63 bits.
    Overflow "overflow";
    /// A number of more than 10 octets.
    NumberTooLong "number_too_long";
    /// A number beyond 63 bits, or beyond what its field can hold.
    NumberTooLarge "number_too_large";
    /// A CSD mask with unknown bits.
    BadMask "bad_mask";
    /// Octets after the end tag.
    TrailingData "trailing_data";
    /// A data file name that does not end in `.data`.
    BadFileName "bad_file_name";
    /// A valid file that is too large for this reader's tables.
    TooLarge "too_large";
    /// The first line is not that of a program representation.
    NotProcrepFile "not_procrep_file";
    /// An octet that must be 0 or 1 is neither.
    BadMore "bad_more";
    /// An unknown inst of a head variable.
    BadInst "bad_inst";
    /// A size field that does not match what it covers.
    LimitMismatch "limit_mismatch";
    /// An unknown goal type.
    BadGoalType "bad_goal_type";
    /// An unknown determinism.
    BadDeterminism "bad_determinism";
    /// An unknown can-fail octet of a switch.
    BadSwitch "bad_switch";
    /// An unknown cut octet of a scope.
    BadCut "bad_cut";
    /// Two modules of one name.
    DuplicateModule "duplicate_module";
    /// Two procedures of one label.
    DuplicateProc "duplicate_proc";
    /// A variable with two names.
    DuplicateVar "duplicate_var";
    /// A type that is not defined, or defined later.
    BadTypeNumber "bad_type_number";
    /// An unknown kind of type.
    BadTypeKind "bad_type_kind";
    /// A name code that does not decode.
    BadNameCode "bad_name_code";
    /// A variable table flag that does not decode.
    BadVarFlag "bad_var_flag";
    /// Goals nested too deeply for this reader.
    TooDeep "too_deep";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error in a deep profile or a program representation file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeepError {
    /// The kind.
    pub code: ErrorCode,
    /// The file, if it was read from one.
    pub file: Option<PathBuf>,
    /// Offset of the fault from the start of the file, in octets.
    pub offset: Option<u64>,
    /// The node that contains the fault.
    pub node: Option<NodeRef>,
    /// The text. If the original viewer had a text for this error, it is that one.
    pub message: String,
}

impl DeepError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, file: None, offset: None, node: None, message: message.into() }
    }
    pub(crate) fn at(mut self, offset: u64) -> Self {
        self.offset.get_or_insert(offset);
        self
    }
    pub(crate) fn node(mut self, node: NodeRef) -> Self {
        self.node.get_or_insert(node);
        self
    }
    pub(crate) fn file(mut self, file: &Path) -> Self {
        self.file.get_or_insert_with(|| file.to_owned());
        self
    }
    pub(crate) fn io(error: &std::io::Error) -> Self {
        Self::new(ErrorCode::CannotOpen, error.to_string())
    }
}

impl fmt::Display for DeepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(offset) = self.offset {
            write!(f, "offset {offset}: ")?;
        }
        if let Some(node) = self.node {
            write!(f, "{node}: ")?;
        }
        write!(f, "{} [{}]", self.message, self.code)
    }
}

impl std::error::Error for DeepError {}

/// An oddity that does not prevent showing the profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// A stable text form for programs, such as `bad_proc_name`.
    pub code: &'static str,
    /// The node that it concerns.
    pub node: Option<NodeRef>,
    /// In words.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = self.node {
            write!(f, "{node}: ")?;
        }
        write!(f, "{} [{}]", self.message, self.code)
    }
}
