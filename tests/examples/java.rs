//! How good are the Java stacks of runs of `victims/Truth.java`? `cargo run -p pct-tests --example java -- FILE...`

fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).expect("readable");
        let counts = pct_tests::java::count(&pct_tests::java::stacks(&bytes));
        let share = 100.0 * counts.whole as f64 / counts.java.max(1) as f64;
        println!(
            "{path}: {} Java samples, {share:.3} % whole, {} links, {} illegal, lines {:?}, {} not written",
            counts.java,
            counts.links,
            counts.illegal.values().sum::<u64>(),
            counts.lines,
            counts.not_written,
        );
        println!("  {:?}", counts.innermost);
        for (what, list) in [("illegal", &counts.illegal), ("torn", &counts.torn)] {
            let mut list: Vec<_> = list.iter().collect();
            list.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
            for (name, n) in list.into_iter().take(30) {
                println!("  {what} {n:6} {name}");
            }
        }
    }
}
