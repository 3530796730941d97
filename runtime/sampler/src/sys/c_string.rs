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
