//! What a recording ends with in the terminal: one line of what was sampled, the table of functions, and the account.

use pct_profile::flat::Order;
use pct_profile::fold::Whose;
use pct_profile::model::Profile;
use pct_profile::text::flat::Columns;
use pct_profile::text::{Layout, account, flat};
use pct_profile::{Flat, Split};

/// A sentence as terminals may get it.
#[must_use]
pub fn line(text: &str, style: &Layout) -> String {
    style.prose(&pct_text::visible_lines(text))
}

/// Rows of a closing table, unless the user names another number.
const ROWS: usize = 20;
/// So many rows are there however small they are.
const LEAST_ROWS: usize = 3;

/// The headline, and a table of functions and what they called: of `rows` functions, or of those that matter. If there
/// are no samples, the reason stands in its place.
#[must_use]
pub fn table(profile: &mut Profile, rows: Option<usize>, style: &Layout) -> String {
    let mut text = format!("\n{}", line(&format!("pct: {}", account::headline(profile)), style));
    text.extend(account::languages(profile).map(|languages| line(&languages, style)));
    match account::why_nothing(profile, &profile.cells) {
        Some(why) => text += &line(&why, style),
        None => {
            let cells = profile.cells.clone();
            let table = Flat::count_owners(profile, &cells, Whose::Owner, Split::Merged, Order::Own);
            let rows = rows.unwrap_or_else(|| table.rows_worth_a_glance().clamp(LEAST_ROWS, ROWS));
            let total = profile.stacks.iter().any(|stack| stack.parent.is_some());
            let columns = Columns { rows, total, split_system: false, samples: false };
            text.push('\n');
            text += &flat::table(profile, &table, columns, style);
        }
    }
    text
}

/// What became of the CPU time, what was lost, and notes: the lines below the table.
#[must_use]
pub fn account(profile: &Profile, style: &Layout) -> String {
    let lines = account::closing(profile, &profile.cells);
    lines.iter().map(|text| line(text, style)).fold("\n".to_owned(), |all, one| all + &one)
}
