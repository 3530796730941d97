//! Draws a tree of weighted names as a flame graph or an icicle: one self-contained SVG text.
//!
//! The caller builds a [`Tree`]: nodes with a name, a weight of their own, and optionally a link, a colour [`Hint`] and
//! the weight that the node had in another profile. [`svg`] draws it. The picture is complete without script (tooltips,
//! links). Its script adds zoom, search and keyboard, and cuts names anew when the window's width changes.
//!
//! ```
//! use pct_icicle::{Options, Tree, svg};
//! let mut tree = Tree::new("all");
//! tree.add_stack(["main", "render", "shade"], 41);
//! tree.add_stack(["main", "render"], 7);
//! let picture = svg(&tree, &Options { title: "render".into(), unit: "samples".into(), ..Options::default() });
//! assert!(picture.starts_with("<svg"));
//! ```
//!
//! In reading order: `palette` (a colour for each group), [`tree`] (the data), [`layout`] (tree to frames: numbers
//! only), [`options`], [`colour`], `difference` (two profiles in one tree), [`mod@legend`], [`text`] (escaping,
//! cutting), [`svg`](mod@draw) (frames to text). [`Areas`] are another picture: what was spent when.
//!
//! Invariants: what is not drawn (too narrow, too deep) is counted and reported in the picture. No name, link or title
//! becomes markup. The cost is one pass over all nodes, and one over those that are wide enough to be drawn.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

mod areas;
pub mod colour;
mod difference;
pub mod draw;
pub mod layout;
pub mod legend;
pub mod options;
mod palette;
mod sheet;
pub mod text;
pub mod tree;

pub use areas::{Area, Areas, Slice};
pub use colour::{Hint, Key};
pub use draw::{svg, write_svg};
pub use layout::{DiffBy, Direction, Order};
pub use legend::legend;
pub use options::{Click, Drawn, Options};
pub use palette::{GroupWeights, Palette};
pub use sheet::{heat_class, page_head};
pub use tree::{NodeId, Tree};
