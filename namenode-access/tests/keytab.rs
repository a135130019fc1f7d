//! The client of HDFS with a keytab, and servers that want no proof or are others than the
//! configured one: the client tells them nothing before it gives up, and gives the reason.

mod common;

use std::sync::Arc;

use common::{SIMPLE, ask, negotiate, properties, server, success};
use namenode_access::{Access, Proof};

#[test]
fn a_server_that_is_not_the_configured_one_is_told_nothing() {
    let principal = "nm/localhost@NODES.TEST".to_owned();
    let access = Access::new(Proof::Keytab { principal }, &properties());
    let access = Arc::new(access.unwrap());
    let invalid = "Server has invalid Kerberos principal: nn/elsewhere.test, expecting: nn/";
    for (answer, words) in [
        (success(), SIMPLE),
        (negotiate(&["SIMPLE"]), SIMPLE),
        (negotiate(&["SIMPLE", "KERBEROS"]), invalid),
    ] {
        let (address, server) = server(answer);
        let error = ask(&access, address);
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(server.join().unwrap(), b"", "it was told something");
    }
}
