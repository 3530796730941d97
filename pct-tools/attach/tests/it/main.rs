//! Attaching to real programs. All of it is live: real processes, signals, ptrace.

mod victims;

mod live {
    mod births;
    mod inject;
    mod killed;
    mod lingers;
    mod outside;
    mod signals;
    #[cfg(target_arch = "x86_64")]
    mod stepped;
}
