//! A zip that is small and unpacks to much.

use std::fs;
use std::path::Path;

/// Bytes that one repetition of deflate stands for, at most (RFC 1951, 3.2.5).
const REPEATED: u64 = 258;

/// Writes a zip whose only entry has this many zeros. Its checksum is wrong, which shows only at
/// the end.
pub(super) fn write(path: &Path, unpacked: u32) {
    let packed = deflated_zeros(u64::from(unpacked));
    let length = u32::try_from(packed.len()).unwrap();
    // Version 2.0, no flags, deflate, no time, checksum; then the lengths, and that of the name.
    let mut common = vec![20, 0, 0, 0, 8, 0, 0, 0, 0, 0, 1, 2, 3, 4];
    common.extend(length.to_le_bytes());
    common.extend(unpacked.to_le_bytes());
    common.extend([4, 0, 0, 0]);
    let mut zip = b"PK\x03\x04".to_vec();
    zip.extend(&common);
    zip.extend(b"zero");
    zip.extend(packed);
    let directory = u32::try_from(zip.len()).unwrap();
    zip.extend(b"PK\x01\x02\x14\x00");
    zip.extend(&common);
    // No comment, disk 0, no attributes, and the local header at 0.
    zip.extend([0; 14]);
    zip.extend(b"zero");
    let directory_length = u32::try_from(zip.len()).unwrap() - directory;
    zip.extend(b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00");
    zip.extend(directory_length.to_le_bytes());
    zip.extend(directory.to_le_bytes());
    zip.extend([0, 0]);
    fs::write(path, zip).unwrap();
}

/// Returns a deflate block with the fixed codes: a zero, then repetitions of it.
fn deflated_zeros(bytes: u64) -> Vec<u8> {
    let mut bits = Bits::default();
    // Last block, fixed codes; the literal 0 is 0011_0000.
    bits.push("110");
    bits.push("00110000");
    for _ in 0..(bytes - 1) / REPEATED {
        // Length 258 and distance 1.
        bits.push("1100010100000");
    }
    bits.push("0000000");
    bits.bytes
}

/// Bits, the lowest of a byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn push(&mut self, bits: &str) {
        for bit in bits.bytes() {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= (bit - b'0') << (self.used % 8);
            self.used += 1;
        }
    }
}
