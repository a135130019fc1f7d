//! Impossible requests of clients: each refusal has the class that Hadoop's clients decide on.

use std::net::SocketAddr;

use prost::Message as _;
use records::{ApplicationId, Resource};
use tests::client::Client;
use tokio_util::sync::CancellationToken;
use wire::exception::HadoopException;
use wire::proto::hadoop_yarn::{
    ApplicationIdProto, ApplicationSubmissionContextProto, ContainerLaunchContextProto,
    GetApplicationReportRequestProto, KillApplicationRequestProto, ResourceProto,
    SubmitApplicationRequestProto,
};
use wire::protocol::application_client::{
    ForceKillApplication, GetApplicationReport, SubmitApplication,
};
use wire::rpc::{Method, RpcError};

use crate::mini_rm::distributed::{runtime, start_rm};

/// Size of the largest container; Hadoop's default.
const LARGEST: Resource = Resource::new(8192, 4);

/// A ResourceManager without nodes, and a client of it.
struct Service {
    client: Client,
    rm: mini_rm::Running,
    runtime: tokio::runtime::Runtime,
    stop: CancellationToken,
}

impl Service {
    fn open() -> Self {
        let (runtime, stop) = (runtime(), CancellationToken::new());
        let (rm, addresses) = runtime.block_on(start_rm(&[], stop.clone()));
        let client: SocketAddr = addresses.client;
        Self {
            client: Client::connect(client.port()),
            rm,
            runtime,
            stop,
        }
    }

    /// Returns a valid submission.
    fn submission(&self) -> ApplicationSubmissionContextProto {
        ApplicationSubmissionContextProto {
            application_id: Some(self.client.new_application().into()),
            am_container_spec: Some(ContainerLaunchContextProto::default()),
            resource: Some(Resource::new(1024, 1).into()),
            ..ApplicationSubmissionContextProto::default()
        }
    }

    /// Submits a submission that `spoil` changed; expects this refusal and that nothing is left of
    /// it.
    #[track_caller]
    fn refuses(
        &self,
        exception: HadoopException,
        words: &str,
        spoil: impl FnOnce(&mut ApplicationSubmissionContextProto),
    ) {
        let mut submission = self.submission();
        let id = submission.application_id.expect("it has one");
        spoil(&mut submission);
        let refusal = self.client.submit(submission).unwrap_err();
        assert_is(&refusal, exception, words);
        let id = ApplicationId::try_from(&id).expect("it is one");
        let unknown = self.client.report(id).unwrap_err();
        assert_is(&unknown, HadoopException::ApplicationNotFound, "");
    }

    /// Expects that a valid submission is still accepted; ends the ResourceManager.
    #[track_caller]
    fn assert_serves(self) {
        let submission = self.submission();
        let id = submission.application_id.expect("it has one");
        self.client.submit(submission).expect("a good one is taken");
        let id = ApplicationId::try_from(&id).expect("it is one");
        let report = self.client.report(id).expect("it is known");
        assert_eq!(report.host(), "N/A");
        drop(self.client);
        self.stop.cancel();
        self.runtime.block_on(self.rm.join());
    }
}

#[track_caller]
fn assert_is(error: &RpcError, exception: HadoopException, words: &str) {
    let remote = error.remote().unwrap_or_else(|| panic!("{error}"));
    assert!(remote.is(exception), "{remote}");
    assert!(remote.message.contains(words), "{remote}");
}

fn resource(memory: i64, virtual_cores: i32) -> Option<ResourceProto> {
    Some(ResourceProto {
        memory: Some(memory),
        virtual_cores: Some(virtual_cores),
        ..ResourceProto::default()
    })
}

