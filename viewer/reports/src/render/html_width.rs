//! Estimates the width of a table. Without scripts, the style sheet alone decides whether to show the note that columns
//! are beyond the window, and it knows the window's width but not the table's.
//!
//! The estimate is rather too wide. An unneeded note does no harm, while columns that are cut off without a note
//! mislead.

use super::html::LONG;
use crate::display::table::ColumnClass;
use crate::display::{Cell, Data, HeadGroup, Table, format};

/// Width of a character in CSS pixels: a digit of the widest font in the style sheet's list, at its 14 pixels.
const CHARACTER: usize = 9;
/// Windows up to this width in CSS pixels get the style sheet's narrow layout: names wrap, positions are left out.
const NARROW: usize = 640;
/// Width of a name's column in the narrow layout, in CSS pixels: the least, and the most in a window of 400.
const NARROW_NAME: (usize, usize) = (126, 176);
/// Width of a cell of long text that wraps, in the wide layout, in CSS pixels.
const WRAPPED: usize = 252;
/// Window widths that the style sheet distinguishes in the narrow layout.
const NARROW_STEPS: [usize; 3] = [400, 500, NARROW];
/// Window widths that the style sheet distinguishes in the wide layout.
const WIDE_STEPS: [usize; 6] = [800, 1000, 1200, 1400, 1700, 2000];

/// The note for a table that is cut in some window width: its style classes and its text.
pub(super) fn note(table: &Table) -> Option<(String, String)> {
    let groups = table.head.as_ref()?;
    let mut classes = "cut".to_owned();
    let narrow = 16 + widths(table, narrow_width).sum::<usize>();
    if narrow > 340 {
        let step = NARROW_STEPS.iter().find(|step| narrow <= **step).unwrap_or(&NARROW);
        classes += &format!(" n{step}");
    }
    let wide = 32 + widths(table, wide_width).sum::<usize>();
    if wide > NARROW {
        classes +=
            &WIDE_STEPS.iter().find(|step| wide <= **step).map_or(" w".to_owned(), |s| format!(" w{s}"));
    }
    let last = last_column(groups).filter(|_| classes != "cut")?;
    let text = format!(
        "{} columns, the last is \u{201c}{last}\u{201d}: scroll to the right for those that are not seen.",
        table.columns
    );
    Some((classes, text))
}

/// The columns that the narrow layout leaves out of a table, in words.
pub(super) fn left_out(table: &Table) -> Option<String> {
    let heads = table.head.iter().flatten().flat_map(|group| &group.heads);
    let places = heads.filter(|head| head.class == ColumnClass::Place);
    let names: Vec<String> =
        places.map(|head| format::data(&head.data)).filter(|name| !name.is_empty()).collect();
    (!names.is_empty()).then(|| format!("left out in a narrow window: {}", names.join(", ")))
}

/// The last column's name, with that of its group.
fn last_column(groups: &[HeadGroup]) -> Option<String> {
    let group = groups.iter().rfind(|group| !group.heads.is_empty())?;
    let head = format::data(&group.heads.last()?.data);
    Some(match &group.title {
        Some(title) => format!("{title}: {head}"),
        None => head,
    })
}

/// Each column's width, from the class of the column and the length of its longest text.
fn widths(table: &Table, width: fn(ColumnClass, usize) -> usize) -> impl Iterator<Item = usize> {
    let heads = table.head.iter().flatten().flat_map(|group| &group.heads);
    let mut longest: Vec<usize> =
        heads.map(|head| length(&head.data) + usize::from(head.sorted.is_some()) * 2).collect();
    for cells in table.rows.iter().filter_map(|row| row.cells()) {
        let mut column = 0;
        for cell in cells {
            if let (Cell::One(data), Some(longest)) = (cell, longest.get_mut(column)) {
                *longest = length(data).max(*longest);
            }
            column += cell.columns();
        }
    }
    table.classes().into_iter().zip(longest).map(move |(class, length)| width(class, length))
}

fn length(data: &Data) -> usize {
    format::data(data).chars().count()
}

fn wide_width(class: ColumnClass, length: usize) -> usize {
    let text = if class.is_words() && length > LONG { WRAPPED } else { length * CHARACTER };
    text + 16
}

fn narrow_width(class: ColumnClass, length: usize) -> usize {
    match class {
        ColumnClass::Name => (length * CHARACTER).clamp(NARROW_NAME.0, NARROW_NAME.1),
        ColumnClass::Place | ColumnClass::Rank => 0,
        ColumnClass::Words | ColumnClass::Number => wide_width(class, length) - 6,
    }
}
