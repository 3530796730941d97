//! Addresses to functions, files and lines: translators, debug files, name lists.
