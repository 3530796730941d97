//! What node 20 publishes of itself, for tests and for the fuzz target of the same code.

use pct_languages::v8::Layout;

/// The layout that node 20 publishes.
pub(crate) const NODE_20: Layout = Layout {
    version: 11 << 16 | 3,
    map_type: 12,
    function_shared: 24,
    shared_name: 16,
    shared_script: 32,
    shared_counts: 40,
    shared_flags: 48,
    script_source: 8,
    script_name: 16,
    script_id: 64,
    string_length: 12,
    octets: 16,
    wide: 16,
    cons: (16, 24),
    sliced: (16, 24),
    thin: 16,
    external: 24,
    scope_head: 3,
    functions: (2066, 2082),
    shared_type: 262,
    scope_type: 261,
    script_type: 167,
};
