//! Identifiers of tokens, tokens as text and as Writable, and the numbers of a Writable.

use bytes::Bytes;
use prost::Message;
use wire::proto::hadoop_yarn::{
    AmrmTokenIdentifierProto, ContainerTokenIdentifierProto, NmTokenIdentifierProto,
};
use wire::token::{MasterKey, Token, kind};
use wire::writable::{WritableReader, put_vlong};

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "tokens",
    bytes_max: 4 * 1024,
    memory: Memory {
        base: 16 * 1024,
        per_byte: 512,
    },
    run,
    seeds,
};

/// Reads an identifier, and the same again after it was written.
fn identifier<M: Message + Default + PartialEq>(input: &[u8]) -> Option<M> {
    let read = M::decode(input).ok()?;
    let again = M::decode(&*read.encode_to_vec()).expect("a message that was written is read");
    assert!(again == read, "an identifier changes when it is written");
    Some(read)
}

fn run(input: &[u8]) {
    if let Some(token) = identifier::<ContainerTokenIdentifierProto>(input) {
        let _read_or_not = token
            .container_id
            .as_ref()
            .map(records::ContainerId::try_from);
        let _read_or_not = token.resource.as_ref().map(records::Resource::try_from);
    }
    if let Some(token) = identifier::<NmTokenIdentifierProto>(input) {
        let attempt = token.app_attempt_id.as_ref();
        let _read_or_not = attempt.map(records::ApplicationAttemptId::try_from);
    }
    identifier::<AmrmTokenIdentifierProto>(input);
    let _read_or_not = wire::secrets::attempt_of(input);
    let mut reader = WritableReader::new(input);
    while let Ok(number) = reader.vlong() {
        let mut written = Vec::new();
        put_vlong(&mut written, number);
        assert_eq!(WritableReader::new(&written).vlong(), Ok(number));
    }
    if let Ok(token) = Token::read_writable(&mut WritableReader::new(input)) {
        let mut written = Vec::new();
        token.put_writable(&mut written);
        let again = Token::read_writable(&mut WritableReader::new(&written));
        assert!(again == Ok(token), "a token changes when it is written");
    }
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(token) = Token::from_url_text(text)
    {
        let again = Token::from_url_text(&token.to_url_text());
        assert!(
            again.is_ok_and(|again| again == token),
            "a token changes when it is written as text"
        );
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let key = MasterKey::new(42, Bytes::from_static(&[1, 2, 3, 4, 5, 6, 7, 8]));
    let attempt = test_support::ids::application(7).attempt(1);
    let container = ContainerTokenIdentifierProto {
        container_id: Some(attempt.container(2).into()),
        nm_host_addr: Some("node-1.example:8041".to_owned()),
        app_submitter: Some("alice".to_owned()),
        master_key_id: Some(42),
        ..ContainerTokenIdentifierProto::default()
    };
    let node = NmTokenIdentifierProto {
        app_attempt_id: Some(attempt.into()),
        app_submitter: Some("alice".to_owned()),
        key_id: Some(42),
        ..NmTokenIdentifierProto::default()
    };
    let master = AmrmTokenIdentifierProto {
        app_attempt_id: Some(attempt.into()),
        key_id: Some(42),
    };
    let token = Token::sign(
        &key,
        node.encode_to_vec().into(),
        kind::NM_TOKEN,
        "127.0.0.1:8041",
    );
    let mut writable = Vec::new();
    token.put_writable(&mut writable);
    vec![
        container.encode_to_vec(),
        node.encode_to_vec(),
        master.encode_to_vec(),
        writable,
        token.to_url_text().into_bytes(),
    ]
}
