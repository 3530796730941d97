//! Requests over plain HTTP to servers that the user named.
//!
//! There is no TLS here: a URL with `https` is refused, and says what to do instead. Redirects are not followed and
//! the environment's proxies are not used, so nothing goes anywhere but to the place that was named.
//!
//! Each request has a connection of its own. So an error says whether the server can have got the request: without a
//! connection it has not, and after that nobody knows.

use std::io::{self, Read};
use std::time::Duration;
use ureq::http::Uri;
use ureq::{Agent, Error, Timeout};

/// Time for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Time for an answer that is no file.
const ANSWER: Duration = Duration::from_secs(60);
/// Time for a file.
const DOWNLOAD: Duration = Duration::from_secs(1800);
/// Octets of an answer that are read.
const ANSWER_BYTES: u64 = 64 << 10;
/// Octets of an answer that are repeated in a message.
const SAID_BYTES: usize = 200;

/// Why a URL cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlError {
    /// It is no URL of a server.
    #[error("{url}: expected http://HOST[:PORT][/PATH]")]
    NoUrl {
        /// As it was typed.
        url: String,
    },
    /// TLS would be needed.
    #[error(
        "{url}: pct-fleet has no TLS. Name a program on this machine that passes requests on over https, such as \
         http://127.0.0.1:4318 of an OpenTelemetry Collector"
    )]
    Tls {
        /// As it was typed.
        url: String,
    },
    /// It has a password, which everybody could see in the list of processes.
    #[error("a URL with a name and a password can be seen in the list of processes, so it is not used")]
    Password,
    /// It would go unencrypted over a network.
    #[error(
        "{url}: profiles would go unencrypted to another machine. Name a program on this machine that passes them on, \
         or allow it by --unencrypted"
    )]
    Unencrypted {
        /// As it was typed.
        url: String,
    },
}

/// Whether profiles may leave this machine unencrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encryption {
    /// Only to this machine.
    Required,
    /// To any machine.
    Waived,
}

/// A server, and the path of its URL that all requests are below.
#[derive(Clone, Debug)]
pub struct Server {
    base: String,
    agent: Agent,
}

/// What came of a request that changes something at the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server has it; its answer.
    Accepted(Vec<u8>),
    /// The server will never take it.
    Refused(String),
    /// The server does not have it, and may take it later.
    Later(String),
    /// Nobody knows whether the server has it.
    Unsure(String),
}

/// What came of asking for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Download {
    /// All of it was written; so many octets.
    Whole(u64),
    /// The server does not have it.
    Missing,
}

/// Why a file could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// The server cannot be reached.
    #[error("{url}: {why}")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// What went wrong.
        why: String,
    },
    /// The server answered something else, or stopped answering.
    #[error("{url}: {why}")]
    Failed {
        /// What was asked for.
        url: String,
        /// What went wrong.
        why: String,
    },
    /// The file could not be written.
    #[error("{0}")]
    Write(io::Error),
}

