//! Promotions that a rule requests, as the container's node sees them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use amrm_proxy::NodeTokenKeys;
use amrm_proxy::config::{InterceptorKind, ProxyConfig, RelabelRule};
use amrm_proxy::observe::Observation;
use bytes::Bytes;
use prost::Message;
use records::{ContainerId, NodeId};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerExceptionMapProto, ContainerProto,
    ContainerStatusProto, ContainerUpdateRequestProto, ContainerUpdateResponseProto,
    ContainerUpdateTypeProto, ExecutionTypeProto, GetContainerStatusesResponseProto,
    NmTokenIdentifierProto, ResourceRequestProto, UpdatedContainerProto,
};
use wire::protocol::container_management;
use wire::rpc::{BoxFuture, Caller, RpcServer, SecretManager, Service, Verified};
use wire::server::ServerAuth;
use wire::token::{MasterKey, kind};

use crate::node::{Keys, Node, config, start_scheduler};
use test_support::ids::attempt;
use test_support::scripted::{Script, answering};

/// NMToken keys of the cluster, for the node's port.
struct NmTokens(MasterKey);

impl SecretManager for NmTokens {
    fn kind(&self) -> &'static str {
        kind::NM_TOKEN
    }

    fn retrieve(&self, identifier: &[u8]) -> Result<Verified, RemoteException> {
        let read = NmTokenIdentifierProto::decode(identifier).unwrap();
        Ok(Verified {
            password: self.0.sign(identifier).to_vec(),
            user: format!(
                "{:?} of {}",
                read.node_id.as_ref().unwrap().host(),
                read.app_submitter()
            ),
            owner: None,
        })
    }
}

/// Behaviour of the node: its answer to the update, and the status that it reports afterwards.
#[derive(Clone, Copy)]
enum Taking {
    Well,
    RefusedAsKnown,
    /// Refuses the first update and takes the second.
    RefusedAtFirst,
    /// Fails the first call and takes the second.
    FailedAtFirst,
    /// Fails each call without the token of the second container.
    FailedBeforeSecond,
}

/// Attempt of each call, and the identifiers of the tokens that it contained.
type Told = Vec<(String, Vec<Bytes>)>;

/// Node that containers run on.
struct Host {
    address: SocketAddr,
    told: Arc<Mutex<Told>>,
    _stop: DropGuard,
}

struct Hosted {
    taking: Taking,
    told: Arc<Mutex<Told>>,
}

impl Service for Hosted {
    fn protocol(&self) -> &'static str {
        container_management::PROTOCOL
    }

    fn version(&self) -> u64 {
        container_management::VERSION
    }

    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        method: &'a str,
        request: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, RemoteException>> {
        Box::pin(async move {
            let kind = match self.taking {
                Taking::Well
                | Taking::RefusedAsKnown
                | Taking::FailedAtFirst
                | Taking::FailedBeforeSecond => ExecutionTypeProto::Guaranteed,
                Taking::RefusedAtFirst => ExecutionTypeProto::Opportunistic,
            };
            if method == "getContainerStatuses" {
                let status = ContainerStatusProto {
                    container_id: Some(container().into()),
                    execution_type: Some(kind.into()),
                    ..ContainerStatusProto::default()
                };
                let answer = GetContainerStatusesResponseProto {
                    status: vec![status],
                    ..GetContainerStatusesResponseProto::default()
                };
                return Ok(answer.encode_to_vec().into());
            }
            assert_eq!(method, "updateContainer");
            let update = ContainerUpdateRequestProto::decode(request).unwrap();
            let tokens = update.update_container_token.into_iter();
            let shown: Vec<Bytes> = tokens.map(|token| token.identifier).collect();
            let has_second = shown.contains(&token_of(SECOND));
            let is_first = {
                let mut told = self.told.lock().unwrap();
                told.push((caller.user.clone(), shown));
                told.len() == 1
            };
            let mut answer = ContainerUpdateResponseProto::default();
            let why = RemoteException::new(HadoopException::YarnException, "version");
            match self.taking {
                Taking::FailedAtFirst if is_first => return Err(why),
                Taking::FailedBeforeSecond if !has_second => return Err(why),
                Taking::FailedBeforeSecond => {
                    let second = attempt(1).container(SECOND);
                    answer.succeeded_requests.push(second.into());
                }
                Taking::Well | Taking::FailedAtFirst => {
                    answer.succeeded_requests.push(container().into());
                }
                Taking::RefusedAtFirst if !is_first => {
                    answer.succeeded_requests.push(container().into());
                }
                Taking::RefusedAsKnown | Taking::RefusedAtFirst => {
                    answer.failed_requests.push(ContainerExceptionMapProto {
                        container_id: Some(container().into()),
                        exception: Some(why.into()),
                    });
                }
            }
            Ok(answer.encode_to_vec().into())
        })
    }
}

