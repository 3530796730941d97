//! `_argv`: the argument vector, found from `environ` alone.
//!
//! A library that is preloaded, dlopened or injected has no `main`; musl passes constructors no arguments.
//! Linux lays the vectors out as `argc, argv[0..argc], NULL, envp[..], NULL, auxv`, the strings behind them,
//! packed. So `environ[-1]` is argv's NULL, `environ[-2]` the last argument; walking down from there, words
//! that point into the string area in falling order are arguments. Memory is read through [`Memory`], so that
//! the layouts of other systems, and moved or overwritten vectors, are tested on made ones.
//!
//! Never reads outside of what is valid: the walk ends at the first word that is no plausible argument, and the word
//! under `argv[0]` (argc, a small number) is never one.

/// Words and bytes of a process by address.
pub trait Memory {
    /// Word at `address`, `None` when it cannot be read.
    fn read_word(&self, address: u64) -> Option<u64>;
    /// Byte at `address`.
    fn byte(&self, address: u64) -> Option<u8>;
}

/// The argument vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argv {
    /// Address of `argv[0]`'s word.
    pub vector: u64,
    /// Number of arguments.
    pub count: u64,
}

/// Values below this are no pointers (the kernel's mmap_min_addr).
const LOWEST_POINTER: u64 = 65536;
/// Longest a single argument string may be in the reversed layout, where only distance bounds it.
const LONGEST: u64 = 6 << 20;
/// More arguments than the kernel's limit for strings allows.
const MOST: u64 = 1 << 22;

/// Finds the vector that lies below `environ`.
///
/// `None`: no environment, or one that was moved (`setenv` puts it on the heap) or replaced, or argc is 0.
#[must_use]
pub fn below_environ(memory: &impl Memory, environ: u64) -> Option<Argv> {
    if environ == 0 || !environ.is_multiple_of(8) || environ < LOWEST_POINTER {
        return None;
    }
    if memory.read_word(environ - 8)? != 0 {
        return None;
    }
    let last = memory.read_word(environ - 16)?;
    if last < LOWEST_POINTER {
        // argc = 0: the word is argc itself.
        return None;
    }
    let (vector_end, last_env) = end_of(memory, environ)?;
    let reversed = last < environ;
    // Where slots may lie at the lowest: known only if the strings lie below the vectors.
    let lowest_slot = if reversed && last_env != 0 { after_string(memory, last_env)? } else { 0 };
    let lowest_value = if reversed { LOWEST_POINTER } else { vector_end };
    let mut slot = environ - 16;
    let mut value = last;
    let mut count = 1;
    while count < MOST {
        let Some(below) = slot.checked_sub(8).filter(|s| *s >= lowest_slot) else { break };
        let Some(word) = memory.read_word(below) else { break };
        let plausible = word >= lowest_value && word < value && (!reversed || value - word <= LONGEST);
        if !plausible {
            break;
        }
        slot = below;
        value = word;
        count += 1;
    }
    Some(sharpen(memory, slot, count))
}

/// Cuts at the first neighbours from the top that are not packed; an overwritten vector (setproctitle) has lost its
/// packing: then the fence result stands if the word under it is its count.
fn sharpen(memory: &impl Memory, vector: u64, count: u64) -> Argv {
    let fence = Argv { vector, count };
    if memory.read_word(vector - 8) == Some(count) {
        return fence;
    }
    let mut packed = 1;
    while packed < count {
        let upper = vector + 8 * (count - packed);
        let (Some(above), Some(below)) = (memory.read_word(upper), memory.read_word(upper - 8)) else {
            break;
        };
        if after_string(memory, below) != Some(above) {
            break;
        }
        packed += 1;
    }
    // The word under the packed ones must be argc; else nothing is certain but that these are strings.
    let from = vector + 8 * (count - packed);
    Argv { vector: from, count: packed }
}

/// Address after the environment's NULL, and its last string.
fn end_of(memory: &impl Memory, environ: u64) -> Option<(u64, u64)> {
    let mut at = environ;
    let mut last = 0;
    for _ in 0..MOST {
        match memory.read_word(at)? {
            0 => return Some((at + 8, last)),
            string => last = string,
        }
        at += 8;
    }
    None
}

/// Address after the NUL of the string at `at`.
fn after_string(memory: &impl Memory, at: u64) -> Option<u64> {
    for i in 0..LONGEST {
        if memory.byte(at + i)? == 0 {
            return Some(at + i + 1);
        }
    }
    None
}

/// This process's own memory. Words near the initial stack are always readable; the walk goes nowhere else.
#[derive(Clone, Copy, Debug)]
pub struct Own(());

impl Own {
    /// Reads the caller's own memory.
    ///
    /// # Safety
    /// Addresses asked for must be readable: `environ` as the loader left it, and what it leads to.
    #[must_use]
    pub unsafe fn new() -> Self {
        Own(())
    }
}

