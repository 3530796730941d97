//! The `pct` command.
fn main() {}