impl Host {
    async fn start(key: MasterKey, taking: Taking) -> Self {
        let told = Arc::default();
        let hosted = Hosted {
            taking,
            told: Arc::clone(&told),
        };
        let (server, address) = RpcServer::builder(ServerAuth::Token(Arc::new(NmTokens(key))))
            .service(hosted)
            .bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(stop.clone()));
        Self {
            address,
            told,
            _stop: stop.drop_guard(),
        }
    }

    fn id(&self) -> NodeId {
        NodeId {
            host: self.address.ip().to_string(),
            port: self.address.port(),
        }
    }
}

fn key() -> MasterKey {
    MasterKey::new(7, Bytes::from_static(b"of the cluster"))
}

fn container() -> ContainerId {
    ContainerId {
        attempt: attempt(1),
        id: 7,
    }
}

/// Number of the second container that an AM gets.
const SECOND: i64 = 8;

/// Returns the identifier of a container's token after its promotion.
fn token_of(number: i64) -> Bytes {
    Bytes::from(format!("newer {number}"))
}

/// Configuration in which everything becomes opportunistic and is promoted at once.
fn ruled(rm: SocketAddr) -> ProxyConfig {
    let mut config = config(&[rm]);
    config.pipeline.insert(0, InterceptorKind::Relabel);
    config.relabel = vec![RelabelRule {
        name: "all".to_owned(),
        user: None,
        tag: None,
        priority_min: i32::MIN,
        priority_max: i32::MAX,
        percent: 100,
        promote_after_ms: Some(0),
    }];
    config
}

/// Gives each AM a container, and grants every update of it.
fn granting(host: NodeId) -> Arc<Script> {
    answering(move |call| {
        let request = AllocateRequestProto::decode(call.request.clone()).unwrap();
        let given = ContainerProto {
            id: Some(container().into()),
            node_id: Some((&host).into()),
            execution_type: Some(ExecutionTypeProto::Opportunistic.into()),
            ..ContainerProto::default()
        };
        let promoted = ContainerProto {
            execution_type: Some(ExecutionTypeProto::Guaranteed.into()),
            version: Some(1),
            container_token: Some(TokenProto {
                identifier: Bytes::from_static(b"newer"),
                ..TokenProto::default()
            }),
            ..given.clone()
        };
        let updated = request
            .update_requests
            .iter()
            .map(|_| UpdatedContainerProto {
                update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
                container: promoted.clone(),
            });
        let answer = AllocateResponseProto {
            response_id: Some(request.response_id() + 1),
            allocated_containers: request.ask.iter().map(|_| given.clone()).collect(),
            updated_containers: updated.collect(),
            ..AllocateResponseProto::default()
        };
        Ok(answer.encode_to_vec().into())
    })
}

/// Lets an AM get a container whose promotion is sent to its node. Returns the observed result and
/// the calls that the node received.
async fn promoted(taking: Taking) -> (Observation, Told) {
    let host = Host::start(key(), taking).await;
    let rm = start_scheduler(granting(host.id())).await;
    let keys = NodeTokenKeys {
        container_token: key(),
        nm_token: key(),
        rm_identifier: 1,
    };
    let node = Node::start_signing(ruled(rm.address), Arc::new(Keys(keys))).await;
    let am = node
        .connect(node.admit(attempt(1), rm.token(attempt(1))))
        .await
        .unwrap();
    for response_id in 0..2 {
        let line = ResourceRequestProto {
            resource_name: Some("*".to_owned()),
            num_containers: Some(1),
            ..ResourceRequestProto::default()
        };
        let request = AllocateRequestProto {
            response_id: Some(response_id),
            ask: if response_id == 0 {
                vec![line]
            } else {
                Vec::new()
            },
            ..AllocateRequestProto::default()
        };
        let answer = am.call("allocate", request.encode_to_vec()).await.unwrap();
        let answer = AllocateResponseProto::decode(answer).unwrap();
        assert_eq!(answer.updated_containers, []);
    }
    let ended = loop {
        let mut seen = node.seen.all().into_iter();
        let ended = seen.find(|seen| matches!(seen, Observation::PromotionsEnded { .. }));
        if let Some(ended) = ended {
            break ended;
        }
        tokio::task::yield_now().await;
    };
    let told = host.told.lock().unwrap().clone();
    (ended, told)
}