impl Memory for Own {
    fn read_word(&self, address: u64) -> Option<u64> {
        if address < LOWEST_POINTER || !address.is_multiple_of(8) {
            return None;
        }
        // SAFETY: by the promise of `new`; the address is aligned.
        Some(unsafe { (address as *const u64).read_volatile() })
    }

    fn byte(&self, address: u64) -> Option<u8> {
        if address < LOWEST_POINTER {
            return None;
        }
        // SAFETY: by the promise of `new`.
        Some(unsafe { (address as *const u8).read_volatile() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A made process image: bytes from `base`.
    struct Image {
        base: u64,
        bytes: Vec<u8>,
    }

    impl Memory for Image {
        fn read_word(&self, address: u64) -> Option<u64> {
            let at = usize::try_from(address.checked_sub(self.base)?).ok()?;
            Some(u64::from_le_bytes(self.bytes.get(at..at + 8)?.try_into().unwrap()))
        }
        fn byte(&self, address: u64) -> Option<u8> {
            let at = usize::try_from(address.checked_sub(self.base)?).ok()?;
            self.bytes.get(at).copied()
        }
    }

    /// Vectors and strings as a kernel lays them out; `reversed`: strings below the vectors.
    fn image(base: u64, argv: &[String], env: &[String], reversed: bool, under: u64) -> (Image, u64, u64) {
        let strings: Vec<u8> = argv.iter().chain(env).flat_map(|s| s.bytes().chain([0])).collect();
        let words = 1 + 1 + argv.len() + 1 + env.len() + 1;
        let pad = strings.len().next_multiple_of(16);
        let (vectors_at, strings_at) =
            if reversed { (base + pad as u64, base) } else { (base, base + 8 * words as u64 + 320) };
        let mut next = strings_at;
        let mut address = |s: &String| {
            let at = next;
            next += s.len() as u64 + 1;
            at
        };
        let mut vector = vec![under, argv.len() as u64];
        vector.extend(argv.iter().map(&mut address));
        vector.push(0);
        vector.extend(env.iter().map(&mut address));
        vector.push(0);
        let mut bytes = vec![0u8; pad + 8 * words + 320 + strings.len()];
        let mut put = |at: u64, what: &[u8]| {
            let at = (at - base) as usize;
            bytes[at..at + what.len()].copy_from_slice(what);
        };
        put(strings_at, &strings);
        for (i, word) in vector.iter().enumerate() {
            put(vectors_at + 8 * i as u64, &word.to_le_bytes());
        }
        let argv_at = vectors_at + 16;
        (Image { base, bytes }, argv_at, argv_at + 8 * (argv.len() as u64 + 1))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn made_layouts_are_found(
            argv in proptest::collection::vec("[a-z=-]{0,12}", 1..40),
            env in proptest::collection::vec("[A-Z]{1,5}=[a-z]{0,9}", 0..30),
            reversed: bool,
            low: bool,
            lurking: bool,
        ) {
            let base = if low { 0x40_0000 } else { 0x7ffd_0000_0000 };
            // A pointer into the strings right below argc must not be taken for an argument.
            let under = if lurking { base + 8 } else { 0 };
            let (image, at, environ) = image(base, &argv, &env, reversed, under);
            let found = below_environ(&image, environ);
            prop_assert_eq!(found, Some(Argv { vector: at, count: argv.len() as u64 }));
        }

        #[test]
        fn any_memory_is_walked_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0u64..400) {
            let base = 0x10_0000;
            let _ = below_environ(&Image { base, bytes }, base + (at & !7));
        }
    }

    #[test]
    fn moved_and_empty_environments_give_nothing() {
        let (mut image, _, environ) = image(0x7000_0000, &["a".into()], &["E=1".into()], false, 0);
        assert_eq!(below_environ(&image, 0), None);
        assert_eq!(below_environ(&image, 3), None);
        let at = (environ - 8 - 0x7000_0000) as usize;
        image.bytes[at] = 0x31; // a heap chunk's header
        assert_eq!(below_environ(&image, environ), None);
    }

    #[test]
    fn no_arguments_give_nothing() {
        let (image, _, environ) = image(0x7000_0000, &[], &["E=1".into()], false, 0);
        assert_eq!(below_environ(&image, environ), None);
    }

    #[test]
    fn a_title_written_over_the_arguments_keeps_the_fence_result() {
        let argv: Vec<String> = ["prog", "first", "second"].map(String::from).into();
        let (mut image, at, environ) = image(0x7000_0000, &argv, &["E=1".into()], false, 0);
        let strings = image.bytes.len() - "prog\0first\0second\0E=1\0".len();
        image.bytes[strings..strings + 16].copy_from_slice(b"prog: title    x");
        assert_eq!(below_environ(&image, environ), Some(Argv { vector: at, count: 3 }));
    }
}
