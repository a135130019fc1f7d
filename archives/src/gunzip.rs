//! Gzip as `gzip -dc` reads it: members after each other are one stream, and what follows the last
//! member is ignored.

use std::io::{self, BufRead, Chain, Read};

use flate2::bufread::GzDecoder;

/// First bytes of a member (RFC 1952).
const MAGIC: &[u8] = &[0x1f, 0x8b];

/// A reader with the first bytes of a member put back before it.
type Restored<R> = Chain<&'static [u8], R>;

/// Reader of the content of all members.
pub(super) struct Gunzip<R> {
    state: State<R>,
}

enum State<R> {
    Member(Box<GzDecoder<Restored<R>>>),
    /// Between two members, or before the first one.
    Between {
        compressed: R,
        is_first: bool,
    },
    Ended,
}

impl<R: BufRead> Gunzip<R> {
    pub(super) fn new(compressed: R) -> Self {
        let state = State::Between {
            compressed,
            is_first: true,
        };
        Self { state }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            self.state = match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Ok(0),
                State::Between {
                    mut compressed,
                    is_first,
                } => {
                    if is_member(&mut compressed)? {
                        State::Member(Box::new(GzDecoder::new(MAGIC.chain(compressed))))
                    } else if is_first {
                        let why = "it does not begin as gzip does";
                        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                    } else {
                        State::Ended
                    }
                }
                State::Member(mut member) => {
                    let read = member.read(buffer);
                    if matches!(read, Ok(0)) {
                        let (_, compressed) = member.into_inner().into_inner();
                        State::Between {
                            compressed,
                            is_first: false,
                        }
                    } else {
                        self.state = State::Member(member);
                        return read;
                    }
                }
            };
        }
    }
}

/// Consumes the first bytes of a member, and returns whether there were any.
fn is_member(compressed: &mut impl BufRead) -> io::Result<bool> {
    for expected in MAGIC {
        if compressed.fill_buf()?.first() != Some(expected) {
            return Ok(false);
        }
        compressed.consume(1);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn gunzip(compressed: &[u8]) -> io::Result<String> {
        let mut content = String::new();
        // A byte at a time, so that a member's first bytes are never in the buffer together.
        let mut reader = Gunzip::new(BufReader::with_capacity(1, compressed));
        reader.read_to_string(&mut content)?;
        Ok(content)
    }

    #[test]
    fn members_follow_each_other_and_what_is_behind_them_is_ignored() {
        let two = [gzip(b"one "), gzip(b"two")].concat();
        for behind in [&b""[..], &[0; 700], b"\x1f", b"garbage"] {
            let found = gunzip(&[&two, behind].concat()).unwrap();
            assert_eq!(found, "one two", "{behind:?}");
        }
    }

    #[test]
    fn what_is_no_gzip_and_a_wrong_checksum_are_errors() {
        for begin in [&b""[..], b"\x1f", b"BZh9", &[0; 700]] {
            assert!(gunzip(begin).is_err(), "{begin:?}");
        }
        let mut wrong = gzip(b"content");
        let checksum = wrong.len() - 8;
        wrong[checksum] ^= 1;
        assert!(gunzip(&wrong).is_err());
        let cut = gzip(b"content");
        assert!(gunzip(&cut[..cut.len() - 1]).is_err());
    }
}
