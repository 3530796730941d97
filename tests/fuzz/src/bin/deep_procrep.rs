//! Deep.procrep: any octets open or are refused; what opens prints, body by body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_deep::ProcRep;

fuzz_target!(|octets: &[u8]| {
    let Ok(rep) = ProcRep::new(octets.to_vec()) else { return };
    for module in rep.modules() {
        let _ = rep.module_head_text(module);
        for &proc in rep.module_procs(module) {
            assert_eq!(rep.find(&rep.label(proc)), Some(proc));
            if let Ok(body) = rep.procedure(proc) {
                let _ = rep.annotated_text(proc, &body, &mut |n, path, _| vec![format!("{n} {path}")]);
            }
        }
    }
});
