//! The built-in web server: loopback only, behind a secret path. [`crate::connections`] bounds what a connection may
//! cost; this file decides which requests are answered, and how.
//!
//! Any program on the machine can reach a loopback port, and any web page can make a browser do so. So the address
//! contains a random token that only its owner gets. The `Host` header must name this very address (a name that was
//! rebound to 127.0.0.1 does not). Only GET, HEAD and POST are answered (POST like GET: commands that change the server
//! need it). Of a request only the address is read. The headers forbid framing, guessing of types and all requests of a
//! page to other servers.

use crate::answer::{After, Answers, Form, Reply, Request, Response};
use crate::connections::{self, Answer, Bounds, Head};
use hyper::Method;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;

/// A server that listens but does not answer yet.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    token: String,
}

/// Length of a token in octets of randomness.
const TOKEN: usize = 16;
/// Longest address that is accepted.
const MAX_URL: usize = 16 * 1024;

/// Random hexadecimal digits from the system.
///
/// # Errors
/// The system has no randomness.
pub fn random_hex() -> io::Result<String> {
    let mut octets = [0u8; TOKEN];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(octets.iter().map(|b| format!("{b:02x}")).collect())
}

/// A nonce for a page. If the system has no randomness it is empty, so that no script runs.
#[must_use]
pub fn nonce() -> String {
    random_hex().unwrap_or_default()
}

impl Listening {
    /// Binds a port of 127.0.0.1; 0: any free one.
    ///
    /// # Errors
    /// The port is taken, or there is no randomness for the token.
    pub fn on(port: u16) -> io::Result<Listening> {
        let token = random_hex()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        Ok(Listening { listener, address, token })
    }

    /// The address of the pages. A query is appended after `?`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, script(&self.token))
    }

    /// Answers until a page asks to quit. `first` is the target of the bare address.
    ///
    /// # Errors
    /// The system gives no means to wait for connections.
    pub fn serve(self, answers: Arc<impl Answers + Send + Sync + 'static>, first: &str) -> io::Result<()> {
        self.serve_within(answers, first, Bounds::default())
    }

    fn serve_within(
        self,
        answers: Arc<impl Answers + Send + Sync + 'static>,
        first: &str,
        bounds: Bounds,
    ) -> io::Result<()> {
        let door = Door {
            script: script(&self.token),
            first: first.to_owned(),
            address: self.address,
            token: self.token,
        };
        connections::serve(self.listener, Arc::new(move |head: &Head| door.answer(head, &*answers)), bounds)
    }
}

fn script(token: &str) -> String {
    format!("/{token}/deep")
}

/// Decides which requests are answered, and where they lead.
struct Door {
    address: SocketAddr,
    token: String,
    script: String,
    first: String,
}

impl Door {
    fn answer(&self, head: &Head, answers: &impl Answers) -> Answer {
        let refuse = |status, text: &str| Answer::Reply(Reply::Whole(Response::plain(status, text)));
        let url = &*head.address;
        if url.len() > MAX_URL {
            return refuse(414, "The address is too long.");
        }
        if !head.host.as_deref().is_some_and(|h| self.is_own_host(h)) {
            return refuse(403, "This server answers to its own address only.");
        }
        if !matches!(head.method, Method::GET | Method::HEAD | Method::POST) {
            return refuse(405, "Only GET and POST are answered.");
        }
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        // Whoever lacks the token learns nothing, not even whether the path would be right.
        let Some(rest) = path.strip_prefix('/').and_then(|p| self.after_token(p)) else {
            return refuse(404, "There is nothing here.");
        };
        if matches!(rest, "" | "/") || (rest == "/deep" && query.is_empty()) {
            return Answer::Redirect(format!("{}?{}", self.script, self.first));
        }
        if let Some(form) = rest.strip_prefix("/deep").and_then(Form::of_path) {
            return match answers.answer(&Request { form, query, script: &self.script }) {
                (response, After::Quit) => Answer::Last(response),
                (response, After::Serve | After::Timeout(_)) => Answer::Reply(Reply::Whole(response)),
            };
        }
        match answers.answer_path(rest, query) {
            Some(reply) => Answer::Reply(reply),
            None => Answer::Reply(Reply::Whole(self.nothing_there())),
        }
    }

