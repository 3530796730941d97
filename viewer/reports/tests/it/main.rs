//! Pages of profiles: of made-up programs and of the real one. All of it is exact; nothing here is live.

mod feedback;
mod hostile;
mod recursion;
mod sample;
mod top;
