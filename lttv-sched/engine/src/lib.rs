//! Event request scheduling for trace viewers: hooks, contexts, foreground and background.
