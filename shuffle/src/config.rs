//! Settings of the service, as plain values.

use std::time::Duration;

use tls_server::TlsConfig;

/// Settings of a shuffle server. Each field names Hadoop's property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShuffleConfig {
    /// Port on the wildcard address; 0 lets the system choose one (`mapreduce.shuffle.port`).
    pub port: u16,
    /// Connections that wait to be accepted (`mapreduce.shuffle.listen.queue.size`).
    pub backlog: u32,
    /// Open connections at most; one more gets 429 (`mapreduce.shuffle.max.connections`, bounded by
    /// the limit of open files).
    pub connections_max: usize,
    /// Threads that read files and write sockets; at least 1 (`mapreduce.shuffle.max.threads`).
    pub threads: usize,
    /// Whether connections stay open without being asked to
    /// (`mapreduce.shuffle.connection-keep-alive.enable`).
    pub keep_alive: bool,
    /// Time from the last byte of an answer after which a kept connection is closed
    /// (`mapreduce.shuffle.connection-keep-alive.timeout`).
    pub keep_alive_timeout: Duration,
    /// Bytes of parsed indexes that are kept (`mapreduce.reduce.shuffle.indexcache.mb`).
    pub index_cache_bytes: usize,
    /// Whether sent ranges leave the page cache, since they are read once
    /// (`mapreduce.shuffle.manage.os.cache`).
    pub manage_os_cache: bool,
    /// Bytes of a range that the kernel is asked to read ahead of sending
    /// (`mapreduce.shuffle.readahead.bytes`).
    pub readahead_bytes: u64,
    /// Time for a whole request, from the accept or from its first byte, and for the handshake of
    /// TLS before it.
    pub request_timeout: Duration,
    /// Time after which a connection is closed whose peer takes no part of an answer.
    pub stall_timeout: Duration,
    /// TLS of all connections (`mapreduce.shuffle.ssl.enabled`); `None`: they are plain.
    pub tls: Option<TlsConfig>,
}

impl Default for ShuffleConfig {
    /// Hadoop's defaults. A reducer waits 180 s for a server
    /// (`mapreduce.reduce.shuffle.read.timeout`), and the server as long for a reducer.
    fn default() -> Self {
        Self {
            port: 13_562,
            backlog: 128,
            connections_max: 4_096,
            threads: 2,
            keep_alive: false,
            keep_alive_timeout: Duration::from_secs(5),
            index_cache_bytes: 10 << 20,
            manage_os_cache: true,
            readahead_bytes: 4 << 20,
            request_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(180),
            tls: None,
        }
    }
}
