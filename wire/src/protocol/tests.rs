use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::container_management::{
    self, ContainerManagementProtocol, ContainerManagementService, StopContainers,
};
use super::*;
use crate::proto::hadoop_yarn::{
    ContainerIdProto, StopContainersRequestProto, StopContainersResponseProto,
};
use crate::rpc::{Caller, Method, Service};

/// A node that stops any container for the application that the caller names, and supports no other
/// call.
struct OnlyStops;

impl ContainerManagementProtocol for OnlyStops {
    async fn stop_containers(
        &self,
        caller: &Caller,
        request: StopContainersRequestProto,
    ) -> Result<StopContainersResponseProto, RemoteException> {
        if caller.user.is_empty() {
            return Err(RemoteException::new(
                HadoopException::InvalidToken,
                "nobody",
            ));
        }
        Ok(StopContainersResponseProto {
            succeeded_requests: request.container_id,
            failed_requests: Vec::new(),
        })
    }
}

fn caller(user: &str) -> Caller {
    Caller {
        user: user.to_owned(),
        owner: user.to_owned(),
        token_identifier: None,
        token_kind: None,
        peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
    }
}

async fn call(
    user: &str,
    method: &str,
    request: impl Into<Bytes>,
) -> Result<Bytes, RemoteException> {
    let service = ContainerManagementService::new(Arc::new(OnlyStops));
    service.call(&caller(user), method, request.into()).await
}

#[tokio::test]
async fn a_call_reaches_its_function_and_the_answer_comes_back() {
    let container = ContainerIdProto {
        id: Some(2),
        ..ContainerIdProto::default()
    };
    let request = StopContainersRequestProto {
        container_id: vec![container],
    };
    let answer = call("someone", StopContainers::NAME, request.encode_to_vec())
        .await
        .unwrap();
    let answer = StopContainersResponseProto::decode(answer).unwrap();
    assert_eq!(answer.succeeded_requests, [container]);
}

#[tokio::test]
async fn a_refusal_of_the_function_comes_back_as_it_is() {
    let error = call("", StopContainers::NAME, Bytes::new())
        .await
        .unwrap_err();
    assert!(error.is(HadoopException::InvalidToken));
}

#[tokio::test]
async fn what_is_not_implemented_is_refused_as_not_supported() {
    for method in container_management::METHODS {
        if *method == StopContainers::NAME {
            continue;
        }
        let error = call("someone", method, Bytes::new()).await.unwrap_err();
        assert!(
            error.is(HadoopException::YarnException),
            "{method}: {error}"
        );
        assert!(error.message.contains(method), "{error}");
    }
}

#[tokio::test]
async fn an_unknown_method_is_no_such_method_and_a_long_name_is_not_sent_back_whole() {
    let error = call("someone", "stopContainer", Bytes::new())
        .await
        .unwrap_err();
    assert!(error.is(HadoopException::NoSuchMethod));
    let long = "m".repeat(1 << 20);
    let error = call("someone", &long, Bytes::new()).await.unwrap_err();
    assert!(error.message.len() < 512);
}

#[tokio::test]
async fn a_request_that_does_not_parse_is_refused_as_such() {
    // Field 1 claims five bytes and has one.
    let error = call("someone", StopContainers::NAME, &[0x0a, 0x05, 0x00][..])
        .await
        .unwrap_err();
    assert!(error.is(HadoopException::InvalidProtocolBuffer));
}

#[tokio::test]
async fn nesting_without_end_is_refused_and_does_not_exhaust_the_stack() {
    // SerializedExceptionProto.cause nested 10 000 deep, each level with its real length.
    let mut nested = Vec::new();
    for _ in 0..10_000 {
        let mut outer = vec![0x22];
        prost::encoding::encode_varint(nested.len() as u64, &mut outer);
        outer.append(&mut nested);
        nested = outer;
    }
    let decoded = crate::proto::hadoop_yarn::SerializedExceptionProto::decode(&nested[..]);
    assert!(decoded.is_err());
}

#[test]
fn method_names_are_distinct_within_a_protocol() {
    for methods in [
        super::application_client::METHODS,
        super::application_master::METHODS,
        super::container_management::METHODS,
        super::distributed_scheduling_am::METHODS,
        super::resource_tracker::METHODS,
    ] {
        let distinct: std::collections::BTreeSet<_> = methods.iter().collect();
        assert_eq!(distinct.len(), methods.len());
    }
}
