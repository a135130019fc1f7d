//! Hashes of requests and replies: HMAC-SHA1 with the job's secret, in base64.
//!
//! Source: `SecureShuffleUtils` of Hadoop 3.4.2. 3.5 lets the operator choose another algorithm.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

/// Key of a job's hashes, ready for use.
#[derive(Clone)]
pub(crate) struct HashKey(Hmac<Sha1>);

impl HashKey {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(Hmac::new_from_slice(secret).expect("HMAC takes keys of any length"))
    }

    /// Returns whether `url_hash` is the hash of a request for `target` to the server's `port`.
    /// `target` is path and query as they were sent. Takes the same time for every wrong hash.
    pub(crate) fn verifies(&self, url_hash: &str, port: u16, target: &str) -> bool {
        let Ok(hash) = STANDARD.decode(url_hash) else {
            return false;
        };
        let mut mac = self.0.clone();
        mac.update(port.to_string().as_bytes());
        mac.update(target.as_bytes());
        mac.verify_slice(&hash).is_ok()
    }

    /// Returns the value of `ReplyHash`, which proves to the reducer that the server has the
    /// secret: the hash of the base64 text that the reducer sent.
    pub(crate) fn reply_hash(&self, url_hash: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(url_hash.as_bytes());
        STANDARD.encode(mac.finalize().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from Hadoop 3.4.2's ShuffleHandler on port 23562.
    #[test]
    fn hashes_are_hadoops() {
        let secret: Vec<u8> = (0..20).collect();
        let target = "/mapOutput?job=job_1700000000000_0007&reduce=1&\
                      map=attempt_1700000000000_0007_m_000000_0,\
                      attempt_1700000000000_0007_m_000001_0";
        let key = HashKey::new(&secret);
        for (port, url_hash, reply_hash) in [
            (
                23_562,
                "UUQbU5JnvbPXRhBgVU79qI2Mv+I=",
                "/Elld9K0jKs9Ed6G2vYOm9D170o=",
            ),
            (
                13_562,
                "rneHhC8Pi1nSHJA29sXOXEJgMJo=",
                "SsSSlfj/tZioJwSj9e+8dOiYpvA=",
            ),
        ] {
            assert!(key.verifies(url_hash, port, target), "{port}");
            assert!(!key.verifies(url_hash, port + 1, target), "{port}");
            assert!(!key.verifies(url_hash, port, &target[1..]), "{port}");
            assert_eq!(key.reply_hash(url_hash), reply_hash);
        }
        assert!(!key.verifies("", 23_562, target));
        assert!(!key.verifies("not base64", 23_562, target));
    }
}
