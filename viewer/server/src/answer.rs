//! From a request to a response, for all callers: a web server through CGI, the built-in server, a test.

/// The forms of a page, by path: `SCRIPT?query`, `SCRIPT/json?query`, `SCRIPT/text?query`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// For a browser.
    #[default]
    Html,
    /// The data.
    Json,
    /// For a terminal.
    Text,
}

impl Form {
    /// The form for the path after the script's own (`PATH_INFO` in CGI). `None`: there is no such page.
    #[must_use]
    pub fn of_path(rest: &str) -> Option<Form> {
        match rest {
            "" | "/" => Some(Form::Html),
            "/json" => Some(Form::Json),
            "/text" => Some(Form::Text),
            _ => None,
        }
    }

    /// The value for the `Content-Type` header.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Form::Html => "text/html; charset=utf-8",
            Form::Json => "application/json",
            Form::Text => "text/plain; charset=utf-8",
        }
    }
}

/// A request for a page.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The form of the page.
    pub form: Form,
    /// The text after the `?`, undecoded.
    pub query: &'a str,
    /// Path by which the reader reached the script. Links to other forms begin with it.
    pub script: &'a str,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: &'static str,
    /// The text.
    pub body: String,
    /// Nonce of the scripts and styles of an HTML page, for its content security policy.
    pub nonce: Option<String>,
    /// Whether the page's script may send requests to this server.
    pub fetches: bool,
}

impl Response {
    /// A page.
    #[must_use]
    pub fn page(form: Form, body: String) -> Response {
        Response { status: 200, content_type: form.content_type(), body, nonce: None, fetches: false }
    }

    /// A short plain text with a status.
    #[must_use]
    pub fn plain(status: u16, text: &str) -> Response {
        Response {
            status,
            content_type: Form::Text.content_type(),
            body: format!("{}\n", text.trim_end()),
            nonce: None,
            fetches: false,
        }
    }

    /// The same text in the requested form: as JSON, `{"error": TEXT}`.
    #[must_use]
    pub fn in_form(self, form: Form) -> Response {
        if form != Form::Json || self.content_type == form.content_type() {
            return self;
        }
        let text = serde_json::json!({ "error": self.body.trim_end() }).to_string();
        let body = format!("{}\n", pct_text::visible_json(&text));
        Response { content_type: form.content_type(), body, ..self }
    }

    /// Headers that isolate a page: no request to anywhere, no frame around it, no guessing of types, no caching.
    #[must_use]
    pub fn security_headers(&self) -> Vec<(&'static str, String)> {
        let own = match &self.nonce {
            Some(nonce) => format!("'nonce-{nonce}'"),
            None => "'unsafe-inline'".to_owned(),
        };
        let connect = if self.fetches { " connect-src 'self';" } else { "" };
        vec![
            (
                "Content-Security-Policy",
                // Styles inside pictures have no nonce.
                format!(
                    "default-src 'none'; script-src {own}; style-src 'unsafe-inline'; img-src data:;{connect} \
                     form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
                ),
            ),
            ("X-Content-Type-Options", "nosniff".to_owned()),
            ("X-Frame-Options", "DENY".to_owned()),
            ("Referrer-Policy", "no-referrer".to_owned()),
            ("Cross-Origin-Opener-Policy", "same-origin".to_owned()),
            ("Cross-Origin-Resource-Policy", "same-origin".to_owned()),
            ("Cache-Control", "no-store".to_owned()),
        ]
    }
}

/// What the server does after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Answers the next request.
    Serve,
    /// Ends.
    Quit,
    /// Answers the next request, and ends after this many idle minutes; 0: never.
    Timeout(u32),
}

/// An answer without an end, sent piece by piece: server-sent events.
pub struct Stream {
    /// `Content-Type`, such as `text/event-stream`.
    pub content_type: &'static str,
    /// The pieces. Each is sent at once. `next` may block, on a thread of its own. The server notices that the reader
    /// is gone when it sends the next piece, so a stream with nothing to say sends a comment line now and then.
    pub pieces: Box<dyn Iterator<Item = Vec<u8>> + Send>,
}

/// An answer for an address that is no page of a profile.
pub enum Reply {
    /// A text.
    Whole(Response),
    /// A stream.
    Stream(Stream),
}

/// Something that answers requests of several threads.
pub type SharedAnswers = std::sync::Arc<dyn Answers + Send + Sync>;

/// Something that answers requests.
pub trait Answers {
    /// Answers one request. It never fails: an error becomes a page.
    fn answer(&self, request: &Request<'_>) -> (Response, After);

    /// Answers an address of the built-in server that is no page of a profile: `/tl/stream` with its query. `None`:
    /// there is no such address.
    fn answer_path(&self, _path: &str, _query: &str) -> Option<Reply> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_chosen_by_path() {
        assert_eq!(Form::of_path(""), Some(Form::Html));
        assert_eq!(Form::of_path("/json"), Some(Form::Json));
        assert_eq!(Form::of_path("/xml"), None);
    }

    #[test]
    fn errors_have_the_form_that_was_asked_for() {
        let error = || Response::plain(404, "no \"x\" here");
        let json = error().in_form(Form::Json);
        assert_eq!((json.status, json.content_type), (404, "application/json"));
        assert_eq!(json.body, "{\"error\":\"no \\\"x\\\" here\"}\n");
        assert_eq!(error().in_form(Form::Text), error());
        // A response in the form already is unchanged.
        assert_eq!(json.clone().in_form(Form::Json), json);
    }

    #[test]
    fn scripts_of_others_are_forbidden() {
        let mut r = Response::page(Form::Html, String::new());
        r.nonce = Some("abc".into());
        let policy = &r.security_headers()[0].1;
        assert!(policy.contains("default-src 'none'"));
        assert!(policy.contains("script-src 'nonce-abc'"));
        assert!(!policy.contains("connect-src"));
        r.fetches = true;
        assert!(r.security_headers()[0].1.contains("; connect-src 'self';"));
    }
}
