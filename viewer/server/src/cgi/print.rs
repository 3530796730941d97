//! Prints a response as a CGI program.

use crate::answer::Response;
use std::io::{self, Write as _};

/// A response as a CGI program prints it.
#[must_use]
pub fn cgi_text(response: &Response) -> Vec<u8> {
    let reason = match response.status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        414 => "URI Too Long",
        _ => "Service Unavailable",
    };
    let mut out = format!(
        "Status: {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n",
        response.status,
        response.content_type,
        response.body.len()
    );
    for (name, value) in response.security_headers() {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    out.push_str("\r\n");
    out.push_str(&response.body);
    out.into_bytes()
}

/// Prints a response, or only the part before its body.
pub(super) fn printed(response: &Response, head: bool) -> io::Result<()> {
    let text = cgi_text(response);
    let mut out = io::stdout().lock();
    let end = if head { text.len() - response.body.len() } else { text.len() };
    out.write_all(&text[..end])?;
    out.flush()
}
