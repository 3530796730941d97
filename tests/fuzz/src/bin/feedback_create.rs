//! The search for candidates: any profile and program representation, after a number of four octets that says how long
//! the profile is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_deep::{Compensation, ProcRep};
use pct_feedback::input::Input;
use pct_feedback::message::Message;
use pct_feedback::model::BestAlgorithm;
use pct_feedback::walk::{Observer, Stopped, analyse};
use pct_feedback::{Feedback, Params, file, report};

struct Tolerant;
impl Observer for Tolerant {
    fn say(&mut self, _: Message) {}
    fn goes_on_without(&mut self, _: &Stopped) -> bool {
        true
    }
}

fuzz_target!(|octets: &[u8]| {
    let Some((len, rest)) = octets.split_first_chunk::<4>() else { return };
    let len = (u32::from_be_bytes(*len) as usize).min(rest.len());
    let (data, rep) = rest.split_at(len);
    let Ok(profile) = pct_deep::load(data, Compensation::Exact) else { return };
    let Ok(rep) = ProcRep::new(rep.to_vec()) else { return };
    let params = Params {
        clique_threshold: 10,
        call_site_threshold: 10,
        sparking_delay: 1,
        intermodule: true,
        best: BestAlgorithm::CompleteBranches(50),
        ..Params::default()
    };
    let outcome = analyse(&Input::new(profile, rep), &params, 4, &mut Tolerant).expect("it goes on");
    let feedback =
        Feedback { program: String::from("p"), candidates: Some(outcome.into_candidates(params)) };
    let _ = report::report(&feedback);
    let _ = file::to_text(&feedback);
});
