//! Unwind data of real objects, whole and damaged. `live::` interrupts running code by signals; the others are exact.

mod emulated;
mod hostile;
mod tables;

mod live {
    mod interrupted;
}
