//! Head of a request: cut out of the bytes received, within Hadoop's limits. Pure.

use crate::reply::{Refusal, Status};

/// Longest request line, in bytes (netty's `HttpRequestDecoder` in `ShuffleHandler`).
const LINE_BYTES_MAX: usize = 4_096;

/// Longest header fields together, in bytes (same source).
const FIELDS_BYTES_MAX: usize = 8_192;

/// Longest head, in bytes: what a connection keeps of a request at most.
pub(crate) const HEAD_BYTES_MAX: usize = LINE_BYTES_MAX + FIELDS_BYTES_MAX;

/// Header fields of a request at most. A fetcher sends eight.
const FIELDS_MAX: usize = 64;

/// Longest body, in bytes. A fetcher sends none.
const BODY_BYTES_MAX: u64 = 65_536;

/// Text for a client that is no fetcher of this version.
const INCOMPATIBLE: &str = "Incompatible shuffle request version";

/// Head of a request, as far as a shuffle looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) is_get: bool,
    /// Path and query as sent; the hash is of these bytes.
    pub(crate) target: String,
    /// Whether `name` and `version` are those of the protocol.
    pub(crate) is_shuffle: bool,
    pub(crate) url_hash: Option<String>,
    /// Bytes of the body, which are passed over.
    pub(crate) body_bytes: u64,
}

impl Head {
    /// Reads a head from the start of `bytes`. Returns its length too; `None` while it is not
    /// complete.
    ///
    /// # Errors
    /// The refusal of a head that is too long, of a body that is, and of bytes that are no HTTP.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, Refusal> {
        let line = bytes.iter().position(|byte| *byte == b'\n');
        let line_bytes = line.map_or(bytes.len(), |end| end + 1);
        if line_bytes > LINE_BYTES_MAX {
            return Err(Refusal::new(Status::BadRequest, INCOMPATIBLE));
        }
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        let length = match request.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => bytes.len(),
            Err(httparse::Error::TooManyHeaders) => return Err(too_long()),
            Err(_) => return Err(Refusal::new(Status::BadRequest, INCOMPATIBLE)),
        };
        if length - line_bytes.min(length) > FIELDS_BYTES_MAX {
            return Err(too_long());
        }
        let (Some(method), Some(target), true) =
            (request.method, request.path, is_complete(bytes, length))
        else {
            return Ok(None);
        };
        let mut head = Self {
            is_get: method == "GET",
            target: target.to_owned(),
            ..Self::default()
        };
        head.take_fields(request.headers)?;
        Ok(Some((head, length)))
    }

    fn take_fields(&mut self, fields: &[httparse::Header<'_>]) -> Result<(), Refusal> {
        let (mut name, mut version) = (None, None);
        for field in fields {
            let value = field.value.trim_ascii();
            let is = |known: &str| field.name.eq_ignore_ascii_case(known);
            // The first of a repeated field counts, as in netty.
            if is("name") {
                name.get_or_insert(value);
            } else if is("version") {
                version.get_or_insert(value);
            } else if is("UrlHash") && self.url_hash.is_none() {
                self.url_hash = Some(String::from_utf8_lossy(value).into_owned());
            } else if is("Content-Length") {
                let length = std::str::from_utf8(value).ok();
                let length = length.and_then(|length| length.parse().ok());
                self.body_bytes = length.unwrap_or(u64::MAX);
            } else if is("Transfer-Encoding") {
                self.body_bytes = u64::MAX;
            }
        }
        if self.body_bytes > BODY_BYTES_MAX {
            return Err(Refusal::new(Status::PayloadTooLarge, ""));
        }
        self.is_shuffle = name == Some(b"mapreduce") && version == Some(b"1.0.0");
        Ok(())
    }

    /// Returns the refusal of a request that is none of a fetcher.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if !self.is_get {
            return Err(Refusal::new(Status::MethodNotAllowed, ""));
        }
        if !self.is_shuffle {
            return Err(Refusal::new(Status::BadRequest, INCOMPATIBLE));
        }
        Ok(())
    }
}

/// Whether the first `length` bytes end in the empty line after the fields.
fn is_complete(bytes: &[u8], length: usize) -> bool {
    let head = &bytes[..length];
    head.ends_with(b"\r\n\r\n") || head.ends_with(b"\n\n") || head.ends_with(b"\n\r\n")
}

fn too_long() -> Refusal {
    Refusal::new(Status::FieldsTooLarge, "The request's head is too long")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "GET /mapOutput?job=j&reduce=0&map=m HTTP/1.1\r\n\
                        uRLhASH: abc=\r\nname: mapreduce\r\nversion: 1.0.0\r\nHost: h\r\n\r\n";

    #[test]
    fn a_head_is_read_once_its_last_byte_is_there() {
        for length in 0..GOOD.len() {
            assert_eq!(Head::read(&GOOD.as_bytes()[..length]).unwrap(), None);
        }
        let bytes = format!("{GOOD}GET /next");
        let (head, length) = Head::read(bytes.as_bytes()).unwrap().unwrap();
        assert_eq!(length, GOOD.len());
        assert_eq!(head.target, "/mapOutput?job=j&reduce=0&map=m");
        assert_eq!(head.url_hash.as_deref(), Some("abc="));
        head.check().unwrap();
    }

    #[test]
    fn other_methods_and_versions_are_refused() {
        for (from, to, status) in [
            ("GET", "HEAD", Status::MethodNotAllowed),
            ("name: mapreduce", "name: mapred", Status::BadRequest),
            ("version: 1.0.0\r\n", "", Status::BadRequest),
        ] {
            let bytes = GOOD.replace(from, to);
            let (head, _) = Head::read(bytes.as_bytes()).unwrap().unwrap();
            assert_eq!(head.check().unwrap_err().status, status, "{to}");
        }
    }

    #[test]
    fn heads_and_bodies_beyond_the_limits_are_refused() {
        let refused = |bytes: String| Head::read(bytes.as_bytes()).unwrap_err().status;
        let line = |length| format!("GET /{} HTTP/1.1\r\n", "a".repeat(length));
        assert_eq!(refused(line(5_000)), Status::BadRequest);
        assert_eq!(refused("x".repeat(5_000)), Status::BadRequest);
        assert_eq!(
            refused("\u{1}\u{2} nonsense\r\n".to_owned()),
            Status::BadRequest
        );
        let field = format!("a: {}\r\n", "b".repeat(1_000));
        let fields = line(10) + &field.repeat(9);
        assert_eq!(refused(fields.clone()), Status::FieldsTooLarge);
        assert_eq!(refused(fields + "\r\n"), Status::FieldsTooLarge);
        let many = line(10) + &"a: b\r\n".repeat(65) + "\r\n";
        assert_eq!(refused(many), Status::FieldsTooLarge);
        for body in [
            "Content-Length: 65537",
            "Transfer-Encoding: chunked",
            "content-length: x",
        ] {
            let bytes = format!("{}{body}\r\n\r\n", line(10));
            assert_eq!(refused(bytes), Status::PayloadTooLarge, "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _read_or_refused = Head::read(&bytes);
        }
    }
}
