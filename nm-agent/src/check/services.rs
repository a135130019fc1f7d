//! Auxiliary services in words: what each is, who serves it, on which port, to whom.

use node_manager::config::{AuxHostConfig, AuxServiceConfig, AuxServiceKind, Config};

/// Returns a line for each auxiliary service, and one for the host if there is one.
pub(super) fn services(config: &Config) -> impl Iterator<Item = String> {
    let services = config.aux_services.iter().map(service);
    services.chain(config.aux_host.as_ref().map(host))
}

fn service(service: &AuxServiceConfig) -> String {
    let (name, class) = (&service.name, &service.class);
    let (server, remark) = match &service.kind {
        AuxServiceKind::SparkShuffle(config) => {
            let proof = match (config.authenticates, config.encryption) {
                (true, Some(encryption)) if encryption.allows_sasl => {
                    ", to clients with their application's secret, encrypted or by SASL in the clear"
                }
                (true, Some(_)) => ", to clients with their application's secret, encrypted",
                (true, None) => ", to clients with their application's secret, in the clear",
                (false, _) => ", to anybody (spark.authenticate is false)",
            };
            ("the agent", proof.to_owned())
        }
        AuxServiceKind::MapReduceShuffle(_) => ("the agent", String::new()),
        AuxServiceKind::Hosted(config) => {
            let because = config.because;
            let because = because.map_or_else(String::new, |name| format!(", as {name} asks"));
            ("the host of Java classes", because)
        }
    };
    let port = match service.port() {
        None => String::new(),
        Some((0, property)) => format!(", on a port that the system chooses ({property})"),
        Some((port, property)) => format!(", on port {port} ({property})"),
    };
    format!("{name} ({class}) is served by {server}{port}{remark}")
}

fn host(host: &AuxHostConfig) -> String {
    let (java, jar, heap_mb) = (host.java.display(), host.jar.display(), host.heap_mb);
    format!("the host of Java classes is {java} with {jar} and a heap of {heap_mb} MiB")
}
