//! A cache of unwind rules, shared by all threads of the process.
//!
//! A slot has two words: the rule, and a check word computed from the rule, the address and the set's generation.
//! Threads write the two words without a lock. A reader recomputes the check word, so a slot with words of two writers
//! matches no key and is a miss. A new set of modules has a new generation, so rules of older sets no longer match.
//!
//! Signal safety: relaxed atomics only. The orderings need not be stronger: the two words are checked against
//! each other, and a rule says nothing about other memory.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::rule::Rule;

const BITS: u32 = 12;
const SLOTS: usize = 1 << BITS;
const _: () = assert!(size_of::<Cache>() == 64 << 10, "the cache must stay within a second-level cache");

#[derive(Debug)]
#[repr(C, align(16))]
struct Slot {
    rule: AtomicU64,
    check: AtomicU64,
}

/// The table of rules.
#[derive(Debug)]
pub struct Cache {
    slots: [Slot; SLOTS],
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

/// Spreads every bit of `v` over the word (a step of splitmix64).
#[inline(always)]
const fn mix(v: u64) -> u64 {
    let v = (v ^ (v >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    v ^ (v >> 29)
}

impl Cache {
    /// An empty cache, usable in a static.
    pub const fn new() -> Cache {
        Cache { slots: [const { Slot { rule: AtomicU64::new(0), check: AtomicU64::new(0) } }; SLOTS] }
    }

    #[inline(always)]
    fn slot(&self, pc: u64) -> Option<&Slot> {
        let place = pc.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS);
        self.slots.get(place as usize & (SLOTS - 1))
    }

    #[inline(always)]
    fn check(generation: u64, pc: u64, rule: u64) -> u64 {
        mix(rule) ^ pc ^ generation.wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    /// The rule for `pc` in the set with this generation, or [`Rule::EMPTY`].
    #[inline(always)]
    pub fn get(&self, generation: u64, pc: u64) -> Rule {
        let Some(slot) = self.slot(pc) else { return Rule::EMPTY };
        let rule = slot.rule.load(Relaxed);
        if slot.check.load(Relaxed) == Self::check(generation, pc, rule) {
            Rule::from_bits(rule)
        } else {
            Rule::EMPTY
        }
    }

    /// Stores a rule. It replaces an older one in the same slot.
    pub fn remember(&self, generation: u64, pc: u64, rule: Rule) {
        if let Some(slot) = self.slot(pc) {
            slot.rule.store(rule.bits(), Relaxed);
            slot.check.store(Self::check(generation, pc, rule.bits()), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::RuleKind;
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_gives_back_what_was_put_or_nothing(ops in proptest::collection::vec((0u64..3, 0u64..40_000, 1u64..11), 1..400)) {
            let cache = Box::new(Cache::new());
            let mut truth = HashMap::new();
            for (generation, pc, kind) in ops {
                let rule = Rule::from_bits(kind | pc << 20);
                let before = cache.get(generation, pc);
                prop_assert!(before == Rule::EMPTY || truth.get(&(generation, pc)) == Some(&before));
                cache.remember(generation, pc, rule);
                truth.insert((generation, pc), rule);
                prop_assert_eq!(cache.get(generation, pc), rule);
            }
        }
    }

    #[test]
    fn an_empty_cache_knows_nothing() {
        let cache = Box::new(Cache::new());
        assert!((0..100_000).all(|pc| cache.get(0, pc).kind() == RuleKind::Empty));
    }

    #[test]
    fn writers_in_a_race_never_make_a_rule_that_nobody_wrote() {
        let cache = Box::new(Cache::new());
        // Few addresses, all in few slots. The rule is computed from the address.
        let rule = |pc: u64| Rule::from_bits(mix(pc) & !15 | 1);
        std::thread::scope(|s| {
            for t in 0..4u64 {
                let cache = &cache;
                s.spawn(move || {
                    for i in 0..200_000u64 {
                        let pc = mix(i * 7 + t) % 64 * 0x1000;
                        let got = cache.get(1, pc);
                        assert!(got == Rule::EMPTY || got == rule(pc));
                        cache.remember(1, pc, rule(pc));
                    }
                });
            }
        });
    }
}
