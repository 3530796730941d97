//! Names and stacks of programs that the machine's own compiler made. All tests are exact.

mod declarations;
mod objects;
mod oracle;
mod scopes;
mod unwind;
