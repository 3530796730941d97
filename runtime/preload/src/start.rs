//! The constructor and the destructor.
//!
//! The constructor believes its arguments only after checking them: musl passes none. It runs before the
//! program's own code, in well under a millisecond; without `PCT` it does no more than look for it. The
//! destructor runs at `exit`: it writes the last anchor and the CPU times.

use crate::{api, host, late};

#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn(usize, u64, u64) = init;

#[used]
#[unsafe(link_section = ".fini_array")]
static FINI: extern "C" fn() = fini;

extern "C" fn init(count: usize, arguments: u64, environment: u64) {
    let environ = if host::from_constructor(count, arguments, environment) {
        environment as *const *const u8
    } else {
        host::environ()
    };
    // SAFETY: the environment vector of a process that has one thread yet, or whose loader calls us: nobody changes it.
    unsafe {
        #[cfg(all(feature = "alloc", target_arch = "x86_64"))]
        crate::malloc::prepare(pct_sampler::process::boot::variable(environ, b"PCT"));
        #[cfg(all(feature = "waits", target_arch = "x86_64"))]
        crate::locks::prepare(pct_sampler::process::boot::variable(environ, b"PCT"));
        pct_sampler::api::begin(&api::HOST, environ);
    }
    #[cfg(all(feature = "alloc", target_arch = "x86_64"))]
    crate::malloc::tell();
    #[cfg(all(feature = "waits", target_arch = "x86_64"))]
    crate::locks::tell();
}

extern "C" fn fini() {
    #[cfg(all(feature = "alloc", target_arch = "x86_64"))]
    crate::malloc::tell_at_end();
    late::stand_back();
    pct_sampler::api::end();
}