#[test]
fn masters_of_absurd_size_are_refused_as_invalid_requests() {
    let service = Service::open();
    let exception = HadoopException::InvalidResourceRequest;
    let largest = LARGEST.to_string();
    for (memory, vcores, words) in [
        (i64::MAX, 1, largest.as_str()),
        (1024, i32::MAX, &largest),
        (8193, 1, &largest),
        (-1, 1, "-1"),
        (1024, i32::MIN, "virtual_cores"),
        (i64::MIN, i32::MIN, "memory"),
    ] {
        service.refuses(exception, words, |submission| {
            submission.resource = resource(memory, vcores);
        });
    }
    service.refuses(exception, "no size", |submission| {
        submission.resource = None
    });
    service.assert_serves();
}

#[test]
fn submissions_that_are_too_much_or_too_little_are_refused() {
    let service = Service::open();
    let exception = HadoopException::YarnException;
    service.refuses(exception, "longer than", |submission| {
        let context = submission.am_container_spec.get_or_insert_default();
        let variables = (0..100_000).map(|number| (format!("VARIABLE_{number}"), "x").into());
        context.environment.extend(variables);
        assert!(submission.encoded_len() > 1_000_000);
    });
    service.refuses(exception, "am_container_spec", |submission| {
        submission.am_container_spec = None;
    });
    service.refuses(exception, "application_id", |submission| {
        submission.application_id = None;
    });
    service.refuses(exception, "credentials", |submission| {
        let context = submission.am_container_spec.get_or_insert_default();
        context.tokens = Some(vec![7; 40].into());
    });
    service.refuses(exception, "queue", |submission| {
        submission.queue = Some("q".repeat(10_000));
    });
    let empty = SubmitApplicationRequestProto::default();
    let refusal = service
        .client
        .call::<SubmitApplication>(&empty)
        .unwrap_err();
    assert_is(&refusal, exception, "application_submission_context");
    service.assert_serves();
}

#[test]
fn an_id_that_was_not_given_out_is_refused() {
    let service = Service::open();
    let given = service.client.new_application();
    for (cluster_timestamp, id) in [
        (given.cluster_timestamp, given.id + 1000),
        (given.cluster_timestamp, 0),
        (given.cluster_timestamp, -3),
        (given.cluster_timestamp, i32::MIN),
        (1, given.id),
        (i64::MIN, i32::MAX),
    ] {
        let mut submission = service.submission();
        submission.application_id = Some(ApplicationIdProto {
            id: Some(id),
            cluster_timestamp: Some(cluster_timestamp),
        });
        let refusal = service.client.submit(submission).unwrap_err();
        assert_is(&refusal, HadoopException::YarnException, "");
    }
    service.assert_serves();
}

#[test]
fn an_application_that_is_not_known_is_said_to_be_not_found() {
    let service = Service::open();
    // Assigned and never submitted.
    let id = service.client.new_application();
    let refusal = service.client.report(id).unwrap_err();
    assert_is(
        &refusal,
        HadoopException::ApplicationNotFound,
        &id.to_string(),
    );
    let kill = KillApplicationRequestProto {
        application_id: Some(id.into()),
        ..KillApplicationRequestProto::default()
    };
    let refusal = service.client.call::<ForceKillApplication>(&kill);
    let words = id.to_string();
    assert_is(
        &refusal.unwrap_err(),
        HadoopException::ApplicationNotFound,
        &words,
    );
    is_refused::<GetApplicationReport>(&service, &GetApplicationReportRequestProto::default());
    is_refused::<ForceKillApplication>(&service, &KillApplicationRequestProto::default());
    service.assert_serves();
}

/// Asserts that a request without its subject is refused with the name of the missing field.
#[track_caller]
fn is_refused<M: Method>(service: &Service, request: &M::Request)
where
    M::Response: std::fmt::Debug,
{
    let refusal = service.client.call::<M>(request).unwrap_err();
    assert_is(&refusal, HadoopException::YarnException, "application_id");
}

#[test]
fn a_submission_made_twice_is_one() {
    let service = Service::open();
    let submission = service.submission();
    service.client.submit(submission.clone()).unwrap();
    service.client.submit(submission).unwrap();
    service.assert_serves();
}
