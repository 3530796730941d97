//! The table of distinct stacks of a process: frames -> id, shared by all threads.
//!
//! A stack is a node (frame, parent's node); the file holds the nodes as `STACK` records, each a run of new
//! nodes below a known one, so that common outer parts are stored once. In private memory there are two hash
//! tables: entire stacks by the hash of their frames (what a handler asks nearly always), and nodes by
//! (parent, frame) to find the known part of a new stack ([`Table`]). Adding takes the keep lock, and who
//! does not get it puts the frames into the sample itself.
//!
//! Two stacks with the same 64-bit hash would be taken for one: for a million stacks that is one chance in 37 million.
//!
//! Signal safety: loads; stores under the keep lock; no waiting.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::record::chain::Chain;
use crate::record::log::Log;
use crate::record::table::{Table, mix};
use crate::sys::lock::Lock;
use pct_format::head::{Head, kind};

/// Places for stacks and nodes to begin with: 256 KB and 64 KB.
const STACKS: usize = 1 << 14;
const NODES: usize = 1 << 12;
/// Nodes written per record: bounds the time the keep lock is held, and fits any segment.
const RUN: usize = 128;

/// The tables. All zeros is empty.
#[derive(Debug)]
#[repr(C)]
pub struct Stacks {
    next: AtomicU32,
    /// Each sample looks into it: the places of a key are in one or two cache lines.
    stacks: Table<STACKS, 4>,
    nodes: Table<NODES, 16>,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash of the frames; never 0.
#[inline(always)]
fn hash(frames: &[u64]) -> u64 {
    // Two independent lanes: the multiplications overlap.
    let (pairs, odd) = frames.as_chunks::<2>();
    let (mut a, mut b) = (GOLDEN, !GOLDEN);
    for [x, y] in pairs {
        a = (a ^ x).wrapping_mul(GOLDEN).rotate_left(29);
        b = (b ^ y).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(31);
    }
    for x in odd {
        a = (a ^ x).wrapping_mul(GOLDEN).rotate_left(29);
    }
    mix(a ^ b.rotate_left(17) ^ frames.len() as u64).max(1)
}

#[inline(always)]
fn node_key(parent: u32, frame: u64) -> u64 {
    mix(frame ^ u64::from(parent).wrapping_mul(GOLDEN)).max(1)
}

impl Stacks {
    /// Unmaps what it has beside itself. Nobody is in the session any more.
    pub fn unmap(&self) {
        self.stacks.unmap();
        self.nodes.unmap();
    }

    /// Makes sure of 270,000 places for stacks and 1.1 million for nodes, because no more can be had from now on; one
    /// thread at a time.
    pub fn secure(&self) {
        self.stacks.secure(1);
        self.nodes.secure(2);
    }

    /// The id of a stack: frame words, innermost caller first ([`pct_format::record::Frame::encode`]). 0 for no frames.
    ///
    /// `None`: it is new and cannot be added now (lock taken, table or file full): the sample carries the
    /// frames itself.
    #[inline(always)]
    #[must_use]
    pub fn id(&self, log: &Log, keep: &Lock<Chain>, may_call: bool, frames: &[u64]) -> Option<u32> {
        if frames.is_empty() {
            return Some(0);
        }
        let key = hash(frames);
        match self.stacks.find(key) {
            Some(id) => Some(id),
            None => self.add(log, &mut *keep.try_lock()?, may_call, frames, key),
        }
    }

    /// The id of a stack that is in the table.
    #[must_use]
    pub fn known(&self, frames: &[u64]) -> Option<u32> {
        if frames.is_empty() { Some(0) } else { self.stacks.find(hash(frames)) }
    }

    /// As [`Stacks::id`], for who holds the lock. `None`: there is no room.
    #[must_use]
    pub fn define(&self, log: &Log, keep: &mut Chain, may_call: bool, frames: &[u64]) -> Option<u32> {
        self.known(frames).or_else(|| self.add(log, keep, may_call, frames, hash(frames)))
    }

    #[cold]
    #[inline(never)]
    fn add(&self, log: &Log, keep: &mut Chain, may_call: bool, frames: &[u64], key: u64) -> Option<u32> {
        // From the outermost frame inwards as far as the nodes are known.
        let mut parent = 0;
        let mut known = 0;
        for frame in frames.iter().rev() {
            match self.nodes.find(node_key(parent, *frame)) {
                Some(id) => parent = id,
                None => break,
            }
            known += 1;
        }
        let mut rest = frames.get(..frames.len() - known)?;
        let mut words = [0u64; RUN + 2];
        while !rest.is_empty() {
            let run = rest.len().min(RUN);
            let (inner, outer) = rest.split_at_checked(rest.len() - run)?;
            let first = self.next.load(Ordering::Relaxed).checked_add(1)?;
            let last = first.checked_add(run as u32 - 1)?;
            let (head, body) = words.split_first_chunk_mut::<2>()?;
            *head =
                [Head { kind: kind::STACK, words: run as u16 + 2, arg: parent }.encode(), u64::from(first)];
            for (place, frame) in body.iter_mut().zip(outer.iter().rev()) {
                *place = *frame;
            }
            // The file first: an id that handlers can find is always defined before the samples that use it.
            if !keep.append(log, may_call, words.get(..run + 2)?, &[]) {
                return None;
            }
            self.next.store(last, Ordering::Relaxed);
            for (id, frame) in (first..).zip(outer.iter().rev()) {
                // A node without a place is defined again when it is met again: costs room, not truth.
                self.nodes.insert(node_key(parent, *frame), id, may_call);
                parent = id;
            }
            rest = inner;
        }
        self.stacks.insert(key, parent, may_call);
        Some(parent)
    }
}
