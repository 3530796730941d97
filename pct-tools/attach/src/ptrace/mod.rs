//! ptrace: the fence ([`sys`]), the self-restoring signal frame ([`frame`]) and the borrowed thread ([`borrow`]).

pub mod borrow;
pub mod call;
pub mod frame;
pub mod restart;
#[expect(unsafe_code, reason = "the fence around ptrace(2) and waitpid(2)")]
pub mod sys;
