//! Connections of the built-in server: hyper's HTTP/1.1 on one thread, within bounds.
//!
//! Any program on the machine can connect, with the token or without. So a connection may not cost much, or block
//! others:
//!
//! - At most [`Bounds::connections`] are open. For one more, the connection that has waited longest for its request is
//!   closed. So a flood of connections that send nothing closes itself, and real requests are answered.
//! - A connection has [`Bounds::patience`] for a whole head, and as long for each step of receiving an answer. Octets
//!   that arrive one by one do not prolong it.
//! - The body of a request is never read: hyper answers and closes. A head has at most [`HEAD_OCTETS`].
//! - [`WORKERS`] threads make pages, [`STREAMS`] more feed streams. The next reader gets status 503.
//!
//! Why hyper: tiny_http uses a thread and two descriptors for each connection without bound, panics in its accepting
//! thread when there is no descriptor left, waits for ever for half a request, and reads a body of any announced length
//! into memory; none of this can be configured. oxhttp limits connections, but it has a deadline only for each read, so
//! one octet per second keeps a connection open for ever. With hyper a connection is a value that can be dropped at any
//! moment, so this file alone sets all these bounds. hyper parses, frames and keeps alive; tokio waits on one thread.

use crate::answer::{Reply, Response, Stream};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::{AbortHandle, LocalSet, spawn_blocking, spawn_local};
use tokio::time::{Instant, sleep, sleep_until};

/// Bounds of what clients may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Most connections at a time. A browser opens up to 6 to one server.
    pub(crate) connections: usize,
    /// How long a connection may wait for a whole head, or for the reader to accept more of an answer.
    pub(crate) patience: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { connections: 64, patience: Duration::from_secs(15) }
    }
}

/// Longest head, in octets.
const HEAD_OCTETS: usize = 64 * 1024;
/// Threads that make pages.
const WORKERS: usize = 4;
/// Most streams at a time, each with a thread.
pub(crate) const STREAMS: usize = 8;
/// Least number of connections, however few descriptors the system gives.
const FEWEST: usize = 8;
/// How long to wait when the system gives no connection (no descriptors left).
const PAUSE: Duration = Duration::from_millis(50);

/// The head of a request. Nothing else of it is read.
pub(crate) struct Head {
    pub(crate) method: hyper::Method,
    /// Path and query, undecoded.
    pub(crate) address: String,
    pub(crate) host: Option<String>,
}

/// An answer to a request.
pub(crate) enum Answer {
    Reply(Reply),
    Redirect(String),
    /// A page after which the server ends.
    Last(Response),
}

/// Answers one request. Several threads call it.
pub(crate) type Respond = dyn Fn(&Head) -> Answer + Send + Sync;

/// Answers requests until there was an [`Answer::Last`].
pub(crate) fn serve(
    listener: std::net::TcpListener,
    respond: Arc<Respond>,
    bounds: Bounds,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(WORKERS + STREAMS)
        .build()?;
    let outcome = LocalSet::new().block_on(&runtime, accept(listener, respond, bounds));
    // Nobody wants the pages that are still being made.
    runtime.shutdown_background();
    outcome
}

/// What the connections share.
struct House {
    bounds: Bounds,
    /// Most connections at a time: the bound, or less if the system gives fewer.
    capacity: Cell<usize>,
    respond: Arc<Respond>,
    open: RefCell<Vec<(Rc<Patience>, AbortHandle)>>,
    /// A connection has ended.
    freed: Notify,
    /// The last answer was sent.
    ended: Notify,
    workers: Semaphore,
    streams: Arc<Semaphore>,
}

/// Which side waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The server waits for a request.
    Idle,
    /// The peer waits for an answer that is being made.
    Making,
    /// The server waits until the peer has received the answer.
    Sending,
}

/// Since when a connection has waited for its peer.
struct Patience {
    phase: Cell<Phase>,
    since: Cell<Instant>,
    limit: Duration,
    /// Whether the current answer is the last one.
    last: Cell<bool>,
}

impl Patience {
    fn new(limit: Duration) -> Self {
        Self {
            phase: Cell::new(Phase::Idle),
            since: Cell::new(Instant::now()),
            limit,
            last: Cell::new(false),
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.renew();
    }

    fn renew(&self) {
        self.since.set(Instant::now());
    }

    fn deadline(&self) -> Instant {
        self.since.get() + self.limit
    }

    fn is_over(&self) -> bool {
        self.phase.get() != Phase::Making && self.deadline() <= Instant::now()
    }
}

async fn accept(listener: std::net::TcpListener, respond: Arc<Respond>, bounds: Bounds) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let house = Rc::new(House {
        bounds,
        capacity: Cell::new(bounds.connections),
        respond,
        open: RefCell::default(),
        freed: Notify::new(),
        ended: Notify::new(),
        workers: Semaphore::new(WORKERS),
        streams: Arc::new(Semaphore::new(STREAMS)),
    });
    let mut ended = pin!(house.ended.notified());
    loop {
        let next = poll_fn(|cx| match ended.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => listener.poll_accept(cx).map(Some),
        });
        match next.await {
            None => return Ok(()),
            Some(Ok((stream, _))) => {
                house.make_room().await;
                house.open(stream);
            }
            // There are no descriptors or memory left. From now on fewer connections are allowed, so that pages can
            // open files.
            Some(Err(_)) => {
                house.capacity.set((house.open.borrow().len() * 3 / 4).max(FEWEST));
                house.make_room().await;
                sleep(PAUSE).await;
            }
        }
    }
}

impl House {
    /// Waits until one more connection may be open.
    async fn make_room(&self) {
        while self.open.borrow().len() >= self.capacity.get() {
            self.close_longest_waiting();
            self.freed.notified().await;
        }
    }

