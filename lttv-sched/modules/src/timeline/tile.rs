//! Arithmetic of tiles: buckets of 2^L ns, 256 of them in a tile, at places that do not depend on any trace.

use lttv_engine::time::Time;

/// Finest level: buckets of 8 ns. From here up, tile numbers and offsets in a tile are exact as numbers of JSON.
pub const FINEST: u32 = 3;
/// Coarsest level: buckets of 9.8 hours.
pub const COARSEST: u32 = 45;
/// Buckets of a tile, as a power of two.
pub const TILE_BITS: u32 = 8;
/// Buckets of a tile.
pub const BUCKETS: i64 = 1 << TILE_BITS;

/// Tile `index` of level `level`: [index * 2^(level+8), (index+1) * 2^(level+8)) ns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TileId {
    level: u32,
    index: i64,
}

impl TileId {
    /// The tile, if there is one: the level must be in range and some time must lie in the tile.
    pub fn new(level: u32, index: i64) -> Option<TileId> {
        if !(FINEST..=COARSEST).contains(&level) {
            return None;
        }
        let shift = level + TILE_BITS;
        let inside = (i64::MIN >> shift..=i64::MAX >> shift).contains(&index);
        inside.then_some(TileId { level, index })
    }

    /// The tile of a level in which a time lies. A level out of range is taken for the nearest one in it.
    pub fn holding(t: Time, level: u32) -> TileId {
        let level = level.clamp(FINEST, COARSEST);
        TileId { level, index: t.ns() >> (level + TILE_BITS) }
    }

    /// Its level.
    pub fn level(self) -> u32 {
        self.level
    }

    /// Its number.
    pub fn index(self) -> i64 {
        self.index
    }

    /// Its first bucket.
    pub fn first_bucket(self) -> i64 {
        self.index << TILE_BITS
    }

    /// Its first time.
    pub fn start(self) -> Time {
        Time(self.index << (self.level + TILE_BITS))
    }

    /// The end of its time, which does not belong to it; the greatest time there is for the last tile.
    pub fn end(self) -> Time {
        self.start().saturating_add(1 << (self.level + TILE_BITS))
    }
}

/// Width of a bucket of a level in ns.
pub fn bucket_ns(level: u32) -> i64 {
    1 << level.min(62)
}

/// The finest level at which `span_ns` has at most `pixels` whole buckets.
pub fn level_for(span_ns: u64, pixels: u64) -> u32 {
    (FINEST..COARSEST).find(|level| span_ns >> level <= pixels.max(1)).unwrap_or(COARSEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_lies_in_its_tile_and_halves_make_the_tile_above(t in any::<i64>(), level in FINEST..COARSEST) {
            let tile = TileId::holding(Time(t), level);
            prop_assert!(tile.start().ns() <= t);
            prop_assert!(t < tile.end().ns() || tile.end() == Time::MAX);
            let above = TileId::holding(Time(t), level + 1);
            prop_assert_eq!(above.index(), tile.index() >> 1);
            prop_assert_eq!(TileId::new(level, tile.index()), Some(tile));
        }
    }

    #[test]
    fn levels_follow_the_view_and_have_limits() {
        assert_eq!(level_for(1600, 1600), 3);
        assert_eq!(level_for(1_000_000_000, 1600), 20);
        assert_eq!(level_for(1_000_000_000 >> 20 << 20, 953), 20);
        assert_eq!((level_for(0, 0), level_for(u64::MAX, 1)), (3, 45));
        for (level, index) in [(2, 0), (46, 0), (45, 1 << 11), (45, -(1 << 11)), (3, i64::MAX)] {
            assert_eq!(TileId::new(level, index), None, "{level} {index}");
        }
        assert!(TileId::new(45, (1 << 10) - 1).is_some_and(|tile| tile.end() == Time::MAX));
    }
}
