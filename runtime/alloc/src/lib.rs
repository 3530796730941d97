//! A wrapper around a Rust program's own global allocator, so that `pct run --alloc` sees its blocks.
//!
//! `pct run --alloc` stands in front of `malloc` and operator new. An allocator that is linked into a program
//! under other names (jemalloc, mimalloc, snmalloc as crates) does not pass there. This wrapper tells pct of
//! each block:
//!
//! ```
//! use std::alloc::System;
//!
//! // Your own allocator in place of `System`: `System` asks malloc, which pct sees without a wrapper.
//! #[global_allocator]
//! static ALLOCATOR: pct_alloc::Pct<System> = pct_alloc::Pct(System);
//! ```
//!
//! The functions that it calls are weak references to those of `pct.h`. The library that `pct run --alloc`
//! preloads has them, and so has libpct.a. Where nobody has them each request costs one load and a test that
//! fails.
//!
//! Safety of the wrapper: every request goes unchanged to the allocator within; a block is told of after it
//! was given, and again before it is taken back.
#![no_std]

use core::alloc::{GlobalAlloc, Layout};

/// The allocator within, whose blocks are told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pct<A>(pub A);

/// The address of a function of `pct.h`; `None` where nobody has it.
///
/// By the table of addresses that the loader fills: GNU ld takes other weak references of an executable for
/// null for good.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
macro_rules! weak {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: one load of a word that does not change.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address,
                options(pure, readonly, nostack, preserves_flags),
            )
        };
        address
    }};
}

/// A block was given. (The name is one that the views of pct know: they show the caller of an allocator.)
#[inline(always)]
fn tell_pct_of_block(block: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        let address = weak!("pct_alloc");
        if address != 0 && !block.is_null() {
            // SAFETY: the function of pct.h that has this name.
            let alloc: extern "C" fn(*const u8, usize) = unsafe { core::mem::transmute(address) };
            alloc(block, bytes);
        }
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    let _ = (block, bytes);
}

/// A block is about to be taken back.
#[inline(always)]
fn tell_pct_of_end(block: *mut u8) {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        let address = weak!("pct_free");
        if address != 0 {
            // SAFETY: the function of pct.h that has this name.
            let free: extern "C" fn(*const u8) = unsafe { core::mem::transmute(address) };
            free(block);
        }
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    let _ = block;
}

// SAFETY: each request goes to the allocator within as it is, and so does its answer.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Pct<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is that of the allocator within.
        let block = unsafe { self.0.alloc(layout) };
        tell_pct_of_block(block, layout.size());
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { self.0.alloc_zeroed(layout) };
        tell_pct_of_block(block, layout.size());
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // Before: afterwards another thread may be given the address.
        tell_pct_of_end(block);
        // SAFETY: as above.
        unsafe { self.0.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        tell_pct_of_end(block);
        // SAFETY: as above.
        let new = unsafe { self.0.realloc(block, layout, bytes) };
        if new.is_null() {
            // It stays where it was.
            tell_pct_of_block(block, layout.size());
        } else {
            tell_pct_of_block(new, bytes);
        }
        new
    }
}
