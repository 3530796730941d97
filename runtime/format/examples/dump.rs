//! Prints the contents of a .pct file, without symbols: `cargo run -p pct-format --example dump -- FILE...`

use pct_format::heap::account;
use pct_format::{CounterArea, EntryState, File, HeapSum, Index};

fn main() {
    for path in std::env::args().skip(1) {
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) => {
                eprintln!("{path}: {e}");
                continue;
            }
        };
        let file = match File::parse(&bytes) {
            Ok(file) => file,
            Err(e) => {
                eprintln!("{path}: {e}");
                continue;
            }
        };
        let h = file.header();
        let clock = |c: Option<pct_format::Clock>| c.map_or("?", |c| c.name());
        println!("{path}: {} bytes, pid {} of {}, {}", bytes.len(), h.pid(), h.ppid(), h.state().name());
        println!(
            "  clock {} (asked {}), {} Hz (asked {}), period {} ns, ticks {} Hz, time {}",
            clock(h.clock_got()),
            clock(h.clock_asked()),
            h.rate_got_hz(),
            h.rate_asked_hz(),
            h.period_ns(),
            h.tick_hz(),
            h.time_source().name()
        );
        let argv: Vec<_> = h.argv().map(String::from_utf8_lossy).collect();
        println!("  argv {argv:?}");
        let period = h.period_ns() as f64 / 1e9;
        if let Some((user, system)) = h.cpu_ns() {
            println!("  CPU: user {:.3} s, system {:.3} s", user as f64 / 1e9, system as f64 / 1e9);
        }
        let index = Index::new(&file);
        for thread in &index.threads {
            let (mut n, mut user, mut system, mut stacks) = (0u64, 0, 0, 0u64);
            for s in index.samples(thread) {
                n += 1;
                *if s.system { &mut system } else { &mut user } += s.weight;
                stacks += u64::from(!matches!(s.stack, pct_format::Stack::None));
            }
            println!(
                "  thread {} {:?}: {n} samples ({stacks} with stacks), user {:.3} s, system {:.3} s, overwritten {:?}",
                thread.tid,
                thread.name,
                user as f64 * period,
                system as f64 * period,
                thread.overwritten,
            );
        }
        println!(
            "  {} regions, {} stacks, {} marks",
            index.regions.len(),
            index.stacks.len() - 1,
            index.marks.len()
        );
        let areas: Vec<CounterArea<'_>> = file.counters().collect();
        if !areas.is_empty() {
            let sum: u64 = areas.iter().flat_map(|a| a.nonzero()).map(|(_, n)| n).sum();
            let word = |at| h.header_word(at);
            use pct_format::layout::header as at;
            println!(
                "  {} counter areas: weight {sum}, unknown {}, uncertain {}, system {}, samples {}",
                areas.len(),
                word(at::UNKNOWN),
                word(at::UNCERTAIN),
                word(at::COUNTED_SYSTEM),
                word(at::COUNTED)
            );
        }
        heap(&file, &index);
        for loss in h.losses() {
            println!("  lost: {}: {} samples, weight {}", loss.cause.name(), loss.samples, loss.weight);
        }
    }
}

/// Allocation samples: the account, what is live, and the stacks that allocated most.
fn heap(file: &File<'_>, index: &Index<'_>) {
    let h = file.header();
    let (Some(interval), Some(all)) = (h.alloc_interval(), file.heap_account()) else { return };
    let estimate = |at| all.estimate(at).unwrap_or(f64::NAN);
    println!(
        "  allocations: interval {interval} x 2^{}, malloc served by {} {}",
        all.count(account::SHIFT),
        h.alloc_server().name(),
        String::from_utf8_lossy(h.alloc_server_path())
    );
    println!(
        "  {} samples: {:.0} bytes (+- {:.0}), {:.0} blocks; {} freed; live {:.0}, peak {:.0} bytes; own tables {} bytes",
        all.count(account::SAMPLES),
        estimate(account::BYTES),
        estimate(account::BYTES_VARIANCE).sqrt(),
        estimate(account::BLOCKS),
        all.count(account::FREED_SAMPLES),
        estimate(account::LIVE_BYTES),
        estimate(account::PEAK_BYTES),
        all.count(account::OWN_BYTES)
    );
    for (name, at) in [
        ("rate rises", account::RATE_RISES),
        ("rises of busy sites", account::SITE_RISES),
        ("left out of busy sites", account::LEFT_OUT),
        ("thinnings", account::THINNINGS),
        ("untracked", account::UNTRACKED),
        ("missed frees", account::MISSED_FREES),
        ("without stack", account::WITHOUT_STACK),
        ("stacks taken", account::STACKS_TAKEN),
        ("without sum", account::WITHOUT_SUM),
        ("early calls", account::EARLY_CALLS),
        ("inherited", account::INHERITED),
        ("shared words", account::SHARED),
    ] {
        if all.count(at) != 0 {
            println!("    {name}: {}", all.count(at));
        }
    }
    let (mut live, mut ghosts, mut bad) = (0, 0, 0);
    for entry in file.heap_tables().flat_map(|table| table.entries()) {
        match entry {
            Ok(entry) if entry.state == EntryState::Ghost => ghosts += 1,
            Ok(_) => live += 1,
            Err(_) => bad += 1,
        }
    }
    println!("  live table: {live} live, {ghosts} freed since the peak, {bad} not readable");
    let mut sums: Vec<HeapSum> = file.heap_sums().flat_map(|sums| sums.sums()).flatten().collect();
    sums.sort_by(|a, b| b.bytes.0.total_cmp(&a.bytes.0));
    for sum in sums.iter().take(10) {
        let frames: Vec<_> = index.stacks.frames(sum.stack).take(4).collect();
        println!("    {:.0} bytes, {} samples, {} freed: {frames:x?}", sum.bytes.0, sum.samples, sum.freed.0);
    }
}
