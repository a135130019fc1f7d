//! A request without a socket: for the fuzz targets, which nothing else is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

use crate::fetch::Fetch;
use crate::head::Head;
use crate::indexes::Indexes;
use crate::{JobSecret, Jobs};

/// Port of the server that is asked.
const PORT: u16 = 13_562;

/// Bytes of indexes that a request keeps.
const INDEX_CACHE_BYTES: usize = 1 << 20;

/// End of a request, as far as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// More bytes are needed.
    Incomplete,
    /// A refusal.
    Refused,
    /// A head of this many bytes that asks for outputs of this many bytes together.
    Answered(usize, u64),
}

/// Reads a request and looks up what it asks for, as if its hash were right.
#[must_use]
pub fn request(bytes: &[u8], jobs: &Jobs, secret: &JobSecret) -> Request {
    let (mut head, length) = match Head::read(bytes) {
        Ok(Some(read)) => read,
        Ok(None) => return Request::Incomplete,
        Err(_) => return Request::Refused,
    };
    let mut mac = Hmac::<Sha1>::new_from_slice(&secret.0).expect("HMAC takes keys of any length");
    mac.update(PORT.to_string().as_bytes());
    mac.update(head.target.as_bytes());
    head.url_hash = Some(STANDARD.encode(mac.finalize().into_bytes()));
    let fetch = Fetch::check(&head, jobs, PORT);
    match fetch.and_then(|fetch| fetch.locate(&Indexes::new(INDEX_CACHE_BYTES))) {
        Ok(segments) => {
            let bytes = segments.iter().map(|segment| segment.bytes());
            Request::Answered(length, bytes.fold(0, u64::saturating_add))
        }
        Err(_) => Request::Refused,
    }
}