    fn close_longest_waiting(&self) {
        let open = self.open.borrow();
        // Connections that have sent no request are closed first.
        let rank = |p: &Patience| (p.phase.get() == Phase::Sending, p.since.get());
        let waiting = open.iter().filter(|(p, _)| p.phase.get() != Phase::Making);
        if let Some((_, task)) = waiting.min_by_key(|(p, _)| rank(p)) {
            task.abort();
        }
    }

    fn open(self: &Rc<Self>, stream: TcpStream) {
        let patience = Rc::new(Patience::new(self.bounds.patience));
        // However the task ends, its permit is released.
        let place = ConnectionPermit { house: Rc::clone(self), patience: Rc::clone(&patience) };
        let task = spawn_local(async move { place.run(stream).await });
        self.open.borrow_mut().push((patience, task.abort_handle()));
    }
}

struct ConnectionPermit {
    house: Rc<House>,
    patience: Rc<Patience>,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.house.open.borrow_mut().retain(|(p, _)| !Rc::ptr_eq(p, &self.patience));
        self.house.freed.notify_one();
        if self.patience.last.get() {
            self.house.ended.notify_one();
        }
    }
}

impl ConnectionPermit {
    async fn run(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let io = TokioIo::new(Watched { stream, patience: Rc::clone(&self.patience) });
        let service = service_fn(|request| async move { Ok::<_, Infallible>(self.answer(&request).await) });
        let mut connection = pin!(
            hyper::server::conn::http1::Builder::new()
                .max_buf_size(HEAD_OCTETS)
                .serve_connection(io, service)
        );
        let mut alarm = pin!(sleep_until(self.patience.deadline()));
        poll_fn(|cx| {
            // If a client has gone away, that is no error.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            loop {
                ready!(alarm.as_mut().poll(cx));
                if self.patience.is_over() {
                    return Poll::Ready(());
                }
                alarm.as_mut().reset(self.patience.deadline().max(Instant::now() + PAUSE));
            }
        })
        .await;
    }

    async fn answer(&self, request: &hyper::Request<Incoming>) -> hyper::Response<Sent> {
        self.patience.enter(Phase::Making);
        let answer = self.made(request).await;
        self.patience.enter(Phase::Sending);
        let answer = match answer {
            Answer::Redirect(to) => redirect(&to),
            Answer::Reply(Reply::Whole(response)) => whole(response),
            Answer::Reply(Reply::Stream(stream)) => self.stream(stream),
            Answer::Last(response) => {
                self.patience.last.set(true);
                let mut sent = whole(response);
                sent.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                sent
            }
        };
        answer.map(|content| Sent { content, patience: Rc::clone(&self.patience) })
    }

    /// Makes the answer on another thread.
    async fn made(&self, request: &hyper::Request<Incoming>) -> Answer {
        let host = request.headers().get(hyper::header::HOST).and_then(|h| h.to_str().ok());
        let head = Head {
            method: request.method().clone(),
            address: request.uri().to_string(),
            host: host.map(str::to_owned),
        };
        let _turn = self.house.workers.acquire().await;
        let respond = Arc::clone(&self.house.respond);
        spawn_blocking(move || respond(&head)).await.unwrap_or_else(|_| {
            Answer::Reply(Reply::Whole(Response::plain(500, "This page could not be made.")))
        })
    }

    fn stream(&self, stream: Stream) -> hyper::Response<Content> {
        let Ok(turn) = Arc::clone(&self.house.streams).try_acquire_owned() else {
            return whole(Response::plain(
                503,
                "Too many pages are being kept up to date. Close one of them.",
            ));
        };
        let mut head = Response::plain(200, "");
        head.content_type = stream.content_type;
        let (sender, pieces) = mpsc::channel(1);
        spawn_blocking(move || {
            let _turn = turn;
            for piece in stream.pieces {
                if sender.blocking_send(Bytes::from(piece)).is_err() {
                    break;
                }
            }
        });
        let mut sent = whole(head).map(|_| Content::Stream(pieces));
        sent.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        sent
    }
}

fn redirect(to: &str) -> hyper::Response<Content> {
    let mut response = Response::plain(302, "");
    response.body.clear();
    let mut sent = whole(response);
    if let Ok(to) = HeaderValue::from_str(to) {
        sent.headers_mut().insert(LOCATION, to);
    }
    sent
}

fn whole(response: Response) -> hyper::Response<Content> {
    let headers: Vec<(&'static str, String)> = response.security_headers();
    let mut sent = hyper::Response::new(Content::Whole(Bytes::from(response.body)));
    *sent.status_mut() =
        hyper::StatusCode::from_u16(response.status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    sent.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(response.content_type));
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            sent.headers_mut().insert(name, value);
        }
    }
    sent
}

/// The body of an answer.
struct Sent {
    content: Content,
    patience: Rc<Patience>,
}

/// Now the next request may come.
impl Drop for Sent {
    fn drop(&mut self) {
        self.patience.enter(Phase::Idle);
    }
}

enum Content {
    /// The part that is not sent yet.
    Whole(Bytes),
    Stream(mpsc::Receiver<Bytes>),
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut self.get_mut().content {
            Content::Whole(octets) if octets.is_empty() => None,
            Content::Whole(octets) => Some(std::mem::take(octets)),
            Content::Stream(pieces) => ready!(pieces.poll_recv(cx)),
        };
        Poll::Ready(piece.map(|p| Ok(Frame::data(p))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole(octets) if octets.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(octets) => SizeHint::with_exact(octets.len() as u64),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

/// A socket that renews a connection's patience when its peer has received something. What the peer sends renews
/// nothing.
struct Watched {
    stream: TcpStream,
    patience: Rc<Patience>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf));
        if matches!(written, Ok(1..)) {
            self.patience.renew();
        }
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
