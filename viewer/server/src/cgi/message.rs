//! Messages through the pipes: one line of JSON, short enough to be written in one piece.

use crate::answer::Form;
use serde::{Deserialize, Serialize};

/// Octets that a pipe accepts completely or not at all.
pub const MAX: usize = 4096;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Name of the client's want file.
    pub want: String,
    /// The data file, canonical.
    pub file: String,
    /// Path after the script's own, which gives the form.
    pub form: String,
    /// The script's path.
    pub script: String,
    /// The query.
    pub query: String,
    /// Whether the query names the file undecoded.
    pub literal: bool,
    /// Whether the client has just started the server, so that a restart has already happened.
    pub fresh: bool,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Name of the response file, which has what a CGI program prints.
    File(String),
    /// There is no response, for this reason.
    Sorry(String),
}

/// The server's report about its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It serves.
    Ready,
    /// It ends, for this reason.
    Failed(String),
}

/// A message as a line. `None`: it is too long.
pub fn line(message: &impl Serialize) -> Option<Vec<u8>> {
    let mut text = serde_json::to_vec(message).ok()?;
    text.push(b'\n');
    (text.len() <= MAX).then_some(text)
}

/// Parses a line as a message; `None` if it is not one.
#[must_use]
pub fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
    serde_json::from_slice(line).ok()
}

/// A text cut to this many characters, so that it fits into a message.
#[must_use]
pub fn cut(text: &str) -> String {
    text.chars().take(600).collect()
}

/// The path suffix of a form.
#[must_use]
pub fn suffix(form: Form) -> &'static str {
    match form {
        Form::Html => "",
        Form::Json => "/json",
        Form::Text => "/text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_request_is_one_line_and_comes_back(query in ".{0,200}", script in ".{0,50}") {
            let ask = Ask {
                want: "mdprof_want1.a".into(), file: "/a.data".into(), form: "/json".into(),
                script, query, literal: false, fresh: true,
            };
            let text = line(&ask).expect("short");
            prop_assert_eq!(text.iter().filter(|&&b| b == b'\n').count(), 1);
            prop_assert_eq!(parse::<Ask>(&text), Some(ask));
        }

        #[test]
        fn junk_is_no_message(junk in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse::<Ask>(&junk);
            let _ = parse::<Reply>(&junk);
        }
    }

    #[test]
    fn what_a_pipe_would_split_is_refused() {
        assert_eq!(line(&Reply::File("x".repeat(MAX))), None);
        assert!(line(&Reply::Sorry(cut(&"\u{1}".repeat(5000)))).is_some());
    }
}
