//! Text in fixed buffers: paths, messages, numbers. No formatting machinery, which could panic.

/// A byte buffer of `N` bytes that cuts what does not fit, and says so. A short text in it touches its first
/// bytes only.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Buf<const N: usize> {
    len: usize,
    cut: bool,
    bytes: [u8; N],
}

impl<const N: usize> Default for Buf<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Buf<N> {
    /// Empty.
    #[must_use]
    pub const fn new() -> Self {
        Buf { len: 0, cut: false, bytes: [0; N] }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.len = 0;
        self.cut = false;
    }

    /// Appends bytes.
    pub fn push(&mut self, text: &[u8]) -> &mut Self {
        for byte in text {
            match self.bytes.get_mut(self.len) {
                Some(place) => {
                    *place = *byte;
                    self.len += 1;
                }
                None => self.cut = true,
            }
        }
        self
    }

    /// Appends a number in decimal.
    pub fn push_number(&mut self, number: u64) -> &mut Self {
        let mut digits = [0u8; 20];
        let mut rest = number;
        let mut used = 0;
        for place in digits.iter_mut().rev() {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
            used += 1;
            if rest == 0 {
                break;
            }
        }
        self.push(digits.get(20 - used..).unwrap_or(&[]))
    }

    /// The text.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// Whether something did not fit.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Appends the NUL for the kernel, and gives the C string; `None` when the text was cut.
    pub fn with_nul(&mut self) -> Option<crate::sys::CStr<'_>> {
        if self.cut {
            return None;
        }
        *self.bytes.get_mut(self.len)? = 0;
        crate::sys::CStr::new(self.bytes.get(..=self.len)?)
    }
}

/// Parses decimal digits, all of `text`.
#[must_use]
pub fn parse_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |n, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { n.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

/// Parses hexadecimal digits at the start of `text`: the number and the rest.
#[must_use]
pub fn parse_hex(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => break,
        };
        number = number.checked_mul(16)? | u64::from(digit);
        rest = tail;
    }
    if rest.len() == text.len() { None } else { Some((number, rest)) }
}

/// Splits at the first `separator`; the second part is `None` when there is none.
#[must_use]
pub fn split_once(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|b| *b == separator) {
        Some(at) => (text.get(..at).unwrap_or(&[]), text.get(at + 1..)),
        None => (text, None),
    }
}

/// Whether `name` matches `pattern`, in which `*` stands for any bytes.
#[must_use]
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if name.get(n) == Some(byte) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((sp, sn)) => {
                    p = sp + 1;
                    n = sn + 1;
                    star = Some((sp, sn + 1));
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).unwrap_or(&[]).iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_and_read() {
        for n in [0, 7, 10, 99, 1234567890, u64::MAX] {
            let mut b = Buf::<32>::new();
            b.push_number(n);
            assert_eq!(b.bytes(), n.to_string().as_bytes());
            assert_eq!(parse_number(b.bytes()), Some(n));
        }
        assert_eq!(parse_number(b"18446744073709551616"), None);
        assert_eq!(parse_number(b""), None);
        assert_eq!(parse_number(b"1x"), None);
        assert_eq!(parse_hex(b"7fFe-rest"), Some((0x7ffe, &b"-rest"[..])));
        assert_eq!(parse_hex(b"xyz"), None);
        assert_eq!(parse_hex(b"12345678123456789"), None);
    }

    #[test]
    fn text_that_does_not_fit_is_cut_and_said() {
        let mut b = Buf::<4>::new();
        assert_eq!(b.push(b"abcd").with_nul().map(|c| c.bytes().len()), None);
        b.clear();
        assert_eq!(b.push(b"abc").with_nul().unwrap().bytes(), b"abc");
        b.push(b"de");
        assert!(b.is_cut());
    }

    #[test]
    fn patterns_match_as_a_shell_would() {
        for (p, n, yes) in [
            ("python*", "python3.11", true),
            ("*", "", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("abc", "abcd", false),
            ("*.so", "libx.so.so", true),
        ] {
            assert_eq!(matches(p.as_bytes(), n.as_bytes()), yes, "{p} {n}");
        }
    }
}
