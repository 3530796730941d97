//! A Rust program whose global allocator is its own, wrapped so that `pct run --alloc` sees its blocks:
//!
//!     pct run --alloc=64K -- target/debug/examples/arena
//!     pct report --alloc DIR
//!
//! It allocates 40 MB in one function and keeps them, and the same in another and gives them back. It prints
//! how much its allocator has given out: requests, bytes, and the bytes that are live.

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// An allocator that no malloc serves: it cuts blocks from pages of the kernel and keeps what is freed by
/// powers of two.
struct Arena {
    /// Freed blocks of 2^n bytes: a stack under a lock of one word.
    free: [AtomicPtr<u8>; 48],
    busy: AtomicUsize,
    next: AtomicUsize,
    end: AtomicUsize,
}

static REQUESTS: AtomicUsize = AtomicUsize::new(0);
static GIVEN: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
const CHUNK: usize = 16 << 20;

#[global_allocator]
static ALLOCATOR: pct_alloc::Pct<Arena> = pct_alloc::Pct(Arena {
    free: [const { AtomicPtr::new(std::ptr::null_mut()) }; 48],
    busy: AtomicUsize::new(0),
    next: AtomicUsize::new(0),
    end: AtomicUsize::new(0),
});

unsafe extern "C" {
    fn mmap(at: *mut u8, bytes: usize, access: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
}

impl Arena {
    fn class(layout: Layout) -> usize {
        layout.size().max(layout.align()).max(16).next_power_of_two().trailing_zeros() as usize
    }

    fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        while self.busy.swap(1, Ordering::Acquire) != 0 {
            std::hint::spin_loop();
        }
        let done = work();
        self.busy.store(0, Ordering::Release);
        done
    }

    /// A fresh block of so many bytes, a power of two.
    fn cut(&self, bytes: usize) -> *mut u8 {
        let start = self.next.load(Ordering::Relaxed).next_multiple_of(bytes);
        if start != 0 && start + bytes <= self.end.load(Ordering::Relaxed) {
            self.next.store(start + bytes, Ordering::Relaxed);
            return start as *mut u8;
        }
        let length = CHUNK.max(2 * bytes);
        // SAFETY: private memory without a file (read and write; private, anonymous).
        let chunk = unsafe { mmap(std::ptr::null_mut(), length, 3, 0x22, -1, 0) } as usize;
        if chunk == usize::MAX {
            return std::ptr::null_mut();
        }
        self.end.store(chunk + length, Ordering::Relaxed);
        let start = chunk.next_multiple_of(bytes);
        self.next.store(start + bytes, Ordering::Relaxed);
        start as *mut u8
    }
}

// SAFETY: each block is one of the power of two above its size, aligned to it, and given to one caller until
// it is freed.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let class = Self::class(layout);
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        GIVEN.fetch_add(layout.size(), Ordering::Relaxed);
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        self.alone(|| {
            let top = self.free[class].load(Ordering::Relaxed);
            if top.is_null() {
                return self.cut(1 << class);
            }
            // SAFETY: a freed block of at least 16 bytes has the next one's address in it.
            self.free[class].store(unsafe { top.cast::<*mut u8>().read() }, Ordering::Relaxed);
            top
        })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let class = Self::class(layout);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        self.alone(|| {
            // SAFETY: the block is ours again.
            unsafe { block.cast::<*mut u8>().write(self.free[class].load(Ordering::Relaxed)) };
            self.free[class].store(block, Ordering::Relaxed);
        });
    }
}

#[inline(never)]
fn keeps(kept: &mut Vec<Box<[u8]>>) {
    for i in 0..40_000 {
        kept.push(vec![1; 900 + i % 200].into_boxed_slice());
    }
}

#[inline(never)]
fn gives_back() {
    for i in 0..40_000 {
        black_box(vec![1u8; 900 + i % 200]);
    }
}

fn main() {
    let mut kept = Vec::new();
    // The end of a scope waits for the closure alone; the thread gives back its own blocks after that, before it ends.
    let other = std::thread::spawn(gives_back);
    keeps(&mut kept);
    other.join().expect("it does not panic");
    let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    println!("{} requests, {} bytes, {} live", count(&REQUESTS), count(&GIVEN), count(&LIVE));
    // Ends while all lives.
    std::process::exit(i32::from(kept.is_empty()));
}
