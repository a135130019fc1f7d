//! libFuzzer around one target, which the variable `NM_AGENT_FUZZ_TARGET` names. One program for
//! all targets, since linking takes longer than any of them.

#![no_main]

use std::env;
use std::sync::OnceLock;

use fuzz_targets::Target;

static TARGET: OnceLock<&'static Target> = OnceLock::new();

fn target() -> &'static Target {
    let name = env::var("NM_AGENT_FUZZ_TARGET").unwrap_or_default();
    fuzz_targets::find(&name).unwrap_or_else(|| {
        let names: Vec<_> = fuzz_targets::TARGETS
            .iter()
            .map(|target| target.name)
            .collect();
        panic!(
            "NM_AGENT_FUZZ_TARGET={name} is none of {}",
            names.join(", ")
        )
    })
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET.get_or_init(target).check(input));