impl Server {
    /// A server by its URL.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn parse(url: &str, encryption: Encryption) -> Result<Self, UrlError> {
        let no_url = || UrlError::NoUrl { url: url.to_owned() };
        let uri: Uri = url.parse().map_err(|_| no_url())?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(UrlError::Password);
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(no_url)?;
        match uri.scheme_str() {
            Some("http") if uri.query().is_none() => {}
            Some("https") => return Err(UrlError::Tls { url: url.to_owned() }),
            _ => return Err(no_url()),
        }
        if encryption == Encryption::Required && !is_here(host) {
            return Err(UrlError::Unencrypted { url: url.to_owned() });
        }
        let agent: Agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .max_idle_connections(0)
            .timeout_connect(Some(CONNECT))
            .user_agent(concat!("pct-fleet/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        Ok(Self { base: url.trim_end_matches('/').to_owned(), agent })
    }

    /// Its URL, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Sends octets to a path.
    #[must_use]
    pub fn post(&self, path: &str, content_type: &str, body: &[u8]) -> Outcome {
        let url = format!("{}{path}", self.base);
        let request = self.agent.post(&url).header("content-type", content_type);
        let sent = request.config().timeout_global(Some(ANSWER)).build().send(body);
        let mut answer = match sent {
            Ok(answer) => answer,
            Err(why) if is_before_request(&why) => return Outcome::Later(format!("{url}: {why}")),
            Err(why) => return Outcome::Unsure(format!("{url}: {why}")),
        };
        let status = answer.status().as_u16();
        let mut said = Vec::new();
        // The status decides; an answer that breaks off tells less.
        let _ = answer.body_mut().as_reader().take(ANSWER_BYTES).read_to_end(&mut said);
        let told = || format!("{url}: status {status}{}", shown(&said));
        match status {
            200..=299 => Outcome::Accepted(said),
            400 | 413 | 415 | 422 => Outcome::Refused(told()),
            // What stands between us and the server gave up; the server may be at work.
            500 | 502 | 504 => Outcome::Unsure(told()),
            _ => Outcome::Later(told()),
        }
    }

    /// Writes the file at a path into `to`; at most `most` octets.
    ///
    /// # Errors
    /// [`DownloadError`]; a part may have been written.
    pub fn get(&self, path: &str, most: u64, to: &mut dyn io::Write) -> Result<Download, DownloadError> {
        let url = format!("{}{path}", self.base);
        let failed = |why: String| DownloadError::Failed { url: url.clone(), why };
        let asked = self.agent.get(&url).config().timeout_global(Some(DOWNLOAD)).build().call();
        let mut answer = match asked {
            Ok(answer) => answer,
            Err(why) if is_before_request(&why) => {
                return Err(DownloadError::Unreachable { url: url.clone(), why: why.to_string() });
            }
            Err(why) => return Err(failed(why.to_string())),
        };
        match answer.status().as_u16() {
            200 => {}
            404 => return Ok(Download::Missing),
            status => return Err(failed(format!("status {status}"))),
        }
        let mut body = answer.body_mut().as_reader();
        let (mut written, mut buffer) = (0u64, vec![0; 64 << 10]);
        loop {
            let read = body.read(&mut buffer).map_err(|why| failed(why.to_string()))?;
            let Some(some) = buffer.get(..read).filter(|some| !some.is_empty()) else {
                return Ok(Download::Whole(written));
            };
            written = written.saturating_add(read as u64);
            if written > most {
                return Err(failed(format!("it has more than {}", pct_num::bytes_binary(most))));
            }
            to.write_all(some).map_err(DownloadError::Write)?;
        }
    }
}

/// Whether a host's name or address is this machine.
fn is_here(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether an error came before the server had any octet of the request.
fn is_before_request(why: &Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    match why {
        Error::HostNotFound
        | Error::ConnectionFailed
        | Error::Timeout(Timeout::Resolve | Timeout::Connect) => true,
        Error::Io(why) => matches!(why.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable),
        _ => false,
    }
}

/// The begin of an answer, for a message.
fn shown(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said.get(..SAID_BYTES).unwrap_or(said)).trim().to_owned();
    if text.is_empty() { text } else { format!(": {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_cannot_be_used_say_why() {
        let why = |url: &str| Server::parse(url, Encryption::Required).map(|_| ()).unwrap_err();
        assert!(matches!(why("https://pyroscope.example"), UrlError::Tls { .. }));
        assert!(why("https://x").to_string().contains("has no TLS"), "{}", why("https://x"));
        assert!(matches!(why("http://pyroscope:4040"), UrlError::Unencrypted { .. }));
        assert!(matches!(why("http://me:secret@localhost"), UrlError::Password));
        assert!(!why("http://me:secret@localhost").to_string().contains("secret"));
        for url in ["", "localhost:4040", "ftp://localhost", "http://", "http://localhost/?a=b", "/x"] {
            assert!(matches!(why(url), UrlError::NoUrl { .. }), "{url}");
        }
        for url in ["http://localhost:1", "http://127.0.0.1:4040/", "http://[::1]/push"] {
            assert!(Server::parse(url, Encryption::Required).is_ok(), "{url}");
        }
        assert!(Server::parse("http://pyroscope:4040", Encryption::Waived).is_ok());
    }
}
