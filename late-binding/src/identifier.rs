//! The token with which a node proves to another that it belongs to the cluster.

use bytes::Bytes;
use prost::Message as _;
use records::NodeId;
use wire::proto::nm_agent::NodePeerTokenIdentifierProto;
use wire::token::{MasterKey, Token, kind};

/// First bytes of an identifier. The identifiers of container tokens, which the same key signs,
/// begin with the tag of a protobuf field, and `n` is the tag of none: it has no such wire type.
const PREFIX: &[u8] = b"nm-agent node\0";

/// Start of the user as whom a peer calls. Users of NMTokens are attempts.
pub const PEER_USER_PREFIX: &str = "nm-agent node ";

/// Longest host name in an identifier, in bytes; the longest name of the DNS.
const HOST_BYTES_MAX: usize = 255;

/// Identifier of a token of one node for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentifier {
    /// Node that calls.
    pub from: NodeId,
    /// Node that is called.
    pub to: NodeId,
    /// Id of the master key that signs it.
    pub key_id: i32,
}

impl PeerIdentifier {
    /// Reads an identifier; `None`: it is one of another kind of token, or of none.
    #[must_use]
    pub fn read(identifier: &[u8]) -> Option<Self> {
        let message = identifier.strip_prefix(PREFIX)?;
        let message = NodePeerTokenIdentifierProto::decode(message).ok()?;
        let node = |host: Option<String>, port: Option<i32>| {
            let host = host.filter(|host| !host.is_empty() && host.len() <= HOST_BYTES_MAX)?;
            let port = u16::try_from(port?).ok()?;
            Some(NodeId { host, port })
        };
        Some(Self {
            from: node(message.from_host, message.from_port)?,
            to: node(message.to_host, message.to_port)?,
            key_id: message.key_id?,
        })
    }

    /// Returns the bytes that [`read`](Self::read) reads.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let message = NodePeerTokenIdentifierProto {
            from_host: Some(self.from.host.clone()),
            from_port: Some(self.from.port.into()),
            to_host: Some(self.to.host.clone()),
            to_port: Some(self.to.port.into()),
            key_id: Some(self.key_id),
        };
        let mut identifier = PREFIX.to_vec();
        identifier.extend(message.encode_to_vec());
        identifier.into()
    }

    /// Returns a token of `from` for `to`. To the server it is one of the kind that it expects on
    /// its port.
    #[must_use]
    pub fn token(from: &NodeId, to: &NodeId, key: &MasterKey) -> Token {
        let identifier = Self {
            from: from.clone(),
            to: to.clone(),
            key_id: key.key_id,
        };
        Token::sign(key, identifier.encode(), kind::NM_TOKEN, "")
    }

    /// Returns the user as whom the caller is known to services.
    #[must_use]
    pub fn user(&self) -> String {
        format!("{PEER_USER_PREFIX}{}", self.from)
    }
}

/// Returns the node that calls as this user; `None`: the caller is no node.
#[must_use]
pub fn peer_of_user(user: &str) -> Option<NodeId> {
    let (host, port) = user.strip_prefix(PEER_USER_PREFIX)?.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = host.to_owned();
    Some(NodeId { host, port })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;
    use test_support::ids;
    use wire::proto::hadoop_yarn::{ContainerTokenIdentifierProto, NmTokenIdentifierProto};

    use super::*;

    fn identifier() -> PeerIdentifier {
        PeerIdentifier {
            from: ids::node("a"),
            to: ids::node("b"),
            key_id: -7,
        }
    }

    #[test]
    fn an_identifier_is_read_as_it_was_written_and_its_user_names_the_caller() {
        let identifier = identifier();
        assert_eq!(
            PeerIdentifier::read(&identifier.encode()),
            Some(identifier.clone())
        );
        assert_eq!(peer_of_user(&identifier.user()), Some(identifier.from));
        assert_eq!(peer_of_user("appattempt_1_0001_000001"), None);
    }

    #[test]
    fn no_identifier_of_a_peer_is_one_of_another_token_of_the_same_key() {
        let bytes = identifier().encode();
        assert!(ContainerTokenIdentifierProto::decode(&*bytes).is_err());
        assert!(NmTokenIdentifierProto::decode(&*bytes).is_err());
    }

    proptest! {
        #[test]
        fn whatever_comes_is_an_identifier_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = PeerIdentifier::read(&bytes);
            let mut prefixed = PREFIX.to_vec();
            prefixed.extend(bytes);
            let _ = PeerIdentifier::read(&prefixed);
        }
    }
}
