//! Heads of replies and the texts of refusals, as Hadoop's ShuffleHandler sends them. Pure.

use std::fmt::Write as _;

use refusals::Reason;

/// Headers that every reply but 413 and 429 has.
const PROTOCOL: &str = "name: mapreduce\r\nversion: 1.0.0\r\n";

/// Time after which a refused fetcher should come again, in milliseconds: Hadoop's unit and value
/// (`ShuffleHandler.FETCH_RETRY_DELAY`).
const RETRY_AFTER_MS: u32 = 1_000;

/// Statuses of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    BadRequest,
    Unauthorized,
    MethodNotAllowed,
    PayloadTooLarge,
    TooManyRequests,
    FieldsTooLarge,
    InternalError,
}

impl Status {
    /// Returns the reason in the words of all ports; `None` for an output that cannot be sent,
    /// which is no fault of the reducer.
    pub(crate) const fn reason(self) -> Option<Reason> {
        match self {
            Self::BadRequest | Self::MethodNotAllowed => Some(Reason::Malformed),
            Self::Unauthorized => Some(Reason::Unauthorized),
            Self::PayloadTooLarge | Self::FieldsTooLarge => Some(Reason::TooLarge),
            Self::TooManyRequests => Some(Reason::NoPlace),
            Self::InternalError => None,
        }
    }

    const fn line(self) -> &'static str {
        match self {
            Self::BadRequest => "400 Bad Request",
            Self::Unauthorized => "401 Unauthorized",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::PayloadTooLarge => "413 Request Entity Too Large",
            Self::TooManyRequests => "429 TOO MANY REQUESTS",
            Self::FieldsTooLarge => "431 Request Header Fields Too Large",
            Self::InternalError => "500 Internal Server Error",
        }
    }
}

/// Refusal of a request. The connection closes after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    /// Text for the reducer's log; may be empty.
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(status: Status, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { status, text }
    }

    /// Returns the whole reply.
    pub(crate) fn reply(&self) -> String {
        let (line, length) = (self.status.line(), self.text.len());
        let fields = match self.status {
            Status::PayloadTooLarge => String::new(),
            Status::TooManyRequests => format!("Retry-After: {RETRY_AFTER_MS}\r\n"),
            Status::BadRequest
            | Status::Unauthorized
            | Status::MethodNotAllowed
            | Status::FieldsTooLarge
            | Status::InternalError => {
                format!("content-type: text/plain; charset=UTF-8\r\n{PROTOCOL}")
            }
        };
        let text = &self.text;
        format!("HTTP/1.1 {line}\r\n{fields}content-length: {length}\r\n\r\n{text}")
    }
}

/// Returns the head of a reply with map outputs. `keep_alive_s` is set for a connection that stays
/// open so many seconds.
pub(crate) fn head(reply_hash: &str, keep_alive_s: Option<u64>, content_length: u64) -> String {
    let mut head = format!("HTTP/1.1 200 OK\r\nReplyHash: {reply_hash}\r\n{PROTOCOL}");
    let connection = match keep_alive_s {
        None => write!(head, "Connection: close\r\n"),
        Some(seconds) => write!(
            head,
            "Connection: Keep-Alive\r\nKeep-Alive: timeout={seconds}\r\n"
        ),
    };
    let length = write!(head, "content-length: {content_length}\r\n\r\n");
    connection
        .and(length)
        .expect("writing to a string does not fail");
    head
}

/// Returns the header before a map output: `ShuffleHeader`, whose integers are Hadoop's `VLong`.
pub(crate) fn shuffle_header(map: &str, part: u64, raw: u64, reduce: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(map.len() + 24);
    put_vlong(&mut bytes, map.len() as u64);
    bytes.extend(map.as_bytes());
    for number in [part, raw, reduce] {
        put_vlong(&mut bytes, number);
    }
    bytes
}

/// Appends a number of at most 63 bits as `WritableUtils.writeVLong` does: up to 127 itself, above
/// that the number of bytes, subtracted from -112, and the bytes.
fn put_vlong(out: &mut Vec<u8>, number: u64) {
    if let Ok(small @ ..=127) = u8::try_from(number) {
        out.push(small);
        return;
    }
    let bytes = number.to_be_bytes();
    let skipped = bytes.iter().take_while(|byte| **byte == 0).count();
    let significant = &bytes[skipped..];
    let count = i8::try_from(significant.len()).expect("a number has eight bytes");
    out.push((-112 - count).cast_unsigned());
    out.extend(significant);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_javas_bytes() {
        let vectors: [(u64, &[u8]); 7] = [
            (0, &[0x00]),
            (127, &[0x7f]),
            (128, &[0x8f, 0x80]),
            (255, &[0x8f, 0xff]),
            (256, &[0x8e, 0x01, 0x00]),
            (
                1_700_000_000_000,
                &[0x8a, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00],
            ),
            (
                i64::MAX.cast_unsigned(),
                &[0x88, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            ),
        ];
        for (number, bytes) in vectors {
            let mut written = Vec::new();
            put_vlong(&mut written, number);
            assert_eq!(written, bytes, "{number}");
        }
    }

    #[test]
    fn a_refusal_has_hadoops_headers() {
        let refusal = Refusal::new(Status::Unauthorized, "fetcher cannot be authenticated");
        assert_eq!(
            refusal.reply(),
            "HTTP/1.1 401 Unauthorized\r\ncontent-type: text/plain; charset=UTF-8\r\n\
             name: mapreduce\r\nversion: 1.0.0\r\ncontent-length: 31\r\n\r\n\
             fetcher cannot be authenticated"
        );
        assert_eq!(
            Refusal::new(Status::TooManyRequests, "").reply(),
            "HTTP/1.1 429 TOO MANY REQUESTS\r\nRetry-After: 1000\r\ncontent-length: 0\r\n\r\n"
        );
    }
}
