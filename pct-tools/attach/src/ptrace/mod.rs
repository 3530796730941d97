//! ptrace: the fence ([`sys`]), the self-restoring signal frame ([`frame`]) and the borrowed thread ([`borrow`]).

mod bell;
pub mod borrow;
pub mod call;
pub mod entry;
pub mod error;
pub(crate) mod execute_again;
pub mod frame;
pub mod linger;
mod release;
pub mod restart;
mod scratch;
pub mod stack;
pub mod step;
pub mod stop;
#[expect(unsafe_code, reason = "the fence around ptrace(2) and waitpid(2)")]
pub mod sys;
