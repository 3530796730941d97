//! DWARF expressions, which a few entries of unwind data contain.
//!
//! There are two evaluators for the same bytes. [`fold`] runs without a stack to read: it handles values of the form
//! register + constant with one load. That covers PLT stubs (whose expression depends on the address only), realigned
//! frames and hand-written assembler. Its result becomes a cached rule. [`evaluate`] runs with registers and memory and
//! handles the rest. Source: DWARF 5 section 2.5.
//!
//! Invariant: at most [`STEPS`] operations and a fixed stack, whatever the bytes (branches may go backwards).

use super::cfi::reg;
use super::reader::Section;

/// Most operations that one expression may run.
pub const STEPS: u32 = 256;
const DEPTH: usize = 16;

/// What is known of a value without reading memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folded {
    /// A number.
    Const(u64),
    /// Register plus bytes.
    Reg(u8, i64),
    /// The word at register plus bytes, plus bytes.
    Load(u8, i64, i64),
}

struct Stack<T: Copy> {
    items: [T; DEPTH],
    len: usize,
}

impl<T: Copy> Stack<T> {
    fn push(&mut self, v: T) -> Option<()> {
        *self.items.get_mut(self.len)? = v;
        self.len += 1;
        Some(())
    }
    fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        self.items.get(self.len).copied()
    }
    fn pick(&self, down: usize) -> Option<T> {
        self.items.get(self.len.checked_sub(down)?.checked_sub(1)?).copied()
    }
}

/// Start and end of the expression whose length field is at byte `at`.
fn bounds(eh: &Section<'_>, at: u32) -> Option<(usize, usize)> {
    let mut c = eh.cursor(at as usize);
    let len = usize::try_from(c.uleb()?).ok()?;
    let start = c.pos();
    let end = start.checked_add(len)?;
    (end <= eh.bytes.len()).then_some((start, end))
}

/// Folds the expression at byte `at` for the instruction at `pc`. `None`: it has none of the forms of [`Folded`].
pub fn fold(eh: &Section<'_>, at: u32, pc: u64) -> Option<Folded> {
    use Folded::{Const, Load, Reg};
    let (start, end) = bounds(eh, at)?;
    let part = eh.until(end);
    let mut c = part.cursor(start);
    let mut stack = Stack { items: [Const(0); DEPTH], len: 0 };
    let plus = |v: Folded, k: i64| match v {
        Const(c) => Const(c.wrapping_add(k as u64)),
        Reg(r, o) => Reg(r, o.wrapping_add(k)),
        Load(r, o, p) => Load(r, o, p.wrapping_add(k)),
    };
    let register = |r: u8, o: i64| if r == reg::RA { Const(pc.wrapping_add(o as u64)) } else { Reg(r, o) };
    while !c.at_end() {
        let op = c.u8()?;
        let value = match op {
            0x06 => match stack.pop()? {
                Reg(r, o) => Load(r, o, 0),
                _ => return None,
            },
            0x23 => plus(stack.pop()?, c.uleb()? as i64),
            0x70..=0x8f => register(op - 0x70, c.sleb()?),
            0x92 => {
                let r = u8::try_from(c.uleb()?).ok()?;
                register(r, c.sleb()?)
            }
            _ => {
                if let Some(k) = constant(op, &mut c) {
                    Const(k?)
                } else {
                    let (b, a) = (stack.pop()?, stack.pop()?);
                    match (op, a, b) {
                        (0x22, v, Const(k)) | (0x22, Const(k), v) => plus(v, k as i64),
                        (0x1c, v, Const(k)) => plus(v, (k as i64).wrapping_neg()),
                        (_, Const(a), Const(b)) => Const(binary(op, a, b)?),
                        _ => return None,
                    }
                }
            }
        };
        stack.push(value)?;
    }
    stack.pop()
}

