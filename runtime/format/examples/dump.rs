//! Prints what a .pct file holds, without symbols: `cargo run -p pct-format --example dump -- FILE...`

use pct_format::{CounterArea, File, Index};

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
            let word = |at| h.word(at);
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
        for loss in h.losses() {
            println!("  lost: {}: {} samples, weight {}", loss.cause.name(), loss.samples, loss.weight);
        }
    }
}
