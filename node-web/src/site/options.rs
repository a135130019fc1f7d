//! Options of the web server.

use std::sync::Arc;

use access_control::AccessRules;
use http_server::Limits;
use time::UtcOffset;
use tls_server::TlsServer;

use super::aggregated::RemoteReader;
use super::conf::ShownProperty;
use super::filters::Filters;
use super::hadoop_beans::BeanOptions;
use super::log_level::LogLevels;
use super::proven::KerberosPages;
use super::stuck::StuckParts;

/// Options of the web server, from the configuration.
#[derive(Clone, Debug)]
pub struct WebOptions {
    /// `yarn.log-aggregation-enable`: whether logs may be elsewhere once an application is gone.
    pub log_aggregation_enabled: bool,
    /// `yarn.log.server.url`: where pages send a reader for such logs.
    pub log_server_url: Option<String>,
    /// `yarn.log.server.web-service.url`: the same for REST clients.
    pub log_server_web_service_url: Option<String>,
    /// Reader of the logs that the node has uploaded; `None`: they are not shown.
    pub remote_logs: Option<RemoteReader>,
    /// The node's distance from UTC, for dates as Hadoop prints them.
    pub utc_offset: UtcOffset,
    /// Host names that a request may name besides the node's own
    /// (`yarn.nodemanager.agent.web.hosts`); `*` allows all.
    pub hosts: Vec<String>,
    /// Keys of TLS, which all clients must speak; `None`: none may.
    pub tls: Option<Arc<TlsServer>>,
    /// Hadoop's filters of requests and answers.
    pub filters: Arc<Filters>,
    /// Proof of callers by Kerberos; `None`: their names are believed.
    pub kerberos: Option<Arc<KerberosPages>>,
    /// Access rules: who may see what.
    pub access: Arc<AccessRules>,
    /// What beans of `/jmx` say of the configuration.
    pub beans: BeanOptions,
    /// Properties in force, for `/conf`.
    pub properties: Arc<[ShownProperty]>,
    /// Bounds on what clients can take.
    pub limits: Limits,
    /// Parts of the agent that make no progress.
    pub stuck: StuckParts,
    /// Levels of the agent's log; `None`: something else decides them.
    pub log_levels: Option<LogLevels>,
}

impl Default for WebOptions {
    /// No log server, times in UTC.
    fn default() -> Self {
        Self {
            log_aggregation_enabled: false,
            log_server_url: None,
            log_server_web_service_url: None,
            remote_logs: None,
            utc_offset: UtcOffset::UTC,
            hosts: Vec::new(),
            tls: None,
            filters: Arc::default(),
            kerberos: None,
            access: Arc::default(),
            beans: BeanOptions::default(),
            properties: Arc::default(),
            limits: Limits::default(),
            stuck: StuckParts::new(Vec::new),
            log_levels: None,
        }
    }
}