    /// Whoever has the token may have followed an old link: the page has a way to the first one.
    fn nothing_there(&self) -> Response {
        let page = format!(
            "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>nothing here - pct</title>\
             <p>There is nothing here. <a href=\"{}\">The first page</a></p></html>",
            self.script
        );
        Response { status: 404, ..Response::page(Form::Html, page) }
    }

    fn is_own_host(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        port.parse() == Ok(self.address.port())
            && (name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost"))
    }

    /// What follows the token, if the token is right. All octets are compared in any case.
    fn after_token<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (given, rest) = path.split_at_checked(self.token.len())?;
        let differ = given.bytes().zip(self.token.bytes()).fold(0, |d, (a, b)| d | (a ^ b));
        (differ == 0 && (rest.is_empty() || rest.starts_with('/'))).then_some(rest)
    }
}

#[cfg(test)]
mod live {
    use super::*;
    use crate::answer::Stream;
    use pct_kit::wait::wait_for;
    use std::io::Write as _;
    use std::net::TcpStream;
    use std::time::Duration;

    struct Echo;

    impl Answers for Echo {
        fn answer(&self, request: &Request<'_>) -> (Response, After) {
            let after = if request.query == "quit" { After::Quit } else { After::Serve };
            (Response::page(request.form, format!("{:?} {}", request.form, request.query)), after)
        }

        fn answer_path(&self, path: &str, query: &str) -> Option<Reply> {
            let pieces = (0..query.parse::<u64>().ok()?).map(|i| format!("data: {i}\n\n").into_bytes());
            (path == "/tl/stream").then(|| {
                Reply::Stream(Stream { content_type: "text/event-stream", pieces: Box::new(pieces) })
            })
        }
    }

    fn ask(at: SocketAddr, method: &str, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(at).expect("connects");
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            .expect("sends");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("receives");
        text
    }

    fn with_server(check: impl FnOnce(SocketAddr, &str)) {
        with_bounds(Bounds::default(), check);
    }

