//! Answers of the host of auxiliary services.

use aux_host::fuzzing::read_answers;

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "aux_host_answers",
    bytes_max: 16 * 1024,
    memory: Memory {
        base: 4 * 1024,
        per_byte: 32,
    },
    run,
    seeds,
};

/// Bytes of a message at least: a length and a type.
const MESSAGE_BYTES_MIN: usize = 5;

fn run(input: &[u8]) {
    assert!(read_answers(input) * MESSAGE_BYTES_MIN <= input.len());
}

fn seeds() -> Vec<Vec<u8>> {
    let frame = |parts: &[&[u8]]| {
        let body = parts.concat();
        let length = u32::try_from(body.len()).expect("a seed is short");
        [&length.to_be_bytes()[..], &body].concat()
    };
    let zero = &[0; 4][..];
    let hello = frame(&[b"\x01NMAH", &[0, 0, 0, 1, 0, 0, 0, 2], b"17"]);
    let begins = frame(&[b"\x02", zero]);
    let started = frame(&[b"\x03", zero, &[1, 0, 0, 0, 2], b"ok"]);
    let failed = frame(&[b"\x04", zero, &[0, 0, 0, 4], b"boom"]);
    let done = frame(&[b"\x05", zero, &7_u64.to_be_bytes()]);
    let metrics = frame(&[
        b"\x07",
        &[0, 0, 0, 1, 0, 0, 0, 3],
        b"a.b",
        &1.5_f64.to_be_bytes(),
    ]);
    vec![
        [
            &hello[..],
            &begins,
            &started,
            &done,
            &metrics,
            &frame(&[b"\x06"]),
        ]
        .concat(),
        [&hello[..], &begins, &failed].concat(),
        metrics,
    ]
}
