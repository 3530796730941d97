//! The built-in web server: loopback only, behind a secret path.
//!
//! Any program of the machine can reach a loopback port, and any web page can make a browser do so. So: the address
//! holds a random token that only its owner was told; the `Host` header must name this very address (a name that was
//! rebound to 127.0.0.1 does not); only GET, HEAD and POST are answered (POST as GET: what
//! changes the server is asked for so); nothing of a request but its address is read; the
//! headers forbid framing, guessing and every request of a page to somewhere else.

use crate::answer::{After, Answers, Form, Request, Response};
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tiny_http::{Header, Method, Server};

/// A server that listens, not yet answering.
pub struct Listening {
    server: Arc<Server>,
    address: SocketAddr,
    token: String,
}

/// Octets of randomness in a token.
const TOKEN: usize = 16;
/// Longest address that is looked at.
const MAX_URL: usize = 16 * 1024;
/// Threads that answer.
const THREADS: usize = 4;

/// Random hexadecimal digits from the system.
///
/// # Errors
/// The system has none.
pub fn random_hex() -> io::Result<String> {
    let mut octets = [0u8; TOKEN];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(octets.iter().map(|b| format!("{b:02x}")).collect())
}

/// A nonce for a page; empty, so that no script runs, when the system has no randomness.
#[must_use]
pub fn nonce() -> String {
    random_hex().unwrap_or_default()
}

impl Listening {
    /// Takes a port of 127.0.0.1; 0: any free one.
    ///
    /// # Errors
    /// The port is taken, or there is no randomness for the token.
    pub fn on(port: u16) -> io::Result<Listening> {
        let token = random_hex()?;
        let server =
            Server::http((Ipv4Addr::LOCALHOST, port)).map_err(|e| io::Error::other(e.to_string()))?;
        let address = server
            .server_addr()
            .to_ip()
            .ok_or_else(|| io::Error::other("the server has no internet address"))?;
        Ok(Listening { server: Arc::new(server), address, token })
    }

    /// The address of the pages; a query goes after `?`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, self.script())
    }

    fn script(&self) -> String {
        format!("/{}/deep", self.token)
    }

    /// Answers until a page asks to quit. `first` is where the bare address leads.
    pub fn serve(&self, answers: &(impl Answers + Sync), first: &str) {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while !ended.load(Ordering::Acquire) {
                        let Ok(request) = self.server.recv() else { break };
                        let (response, after) = self.respond(&request, answers, first);
                        let head = *request.method() == Method::Head;
                        // A reader that is gone is no trouble of ours.
                        let _ = send(request, response, head);
                        if after == After::Quit {
                            ended.store(true, Ordering::Release);
                            for _ in 0..THREADS {
                                self.server.unblock();
                            }
                        }
                    }
                });
            }
        });
    }

    fn respond(&self, request: &tiny_http::Request, answers: &impl Answers, first: &str) -> (Answer, After) {
        let refuse = |status, text: &str| (Answer::Page(Response::plain(status, text)), After::Serve);
        let url = request.url();
        if url.len() > MAX_URL {
            return refuse(414, "The address is too long.");
        }
        let host = request.headers().iter().find(|h| h.field.equiv("Host")).map(|h| h.value.as_str());
        if !host.is_some_and(|h| self.is_own_host(h)) {
            return refuse(403, "This server answers to its own address only.");
        }
        if !matches!(request.method(), Method::Get | Method::Head | Method::Post) {
            return refuse(405, "Only GET and POST are answered.");
        }
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        // Who does not know the token learns nothing, not even whether the path would be right.
        let Some(rest) = path.strip_prefix('/').and_then(|p| self.after_token(p)) else {
            return refuse(404, "There is nothing here.");
        };
        let script = self.script();
        if matches!(rest, "" | "/") || (rest == "/deep" && query.is_empty()) {
            return (Answer::Redirect(format!("{script}?{first}")), After::Serve);
        }
        match rest.strip_prefix("/deep").and_then(Form::of_path) {
            Some(form) => {
                let (response, after) = answers.answer(&Request { form, query, script: &script });
                (Answer::Page(response), after)
            }
            None => refuse(404, "There is nothing here."),
        }
    }

    fn is_own_host(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        port.parse() == Ok(self.address.port())
            && (name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost"))
    }

    /// What follows the token, if it is the right one. Every octet is compared, whatever the others are.
    fn after_token<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (given, rest) = path.split_at_checked(self.token.len())?;
        let differ = given.bytes().zip(self.token.bytes()).fold(0, |d, (a, b)| d | (a ^ b));
        (differ == 0 && (rest.is_empty() || rest.starts_with('/'))).then_some(rest)
    }
}

enum Answer {
    Page(Response),
    Redirect(String),
}

fn header(name: &str, value: &str) -> Option<Header> {
    Header::from_bytes(name, value).ok()
}

fn send(request: tiny_http::Request, answer: Answer, head: bool) -> io::Result<()> {
    let response = match answer {
        Answer::Page(r) => r,
        Answer::Redirect(to) => {
            let mut out = tiny_http::Response::empty(302);
            out.headers_extend(header("Location", &to));
            out.headers_extend(header("Cache-Control", "no-store"));
            return request.respond(out);
        }
    };
    let mut headers: Vec<Header> = Vec::new();
    headers.extend(header("Content-Type", response.content_type));
    for (name, value) in response.security_headers() {
        headers.extend(header(name, &value));
    }
    let len = response.body.len();
    let body = if head { Vec::new() } else { response.body.into_bytes() };
    request.respond(tiny_http::Response::new(
        tiny_http::StatusCode(response.status),
        headers,
        io::Cursor::new(body),
        Some(if head { 0 } else { len }),
        None,
    ))
}

/// Adds a header if it is one.
trait Extend {
    fn headers_extend(&mut self, header: Option<Header>);
}

impl<R: io::Read> Extend for tiny_http::Response<R> {
    fn headers_extend(&mut self, header: Option<Header>) {
        if let Some(h) = header {
            self.add_header(h);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::TcpStream;

    struct Echo;

    impl Answers for Echo {
        fn answer(&self, request: &Request<'_>) -> (Response, After) {
            let after = if request.query == "quit" { After::Quit } else { After::Serve };
            (Response::page(request.form, format!("{:?} {}", request.form, request.query)), after)
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
        let listening = Listening::on(0).expect("listens");
        let (at, script) = (listening.address, listening.script());
        std::thread::scope(|scope| {
            scope.spawn(|| listening.serve(&Echo, "menu&&x.data"));
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(at, &script)));
            let host = at.to_string();
            assert!(ask(at, "GET", &format!("{script}?quit"), &host).starts_with("HTTP/1.1 200"));
            if let Err(e) = outcome {
                std::panic::resume_unwind(e);
            }
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
            assert!(text.contains(&format!("Location: {script}?menu&&x.data")), "{text}");
        });
    }

    #[test]
    fn every_page_forbids_what_it_does_not_need() {
        with_server(|at, script| {
            let text = ask(at, "GET", &format!("{script}?menu"), &at.to_string());
            for name in [
                "Content-Security-Policy: default-src 'none'",
                "X-Frame-Options: DENY",
                "nosniff",
                "no-store",
            ] {
                assert!(text.contains(name), "{name}: {text}");
            }
        });
    }
}
