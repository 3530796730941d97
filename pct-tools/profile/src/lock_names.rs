//! Functions that only lead to a lock, by their names: they work for whoever calls them, and the caller says what the
//! lock is for.

use pct_format::WaitKind;

/// Beginnings of the names of functions that only lead to a lock: the caller says more.
const LEAD_TO_LOCKS: &[&str] = &[
    "__gthread_",
    "std::mutex::",
    "std::__mutex_base",
    "std::recursive_mutex::",
    "std::timed_mutex::",
    "std::shared_mutex::",
    "std::__shared_mutex_pthread::",
    "std::lock_guard<",
    "std::unique_lock<",
    "std::shared_lock<",
    "std::scoped_lock<",
    "std::condition_variable",
    "std::__condvar",
    "std::thread::join",
    "std::__glibcxx_rwlock_",
    "std::__atomic_futex_unsigned_base",
    "std::__atomic_wait",
    "std::__detail::__platform_",
    "std::__detail::__waiter",
    // Rust's.
    "std::sys",
    "<std::sys",
    "std::sync::",
    "<std::sync::",
    "std::thread::park",
    "std::thread::functions::park",
    "<std::thread::",
    "std::thread::current::",
    "std::thread::Thread::unpark",
    "std::thread::thread::Thread::",
    "std::thread::local::",
    "std::thread::scoped::",
    "core::mem::drop",
    "core::ptr::drop_in_place",
    "core::ptr::drop_glue",
    "core::ops::function::",
    "<core::",
    "alloc::sync::Arc<",
    "<alloc::",
    "parking_lot",
    "<parking_lot",
    "lock_api::",
    "<lock_api::",
];

/// Functions of the C library that wait, and for what. Its own names for them have underscores before them.
const OF_LIBC: &[(&str, WaitKind)] = &[
    ("pthread_mutex_lock", WaitKind::Mutex),
    ("pthread_mutex_timedlock", WaitKind::Mutex),
    ("pthread_mutex_clocklock", WaitKind::Mutex),
    ("pthread_rwlock_rdlock", WaitKind::ReadLock),
    ("pthread_rwlock_timedrdlock", WaitKind::ReadLock),
    ("pthread_rwlock_clockrdlock", WaitKind::ReadLock),
    ("pthread_rwlock_wrlock", WaitKind::WriteLock),
    ("pthread_rwlock_timedwrlock", WaitKind::WriteLock),
    ("pthread_rwlock_clockwrlock", WaitKind::WriteLock),
    ("pthread_cond_wait", WaitKind::Condition),
    ("pthread_cond_timedwait", WaitKind::Condition),
    ("pthread_cond_timedwait64", WaitKind::Condition),
    ("pthread_cond_clockwait", WaitKind::Condition),
    ("sem_wait", WaitKind::Semaphore),
    ("sem_timedwait", WaitKind::Semaphore),
    ("sem_clockwait", WaitKind::Semaphore),
    ("sem_wait_slow64", WaitKind::Semaphore),
    ("pthread_barrier_wait", WaitKind::Barrier),
    ("pthread_join", WaitKind::Join),
    ("pthread_timedjoin_np", WaitKind::Join),
    ("pthread_clockjoin_np", WaitKind::Join),
    ("pthread_clockjoin_ex", WaitKind::Join),
];

/// What a function of the C library waits for; `None`: it does not wait for other threads.
pub(crate) fn kind_in_libc(name: &str) -> Option<WaitKind> {
    let name = name.strip_prefix("__GI_").unwrap_or(name).trim_start_matches('_');
    let name = name.strip_prefix("new_").unwrap_or(name);
    let name = name.split('@').next().unwrap_or(name);
    OF_LIBC.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// Whether a function of this name only leads to a lock.
pub(crate) fn only_leads(name: &str) -> bool {
    LEAD_TO_LOCKS.iter().any(|start| name.starts_with(start))
}

/// Beginnings of the names of functions of runtimes that only lead to a lock. Before them stands the beginning of the
/// name of the object that they are in (empty: any).
const RUNTIMES_LEAD_TO_LOCKS: &[(&str, &[&str])] = &[
    (
        "libjvm",
        &[
            "os::Platform",
            "PlatformMonitor::",
            "PlatformMutex::",
            "PlatformEvent::",
            "Monitor::",
            "Mutex::",
            "MonitorLocker::",
            "MutexLocker",
            "Semaphore::",
            "PosixSemaphore::",
            "LinuxWaitBarrier::",
            "WaitBarrier",
            "LinuxSemaphore::",
        ],
    ),
    (
        "",
        &[
            "PyCOND_",
            "PyMUTEX_",
            "uv_mutex_",
            "uv_cond_",
            "uv_rwlock_",
            "uv_sem_",
            "uv__sem_",
            "uv_barrier_",
            "uv_thread_join",
            "node::LibuvMutexTraits::",
            "node::MutexBase<",
            "node::ConditionVariableBase<",
            "v8::base::Mutex::",
            "v8::base::RecursiveMutex::",
            "v8::base::ConditionVariable::",
            "v8::base::Semaphore::",
        ],
    ),
];

/// Whether a function of this name, in an object with this one, only leads to a lock, in a program or in a runtime.
pub(crate) fn only_leads_in_runtime(object: &str, name: &str) -> bool {
    let begins = |names: &[&str]| names.iter().any(|start| name.starts_with(start));
    only_leads(name)
        || RUNTIMES_LEAD_TO_LOCKS.iter().any(|(of, names)| object.starts_with(of) && begins(names))
}
