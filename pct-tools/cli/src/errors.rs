//! What went wrong, in one line; and whether the command line was at fault.

/// What was typed makes no sense together: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// An error and its causes in one line. A cause that the line before it says already (many of our errors do)
/// is not said again.
#[must_use]
pub fn chain(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::chain;
    use anyhow::Context as _;

    #[test]
    fn a_cause_is_said_once() {
        let plain = || std::io::Error::from_raw_os_error(libc::ENOENT);
        let told = pct_symbols::ImageError::Io { path: "/x".into(), source: plain() };
        assert_eq!(chain(&told.into()), "/x: No such file or directory (os error 2)");
        let outer = Err::<(), _>(plain()).context("/y").context("reading").expect_err("an error");
        assert_eq!(chain(&outer), "reading: /y: No such file or directory (os error 2)");
    }
}
