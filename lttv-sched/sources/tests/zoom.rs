//! Runs the example on a real trace.

#[path = "../examples/zoom.rs"]
#[expect(dead_code, reason = "its main is the example's")]
mod zoom;

/// Buckets of a picture: begin and count.
fn buckets(picture: &str) -> Vec<(i64, u64)> {
    let row = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        (words.next().unwrap().parse().unwrap(), words.next().unwrap().parse().unwrap())
    };
    picture.lines().map(row).collect()
}

#[test]
fn zooming_into_a_bucket_shows_its_events_and_out_again_all() {
    let Some(dir) = pct_kit::real("ctf") else { return };
    let trace = dir.join("bt/succeed__lttng-tracefile-rotation__kernel");
    for name in [None, Some("sched_switch".to_string())] {
        let mut out = Vec::new();
        zoom::run(&trace, name.clone(), "3\n-\n-\n-\n-\n-\nq\n".as_bytes(), &mut out).unwrap();
        let all = buckets(&String::from_utf8(out).unwrap());
        let (whole, zoomed, last) = (&all[..16], &all[16..32], &all[all.len() - 16..]);
        let sum = |buckets: &[(i64, u64)]| buckets.iter().map(|(_, count)| count).sum::<u64>();
        // The counts that expected/*.stats.json has for this trace.
        assert_eq!(sum(whole), if name.is_some() { 4687 } else { 12_305 });
        assert_eq!((zoomed[0].0, sum(zoomed)), whole[3]);
        assert_eq!(last, whole);
    }
}
