//! libpct.so: what a preloaded (or dlopened) program sees of pct.
//!
//! A thin shell around `pct-sampler`: a constructor that reads `PCT`, a destructor that closes the file, the
//! C functions `pct_on`, `pct_off`, `pct_stat`, `pct_mark`, and the functions of libc that it stands in front
//! of. It has no thread-local storage, needs no other library, and what it wraps it finds by walking the
//! loader's list itself.
//!
//! | wrapped | why |
//! |---|---|
//! | `pthread_create` | a new thread arms itself at once ([`threads`]) |
//! | `clone` | a thread may come that does not arm itself ([`threads`]) |
//! | `fork`, `_Fork`, `daemon`, `forkpty` | our signals are held back meanwhile; the child begins anew ([`process`]) |
//! | `execve` and kin, `posix_spawn` | the next program is followed although its environment lacks us ([`exec`]) |
//! | `sigaction`, `signal` and kin | our signals stay ours, the host believes it has them ([`signals`]) |
//! | `timer_create`, `setitimer`, `alarm` | a timer that sends one of our signals is the host's ([`signals`]) |
//! | `sigaltstack` | a stack that is too small for our handler is stood in for ([`altstack`]) |
//! | `sigwait` and kin, `signalfd`, `sigsuspend`, `ppoll` and kin | our signals neither end such a wait nor are returned by it ([`waiting`]) |
//! | `pthread_sigmask`, `sigprocmask` | a thread that blocks everything is sampled all the same ([`masks`]) |
//! | `dlopen`, `dlmopen`, `dlclose` | regions are looked at before they change ([`loader`]) |
//! | `prctl`, `seccomp`, `seccomp_load`, `syscall` | what the filter forbids is done before ([`filters`]) |
//! | `setuid` and kin, `chroot`, `unshare`, `setns` | what needs system calls and rights is done before ([`process`]) |
//! | `_exit`, `_Exit` | the file is closed ([`process`]) |
//! | `pthread_mutex_lock` and kin, condition variables, semaphores, barriers, `pthread_join`, `syscall` | feature `waits`: waits are recorded (`locks`) |
//! | `malloc` and kin, operator new and delete | feature `alloc`: allocations are sampled (`malloc`) |
//!
//! Wrapping sees only calls from one object to another: libc calls itself directly. So nothing depends on it:
//! a child of fork that we did not see finds the sampler's memory wiped, timers do not survive exec, new
//! threads are found by the housekeeper.
//!
//! In a library that is loaded into a running program only the functions are wrapped that would break it ([`late`]).
//!
//! When `PCT` is not set the constructor leaves at once, and every wrapped call is one test and a jump.
#![cfg_attr(panic = "abort", no_std)]
#![allow(unreachable_pub, reason = "exported C functions are public to the host, not to Rust")]

mod altstack;
mod api;
mod exec;
mod filters;
mod host;
mod jump;
mod late;
mod loader;
#[cfg(all(feature = "waits", target_arch = "x86_64"))]
mod locks;
#[cfg(all(feature = "alloc", target_arch = "x86_64"))]
mod malloc;
mod masks;
mod process;
mod signals;
mod start;
mod still_allowed;
mod threads;
mod unloadable;
mod waiting;

#[cfg(panic = "abort")]
mod alone;
