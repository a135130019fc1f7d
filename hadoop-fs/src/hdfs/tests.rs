use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::thread;

use super::*;

/// Opens the file system of a NameNode at this address and asks for the status of a file.
fn ask(cluster: &Cluster, address: SocketAddr) -> FsError {
    let uri: Uri = format!("hdfs://{address}/a").parse().unwrap();
    let hdfs = cluster.client(&uri, "joe").unwrap();
    hdfs.status("/a").unwrap_err()
}

fn cluster(properties: &[(&str, &str)], limit: Duration) -> Cluster {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Cluster::new(properties.iter().map(owned).collect(), limit, None)
}

#[test]
fn a_name_node_that_never_answers_ends_a_call_and_loses_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let name_node = thread::spawn(move || {
        let mut sent = Vec::new();
        let (mut connection, _) = listener.accept().unwrap();
        connection.read_to_end(&mut sent).unwrap();
        // The user of the connection's context travels as plain text.
        String::from_utf8_lossy(&sent).contains("joe")
    });
    let cluster = cluster(&[], Duration::from_millis(500));
    let error = ask(&cluster, address);
    let limit = Duration::from_millis(500);
    assert!(
        matches!(&error, FsError::TimedOut { limit: over, .. } if *over == limit),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.starts_with("cannot read the status of hdfs://127.0.0.1:"),
        "{text}"
    );
    // The thread ends once the client has closed its side.
    assert!(name_node.join().unwrap());
}

#[test]
fn a_name_node_that_breaks_connections_is_asked_again_until_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().for_each(drop));
    let error = ask(&cluster(&[], Duration::from_millis(500)), address);
    assert!(error.is_resumable(), "{error}");
}

#[test]
fn a_cluster_that_wants_more_than_names_is_refused() {
    let kerberos = [("hadoop.security.authentication", "kerberos")];
    let cluster = cluster(&kerberos, Duration::from_secs(1));
    let uri: Uri = "hdfs://nn/a".parse().unwrap();
    let error = cluster.client(&uri, "joe").err().unwrap();
    let expected = "cannot use hdfs://nn/a: hadoop.security.authentication is kerberos, and only \
        simple is supported";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_logical_name_has_no_port() {
    let properties = [
        ("dfs.ha.namenodes.cluster", "a"),
        ("dfs.namenode.rpc-address.cluster.a", "127.0.0.1:1"),
    ];
    let cluster = cluster(&properties, Duration::from_secs(9));
    let open = |uri: &str| cluster.client(&uri.parse().unwrap(), "joe");
    assert!(open("hdfs://cluster/a").is_ok());
    assert!(open("hdfs://host/a").is_ok());
    let error = open("hdfs:/a").err().unwrap();
    assert!(matches!(error, FsError::NoHost { .. }), "{error}");
}

#[test]
fn exceptions_keep_class_and_first_line() {
    let exception = |class: &str| {
        let text = "no such thing\n\tat Somewhere";
        translate_exception("open", "hdfs://nn/a".to_owned(), class.to_owned(), text)
    };
    let denied = exception("org.apache.hadoop.security.AccessControlException");
    assert_eq!(denied.to_string(), "cannot open hdfs://nn/a: no such thing");
    assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
    let other = exception("a.B");
    assert_eq!(
        other.to_string(),
        "cannot open hdfs://nn/a: a.B: no such thing"
    );
    assert!(exception("org.apache.hadoop.ipc.StandbyException").is_resumable());
}
