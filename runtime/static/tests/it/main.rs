//! libpct.a in real programs. All tests are live.

mod live {
    mod linked;
}
