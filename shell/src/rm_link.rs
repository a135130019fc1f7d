//! The clients of the ResourceManagers that this crate opens, and their limits.

use std::sync::Arc;
use std::time::Duration;

use wire::failover::{Endpoints, FailoverClient, LinkConfig, Pauses, Policy, Reactions};
use wire::protection::Protections;
use wire::rpc::{ClientAuth, ClientOptions};

use crate::cluster::Patience;

/// Longest time to connect to one ResourceManager, the look-up of its name included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for one call. Every call made here may be carried out twice, so that a
/// ResourceManager that hangs is left earlier than by Hadoop's clients.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// The pauses between rounds. They start short, since a person may be waiting, and clients are few.
/// An AM must be back well before its ResourceManager expires it
/// (`yarn.am.liveness-monitor.expiry-interval-ms`, 10 minutes).
const PAUSES: Pauses = Pauses {
    first: Duration::from_millis(100),
    max: Duration::from_secs(2),
};

/// Returns the configuration of a client's connections. `addresses`: `host:port` of each, at least
/// one.
pub(crate) fn link_config(
    addresses: Vec<String>,
    protocol: &'static str,
    auth: ClientAuth,
    protections: Protections,
) -> LinkConfig {
    LinkConfig {
        endpoints: Arc::new(Endpoints::new(addresses)),
        protocol,
        auth,
        options: ClientOptions {
            connect_timeout: CONNECT_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
            protections,
            ..ClientOptions::default()
        },
    }
}

/// Returns a client of the active one of the ResourceManagers.
pub(crate) fn client(config: LinkConfig, patience: Patience) -> FailoverClient {
    let policy = Policy {
        pauses: PAUSES,
        interval_max: patience.interval_max,
        give_up_after: patience.give_up_after,
        reactions: Reactions::REPEATABLE,
    };
    FailoverClient::new(config, policy)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};

    use tokio_util::sync::CancellationToken;
    use tokio_util::task::AbortOnDropHandle;
    use wire::dial::Dialer;
    use wire::exception::RemoteException;
    use wire::proto::hadoop_yarn::{GetNewApplicationRequestProto, GetNewApplicationResponseProto};
    use wire::protocol::application_client::{
        self, ApplicationClientProtocol, ApplicationClientService, GetNewApplication,
    };
    use wire::rpc::{Caller, RpcServer, ServerAuth};

    use super::*;

    struct Rm;

    impl ApplicationClientProtocol for Rm {
        async fn get_new_application(
            &self,
            _: &Caller,
            _: GetNewApplicationRequestProto,
        ) -> Result<GetNewApplicationResponseProto, RemoteException> {
            Ok(GetNewApplicationResponseProto::default())
        }
    }

    #[tokio::test]
    async fn a_resource_manager_whose_name_has_a_dead_first_address_is_reached() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        // Bound and released: nobody listens there.
        let dead = TcpListener::bind(any).unwrap().local_addr().unwrap();
        let server = RpcServer::builder(ServerAuth::Simple)
            .service(ApplicationClientService::new(Arc::new(Rm)));
        let (server, alive) = server.bind(any).await.unwrap();
        let serving = tokio::spawn(server.serve(CancellationToken::new()));
        let _serving = AbortOnDropHandle::new(serving);
        let auth = ClientAuth::Simple {
            user: "u".to_owned(),
        };
        let addresses = vec!["rm:8032".to_owned()];
        let mut config = link_config(
            addresses,
            application_client::PROTOCOL,
            auth,
            Protections::default(),
        );
        config.options.dialer = Dialer::new(Arc::new(vec![dead, alive]));
        let no_retries = Patience {
            give_up_after: Some(Duration::ZERO),
            ..Patience::default()
        };
        let mut client = client(config, no_retries);
        let request = GetNewApplicationRequestProto::default();
        let answer = client.call::<GetNewApplication>(&request).await;
        assert!(answer.is_ok(), "{answer:?}");
    }
}
