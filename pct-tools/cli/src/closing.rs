//! What a recording ends with in the terminal: one line of what was sampled, the table of functions, and the account.

use pct_profile::flat::Order;
use pct_profile::model::Profile;
use pct_profile::text::flat::Columns;
use pct_profile::text::{Layout, account, flat};
use pct_profile::{By, Flat, Split};

/// A line as terminals may get it.
#[must_use]
pub fn line(text: &str) -> String {
    format!("{}\n", pct_text::visible_lines(text))
}

/// The headline, and a table of at most `rows` functions. If there are no samples, the reason stands in its place.
#[must_use]
pub fn table(profile: &Profile, rows: usize, style: &Layout) -> String {
    let mut text = line(&format!("\npct: {}", account::headline(profile)));
    match account::why_nothing(profile, &profile.cells) {
        Some(why) => text += &line(&why),
        None => {
            let table =
                Flat::count_cells(profile, &profile.cells, Some(By::Function), Split::Merged, Order::Own);
            let columns = Columns { rows, total: false, split_system: false, samples: false };
            text.push('\n');
            text += &flat::table(profile, &table, columns, style);
        }
    }
    text
}

/// What became of the CPU time, what was lost, and notes: the lines below the table.
#[must_use]
pub fn account(profile: &Profile) -> String {
    let lines = account::closing(profile, &profile.cells);
    lines.iter().map(|text| line(text)).fold("\n".to_owned(), |all, one| all + &one)
}
