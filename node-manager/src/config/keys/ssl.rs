//! Properties of TLS: those that stand beside all others, and those of a file of their own.

use hadoop_conf::DefaultSource::{Code, CoreDefault};
use hadoop_conf::KeyClass::{Honoured, NotApplicable};
use hadoop_conf::Unit::{ClassName, Flag, List, Millis, Text};
use hadoop_conf::{Key, KeyTable, key};

/// Properties of `core-default.xml` for servers with TLS.
#[rustfmt::skip] // One property a line, however long: the table is read and searched line by line.
pub(super) const SSL: &[Key] = &[
    key(Honoured, CoreDefault, "hadoop.ssl.enabled.protocols", Some("TLSv1.2"), List),
    key(Honoured, CoreDefault, "hadoop.ssl.require.client.cert", Some("false"), Flag),
    key(Honoured, CoreDefault, "hadoop.ssl.server.conf", Some("ssl-server.xml"), Text),
    key(NotApplicable, CoreDefault, "hadoop.ssl.keystores.factory.class", Some("org.apache.hadoop.security.ssl.FileBasedKeyStoresFactory"), ClassName),
];

/// Properties of the file that `hadoop.ssl.server.conf` names. Defaults are those of Hadoop 3.4.2's
/// `FileBasedKeyStoresFactory`.
pub const SSL_SERVER: KeyTable = KeyTable {
    keys: &[SSL_SERVER_KEYS],
    families: &[],
    lenient: &[],
    guards: &[],
    own_prefix: None,
};

#[rustfmt::skip]
const SSL_SERVER_KEYS: &[Key] = &[
    key(Honoured, Code, "ssl.server.keystore.location", None, Text),
    key(Honoured, Code, "ssl.server.keystore.password", None, Text),
    key(Honoured, Code, "ssl.server.keystore.keypassword", Some("${ssl.server.keystore.password}"), Text),
    key(Honoured, Code, "ssl.server.keystore.type", Some("jks"), Text),
    key(Honoured, Code, "ssl.server.truststore.location", None, Text),
    key(Honoured, Code, "ssl.server.truststore.password", None, Text),
    key(Honoured, Code, "ssl.server.truststore.type", Some("jks"), Text),
    key(Honoured, Code, "ssl.server.stores.reload.interval", Some("10000"), Millis),
    key(Honoured, Code, "ssl.server.truststore.reload.interval", Some("10000"), Millis),
    key(Honoured, Code, "ssl.server.exclude.cipher.list", None, List),
];
