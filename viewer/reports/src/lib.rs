//! Deep profile pages: command to report to display to html, json or text.
