//! Texts that the kernel reads up to their NUL.

/// A path or other C string for the kernel: ends with exactly one NUL.
#[derive(Clone, Copy, Debug)]
pub struct CStr<'a>(pub(super) &'a [u8]);

impl<'a> CStr<'a> {
    /// Checks that `bytes` end with a NUL.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        if let [.., 0] = bytes { Some(CStr(bytes)) } else { None }
    }

    /// The bytes without the NUL.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        match self.0 {
            [text @ .., _] => text,
            [] => self.0,
        }
    }
}

/// A C string from a literal.
#[must_use]
pub const fn c(text: &'static core::ffi::CStr) -> CStr<'static> {
    CStr(text.to_bytes_with_nul())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ends_with_a_nul_is_taken_and_the_nul_is_not_shown() {
        assert_eq!(CStr::new(b"/tmp\0").map(|text| text.bytes()), Some(&b"/tmp"[..]));
        assert_eq!(CStr::new(b"\0").map(|text| text.bytes()), Some(&b""[..]));
        assert!(CStr::new(b"/tmp").is_none() && CStr::new(b"").is_none());
        assert_eq!(c(c"/proc/self").bytes(), b"/proc/self");
    }
}
