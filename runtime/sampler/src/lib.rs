//! The sampler core that runs inside a profiled program.
