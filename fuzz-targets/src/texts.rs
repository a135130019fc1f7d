//! Short texts of peers, files and properties: ids, addresses, URIs, numbers with units.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use hadoop_conf::HostPort;
use hadoop_conf::parse;
use hadoop_fs::Uri;
use records::{ApplicationAttemptId, ApplicationId, ContainerName, NodeId};

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "texts",
    bytes_max: 1024,
    memory: Memory {
        base: 16 * 1024,
        per_byte: 128,
    },
    run,
    seeds,
};

/// Reads a value, and the same again from its own text.
fn value<T: FromStr<Err: Debug> + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let again = value.to_string().parse::<T>();
        assert_eq!(again.expect("a value's own text is read"), value);
    }
}

fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    value::<ApplicationId>(text);
    value::<ApplicationAttemptId>(text);
    value::<ContainerName>(text);
    value::<NodeId>(text);
    value::<Uri>(text);
    if let Ok(address) = HostPort::parse(text, 8032) {
        assert_eq!(HostPort::parse(&address.to_string(), 1), Ok(address));
    }
    let _read_or_not = (parse::integer(text), parse::number(text), parse::flag(text));
    let _read_or_not = parse::duration_ms(text);
    for item in parse::list(text) {
        assert_eq!(parse::trim(&item), item);
    }
    if let Ok(user) = text.parse::<localize::UserName>() {
        let is_one_name = !matches!(text, "." | "..") && !text.contains(['/', '\0']);
        assert!(
            is_one_name && !text.is_empty(),
            "{user:?} is a folder's name"
        );
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let attempt = test_support::ids::application(7).attempt(1);
    let texts = [
        attempt.application_id.to_string(),
        attempt.to_string(),
        attempt.container(2).to_string(),
        "container_e03_1700000000000_0007_01_000002".to_owned(),
        "node-1.example:8041".to_owned(),
        "[::1]:8032".to_owned(),
        "hdfs://nn-1:8020/user/alice/a%20b".to_owned(),
        "alice".to_owned(),
        "10m".to_owned(),
        "-0x1f".to_owned(),
        "1.5e3".to_owned(),
        "a, b,,c ".to_owned(),
    ];
    texts.into_iter().map(String::into_bytes).collect()
}
