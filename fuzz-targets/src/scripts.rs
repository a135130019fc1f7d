//! What scripts of an operator print: health reports, labels, attributes.

use node_manager::node_labels::{Described, NodeAttributes, NodeLabels};

use crate::{Memory, Target, in_pieces};

pub(crate) const TARGET: Target = Target {
    name: "scripts",
    bytes_max: 16 * 1024,
    memory: Memory {
        base: 64 * 1024,
        per_byte: 128,
    },
    run,
    seeds,
};

/// Bytes of a health report at most, by which a heartbeat grows.
const REPORT_BYTES_MAX: usize = 20 * 1024;

fn run(input: &[u8]) {
    let (piece, output) = in_pieces(input);
    let report = health_script::fuzzing::report(output.chunks(piece));
    assert_eq!(report, health_script::fuzzing::report([output].into_iter()));
    let has_fault = output.split(|byte| *byte == b'\n');
    let has_fault = has_fault.into_iter().any(|line| line.starts_with(b"ERROR"));
    assert_eq!(report.is_some(), has_fault);
    assert!(report.is_none_or(|report| report.len() <= REPORT_BYTES_MAX));
    let text = String::from_utf8_lossy(output);
    described::<NodeLabels>(&text);
    described::<NodeAttributes>(&text);
}

fn described<D: Described>(text: &str) {
    for read in [D::from_output(text), D::from_property(text)] {
        match read {
            Ok(value) => assert!(value.to_string().len() <= 2 * text.len() + 64),
            Err(error) => assert!(error.to_string().len() <= 16 * 1024),
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "\x03fine\nERROR disk 3 is gone\nNODE_PARTITION:gpu\n",
        "\x00NODE_ATTRIBUTE:os,STRING,Linux-6.1\nNODE_ATTRIBUTE:rack_unit,STRING,7\n",
        "\x10os,STRING,Linux-6.1:rack_unit,STRING,7",
        "\x10gpu-1",
    ];
    texts
        .into_iter()
        .map(|text| text.as_bytes().to_vec())
        .collect()
}
