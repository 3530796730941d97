//! Waits for futexes that the program asks the kernel for itself: Rust's standard library, and calls of `syscall`.

use std::process::Command;

use pct_kit::harm::harm;
use pct_tests::pct::{binary, run};
use pct_tests::victims::victim;
use pct_tests::waits::{cells_are_found, each_is_found, reported, run_mode};

/// Who had the mutex while another thread slept because of it is proved.
#[test]
fn a_mutex_of_rust_has_its_holder() {
    let (_keep, truth, found, waits) = run_mode("rust_waits.rs", "mutex");
    assert_eq!(truth.len(), 1);
    each_is_found(&truth, &found, &waits);
}

/// The third thread waits for the first, and then for the second, which was woken before it.
#[test]
fn a_wait_for_a_mutex_of_rust_is_cut_at_the_changes_of_hands() {
    let (_keep, truth, found, waits) = run_mode("rust_waits.rs", "queue");
    assert_eq!(truth.len(), 3);
    cells_are_found(&truth, &found, &waits);
}

#[test]
fn rust_s_conditions_and_parked_threads_name_who_woke_them() {
    let (r, truth, found, waits) = run_mode("rust_waits.rs", "work");
    assert_eq!(truth.len(), 6);
    each_is_found(&truth, &found, &waits);
    // What is known of each says in which table it is.
    let text = Command::new(binary()).args(["report", "--wait", "--by", "function"]).arg(&r.dir).output();
    let text = text.expect("it starts");
    let text = String::from_utf8_lossy(&text.stdout);
    let table = |head: &str| text.split("\n\n").find(|part| part.starts_with(head)).unwrap_or_default();
    assert!(table("Waits for locks").contains("waits_to_read"), "{text}");
    assert!(table("Waits for work").contains("waits_for_condition"), "{text}");
    assert!(table("Waits for futexes").contains("parks"), "{text}");
}

/// What odd calls return, cancellation, forks: as bare.
#[test]
fn a_program_with_odd_futex_calls_behaves_as_bare() {
    let program = victim("futexes.c");
    let bare = Command::new(&program).output().expect("it starts");
    assert!(bare.status.success() && bare.stdout.len() > 500, "{bare:?}");
    let r = run(&["--wait", "--no-report"], &[program.to_str().expect("a path")]);
    if r.unharmed().as_bytes() != bare.stdout {
        harm(&format!("{}\nbare: {}", r.stdout(), String::from_utf8_lossy(&bare.stdout)));
    }
    let (seconds, waits) = reported(&r.dir);
    let count = |function: &str| waits.get(&(function.to_owned(), "futex".to_owned())).copied();
    assert_eq!(count("is_cancelled"), Some(3.0), "{waits:?}");
    assert_eq!(count("is_interrupted"), Some(1.0), "{waits:?}");
    // Whoever was moved to another futex was woken there: who did it is not known, and nobody is named.
    let by = |waiter: &str| -> Vec<String> {
        let of = seconds.iter().filter(|((of, _, _), s)| of == waiter && **s > 0.0);
        of.map(|((_, _, holder), _)| holder.clone()).filter(|holder| holder != "hand-over").collect()
    };
    assert_eq!(by("waits_and_moves"), ["-"], "{seconds:?}");
    assert_eq!(by("waits_for_bit"), ["main"], "{seconds:?}");
}
