//! CTF 1.8 and CTF 2 traces as an event source.
