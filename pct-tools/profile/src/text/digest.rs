//! A profile in a given number of lines: what one would look at first.
//!
//! The headline, the hottest functions, the call tree's heaviest branches, and the account, each in its share
//! of the lines. What does not fit is summed up, never dropped without a word.

use super::flat::Columns;
use super::tree::Prune;
use super::{Layout, account, flat, tree};
use crate::flat::{Flat, Order};
use crate::fold::Whose;
use crate::model::{Cell, Profile};
use crate::tree::{By, CallTree, Split};

/// Fewer lines than this hold nothing that is useful.
pub const LEAST_LINES: usize = 12;
/// With so many functions a table answers; of fewer it says what they called only if there are no more.
const FEW_ROWS: usize = 4;

/// The digest, in at most `lines` lines (at least [`LEAST_LINES`] are taken).
#[must_use]
pub fn digest(profile: &mut Profile, cells: &[Cell], lines: usize, layout: &Layout) -> String {
    let lines = lines.max(LEAST_LINES);
    let heading = account::heading(profile);
    let mut text = heading.join("\n") + "\n";
    let closing = few(account::closing(profile, cells), lines / 5);
    if cells.is_empty() {
        if let Some(why) = account::why_nothing(profile, cells) {
            text += &format!("{why}\n");
        }
        return text + &closing;
    }
    // Blank lines stand before the table, the tree and the account.
    let room = lines - heading.len() - count(&closing) - 3;
    let mut table = functions(profile, cells, room.div_ceil(2).min(22), layout);
    let branches = branches(profile, cells, room.saturating_sub(count(&table)), layout);
    if branches.is_empty() {
        // There is no tree, and so no blank line before it.
        table = functions(profile, cells, room + 1, layout);
    }
    for part in [table, branches, closing] {
        if !part.is_empty() {
            text += &format!("\n{part}");
        }
    }
    text
}

fn count(text: &str) -> usize {
    text.lines().count()
}

/// The first of these lines, and how many there are more.
fn few(all: Vec<String>, most: usize) -> String {
    let most = most.max(2);
    let shown = if all.len() > most { most - 1 } else { all.len() };
    let mut text = all[..shown].iter().fold(String::new(), |text, line| text + line + "\n");
    if shown < all.len() {
        text += &format!("... {} more lines in `pct report`\n", all.len() - shown);
    }
    text
}

/// The hottest functions: a head, rows, and a line for the rest.
fn functions(profile: &mut Profile, cells: &[Cell], lines: usize, layout: &Layout) -> String {
    let mut table = Flat::count_owners(profile, cells, Whose::Owner, Split::Merged, Order::Own);
    let worth = table.rows_worth_a_glance();
    // Below the head and above the line for the rest.
    let room = lines.saturating_sub(2).max(1);
    let mut rows = (1..=worth.max(1)).take_while(|rows| flat::lines_of_rows(&table, *rows) <= room).count();
    if rows < worth.min(FEW_ROWS) {
        // There is no room for what they called too.
        table.callees.iter_mut().for_each(Vec::clear);
        rows = worth.clamp(1, room);
    }
    let total = profile.stacks.iter().any(|stack| stack.parent.is_some());
    flat::table(profile, &table, Columns { rows, total, split_system: false, samples: false }, layout)
}

/// The heaviest branches of the call tree, if there are calls and there is room for them.
fn branches(profile: &Profile, cells: &[Cell], lines: usize, layout: &Layout) -> String {
    let calls = CallTree::top_down(profile, cells, By::Function, Split::Merged);
    let whole = cells.iter().map(|cell| cell.weight.cpu_ns()).sum();
    // Blank lines between roots are not known beforehand.
    let mut most = lines.saturating_sub(2);
    while most > 2 {
        let prune = Prune { least_share: 0.01, lines: most, depth: usize::MAX };
        let text = tree::table(profile, &calls, whole, &prune, layout);
        let over = count(&text).saturating_sub(lines);
        if over == 0 {
            return text;
        }
        most = most.saturating_sub(over);
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::folded;
    use proptest::prelude::*;

    fn whole(profile: &mut Profile, lines: usize) -> String {
        let cells = profile.cells.clone();
        digest(profile, &cells, lines, &Layout::default())
    }

    #[test]
    fn the_hot_function_and_the_way_to_it_are_in_a_digest_of_twenty_lines() {
        let mut p = folded("main;serve;parse;hot 900\nmain;serve;send 80\nmain;idle 20");
        let text = whole(&mut p, 20);
        assert!(text.lines().any(|line| line.contains("90.0%") && line.contains("hot")), "{text}");
        assert!(text.contains("parse"), "{text}");
        assert!(text.contains("accounted 1.00"), "{text}");
        assert!(text.lines().count() <= 20, "{text}");
    }

    #[test]
    fn a_digest_without_room_for_a_tree_has_functions_instead() {
        let text: String = (0..30).map(|n| format!("main;serve;parse;step;f{n} {}\n", 100 + n)).collect();
        let mut p = folded(&text);
        let text = whole(&mut p, LEAST_LINES);
        assert_eq!(text.lines().count(), LEAST_LINES, "{text}");
        assert!(!text.contains("serve"), "{text}");
    }

    proptest! {
        #[test]
        fn a_digest_keeps_to_its_lines(
            stacks in proptest::collection::vec((proptest::collection::vec(0_u8..30, 1..12), 1_u64..90), 0..60),
            lines in 0_usize..80,
            notes in 0_usize..30,
        ) {
            let text: String = stacks.iter().map(|(frames, n)| {
                let names: Vec<String> = frames.iter().map(|f| format!("f{f}")).collect();
                format!("{} {n}\n", names.join(";"))
            }).collect();
            let mut p = folded(&text);
            p.account.notes = (0..notes).map(|n| format!("note {n}")).collect();
            let text = whole(&mut p, lines);
            prop_assert!(text.lines().count() <= lines.max(LEAST_LINES), "{lines}:\n{text}");
        }
    }
}