/// Evaluates the expression at byte `at`. `first` is pushed before it runs (the CFA, for a register's location).
/// `register` returns a register's value if it is known, `read` loads eight bytes if that is allowed.
pub fn evaluate(
    eh: &Section<'_>,
    at: u32,
    first: Option<u64>,
    register: &mut dyn FnMut(u8) -> Option<u64>,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Option<u64> {
    let (start, end) = bounds(eh, at)?;
    let part = eh.until(end);
    let mut c = part.cursor(start);
    let mut stack = Stack { items: [0u64; DEPTH], len: 0 };
    if let Some(v) = first {
        stack.push(v)?;
    }
    for _ in 0..STEPS {
        if c.at_end() {
            return stack.pop();
        }
        let op = c.u8()?;
        match op {
            0x96 => continue,
            0x13 => {
                stack.pop()?;
                continue;
            }
            0x16 => {
                let (b, a) = (stack.pop()?, stack.pop()?);
                stack.push(b)?;
                stack.push(a)?;
                continue;
            }
            0x17 => {
                let (z, y, x) = (stack.pop()?, stack.pop()?, stack.pop()?);
                stack.push(z)?;
                stack.push(x)?;
                stack.push(y)?;
                continue;
            }
            0x28 | 0x2f => {
                let by = i64::from(c.u16()? as i16);
                if op == 0x2f || stack.pop()? != 0 {
                    let to = usize::try_from((c.pos() as i64).checked_add(by)?).ok()?;
                    if to < start || to > end {
                        return None;
                    }
                    c = part.cursor(to);
                }
                continue;
            }
            _ => {}
        }
        let value = match op {
            0x06 => read(stack.pop()?)?,
            0x94 => {
                let size = u32::from(c.u8()?);
                let word = read(stack.pop()?)?;
                match size {
                    1 | 2 | 4 => word & (u64::MAX >> (64 - 8 * size)),
                    8 => word,
                    _ => return None,
                }
            }
            0x12 => stack.pick(0)?,
            0x14 => stack.pick(1)?,
            0x15 => stack.pick(usize::from(c.u8()?))?,
            0x19 => (stack.pop()? as i64).wrapping_abs() as u64,
            0x1f => stack.pop()?.wrapping_neg(),
            0x20 => !stack.pop()?,
            0x23 => stack.pop()?.wrapping_add(c.uleb()?),
            0x50..=0x6f => register(op - 0x50)?,
            0x70..=0x8f => register(op - 0x70)?.wrapping_add(c.sleb()? as u64),
            0x92 => {
                let r = u8::try_from(c.uleb()?).ok()?;
                register(r)?.wrapping_add(c.sleb()? as u64)
            }
            _ => match constant(op, &mut c) {
                Some(k) => k?,
                None => {
                    let (b, a) = (stack.pop()?, stack.pop()?);
                    binary(op, a, b)?
                }
            },
        };
        stack.push(value)?;
    }
    None
}

/// The operations that push a number. `None`: `op` is another operation; `Some(None)`: its bytes are missing.
fn constant(op: u8, c: &mut super::reader::Cursor<'_>) -> Option<Option<u64>> {
    Some(match op {
        0x03 | 0x0e | 0x0f => c.u64(),
        0x08 => c.u8().map(u64::from),
        0x09 => c.u8().map(|v| v as i8 as i64 as u64),
        0x0a => c.u16().map(u64::from),
        0x0b => c.u16().map(|v| v as i16 as i64 as u64),
        0x0c => c.u32().map(u64::from),
        0x0d => c.u32().map(|v| v as i32 as i64 as u64),
        0x10 => c.uleb(),
        0x11 => c.sleb().map(|v| v as u64),
        0x30..=0x4f => Some(u64::from(op - 0x30)),
        _ => return None,
    })
}

fn binary(op: u8, a: u64, b: u64) -> Option<u64> {
    let (sa, sb) = (a as i64, b as i64);
    let by = u32::try_from(b).ok();
    Some(match op {
        0x1a => a & b,
        0x1b => sa.checked_div(sb)? as u64,
        0x1c => a.wrapping_sub(b),
        0x1d => a.checked_rem(b)?,
        0x1e => a.wrapping_mul(b),
        0x21 => a | b,
        0x22 => a.wrapping_add(b),
        0x24 => by.and_then(|n| a.checked_shl(n)).unwrap_or(0),
        0x25 => by.and_then(|n| a.checked_shr(n)).unwrap_or(0),
        0x26 => by.and_then(|n| sa.checked_shr(n)).unwrap_or(sa >> 63) as u64,
        0x27 => a ^ b,
        0x29 => u64::from(sa == sb),
        0x2a => u64::from(sa >= sb),
        0x2b => u64::from(sa > sb),
        0x2c => u64::from(sa <= sb),
        0x2d => u64::from(sa < sb),
        0x2e => u64::from(sa != sb),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with_len(ops: &[u8]) -> Vec<u8> {
        let mut v = vec![ops.len() as u8];
        v.extend_from_slice(ops);
        v
    }

    #[test]
    fn a_plt_stub_folds_to_one_or_two_words_by_its_address() {
        // breg7+8 breg16+0 lit15 and lit11 ge lit3 shl plus: what ld writes for .plt.
        let bytes = with_len(&[0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22]);
        let eh = Section { bytes: &bytes, addr: 0 };
        assert_eq!(fold(&eh, 0, 0x1020), Some(Folded::Reg(7, 8)));
        assert_eq!(fold(&eh, 0, 0x102b), Some(Folded::Reg(7, 16)));
    }

    #[test]
    fn a_realigned_frame_folds_to_a_load() {
        let bytes = with_len(&[0x76, 0x78, 0x06]);
        assert_eq!(fold(&Section { bytes: &bytes, addr: 0 }, 0, 0), Some(Folded::Load(6, -8, 0)));
    }

    #[test]
    fn an_endless_branch_ends() {
        let bytes = with_len(&[0x2f, 0xfd, 0xff]);
        let eh = Section { bytes: &bytes, addr: 0 };
        assert_eq!(evaluate(&eh, 0, None, &mut |_| None, &mut |_| None), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
        #[test]
        fn any_bytes_are_answered_and_both_evaluators_agree(ops in proptest::collection::vec(any::<u8>(), 0..40), r in any::<u64>(), pc in any::<u64>()) {
            let bytes = with_len(&ops);
            let eh = Section { bytes: &bytes, addr: 0 };
            let memory = |at: u64| Some(at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut register = |n: u8| Some(if n == reg::RA { pc } else { r.wrapping_add(u64::from(n)) });
            let full = evaluate(&eh, 0, None, &mut register, &mut { memory });
            let folded = match fold(&eh, 0, pc) {
                Some(Folded::Const(k)) => Some(k),
                Some(Folded::Reg(n, o)) => register(n).map(|v| v.wrapping_add(o as u64)),
                Some(Folded::Load(n, o, p)) => register(n).and_then(|v| memory(v.wrapping_add(o as u64))).map(|v| v.wrapping_add(p as u64)),
                None => return Ok(()),
            };
            prop_assert_eq!(folded, full);
        }
    }
}
