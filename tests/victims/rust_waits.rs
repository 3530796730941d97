// build: rustc -O -g --edition 2021
//
// Threads that wait for each other by Rust's standard library, and that keep the truth. A line of truth is as in
// lock_waits.c: truth WAITER KIND HOLDER LEAST MOST WAITS. LEAST is from the moment at which the waiter is asleep in
// the kernel to the moment before it is woken, MOST is between the clocks around the call.
use std::hint::black_box;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, RwLock, mpsc};
use std::thread;
use std::time::Duration;

#[repr(C)]
struct Timespec {
    seconds: i64,
    ns: i64,
}
extern "C" {
    fn gettid() -> i32;
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

fn now() -> u64 {
    let mut time = Timespec { seconds: 0, ns: 0 };
    // SAFETY: `time` is a struct timespec that lives until the call returns.
    unsafe { clock_gettime(1, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.ns as u64
}

fn pause() {
    thread::sleep(Duration::from_millis(15));
}

/// A thread's id, and the clocks around its wait.
struct Waiter {
    tid: AtomicI32,
    asked: AtomicU64,
    got: AtomicU64,
}

impl Waiter {
    const fn new() -> Self {
        Self { tid: AtomicI32::new(0), asked: AtomicU64::new(0), got: AtomicU64::new(0) }
    }

    fn begins(&self) {
        self.asked.store(now(), SeqCst);
        // SAFETY: the call takes nothing and cannot fail.
        self.tid.store(unsafe { gettid() }, SeqCst);
    }

    fn ends(&self) {
        self.got.store(now(), SeqCst);
    }

    /// Waits until it sleeps in a futex call, and says when that was.
    fn asleep(&self) -> u64 {
        loop {
            let tid = self.tid.load(SeqCst);
            let path = format!("/proc/self/task/{tid}/syscall");
            if tid != 0 && std::fs::read_to_string(path).is_ok_and(|text| text.starts_with("202 ")) {
                return now();
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    fn most(&self) -> u64 {
        self.got.load(SeqCst) - self.asked.load(SeqCst)
    }
}

fn truth(waiter: &str, kind: &str, holder: &str, least: u64, most: u64, waits: u64) {
    println!("truth {waiter} {kind} {holder} {least} {most} {waits}");
}

static LOCK: Mutex<u64> = Mutex::new(0);
static BOTH: RwLock<u64> = RwLock::new(0);
static READY: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

#[inline(never)]
fn waits_for_mutex(waiter: &Waiter) {
    waiter.begins();
    let mut guard = LOCK.lock().unwrap();
    waiter.ends();
    *guard = black_box(1);
    drop(guard);
    black_box(());
}

/// Releases what it was given.
#[inline(never)]
fn holds_mutex(mut guard: MutexGuard<'_, u64>) {
    *guard = black_box(2);
    drop(guard);
    black_box(());
}

fn mutex() {
    let (mut least, mut most) = (0, 0);
    for _ in 0..3 {
        let waiter = Waiter::new();
        let guard = LOCK.lock().unwrap();
        least += thread::scope(|scope| {
            scope.spawn(|| waits_for_mutex(&waiter));
            wakes(&waiter, || holds_mutex(guard))
        });
        most += waiter.most();
    }
    truth("waits_for_mutex", "mutex", "holds_mutex", least, most, 3);
}

#[inline(never)]
fn second_holds(second: &Waiter, third: &Waiter, times: &[AtomicU64; 2]) {
    second.begins();
    let mut guard = LOCK.lock().unwrap();
    second.ends();
    *guard = black_box(3);
    third.asleep();
    pause();
    times[0].store(now(), SeqCst);
    drop(guard);
    times[1].store(now(), SeqCst);
    black_box(());
}

#[inline(never)]
fn third_waits(third: &Waiter) {
    third.begins();
    let mut guard = LOCK.lock().unwrap();
    third.ends();
    *guard = black_box(4);
    drop(guard);
    black_box(());
}

#[inline(never)]
fn first_holds(mut guard: MutexGuard<'_, u64>) {
    *guard = black_box(5);
    drop(guard);
    black_box(());
}

/// The second thread waits for the first, the third for both.
fn queue() {
    let (second, third, times) = (Waiter::new(), Waiter::new(), [AtomicU64::new(0), AtomicU64::new(0)]);
    let guard = LOCK.lock().unwrap();
    let [second_asleep, third_asleep, before, after] = thread::scope(|scope| {
        scope.spawn(|| second_holds(&second, &third, &times));
        let second_asleep = second.asleep();
        scope.spawn(|| third_waits(&third));
        let third_asleep = third.asleep();
        pause();
        let before = now();
        first_holds(guard);
        [second_asleep, third_asleep, before, now()]
    });
    let [releases, released] = times.map(|time| time.load(SeqCst));
    truth("second_holds", "mutex", "first_holds", before - second_asleep, second.most(), 1);
    truth("third_waits", "mutex", "first_holds", before - third_asleep, after - third.asked.load(SeqCst), 1);
    truth("third_waits", "mutex", "second_holds", releases - second.got.load(SeqCst), released - before, 1);
}

#[inline(never)]
fn waits_for_condition(waiter: &Waiter) {
    let mut is_ready = READY.0.lock().unwrap();
    waiter.begins();
    while !*is_ready {
        is_ready = READY.1.wait(is_ready).unwrap();
    }
    waiter.ends();
    *is_ready = false;
}

#[inline(never)]
fn waits_in_vain() {
    let guard = READY.0.lock().unwrap();
    let (guard, timeout) = READY.1.wait_timeout(guard, Duration::from_millis(20)).unwrap();
    assert!(timeout.timed_out());
    drop(guard);
    black_box(());
}

#[inline(never)]
fn notifies() {
    *READY.0.lock().unwrap() = true;
    READY.1.notify_one();
    black_box(());
}

#[inline(never)]
fn parks(waiter: &Waiter, go: &AtomicU64) {
    waiter.begins();
    while go.load(SeqCst) == 0 {
        thread::park();
    }
    waiter.ends();
    black_box(());
}

#[inline(never)]
fn unparks(thread: &thread::Thread, go: &AtomicU64) {
    go.store(1, SeqCst);
    thread.unpark();
    black_box(());
}

#[inline(never)]
fn receives(waiter: &Waiter, from: &mpsc::Receiver<u64>) {
    waiter.begins();
    black_box(from.recv().unwrap());
    waiter.ends();
    black_box(());
}

#[inline(never)]
fn sends(to: &mpsc::Sender<u64>) {
    to.send(7).unwrap();
    black_box(());
}

#[inline(never)]
fn waits_to_read(waiter: &Waiter) {
    waiter.begins();
    let guard = BOTH.read().unwrap();
    waiter.ends();
    black_box(*guard);
    drop(guard);
    black_box(());
}

#[inline(never)]
fn waits_to_write(waiter: &Waiter) {
    waiter.begins();
    let mut guard = BOTH.write().unwrap();
    waiter.ends();
    *guard = black_box(7);
    drop(guard);
    black_box(());
}

/// Asleep for a while, then woken: the shortest that the wait may have been.
fn wakes(waiter: &Waiter, wake: impl FnOnce()) -> u64 {
    let from = waiter.asleep();
    pause();
    let least = now() - from;
    wake();
    least
}

fn work() {
    let waiter = Waiter::new();
    let least = thread::scope(|scope| {
        scope.spawn(|| waits_for_condition(&waiter));
        wakes(&waiter, notifies)
    });
    truth("waits_for_condition", "condition", "notifies", least, waiter.most(), 1);

    let (waiter, go) = (Waiter::new(), AtomicU64::new(0));
    let least = thread::scope(|scope| {
        let parked = scope.spawn(|| parks(&waiter, &go));
        wakes(&waiter, || unparks(parked.thread(), &go))
    });
    truth("parks", "futex", "unparks", least, waiter.most(), 1);

    let waiter = Waiter::new();
    let (to, from) = mpsc::channel();
    let (receiving, least) = (&waiter, thread::scope(|scope| {
        scope.spawn(|| { let from = from; receives(&waiter, &from) });
        wakes(&waiter, || sends(&to))
    }));
    truth("receives", "futex", "sends", least, receiving.most(), 1);

    let waiter = Waiter::new();
    let guard = BOTH.write().unwrap();
    let least = thread::scope(|scope| {
        scope.spawn(|| waits_to_read(&waiter));
        wakes(&waiter, || drop(guard))
    });
    truth("waits_to_read", "rwlock_(read)", "-", least, waiter.most(), 1);

    let waiter = Waiter::new();
    let guard = BOTH.read().unwrap();
    let least = thread::scope(|scope| {
        scope.spawn(|| waits_to_write(&waiter));
        wakes(&waiter, || drop(guard))
    });
    truth("waits_to_write", "rwlock_(write)", "-", least, waiter.most(), 1);

    let from = now();
    waits_in_vain();
    truth("waits_in_vain", "condition", "-", 0, now() - from, 1);
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("mutex") => mutex(),
        Some("queue") => queue(),
        Some("work") => work(),
        other => panic!("{other:?}"),
    }
}
