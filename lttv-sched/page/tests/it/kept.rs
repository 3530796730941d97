//! What one run has computed is there at once in the next, as long as the trace is the same.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use lttv_ctf::Folder;
use lttv_engine::kept::Kept;
use lttv_engine::time::Time;
use lttv_modules::timeline::tile::TileId;
use lttv_page::Store;
use lttv_page::store::Asker;
use pct_kit::kernel_trace::{Shape, write};

use crate::real::opened;
use crate::recorded::whole;

/// A folder that tells what was read from it and written to it.
struct Telling {
    folder: Folder,
    tell: Mutex<Sender<(&'static str, String)>>,
}

impl Telling {
    fn tell(&self, how: &'static str, what: &str) {
        // A test that has seen enough no longer listens.
        let _ = self.tell.lock().expect("whole").send((how, what.into()));
    }
}

impl Kept for Telling {
    fn read(&self, key: &[u8], what: &str) -> Option<Vec<u8>> {
        let found = Kept::read(&self.folder, key, what)?;
        self.tell("read", what);
        Some(found)
    }
    fn write(&self, key: &[u8], what: &str, bytes: &[u8]) {
        Kept::write(&self.folder, key, what, bytes);
        self.tell("wrote", what);
    }
}

fn all_tiles(store: &Store) -> Vec<lttv_modules::timeline::Tile> {
    let (from, to) = store.span();
    let mut tiles = Vec::new();
    for level in [7, 14, 18, 22, 26, 30] {
        let (first, last) = (TileId::holding(Time(from), level), TileId::holding(Time(to), level));
        let ids = (first.index()..=last.index()).step_by(7).take(12);
        for id in ids.map(|index| TileId::new(level, index).expect("a tile")) {
            let mut tile = store.tile(0, id, Asker::default()).expect("nobody has moved on");
            while !tile.is_final {
                tile = store.tile(0, id, Asker::default()).expect("nobody has moved on");
            }
            tiles.push(tile);
        }
    }
    tiles
}

/// All files of a trace look as if they had been written so long ago.
fn written_before(dir: &Path, ago: Duration) {
    for file in std::fs::read_dir(dir).expect("a folder").flatten().filter(|f| f.path().is_file()) {
        let file = std::fs::File::options().append(true).open(file.path()).expect("opens");
        file.set_modified(SystemTime::now() - ago).expect("is set");
    }
}

#[test]
fn a_trace_that_was_seen_before_is_whole_at_once_and_a_changed_one_is_read_anew() {
    let dir = tempfile::tempdir().expect("a folder");
    let trace = dir.path().join("trace");
    let truth =
        write(&trace, &Shape { octets: 12 << 20, cpus: 3, threads: 20, seed: 5 }).expect("is written");
    written_before(&trace, Duration::from_secs(3600));
    let (tell, told) = channel();
    let folder = Folder::new(&dir.path().join("cache"));
    let kept: Arc<dyn Kept> = Arc::new(Telling { folder, tell: Mutex::new(tell) });
    let shown = || {
        let with = |mut shown: lttv_page::Shown| {
            shown.kept = Some(kept.clone());
            shown
        };
        opened(&trace).into_iter().map(with).collect()
    };

    let first = whole(shown());
    let wrote = |what: &str| ("wrote", what.to_owned());
    assert_eq!((told.recv(), told.recv()), (Ok(wrote("timeline")), Ok(wrote("states"))));

    let second = Store::new(shown()).expect("begins");
    assert!(second.is_whole(), "no event has been read");
    let read = |what: &str| ("read", what.to_owned());
    assert_eq!((told.recv(), told.recv()), (Ok(read("timeline")), Ok(read("states"))));
    let timeline = second.timeline(0).expect("kept");
    assert_eq!(timeline.events(), (truth.total(), 0));
    assert_eq!(second.lanes(0), first.lanes(0));
    assert!(timeline.base() > 7, "some of the tiles are finer than what is kept");
    assert_eq!(all_tiles(&second), all_tiles(&first));

    written_before(&trace, Duration::from_secs(1800));
    let third = whole(shown());
    assert_eq!((told.recv(), told.recv()), (Ok(wrote("timeline")), Ok(wrote("states"))), "it was computed");
    drop(third);
}
