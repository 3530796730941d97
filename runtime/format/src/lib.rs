//! The .pct file: layout, writers' offsets and readers' views in one place.
