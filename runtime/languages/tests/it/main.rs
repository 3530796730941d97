//! Interpreters that run, held by ptrace. All tests are live.

mod other;

mod live {
    mod stepped;
    mod truth;
}
