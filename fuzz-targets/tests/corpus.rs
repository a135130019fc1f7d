//! The seeds and the kept inputs, given to their targets. Needs no fuzzer.

use std::panic;

use fuzz_targets::{TARGETS, corpus};

#[test]
fn every_claim_holds_for_every_kept_input() {
    let mut failures = Vec::new();
    for target in TARGETS {
        let seeds = target.seeds();
        assert!(!seeds.is_empty(), "{} has no seed", target.name);
        let kept = corpus::read(target).unwrap();
        for (number, input) in seeds.iter().chain(&kept).enumerate() {
            assert!(input.len() <= target.bytes_max, "{} {number}", target.name);
            if panic::catch_unwind(|| target.check(input)).is_err() {
                failures.push((target.name, number));
            }
        }
        // A reader that stops early at any byte, and one that meets another byte there.
        for seed in seeds.iter().filter(|seed| seed.len() <= 2_000) {
            for cut in 0..seed.len() {
                target.check(&seed[..cut]);
                let mut other = seed.clone();
                other[cut] ^= 0x81;
                target.check(&other);
            }
        }
    }
    assert_eq!(failures, [], "target and number of the input");
}

#[test]
fn every_text_of_the_corpus_belongs_to_a_target_and_has_its_size() {
    let mut texts: Vec<_> = TARGETS.iter().map(corpus::path).collect();
    texts.sort();
    let folder = texts[0].parent().unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        assert!(texts.contains(&path), "{} has no target", path.display());
        let bytes = entry.metadata().unwrap().len();
        let max = u64::try_from(corpus::TEXT_BYTES_MAX).unwrap();
        assert!(bytes <= max, "{}: {bytes} bytes", path.display());
    }
}