    fn with_bounds(bounds: Bounds, check: impl FnOnce(SocketAddr, &str)) {
        let listening = Listening::on(0).expect("listens");
        let (at, script) = (listening.address, script(&listening.token));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                listening.serve_within(Arc::new(Echo), "menu&&x.data", bounds).expect("serves");
            });
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(at, &script)));
            // Where little patience is set, a crowded machine may ask too late.
            let said = wait_for("the server's last word", || {
                let stream = TcpStream::connect(at).expect("connects");
                let _ =
                    write!(&stream, "GET {script}?quit HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
                Some(rest(&stream)).filter(|said| !said.is_empty())
            });
            assert!(said.starts_with("HTTP/1.1 200"), "{said}");
            if let Err(e) = outcome {
                std::panic::resume_unwind(e);
            }
        });
    }

    /// What a connection sends until it is closed.
    fn rest(mut stream: &TcpStream) -> String {
        let mut octets = Vec::new();
        // A connection that is reset has ended too.
        let _ = stream.read_to_end(&mut octets);
        String::from_utf8_lossy(&octets).into_owned()
    }

    #[test]
    fn a_flood_of_silent_connections_leaves_room_for_who_asks() {
        let bounds = Bounds { connections: 20, patience: Duration::from_secs(3600) };
        with_bounds(bounds, |at, script| {
            let flood: Vec<TcpStream> = (0..200)
                .map(|_| {
                    let mut stream = TcpStream::connect(at).expect("connects");
                    let _ = stream.write_all(b"G");
                    stream
                })
                .collect();
            let page = ask(at, "GET", &format!("{script}?proc/1"), &at.to_string());
            assert!(page.ends_with("Html proc/1"), "{page}");
            // All but the last 20 have been closed, the first ones first, so each read ends.
            for stream in &flood[..170] {
                assert_eq!(rest(stream), "");
            }
        });
    }

    #[test]
    fn half_a_head_has_a_deadline() {
        let bounds = Bounds { patience: Duration::from_millis(200), ..Bounds::default() };
        with_bounds(bounds, |at, script| {
            for half in [String::new(), "G".into(), format!("GET {script}?proc/1 HTTP/1.1\r\nHost: {at}\r\n")]
            {
                let mut stream = TcpStream::connect(at).expect("connects");
                // It may be late already.
                let _ = stream.write_all(half.as_bytes());
                assert_eq!(rest(&stream), "", "{half}");
            }
            // After an answer, too, a connection does not stay for ever.
            let said = wait_for("an answer to who asks in time", || {
                let mut stream = TcpStream::connect(at).expect("connects");
                let _ = write!(stream, "GET {script}?proc/1 HTTP/1.1\r\nHost: {at}\r\n\r\n");
                Some(rest(&stream)).filter(|said| !said.is_empty())
            });
            assert!(said.ends_with("Html proc/1"), "{said}");
        });
    }

    #[test]
    fn bodies_are_not_read_whatever_their_length() {
        with_server(|at, script| {
            for path in ["/".to_owned(), format!("{script}?proc/1")] {
                let mut stream = TcpStream::connect(at).expect("connects");
                write!(
                    stream,
                    "POST {path} HTTP/1.1\r\nHost: {at}\r\nContent-Length: 99999999999999\r\n\r\nx"
                )
                .expect("sends");
                let status = if path == "/" { "HTTP/1.1 404" } else { "HTTP/1.1 200" };
                let text = rest(&stream);
                assert!(text.starts_with(status), "{text}");
            }
        });
    }

    #[test]
    fn streams_go_out_piece_by_piece_and_are_bounded() {
        with_server(|at, script| {
            let path = script.replace("/deep", "/tl/stream");
            let text = ask(at, "GET", &format!("{path}?3"), &at.to_string());
            assert!(text.contains("content-type: text/event-stream"), "{text}");
            assert_eq!(text.matches("data: ").count(), 3, "{text}");
            assert!(text.contains("data: 2\n\n"), "{text}");
            let open: Vec<TcpStream> = (0..connections::STREAMS)
                .map(|_| {
                    let mut stream = TcpStream::connect(at).expect("connects");
                    write!(stream, "GET {path}?99999999999 HTTP/1.1\r\nHost: {at}\r\n\r\n").expect("sends");
                    // The stream has begun, so it counts.
                    let mut first = [0; 400];
                    stream.read_exact(&mut first).expect("begins");
                    stream
                })
                .collect();
            assert!(ask(at, "GET", &format!("{path}?1"), &at.to_string()).starts_with("HTTP/1.1 503"));
            assert!(ask(at, "GET", &format!("{script}?proc/1"), &at.to_string()).ends_with("Html proc/1"));
            drop(open);
        });
    }

    #[test]
    fn pages_are_behind_the_token() {
        with_server(|at, script| {
            let host = at.to_string();
            assert!(ask(at, "GET", &format!("{script}?proc/1"), &host).ends_with("Html proc/1"));
            assert!(ask(at, "GET", &format!("{script}/json?proc/1"), &host).ends_with("Json proc/1"));
            let wrong = format!("/{}/deep?proc/1", "0".repeat(32));
            for path in ["/", "/deep?proc/1", "/x", &wrong, "//", "/%2e%2e/", &script[..20]] {
                assert!(ask(at, "GET", path, &host).starts_with("HTTP/1.1 404"), "{path}");
            }
        });
    }

    #[test]
    fn another_host_name_or_method_is_refused() {
        with_server(|at, script| {
            let path = format!("{script}?menu");
            let port = at.port();
            assert!(ask(at, "GET", &path, &format!("localhost:{port}")).starts_with("HTTP/1.1 200"));
            for host in ["evil.example", "127.0.0.1", "127.0.0.1:1", &format!("evil.example:{port}")] {
                assert!(ask(at, "GET", &path, host).starts_with("HTTP/1.1 403"), "{host}");
            }
            for method in ["PUT", "DELETE", "OPTIONS"] {
                assert!(ask(at, method, &path, &at.to_string()).starts_with("HTTP/1.1 405"), "{method}");
            }
        });
    }

    #[test]
    fn the_bare_address_leads_to_the_first_page() {
        with_server(|at, script| {
            let text = ask(at, "GET", script, &at.to_string());
            assert!(text.starts_with("HTTP/1.1 302"), "{text}");
            assert!(text.contains(&format!("location: {script}?menu&&x.data")), "{text}");
        });
    }

    #[test]
    fn every_page_forbids_what_it_does_not_need() {
        with_server(|at, script| {
            let text = ask(at, "GET", &format!("{script}?menu"), &at.to_string());
            for name in [
                "content-security-policy: default-src 'none'",
                "x-frame-options: DENY",
                "nosniff",
                "no-store",
            ] {
                assert!(text.contains(name), "{name}: {text}");
            }
        });
    }
}
