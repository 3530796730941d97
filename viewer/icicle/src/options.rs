//! The caller's options for a picture.

use crate::layout::{DiffBy, Direction, Order};
use pct_num::thousands;

/// The effect of a click on a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Click {
    /// Zooms in (with script).
    #[default]
    Zoom,
    /// Follows the node's link, if it has one; otherwise zooms.
    Link,
}

/// How to draw. `Options::default()` is a stand-alone flame graph.
#[derive(Clone, Debug)]
pub struct Options {
    /// Headline; empty: none.
    pub title: String,
    /// Smaller line beside the headline; empty: none.
    pub subtitle: String,
    /// What a weight counts, as in `1,234 samples`.
    pub unit: String,
    /// How a weight is written, without its unit (default: whole numbers with thousands separated).
    pub weight: fn(u64) -> String,
    /// Where the root is.
    pub direction: Direction,
    /// Order of siblings.
    pub order: Order,
    /// What a click does.
    pub click: Click,
    /// Width in pixels for which names are cut. The script cuts them anew for the real width. At least 100.
    pub width: u32,
    /// Height of one level in pixels. At least 8.
    pub row: u32,
    /// Subtrees narrower than this many pixels (of `width`) are not drawn. Their weight is given below the picture.
    pub min_width: f64,
    /// Number of levels that are drawn. Deeper ones are counted.
    pub max_depth: u32,
    /// Colours by the difference from the weights of [`crate::Tree::add_base`]; `None`: by group or [`crate::Hint`].
    pub diff: Option<DiffBy>,
    /// The profile that decides the widths of a differential picture. Unless shares are compared, both pictures have
    /// one scale.
    pub drawn: Drawn,
    /// Compare shares of the two totals rather than absolute weights (two runs of different length).
    pub normalize: bool,
    /// Zoom, search and keyboard. Without it the picture has tooltips and links only.
    pub script: bool,
    /// Adds the headline, search and zoom controls and the closing line. False: frames only (as part of a page).
    pub frame: bool,
    /// Nonce of the page's content security policy for the script.
    pub nonce: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            title: String::new(),
            subtitle: String::new(),
            unit: String::new(),
            weight: thousands,
            direction: Direction::default(),
            order: Order::default(),
            click: Click::default(),
            width: 1200,
            row: 18,
            min_width: 0.3,
            max_depth: 1000,
            diff: None,
            drawn: Drawn::default(),
            normalize: true,
            script: true,
            frame: true,
            nonce: None,
        }
    }
}

/// Which of two profiles decides the widths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drawn {
    /// The newer one.
    #[default]
    After,
    /// The older one, so that what vanished is visible.
    Before,
}
