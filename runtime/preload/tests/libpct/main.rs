//! The finished libpct.so: what is in it, and what it does to real programs.
//!
//! The library is the one that `pct` carries (profile `preload`). Programs are compiled from the C files beside this
//! one with the C compiler; without one those tests say so and pass.
//!
//! `live::` runs programs under the library. The others are exact: they look into the object.

mod object_file;
mod run;

mod live {
    mod actions;
    mod alloc;
    mod continuous;
    mod filters;
    mod hostile;
    mod itself;
    mod numbers;
    mod programs;
    mod stacks;
    mod start;
    mod tracers;
    mod traps;
}