const fn ended(reached: u64, failed: u64) -> Observation {
    Observation::PromotionsEnded { reached, failed }
}

#[tokio::test]
async fn the_node_is_shown_the_new_token_in_the_attempts_name() {
    let (outcome, told) = promoted(Taking::Well).await;
    assert_eq!(outcome, ended(1, 0));
    let who = "\"127.0.0.1\" of alice".to_owned();
    assert_eq!(told, [(who, vec![Bytes::from_static(b"newer")])]);
}

#[tokio::test]
async fn a_node_that_knows_already_is_as_good_as_told() {
    assert_eq!(promoted(Taking::RefusedAsKnown).await.0, ended(1, 0));
}

#[tokio::test]
async fn a_node_that_refuses_at_first_gets_the_token_again() {
    let (outcome, told) = promoted(Taking::RefusedAtFirst).await;
    assert_eq!((outcome, told.len()), (ended(1, 0), 2));
}

#[tokio::test]
async fn a_node_whose_call_fails_gets_the_token_again() {
    let (outcome, told) = promoted(Taking::FailedAtFirst).await;
    assert_eq!((outcome, told.len()), (ended(1, 0), 2));
}

/// Gives an AM container 7 and promotes it, then reports its end, and gives and promotes another.
fn granting_two(host: NodeId) -> Arc<Script> {
    answering(move |call| {
        let request = AllocateRequestProto::decode(call.request.clone()).unwrap();
        let of = |number| ContainerProto {
            id: Some(attempt(1).container(number).into()),
            node_id: Some((&host).into()),
            execution_type: Some(ExecutionTypeProto::Opportunistic.into()),
            ..ContainerProto::default()
        };
        let promoted = |number| UpdatedContainerProto {
            update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
            container: ContainerProto {
                execution_type: Some(ExecutionTypeProto::Guaranteed.into()),
                version: Some(1),
                container_token: Some(TokenProto {
                    identifier: token_of(number),
                    ..TokenProto::default()
                }),
                ..of(number)
            },
        };
        let mut answer = AllocateResponseProto {
            response_id: Some(request.response_id() + 1),
            ..AllocateResponseProto::default()
        };
        match request.response_id() {
            0 => answer.allocated_containers.push(of(7)),
            1 => answer.updated_containers.push(promoted(7)),
            2 => {
                answer
                    .completed_container_statuses
                    .push(ContainerStatusProto {
                        container_id: Some(container().into()),
                        ..ContainerStatusProto::default()
                    });
                answer.allocated_containers.push(of(SECOND));
            }
            _ => answer.updated_containers.push(promoted(SECOND)),
        }
        Ok(answer.encode_to_vec().into())
    })
}

#[tokio::test]
async fn the_token_of_a_container_that_has_ended_is_not_sent_again() {
    let host = Host::start(key(), Taking::FailedBeforeSecond).await;
    let rm = start_scheduler(granting_two(host.id())).await;
    let keys = NodeTokenKeys {
        container_token: key(),
        nm_token: key(),
        rm_identifier: 1,
    };
    let node = Node::start_signing(ruled(rm.address), Arc::new(Keys(keys))).await;
    let local = node.admit(attempt(1), rm.token(attempt(1)));
    let am = node.connect(local).await.unwrap();
    let calls = || host.told.lock().unwrap().clone();
    for response_id in 0..4 {
        // The first promotion is tried in vain before its container ends.
        while response_id == 2 && calls().is_empty() {
            tokio::task::yield_now().await;
        }
        let line = ResourceRequestProto {
            resource_name: Some("*".to_owned()),
            num_containers: Some(1),
            ..ResourceRequestProto::default()
        };
        let asks = response_id % 2 == 0;
        let request = AllocateRequestProto {
            response_id: Some(response_id),
            ask: asks.then_some(line).into_iter().collect(),
            ..AllocateRequestProto::default()
        };
        am.call("allocate", request.encode_to_vec()).await.unwrap();
    }
    while !node.seen.all().contains(&ended(1, 0)) {
        tokio::task::yield_now().await;
    }
    let last = calls().pop().map(|(_, shown)| shown);
    assert_eq!(last, Some(vec![token_of(SECOND)]));
}
